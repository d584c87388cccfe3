"""Upper limits of a specification, the same for typed, planned and loaded ones.

Whatever can be trained can therefore be loaded again.
"""

import math
from typing import Any

from hindsight.specs.errors import SpecError

#: Largest number by key, and for all other keys: at least ten times what is used in practice.  Far
#: beyond, a training would exhaust the memory or never end.
LARGEST = {
    "steps": 10**10, "until_steps": 10**10,
    "log_interval": 10**9, "learning_starts": 10**9, "target_update_interval": 10**9,
    "buffer_size": 10**8,
    "seeds": 10_000, "hidden": 10_000, "n_bits": 10_000,
    "max_steps": 10_000, "max_episode_steps": 10_000,
    "n_dims": 100,
    "width": 4096, "height": 4096,  # of pictures
}  # fmt: skip
LARGEST_OF_OTHERS = 10**6
MOST_WEIGHTS = 10**8
#: Maximum nesting depth of a specification, and length of a list.
DEEPEST, MOST_VALUES = 8, 1000
#: Characters of each part of a cell's path; a file name has at most 255 bytes, with its suffix.
LONGEST_NAME = 150


def must_be_moderate(value: Any, place: str = "specification", depth: int = 0) -> None:
    """Raise SpecError if plain values of a specification exceed these limits."""
    key = place.rpartition(".")[2]
    if depth > DEEPEST:
        raise SpecError(f"{place}: more than {DEEPEST} levels are not allowed")
    if isinstance(value, dict | list | tuple) and len(value) > MOST_VALUES:
        raise SpecError(f"{place}: more than {MOST_VALUES} values are not allowed")
    if isinstance(value, dict):
        for name, inner in value.items():
            must_be_moderate(inner, f"{place}.{name}", depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            must_be_moderate(inner, place, depth + 1)
    elif isinstance(value, str):
        if ".kwargs" not in place and _is_number(value):
            raise SpecError(f"{place}: {value!r} is text, not a number")
    elif isinstance(value, int | float):
        largest = LARGEST.get(key, LARGEST_OF_OTHERS)
        if abs(value) > largest or not math.isfinite(value):
            raise SpecError(f"{place}: {str(value)[:24]} is not allowed; it is at most {largest:,}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
