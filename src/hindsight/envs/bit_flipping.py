"""Bit flipping on the run axis (Andrychowicz et al. 2017, section 3.1): make n bits equal a goal.

With n bits there are 2^n goals and one rewarded state for each, which exploration alone does not
find; hindsight makes every state that was visited a goal.

An action flips one bit or, where it is continuous, any number of them.
"""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Dict, MultiBinary
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments
from hindsight.envs.step import STEP, SUCCESS, TERMINATED, TRUNCATED, Numbers
from hindsight.io.compiled import first_class
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.environments.bit_flipping import BitFlippingSpec

#: A run's numbers in `step`.
MAX_STEPS, CONTINUOUS = range(2)


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
    """Flip bits; `envs.step.STEP` says what the arguments are.

    state: [3 n] bits, goal, bits; each 0 or 1.  action: [1], the bit to be flipped, or [n] numbers,
    of which the positive ones flip their bits.
    """
    n = len(state) // 3
    after[:] = state
    success = True
    for i in range(n):
        flips = action[i] > 0 if parameters[CONTINUOUS] > 0 else action[0] == i
        bit = 1 - state[i] if flips else state[i]
        after[i] = after[2 * n + i] = bit
        success = success and bit == state[n + i]
    if success:
        return TERMINATED | SUCCESS
    return TRUNCATED if elapsed + 1 >= parameters[MAX_STEPS] else 0


def spawn(
    spec: BitFlippingSpec, size: tuple[int, ...], generator: np.random.Generator
) -> NDArray[np.float32]:
    """Initial bits and goals [*size, 2 n], each bit 0 or 1 with equal probability.

    They are drawn without regard for each other, so that one episode in 2^n begins with its bits
    equal to the goal.  Such an episode goes on like any other: success is a matter of the bits
    after an action, and one that flips a single bit leads away from the goal.
    """
    return generator.integers(0, 2, (*size, 2 * spec.n_bits)).astype(np.float32)


class Equalling:
    """What hindsight must know (`relabel.task.Task`)."""

    terminates_on_success = True
    threshold = 0.5  # two goals differ by a Euclidean distance of 1 at least

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success of steps [...]: 0 where all bits are the goal's, else -1."""
        success = (next_achieved == desired).all(-1)
        return success.float() - 1, success

    def goals(self, uniform: Tensor) -> Tensor:
        """Goals [..., n] of random bits from numbers in [0, 1)."""
        return (uniform >= 0.5).float()

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [..., n] are bits, [...]."""
        return ((goals == 0) | (goals == 1)).all(-1)


class BitFlipping(Environments[BitFlippingSpec]):
    """[run, env] of n bits; observations [run, env, 3 n]: bits, goal, bits.

    Reward is 0 where the bits equal the goal, which ends the episode, else -1.  Actions are
    [run, env] integers, or [run, env, n] numbers: see `step`.
    """

    step_function = step
    task = Equalling()

    @property
    def goal_size(self) -> int:
        """Bits."""
        return self.spec.n_bits

    def numbers(self) -> list[float]:
        return [self.spec.step_limit, self.spec.continuous]

    def limits(self) -> list[float]:
        return [1.0] * self.observation_size

    @property
    def observation_space(self) -> Dict:
        """Bits."""
        return Dict({name: MultiBinary(self.goal_size) for name in GOAL_KEYS})

    def _draw(self, size: int, generator: np.random.Generator) -> Tensor:
        drawn = torch.from_numpy(spawn(self.spec, (size,), generator))
        return torch.cat([drawn, drawn[:, : self.goal_size]], dim=-1)
