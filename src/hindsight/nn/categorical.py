"""Categorical policy over discrete actions, parametrised by logits."""

from torch import Tensor


def log_prob(logits: Tensor, actions: Tensor) -> Tensor:
    """log pi(actions), [run, sample]; logits [run, sample, choice], actions [run, sample] int64."""
    return logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats, [run, sample], from logits [run, sample, choice]."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)
