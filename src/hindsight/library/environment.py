"""Environments from a user: an id, a function that creates one, or an instance."""

import copy
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Any

import gymnasium as gym

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.envs.wrapper import GoalEnv
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import EnvironmentFailure, SpecError, others_code
from hindsight.specs.gymnasium import NAMESPACE, keep, limit_of

#: A gymnasium id, a function that creates an environment, or an environment.
Given = str | Callable[..., gym.Env[Any, Any]] | gym.Env[Any, Any]

#: Numbers of the objects in this process: another one, to which a model was pickled, has others.
_numbers = count(secrets.randbelow(10**9))


def environment_values(
    env: Given,
    env_kwargs: Mapping[str, Any] | None,
    max_episode_steps: int | None,
    settings: Collection[str] = (),
) -> dict[str, Any]:
    """Return the value of `environment` for `CellSpec`.

    An instance that gymnasium made is recreated from its id and arguments; any other is copied.
    `settings`: names of others, which one of our environments may have in `env_kwargs`, too.
    """
    if not isinstance(env_kwargs, Mapping | None):
        raise SpecError(f"env_kwargs: {env_kwargs!r} is not allowed; it must be a dictionary")
    kwargs = dict(env_kwargs or {})
    own = ENVIRONMENTS.get(env) if isinstance(env, str) else None  # whose fields are checked
    if own is not None and "id" in kwargs:
        raise SpecError("env_kwargs: id is not allowed; env is the environment's id")
    given = [*kwargs, *settings, *([] if max_episode_steps is None else ["max_episode_steps"])]
    for key, value in kwargs.items():
        kept = _read_back({key: value})
        if kept is None or (own is None and kept != {key: value}):
            raise SpecError(
                f"env_kwargs: {key}={value!r} is not allowed, because a file cannot hold it; pass "
                "a function that creates the environment instead, or a list instead of a tuple"
            )
    while type(env).__module__ == "stable_baselines3.common.monitor":
        env = env.env  # type: ignore[union-attr]
    if isinstance(env, gym.Env):
        if kwargs:
            raise SpecError("env_kwargs: only allowed if env is an id or a function")
        env, kwargs, shortest = _of_instance(env)
        max_episode_steps = shortest if max_episode_steps is None else max_episode_steps
    if not isinstance(env, str):
        if not callable(env):
            raise SpecError(
                f"env: {env!r} is not allowed; it must be a gymnasium id, a function that creates "
                "an environment, or an environment (not a vector environment)"
            )
        env, kwargs, max_episode_steps = _of_function(env, kwargs, max_episode_steps)
    # Left out if not given, because a note states any limit that is found.
    steps = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    if env in ENVIRONMENTS:
        task = ENVIRONMENTS[env]
        fields = Counter(task.aliases.get(name, name) for name in given)
        if twice := [field for field, times in fields.items() if times > 1]:
            raise SpecError(f"{twice[0]} is given twice, perhaps under two names: give it once")
        return {"id": env, **kwargs, **task.by_field(steps)}
    if kwargs and "kwargs" in settings:
        raise SpecError("kwargs: the environment's arguments are given already, as env_kwargs")
    return {"id": env, "kwargs": kwargs, **steps}


def _of_instance(
    env: gym.Env[Any, Any],
) -> tuple[str | Callable[[], gym.Env[Any, Any]], dict[str, Any], int | None]:
    """Return an id or a function that recreates an instance, its arguments and its step limit."""
    spec, limit = env.spec, limit_of(env)
    if spec is not None and not spec.additional_wrappers and spec.id in gym.registry:
        kwargs = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
        if isinstance(env.unwrapped, GoalEnv):
            task = env.unwrapped.parameters
            kwargs = task.model_dump(exclude={"id"})
            if limit is not None and limit < task.step_limit:  # which is met first
                if "max_episode_steps" not in task.aliases:
                    raise SpecError(
                        f"env: {task.id} takes no step limit from a wrapper: leave out TimeLimit "
                        "and max_episode_steps, and set max_steps"
                    )
                kwargs |= task.by_field({"max_episode_steps": limit})
            limit = None
        if _read_back(kwargs) == kwargs:
            if not isinstance(env.unwrapped, GoalEnv):
                keep(spec.id, kwargs, env.unwrapped, closes=False)
            return spec.id, kwargs, limit
    try:
        own = copy.deepcopy(env)  # what is done to the instance later does not count
    except Exception as error:
        raise SpecError(
            f"env: {env} cannot be copied ({type(error).__name__}: {error}); pass a function that "
            "creates one instead: lambda: YourEnv(...)"
        ) from error
    return lambda: copy.deepcopy(own), {}, limit


def _read_back(values: dict[str, Any]) -> Any:
    """Return what a file would return of these values; None if it cannot hold them."""
    try:
        return json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError):
        return None


def _of_function(
    make: Callable[..., gym.Env[Any, Any]], kwargs: dict[str, Any], wanted: int | None
) -> tuple[str, dict[str, Any], int | None]:
    """Return an id, arguments and a step limit for what a function makes.

    One of this package's environments has its own id, for which it is compiled; for any other, the
    function is registered.  Raises SpecError if the environment's own limit is below `wanted`.
    """
    try:
        with others_code(str(make)):
            made = make(**kwargs)
    except EnvironmentFailure:
        raise
    except Exception as error:
        raise EnvironmentFailure.of(f"env: {make!r} failed", error) from error
    if not isinstance(made, gym.Env):
        raise SpecError(f"env: {make!r} returned {type(made).__name__}, not an environment")
    limit = limit_of(made)
    if limit is not None and wanted is not None and wanted > limit:
        raise SpecError(
            f"max_episode_steps: {wanted} has no effect, because the environment itself ends "
            f"episodes after {limit} steps: make it without that limit"
        )
    if isinstance(made.unwrapped, GoalEnv):
        own, parameters, _ = _of_instance(made)
        if isinstance(own, str):
            return own, parameters, wanted
    name = re.sub(r"\W", "", type(made.unwrapped).__name__) or "Environment"
    full = f"{NAMESPACE}/{name}-{os.getpid()}{next(_numbers)}-v0"  # a fork counts on, too
    gym.register(full, entry_point=make, max_episode_steps=limit)
    keep(full, kwargs, made, closes=True)
    return full, kwargs, wanted
