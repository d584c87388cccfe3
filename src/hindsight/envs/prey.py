"""The six fixed policies of the prey (PPO-HER section 4; released code for the details).

A policy turns the line of sight d = predator - prey, `[..., n]`, which points at the predator, and
uniform draws, `[..., 2 n + 2]`, into the velocity `[..., n]` with which the prey moves next.
`random_direction` keeps the velocity of its episode's start and therefore draws only there.

What follows from the draws alone is made ready for all steps of a rollout at once (`Mixture`,
`random_velocity`); a step then does what depends on where predator and prey are.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

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


class Mixture(NamedTuple):
    """What the draws decide of m o + (1 - m) v, o orthogonal to v: all but v."""

    m: Tensor  # [..., 1]
    rest: Tensor  # [..., 1], 1 - m
    vector: Tensor  # [..., n], which orthogonal vector: uniform (released), normal (described)
    entry: Tensor  # [..., 1], which of its entries is replaced (released)
    nowhere: Tensor  # [..., n], what stands for v where v is zero

    @classmethod
    def of(cls, draws: Tensor, least: float | Tensor, fidelity: Fidelity) -> "Mixture":
        """m ~ U(least, 1); draws [..., 2 n + 2]."""
        n = draws.shape[-1] // 2 - 1
        vector = draws[..., VECTOR : VECTOR + n]
        if fidelity == "described":
            # The draws lie in [0, 1); half a float32 step away from 0 keeps the inverse finite.
            vector = torch.erfinv((2 * vector - 1).clamp(-1 + 2**-24, 1 - 2**-24))
        m = least + (1 - least) * draws[..., MIX, None]
        nowhere = 0.01 + 0.99 * draws[..., VECTOR + n : VECTOR + 2 * n]
        return cls(m, 1 - m, vector, draws[..., INDEX, None], nowhere)


def released_orthogonal(v: Tensor, drawn: Mixture) -> Tensor:
    """The authors' "orthogonal" vector to v, of length |v|: only roughly orthogonal.

    u ~ U(0, 1)^n; for a random index j with v_j != 0, u_j becomes -(sum_{i<n} v_i u_i) / v_j, where
    the sum leaves out the last index and includes the old u_j.  v is nowhere the zero vector.
    """
    u, nonzero = drawn.vector, v != 0
    rank = nonzero.cumsum(-1)
    chosen = (drawn.entry * rank[..., -1:]).floor() + 1
    at_j = nonzero & (rank == chosen)
    partial = (v[..., :-1] * u[..., :-1]).sum(-1, keepdim=True)
    u = torch.where(at_j, -partial / torch.where(nonzero, v, 1.0), u)
    return _scaled(u, torch.linalg.vector_norm(v, dim=-1, keepdim=True))


def described_orthogonal(v: Tensor, drawn: Mixture) -> Tensor:
    """A vector exactly orthogonal to v, of length |v|, uniform among the orthogonal directions.

    A Gaussian vector less its component along v, which is nowhere the zero vector.
    """
    gaussian = drawn.vector
    along = (gaussian * v).sum(-1, keepdim=True) / (v * v).sum(-1, keepdim=True)
    return _scaled(gaussian - along * v, torch.linalg.vector_norm(v, dim=-1, keepdim=True))


ORTHOGONAL = {"released": released_orthogonal, "described": described_orthogonal}


def mixture_velocity(v: Tensor, drawn: Mixture, fidelity: Fidelity) -> Tensor:
    """The velocity along m o + (1 - m) v at top speed."""
    # The zero vector has no orthogonal direction; its place is taken for o alone.
    somewhere = torch.where((v == 0).all(-1, keepdim=True), drawn.nowhere, v)
    mixed = drawn.m * ORTHOGONAL[fidelity](somewhere, drawn) + drawn.rest * v
    return _scaled(mixed, top_speed(v.shape[-1]))


def random_velocity(draws: Tensor) -> Tensor:
    """A uniform vector at a uniform speed."""
    n = draws.shape[-1] // 2 - 1
    speed = top_speed(n) * draws[..., SPEED, None]
    return _scaled(2 * draws[..., VECTOR : VECTOR + n] - 1, speed)


#: Preys that mix a vector along the line of sight with one orthogonal to it: which way along it,
#: and the least share m of the orthogonal one.
MIXED: dict[Prey, tuple[float, float]] = {"attract": (1.0, 0.1), "repel": (-1.0, 0.0)}


def _static(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    return torch.zeros_like(d)


def _random(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    return random_velocity(draws)


def _attract(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    way, least = MIXED["attract"]
    return mixture_velocity(way * d, Mixture.of(draws, least, fidelity), fidelity)


def _repel(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    way, least = MIXED["repel"]
    return mixture_velocity(way * d, Mixture.of(draws, least, fidelity), fidelity)


def straight_away_velocity(d: Tensor) -> Tensor:
    """Against the line of sight at top speed."""
    return _scaled(-d, top_speed(d.shape[-1]))


def _straight_away(d: Tensor, draws: Tensor, fidelity: Fidelity) -> Tensor:
    return straight_away_velocity(d)


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
