"""A point mass on the run axis, which a force must move to a random target in a square.

Episodes continue at the target until the time limit.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments
from hindsight.envs.step import STEP, SUCCESS, TRUNCATED, Numbers, within
from hindsight.io.compiled import first_class
from hindsight.relabel.task import GoalsInBox
from hindsight.specs.environments.point_reach import PointReachSpec

#: Indices of `parameters` in `step`.
MAX_STEPS, DT, RANGE, MAX_SPEED, ACTION_SCALE, THRESHOLD = range(6)


class Reaching(GoalsInBox):
    """Rewards and goal space (`relabel.task.Task`)."""

    terminates_on_success = False

    def __init__(self, spec: PointReachSpec) -> None:
        self.half_width, self.threshold = spec.range, spec.threshold

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success [...]: 0 within the threshold of the target, else -1."""
        success = torch.linalg.vector_norm(next_achieved - desired, dim=-1) <= self.threshold
        return success.float() - 1, success


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
    """One step of semi-implicit Euler integration; see `envs.step.STEP` for the arguments.

    state: [8] position, target, position, velocity.
    action: [2], the force, clipped here to [-1, 1].
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


class PointReach(Environments[PointReachSpec]):
    """Point masses with observations [run, env, 8]: position, target, position, velocity.

    The reward is 0 at the target and -1 elsewhere.
    """

    step_function = step
    goal_size = 2

    @cached_property
    def task(self) -> Reaching:
        return Reaching(self.spec)

    def numbers(self) -> list[float]:
        s = self.spec
        return [s.max_steps, s.dt, s.range, s.max_speed, s.action_scale, s.threshold]

    def limits(self) -> list[float]:
        return [self.spec.range] * 6 + [self.spec.max_speed] * 2

    def _draw(self, size: int, generator: np.random.Generator) -> Tensor:
        """Independent positions and targets, uniform in the square; velocity 0.

        An episode may start at its target.
        """
        box = self.spec.range
        drawn = torch.from_numpy(generator.uniform(-box, box, (size, 4)).astype(np.float32))
        position, target = drawn.split(2, -1)
        return torch.cat([position, target, position, torch.zeros_like(position)], dim=-1)
