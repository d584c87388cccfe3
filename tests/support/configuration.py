"""The project's own configuration, and copies of the project, for tests that change them."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from hindsight.specs.config import completed
from hindsight.specs.reading import read_keys

ROOT = Path(__file__).parents[2]
#: What a pipeline runs with.
PARTS = (
    "Snakefile", "config.yaml", "config", "environment.yml", "workflow", "profiles", "docs", "src",
)  # fmt: skip


def values(root: Path = ROOT) -> dict[str, Any]:
    """config.yaml with the files in `config`, in one."""
    return completed(read_keys(root / "config.yaml"), root)


def copy_project(folder: Path, *more: str) -> None:
    """Copy what a pipeline runs with, and more parts, into a folder that may be there already."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in (*PARTS, *more):
        if (ROOT / part).is_dir():
            # What is compiled goes with it, but for what is just being written.
            ignored = shutil.ignore_patterns("*.pyc.*", "*.egg-info")
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        else:
            shutil.copy(ROOT / part, folder / part)


def environment_of(project: Path, *before: Path) -> dict[str, str]:
    """In which the copy's own sources are found, after others, and this Python's commands."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*before, project / "src"])),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
