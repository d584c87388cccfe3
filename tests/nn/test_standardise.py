"""Running mean and variance against NumPy's of everything; folding against standardising first."""

import numpy as np
import pytest
import torch

from hindsight.nn.mlp import MLP, Network
from hindsight.nn.standardise import LEAST, Standardiser


def observed(rng, runs=3, size=4, parts=(1, 7, 50)):
    spread = np.array([1e-4, 0.1, 1.0, 30.0])
    return [
        torch.from_numpy((5 + spread * rng.standard_normal((runs, n, size))).astype(np.float32))
        for n in parts
    ]


def test_mean_and_variance_are_those_of_everything():
    parts = observed(np.random.default_rng(0))
    seen = Standardiser(3, 4, "cpu")
    for part in parts:
        seen.update(part)
    whole = torch.cat(parts, 1).double().numpy()
    expected = (whole - whole.mean(1, keepdims=True)) / np.maximum(
        whole.std(1, keepdims=True), LEAST
    )
    found = seen(torch.cat(parts, 1)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found[..., 1:].std(1), 1, atol=1e-3)


def test_nothing_changes_before_anything_is_known():
    obs = observed(np.random.default_rng(1))[1]
    assert torch.equal(Standardiser(3, 4, "cpu")(obs), obs)


@pytest.mark.parametrize("stack", [1, 2])
@pytest.mark.parametrize("out", [2, 40])
def test_a_folded_network_takes_observations_as_they_are(stack, out):
    rng = np.random.default_rng(2)
    parts, seen = observed(rng), Standardiser(3, 4, "cpu")
    for part in parts:
        seen.update(part)
    mlp = MLP((4 + 2, out, 3), "relu")
    rows = torch.from_numpy(rng.standard_normal((3 * stack, mlp.n_parameters)).astype(np.float32))
    obs, more = parts[-1], torch.from_numpy(rng.random((3, 50, 2), np.float32))

    def inputs(obs):
        return torch.cat([obs, more], -1).repeat_interleave(stack, 0)

    network = Network(mlp, rows)
    expected = network(inputs(seen(obs)))
    seen.fold([network])
    torch.testing.assert_close(network(inputs(obs)), expected, rtol=1e-3, atol=1e-2)
