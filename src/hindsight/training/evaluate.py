"""Evaluate any policy in any gymnasium goal environment, one episode at a time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Dict, flatdim
from numpy.typing import NDArray

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.envs.gymnasium.facts import facts_of
from hindsight.envs.gymnasium.trial import success_in
from hindsight.replay.buffer import count_of
from hindsight.specs.base import EnvironmentSpec, Success
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import GymnasiumSpec, registered
from hindsight.specs.spaces import Actions, action_choices, action_of, row_of
from hindsight.training.policies import policy_of
from hindsight.training.policy_files import read_policy

#: Steps after which an episode of an environment without a known limit is taken for endless.
LONGEST = 100_000
#: From an observation, a dictionary of arrays, to an action.
Actor = Callable[[Mapping[str, Any]], Any]


class Evaluation(NamedTuple):
    return_mean: float
    return_std: float  # over the episodes, with divisor n, as in Stable-Baselines3
    success_rate: float  # NaN if the environment does not report success
    length_mean: float  # steps
    returns: NDArray[np.float64]  # [episode]
    successes: NDArray[np.float64]  # [episode] 0 or 1, or NaN


def evaluate_policy(
    policy: Path | str | Actor | Any,
    environment: str | gymnasium.Env[Any, Any] | None = None,
    n_episodes: int = 100,
    deterministic: bool = True,
    *,
    parameters: Mapping[str, Any] | None = None,
    run: int | None = None,
    seed: int = 0,
    success: Success | None = None,
) -> Evaluation:
    """Play episodes; returns mean and standard deviation of the return, and the success rate.

    An episode succeeds if `info["is_success"]` of its last step is true; with `success="any"`, of
    any step.  In the environment that a policy file was trained in, the reward decides if the info
    does not tell.

    Args:
        policy: the path of a policy file, a function from observations (dictionaries, as the
            environment returns them) to actions, or a Stable-Baselines3 model.
        environment: an id for `gymnasium.make`, or an environment.  None: the environment that the
            file's policy was trained in; name it if it is neither of this package nor of
            gymnasium-robotics, because a file does not decide which modules are imported.
        deterministic: take the mean action or the most likely choice; False samples actions as in
            training (TD3 and DDPG are always deterministic).  No effect on a function.
        parameters: parameters for the environment that an id names; without `environment`, they
            replace those in the file.  Also as in a training's settings: those of another
            package's environment under `kwargs`, and `success`.
        run: seed of the file's run.  None: the first.
        seed: episode e starts from `reset(seed=seed + e)`, for every policy alike.
        success: whether an episode succeeds by its "last" step or by "any" of its steps; None: as
            in the training of the file's policy, else by the last.

    Raises:
        SpecError: the environment is unknown or does not fit the policy, or an argument is invalid.
        FileError: the file is not a policy file or does not contain that run.
    """
    n_episodes = count_of("n_episodes", n_episodes)
    parameters, success = _settled(parameters or {}, success)
    if success not in (None, "last", "any"):
        raise SpecError(f"success: {success!r} is not allowed; choose from last, any")
    named: Any = {"environment": environment, "parameters": parameters}
    if isinstance(policy, str | Path):
        spec, row = read_policy(Path(policy), run, _id_of(environment), random=not deterministic)
        how = {**named, "seed": seed, "success": success}
        return evaluate_run(spec, row, n_episodes, deterministic, **how)
    act = _actor(policy, deterministic)
    if environment is None:
        raise SpecError("environment: None is not allowed unless the policy is a file")
    with _opened(**named) as env:
        _must_be_seen(env, getattr(policy, "observation_space", env.observation_space))
        return _episodes(act, env, n_episodes, seed, success == "any")


def _settled(
    given: Mapping[str, Any], success: Success | None
) -> tuple[dict[str, Any], Success | None]:
    """An environment's parameters, and which steps succeed; SpecError for what is given twice."""
    own = dict(given)
    arguments = own.pop("kwargs", {})
    if not isinstance(arguments, Mapping):
        raise SpecError(f"kwargs: {arguments!r} is not allowed; it must be a dictionary")
    dotted = [key for key in own if key.startswith("kwargs.")]
    arguments = {**arguments, **{key.removeprefix("kwargs."): own.pop(key) for key in dotted}}
    named = own.pop("success", None)
    twice = own.keys() & arguments.keys()
    if twice or None not in (named, success):
        raise SpecError(f"{', '.join(sorted(twice or {'success'}))}: given twice")
    return {**own, **arguments}, named or success


