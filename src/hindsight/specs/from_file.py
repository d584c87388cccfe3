"""Read a cell's specification from a file that may come from somebody else.

A file may name an environment of this package or of gymnasium-robotics.  Any other would import and
run code, so the user must name it as well.
"""

import json
import re
from pathlib import Path
from typing import Any

from hindsight.io.files import FileError, reason
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.gymnasium import is_known

#: Maximum characters of a specification's JSON.
LONGEST_TEXT = 100_000


def values_of(text: Any, path: Path) -> dict[str, Any]:
    """Parse a specification's JSON text; raises FileError, which begins with the file `path`."""
    try:
        if len(text) > LONGEST_TEXT:
            raise SpecError(f"its specification is longer than {LONGEST_TEXT:,} characters")
        values = json.loads(text)
        if not isinstance(values, dict):
            raise SpecError("its specification is not a mapping")
    except (ValueError, TypeError, RecursionError) as error:  # a SpecError is a ValueError
        raise FileError(f"{path}: {reason(error)}") from None
    return values


def cell_of(values: Any, path: Path, named: str | None = None) -> CellSpec:
    """Build the specification that the file `path` holds from plain values.

    named: the environment's id if the user has typed one.  An environment `module:Name-v0` of the
        file is imported if this has the same module.

    Raises FileError if the specification is invalid, or the user has not named its environment.
    """
    try:
        environment = values.get("environment") if isinstance(values, dict) else None
        name = environment.get("id") if isinstance(environment, dict) else None
        module = (named or "").rpartition(":")[0]
        vouched = name == named or (module and str(name).rpartition(":")[0] == module)
        if isinstance(name, str) and not vouched and _wants_naming(name, named):
            way = f"if you trust it, add --env {name}, or pass it as the environment in Python"
            if named is not None:
                way = f"to play it in {named}, use Python: load(path, env={named!r})"
            raise SpecError(
                f"its environment is {name}, from another package, which a file may not import by "
                f"itself: {way}"
            )
        return validated(CellSpec, values)
    except SpecError as error:
        raise FileError(f"{path}: {error}") from None


def read_spec(path: Path, named: str | None = None) -> CellSpec:
    """Read a specification's JSON; `named` as in `cell_of`.

    Raises SpecError or FileError if it is invalid, or was planned with other code than today's.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: cannot be read as a specification: {reason(error)}") from error
    spec = cell_of(values_of(text, path), path, named)
    planned = re.search("-([0-9a-f]{12})$", path.stem)
    if planned is not None and planned[1] != (code := code_of(spec)):
        raise SpecError(
            f"{path}: planned with the code {planned[1]}, but the code is {code} now: the sources "
            "have been edited since; run the same command again"
        )
    return spec


def _wants_naming(name: str, named: str | None) -> bool:
    """As `wants_naming`, also if it is not registered and the user has named another."""
    try:
        return wants_naming(name)
    except SpecError:
        if named is None:
            raise
        return True


def wants_naming(name: str) -> bool:
    """Whether the user must name an environment of this id that a file asks for.

    Raises SpecError if it is not registered.
    """
    try:
        return name not in ENVIRONMENTS and not is_known(name)
    except SpecError as error:
        raise SpecError(
            f"{error}; if a module of yours registers it, import that module first, or name it: "
            f'env="module:{name}", --env module:{name} in the command line'
        ) from None
