"""Select arms by their role in an experiment and their keys, never by their displayed names.

Every table has, besides an arm's name, the columns `role`, `algorithm` and `her`, and one for each
key that an arm of its experiment sets.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

#: Selects arms that set a key, to any value; figures.yaml and the claims' files write it, too.
SET = "set"


def select(table: pd.DataFrame, role: str, **keys: Any) -> pd.DataFrame:
    """Return the rows of arms with this role and these keys (None: not set)."""
    chosen = table["role"] == role
    for key, value in keys.items():
        column = table.get(key, pd.Series(None, index=table.index, dtype=object))
        if value is None or value == SET:
            chosen &= column.isna() if value is None else column.notna()
        else:
            chosen &= (column == value) | (column.map(str) == str(value))  # of several kinds
    return table[chosen]


def arm_columns(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that identify the arm of a plan's entry."""
    what = {name: entry[name] for name in ("role", "algorithm", "her")}
    # Lists, such as a network's widths, are stored as text.
    keys = {key: str(v) if isinstance(v, list) else v for key, v in entry["keys"].items()}
    return {"arm": entry["arm"]} | what | keys
