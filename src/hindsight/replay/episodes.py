"""The common part of the replay buffers for NumPy: one learner and a random generator of its own.

Open episodes are collected outside the ring buffer, one list of steps per environment.  An episode
is stored when it ends, so environments need not end, or even step, at the same time.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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

#: Rows [n, width] -> rewards [n] float32 of their actions under their goals, and whether these
#: actions terminate the episode by achieving the goals, [n] bool.
Outcome = Callable[[Rows], tuple[Array, Array]]

RelabelAt = Literal["sampling", "episode_end"]
#: Marks files written by `EpisodeBuffer.save`.
FORMAT = "hindsight replay buffer 2"
#: Errors raised by reading a file that is damaged, truncated or of another kind.
UNREADABLE = (
    OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, BadZipFile,
    MemoryError, OverflowError, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One array of a transition: its public name, its columns in a row, its shape and type.

    The buffer stores every number as float32; `read` returns the field's own type.
    """

    name: str
    columns: slice
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def write(self, rows: Rows, values: Any) -> None:
        """Write `values` [..., *shape] into rows [..., width]; ValueError if they do not fit."""
        array = np.asarray(values)
        before = rows.shape[:-1]
        if array.shape != before + self.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{self.name}: {_described(array)} is not allowed; "
                f"it must be numbers of shape {before + self.shape}"
            )
        part = array if len(self.shape) == 1 else array.reshape(*before, -1)
        rows[..., self.columns] = part
        if array.dtype.kind in "iu" and (changed := rows[..., self.columns] != part).any():
            raise ValueError(
                f"{self.name}: {part[changed][0]} is not allowed; float32 cannot hold it exactly"
            )

    def read(self, rows: Rows) -> Array:
        """Read [n, *shape] from rows [n, width]; a view if possible."""
        part = rows[:, self.columns]
        if len(self.shape) != 1:
            part = part.reshape(len(rows), *self.shape)
        return part if part.dtype == self.dtype else part.astype(self.dtype)


def _described(array: Array) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"


def check_finite(rows: Rows, fields: Mapping[str, Field]) -> None:
    """Raise ValueError, naming the field, if rows [..., width] hold NaN or infinity."""
    if np.isfinite(rows).all():
        return
    for field in fields.values():
        values = rows[..., field.columns]
        bad = values[~np.isfinite(values)]
        if bad.size:
            raise ValueError(f"{field.name}: {bad[0]} is not allowed; every number must be finite")


def truth(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """Convert booleans, or numbers 0 and 1, to bool [*shape]; ValueError for anything else."""
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name}: {_described(array)} is not allowed; it must be booleans of shape {shape}"
        )
    if array.dtype.kind == "b":
        return array
    if (bad := array[(array != 0) & (array != 1)]).size:
        raise ValueError(f"{name}: {bad[0]} is not allowed; it must be true or false, or 1 or 0")
    return array.astype(bool)


def check_function(name: str, value: Any, what: str) -> None:
    """Raise ValueError unless `value` is callable; `what` names its arguments."""
    if not callable(value):
        raise ValueError(f"{name}: {value!r} is not allowed; it must be a function of {what}")


