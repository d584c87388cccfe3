"""Any registered gymnasium environment with goals: what names it, and what it says of itself.

Sizes are the environment's own: it is made once per process, when its specification is checked, so
that what does not fit is told before anything is trained.
"""

import importlib
import io
import json
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hindsight.envs.robots import quicken
from hindsight.specs.base import Count, Spec
from hindsight.specs.errors import EnvironmentFailure, SpecError, guess

#: Tasks that have specifications of their own.
OURS = ("PredatorPrey-v0", "PointReach-v0", "BitFlipping-v0")
#: The goal dictionary, in the order in which a policy sees it.
GOAL_KEYS = ("achieved_goal", "desired_goal", "observation")


@dataclass(frozen=True)
class Facts:
    """What an environment says of itself."""

    goal: Box
    observation: Box  # beside the two goals
    action: Box | Discrete
    step_limit: int  # steps after which an episode is truncated
    achieved_reward: float  # where the achieved goal is the desired one
    terminates_on_success: bool
    #: (achieved goals [n, *goal], desired goals [n, *goal], n dictionaries) -> rewards [n]
    compute_reward: Callable[..., Any]


class GymnasiumSpec(Spec):
    """An environment by its gymnasium id, as `module:Name-v0` if importing `module` registers it.

    Its observations are dictionaries of `achieved_goal`, `desired_goal` and `observation`, its
    `compute_reward` takes batches of goals (gymnasium-robotics, `core.GoalEnv`).
    """

    id: str
    #: Handed to the environment when it is made.
    kwargs: dict[str, Any] = Field(default_factory=dict)
    #: Steps after which an episode is truncated; None: as registered.
    max_episode_steps: Count | None = None

    @model_validator(mode="after")
    def _can_be_made(self) -> "GymnasiumSpec":
        registered = _registered(self.id).max_episode_steps
        if self.max_episode_steps == registered:  # one name for one limit
            object.__setattr__(self, "max_episode_steps", None)
        if self.max_episode_steps is None and registered is None:
            raise SpecError(f"{self.id} is registered without a step limit: set max_episode_steps")
        _ = self.facts
        return self

    @property
    def facts(self) -> Facts:
        """What it says of itself; made once per process."""
        kwargs = json.dumps(self.kwargs, sort_keys=True)
        return _facts(self.id, kwargs, self.max_episode_steps)

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

    def make(self, **options: Any) -> gym.Env[Any, Any]:
        """The environment, under its step limit; `options` such as render_mode.

        Raises:
            SpecError: gymnasium cannot make it.
            EnvironmentFailure: it raised.
        """
        _registered(self.id)
        return _made(self.id, self.kwargs, self.max_episode_steps, options)


def size(space: Box) -> int:
    """Numbers in an element of a space."""
    return int(np.prod(space.shape))


def _registered(name: str) -> Any:
    """What gymnasium knows by this name; SpecError for nothing."""
    module, _, bare = name.rpartition(":")
    if module:
        _import(module, name)
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
        meant = guess(name, OURS)
        raise SpecError(f"{name!r} is unknown: {_one_line(error)}{meant}") from None


def _import(module: str, name: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in (module, module.split(".")[0]):
            raise SpecError(f"{name!r} is unknown: there is no module {module!r}") from None
        raise EnvironmentFailure.of(f"{name}: importing {module} failed", error) from error


def _made(
    name: str, kwargs: dict[str, Any], limit: int | None, options: dict[str, Any]
) -> gym.Env[Any, Any]:
    try:
        env = gym.make(name, max_episode_steps=limit, disable_env_checker=True, **options, **kwargs)
    except gym.error.Error as error:
        raise SpecError(f"{name} cannot be made: {_one_line(error)}") from None
    except Exception as error:
        raise EnvironmentFailure.of(f"{name}: making it with {kwargs} failed", error) from error
    quicken(env)
    return env


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")


@cache
def _facts(name: str, kwargs: str, limit: int | None) -> Facts:
    """Make it, look at its spaces, and try a step; SpecError for what cannot be trained on."""
    env = _made(name, json.loads(kwargs), limit, {})
    goal, observation = _goal_spaces(name, env)
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
    if not np.isclose(expected[0], float(step[1]), rtol=1e-4, atol=1e-6):
        raise SpecError(
            f"{name}: a step's reward was {float(step[1]):g} where compute_reward says "
            f"{expected[0]:g}: rewards must follow from the two goals alone"
        )
    compute_terminated = _method(env, "compute_terminated")
    terminates = False
    if compute_terminated is not None:
        try:
            terminates = bool(np.all(compute_terminated(desired, desired, {})))
        except Exception as error:
            raise EnvironmentFailure.of(f"{name}: compute_terminated failed", error) from error
    spec = env.spec
    assert spec is not None and spec.max_episode_steps is not None
    return Facts(
        goal, observation, action, spec.max_episode_steps, float(expected[1]) + 0.0, terminates,
        compute_reward,
    )  # fmt: skip


def rewards(
    name: str,
    compute_reward: Callable[..., Any],
    achieved: NDArray[Any],
    desired: NDArray[Any],
) -> NDArray[np.float32]:
    """Rewards [n] of goals achieved and desired [n, *goal], by the environment's own function.

    Raises:
        SpecError: it returns another shape.
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
    return found


def neutral(action: Box | Discrete) -> Any:
    """The middle of a box, or the first choice."""
    if isinstance(action, Discrete):
        return action.start
    return ((action.low + action.high) / 2).astype(action.dtype)


def _method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _goal_spaces(name: str, env: gym.Env[Any, Any]) -> tuple[Box, Box]:
    """Spaces of goals and of the observation; SpecError unless they are boxes of real numbers."""
    spaces = getattr(env.observation_space, "spaces", {})
    if not isinstance(spaces, dict) or set(spaces) != set(GOAL_KEYS):
        what = ", ".join(spaces) or type(env.observation_space).__name__
        raise SpecError(
            f"{name}: its observations must be dictionaries of {', '.join(GOAL_KEYS)}; "
            f"there is {what}"
        )
    for key, space in spaces.items():
        if not isinstance(space, Box):
            raise SpecError(f"{name}: {key} must be a Box; it is {type(space).__name__}")
    achieved, desired, observation = (spaces[key] for key in GOAL_KEYS)
    if achieved.shape != desired.shape:
        raise SpecError(
            f"{name}: achieved_goal {achieved.shape} and desired_goal {desired.shape} must have "
            "one shape"
        )
    return achieved, observation


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
