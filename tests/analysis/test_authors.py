"""The authors' own curves beside ours."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from hindsight.analysis.authors import compare, mann_whitney
from hindsight.specs.config import AUTHORS
from hindsight.specs.manifest import verify

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(8))
def test_the_test_is_exact_with_ties(seed: int) -> None:
    """Against every way to take four of ten values of which many are equal."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 4, 4).astype(float), generator.integers(0, 6, 6).astype(float)
    ranks = scipy.stats.rankdata(np.concatenate([a, b]))
    middle, own = 4 * ranks.mean(), ranks[:4].sum()
    sums = np.array([ranks[list(taken)].sum() for taken in itertools.combinations(range(10), 4)])
    expected = np.mean(np.abs(sums - middle) >= abs(own - middle) - 1e-9)
    assert mann_whitney(a, b) == pytest.approx(expected)
    assert mann_whitney(b, a) == pytest.approx(expected)


def test_without_ties_it_is_scipy_s() -> None:
    a, b = np.array([1.0, 2.5, 3.0, 7.0, 9.0, 11.0]), np.arange(4.0, 20.0, 1.01)
    exact = scipy.stats.mannwhitneyu(a, b, method="exact").pvalue
    assert mann_whitney(a, b) == pytest.approx(exact)


@pytest.mark.parametrize(("ours", "apart"), [(0.5, False), (0.9, True)])
def test_curves_that_differ_from_the_middle_on(tmp_path: Path, ours: float, apart: bool) -> None:
    steps = np.arange(2048, 10 * 2048 + 1, 2048)
    theirs = np.where(steps > 5 * 2048, 0.5, 0.0)
    path = tmp_path / "curves.json"
    path.write_text(json.dumps({
        f"static|random|{arm}|{size}|{seed}": [
            [int(s), float(x) + 0.001 * seed, 1.0, 0.0] for s, x in zip(steps, theirs, strict=True)
        ]
        for arm, size in (("PPO-HER", "64x64"), ("PPO", "512x512x512")) for seed in range(6)
    }))  # fmt: skip
    curves = pd.concat(
        pd.DataFrame({"env_steps": steps, "return_mean": np.where(steps > 5 * 2048, ours, 0.0)
                      + 0.0007 * seed, "seed": seed, "condition": "random static",
                      "role": role, "fidelity": "released"})
        for role in ("subject", "baseline") for seed in range(16)
    )  # fmt: skip
    table = compare(path, curves, "64x64").set_index("arm")
    assert (table["ours"].to_dict(), set(table["theirs"])) == ({"PPO-HER": 16, "PPO": 0}, {6})
    assert (table.loc["PPO-HER", "p_holm"] < 0.05) == apart
    assert table.loc["PPO-HER", "difference"] == pytest.approx(0.5 - ours, abs=0.02)
    assert np.isnan(table.loc["PPO", "p_holm"])


def test_the_published_curves_are_vouched_for_and_are_six_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    verify([AUTHORS, AUTHORS.with_name("README.md")])
    keys = {tuple(key.split("|")[:4]) for key in json.loads(AUTHORS.read_text())}
    assert len(keys) == 6
