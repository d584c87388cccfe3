"""Agents of any size, without an environment."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any


def agent(kind: Any, n_obs: int, n_outputs: int, hidden: Sequence[int], choices: Any = ()) -> Any:
    """The agent `kind` of an algorithm for a task of this size."""
    environment = SimpleNamespace(observation_size=n_obs, n_outputs=n_outputs, choices=choices)
    return kind.of(environment, SimpleNamespace(hidden=tuple(hidden), exploration="gaussian"))
