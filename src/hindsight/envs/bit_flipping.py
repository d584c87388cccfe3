"""Bit flipping on the run axis (Andrychowicz et al. 2017, section 3.1): make n bits equal a goal.

Each of the 2^n goals has a single rewarded state, which exploration alone does not find; hindsight
turns every visited state into a goal.
"""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Dict, MultiBinary
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments
from hindsight.envs.step import STEP, SUCCESS, TERMINATED, TRUNCATED, Numbers, is_near
from hindsight.nn.numba_cache import first_class
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.environments.bit_flipping import BitFlippingSpec

#: Indices of `parameters` in `step`.
THRESHOLD, MAX_STEPS, CONTINUOUS = range(3)


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
    """Flip bits; see `envs.step.STEP` for the arguments.

    state: [3 n] bits, goal, bits; each 0 or 1.
    action: [1], the index of the bit to flip, or [n] numbers, where positive ones flip their bits.
    """
    n = len(state) // 3
    for i in range(n):
        flips = action[i] > 0 if parameters[CONTINUOUS] > 0 else action[0] == i
        bit = 1 - state[i] if flips else state[i]
        after[i] = after[2 * n + i] = bit
        after[n + i] = state[n + i]
    if is_near(parameters, after[:n], state[n : 2 * n]):
        return TERMINATED | SUCCESS
    return TRUNCATED if elapsed + 1 >= parameters[MAX_STEPS] else 0


class BitFlipping(Environments[BitFlippingSpec]):
    """Bit flipping with observations [run, env, 3 n]: bits, goal, bits.

    The reward is 0 if the bits equal the goal, which ends the episode, else -1.  Actions are
    integers [run, env] or numbers [run, env, n].
    """

    step_function = step
    terminates_on_success = True

    def goals(self, uniform: Tensor) -> Tensor:
        return (uniform >= 0.5).float()

    def contains(self, goals: Tensor) -> Tensor:
        return ((goals == 0) | (goals == 1)).all(-1)

    @property
    def goal_size(self) -> int:
        return self.spec.n_bits

    def numbers(self) -> list[float]:
        # The distance of two different goals is at least 1.
        return [0.5, self.spec.step_limit, self.spec.continuous]

    def limits(self) -> list[float]:
        return [1.0] * self.observation_size

    @property
    def observation_space(self) -> Dict:
        return Dict({name: MultiBinary(self.goal_size) for name in GOAL_KEYS})

    def _draw(self, size: int, generator: np.random.Generator) -> Tensor:
        """Independent, uniform bits and goals.

        One episode in 2^n starts at its goal, which is no success: that depends on an action.
        """
        n = self.goal_size
        drawn = torch.from_numpy(generator.integers(0, 2, (size, 2 * n)).astype(np.float32))
        return torch.cat([drawn, drawn[:, :n]], dim=-1)
