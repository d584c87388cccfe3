"""The rest: the part of a third-party environment's reward that its `compute_reward` lacks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np

from hindsight.envs.gymnasium.goal_functions import OfGoals, nearby
from hindsight.envs.gymnasium.goal_wrapper import GoalEnvironment
from hindsight.envs.gymnasium.trial import Evidence, Tried, driven
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.errors import SpecError

#: Gymnasium's wrappers that cannot be trained with, and why.
NOT_ALLOWED = {
    "NormalizeReward": "it divides rewards by a running number, and those of new goals by none",
    "DelayObservation": "a step's reward is not that of the goal that it then shows",
}
#: Steps by which an environment beneath its wrappers shows what it pays for.
STEPS_BENEATH = 20
#: Messages about the part of a reward that goals do not explain.
REST = {
    "keep": "the rest is kept under every goal, so it must not depend on the goal "
    "(rest=drop drops it)",
    "drop": "the rest is dropped",
}


def wrappers_of(name: str, env: Any) -> tuple[str, str]:
    """The innermost wrappers that change rewards, and observations: compute_reward may not know.

    Each is empty if there is none.  Raises SpecError for one that cannot be trained with.
    """
    changes = shows = ""
    while isinstance(env, gym.Wrapper):
        kind = type(env).__name__
        if isinstance(env, GoalEnvironment):  # which replaces goals and rewards
            break
        if (why := NOT_ALLOWED.get(kind)) and type(env).__module__.startswith("gymnasium."):
            raise SpecError(f"{name}: {kind} is not allowed, because {why}")
        changes = kind if isinstance(env, gym.RewardWrapper) else changes
        observes = gym.ObservationWrapper | gym.wrappers.FrameStackObservation
        shows = kind if isinstance(env, observes) else shows
        env = env.env
    return changes, shows


def rest_in(
    name: str,
    env: gym.Env[Any, Any],
    shown: Mapping[str, Any],
    wrappers: tuple[str, str],
    rewards: OfGoals,
    steps: Sequence[Tried],
) -> str:
    """A message if a step paid otherwise than compute_reward returns; empty if none did.

    shown: what the wrappers show after `reset(seed=0)`.

    Raises SpecError if rewards of relabelled goals would be wrong for that reason.
    """
    changes, shows = wrappers
    achieved, desired, _, _, paid = map(np.array, zip(*steps, strict=True))
    computed = rewards(achieved, desired)
    each = zip(paid.tolist(), computed.tolist(), achieved, desired, strict=True)
    rests = [rewards.beyond(reward, own, goal, [pursued]) for reward, own, goal, pursued in each]
    differ = np.array(rests) != 0
    if not differ.any():
        return ""
    if np.ptp(computed) > 0:
        largest = int(np.abs(computed).argmax())
        factor = paid[largest] / computed[largest]
        several = np.count_nonzero(computed) > 1 and factor != 0
        if several and np.allclose(factor * computed, paid, rtol=1e-4, atol=1e-6):
            raise SpecError(
                f"{name}: its steps pay {factor:g} times what compute_reward returns, so rewards "
                "of relabelled goals would be of another size: scale compute_reward, too"
            )
    near = 1e-5 + 1e-4 * np.abs(paid).max()
    varies = np.ptp(paid - computed) > near
    # A penalty of some steps is no function of compute_reward.
    follows = all(np.ptp(paid[computed == value]) <= near for value in np.unique(computed))
    if changes and varies and follows:
        raise SpecError(
            f"{name}: {changes} changes rewards by more than a constant, and compute_reward does "
            "not, so rewards of relabelled goals would be others: write a wrapper that changes both"
        )
    if shows and _pays_by_other_goals(env.unwrapped, shown):
        raise SpecError(
            f"{name}: {shows} changes goals, but compute_reward expects the environment's own, so "
            "relabelled goals would get wrong rewards: write a wrapper that changes both"
        )
    first = int(differ.argmax())
    return f"a step's reward was {paid[first]:g}, but compute_reward returns {computed[first]:g}"


def _pays_by_other_goals(env: Any, shown: Mapping[str, Any]) -> bool:
    """Whether an environment beneath wrappers pays what compute_reward says of its own goals."""
    with suppress(Exception):
        own, _ = env.reset(seed=0)
        if all(np.array_equal(own[key], shown[key]) for key in GOAL_KEYS[:2]):
            return False
        for _, obs, (after, paid, _, _, info) in driven(env, STEPS_BENEATH):
            goals = np.array(after["achieved_goal"]), np.array(obs["desired_goal"])
            if not np.isclose(float(env.compute_reward(*goals, info)), paid, rtol=1e-5, atol=1e-6):
                return False
        return True
    return False


def rest_depends(rewards: OfGoals, found: Evidence) -> bool:
    """Whether a step paid another rest once the goal was moved, beyond rounding."""
    for pair in found.moved:
        rests = [each.reward - rewards(*nearby(each.achieved, each.desired)) for each in pair]
        apart = np.abs(np.subtract.outer(*rests)).min()
        if apart > 1e-4 + 1e-4 * max(abs(each.reward) for each in pair):
            return True
    return False
