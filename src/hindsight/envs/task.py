"""What relabelling needs to know about an environment: its goals and rewards."""

from typing import Protocol

from torch import Tensor


class Task(Protocol):
    """Rewards and goal space of an environment."""

    @property
    def terminates_on_success(self) -> bool:
        """Whether achieving the goal ends the episode; if not, success is that of its last step."""

    @property
    def threshold(self) -> float:
        """The distance within which a goal is achieved."""

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [...] for achieved and desired goals [..., goal].

        terminated: [...] bool, whether the step ends the episode.
        """

    def goals(self, uniform: Tensor) -> Tensor:
        """Uniform samples [..., goal] of the goal space, from `uniform` [..., goal] in [0, 1)."""

    def contains(self, goals: Tensor) -> Tensor:
        """Whether goals [..., goal] lie in the goal space, [...] bool."""
