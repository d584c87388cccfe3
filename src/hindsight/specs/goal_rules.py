"""What an environment does where a goal is achieved: asked of it, or found by trying it out.

Relabelling must know which other goals would have ended an episode.  `compute_terminated` says so.
Where an environment has none, goals are put near the agent, and one looks on; or its own
test of success is made to say yes; or episodes of random actions come upon a goal.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from hindsight.specs.errors import SpecError

Array = NDArray[Any]
#: (achieved goals [n, *goal], desired goals [n, *goal]) -> which are achieved, [n] bool
SuccessTest = Callable[[Array, Array], NDArray[np.bool_]]

#: Names under which environments keep their test of success, theirs or their task's.
SUCCESS = ("_is_success", "is_success")
#: Where a step's `info` says whether it is a success.
SUCCESS_KEYS = ("is_success", "success")
#: Episodes of random actions are looked at for so long.
SECONDS = 0.5
#: Steps after which a goal is put near where the agent stands.
FIRST_STEPS = 2
#: How near, in distances to the goal that there was.
DISTANCES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)


class Tried(NamedTuple):
    """A step of an environment that was tried out."""

    achieved: Array  # [*goal]
    desired: Array  # [*goal]
    success: bool
    terminated: bool
    real: bool = True  # not only said to be a success


def success_in(info: Mapping[str, Any]) -> bool | None:
    """What a step's `info` says of success; None: nothing.

    Raises SpecError for what is neither true nor false: NaN or a word would count as a success.
    """
    key = next((key for key in SUCCESS_KEYS if key in info), None)
    if key is None:
        return None
    found = np.asarray(info[key])
    if found.size and found.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return bool(found.all())
    raise SpecError(f"info[{key!r}] was {info[key]!r}; success is True or False, or 1 or 0")


def as_success_test(
    function: Callable[..., Any], example: Array, *, takes_info: bool
) -> SuccessTest | None:
    """A function of the environment's as one of batches; row by row where it takes none.

    Args:
        example: a goal [*goal], to try it with.

    Returns None for one that takes no goals.
    """

    def single(achieved: Array, desired: Array) -> bool:
        info: list[Any] = [{}] if takes_info else []
        return bool(np.all(function(achieved, desired, *info)))

    def batch(achieved: Array, desired: Array) -> Any:
        infos: list[Any] = [[{}] * len(achieved)] if takes_info else []
        return np.asarray(function(achieved, desired, *infos))

    try:
        single(example, example)
    except TypeError:
        return None
    three = np.stack([example] * 3)
    with suppress(Exception):
        if batch(three, three).shape == (3,):
            return lambda achieved, desired: batch(achieved, desired).astype(bool)
    return lambda achieved, desired: np.array(
        [single(*pair) for pair in zip(achieved, desired, strict=True)], bool
    )


def own_success_test(env: gym.Env[Any, Any]) -> tuple[Any, str] | None:
    """The object that has the environment's own test of success, and its name there."""
    for owner in (env.unwrapped, getattr(env.unwrapped, "task", None)):
        for name in SUCCESS:
            if callable(getattr(owner, name, None)):
                return owner, name
    return None


def alike(one: SuccessTest, other: SuccessTest, achieved: Array, desired: Array) -> bool:
    """Whether two say the same of goals at all distances between these pairs [n, *goal]."""
    share = np.concatenate([[0.0], np.geomspace(1e-4, 1, 200), np.linspace(0, 1, 200)])
    share = share.reshape(-1, 1, *[1] * (achieved.ndim - 1))
    apart = (achieved + share * (desired - achieved)).astype(achieved.dtype)
    goals = np.broadcast_to(achieved, apart.shape)
    pairs = [x.reshape(-1, *achieved.shape[1:]) for x in (goals, apart)]
    return np.array_equal(one(*pairs), other(*pairs))


