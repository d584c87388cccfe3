"""Gymnasium's spaces as rows of numbers, which is how networks and buffers hold their elements.

A box or several bits are their numbers; a choice is as many numbers as there are choices, of which
the chosen one is 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from numpy.typing import NDArray

Array = NDArray[Any]
#: What a policy may see, and goals may be.
KINDS = (Box, Discrete, MultiBinary, MultiDiscrete)


def choices(space: Space[Any]) -> list[Array] | None:
    """The values of each choice that an element consists of; None: it is numbers already."""
    if isinstance(space, Discrete):
        return [space.start + np.arange(space.n)]
    if isinstance(space, MultiDiscrete):
        pairs = zip(np.ravel(space.start), np.ravel(space.nvec), strict=True)
        return [first + np.arange(n) for first, n in pairs]
    return None


def size(space: Space[Any]) -> int:
    """Numbers in the row of an element."""
    values = choices(space)
    return int(np.prod(space.shape or ())) if values is None else sum(map(len, values))


def largest(space: Space[Any]) -> NDArray[np.float64]:
    """The largest absolute value of each number of a row; infinite where there is no bound."""
    if not isinstance(space, Box):
        return np.ones(size(space))
    low, high = (np.abs(np.asarray(side, np.float64)) for side in (space.low, space.high))
    return np.maximum(low, high).ravel()


def row_of(obs: Mapping[str, Any], spaces: Mapping[str, Space[Any]]) -> NDArray[np.float32]:
    """[obs]: the parts of an observation in the order of `spaces`, side by side."""
    parts: list[Array] = []
    for key, space in spaces.items():
        numbers, values = np.ravel(obs[key]), choices(space)
        if values is None:
            parts.append(numbers)
        else:
            parts += [number == among for number, among in zip(numbers, values, strict=True)]
    return np.concatenate(parts).astype(np.float32)


def elements(space: Space[Any], rows: Array) -> Array:
    """Rows [n, size] as elements of a space, [n, *shape] of its type."""
    values = choices(space)
    if values is not None:
        ends = np.cumsum([len(among) for among in values])[:-1]
        parts = zip(np.split(rows, ends, axis=1), values, strict=True)
        rows = np.stack([among[part.argmax(1)] for part, among in parts], axis=1)
    return rows.reshape(-1, *(space.shape or ())).astype(space.dtype)


def action_of(space: Box | Discrete, values: NDArray[np.float32]) -> Any:
    """An action [action] in [-1, 1], or a choice [1], as the environment wants it."""
    if isinstance(space, Discrete):
        return space.start + int(values[0])
    low, high = (x.astype(np.float64).ravel() for x in (space.low, space.high))
    scaled = (low + high) / 2 + (high - low) / 2 * np.clip(values, -1, 1)
    return scaled.astype(space.dtype).reshape(space.shape)
