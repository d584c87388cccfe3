"""Paired differences over conditions and seeds, against numbers worked out by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis import statistics
from hindsight.claims.evidence import RUN, Untested, of_values, paired
from hindsight.specs.config import condition_name
from tests.analysis.synthetic import CONDITIONS


def runs_of(values: np.ndarray, metric: str = "auc") -> pd.DataFrame:
    """`[condition, seed]` values as a table of runs."""
    places = itertools.product(CONDITIONS[: len(values)], range(values.shape[1]))
    rows = [(condition_name(*place), seed) for place, seed in places]
    return pd.DataFrame(rows, columns=list(RUN)).assign(**{metric: values.ravel()})


def indexed(values: np.ndarray) -> pd.Series:
    return runs_of(values).set_index(RUN)["auc"]


def test_only_shared_runs_are_paired() -> None:
    arm, baseline = runs_of(np.array([[1.0, 2.0, 4.0]])), runs_of(np.array([[0.5, 0.5, 0.5]]))
    difference = paired(arm[arm["seed"] > 0], baseline[baseline["seed"] < 2], "auc")
    assert difference.to_dict() == {("random static", 1): 1.5}
    shuffled = paired(arm.sample(frac=1.0, random_state=3), baseline, "auc")
    assert shuffled.sort_index().tolist() == [0.5, 1.5, 3.5]


def test_solved_or_not_can_be_paired() -> None:
    a, b = (runs_of(np.array([values]), "solved") for values in ([True, False], [False, False]))
    assert paired(a, b, "solved").tolist() == [1.0, 0.0]


def test_conditions_are_fixed_and_count_alike() -> None:
    """Three conditions of unequal numbers of seeds: each mean counts a third."""
    own = [[0.1, 0.2, 0.3, 0.4, 0.5], [0.0] * 6, [-0.2, 0.0, -0.4, -0.2, -0.2, -0.1, -0.3]]
    index = pd.MultiIndex.from_tuples(
        [(f"c{i}", seed) for i, values in enumerate(own) for seed in range(len(values))], names=RUN
    )
    values = pd.Series(np.concatenate(own), index)
    found = of_values(values)
    assert found.value == pytest.approx((0.3 + 0.0 - 0.2) / 3)
    assert (found.ahead, found.behind, found.n_conditions, found.n_seeds) == (1, 1, 3, 5)
    # The standard error of a mean of means, by hand.
    error = np.sqrt(sum(np.var(x) / len(x) for x in own)) / 3
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert found.detectable == pytest.approx((1.95996 + 0.84162) * error, rel=0.05)
    assert np.isnan([found.wide_low, found.wide_high]).all()  # over three conditions there is none


def test_over_conditions_the_interval_is_wide() -> None:
    means = np.array([0.1, 0.2, 0.3, -0.1, 0.4])
    found = of_values(indexed(means[:, None] + np.linspace(-0.01, 0.01, 6)))
    assert (found.wide_low, found.wide_high) == pytest.approx(
        statistics.bootstrap([means], statistics.mean)
    )
    assert found.wide_low < found.low < found.value < found.high < found.wide_high


def test_few_seeds_carry_no_interval() -> None:
    found = of_values(indexed(np.array([[0.1, 0.2], [0.3, 0.4]])))
    assert found.value == pytest.approx(0.25)
    assert np.isnan([found.low, found.high, found.detectable]).all()


def test_nothing_is_not_tested() -> None:
    with pytest.raises(Untested, match="no condition has results of both sides"):
        of_values(indexed(np.empty((0, 0))))
