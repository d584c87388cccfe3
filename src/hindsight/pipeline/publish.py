"""`hindsight publish`: copy trained cells to the published results, and write the manifest."""

import shutil
import subprocess
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
from hindsight.io.checkpoints import load, save
from hindsight.io.checksums import file_sha256
from hindsight.io.files import FileError, as_json, sweep, write_if_changed, write_whole
from hindsight.io.records import read_record, record_of
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import file_name
from hindsight.specs.config import EPISODES, MAIN_EXPERIMENT, PUBLISHED, TRAINED, Config
from hindsight.specs.from_file import cell_of
from hindsight.specs.manifest import MANIFEST, read_manifest, verify
from hindsight.specs.plan import Plan
from hindsight.training.finished import is_policy_of, write_curves
from hindsight.training.policies import acting_places


def publish(config: Config, trained: Path = TRAINED) -> Iterator[str]:
    """Copy the plan's trained cells and the episodes for the figure of the environment.

    A cell's training by today's code counts, or else the latest.  For the main experiment's cells,
    the median run's policy is published, too.  If no cell is missing, published cells that are not
    in the plan are removed with their policies.  Yields a line per missing or removed cell.

    The manifest records each file's checksum, its cell's metadata, and the commit and lock file
    that published it.  Unchanged files keep their entries.  If a publication is killed, the same
    call completes it.

    Raises:
        FileError: a trained cell is damaged; or, before anything is written, a published file that
            would be kept differs from the manifest.
    """
    if not trained.is_dir():
        raise FileError(f"{trained}: there is no such folder")
    _sweep_all()
    plan = Plan.of(config)
    found = {name: _curves_of(trained, name, spec) for name, spec in plan.cells.items()}
    cells = {name: PUBLISHED / "cells" / f"{name}.parquet" for name in plan.cells}
    before = read_manifest() if MANIFEST.exists() else {}
    others = [PUBLISHED / name for name in before if not name.startswith("cells/")]
    main = {name for _, name in plan.experiments.get(MAIN_EXPERIMENT, ())}
    acting = {name for name in main if (path := found.get(name)) and policies_of(path).exists()}
    drawn = trained / "tables" / plan.config.size_name / EPISODES
    own = record_of(TRAINED / "tables" / plan.config.size_name / EPISODES).relative_to(TRAINED)
    record = read_record(trained / own) if drawn.exists() else {}
    if drawn.exists() and file_sha256(drawn) not in record.get("outputs", {}).values():
        raise FileError(f"{drawn}: no job of this project made it as it is; delete it")
    for path, digest in record.get("inputs", {}).items():
        policy = trained.joinpath(*Path(path).parts[1:])
        if policy.exists() and file_sha256(policy) != digest:
            raise FileError(f"{drawn}: other policies than {policy} acted in it; delete it")
    # What is written anew may differ from the manifest, if an earlier publication was killed.
    anew = {policies_of(cells[name]) for name in acting}
    anew |= {PUBLISHED / EPISODES} if drawn.exists() else set()
    kept = (cells[name] for name in plan.cells if found[name] is None)
    verify(path for path in (*others, *kept) if path not in anew)
    missing = []
    for name, spec in plan.cells.items():
        if (source := found[name]) is not None:
            metadata = load_cell(source).metadata
            read = [column for column in pq.read_schema(source).names if column in KNOWN]
            # without the other columns: a quarter of the size
            write_curves(cells[name], pq.read_table(source, columns=read), metadata)
            old = before.get(_key(cells[name]), {}).get("sha256")
            if name in acting:
                write_middle(spec, source, policies_of(cells[name]))
            elif old != file_sha256(cells[name]):  # the policy is from another training
                policies_of(cells[name]).unlink(missing_ok=True)
        elif not cells[name].exists():
            missing.append(name)
            yield f"missing: {name}"
    if not missing:
        yield from _remove_all_but(set(cells.values()))
    if drawn.exists():
        write_whole(PUBLISHED / EPISODES, partial(shutil.copyfile, drawn))
    policies = (policies_of(path) for name, path in cells.items() if name in main)
    ships = [*others, *cells.values(), *policies, PUBLISHED / EPISODES]
    now = _now()
    files = {_key(path): _entry(path, before, now) for path in ships if path.exists()}
    write_if_changed(MANIFEST, as_json(files))
    yield f"{MANIFEST}: {len(files)} files"


