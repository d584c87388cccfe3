"""The fixed policies of the prey (PPO-HER section 4; details from the released code).

A prey is a function from the line of sight d = predator - prey and the random numbers of the step
to the velocity of the prey's next move.  To add one, write its function here and add it to
`hindsight.specs.environments.predator_prey.PREYS`.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from hindsight.envs.step import GOAL_POLICY, Numbers
from hindsight.nn.numba_cache import FirstClass, compiled, entry_point, first_class
from hindsight.specs.environments.predator_prey import PREYS
from hindsight.specs.errors import must_agree

# The layout of a step's random numbers: a speed or mixing weight, an index, a vector [n], a vector
# [n] that replaces the zero vector, and the first vector transformed to a normal distribution [n].
SPEED = MIX = 0
INDEX = 1
VECTOR = 2


def n_uniform(n: int) -> int:
    """The number of uniform numbers drawn per step in n dimensions."""
    return 2 * n + 2


def numbers_of(uniform: Numbers) -> Numbers:
    """A prey's random numbers [..., 3 n + 2], from numbers [..., 2 n + 2] uniform in [0, 1).

    The last n are computed from the vector: erfinv(2 u - 1), normal with variance 1/2.
    """
    n = uniform.shape[-1] // 2 - 1
    # Clipping half a float32 step away from -1 and 1 keeps the inverse error function finite.
    vector = np.clip(2 * uniform[..., VECTOR : VECTOR + n] - 1, -1 + 2**-24, 1 - 2**-24)
    normal = torch.erfinv(torch.from_numpy(vector.astype(np.float32))).numpy()
    return np.concatenate([uniform, normal], axis=-1)


def top_speed(n: int) -> float:
    """v_max = |(1, ..., 1)| / 2."""
    return math.sqrt(n) / 2


_top_speed = compiled(top_speed)


@compiled
def length(v: Numbers) -> float:
    squares = 0.0
    for x in v:
        squares += x * x
    return math.sqrt(squares)


@compiled
def scale(v: Numbers, to: float) -> None:
    """Scale v [n] to length `to`, in place; the zero vector stays zero."""
    now = length(v)
    for i in range(len(v)):
        v[i] = v[i] * (to / now) if now > 0 else 0.0


@compiled
def released_orthogonal(v: Numbers, noise: Numbers) -> Numbers:
    """The authors' "orthogonal" vector to v, of length |v|; it is only roughly orthogonal.

    u ~ U(0, 1)^n; for a random index j with v_j != 0, u_j becomes -(sum_{i<n} v_i u_i) / v_j.  The
    sum leaves out the last index and includes the old u_j.  v must not be the zero vector.
    """
    n = len(v)
    u = noise[VECTOR : VECTOR + n].copy()
    left = int(noise[INDEX] * np.count_nonzero(v))
    partial = 0.0
    for i in range(n - 1):
        partial += v[i] * u[i]
    for j in range(n):
        if v[j] != 0:
            if left == 0:
                u[j] = -partial / v[j]
                break
            left -= 1
    scale(u, length(v))
    return u


@compiled
def described_orthogonal(v: Numbers, noise: Numbers) -> Numbers:
    """A vector exactly orthogonal to v, of length |v|, in a uniformly distributed direction.

    A Gaussian vector minus its component along v.  v must not be the zero vector.
    """
    n = len(v)
    o = noise[VECTOR + 2 * n :].copy()
    along = squares = 0.0
    for i in range(n):
        along += o[i] * v[i]
        squares += v[i] * v[i]
    for i in range(n):
        o[i] -= along / squares * v[i]
    scale(o, length(v))
    return o


@compiled
def mix(v: Numbers, least: float, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Move along m o + (1 - m) v at top speed, m ~ U(least, 1), o orthogonal to v."""
    n = len(v)
    somewhere = v.copy()
    if np.count_nonzero(v) == 0:  # the zero vector has no orthogonal direction
        for i in range(n):
            somewhere[i] = 0.01 + 0.99 * noise[VECTOR + n + i]
    o = (
        described_orthogonal(somewhere, noise)
        if described
        else released_orthogonal(somewhere, noise)
    )
    m = least + (1 - least) * noise[MIX]
    for i in range(n):
        velocity[i] = m * o[i] + (1 - m) * v[i]
    scale(velocity, _top_speed(n))


class Policy(NamedTuple):
    velocity: FirstClass  # writes the velocity [n]
    keeps: bool  # one velocity, drawn at the start of an episode


def policy(keeps: bool = False) -> Callable[[Callable[..., None]], Policy]:
    """Turn a function that writes a velocity [n] into a prey policy."""
    return lambda function: Policy(first_class(GOAL_POLICY)(function), keeps)


@policy(keeps=True)
def static(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Do not move."""
    velocity[:] = 0


@compiled
def _anywhere(noise: Numbers, speed: float, velocity: Numbers) -> None:
    """Move along a random vector, uniform in a cube."""
    for i in range(len(velocity)):
        velocity[i] = 2 * noise[VECTOR + i] - 1
    scale(velocity, speed)


@policy()
def random(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Move along a random vector at a random speed, drawn at every step."""
    _anywhere(noise, _top_speed(len(d)) * noise[SPEED], velocity)


@policy()
def attract(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Move towards the predator and sideways."""
    mix(d, 0.1, noise, described, velocity)


@policy()
def repel(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Move away from the predator and sideways."""
    mix(-d, 0.0, noise, described, velocity)


@policy()
def straight_away(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Move straight away from the predator at top speed."""
    for i in range(len(d)):
        velocity[i] = -d[i]
    scale(velocity, _top_speed(len(d)))


@policy(keeps=True)
def random_direction(d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    """Move along a random vector at top speed, drawn once per episode."""
    _anywhere(noise, _top_speed(len(d)), velocity)


def policy_of(prey: str) -> Policy:
    """The prey with this name.

    It is looked up at run time, so that the fingerprint of a cell covers only its own prey.
    """
    found: Policy = globals()[prey]
    return found


if not TYPE_CHECKING:  # fingerprints skip this: a cell depends only on its own prey
    must_agree("prey", PREYS, [name for name, x in globals().items() if isinstance(x, Policy)])


@entry_point
def _each(policy: Any, d: Numbers, noise: Numbers, described: bool, velocity: Numbers) -> None:
    for i in range(len(d)):
        policy(d[i], noise[i], described, velocity[i])


def velocities(prey: str, d: Numbers, uniform: Numbers, described: bool) -> Numbers:
    """Velocities [size, n] for lines of sight d [size, n]; `uniform` [size, 2 n + 2] in [0, 1)."""
    velocity = np.empty_like(d)
    _each(policy_of(prey).velocity.address, d, numbers_of(uniform), described, velocity)
    return velocity
