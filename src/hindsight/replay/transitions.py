"""A batch of transitions: what off-policy learning takes from a replay buffer."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Transitions side by side; leading dimensions [run, sample]."""

    obs: Tensor  # [run, sample, obs]: achieved goal, desired goal, observation
    actions: Tensor  # [run, sample, action] float, or [run, sample] int64 where they are discrete
    rewards: Tensor  # [run, sample]
    next_obs: Tensor  # [run, sample, obs]
    terminated: Tensor  # [run, sample] bool: no value beyond; false where a time limit cut
    weight: Tensor | None = None  # [run, sample] importance weights; None: all 1
