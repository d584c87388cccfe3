"""Deep deterministic policy gradient (Lillicrap et al. 2016, Algorithm 1), on the run axis.

Symbols follow the paper: Q is the critic with parameters theta^Q, mu the policy with theta^mu, Q'
and mu' are their target networks.  TD3 extends DDPG, so the networks and their layout come from
`td3`, with a single critic.  A test compares this module with Stable-Baselines3.  Relabelled
transitions are treated like any others.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hindsight.algorithms import td3
from hindsight.algorithms.td3 import Diagnostics, State, act, explore, fit, improve
from hindsight.nn.mlp import tanh_
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.ddpg import DDPGSpec

__all__ = ["NOISES", "Agent", "Diagnostics", "State", "act", "explore", "update"]

#: Standard normal numbers that an update needs per sample and action dimension.
NOISES = 0


@dataclass(frozen=True)
class Agent(td3.Agent):
    """The networks; a run's parameter row is theta^Q, theta^mu, theta^Q', theta^mu'."""

    n_critics: ClassVar[int] = 1


@torch.no_grad()
def update(state: State, batch: Batch, noise: Tensor, spec: DDPGSpec) -> Diagnostics:
    """Update critic and policy by one gradient step each, then the target networks, in place.

    Args:
        noise: [run, 0, action], unused; all algorithms share this signature.
    """
    # y = r + gamma Q'(s', mu'(s'))
    next_actions = tanh_(state.target_pi(batch.next_obs))
    next_q = state.target_q(torch.cat([batch.next_obs, next_actions], dim=-1))[..., 0]
    next_value = next_q.masked_fill_(batch.terminated, 0)
    y = torch.add(batch.rewards, next_value, alpha=spec.gamma)
    # Critic loss L: the mean of (y - Q(s, a))^2
    critic_loss, critic_norm, q, delta = fit(state, batch, y, spec.max_grad_norm)
    # Policy gradient: the mean of grad_a Q(s, a) at a = mu(s), times grad mu(s)
    actor_loss, actor_norm = improve(state, batch.obs, state.q, spec.max_grad_norm)
    state.follow(spec.tau)
    return Diagnostics(
        critic_loss=critic_loss,
        actor_loss=actor_loss,
        critic_gradient_norm=critic_norm,
        actor_gradient_norm=actor_norm,
        q_mean=q.mean((1, 2)),
        td_error=delta.abs().mean(1),
    )
