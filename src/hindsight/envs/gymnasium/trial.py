"""Trials of a third-party environment before training.

An environment is driven for a few steps, and its goal is moved to the agent, to see which episodes
end at their goal.  Decisions follow from a fixed number of steps: what takes too long decides
nothing, so that a slower machine asks instead of deciding otherwise.
"""

import inspect
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, is_dataclass
from itertools import count
from types import ModuleType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Space

from hindsight.envs.gymnasium.goal_functions import Constancy, ReadsState
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.specs.spaces import Actions, Array, action_of

#: What is said of a step that returns something else.
FIVE = "step must return five values: observation, reward, terminated, truncated and info"
#: Keys of a step's `info` that report success.
SUCCESS_KEYS = ("is_success", "success")
#: How an environment's own step limit is found: so many truncated episodes of one length, within
#: so many steps and seconds.
LIMIT_EPISODES, LIMIT_STEPS, LIMIT_SECONDS = 3, 10_000, 2.0
#: Steps and resets of a trial, and the seconds after which it decides nothing.
STEPS, RESETS, SECONDS = 100, 20, 2.0
#: Distances of the goals moved towards the agent, relative to the distance of the original goal.
DISTANCES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
#: Steps that are taken again without asking about goals: the rest must go as before.
UNASKED = 50
#: Resets that show where the goal is held, and objects in which it is looked for, nearest first.
LOOKS, OBJECTS = 4, 1000
#: A goal is looked for within an array of at most so many numbers.
LONGEST_STATE = 100


class Tried(NamedTuple):
    achieved: Array  # [*goal]
    desired: Array  # [*goal], pursued by the step
    success: bool
    ended: bool  # whether the goal ended the episode
    reward: float


@dataclass
class Evidence:
    steps: list[Tried] = field(default_factory=list)
    #: Achieved and desired goals at the start of episodes.
    starts: list[tuple[Array, Array]] = field(default_factory=list)
    #: First steps, and the same ones with the goal moved.
    moved: list[tuple[Tried, Tried]] = field(default_factory=list)
    #: The most by which a step changes each number of the achieved goal, and float32 rounds it.
    change: Array = field(default_factory=lambda: np.zeros(1))
    rounding: Array = field(default_factory=lambda: np.zeros(1))
    terminates: bool = False  # an episode was terminated, by whatever
    moves_on: bool = False  # an episode went on after a success, with another goal
    in_time: bool = True


def success_in(info: Mapping[str, Any]) -> bool | None:
    """Success as reported by a step's `info`; None: not reported.

    Raises SpecError for anything but true or false: Python would count NaN or a word as true.
    """
    key = next((key for key in SUCCESS_KEYS if key in (info or ())), None)
    if key is None:
        return None
    found = np.asarray(info[key])
    if found.size and found.dtype.kind in "biuf" and ((found == 0) | (found == 1)).all():
        return bool(found.all())
    raise SpecError(f"info[{key!r}] was {info[key]!r}; it must be True or False, or 1 or 0")


def neutral(action: Actions) -> Any:
    """The centre of a box, or the first choices."""
    return action_of(action, np.zeros(int(np.prod(action.shape or ())), np.float32))


def _stopwatch() -> Callable[[], float]:
    """Seconds of the processor from now on, however busy it is with others."""
    cpu, wall = time.process_time(), time.monotonic()
    # A simulator may be another process.
    return lambda: max(time.process_time() - cpu, (time.monotonic() - wall) / 5)


def driven(env: gym.Env[Any, Any], steps: int) -> Iterator[tuple[int, Any, tuple[Any, ...]]]:
    """Take `steps` steps, in episodes of random actions and of the neutral one in turn.

    Yields each step's number within its episode, the observation before it, and its result.
    Arrays are copied, because an environment may change those that it returned.
    """
    env.action_space.seed(0)
    taken, still = 0, neutral(env.action_space)  # type: ignore[arg-type]
    for episode in count():
        obs = deepcopy(env.reset(seed=episode)[0])
        for number in count(1):
            result = deepcopy(env.step(still if episode % 2 else env.action_space.sample()))
            yield number, obs, result
            obs, taken = result[0], taken + 1
            if taken == steps:
                return
            if result[2] or result[3]:
                break


def own_step_limit(env: gym.Env[Any, Any], name: str) -> int | None:
    """Steps after which an environment truncates all of its episodes itself; None: unknown.

    Raises EnvironmentFailure if a step fails, but for the first, which `facts` reports.
    """
    lengths, spent = list[int](), _stopwatch()
    print(
        f"{name}: no step limit is registered; looking for its own in trial episodes, for at most "
        f"{LIMIT_SECONDS:g} s",
        file=sys.stderr,
    )
    number = 0
    try:
        for number, _, result in driven(env, LIMIT_STEPS):
            if len(result) != 5:
                raise SpecError(f"{name}: {FIVE}")
            lengths += [number] if result[3] else []
            if len(set(lengths)) > 1:  # no limit: an agent may have left an arena
                return None
            if len(lengths) == LIMIT_EPISODES:
                return lengths[0]
            if spent() > LIMIT_SECONDS:
                return None
    except SpecError:
        raise
    except Exception as error:
        if number > 0:
            what = f"{name}: failed after step {number} of a trial episode"
            raise EnvironmentFailure.of(what, error) from error
    return None


