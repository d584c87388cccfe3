"""Specifications of this package's environments; adding a file here registers one."""

from hindsight.specs.base import EnvironmentSpec, subclasses_by

#: By id, in alphabetical order.
ENVIRONMENTS = subclasses_by(__name__, __path__, EnvironmentSpec, "id")  # type: ignore[type-abstract]
