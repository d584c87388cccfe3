"""The common part of all training loops: a cell's runs, their environments and checkpoints."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hindsight.algorithms.interface import off_policy, on_policy
from hindsight.envs.environment import Environment, make
from hindsight.envs.step import Step
from hindsight.io.checkpoints import shapes
from hindsight.nn.numba_cache import ENABLED, seconds_compiling
from hindsight.specs.cell import CellSpec
from hindsight.streams import Purpose, stream
from hindsight.training.policies import Policy, initial_row
from hindsight.training.recent import WINDOW, RecentEpisodes

#: Statistics of episodes, each [run].
EPISODES = ("return_mean", "success_rate", "episode_length")
#: Lists [run] of `Runs` that a checkpoint keeps.
OF_RUNS = ("seeds", "perfect", "switched")


class Clock:
    """Seconds of wall and CPU time of each run, [run] float64, without compilation.

    Time that runs spend together is split equally among them.
    """

    def __init__(
        self, runs: int, device: torch.device, elsewhere: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`elsewhere` returns the CPU seconds of other processes that work for the runs."""
        self._elsewhere = elsewhere
        self.wall, self.cpu = torch.zeros(2, runs, dtype=torch.float64)
        self._device = device
        self.start()

    def start(self) -> None:
        self._marks = self._now()

    def _now(self) -> tuple[float, float]:
        wall, cpu = seconds_compiling()
        return time.perf_counter() - wall, time.process_time() - cpu + self._elsewhere()

    def lap(self, runs: Tensor) -> None:
        """Attribute the time since `start` or the last lap to the runs with these indices."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = self._now()
        runs = runs.cpu()
        self.wall[runs] += (now[0] - self._marks[0]) / len(runs)
        self.cpu[runs] += (now[1] - self._marks[1]) / len(runs)
        self._marks = now

    def select(self, runs: Tensor) -> None:
        self.wall, self.cpu = self.wall[runs.cpu()], self.cpu[runs.cpu()]

    def state_dict(self) -> dict[str, Tensor]:
        return {"wall": self.wall, "cpu": self.cpu}

    def load_state_dict(self, saved: dict) -> None:
        self.wall, self.cpu = saved["wall"], saved["cpu"]


class Runs(ABC):
    """Runs of a cell that train together, and their full state for checkpoints."""

    algorithm: Any  # the specification of the algorithm
    module: Any  # the algorithm (`algorithms.interface`)
    updater: Any  # the module with its update, or its engine: compiled if there is one here

    def __init__(
        self,
        spec: CellSpec,
        seeds: Sequence[int],
        device: torch.device | str,
        workers: int | None = None,
        rows: Tensor | None = None,
    ) -> None:
        """Create untrained runs with these seeds [run].

        Args:
            workers: processes that step gymnasium environments; None: one per core.
            rows: initial parameters [run, parameter], changed in place; None: those of the seeds.
        """
        self.spec, self.seeds, self.device = spec, list(seeds), torch.device(device)
        self.algorithm, self.iteration = spec.algorithm, 0
        n_envs, runs = spec.algorithm.n_envs, len(self.seeds)
        #: Environment steps of one run in one iteration.
        self.rollout_steps = spec.algorithm.iteration_steps
        self.module = (on_policy if spec.algorithm.on_policy else off_policy)(spec.algorithm)
        self.updater = self.module
        compiles = ENABLED and self.device.type == "cpu" and len(spec.environment.choices) <= 1
        if compiles and spec.algorithm.compiled_module:
            self.updater = import_module(spec.algorithm.compiled_module)
        episodes, test = spec.evaluation.episodes, spec.end_test

        def made(n_envs: int, evaluation: bool = True) -> Environment:
            return make(spec.environment, self.seeds, n_envs, self.device, evaluation, workers)

        self.env = made(n_envs, evaluation=False)
        most = self.env.parallel_episodes or episodes
        at_once = next(n for n in range(most, 0, -1) if episodes % n == 0)
        self.evaluation_env = made(at_once)
        #: Evaluation episodes that each environment plays, one after the other.
        self.rounds = episodes // at_once
        #: Environments of the tests that end a run when every episode succeeds, if there are any.
        self.end_test_env = None if test is None else made(test.episodes)
        self.recent = RecentEpisodes(runs, n_envs, self.env.any_success)
        self.clock = Clock(runs, self.device, self.env.cpu_seconds)
        #: [run] first step at which the last hundred episodes had a mean return of 1, or None.
        self.perfect: list[int | None] = [None] * runs
        #: [run] step after which a run switched hindsight off, or to MEHER; None: not yet.
        self.switched: list[int | None] = [None] * runs
        if rows is None:
            rows = torch.stack([initial_row(spec, seed) for seed in self.seeds])
        self.begin(rows.to(self.device))

    @abstractmethod
    def begin(self, rows: Tensor) -> None:
        """Create optimisers and buffers for these initial parameters [run, parameter]."""

    def iterate(self) -> dict[str, Tensor]:
        """Train for one iteration; returns columns of the training curves, each [run].

        After an error in an environment, the iteration can be repeated, in new episodes.
        """
        if (lost := self.env.begin_lost()) is not None:
            self.recent.abandon(lost)
            self._abandon(lost)
        self.iteration += 1
        try:
            return self._iterate()
        except BaseException:
            self.iteration -= 1
            self.env.close()  # its steps may not be stored
            raise

    @abstractmethod
    def _iterate(self) -> dict[str, Tensor]:
        """Train for the iteration with the number `iteration`, from 1 on; see `iterate`."""

    def _abandon(self, episodes: Tensor) -> None:  # noqa: B027
        """End the open episodes of these environments [run, env] in what is stored of them."""

    @abstractmethod
    def policy(self) -> Policy:
        """The runs' current deterministic policy."""

    @property
    @abstractmethod
    def rows(self) -> Tensor:
        """Parameters of every run, [run, parameter]."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Further objects with a run axis: they have `select`, `state_dict`, `load_state_dict`."""

    def from_streams(
        self, purpose: Purpose, index: int, draw: Callable[[np.random.Generator], np.ndarray]
    ) -> Tensor:
        """What `draw` makes of each run's stream for a purpose and an index, [run, ...]."""
        arrays = [draw(stream(seed, purpose, index)) for seed in self.seeds]
        return torch.from_numpy(np.stack(arrays)).to(self.device)

    @property
    def env_steps(self) -> int:
        return self.iteration * self.rollout_steps

    @property
    def within_budget(self) -> bool:
        return self.env_steps + self.rollout_steps <= self.spec.steps

    @property
    def evaluation_due(self) -> bool:
        """Whether the last iteration reached a point of the evaluation grid."""
        points, steps = self.spec.evaluation.points, self.spec.steps  # whole numbers: no rounding
        before = self.env_steps - self.rollout_steps
        return self.env_steps * points // steps > before * points // steps

    @property
    def _enough_episodes(self) -> Tensor:
        """Whether enough episodes have ended to end a run, or its hindsight, by them, [run].

        A full window; the authors' PPO-HER also decides by fewer.
        """
        her = self.spec.hindsight
        released = her is not None and her.fidelity == "released"
        return (self.recent.finished >= WINDOW) | released

    def ended(self, return_mean: Tensor, success_rate: Tensor) -> list[str | None]:
        """Return why each run ends now, [run]; None: it continues.

        "budget": no further iteration fits; "early": the run is past `early_end` times its perfect
        step, at which the last hundred episodes succeeded with a mean return of 1; "test": it
        succeeded in every episode of a test.  With rewards of -1 and 0 no mean return is 1, so no
        run ends early.
        """
        # A return of 1 without success is a coincidence, of rewards other than the papers'.
        perfect = (return_mean == 1) & (success_rate == 1) & self._enough_episodes
        self._note_first(self.perfect, perfect.tolist())
        why: list[str | None] = ["test" if passed else None for passed in self._pass_end_test()]
        for run, step in enumerate(self.perfect):
            if step and self.env_steps > (self.spec.early_end or math.inf) * step:
                why[run] = "early"
        return why if self.within_budget else ["budget"] * len(why)

    def _note_first(self, steps: list[int | None], now: Sequence[bool]) -> None:
        """Record in `steps` [run] the current step for runs where something happens first."""
        for run, happens in enumerate(now):
            if happens and steps[run] is None:
                steps[run] = self.env_steps

    def _pass_end_test(self) -> list[bool]:
        """Whether each run passes a test, by success and return; False if no test is due."""
        env, test = self.end_test_env, self.spec.end_test
        if env is None or test is None or self.env_steps % test.every:
            return [False] * len(self.seeds)
        returns, success, _ = play(env, self.policy(), first=self.env_steps // test.every)
        return ((returns.mean(1) >= 1) & (success.mean(1) == 1)).tolist()

    def call(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Call a method of all environments; returns what it returned in training, [run][env]."""
        found = self.env.call(name, arguments, options)
        self.evaluation_env.call(name, arguments, options)
        return found

    def _columns(self, means: Tensor) -> dict[str, Tensor]:
        """Name mean return, success and length [3, run]; add the number of finished episodes."""
        return {"episodes": self.recent.finished.clone(), **dict(zip(EPISODES, means, strict=True))}

    def recorded(self, columns: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
        """Return one row of the curves per run: these columns [run], progress and time so far."""
        n = len(self.seeds)
        return {
            "seed": np.array(self.seeds),
            "iteration": np.full(n, self.iteration),
            "env_steps": np.full(n, self.env_steps),
            "wall_seconds": self.clock.wall.numpy().copy(),
            "cpu_seconds": self.clock.cpu.numpy().copy(),
            **{name: value.detach().cpu().double().numpy() for name, value in columns.items()},
        }

    def evaluate(self) -> dict[str, Tensor]:
        """Play the fixed evaluation episodes with deterministic actions; returns columns [run]."""
        played = play(self.evaluation_env, self.policy(), self.rounds)
        return self._columns(played.mean(2) / self.rounds)

    @property
    def _kept(self) -> dict[str, Any]:
        return {"env": self.env, "recent": self.recent, "clock": self.clock, **self.parts}

    def select(self, runs: Tensor) -> None:
        for name in OF_RUNS:
            values = getattr(self, name)
            setattr(self, name, [values[i] for i in runs.tolist()])
        tested = [self.end_test_env] if self.end_test_env is not None else []
        for part in (*self._kept.values(), self.evaluation_env, *tested):
            part.select(runs)

    def state_dict(self) -> dict[str, Any]:
        """Everything a checkpoint needs; all lists and tensors are [run, ...].

        Random streams need only the iteration.
        """
        return {
            "iteration": self.iteration,
            "goal_size": self.env.goal_size,
            **{name: getattr(self, name) for name in OF_RUNS},
            **{name: part.state_dict() for name, part in self._kept.items()},
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restore a `state_dict` of runs with the same seeds; raise ValueError for others.

        Before any run has trained: then nothing has changed if it is raised.
        """
        if list(saved["seeds"]) != self.seeds:
            raise ValueError(f"its runs have the seeds {saved['seeds']}, not {self.seeds}")
        if (size := saved.get("goal_size", self.env.goal_size)) != self.env.goal_size:
            raise ValueError(f"its goals have {size} numbers, not {self.env.goal_size}")
        # A buffer's state is as long as has been written, that of other people's environments as
        # their episodes can be: both are checked where they are restored.
        elsewhere = {"buffer", *(["env"] if self.spec.environment.foreign else [])}
        own, theirs = (
            {name: shapes(value) for name, value in state.items() if name not in elsewhere}
            for state in (self.state_dict(), {"goal_size": None, **saved})
        )
        if own != theirs:
            raise ValueError("its tensors have other shapes")
        self.iteration = saved["iteration"]
        for name, part in self._kept.items():
            part.load_state_dict(saved[name])
        for name in OF_RUNS:
            setattr(self, name, list(saved[name]))


@torch.no_grad()
def play(
    env: Environment,
    policy: Policy,
    rounds: int = 1,
    first: int = 0,
    look: Callable[[Step], None] = lambda step: None,
) -> Tensor:
    """Play `rounds` episodes in each environment, from episode number `first` on.

    Returns the sums of return, success and steps over these episodes, [3, run, env].  `look` is
    called with every step.
    """
    longest, shape = env.spec.step_limit, env.elapsed.shape
    env.rewind(first)
    env.prepare_rollout(first, longest)
    left = torch.full(shape, rounds, device=env.device)
    returns, success, length = sums = torch.zeros(3, *shape, device=env.device)
    reached = torch.zeros(shape, dtype=torch.bool, device=env.device)
    for _ in range(longest * rounds):
        going = left > 0
        if env.spec.foreign and not going.any():
            break
        step = env.step(policy(env.state))
        look(step)
        returns += going * step.reward
        length += going
        over = going & (step.terminated | step.truncated)
        # If success does not end an episode, the last step decides, or any of them.
        reached = step.success | (reached & env.any_success)
        success += over & reached
        reached &= ~over
        left -= over.long()
    return sums


def runs_of(
    spec: CellSpec,
    seeds: Sequence[int],
    device: str,
    workers: int | None = None,
    rows: Tensor | None = None,
) -> Runs:
    return resolve_name(spec.algorithm.loop)(spec, seeds, device, workers, rows)
