"""Functions of goals that an environment has: of many goals at once, however it takes them."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.spaces import Array

#: Beyond it a reward is an error of the environment's, not a scale.
LARGEST_REWARD = 1e8


class Watched(dict[str, Any]):
    """A step's info that remembers whether it was read."""

    was_read = False

    def _read(self) -> dict[str, Any]:
        self.was_read = True
        return self

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self._read(), key)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self._read(), key)

    def get(self, key: str, default: Any = None) -> Any:
        """As a dictionary's."""
        return dict.get(self._read(), key, default)


class OfGoals:
    """A function of an environment's for many goals, however many it takes at a time.

    It is tried with three goals together and with each of them.  Where the first fails, has another
    shape or other values, it is asked for one goal after the other.
    """

    def __init__(
        self, what: str, function: Callable[..., Any], achieved: Array, desired: Array,
        info: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Try it on an achieved and a desired goal [*goal] of a step; None: it takes no info.

        Raises:
            EnvironmentFailure: it fails on one goal and on several.
            SpecError: it gives something else than a number for each goal.
        """
        self.what, self._function = what, function
        watched = None if info is None else Watched(info)
        goals = np.stack([achieved, desired, achieved]), np.stack([desired, desired, achieved])
        self._info: Mapping[str, Any] | None = watched
        self.one_at_a_time = False
        together = self._tried(lambda: self._batch(*goals, [watched] * 3))
        self.reads_info = watched is not None and watched.was_read
        began = time.perf_counter()
        each = self._tried(lambda: self._singles(*goals, [watched] * 3))
        self.seconds = (time.perf_counter() - began) / 3  # for one goal
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
            self.reads_info = watched is not None and watched.was_read
        #: What it is given where no step's info is.
        self._info = None if watched is None else dict(info or {}) if self.reads_info else {}

    def __call__(
        self, achieved: Array, desired: Array, info: Mapping[str, Any] | None = None
    ) -> Array:
        """Its values [n] of goals [n, *goal], all with this info; None: that of the first step.

        Raises EnvironmentFailure where it raises.
        """
        infos = [self._info if info is None or self._info is None else info] * len(achieved)
        try:
            if self.one_at_a_time:
                return self._singles(achieved, desired, infos)
            return self._batch(achieved, desired, infos)
        except Exception as error:
            what = f"{self.what} of {len(achieved)} goals failed"
            raise EnvironmentFailure.of(what, error) from error

    def _batch(self, achieved: Array, desired: Array, infos: list[Any]) -> Array:
        more = [] if self._info is None else [infos]
        return np.asarray(self._function(achieved, desired, *more))

    def _singles(self, achieved: Array, desired: Array, infos: list[Any]) -> Array:
        found = []
        for pair, info in zip(zip(achieved, desired, strict=True), infos, strict=True):
            # A choice is a number of Python's, as the environment gave it.
            goals = [goal if goal.ndim else goal.item() for goal in map(np.asarray, pair)]
            more = [] if self._info is None else [info]
            found.append(np.asarray(self._function(*goals, *more)).item())
        return np.array(found)

    @staticmethod
    def _tried(ask: Callable[[], Array]) -> Array | Exception:
        try:
            return ask()
        except Exception as error:
            return error

    @property
    def notes(self) -> list[str]:
        """What a person should know of it, one sentence each."""
        said = []
        if self.one_at_a_time:
            said.append(
                f"takes one goal at a time, so that 1 000 relabelled steps take "
                f"{1e3 * self.seconds:.2g} s; let it take arrays of goals to train faster"
            )
        if self.reads_info:
            said.append("reads info: what it makes of a step's info is kept under every goal")
        return said


class Rewards(OfGoals):
    """`compute_reward`: float32 rewards [n]."""

    def __call__(
        self, achieved: Array, desired: Array, info: Mapping[str, Any] | None = None
    ) -> NDArray[np.float32]:
        """Rewards [n] of goals [n, *goal]; SpecError where one is no reward."""
        found = np.asarray(super().__call__(achieved, desired, info), np.float32)
        if found.shape != (len(achieved),):
            raise SpecError(f"{self.what} returns {found.shape} for {len(achieved)} goals")
        if not (np.abs(found) <= LARGEST_REWARD).all():  # nor where one is no number
            strange = found[~(np.abs(found) <= LARGEST_REWARD)][0]
            raise SpecError(
                f"{self.what} gives {strange}; a reward must be a number within ±{LARGEST_REWARD:g}"
            )
        return found


def nearby(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Pairs [n, *goal]: these goals, and closer and further by as much as rounding may change."""
    if not np.issubdtype(achieved.dtype, np.floating):
        return achieved[None], desired[None]
    gap = desired - achieved
    far, large = float(np.linalg.norm(gap)), float(max(np.abs(achieved).max(), 1e-9))
    by = 1e-5 + 1e-6 * large / max(far, 1e-9)
    moved = np.stack([achieved, achieved + by * gap, achieved - by * gap])
    return moved.astype(achieved.dtype), np.stack([desired] * 3)
