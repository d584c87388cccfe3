"""Hindsight replay for any gymnasium goal environment: NumPy in, NumPy out.

`library.like_stable_baselines3` and `library.like_cpprb` offer the same replay with the interfaces
of those libraries.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode

from hindsight.replay.buffer import Relabelling, RowLayout, check_choice
from hindsight.replay.episodes import (
    Array,
    EpisodeBuffer,
    Field,
    RelabelAt,
    Rows,
    check_finite,
    check_function,
    per_row,
    truth,
)
from hindsight.specs.base import GOAL_KEYS, Fidelity
from hindsight.specs.replay import GoalStrategy

#: (achieved goals [n, ...], desired goals [n, ...], n dictionaries) -> [n]
OfGoals = Callable[[Array, Array, Any], Any]

#: The environment's methods that a buffer calls.
NAMES = ("compute_reward", "compute_terminated")
#: The largest count that a float32 holds exactly.
EXACT = 2**24
#: The field that holds the position of a step's info in `_infos`.
INFO = "number of the info"
#: Fields of every transition, which `info_keys` may not name.
TAKEN = {*GOAL_KEYS, *(f"next {key}" for key in GOAL_KEYS), "action", "reward", "terminated"}


class Sample(NamedTuple):
    """A batch of transitions; observations are dictionaries of arrays [sample, ...]."""

    obs: dict[str, Array]
    actions: Array  # [sample, ...]
    rewards: Array  # [sample] float32
    next_obs: dict[str, Array]
    terminated: Array  # [sample] bool: do not bootstrap; false where a time limit cut the episode
    weights: Array | None  # [sample] importance weights; None unless prioritised
    indexes: Array  # [sample], for `update_priorities`


def method_of(env: Any, name: str) -> Callable[..., Any] | None:
    """Find a method of an environment, through its wrappers; None if it has none.

    Of a vector environment, this is the method of the first environment.
    """
    if hasattr(env, "env_method"):  # a vector environment of Stable-Baselines3
        if not env.has_attr(name):
            return None
        return lambda *arguments: env.env_method(name, *arguments, indices=[0])[0]
    if hasattr(env, "envs"):
        env = env.envs[0]
    if hasattr(env, "has_wrapper_attr"):
        return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    return getattr(env, name, None)


class HindsightReplayBuffer:
    """Hindsight experience replay (Andrychowicz et al. 2017) for a goal environment.

        buffer = HindsightReplayBuffer(100_000, env, strategy="future", k=4, seed=0)
        buffer.add(obs, action, reward, next_obs, terminated, truncated, info)
        batch = buffer.sample(256)

    Only finished episodes are sampled.  A sampled transition is relabelled with probability
    k / (k + 1); see `buffer.Relabelling` for its new goal, reward and termination.  Numbers are
    stored as float32 and returned in the types of the environment's spaces.
    """

    def __init__(
        self,
        size: int,
        env: Any,
        *,
        strategy: GoalStrategy = "future",
        k: int = 4,
        fidelity: Fidelity | None = "described",
        compute_reward: OfGoals | None = None,
        compute_terminated: OfGoals | None = None,
        info_keys: Sequence[str] = (),
        copy_infos: bool = False,
        rest: Literal["keep", "drop"] = "drop",
        relabel_at: RelabelAt = "sampling",
        prioritized: bool = False,
        alpha: float = 0.6,
        max_episode_len: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Create an empty buffer.

        Args:
            size: capacity in transitions.
            env: the environment, or a vector environment, of gymnasium or Stable-Baselines3.  Its
                observations are dictionaries of `achieved_goal`, `desired_goal` and `observation`.
                A gymnasium vector environment must not reset by itself
                (`autoreset_mode=AutoresetMode.DISABLED`).
            strategy: where new goals come from: "final", "future", "episode" or "random".
            k: additional goals per transition; 0 turns hindsight off.
            fidelity: "described" recomputes the termination of relabelled transitions, "released"
                keeps the stored one.  None: "described" if there is a `compute_terminated`.
            compute_reward: function of (achieved goals [n, ...], desired goals [n, ...], n infos)
                that returns rewards [n].  None: the environment's method of that name.
            compute_terminated: function of the same arguments that returns whether these goals
                terminate an episode [n], as in gymnasium-robotics.  None: the environment's method
                of that name.  If success never terminates, it returns False for every goal.
            info_keys: names of numbers in a step's `info` that these functions read; each goal then
                comes with a dictionary of these numbers.
            copy_infos: keep every step's whole `info` and pass it to these functions instead.
            rest: what happens to the part of a reward that `compute_reward` does not explain, such
                as a penalty for a crash: "keep" pays it under every goal, "drop" only under the
                transition's own goal.
            relabel_at: "sampling" stores each transition once and draws a new goal each time it is
                sampled; "episode_end" stores k relabelled copies of it as well.
            prioritized: proportional prioritised replay (Schaul et al. 2016).
            alpha: exponent of the priorities, from 0 (uniform) to 1.
            max_episode_len: longest episode allowed, in steps.  None: `size`.
            seed: seed of the buffer's own random generator.  None: an arbitrary seed.

        Raises:
            ValueError: an argument is invalid; the message gives its name, its value and what is
                allowed.
        """
        several = hasattr(env, "num_envs")
        spaces, action_space = (
            getattr(env, f"single_{name}", None) or getattr(env, name, None)
            for name in ("observation_space", "action_space")
        )
        if spaces is None or action_space is None:
            raise ValueError(
                f"env: {env!r} is not allowed; it must be an environment, with observation_space "
                "and action_space"
            )
        self._one_env = not several
        if fidelity is None:
            known = compute_terminated or method_of(env, "compute_terminated")
            fidelity = "released" if known is None else "described"
        self._recomputes = fidelity == "described" and k != 0
        self._given: tuple[OfGoals | None, ...] = compute_reward, compute_terminated
        self._reward: OfGoals | None
        self._terminated: OfGoals | None
        self.set_env(env)
        self.observation_space, self.action_space = spaces, action_space
        self._keys = _info_keys(info_keys)
        #: A ring of the infos of stored steps, by the number in field `INFO`; None: none are kept.
        self._infos: list[Any] | None = None
        if copy_infos:
            if self._keys:
                raise ValueError(
                    "info_keys: not allowed together with copy_infos=True, which keeps every key"
                )
            room = int(size) * ((env.num_envs if several else 1) + 1)
            if room > EXACT:
                raise ValueError(
                    f"copy_infos: True is not allowed for a buffer of this size, which must keep "
                    f"{room:,} infos; at most {EXACT:,} can be kept"
                )
            self._infos, self._keys = [{}] * room, (INFO,)
        self._n_infos = 0
        check_choice("rest", rest, ("keep", "drop"))
        keeps_rest = rest == "keep" and k != 0
        self._fields, row = goal_fields(spaces, action_space, self._keys, keeps_rest)
        relabelling = Relabelling(strategy, k, self._recomputes, fidelity)
        self.episodes = EpisodeBuffer(
            size,
            env.num_envs if several else 1,
            self._fields,
            row,
            relabelling,
            self._outcome,
            relabel_at=relabel_at,
            prioritized=prioritized,
            alpha=alpha,
            max_episode_len=max_episode_len,
            seed=seed,
        )

    def set_env(self, env: Any) -> None:
        """Use this environment's `compute_reward` and `compute_terminated`, unless passed in.

        A pickled or copied buffer has no environment until this is called.

        Raises:
            ValueError: the environment lacks these methods, or it resets by itself.
        """
        mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        if mode not in (None, AutoresetMode.DISABLED):
            raise ValueError(
                f"env: {mode} is not allowed, because next_obs must be the observation after the "
                "step, not after a reset; make it with autoreset_mode=AutoresetMode.DISABLED"
            )
        reward, ends = (
            method_of(env, name) if function is None else function
            for name, function in zip(NAMES, self._given, strict=True)
        )
        if reward is None:
            raise ValueError(
                "compute_reward: None is not allowed, because the environment has no such method"
            )
        if self._recomputes and ends is None:
            raise ValueError(
                "compute_terminated: None is not allowed, because the environment has no such "
                "method; pass a function that tells which goals terminate an episode, or "
                "fidelity='released' to keep terminations as stored"
            )
        for name, found in zip(NAMES, (reward, ends), strict=True):
            if found is not None:
                check_function(name, found, "(achieved goals, desired goals, infos)")
        self._reward, self._terminated = reward, ends

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the environment, but with the functions that were passed in."""
        # cloudpickle, because they may be lambdas.
        given = cloudpickle.dumps(self._given)
        return vars(self) | {"_given": given, "_reward": None, "_terminated": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._given = pickle.loads(state["_given"])
        self._reward, self._terminated = self._given

    def __len__(self) -> int:
        """Number of transitions that can be sampled: those of finished episodes."""
        return len(self.episodes)

    def add(
        self,
        obs: Mapping[str, Any],
        action: Any,
        reward: Any,
        next_obs: Mapping[str, Any],
        terminated: Any,
        truncated: Any,
        info: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one step; of a vector environment, one step of each, with a leading axis [env].

        Nothing is stored if this raises, including when a function of the environment raises.

        Args:
            obs: the observation before the action, a dictionary.
            action: the action taken.
            reward: its reward.
            next_obs: the observation after the action, even if the episode ends there; not the
                first observation after a reset.
            terminated: whether the episode ended and nothing follows.
            truncated: whether the episode was cut, for example by a time limit, so that the next
                state still has a value.
            info: the step's info; it must contain the `info_keys`.

        Raises:
            ValueError: a shape or type is wrong, a number is not finite, a key is missing, or the
                episode is too long.
        """
        before = () if self._one_env else (self.episodes.n_envs,)
        rows = np.empty((*before, self.episodes.row.width), np.float32)
        self._write(rows, obs, action, reward, next_obs, terminated, info)
        over = truth("truncated", truncated, before) | (rows[..., self.episodes.row.terminated] > 0)
        ending = [env for env, ends in enumerate(over.ravel().tolist()) if ends]
        self.episodes.add(rows.reshape(-1, 1, self.episodes.row.width), ending)

    def add_episode(
        self,
        obs: Mapping[str, Any],
        actions: Any,
        rewards: Any,
        next_obs: Mapping[str, Any],
        terminated: bool,
        infos: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a whole episode, as arrays with a leading axis [step]; open episodes stay open.

        Args:
            obs: the observations before the actions.
            actions: the actions taken.
            rewards: [step].
            next_obs: the observations after the actions.
            terminated: whether the last step terminated the episode; if not, it was truncated.
            infos: arrays [step] of the `info_keys`; with `copy_infos`, one dictionary per step.

        Raises:
            ValueError: as `add`.
        """
        steps = np.asarray(rewards).size
        self.episodes.check_length(steps)
        rows = np.empty((steps, self.episodes.row.width), np.float32)
        ends = np.zeros(steps, bool)
        ends[-1:] = truth("terminated", terminated, ())
        self._write(rows, obs, actions, rewards, next_obs, ends, infos)
        self.episodes.add_episodes([rows])

    def sample(self, batch_size: int, beta: float = 0.4) -> Sample:
        """Sample a batch with replacement, partly relabelled.

        Args:
            batch_size: number of transitions.
            beta: exponent of the importance weights of a prioritised buffer; 1 corrects fully.

        Raises:
            ValueError: no episode is finished yet, or `batch_size` or `beta` is invalid.
        """
        return self._out(*self.episodes.sample(batch_size, beta))

    def sample_at(self, indexes: Array, uniform: Array) -> Sample:
        """Return the batch of given transitions; see `EpisodeBuffer.sample_at`."""
        return self._out(self.episodes.sample_at(indexes, uniform), None, indexes)

    def _out(self, rows: Rows, weights: Array | None, indexes: Array) -> Sample:
        fields = self._fields
        return Sample(
            {key: fields[key].read(rows) for key in GOAL_KEYS},
            fields["action"].read(rows),
            rows[:, self.episodes.row.reward],
            {key: fields[f"next {key}"].read(rows) for key in GOAL_KEYS},
            rows[:, self.episodes.row.terminated] > 0,
            weights,
            indexes,
        )

    def update_priorities(self, indexes: Any, td_errors: Any) -> None:
        """Update the priorities of sampled transitions from their TD errors [sample].

        Raises:
            ValueError: the buffer is not prioritised, or an index or TD error is invalid.
        """
        self.episodes.update_priorities(indexes, td_errors)

    def truncate_last_trajectory(self) -> None:
        """End the open episodes as if a time limit had cut them, for example after a restart."""
        self.episodes.end_episodes(range(self.episodes.n_envs))

    def clear(self) -> None:
        """Forget every transition."""
        self.episodes.clear()

    def save(self, path: str | Path) -> None:
        """Write transitions, open episodes, priorities and the generator to a file.

        Raises:
            FileError: the file cannot be written.
            ValueError: the buffer was made with `copy_infos=True`; pickle it instead.
        """
        if self._infos is not None:
            raise ValueError(
                "save: a buffer with copy_infos=True cannot be saved, because an info may hold any "
                "object; pickle the buffer, or use info_keys to keep only numbers"
            )
        self.episodes.save(Path(path))

    def load(self, path: str | Path) -> None:
        """Restore a file that `save` wrote, into a buffer made with the same arguments.

        Runs no code from the file.

        Raises:
            FileError: the file is damaged or from a buffer with other settings.  This buffer is
                then unchanged.
        """
        self.episodes.load(Path(path))

    def _write(
        self,
        rows: Rows,
        obs: Mapping[str, Any],
        actions: Any,
        rewards: Any,
        next_obs: Mapping[str, Any],
        terminated: Any,
        info: Mapping[str, Any] | None,
    ) -> None:
        """Write steps [...] into rows [..., width]; raise ValueError if they do not fit."""
        fields = self._fields
        for given, which in ((obs, ""), (next_obs, "next ")):
            for key in GOAL_KEYS:
                if key not in given:
                    raise ValueError(
                        f"{which}{key}: missing from the observation, which has {sorted(given)}"
                    )
                fields[which + key].write(rows, given[key])
        fields["action"].write(rows, actions)
        fields["reward"].write(rows, rewards)
        rows[..., self.episodes.row.terminated] = truth("terminated", terminated, rows.shape[:-1])
        last = rows.shape[-1] - len(self._keys)
        rows[..., self.episodes.row.failed : last] = 0.0  # `add_episodes` fills these in
        if self._infos is not None:
            self._keep_infos(rows, info)
        for key in self._keys if self._infos is None else ():
            if info is None or key not in info:
                raise ValueError(f"info: {key!r} is missing, but info_keys names it")
            fields[key].write(rows, info[key])
        check_finite(rows, fields)

    def _keep_infos(self, rows: Rows, info: Any) -> None:
        """Store the infos of steps [...], one dictionary per step."""
        assert self._infos is not None
        numbers = (self._n_infos + np.arange(rows[..., 0].size)) % len(self._infos)
        self._n_infos += len(numbers)
        infos = [info] if isinstance(info, Mapping) or info is None else list(info)
        if len(infos) != len(numbers):
            raise ValueError(
                f"infos: {len(infos)} dictionaries are not allowed; there must be {len(numbers)}"
            )
        for number, one in zip(numbers, infos, strict=True):
            self._infos[number] = dict(one or {})
        self._fields[INFO].write(rows, numbers.reshape(rows.shape[:-1]))

    def _outcome(self, rows: Rows) -> tuple[Array, Array]:
        """Compute rewards and terminations of the rows' actions under the rows' goals."""
        if self._reward is None or (self._recomputes and self._terminated is None):
            raise ValueError(
                "the buffer was pickled or copied without its environment; call set_env(env)"
            )
        n = len(rows)
        achieved = self._fields["next achieved_goal"].read(rows)
        desired = self._fields["desired_goal"].read(rows)
        infos: list[Any] = [{}] * n
        if self._infos is not None:
            numbers = rows[:, self._fields[INFO].columns.start].astype(int)
            infos = [self._infos[number] for number in numbers]
        elif self._keys:
            columns = (rows[:, self._fields[key].columns.start].tolist() for key in self._keys)
            infos = [dict(zip(self._keys, v, strict=True)) for v in zip(*columns, strict=True)]
        reward = per_row("compute_reward", self._reward(achieved, desired, infos), n)
        reward = reward.astype(np.float32, copy=False)
        if not self.episodes.relabelling.terminates_on_success:
            return reward, np.zeros(n, bool)
        assert self._terminated is not None
        ended = per_row("compute_terminated", self._terminated(achieved, desired, infos), n)
        return reward, ended.astype(bool)


def _info_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Check `info_keys`; raise ValueError for a name that cannot be a field."""
    if isinstance(keys, str):
        raise ValueError(f"info_keys: {keys!r} is not allowed; it must be a tuple, ({keys!r},)")
    names = tuple(keys)
    for i, name in enumerate(names):
        if not isinstance(name, str) or name in TAKEN or name in names[:i]:
            raise ValueError(
                f"info_keys: {name!r} is not allowed; names must be strings, all different, and "
                f"none of {', '.join(sorted(TAKEN))}"
            )
    return names


def goal_fields(
    spaces: Space[Any],
    action_space: Space[Any],
    info_keys: Sequence[str],
    has_rest: bool = False,
) -> tuple[dict[str, Field], RowLayout]:
    """Lay out the fields of a goal environment's transitions; returns the fields and their row.

    Raises:
        ValueError: a space is not supported.
    """
    if not isinstance(spaces, Dict) or set(spaces.keys()) != set(GOAL_KEYS):
        raise ValueError(
            f"observation_space: {spaces} is not allowed; it must be a dictionary of "
            f"{', '.join(GOAL_KEYS)}"
        )
    for name, space in (*spaces.items(), ("action", action_space)):
        if not isinstance(space, Box | Discrete | MultiBinary | MultiDiscrete):
            raise ValueError(
                f"{name}: the space {space} is not allowed; it must be a Box, Discrete, "
                "MultiBinary or MultiDiscrete"
            )
    if spaces["achieved_goal"].shape != spaces["desired_goal"].shape:
        raise ValueError(
            f"desired_goal: shape {spaces['desired_goal'].shape} is not allowed; it must be that "
            f"of achieved_goal, {spaces['achieved_goal'].shape}"
        )
    fields: dict[str, Field] = {}
    column = 0
    for key in GOAL_KEYS:
        shape, dtype = spaces[key].shape, spaces[key].dtype
        assert shape is not None and dtype is not None
        fields[key] = Field(key, _columns(column, shape), shape, dtype)
        column = fields[key].columns.stop
    goal, shape = fields["achieved_goal"].columns.stop, action_space.shape
    assert shape is not None and action_space.dtype is not None
    for key in GOAL_KEYS:
        at = fields[key].columns
        columns = slice(column + at.start, column + at.stop)
        fields[f"next {key}"] = replace(fields[key], name=f"next {key}", columns=columns)
    row = RowLayout.of(column, goal, int(np.prod(shape)), len(info_keys), has_rest)
    fields["action"] = Field("action", row.actions, shape, action_space.dtype)
    number = np.dtype(np.float32)
    for i, name in enumerate(("reward", "terminated")):
        fields[name] = Field(name, _columns(row.reward + i, ()), (), number)
    for i, name in enumerate(info_keys):
        fields[name] = Field(name, _columns(row.width - len(info_keys) + i, ()), (), number)
    return fields, row


def _columns(first: int, shape: tuple[int, ...]) -> slice:
    return slice(first, first + int(np.prod(shape)))
