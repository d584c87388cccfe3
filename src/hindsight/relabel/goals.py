"""HER's goal selection strategies (Andrychowicz et al. 2017, section 4.5), for rollouts and replay.

The new goal of a step is the achieved goal of a step of the same episode, drawn uniformly from the
candidates of the strategy.  Steps are integer indices in temporal order, as NumPy arrays or PyTorch
tensors.

The strategy `random`, a goal of any episode, needs the whole buffer and is implemented there.
"""

from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from hindsight.specs.errors import must_agree
from hindsight.specs.replay import EpisodeStrategy

#: Integers [...], a NumPy array or a tensor.
Steps = Any
#: The first candidate step, and the number of candidates.
Candidates = tuple[Steps, Steps]


def final(step: Steps, before: Steps, left: Steps) -> Candidates:
    """The last step of the episode."""
    return step + (left - 1), 1


def future(step: Steps, before: Steps, left: Steps) -> Candidates:
    """The step itself and all later ones of the episode."""
    return step, left


def episode(step: Steps, before: Steps, left: Steps) -> Candidates:
    """All steps of the episode."""
    return step - before, before + left


#: Functions of a step, the number of steps before it in its episode, and the number left, itself
#: included.
STRATEGIES: dict[EpisodeStrategy, Callable[[Steps, Steps, Steps], Candidates]] = {
    "final": final,
    "future": future,
    "episode": episode,
}


def drawn(candidates: Candidates, uniform: Any) -> Steps:
    """Draw one candidate for each position, from `uniform` [...] in [0, 1)."""
    first, count = candidates
    chosen = uniform * count
    if isinstance(chosen, np.ndarray):
        return first + chosen.astype(np.int64)
    # The product with a float32 just below 1 may round up to the count.
    return first + chosen.long().clamp(max=count - 1)


must_agree("goal strategy", get_args(EpisodeStrategy), STRATEGIES)
