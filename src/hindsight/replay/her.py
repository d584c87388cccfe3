"""Hindsight replay for any goal environment: NumPy in, NumPy out.

`HindsightReplayBuffer` speaks gymnasium.  `like_stable_baselines3` and `like_cpprb` are the same
buffer under the names of those libraries.
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

#: An environment's methods that say how well goals were achieved.
NAMES = ("compute_reward", "compute_terminated")
#: Whole numbers up to here are exact as float32.
EXACT = 2**24
#: The field of a step's number among the infos.
INFO = "number of the info"
#: Names of what every transition has; those of `info_keys` are others.
TAKEN = {*GOAL_KEYS, *(f"next {key}" for key in GOAL_KEYS), "action", "reward", "terminated"}


class Sample(NamedTuple):
    """Transitions side by side; observations are dictionaries of arrays [sample, ...]."""

    obs: dict[str, Array]
    actions: Array
    rewards: Array  # [sample] float32
    next_obs: dict[str, Array]
    terminated: Array  # [sample] bool: no value beyond; false where a time limit cut
    weights: Array | None  # [sample] importance weights, where prioritised
    indexes: Array  # [sample], for `update_priorities`


def method_of(env: Any, name: str) -> Callable[..., Any] | None:
    """A method of an environment under its wrappers, or of the first of several; None without."""
    if hasattr(env, "env_method"):  # of Stable-Baselines3
        if not env.has_attr(name):
            return None
        return lambda *arguments: env.env_method(name, *arguments, indices=[0])[0]
    if hasattr(env, "envs"):
        env = env.envs[0]
    if hasattr(env, "has_wrapper_attr"):
        found = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    else:
        found = getattr(env, name, None)
    return found


class HindsightReplayBuffer:
    """Transitions of a goal environment, relabelled when they are sampled (`buffer.Relabelling`).

    Only finished episodes are sampled.  Observations and actions are stored as float32, whatever
    the spaces say, and come out in the spaces' own types.
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
        """Room for `size` transitions.

        Args:
            env: an environment, or several as one vector environment, of gymnasium or
                Stable-Baselines3, whose observations are dictionaries of `achieved_goal`,
                `desired_goal` and `observation`.  Gymnasium's may not reset on its own.
            strategy: where goals come from: "final", "future", "episode" or "random".
            k: additional goals per transition.
            fidelity: "described" recomputes terminations for the new goal, "released" does not;
                None: described where there is a compute_terminated.
            compute_reward: rewards of (achieved goals, desired goals, infos); None: the
                environment's method of that name.
            compute_terminated: whether such goals terminate an episode, as gymnasium-robotics
                defines it; None: the environment's method of that name.  It is False throughout
                where no success terminates.
            info_keys: numbers of the step's `info` to be handed to both, a dictionary per goal.
            copy_infos: keep every step's `info` as it is, to be handed to both instead.
            rest: what a reward is beyond `compute_reward`, as a fine for a crash: "keep" pays
                it under every goal, as training does, "drop" under the transition's own alone.
            relabel_at: "sampling" stores each transition once, "episode_end" k + 1 times.
            prioritized: proportional prioritised replay with the exponent `alpha`.
            max_episode_len: a longer episode is an error.
            seed: of the buffer's own generator.

        Raises:
            ValueError: one sentence with the key, the value and what is allowed.
        """
        several = hasattr(env, "num_envs")
        spaces = getattr(env, "single_observation_space", None)
        spaces = spaces or getattr(env, "observation_space", None)
        action_space = getattr(env, "single_action_space", None)
        action_space = action_space or getattr(env, "action_space", None)
        if spaces is None or action_space is None:
            raise ValueError(
                f"env: {env!r} is not allowed; it is an environment, with observation_space and "
                "action_space"
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
        #: The infos of the steps that are there, where they are kept, by their number in the rows.
        self._infos: list[Any] | None = None
        if copy_infos:
            if self._keys:
                raise ValueError(
                    "info_keys: they are not allowed beside copy_infos, which keeps all"
                )
            room = int(size) * ((env.num_envs if several else 1) + 1)
            if room > EXACT:
                raise ValueError(
                    f"copy_infos: True is not allowed for {room:,} steps; it is for {EXACT:,}"
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
        """Take from this environment what says rewards and terminations, if no function was given.

        A buffer that was pickled or copied comes without its environment.

        Raises:
            ValueError: it has no such methods, or it resets on its own within a step.
        """
        mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        if mode not in (None, AutoresetMode.DISABLED):
            raise ValueError(
                f"env: {mode} is not allowed, since next_obs must be what a step led to, not what "
                "a reset began; make it with autoreset_mode=AutoresetMode.DISABLED"
            )
        reward, ends = (
            method_of(env, name) if function is None else function
            for name, function in zip(NAMES, self._given, strict=True)
        )
        if reward is None:
            raise ValueError(
                "compute_reward: None is not allowed, since the environment has no such method"
            )
        if self._recomputes and ends is None:
            raise ValueError(
                "compute_terminated: None is not allowed, since the environment has no such "
                "method; it says which goals terminate an episode, or fidelity='released' leaves "
                "terminations as they were"
            )
        for name, found in zip(NAMES, (reward, ends), strict=True):
            if found is not None:
                check_function(name, found, "(achieved goals, desired goals, infos)")
        self._reward, self._terminated = reward, ends

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: an environment stays behind, functions that were given do not."""
        # They may be lambdas, which pickle alone cannot write.
        given = cloudpickle.dumps(self._given)
        return vars(self) | {"_given": given, "_reward": None, "_terminated": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Beside `__getstate__`."""
        vars(self).update(state)
        self._given = pickle.loads(state["_given"])
        self._reward, self._terminated = self._given

    def __len__(self) -> int:
        """Transitions that can be sampled: those of finished episodes."""
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
        """A step of the environment; of a vector environment, of all, with a leading axis [env].

        Args:
            next_obs: what the step led to, not what a reset began after it.
            terminated: the episode is over, and nothing follows.
            truncated: the episode was cut, by a time limit say, and what follows has a value.
            info: has the `info_keys`.

        Raises:
            ValueError: other shapes, no numbers, numbers that are not finite, an episode that is
                too long.  Nothing is stored then, nor where a function of the environment raises.
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
        """A whole episode, arrays with a leading axis [step]; open episodes stay open.

        Args:
            terminated: whether nothing follows the last step; else a time limit cut.
            infos: arrays [step] of the `info_keys`.

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
        """A batch, its transitions drawn with replacement.

        Args:
            beta: of the importance weights, where prioritised; 1 corrects in full.

        Raises:
            ValueError: no episode is finished yet; a batch_size or beta that is none.
        """
        return self._out(*self.episodes.sample(batch_size, beta))

    def sample_at(self, indexes: Array, uniform: Array) -> Sample:
        """The batch of the transitions that are chosen already; see `EpisodeBuffer.sample_at`."""
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
        """Give sampled transitions the priorities that follow from their TD errors [sample]."""
        self.episodes.update_priorities(indexes, td_errors)

    def truncate_last_trajectory(self) -> None:
        """End the episodes that are going on, as if a time limit had: a run is resumed anew."""
        self.episodes.end_episodes(range(self.episodes.n_envs))

    def clear(self) -> None:
        """Forget every transition."""
        self.episodes.clear()

    def save(self, path: str | Path) -> None:
        """Write transitions, open episodes, priorities and generator; raises files.FileError.

        Raises ValueError where infos are kept, since they may be anything: such a buffer is
        pickled.
        """
        if self._infos is not None:
            raise ValueError(
                "save: a buffer that keeps infos is not written, since they may be anything; "
                "pickle it, or name numbers of the info by info_keys"
            )
        self.episodes.save(Path(path))

    def load(self, path: str | Path) -> None:
        """Continue where `save` was called; raises files.FileError and then changes nothing."""
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
        """Steps [...] into rows [..., width]; ValueError for what does not fit."""
        fields = self._fields
        for given, which in ((obs, ""), (next_obs, "next ")):
            for key in GOAL_KEYS:
                if key not in given:
                    raise ValueError(f"{which}{key}: it is missing; there are {sorted(given)}")
                fields[which + key].write(rows, given[key])
        fields["action"].write(rows, actions)
        fields["reward"].write(rows, rewards)
        rows[..., self.episodes.row.terminated] = truth("terminated", terminated, rows.shape[:-1])
        first, last = self.episodes.row.failed, self.episodes.row.extra.start
        rows[..., first:last] = 0.0  # given when the episode is over
        if self._infos is not None:
            self._keep_infos(rows, info)
        for key in self._keys if self._infos is None else ():
            if info is None or key not in info:
                raise ValueError(f"info: {key!r} is missing, which info_keys names")
            fields[key].write(rows, info[key])
        check_finite(rows, fields)

    def _keep_infos(self, rows: Rows, info: Any) -> None:
        """Remember the infos of steps [...], a dictionary for each."""
        assert self._infos is not None
        numbers = (self._n_infos + np.arange(rows[..., 0].size)) % len(self._infos)
        self._n_infos += len(numbers)
        infos = [info] if isinstance(info, Mapping) or info is None else list(info)
        if len(infos) != len(numbers):
            raise ValueError(f"infos: {len(infos)} are not allowed; it takes {len(numbers)}")
        for number, one in zip(numbers, infos, strict=True):
            self._infos[number] = dict(one or {})
        self._fields[INFO].write(rows, numbers.reshape(rows.shape[:-1]))

    def _outcome(self, rows: Rows) -> tuple[Array, Array]:
        """Rewards and terminations of rows' actions by the rows' goals."""
        if self._reward is None or (self._recomputes and self._terminated is None):
            raise ValueError(
                "the buffer was pickled or copied without its environment; set_env gives it one"
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
    """Names for more numbers of a transition; ValueError for what is none."""
    if isinstance(keys, str):
        raise ValueError(f"info_keys: {keys!r} is not allowed; it is a tuple, ({keys!r},)")
    names = tuple(keys)
    for i, name in enumerate(names):
        if not isinstance(name, str) or name in TAKEN or name in names[:i]:
            raise ValueError(
                f"info_keys: {name!r} is not allowed; each is a string, there once, and none of "
                f"{', '.join(sorted(TAKEN))}"
            )
    return names


def goal_fields(
    spaces: Space[Any],
    action_space: Space[Any],
    info_keys: Sequence[str],
    has_rest: bool = False,
) -> tuple[dict[str, Field], RowLayout]:
    """The fields of a goal environment's transitions and their row.

    Raises:
        ValueError: a space that is not for us.
    """
    if not isinstance(spaces, Dict) or set(spaces.keys()) != set(GOAL_KEYS):
        raise ValueError(
            f"observation_space: {spaces} is not allowed; "
            f"it is a dictionary of {', '.join(GOAL_KEYS)}"
        )
    for name, space in (*spaces.items(), ("action", action_space)):
        if not isinstance(space, Box | Discrete | MultiBinary | MultiDiscrete):
            raise ValueError(
                f"{name}: the space {space} is not allowed; it is a Box, Discrete, MultiBinary or "
                "MultiDiscrete"
            )
    if spaces["achieved_goal"].shape != spaces["desired_goal"].shape:
        raise ValueError(
            f"desired_goal: shape {spaces['desired_goal'].shape} is not allowed; "
            f"it is that of achieved_goal, {spaces['achieved_goal'].shape}"
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
        fields[name] = Field(name, _columns(row.extra.start + i, ()), (), number)
    return fields, row


def _columns(first: int, shape: tuple[int, ...]) -> slice:
    return slice(first, first + int(np.prod(shape)))
