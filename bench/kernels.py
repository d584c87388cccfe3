"""The small measurements behind choices that comments name: microseconds, one core, medians.

python bench/kernels.py
"""

import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from hindsight.nn.adam import Adam
from hindsight.nn.mlp import MLP
from hindsight.nn.products import linear
from hindsight.training.cell import prepare_process

RUNS, BATCH, WIDTH, INPUTS = 16, 64, 64, 9


def microseconds(function: Callable[[], object], calls: int = 300, repeats: int = 7) -> float:
    """Median over repeats of the mean time of a call."""
    for _ in range(calls // 10):
        function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def backward_by_hand(mlp: MLP, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient of the outputs' sum with respect to the rows."""
    y, inputs = mlp.forward(rows, x)
    return torch.cat(mlp.backward(rows, inputs, torch.ones_like(y)), dim=1)


def backward_by_autograd(mlp: MLP, rows: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The same by automatic differentiation through views of the rows."""
    layers = mlp.layers(rows)
    for bias, weight in layers[:-1]:
        x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2)).tanh()
    bias, weight = layers[-1]
    y = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
    return torch.autograd.grad(y.sum(), rows)[0]


def main() -> None:
    """Measure and print."""
    prepare_process("cpu")
    h = torch.randn(RUNS, BATCH, WIDTH)
    out, x = torch.empty_like(h), torch.randn(RUNS, BATCH, INPUTS)
    mlp = MLP((INPUTS, WIDTH, WIDTH, 3))
    rows = torch.randn(RUNS, mlp.n_parameters) * 0.1
    leaf = rows.clone().requires_grad_()
    torch.testing.assert_close(
        backward_by_hand(mlp, rows, x), backward_by_autograd(mlp, leaf, x), rtol=1e-4, atol=1e-3
    )
    measurements = {
        "tanh of 65 536 numbers, torch": (lambda: torch.tanh(h, out=out), 300),
        "tanh of 65 536 numbers, NumPy": (lambda: np.tanh(h.numpy(), out=out.numpy()), 300),
        "grad^T x, narrow operand right": (lambda: torch.bmm(h.transpose(1, 2), x), 300),
        "(x^T grad)^T, narrow operand left": (lambda: torch.bmm(x.transpose(1, 2), h), 300),
        "forward and backward, autograd": (lambda: backward_by_autograd(mlp, leaf, x), 100),
        "forward and backward, by hand": (lambda: backward_by_hand(mlp, rows, x), 100),
    }
    for width in (64, 128, 256, 512):
        a, w = torch.randn(1, BATCH, width), torch.randn(1, width, width)
        layer = f"{BATCH} x {width} by {width} x {width}"
        measurements |= {
            f"{layer}, MKL": (lambda a=a, w=w: torch.bmm(a, w.transpose(1, 2)), 100),
            f"{layer}, oneDNN": (lambda a=a, w=w: linear(a, w), 100),
        }
    many = torch.randn(1, 1_066_000)
    moved = Adam(many.clone(), torch.tensor([3e-4]))
    moved.steps += 1
    measurements |= {
        "Adam, 1 066 000 parameters, one pass": (lambda: moved._in_one_pass(many, None), 10),
        "Adam, 1 066 000 parameters, seven passes": (
            lambda: moved._in_seven_passes(many, None),
            10,
        ),
    }
    for name, (function, calls) in measurements.items():
        print(f"{microseconds(function, calls):9.1f}  {name}")


if __name__ == "__main__":
    main()
