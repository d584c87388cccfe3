"""A multilayer perceptron for every run at once.

The parameters of run r are a stretch of row r of a `[run, parameter]` tensor, laid out layer by
layer as bias `[out]`, weight `[out, in]`.  Forward and backward pass are one batched matrix
product per layer.  The backward pass is written out: it returns the gradient as the pieces of a
row, so that one concatenation makes the gradient of all networks of an agent, where automatic
differentiation through views of rows would pay per view (forward and backward of 16 networks of
2 x 64: 0.44 against 0.92 ms, bench/kernels.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Activation = Literal["tanh", "relu"]


def _activate(x: Tensor, activation: Activation) -> Tensor:
    """The activation, in place."""
    if activation == "relu":
        return x.relu_()
    if x.device.type == "cpu" and x.is_contiguous():
        # NumPy's tanh takes 12 us for 65 536 numbers, torch's 136 (bench/kernels.py).
        np.tanh(x.numpy(), out=x.numpy())
        return x
    return x.tanh_()


def _activation_gradient(grad: Tensor, y: Tensor, activation: Activation) -> Tensor:
    """The gradient before the activation, from that behind it and the activation's output y."""
    if activation == "relu":
        return grad * (y > 0)
    return torch.ops.aten.tanh_backward(grad, y)


@dataclass(frozen=True)
class MLP:
    """Layer sizes `(in, hidden ..., out)` and the activation between layers."""

    sizes: tuple[int, ...]
    activation: Activation = "tanh"

    @property
    def n_parameters(self) -> int:
        """Numbers in a run's stretch of its row."""
        return sum(o * (i + 1) for i, o in zip(self.sizes, self.sizes[1:], strict=False))

    def layers(self, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Bias [run, out] and weight [run, out, in] of each layer, as views of the rows."""
        views, start = [], 0
        for n_in, n_out in zip(self.sizes, self.sizes[1:], strict=False):
            bias = rows[:, start : start + n_out]
            start += n_out
            weight = rows[:, start : start + n_out * n_in].unflatten(1, (n_out, n_in))
            start += n_out * n_in
            views.append((bias, weight))
        return views

    def frozen(self, rows: Tensor) -> Callable[[Tensor], Tensor]:
        """The network with these parameters and without gradients: inputs to outputs.

        For the steps of a rollout, where splitting the rows anew would cost as much as the network.
        """
        layers = [(b.unsqueeze(1), w.transpose(1, 2)) for b, w in self.layers(rows.detach())]

        def forward(x: Tensor) -> Tensor:
            for bias, weight in layers[:-1]:
                x = _activate(torch.baddbmm(bias, x, weight), self.activation)
            bias, weight = layers[-1]
            return torch.baddbmm(bias, x, weight)

        return forward

    def __call__(self, rows: Tensor, x: Tensor) -> Tensor:
        """Outputs [run, batch, out] for inputs [run, batch, in], without gradients."""
        return self.frozen(rows)(x)

    def forward(self, rows: Tensor, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Outputs [run, batch, out], and the inputs of each layer, which `backward` wants."""
        layers = self.layers(rows.detach())
        inputs = [x]
        for bias, weight in layers[:-1]:
            z = torch.baddbmm(bias.unsqueeze(1), inputs[-1], weight.transpose(1, 2))
            inputs.append(_activate(z, self.activation))
        bias, weight = layers[-1]
        return torch.baddbmm(bias.unsqueeze(1), inputs[-1], weight.transpose(1, 2)), inputs

    def backward(self, rows: Tensor, inputs: list[Tensor], grad: Tensor) -> list[Tensor]:
        """The gradient of the rows, as pieces [run, n] in their order.

        Args:
            inputs: what `forward` returned.
            grad: [run, batch, out], the loss's gradient with respect to the outputs.
        """
        layers = self.layers(rows.detach())
        pieces: list[Tensor] = []
        for i in reversed(range(len(layers))):
            pieces = [grad.sum(1), _outer(grad, inputs[i]).flatten(1), *pieces]
            if i > 0:
                grad = torch.bmm(grad, layers[i][1])
                grad = _activation_gradient(grad, inputs[i], self.activation)
        return pieces


def _outer(grad: Tensor, x: Tensor) -> Tensor:
    """grad^T x, [run, out, in], for grad [run, batch, out] and x [run, batch, in]."""
    if x.shape[-1] < grad.shape[-1]:
        # 75 us with the narrow matrix on the right, 18 with it on the left (bench/kernels.py)
        return torch.bmm(x.transpose(1, 2), grad).transpose(1, 2)
    return torch.bmm(grad.transpose(1, 2), x)


def orthogonal(n_out: int, n_in: int, gain: float, generator: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix [out, in] times `gain` (Saxe et al. 2014), from the QR of a Gaussian."""
    gaussian = generator.standard_normal((max(n_out, n_in), min(n_out, n_in)))
    q, r = np.linalg.qr(gaussian)
    q = q * np.sign(np.diag(r))  # makes the decomposition unique, hence uniformly distributed
    return gain * (q if n_out >= n_in else q.T)


def orthogonal_row(mlp: MLP, gains: Sequence[float], generator: np.random.Generator) -> np.ndarray:
    """One run's parameters, float32 [n_parameters]: orthogonal weights, zero biases."""
    pieces = []
    for n_in, n_out, gain in zip(mlp.sizes, mlp.sizes[1:], gains, strict=False):
        pieces += [np.zeros(n_out), orthogonal(n_out, n_in, gain, generator).ravel()]
    return np.concatenate(pieces).astype(np.float32)
