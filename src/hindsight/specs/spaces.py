"""Spaces of goal environments, and their elements as rows of numbers for networks and buffers.

Boxes and bits keep their numbers; discrete values are encoded one-hot.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, flatdim
from numpy.typing import NDArray

from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.errors import SpecError

if gymnasium.__version__.startswith(("0.", "1.0.")):
    raise SpecError(
        f"hindsight needs gymnasium 1.1 or newer, but found {gymnasium.__version__}, which another "
        "package may have asked for: pip install 'gymnasium>=1.1', in an environment of its own if "
        "that package needs the older one"
    )

Array = NDArray[Any]
#: Supported spaces of observations and goals.
SUPPORTED_SPACES = (Box, Discrete, MultiBinary, MultiDiscrete)
#: Advice for an environment whose observations are others.
WRAP = (
    "; hindsight.GoalEnvironment(env, achieved=..., desired=..., tolerance=...) makes a goal "
    "environment of it (docs/your-environment.md)"
)
#: Supported spaces of actions.
Actions = Box | Discrete | MultiBinary | MultiDiscrete


def choices(space: Space[Any]) -> list[Array] | None:
    """Possible values of each discrete component; None for a box or bits."""
    if isinstance(space, Discrete):
        return [space.start + np.arange(space.n)]
    if isinstance(space, MultiDiscrete):
        pairs = zip(np.ravel(space.start), np.ravel(space.nvec), strict=True)
        return [first + np.arange(n) for first, n in pairs]
    return None


def action_choices(space: Space[Any]) -> tuple[int, ...]:
    """Numbers of choices of an action's discrete components; empty if it is continuous."""
    if isinstance(space, MultiBinary):
        return (2,) * flatdim(space)
    return tuple(len(among) for among in choices(space) or ())


def largest(space: Space[Any]) -> NDArray[np.float64]:
    """Largest absolute value of each number in a row; infinite if unbounded."""
    if not isinstance(space, Box):
        return np.ones(flatdim(space))
    low, high = (np.abs(np.asarray(side, np.float64)) for side in (space.low, space.high))
    return np.maximum(low, high).ravel()


def row_of(obs: Mapping[str, Any], spaces: Mapping[str, Space[Any]]) -> NDArray[np.float32]:
    """Concatenate the parts of an observation in the order of `spaces`; returns [obs].

    Raises ValueError for a choice that its space lacks, or an integer that float32 cannot hold.
    """
    parts: list[Array] = []
    for key, space in spaces.items():
        numbers, values = np.ravel(obs[key]), choices(space)
        if values is None:
            if numbers.dtype.kind in "iu" and (numbers != numbers.astype(np.float32)).any():
                raise ValueError(f"{key} is {obs[key]}, which float32 cannot hold exactly")
            parts.append(numbers)
        else:
            chosen = [number == among for number, among in zip(numbers, values, strict=True)]
            if not all(one.any() for one in chosen):
                raise ValueError(f"{key} is {obs[key]}, which is not in its space {space}")
            parts += chosen
    return np.concatenate(parts).astype(np.float32)


def elements(space: Space[Any], rows: Array) -> Array:
    """Convert rows [n, size] to elements of a space, [n, *shape] with its dtype."""
    values = choices(space)
    if values is not None:
        ends = np.cumsum([len(among) for among in values])[:-1]
        parts = zip(np.split(rows, ends, axis=1), values, strict=True)
        rows = np.stack([among[part.argmax(1)] for part, among in parts], axis=1)
    return rows.reshape(-1, *(space.shape or ())).astype(space.dtype)


