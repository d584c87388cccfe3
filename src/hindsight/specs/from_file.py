"""A cell's specification out of a file: it decides numbers and nothing else, and within limits.

Files are handed around, and whoever loads one has not read it.  So what is loaded may name an
environment of ours or of gymnasium-robotics; any other would be code to import and run, and is
imported only if the person who types names it, too.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from hindsight.io.files import FileError, reason
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.gymnasium import is_known
from hindsight.specs.limits import must_be_moderate

#: Letters of the text.
LONGEST_TEXT = 100_000


def values_of(text: Any, where: Path) -> dict[str, Any]:
    """A mapping that a file holds as JSON; raises FileError, beginning with the file `where`."""
    try:
        if len(text) > LONGEST_TEXT:
            raise SpecError(f"its specification is longer than {LONGEST_TEXT:,} letters")
        values = json.loads(text)
        if not isinstance(values, dict):
            raise SpecError("its specification is no mapping")
    except (ValueError, TypeError, RecursionError) as error:  # a SpecError is a ValueError
        raise FileError(f"{where}: {reason(error)}") from None
    return values


def cell_of(values: Any, where: Path, named: Collection[str] = ()) -> CellSpec:
    """The specification that a file holds, from plain values.

    Args:
        where: the file, for messages.
        named: environments' ids that the person has typed.  Where the file's is `module:Name-v0`,
            `module` is imported if it is that of one of them.

    Raises:
        FileError: it is none, or cannot be, or its environment was not named.
    """
    try:
        must_be_moderate(values)
        _must_be_named(values.get("environment") if isinstance(values, dict) else None, named)
        spec = validated(CellSpec, values)
    except SpecError as error:
        raise FileError(f"{where}: {error}") from None
    return spec


def wants_naming(name: str) -> bool:
    """Whether a file's environment of this id is used only if a person names it, too."""
    return name not in ENVIRONMENTS and not is_known(name)


def _must_be_named(environment: Any, named: Collection[str]) -> None:
    name = environment.get("id") if isinstance(environment, dict) else None
    if not isinstance(name, str) or _is_named(name, named) or not wants_naming(name):
        return
    raise SpecError(
        f"its environment is {name}, which is neither ours nor gymnasium-robotics', and a file "
        f"does not decide what is imported: if you trust it, name it too: --env {name}"
    )


def _is_named(name: str, named: Collection[str]) -> bool:
    """Whether the person has typed this id or, of another environment, its module."""
    module = name.rpartition(":")[0]
    return name in named or (bool(module) and module in {n.rpartition(":")[0] for n in named})
