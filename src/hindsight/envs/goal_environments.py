"""Any gymnasium environment with goals, on the run axis.

`workers.Pool` steps run x env of them; here they look like every other task: state rows, one `Step`
for all, rewards of other goals.
"""

import sys
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from hindsight.envs.environment import Environment
from hindsight.envs.facts import REST
from hindsight.envs.step import Step
from hindsight.envs.workers import Pool, Slot
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.spaces import elements, largest
from hindsight.streams import Purpose

#: Evaluation episodes of a run that are played at the same time, at most: each takes memory.
PARALLEL_EPISODES = 4


class ForeignTask:
    """Rewards of other goals, as the environment itself computes them."""

    def __init__(self, spec: GymnasiumSpec) -> None:
        self.spec = spec
        self.terminates_on_success = spec.facts.terminates_on_success

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes of goals [..., goal] (`Facts.outcome`)."""
        facts, shape = self.spec.facts, next_achieved.shape[:-1]
        goals = [
            elements(facts.goal, goal.reshape(-1, goal.shape[-1]).cpu().numpy())
            for goal in (next_achieved, desired)
        ]
        found, reached = facts.outcome(*goals)
        return (
            torch.from_numpy(found).view(shape).to(next_achieved.device),
            torch.from_numpy(reached).view(shape).to(next_achieved.device),
        )

    @property
    def threshold(self) -> float:
        """SpecError: a foreign environment does not say it."""
        raise self._unknown("the distance at which a goal is achieved")

    def goals(self, uniform: Tensor) -> Tensor:
        """SpecError: a foreign environment does not say them."""
        raise self._unknown("which goals are possible")

    def contains(self, goals: Tensor) -> Tensor:
        """SpecError: a foreign environment does not say it."""
        raise self._unknown("which goals are possible")

    def _unknown(self, what: str) -> SpecError:
        return SpecError(f"{self.spec.called} does not say {what}, which failures of MEHER need")


class GoalEnvironments(Environment):
    """[run, env] environments of somebody else's.

    Episode e of environment i of a run is reset with a seed that follows from the run's seed, i and
    e: it begins alike in every algorithm, whatever the other runs do and whoever steps it.
    """

    def __init__(
        self,
        spec: GymnasiumSpec,
        seeds: Sequence[int],
        n_envs: int = 1,
        *,
        device: torch.device | str = "cpu",
        evaluation: bool = False,
        workers: int | None = None,
    ) -> None:
        """All are at the beginning of their first episode.

        Args:
            workers: processes that step them; None: one for each core, 0: this one.

        Raises:
            EnvironmentFailure: making or resetting one failed.
        """
        self.spec, self.device = spec, torch.device(device)
        self.observation_size, self.action_size = spec.observation_size, spec.action_size
        self.n_choices = spec.n_choices
        self.keeps_rest = spec.rest == "keep"
        #: Whether a step has paid what goals do not explain, and it has been said.
        self.paid_rest = evaluation
        slots = [Slot(seed, env) for seed in seeds for env in range(n_envs)]
        purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        self.pool = Pool(spec, slots, purpose, workers)
        #: Row of the pool's arrays, [run, env].
        self._rows = np.arange(len(slots)).reshape(len(seeds), n_envs)
        self.rewind()

    @staticmethod
    def parallel_episodes(episodes: int) -> int:
        """How many of so many evaluation episodes are played at the same time; divides them."""
        return next(n for n in range(PARALLEL_EPISODES, 0, -1) if episodes % n == 0)

    @property
    def goal_size(self) -> int:
        """Numbers in a goal."""
        return self.spec.goal_size

    @cached_property
    def task(self) -> ForeignTask:
        """Rewards of other goals."""
        return ForeignTask(self.spec)

    @cached_property
    def observation_limit(self) -> Tensor:
        """[obs]: largest absolute values by the spaces; infinite where these have no bounds."""
        limits = np.concatenate([largest(space) for space in self.spec.facts.spaces.values()])
        return torch.from_numpy(limits.astype(np.float32)).to(self.device)

    def step(self, actions: Tensor) -> Step:
        """One step of all: actions [run, env, action] in [-1, 1], or choices [run, env].

        Raises:
            EnvironmentFailure: one of them raised, or its process is no more.
        """
        arrays, rows = self.pool.arrays, self._rows
        values = actions.detach().cpu().numpy().reshape(*rows.shape, self.action_size)
        arrays.actions[rows, arrays.elapsed[rows]] = values
        self.pool.step()
        next_obs, outcome = self._tensor(arrays.next_obs), self._tensor(arrays.outcome)
        self._show()
        terminated, truncated, success = outcome.unbind(-1)
        rest = self._tensor(arrays.rest) if self.keeps_rest else None
        if rest is not None and not self.paid_rest and rest.any():
            self.paid_rest = True
            paid = f"{float(rest[rest != 0][0]):+g} beyond compute_reward"
            print(f"{self.spec.called}: a step paid {paid}; {REST['keep']}", file=sys.stderr)
        return Step(next_obs[..., : self.goal_size], terminated, truncated, success, next_obs, rest)

    def rewind(self, episode: int = 0) -> None:
        """See `Environment.rewind`."""
        self.pool.arrays.episode[:] = episode
        self.pool.arrays.elapsed[:] = 0
        self.pool.restore()
        self._show()

    def select(self, runs: Tensor) -> None:
        """See `Environment.select`."""
        self._rows = self._rows[runs.cpu().numpy()]
        self.pool.arrays.active[:] = False
        self.pool.arrays.active[self._rows] = True
        self._show()

    def cpu_seconds(self) -> float:
        """See `Environment.cpu_seconds`."""
        return self.pool.cpu_seconds()

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: how often each was reset, and the actions since then."""
        arrays, rows = self.pool.arrays, self._rows
        return {
            name: torch.from_numpy(getattr(arrays, name)[rows])
            for name in ("episode", "elapsed", "actions", "obs")
        }

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken, by playing the open episodes again.

        Raises:
            SpecError: the environment does not repeat itself.
        """
        arrays, rows = self.pool.arrays, self._rows
        for name in ("episode", "elapsed", "actions"):
            getattr(arrays, name)[rows] = saved[name].numpy()
        self.pool.restore()
        if not np.array_equal(arrays.obs[rows], saved["obs"].numpy()):
            raise SpecError(
                f"{self.spec.called} cannot be continued: reset with the same seed, the same "
                "actions led it elsewhere"
            )
        self._show()

    def close(self) -> None:
        """End the processes; they end with this one, too."""
        self.pool.close()

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array[self._rows]).to(self.device)

    def _show(self) -> None:
        """What a policy sees, and how long the episodes have lasted."""
        self.state = self._tensor(self.pool.arrays.obs)
        self.elapsed = self._tensor(self.pool.arrays.elapsed)
