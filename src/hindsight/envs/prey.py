"""The six fixed policies of the prey (PPO-HER section 4; released code for the details).

A policy turns the line of sight d = predator - prey, `[..., n]`, which points at the predator, and
uniform draws, `[..., 2 n + 2]`, into the velocity `[..., n]` with which the prey moves next.
`random_direction` keeps the velocity of its episode's start and therefore draws only there.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from hindsight.specs.base import Fidelity
from hindsight.specs.environments.predator_prey import Prey

# Columns of the uniform draws of one step.
SPEED = MIX = 0
INDEX = 1
VECTOR = 2


def n_draws(n: int) -> int:
    """Uniform numbers per step: a speed or mixture, an index, a vector, a replacement for 0."""
    return 2 * n + 2


def top_speed(n: int) -> float:
    """v_max = |(1, ..., 1)| / 2."""
    return math.sqrt(n) / 2


def _scaled(direction: Tensor, length: float | Tensor) -> Tensor:
    """`direction` [..., n] at the given length; a zero direction stays zero."""
    norm = torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    return torch.where(norm > 0, direction * (length / norm), 0.0)


def _nowhere_zero(v: Tensor, draws: Tensor) -> Tensor:
    """v, or U(0.01, 1)^n where v is the zero vector, which has no orthogonal direction."""
    n = v.shape[-1]
    replacement = 0.01 + 0.99 * draws[..., VECTOR + n : VECTOR + 2 * n]
    return torch.where((v == 0).all(-1, keepdim=True), replacement, v)


def released_orthogonal(v: Tensor, draws: Tensor) -> Tensor:
    """The authors' "orthogonal" vector to v, of length |v|: only roughly orthogonal.

    u ~ U(0, 1)^n; for a random index j with v_j != 0, u_j becomes -(sum_{i<n} v_i u_i) / v_j, where
    the sum leaves out the last index and includes the old u_j.
    """
    n = v.shape[-1]
    v = _nowhere_zero(v, draws)
    u = draws[..., VECTOR : VECTOR + n]
    nonzero = v != 0
    rank = nonzero.cumsum(-1)
    chosen = (draws[..., INDEX, None] * rank[..., -1:]).floor() + 1
    at_j = nonzero & (rank == chosen)
    partial = (v[..., :-1] * u[..., :-1]).sum(-1, keepdim=True)
    u = torch.where(at_j, -partial / torch.where(nonzero, v, 1.0), u)
    return _scaled(u, torch.linalg.vector_norm(v, dim=-1, keepdim=True))


def described_orthogonal(v: Tensor, draws: Tensor) -> Tensor:
    """A vector exactly orthogonal to v, of length |v|, uniform among the orthogonal directions.

    A Gaussian vector (by the inverse of the error function) less its component along v.
    """
    n = v.shape[-1]
    v = _nowhere_zero(v, draws)
    # The draws lie in [0, 1); half a float32 step away from 0 keeps the inverse finite.
    centred = (2 * draws[..., VECTOR : VECTOR + n] - 1).clamp(-1 + 2**-24, 1 - 2**-24)
    gaussian = torch.erfinv(centred)
    along = (gaussian * v).sum(-1, keepdim=True) / (v * v).sum(-1, keepdim=True)
    return _scaled(gaussian - along * v, torch.linalg.vector_norm(v, dim=-1, keepdim=True))


ORTHOGONAL = {"released": released_orthogonal, "described": described_orthogonal}


def _static(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    return torch.zeros_like(d)


def _random(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    n = d.shape[-1]
    speed = top_speed(n) * draws[..., SPEED, None]
    return _scaled(2 * draws[..., VECTOR : VECTOR + n] - 1, speed)


def _attract(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    m = 0.1 + 0.9 * draws[..., MIX, None]
    return _scaled(m * ORTHOGONAL[fidelity](d, draws) + (1 - m) * d, top_speed(d.shape[-1]))


def _repel(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    m = draws[..., MIX, None]
    return _scaled(m * ORTHOGONAL[fidelity](-d, draws) - (1 - m) * d, top_speed(d.shape[-1]))


def _straight_away(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    return _scaled(-d, top_speed(d.shape[-1]))


def _random_direction(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    n = d.shape[-1]
    return _scaled(2 * draws[..., VECTOR : VECTOR + n] - 1, top_speed(n))


POLICIES: dict[Prey, Callable[[Tensor, Tensor, Fidelity], Tensor]] = {
    "static": _static,
    "random": _random,
    "attract": _attract,
    "repel": _repel,
    "straight_away": _straight_away,
    "random_direction": _random_direction,
}

#: Policies that draw one velocity at the start of an episode and keep it.
KEPT: frozenset[Prey] = frozenset({"static", "random_direction"})
