"""Third-party gymnasium goal environments on the run axis.

`workers.Pool` steps run x env of them; this module gives them the interface of `Environment`.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hindsight.envs.environment import Call, Environment
from hindsight.envs.gymnasium.facts import facts_of
from hindsight.envs.gymnasium.rest import REST
from hindsight.envs.gymnasium.workers import Pool, place_of
from hindsight.envs.step import Step
from hindsight.specs.errors import SpecError, others_code
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.spaces import elements, largest
from hindsight.streams import Purpose


class GoalEnvironments(Environment):
    """Third-party environments [run, env].

    The reset seed of episode e of environment i follows from the run's seed, i and e.  An episode
    thus starts the same under every algorithm, whatever the other runs and the number of workers.
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
        """Make and reset the environments, which `workers` processes step; None: one per core.

        Raises EnvironmentFailure if an environment cannot be made or reset.
        """
        self.spec, self.device, self.facts = spec, torch.device(device), facts_of(spec)
        self.observation_size, self.action_size = spec.observation_size, spec.action_size
        self.n_choices = spec.n_choices
        self.terminates_on_success = self.facts.terminates_on_success
        self.keeps_rest, self.any_success = spec.rest == "keep", spec.success == "any"
        self.evaluation = evaluation
        #: Whether the message about rewards that goals do not explain has been printed.
        self.paid_rest = evaluation
        slots = [(seed, env) for seed in seeds for env in range(n_envs)]
        purpose = Purpose.EVALUATION_SPAWN if evaluation else Purpose.SPAWN
        self._of_pool = spec, slots, purpose, workers
        self.calls: list[Call] = []
        self.pool = Pool(*self._of_pool, self.calls, self.facts)
        #: Indices of the pool's rows, [run, env].
        self._rows = np.arange(len(slots)).reshape(len(seeds), n_envs)
        #: [run, env] bool: loading began a new episode here, of which training does not know yet.
        self._lost = torch.zeros(self._rows.shape, dtype=torch.bool)
        self.rewind()
        only = self.pool.only
        #: Whether it plays in training's instance.
        self._is_guest = evaluation and only is not None
        self.parallel_episodes = spec.parallel_episodes if only is None else 1
        if only is not None and not evaluation:
            print(f"{only.why}: evaluations end its open episode", file=sys.stderr)

    @cached_property
    def goal_size(self) -> int:
        return self.spec.goal_size

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [...] for goals [..., goal]; see `Facts.outcome`."""
        shape = next_achieved.shape[:-1]
        goals = (
            elements(self.facts.goal, goal.reshape(-1, goal.shape[-1]).cpu().numpy())
            for goal in (next_achieved, desired)
        )
        with others_code(self.spec.called):
            outcome = self.facts.outcome(*goals)
        found, reached = (torch.from_numpy(x).view(shape) for x in outcome)
        return found.to(next_achieved.device), reached.to(next_achieved.device)

    def limits(self) -> list[float]:
        return [limit for space in self.facts.spaces.values() for limit in largest(space).tolist()]

    def step(self, actions: Tensor) -> Step:
        """Step all environments with actions [run, env, action] in [-1, 1], or choices [run, env].

        Raises EnvironmentFailure if one raises an exception, or its process dies.
        """
        pool, index = self.pool, self._rows
        values = actions.detach().cpu().numpy().reshape(*index.shape, self.action_size)
        if not np.isfinite(values).all():  # of a run that has diverged, and ends with its iteration
            values = np.where(np.isfinite(values), values, 0)
        pool.rows["actions"][index, place_of(pool.rows)[index]] = values
        pool.do("step")
        next_obs, outcome = self._tensor("next_obs"), self._tensor("outcome")
        self._show()
        terminated, truncated, success = outcome.unbind(-1)
        rest = self._tensor("rest") if self.keeps_rest else None
        if rest is not None and not self.paid_rest and rest.any():
            self.paid_rest = True
            paid = f"{float(rest[rest != 0][0]):+g} beyond compute_reward"
            print(f"{self.spec.called}: a step paid {paid}; {REST['keep']}", file=sys.stderr)
        achieved, reward = next_obs[..., : self.goal_size], self._tensor("reward")
        return Step(achieved, terminated, truncated, success, next_obs, reward, rest)

    def rewind(self, episode: Any = 0) -> None:
        """As `Environment.rewind`, in new environments if the old ones cannot be stepped any more.

        episode: of all, or of each of the pool's rows.
        """
        if not (old := self.pool).goes_on:
            old.close()
            if self._asks_its_own:  # an instance that has been closed
                self._ask_its_own()
            self.pool = Pool(*self._of_pool, self.calls, self.facts)
            self.pool.rows["active"] = old.rows["active"]
        self.pool.rows["episode"], self.pool.rows["elapsed"] = episode, 0
        self.pool.do("restore")
        self._show()

    def begin_lost(self) -> Tensor | None:
        self._go_on()
        lost, self._lost = self._lost, torch.zeros_like(self._lost)
        return lost if lost.any() else None

    def _go_on(self) -> None:
        """Begin new episodes in new environments if the old ones cannot be stepped any more."""
        if not self.pool.goes_on:
            self.rewind(self.pool.rows["episode"] + 1)
            self._lost[:] = True

    def call(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if not self.facts.instance.has_wrapper_attr(name):
            raise SpecError(f"{self.spec.called} has no method {name!r}")
        if self._is_guest:  # where it has been called for training
            return []
        self._go_on()
        call = name, tuple(arguments), dict(options)
        if self.pool.only is None and not self._asks_its_own:
            self._ask_its_own()  # as other models ask the process's instance
            self.pool.ask(self.facts)
        found = self.pool.do("call", *call)
        if self._asks_its_own:
            self._call_its_own(*call)
        with suppress(Exception):  # what cannot be copied stays the caller's
            call = deepcopy(call)
        self.calls.append(call)
        return [[found[i] for i in run] for run in self._rows.tolist()]

    @property
    def _asks_its_own(self) -> bool:
        """Whether goals are asked of an instance of its own, because a method was called."""
        return self.facts is not facts_of(self.spec)

    def _ask_its_own(self) -> None:
        """Ask a new instance about goals, in which the same methods have been called."""
        own = self.spec.make()
        own.reset(seed=0)  # a method may need it
        self.facts = self.facts.of(own)
        for call in self.calls:
            self._call_its_own(*call)

    def _call_its_own(self, name: str, arguments: Sequence[Any], options: Any) -> None:
        with others_code(self.spec.called):
            self.facts.instance.get_wrapper_attr(name)(*arguments, **options)

    def select(self, runs: Tensor) -> None:
        self._rows = self._rows[runs.cpu().numpy()]
        self._lost = self._lost[runs.cpu()]
        self.pool.rows["active"] = False
        self.pool.rows["active"][self._rows] = True
        self._show()

    def cpu_seconds(self) -> float:
        return sum(self.pool.seconds)

    def state_dict(self) -> dict[str, Tensor]:
        """The number of each environment's episode, its actions so far, and whether it is lost."""
        names = ("episode", "elapsed", "actions", "obs")
        saved = {name: torch.from_numpy(self.pool.rows[name][self._rows]) for name in names}
        return saved | {"lost": self._lost | (not self.pool.goes_on)}

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Restore a state by replaying the current episodes.

        The next one begins where an environment does not repeat itself, or is another one.
        """
        rows, index = self.pool.rows, self._rows
        lost = saved.get("lost", torch.zeros_like(self._lost))
        for name in ("episode", "elapsed", "actions", "obs"):
            ours, theirs = list(rows[name][index].shape), list(saved[name].shape)
            if name == "actions":  # of longer or shorter episodes
                ours[2] = theirs[2]
            if ours != theirs:
                raise ValueError(f"its {name} of environments have the shape {theirs}")
        rows["episode"][index] = saved["episode"] + lost
        rows["elapsed"][index] = saved["elapsed"].masked_fill(lost, 0)
        rows["obs"][index] = saved["obs"]
        n = min(saved["actions"].shape[2], rows["actions"].shape[1])
        rows["actions"][index, :n] = saved["actions"][:, :, :n]
        self.pool.do("restore")
        self._lost = torch.from_numpy(rows["episode"][index]) != saved["episode"]
        if more := int((self._lost & ~lost).sum()):
            print(
                f"{self.spec.called}: new episodes begin in {more} of "
                f"{index.size} environments, as a reset with the same seed and the same actions "
                "could not restore the open ones",
                file=sys.stderr,
            )
        self._show()

    def close(self) -> None:
        """End the worker processes; they also end with this process."""
        self.pool.close()
        if self._asks_its_own:
            self.facts.instance.close()

    def _tensor(self, field: str) -> Tensor:
        return torch.from_numpy(self.pool.rows[field][self._rows]).to(self.device)

    def _show(self) -> None:
        """Copy the pool's observations and episode lengths to `state` and `elapsed`."""
        self.state, self.elapsed = self._tensor("obs"), self._tensor("elapsed")
