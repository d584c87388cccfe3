"""Curves, checkpoints and policies as files."""

import json
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hindsight.io.checksums import sealed
from hindsight.io.files import DamagedError, FileError, must_be_stored, reason, write_whole

#: Tensors, numbers and words in a checkpoint, each time that one is mentioned.
MOST_VALUES = 10**7


def write_curves(path: Path, curves: pa.Table, metadata: dict[str, Any]) -> None:
    """A cell's curves, with what is known about them, as parquet.

    A share of a hundred episodes repeats and goes into a dictionary.  A measurement does not, but
    its exponents do, and steps differ in few bits: with the first bytes of all, then the second
    ones, and so on, files are 40 % smaller than with dictionaries alone, and the same to the bit.
    """
    table = sealed(curves, json.dumps(metadata))
    measured = {
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type)
        or (pa.types.is_floating(field.type) and not _repeats(table[field.name]))
    }

    def write(beside: Path) -> None:
        with pq.ParquetWriter(
            beside, table.schema, compression="zstd", compression_level=19,
            use_byte_stream_split=sorted(measured),
            use_dictionary=sorted({*table.column_names} - measured),
            # Arrow's own copy of the schema, and bounds of every column, are a tenth of a file.
            store_schema=False, write_statistics=False,
        ) as file:  # fmt: skip
            file.write_table(table)
            file.add_key_value_metadata(table.schema.metadata)

    write_whole(path, write)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a value stands there four times in the mean."""
    return 4 * len(column.unique()) <= len(column)


def save(path: Path, state: dict[str, Any]) -> None:
    """A checkpoint or a policy: tensors, numbers, strings, lists and dictionaries."""

    def write(beside: Path) -> None:
        # By itself torch calls a full disk an "iostream error".  Through Python's file it is raised
        # as such, but then the archive cannot be closed, which is another error.
        with beside.open("wb") as file:
            try:
                torch.save(state, file)
            except RuntimeError as error:
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise

    write_whole(path, write)


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; the loader builds no other objects and runs no code.

    Raises DamagedError for a file that `save` did not write so, FileError for one that cannot be
    read.
    """
    try:
        must_be_stored(path)
        # torch does not look at the checksums in its own archive.
        with ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise DamagedError(f"{path}: is damaged: the checksum of {broken} is wrong", path)
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        _must_hold_what_they_say(state)
    except FileError:
        raise
    except Exception as error:  # a foreign file can make the loader raise anything
        if isinstance(error, OSError) and error.errno:
            raise FileError(f"{path}: cannot be read: {reason(error)}") from error
        # torch explains at length how a foreign object could be loaded nevertheless.
        refused = isinstance(error, UnpicklingError)
        why = "the safe loader refuses what is in it" if refused else reason(error)
        raise DamagedError(f"{path}: is damaged or no checkpoint: {why}", path) from error
    if not isinstance(state, dict):
        raise DamagedError(f"{path}: is no checkpoint", path)
    return state


def _must_hold_what_they_say(state: Any) -> None:
    """ValueError for a tensor of more numbers than are stored, as one repeated a billion times, and
    for lists of lists that are one and the same, which a walk would not come to the end of.
    """
    todo, count = [state], 0
    while todo:
        value = todo.pop()
        if isinstance(value, dict | list | tuple):
            count += len(value)
            if count > MOST_VALUES:
                raise ValueError(f"it holds more than {MOST_VALUES:,} values")
            todo += value.values() if isinstance(value, dict) else value
            continue
        said = value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
        if said and said > value.untyped_storage().nbytes():
            raise ValueError(f"a tensor of {value.numel():,} numbers is not all there")
