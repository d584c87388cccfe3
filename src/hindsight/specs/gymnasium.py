"""Any registered gymnasium environment with goals: what names it, and what it says of itself.

Sizes are the environment's own: it is made once per process, when its specification is checked, so
that what does not fit is said before anything is trained.
"""

import importlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hindsight.envs.robots import quicken
from hindsight.specs.base import GOAL_KEYS, Count, EnvironmentSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import EnvironmentFailure, SpecError, guess, others_code
from hindsight.specs.goal_rules import (
    SuccessTest,
    alike,
    as_success_test,
    own_success_test,
    success_in,
    tried,
)
from hindsight.specs.own_code import digest_of, versions_of

#: Packages whose environments may be made without anybody's naming them.
KNOWN = ("hindsight.envs", "gymnasium_robotics")
#: What gymnasium.make takes beside an environment's own keyword arguments.
RESERVED = ("id", "max_episode_steps", "disable_env_checker", "render_mode")
#: A word: "dense", "r" of a maze, "bottom burner"; nothing that could be a file's name.
WORD = re.compile(r"[\w +-]{0,64}")
#: Packages that register environments, by how the environments' names begin.
REGISTERED_BY = {"Panda": "panda_gym", "parking": "highway_env"}

#: Which goals end an episode: those that are achieved, or none.
Terminates = Literal["goal", "never"]
#: What becomes of rewards beyond those that goals explain.
Rest = Literal["keep", "drop", "refuse"]


#: Beyond it a reward is an error of the environment's, not a scale.
LARGEST_REWARD = 1e8


