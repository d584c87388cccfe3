"""The environment interface of the training loops and of relabelling, and its factory."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor

from hindsight.envs.step import Step
from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.errors import SpecError

#: A method of the environments with its arguments.
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Environment(ABC):
    """Vectorised environments [run, env] of one specification, which reset automatically."""

    spec: Any  # an EnvironmentSpec
    device: torch.device
    state: Tensor  # [run, env, obs]: achieved goal, desired goal, observation
    elapsed: Tensor  # [run, env] steps of the current episode
    observation_size: int  # size of `state`'s last dimension
    action_size: int  # numbers in an action; 1 for discrete actions
    n_choices: int | None  # actions are 0 ... n_choices - 1; None: continuous actions
    terminates_on_success: bool  # whether achieving the goal ends the episode
    any_success = False  # whether any step's success makes an episode one; if not, its last step's
    threshold: float  # the distance within which a goal is achieved, unless the spec is `foreign`
    #: Methods that were called in every environment, for those that are made later.
    calls: Sequence[Call] = ()
    keeps_rest = False  # whether steps report the part of rewards that goals do not explain
    parallel_episodes: int | None = None  # a run's evaluation episodes at the same time; None: all

    @property
    @abstractmethod
    def goal_size(self) -> int:
        """Numbers in a goal."""

    @property
    def task(self) -> "Environment":
        """Itself, of which relabelling asks rewards and, unless the spec is `foreign`, goals."""
        return self

    @abstractmethod
    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [...] for achieved and desired goals [..., goal].

        terminated: [...] bool, whether the step ends the episode.
        """

    def goals(self, uniform: Tensor) -> Tensor:
        """Uniform samples [..., goal] of the goal space, from `uniform` [..., goal] in [0, 1)."""
        raise NotImplementedError

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [..., goal] lie in the goal space, [...] bool."""
        raise NotImplementedError

    @abstractmethod
    def limits(self) -> list[float]:
        """Largest absolute values of the observation, [obs]; infinite without bounds.

        Those of the achieved goal also bound the goals that this package's own environments draw.
        """

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:  # noqa: B027
        """Draw the random numbers of the next `n_steps` steps; does nothing by default."""

    @abstractmethod
    def step(self, actions: Tensor) -> Step:
        """Step all environments; afterwards `state` holds the next observations.

        If an episode is over, that is the first observation of the next one.
        """

    @abstractmethod
    def rewind(self, episode: int = 0) -> None:
        """Reset every environment to the start of its episode with this number (evaluation)."""

    def begin_lost(self) -> Tensor | None:
        """Begin the next episode where the open one cannot go on; returns where, [run, env] bool.

        None: nowhere, as is always so in this package's own environments.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """End what steps the environments; `begin_lost` begins anew."""

    def call(self, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Call a method of every environment; returns what they returned, [run][env].

        Raises SpecError if they have no such method.
        """
        raise SpecError(f"{self.spec.id} has no methods to call")

    @abstractmethod
    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices."""

    def cpu_seconds(self) -> float:
        """CPU seconds so far of worker processes; 0 without workers."""
        return 0.0

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """The state that a checkpoint stores; the rest follows from the specification."""

    @abstractmethod
    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Restore a state from `state_dict`."""


def make(
    spec: EnvironmentSpec,
    seeds: Sequence[int],
    n_envs: int,
    device: torch.device,
    evaluation: bool = False,
    workers: int | None = None,
) -> Environment:
    """Make `n_envs` environments for each run; `seeds` has one seed per run.

    `workers`: number of processes that step third-party environments; None: one per core.
    """
    options = {"device": device, "evaluation": evaluation}
    options |= {"workers": workers} if spec.foreign else {}
    made: Environment = resolve_name(spec.entry_point)(spec, seeds, n_envs, **options)
    return made
