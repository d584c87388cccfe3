"""Entropies of samples: MEHER argues that an agent learns most when that of rewards is highest."""

import math

import torch
from torch import Tensor

#: Equal bins over a coordinate's range.
BINS = 32


def entropy(x: Tensor, valid: Tensor, limit: Tensor, bins: int = BINS) -> Tensor:
    """Estimate the entropy of each coordinate; returns the mean over coordinates in bits, [run].

    The plug-in estimate on a histogram of equal bins, with the Miller-Madow correction (Miller
    1955): H = -sum p log p + (K - 1) / 2 N, for N samples in K occupied bins (Paninski 2003,
    section 4).  The joint entropy would need far more samples.

    x: [run, sample, coordinate], in [-limit, limit]; the result is NaN if a limit is infinite.
    valid: [run, sample] bool, the samples to use.
    """
    runs, _, coordinates = x.shape
    if limit.isinf().any():
        return torch.full((runs,), math.nan, device=x.device)
    place = ((x / limit + 1) / 2 * bins).long().clamp(0, bins - 1)
    cell = torch.arange(runs * coordinates, device=x.device).view(runs, 1, coordinates) * bins
    weight = valid[..., None].expand_as(place).double()
    counts = torch.bincount(
        (place + cell).flatten(), weight.flatten(), runs * coordinates * bins
    ).view(runs, coordinates, bins)
    n = valid.sum(1).view(runs, 1).clamp(min=1)
    p = counts / n[..., None]
    plug_in = -torch.xlogy(p, p).sum(-1)
    nats = plug_in + ((counts > 0).sum(-1) - 1) / (2 * n)
    return nats.mean(-1) / math.log(2)


def entropies(
    obs: Tensor,
    actions: Tensor,
    rewards: Tensor,
    valid: Tensor,
    limit: Tensor,
    choices: tuple[int, ...] = (),
) -> dict[str, Tensor]:
    """Estimate the entropies of rewards, actions and observations in bits, each [run].

    obs: [run, sample, obs], in [-limit, limit].  rewards: [run, sample], in {-1, 0, 1}.
    actions: [run, sample, action] as taken, in [-1, 1]; or each one of so many `choices`, which are
        bins.
    valid: [run, sample] bool, the samples to use.
    """
    if choices:
        # the centre of its bin
        actions = (2 * actions + 1) / torch.tensor(choices, device=obs.device) - 1
    one, bins = torch.ones(1, device=obs.device), max(choices, default=BINS)
    return {
        "reward_entropy": entropy(rewards[..., None], valid, one, bins=3),
        "action_entropy": entropy(actions, valid, one.expand(actions.shape[-1]), bins),
        "observation_entropy": entropy(obs, valid, limit),
    }
