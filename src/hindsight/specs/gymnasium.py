"""Specification of any registered gymnasium environment with goals.

Validation makes the environment once per process to read its spaces, so that errors show before
anything is trained.
"""

import difflib
import importlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Annotated, Any, ClassVar, Literal, Self

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Space, flatdim
from gymnasium.wrappers import AtariPreprocessing, MaxAndSkipObservation, TimeLimit
from pydantic import Field, model_validator

from hindsight import specs
from hindsight.specs.base import MOST, NUMBER, EnvironmentSpec, Success
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import EnvironmentFailure, SpecError, ends_forks, others_code
from hindsight.specs.own_code import digest_of, home_of, note
from hindsight.specs.robots import cache_joint_addresses
from hindsight.specs.spaces import Actions, action_choices, policy_inputs, policy_outputs

#: Namespace of the ids under which objects given as environments are registered in a process.
NAMESPACE = "given"
#: Packages whose environments a file may ask for without the user naming them.
KNOWN = ("hindsight.envs", "gymnasium_robotics")
#: gymnasium.make's own keyword arguments.
RESERVED = ("id", "max_episode_steps", "disable_env_checker", "render_mode")
#: Text that cannot be a file path, such as "dense", "r" in a maze, or "bottom burner".
WORD = re.compile(r"[\w +-]{0,64}")
#: The version at the end of an environment's id.
VERSION = re.compile(r"-v\d+$")
#: A step limit to suggest.
SOME_LIMIT = 100
#: Largest number, such as a picture's width.
LARGEST = 4096
#: Packages that register environments, and what to install, by the prefix of environments' names.
ROBOTICS = ("gymnasium_robotics", "gymnasium-robotics==1.4.2 mujoco==3.10.0")
PANDA, HIGHWAY = ("panda_gym", "panda-gym"), ("highway_env", "highway-env")
REGISTERED_BY = {"Panda": PANDA, "parking": HIGHWAY, "Fetch": ROBOTICS, "Hand": ROBOTICS}


