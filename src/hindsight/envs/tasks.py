"""The environments there are, and what training loops ask of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import torch
from torch import Tensor

from hindsight.envs import goal_environments
from hindsight.envs.bit_flipping import BitFlipping
from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.envs.point_reach import PointReach
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.step import Step
from hindsight.envs.workers import is_success
from hindsight.relabel.task import Task
from hindsight.specs.cell import EnvironmentSpec
from hindsight.specs.gymnasium import GymnasiumSpec


class Environment(Protocol):
    """[run, env] environments; an episode that is over is followed by the next at once."""

    state: Tensor  # [run, env, obs] the observations: achieved goal, desired goal, observation
    elapsed: Tensor  # [run, env] steps of the episode so far
    goal_size: int
    observation_size: int  # of the three together
    action_size: int
    n_choices: int | None  # actions are 0 ... n_choices - 1; None: they are continuous
    truncates: bool  # whether a time limit may cut an episode
    observation_limit: Tensor  # [obs], the observation's largest absolute values

    @property
    def task(self) -> Task:
        """Rewards, and what differs between the runs."""

    def prepare_rollout(self, iteration: int, n_steps: int) -> None:
        """Draw what is random in the next `n_steps` steps."""

    def step(self, actions: Tensor) -> Step:
        """One step of all; `state` afterwards holds the next observations."""

    def rewind(self) -> None:
        """Back to the beginning of the first episode (evaluation)."""

    def select(self, runs: Tensor) -> None:
        """Keep the runs with these indices."""

    def cpu_seconds(self) -> float:
        """Processor time so far of other processes that step them."""

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""


KINDS: dict[str, Any] = {
    "PredatorPrey-v0": PredatorPrey,
    "PointReach-v0": PointReach,
    "BitFlipping-v0": BitFlipping,
}


def parallel_episodes(spec: EnvironmentSpec, episodes: int) -> int:
    """How many of so many evaluation episodes of a run are played at the same time."""
    if isinstance(spec, GymnasiumSpec):
        return goal_environments.parallel_episodes(episodes)
    return episodes


def make(
    spec: EnvironmentSpec,
    seeds: Sequence[int],
    n_envs: int,
    device: torch.device,
    evaluation: bool = False,
    workers: int | None = None,
) -> Environment:
    """`n_envs` environments of each run; all runs alike but for their seeds.

    `workers`: processes that step foreign environments (`GoalEnvironments`).
    """
    if isinstance(spec, GymnasiumSpec):
        return GoalEnvironments(
            spec, seeds, n_envs, device=device, evaluation=evaluation, workers=workers
        )
    kind = KINDS[spec.id]
    made: Environment = kind(
        [spec] * len(seeds), seeds, n_envs, device=device, evaluation=evaluation
    )
    return made


def gymnasium_of(spec: EnvironmentSpec, **options: Any) -> gymnasium.Env[Any, Any]:
    """A single environment as gymnasium makes it; `options` such as render_mode."""
    if isinstance(spec, GymnasiumSpec):
        return spec.make(**options)
    return gymnasium.make(spec.id, **spec.model_dump(exclude={"id"}), **options)


def succeeded(spec: EnvironmentSpec, reward: Any, info: dict[str, Any]) -> bool:
    """Whether a step of that environment achieved the goal."""
    if isinstance(spec, GymnasiumSpec):
        return is_success(spec.facts, reward, info)
    return bool(info["is_success"])