def per_row(name: str, values: Any, n: int) -> Array:
    """Check what a user's function `name` returned for n goals; returns it as [n].

    Raises:
        ValueError: it is not one number per goal, or a number is not finite as float32.
    """
    array = np.asarray(values)
    if array.size != n or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name}: it returned {_described(array)} for {n} goals, which is not allowed; "
            "it must return one number for each goal"
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
    """Finished episodes to sample from, and the open episodes of each environment.

    `relabel_at="sampling"` stores each transition once and draws its goal every time it is sampled.
    `relabel_at="episode_end"` stores it with its own goal plus k copies, whose goals are drawn once
    when the episode ends.
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
                    f"size: {size} is not allowed; it must be at least max_episode_len, "
                    f"{max_episode_len}"
                )
        self.size, self.n_envs, self.fields, self.row = size, n_envs, dict(fields), row
        self.relabelling, self.relabel_at, self.outcome = relabelling, relabel_at, outcome
        self.max_episode_len = max_episode_len or size
        self.rng = np.random.default_rng(seed)
        kind: Any = ReplayBuffer
        if prioritized:
            kind = partial(PrioritizedReplayBuffer, alpha=alpha, eps=eps)
        self.buffer: ReplayBuffer = kind(1, 1, size, row, relabelling)
        self._open = np.empty((n_envs, min(64, self.max_episode_len), row.width), np.float32)
        self.n_open = [0] * n_envs  # steps of each environment's open episode

    def __len__(self) -> int:
        """Number of transitions that can be sampled: those of finished episodes."""
        return int(self.buffer.finished().sum())

    def add(self, rows: Rows, over: Sequence[int] = ()) -> None:
        """Add steps of every environment, then end the episodes of the environments in `over`.

        Nothing is stored if this raises, including when a user's function raises.

        Args:
            rows: [env, step, width].
            over: environments whose episodes end with the last of these steps.

        Raises:
            ValueError: an episode is longer than `max_episode_len`.
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
        """Raise ValueError unless an episode of this many steps is allowed."""
        if not 0 < steps <= self.max_episode_len:
            raise ValueError(
                f"an episode of {steps} steps is not allowed; it must have 1 to "
                f"{self.max_episode_len}"
            )

    def open_rows(self, env: int) -> Rows:
        """Rows [step, width] of an environment's open episode; a view."""
        return self._open[env, : self.n_open[env]]

    def end_episodes(self, envs: Sequence[int]) -> None:
        """Store the open episodes of these environments; nothing changes if this raises."""
        if envs:
            self.add_episodes([self.open_rows(env) for env in envs if self.n_open[env]])
        for env in envs:
            self.n_open[env] = 0

    def add_episodes(self, episodes: Sequence[Rows]) -> None:
        """Store whole episodes [step, width]: all, or none if a user's function raises.

        Fills in the column `failed` and, if there is one, `rest`.
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
        # Goals are drawn after the episode is stored, because they may be its own.  Only the last
        # episode's copies need no undoing: nothing can fail after they are stored.
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
        """Sample rows [sample, width], weights [sample] (None unless prioritised) and indices.

        Raises:
            ValueError: no episode is finished yet, or `batch_size` or `beta` is invalid.
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
        """Read rows [sample, width] of the transitions `index` [sample], relabelled if at sampling.

        Args:
            index: [sample], as `sample` returned them.
            uniform: [sample, 2] in [0, 1): whether each is relabelled, and with which of its
                `candidates`.
        """
        if self.relabelling.k and self.relabel_at == "sampling":
            return self._relabelled(index, uniform).numpy()
        return self.buffer.gather(index).numpy()

    def candidates(self, index: Array) -> Array:
        """Count the transitions whose achieved goal each of `index` [sample] may get."""
        strategy = self.relabelling.strategy
        assert strategy != "random", "its candidates are not in the transition's own episode"
        before, left = (x[0, 0, index] for x in (self.buffer._before, self.buffer._left))
        count = STRATEGIES[strategy](index, before, left)[1]
        return np.broadcast_to(np.asarray(count, np.int64), index.shape)

    def update_priorities(self, index: Any, td_errors: Any) -> None:
        """Update priorities of sampled transitions from their TD errors [sample].

        Raises:
            ValueError: the buffer is not prioritised, or an index or TD error is invalid.
        """
        indices, errors = np.asarray(index), np.asarray(td_errors, np.float64)
        buffer = self.with_priorities
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise ValueError(
                f"indexes: {_described(indices)} is not allowed; they must be the indexes of a "
                "sample"
            )
        buffer.update_priorities(indices[None].astype(np.int64), errors.reshape(1, -1))

    @property
    def with_priorities(self) -> PrioritizedReplayBuffer:
        """The ring buffer; raises ValueError if it has no priorities."""
        if not isinstance(self.buffer, PrioritizedReplayBuffer):
            raise ValueError("there are no priorities: the buffer was made with prioritized=False")
        return self.buffer

    def clear(self) -> None:
        """Forget every transition; the random generator keeps its state."""
        self.buffer.clear()
        self.n_open = [0] * self.n_envs

    def all_rows(self) -> Rows:
        """Return every transition that can be sampled, as stored, oldest first."""
        position = self.buffer.position
        slots = np.arange(position - len(self), position) % self.buffer.n_slots
        return self.buffer.gather(slots).numpy()

    def save(self, path: Path) -> None:
        """Write transitions, open episodes, priorities and the generator, but no functions.

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
        """Restore what `save` wrote; runs no code from the file.

        Raises:
            FileError: the file is damaged, of another kind, or of a buffer with other settings.
                This buffer is then unchanged.
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
                    raise FileError(f"{path}: was saved from a buffer with {why}")
            buffer = type(self.buffer)(**self.buffer.made_with)
            state = {name: torch.from_numpy(array) for name, array in arrays.items()}
            buffer.load_state_dict({**state, "position": int(arrays["position"])})
            n_open = arrays["n_open"].tolist()
            steps = max(*n_open, self._open.shape[1])
            rows = np.empty((self.n_envs, steps, self.row.width), np.float32)
            rows[:, : max(n_open)] = arrays["open_rows"]
            same = _arrays(buffer, rows, n_open)
        except UNREADABLE as error:
            why = "it was not written by save" if isinstance(error, KeyError) else reason(error)
            raise FileError(f"{path}: is damaged or not a replay buffer: {why}") from error
        # Assignment would silently broadcast an array of size 1, so compare all shapes and types.
        found, taken = (
            {name: (array.shape, array.dtype) for name, array in of.items()}
            for of in (arrays, same)
        )
        if found != taken:
            raise FileError(f"{path}: is damaged: an array is missing or has another shape")
        self.buffer, self._open, self.n_open, self.rng = buffer, rows, n_open, rng

    def _signature(self) -> dict[str, Any]:
        """Settings that a file and the buffer that loads it must share."""
        how = self.relabelling
        prioritized = isinstance(self.buffer, PrioritizedReplayBuffer)
        return {
            "size": int(self.size),
            "n_envs": int(self.n_envs),
            "fields": {f.name: [f.columns.start, f.columns.stop] for f in self.fields.values()},
            "relabel_at": self.relabel_at,
            "strategy": how.strategy,
            "k": int(how.k),
            "fidelity": how.fidelity,
            "prioritized": prioritized,
            "alpha": float(self.with_priorities.alpha) if prioritized else None,
        }

    def _relabelled(self, index: Array, uniform: Array | None = None) -> torch.Tensor:
        """Read and relabel rows [sample, width] of the transitions `index` [sample].

        Args:
            index: [sample].
            uniform: [sample, 2], whether each is relabelled and with which goal; None: relabel all,
                with goals from the buffer's own generator.
        """
        if uniform is None:
            uniform = self.rng.random((len(index), 2))
            uniform[:, 0] = 0.0
        rows = self.buffer.gather(index)
        relabelled = self.buffer.relabel(rows, index, uniform)
        self.buffer.settle(rows, relabelled, *self.outcome(rows.numpy()))
        return rows


def _arrays(buffer: ReplayBuffer, open_rows: Rows, n_open: list[int]) -> dict[str, Array]:
    """The arrays of a file: finished episodes, and the rows of open ones."""
    finished = {name: np.asarray(value) for name, value in buffer.state_dict().items()}
    return finished | {"open_rows": open_rows[:, : max(n_open)], "n_open": np.array(n_open)}


def _difference(key: str, theirs: Any, ours: Any) -> str:
    """Describe how the file's value of a setting `key` differs from this buffer's."""
    if key == "fields" and isinstance(theirs, dict):
        for name in [*ours, *theirs]:
            if name not in theirs:
                return f"no field {name!r}, but this one has it"
            if name not in ours:
                return f"a field {name!r}, but this one has none"
            if theirs[name] != ours[name]:
                key, theirs, ours = f"field {name!r} in columns", theirs[name], ours[name]
                break
    return f"{key} {theirs}, but this one has {ours}"
