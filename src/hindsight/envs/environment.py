"""What training loops ask of environments, and how they get some."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pkgutil import resolve_name

import torch
from torch import Tensor

from hindsight.envs.step import Step
from hindsight.relabel.task import Task
from hindsight.specs.base import EnvironmentSpec


class Environment(ABC):
    """[run, env] environments of one specification; an episode that is over is followed by the
    next at once.
    """

    state: Tensor  # [run, env, obs] the observations: achieved goal, desired goal, observation
    elapsed: Tensor  # [run, env] steps of the episode so far
    observation_size: int  # of the three together
    action_size: int  # numbers in an action; a choice is one number
    n_choices: int | None  # actions are 0 ... n_choices - 1; None: they are continuous
    truncates = True  # whether a time limit may cut an episode
    keeps_rest = False  # whether steps tell what goals do not explain of a reward

    @property
    @abstractmethod
    def goal_size(self) -> int:
        """Numbers in a goal."""

    @property
    @abstractmethod
    def task(self) -> Task:
        """Which rewards there are for which goals."""

    @property
    @abstractmethod
    def observation_limit(self) -> Tensor:
        """[obs], the observation's largest absolute values."""

    @staticmethod
    def parallel_episodes(episodes: int) -> int:
        """How many of so many evaluation episodes of a run are played at the same time: all."""
        return episodes

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:  # noqa: B027
        """Draw what is random in the next `n_steps` steps: nothing."""

    @abstractmethod
    def step(self, actions: Tensor) -> Step:
        """One step of all; `state` afterwards holds the next observations.

        Where an episode is over, these are the first of the next episode.
        """

    @abstractmethod
    def rewind(self, episode: int = 0) -> None:
        """Every environment to the beginning of the episode with this number (evaluation)."""

    @abstractmethod
    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices; the others leave the axis."""

    def cpu_seconds(self) -> float:
        """Processor time so far of other processes that step them: there are none."""
        return 0.0

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps; everything else follows from the specification."""

    @abstractmethod
    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""


def make(
    spec: EnvironmentSpec,
    seeds: Sequence[int],
    n_envs: int,
    device: torch.device,
    evaluation: bool = False,
    workers: int | None = None,
) -> Environment:
    """`n_envs` environments of each run, which have these seeds.

    `workers`: processes that step foreign environments; None: one for each core.
    """
    options = {"device": device, "evaluation": evaluation}
    options |= {"workers": workers} if spec.foreign else {}
    made: Environment = resolve_name(spec.entry_point)(spec, seeds, n_envs, **options)
    return made
