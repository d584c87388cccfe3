"""Tanh-squashed diagonal Gaussian policy with state-dependent mean and log sigma.

a = tanh(u), u = mu + sigma * noise (Haarnoja et al. 2018b, eq. 8 and appendix C), with a
hand-written gradient.  Actions lie in (-1, 1).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hindsight.nn.mlp import tanh_

#: Limits of log sigma.
LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
#: Keeps the logarithm of 1 - a^2 finite where the action is at its bound.
EPSILON = 1e-6


@dataclass(frozen=True)
class Sample:
    """Actions, their log-probabilities, and intermediate results for the gradient."""

    actions: Tensor  # [run, sample, action]
    log_prob: Tensor  # [run, sample]
    deviation: Tensor  # [run, sample, action] sigma * noise
    slope: Tensor  # [run, sample, action] da / du = 1 - a^2
    inside: Tensor  # [run, sample, action] bool: log sigma is within its limits

    def first(self, n: int) -> "Sample":
        """The first n samples of each run, as views."""
        return Sample(*(part[:, :n] for part in vars(self).values()))


def sample(head: Tensor, noise: Tensor) -> Sample:
    """Sample actions by the reparametrisation trick.

    Args:
        head: [run, sample, 2 action], mu followed by log sigma.
        noise: [run, sample, action], standard normal.
    """
    mean, head_log_std = head.chunk(2, dim=-1)
    log_std = head_log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
    deviation = log_std.exp() * noise
    actions = tanh_(mean + deviation)
    slope = 1 - actions.square()
    # log N(u; mu, sigma) - log |da / du|, negated and without the constant
    terms = torch.log(slope + EPSILON).add_(log_std).addcmul_(noise, noise, value=0.5)
    log_prob = -terms.sum(-1) - 0.5 * math.log(2 * math.pi) * noise.shape[-1]
    return Sample(actions, log_prob, deviation, slope, log_std == head_log_std)


def gradient(sampled: Sample, d_actions: Tensor, d_log_prob: Tensor) -> Tensor:
    """The gradient of a loss with respect to the head, [run, sample, 2 action], at fixed noise.

    Args:
        d_actions: [run, sample, action], its gradient with respect to the actions.
        d_log_prob: its gradient with respect to log pi(a), broadcast to [run, sample].
    """
    d_log_prob = d_log_prob[..., None]
    # d log pi / du = 2 a (1 - a^2) / (1 - a^2 + epsilon)
    d_u = d_actions + 2 * d_log_prob * sampled.actions / (sampled.slope + EPSILON)
    d_u *= sampled.slope
    d_log_std = (d_u * sampled.deviation - d_log_prob) * sampled.inside
    return torch.cat([d_u, d_log_std], dim=-1)
