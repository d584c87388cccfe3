"""Discover the specifications in a package's modules."""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import TypeVar

from hindsight.specs.base import Spec

Kind = TypeVar("Kind", bound=Spec)


def kinds(package: str, path: Sequence[str], base: type[Kind], field: str) -> dict[str, type[Kind]]:
    """The subclasses of `base` that a package's modules define, by the default of their `field`."""
    found = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(path)):
        module = importlib.import_module(f"{package}.{name}")
        for kind in vars(module).values():
            own = isinstance(kind, type) and kind.__module__ == module.__name__
            if own and issubclass(kind, base):
                found[kind.model_fields[field].default] = kind
    return found
