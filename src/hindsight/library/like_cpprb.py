"""Hindsight replay with the interface of cpprb's `HindsightReplayBuffer`.

It needs no goal dictionary: you pass states, `reward_func(next_state, action, goal)` and
`goal_func(state)`, which returns the goal that a state achieves.  The desired goal is passed when
the episode ends.

docs/replay.md lists the differences.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from hindsight.relabel import goals
from hindsight.replay.buffer import (
    Index,
    NothingToSampleError,
    Relabelling,
    RowLayout,
    check_choice,
    count_of,
)
from hindsight.replay.fields import (
    FLOAT,
    Array,
    Field,
    FieldBuffer,
    Rows,
    check_function,
    laid_out,
    per_goal,
    truth,
    width_of,
)
from hindsight.specs.base import Fidelity
from hindsight.specs.errors import not_allowed
from hindsight.specs.replay import GoalStrategy

#: (next states [n, ...], actions [n, ...], goals [n, ...]) -> [n]
OfStates = Callable[[Array, Array, Array], Any]

#: The shape and the type of each array of a step, by name.
Arrays = Mapping[str, tuple[tuple[int, ...], Any]]
#: Names that `env_dict` may not use: arrays that the buffer adds to a transition or a sample.
MADE = {"goal", "achieved goal", "rew", "ended", "failed", "weights", "indexes"}
#: The arguments of reward and termination functions, for error messages.
ABOUT = "(next states, actions, goals)"


class HindsightReplayBuffer(FieldBuffer):
    """Hindsight replay for any environment, with the interface of cpprb.

        buffer.add(obs=obs, act=act, next_obs=next_obs, done=done)  # every step
        buffer.on_episode_end(goal)
        batch = buffer.sample(256)

    An episode can be sampled after `on_episode_end`.  docs/replay.md has a whole program.
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
        relabel_at: Literal["sampling", "episode_end"] = "episode_end",
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
            goal_shape: None: that of a state.
            state: name of the states in `env_dict`.
            action: name of the actions.
            next_state: name of the next states.
            done: name of the termination in `env_dict`, if it has one: 1 if nothing follows, 0 if a
                time limit cut the episode.
            strategy: where new goals come from: "final" (with one additional goal), "future",
                "episode" or "random".
            additional_goals: per step.
            prioritized: proportional prioritised replay, with priorities (|TD error| + eps)^alpha;
                an alpha of 0 is uniform.
            terminated_func: function of (next states, actions, goals) that returns whether they
                terminate an episode [n].
            fidelity: "described" recomputes terminations with it, "released" keeps the stored ones.
            relabel_at: "episode_end" stores the relabelled copies, as cpprb does; "sampling" stores
                each transition once and draws a new goal each time it is sampled.
            seed: of the buffer's own random generator.  None: an arbitrary one.

        Raises:
            ValueError: an argument is invalid.
        """
        check_choice("relabel_at", relabel_at, ("sampling", "episode_end"))
        size, max_episode_len = count_of("size", size), count_of("max_episode_len", max_episode_len)
        additional_goals = count_of("additional_goals", additional_goals, 0)
        if max_episode_len > size:
            least = f"it must be at least max_episode_len, {max_episode_len}"
            raise not_allowed("size", size, least)
        check_function("reward_func", reward_func, ABOUT)
        check_function("goal_func", goal_func, "states", optional=True)
        check_function("terminated_func", terminated_func, ABOUT, optional=True)
        self.max_episode_len, self.strategy = max_episode_len, strategy
        self.additional_goals = k = 1 if strategy == "final" else additional_goals
        self._reward, self._goal, self._terminated = reward_func, goal_func, terminated_func
        self._state, self._action, self._next_state, self._done = state, action, next_state, done
        arrays = _arrays(env_dict, default_dtype)
        recomputes = fidelity == "described" and k > 0 and done in arrays
        if recomputes and terminated_func is None:
            raise ValueError(
                f"terminated_func: None is not allowed, because {done!r} is recomputed for new "
                f"goals; pass a function, or fidelity='released' to keep {done!r} as stored"
            )
        fields, row, self.goal_shape = self._layout(arrays, goal_shape)
        self._given = [fields[name] for name in arrays]
        #: Copies of an episode's steps that are stored when it ends.
        self._copies = k if relabel_at == "episode_end" else 0
        super().__init__(
            size,
            1,
            fields,
            row,
            Relabelling(strategy, k - self._copies, recomputes, fidelity),
            longest=max_episode_len + 1,  # `on_episode_end` ends it before
            prioritized=prioritized,
            alpha=alpha,
            eps=eps,
            seed=seed,
        )

    def _settings(self) -> dict[str, Any]:
        own = {"max_episode_len": self.max_episode_len, "additional_goals": self.additional_goals}
        return super()._settings() | own

    def _layout(
        self, arrays: Arrays, goal_shape: int | Sequence[int] | None
    ) -> tuple[dict[str, Field], RowLayout, tuple[int, ...]]:
        """Fields of a transition, their row, and the shape of a goal; ValueError if unfit."""
        state, next_state, done = self._state, self._next_state, self._done
        for name in (state, self._action, next_state):
            if name not in arrays:
                raise ValueError(f"env_dict: {name!r} is missing; it has {sorted(arrays)}")
        for name in sorted(MADE & set(arrays)):
            raise not_allowed("env_dict", repr(name), "the buffer adds it by itself")
        shapes = {name: shape for name, (shape, _) in arrays.items()}
        if shapes[next_state] != shapes[state]:
            wanted = f"it must be that of {state}, {shapes[state]}"
            raise not_allowed(next_state, f"shape {shapes[next_state]}", wanted)
        if shapes.get(done, (1,)) != (1,):
            raise not_allowed(done, f"shape {shapes[done]}", "it must be (1,)")
        goal = shapes[state] if goal_shape is None else _shape("goal_shape", goal_shape)
        if self._goal is None and goal != shapes[state]:
            raise ValueError(
                f"goal_shape: {goal} is not allowed without a goal_func; it must be that of a "
                f"state, {shapes[state]}"
            )
        of_goals = arrays[next_state][1]
        if self._goal is not None:  # which may return fractions of whole numbers
            of_goals = np.result_type(FLOAT, of_goals)
        fields = laid_out(
            [
                # The ring reads `done`, as a float.
                *((n, *how, FLOAT if n == done else how[1]) for n, how in arrays.items()),
                ("goal", goal, arrays[state][1], of_goals),
                ("achieved goal", goal if self._goal is not None else (0,), of_goals, of_goals),
                *((name, (1,), FLOAT, FLOAT) for name in ("rew", "ended", "failed")),
            ]
        )
        columns = {name: field.columns for name, field in fields.items()}
        row = RowLayout(
            width=width_of(fields),
            obs=columns[state],
            next_obs=columns[next_state],
            desired=(columns["goal"],),
            next_achieved=columns[next_state if self._goal is None else "achieved goal"],
            actions=columns[self._action],
            reward=columns["rew"].start,
            terminated=columns.get(done, columns["ended"]).start,
            failed=columns["failed"].start,
        )
        return fields, row, goal

    def add(self, **kwargs: Any) -> None:
        """Add a step, or several with a leading axis, as keyword arguments named in `env_dict`.

        Raises:
            ValueError: a name is missing or unknown, a shape or type is wrong, a number is not
                finite, or the episode is longer than `max_episode_len`.  Nothing is stored then.
        """
        names = {field.name for field in self._given}
        if set(kwargs) != names:
            raise not_allowed("add", sorted(kwargs), f"its arguments must be {sorted(names)}")
        of_one = int(np.prod(self.fields[self._state].shape))
        steps = max(np.asarray(kwargs[self._state]).size // of_one, 1)
        length = int(self.ring.elapsed[0, 0]) + steps
        if length > self.max_episode_len:
            raise ValueError(
                f"an episode of {length} steps is not allowed; it must have 1 to "
                f"{self.max_episode_len}"
            )
        given: dict[str, Array] = {}
        for field in self._given:
            values = np.asarray(kwargs[field.name])
            # A single number may lack its axis, and a single step the axis of steps.
            one = [(), field.shape] if field.shape == (1,) else [field.shape]
            many = [(steps, *shape) for shape in one]
            if values.shape in (*many, *(one if steps == 1 else ())):
                values = values.reshape(steps, *field.shape)
            if field.name == self._done:
                values = truth(field.name, values, (steps, *field.shape))
            given[field.name] = values
        self.ring.add_rows(self._written((steps,), given)[None, None], np.array([[False]]))

    def on_episode_end(self, goal: Any) -> None:
        """End the episode, so that it can be sampled.  Does nothing if no episode is open.

        The episode stays open if this raises, including when one of your functions raises.

        Args:
            goal: its desired goal [*goal_shape], or one per step [step, *goal_shape].

        Raises:
            ValueError: the goal has another shape or is not finite, or a function returned an
                invalid result.
        """
        ring, row = self.ring, self.row
        n = int(ring.elapsed[0, 0])
        if n == 0:
            return
        desired = np.atleast_1d(goal)  # a single number may lack its axis
        if desired.shape not in (self.goal_shape, (n, *self.goal_shape)):
            raise not_allowed("goal", f"shape {desired.shape}", f"it must be {self.goal_shape}")
        slots = np.arange(ring.position - n, ring.position) % ring.n_slots
        rows = ring.gather(slots).numpy()
        self.fields["goal"].write(rows, np.broadcast_to(desired, (n, *self.goal_shape)))
        if self._goal is not None:
            # A copy, as in `_outcome`: a function may change what it is given.
            achieved = self._goal(self.fields[self._next_state].read(rows).copy())
            self.fields["achieved goal"].write(rows, achieved)
        self._check_finite(rows)
        reward, success = self._outcome(rows, slots)
        rows[:, row.reward] = reward
        rows[:, row.failed] = (rows[:, row.terminated] > 0) & ~success
        ring.rows[0, 0, slots] = torch.from_numpy(rows)
        copies = self._copies_of(rows, slots)  # the last that may raise
        ring.end_episodes()
        for copy in copies:
            ring.add_rows(copy[None, None], np.array([[True]]))

    def _copies_of(self, rows: Rows, slots: Index) -> Sequence[Rows]:
        """Copies [step, width] of the open episode with other goals, which may be its own."""
        ring, k, n = self.ring, self._copies, len(rows)
        if not k:
            return []
        step = np.tile(np.arange(n), k)
        uniform = self.rng.random(len(step))
        if self.strategy == "random":
            oldest = int(ring.oldest[0, 0])
            source = (oldest + (uniform * (ring.position - oldest)).astype(int)) % ring.n_slots
        else:
            source = slots[goals.choose(self.strategy, step, step, n - step, uniform)]
        copies = torch.from_numpy(rows[step])
        copies[:, self.row.desired[0]] = ring.gather(source)[:, self.row.next_achieved]
        every = torch.ones(len(copies), dtype=torch.bool)
        ring.settle(copies, every, *self._settled(copies, source))
        return np.split(copies.numpy(), k)

    def sample(self, batch_size: int, beta: float = 0.4) -> dict[str, Array]:
        """Sample a batch; returns the arrays of `env_dict`, "goal", and "rew" [sample, 1], by name.

        A prioritised buffer adds "weights" and "indexes" [sample].  `beta` is the exponent of its
        importance weights; 1 corrects fully.

        Raises:
            ValueError: no episode is finished yet, or `batch_size` or `beta` is invalid.
        """
        if not len(self):
            raise NothingToSampleError(
                "there is nothing to sample: call on_episode_end(goal) first"
            )
        rows, weights, indexes = self._drawn(batch_size, beta)
        batch = self._named(rows)
        if weights is not None:
            batch |= {"weights": weights, "indexes": indexes}
        return batch

    def update_priorities(self, indexes: Any, priorities: Any) -> None:
        """As `FieldBuffer.update_priorities`; indexes may be whole floats, as in cpprb."""
        numbers = np.asarray(indexes)
        if numbers.dtype.kind == "f" and (numbers == np.trunc(numbers)).all():
            numbers = numbers.astype(np.int64)
        super().update_priorities(numbers, priorities)

    def get_max_priority(self) -> float:
        """Return the largest |TD error| so far; 1 if none is larger, or if alpha is 0."""
        ring = self._prioritized
        largest = float(ring.largest[0])
        return 1.0 if largest == 1 else largest ** (1 / ring.alpha) - ring.eps

    def get_stored_size(self) -> int:
        """Return the number of transitions that can be sampled; it grows when an episode ends."""
        return len(self)

    def get_buffer_size(self) -> int:
        """Return the capacity in transitions."""
        return self.ring.n_slots

    def get_all_transitions(self, shuffle: bool = False) -> dict[str, Array]:
        """Return all transitions that can be sampled, oldest first or shuffled."""
        rows = self.ring.gather(self.ring.stored()).numpy()
        return self._named(self.rng.permutation(rows) if shuffle else rows)

    def _named(self, rows: Rows) -> dict[str, Array]:
        fields = [*self._given, self.fields["goal"], self.fields["rew"]]
        return {field.name: field.read(rows) for field in fields}

    def _outcome(self, rows: Rows, index: Index) -> tuple[Array, Array]:
        goal = self.fields["goal"]
        # As `goal_func` returned it: in a state's type, as a sample has it, it could be cut off.
        whole = replace(goal, dtype=goal.stored)
        parts = self.fields[self._next_state], self.fields[self._action], whole

        def arguments() -> list[Array]:
            return [part.read(rows).copy() for part in parts]

        n = len(rows)
        rewards = per_goal("reward_func", self._reward, arguments(), n)
        if not self.ring.relabelling.terminates_on_success:
            return rewards, np.zeros(n, bool)
        ends = per_goal("terminated_func", self._terminated, arguments(), n)
        return rewards, ends.astype(bool)


def _arrays(env_dict: Any, default: Any) -> Arrays:
    """Shape and type of each array of `env_dict`, float32 unless given; ValueError if invalid."""
    if not isinstance(env_dict, Mapping):
        raise not_allowed("env_dict", repr(env_dict), "it must be a dictionary")
    arrays = {}
    for name, of in env_dict.items():
        if not isinstance(of, Mapping):
            wanted = 'it must be a dictionary with "shape" and "dtype"'
            raise not_allowed(name, repr(of), wanted)
        # cpprb writes `add_shape` into the dictionary that it is given.
        if unknown := sorted(map(str, of.keys() - {"shape", "dtype", "add_shape"})):
            raise ValueError(f'{name}: {unknown[0]!r} is unknown; it can have "shape" and "dtype"')
        given = of.get("dtype", default)
        try:
            dtype = np.dtype(np.float32 if given is None else given)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in "fiub":
            raise not_allowed(name, f"dtype {given!r}", "it must be a numeric type")
        arrays[name] = _shape(name, of.get("shape", 1)), dtype
    return arrays


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    """Convert a shape given as one or several numbers; raise ValueError if it is invalid."""
    sizes = np.atleast_1d(np.asarray(shape))
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise not_allowed(name, f"shape {shape!r}", "it must be whole numbers, 1 or more")
    return tuple(int(size) for size in sizes)
