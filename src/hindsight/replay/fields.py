"""Replay buffers for NumPy: transitions of named arrays, a generator and files of their own."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hindsight.io.checkpoints import MISFITS, load, save
from hindsight.io.files import FileError, reason
from hindsight.replay.buffer import (
    Index,
    Numbers,
    Relabelling,
    ReplayBuffer,
    RowLayout,
    check_memory,
    count_of,
    some,
)
from hindsight.replay.prioritized import PrioritizedReplayBuffer
from hindsight.specs.errors import not_allowed

Array = NDArray[Any]
Rows = NDArray[np.float32]

#: Number of the format of the files that `FieldBuffer.save` writes.
FORMAT = 6
FLOAT = np.dtype(np.float32)
#: Bytes of a column of a row.
COLUMN = FLOAT.itemsize


@dataclass(frozen=True)
class Field:
    """One array of a transition: its public name, its columns in a row, its shape and types.

    Columns hold the bytes of the type `stored`: one a number for a picture. `read` returns `dtype`.
    """

    name: str
    columns: slice
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored: np.dtype[Any]

    def of(self, rows: Rows) -> Array:
        """View of the field's numbers [..., size] in rows [..., width]."""
        part = rows[..., self.columns]
        return part if self.stored == FLOAT else part.view(self.stored)[..., : prod(self.shape)]

    def write(self, rows: Rows, values: Any) -> None:
        """Write `values` [..., *shape] into rows [..., width]; ValueError if they do not fit."""
        array, kept = np.asarray(values), self.of(rows)
        shape = rows.shape[:-1] + self.shape
        if array.shape != shape or array.dtype.kind not in "fiub":
            raise not_allowed(self.name, _described(array), f"it must be numbers of shape {shape}")
        kept[...] = part = array.reshape(kept.shape)
        if array.dtype == self.stored:
            return
        integers = array.dtype.kind in "iu" or self.stored.kind in "iub"
        if integers and (changed := kept != part).any():
            why = f"{self.stored} cannot hold it exactly"
            raise not_allowed(self.name, part[changed][0], why)

    def read(self, rows: Rows) -> Array:
        """Read [..., *shape] from rows [..., width]; a view if possible."""
        part = self.of(rows)
        if len(self.shape) != 1:
            part = part.reshape(*rows.shape[:-1], *self.shape)
        return part if self.dtype == self.stored else part.astype(self.dtype)


