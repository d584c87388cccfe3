"""Vectorised calls of an environment's goal functions, such as `compute_reward`."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.spaces import Array

#: A larger absolute reward counts as an error of the environment.
LARGEST_REWARD = 1e8


class Watched(dict[str, Any]):
    """A step's info that records whether it was read."""

    was_read = False

    def __getitem__(self, key: str) -> Any:
        self.was_read = True
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.was_read = True
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """See `dict.get`."""
        self.was_read = True
        return super().get(key, default)


class OfGoals:
    """An environment's function of goals, called for many goals at once.

    It is tried with a batch of three goals and with each of them.  If the batch fails or has
    another shape or other values, the function is called for one goal at a time from then on.
    """

    def __init__(
        self, what: str, function: Callable[..., Any], achieved: Array, desired: Array,
        info: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Try `function` on the achieved and desired goal [*goal] of a step.

        Args:
            what: its name in messages.
            info: that of the step; None: the function has no such argument.

        Raises:
            EnvironmentFailure: it fails on a batch and on a single goal.
            SpecError: it does not return one number per goal.
        """
        self.what, self._function = what, function
        if info is None:
            self._function = lambda achieved, desired, info: function(achieved, desired)
        watched = Watched(info or {})
        goals = np.stack([achieved, desired, achieved]), np.stack([desired, desired, achieved])
        self.one_at_a_time = False
        together = self._tried(self._batch, *goals, watched)
        self.reads_info = watched.was_read
        began = time.perf_counter()
        each = self._tried(self._singles, *goals, watched)
        self.seconds = (time.perf_counter() - began) / 3  # per goal
        if isinstance(together, Exception) or together.shape != (3,):
            self.one_at_a_time = True
        elif not isinstance(each, Exception):
            self.one_at_a_time = not np.allclose(together, each, equal_nan=True)
        if self.one_at_a_time and isinstance(each, Exception):
            if isinstance(together, Exception):
                raise EnvironmentFailure.of(f"{what} of 3 goals failed", together) from together
            raise SpecError(
                f"{what} of 3 goals, arrays {goals[0].shape}, must return 3 numbers, shape (3,), "
                f"not {together.shape}"
            )
        if self.one_at_a_time:
            self.reads_info = watched.was_read
        #: The default for `info`.
        self._info: Mapping[str, Any] = dict(watched) if self.reads_info else {}

    def __call__(
        self, achieved: Array, desired: Array, info: Mapping[str, Any] | None = None
    ) -> Array:
        """The values [n] for goals [n, *goal] with one `info`; None: that of the first step.

        Raises EnvironmentFailure if the function raises.
        """
        call = self._singles if self.one_at_a_time else self._batch
        try:
            return call(achieved, desired, self._info if info is None else info)
        except Exception as error:
            what = f"{self.what} of {len(achieved)} goals failed"
            raise EnvironmentFailure.of(what, error) from error

    def _batch(self, achieved: Array, desired: Array, info: Mapping[str, Any]) -> Array:
        return np.asarray(self._function(achieved, desired, [info] * len(achieved)))

    def _singles(self, achieved: Array, desired: Array, info: Mapping[str, Any]) -> Array:
        found = []
        for pair in zip(achieved, desired, strict=True):
            # A discrete goal is a Python number, as in the environment.
            goals = [goal if goal.ndim else goal.item() for goal in map(np.asarray, pair)]
            found.append(np.asarray(self._function(*goals, info)).item())
        return np.array(found)

    @staticmethod
    def _tried(call: Callable[..., Array], *arguments: Any) -> Array | Exception:
        try:
            return call(*arguments)
        except Exception as error:
            return error

    @property
    def notes(self) -> list[str]:
        """Messages for the user, each the end of a sentence."""
        said = []
        if self.one_at_a_time:
            said.append(
                f"takes one goal at a time, so 1 000 relabelled steps take "
                f"{1e3 * self.seconds:.2g} s; training is faster if it accepts arrays of goals"
            )
        if self.reads_info:
            said.append("reads info: its effect on a step's reward is kept under every goal")
        return said


class Rewards(OfGoals):
    """`compute_reward`, returning validated float32 rewards [n]."""

    def __call__(
        self, achieved: Array, desired: Array, info: Mapping[str, Any] | None = None
    ) -> NDArray[np.float32]:
        """Rewards [n] for goals [n, *goal]; SpecError for an invalid one."""
        found = np.asarray(super().__call__(achieved, desired, info), np.float32)
        if found.shape != (len(achieved),):
            raise SpecError(f"{self.what} returns {found.shape} for {len(achieved)} goals")
        valid = np.abs(found) <= LARGEST_REWARD  # False for NaN
        if not valid.all():
            raise SpecError(
                f"{self.what} returned {found[~valid][0]}; a reward must be a number within "
                f"±{LARGEST_REWARD:g}"
            )
        return found


def nearby(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Goals [*goal] as given, and moved closer or further apart by a rounding error, [n, *goal]."""
    if not np.issubdtype(achieved.dtype, np.floating):
        return achieved[None], desired[None]
    gap = desired - achieved
    far, large = float(np.linalg.norm(gap)), float(max(np.abs(achieved).max(), 1e-9))
    by = 1e-5 + 1e-6 * large / max(far, 1e-9)
    moved = np.stack([achieved, achieved + by * gap, achieved - by * gap])
    return moved.astype(achieved.dtype), np.stack([desired] * 3)