def tried(
    env: gym.Env[Any, Any], best: float, watch: "Constancy", distances: Sequence[float]
) -> Evidence:
    """Drive an environment, then move its goal to these `distances` from the agent.

    If info does not tell, a step succeeds whose reward is at least `best`.  ReadsState is raised by
    `watch`, which sees the driven steps; any other error ends the trial, as training reports it.
    """
    found, spent, moves, was_success = Evidence(), _stopwatch(), False, False

    def ask(number: int, obs: Any, result: tuple[Any, ...]) -> None:
        if number == 1:
            watch.begin()
        pursued, achieved = np.array(obs["desired_goal"]), np.array(result[0]["achieved_goal"])
        watch.check(achieved, pursued, result[-1])

    def note(pursued: Array, result: tuple[Any, ...]) -> Tried:
        after, reward, terminated, _, info = result
        said, achieved = success_in(info), np.array(after["achieved_goal"])
        success = bool(np.float32(reward) >= np.float32(best) if said is None else said)
        found.in_time = spent() < SECONDS
        if not found.in_time:
            raise TimeoutError
        found.steps.append(Tried(achieved, pursued, success, bool(terminated), float(reward)))
        return found.steps[-1]

    try:
        for number, obs, result in driven(env, STEPS):
            pursued = np.array(obs["desired_goal"])
            before, after = (np.array(x["achieved_goal"], float).ravel() for x in (obs, result[0]))
            found.change = np.maximum(found.change, np.abs(after - before))
            found.rounding = np.maximum(found.rounding, np.abs(after - after.astype(np.float32)))
            step = note(pursued, result)
            ask(number, obs, result)
            was_success &= number > 1
            found.terminates |= step.ended
            # Another end than at the goal, such as a fall, says nothing about goals.
            found.steps[-1] = step._replace(ended=step.ended and step.success)
            if not np.array_equal(result[0]["desired_goal"], pursued):
                # The new goal may be seen one step later.
                found.moves_on |= (step.success and not step.ended) or was_success
                moves |= not (step.success or was_success)
            was_success = step.success
        watch.conclude()
        _must_not_change(env, ask, lambda: spent() < SECONDS)
        if moves:  # by which goal a step was judged is unknown
            found.steps.clear()
        for seed in range(RESETS):
            if spent() > SECONDS:
                break
            obs = deepcopy(env.reset(seed=seed)[0])
            found.starts.append((obs["achieved_goal"], obs["desired_goal"]))
        for goal, first, action, result in _with_goals_moved(env, distances):
            after, over = np.array(result[0]["desired_goal"]), moves or result[2] or result[3]
            if np.allclose(after, goal, rtol=1e-5, atol=1e-6):
                step = note(after, result)
                alike = np.array_equal(step.achieved, first.achieved)
                if alike and not moves and np.isfinite(first.reward):
                    found.moved.append((first, step))
                if step.success and not over:
                    found.moves_on |= not np.allclose(env.step(action)[0]["desired_goal"], goal)
            elif success_in(result[-1]) and not np.allclose(after, first.desired):
                found.moves_on |= not over
    except ReadsState:
        raise
    except Exception:  # which may not bear being changed
        pass
    return found


def _must_not_change(
    env: gym.Env[Any, Any], ask: Callable[..., None], in_time: Callable[[], bool]
) -> None:
    """Raise ReadsState if steps go otherwise because functions of goals were asked in between.

    Nothing is decided about an environment that does not repeat itself, nor out of time.
    """

    def taken(asks: bool) -> list[Any]:
        found = list[Any]()
        for number, obs, result in driven(env, UNASKED):
            if not in_time():
                raise TimeoutError
            if asks:
                ask(number, obs, result)
            found.append((np.asarray(result[0]["achieved_goal"]).tobytes(), *result[1:4]))
        return found

    with suppress(TimeoutError):
        asked, left = taken(True), taken(False)
        if asked != left and taken(True) == asked and taken(False) == left:
            raise ReadsState(
                "compute_reward, or another function of goals, changes the environment: steps went "
                "otherwise after it was asked about other goals; it must only return values"
            )


