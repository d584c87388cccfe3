"""The manifest of the published files: checksum and provenance of each."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hindsight.io.checksums import file_sha256
from hindsight.io.files import FileError, reason
from hindsight.specs.config import PUBLISHED

MANIFEST = PUBLISHED / "manifest.json"


def read_manifest() -> dict[str, dict[str, Any]]:
    """Read the manifest's entries by file; raises FileError if it is not a manifest."""
    try:
        entries: dict[str, dict[str, Any]] = json.loads(MANIFEST.read_text(encoding="utf-8"))
        for entry in entries.values():
            entry["sha256"]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{MANIFEST}: cannot be read as a manifest: {reason(error)}") from error
    return entries


def verify(paths: Iterable[Path]) -> None:
    """Raise FileError for a published file that does not match the manifest.

    Missing files, and files outside results/published, are ignored.
    """
    root = PUBLISHED.resolve()
    published = [path for path in paths if root in path.resolve().parents and path.exists()]
    if not published:
        return
    sums = {name: entry["sha256"] for name, entry in read_manifest().items()}
    for path in published:
        name = str(path.resolve().relative_to(root))
        if name not in sums:
            raise FileError(f"{path}: is not in {MANIFEST}")
        if sums[name] != file_sha256(path):
            raise FileError(f"{path}: differs from its checksum in {MANIFEST}; restore it from git")
