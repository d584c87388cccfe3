"""Which runs may train together: those whose specifications differ in values alone.

Each part of a specification says of itself which of its keys are only values on the run axis
(`Spec.values`).  All else, as a network's width or whether there is hindsight, changes shapes or
the code path, and separates.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hindsight.specs.base import Spec

if TYPE_CHECKING:
    from hindsight.specs.cell import CellSpec


def axis_key(spec: "CellSpec") -> str:
    """What cells that may share an axis have in common, as a text that is theirs alone."""
    return json.dumps(_common(spec), sort_keys=True)


def _common(spec: Spec) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        if isinstance(value, Spec):
            kept[name] = _common(value)
        elif name in spec.values and value is not None:  # without one the code path is another
            kept[name] = "any"
        else:
            kept[name] = value
    return kept


def by_axis(specs: "Iterable[CellSpec]") -> "list[list[CellSpec]]":
    """Cells by the axis that they may share, in the order in which each axis comes first."""
    alike: dict[str, list[CellSpec]] = {}
    for spec in specs:
        alike.setdefault(axis_key(spec), []).append(spec)
    return list(alike.values())


def must_share_axis(specs: "Iterable[CellSpec]") -> None:
    """Raise ValueError for runs, each with its specification, that cannot train together."""
    different = {id(spec): spec for spec in specs}.values()
    if len({axis_key(spec) for spec in different}) != 1:
        names = ", ".join(spec.name for spec in different)
        raise ValueError(f"runs on one axis differ in more than values: {names}")
