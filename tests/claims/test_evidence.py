"""Paired differences over conditions and seeds, against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from hindsight.claims.evidence import RUN, Untested, of_values, paired


def runs_of(*conditions: list[float]) -> pd.DataFrame:
    """Values by condition and seed as a table of runs."""
    rows = [
        (f"condition {place}", seed, value)
        for place, values in enumerate(conditions)
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=[*RUN, "auc"])


def test_only_shared_runs_are_paired():
    arm, baseline = runs_of([1.0, 2.0, 4.0]), runs_of([0.5, 0.5, 0.5])
    difference = paired(arm[arm["seed"] > 0], baseline[baseline["seed"] < 2], "auc")
    assert difference.to_dict() == {("condition 0", 1): 1.5}
    shuffled = paired(arm.sample(frac=1.0, random_state=3), baseline, "auc")
    assert shuffled.sort_index().tolist() == [0.5, 1.5, 3.5]


def test_few_seeds_carry_no_interval():
    found = of_values(runs_of([0.1, 0.2], [0.3, 0.4]).set_index(RUN)["auc"])
    assert found.value == pytest.approx(0.25)
    assert np.isnan([found.low, found.high, found.detectable]).all()


def test_nothing_is_not_tested():
    with pytest.raises(Untested, match="no condition has results of both sides"):
        of_values(runs_of().set_index(RUN)["auc"])
