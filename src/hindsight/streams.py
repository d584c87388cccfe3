"""Random numbers that belong to one run and to nobody else.

A stream is a counter-based generator (Philox; Salmon et al. 2011) keyed by the run's seed and the
purpose of the draw, and positioned by an index (a rollout, a block of episodes).  Nothing is
carried from one draw to the next: a run sees the same numbers whether it is trained alone or among
others, in one go or resumed, and whatever its algorithm draws elsewhere.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a draw is for; the second word of the Philox key."""

    INITIALISATION = 0
    SPAWN = 1
    PREY = 2
    POLICY = 3
    MINIBATCH = 4
    RELABEL = 5
    EVALUATION_SPAWN = 6
    EVALUATION_PREY = 7
    UPDATE = 8
    UNIFORM_ACTIONS = 9


def stream(seed: int, purpose: Purpose, index: int = 0) -> np.random.Generator:
    """The generator of one run (`seed`), one purpose, one position (`index` >= 0)."""
    # The index fills the counter's highest word: 2**192 numbers lie between two positions.
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, index]))
