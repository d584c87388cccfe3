"""Intervals and tests against scipy, closed forms and hand-computed numbers."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hindsight.analysis import statistics
from hindsight.analysis.authors import mann_whitney

FLOATS = st.floats(-1, 1).map(lambda x: round(x, 3))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_bootstrap_of_the_mean_matches_scipy():
    values = rng().normal(size=16)
    own = statistics.bootstrap([values], statistics.mean, draws=20_000)
    scipys = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=rng()
    ).confidence_interval
    np.testing.assert_allclose(own, scipys, atol=0.02)


def test_bootstrap_resamples_within_strata_only():
    # Two constant strata: resampled within, their pooled mean cannot vary; across, it does.
    strata = [np.zeros(8), np.ones(8)]
    assert statistics.bootstrap(strata, statistics.mean) == (0.5, 0.5)
    low, high = statistics.bootstrap([np.concatenate(strata)], statistics.mean)
    assert low < 0.4 < 0.6 < high


@given(st.lists(FLOATS, min_size=1, max_size=8), st.lists(FLOATS, min_size=1, max_size=8))
def test_probability_of_improvement_is_mann_whitney_u(a, b):
    expected = scipy.stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
    assert statistics.probability_of_improvement(a, b)[0] == pytest.approx(expected)
    assert statistics.probability_of_improvement(b, a)[0] == pytest.approx(1 - expected)


def test_probability_of_improvement_interval_matches_plain_resampling():
    draw, n = rng(), 20_000
    a, b = draw.normal(0.8, size=12), draw.normal(size=10)
    _, own = statistics.probability_of_improvement(a, b, draws=n)
    many_a, many_b = (x[draw.integers(0, len(x), (n, len(x)))] for x in (a, b))
    replicates = (np.sign(many_a[:, :, None] - many_b[:, None, :]) + 1).mean(axis=(1, 2)) / 2
    np.testing.assert_allclose(own, np.quantile(replicates, [0.025, 0.975]), atol=0.02)


@given(arrays(np.float64, st.integers(2, 9), elements=FLOATS))
def test_sign_flip_test_is_scipys_exact_permutation_test(differences):
    # In thousandths the sums are exact: scipy's tolerance does not cover their rounding.
    thousandths = np.round(1000 * differences)
    expected = scipy.stats.permutation_test(
        (thousandths,), np.sum, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert statistics.sign_flip_test(differences) == pytest.approx(expected)


def test_sign_flip_test_by_hand():
    # A sum of 0 is the least extreme one, whatever rounding leaves of it.
    assert statistics.sign_flip_test([0.5, 0.7, 0.9, -0.9, -0.5, -0.7]) == 1.0
    assert np.isnan(statistics.sign_flip_test([]))
    hundredths = np.float32([50, 80, 40, 55]) / np.float32(100)
    others = np.float32([15, 45, 40, 90]) / np.float32(100)
    assert statistics.sign_flip_test(hundredths - others) == 1.0  # three sums are all 0.35


@given(arrays(int, (2, 8), elements=st.integers(94, 100)))
def test_sign_flip_test_of_hundredths_in_single_precision(hundredths):
    """As files hold them: equal sums count as equal, however small the differences."""
    arm, baseline = (hundredths / 100).astype(np.float32).astype(np.float64)
    signs = np.array(list(itertools.product((1, -1), repeat=8)))
    observed = hundredths[0] - hundredths[1]
    expected = np.mean(np.abs(signs @ observed) >= abs(observed.sum()))
    assert statistics.sign_flip_test(arm - baseline) == expected
    # Tiny differences are none of rounding.
    assert statistics.sign_flip_test(1e-9 * observed) == expected


def test_a_pair_without_a_value_is_not_tested():
    assert np.isnan(statistics.sign_flip_test([0.1, np.nan, 0.2]))
    assert np.isnan(statistics.sign_flip_test([0.0] * 7 + [np.nan]))


def test_conditions_weigh_alike_however_many_seeds_they_have():
    strata = [np.arange(8.0), np.full(5, 10.0)]
    assert statistics.mean_over_conditions(strata)[0] == 6.75
    value, low, high = statistics.share_over_conditions([np.ones(8), np.zeros(2)])
    # The variance of (a + b) / 2 is that of 6.4 runs: p (1 - p) (1 / 8 + 1 / 2) / 4.
    assert value == 0.5 and (low, high) == statistics.wilson(3, 6)
    # Of equal numbers, these are the pooled ones.
    equal = [np.array([0, 1, 1, 0, 1.0]), np.array([1, 1, 1, 0, 1.0])]
    assert statistics.share_over_conditions(equal) == (0.7, *statistics.wilson(7, 10))
    found = statistics.mean_over_conditions(equal)
    assert found[1:] == pytest.approx(statistics.bootstrap(equal, statistics.mean))
    assert np.isnan(statistics.mean_over_conditions([np.ones(4)])[1:]).all()


def test_sign_flip_test_of_many_pairs_draws_and_is_reproducible():
    differences = rng().normal(0.35, 1.0, size=20)
    p = statistics.sign_flip_test(differences)
    assert p == statistics.sign_flip_test(differences)
    assert p == pytest.approx(scipy.stats.ttest_1samp(differences, 0.0).pvalue, abs=0.03)
    # The observed signs count as one of the draws: the p-value is never zero.
    assert statistics.sign_flip_test(np.ones(40)) >= 1 / statistics.FLIPS


@given(arrays(np.float64, st.integers(0, 12), elements=st.floats(0, 1) | st.just(np.nan)))
def test_holm_is_its_definition(p):
    """Among the smallest, each times the number of those that are not smaller; increasing."""
    adjusted = statistics.holm(p)
    tested, order = ~np.isnan(p), np.sort(p[~np.isnan(p)])
    factors = range(len(order), 0, -1)
    products = [min(1.0, n * x) for n, x in zip(factors, order, strict=True)]
    expected = [max(products[: i + 1]) for i in range(len(order))]
    np.testing.assert_array_equal(np.isnan(adjusted), ~tested)
    ranks = np.argsort(p[tested], kind="stable")
    np.testing.assert_allclose(adjusted[tested][ranks], expected)


def test_logrank_without_information_is_one():
    assert statistics.logrank([], [10.0, 10.0], [], [10.0]) == 1.0
    assert statistics.logrank([5.0, 5.0], [], [5.0, 5.0], []) == 1.0
    assert np.isnan(statistics.logrank([], [], [5.0], []))


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=20))
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_spearman_is_scipys(pairs):
    a, b = np.array(pairs).T
    expected = scipy.stats.spearmanr(a, b).statistic
    np.testing.assert_allclose(statistics.spearman(a, b), expected, atol=1e-12)


def test_spearman_leaves_out_missing_points():
    nan = float("nan")
    assert statistics.spearman([1, nan, 2, 3, 4], [4, 0, 3, nan, 1]) == pytest.approx(-1.0)
    assert np.isnan(statistics.spearman([1, 2, nan], [1, 2, 3]))


@pytest.mark.parametrize("seed", range(8))
def test_mann_whitney_is_exact_with_ties(seed):
    """Against every way to take four of ten values of which many are equal."""
    generator = np.random.default_rng(seed)
    a, b = generator.integers(0, 4, 4).astype(float), generator.integers(0, 6, 6).astype(float)
    ranks = scipy.stats.rankdata(np.concatenate([a, b]))
    middle, own = 4 * ranks.mean(), ranks[:4].sum()
    sums = np.array([ranks[list(taken)].sum() for taken in itertools.combinations(range(10), 4)])
    expected = np.mean(np.abs(sums - middle) >= abs(own - middle) - 1e-9)
    assert mann_whitney(a, b) == pytest.approx(expected)
    assert mann_whitney(b, a) == pytest.approx(expected)