def evaluate_run(
    spec: CellSpec,
    row: torch.Tensor,
    n_episodes: int = 100,
    deterministic: bool = True,
    *,
    environment: str | gymnasium.Env[Any, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    success: Success | None = None,
) -> Evaluation:
    """Evaluate a run with parameters `row` [parameter]; other arguments as `evaluate_policy`."""
    own: EnvironmentSpec | None = None
    if environment is None or environment == spec.environment.id:
        own = spec.environment.with_parameters(dict(parameters or {}))
    opened: Any = closing(own.make()) if own is not None else _opened(environment, parameters)
    with opened as env:
        _check_fit(spec, env)
        generator = None if deterministic else torch.Generator().manual_seed(seed)
        act = actor_of(spec, row, env, generator)
        usual = getattr(spec.environment, "success", "last")
        return _episodes(act, env, n_episodes, seed, (success or usual) == "any", own)


def _actor(policy: Any, deterministic: bool) -> Actor:
    """Return a function, or a model's `predict`, as an actor; SpecError if it is neither."""
    if hasattr(policy, "predict"):
        # Stable-Baselines3's evaluation gets observations from the model's VecNormalize.
        around = getattr(policy, "get_vec_normalize_env", lambda: None)()
        seen = (lambda obs: obs) if around is None else around.normalize_obs
        return lambda obs: policy.predict(seen(obs), deterministic=deterministic)[0]
    if not callable(policy):
        raise SpecError(
            f"policy: an object of type {type(policy).__name__} is not allowed; it must be a path, "
            "a function from observations to actions, or a model with predict(obs, "
            "deterministic=...)"
        )
    return policy


def _episodes(
    act: Actor,
    env: gymnasium.Env[Any, Any],
    n: int,
    seed: int,
    any_success: bool,
    environment: EnvironmentSpec | None = None,
) -> Evaluation:
    seed = count_of("seed", seed, 0)
    played = [episode(act, env, seed + e, environment, any_success=any_success) for e in range(n)]
    returns, lengths, successes = np.array(played, np.float64).T
    means = float(returns.mean()), float(returns.std()), float(successes.mean())
    return Evaluation(*means, float(lengths.mean()), returns, successes)


def episode(
    act: Actor,
    env: gymnasium.Env[Any, Any],
    seed: int,
    environment: EnvironmentSpec | None = None,
    look: Callable[[], None] = lambda: None,
    any_success: bool = False,
) -> tuple[float, int, float]:
    """Play one episode; returns its return, its steps, and success: 1 or 0, or NaN if unknown.

    Success is that of the last step, or with `any_success` that of any; `environment` decides if an
    info does not tell.  `look` is called after the reset and after every step.
    """
    obs, _ = env.reset(seed=seed)
    look()
    returned, steps, over, told = 0.0, 0, False, list[bool]()
    while not over:
        before = {key: np.array(value) for key, value in obs.items()}
        obs, reward, terminated, truncated, info = env.step(act(obs))
        look()
        returned += float(reward)
        steps += 1
        over = bool(terminated or truncated)
        if steps == LONGEST and not over and not (env.spec and env.spec.max_episode_steps):
            raise SpecError(
                f"the episode with seed {seed} has not ended after {steps:,} steps: wrap the "
                "environment in gymnasium.wrappers.TimeLimit"
            )
        if not (over or any_success):
            continue
        said = success_in(info)
        if said is None and isinstance(environment, GymnasiumSpec):
            facts = facts_of(environment)
            said = facts.is_success(facts.goal_of(before, "desired_goal"), obs, info)
        if said is not None:
            told.append(said)
    return returned, steps, float(any(told)) if told else np.nan


def actor_of(
    spec: CellSpec,
    row: torch.Tensor,
    env: gymnasium.Env[Any, Any],
    generator: torch.Generator | None = None,
) -> Actor:
    """Return the policy of a run with parameters `row` [parameter], with actions for `env`.

    `generator` samples actions as in training; None: deterministic actions.
    """
    spaces, space = env.observation_space, env.action_space
    assert isinstance(spaces, Dict) and isinstance(space, Actions)
    seen = {key: spaces[key] for key in spec.environment.keys}
    choose = policy_of(spec, row[None], generator)

    @torch.no_grad()
    def act(obs: Mapping[str, Any]) -> Any:
        action = choose(torch.from_numpy(row_of(obs, seen))[None, None])
        return action_of(space, action.reshape(-1).numpy())

    return act


def _id_of(environment: str | gymnasium.Env[Any, Any] | None) -> str | None:
    """Return the id of an environment, as `module:Name-v0` if it is an instance."""
    if isinstance(environment, gymnasium.Env) and environment.spec is not None:
        name = environment.spec.id
        return name if name in ENVIRONMENTS else f"{type(environment.unwrapped).__module__}:{name}"
    return environment if isinstance(environment, str) else None


@contextmanager
def _opened(
    environment: Any, parameters: Mapping[str, Any] | None
) -> Iterator[gymnasium.Env[Any, Any]]:
    """Make the environment of an id, and close it at the end; an instance stays open."""
    if isinstance(environment, gymnasium.Env):
        if parameters:
            raise SpecError("parameters: only allowed if the environment is given by its id")
        yield environment
        return
    if not isinstance(environment, str):
        raise SpecError(
            f"environment: an object of type {type(environment).__name__} is not allowed; it must "
            "be a single gymnasium environment or an id for gymnasium.make"
        )
    try:
        registered(environment)  # imports what registers it, maybe from the working directory
        env = gymnasium.make(environment, **(parameters or {}))
    except SpecError:
        raise
    except (gymnasium.error.Error, TypeError, ValueError, ImportError) as error:
        raise SpecError(f"environment {environment!r}: {' '.join(str(error).split())}") from error
    with closing(env):
        yield env


def _must_be_seen(env: gymnasium.Env[Any, Any], by: Any) -> None:
    """Raise SpecError unless observations are dictionaries, with the parts of the space `by`."""
    name, there = env.spec.id if env.spec else env, env.observation_space
    if not isinstance(there, Dict):
        raise SpecError(f"environment: the observations of {name} are not dictionaries with goals")

    def shapes(space: Dict) -> dict[str, list[int]]:
        # sorted, because Stable-Baselines3 transposes pictures
        return {key: sorted(part.shape or ()) for key, part in space.items()}

    if not isinstance(by, Dict) or shapes(by) != shapes(there):
        raise SpecError(f"environment: {name} does not fit a model trained on observations {by}")


def _check_fit(spec: CellSpec, env: gymnasium.Env[Any, Any]) -> None:
    where, spaces, actions = spec.environment, env.observation_space, env.action_space
    parts = spaces.spaces if isinstance(spaces, Dict) else {}
    sizes = {key: flatdim(parts[key]) for key in where.keys if key in parts}
    # Our own tasks' parts are all of one size.
    goal = getattr(where, "goal_size", sizes.get("desired_goal"))
    choices = action_choices(actions)
    if (
        not {*where.keys} <= sizes.keys()
        or sum(sizes[key] for key in where.keys) != where.observation_size
        or sizes["desired_goal"] != goal
        or choices != where.choices
        or (sum(choices) or int(np.prod(actions.shape or ()))) != where.n_outputs
    ):
        raise SpecError(
            f"environment: {env.spec.id if env.spec else env} does not fit a policy trained in "
            f"{where.id} on observations of {where.observation_size} numbers"
        )
