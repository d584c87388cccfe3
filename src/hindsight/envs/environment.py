"""What training loops ask of environments, and how they get some."""

from collections.abc import Sequence
from typing import Protocol, Self

import torch
from torch import Tensor

from hindsight.envs.step import Step
from hindsight.relabel.task import Task
from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.kinds import entry


class Environment(Protocol):
    """[run, env] environments; an episode that is over is followed by the next at once."""

    state: Tensor  # [run, env, obs] the observations: achieved goal, desired goal, observation
    elapsed: Tensor  # [run, env] steps of the episode so far
    goal_size: int
    observation_size: int  # of the three together
    action_size: int
    n_choices: int | None  # actions are 0 ... n_choices - 1; None: they are continuous
    truncates: bool  # whether a time limit may cut an episode
    keeps_rest: bool  # whether steps tell what goals do not explain of a reward
    observation_limit: Tensor  # [run, obs], the observation's largest absolute values

    @classmethod
    def of(
        cls,
        specs: Sequence[EnvironmentSpec],
        seeds: Sequence[int],
        n_envs: int,
        *,
        device: torch.device,
        evaluation: bool,
        workers: int | None,
    ) -> Self:
        """See `make`."""

    @staticmethod
    def parallel_episodes(episodes: int) -> int:
        """How many of so many evaluation episodes of a run are played at the same time."""

    @property
    def task(self) -> Task:
        """Rewards, and what differs between the runs."""

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        """Draw what is random in the next `n_steps` steps."""

    def step(self, actions: Tensor) -> Step:
        """One step of all; `state` afterwards holds the next observations."""

    def rewind(self, episode: int = 0) -> None:
        """To the beginning of the episode with this number (evaluation)."""

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices."""

    def cpu_seconds(self) -> float:
        """Processor time so far of other processes that step them."""

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""


def make(
    specs: Sequence[EnvironmentSpec],
    seeds: Sequence[int],
    n_envs: int,
    device: torch.device,
    evaluation: bool = False,
    workers: int | None = None,
) -> Environment:
    """`n_envs` environments of each run, whose specification and seed stand at its place.

    `workers`: processes that step foreign environments; None: one for each core.
    """
    kind: type[Environment] = entry(specs[0].entry_point)
    return kind.of(specs, seeds, n_envs, device=device, evaluation=evaluation, workers=workers)
