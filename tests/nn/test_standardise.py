"""Running mean and variance against NumPy's of everything; folding against standardising first."""

import numpy as np
import pytest
import torch

from hindsight.nn.mlp import MLP, Network
from hindsight.nn.standardise import CLIP, LEAST, Standardiser


def observed(rng, runs=3, size=4, parts=(1, 7, 50)):
    spread = np.array([1e-4, 0.1, 1.0, 30.0])
    return [
        torch.from_numpy((5 + spread * rng.standard_normal((runs, n, size))).astype(np.float32))
        for n in parts
    ]


def test_mean_and_variance_are_those_of_everything():
    parts = observed(np.random.default_rng(0))
    seen = Standardiser(3, 4, 1, "cpu")
    for part in parts:
        seen.update(part)
    whole = torch.cat(parts, 1).double().numpy()
    goals = np.concatenate([whole[..., 0], whole[..., 1]], axis=1)  # achieved and desired ones
    alike = np.stack([goals, goals], axis=-1)
    mean = np.concatenate([alike.mean(1), whole[..., 2:].mean(1)], axis=-1)[:, None]
    std = np.concatenate([alike.std(1), whole[..., 2:].std(1)], axis=-1)[:, None]
    expected = (whole - mean) / np.maximum(std, LEAST)
    found = seen(torch.cat(parts, 1)).numpy()
    assert np.abs(expected).max() < CLIP
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found[..., 2:].std(1), 1, atol=1e-3)


def test_a_goal_that_is_always_the_same_does_not_make_another_one_huge():
    """The point of hindsight: goals that were achieved become desired ones."""
    rng, seen = np.random.default_rng(3), Standardiser(1, 3, 1, "cpu")
    achieved = rng.uniform(-1, 1, (1, 500, 1))
    met = [achieved, np.full_like(achieved, 0.7), 2.0 + np.zeros_like(achieved)]
    seen.update(torch.from_numpy(np.concatenate(met, -1).astype(np.float32)))
    relabelled = torch.tensor([[[-1.0, 1.0, 2.0], [1.0, -1.0, 2.02], [0.7, 0.7, 100.0]]])
    found = seen(relabelled)[0]
    assert found[:, :2].abs().max() < 3
    torch.testing.assert_close(
        found[:, 2], torch.tensor([0.0, 0.02 / LEAST, CLIP]), atol=1e-3, rtol=0
    )


def test_nothing_changes_before_anything_is_known():
    obs = observed(np.random.default_rng(1))[1]
    assert torch.equal(Standardiser(3, 4, 1, "cpu")(obs), obs)


@pytest.mark.parametrize("stack", [1, 2])
@pytest.mark.parametrize("out", [2, 40])
def test_a_folded_network_takes_observations_as_they_are(stack, out):
    rng = np.random.default_rng(2)
    parts, seen = observed(rng), Standardiser(3, 4, 1, "cpu")
    for part in parts:
        seen.update(part)
    mlp = MLP((4 + 2, out, 3), "relu")
    rows = torch.from_numpy(rng.standard_normal((3 * stack, mlp.n_parameters)).astype(np.float32))
    obs, more = parts[-1], torch.from_numpy(rng.random((3, 50, 2), np.float32))

    obs[:, ::5] += 1000 * torch.eye(4).repeat(3, 1)[:10]  # beyond all that was met

    def inputs(obs):
        return torch.cat([obs, more], -1).repeat_interleave(stack, 0)

    network = Network(mlp, rows)
    expected = network(inputs(seen(obs)))
    seen.fold([network])
    low, high = seen.bounds[:, None].chunk(2, -1)
    clipped = torch.minimum(torch.maximum(obs, low), high)
    assert not torch.equal(clipped, obs)
    torch.testing.assert_close(network(inputs(clipped)), expected, rtol=1e-3, atol=1e-2)


def test_a_large_number_that_never_varies_drowns_nothing():
    rng = np.random.default_rng(3)
    seen, mlp = Standardiser(1, 4, 1, "cpu"), MLP((4, 8, 3), "relu")
    obs = torch.from_numpy(rng.standard_normal((1, 50, 4)).astype(np.float32))
    obs[..., 3] = 12_345_678.0
    for part in obs.split(10, 1):
        seen.update(part)
    rows = torch.from_numpy(rng.standard_normal((1, mlp.n_parameters)).astype(np.float32))
    network = Network(mlp, rows)
    expected = network(seen(obs))
    seen.fold([network])
    torch.testing.assert_close(network(obs), expected, rtol=1e-4, atol=1e-4)
