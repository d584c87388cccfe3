"""A point mass on the run axis: a force is to bring it to a random target in a square.

Position and velocity follow from a force by `step`; an episode goes on at its target.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments, per_run
from hindsight.envs.step import STEP, SUCCESS, TRUNCATED, Numbers, within
from hindsight.io.compiled import first_class
from hindsight.specs.environments.point_reach import PointReachSpec

#: A run's numbers in `step`.
MAX_STEPS, DT, RANGE, MAX_SPEED, ACTION_SCALE, THRESHOLD = range(6)


@dataclass(frozen=True)
class Parameters:
    """What may differ between runs on one axis."""

    range: Tensor  # [run, 1, 1] half-width of the square
    threshold: Tensor  # [run] distance at which the target is reached

    terminates_on_success: ClassVar[bool] = False

    @classmethod
    def of(cls, specs: Sequence[PointReachSpec], device: torch.device) -> "Parameters":
        """One row per specification."""
        ranges, thresholds = zip(*((spec.range, spec.threshold) for spec in specs), strict=True)
        return cls(
            torch.tensor(ranges, device=device)[:, None, None],
            torch.tensor(thresholds, device=device),
        )

    def select(self, runs: Tensor) -> "Parameters":
        """Those of the runs with these indices."""
        return Parameters(self.range[runs], self.threshold[runs])

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


@first_class(STEP)
def step(
    goal_policy: Any,
    parameters: NDArray[np.float64],
    state: Numbers,
    elapsed: int,
    action: Numbers,
    drawn: Numbers,
    after: Numbers,
) -> int:
    """One step of the physics; `envs.step.STEP` says what the arguments are.

    The action accelerates, then the velocity of the whole step moves the mass: semi-implicit Euler.

    state: [8] position, target, position, velocity.  action: [2], clipped here to [-1, 1].
    """
    p = parameters
    squares = 0.0
    for i in range(2):
        acceleration = p[ACTION_SCALE] * within(action[i], 1)
        velocity = within(state[6 + i] + acceleration * p[DT], p[MAX_SPEED])
        position = within(state[i] + velocity * p[DT], p[RANGE])
        after[i] = after[4 + i] = position
        after[2 + i] = state[2 + i]
        after[6 + i] = velocity
        squares += (position - state[2 + i]) ** 2
    flags = SUCCESS if math.sqrt(squares) <= p[THRESHOLD] else 0
    return flags | TRUNCATED if elapsed + 1 >= p[MAX_STEPS] else flags


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

    step_function = step
    goal_size, observation_size, action_size = 2, 8, 2
    n_choices = None

    def _set_parameters(self) -> None:
        self.task: Parameters = Parameters.of(self.specs, self.device)
        limits = [[spec.range] * 6 + [spec.max_speed] * 2 for spec in self.specs]
        self.observation_limit = torch.tensor(limits, device=self.device)

    def numbers(self, spec: PointReachSpec) -> list[float]:
        s = spec
        return [s.max_steps, s.dt, s.range, s.max_speed, s.action_scale, s.threshold]

    def first(self, achieved: Tensor, desired: Tensor, rest: Tensor) -> Tensor:
        """At rest."""
        return first_observation(achieved, desired)

    def _draw(self, spec: PointReachSpec, size: int, generator: np.random.Generator) -> Tensor:
        return first_observation(*torch.from_numpy(spawn(spec, (size,), generator)).split(2, -1))
