"""The results that ship with the repository: trained cells and a manifest that vouches for them."""

import json
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hindsight import repository
from hindsight.analysis.cells import KNOWN, load_cell
from hindsight.files import FileError, as_json, reason, write_whole
from hindsight.integrity import file_sha256
from hindsight.specs.config import EPISODES, PUBLISHED, TRAINED, Config
from hindsight.specs.plan import Plan

MANIFEST = PUBLISHED / "manifest.json"
#: Cells that are trained and wait for their experiment to be complete (workflow/campaign.py).
STAGED = TRAINED / "staged"


def publish_cells(config: Config) -> Iterator[str]:
    """Copy the plan's trained cells and the picture's episodes; move those that are staged, with
    their policies; remove, once nothing is missing, published cells that the plan has no more, and
    their policies.  Yields a line per cell that is missing or removed.

    The manifest says of each file its checksum, what its cell says of itself, and of what commit
    and what lock file it was published; what was published before keeps its entry.

    Raises FileError, before anything is written, for a file that stays and is not what the manifest
    of before says: it would be vouched for anew.
    """
    plan = Plan.of(config)
    files: dict[str, Any] = {}
    whole = True
    before = _manifest() if MANIFEST.exists() else {}
    now = _now()
    drawn = TRAINED / "tables" / plan.config.source / EPISODES
    verify(_that_stay(plan, before, drawn))
    for name in plan.cells:
        trained, staged, target = (
            root / "cells" / f"{name}.parquet" for root in (TRAINED, STAGED, PUBLISHED)
        )
        for source in (staged, trained):
            if source.exists():
                _ship(source, target)
        if not target.exists():
            whole = False
            yield f"missing: {name}"
            continue
        if (policy := STAGED / "policies" / f"{name}.pt").exists():
            ships = PUBLISHED / "policies" / f"{name}.pt"
            write_whole(ships, partial(shutil.copyfile, policy))
            files[str(ships.relative_to(PUBLISHED))] = {"sha256": file_sha256(ships), **now}
        metadata = load_cell(target).metadata
        key, found = str(target.relative_to(PUBLISHED)), file_sha256(target)
        if key in before and before[key]["sha256"] == found:
            files[key] = before[key]
            continue
        files[key] = {
            "sha256": found,
            **now,
            **{
                key: metadata[key]
                for key in ("spec_hash", "code", "versions", "machine", "seconds")
            },
        }
    for path in sorted((PUBLISHED / "cells").rglob("*.parquet")) if whole else ():
        if str(path.relative_to(PUBLISHED)) not in files:
            path.unlink()
            policy = PUBLISHED / "policies" / path.relative_to(PUBLISHED / "cells")
            policy.with_suffix(".pt").unlink(missing_ok=True)
            yield f"removed: {path.relative_to(PUBLISHED)}, which the plan has no more"
    target = PUBLISHED / EPISODES
    if drawn.exists():
        write_whole(target, partial(shutil.copyfile, drawn))
    if target.exists():
        files[str(EPISODES)] = {"sha256": file_sha256(target)}
    policies = {name: entry for name, entry in before.items() if _is_policy(name)}
    files = {**policies, **files}
    _write_manifest(files)
    for name in files:  # only now: a publication that was killed begins anew with what is staged
        (STAGED / name).unlink(missing_ok=True)
    yield f"{MANIFEST}: {len(files)} files"


def _that_stay(plan: Plan, before: dict[str, Any], drawn: Path) -> Iterator[Path]:
    """Published files that the next manifest names, and that are not written before."""
    for name in plan.cells:
        if not any((root / "cells" / f"{name}.parquet").exists() for root in (TRAINED, STAGED)):
            yield PUBLISHED / "cells" / f"{name}.parquet"
    for name in filter(_is_policy, before):
        if not (STAGED / name).exists():
            yield PUBLISHED / name
    if not drawn.exists():
        yield PUBLISHED / EPISODES


def _ship(source: Path, target: Path) -> None:
    """A trained cell without the columns that nothing reads, which are a quarter of its bytes.

    Raises ResultError for a damaged one.
    """
    from hindsight.training.files import write_curves  # which loads torch

    metadata = load_cell(source).metadata
    table = pq.read_table(source)
    read = [name for name in table.column_names if name in KNOWN]
    write_curves(target, table.select(read), metadata)


def vouch(policy: Path) -> None:
    """Enter a policy that ships in the manifest."""
    name = str(policy.relative_to(PUBLISHED))
    _write_manifest({**_manifest(), name: {"sha256": file_sha256(policy), **_now()}})


def _now() -> dict[str, str]:
    """Of what commit and what lock file something is published now."""
    return {"commit": repository.commit(), "lock": repository.lock_sum()}


def _is_policy(name: str) -> bool:
    """Whether an entry of the manifest is a policy, or a curve of the authors', that is there."""
    return name.startswith(("policies/", "authors/")) and (PUBLISHED / name).exists()


def _write_manifest(files: dict[str, Any]) -> None:
    text = as_json(files)
    write_whole(MANIFEST, lambda beside: beside.write_text(text, encoding="utf-8"))


def verify(paths: Iterable[Path]) -> None:
    """Raise FileError for a published file that is there but not what the manifest says.

    Files that are not below results/published are none of the manifest's.
    """
    published = [path for path in paths if PUBLISHED in path.parents and path.exists()]
    if not published:
        return
    sums = {name: entry["sha256"] for name, entry in _manifest().items()}
    for path in published:
        name = str(path.relative_to(PUBLISHED))
        if name not in sums:
            raise FileError(f"{path}: is not in {MANIFEST}")
        if sums[name] != file_sha256(path):
            raise FileError(f"{path}: differs from its checksum in {MANIFEST}; restore it from git")


def _manifest() -> dict[str, dict[str, Any]]:
    """Its entries by file, each with its checksum; FileError where it is none."""
    try:
        entries: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
        for entry in entries.values():
            entry["sha256"]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{MANIFEST}: cannot be read as a manifest: {reason(error)}") from error
    return entries
