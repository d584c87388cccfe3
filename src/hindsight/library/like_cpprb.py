"""Hindsight replay under the names of cpprb's `HindsightReplayBuffer`.

For an environment without a goal dictionary: states, `reward_func(next_state, action, goal)`, and
`goal_func(state)`, the goal that a state achieves.  The desired goal comes when the episode ends.
What differs from cpprb: terminations are recomputed for the new goal, by `terminated_func`, unless
`fidelity="released"`; `relabel_at="sampling"` stores each transition once instead of
1 + `additional_goals` times; the generator can be seeded; the buffer can be saved.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.replay.buffer import (
    Relabelling,
    RowLayout,
    check_choice,
    check_count,
)
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
from hindsight.replay.prioritized import PrioritizedReplayBuffer
from hindsight.specs.base import Fidelity
from hindsight.specs.replay import GOAL_STRATEGIES, GoalStrategy

#: (next states [n, ...], actions [n, ...], goals [n, ...]) -> [n]
OfStates = Callable[[Array, Array, Array], Any]


#: Arrays of a transition that are not given but made of what is, and what comes with a sample.
MADE = {"goal", "achieved goal", "rew", "ended", "failed", "weights", "indexes"}
#: What a function is asked about.
ABOUT = "(next states, actions, goals)"


class HindsightReplayBuffer:
    """Named arrays per step; an episode can be sampled once `on_episode_end` gave its goal."""

    def __init__(
        self,
        size: int,
        env_dict: Mapping[str, Mapping[str, Any]],
        max_episode_len: int,
        reward_func: OfStates,
        *,
        goal_func: Callable[[Array], Any] | None = None,
        goal_shape: int | Sequence[int] | None = None,
        state: str = "obs",
        action: str = "act",
        next_state: str = "next_obs",
        done: str = "done",
        strategy: GoalStrategy = "future",
        additional_goals: int = 4,
        prioritized: bool = True,
        alpha: float = 0.6,
        eps: float = 1e-6,
        default_dtype: Any = np.float32,
        terminated_func: OfStates | None = None,
        fidelity: Fidelity = "described",
        relabel_at: RelabelAt = "episode_end",
        seed: int | None = None,
    ) -> None:
        """Room for `size` transitions, the relabelled copies among them.

        Args:
            size: of the ring; whole, as 1e6 is.
            env_dict: the arrays of a step by name, each with "shape" (1) and "dtype"
                (`default_dtype`).
            max_episode_len: a longer episode is an error; whole, as 1e3 is.
            reward_func: rewards of (next states, actions, goals).
            goal_func: the goals that states achieve; None: the states are the goals.
            goal_shape: of a goal; None: that of a state.
            state: its name in `env_dict`.
            action: its name there.
            next_state: its name there.
            done: its name there, which may be missing: that nothing follows, not that a time
                limit cut.
            strategy: "future", "episode", "final", for which `additional_goals` is 1, or "random".
            additional_goals: goals per step; whole.
            prioritized: proportional prioritised replay, priorities (|TD error| + eps)^alpha.
            terminated_func: whether (next states, actions, goals) terminate an episode.
            fidelity: "described" recomputes terminations by it, "released" leaves them.
            relabel_at: "episode_end" as cpprb does, or "sampling".
            seed: of the buffer's own generator.

        Raises:
            ValueError: one sentence with the key, the value and what is allowed.
        """
        size, max_episode_len = _whole(size), _whole(max_episode_len)
        additional_goals = _whole(additional_goals)
        check_choice("strategy", strategy, GOAL_STRATEGIES)
        check_count("additional_goals", additional_goals, 0)
        check_count("max_episode_len", max_episode_len, 1)
        for name, function, what in (
            ("reward_func", reward_func, ABOUT),
            ("goal_func", goal_func, "states"),
            ("terminated_func", terminated_func, ABOUT),
        ):
            if function is not None or name == "reward_func":
                check_function(name, function, what)
        env_dict = _arrays(env_dict, default_dtype)
        for name in (state, action, next_state):
            if name not in env_dict:
                raise ValueError(f"env_dict: {name!r} is missing; there are {sorted(env_dict)}")
        for name in sorted(MADE & set(env_dict)):
            raise ValueError(f"env_dict: {name!r} is not allowed; it is made here")
        self.max_episode_len = max_episode_len
        self.strategy = strategy
        self.additional_goals = 1 if strategy == "final" else additional_goals
        self._reward, self._goal, self._terminated = reward_func, goal_func, terminated_func
        self._next_state, self._action = next_state, action
        recomputes = fidelity == "described" and self.additional_goals > 0 and done in env_dict
        if recomputes and terminated_func is None:
            raise ValueError(
                f"terminated_func: None is not allowed where {done!r} is to be recomputed for new "
                "goals; give it, or fidelity='released', which leaves it as it was"
            )
        state_shape = env_dict[state]["shape"]
        if env_dict[next_state]["shape"] != state_shape:
            raise ValueError(
                f"{next_state}: shape {env_dict[next_state]['shape']} is not allowed; "
                f"it is that of {state}, {state_shape}"
            )
        self.goal_shape = state_shape if goal_shape is None else _shape("goal_shape", goal_shape)
        if goal_func is None and self.goal_shape != state_shape:
            raise ValueError(
                f"goal_shape: {self.goal_shape} is not allowed without a goal_func; "
                f"it is that of a state, {state_shape}"
            )
        names = {"state": state, "action": action, "next_state": next_state, "done": done}
        self._fields, row = _layout(env_dict, self.goal_shape, names, goal_func is not None)
        self._given = [self._fields[name] for name in env_dict]
        self._n_state = int(np.prod(state_shape))
        self._state, self._done = state, done
        self.episodes = EpisodeBuffer(
            size,
            1,
            self._fields,
            row,
            Relabelling(strategy, self.additional_goals, recomputes, fidelity),
            self._outcome,
            relabel_at=relabel_at,
            prioritized=prioritized,
            alpha=alpha,
            eps=eps,
            max_episode_len=max_episode_len,
            seed=seed,
        )

    def add(self, **kwargs: Any) -> None:
        """A step, or several with a leading axis, by the names in `env_dict`.

        Raises:
            ValueError: a name is missing or unknown, other shapes, no numbers, numbers that are not
                finite, an episode of more than `max_episode_len` steps.  Nothing is stored then.
        """
        names = {field.name for field in self._given}
        if set(kwargs) != names:
            raise ValueError(f"add: {sorted(kwargs)} is not allowed; it takes {sorted(names)}")
        steps = max(np.asarray(kwargs[self._state]).size // self._n_state, 1)
        rows = np.zeros((steps, self.episodes.row.width), np.float32)
        for field in self._given:
            values = np.asarray(kwargs[field.name])
            # A single number may come without its axis, a single step without that of the steps.
            if values.size == steps * int(np.prod(field.shape)):
                values = values.reshape(steps, *field.shape)
            if field.name == self._done:
                values = truth(field.name, values, (steps, *field.shape))
            field.write(rows, values)
        check_finite(rows, self._fields)
        self.episodes.add(rows[None])

    def on_episode_end(self, goal: Any) -> None:
        """The episode is over: it had this goal [*goal_shape], or one per step.

        Raises:
            ValueError: a goal of another shape, or what a function returned.  The episode then goes
                on, as it does where a function raises.
        """
        rows = self.episodes.open_rows(0)
        n = len(rows)
        if n == 0:
            return
        desired = np.asarray(goal)
        if desired.size == int(np.prod(self.goal_shape)) and desired.ndim == 0:
            desired = desired.reshape(self.goal_shape)  # a single number may come without its axis
        if desired.shape != (n, *self.goal_shape):
            if desired.shape != self.goal_shape:
                raise ValueError(
                    f"goal: shape {desired.shape} is not allowed; it is {self.goal_shape}"
                )
            desired = np.broadcast_to(desired, (n, *self.goal_shape))
        self._fields["goal"].write(rows, desired)
        if self._goal is not None:
            achieved = np.asarray(self._goal(self._fields[self._next_state].read(rows)))
            if achieved.shape != (n, *self.goal_shape):
                raise ValueError(
                    f"goal_func: it returned shape {achieved.shape} for {n} states, which is not "
                    f"allowed; it returns {(n, *self.goal_shape)}"
                )
            self._fields["achieved goal"].write(rows, achieved)
        check_finite(rows, self._fields)
        rows[:, self.episodes.row.reward] = self._outcome(rows)[0]
        self.episodes.end_episodes([0])

    def sample(self, batch_size: int, beta: float = 0.4) -> dict[str, Array]:
        """A batch by name: the arrays of `env_dict`, "goal" and "rew" [sample, 1].

        Where prioritised also "weights" and "indexes" [sample]; `beta` is the weights' exponent.

        Raises:
            ValueError: no episode is finished yet; a batch_size or beta that is none.
        """
        # NumPy's own truth values, which cpprb takes, know no minus.
        exponent = float(beta) if isinstance(beta, np.bool_) else beta
        rows, weights, indexes = self.episodes.sample(batch_size, exponent)
        batch = self._read(rows)
        if weights is not None:
            batch |= {"weights": weights, "indexes": indexes}
        return batch

    def update_priorities(self, indexes: Any, priorities: Any) -> None:
        """Give sampled transitions [sample] the priorities that follow from their |TD errors|."""
        numbers = np.asarray(indexes)
        if numbers.dtype.kind == "f" and (numbers == np.trunc(numbers)).all():
            numbers = numbers.astype(np.int64)  # whole ones, which is how they may come back
        self.episodes.update_priorities(numbers, priorities)

    def get_max_priority(self) -> float:
        """The largest |TD error| so far; 1 before there is a larger one, or where alpha is 0."""
        buffer = self.episodes.buffer
        if not isinstance(buffer, PrioritizedReplayBuffer):
            raise ValueError("there are no priorities: the buffer was made with prioritized=False")
        largest = float(buffer.largest[0])
        return 1.0 if largest == 1 else largest ** (1 / buffer.alpha) - buffer.eps

    def get_stored_size(self) -> int:
        """Transitions that can be sampled; grows when an episode ends."""
        return len(self.episodes)

    def get_buffer_size(self) -> int:
        """Transitions for which there is room."""
        return self.episodes.size

    def get_all_transitions(self, shuffle: bool = False) -> dict[str, Array]:
        """What is stored, the oldest first, or shuffled."""
        rows = self.episodes.all_rows()
        return self._read(self.episodes.rng.permutation(rows) if shuffle else rows)

    def clear(self) -> None:
        """Forget every transition."""
        self.episodes.clear()

    def save(self, path: str | Path) -> None:
        """Write everything but the functions; raises files.FileError."""
        self.episodes.save(Path(path))

    def load(self, path: str | Path) -> None:
        """Continue where `save` was called; raises files.FileError and then changes nothing."""
        self.episodes.load(Path(path))

    def _read(self, rows: Rows) -> dict[str, Array]:
        fields = [*self._given, self._fields["goal"], self._fields["rew"]]
        return {field.name: field.read(rows) for field in fields}

    def _outcome(self, rows: Rows) -> tuple[Array, Array]:
        """Rewards and terminations of rows' actions by the rows' goals."""
        n = len(rows)
        names = (self._next_state, self._action, "goal")
        arguments = [self._fields[name].read(rows) for name in names]
        reward = per_row("reward_func", self._reward(*arguments), n)
        reward = reward.astype(np.float32, copy=False)
        if not self.episodes.relabelling.terminates_on_success:
            return reward, np.zeros(n, bool)
        assert self._terminated is not None
        return reward, per_row("terminated_func", self._terminated(*arguments), n).astype(bool)


def _whole(value: Any) -> Any:
    """1e6 as 1 000 000; all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _arrays(env_dict: Any, default: Any) -> dict[str, dict[str, Any]]:
    """The arrays of a step, each with its "shape", numbers, and its "dtype"; ValueError for others.

    `default`: the type of those that have none; None: float32.
    """
    if not isinstance(env_dict, Mapping):
        raise ValueError(f"env_dict: {env_dict!r} is not allowed; it is a dictionary of arrays")
    arrays = {}
    for name, of in env_dict.items():
        if not isinstance(of, Mapping):
            raise ValueError(
                f'{name}: {of!r} is not allowed; it is a dictionary, of "shape" and "dtype"'
            )
        given = of.get("dtype", np.float32 if default is None else default)
        try:
            dtype: np.dtype[Any] | None = np.dtype(given)
        except TypeError:
            dtype = None
        if dtype is None or dtype.kind not in "fiub":
            raise ValueError(f"{name}: dtype {given!r} is not allowed; it is a type of numbers")
        arrays[name] = {"shape": _shape(name, of.get("shape", 1)), "dtype": dtype}
    return arrays


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    """A shape given as a number or as numbers; ValueError for others."""
    sizes = np.atleast_1d(np.asarray(shape))
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError(
            f"{name}: shape {shape!r} is not allowed; it is of whole numbers from 1 on"
        )
    return tuple(int(size) for size in sizes)


