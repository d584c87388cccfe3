"""What all training loops share: a cell's runs, from their environments to their checkpoints."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hindsight.envs.environment import Environment, make
from hindsight.training.clock import Clock
from hindsight.training.policies import Policy
from hindsight.training.recent import RecentEpisodes

if TYPE_CHECKING:
    from hindsight.specs.cell import CellSpec

#: What is known of some episodes, each [run].
EPISODES = ("return_mean", "success_rate", "episode_length")
#: Lists [run] of `Runs` that change, or say whose a checkpoint is.
OF_RUNS = ("seeds", "perfect", "switched")


class Runs(ABC):
    """Runs of a cell that train together, and everything that a checkpoint must keep.

    A subclass is a loop: `iterate` is one iteration, `policy` what the runs do when evaluated.
    """

    #: Environment steps of one run in one iteration.
    rollout_steps: int

    def __init__(
        self,
        spec: "CellSpec",
        seeds: Sequence[int],
        device: torch.device | str,
        workers: int | None = None,
    ) -> None:
        """`seeds` [run]; `workers`: processes that step foreign environments; None: one for each
        core.
        """
        self.spec, self.seeds, self.device = spec, list(seeds), torch.device(device)
        self.iteration = 0
        n_envs, runs = spec.algorithm.n_envs, len(self.seeds)
        episodes, test = spec.evaluation.episodes, spec.end_test

        def made(n_envs: int, evaluation: bool = True) -> Environment:
            return make(spec.environment, self.seeds, n_envs, self.device, evaluation, workers)

        self.env = made(n_envs, evaluation=False)
        at_once = self.env.parallel_episodes(episodes)
        self.evaluation_env = made(at_once)
        #: Evaluation episodes that each environment plays, one after the other.
        self.rounds = episodes // at_once
        #: Where the tests are played whose success ends a run, if any.
        self.end_test_env = None if test is None else made(test.episodes)
        self.recent = RecentEpisodes(runs, n_envs)
        self.clock = Clock(runs, self.device, self.env.cpu_seconds)
        #: [run] step at which the mean return of the last hundred episodes first was 1, if it was.
        self.perfect: list[int | None] = [None] * runs
        #: [run] step after which a run first learned without hindsight, or with MEHER.
        self.switched: list[int | None] = [None] * runs

    @abstractmethod
    def iterate(self) -> dict[str, Tensor]:
        """One iteration; returns the training curves' columns, each [run]."""

    @abstractmethod
    def policy(self) -> Policy:
        """What the runs do now, without randomness."""

    @property
    @abstractmethod
    def rows(self) -> Tensor:
        """Every run's parameters, [run, parameter]."""

    @abstractmethod
    def start_from(self, rows: Tensor) -> None:
        """Begin with these parameters [run, parameter]; nothing else is remembered."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """What else has runs: objects with `select`, `state_dict` and `load_state_dict`."""

    @property
    def env_steps(self) -> int:
        """Environment steps of each run so far."""
        return self.iteration * self.rollout_steps

    @property
    def within_budget(self) -> bool:
        """Whether another iteration fits into the budget."""
        return self.env_steps + self.rollout_steps <= self.spec.steps

    @property
    def evaluation_due(self) -> bool:
        """Whether the last iteration crossed a point of the evaluation grid."""
        every = self.spec.steps / self.spec.evaluation.points
        return self.env_steps // every > (self.env_steps - self.rollout_steps) // every

    def ended(self, return_mean: Tensor) -> list[str | None]:
        """Why each run ends now; None: it goes on.

        Past early_end x its perfect step (early), a test in which all episodes succeeded (test),
        out of budget (budget).  Where rewards are -1 and 0 no mean return is 1, and no run ends
        early.
        """
        self._note_first(self.perfect, [value == 1.0 for value in return_mean.tolist()])
        passed = self._pass_end_test()

        def why(run: int) -> str | None:
            if not self.within_budget:
                return "budget"
            if self.env_steps > (self.spec.early_end or math.inf) * (self.perfect[run] or math.inf):
                return "early"
            return "test" if passed[run] else None

        return [why(run) for run in range(len(self.seeds))]

    def _note_first(self, steps: list[int | None], now: Sequence[bool]) -> None:
        """Remember in `steps` [run] that something has happened, the first time that it has."""
        for run, happens in enumerate(now):
            if happens and steps[run] is None:
                steps[run] = self.env_steps

    def _pass_end_test(self) -> list[bool]:
        """Whether the mean return of a test is 1, of each run; False where none is due."""
        env, test = self.end_test_env, self.spec.end_test
        if env is None or test is None or self.env_steps % test.every:
            return [False] * len(self.seeds)
        returns, _, _ = self._play(env, first=self.env_steps // test.every)
        return (returns.mean(1) >= 1).tolist()

    def episodes(self) -> dict[str, Tensor]:
        """Statistics of the last hundred episodes, each [run]."""
        return self._columns(self.recent.means())

    def _columns(self, means: Tensor) -> dict[str, Tensor]:
        """From return, success and length, [3, run]."""
        return {"episodes": self.recent.finished.clone(), **dict(zip(EPISODES, means, strict=True))}

    @torch.no_grad()
    def evaluate(self) -> dict[str, Tensor]:
        """The fixed evaluation episodes with actions that are not random; columns [run]."""
        played = self._play(self.evaluation_env, self.rounds)
        return self._columns(played.mean(2) / self.rounds)

    @torch.no_grad()
    def _play(self, env: Environment, rounds: int = 1, first: int = 0) -> Tensor:
        """Return, success and steps, [3, run, env], summed over `rounds` episodes in each.

        They begin with episode number `first` of each environment, which has its own draws.
        """
        act, longest = self.policy(), self.spec.environment.step_limit
        env.rewind(first)
        env.prepare_rollout(first, longest)
        g, shape = env.goal_size, env.elapsed.shape
        left = torch.full(shape, rounds, device=self.device)
        returns, success, length = sums = torch.zeros(3, *shape, device=self.device)
        for _ in range(longest * rounds):
            going = left > 0
            desired = env.state[..., g : 2 * g].clone()
            step = env.step(act(env.state))
            reward, _ = env.task.reward(step.next_achieved, desired, step.terminated)
            if step.rest is not None:
                reward = reward + step.rest
            returns += going * reward
            length += going
            over = going & (step.terminated | step.truncated)
            # Where success does not end an episode, it is the last step's that counts.
            success += over & step.success
            left -= over.long()
        return sums

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""
        for name in OF_RUNS:
            values = getattr(self, name)
            setattr(self, name, [values[i] for i in runs.tolist()])
        tested = [self.end_test_env] if self.end_test_env is not None else []
        for part in (self.env, self.evaluation_env, *tested, self.clock, *self.parts.values()):
            part.select(runs)
        self.recent.select(runs.cpu())

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; random streams need no more than the iteration.

        But for that, all lists and tensors in it are [run, ...].
        """
        return {
            "iteration": self.iteration,
            **{name: getattr(self, name) for name in OF_RUNS},
            "env": self.env.state_dict(),
            "recent": self.recent.state_dict(),
            "clock": self.clock.state_dict(),
            **{name: part.state_dict() for name, part in self.parts.items()},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken, of runs with the same seeds (ValueError)."""
        if list(saved["seeds"]) != self.seeds:
            raise ValueError(f"it is of the seeds {saved['seeds']}, not {self.seeds}")
        self.iteration = saved["iteration"]
        for name in ("env", "recent", "clock"):
            getattr(self, name).load_state_dict(saved[name])
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])
        for name in OF_RUNS:
            setattr(self, name, list(saved[name]))


def runs_of(
    spec: "CellSpec", seeds: Sequence[int], device: str, workers: int | None = None
) -> Runs:
    """Runs of one cell, with these seeds, in the loop of its algorithm; see `Runs`."""
    runs: Runs = resolve_name(spec.algorithm.loop)(spec, seeds, device, workers)
    return runs
