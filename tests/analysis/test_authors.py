"""The authors' own curves beside ours."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from hindsight.analysis.authors import mann_whitney
from hindsight.specs.config import AUTHORS
from hindsight.specs.manifest import verify

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(8))
def test_the_test_is_exact_with_ties(seed):
    """Against every way to take four of ten values of which many are equal."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 4, 4).astype(float), generator.integers(0, 6, 6).astype(float)
    ranks = scipy.stats.rankdata(np.concatenate([a, b]))
    middle, own = 4 * ranks.mean(), ranks[:4].sum()
    sums = np.array([ranks[list(taken)].sum() for taken in itertools.combinations(range(10), 4)])
    expected = np.mean(np.abs(sums - middle) >= abs(own - middle) - 1e-9)
    assert mann_whitney(a, b) == pytest.approx(expected)
    assert mann_whitney(b, a) == pytest.approx(expected)


def test_the_published_curves_are_vouched_for_and_are_six_settings(monkeypatch):
    monkeypatch.chdir(ROOT)
    verify([AUTHORS, AUTHORS.with_name("README.md")])
    keys = {tuple(key.split("|")[:4]) for key in json.loads(AUTHORS.read_text())}
    assert len(keys) == 6
