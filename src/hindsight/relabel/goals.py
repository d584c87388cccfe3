"""Which achieved goal takes the place of the desired one: index arithmetic of rollouts and replay.

A goal is that achieved by the action of some step of the same episode (Andrychowicz et al. 2017,
section 4.5).  A strategy says which steps may be chosen, one of which then is, each with the same
probability.  Steps are whole numbers in the order of time, of NumPy or of PyTorch alike.

`random`, a goal of any episode, is no such strategy: it knows of all that is stored, and is the
replay buffer's own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hindsight.specs.replay import EpisodeStrategy

#: Whole numbers [...], a NumPy array or a tensor.
Steps = Any
#: The first of the steps that may be chosen, and how many there are.
Candidates = tuple[Steps, Steps]


def final(step: Steps, before: Steps, left: Steps) -> Candidates:
    """The episode's last."""
    return step + (left - 1), 1


def future(step: Steps, before: Steps, left: Steps) -> Candidates:
    """The step itself, and all that follow."""
    return step, left


def episode(step: Steps, before: Steps, left: Steps) -> Candidates:
    """All of the episode."""
    return step - before, before + left


#: Of a step, how many of its episode came before it, and how many are left, itself included.
STRATEGIES: dict[EpisodeStrategy, Callable[[Steps, Steps, Steps], Candidates]] = {
    "final": final,
    "future": future,
    "episode": episode,
}


def drawn(candidates: Candidates, uniform: Any) -> Steps:
    """One of the candidates of each place, by numbers [...] uniform in [0, 1)."""
    first, count = candidates
    chosen = uniform * count
    if isinstance(chosen, np.ndarray):
        return first + chosen.astype(np.int64)
    # A float32 just below 1 may be rounded up to the count.
    return first + chosen.long().clamp(max=count - 1)
