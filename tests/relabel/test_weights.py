"""Weights of copies, against plain loops; truncated ones: tests/training/test_mechanism.py."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.relabel.weights import WEIGHTS
from hindsight.specs.cell import CellSpec
from hindsight.training.runs import runs_of
from tests.training import small


@st.composite
def copies(draw: st.DrawFn) -> tuple[torch.Tensor, Any]:
    """Log ratios [run, sample], and what weights read of the trajectories [run, path, step]."""
    shape = draw(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 9)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    ends, valid = (torch.rand(shape, generator=generator) < share for share in (0.3, 0.8))
    ratio = draw(st.sampled_from([0.1, 30.0])) * torch.randn(shape, generator=generator)
    paths = SimpleNamespace(ends=ends, valid=valid, rewards=torch.zeros(shape))
    return ratio.flatten(1), paths


@settings(deadline=None)
@given(copies())
def test_per_decision_weights_are_products_with_mean_one_at_each_time(case: Any) -> None:
    log_ratio, paths = case
    runs, n_paths, steps = paths.rewards.shape
    for run in range(runs):
        products: dict[tuple[int, int], float] = {}
        times: dict[int, list[tuple[int, int]]] = {}
        for path in range(n_paths):
            so_far, time = 0.0, 0
            for step in range(steps):
                so_far += float(log_ratio[run, path * steps + step])
                if paths.valid[run, path, step]:
                    products[path, step] = so_far
                    times.setdefault(time, []).append((path, step))
                time += 1
                if paths.ends[run, path, step]:
                    so_far, time = 0.0, 0
        found = WEIGHTS["per_decision"](log_ratio, paths)[run].view(n_paths, steps)
        assert (found[~paths.valid[run]] == 0).all()
        for places in times.values():
            largest = max(products[place] for place in places)
            weights = [math.exp(products[place] - largest) for place in places]
            mean = sum(weights) / len(weights)
            for place, weight in zip(places, weights, strict=True):
                assert float(found[place]) == pytest.approx(weight / mean, rel=1e-4, abs=1e-6)


def test_better_steps_are_those_whose_return_exceeds_their_value() -> None:
    """The discounted rewards to a copy's end, added up one by one."""
    her = {"fidelity": "described", "copied_steps": "better"}
    values = small.SPEC.model_dump() | {"hindsight": her}
    values["algorithm"] |= {"gamma": 0.5, "learning_rate": 0.01}  # returns differ from step to step
    spec = CellSpec.model_validate(values)
    runs = runs_of(spec, [3], "cpu")
    for _ in range(20):
        runs.iterate()
    _, samples, _, copies = runs.learned[-1]
    shape, gamma = copies.rewards.shape, spec.algorithm.gamma
    values, valid = (x[:, samples.n_real :].view(shape)[0] for x in (samples.value, samples.valid))
    kept = 0
    for path in range(shape[1]):
        gain = 0.0
        for step in reversed(range(shape[2])):
            ends = bool(copies.ends[0, path, step])
            gain = float(copies.rewards[0, path, step]) + (0.0 if ends else gamma * gain)
            if copies.valid[0, path, step]:
                better = gain > float(values[path, step]) + 1e-5
                assert bool(valid[path, step]) == better
                kept += better
    assert 0 < kept < int(copies.valid.sum())
