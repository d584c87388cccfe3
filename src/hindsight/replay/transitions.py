"""The batch of transitions that an off-policy update learns from."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """A batch of transitions; leading dimensions [run, sample]."""

    obs: Tensor  # [run, sample, obs]: achieved goal, desired goal, observation
    actions: Tensor  # [run, sample, action] float, or [run, sample] int64 where they are discrete
    rewards: Tensor  # [run, sample]
    next_obs: Tensor  # [run, sample, obs]
    terminated: Tensor  # [run, sample] bool: do not bootstrap; false where a time limit cut
    weight: Tensor | None = None  # [run, sample] importance weights; None: all 1


class Transitions(NamedTuple):
    """A `Batch` of one run for compiled updates, [sample, ...]."""

    obs: NDArray[np.float32]
    actions: NDArray[np.float32]  # [sample, action]; a discrete action is one number
    rewards: NDArray[np.float32]
    next_obs: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    weight: NDArray[np.float32]  # empty: all 1
