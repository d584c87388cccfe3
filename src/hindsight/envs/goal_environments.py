"""Third-party gymnasium goal environments on the run axis.

`workers.Pool` steps run x env of them; this module gives them the interface of `Environment`.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hindsight.envs.environment import Environment
from hindsight.envs.facts import REST
from hindsight.envs.step import Step
from hindsight.envs.workers import Pool
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.spaces import elements, largest
from hindsight.streams import Purpose


class GoalEnvironments(Environment):
    """Third-party environments [run, env].

    The reset seed of episode e of environment i follows from the run's seed, i and e.  An episode
    thus starts the same under every algorithm, whatever the other runs and the number of workers.
    """

    parallel_episodes = 4  # each takes memory

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
        """Make and reset the environments, which `workers` processes step; None: one per core.

        Raises EnvironmentFailure if an environment cannot be made or reset.
        """
        self.spec, self.device, self.facts = spec, torch.device(device), spec.facts
        self.observation_size, self.action_size = spec.observation_size, spec.action_size
        self.n_choices = spec.n_choices
        self.terminates_on_success = spec.facts.terminates_on_success
        self.keeps_rest, self.any_success = spec.rest == "keep", spec.success == "any"
        #: Whether the message about rewards that goals do not explain has been printed.
        self.paid_rest = evaluation
        slots = [(seed, env) for seed in seeds for env in range(n_envs)]
        purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        self.pool = Pool(spec, slots, purpose, workers)
        #: Indices of the pool's rows, [run, env].
        self._rows = np.arange(len(slots)).reshape(len(seeds), n_envs)
        self.rewind()

    @property
    def goal_size(self) -> int:
        return self.spec.goal_size

    @property
    def task(self) -> Any:
        """Itself: rewards only, since the goal space is unknown (`specs.cell` checks the need)."""
        return self

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [...] for goals [..., goal]; see `Facts.outcome`."""
        shape = next_achieved.shape[:-1]
        goals = (
            elements(self.facts.goal, goal.reshape(-1, goal.shape[-1]).cpu().numpy())
            for goal in (next_achieved, desired)
        )
        found, reached = (torch.from_numpy(x).view(shape) for x in self.facts.outcome(*goals))
        return found.to(next_achieved.device), reached.to(next_achieved.device)

    def limits(self) -> list[float]:
        return [limit for space in self.facts.spaces.values() for limit in largest(space).tolist()]

    def step(self, actions: Tensor) -> Step:
        """Step all environments with actions [run, env, action] in [-1, 1], or choices [run, env].

        Raises EnvironmentFailure if one raises an exception, or its process dies.
        """
        pool, index = self.pool, self._rows
        values = actions.detach().cpu().numpy().reshape(*index.shape, self.action_size)
        pool.rows["actions"][index, pool.rows["elapsed"][index]] = values
        pool.do("step")
        next_obs, outcome = self._tensor("next_obs"), self._tensor("outcome")
        self._show()
        terminated, truncated, success = outcome.unbind(-1)
        rest = self._tensor("rest") if self.keeps_rest else None
        if rest is not None and not self.paid_rest and rest.any():
            self.paid_rest = True
            paid = f"{float(rest[rest != 0][0]):+g} beyond compute_reward"
            print(f"{self.spec.called}: a step paid {paid}; {REST['keep']}", file=sys.stderr)
        achieved, beyond = next_obs[..., : self.goal_size], self._tensor("beyond")
        return Step(achieved, terminated, truncated, success, next_obs, rest, beyond)

    def rewind(self, episode: int = 0) -> None:
        self.pool.rows["episode"], self.pool.rows["elapsed"] = episode, 0
        self.pool.do("restore")
        self._show()

    def select(self, runs: Tensor) -> None:
        self._rows = self._rows[runs.cpu().numpy()]
        self.pool.rows["active"] = False
        self.pool.rows["active"][self._rows] = True
        self._show()

    def cpu_seconds(self) -> float:
        return sum(self.pool.seconds)

    def state_dict(self) -> dict[str, Tensor]:
        """The episode number of each environment, and the actions since its start."""
        names = ("episode", "elapsed", "actions", "obs")
        return {name: torch.from_numpy(self.pool.rows[name][self._rows]) for name in names}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Restore a state by replaying the current episodes.

        Raises SpecError if the environment is not deterministic.
        """
        rows, index = self.pool.rows, self._rows
        for name in ("episode", "elapsed", "actions"):
            rows[name][index] = saved[name].numpy()
        self.pool.do("restore")
        if not np.array_equal(rows["obs"][index], saved["obs"].numpy()):
            raise SpecError(
                f"{self.spec.called} cannot be continued: after a reset with the same seed, the "
                "same actions led to another state"
            )
        self._show()

    def close(self) -> None:
        """End the worker processes; they also end with this process."""
        self.pool.close()

    def _tensor(self, field: str) -> Tensor:
        return torch.from_numpy(self.pool.rows[field][self._rows]).to(self.device)

    def _show(self) -> None:
        """Copy the pool's observations and episode lengths to `state` and `elapsed`."""
        self.state, self.elapsed = self._tensor("obs"), self._tensor("elapsed")
