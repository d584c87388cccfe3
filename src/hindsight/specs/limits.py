"""What a specification can be at most: the same where it is typed, planned and read from a file.

So whatever is trained can be read again.
"""

import math
from typing import Any

from hindsight.specs.errors import SpecError

#: The largest numbers of a specification, by key, and of all other keys.  Each is ten times and
#: more what this field trains; what lies far beyond would fill the memory, or never end.
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
#: Levels of a specification, values of a list.
DEEPEST, MOST_VALUES = 8, 1000
#: Letters of each part of a cell's path; a file's name has 255 bytes at most, endings included.
LONGEST_NAME = 150


def must_be_moderate(value: Any, place: str = "specification", depth: int = 0) -> None:
    """Raise SpecError for a number of a specification, as plain values, that is beyond all use."""
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