#: The first instance of each environment in this process, which answers for its goals.
_first: dict[str, gym.Env[Any, Any]] = {}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a specification needs to know of its environment, from trying it."""

    #: The policy's inputs, in this order: the three goal keys, then other keys with numbers.
    spaces: Mapping[str, Space[Any]]
    action: Actions
    step_limit: int  # steps after which an episode is truncated
    achieved_reward: float  # the reward if achieved and desired goal are equal
    terminates_on_success: bool
    #: Messages for the user before training, one sentence each, and those about what may be wrong.
    notes: tuple[str, ...]
    alarms: tuple[str, ...]
    instance: gym.Env[Any, Any]  # which answers for goals

    @property
    def goal(self) -> Space[Any]:
        return self.spaces["achieved_goal"]


#: The facts of specifications, and gymnasium's own of the environment, by the former as JSON.
_found: dict[str, tuple[Any, Facts]] = {}
#: Instances that were made before the first one, by `_key`, and how to close them.
_spare: dict[str, tuple[gym.Env[Any, Any], Callable[[], None]]] = {}


class TheOnlyOne(gym.Wrapper[Any, Any, Any, Any]):
    """The first instance of an environment, in place of another one, which could not be made.

    Closing it does nothing.  Whoever resets it last has it.
    """

    def __init__(self, env: gym.Env[Any, Any], name: str, error: Exception) -> None:
        super().__init__(env)
        because = f"{type(error).__name__}: {_one_line(error)}"
        #: Why there is only one.
        self.why = f"only one instance of {name} can exist, as another one failed ({because})"

    @property
    def is_taken(self) -> bool:
        """Whether somebody else has reset it since."""
        return vars(self.env).get("holder") is not self

    def reset(self, **options: Any) -> Any:
        vars(self.env)["holder"] = self
        return self.env.reset(**options)

    def close(self) -> None:
        pass


class GymnasiumSpec(EnvironmentSpec):
    """An environment by its gymnasium id, or `module:Name-v0` if importing `module` registers it.

    Observations are dictionaries of `achieved_goal`, `desired_goal` and `observation`;
    `compute_reward` takes batches of goals (gymnasium-robotics, `core.GoalEnv`).
    """

    entry_point: ClassVar[str] = "hindsight.envs.goal_environments:GoalEnvironments"
    foreign: ClassVar[bool] = True
    #: A run's evaluation episodes at the same time: each takes memory.
    parallel_episodes: ClassVar[int] = 4

    id: str
    kwargs: dict[str, Any] = Field(default={})
    """Keyword arguments of the environment's constructor."""
    max_episode_steps: Annotated[int, Field(ge=1, le=MOST), NUMBER] | None = None
    """Steps after which an episode is truncated; null: as registered."""
    terminates: Literal["goal", "never"] | None = None
    """Whether success ends an episode; null: found by `compute_terminated`, or else by trial."""
    success: Success = "last"
    """Which steps make an episode a success: the last one, or any of them."""
    rest: Literal["keep", "drop", "refuse"] = "keep"
    """Reward beyond `compute_reward`: kept under every goal, dropped, or an error."""

    @model_validator(mode="after")
    def _can_be_made(self) -> "GymnasiumSpec":
        limit, missing = registered(self.id).max_episode_steps, list[str]()
        seen: Space[Any] | None = None
        self._kwargs_open_nothing()
        if self.max_episode_steps == limit:  # equal trainings share a name
            self._reset("max_episode_steps")
        if self.max_episode_steps is None and limit is None:
            with others_code(self.called):
                env = self.make()
                seen = env.observation_space
                policy_outputs(self.called, env.action_space)
                limit = limit_of(env) if _shows_each_step(env) else None
                limit = limit or specs.trials().own_step_limit(env, self.called)
                keep(self.id, self.kwargs, getattr(env, "env", env), closes=True)
            if (limit or 0) <= MOST:
                object.__setattr__(self, "max_episode_steps", limit or SOME_LIMIT)
            missing = [] if limit else [
                f"{self.called} has no step limit that is always the same, as far as a trial "
                f"could tell: set one, such as max_episode_steps={SOME_LIMIT}, or wrap it in "
                "gymnasium.wrappers.TimeLimit"
            ]  # fmt: skip
        if self.max_episode_steps is None and (limit or 0) > MOST:
            raise SpecError(
                f"{self.called} has a step limit of {limit:,}, and nothing can be learned or "
                "evaluated before an episode ends: set a lower one, such as max_episode_steps=100"
            )
        try:
            if seen is not None:  # making it again may take seconds
                policy_inputs(self.called, seen)
            _ = self.facts
        except SpecError as error:
            missing.append(str(error))
        if missing:
            raise SpecError("; and ".join(missing))
        return self

    def _kwargs_open_nothing(self) -> None:
        """Reject gymnasium's own arguments and, for known environments, possible file paths."""
        for key, value in self.kwargs.items():
            if key in RESERVED:
                raise SpecError(f"kwargs.{key} is not allowed: it is an argument of gymnasium.make")
            if is_known(self.id) and not _is_plain(value):
                raise SpecError(
                    f"kwargs.{key}: {value!r} is not allowed: {self.id} takes numbers, words and "
                    "lists of them; to use your own model, register your own environment"
                )

    @property
    def facts(self) -> Facts:
        """Properties of the environment, which is made once per process to find them."""
        values, known = self.model_dump_json(), gym.registry.get(self.id.rpartition(":")[2])
        if values not in _found or _found[values][0] is not known:  # or registered again
            _first.pop(values, None)
            with others_code(self.called):
                _first[values] = env = self.make()
                tried = specs.trials().find_facts
                found = tried(self.called, env, self.make, self.terminates, self.rest)
            _found[values] = known, found
        return _found[values][1]

    @property
    def called(self) -> str:
        """Name in messages; for an environment given as an object, its class."""
        return called(self.id)

    @property
    def step_ms(self) -> float:
        """Milliseconds that a step takes, by trying; 1 if that raises an error."""
        env, took = self.facts.instance, list[float]()
        with suppress(Exception), others_code(self.called):
            while len(took) < 20 and sum(took) < 50:
                env.reset(seed=len(took))
                for _ in range(2):
                    action, began = env.action_space.sample(), time.perf_counter()
                    env.step(action)
                    took.append(1e3 * (time.perf_counter() - began))
        return float(np.median(took or [1.0]))

    @property
    def step_limit(self) -> int:
        return self.facts.step_limit

    @property
    def goal_size(self) -> int:
        return flatdim(self.facts.goal)

    @property
    def observation_size(self) -> int:
        return sum(map(flatdim, self.facts.spaces.values()))

    @property
    def choices(self) -> tuple[int, ...]:
        return action_choices(self.facts.action)

    @property
    def action_size(self) -> int:
        return len(self.choices) or flatdim(self.facts.action)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user to read before training, one sentence each."""
        found = "max_episode_steps" not in self.model_fields_set and self.max_episode_steps
        limit = f"{self.called}: its own limit cuts episodes after {found} steps, or sooner"
        return (*self.facts.notes, *([limit] if found else []))

    @property
    def own_code(self) -> str:
        return "" if is_known(self.id) else digest_of(self.id, registered(self.id).entry_point)

    @property
    def words(self) -> str:
        return re.sub(r"[^\w.-]+", "-", super().words.rpartition(":")[2])

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.facts.spaces)

    def with_parameters(self, given: dict[str, Any]) -> Self:
        """Copy with additional keyword arguments of the constructor."""
        return self.model_copy(update={"kwargs": self.kwargs | given})

    def make(self, **options: Any) -> gym.Env[Any, Any]:
        """Make the environment with its step limit; `options` are passed on, such as render_mode.

        Raises SpecError if gymnasium cannot make it, and EnvironmentFailure if it raised.
        """
        registered(self.id)
        given = {"max_episode_steps": self.max_episode_steps, **options, **self.kwargs}
        try:
            with others_code(self.called):
                env = gym.make(self.id, disable_env_checker=True, **given)
        except EnvironmentFailure:  # it tried to exit
            raise
        except Exception as error:
            first = _first.get(self.model_dump_json())
            if first is not None and not options:
                return TheOnlyOne(first, self.called, error)
            if not options and (spare := _spare.pop(_key(self.id, self.kwargs), None)) is not None:
                again = replace(registered(self.id), entry_point=lambda **_: spare[0])
                limit = self.max_episode_steps
                return _guarded(gym.make(again, disable_env_checker=True, max_episode_steps=limit))
            if why := _outdated(self.id, error):
                raise SpecError(why) from None
            unknown_key = isinstance(error, TypeError) and (
                is_known(self.id)
                or any(f"unexpected keyword argument '{key}'" in str(error) for key in self.kwargs)
            )
            home = home_of(registered(self.id).entry_point)  # gymnasium's own may only say why not
            moved = isinstance(error, ImportError) and home.startswith("gymnasium.")
            if unknown_key or moved or isinstance(error, gym.error.Error):
                raise SpecError(
                    f"{self.id} cannot be made with {self.kwargs}: {_one_line(error)}"
                ) from None
            what = f"{self.id}: making it with {self.kwargs} failed"
            raise EnvironmentFailure.of(what, error) from error
        if (unused := _spare.pop(_key(self.id, self.kwargs), None)) is not None:
            unused[1]()
        cache_joint_addresses(env)
        env.close = partial(_close, env.close)  # type: ignore[method-assign]
        return _guarded(env)


def _guarded(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment, where what it forks ends with the call."""
    for name in ("reset", "step"):
        setattr(env, name, partial(ends_forks, getattr(env, name)))
    return env


