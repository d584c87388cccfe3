"""How well a policy does: a trained one of ours, or anybody's, on any gymnasium goal environment.

A plain loop over episodes, one at a time: what is measured here is the policy, not the speed.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray
from pydantic import ValidationError

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.envs.facts import success_in
from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError, one_sentence
from hindsight.specs.gymnasium import registered
from hindsight.specs.spaces import action_of, row_of, size
from hindsight.training.policies import policy_of, random_policy_of
from hindsight.training.policy_files import read_policy

#: From an observation, a dictionary of arrays, to an action.
Actor = Callable[[Mapping[str, Any]], Any]


class Model(Protocol):
    """What chooses actions as a model of Stable-Baselines3 does."""

    def predict(self, obs: Any, /, *, deterministic: bool) -> tuple[Any, Any]:
        """An action, and something else."""
        ...


class Evaluation(NamedTuple):
    """What came of some episodes."""

    return_mean: float
    return_std: float  # of the episodes, with the divisor n, as Stable-Baselines3 has it
    success_rate: float  # NaN where the environment does not say
    length_mean: float  # steps
    returns: NDArray[np.float64]  # [episode]
    successes: NDArray[np.float64]  # [episode] 0 or 1, or NaN


def evaluate_policy(
    policy: Path | str | Actor | Model,
    environment: str | gymnasium.Env[Any, Any] | None = None,
    n_episodes: int = 100,
    deterministic: bool = True,
    *,
    parameters: Mapping[str, Any] | None = None,
    run: int | None = None,
    seed: int = 0,
) -> Evaluation:
    """Run episodes and tell their mean return, its standard deviation and the success rate.

    An episode succeeds if `info["is_success"]` of its last step says so, or in a policy's own
    environment its last reward.

    Args:
        policy: a file below results/policies, or a function from observations (dictionaries, as the
            environment gives them) to actions, or a model of Stable-Baselines3.
        environment: an id for `gymnasium.make`, or an environment; None: the one that the policy of
            the file was trained in.  If that is neither ours nor of gymnasium-robotics, its id
            or another of its module must be given: a file does not decide what is imported.
        deterministic: of a file's policy, or a model: the mean action or best choice instead of
            random ones.  TD3 and DDPG know no others.  A function does as it does.
        parameters: of the environment that an id names; of the file's, in place of its own.
        run: which of the file's runs (its seed); None: the first.
        seed: episode e begins as `reset(seed=seed + e)` makes it, for every policy alike.

    Raises:
        SpecError: an environment that there is not, or that does not fit the policy; no episodes; a
            policy that is none.
        FileError: a file that is no policy, or without that run.
    """
    if n_episodes < 1:
        raise SpecError(f"n_episodes: {n_episodes} is not allowed; it is 1 or more")
    given = dict(parameters or {})
    if not isinstance(policy, str | Path):
        act = _actor(policy, deterministic)
        if environment is None:
            raise SpecError("environment: None is not allowed for a policy that is no file")
        return _episodes(act, _made(environment, given), n_episodes, seed)
    spec, row = read_policy(Path(policy), run, _id_of(environment), random=not deterministic)
    return evaluate_run(
        spec, row, n_episodes, deterministic, environment=environment, parameters=given, seed=seed
    )


def evaluate_run(
    spec: CellSpec,
    row: torch.Tensor,
    n_episodes: int = 100,
    deterministic: bool = True,
    *,
    environment: str | gymnasium.Env[Any, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Evaluation:
    """The same of a run with these parameters [parameter]; arguments as of `evaluate_policy`."""
    given = dict(parameters or {})
    own: EnvironmentSpec | None = None
    if environment is None or (spec.environment.foreign and environment == spec.environment.id):
        try:
            own = spec.environment.with_parameters(given)
        except ValidationError as error:
            raise SpecError(one_sentence(error)) from None
        env = own.make()
    else:
        env = _made(environment, given)
    _check_fit(spec, env)
    generator = None if deterministic else torch.Generator().manual_seed(seed)
    act = actor_of(spec, row, env, generator)
    return _episodes(act, env, n_episodes, seed, own)


def _actor(policy: Any, deterministic: bool) -> Actor:
    """A function as it is, a model's choices; SpecError for what is neither."""
    if hasattr(policy, "predict"):
        return lambda obs: policy.predict(obs, deterministic=deterministic)[0]
    if not callable(policy):
        raise SpecError(
            f"policy: an object of type {type(policy).__name__} is not allowed; it is a file, a "
            "function from observations to actions, or a model with predict(obs, deterministic=...)"
        )
    return policy


