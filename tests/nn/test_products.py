"""Large layers by oneDNN: the numbers of torch.nn, the choice by processor and shape alone."""

import pytest
import torch
from torch import Tensor, nn

from hindsight.nn import products
from hindsight.nn.mlp import MLP, Network

LARGE = (9, 256, 192, 3)


def normal(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """As on a core where it is quicker; what it multiplied."""
    products.onednn_is_quicker.cache_clear()
    monkeypatch.setattr(products, "hides_width", lambda: True)
    monkeypatch.setattr(products, "is_full_width", lambda: False)
    if not products.onednn_is_quicker():
        pytest.skip("this build of PyTorch has no oneDNN: MKL multiplies everything")
    multiplied: list[tuple[int, ...]] = []
    linear = products.linear

    def noting(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        multiplied.append((*x.shape, weight.shape[1]))
        return linear(x, weight, bias)

    monkeypatch.setattr("hindsight.nn.mlp.linear", noting)
    return multiplied


@pytest.fixture(autouse=True)
def _decides_anew():
    yield
    products.onednn_is_quicker.cache_clear()


@pytest.mark.parametrize("runs", [1, 3])
def test_linear_is_a_product_run_by_run_wherever_its_operands_lie(runs):
    x, weight, bias = normal(runs, 40, 70)[..., 6:], normal(runs, 64, 50), normal(runs, 50)
    found = products.linear(x, weight.transpose(1, 2), bias)
    expected = x.double() @ weight.double() + bias.double()[:, None]
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_large_network_equals_torch_forwards_and_backwards(onednn, activation):
    mlp = MLP(LARGE, activation)
    rows, x, grad = 0.1 * normal(2, mlp.n_parameters), normal(2, 33, 9), normal(2, 33, 3)
    network = Network(mlp, rows)
    y, inputs = network.forward(x)
    found = torch.cat(network.backward(inputs, grad.clone()), dim=1)
    # The middle layer alone is large: forwards, its weight's gradient, its inputs'.
    assert onednn == [(2, 33, 256, 192), (2, 192, 33, 256), (2, 33, 192, 256)]
    for run in range(2):
        parameters = [nn.Parameter(p[run].clone()) for layer in mlp.layers(rows) for p in layer]
        h = x[run]
        for i in range(3):
            h = nn.functional.linear(h, parameters[2 * i + 1], parameters[2 * i])
            h = h if i == 2 else getattr(torch, activation)(h)
        h.backward(grad[run])
        torch.testing.assert_close(y[run], h.detach(), rtol=1e-4, atol=1e-4)
        expected = torch.cat([p.grad.flatten() for p in parameters])
        torch.testing.assert_close(found[run], expected, rtol=1e-4, atol=1e-3)


def test_small_layers_small_batches_and_doubles_stay_with_mkl(onednn):
    for sizes, batch, dtype in (
        ((9, 64, 64, 3), 2048, torch.float32),
        (LARGE, 16, torch.float32),
        (LARGE, 64, torch.float64),
    ):
        mlp = MLP(sizes)
        Network(mlp, normal(1, mlp.n_parameters).to(dtype)).forward(normal(1, batch, 9).to(dtype))
    assert not onednn


@pytest.mark.parametrize(
    ("hides", "full", "hidden", "expected"),
    [
        (True, False, (512, 512, 512), ["mkl", "onednn"]),
        (True, False, (64, 64), ["mkl"]),
        (True, False, (512,), ["mkl"]),
        (True, True, (512, 512), ["mkl-full-width"]),
        (False, False, (512, 512), ["mkl"]),
    ],
)
def test_what_multiplied_is_told(monkeypatch, hides, full, hidden, expected):
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        pytest.skip("this build of PyTorch lacks MKL or oneDNN")
    products.onednn_is_quicker.cache_clear()
    monkeypatch.setattr(products, "hides_width", lambda: hides)
    monkeypatch.setattr(products, "is_full_width", lambda: full)
    assert products.products_of(torch.device("cpu"), hidden) == expected


def test_a_build_without_the_operator_goes_on_with_mkl(monkeypatch):
    products.onednn_is_quicker.cache_clear()
    monkeypatch.setattr(products, "hides_width", lambda: True)
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    assert not products.onednn_is_quicker()
