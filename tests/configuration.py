"""The project's own configuration as plain values, for tests that change it."""

from pathlib import Path
from typing import Any

from hindsight.specs.config import completed
from hindsight.specs.reading import read_keys

ROOT = Path(__file__).parents[1]


def values(root: Path = ROOT) -> dict[str, Any]:
    """config.yaml with the files in `config`, in one."""
    return completed(read_keys(root / "config.yaml"), root)