@dataclass(frozen=True)
class Facts:
    """What an environment says of itself, and what was found by trying it out."""

    goal: Box
    observation: Box  # beside the two goals
    #: What a policy sees, in this order: the goal dictionary's keys, and others with numbers.
    keys: tuple[str, ...]
    action: Box | Discrete
    step_limit: int  # steps after which an episode is truncated
    achieved_reward: float  # where the achieved goal is the desired one
    terminates_on_success: bool
    #: (achieved goals [n, *goal], desired goals [n, *goal], n dictionaries) -> rewards [n]
    compute_reward: Callable[..., Any]
    #: Which goals are achieved; None: those with the reward of a goal that is achieved exactly.
    success_test: SuccessTest | None
    #: What a person should know before training, one sentence each.
    notes: tuple[str, ...]

    def achieved(
        self, rewards: NDArray[np.float32], achieved: NDArray[Any], desired: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Which goals [n, *goal] are achieved, [n] bool; `rewards` [n] are theirs."""
        if self.success_test is None:
            return rewards >= np.float32(self.achieved_reward)
        return self.success_test(achieved, desired)


class GymnasiumSpec(EnvironmentSpec):
    """An environment by its gymnasium id, as `module:Name-v0` if importing `module` registers it.

    Its observations are dictionaries of `achieved_goal`, `desired_goal` and `observation`, its
    `compute_reward` takes batches of goals (gymnasium-robotics, `core.GoalEnv`).
    """

    entry_point: ClassVar[str] = "hindsight.envs.goal_environments:GoalEnvironments"
    foreign: ClassVar[bool] = True

    id: str
    #: Handed to the environment when it is made.
    kwargs: dict[str, Any] = Field(default_factory=dict)
    #: Steps after which an episode is truncated; None: as registered.
    max_episode_steps: Count | None = None
    #: Which goals end an episode; None: as `compute_terminated` says, or as trying it out shows.
    terminates: Terminates | None = None
    #: Rewards beyond `compute_reward`: kept under every goal, dropped, or an error.
    rest: Rest = "keep"

    @model_validator(mode="after")
    def _can_be_made(self) -> "GymnasiumSpec":
        limit = registered(self.id).max_episode_steps
        self._kwargs_open_nothing()
        if self.max_episode_steps == limit:  # one name for one limit
            object.__setattr__(self, "max_episode_steps", None)
        if self.max_episode_steps is None and limit is None:
            raise SpecError(
                f"{self.id} is registered without a step limit: set max_episode_steps, as with "
                "--set max_episode_steps=100"
            )
        _ = self.facts
        return self

    def _kwargs_open_nothing(self) -> None:
        """SpecError for what is gymnasium's own, or of a known environment could name a file."""
        if reserved := sorted(self.kwargs.keys() & set(RESERVED)):
            raise SpecError(f"kwargs.{reserved[0]} is not allowed: it is none of the environment's")
        if not is_known(self.id):
            return
        for key, value in self.kwargs.items():
            if not _is_plain(value):
                raise SpecError(
                    f"kwargs.{key}: {value!r} is not allowed: of {self.id} it is numbers, words "
                    "and lists of them; for a model of your own register an environment of your own"
                )

    @property
    def facts(self) -> Facts:
        """What it says of itself; made once per process."""
        kwargs = json.dumps(self.kwargs, sort_keys=True)
        with others_code(self.id):
            return _facts(self.id, kwargs, self.max_episode_steps, self.terminates, self.rest)

    @property
    def step_limit(self) -> int:
        """Steps after which an episode is truncated."""
        return self.facts.step_limit

    @property
    def goal_size(self) -> int:
        """Numbers in a goal."""
        return size(self.facts.goal)

    @property
    def observation_size(self) -> int:
        """Numbers a policy sees: both goals and the observation."""
        return 2 * self.goal_size + size(self.facts.observation)

    @property
    def n_choices(self) -> int | None:
        """Actions are 0 ... n_choices - 1; None: they are continuous."""
        action = self.facts.action
        return int(action.n) if isinstance(action, Discrete) else None

    @property
    def action_size(self) -> int:
        """Numbers in an action; a choice is one number."""
        action = self.facts.action
        return 1 if isinstance(action, Discrete) else size(action)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of it before training, one sentence each."""
        return self.facts.notes

    @property
    def own_code(self) -> str:
        """A digest of its source, where that is a person's own; else empty."""
        return "" if is_known(self.id) else digest_of(self.id, registered(self.id).entry_point)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that a person's own environment uses, by their names."""
        return {} if is_known(self.id) else versions_of(self.id, registered(self.id).entry_point)

    @property
    def words(self) -> str:
        """It, in the path of a cell."""
        return re.sub(r"[^\w.-]+", "-", super().words.rpartition(":")[2])

    def achieves(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.bool_]:
        """Which goals [n, *goal] are achieved, [n] bool."""
        found = np.empty(0, np.float32)
        if self.facts.success_test is None:
            found = rewards(self.id, self.facts.compute_reward, achieved, desired)
        return self.facts.achieved(found, achieved, desired)

    def is_success(
        self, desired: NDArray[Any], obs: Mapping[str, Any], info: Mapping[str, Any]
    ) -> bool:
        """Whether a step achieved the goal [*goal] that it pursued: `info` or the goals say so."""
        said = success_in(info)
        if said is None:
            achieved = goal_of(self.facts, obs, GOAL_KEYS[0])
            return bool(self.achieves(achieved[None], desired[None])[0])
        return said

    def succeeded(
        self, before: Mapping[str, Any], obs: Mapping[str, Any], info: Mapping[str, Any]
    ) -> bool:
        """Whether the step from one observation to the next achieved the goal that it pursued."""
        return self.is_success(goal_of(self.facts, before, GOAL_KEYS[1]), obs, info)

    @property
    def keys(self) -> tuple[str, ...]:
        """Parts of an observation, in the order in which a policy sees them."""
        return self.facts.keys

    def with_parameters(self, given: dict[str, Any]) -> Self:
        """The same with these in its constructor, too."""
        return self.model_copy(update={"kwargs": self.kwargs | given})

    def make(self, **options: Any) -> gym.Env[Any, Any]:
        """The environment, under its step limit; `options` such as render_mode.

        Raises:
            SpecError: gymnasium cannot make it.
            EnvironmentFailure: it raised.
        """
        registered(self.id)
        return _made(self.id, self.kwargs, self.max_episode_steps, options)


def goal_of(facts: Facts, obs: Mapping[str, Any], key: str) -> NDArray[Any]:
    """A goal [*goal] of an observation, as a copy."""
    return np.array(obs[key], facts.goal.dtype).reshape(facts.goal.shape)


def size(space: Box) -> int:
    """Numbers in an element of a space."""
    return int(np.prod(space.shape))


def is_known(name: str) -> bool:
    """Whether an id is of an environment of ours or of gymnasium-robotics; imports nothing else.

    Raises SpecError where gymnasium knows none of this name.
    """
    module, _, bare = name.rpartition(":")
    if module not in ("", *KNOWN) or _registering(bare) is not None:
        return False
    entry = registered(name).entry_point  # text: where gymnasium imports it from
    return isinstance(entry, str) and entry.startswith(tuple(f"{known}." for known in KNOWN))


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None
    return value is None or isinstance(value, bool | int | float)


def _registering(name: str) -> str | None:
    """The package, if any, that registers an environment of such a name when it is imported."""
    return next((p for begin, p in REGISTERED_BY.items() if name.startswith(begin)), None)


def registered(name: str) -> Any:
    """What gymnasium knows by this name; SpecError for nothing."""
    module, _, bare = name.rpartition(":")
    package = _registering(bare)
    if module:
        _import(module, name)
    elif bare not in gym.registry and package is not None:
        _import_package(package, name)
    elif bare not in gym.registry:
        try:
            # It writes warnings about environments that nobody asked for.
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                importlib.import_module("gymnasium_robotics")
        except ImportError:
            if name.startswith(("Fetch", "Hand")):
                raise SpecError(
                    f"{name} is one of gymnasium-robotics, which cannot be imported: "
                    "pip install gymnasium-robotics==1.4.2 mujoco==3.10.0"
                ) from None
        except Exception as error:
            if "MUJOCO_GL" not in os.environ:
                raise
            # MuJoCo loads the library that this names, and fails in as many ways as there are.
            raise SpecError(
                f"gymnasium-robotics cannot be imported with MUJOCO_GL={os.environ['MUJOCO_GL']}: "
                f"{_one_line(error)}"
            ) from None
    try:
        return gym.spec(bare)
    except gym.error.Error as error:
        meant = guess(name, ENVIRONMENTS)
        raise SpecError(f"{name!r} is unknown: {_one_line(error)}{meant}") from None


def _import(module: str, name: str) -> None:
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # where a person's own environment lies
    try:
        with others_code(name):
            importlib.import_module(module)
    except EnvironmentFailure:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in (module, module.split(".")[0]):
            raise SpecError(f"{name!r} is unknown: there is no module {module!r}") from None
        raise EnvironmentFailure.of(f"{name}: importing {module} failed", error) from error


def _import_package(package: str, name: str) -> None:
    try:
        with redirect_stdout(io.StringIO()):
            importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        missing = package.replace("_", "-")
        raise SpecError(
            f"{name} is one of {missing}, which is not installed: pip install {missing}"
        ) from None


def _made(
    name: str, kwargs: dict[str, Any], limit: int | None, options: dict[str, Any]
) -> gym.Env[Any, Any]:
    try:
        env = gym.make(name, max_episode_steps=limit, disable_env_checker=True, **options, **kwargs)
    except gym.error.Error as error:
        raise SpecError(f"{name} cannot be made: {_one_line(error)}") from None
    except TypeError as error:
        if is_known(name):  # a keyword that it has not
            raise SpecError(f"{name} cannot be made with {kwargs}: {_one_line(error)}") from None
        raise EnvironmentFailure.of(f"{name}: making it with {kwargs} failed", error) from error
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: making it with {kwargs} failed", error) from error
    quicken(env)
    return env


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")


@cache
def _facts(
    name: str, kwargs: str, limit: int | None, terminates: Terminates | None, rest: Rest
) -> Facts:
    """Make it, look at its spaces, and try it; SpecError for what cannot be trained on."""

    def make() -> gym.Env[Any, Any]:
        return _made(name, json.loads(kwargs), limit, {})

    env = make()
    goal, observation, keys, left_out = _goal_spaces(name, env)
    action = _action_space(name, env)
    compute_reward = _method(env, "compute_reward")
    if compute_reward is None:
        raise SpecError(f"{name} has no compute_reward, which says what other goals would have won")
    try:
        obs, _ = env.reset(seed=0)
        step = env.step(neutral(action))
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: its first step failed", error) from error
    achieved = np.asarray(step[0]["achieved_goal"], goal.dtype).reshape(goal.shape)
    desired = np.asarray(obs["desired_goal"], goal.dtype).reshape(goal.shape)
    expected = rewards(
        name, compute_reward, np.stack([achieved, desired]), np.stack([desired, desired])
    )
    lines = [f"observation also holds {', '.join(keys[3:])}"] if len(keys) > 3 else []
    lines += [f"{', '.join(left_out)}: no numbers in a row, left out"] if left_out else []
    if not np.isclose(expected[0], float(step[1]), rtol=1e-4, atol=1e-6):
        paid = f"a step's reward was {float(step[1]):g} where compute_reward says {expected[0]:g}"
        if rest == "refuse":
            raise SpecError(f"{name}: {paid}: rewards must follow from the two goals alone")
        lines.append(f"{paid}; {REST[rest]}")
    best = float(expected[1]) + 0.0
    test, ends, line = _ending(
        name, env, make, neutral(action), goal, compute_reward, best, (achieved, desired),
        terminates,
    )  # fmt: skip
    spec = env.spec
    assert spec is not None and spec.max_episode_steps is not None
    return Facts(
        goal, observation, keys, action, spec.max_episode_steps, best, ends, compute_reward, test,
        tuple(f"{name}: {line}" for line in [*lines, *line]),
    )  # fmt: skip


#: What becomes of a reward that goals do not explain, in words.
REST = {
    "keep": "what goals do not explain is kept under every goal (--set rest=drop leaves it out)",
    "drop": "what goals do not explain is dropped",
}


def _ending(
    name: str,
    env: gym.Env[Any, Any],
    make: Callable[[], gym.Env[Any, Any]],
    idle: Any,
    goal: Box,
    compute_reward: Callable[..., Any],
    best: float,
    example: tuple[NDArray[Any], NDArray[Any]],
    terminates: Terminates | None,
) -> tuple[SuccessTest | None, bool, list[str]]:
    """Which goals are achieved (None: their reward tells), whether they end an episode, and how
    that was found, if a person should know.

    Raises:
        SpecError: goals end episodes, or may, and nothing tells which.
    """
    dtype, shape = goal.dtype, goal.shape

    def by_reward(achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.bool_]:
        return rewards(name, compute_reward, achieved, desired) >= np.float32(best)

    own, defined = own_success_test(env), _method(env, "compute_terminated")
    asked: list[tuple[str, SuccessTest]] = []
    if defined is not None:
        try:
            test = as_success_test(defined, example[1], takes_info=True)
            if test is not None and test(example[1][None], example[1][None])[0]:
                asked.append(("compute_terminated", test))
        except Exception as error:
            raise EnvironmentFailure.of(f"{name}: compute_terminated failed", error) from error
    if own is not None and not asked:
        with suppress(Exception):  # a method of that name that is about something else
            test = as_success_test(getattr(*own), example[1], takes_info=False)
            if test is not None and test(example[1][None], example[1][None])[0]:
                asked.append((own[1], test))
    known = dict([*asked, ("compute_reward", by_reward)])
    who, says = next(iter(known.items()))
    # Where the reward tells as well: that is asked anyway.
    test = None if alike(says, by_reward, *(goals[None] for goals in example)) else says
    if terminates is not None:
        return test, terminates == "goal", []
    if defined is not None:
        return test, who == "compute_terminated", []

    def success(reward: Any, info: Any) -> bool:
        said = success_in(info)
        return bool(np.float32(reward) >= np.float32(best)) if said is None else said

    try:
        steps = tried(make, idle, success)
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: trying it out failed", error) from error
    write = (
        "write `def compute_terminated(self, achieved_goal, desired_goal, info): return ...`, True "
        "where a goal ends the episode, or type --set terminates=never or --set terminates=goal"
    )
    if not steps:
        raise SpecError(
            f"{name} has no compute_terminated, and was not seen to achieve a goal, so that it is "
            f"unknown which goals end an episode: {write}"
        )
    if not any(step.terminated for step in steps if step.success):
        return test, False, ["it goes on where its goal is achieved, and so under other goals"]
    real = [step for step in steps if step.real]
    achieved, desired = (
        np.array([getattr(step, key) for step in real], dtype).reshape(-1, *shape)
        for key in ("achieved", "desired")
    )
    found = np.array([step.success for step in real], bool)
    agrees = [
        one
        for one, asks in known.items()
        if not real or np.array_equal(asks(achieved, desired), found)
    ]
    if not agrees:
        raise SpecError(
            f"{name} ends an episode where its goal is achieved, but nothing in it tells where "
            f"other goals would have: {write}"
        )
    if agrees[0] != who:
        who, test = agrees[0], None
    return (
        test,
        True,
        [
            f"it ends an episode where its goal is achieved; {who} tells where other goals end one "
            "(--set terminates=never: none does)"
        ],
    )


def rewards(
    name: str,
    compute_reward: Callable[..., Any],
    achieved: NDArray[Any],
    desired: NDArray[Any],
) -> NDArray[np.float32]:
    """Rewards [n] of goals achieved and desired [n, *goal], by the environment's own function.

    Raises:
        SpecError: it returns another shape, or what is no reward.
        EnvironmentFailure: it raised.
    """
    n = len(achieved)
    try:
        found = np.asarray(compute_reward(achieved, desired, [{}] * n), np.float32)
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: compute_reward of {n} goals failed", error) from error
    if found.shape != (n,):
        raise SpecError(
            f"{name}: compute_reward of {n} goals, arrays {achieved.shape}, must return {n} "
            f"rewards, shape ({n},), not {found.shape}"
        )
    if not (np.abs(found) <= LARGEST_REWARD).all():  # nor where one is no number
        strange = found[~(np.abs(found) <= LARGEST_REWARD)][0]
        raise SpecError(
            f"{name}: compute_reward gives {strange}; a reward must be a number within "
            f"±{LARGEST_REWARD:g}"
        )
    return found


def neutral(action: Box | Discrete) -> Any:
    """The middle of a box, or the first choice."""
    if isinstance(action, Discrete):
        return action.start
    return ((action.low + action.high) / 2).astype(action.dtype)


def _method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _goal_spaces(
    name: str, env: gym.Env[Any, Any]
) -> tuple[Box, Box, tuple[str, ...], tuple[str, ...]]:
    """Spaces of goals and of the observation, the keys that make it up, and those left out.

    Beside the goal dictionary's own, the keys of boxes of real numbers belong to the observation,
    in alphabetical order; pictures, choices and whatever else there is do not.

    Raises:
        SpecError: the goal dictionary's keys are not there, or not boxes of numbers.
    """
    spaces = getattr(env.observation_space, "spaces", {})
    if not isinstance(spaces, dict) or not set(spaces) >= set(GOAL_KEYS):
        what = ", ".join(spaces) or type(env.observation_space).__name__
        raise SpecError(
            f"{name}: its observations must be dictionaries of {', '.join(GOAL_KEYS)}; "
            f"there is {what}"
        )
    for key in GOAL_KEYS:
        if not isinstance(spaces[key], Box):
            raise SpecError(f"{name}: {key} must be a Box; it is {type(spaces[key]).__name__}")
    achieved, desired, observation = (spaces[key] for key in GOAL_KEYS)
    if achieved.shape != desired.shape:
        raise SpecError(
            f"{name}: achieved_goal {achieved.shape} and desired_goal {desired.shape} must have "
            "one shape"
        )
    others = sorted(set(spaces) - set(GOAL_KEYS))
    more = [key for key in others if _has_numbers(spaces[key])]
    if more:
        parts = [observation, *(spaces[key] for key in more)]
        low, high = (
            np.concatenate([np.ravel(getattr(part, side)) for part in parts]).astype(np.float64)
            for side in ("low", "high")
        )
        observation = Box(low, high, dtype=np.float64)
    left_out = tuple(key for key in others if key not in more)
    return achieved, observation, (*GOAL_KEYS, *more), left_out


def _has_numbers(space: Any) -> bool:
    return isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)


def _action_space(name: str, env: gym.Env[Any, Any]) -> Box | Discrete:
    """The action space; SpecError unless it is choices or a bounded box of real numbers."""
    space = env.action_space
    if isinstance(space, Discrete):
        return space
    if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
        raise SpecError(f"{name}: its actions must be a Box of real numbers or Discrete: {space}")
    if not space.is_bounded("both"):
        raise SpecError(f"{name}: its actions must have bounds, to which [-1, 1] is scaled")
    return space