def limit_of(env: gym.Env[Any, Any]) -> int | None:
    """Steps after which `gymnasium.make` or a TimeLimit truncates episodes; None: unknown."""
    limits = [] if env.spec is None else [env.spec.max_episode_steps]
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min((limit for limit in limits if limit is not None), default=None)


def _shows_each_step(env: Any) -> bool:
    """Whether no wrapper that repeats actions, as one of the user's may, is around a TimeLimit."""
    shows = so_far = True
    while isinstance(env, gym.Wrapper):
        known = type(env).__module__.partition(".")[0] in ("gymnasium", "hindsight")
        so_far &= known and not isinstance(env, MaxAndSkipObservation | AtariPreprocessing)
        shows = so_far if isinstance(env, TimeLimit) else shows
        env = env.env
    return shows


def keep(name: str, kwargs: Mapping[str, Any], env: gym.Env[Any, Any], closes: bool) -> None:
    """Keep an instance that was made of an id, for where no other can be made.

    closes: it is closed once another one was.
    """
    _spare[_key(name, kwargs)] = env, partial(_close, env.close) if closes else lambda: None


def _key(name: str, kwargs: Mapping[str, Any]) -> str:
    return json.dumps([name, dict(kwargs)], sort_keys=True, default=str)


def _close(close: Callable[[], None]) -> None:
    """Close an environment, whose own errors no longer matter."""
    with suppress(Exception):
        close()


def is_known(name: str) -> bool:
    """Whether an id belongs to this package or to gymnasium-robotics; imports nothing else.

    Raises SpecError if no environment of this name is registered.
    """
    module, _, bare = name.rpartition(":")
    if module not in ("", *KNOWN) or _registering(bare) not in (None, ROBOTICS):
        return False
    entry = registered(name).entry_point  # text: where gymnasium imports it from
    return isinstance(entry, str) and entry.startswith(tuple(f"{known}." for known in KNOWN))


def _is_plain(value: Any, depth: int = 4) -> bool:
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_plain(inner, depth - 1) for inner in value)
    if isinstance(value, str):
        return WORD.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float) and abs(value) <= LARGEST)


