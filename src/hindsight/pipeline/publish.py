"""`hindsight publish`: trained cells become the results that ship, with a manifest."""

import shutil
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import torch
from torch import Tensor

from hindsight.analysis.cells import KNOWN, load_cell
from hindsight.analysis.reduce import reduce_cell
from hindsight.io import repository
from hindsight.io.checksums import file_sha256
from hindsight.io.files import write_whole
from hindsight.pipeline.project import MAIN_EXPERIMENT
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import EPISODES, PUBLISHED, TRAINED, Config
from hindsight.specs.from_file import cell_of
from hindsight.specs.manifest import MANIFEST, read_manifest, verify, write_manifest
from hindsight.specs.plan import Plan
from hindsight.training.files import load, save, write_curves
from hindsight.training.policies import acting_places


def publish(config: Config, trained: Path = TRAINED) -> Iterator[str]:
    """Copy the plan's cells that are trained, of whatever code, and the picture's episodes; of the
    main experiment's cells also the policy of the run in the middle.

    Once nothing is missing, published cells that the plan has no more are removed, and their
    policies.  Yields a line per cell that is missing or removed.

    The manifest says of each file its checksum, what its cell says of itself, and of what commit
    and what lock file it was published; what was published before keeps its entry.

    Args:
        config: of the results that ship.
        trained: the folder of results in which cells were trained.

    Raises:
        FileError: a trained cell is damaged; or, before anything is written, a file that stays is
            not what the manifest of before says: it would be vouched for anew.
    """
    plan = Plan.of(config)
    found = {name: newest(trained, name) for name in plan.cells}
    before = read_manifest() if MANIFEST.exists() else {}
    drawn = trained / "tables" / plan.config.source / EPISODES
    stay = [PUBLISHED / "cells" / f"{name}.parquet" for name in plan.cells if not found[name]]
    verify([*stay, *(PUBLISHED / name for name in before if _is_beside(name))])
    main = {name for _, name in plan.experiments.get(MAIN_EXPERIMENT, ())}
    now = _now()
    files: dict[str, Any] = {name: entry for name, entry in before.items() if _is_beside(name)}
    missing = []
    for name, spec in plan.cells.items():
        target = PUBLISHED / "cells" / f"{name}.parquet"
        source = found[name]
        if source is not None:
            old = file_sha256(target) if target.exists() else ""
            _ship(source, target)
            policy = PUBLISHED / "policies" / f"{name}.pt"
            if name in main and policies_of(source).exists():
                write_middle(spec, source, policy)
                files[_key(policy)] = {"sha256": file_sha256(policy), **now}
            elif old != file_sha256(target):  # it is another training's
                policy.unlink(missing_ok=True)
                files.pop(_key(policy), None)
        if not target.exists():
            missing.append(name)
            yield f"missing: {name}"
            continue
        files[_key(target)] = _entry(target, before, now)
    if not missing:
        yield from _remove_others(files)
    if drawn.exists():
        write_whole(PUBLISHED / EPISODES, partial(shutil.copyfile, drawn))
    if (PUBLISHED / EPISODES).exists():
        files[str(EPISODES)] = {"sha256": file_sha256(PUBLISHED / EPISODES)}
    write_manifest(files)
    yield f"{MANIFEST}: {len(files)} files"


def publish_policy(curves: Path, named: Collection[str] = ()) -> str:
    """Write the policy of a cell of no experiment, which `hindsight train` has trained; returns a
    line for it.

    Args:
        curves: of the cell, in the folder of results that has its policies, too.
        named: environments that a person has typed (`specs.from_file`).

    Raises:
        FileError: they are no cell's, or its policies are not there.
    """
    spec = cell_of(load_cell(curves).metadata["spec"], curves, named)
    policy = PUBLISHED / "policies" / f"{spec.name}.pt"
    write_middle(spec, curves, policy)
    write_manifest({**read_manifest(), _key(policy): {"sha256": file_sha256(policy), **_now()}})
    return f"{policy}: {result_of(policy)['which']}"


def policies_of(curves: Path) -> Path:
    """The parameters that a trained cell's runs ended with."""
    return curves.parents[2] / "policies" / curves.parent.name / f"{curves.stem}.pt"


