"""The goal tasks beside predator-prey: a point mass, and bits to be flipped."""

from typing import Literal

from pydantic import model_validator

from hindsight.specs.base import Count, Positive, Spec


class PointReachSpec(Spec):
    """A point mass in the square [-range, range]^2 is to reach a random target.

    A coordinate of the velocity changes by at most `action_scale` x `dt` in a step and is kept
    within `max_speed`; the target is reached within `threshold` of it.
    """

    id: Literal["PointReach-v0"] = "PointReach-v0"
    max_steps: Count = 50
    dt: Positive = 0.05
    range: Positive = 1.0
    max_speed: Positive = 1.0
    threshold: Positive = 0.05
    action_scale: Positive = 10.0

    @property
    def step_limit(self) -> int:
        """Steps after which an episode is truncated."""
        return self.max_steps

    @property
    def observation_size(self) -> int:
        """Numbers a policy sees."""
        return 8

    @model_validator(mode="after")
    def _targets_are_to_be_reached(self) -> "PointReachSpec":
        # Two uniform places are closer than half of the side in 48 % of the cases.
        if self.threshold >= self.range:
            raise ValueError(
                f"threshold {self.threshold:g} must be below range {self.range:g}: "
                "otherwise half of the episodes begin at their target"
            )
        return self


class BitFlippingSpec(Spec):
    """`n_bits` bits are to be made equal to a random goal (Andrychowicz et al. 2017, section 3.1).

    An action flips one bit, or where it is `continuous` any number of them.  `max_steps` None
    means `n_bits`: as many flips as may be needed.
    """

    id: Literal["BitFlipping-v0"] = "BitFlipping-v0"
    n_bits: Count = 10
    max_steps: Count | None = None
    continuous: bool = False

    @model_validator(mode="after")
    def _one_name_for_one_limit(self) -> "BitFlippingSpec":
        if self.max_steps == self.n_bits:
            object.__setattr__(self, "max_steps", None)
        return self

    @property
    def step_limit(self) -> int:
        """Steps after which an episode is truncated."""
        return self.n_bits if self.max_steps is None else self.max_steps

    @property
    def observation_size(self) -> int:
        """Numbers a policy sees."""
        return 3 * self.n_bits
