"""Intervals and tests against scipy, closed forms and hand-computed numbers."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hindsight.analysis import statistics

FLOATS = st.floats(-1, 1).map(lambda x: round(x, 3))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(st.integers(1, 40), st.data())
def test_wilson_is_the_closed_form(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    z = scipy.stats.norm.ppf(0.975)
    p = k / n
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    expected = max(0.0, centre - half), min(1.0, centre + half)
    np.testing.assert_allclose(statistics.wilson(k, n), expected, atol=1e-12)


def test_wilson_of_nothing_is_no_interval() -> None:
    assert np.isnan(statistics.wilson(0, 0)).all()


def test_iqm_drops_the_outer_quarters() -> None:
    assert statistics.iqm(np.array([100.0, 1.0, 2.0, -50.0])) == 1.5
    # Agarwal et al.: 16 seeds, four dropped on each side.
    values = np.arange(16.0) ** 2
    assert statistics.iqm(values) == pytest.approx(np.mean(values[4:12]))


def test_bootstrap_of_the_mean_matches_scipy() -> None:
    values = rng().normal(size=16)
    own = statistics.bootstrap([values], statistics.mean, draws=20_000)
    scipys = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=rng()
    ).confidence_interval
    np.testing.assert_allclose(own, scipys, atol=0.02)


def test_bootstrap_resamples_within_strata_only() -> None:
    # Two constant strata: resampled within, their pooled mean cannot vary; across, it does.
    strata = [np.zeros(8), np.ones(8)]
    assert statistics.bootstrap(strata, statistics.mean) == (0.5, 0.5)
    low, high = statistics.bootstrap([np.concatenate(strata)], statistics.mean)
    assert low < 0.4 < 0.6 < high
    of_different_sizes = [np.zeros(5), np.ones(15)]
    assert statistics.bootstrap(of_different_sizes, statistics.mean) == (0.75, 0.75)


def test_fewer_than_five_seeds_carry_no_interval() -> None:
    four, five = np.arange(4.0), np.arange(5.0)
    assert np.isnan(statistics.bootstrap([four], statistics.mean)).all()
    assert np.isnan(statistics.bootstrap([five, four], statistics.mean)).all()
    assert np.isnan(statistics.probability_of_improvement(four, five)[1]).all()
    assert np.isfinite(statistics.bootstrap([five], statistics.mean)).all()


def test_bootstrap_covers_the_mean_of_sixteen_about_as_often_as_it_says() -> None:
    draw = rng()
    sides = [
        statistics.bootstrap([draw.normal(size=16)], statistics.mean, seed, draws=400)
        for seed in range(300)
    ]
    covered = np.mean([low <= 0.0 <= high for low, high in sides])
    assert 0.88 <= covered <= 0.97


@given(st.lists(FLOATS, min_size=1, max_size=8), st.lists(FLOATS, min_size=1, max_size=8))
def test_probability_of_improvement_is_mann_whitney_u(a: list[float], b: list[float]) -> None:
    expected = scipy.stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
    assert statistics.probability_of_improvement(a, b)[0] == pytest.approx(expected)
    assert statistics.probability_of_improvement(b, a)[0] == pytest.approx(1 - expected)


def test_probability_of_improvement_interval_matches_plain_resampling() -> None:
    draw, n = rng(), 20_000
    a, b = draw.normal(0.8, size=12), draw.normal(size=10)
    _, own = statistics.probability_of_improvement(a, b, draws=n)
    many_a, many_b = (x[draw.integers(0, len(x), (n, len(x)))] for x in (a, b))
    replicates = (np.sign(many_a[:, :, None] - many_b[:, None, :]) + 1).mean(axis=(1, 2)) / 2
    np.testing.assert_allclose(own, np.quantile(replicates, [0.025, 0.975]), atol=0.02)


@given(arrays(np.float64, st.integers(2, 9), elements=FLOATS))
def test_sign_flip_test_is_scipys_exact_permutation_test(differences: np.ndarray) -> None:
    # In thousandths the sums are exact: scipy's tolerance does not cover their rounding.
    thousandths = np.round(1000 * differences)
    expected = scipy.stats.permutation_test(
        (thousandths,), np.sum, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert statistics.sign_flip_test(differences) == pytest.approx(expected)


def test_sign_flip_test_by_hand() -> None:
    # All of one sign: only all + and all - are as extreme, 2 of 2^n.
    assert statistics.sign_flip_test([0.2, 0.3, 0.1, 0.4]) == 2 / 16
    assert statistics.sign_flip_test(np.zeros(6)) == 1.0
    # A sum of 0 is the least extreme one, whatever rounding leaves of it.
    assert statistics.sign_flip_test([0.5, 0.7, 0.9, -0.9, -0.5, -0.7]) == 1.0
    assert np.isnan(statistics.sign_flip_test([]))


def test_sign_flip_test_of_many_pairs_draws_and_is_reproducible() -> None:
    differences = rng().normal(0.35, 1.0, size=20)
    p = statistics.sign_flip_test(differences, seed=3)
    assert p != statistics.sign_flip_test(differences, seed=4)
    assert p == statistics.sign_flip_test(differences, seed=3)
    assert p == pytest.approx(scipy.stats.ttest_1samp(differences, 0.0).pvalue, abs=0.03)
    # The observed signs count as one of the draws: the p-value is never zero.
    assert statistics.sign_flip_test(np.ones(40)) >= 1 / statistics.FLIPS


def test_holm_by_hand() -> None:
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1, then made increasing.
    adjusted = statistics.holm([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_out_what_was_not_tested() -> None:
    adjusted = statistics.holm([0.01, np.nan, 0.04])
    np.testing.assert_allclose(adjusted, [0.02, np.nan, 0.04])
    assert statistics.holm([]).size == 0


@given(arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1)))
def test_holm_lies_between_no_correction_and_bonferroni(p: np.ndarray) -> None:
    adjusted = statistics.holm(p)
    assert (adjusted >= p - 1e-15).all()
    assert (adjusted <= np.minimum(1, len(p) * p) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


def test_fisher_by_hand() -> None:
    # The lady tasting tea: 3 of 4 against 1 of 4, 2 (1 + 16) / 70.
    assert statistics.fisher(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert statistics.fisher(0, 16, 0, 16) == 1.0


def _logrank_closed_form(times: list[list[float]], observed: list[list[bool]]) -> float:
    """Mantel's log-rank chi-square, written out over the distinct event times."""
    difference = variance = 0.0
    arms = [list(zip(t, o, strict=True)) for t, o in zip(times, observed, strict=True)]
    for t in sorted({t for arm in arms for t, is_event in arm if is_event}):
        at_risk = [sum(x >= t for x, _ in arm) for arm in arms]
        died = [sum(x == t and is_event for x, is_event in arm) for arm in arms]
        n, d = sum(at_risk), sum(died)
        difference += died[0] - d * at_risk[0] / n
        if n > 1:
            variance += d * (at_risk[0] / n) * (at_risk[1] / n) * (n - d) / (n - 1)
    return float(scipy.stats.chi2.sf(difference**2 / variance, 1))


