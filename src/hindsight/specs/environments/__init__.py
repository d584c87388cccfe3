"""Specifications of this package's environments; adding a file here registers one."""

from hindsight.specs.base import EnvironmentSpec, kinds

#: By id, in alphabetical order.
ENVIRONMENTS = kinds(__name__, __path__, EnvironmentSpec, "id")  # type: ignore[type-abstract]
