"""A point mass on the run axis: a force is to bring it to a random target in a square.

Position and velocity follow from a force by `advance`; an episode goes on at its target.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments, per_run
from hindsight.envs.step import Step
from hindsight.specs.environments.point_reach import PointReachSpec


@dataclass(frozen=True)
class Parameters:
    """What may differ between runs on one axis."""

    max_steps: Tensor  # [run, 1]
    dt: Tensor  # [run, 1, 1] seconds in a step
    range: Tensor  # [run, 1, 1] half-width of the square
    max_speed: Tensor  # [run, 1, 1], of each coordinate
    action_scale: Tensor  # [run, 1, 1] acceleration by an action of 1
    threshold: Tensor  # [run] distance at which the target is reached

    terminates_on_success: ClassVar[bool] = False

    @classmethod
    def of(cls, specs: Sequence[PointReachSpec], device: torch.device) -> "Parameters":
        """One row per specification."""

        def column(name: str) -> Tensor:
            values = [float(getattr(spec, name)) for spec in specs]
            return torch.tensor(values, device=device)[:, None, None]

        return cls(
            torch.tensor([[spec.max_steps] for spec in specs], device=device),
            column("dt"),
            column("range"),
            column("max_speed"),
            column("action_scale"),
            column("threshold").flatten(),
        )

    def select(self, runs: Tensor) -> "Parameters":
        """Those of the runs with these indices."""
        return Parameters(*(getattr(self, field.name)[runs] for field in fields(self)))

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success of steps [run, ...]: 0 within the threshold of the target, else -1."""
        success = reached(next_achieved, desired, self.threshold)
        return success.float() - 1, success

    def goals(self, uniform: Tensor) -> Tensor:
        """Targets [run, ..., 2], uniform in each run's square, from numbers in [0, 1)."""
        return per_run(self.range, uniform) * (2 * uniform - 1)

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [run, ..., 2] lie in the square, [run, ...]."""
        return (goals.abs() <= per_run(self.range, goals)).all(-1)


def reached(achieved: Tensor, desired: Tensor, threshold: Tensor) -> Tensor:
    """Whether positions [run, ..., 2] are within `threshold` [run] of targets, [run, ...]."""
    distance = torch.linalg.vector_norm(achieved - desired, dim=-1)
    return distance <= per_run(threshold, distance)


def advance(state: Tensor, elapsed: Tensor, actions: Tensor, parameters: Parameters) -> Step:
    """One step of the physics; changes none of its arguments.

    The action accelerates, then the velocity of the whole step moves the mass: semi-implicit Euler.

    Args:
        state: [run, env, 8] position, target, position, velocity.
        elapsed: [run, env] integer steps of the episode before this one.
        actions: [run, env, 2], clipped here to [-1, 1].
        parameters: those of each run.
    """
    p = parameters
    position, target, velocity = state[..., :2], state[..., 2:4], state[..., 6:]
    acceleration = p.action_scale * actions.clamp(-1, 1)
    velocity = torch.clamp(velocity + acceleration * p.dt, -p.max_speed, p.max_speed)
    position = torch.clamp(position + velocity * p.dt, -p.range, p.range)
    success = reached(position, target, p.threshold)
    truncated = elapsed + 1 >= p.max_steps
    next_obs = torch.cat([position, target, position, velocity], dim=-1)
    return Step(position, torch.zeros_like(success), truncated, success, next_obs)


def spawn(
    spec: PointReachSpec, size: tuple[int, ...], generator: np.random.Generator
) -> NDArray[np.float32]:
    """Initial positions and targets [*size, 4], each uniform in the square.

    They are drawn without regard for each other, so that an episode may begin at its target.
    """
    return generator.uniform(-spec.range, spec.range, (*size, 4)).astype(np.float32)


def first_observation(position: Tensor, target: Tensor) -> Tensor:
    """The state [..., 8] in which an episode begins: at rest; both arguments [..., 2]."""
    return torch.cat([position, target, position, torch.zeros_like(position)], dim=-1)


class PointReach(Environments[PointReachSpec]):
    """[run, env] point masses; observations [run, env, 8]: position, target, position, velocity.

    An episode does not end at the target: reward is 0 there and -1 elsewhere, until the time limit.
    """

    goal_size, observation_size, action_size = 2, 8, 2
    n_choices = None

    def _set_parameters(self) -> None:
        self.task: Parameters = Parameters.of(self.specs, self.device)
        limits = [[spec.range] * 6 + [spec.max_speed] * 2 for spec in self.specs]
        self.observation_limit = torch.tensor(limits, device=self.device)

    def advance(self, actions: Tensor) -> Step:
        return advance(self.state, self.elapsed, actions, self.task)

    def first(self, achieved: Tensor, desired: Tensor, rest: Tensor) -> Tensor:
        """At rest."""
        return first_observation(achieved, desired)

    def _draw(self, spec: PointReachSpec, size: int, generator: np.random.Generator) -> Tensor:
        return first_observation(*torch.from_numpy(spawn(spec, (size,), generator)).split(2, -1))