def clearly(test: SuccessTest, achieved: Array, desired: Array) -> bool | None:
    """Whether a goal [*goal] is achieved; None where rounding decides."""
    if not np.issubdtype(achieved.dtype, np.floating):
        return bool(test(achieved[None], desired[None])[0])
    said = test(*nearby(achieved, desired))
    return bool(said[0]) if said.all() or not said.any() else None


def nearby(achieved: Array, desired: Array) -> tuple[Array, Array]:
    """Pairs [3, *goal]: these goals, and closer and further by as much as rounding may change."""
    gap = desired - achieved
    far, large = float(np.linalg.norm(gap)), float(max(np.abs(achieved).max(), 1e-9))
    by = 1e-5 + 1e-6 * large / max(far, 1e-9)
    moved = np.stack([achieved, achieved + by * gap, achieved - by * gap])
    return moved.astype(achieved.dtype), np.stack([desired] * 3)


def tried(
    make: Callable[[], gym.Env[Any, Any]], idle: Any, success: Callable[[Any, Any], bool]
) -> list[Tried]:
    """Steps of which at least one achieves its goal, by the first way that works; or none.

    Args:
        make: a new environment, which is spoiled and closed.
        idle: an action that does little.
        success: whether a step achieved its goal, from its reward and its info.
    """
    for way in (_goals_put_near, _said_to_succeed, _random_episodes):
        env = make()
        try:
            steps = list(way(env, idle, success))
        finally:
            with suppress(Exception):
                env.close()
        if any(step.success for step in steps):
            return steps
    return []


def _holders(env: gym.Env[Any, Any], desired: Array) -> list[tuple[Any, str]]:
    """Attributes of the environment, or of what it consists of, that are the desired goal."""
    bare, found = env.unwrapped, []
    parts = [bare, *(p for p in vars(bare).values() if hasattr(p, "__dict__"))]
    for part in parts:
        for name, value in list(vars(part).items()):
            same = isinstance(value, np.ndarray) and value.shape == desired.shape
            if same and np.allclose(value, desired, rtol=1e-5):
                found.append((part, name))
    return found


def _goals_put_near(env: Any, idle: Any, success: Any) -> Iterator[Tried]:
    for seed, distance in enumerate(DISTANCES):
        obs, _ = env.reset(seed=seed)
        for _ in range(FIRST_STEPS):
            obs, _, terminated, truncated, _ = env.step(idle)
            if terminated or truncated:
                obs, _ = env.reset()
        here, before = np.array(obs["achieved_goal"]), np.array(obs["desired_goal"])
        goal = (here + distance * (before - here)).astype(here.dtype)
        for part, name in _holders(env, before):
            with suppress(AttributeError):  # of what cannot be changed
                setattr(part, name, goal.astype(getattr(part, name).dtype))
        obs, reward, terminated, _, info = env.step(idle)
        if np.allclose(obs["desired_goal"], goal, rtol=1e-5, atol=1e-6):
            achieved = np.array(obs["achieved_goal"])
            yield Tried(achieved, goal, success(reward, info), bool(terminated))


def _said_to_succeed(env: Any, idle: Any, success: Any) -> Iterator[Tried]:
    if (test := own_success_test(env)) is None:
        return
    env.reset(seed=0)
    setattr(*test, lambda *arguments, **named: np.True_)
    obs, _, terminated, _, info = env.step(idle)
    if success_in(info):  # so it is what decides
        goals = np.array(obs["achieved_goal"]), np.array(obs["desired_goal"])
        yield Tried(*goals, True, bool(terminated), real=False)


def _random_episodes(env: Any, idle: Any, success: Any) -> Iterator[Tried]:
    began, over = time.monotonic(), False
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    while time.monotonic() - began < SECONDS and not over:
        desired = np.array(obs["desired_goal"])
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        over = success(reward, info)
        yield Tried(np.array(obs["achieved_goal"]), desired, over, bool(terminated))
        if terminated or truncated:
            obs, _ = env.reset()
