"""A third-party environment's functions of goals: rewards, and which goals are achieved."""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.spaces import Array, batch_for

#: Finds a function of goals in an instance of an environment.
Find = Callable[[gym.Env[Any, Any]], Callable[..., Any] | None]

#: A larger absolute reward counts as an error of the environment.
LARGEST_REWARD = 1e8
#: Steps whose goals are asked about again at the start of every episode.
KEPT = 32
#: How often a value that depends on the goal in another way than expected is asked for again.
REPEATS = 64


def method_of(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    """A method of an environment, or of one of its wrappers; None: there is none."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


class OfGoals:
    """An environment's function of goals, called for many goals at once.

    It is tried with a batch of three goals (four, if goals have three parts), with a batch of one,
    and with each of them.  If a batch fails or has another shape or other values, the function is
    called for one goal at a time from then on.
    """

    def __init__(
        self, what: str, find: Find, env: gym.Env[Any, Any], achieved: Array, desired: Array,
        info: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Try an environment's function on a step's goals [*goal] and its `info`.

        `find` returns the function of an instance; messages call it `what`.  Raises
        EnvironmentFailure if it does not return a number per goal, in a batch or singly.
        """
        self.what, self._find = what, find
        self._function: Any = find(env)
        n = batch_for(achieved.shape)
        goals = (
            np.stack([achieved, desired, *[achieved] * (n - 2)]),
            np.stack([desired, desired, *[achieved] * (n - 2)]),
        )
        # The default for `info`: none or, if the function needs it, that of this step.
        for self._info in ({}, dict(info or {})):  # some environments return None
            together = self._tried(self._batch, *goals, self._info)
            began = time.perf_counter()
            each = self._tried(self._singles, *goals, self._info)
            self.seconds = (time.perf_counter() - began) / n  # per goal
            if not isinstance(together, Exception) or not isinstance(each, Exception):
                break
        self.one_at_a_time = False
        if not isinstance(each, Exception):
            alone = self._tried(self._batch, *(part[:1] for part in goals), self._info)
            self.one_at_a_time = any(
                isinstance(batch, Exception) or not np.allclose(batch, singly, equal_nan=True)
                for batch, singly in ((together, each), (alone, each[:1]))
            )
        elif isinstance(together, Exception):
            raise EnvironmentFailure.of(f"{what} of {n} goals failed", together) from together
        self.reads_info = bool(self._info)

    def of(self, env: gym.Env[Any, Any]) -> "OfGoals":
        """The same function of another instance."""
        other = copy(self)
        other._function = self._find(env)
        return other

    def __call__(
        self, achieved: Array, desired: Array, info: Mapping[str, Any] | None = None
    ) -> NDArray[np.float32]:
        """The values [n] for goals [n, *goal] with one `info`; None: the default.

        Raises EnvironmentFailure if the function raises, or returns no number.
        """
        call = self._singles if self.one_at_a_time else self._batch
        try:
            found = call(achieved, desired, self._info if info is None else info)
            values = found.astype(np.float32)
            valid = np.abs(values) <= LARGEST_REWARD  # False for NaN
            if not valid.all():
                raise SpecError(
                    f"it returned {values[~valid][0]}, not a number within ±{LARGEST_REWARD:g}"
                )
        except Exception as error:
            what = f"{self.what} of {len(achieved)} goals failed"
            raise EnvironmentFailure.of(what, error) from error
        return values

    def beyond(
        self, paid: float, expected: float, achieved: Array, desired: Sequence[Array]
    ) -> float:
        """The part of a reward that neither goals [*goal] nor their rounding explain.

        expected: the reward of the goal pursued.
        desired: the goals before and after the step, either of which may decide.
        """
        rest = paid - expected
        if abs(rest) <= 1e-6 + 1e-5 * abs(paid):
            return 0.0
        return 0.0 if any(self._explains(paid, achieved, goal) for goal in desired) else rest

    def _explains(self, paid: float, achieved: Array, desired: Array) -> bool:
        """Whether a reward is that of goals [*goal], or lies among those within their rounding."""
        found = self(*nearby(achieved, desired)).astype(np.float64)
        slack = 1e-6 + 1e-5 * abs(paid)
        if np.issubdtype(achieved.dtype, np.floating):
            rounding = 16 * float(np.finfo(achieved.dtype).eps * np.abs(achieved).max())
            # Goals that rounding has made equal do not show how far they were apart.
            slack += rounding if np.linalg.norm(desired - achieved) <= rounding else 0.0
        if (np.abs(found - paid) <= slack).any():
            return True
        if len(np.unique(found)) <= 2:  # rewards do not change with every distance
            return False
        # Each number of both goals may be off by half of its last digit.
        digit = max(float(np.spacing(np.abs(goal).max())) for goal in (achieved, desired))
        by = 2 * achieved.size * digit / max(float(np.linalg.norm(desired - achieved)), 1e-9)
        within = self(*_moved(achieved, desired, by))
        return bool(within.min() - slack <= paid <= within.max() + slack)

    def _batch(self, achieved: Array, desired: Array, info: Mapping[str, Any]) -> Array:
        n = len(achieved)  # copies, because the function may change its arguments
        found = np.asarray(self._function(achieved.copy(), desired.copy(), [info] * n))
        if found.size != n:
            raise SpecError(f"it must return {n} numbers, shape ({n},), not {found.shape}")
        return found.reshape(n)

    def _singles(self, achieved: Array, desired: Array, info: Mapping[str, Any]) -> Array:
        found = []
        for pair in zip(achieved, desired, strict=True):
            # A discrete goal is a Python number, as in the environment.
            goals = [goal if goal.ndim else goal.item() for goal in map(np.array, pair)]
            found.append(np.asarray(self._function(*goals, info)).item())
        return np.array(found)

    @staticmethod
    def _tried(call: Callable[..., Array], *arguments: Any) -> Array | Exception:
        try:
            return call(*arguments)
        except Exception as error:
            return error


class SuccessTest(NamedTuple):
    """Tells which goals are achieved: by a function of goals, by the reward, or by both."""

    name: str  # of the function
    asks: OfGoals
    best: float | None  # reward of a success at least; None: any

    def __call__(self, found: Array, achieved: Array, desired: Array) -> NDArray[np.bool_]:
        """Which goals [n, *goal] are achieved, [n], given their rewards [n]."""
        enough = np.ones(len(found), bool) if self.best is None else found >= np.float32(self.best)
        if self.name == "compute_reward":
            return enough
        return enough & (self.asks(achieved, desired) != 0)


def nearby(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Goals [*goal] as given, and moved closer or further apart by a rounding error, [n, *goal]."""
    if not np.issubdtype(achieved.dtype, np.floating):
        return achieved[None], desired[None]
    far = float(np.linalg.norm(desired - achieved))
    large = float(max(np.abs(achieved).max(), 1e-9))
    return _moved(achieved, desired, 1e-5 + 1e-6 * large / max(far, 1e-9))


def _moved(achieved: Array, desired: Array, by: float) -> tuple[Array, Array]:
    """Goals [*goal] as given, and moved by this share of their distance, [3, *goal]."""
    gap = desired - achieved
    moved = np.stack([achieved, achieved + by * gap, achieved - by * gap])
    return moved.astype(achieved.dtype), np.stack([desired] * 3)


class ReadsState(SpecError):
    """A function of goals reads the environment's own state."""


class Constancy:
    """Watches that an environment's functions of goals depend on the goals alone.

    Relabelling asks one instance for rewards, later and without a step's info.  So the instance
    that steps may return more or less, but by the same under all goals, and the one that is asked
    must always return the same.
    """

    def __init__(self, rewards: OfGoals, test: SuccessTest, env: gym.Env[Any, Any]) -> None:
        functions = {"compute_reward": rewards, test.name: test.asks}
        self._functions = [(name, asked, asked.of(env)) for name, asked in functions.items()]
        #: Achieved and desired goals [3, *goal] of the first steps, and what was returned for them.
        self._kept: list[tuple[Array, Array, list[Array]]] = []
        self._first: Array | None = None  # the first goal achieved in the episode
        #: Whether the reward has depended on the desired goal, and otherwise whether the instances
        #: returned different ones for the same goals.
        self.depends, self._apart = False, False
        #: What the instance that stepped returned beyond the other one, for the same arguments.
        self.of_state = 0.0

    def begin(self) -> None:
        """Begin an episode; raises ReadsState if a function returns something else than before."""
        self._first = None
        if self._kept:
            achieved, desired, before = zip(*self._kept, strict=True)
            goals = np.concatenate(achieved), np.concatenate(desired)
            for i, (name, asked, _) in enumerate(self._functions):
                then = np.concatenate([answers[i] for answers in before])
                _compare(name, asked(*goals), "now", then, "at first")

    def forget(self) -> None:
        """Forget what was returned so far, because the environment was changed on purpose."""
        self._kept.clear()

    def conclude(self) -> None:
        """Raise ReadsState after a trial whose rewards depended on the instance, not on goals."""
        if self._apart and not self.depends:
            raise ReadsState(
                "compute_reward did not depend on its argument desired_goal, but on the "
                "environment's own goal, so rewards of relabelled goals would be wrong; it must "
                "use its arguments achieved_goal and desired_goal"
            )

    def check(
        self, achieved: Array, desired: Array, info: Mapping[str, Any]
    ) -> NDArray[np.float32]:
        """Raise ReadsState if a step's info, or the instance, matters to some goals only.

        Returns what the first function, `compute_reward`, returns for the goals [*goal]: [1].
        """
        self._first = achieved if self._first is None else self._first
        goals = np.array([achieved] * 3), np.array([desired, achieved, self._first])
        answers = [asked(*goals) for _, asked, _ in self._functions]
        for (name, asked, own), expected in zip(self._functions, answers, strict=True):
            found = own(*goals, info)
            more = found - expected
            if name == "compute_reward" and not self.depends:
                self.depends = bool(np.ptp(found) > 0 or np.ptp(expected) > 0)
                at_goal = desired[None], desired[None]
                own_reward, another = own(*at_goal, info), asked(*at_goal, info)
                self._apart |= not np.allclose(own_reward, another, rtol=1e-4, atol=1e-5)
            if not more.any():  # the usual case
                continue
            # A fall ends an episode under every goal.
            shared = np.ptp(more) <= 1e-5 + 1e-4 * np.abs(more).max()
            if name == "compute_reward" and shared and not self.of_state and abs(more[0]) > 1e-4:
                alone = float((own(*goals) - asked(*goals))[0])  # without the step's info
                self.of_state = alone if abs(alone) > 1e-4 else 0.0
            if shared or (name != "compute_reward" and found.all()):
                continue
            for _ in range(REPEATS):  # it may draw at random
                _compare(name, found, "at first", own(*goals, info), "right after")
            here = asked(*goals, info)
            _compare(name, found, "in the environment that took the step", here, "in another one")
            raise ReadsState(
                f"in {name}, the contribution of info depends on the goal ({more.min():+g} and "
                f"{more.max():+g}), so relabelled rewards are unknown; for an agent of your own, "
                "HindsightReplayBuffer(copy_infos=True) passes it the steps' infos (docs/replay.md)"
            )
        if len(self._kept) < KEPT:
            self._kept.append((*goals, answers))
        return answers[0][:1]


def _compare(name: str, found: Array, where: str, other: Array, elsewhere: str) -> None:
    """Raise ReadsState, with two of the values [n], unless both are equal."""
    for one, another in zip(found + 0.0, other + 0.0, strict=True):
        if abs(one - another) > 1e-5 + 1e-4 * abs(another):
            raise ReadsState(
                f"{name} reads the environment's own state: for the same goals it returned {one:g} "
                f"{where} and {another:g} {elsewhere}, so those of relabelled goals are unknown; "
                "make what it reads (a gripper, a tolerance) part of achieved_goal and "
                "desired_goal, or keep it the same throughout a training"
            )
