"""Bit flipping on the run axis (Andrychowicz et al. 2017, section 3.1): make n bits equal a goal.

With n bits there are 2^n goals and one rewarded state for each, which exploration alone does not
find; hindsight makes every state that was visited a goal.

An action flips one bit or, where it is continuous, any number of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from gymnasium.spaces import Dict, MultiBinary
from numpy.typing import NDArray
from torch import Tensor

from hindsight.envs.run_axis import Environments
from hindsight.envs.step import Step
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.environments.bit_flipping import BitFlippingSpec


def flips_of(actions: Tensor, n: int, continuous: bool) -> Tensor:
    """Which bits actions flip, [run, env, n] bool.

    Args:
        actions: [run, env] integers 0 ... n - 1, the bit to be flipped; where `continuous`,
            [run, env, n] numbers, of which the positive ones flip their bits.
    """
    if continuous:
        return actions > 0
    return actions[..., None] == torch.arange(n, device=actions.device)


def equal(bits: Tensor, goal: Tensor) -> Tensor:
    """Whether bits [..., n] are those of the goal, [...]."""
    return (bits == goal).all(-1)


def advance(state: Tensor, elapsed: Tensor, flips: Tensor, max_steps: Tensor) -> Step:
    """One step; changes none of its arguments.

    Args:
        state: [run, env, 3 n] bits, goal, bits; each 0 or 1.
        elapsed: [run, env] integer steps of the episode before this one.
        flips: [run, env, n] bool.
        max_steps: [run, 1].
    """
    n = flips.shape[-1]
    bits, goal = state[..., :n], state[..., n : 2 * n]
    bits = torch.where(flips, 1 - bits, bits)
    success = equal(bits, goal)
    truncated = (elapsed + 1 >= max_steps) & ~success
    return Step(bits, success, truncated, success, first_observation(bits, goal))


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
    """What may differ between runs on one axis."""

    max_steps: Tensor  # [run, 1]

    terminates_on_success: ClassVar[bool] = True

    @property
    def threshold(self) -> Tensor:
        """[run]: two goals differ by a Euclidean distance of 1 at least."""
        return torch.full((len(self.max_steps),), 0.5, device=self.max_steps.device)

    def select(self, runs: Tensor) -> "Parameters":
        """Those of the runs with these indices."""
        return Parameters(self.max_steps[runs])

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
    [run, env] integers, or [run, env, n] numbers: see `flips_of`.
    """

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
        limits = [[spec.step_limit] for spec in self.specs]
        self.task: Parameters = Parameters(torch.tensor(limits, device=self.device))
        self.observation_limit = torch.ones(
            len(self.specs), self.observation_size, device=self.device
        )

    def advance(self, actions: Tensor) -> Step:
        flips = flips_of(actions, self.n, self.continuous)
        return advance(self.state, self.elapsed, flips, self.task.max_steps)

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
