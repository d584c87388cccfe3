"""Stacked networks against `torch.nn` and automatic differentiation, run by run."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hindsight.nn.mlp import MLP, Network, orthogonal, orthogonal_row

SHAPES = [(5, 3), (9, 16, 16, 3), (4, 7, 1), (2, 8, 6, 5, 3)]


def torch_network(mlp: MLP, row: Tensor) -> nn.Sequential:
    """The network of one run, as `torch.nn` builds it: bias, then weight, layer by layer."""
    modules: list[nn.Module] = []
    start = 0
    for n_in, n_out in itertools.pairwise(mlp.sizes):
        layer = nn.Linear(n_in, n_out, dtype=row.dtype)
        with torch.no_grad():
            layer.bias.copy_(row[start : start + n_out])
            start += n_out
            layer.weight.copy_(row[start : start + n_out * n_in].view(n_out, n_in))
            start += n_out * n_in
        modules += [layer, nn.Tanh() if mlp.activation == "tanh" else nn.ReLU()]
    assert start == len(row) == mlp.n_parameters
    return nn.Sequential(*modules[:-1])


def gradient_row(network: nn.Sequential) -> Tensor:
    layers = [m for m in network if isinstance(m, nn.Linear)]
    return torch.cat([g.flatten() for m in layers for g in (m.bias.grad, m.weight.grad)])


def random_case(mlp: MLP, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of three runs, inputs [3, 11, in], gradients of the outputs [3, 11, out]."""
    generator = torch.Generator().manual_seed(0)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=dtype)

    rows = 0.5 * normal(3, mlp.n_parameters)
    return rows, normal(3, 11, mlp.sizes[0]), normal(3, 11, mlp.sizes[-1])


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_forward_and_backward_equal_torch(sizes, activation, dtype, tolerance):
    mlp = MLP(sizes, activation)
    rows, x, grad = random_case(mlp, dtype)
    untouched = x.clone()
    y, inputs = mlp.forward(rows, x)
    gradient = torch.cat(mlp.backward(rows, inputs, grad.clone()), dim=1)
    assert gradient.shape == rows.shape
    for run in range(3):
        network = torch_network(mlp, rows[run])
        expected = network(x[run])
        expected.backward(grad[run])
        close = {"rtol": tolerance, "atol": tolerance * 10}
        torch.testing.assert_close(y[run], expected.detach(), **close)
        torch.testing.assert_close(mlp(rows, x)[run], expected.detach(), **close)
        torch.testing.assert_close(gradient[run], gradient_row(network), **close)
    assert torch.equal(x, untouched), "activations are in place, but not on the inputs"


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", SHAPES)
def test_the_gradient_of_the_inputs_equals_torch(sizes, activation):
    mlp = MLP(sizes, activation)
    rows, x, grad = random_case(mlp, torch.float64)
    network = Network(mlp, rows)
    _, inputs = network.forward(x)
    gradient = network.input_gradient(inputs, grad.clone())
    for run in range(3):
        leaf = x[run].clone().requires_grad_()
        torch_network(mlp, rows[run])(leaf).backward(grad[run])
        torch.testing.assert_close(gradient[run], leaf.grad, rtol=1e-12, atol=1e-12)


def test_a_network_follows_its_rows():
    """It holds views: rows that an optimiser changes in place are the network's at once."""
    mlp = MLP((5, 6, 2))
    rows, x, _ = random_case(mlp, torch.float32)
    network = Network(mlp, rows)
    before = network(x)
    rows += 0.1
    assert torch.equal(network(x), mlp(rows, x)) and not torch.equal(network(x), before)


@pytest.mark.parametrize("shape", [(16, 9), (9, 16), (8, 8), (1, 5), (3, 1)])
def test_orthogonal_matrices_are_orthogonal(shape):
    gain = 1.7
    matrix = orthogonal(*shape, gain, np.random.default_rng(0))
    assert matrix.shape == shape
    gram = matrix @ matrix.T if shape[0] <= shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(gram, gain**2 * np.eye(min(shape)), atol=1e-12)


def test_orthogonal_matrices_are_uniform():
    """Every entry is as often positive as negative, and has mean square 1 / n."""
    rng = np.random.default_rng(0)
    matrices = np.stack([orthogonal(4, 4, 1.0, rng) for _ in range(4000)])
    assert np.abs(matrices.mean(0)).max() < 5 * 0.5 / np.sqrt(4000)
    assert np.abs((matrices**2).mean(0) - 0.25).max() < 0.02


def test_an_initial_row():
    mlp = MLP((9, 16, 3))
    row = orthogonal_row(mlp, [np.sqrt(2), 0.01], np.random.default_rng(3))
    assert row.dtype == np.float32 and row.shape == (mlp.n_parameters,)
    (bias1, weight1), (bias2, weight2) = mlp.layers(torch.from_numpy(row)[None])
    assert not bias1.any() and not bias2.any()
    torch.testing.assert_close(weight1[0].T @ weight1[0], 2 * torch.eye(9), rtol=0, atol=1e-5)
    torch.testing.assert_close(weight2[0] @ weight2[0].T, 1e-4 * torch.eye(3), rtol=0, atol=1e-9)
