"""Curves, checkpoints and policies as files."""

import json
import pickle
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hindsight.files import FileError, reason, write_whole


def write_curves(path: Path, columns: dict[str, Any], metadata: dict[str, Any]) -> None:
    """A cell's curves, columns of equal length, with what is known about them, as parquet."""
    table = pa.table(columns).replace_schema_metadata({"hindsight": json.dumps(metadata)})
    write_whole(path, lambda beside: pq.write_table(table, beside, compression="zstd"))


def save(path: Path, state: dict[str, Any]) -> None:
    """A checkpoint or a policy: tensors, numbers, strings, lists and dictionaries."""
    write_whole(path, lambda beside: torch.save(state, beside))


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; the loader builds no other objects and runs no code."""
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError, EOFError, BadZipFile, pickle.UnpicklingError) as error:
        raise FileError(f"{path}: is damaged or no checkpoint: {reason(error)}") from error
    return state
