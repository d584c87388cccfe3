"""Which specifications there are, those in the files of a folder, and the code that they name."""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any, TypeVar

from hindsight.specs.base import Spec

Kind = TypeVar("Kind", bound=Spec)


def entry(point: str) -> Any:
    """What an entry point `module:name` of a specification names, as gymnasium writes them."""
    module, _, name = point.partition(":")
    return getattr(importlib.import_module(module), name)


def kinds(package: str, path: Sequence[str], base: type[Kind], field: str) -> dict[str, type[Kind]]:
    """The specifications that the modules of a package define, by the default of their `field`.

    `base` is what all of them are.
    """
    found = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(path)):
        module = importlib.import_module(f"{package}.{name}")
        for kind in vars(module).values():
            own = isinstance(kind, type) and kind.__module__ == module.__name__
            if own and issubclass(kind, base):
                found[kind.model_fields[field].default] = kind
    return found
