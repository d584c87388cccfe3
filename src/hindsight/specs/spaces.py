"""Flatten elements of gymnasium spaces to rows of numbers for networks and buffers.

Boxes and bits keep their numbers; discrete values are encoded one-hot.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from numpy.typing import NDArray

Array = NDArray[Any]
#: Supported spaces of observations and goals.
KINDS = (Box, Discrete, MultiBinary, MultiDiscrete)


def choices(space: Space[Any]) -> list[Array] | None:
    """Possible values of each discrete component; None for a box or bits."""
    if isinstance(space, Discrete):
        return [space.start + np.arange(space.n)]
    if isinstance(space, MultiDiscrete):
        pairs = zip(np.ravel(space.start), np.ravel(space.nvec), strict=True)
        return [first + np.arange(n) for first, n in pairs]
    return None


def size(space: Space[Any]) -> int:
    """Length of the row of an element."""
    values = choices(space)
    return int(np.prod(space.shape or ())) if values is None else sum(map(len, values))


def largest(space: Space[Any]) -> NDArray[np.float64]:
    """Largest absolute value of each number in a row; infinite if unbounded."""
    if not isinstance(space, Box):
        return np.ones(size(space))
    low, high = (np.abs(np.asarray(side, np.float64)) for side in (space.low, space.high))
    return np.maximum(low, high).ravel()


def row_of(obs: Mapping[str, Any], spaces: Mapping[str, Space[Any]]) -> NDArray[np.float32]:
    """Concatenate the parts of an observation in the order of `spaces`; returns [obs]."""
    parts: list[Array] = []
    for key, space in spaces.items():
        numbers, values = np.ravel(obs[key]), choices(space)
        if values is None:
            parts.append(numbers)
        else:
            parts += [number == among for number, among in zip(numbers, values, strict=True)]
    return np.concatenate(parts).astype(np.float32)


def elements(space: Space[Any], rows: Array) -> Array:
    """Convert rows [n, size] to elements of a space, [n, *shape] with its dtype."""
    values = choices(space)
    if values is not None:
        ends = np.cumsum([len(among) for among in values])[:-1]
        parts = zip(np.split(rows, ends, axis=1), values, strict=True)
        rows = np.stack([among[part.argmax(1)] for part, among in parts], axis=1)
    return rows.reshape(-1, *(space.shape or ())).astype(space.dtype)


def action_of(space: Box | Discrete, values: NDArray[np.float32]) -> Any:
    """Scale an action [action] from [-1, 1] to the environment's box, or convert a choice [1]."""
    if isinstance(space, Discrete):
        return space.start + int(values[0])
    low, high = (x.astype(np.float64).ravel() for x in (space.low, space.high))
    scaled = (low + high) / 2 + (high - low) / 2 * np.clip(values, -1, 1)
    return scaled.astype(space.dtype).reshape(space.shape)