def publish_policy(curves: Path, named: str | None = None) -> str:
    """Publish the median run's policy of a cell trained by `hindsight train`; returns a message.

    named: the environment if the user has typed one (`specs.from_file`).

    Raises FileError if the curves are not a cell's, or its policies are missing beside them.
    """
    spec, before = cell_of(load_cell(curves).metadata["spec"], curves, named), read_manifest()
    _sweep_all()
    policy = PUBLISHED / "policies" / f"{spec.name}.safetensors"
    which = write_middle(spec, curves, policy)
    known = {**before, _key(policy): {"sha256": file_sha256(policy), **_now()}}
    write_if_changed(MANIFEST, as_json(known))
    return f"{policy}: {which}"


def policies_of(curves: Path) -> Path:
    """Path of a trained cell's final parameters, or of a published one's policy."""
    return curves.parents[2] / "policies" / curves.parent.name / f"{curves.stem}.safetensors"


def _sweep_all() -> None:
    """Remove what a killed publication has left in the published folders."""
    for folder in (PUBLISHED, *(path for path in PUBLISHED.rglob("*") if path.is_dir())):
        sweep(folder)


def _now() -> dict[str, str]:
    """The commit, if there is one, and the lock file of this publication."""
    commit, lock = _git("rev-parse", "HEAD"), Path("requirements.lock")
    if commit and _git("status", "--porcelain", "--", "src"):
        commit += " and changes on top"
    return {"commit": commit, "lock": file_sha256(lock) if lock.exists() else ""}


def _git(*words: str) -> str:
    """git's output in this folder; "" without git or outside a repository."""
    try:
        run = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def _curves_of(trained: Path, name: str, spec: CellSpec) -> Path | None:
    """Path of a cell's curves by today's code, or else of the latest (see `verify-published`)."""
    own = trained / "cells" / f"{file_name(spec)}.parquet"
    there = (trained / "cells" / name).parent.glob(f"{Path(name).name}*.parquet")
    return own if own.exists() else max(there, key=lambda x: x.stat().st_mtime, default=None)


def _entry(path: Path, before: dict[str, Any], now: dict[str, str]) -> dict[str, Any]:
    """A file's entry in the manifest; the previous one if the file is unchanged."""
    found, entry = file_sha256(path), dict[str, Any](before.get(_key(path), {}))
    if entry.get("sha256") == found:
        return entry
    made = ("spec_hash", "code", "versions", "machine", "seconds")
    metadata = load_cell(path).metadata if path.suffix == ".parquet" else {}
    return {"sha256": found, **now, **{key: metadata[key] for key in made if metadata}}


def _remove_all_but(cells: Collection[Path]) -> Iterator[str]:
    """Remove other published cells, and their policies."""
    for path in sorted((PUBLISHED / "cells").rglob("*.parquet")):
        if path not in cells:
            policies_of(path).unlink(missing_ok=True)  # first: none is left without its cell
            path.unlink()
            yield f"removed: {_key(path)}, which is no longer in the plan"


def _key(path: Path) -> str:
    return str(path.relative_to(PUBLISHED))


def write_middle(spec: CellSpec, curves: Path, out: Path) -> str:
    """Write the policy of a trained cell's median run by the final evaluation; returns which it is.

    Of two runs in the middle, it is the worse one.  Raises FileError for a damaged file.
    """
    cell, saved = load_cell(curves), load(policies_of(curves))
    if not is_policy_of(spec, cell.metadata, saved, policies_of(curves)):
        raise FileError(f"{policies_of(curves)}: is not of the training that {curves} is of")
    runs = pd.DataFrame(reduce_cell(cell).runs)
    ranks = runs.sort_values(["final_evaluation_return", "final_evaluation_success", "seed"])
    middle = ranks.iloc[(len(runs) - 1) // 2]
    seed = int(middle["seed"])
    which = f"run {seed}, in the middle of {len(runs)} by the return of its last evaluation"
    result = {
        "which": which,
        "episodes": spec.evaluation.episodes,
        "steps": int(middle["end_step"]),
        "return_mean": float(middle["final_evaluation_return"]),
        "success_rate": float(middle["final_evaluation_success"]),
        "code": cell.metadata["code"],
    }
    if seed not in saved["seeds"]:
        raise FileError(f"{curves}: its median run diverged, so there is no policy to publish")
    row = saved["rows"][list(saved["seeds"]).index(seed)]
    write_policy(out, spec, seed, row, result)
    return which


def write_policy(out: Path, spec: CellSpec, seed: int, row: Tensor, result: dict[str, Any]) -> None:
    """Write the actor from a run's parameters [parameter], with its specification and result."""
    rows = row[acting_places(spec)][None].to(torch.float32).clone()
    what = {"spec": spec.model_dump_json(), "seeds": [seed], "part": "actor", "rows": rows}
    save(out, {**what, "result": result})
