"""The papers' statistics against numbers worked out by hand and against NumPy and pandas."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from hindsight.analysis import metrics
from hindsight.analysis.reduce import copies_push

NAN = float("nan")
CURVES = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 12)),
    elements=st.one_of(st.floats(-1, 1), st.just(NAN)),
)


@given(CURVES)
def test_carry_forward_is_pandas_ffill(values):
    expected = pd.DataFrame(values).ffill(axis=1).to_numpy()
    np.testing.assert_array_equal(metrics.carry_forward(values), expected)


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@given(CURVES)
def test_quantiles_are_numpys_over_the_seeds_that_have_a_value(values):
    levels = [0.25, 0.5, 0.75]
    expected = np.nanquantile(values, levels, axis=0)
    np.testing.assert_allclose(metrics.quantiles(values, levels), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("scaled", "expected"),
    [([0.5, 0.88, 0.6], 76.0), ([0.7], 0.0), ([0.0, 0.4], 7900.0), ([0.0, 0.0], NAN)],
)
def test_sensitivity_by_hand(scaled, expected):
    assert metrics.sensitivity(scaled) == pytest.approx(expected, nan_ok=True)


def test_the_grid_is_continued_within_the_budget():
    np.testing.assert_array_equal(metrics.extend_grid([2048, 4096], 8000), [2048, 4096, 6144])
    np.testing.assert_array_equal(metrics.extend_grid([2048, 4096], 8192)[-1], 8192)
    np.testing.assert_array_equal(metrics.extend_grid([2048], 4096), [2048, 4096])


def test_on_time_grid_takes_the_last_value_by_the_edge_and_keeps_it_after_the_end():
    values = [[0.1, 0.2, 0.3], [0.5, 0.6, 0.6]]
    minutes = [[1.0, 2.0, 4.0], [2.5, 3.0, NAN]]
    result = metrics.on_time_grid(values, minutes, [0.5, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(result, [[NAN, 0.1, 0.2, 0.2, 0.3], [NAN, NAN, NAN, 0.6, 0.6]])


def test_solving_needs_success_and_a_full_window_of_episodes():
    rates = [[1.0, 0.94, 0.95, 1.0], [0.9, 0.9, 0.9, NAN], [0.0, 0.96, 0.0, 0.0]]
    success = metrics.of_hundred(rates, [[99, 150, 200, 250]] * 3)
    np.testing.assert_array_equal(metrics.first_at(success, range(4), 0.95), [2, NAN, 1])


def test_the_push_of_copies_is_a_slope_of_the_objective():
    """Where all copies have one advantage the estimate is exact."""
    actions, share, advantage = np.array([0.5, -3.0, 1.0]), 0.25, 2.0

    def objective(log_std: float) -> float:
        return share * advantage * norm.logpdf(actions, 0, np.exp(log_std)).mean()

    at, step = 0.3, 1e-5
    slope = (objective(at + step) - objective(at - step)) / (2 * step)
    z_squared = np.mean((actions / np.exp(at)) ** 2) - 1
    found = copies_push(*np.array([[share, 0.0], [advantage, np.nan], [z_squared, np.nan]]))
    assert found == pytest.approx([slope, 0.0])
