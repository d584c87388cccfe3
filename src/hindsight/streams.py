"""Independent random streams for each run.

A stream is a counter-based generator (Philox; Salmon et al. 2011) keyed by the run's seed and the
purpose of the draw, and positioned by an index (a rollout, a block of episodes).  No state is
carried over: a run sees the same numbers whether it trains alone or with others, without
interruption or resumed, and whatever its algorithm draws elsewhere.
"""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """Purpose of a draw; the second word of the Philox key."""

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
    """Make the generator for a run (`seed`), a purpose and a position (`index` >= 0)."""
    # The index is the counter's highest word, so positions are 2**192 numbers apart.
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, 0, index]))
