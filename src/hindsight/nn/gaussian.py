"""Diagonal Gaussian policy with state-independent log sigma."""

import math

from torch import Tensor


def log_prob(mean: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    """log N(actions; mean, sigma), [run, sample]; mean, actions [run, sample, action]."""
    z = (actions - mean) * (-log_std).exp()[:, None]
    constant = 0.5 * math.log(2 * math.pi) * actions.shape[-1]
    return -0.5 * z.square().sum(-1) - log_std.sum(-1, keepdim=True) - constant


def entropy(log_std: Tensor) -> Tensor:
    """Entropy in nats, [run], from log sigma [run, action]."""
    return (log_std + 0.5 * (1 + math.log(2 * math.pi))).sum(-1)
