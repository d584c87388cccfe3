"""What differs between two folders of tables; a move of code changes nothing.

    cp -r results/tables/published /tmp/before    # made by make figures
    python bench/published_numbers.py /tmp/before results/tables/published

The exit status is 1 if anything differs.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd


def differences(old: Path, new: Path) -> Iterator[str]:
    """A line for each column and each verdict that differs; columns may be added."""
    for path in sorted([*old.glob("*/*.csv"), *old.glob("*/*.parquet")]):
        name = path.relative_to(old)
        read = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
        before, after = read(path), read(new / name)
        for column in before:
            try:
                pd.testing.assert_series_equal(before[column], after[column], check_exact=True)
            except (AssertionError, KeyError) as error:
                yield f"{name}: {column}: {error}"
    verdicts = (json.loads((folder / "claims.json").read_text()) for folder in (old, new))
    for before, after in zip(*verdicts, strict=True):
        # As text, in which NaN equals itself.
        if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
            yield f"claims.json: {before} -> {after}"


if __name__ == "__main__":
    found = list(differences(*map(Path, sys.argv[1:3])))
    print("\n".join([*found, f"{len(found)} differences"]))
    sys.exit(bool(found))
