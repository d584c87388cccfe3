"""Arms by what they are, never by what they are called: their role in an experiment and their keys.

Every table has, beside an arm's displayed name, the columns `role`, `algorithm`, `her` and one for
each key that an arm of its experiment sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

#: Any value of a key, but one there must be.
SET: Final = object()


def select(table: pd.DataFrame, role: str | None = None, **keys: Any) -> pd.DataFrame:
    """The rows of the arms with this role (None: any) and these keys; None: not set, SET: set."""
    chosen = pd.Series(True, index=table.index)
    if role is not None:
        chosen &= table["role"] == role
    for key, value in keys.items():
        column = table[key] if key in table else pd.Series(None, index=table.index, dtype=object)
        if value is None or value is SET:
            chosen &= column.isna() if value is None else column.notna()
        else:
            chosen &= column == value
    return table[chosen]


def names_of(table: pd.DataFrame, role: str | None = None, **keys: Any) -> list[str]:
    """What such arms are called, in the table's order."""
    return list(dict.fromkeys(select(table, role, **keys)["arm"].astype(str)))


def arm_columns(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The columns by which an arm is known, of an entry of a plan."""
    what = {name: entry[name] for name in ("role", "algorithm", "her")}
    # A list, as a network's widths, is one value of a column as text.
    keys = {key: str(v) if isinstance(v, list) else v for key, v in entry["keys"].items()}
    return {"arm": entry["arm"]} | what | keys
