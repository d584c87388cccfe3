"""Compiled networks and Adam for one run: plain loops around `np.dot`.

Parameters have the layout of `nn.mlp`: layer by layer bias [out], weight [out, in].  Training one
run at a time keeps its parameters, moments and minibatch in a core's cache and launches no kernels,
so it takes a twentieth of PyTorch's time (docs/speed.md).  Numba's `np.dot` calls SciPy's OpenBLAS,
which uses the full vector width of every processor.

Tests compare these functions with `nn.mlp` and `nn.adam`.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight.nn.adam import Adam
from hindsight.nn.numba_cache import compiled, kernels

Numbers = NDArray[np.float32]
Sizes = NDArray[np.int64]


class Optimised(NamedTuple):
    """Parameters and what Adam needs to move them; arrays are updated in place."""

    row: Numbers  # [parameter]
    m: Numbers  # [parameter], first moments
    v: Numbers  # [parameter], second moments
    steps: NDArray[np.float64]  # [1], how many were taken
    learning_rate: float
    eps: float
    weight_decay: float


# The rational approximation of tanh of Eigen and XLA, x P(x^2) / Q(x^2), with an error below 5e-7.
_BOUND = np.float32(7.90531110763549805)
_P1, _P3 = np.float32(4.89352455891786e-03), np.float32(6.37261928875436e-04)
_P5, _P7 = np.float32(1.48572235717979e-05), np.float32(5.12229709037114e-08)
_P9, _P11 = np.float32(-8.60467152213735e-11), np.float32(2.00018790482477e-13)
_P13 = np.float32(-2.76076847742355e-16)
_Q0, _Q2 = np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03)
_Q4, _Q6 = np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06)


@compiled
def tanh(x: np.float32) -> np.float32:
    """tanh of a float32, written so that loops over it vectorise.  NaN propagates."""
    if x > _BOUND:
        x = _BOUND
    if x < -_BOUND:
        x = -_BOUND
    s = x * x
    p = _P11 + s * _P13
    p = _P9 + s * p
    p = _P7 + s * p
    p = _P5 + s * p
    p = _P3 + s * p
    p = _P1 + s * p
    q = _Q4 + s * _Q6
    q = _Q2 + s * q
    q = _Q0 + s * q
    return x * p / q


@compiled
def copy(numbers: Numbers, to: Numbers) -> None:
    """Copy `numbers` to `to`, both [n].

    An assignment to a slice would also compile the words of its error: five seconds for each.
    """
    for i in range(len(numbers)):
        to[i] = numbers[i]


@compiled
def _activate(y: Numbers, bias: Numbers, relu: bool) -> None:
    """Replace y [batch, out] by the activation of y + bias."""
    for i in range(len(y)):
        if relu:
            for j in range(len(bias)):
                z = y[i, j] + bias[j]
                y[i, j] = np.float32(0) if z < 0 else z
        else:
            for j in range(len(bias)):
                y[i, j] = tanh(y[i, j] + bias[j])


#: OpenBLAS's kernels for AVX-512 multiply matrices without packing them first, which is faster, up
#: to this product of their three sizes.  256 x 64 x 64 is just above it, and its halves are below.
_UNPACKED = 1_000_000
_BLOCK = 128  # rows
_HAS_UNPACKED = kernels() in ("SkylakeX", "Cooperlake", "SapphireRapids")
_FEW = 32  # rows: with fewer, turning a weight takes longer than it saves


@compiled
def _rows_at_once(n: int, n_in: int, n_out: int) -> int:
    """How many of n samples a product with a weight takes at a time."""
    halves = _BLOCK * n_in * n_out <= _UNPACKED < n * n_in * n_out
    return _BLOCK if _HAS_UNPACKED and halves else n


@compiled
def forward(row: Numbers, sizes: Sizes, n: int, layers: Numbers, most: int, relu: bool) -> Numbers:
    """Outputs [n, out] of a network for the n inputs at the beginning of `layers`.

    Args:
        row: the network's parameters.
        n: number of samples, at most `most`.
        layers: [most x sum of sizes], buffer for the inputs of each layer and the outputs, one
            after the other; `backward` reads it.
    """
    place = at = 0
    last = len(sizes) - 2
    for i in range(last + 1):
        n_in, n_out = sizes[i], sizes[i + 1]
        bias = row[place : place + n_out]
        weight = row[place + n_out : place + n_out * (n_in + 1)].reshape(n_out, n_in)
        place += n_out * (n_in + 1)
        x = layers[at : at + n * n_in].reshape(n, n_in)
        at += most * n_in
        y = layers[at : at + n * n_out].reshape(n, n_out)
        rows = _rows_at_once(n, n_in, n_out)
        if not _HAS_UNPACKED or n < _FEW or rows * n_in * n_out > _UNPACKED:
            np.dot(x, weight.T, y)
        else:
            turned = np.empty((n_in, n_out), np.float32)  # x @ W is faster than x @ W.T
            for k in range(n_in):
                for j in range(n_out):
                    turned[k, j] = weight[j, k]
            for begin in range(0, n, rows):
                end = min(begin + rows, n)
                np.dot(x[begin:end], turned, y[begin:end])
        if i < last:
            _activate(y, bias, relu)
        else:
            for sample in range(n):
                for j in range(n_out):
                    y[sample, j] += bias[j]
    return y


@compiled
def _activation_gradient(grad: Numbers, y: Numbers, relu: bool) -> None:
    """Backpropagate `grad` through the activation, given its output y; in place."""
    if relu:
        for j in range(len(grad)):
            grad[j] = grad[j] if y[j] > 0 else np.float32(0)
    else:
        for j in range(len(grad)):
            grad[j] *= np.float32(1) - y[j] * y[j]


@compiled
def backward(
    row: Numbers,
    sizes: Sizes,
    n: int,
    layers: Numbers,
    most: int,
    relu: bool,
    delta: Numbers,
    grad: Numbers,
) -> Numbers:
    """Write the gradient with respect to `row` into `grad`; call `forward` first.

    If `grad` is empty, return the gradient [n, in] with respect to the inputs instead.

    Args:
        row, sizes, n, layers, most, relu: as in `forward`.
        delta: [2, most x largest size], whose first row begins with the gradient [n, out] with
            respect to the outputs; overwritten.
    """
    last = len(sizes) - 2
    place, at = len(row), most * (sizes.sum() - sizes[-1])
    here = 0
    for i in range(last, -1, -1):
        n_in, n_out = sizes[i], sizes[i + 1]
        place -= n_out * (n_in + 1)
        at -= most * n_in
        d = delta[here, : n * n_out].reshape(n, n_out)
        weights = slice(place + n_out, place + n_out * (n_in + 1))
        rows = _rows_at_once(n, n_in, n_out)
        if len(grad):
            x = layers[at : at + n * n_in].reshape(n, n_in)
            d_weight = grad[weights]
            part = np.empty(len(d_weight) if rows < n else 0, np.float32)
            for begin in range(0, n, rows):
                end = min(begin + rows, n)
                to = part if begin > 0 else d_weight
                np.dot(d[begin:end].T, x[begin:end], to.reshape(n_out, n_in))
                if begin > 0:
                    for j in range(len(part)):
                        d_weight[j] += part[j]
            d_bias = grad[place : place + n_out]
            d_bias[:] = 0
            for sample in range(n):
                for j in range(n_out):
                    d_bias[j] += d[sample, j]
        if i > 0 or not len(grad):
            here = 1 - here
            before = delta[here, : n * n_in]
            weight, d_x = row[weights].reshape(n_out, n_in), before.reshape(n, n_in)
            for begin in range(0, n, rows):
                end = min(begin + rows, n)
                np.dot(d[begin:end], weight, d_x[begin:end])
            if i > 0:
                _activation_gradient(before, layers[at : at + n * n_in], relu)
    return delta[here, : n * sizes[0]].reshape(n, sizes[0])


@compiled
def descend(optimised: Optimised, grad: Numbers, max_norm: float) -> float:
    """Clip the gradient by its norm and take Adam's next step; returns the norm."""
    size = math.sqrt(np.dot(grad, grad))
    optimised.steps[0] += 1
    adam(optimised, grad, min(max_norm / (size + 1e-6), 1.0))
    return size


