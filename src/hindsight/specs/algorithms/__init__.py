"""Specifications of the algorithms; adding a file here registers one."""

from hindsight.specs.base import AlgorithmSpec, kinds

#: By name, in alphabetical order.
ALGORITHMS = kinds(__name__, __path__, AlgorithmSpec, "name")  # type: ignore[type-abstract]
