"""What the replay buffers for NumPy share: one learner, whole episodes, a generator of its own.

Steps are collected beside the buffer, environment by environment; an episode enters it when it is
over.  Environments need therefore not end, or even step, together.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray

from hindsight.io.files import FileError, must_be_stored, reason, write_whole
from hindsight.relabel.goals import STRATEGIES
from hindsight.replay.buffer import Relabelling, ReplayBuffer, RowLayout, check_choice, check_count
from hindsight.replay.prioritized import PrioritizedReplayBuffer

Array = NDArray[Any]
Rows = NDArray[np.float32]

#: Rows [n, width] -> how well their actions did by their goals: rewards [n] float32, and successes
#: [n] bool as far as they terminate an episode.
Outcome = Callable[[Rows], tuple[Array, Array]]

RelabelAt = Literal["sampling", "episode_end"]
#: What a file of ours says it is.
FORMAT = "hindsight replay buffer 2"
#: What comes of reading a file that is none, or was cut, or has other things in it.
UNREADABLE = (
    OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, BadZipFile,
    MemoryError, OverflowError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """An array of a transition: its name for the user, its columns in a row, its shape, its type.

    In the buffer every number is a float32; what comes out has the field's own type.
    """

    name: str
    columns: slice
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def write(self, rows: Rows, values: Any) -> None:
        """`values` [..., *shape] into rows [..., width]; ValueError for what does not fit."""
        array = np.asarray(values)
        before = rows.shape[:-1]
        if array.shape != before + self.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{self.name}: {_described(array)} is not allowed; "
                f"it takes numbers of shape {before + self.shape}"
            )
        part = array if len(self.shape) == 1 else array.reshape(*before, -1)
        rows[..., self.columns] = part
        if array.dtype.kind in "iu" and (changed := rows[..., self.columns] != part).any():
            raise ValueError(
                f"{self.name}: {part[changed][0]} is not allowed; float32 cannot hold it exactly"
            )

    def read(self, rows: Rows) -> Array:
        """[n, *shape] from rows [n, width]; a view of them where that is possible."""
        part = rows[:, self.columns]
        if len(self.shape) != 1:
            part = part.reshape(len(rows), *self.shape)
        return part if part.dtype == self.dtype else part.astype(self.dtype)


def _described(array: Array) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"


def check_finite(rows: Rows, fields: Mapping[str, Field]) -> None:
    """Raise ValueError, with the field's name, where a number of the rows [..., width] is none."""
    if np.isfinite(rows).all():
        return
    for field in fields.values():
        values = rows[..., field.columns]
        bad = values[~np.isfinite(values)]
        if bad.size:
            raise ValueError(f"{field.name}: {bad[0]} is not allowed; every number must be finite")


def truth(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """Truth values [*shape], of which numbers 0 and 1 are some, too; ValueError for others."""
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name}: {_described(array)} is not allowed; it takes truth values of shape {shape}"
        )
    if array.dtype.kind == "b":
        return array
    if (bad := array[(array != 0) & (array != 1)]).size:
        raise ValueError(f"{name}: {bad[0]} is not allowed; it is true or false, or 1 or 0")
    return array.astype(bool)


def check_function(name: str, value: Any, what: str) -> None:
    """Raise ValueError for what cannot be called."""
    if not callable(value):
        raise ValueError(f"{name}: {value!r} is not allowed; it is a function of {what}")


def per_row(name: str, values: Any, n: int) -> Array:
    """What a function of the user's returned for n goals, as [n].

    Raises:
        ValueError: another shape, no numbers, numbers that are not finite as float32.
    """
    array = np.asarray(values)
    if array.size != n or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name}: it returned {_described(array)} for {n} goals, which is not allowed; "
            "it returns one number each"
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            bad = array[~np.isfinite(array)][0]
            raise ValueError(
                f"{name}: it returned {bad}, which is not allowed; every number must be finite"
            )
    return array.reshape(n)


