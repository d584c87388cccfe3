"""Deep deterministic policy gradient (Lillicrap et al. 2016, Algorithm 1), on the run axis.

Symbols follow the paper: Q is the critic with parameters theta^Q, mu the policy with theta^mu, Q'
and mu' are their target networks.  TD3 extends DDPG, so the networks, their layout and `learn` come
from `td3`, here with a single critic, no delay, and no noise on mu'(s').  A test compares this
module with Stable-Baselines3.  Relabelled transitions are treated like any others.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hindsight.algorithms import td3
from hindsight.algorithms.td3 import Diagnostics, TrainState, act, learn
from hindsight.nn.mlp import tanh_
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.ddpg import DDPGSpec

__all__ = ["NOISES", "Agent", "Diagnostics", "TrainState", "act", "update"]

#: Standard normal numbers that an update needs per sample and action dimension.
NOISES = 0


@dataclass(frozen=True)
class Agent(td3.Agent):
    """The networks; a run's parameter row is theta^Q, theta^mu, theta^Q', theta^mu'."""

    n_critics: ClassVar[int] = 1


@torch.no_grad()
def update(state: TrainState, batch: Batch, noise: Tensor, spec: DDPGSpec) -> Diagnostics:
    """Update critic and policy by one gradient step each, then the target networks, in place.

    Args:
        noise: [run, 0, action], unused; all algorithms share this signature.
    """
    return learn(state, batch, tanh_(state.target_pi(batch.next_obs)), spec)
