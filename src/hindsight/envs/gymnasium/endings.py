"""Which goals end an episode of a third-party environment, from its functions and a trial."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.envs.gymnasium.goal_functions import Find, OfGoals, SuccessTest, method_of
from hindsight.envs.gymnasium.trial import SECONDS, Evidence
from hindsight.specs.errors import SpecError
from hindsight.specs.spaces import Array

#: Usual names of a success test, a method of the environment or of its task.
SUCCESS = ("_is_success", "is_success")
#: Advice if the environment does not reveal which goals end an episode.
WRITE = (
    "set terminates=goal or terminates=never, or write `def compute_terminated(self, "
    "achieved_goal, desired_goal, info): return ...` that returns True if a goal ends the episode"
)


def tests_of(
    name: str,
    env: gym.Env[Any, Any],
    rewards: OfGoals,
    best: float,
    step: tuple[Array, Array, Mapping[str, Any]],
) -> list[SuccessTest]:
    """The success tests of an environment, the first one first.

    `step` has the goals achieved and pursued, and the info, of the first step.
    """

    def test_of(key: str, find: Find, least: float | None) -> list[SuccessTest]:
        """The function as a success test; none if by it a goal does not achieve itself."""
        asks = OfGoals(f"{name}: {key}", find, env, *step)
        goal = step[1][None]
        return [SuccessTest(key, asks, least)] if asks(goal, goal)[0] else []

    known = list[SuccessTest]()
    if method_of(env, "compute_terminated") is not None:
        known = test_of("compute_terminated", partial(method_of, name="compute_terminated"), best)
        goals = _between(*step[:2])
        for test in known:
            # A fall may end an episode without achieving its goal; but where goals that do pay
            # less than the goal itself, rewards tell nothing of that.
            ends = test.asks(*goals) != 0
            if (ends & (rewards(*goals) < np.float32(best))).any():
                known = [test._replace(best=None)]
    places = product(("", "task"), SUCCESS)
    found = next((place for place in places if _success_of(env, *place) is not None), None)
    if found is not None and not known:
        with suppress(Exception):  # a method of that name with another meaning
            known = test_of(found[1], lambda env: _success_of(env, *found), None)
    return [*known, SuccessTest("compute_reward", rewards, best)]


def _success_of(env: gym.Env[Any, Any], part: str, key: str) -> Callable[..., Any] | None:
    """The success test `key` of an environment or its part, with the info as an argument."""
    function = method_of(env, key)
    if part:
        function = getattr(getattr(env.unwrapped, part, None), key, None)
    if not callable(function):
        return None
    return lambda achieved, desired, info: function(achieved, desired)


def _between(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Goals [n, *goal] on the line between these [*goal], close to the desired one and further."""
    shares = np.append(0, np.geomspace(1e-6, 1, 25)).reshape(-1, *(1,) * achieved.ndim)
    between = desired + shares * (achieved.astype(np.float64) - desired)
    if not np.issubdtype(achieved.dtype, np.floating):
        between = between.round()
    return between.astype(achieved.dtype), np.stack([desired] * len(between))


def ending_of(
    name: str, known: Sequence[SuccessTest], rewards: OfGoals, found: Evidence
) -> tuple[SuccessTest, bool, str]:
    """The success test, whether success ends an episode, and a message about it, from a trial.

    Raises SpecError if goals end episodes, or may, and it is unknown which.
    """
    if not found.in_time or not any(step.success for step in found.steps):
        if found.in_time and not found.terminates:
            line = (
                "a trial could not achieve a goal, and no episode was terminated, so goals are "
                "taken not to end episodes; if one does, training ends with an error (set "
                "terminates=goal if they do)"
            )
            return known[0], False, line
        why = "could not tell whether reaching the goal"
        if not found.in_time:
            why = f"of {SECONDS:g} s was too short to tell whether reaching the goal"
        raise SpecError(
            f"{name} has no compute_terminated, and a trial {why} ends an episode: {WRITE}"
        )
    reached, goals, successes, ended, _ = map(np.array, zip(*found.steps, strict=True))
    if not ended[successes].any():
        return known[0], False, "reaching a goal does not end an episode, whichever the goal"
    case = rewards(reached, goals), reached, goals
    agrees = [test for test in known if np.array_equal(test(*case), ended)]
    if not agrees:
        raise SpecError(
            f"{name} ends an episode when its goal is achieved, but it is unknown when other goals "
            f"would have ended it: {WRITE}"
        )
    line = (
        f"its episodes end at their goal; {agrees[0].name} decides when other goals end them "
        "(terminates=never: they do not)"
    )
    return agrees[0], True, line
