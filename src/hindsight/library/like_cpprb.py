"""Hindsight replay with the interface of cpprb's `HindsightReplayBuffer`.

It needs no goal dictionary: you pass states, `reward_func(next_state, action, goal)` and
`goal_func(state)`, which returns the goal that a state achieves.  The desired goal is passed when
the episode ends.

Differences from cpprb: terminations are recomputed for the new goal by `terminated_func`, unless
`fidelity="released"`; `relabel_at="sampling"` stores each transition once instead of
1 + `additional_goals` times; the generator can be seeded; and the buffer can be saved.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.replay.buffer import Relabelling, RowLayout, check_choice, check_count
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
from hindsight.specs.base import Fidelity
from hindsight.specs.replay import GOAL_STRATEGIES, GoalStrategy

#: (next states [n, ...], actions [n, ...], goals [n, ...]) -> [n]
OfStates = Callable[[Array, Array, Array], Any]

#: Names that `env_dict` may not use: arrays that the buffer adds to a transition or a sample.
MADE = {"goal", "achieved goal", "rew", "ended", "failed", "weights", "indexes"}
#: The arguments of reward and termination functions, for error messages.
ABOUT = "(next states, actions, goals)"


class HindsightReplayBuffer:
    """Hindsight replay for any environment, with the interface of cpprb.

        buffer = HindsightReplayBuffer(
            100_000,
            {"obs": {"shape": 10}, "act": {"dtype": int}, "next_obs": {"shape": 10}, "done": {}},
            max_episode_len=10,
            reward_func=lambda next_obs, act, goal: (next_obs == goal).all(-1) - 1.0,
            terminated_func=lambda next_obs, act, goal: (next_obs == goal).all(-1),
        )
        buffer.add(obs=obs, act=act, next_obs=next_obs, done=done)  # every step
        buffer.on_episode_end(goal)
        batch = buffer.sample(256)

    An episode can be sampled after `on_episode_end`.
    """

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
        """Create an empty buffer.  Sizes may be whole floats such as 1e6.

        Args:
            size: capacity in transitions, including relabelled copies.
            env_dict: the arrays of a step by name, each a dictionary with "shape" (default: 1) and
                "dtype" (default: `default_dtype`).
            max_episode_len: longest episode allowed, in steps.
            reward_func: function of (next states [n, ...], actions, goals) that returns rewards
                [n].
            goal_func: function of states [n, ...] that returns the goals they achieve.  None: a
                state is its own goal.
            goal_shape: shape of a goal.  None: that of a state.
            state: name of the state in `env_dict`.
            action: name of the action in `env_dict`.
            next_state: name of the next state in `env_dict`.
            done: name of the termination in `env_dict`, if it has one: 1 if nothing follows, 0 if a
                time limit cut the episode.
            strategy: where new goals come from: "final" (with one additional goal), "future",
                "episode" or "random".
            additional_goals: additional goals per step.
            prioritized: proportional prioritised replay, with priorities (|TD error| + eps)^alpha.
            alpha: exponent of the priorities, from 0 (uniform) to 1.
            eps: added to every |TD error|.
            default_dtype: type of the arrays whose `env_dict` entry has no "dtype".
            terminated_func: function of (next states, actions, goals) that returns whether they
                terminate an episode [n].
            fidelity: "described" recomputes terminations with it, "released" keeps the stored ones.
            relabel_at: "episode_end" stores the relabelled copies, as cpprb does; "sampling" stores
                each transition once and draws a new goal each time it is sampled.
            seed: seed of the buffer's own random generator.  None: an arbitrary seed.

        Raises:
            ValueError: an argument is invalid; the message gives its name, its value and what is
                allowed.
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
                raise ValueError(f"env_dict: {name!r} is missing; it has {sorted(env_dict)}")
        for name in sorted(MADE & set(env_dict)):
            raise ValueError(f"env_dict: {name!r} is not allowed; the buffer adds it by itself")
        self.max_episode_len = max_episode_len
        self.strategy = strategy
        self.additional_goals = 1 if strategy == "final" else additional_goals
        self._reward, self._goal, self._terminated = reward_func, goal_func, terminated_func
        self._next_state, self._action = next_state, action
        recomputes = fidelity == "described" and self.additional_goals > 0 and done in env_dict
        if recomputes and terminated_func is None:
            raise ValueError(
                f"terminated_func: None is not allowed, because {done!r} is recomputed for new "
                f"goals; pass a function, or fidelity='released' to keep {done!r} as stored"
            )
        state_shape = env_dict[state]["shape"]
        if env_dict[next_state]["shape"] != state_shape:
            raise ValueError(
                f"{next_state}: shape {env_dict[next_state]['shape']} is not allowed; it must be "
                f"that of {state}, {state_shape}"
            )
        self.goal_shape = state_shape if goal_shape is None else _shape("goal_shape", goal_shape)
        if goal_func is None and self.goal_shape != state_shape:
            raise ValueError(
                f"goal_shape: {self.goal_shape} is not allowed without a goal_func; it must be "
                f"that of a state, {state_shape}"
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
        """Add a step, or several with a leading axis, as keyword arguments named in `env_dict`.

        Raises:
            ValueError: a name is missing or unknown, a shape or type is wrong, a number is not
                finite, or the episode is longer than `max_episode_len`.  Nothing is stored then.
        """
        names = {field.name for field in self._given}
        if set(kwargs) != names:
            raise ValueError(
                f"add: {sorted(kwargs)} is not allowed; its arguments must be {sorted(names)}"
            )
        steps = max(np.asarray(kwargs[self._state]).size // self._n_state, 1)
        rows = np.zeros((steps, self.episodes.row.width), np.float32)
        for field in self._given:
            values = np.asarray(kwargs[field.name])
            # A single number may lack its axis, and a single step the axis of steps.
            if values.size == steps * int(np.prod(field.shape)):
                values = values.reshape(steps, *field.shape)
            if field.name == self._done:
                values = truth(field.name, values, (steps, *field.shape))
            field.write(rows, values)
        check_finite(rows, self._fields)
        self.episodes.add(rows[None])

    def on_episode_end(self, goal: Any) -> None:
        """End the episode, so that it can be sampled.  Does nothing if no episode is open.

        The episode stays open if this raises, including when one of your functions raises.

        Args:
            goal: its desired goal [*goal_shape], or one per step [step, *goal_shape].

        Raises:
            ValueError: the goal has another shape or is not finite, or a function returned an
                invalid result.
        """
        rows = self.episodes.open_rows(0)
        n = len(rows)
        if n == 0:
            return
        desired = np.asarray(goal)
        if desired.size == int(np.prod(self.goal_shape)) and desired.ndim == 0:
            desired = desired.reshape(self.goal_shape)  # a single number may lack its axis
        if desired.shape != (n, *self.goal_shape):
            if desired.shape != self.goal_shape:
                raise ValueError(
                    f"goal: shape {desired.shape} is not allowed; it must be {self.goal_shape}"
                )
            desired = np.broadcast_to(desired, (n, *self.goal_shape))
        self._fields["goal"].write(rows, desired)
        if self._goal is not None:
            achieved = np.asarray(self._goal(self._fields[self._next_state].read(rows)))
            if achieved.shape != (n, *self.goal_shape):
                raise ValueError(
                    f"goal_func: it returned shape {achieved.shape} for {n} states, which is not "
                    f"allowed; it must return {(n, *self.goal_shape)}"
                )
            self._fields["achieved goal"].write(rows, achieved)
        check_finite(rows, self._fields)
        rows[:, self.episodes.row.reward] = self._outcome(rows)[0]
        self.episodes.end_episodes([0])

    def sample(self, batch_size: int, beta: float = 0.4) -> dict[str, Array]:
        """Sample a batch; returns the arrays of `env_dict`, "goal", and "rew" [sample, 1], by name.

        A prioritised buffer adds "weights" and "indexes" [sample].

        Args:
            batch_size: number of transitions.
            beta: exponent of the importance weights of a prioritised buffer; 1 corrects fully.

        Raises:
            ValueError: no episode is finished yet, or `batch_size` or `beta` is invalid.
        """
        # cpprb accepts NumPy's booleans, which cannot be negated.
        exponent = float(beta) if isinstance(beta, np.bool_) else beta
        rows, weights, indexes = self.episodes.sample(batch_size, exponent)
        batch = self._read(rows)
        if weights is not None:
            batch |= {"weights": weights, "indexes": indexes}
        return batch

    def update_priorities(self, indexes: Any, priorities: Any) -> None:
        """Update the priorities of sampled transitions from their |TD errors| [sample].

        Args:
            indexes: [sample], as `sample` returned them; whole floats are accepted.
            priorities: [sample], their |TD errors|.

        Raises:
            ValueError: the buffer is not prioritised, or an index or TD error is invalid.
        """
        numbers = np.asarray(indexes)
        if numbers.dtype.kind == "f" and (numbers == np.trunc(numbers)).all():
            numbers = numbers.astype(np.int64)
        self.episodes.update_priorities(numbers, priorities)

    def get_max_priority(self) -> float:
        """Return the largest |TD error| so far; 1 if none is larger, or if alpha is 0."""
        buffer = self.episodes.with_priorities
        largest = float(buffer.largest[0])
        return 1.0 if largest == 1 else largest ** (1 / buffer.alpha) - buffer.eps

    def get_stored_size(self) -> int:
        """Return the number of transitions that can be sampled; it grows when an episode ends."""
        return len(self.episodes)

    def get_buffer_size(self) -> int:
        """Return the capacity in transitions."""
        return self.episodes.size

    def get_all_transitions(self, shuffle: bool = False) -> dict[str, Array]:
        """Return all transitions that can be sampled, oldest first or shuffled."""
        rows = self.episodes.all_rows()
        return self._read(self.episodes.rng.permutation(rows) if shuffle else rows)

    def clear(self) -> None:
        """Forget every transition."""
        self.episodes.clear()

    def save(self, path: str | Path) -> None:
        """Write transitions, open episode, priorities and generator; FileError if it fails."""
        self.episodes.save(Path(path))

    def load(self, path: str | Path) -> None:
        """Restore a file that `save` wrote, into a buffer made with the same arguments.

        Runs no code from the file.

        Raises:
            FileError: the file is damaged or from a buffer with other settings.  This buffer is
                then unchanged.
        """
        self.episodes.load(Path(path))

    def _read(self, rows: Rows) -> dict[str, Array]:
        fields = [*self._given, self._fields["goal"], self._fields["rew"]]
        return {field.name: field.read(rows) for field in fields}

    def _outcome(self, rows: Rows) -> tuple[Array, Array]:
        """Compute rewards and terminations of the rows' actions under the rows' goals."""
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
    """Convert a whole float such as 1e6 to an int; return anything else unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _arrays(env_dict: Any, default: Any) -> dict[str, dict[str, Any]]:
    """Check `env_dict` and complete its shapes and types; raise ValueError if it is invalid.

    `default` is the type of arrays that have none; None: float32.
    """
    if not isinstance(env_dict, Mapping):
        raise ValueError(f"env_dict: {env_dict!r} is not allowed; it must be a dictionary")
    arrays = {}
    for name, of in env_dict.items():
        if not isinstance(of, Mapping):
            raise ValueError(
                f'{name}: {of!r} is not allowed; it must be a dictionary with "shape" and "dtype"'
            )
        given = of.get("dtype", np.float32 if default is None else default)
        try:
            dtype: np.dtype[Any] | None = np.dtype(given)
        except TypeError:
            dtype = None
        if dtype is None or dtype.kind not in "fiub":
            raise ValueError(f"{name}: dtype {given!r} is not allowed; it must be a numeric type")
        arrays[name] = {"shape": _shape(name, of.get("shape", 1)), "dtype": dtype}
    return arrays


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    """Convert a shape given as one or several numbers; raise ValueError if it is invalid."""
    sizes = np.atleast_1d(np.asarray(shape))
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError(
            f"{name}: shape {shape!r} is not allowed; it must be whole numbers, 1 or more"
        )
    return tuple(int(size) for size in sizes)


def _layout(
    env_dict: Mapping[str, Mapping[str, Any]],
    goal_shape: tuple[int, ...],
    names: Mapping[str, str],
    has_goal_func: bool,
) -> tuple[dict[str, Field], RowLayout]:
    """Lay out the fields of a transition: the arrays of `env_dict` and those that the buffer adds.

    `names` maps state, action, next_state and done to their names in `env_dict`.
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
        raise ValueError(f"{done.name}: shape {done.shape} is not allowed; it must be (1,)")
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
    )
    return fields, row
