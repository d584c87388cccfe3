"""The results that ship with the repository: trained cells and a manifest that vouches for them."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hindsight.analysis.cells import load_cell
from hindsight.files import FileError, write_whole
from hindsight.specs.experiments import EPISODES, PUBLISHED, TRAINED, Config, Plan, as_json

MANIFEST = PUBLISHED / "manifest.json"


def publish_cells(config: Config) -> Iterator[str]:
    """Copy the plan's trained cells and the picture's episodes; yields a line per missing cell."""
    plan = Plan.of(config)
    files: dict[str, Any] = {}
    for name in plan.cells:
        source, target = (
            TRAINED / "cells" / f"{name}.parquet",
            PUBLISHED / "cells" / f"{name}.parquet",
        )
        if source.exists():
            load_cell(source)  # refuses a damaged one
            write_whole(target, partial(shutil.copyfile, source))
        if not target.exists():
            yield f"missing: {name}"
            continue
        metadata = load_cell(target).metadata
        files[str(target.relative_to(PUBLISHED))] = {
            "sha256": _sha256(target),
            **{
                key: metadata[key]
                for key in ("spec_hash", "code", "versions", "machine", "seconds")
            },
        }
    drawn, target = TRAINED / "tables" / plan.config.source / EPISODES, PUBLISHED / EPISODES
    if drawn.exists():
        write_whole(target, partial(shutil.copyfile, drawn))
    if target.exists():
        files[str(EPISODES)] = {"sha256": _sha256(target)}
    write_whole(MANIFEST, lambda beside: beside.write_text(as_json(files), encoding="utf-8"))
    yield f"{MANIFEST}: {len(files)} files"


def verify(paths: Iterable[Path]) -> None:
    """Raise FileError for a published file that is there but not what the manifest says."""
    try:
        manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{MANIFEST}: cannot be read as a manifest: {error}") from error
    for path in filter(Path.exists, paths):
        entry = manifest.get(str(path.relative_to(PUBLISHED)))
        if entry is None:
            raise FileError(f"{path}: is not in {MANIFEST}")
        if entry["sha256"] != _sha256(path):
            raise FileError(f"{path}: differs from its checksum in {MANIFEST}; restore it from git")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