def _with_goals_moved(
    env: gym.Env[Any, Any], distances: Sequence[float]
) -> Iterator[tuple[Array, Tried, Any, tuple[Any, ...]]]:
    """First steps with the goal moved to where they lead, or nearby; they must repeat themselves.

    Yields the goal [*goal], the step before it was moved, the action and the step's result.
    """
    action: Any = neutral(env.action_space)  # type: ignore[arg-type]

    def places(seed: int) -> tuple[Array, dict[Any, tuple[Any, Any, Any]]]:
        goal = np.array(env.reset(seed=seed)[0]["desired_goal"])
        return goal, _places(env, goal)

    # A number that equals the goal's by chance does so in one episode.
    held = set.intersection(*({*places(seed)[1]} for seed in range(LOOKS)))
    for seed, distance in enumerate(distances if held else ()):
        paid = []
        for _ in range(2):
            env.reset(seed=seed)
            obs, reward, *_ = env.step(action)
            paid.append(float(reward))
        here = np.array(obs["achieved_goal"])
        # What does not repeat itself says nothing about goals.
        reward = paid[0] if paid[0] == paid[1] else np.nan
        before, found = places(seed)
        goal = (here + distance * (before - here)).astype(here.dtype)
        changed = [(place, found[place]) for place in held & found.keys()]
        try:
            for (_, part), (owner, key, old) in changed:
                _put(owner, key, _with_goal(old, part, goal))
            yield goal, Tried(here, before, False, False, reward), action, env.step(action)
        finally:
            for _, (owner, key, old) in changed:  # other environments may share the part
                _put(owner, key, old)


def _places(env: gym.Env[Any, Any], goal: Array) -> dict[Any, tuple[Any, Any, Any]]:
    """Where an environment, its wrappers and their parts hold the goal, or one of its numbers.

    Keys are the path and the number's index, or where the goal begins and ends in an array; values
    are the owner of the attribute or item, its name, and its value.
    """
    found, flat, seen = dict[Any, tuple[Any, Any, Any]](), np.ravel(goal), set[int]()
    queue: deque[tuple[tuple[Any, ...], Any]] = deque([((), env)])
    while queue and len(seen) < OBJECTS:
        path, owner = queue.popleft()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for key, value in _parts(owner):
            where = (*path, key)
            numbers = _numbers(value)
            if numbers is None or (numbers.size > flat.size and isinstance(value, list | tuple)):
                queue.append((where, value))
            if numbers is None:
                continue
            if 1 < flat.size <= numbers.size <= max(LONGEST_STATE, flat.size):
                windows = np.lib.stride_tricks.sliding_window_view(numbers, flat.size)
                for begin in np.isclose(windows, flat, rtol=1e-5).all(1).nonzero()[0].tolist():
                    found[where, (begin, begin + flat.size)] = owner, key, value
            elif numbers.size == 1 and (same := np.isclose(flat, numbers, rtol=1e-5)).any():
                found[where, int(same.argmax())] = owner, key, value
    return found


def _parts(owner: Any) -> list[tuple[Any, Any]]:
    """Attributes of an object that can be set, or items of a dictionary or a list."""
    if isinstance(owner, dict | list | tuple):
        return list(owner.items() if isinstance(owner, dict) else enumerate(owner))
    if isinstance(owner, type | ModuleType | Space) or inspect.isroutine(owner):
        return []
    names = set(getattr(owner, "__dict__", ()))
    for base in type(owner).__mro__[:-1]:
        names.update(getattr(base, "__slots__", ()))
        names.update(key for key, x in vars(base).items() if isinstance(x, property) and x.fset)
    parts = []
    for name in sorted(names):
        with suppress(Exception):  # which a property may raise
            parts.append((name, getattr(owner, name)))
    return parts


def _numbers(value: Any) -> Array | None:
    """The numbers [n] of a number, an array, a list or a tuple; None for anything else."""
    with suppress(Exception):
        numbers = np.asarray(value)
        return np.ravel(numbers) if numbers.dtype.kind in "iuf" else None
    return None


def _with_goal(old: Any, part: int | tuple[int, int], goal: Array) -> Any:
    """An array, a list, a tuple or a number as it would hold another goal, or a number of it."""
    numbers = np.array(old, order="C")
    if isinstance(part, tuple):
        numbers.ravel()[slice(*part)] = goal.ravel()
    else:
        numbers.ravel()[0] = goal.ravel()[part]
    if isinstance(old, np.ndarray | np.generic):
        return numbers if isinstance(old, np.ndarray) else numbers[()]
    plain = numbers.tolist()
    return type(old)(*plain) if hasattr(old, "_fields") else type(old)(plain)


def _put(owner: Any, key: Any, value: Any) -> None:
    """Set an attribute, also a frozen dataclass's, or an item; nothing if it cannot be set."""
    with suppress(AttributeError, TypeError):
        if isinstance(owner, dict | list):
            owner[key] = value
        else:
            (object.__setattr__ if is_dataclass(owner) else setattr)(owner, key, value)
