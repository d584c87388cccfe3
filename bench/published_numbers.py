"""Every number that the published results lead to: written down, and compared with those of before.

    python -m bench.published_numbers write FOLDER     tables and verdicts, into FOLDER
    python -m bench.published_numbers compare OLD NEW  what differs, table by table and key by key

A move of code changes none; a correction changes those that its commit lists.
"""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hindsight.analysis.summarise import summarise
from hindsight.claims import write_claims
from hindsight.io.files import as_json, write_if_changed
from hindsight.specs.config import load
from hindsight.specs.plan import Plan

SHOWN = 8  # differing rows of a column that are printed


def write(folder: Path) -> None:
    """Make every table of the published results below `folder`, then the verdicts."""
    plan = Plan.of(load(Path("config.yaml"), {"results": "published"}))
    paths = []
    for experiment in plan.experiments:
        path = folder / experiment / "plan.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(path, as_json(plan.document(experiment)))
        paths.append(path)
    with ProcessPoolExecutor(2) as pool:
        for path, missing in zip(paths, pool.map(summarise, paths), strict=True):
            print(path.parent.name, f"{len(missing)} cells missing" if missing else "", flush=True)
    write_claims(folder)


def compare(old: Path, new: Path) -> int:
    """Print what differs between two such folders; how many columns and keys do."""
    found = 0
    for path in sorted(old.glob("*/*.csv")) + sorted(old.glob("*/*.parquet")):
        name = path.relative_to(old)
        if not (new / name).exists():
            print(f"{name}: gone")
            found += 1
            continue
        found += _compare_tables(str(name), _read(path), _read(new / name))
    before, after = (dict(_leaves(json.loads((f / "claims.json").read_text()))) for f in (old, new))
    for key in before:
        if key not in after or not _same(before[key], after[key]):
            print(f"claims.json {key}: {before[key]!r} -> {after.get(key)!r}")
            found += 1
    print(f"{found} differences")
    return found


def _read(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def _compare_tables(name: str, old: pd.DataFrame, new: pd.DataFrame) -> int:
    """Columns of the same name, row by row; new columns alone are no difference."""
    if len(old) != len(new):
        print(f"{name}: {len(old)} rows -> {len(new)}")
        return 1
    found = 0
    for column in old:
        if column not in new:
            print(f"{name}: no column {column}")
            found += 1
            continue
        a, b = old[column].to_numpy(), new[column].to_numpy()
        rows = [i for i, pair in enumerate(zip(a, b, strict=True)) if not _same(*pair)]
        if rows:
            few = ", ".join(f"[{i}] {a[i]} -> {b[i]}" for i in rows[:SHOWN])
            print(f"{name}: {column}: {len(rows)} of {len(old)} rows: {few}")
            found += 1
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float | np.floating) and isinstance(b, float | np.floating):
        return bool(a == b or (math.isnan(a) and math.isnan(b)))
    return bool(a == b) or (a is None and b is None)


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each plain value of a document by its place; rows by what they are of."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            words = item if isinstance(item, dict) else {}
            of = words.get("claim") or words.get("id") or i
            yield from _leaves(item, f"{key}{of} {words.get('fidelity', '')}".strip())
    else:
        yield key, value


def main() -> int:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("write").add_argument("folder", type=Path)
    of = commands.add_parser("compare")
    of.add_argument("old", type=Path)
    of.add_argument("new", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "write":
        write(arguments.folder)
        return 0
    return int(compare(arguments.old, arguments.new) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
