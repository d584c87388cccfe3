"""Weights of the copies' advantages: their actions were chosen for other goals.

With g the goal pursued and g' the copy's, the importance ratio of an action is
pi(a | s, g') / pi(a | s, g).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from hindsight.envs.rollout import Trajectories, segment_starts


def none(log_ratio: Tensor, paths: Trajectories) -> Tensor:
    """1, as in PPO-HER."""
    return torch.ones_like(log_ratio)


def truncated(log_ratio: Tensor, paths: Trajectories) -> Tensor:
    """The action's ratio, at most 1 (Espeholt et al. 2018, rho-bar = 1)."""
    return log_ratio.exp().clamp(max=1)


def per_decision(log_ratio: Tensor, paths: Trajectories) -> Tensor:
    """The product of the ratios of the copy's actions so far, self-normalised.

    Hindsight policy gradients (Rauber et al. 2019, eq. 8 and section 5): at each time within an
    episode, the weights of a run's copies have mean 1.
    """
    shape = paths.rewards.shape
    begins = torch.cat([torch.ones_like(paths.ends[..., :1]), paths.ends[..., :-1]], dim=-1)
    first = segment_starts(begins)
    ratio = log_ratio.view(shape).double()
    so_far = ratio.cumsum(-1)
    product = so_far - (so_far - ratio).gather(-1, first)
    time = (torch.arange(shape[-1], device=first.device) - first).flatten(1)
    product, valid = product.flatten(1), paths.valid.flatten(1)
    # Relative to the largest of its time, so that nothing overflows.
    least = torch.full((shape[0], shape[-1]), -torch.inf, dtype=product.dtype, device=time.device)
    counted = torch.where(valid, product, -torch.inf)
    largest = least.scatter_reduce(1, time, counted, "amax").gather(1, time)
    weight = torch.where(valid, (product - largest).exp(), 0)
    total, count = (
        torch.zeros_like(least).scatter_add(1, time, x).gather(1, time)
        for x in (weight, valid.double())
    )
    return torch.where(valid, weight * count / total, 0).to(log_ratio.dtype)


#: Functions of the copies' log ratios [run, sample] and of their trajectories, to weights
#: [run, sample].
WEIGHTS: dict[str, Callable[[Tensor, Trajectories], Tensor]] = {
    "none": none, "truncated": truncated, "per_decision": per_decision,
}  # fmt: skip
