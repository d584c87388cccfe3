"""A point mass on the run axis, which a force must move to a random target in a square.

Episodes continue at the target until the time limit.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments
from hindsight.envs.step import STEP, SUCCESS, TRUNCATED, Numbers, is_near, within
from hindsight.nn.numba_cache import first_class
from hindsight.specs.environments.point_reach import PointReachSpec

#: Indices of `parameters` in `step`.
THRESHOLD, MAX_STEPS, DT, RANGE, MAX_SPEED, ACTION_SCALE = range(6)


@first_class(STEP)
def step(
    goal_policy: Any,
    parameters: NDArray[np.float64],
    state: Numbers,
    elapsed: int,
    action: Numbers,
    noise: Numbers,
    after: Numbers,
) -> int:
    """One step of semi-implicit Euler integration; see `envs.step.STEP` for the arguments.

    state: [8] position, target, position, velocity.
    action: [2], the force, clipped here to [-1, 1].
    """
    p = parameters
    for i in range(2):
        acceleration = p[ACTION_SCALE] * within(action[i], 1)
        velocity = within(state[6 + i] + acceleration * p[DT], p[MAX_SPEED])
        position = within(state[i] + velocity * p[DT], p[RANGE])
        after[i] = after[4 + i] = position
        after[2 + i] = state[2 + i]
        after[6 + i] = velocity
    flags = SUCCESS if is_near(p, after[:2], state[2:4]) else 0
    return flags | TRUNCATED if elapsed + 1 >= p[MAX_STEPS] else flags


class PointReach(Environments[PointReachSpec]):
    """Point masses with observations [run, env, 8]: position, target, position, velocity.

    The reward is 0 at the target and -1 elsewhere.
    """

    step_function = step
    terminates_on_success = False
    goal_size = 2

    def numbers(self) -> list[float]:
        s = self.spec
        return [s.threshold, s.max_steps, s.dt, s.range, s.max_speed, s.action_scale]

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
