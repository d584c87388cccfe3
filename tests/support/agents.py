"""Agents of any size, without an environment."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any


def agent(
    kind: Any,
    n_obs: int,
    n_outputs: int,
    hidden: Sequence[int],
    choices: tuple[int, ...] = (),
    **options: Any,
) -> Any:
    """The agent `kind` of an algorithm for a task of this size; `options` of its specification."""
    environment = SimpleNamespace(observation_size=n_obs, n_outputs=n_outputs, choices=choices)
    options = {"exploration": "gaussian", **options}
    return kind.of(environment, SimpleNamespace(hidden=tuple(hidden), **options))
