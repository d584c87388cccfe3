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
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import gymnasium as gym
from gymnasium.spaces import Discrete
from pydantic import Field, model_validator

from hindsight.envs.robots import quicken
from hindsight.specs.base import Count, EnvironmentSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import EnvironmentFailure, SpecError, guess, others_code
from hindsight.specs.kinds import entry
from hindsight.specs.own_code import digest_of, versions_of
from hindsight.specs.spaces import size

if TYPE_CHECKING:
    from hindsight.envs.facts import Facts

#: Packages whose environments may be made without anybody's naming them.
KNOWN = ("hindsight.envs", "gymnasium_robotics")
#: What gymnasium.make takes beside an environment's own keyword arguments.
RESERVED = ("id", "max_episode_steps", "disable_env_checker", "render_mode")
#: A word: "dense", "r" of a maze, "bottom burner"; nothing that could be a file's name.
WORD = re.compile(r"[\w +-]{0,64}")
#: Packages that register environments, by how the environments' names begin, ...
ROBOTICS = "gymnasium_robotics"
REGISTERED_BY = {
    "Panda": "panda_gym", "parking": "highway_env", "Fetch": ROBOTICS, "Hand": ROBOTICS,
}  # fmt: skip
#: ... and what to install where that is not the package's name.
INSTALL = {ROBOTICS: "gymnasium-robotics==1.4.2 mujoco==3.10.0"}

#: Which goals end an episode: those that are achieved, or none.
Terminates = Literal["goal", "never"]
#: What becomes of rewards beyond those that goals explain.
Rest = Literal["keep", "drop", "refuse"]


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
            self._reset("max_episode_steps")
        if self.max_episode_steps is None and limit is None:
            with others_code(self.called):
                found = entry("hindsight.envs.facts:own_step_limit")(self.make())
            if found is None:
                raise SpecError(
                    f"{self.called} has no step limit: say after how many steps an episode is to "
                    "be cut, as max_episode_steps=100"
                )
            object.__setattr__(self, "max_episode_steps", found)
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
    def facts(self) -> "Facts":
        """What it says of itself; made once per process."""
        with others_code(self.called):
            return _facts(self.model_dump_json())

    @property
    def called(self) -> str:
        """Its name in messages: of one that was given as an object, its class's."""
        return re.sub(r"^given/(.*?)\d+-v0$", r"\1", self.id)

    @property
    def step_limit(self) -> int:
        return self.facts.step_limit

    @property
    def goal_size(self) -> int:
        """Numbers in a goal."""
        return size(self.facts.goal)

    @property
    def observation_size(self) -> int:
        """Numbers a policy sees: both goals and the observation."""
        return sum(map(size, self.facts.spaces.values()))

    @property
    def n_choices(self) -> int | None:
        action = self.facts.action
        return int(action.n) if isinstance(action, Discrete) else None

    @property
    def action_size(self) -> int:
        action = self.facts.action
        return 1 if isinstance(action, Discrete) else size(action)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.facts.notes

    @property
    def own_code(self) -> str:
        return "" if is_known(self.id) else digest_of(self.id, registered(self.id).entry_point)

    @property
    def versions(self) -> dict[str, str]:
        return {} if is_known(self.id) else versions_of(self.id, registered(self.id).entry_point)

    @property
    def words(self) -> str:
        return re.sub(r"[^\w.-]+", "-", super().words.rpartition(":")[2])

    def succeeded(
        self, before: Mapping[str, Any], obs: Mapping[str, Any], info: Mapping[str, Any]
    ) -> bool:
        facts = self.facts
        return facts.is_success(facts.goal_of(before, "desired_goal"), obs, info)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.facts.spaces)

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
        given = {"max_episode_steps": self.max_episode_steps, **options, **self.kwargs}
        try:
            env = gym.make(self.id, disable_env_checker=True, **given)
        except gym.error.Error as error:
            raise SpecError(f"{self.id} cannot be made: {_one_line(error)}") from None
        except Exception as error:
            if isinstance(error, TypeError) and is_known(self.id):  # a keyword that it has not
                raise SpecError(
                    f"{self.id} cannot be made with {self.kwargs}: {_one_line(error)}"
                ) from None
            raise EnvironmentFailure.of(
                f"{self.id}: making it with {self.kwargs} failed", error
            ) from error
        quicken(env)
        return env


def is_known(name: str) -> bool:
    """Whether an id is of an environment of ours or of gymnasium-robotics; imports nothing else.

    Raises SpecError where gymnasium knows none of this name.
    """
    module, _, bare = name.rpartition(":")
    if module not in ("", *KNOWN) or _registering(bare) not in (None, ROBOTICS):
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
    if module:
        _import(module, name)
    elif bare not in gym.registry:
        _import_what_registers(bare)
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


def _import_what_registers(name: str) -> None:
    package = _registering(name) or ROBOTICS
    try:
        # It writes warnings about environments that nobody asked for.
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            importlib.import_module(package)
    except ImportError as error:
        if _registering(name) is not None:
            called = package.replace("_", "-")
            raise SpecError(
                f"{name} is one of {called}, which cannot be imported ({_one_line(error)}): "
                f"pip install {INSTALL.get(package, called)}"
            ) from None
    except Exception as error:
        if "MUJOCO_GL" not in os.environ:
            raise
        # MuJoCo loads the library that this names, and fails in as many ways as there are.
        raise SpecError(
            f"{package} cannot be imported with MUJOCO_GL={os.environ['MUJOCO_GL']}: "
            f"{_one_line(error)}"
        ) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".")


@cache
def _facts(values: str) -> "Facts":
    spec = GymnasiumSpec.model_construct(**json.loads(values))
    # What finds them out is no part of what a cell of another environment depends on.
    find = entry("hindsight.envs.facts:facts_of")
    facts: Facts = find(spec.called, spec.make, spec.terminates, spec.rest)
    return facts