def _now() -> dict[str, str]:
    """Of what commit and what lock file something is published now."""
    return {"commit": repository.commit(), "lock": repository.lock_sum()}


def newest(trained: Path, name: str) -> Path | None:
    """The curves of a cell that were trained last, of whatever code; `verify-published` says
    whether today's makes the same.
    """
    there = (trained / "cells" / name).parent.glob(f"{Path(name).name}*.parquet")
    return max(there, key=lambda path: path.stat().st_mtime, default=None)


def _entry(cell: Path, before: dict[str, Any], now: dict[str, str]) -> dict[str, Any]:
    """What the manifest says of a cell; of one that is as before the same as before."""
    metadata, found = load_cell(cell).metadata, file_sha256(cell)
    entry: dict[str, Any] = before.get(_key(cell), {})
    if entry.get("sha256") == found:
        return entry
    said = ("spec_hash", "code", "versions", "machine", "seconds")
    return {"sha256": found, **now, **{key: metadata[key] for key in said}}


def _remove_others(files: dict[str, Any]) -> Iterator[str]:
    """Remove published cells that the manifest does not name, and their policies."""
    for path in sorted((PUBLISHED / "cells").rglob("*.parquet")):
        if _key(path) not in files:
            path.unlink()
            policy = PUBLISHED / "policies" / path.relative_to(PUBLISHED / "cells")
            policy.with_suffix(".pt").unlink(missing_ok=True)
            files.pop(_key(policy.with_suffix(".pt")), None)
            yield f"removed: {_key(path)}, which the plan has no more"


def _key(path: Path) -> str:
    """What the manifest calls a file."""
    return str(path.relative_to(PUBLISHED))


def _is_beside(name: str) -> bool:
    """Whether an entry of the manifest is no cell but is there: a policy, the episodes, or curves
    of the authors'.
    """
    return not name.startswith("cells/") and (PUBLISHED / name).exists()


def _ship(source: Path, target: Path) -> None:
    """A trained cell without the columns that nothing reads, which are a quarter of its bytes.

    Raises ResultError for a damaged one.
    """
    metadata = load_cell(source).metadata
    table = pq.read_table(source)
    read = [name for name in table.column_names if name in KNOWN]
    write_curves(target, table.select(read), metadata)


def middle_run(runs: pd.DataFrame) -> pd.Series:
    """The run in the middle by its final evaluation; of two in the middle the lesser one."""
    keys = ["final_evaluation_return", "final_evaluation_success", "seed"]
    return runs.sort_values(keys).iloc[(len(runs) - 1) // 2]


def write_middle(spec: CellSpec, curves: Path, out: Path) -> None:
    """Write what acts without randomness of a trained cell's run in the middle.

    curves: of the cell, in the folder of results that has its policies, too.  Raises FileError for
    a damaged file.
    """
    cell, saved = load_cell(curves), load(policies_of(curves))
    runs = reduce_cell(cell).runs
    middle = middle_run(runs)
    seed = int(middle["seed"])
    result = {
        "which": f"run {seed}, in the middle of {len(runs)} by the return of its last evaluation",
        "episodes": spec.evaluation.episodes,
        "steps": int(middle["end_step"]),
        "return_mean": float(middle["final_evaluation_return"]),
        "success_rate": float(middle["final_evaluation_success"]),
        "code": cell.metadata["code"],
    }
    row = saved["rows"][list(saved["seeds"]).index(seed)]
    write_policy(out, spec, seed, row, result)


def write_policy(out: Path, spec: CellSpec, seed: int, row: Tensor, result: dict[str, Any]) -> None:
    """Write what acts of a run's parameters [parameter], with its specification and result."""
    save(
        out,
        {
            "spec": spec.model_dump_json(),
            "seeds": [seed],
            "part": "actor",
            "rows": row[acting_places(spec)][None].to(torch.float32).clone(),
            "result": result,
        },
    )


def result_of(path: Path) -> dict[str, Any]:
    """What a policy that ships says of itself; empty for another file."""
    found = load(path).get("result")
    return found if isinstance(found, dict) else {}
