"""Stable-Baselines3's words, environments, callbacks and models, for the models here.

docs/from-stable-baselines3.md has both vocabularies side by side.
"""

import json
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from hindsight.io.files import FileError
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.errors import SpecError, guess
from hindsight.specs.spaces import choices

#: Words, the value that asks for what happens here anyway, and what to use for another.
SAME: dict[str, tuple[Any, str]] = {
    "policy": ("MultiInputPolicy", "hidden=(256, 256) sets the networks"),
    "replay_buffer_class": (
        "HerReplayBuffer",
        "a model has its own; her=None is without hindsight",
    ),
    "rollout_buffer_class": (None, "a model has its own"),
    "rollout_buffer_kwargs": (None, "a model has its own"),
    "_init_setup_model": (True, "a model is always set up"),
    "activation_fn": (None, "nothing: PPO's networks have tanh, the others ReLU"),
    "n_critics": (None, "nothing: there are two, of ddpg one, and of ppo and dqn none"),
    "normalize_advantage": (True, "advantages are always normalised"),
    "n_steps": (1, "off-policy algorithms have one-step returns"),
    "use_sde": (False, "epsilon=0.2 takes random actions"),
    "use_sde_at_warmup": (False, "epsilon=0.2 takes random actions"),
    "sde_sample_freq": (-1, "epsilon=0.2 takes random actions"),
    "exploration_fraction": (None, "epsilon=0.1, which stays the same"),
    "exploration_initial_eps": (None, "epsilon=0.1, which stays the same"),
    "exploration_final_eps": (None, "epsilon=0.1, which stays the same"),
    "optimize_memory_usage": (False, "buffer_size limits the memory"),
    "stats_window_size": (100, "success rates are those of 100 episodes"),
    "target_update_interval": (1, "tau is how fast target networks follow"),
    "handle_timeout_termination": (True, "time_limit_terminates=True"),
    "copy_info_dict": (False, "what info adds to a reward is kept under every goal"),
    "action_noise": (None, "epsilon=0.2 takes random actions, and td3 has exploration_noise"),
    "target_entropy": ("auto", "a number"),
    "learning_rate": (None, "a number, and with PPO learning_rate_schedule='linear'"),
}
#: Words that mean the same as one of ours.
RENAMED = {"goal_selection_strategy": "her", "net_arch": "hidden", "n_sampled_goal": "k"}
#: Attributes and methods of their models, and what to use here.
INSTEAD = {
    "env": "get_env()",
    "set_env": "load(path, env=...)",
    "observation_space": "get_env().observation_space",
    "action_space": "get_env().action_space",
    "replay_buffer": "save(path, training=True)",
    "save_replay_buffer": "save(path, training=True)",
    "load_replay_buffer": "load(path)",
    "get_parameters": "parameters(run)",
    "set_parameters": "load(path)",
    "set_random_seed": "a new model with seed=0",
    "set_logger": "tensorboard_log='runs'",
}


