"""Specifications of the algorithms; adding a file here registers one."""

from hindsight.specs.base import AlgorithmSpec, subclasses_by

#: By name, in alphabetical order.
ALGORITHMS = subclasses_by(__name__, __path__, AlgorithmSpec, "name")  # type: ignore[type-abstract]
