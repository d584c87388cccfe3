"""How much there is to learn from a buffer: the entropy of what it holds.

MEHER argues that an agent learns most from rewards of highest entropy; these are its measures.
"""

import math

import torch
from torch import Tensor

#: Equal bins over a coordinate's range.
BINS = 32


def entropy(x: Tensor, valid: Tensor, limit: Tensor, bins: int = BINS) -> Tensor:
    """Entropy in bits, [run], mean over coordinates.

    The plug-in estimate on a histogram of equal bins, with the correction of Miller (1955), also
    called Miller-Madow: H = -sum p log p + (K - 1) / 2 N, of N samples in K bins that are occupied
    (Paninski 2003, section 4).  Coordinates are taken one by one: jointly there are far too few
    samples.

    Args:
        x: [run, sample, coordinate].  valid: [run, sample] bool, which samples there are.
        limit: [coordinate], x lies in [-limit, limit]; NaN where one is infinite.
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
    n_choices: int | None = None,
) -> dict[str, Tensor]:
    """Of rewards in {-1, 0, 1}, of actions as taken and of observations, each [run], bits.

    obs [run, sample, obs], in [-limit, limit] with limit [obs]; actions [run, sample, action], in
    [-1, 1], or one choice of `n_choices`, each a bin; rewards, valid [run, sample].
    """
    if n_choices is not None:
        actions = (2 * actions + 1) / n_choices - 1  # the middle of its bin
    one = torch.ones(1, device=obs.device)
    return {
        "reward_entropy": entropy(rewards[..., None], valid, one, bins=3),
        "action_entropy": entropy(actions, valid, one.expand(actions.shape[-1]), n_choices or BINS),
        "observation_entropy": entropy(obs, valid, limit),
    }