def action_of(space: Actions, values: NDArray[np.float32]) -> Any:
    """Scale an action [action] from [-1, 1] to the environment's box, or convert choices [choice].

    The choices of a component are counted from 0.
    """
    if isinstance(space, Discrete):
        return space.start + int(values[0])
    if not isinstance(space, Box):
        return (values.reshape(space.shape) + getattr(space, "start", 0)).astype(space.dtype)
    low, high = (x.astype(np.float64).ravel() for x in (space.low, space.high))
    scaled = (low + high) / 2 + (high - low) / 2 * _clipped(values, -1, 1)
    # Rounding must not leave the box.
    return _clipped(scaled.astype(space.dtype).reshape(space.shape), space.low, space.high)


def _clipped(values: Array, low: Any, high: Any) -> Any:
    """np.clip in a fifth of the time, for few numbers."""
    return np.minimum(np.maximum(values, low), high)


def policy_inputs(name: str, whole: Space[Any]) -> tuple[dict[str, Space[Any]], list[str]]:
    """The parts of an observation space that the policy sees, by key, and the keys left out.

    Besides the three goal keys, these are boxes, bits and choices, in alphabetical order. Images,
    which are boxes of bytes of two or more dimensions, and other spaces are left out.

    Raises SpecError if a goal key is missing, or neither numbers nor choices.
    """
    spaces = dict(whole.spaces) if isinstance(whole, Dict) else {}
    if isinstance(whole, dict):
        raise SpecError(f"{name}: its observation_space is a dict, not a gymnasium.spaces.Dict")
    if not set(spaces) >= set(GOAL_KEYS):
        what = ", ".join(spaces) or f"a {type(whole).__name__}"
        raise SpecError(
            f"{name}: observations must be dictionaries with {', '.join(GOAL_KEYS)}; "
            f"it has {what}{WRAP}"
        )
    for key in GOAL_KEYS:
        if not isinstance(spaces[key], SUPPORTED_SPACES):
            kind = type(spaces[key]).__name__
            raise SpecError(f"{name}: {key} is a {kind}, but must be one array{WRAP}")
    achieved, desired = spaces["achieved_goal"], spaces["desired_goal"]
    kinds = [
        (x.shape, _kind(x), [list(among) for among in choices(x) or ()])
        for x in (achieved, desired)
    ]
    if kinds[0] != kinds[1]:
        raise SpecError(
            f"{name}: achieved_goal {achieved} and desired_goal {desired} must have the same "
            "shape, type and choices, since each achieved goal may become a desired one"
        )
    others = sorted(set(spaces) - set(GOAL_KEYS))
    more = [key for key in others if _has_numbers(spaces[key])]
    seen = {key: spaces[key] for key in (*GOAL_KEYS, *more)}
    return seen, [key for key in others if key not in more]


def _kind(space: Space[Any]) -> str:
    """Floats of any width are one kind, but integers of another width could wrap around."""
    dtype = np.dtype(space.dtype)
    return "float" if dtype.kind == "f" else dtype.name


def _has_numbers(space: Space[Any]) -> bool:
    if isinstance(space, Box) and space.dtype == np.uint8:
        return len(space.shape) < 2  # else an image
    return isinstance(space, SUPPORTED_SPACES)


def policy_outputs(name: str, space: Space[Any]) -> Actions:
    """Return an action space; SpecError unless it is discrete or a bounded Box of floats."""
    if action_choices(space):
        return space  # type: ignore[return-value]
    if not isinstance(space, Box) or not np.issubdtype(space.dtype, np.floating):
        raise SpecError(
            f"{name}: actions must be a Box of floats, Discrete, MultiDiscrete or MultiBinary, not "
            f"{space}"
        )
    with np.errstate(over="ignore"):
        width = space.high.astype(np.float32) - space.low.astype(np.float32)
    if not np.isfinite(width).all():
        raise SpecError(
            f"{name}: actions must have bounds, to which [-1, 1] is scaled: give them some, or "
            "leave out ClipAction, which takes them away"
        )
    return space


def batch_for(shape: tuple[int, ...]) -> int:
    """A number of goals that cannot be mistaken for the parts of one goal of this shape."""
    return next(n for n in (3, 4, 5, 6, 7) if n not in shape and n != np.prod(shape))