@compiled
def adam(optimised: Optimised, grad: Numbers, scale: float) -> None:
    """A step of Adam (Kingma & Ba 2015, Algorithm 1) with `scale` times the gradient.

    It is the step number `optimised.steps`, which the caller has increased.  Weight decay is added
    to the gradient.  With a learning rate of 0, the row does not change.
    """
    row, m, v, steps = optimised.row, optimised.m, optimised.v, optimised.steps[0]
    correction1 = -math.expm1(math.log(0.9) * steps)
    correction2 = -math.expm1(math.log(0.999) * steps)
    moves = optimised.learning_rate > 0
    # lr (m / c1) / (sqrt(v / c2) + eps), written as m / (a sqrt(v) + b)
    b64 = correction1 / optimised.learning_rate if moves else 1.0
    a, b = np.float32(b64 / math.sqrt(correction2)), np.float32(b64 * optimised.eps)
    factor, decay = np.float32(scale), np.float32(optimised.weight_decay)
    pace1, pace2 = np.float32(1 - 0.9), np.float32(1 - 0.999)
    rate = np.float32(1 if moves else 0)
    for i in range(len(row)):
        g = grad[i] * factor + decay * row[i]
        m[i] += pace1 * (g - m[i])
        v[i] += pace2 * (g * g - v[i])
        row[i] -= rate * m[i] / (a * np.sqrt(v[i]) + b)


# -- the way from PyTorch --------------------------------------------------------------------------


def optimised_of(optimiser: Adam, run: int) -> Optimised:
    """One run's row of an optimiser, whose arrays it shares."""
    row, m, v = (x[run].numpy() for x in (optimiser.rows, optimiser.m, optimiser.v))
    rate, steps = float(optimiser.learning_rate[run]), optimiser.steps[run : run + 1].numpy()
    return Optimised(row, m, v, steps, rate, optimiser.eps, optimiser.weight_decay)


def limit_of(value: float | None) -> float:
    """A limit as a number: infinite if there is none."""
    return math.inf if value is None else value
