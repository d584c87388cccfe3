"""Paired differences over conditions and seeds, against numbers worked out by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

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


def test_only_shared_runs_are_paired():
    arm, baseline = runs_of(np.array([[1.0, 2.0, 4.0]])), runs_of(np.array([[0.5, 0.5, 0.5]]))
    difference = paired(arm[arm["seed"] > 0], baseline[baseline["seed"] < 2], "auc")
    assert difference.to_dict() == {("random static", 1): 1.5}
    shuffled = paired(arm.sample(frac=1.0, random_state=3), baseline, "auc")
    assert shuffled.sort_index().tolist() == [0.5, 1.5, 3.5]


def test_solved_or_not_can_be_paired():
    a, b = (runs_of(np.array([values]), "solved") for values in ([True, False], [False, False]))
    assert paired(a, b, "solved").tolist() == [1.0, 0.0]


def test_few_seeds_carry_no_interval():
    found = of_values(indexed(np.array([[0.1, 0.2], [0.3, 0.4]])))
    assert found.value == pytest.approx(0.25)
    assert np.isnan([found.low, found.high, found.detectable]).all()


def test_nothing_is_not_tested():
    with pytest.raises(Untested, match="no condition has results of both sides"):
        of_values(indexed(np.empty((0, 0))))
