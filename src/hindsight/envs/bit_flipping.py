"""Bit flipping on the run axis (Andrychowicz et al. 2017, section 3.1): make n bits equal a goal.

With n bits there are 2^n goals and one rewarded state for each, which exploration alone does not
find; hindsight makes every state that was visited a goal.

An action flips one bit or, where it is continuous, any number of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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


def equal(bits: Tensor, goal: Tensor) -> Tensor:
    """Whether bits [..., n] are those of the goal, [...]."""
    return (bits == goal).all(-1)


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


def first_observation(bits: Tensor, goal: Tensor) -> Tensor:
    """The state [..., 3 n]; both arguments [..., n]."""
    return torch.cat([bits, goal, bits], dim=-1)


@dataclass(frozen=True)
class Parameters:
    """What relabelling must know; runs do not differ in it."""

    runs: int
    device: torch.device

    terminates_on_success: ClassVar[bool] = True

    @property
    def threshold(self) -> Tensor:
        """[run]: two goals differ by a Euclidean distance of 1 at least."""
        return torch.full((self.runs,), 0.5, device=self.device)

    def select(self, runs: Tensor) -> "Parameters":
        """Those of the runs with these indices."""
        return Parameters(len(runs), self.device)

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reward and success of steps [run, ...]: 0 where all bits are the goal's, else -1."""
        success = equal(next_achieved, desired)
        return success.float() - 1, success

    def goals(self, uniform: Tensor) -> Tensor:
        """Goals [run, ..., n] of random bits from numbers in [0, 1)."""
        return (uniform >= 0.5).float()

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [run, ..., n] are bits, [run, ...]."""
        return ((goals == 0) | (goals == 1)).all(-1)


class BitFlipping(Environments[BitFlippingSpec]):
    """[run, env] of n bits; observations [run, env, 3 n]: bits, goal, bits.

    Reward is 0 where the bits equal the goal, which ends the episode, else -1.  Actions are
    [run, env] integers, or [run, env, n] numbers: see `step`.
    """

    step_function = step

    def __init__(
        self,
        specs: Sequence[BitFlippingSpec],
        seeds: Sequence[int],
        n_envs: int = 1,
        *,
        device: torch.device | str = "cpu",
        evaluation: bool = False,
    ) -> None:
        kinds = {(spec.n_bits, spec.continuous) for spec in specs}
        if len(kinds) != 1:
            raise ValueError(f"runs on one axis share n_bits and continuous; got {sorted(kinds)}")
        self.n, self.continuous = kinds.pop()
        self.goal_size, self.observation_size = self.n, 3 * self.n
        self.action_size = self.n if self.continuous else 1
        self.n_choices = None if self.continuous else self.n
        super().__init__(specs, seeds, n_envs, device=device, evaluation=evaluation)

    def _set_parameters(self) -> None:
        self.task: Parameters = Parameters(len(self.specs), self.device)
        self.observation_limit = torch.ones(
            len(self.specs), self.observation_size, device=self.device
        )

    def numbers(self, spec: BitFlippingSpec) -> list[float]:
        return [spec.step_limit, spec.continuous]

    @property
    def observation_space(self) -> Dict:
        """Bits."""
        return Dict({name: MultiBinary(self.n) for name in GOAL_KEYS})

    def first(self, achieved: Tensor, desired: Tensor, rest: Tensor) -> Tensor:
        """The observation repeats the bits."""
        return first_observation(achieved, desired)

    def _draw(self, spec: BitFlippingSpec, size: int, generator: np.random.Generator) -> Tensor:
        bits, goal = torch.from_numpy(spawn(spec, (size,), generator)).split(self.n, dim=-1)
        return first_observation(bits, goal)