def in_our_words(
    algorithm: str, given: Mapping[str, Any], usual: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings with Stable-Baselines3's words replaced; raises SpecError, which names ours.

    usual: settings of a preset, where it differs from the algorithm's.
    """
    fields, ours = ALGORITHMS[algorithm].model_fields, dict[str, Any]()
    nested = [dict(given.get(key) or {}) for key in ("replay_buffer_kwargs", "policy_kwargs")]
    apart = {k: v for k, v in given.items() if k not in ("replay_buffer_kwargs", "policy_kwargs")}
    for name, value in [each for group in (apart, *nested) for each in group.items()]:
        word = RENAMED.get(name, name)
        if isinstance(value, Enum):  # one of their goal selection strategies
            value = value.name.lower()
        value = tuple(value) if isinstance(value, list) else value  # widths
        if ours.get(word, "default") not in ("default", value):
            raise SpecError(f"{name}: {value!r} contradicts {word}={ours[word]!r}; give one")
        ours[word] = value
    if isinstance(widths := ours.get("hidden"), dict):
        ours["hidden"], *others = [*widths.values()] or [None]
        if not widths or any(other != ours["hidden"] for other in others):
            raise SpecError(f"net_arch: {widths} is not allowed; all networks have one `hidden`")
    if (seed := ours.pop("seed", None)) is not None:
        if "first_seed" in ours:
            raise SpecError("seed and first_seed are the same here: give one")
        ours |= {"seeds": 1 if ours["seeds"] is None else ours["seeds"], "first_seed": seed}
    noise = ours.get("action_noise")
    sigma, mean = ({*np.ravel(getattr(noise, key, ()))} for key in ("_sigma", "_mu"))
    white = type(noise).__name__ == "NormalActionNoise" and mean <= {0.0}
    if white and len(sigma) == 1 and "exploration_noise" in fields:
        one, std = "exploration_noise", float(sigma.pop())
        if ours.get(one, std) != std:
            raise SpecError(f"action_noise: {std} contradicts {one}={ours[one]!r}; give one")
        ours |= {one: std, "action_noise": None}
    if isinstance(often := ours.get("train_freq"), tuple) and len(often) == 2:
        ours["train_freq"], unit = often
        if getattr(unit, "value", unit) != "step":
            raise SpecError(
                f"train_freq: {often} is not allowed; its unit is 'step', so give the steps of an "
                "episode"
            )
    if ours.get("gradient_steps") == -1:
        each = {name: fields[name].default for name in ("train_freq", "n_envs") if name in fields}
        ours["gradient_steps"] = prod((each | {**usual, **ours})[name] for name in each)
    for name, (same, instead) in SAME.items():
        value = ours.get(name)
        if name not in ours or (name in fields and value != "auto" and not callable(value)):
            continue
        if name == "activation_fn" and value is not None:
            same = "Tanh" if algorithm == "ppo" else "ReLU"
        if name == "n_critics":
            same = {"sac": 2, "td3": 2, "ddpg": 1}.get(algorithm)
        if getattr(value, "__name__", value) != same:
            raise SpecError(f"{name}: {value!r} is not possible here; use instead: {instead}")
        del ours[name]
    return ours


def learn_words(theirs: Mapping[str, Any], progress: bool, is_new: bool) -> tuple[bool, str]:
    """Whether to show progress, and a folder for curves, from `learn`'s arguments; SpecError."""
    known: dict[str, Any] = {"progress_bar": progress, "tb_log_name": "", "log_interval": 0}
    for name in theirs.keys() - known.keys():
        if name != "reset_num_timesteps":
            raise SpecError(f"learn has no argument {name!r}{guess(name, known)}")
        if theirs[name] and not is_new:
            raise SpecError(f"{name}: True is not possible; steps count on: make a new model")
    given = {**known, **theirs}
    return given["progress_bar"], given["tb_log_name"]


def of_vector(env: Any) -> tuple[Any, int]:
    """The first environment of a vector environment, without Monitor, and their number."""
    n = env.num_envs
    while type(env).__name__ in ("VecMonitor", "RecordEpisodeStatistics"):
        env = env.venv if hasattr(env, "venv") else env.env
    if hasattr(env, "venv") or not hasattr(env, "envs"):
        raise SpecError(
            f"env: {type(env).__name__} is not allowed; pass an id, or a function that makes one "
            f"environment, and n_envs={n}: worker processes step them, and "
            "normalize_observations=True standardises what the networks see"
        )
    return env.envs[0], n


def called_after(
    callback: Any, model: Any, steps: int
) -> tuple[Callable[[Any], bool], Callable[[], None]]:
    """What one of Stable-Baselines3's callbacks does after each iteration, and in the end.

    steps: those that the call of `learn` was asked for.
    """
    name, n_envs = type(callback).__name__, model.spec.algorithm.n_envs

    @contextmanager
    def apart() -> Iterator[None]:
        """`predict` acts as trained so far, as theirs does; errors about `locals` are explained."""
        model.acts_by = "last"
        try:
            yield
        except (AssertionError, KeyError) as error:
            raise SpecError(
                f"callback: {name} needs what only Stable-Baselines3's training holds ({error}); "
                "write a function of the model instead"
            ) from error
        finally:
            model.acts_by = "best"

    with apart():
        callback.init_callback(model)
        callback.on_training_start({"total_timesteps": model.num_timesteps + steps}, {})
    callback.n_calls = model.num_timesteps // n_envs
    warnings.warn(
        f"{name} is called for an iteration's steps together, after it; evaluate_every evaluates "
        "and keeps the best policy, and a function of the model may save it",
        stacklevel=3,
    )

    def after(model: Any) -> bool:
        steps = model.num_timesteps // n_envs - callback.n_calls
        with apart():
            callback.on_rollout_start()
            goes_on = all(callback.on_step() for _ in range(steps))
            callback.on_rollout_end()
            return goes_on

    def end() -> None:
        with apart():
            callback.on_training_end()

    return after, end


def is_theirs(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return "_stable_baselines3_version" in file.namelist()


def model_in(path: Path, env: str | None) -> Any:
    """The Stable-Baselines3 model in a .zip, which may run code; None if it is no such file.

    Raises SpecError if the package is not installed, or its environment `env` is not named.
    """
    if path.suffix != ".zip" or not is_theirs(path):  # no other file that is read here runs code
        return None
    if env is None:
        raise SpecError(
            f"{path}: a Stable-Baselines3 model does not name its environment: add --env, such as "
            "--env FetchReach-v4"
        )
    with zipfile.ZipFile(path) as file:
        data = json.loads(file.read("data"))
    package, name, *_ = f"{data['policy_class'].get('__module__')}..".split(".")
    if name == "common":  # the policies of PPO and A2C
        name = "ppo" if "clip_range" in data else "a2c"
    kind: Any = None
    if package in ("stable_baselines3", "sb3_contrib", "sbx"):
        try:
            kind = getattr(import_module(package), name.upper(), None)
        except ImportError:
            raise SpecError(f"{path}: needs the package {package}") from None
    if kind is None:
        raise FileError(f"{path}: is a Stable-Baselines3 model of an unknown algorithm")
    # Nothing is trained; a hindsight buffer would need the environment.
    unused: dict[str, Any] = {
        "replay_buffer_class": None,
        "replay_buffer_kwargs": {},
        "buffer_size": 1,
    }
    model = kind.load(path, device="cpu", custom_objects=unused)
    normalized = _saw_normalized(model)
    if normalized:
        raise SpecError(
            f"{path}: was trained in a VecNormalize, which the file does not hold: load both with "
            "Stable-Baselines3, and pass the model to evaluate_policy"
        )
    if normalized is None:
        print(
            f"{path}: does not say whether it was trained in a VecNormalize; if it was, "
            "it acts wrongly here",
            file=sys.stderr,
        )
    return model


def _saw_normalized(model: Any) -> bool | None:
    """Whether one of their models was trained in a VecNormalize; None: its file does not tell.

    On-policy, an original observation is kept only then.  Off-policy it always is: that before the
    last step or, in a VecNormalize, what the last observation was made of.
    """
    before, seen = model._last_original_obs, model._last_obs
    if before is None or not hasattr(model, "learning_starts"):
        return before is not None
    if seen is None or not isinstance(model.observation_space, Dict):  # a loaded one forgets it
        return None
    same = {key: np.array_equal(before[key], seen[key]) for key in seen}
    spaces = model.observation_space.spaces

    def possible(obs: Mapping[str, Any]) -> bool:
        return all(
            ((obs[key] >= space.low) & (obs[key] <= space.high)).all()
            for key, space in spaces.items()
            if isinstance(space, Box)
        )

    # Within an episode, the goal stays and the agent moves; a goal of zeros stays in any case.
    stays = same.get("desired_goal") and np.any(before["desired_goal"])
    plain = all(same.values()) or (stays and not same.get("achieved_goal"))
    outside = possible(before) and not possible(seen)
    if plain:
        return None if outside else False
    return True if outside else None


class Acting(nn.Module):
    """One of their models as a function of observations, for `library.policy.export`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        if not isinstance(model.observation_space, Dict):
            raise SpecError("the model's observations are not dictionaries with goals")
        # Checking its arguments, a distribution branches on numbers, which torch cannot export.
        torch.distributions.Distribution.set_default_validate_args(False)
        spaces = model.observation_space.spaces
        self.policy, self.space = model.policy, model.action_space
        self.shapes = {key: tuple(space.shape or ()) for key, space in spaces.items()}
        self.choices = {key: choices(space) for key, space in spaces.items()}

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Actions [n, ...] in the environment's units, for observations [n, ...]."""
        actions: Tensor = self.policy._predict(observations, deterministic=True)
        if not isinstance(self.space, Box):
            return actions
        low, high = (torch.as_tensor(side) for side in (self.space.low, self.space.high))
        if self.policy.squash_output:
            actions = low + 0.5 * (actions + 1) * (high - low)
        return torch.minimum(torch.maximum(actions, low), high)