def _episodes(
    act: Actor,
    env: gymnasium.Env[Any, Any],
    n: int,
    seed: int,
    where: EnvironmentSpec | None = None,
) -> Evaluation:
    played = [episode(act, env, seed + e, where) for e in range(n)]
    returns, lengths, successes = np.array(played, np.float64).T
    means = float(returns.mean()), float(returns.std()), float(successes.mean())
    return Evaluation(*means, float(lengths.mean()), returns, successes)


class Played(NamedTuple):
    """What came of one episode."""

    returned: float
    steps: int
    success: float  # 1 or 0; NaN where the environment does not say


def episode(
    act: Actor,
    env: gymnasium.Env[Any, Any],
    seed: int,
    where: EnvironmentSpec | None = None,
    look: Callable[[], None] = lambda: None,
) -> Played:
    """Play one episode.

    Args:
        where: tells success where the last step's info does not.
        look: called after the reset and after every step, to take a picture.
    """
    obs, _ = env.reset(seed=seed)
    look()
    returned, steps, over = 0.0, 0, False
    while not over:
        before = {key: np.array(value) for key, value in obs.items()}
        obs, reward, terminated, truncated, info = env.step(act(obs))
        look()
        returned += float(reward)
        steps += 1
        over = bool(terminated or truncated)
    said = success_in(info)
    if said is None and where is not None:
        said = where.succeeded(before, obs, info)
    return Played(returned, steps, np.nan if said is None else float(said))


def actor_of(
    spec: CellSpec,
    row: torch.Tensor,
    env: gymnasium.Env[Any, Any],
    generator: torch.Generator | None = None,
) -> Actor:
    """What a run with these parameters [parameter] does in a gymnasium environment.

    Args:
        env: for its spaces: of what it observes, and of actions, to which -1 to 1 is scaled.
        generator: of random actions, as in training; None: the deterministic ones.
    """
    spaces, space = env.observation_space, env.action_space
    assert isinstance(spaces, Dict) and isinstance(space, Box | Discrete)
    seen = {key: spaces[key] for key in spec.environment.keys}
    rows = row[None]
    choose = policy_of(spec, rows)
    if generator is not None:
        choose = random_policy_of(spec, rows, generator)

    @torch.no_grad()
    def act(obs: Mapping[str, Any]) -> Any:
        action = choose(torch.from_numpy(row_of(obs, seen))[None, None])
        return action_of(space, action.reshape(-1).numpy())

    return act


def _id_of(environment: str | gymnasium.Env[Any, Any] | None) -> str | None:
    """`module:Name-v0` of an environment that was given."""
    if isinstance(environment, gymnasium.Env) and environment.spec is not None:
        return f"{type(environment.unwrapped).__module__}:{environment.spec.id}"
    return environment if isinstance(environment, str) else None


def _made(
    environment: str | gymnasium.Env[Any, Any], parameters: dict[str, Any]
) -> gymnasium.Env[Any, Any]:
    if not isinstance(environment, str):
        if hasattr(environment, "num_envs"):
            raise SpecError(
                "environment: a vector environment is not allowed; episodes run one at a time, in "
                "an environment of gymnasium or one that an id names"
            )
        if not isinstance(environment, gymnasium.Env):
            raise SpecError(
                f"environment: an object of type {type(environment).__name__} is not allowed; it "
                "is an environment of gymnasium or an id for gymnasium.make"
            )
        if parameters:
            raise SpecError("parameters: they are of an environment that an id names")
        return environment
    try:
        if ":" in environment:
            registered(environment)  # the module may lie in the working folder
        return gymnasium.make(environment, **parameters)
    except SpecError:
        raise
    except (gymnasium.error.Error, TypeError, ValueError, ImportError) as error:
        raise SpecError(f"environment {environment!r}: {' '.join(str(error).split())}") from error


def _check_fit(spec: CellSpec, env: gymnasium.Env[Any, Any]) -> None:
    """SpecError unless the environment has the observations and actions that the policy knows."""
    spaces, wanted = env.observation_space, spec.environment.observation_size
    has = None
    where = spec.environment
    keys = where.keys
    if isinstance(spaces, Dict) and set(keys) <= set(spaces.keys()):
        has = sum(size(spaces[part]) for part in keys)
    discrete = isinstance(env.action_space, Discrete)
    n = env.action_space.n if discrete else int(np.prod(env.action_space.shape or ()))  # type: ignore[attr-defined]
    fits = (has, discrete, n) == (wanted, where.n_choices is not None, where.n_outputs)
    if not fits:
        raise SpecError(
            f"environment: {env.spec.id if env.spec else env} is not one for a policy that was "
            f"trained in {spec.environment.id} on observations of {wanted} numbers"
        )
