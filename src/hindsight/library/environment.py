"""An environment however it is given: by its id, by what makes it, or as it is."""

import copy
import json
import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import gymnasium as gym

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError

#: An id of gymnasium's, a function that makes an environment, or an environment.
Given = str | Callable[..., gym.Env[Any, Any]] | gym.Env[Any, Any]

#: Ids of what was given as a function or an environment; they are of this process only.
NAMESPACE = "given"
_numbers = count()


def environment_values(
    env: Given, env_kwargs: Mapping[str, Any] | None, max_episode_steps: int | None
) -> dict[str, Any]:
    """What `CellSpec` takes as `environment`.

    An environment that gymnasium made is made anew by its id and arguments, as often as there are
    runs; another one is copied.

    Raises:
        SpecError: what cannot be copied; a vector environment; arguments for what is no id.
    """
    kwargs = dict(env_kwargs or {})
    if isinstance(env, str) and env in ENVIRONMENTS:
        steps = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
        return {"id": env, **kwargs, **steps}
    if isinstance(env, gym.Env):
        if kwargs:
            raise SpecError("env_kwargs: they are of an id or a function, not of an environment")
        env, kwargs, limit = _of_instance(env)
        max_episode_steps = limit if max_episode_steps is None else max_episode_steps
    if hasattr(env, "num_envs"):
        raise SpecError(
            "env: a vector environment is not allowed; give what makes a single one, of which "
            "there will be as many as there are runs (seeds) times n_envs"
        )
    if not isinstance(env, str):
        if not callable(env):
            raise SpecError(
                f"env: {env!r} is not allowed; it is an id of gymnasium's, a function that makes "
                "an environment, or an environment"
            )
        env = _registered(env, kwargs)
    return {"id": env, "kwargs": kwargs, "max_episode_steps": max_episode_steps}


def _of_instance(
    env: gym.Env[Any, Any],
) -> tuple[str | Callable[[], gym.Env[Any, Any]], dict[str, Any], int | None]:
    """What makes it again, with which arguments, and its step limit."""
    spec = env.spec
    if spec is not None and spec.id in ENVIRONMENTS:
        return spec.id, dict(spec.kwargs), None
    limit = None if spec is None else spec.max_episode_steps
    if spec is not None and not spec.additional_wrappers and spec.id in gym.registry:
        kwargs = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
        try:
            if json.loads(json.dumps(kwargs)) == kwargs:
                return spec.id, kwargs, limit
        except (TypeError, ValueError):
            pass  # arguments that no file can hold: it is copied
    try:
        copy.deepcopy(env)
    except Exception as error:
        raise SpecError(
            f"env: {env} cannot be copied ({type(error).__name__}: {error}); give a function that "
            "makes one: lambda: YourEnv(...)"
        ) from error
    kept = env
    return lambda: copy.deepcopy(kept), {}, limit


def _registered(make: Callable[..., gym.Env[Any, Any]], kwargs: Mapping[str, Any]) -> str:
    """The id under which gymnasium calls this function."""
    made = make(**kwargs)
    if not isinstance(made, gym.Env):
        raise SpecError(f"env: {make!r} returned {type(made).__name__}, not an environment")
    name = re.sub(r"\W", "", type(made.unwrapped).__name__) or "Environment"
    limit = None if made.spec is None else made.spec.max_episode_steps
    made.close()
    full = f"{NAMESPACE}/{name}{next(_numbers)}-v0"
    gym.register(full, entry_point=make, max_episode_steps=limit)
    return full
