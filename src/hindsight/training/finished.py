"""Trained cells: how curves are written, whether files are valid, and runs to reuse."""

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from hindsight.io.checkpoints import load
from hindsight.io.checksums import about, file_sha256, is_whole, read_table, sealed
from hindsight.io.files import is_unread, write_whole
from hindsight.specs.cell import CellSpec, hash_of
from hindsight.specs.code import SEEDS, file_name, identity_of

#: The end of a run whose parameters are no longer finite.
DIVERGED = "diverged"


@dataclass(frozen=True)
class TrainedRuns:
    table: pa.Table  # their curves
    policies: dict[int, Tensor]  # final parameters [parameter] by seed, except of diverged runs
    runs: list[dict[str, Any]]  # how each ended
    seconds: float  # their share of the cell's training time
    origin: dict[str, Any]  # the cell, and the machine and versions that trained it


NO_RUNS = TrainedRuns(pa.table({"phase": pa.nulls(0, pa.string())}), {}, [], 0.0, {})


def load_trained(root: Path, spec: CellSpec) -> TrainedRuns | None:
    """Load a cell below `root`; None unless its files are complete and made by the current code.

    Raises FileError, OSError or MemoryError if they cannot be read now.
    """
    name = file_name(spec)
    path = root / "cells" / f"{name}.parquet"
    policies_at = root / "policies" / f"{name}.safetensors"
    found = about(path)
    if not (identity_of(spec).items() <= found.items() and policies_at.exists()):
        return None
    try:
        table = read_table(path)
        saved = load(policies_at)
        if not is_whole(table):
            return None
        policies = dict(zip(saved["seeds"], saved["rows"], strict=True))
        if not is_policy_of(spec, found, saved, policies_at):
            return None
        runs = list(found["runs"])
        kept = ("machine", "versions", "device")
        origin = {"cell": spec.name, **{key: found[key] for key in kept}}
        seconds = float(found["seconds"])
    except Exception as error:  # a damaged file can make a reader raise anything
        if is_unread(error):
            raise
        return None  # the cell is retrained
    return TrainedRuns(table.replace_schema_metadata(), policies, runs, seconds, origin)


def is_policy_of(spec: CellSpec, curves: dict[str, Any], saved: dict[str, Any], path: Path) -> bool:
    """Whether a policy file, with content `saved`, is of the training that curves are of.

    curves: their metadata; the file's digest in it is new in version 1.1.

    Raises KeyError, TypeError, ValueError or AttributeError if it is not a policy file's.
    """
    same = (hash_of(json.loads(saved["spec"])), saved.get("code")) == (spec.hash, curves["code"])
    return same and curves.get("policies") in (None, file_sha256(path))


def changed_versions(recorded: dict[str, str]) -> str:
    """Packages whose installed versions differ from those recorded, in words; empty if none do."""
    changed = []
    for name, was in recorded.items():
        try:
            now = platform.python_version() if name == "python" else version(name)
        except PackageNotFoundError:
            now = "not installed"
        if now != was:
            changed.append(f"{name} {was} (now {now})")
    return ", ".join(changed)


def runs_to_reuse(root: Path, spec: CellSpec, device: str) -> TrainedRuns | None:
    """Find runs in a cell that differs only in its number of seeds, as many as possible.

    A run does not depend on the runs beside it.  Those that other versions of packages trained, or
    another kind of device, are not taken: a cell would hold two worlds, or two clocks.
    """
    beside = (root / "cells" / spec.name).parent.glob("*seeds*.parquet")
    there = {int(words[1]) for path in beside if (words := SEEDS.search(path.name))}
    more = sorted(seeds for seeds in there if seeds > spec.seeds)
    fewer = sorted((seeds for seeds in there if seeds < spec.seeds), reverse=True)
    for seeds in (*more, *fewer):
        other = spec.model_copy(update={"seeds": seeds})
        if (found := load_trained(root, other)) is None:
            if (root / "cells" / f"{file_name(other)}.parquet").exists():
                why = "curves and policies are not both there and whole"
                print(f"{other.name}: {why}, so its runs are not reused", file=sys.stderr)
            continue
        changed = changed_versions(found.origin["versions"])
        if (there := found.origin["device"]) != device:
            changed = f"{there} (now {device})"
        if not changed:
            return select_seeds(found, spec.run_seeds)
        print(f"{other.name}: trained with {changed}, so its runs are not reused", file=sys.stderr)
    return None


def select_seeds(trained: TrainedRuns, seeds: Sequence[int]) -> TrainedRuns:
    if not (runs := [run for run in trained.runs if run["seed"] in seeds]):
        return NO_RUNS
    rows = np.isin(trained.table["seed"].to_pylist(), seeds).nonzero()[0]
    return TrainedRuns(
        trained.table.take(as_arrow(rows)),
        {seed: row for seed, row in trained.policies.items() if seed in seeds},
        runs,
        trained.seconds * len(runs) / len(trained.runs),
        {**trained.origin, "seeds": [run["seed"] for run in runs]},
    )


def diverged_runs(runs: Iterable[dict[str, Any]]) -> dict[int, int]:
    """Return the last step of each diverged run, by seed."""
    return {run["seed"]: run["end_step"] for run in runs if run["ended"] == DIVERGED}


def as_arrow(values: np.ndarray) -> pa.Array:
    """View numbers as an Arrow array; `pa.array` would import pandas, which takes 0.3 s."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def write_curves(path: Path, curves: pa.Table, metadata: dict[str, Any]) -> None:
    """Write a cell's curves and their metadata as parquet.

    Columns whose values repeat are dictionary-encoded.  Measurements and step counts are
    byte-stream split, because their high bytes repeat; this makes files 40 % smaller.
    """
    table = sealed(curves, json.dumps(metadata))
    measured = set()
    for field in table.schema:
        repeats = 4 * len(table[field.name].unique()) <= len(table)  # each at least four times
        floats = pa.types.is_floating(field.type) and not repeats
        if floats or pa.types.is_integer(field.type):
            measured.add(field.name)

    def write(beside: Path) -> None:
        with pq.ParquetWriter(
            beside, table.schema, compression="zstd", compression_level=19,
            use_byte_stream_split=sorted(measured),
            use_dictionary=sorted({*table.column_names} - measured),
            # Arrow's copy of the schema and the column statistics would be a tenth of a file.
            store_schema=False, write_statistics=False,
        ) as file:  # fmt: skip
            file.write_table(table)
            file.add_key_value_metadata(table.schema.metadata)

    write_whole(path, write)