def test_logrank_is_the_closed_form() -> None:
    a, a_end = [3.0, 5.0, 5.0, 8.0], [10.0, 10.0]
    b, b_end = [4.0, 9.0], [10.0, 10.0, 10.0, 10.0]
    expected = _logrank_closed_form(
        [a + a_end, b + b_end], [[True] * 4 + [False] * 2, [True] * 2 + [False] * 4]
    )
    assert statistics.logrank(a, a_end, b, b_end) == pytest.approx(expected)


def test_logrank_without_information_is_one() -> None:
    assert statistics.logrank([], [10.0, 10.0], [], [10.0]) == 1.0
    assert statistics.logrank([5.0, 5.0], [], [5.0, 5.0], []) == 1.0
    assert np.isnan(statistics.logrank([], [], [5.0], []))


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=3, max_size=20))
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_spearman_is_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    expected = scipy.stats.spearmanr(a, b).statistic
    np.testing.assert_allclose(statistics.spearman(a, b), expected, atol=1e-12)


def test_spearman_leaves_out_missing_points() -> None:
    nan = float("nan")
    assert statistics.spearman([1, nan, 2, 3, 4], [4, 0, 3, nan, 1]) == pytest.approx(-1.0)
    assert np.isnan(statistics.spearman([1, 2, nan], [1, 2, 3]))
