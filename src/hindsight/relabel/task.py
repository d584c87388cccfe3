"""What relabelling must know of environments: their goals and rewards."""

from typing import Protocol

from torch import Tensor


class Task(Protocol):
    """What hindsight must know of the environments of the runs at hand."""

    @property
    def terminates_on_success(self) -> bool:
        """Whether an episode ends where its goal is achieved; else the last step's counts."""

    @property
    def threshold(self) -> Tensor:
        """[run]: the distance at which a goal counts as achieved."""

    def select(self, runs: Tensor) -> "Task":
        """That of the runs with these indices, one of which may come several times."""

    def reward(
        self, next_achieved: Tensor, desired: Tensor, terminated: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rewards and successes [run, ...] of goals achieved and desired [run, ..., goal].

        terminated: [run, ...] bool, whether the episode ends with the step.
        """

    def goals(self, uniform: Tensor) -> Tensor:
        """Goals [run, ..., goal], uniform, from numbers of that shape uniform in [0, 1)."""

    def contains(self, goals: Tensor) -> Tensor:
        """[run, ...] bool: whether these [run, ..., goal] are goals that there are."""
