"""What differs between two folders of tables, table by table, and between their verdicts.

    cp -r results/tables/published /tmp/before    # made by make figures
    python bench/published_numbers.py /tmp/before results/tables/published

A move of code changes nothing; a correction changes what its commit lists.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

SHOWN = 8  # differing rows of a column that are printed


def differences(old: Path, new: Path) -> Iterator[str]:
    """A line for each column and each verdict that differs."""
    for path in sorted(old.glob("*/*.csv")) + sorted(old.glob("*/*.parquet")):
        name = path.relative_to(old)
        if (new / name).exists():
            yield from (f"{name}: {line}" for line in _columns(_read(path), _read(new / name)))
        else:
            yield f"{name}: gone"
    before, after = (_verdicts(folder / "claims.json") for folder in (old, new))
    for place in before.keys() | after.keys():
        if before.get(place) != after.get(place):
            yield f"claims.json {place}: {before.get(place)} -> {after.get(place)}"


def _columns(old: pd.DataFrame, new: pd.DataFrame) -> Iterator[str]:
    """New columns alone are no difference."""
    if len(old) != len(new):
        yield f"{len(old)} rows -> {len(new)}"
        return
    for column in old:
        if column not in new:
            yield f"no column {column}"
            continue
        a, b = old[column], new[column]
        rows = old.index[~((a == b) | (a.isna() & b.isna()))]
        if len(rows):
            few = ", ".join(f"[{i}] {a[i]} -> {b[i]}" for i in rows[:SHOWN])
            yield f"{column}: {len(rows)} of {len(old)} rows: {few}"


def _read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def _verdicts(path: Path) -> dict[Any, Any]:
    """Each verdict as text, NaN and all, by claim and fidelity."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {(row["claim"], row["fidelity"]): json.dumps(row, sort_keys=True) for row in rows}


if __name__ == "__main__":
    found = list(differences(*map(Path, sys.argv[1:3])))
    print("\n".join([*found, f"{len(found)} differences"]))
    sys.exit(bool(found))