class EpisodeBuffer:
    """Rows of finished episodes to sample from, and those of the episodes that are going on.

    `relabel_at`: "sampling" stores a transition once, and whenever it is sampled it may have
    another goal; "episode_end" stores it with its own goal and k times more with others, drawn
    once, when its episode is over.
    """

    def __init__(
        self,
        size: int,
        n_envs: int,
        fields: Mapping[str, Field],
        row: RowLayout,
        relabelling: Relabelling,
        outcome: Outcome,
        *,
        relabel_at: RelabelAt = "sampling",
        prioritized: bool = False,
        alpha: float = 0.6,
        eps: float = 1e-6,
        max_episode_len: int | None = None,
        seed: int | None = None,
    ) -> None:
        check_count("size", size, 2)
        check_count("n_envs", n_envs, 1)
        if seed is not None:
            check_count("seed", seed, 0)
        check_choice("relabel_at", relabel_at, get_args(RelabelAt))
        if max_episode_len is not None:
            check_count("max_episode_len", max_episode_len, 1)
            if max_episode_len > size:
                raise ValueError(
                    f"size: {size} is not allowed; an episode may have {max_episode_len} steps"
                )
        self.size, self.n_envs, self.fields, self.row = size, n_envs, dict(fields), row
        self.relabelling, self.relabel_at, self.outcome = relabelling, relabel_at, outcome
        self.prioritized = prioritized
        self.max_episode_len = max_episode_len or size
        self.rng = np.random.default_rng(seed)
        self.buffer: ReplayBuffer
        if prioritized:
            self.buffer = PrioritizedReplayBuffer(
                1, 1, size, row, relabelling, alpha=alpha, eps=eps
            )
        else:
            self.buffer = ReplayBuffer(1, 1, size, row, relabelling)
        self._open = np.empty((n_envs, min(64, self.max_episode_len), row.width), np.float32)
        self.n_open = [0] * n_envs  # steps of each environment's open episode

    def __len__(self) -> int:
        """Transitions that can be sampled."""
        return int(self.buffer.finished().sum())

    def add(self, rows: Rows, over: Sequence[int] = ()) -> None:
        """Steps of every environment, [env, step, width], and `end_episodes` of those in `over`.

        Raises:
            ValueError: an episode is too long.  What the user's functions raise.  Nothing is stored
                then.
        """
        steps = rows.shape[1]
        longest = max(self.n_open) + steps
        self.check_length(longest)
        room = self._open.shape[1]
        if longest > room:
            room = min(max(longest, 2 * room), self.max_episode_len)
            grown = np.empty((self.n_envs, room, self.row.width), np.float32)
            grown[:, : self._open.shape[1]] = self._open
            self._open = grown
        before = list(self.n_open)
        for env, first in enumerate(before):
            self._open[env, first : first + steps] = rows[env]
            self.n_open[env] += steps
        try:
            self.end_episodes(over)
        except BaseException:
            self.n_open = before
            raise

    def check_length(self, steps: int) -> None:
        """Raise ValueError for an episode of no steps, or of more than allowed."""
        if not 0 < steps <= self.max_episode_len:
            raise ValueError(
                f"an episode of {steps} steps is not allowed; "
                f"there is room for 1 to {self.max_episode_len}"
            )

    def open_rows(self, env: int) -> Rows:
        """The episode that is going on in an environment, [step, width]; a view."""
        return self._open[env, : self.n_open[env]]

    def end_episodes(self, envs: Sequence[int]) -> None:
        """The episodes of these environments are over: they can be sampled from now on.

        What the user's functions raise leaves everything as it was.
        """
        if envs:
            self.add_episodes([self.open_rows(env) for env in envs if self.n_open[env]])
        for env in envs:
            self.n_open[env] = 0

    def add_episodes(self, episodes: Sequence[Rows]) -> None:
        """Whole episodes [step, width], all or, where a user's function raises, none of them.

        The columns `failed` and, where there is one, `rest` are filled in here.
        """
        row, k = self.row, self.relabelling.k if self.relabel_at == "episode_end" else 0
        for rows in episodes:
            self.check_length(len(rows))
            failed = terminated = rows[:, row.terminated] > 0
            if self.relabelling.terminates_on_success and terminated.any():
                failed = terminated & ~self.outcome(rows)[1]
            rows[:, row.failed] = failed
            if row.rest is not None:
                explained = self.outcome(rows)[0]
                beyond = ~np.isclose(explained, rows[:, row.reward], rtol=1e-4, atol=1e-6)
                rows[:, row.rest] = np.where(beyond, rows[:, row.reward] - explained, 0)
        if not k or not episodes:
            for rows in episodes:
                self.buffer.add_episodes(torch.from_numpy(rows)[None, None])
            return
        # Copies get goals once what they may take them from is stored; the last ones are not
        # stored before they have an outcome.
        undo = self.buffer.undo((k + 1) * sum(map(len, episodes)) - k * len(episodes[-1]))
        generator = self.rng.bit_generator.state
        try:
            for rows in episodes:
                first = self.buffer.position
                self.buffer.add_episodes(torch.from_numpy(rows)[None, None])
                slots = np.arange(first, first + len(rows)) % self.buffer.n_slots
                for copy in [self._relabelled(slots) for _ in range(k)]:
                    self.buffer.add_episodes(copy[None, None])
        except BaseException:
            undo()
            self.rng.bit_generator.state = generator
            raise

    def sample(self, batch_size: int, beta: float = 0.4) -> tuple[Rows, Array | None, Array]:
        """Rows [sample, width], their weights [sample] where prioritised, their indices [sample].

        Raises:
            ValueError: there is no finished episode; a size or beta that is none.
        """
        check_count("batch_size", batch_size, 1)
        uniform = self.rng.random((1, batch_size, 3))
        weight = None
        if isinstance(self.buffer, PrioritizedReplayBuffer):
            index, weights = self.buffer.choose_prioritized(uniform[..., 0], beta)
            weight = weights[0].numpy()
        else:
            index = self.buffer.choose(uniform[..., 0])
        return self.sample_at(index[0], uniform[0, :, 1:]), weight, index[0]

    def sample_at(self, index: Array, uniform: Array) -> Rows:
        """Rows [sample, width] of the transitions `index` [sample].

        Args:
            uniform: [sample, 2], numbers in [0, 1): whether each is relabelled, and with which of
                its `candidates`.
        """
        if self.relabelling.k and self.relabel_at == "sampling":
            return self._relabelled(index, uniform).numpy()
        return self.buffer.gather(index).numpy()

    def candidates(self, index: Array) -> Array:
        """Of how many transitions of its episode each of `index` [sample] may get the goal."""
        strategy = self.relabelling.strategy
        assert strategy != "random", "whose goals are of any episode"
        before, left = (x[0, 0, index] for x in (self.buffer._before, self.buffer._left))
        count = STRATEGIES[strategy](index, before, left)[1]
        return np.broadcast_to(np.asarray(count, np.int64), index.shape)

    def update_priorities(self, index: Any, td_errors: Any) -> None:
        """The TD errors [sample] of transitions as they were sampled; see `prioritized`.

        Raises:
            ValueError: there are no priorities; other shapes, indices that are none, no numbers.
        """
        if not isinstance(self.buffer, PrioritizedReplayBuffer):
            raise ValueError("there are no priorities: the buffer was made with prioritized=False")
        indices, errors = np.asarray(index), np.asarray(td_errors, np.float64)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise ValueError(
                f"indexes: {_described(indices)} is not allowed; they are those of a sample"
            )
        self.buffer.update_priorities(indices[None].astype(np.int64), errors.reshape(1, -1))

    def clear(self) -> None:
        """Forget every transition; the generator goes on."""
        self.buffer.clear()
        self.n_open = [0] * self.n_envs

    def all_rows(self) -> Rows:
        """Every transition that can be sampled, as it is stored, the oldest first."""
        position = self.buffer.position
        slots = np.arange(position - len(self), position) % self.buffer.n_slots
        return self.buffer.gather(slots).numpy()

    def save(self, path: Path) -> None:
        """Everything but the functions: transitions, open episodes, priorities, the generator.

        Raises:
            FileError: `path` cannot be written.
        """
        arrays = _arrays(self.buffer, self._open, self.n_open)
        header = {"format": FORMAT, "rng": self.rng.bit_generator.state, **self._signature()}
        arrays["header"] = np.array(json.dumps(header))

        def write(beside: Path) -> None:
            with beside.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)

        write_whole(path, write)

    def load(self, path: Path) -> None:
        """Continue where `save` was called; the file runs no code.

        Raises:
            FileError: the file is damaged, none of ours, or of a buffer of another make.  The
                buffer then is as it was.
        """
        try:
            must_be_stored(path)
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            if header["format"] != FORMAT:
                raise KeyError("format")
            rng = np.random.default_rng()
            rng.bit_generator.state = header["rng"]
            for key, ours in self._signature().items():
                if header.get(key) != ours:
                    why = _difference(key, header.get(key), ours)
                    raise FileError(f"{path}: is of a buffer with {why}")
            buffer = type(self.buffer)(**self.buffer.made_with)
            state = {name: torch.from_numpy(array) for name, array in arrays.items()}
            buffer.load_state_dict({**state, "position": int(arrays["position"])})
            n_open = arrays["n_open"].tolist()
            steps = max(*n_open, self._open.shape[1])
            rows = np.empty((self.n_envs, steps, self.row.width), np.float32)
            rows[:, : max(n_open)] = arrays["open_rows"]
            same = _arrays(buffer, rows, n_open)
        except UNREADABLE as error:
            why = "it is none of ours" if isinstance(error, KeyError) else reason(error)
            raise FileError(f"{path}: is damaged or no replay buffer: {why}") from error
        # What was taken in is all that there was: an array of size 1 would spread.
        found, taken = (
            {name: (array.shape, array.dtype) for name, array in of.items()}
            for of in (arrays, same)
        )
        if found != taken:
            raise FileError(f"{path}: is damaged: an array is missing or has another shape")
        self.buffer, self._open, self.n_open, self.rng = buffer, rows, n_open, rng

    def _signature(self) -> dict[str, Any]:
        """What decides the shape of a file, and what its rows mean."""
        buffer, how = self.buffer, self.relabelling
        return {
            "size": int(self.size),
            "n_envs": int(self.n_envs),
            "fields": {f.name: [f.columns.start, f.columns.stop] for f in self.fields.values()},
            "relabel_at": self.relabel_at,
            "strategy": how.strategy,
            "k": int(how.k),
            "fidelity": how.fidelity,
            "prioritized": bool(self.prioritized),
            "alpha": float(buffer.alpha) if isinstance(buffer, PrioritizedReplayBuffer) else None,
        }

    def _relabelled(self, index: Array, uniform: Array | None = None) -> torch.Tensor:
        """Rows [sample, width] of the transitions `index` [sample], relabelled, with outcomes.

        Args:
            uniform: [sample, 2], whether and with which goal; None: all of them.
        """
        if uniform is None:
            uniform = self.rng.random((len(index), 2))
            uniform[:, 0] = 0.0
        rows = self.buffer.gather(index)
        relabelled = self.buffer.relabel(rows, index, uniform)
        self.buffer.settle(rows, relabelled, *self.outcome(rows.numpy()))
        return rows


def _arrays(buffer: ReplayBuffer, open_rows: Rows, n_open: list[int]) -> dict[str, Array]:
    """What a file holds: finished episodes, and the steps of those that are going on."""
    finished = {name: np.asarray(value) for name, value in buffer.state_dict().items()}
    return finished | {"open_rows": open_rows[:, : max(n_open)], "n_open": np.array(n_open)}


def _difference(key: str, theirs: Any, ours: Any) -> str:
    """How the buffer of a file differs from this one in `key`, which it does."""
    if key == "fields" and isinstance(theirs, dict):
        for name in [*ours, *theirs]:
            if name not in theirs:
                return f"no field {name!r}, which this one has"
            if name not in ours:
                return f"a field {name!r}, which this one has not"
            if theirs[name] != ours[name]:
                key, theirs, ours = f"field {name!r} in columns", theirs[name], ours[name]
                break
    return f"{key} {theirs}, this one has {ours}"
