"""Curves as a training leaves them, but for what differs from one training to the next."""

from pathlib import Path

import pandas as pd

CLOCKS = ["wall_seconds", "cpu_seconds"]


def curves(path: Path) -> pd.DataFrame:
    """The rows of a results file without the clocks."""
    return pd.read_parquet(path).drop(columns=CLOCKS)


def the_curves(folder: Path) -> pd.DataFrame:
    """Those of the only results file in a folder."""
    (path,) = folder.rglob("*.parquet")
    return curves(path)