def laid_out(parts: Iterable[tuple[str, tuple[int, ...], Any, Any]]) -> dict[str, Field]:
    """Fields of these names, shapes, types and stored types; ValueError if a name is repeated.

    Those of one stored type stand side by side: first float32, then from the largest numbers to
    the smallest. A field begins at a column, or at an even one if its numbers have 8 bytes.
    """
    fields: dict[str, Field] = {}
    for name, shape, dtype, stored in parts:
        if name in fields:
            raise ValueError(f"{name!r} is not allowed: another part of a transition has that name")
        fields[name] = Field(name, slice(0), shape, np.dtype(dtype), np.dtype(stored))

    def place(name: str) -> tuple[bool, int, str]:
        kind = fields[name].stored
        return kind != FLOAT, -kind.itemsize, kind.char

    end = 0
    for name in sorted(fields, key=place):
        field = fields[name]
        size = field.stored.itemsize
        first = end + end % max(size // COLUMN, 1)
        end = first + -(-prod(field.shape) * size // COLUMN)
        fields[name] = replace(field, columns=slice(first, end))
    return fields


def width_of(fields: Mapping[str, Field]) -> int:
    """Columns of a row; an even number if any number has 8 bytes, so that all rows are aligned."""
    width: int = max(field.columns.stop for field in fields.values())
    return width + width % (max(field.stored.itemsize for field in fields.values()) // COLUMN or 1)


def _described(array: Array) -> str:
    return f"an array of shape {array.shape} and type {array.dtype}"


def truth(name: str, values: Any, shape: tuple[int, ...]) -> Array:
    """Convert booleans, or numbers 0 and 1, to bool [*shape]; ValueError for anything else."""
    array = np.asarray(values)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise not_allowed(name, _described(array), f"it must be booleans of shape {shape}")
    if array.dtype.kind == "b":
        return array
    if (bad := array[(array != 0) & (array != 1)]).size:
        raise not_allowed(name, bad[0], "it must be true or false, or 1 or 0")
    return array.astype(bool)


def check_function(name: str, value: Any, what: str, *, optional: bool = False) -> None:
    """Raise ValueError unless `value` is callable (optional: or None); `what` are its arguments."""
    if not callable(value) and not (optional and value is None):
        raise not_allowed(name, repr(value), f"it must be a function of {what}")


def per_goal(name: str, function: Any, arguments: Sequence[Any], n: int) -> Rows:
    """What a user's function returns for n goals, float32 [n].

    ValueError if that is not one finite number per goal; `name` is the function's.
    """
    array = np.asarray(function(*arguments))
    if array.size != n or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name}: it returned {_described(array)} for {n} goals, which is not allowed; "
            "it must return one number for each goal"
        )
    numbers = array.reshape(n).astype(np.float32, copy=False)
    if array.dtype.kind == "f" and some(~np.isfinite(numbers)):
        bad = numbers[~np.isfinite(numbers)][0]
        raise ValueError(
            f"{name}: it returned {bad}, which is not allowed; every number must be finite"
        )
    return numbers


class FieldBuffer(ABC):
    """One learner's ring of transitions, in rows of named fields, with functions of its user's."""

    #: What messages call the argument `size`.
    size_name: ClassVar = "size"

    def __init__(
        self,
        size: int,
        n_envs: int,
        fields: Mapping[str, Field],
        row: RowLayout,
        relabelling: Relabelling,
        *,
        longest: int | None = None,
        prioritized: bool,
        alpha: float,
        eps: float = 1e-6,
        seed: int | None,
    ) -> None:
        self.fields, self.row = dict(fields), row
        #: Columns of the numbers of each floating-point type, which stand side by side.
        self._floats: dict[np.dtype[Any], slice] = {}
        for field in sorted(fields.values(), key=lambda field: field.columns.start):
            if field.stored.kind == "f":
                first = self._floats.get(field.stored, field.columns).start
                self._floats[field.stored] = slice(first, field.columns.stop)
        self.rng = np.random.default_rng(None if seed is None else count_of("seed", seed, 0))
        kind: Any = ReplayBuffer
        if prioritized:
            kind = partial(PrioritizedReplayBuffer, alpha=alpha, eps=eps)
        self.ring: ReplayBuffer = kind(
            1, n_envs, size, row, relabelling, longest=longest, size_name=self.size_name
        )

    def __len__(self) -> int:
        """Number of transitions that can be sampled: those of finished episodes."""
        return int(self.ring.finished().sum())

    def _written(self, shape: tuple[int, ...], values: Mapping[str, Any]) -> Rows:
        """Rows [*shape, width] of these fields, 0 in others; ValueError if a value does not fit."""
        rows = np.zeros((*shape, self.row.width), np.float32)
        for name, value in values.items():
            self.fields[name].write(rows, value)
        self._check_finite(rows)
        return rows

    def _check_finite(self, rows: Rows) -> None:
        """Raise ValueError, naming the field, if rows [..., width] hold NaN or infinity."""
        parts = (rows[..., columns].view(stored) for stored, columns in self._floats.items())
        if not any(some(~np.isfinite(part)) for part in parts):
            return
        for field in self.fields.values():
            values = field.of(rows)
            if field.stored.kind == "f" and (bad := values[~np.isfinite(values)]).size:
                raise not_allowed(field.name, bad[0], "every number must be finite")

    @abstractmethod
    def _outcome(self, rows: Rows, index: Index) -> tuple[Array, Array]:
        """Rewards [n] of the actions of rows [n, width] under the rows' goals, and successes [n].

        A success terminates the episode by achieving the goal.  `index` [n]: their transitions.
        """

    def batch_of(self, batch_size: Any, least: int = 1) -> int:
        """The size of a batch; ValueError if it is no count, or the batch would not fit."""
        size = count_of("batch_size", batch_size, least)
        check_memory("batch_size", size, COLUMN * self.row.width + 24)
        return size

    def _drawn(self, batch_size: int, beta: float) -> tuple[Rows, Array | None, Index]:
        """Sample rows [sample, width], weights [sample] (None unless prioritised) and indices."""
        uniform = self.rng.random((1, self.batch_of(batch_size), 3))
        index, weights = self.ring.draw(uniform[..., 0], beta)
        weight = None if weights is None else weights[0].numpy()
        return self._read(index[0], uniform[0, :, 1:]), weight, index[0]

    def _read(self, index: Index, uniform: Numbers) -> Rows:
        return self.ring.read(index, uniform, self._settled).numpy()

    def _settled(self, rows: Tensor, index: Index) -> tuple[Array, Array]:
        return self._outcome(rows.numpy(), index)

    def update_priorities(self, indexes: Any, td_errors: Any) -> None:
        """Update the priorities of sampled transitions from their TD errors [sample].

        ValueError if the buffer is not prioritised, or an index or TD error is invalid.
        """
        index, ring = np.asarray(indexes), self._prioritized
        if index.ndim != 1 or index.dtype.kind not in "iu":
            wanted = "they must be the indexes of a sample"
            raise not_allowed("indexes", _described(index), wanted)
        if isinstance(td_errors, Tensor):
            td_errors = td_errors.detach().cpu()
        ring.update_priorities(index[None].astype(np.int64), np.reshape(td_errors, (1, -1)))

    @property
    def _prioritized(self) -> PrioritizedReplayBuffer:
        if not isinstance(self.ring, PrioritizedReplayBuffer):
            raise ValueError("there are no priorities: the buffer was made with prioritized=False")
        return self.ring

    def clear(self) -> None:
        """Forget every transition; the random generator keeps its state."""
        self.ring.clear()

    def save(self, path: str | Path) -> None:
        """Write transitions, open episodes, priorities and the generator, but no functions."""
        settings, rng = json.dumps(self._settings(), default=float), self.rng.bit_generator.state
        save(Path(path), {"settings": settings, "rng": rng, "ring": self.ring.state_dict()})

    def load(self, path: str | Path) -> None:
        """Restore a file that `save` wrote, into a buffer made with the same arguments.

        Runs no code from the file.  Raises FileError if it is damaged or from a buffer with other
        settings; this buffer is then unchanged.
        """
        saved = load(Path(path))
        ring, rng = type(self.ring)(**self.ring.made_with), np.random.default_rng()
        try:
            ours, theirs = self._settings(), json.loads(saved["settings"])
            for key in ours | theirs:
                one, other = theirs.get(key, "none"), ours.get(key, "none")
                if one != other:
                    raise FileError(
                        f"{path}: was saved from a buffer with {key} {one}, "
                        f"but this one has {other}"
                    )
            rng.bit_generator.state = saved["rng"]
            if unknown := saved["ring"].keys() - ring.state_dict().keys():
                raise ValueError(f"it has {min(unknown)} besides")
            ring.load_state_dict(saved["ring"])
        except MISFITS as error:
            why = reason(error)
            raise FileError(f"{path}: is damaged or not a replay buffer: {why}") from error
        self.ring, self.rng = ring, rng

    def _settings(self) -> dict[str, Any]:
        """Settings that a file and the buffer that loads it must share."""
        ring = self.ring
        fields = {
            f.name: [f.columns.start, f.columns.stop, f.stored.str] for f in self.fields.values()
        }
        return {
            "format": FORMAT,
            "size": ring.n_envs * ring.n_slots,
            "n_envs": ring.n_envs,
            "fidelity": ring.relabelling.fidelity,  # before what follows from it
            **asdict(ring.relabelling),
            **{name: getattr(ring, name, "none") for name in ("alpha", "eps")},
            **{f"field {name!r} in columns": columns for name, columns in fields.items()},
        }
