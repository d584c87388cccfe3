"""Specifications of our environments, one file each; a file here is all that makes one known."""

from hindsight.specs.base import EnvironmentSpec
from hindsight.specs.kinds import kinds

#: By id, in alphabetical order.
ENVIRONMENTS = kinds(__name__, __path__, EnvironmentSpec, "id")  # type: ignore[type-abstract]