def _layout(
    env_dict: Mapping[str, Mapping[str, Any]],
    goal_shape: tuple[int, ...],
    names: Mapping[str, str],
    has_goal_func: bool,
) -> tuple[dict[str, Field], RowLayout]:
    """The fields of a transition and their row: what is given, and what is made of it.

    `names` says which of the given is state, action, next state and done.
    """
    fields: dict[str, Field] = {}
    width = 0

    def append(name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> slice:
        nonlocal width
        columns = slice(width, width + int(np.prod(shape)))
        fields[name] = Field(name, columns, shape, np.dtype(dtype))
        width = columns.stop
        return columns

    for name, of in env_dict.items():
        append(name, of["shape"], of["dtype"])
    goal = append("goal", goal_shape, fields[names["state"]].dtype)
    next_state = fields[names["next_state"]].columns
    achieved = append("achieved goal", goal_shape) if has_goal_func else next_state
    reward = append("rew", (1,)).start
    done = fields.get(names["done"]) or Field("done", append("ended", (1,)), (1,), np.dtype(bool))
    if done.shape != (1,):
        raise ValueError(f"{done.name}: shape {done.shape} is not allowed; it is one number")
    failed = append("failed", (1,)).start
    row = RowLayout(
        width=width,
        obs=fields[names["state"]].columns,
        next_obs=next_state,
        desired=(goal,),
        next_achieved=achieved,
        actions=fields[names["action"]].columns,
        reward=reward,
        terminated=done.columns.start,
        failed=failed,
        extra=slice(width, width),
    )
    return fields, row
