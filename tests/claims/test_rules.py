"""The rules, and the values of runs that they judge."""

import numpy as np
import pandas as pd
import pytest

from hindsight.claims.evidence import NAN, RUN, Measured, Untested, of_values, paired
from hindsight.claims.rules import RULES

COUNTED = {"n_conditions": 12, "words": {"compared": 5}}
FEW = COUNTED | {"n_conditions": 3}


@pytest.mark.parametrize(
    ("rule", "limits", "found", "answer"),
    [
        ("race", {"more_than": 6}, {"ahead": 7, "low": 0.1, "high": 0.2, **COUNTED}, "yes"),
        ("race", {"more_than": 6}, {"ahead": 6, "low": 0.1, "high": 0.2, **COUNTED}, "no"),
        # Two conditions whose rival stopped too early to tell decide whether these are most.
        ("race", {"more_than": 6}, {"ahead": 5, "low": 0.1, "high": 0.2, "n_conditions": 12,
                                    "words": {"compared": 5, "undecided": 2}}, "open"),
        ("race", {"more_than": 6}, {"ahead": 4, "low": 0.1, "high": 0.2, "n_conditions": 12,
                                    "words": {"compared": 5, "undecided": 2}}, "no"),
        # Seven of them because the rival never arrives: not ahead where both do.
        ("race", {"more_than": 6}, {"ahead": 8, "low": -0.1, "high": 0.2, **COUNTED}, "open"),
        ("race", {"more_than": 6}, {"ahead": 8, "low": -0.2, "high": -0.1, **COUNTED}, "no"),
        ("race", {"more_than": 6}, {"ahead": 8, **COUNTED, "words": {"compared": 0}}, "yes"),
        ("race", {"more_than": 6}, {"ahead": 2, "low": 0.1, "high": 0.2, **FEW}, "yes"),
        ("level", {"at_least": 0.5, "at_most": 0.7}, {"low": 0.5, "high": 0.7 + 1e-9}, "yes"),
        ("level", {"at_least": 0.5, "at_most": 0.7}, {"low": 0.3, "high": 0.4}, "no"),
        ("level", {"at_least": 0.5, "at_most": 0.7}, {"low": 0.3, "high": 0.5}, "open"),
        ("level", {"at_least": 0.5, "at_most": 0.7}, {"low": 0.4, "high": 0.8}, "open"),
        ("level", {"at_least": 1, "interval": False}, {"low": NAN, "value": 1.0}, "yes"),
        ("level", {"at_least": 1, "interval": False}, {"low": NAN, "value": 0.0}, "no"),
        # A count over enough seeds, for which no interval is known.
        ("level", {"at_least": 1}, {"low": NAN, "value": 1.0, "n_seeds": 8}, "yes"),
        ("level", {"at_least": 10, "of": 12}, {"low": 5, "high": 5, "n_conditions": 6}, "yes"),
        ("level", {"at_least": 10, "of": 12}, {"low": 4, "high": 4, "n_conditions": 6}, "no"),
        ("level", {"at_least": 10, "of": 12}, {"low": 4, "high": 5, "n_conditions": 6}, "open"),
        ("lean", {"above": 0}, {"low": 0.1, "high": 0.3}, "yes"),
        ("lean", {"above": 0}, {"low": -0.1, "high": 0.3}, "open"),
        ("lean", {"above": 0}, {"low": 0.0, "high": 2.0}, "open"),
        ("lean", {"above": 0}, {"low": 0.0, "high": 0.0}, "no"),
        ("lean", {"above": 0}, {"low": -0.3, "high": -0.1}, "no"),
        ("lean", {"below": 0.1}, {"low": -0.3, "high": 0.09}, "yes"),
        ("lean", {"below": 0.1}, {"low": -0.3, "high": 0.11}, "open"),
        ("equal", {"within": 0.1}, {"low": -0.09, "high": 0.05}, "yes"),
        ("equal", {"within": 0.1}, {"low": -0.11, "high": 0.05}, "open"),
        ("equal", {"within": 0.1}, {"low": -0.5, "high": 0.5}, "open"),
        ("equal", {"within": 0.1}, {"low": 0.2, "high": 0.5}, "no"),
    ],
)  # fmt: skip
def test_each_rule(rule, limits, found, answer):
    usual = {"value": 0.0, "low": 0.0, "n_seeds": 5 if rule == "race" else 0}
    assert RULES[rule].answer(Measured(**usual | found), **limits) == answer


@pytest.mark.parametrize(
    ("rule", "limits"),
    [("race", {"more_than": 6}), ("level", {"at_least": 1}), ("lean", {"above": 0}),
     ("equal", {"within": 0.1})],
)  # fmt: skip
def test_few_seeds_carry_no_interval_and_so_no_verdict(rule, limits):
    runs = pd.MultiIndex.from_product([["one", "another"], range(4)], names=RUN)
    found = of_values(pd.Series(0.5, runs), **COUNTED)
    assert found.value == 0.5 and found.ahead == 2
    with pytest.raises(Untested, match="only 4 seeds; an interval needs five"):
        RULES[rule].answer(found, **limits)


def test_rounding_is_neither_ahead_nor_behind():
    """Means of hundredths in single precision: (1.00, 0.96) and (0.98, 0.98)."""
    values = np.float32([1.0, 0.96, 0.98, 0.98]).astype(float)
    runs = pd.MultiIndex.from_product([["one"], range(2)], names=RUN)
    found = of_values(pd.Series(values[:2] - values[2:], runs), **COUNTED)
    assert found.value != 0 and (found.ahead, found.behind, found.open) == (0, 0, 1)


def test_only_shared_runs_are_paired():
    arm = pd.DataFrame({"condition": "one", "seed": [0, 1, 2], "auc": [1.0, 2.0, 4.0]})
    baseline = arm.assign(auc=0.5)
    assert paired(arm[1:], baseline[:2], "auc").to_dict() == {("one", 1): 1.5}
    shuffled = paired(arm[::-1], baseline, "auc")
    assert shuffled.sort_index().tolist() == [0.5, 1.5, 3.5]
