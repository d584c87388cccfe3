"""Entropies of policies in nats."""

import math

from torch import Tensor


def categorical_entropy(logits: Tensor) -> Tensor:
    """Entropy [run, sample] of a policy over discrete actions; logits [run, sample, choice]."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Entropy [run] of a diagonal Gaussian whose log sigma [run, action] is the same everywhere."""
    return (log_std + 0.5 * (1 + math.log(2 * math.pi))).sum(-1)