def _registering(name: str) -> tuple[str, str] | None:
    return next((p for begin, p in REGISTERED_BY.items() if name.startswith(begin)), None)


def called(name: str) -> str:
    """An environment's id; the class of one that was given as an object, which has a number."""
    return re.sub(rf"^{NAMESPACE}/(.*?)-?\d+-v0$", r"\1", name)


def registered(name: str) -> Any:
    """gymnasium's specification of a registered environment; raises SpecError if there is none."""
    module, _, bare = name.rpartition(":")
    if bare.startswith(f"{NAMESPACE}/") and bare not in gym.registry:
        raise SpecError(
            f"{called(name)}: was passed as an object in another process, and this one does not "
            "have it: save the model to a file there, and load(path, env=...) here"
        )
    if module:
        _import(module, name)
    elif bare not in gym.registry:
        _import_what_registers(bare)
    try:
        return gym.spec(bare)
    except gym.error.Error as error:
        newest, title = _newest(module), VERSION.sub("", bare)
        close = difflib.get_close_matches(title, newest, n=1)
        within = module and f"{module}:"
        meant = (
            f"; did you mean '{within}{newest[close[0]]}'?" if close else f": {_one_line(error)}"
        )
        if title in newest:  # another version of it
            meant = f": use '{within}{newest[title]}'"
        raise SpecError(f"{name!r} is unknown{meant}") from None


#: Ids that were registered when a user's module was imported.
ADDED_BY: dict[str, set[str]] = {}


def _newest(module: str = "") -> dict[str, str]:
    """The ids of the newest versions of all registered environments, by their names.

    module: only of those that its package defines, or that it registered when it was imported.
    """
    others = sorted(gym.registry.values(), key=lambda spec: spec.version or 0)
    if module:
        package, added = module.partition(".")[0], ADDED_BY.get(module, ())
        homes = {x.id: home_of(x.entry_point).partition(".")[0] for x in others}
        own = (x.id for x in others if x.id in added or homes[x.id] == package)
        return {VERSION.sub("", name): name for name in own}
    return {VERSION.sub("", name): name for name in (*ENVIRONMENTS, *(x.id for x in others))}


def _outdated(name: str, error: Exception) -> str:
    """Which versions keep an environment of gymnasium-robotics from being made; "": none."""
    entry, (package, to_install) = str(registered(name).entry_point), ROBOTICS
    if not entry.startswith(f"{package}."):
        return ""
    if ":MujocoPy" in entry or "mujoco_py" in str(error):
        newest = _newest()[VERSION.sub("", name.rpartition(":")[2])]
        return f"{name} needs mujoco_py, which is no longer maintained: use {newest!r}"
    if not isinstance(error, AssertionError | ImportError | gym.error.DependencyNotInstalled):
        return ""
    here = [f"{x} {version(x)}" for x in ("gymnasium-robotics", "mujoco")]
    if " ".join(here) == to_install.replace("==", " "):
        return ""
    return (
        f"{name} cannot be made with {' and '.join(here)}: pip install {to_install}, in a fresh "
        "environment, since replacing mujoco in this one may break it"
    )


def _import(module: str, name: str) -> None:
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # the user's own environment may be here
    if module.startswith(".") or not re.fullmatch(r"[\w.-]+", module):
        raise SpecError(f"{name!r} is unknown: {module!r} is no module; give its name alone")
    if module not in sys.modules:
        note(name)
    before = {*gym.registry}
    with others_code(name):
        try:
            importlib.import_module(module)
            ADDED_BY.setdefault(module, {*gym.registry} - before)
        except Exception as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name
            if missing in (module, module.partition(".")[0]):
                file = "; leave out .py" if module.endswith(".py") else ""
                raise SpecError(
                    f"{name!r} is unknown: there is no module {module!r}{file}"
                ) from None
            raise EnvironmentFailure.of(f"{name}: importing {module} failed", error) from error


def _import_what_registers(name: str) -> None:
    package, to_install = _registering(name) or ROBOTICS
    try:
        # It prints warnings about unrelated environments.
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            importlib.import_module(package)
    except ImportError as error:
        if _registering(name) is not None:
            raise SpecError(
                f"{name} is part of {package}, which cannot be imported ({_one_line(error)}): "
                f"pip install {to_install}"
            ) from None
    except Exception as error:
        if "MUJOCO_GL" not in os.environ:
            raise
        # MuJoCo loads the library that this variable names, which can raise any exception.
        raise SpecError(
            f"{package} cannot be imported with MUJOCO_GL={os.environ['MUJOCO_GL']}: "
            f"{_one_line(error)}"
        ) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")
