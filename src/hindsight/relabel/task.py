"""What relabelling must know of environments: their goals and rewards."""

from typing import Protocol

from torch import Tensor


class Task(Protocol):
    """What hindsight must know of an environment."""

    @property
    def terminates_on_success(self) -> bool:
        """Whether an episode ends where its goal is achieved; else the last step's counts."""

    @property
    def threshold(self) -> float:
        """The distance at which a goal counts as achieved."""

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [...] of goals achieved and desired [..., goal].

        terminated: [...] bool, whether the episode ends with the step.
        """

    def goals(self, uniform: Tensor) -> Tensor:
        """Goals [..., goal], uniform, from numbers of that shape uniform in [0, 1)."""

    def contains(self, goals: Tensor) -> Tensor:
        """[...] bool: whether these [..., goal] are possible goals."""


class GoalsInBox:
    """The goals of a task that lie anywhere in the box [-half_width, half_width]^n."""

    half_width: float

    def goals(self, uniform: Tensor) -> Tensor:
        """Goals [..., n], uniform in the box, from numbers of that shape uniform in [0, 1)."""
        return (2 * uniform - 1) * self.half_width

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [..., n] lie in the box, [...]."""
        return (goals.abs() <= self.half_width).all(-1)
