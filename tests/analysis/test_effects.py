"""Paired differences over conditions and seeds, against numbers worked out by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis import statistics
from hindsight.analysis.effects import RUN, effect, paired
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


def test_five_conditions_are_the_unit() -> None:
    means = np.array([0.1, 0.2, 0.3, -0.1, 0.4])
    found = effect(indexed(means[:, None] + np.array([-0.5, 0.5])))
    assert found.mean == pytest.approx(0.18)
    assert found.unit == "conditions"
    assert (found.ahead, found.behind, found.n_conditions, found.n_seeds) == (4, 1, 5, 2)
    low, high = statistics.bootstrap([means], statistics.mean)
    assert (found.low, found.high) == pytest.approx((low, high))
    # As extreme as 0.9 are +-1.1, all of one sign, and +-0.9, with either 0.1 of the other.
    assert found.p_value == 6 / 32


def test_seeds_are_the_unit_of_fewer_conditions() -> None:
    found = effect(indexed(np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]])))
    assert found.unit == "seeds"
    assert found.p_value == 2 / 64
    assert 0.1 < found.low < 0.35 < found.high < 0.6
    assert found.sign() == 1
    narrow = effect(indexed(np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]])), confidence=0.9)
    assert found.low < narrow.low < narrow.high < found.high


def test_few_seeds_in_few_conditions_carry_no_interval() -> None:
    found = effect(indexed(np.array([[0.1, 0.2], [0.3, 0.4]])))
    assert found.mean == pytest.approx(0.25)
    assert np.isnan(found.low) and np.isnan(found.high)
    assert found.sign() == 0


def test_nothing_has_no_effect() -> None:
    found = effect(indexed(np.empty((0, 0))))
    assert np.isnan(found.mean)
    assert (found.n_conditions, found.n_seeds, found.sign()) == (0, 0, 0)


def test_an_effect_below_zero_says_so() -> None:
    found = effect(indexed(np.full((1, 6), -0.25)))
    assert found.sign() == -1
    assert found.numbers() == {
        "mean": -0.25, "low": -0.25, "high": -0.25, "n_seeds": 6, "n_conditions": 1
    }  # fmt: skip
