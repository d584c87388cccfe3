"""HER's goal selection strategies (Andrychowicz et al. 2017, section 4.5), for rollouts and replay.

The new goal of a step is the achieved goal of a step of the same episode, which the strategy
chooses. Steps are integer indices in temporal order.

The strategy `random`, a goal of any episode, needs the whole buffer and is implemented there.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from numba import types
from torch import Tensor

from hindsight.nn.numba_cache import FirstClass, first_class
from hindsight.specs.errors import SpecError, must_agree
from hindsight.specs.replay import EpisodeStrategy

#: A strategy: `(step, before, left, uniform)` returns the step, as a whole number, whose achieved
#: goal replaces the desired one of `step`. That has `before` steps before it in its episode, and
#: `left` to its end, with itself; the result must be one of them. `uniform` in [0, 1) is random.
#: Compiled code calls it with numbers, Python also with NumPy arrays [...].
STRATEGY = types.FunctionType(types.float64(types.int64, types.int64, types.int64, types.float64))


@first_class(STRATEGY)
def final(step: Any, before: Any, left: Any, uniform: Any) -> Any:
    """The last step of the episode."""
    return step + left - 1 + 0.0 * uniform


@first_class(STRATEGY)
def future(step: Any, before: Any, left: Any, uniform: Any) -> Any:
    """The step itself or one of the later ones of the episode, all equally likely."""
    return step + np.floor(uniform * left)


@first_class(STRATEGY)
def episode(step: Any, before: Any, left: Any, uniform: Any) -> Any:
    """Any step of the episode, all equally likely."""
    return step - before + np.floor(uniform * (before + left))


def strategy_of(name: EpisodeStrategy) -> FirstClass:
    """The strategy with this name.

    It is looked up at run time, so that the fingerprint of a cell covers only its own strategy.
    """
    found: FirstClass = globals()[name]
    return found


def must_stay(strategies: Mapping[Any, Callable[..., Any]]) -> None:
    """Raise SpecError if a strategy chooses a step outside of the episode."""
    cases = product((0, 1, 4), (1, 2, 5), (0.0, 0.5, 1 - 2.0**-53))
    for (name, strategy), (before, left, uniform) in product(strategies.items(), cases):
        chosen = float(strategy(7, before, left, uniform))
        if not (7 - before <= chosen < 7 + left and chosen.is_integer()):
            raise SpecError(
                f"the goal strategy {name!r} chose step {chosen:g} for step 7 of an episode of "
                f"steps {7 - before} to {6 + left}: it must choose one of these"
            )


if not TYPE_CHECKING:  # fingerprints skip this: a cell depends only on its own strategy
    STRATEGIES = {name: x for name, x in globals().items() if isinstance(x, FirstClass)}
    must_agree("goal strategy", get_args(EpisodeStrategy), STRATEGIES)
    must_stay(STRATEGIES)


def choose(strategy: EpisodeStrategy, step: Any, before: Any, left: Any, uniform: Any) -> Any:
    """The steps [...] that a strategy chooses, int64; arguments [...] as of `STRATEGY`."""
    # In float64, in which the product with a number just below 1 cannot round up.
    chosen = strategy_of(strategy)(step, before, left, np.asarray(uniform, np.float64))
    return np.asarray(chosen).astype(np.int64)


def choose_on(
    strategy: EpisodeStrategy, step: Tensor, before: Tensor, left: Tensor, uniform: Tensor
) -> Tensor:
    """`choose` for tensors, on their device."""
    arrays = (x.cpu().numpy() for x in (step, before, left, uniform))
    return torch.from_numpy(choose(strategy, *arrays)).to(step.device)
