"""Levels of what an experiment varies, and arms, are no seeds."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.claims.evidence import RUN, Evidence, Untested, of_values, paired
from hindsight.claims.measures import MEASURES
from tests.analysis.synthetic import CONDITIONS, arms_of, levels_of, summarised

RATES = levels_of("learning_rate")
GAMMAS = [{"gamma": gamma} for gamma in (0.9, 0.99)]
FEW: dict[str, Any] = {"fidelities": ("released",), "conditions": CONDITIONS[:2], "iterations": 6}


def measured(root: Path, measure: str, arguments: dict[str, Any]) -> Any:
    evidence = Evidence(root / "results/tables/laptop", "released")
    return MEASURES[measure](evidence, **arguments)


def test_a_difference_is_the_mean_over_levels_of_each_seed(tmp_path):
    """Two seeds at three levels are two seeds, too few for an interval."""
    gains = {0.003: 0.0, 0.0003: 0.3, 3e-05: 0.6}

    def curve_of(arm: str, level: dict[str, Any], *_: str) -> Any:
        gain = gains[level["learning_rate"]] * (arm == "PPO-HER")
        return lambda seed, steps: np.full(steps.shape, 0.2 + gain + 0.1 * seed * (gain > 0))

    summarised(tmp_path, "learning_rate", seeds=2, levels=RATES, curve_of=curve_of, **FEW)
    column = {"experiment": "learning_rate", "column": "final_evaluation_success"}
    found = measured(tmp_path, "difference", column)
    assert (found.n_seeds, found.n_conditions) == (2, 2) and np.isnan(found.low)
    by_hand = [np.mean([0.0, 0.3, 0.6]), np.mean([0.0, 0.4, 0.7])]
    assert found.value == pytest.approx(np.mean(by_hand))


@pytest.fixture(scope="module")
def with_gammas(tmp_path_factory):
    """Results of experiments in which gamma varies, too."""
    root = tmp_path_factory.mktemp("gammas")
    for name in ("algorithms", "stop_her", "s_ratio", "targeted", "dimensions"):
        levels = [own | gamma for own, gamma in itertools.product(levels_of(name)[:3], GAMMAS)]
        summarised(root, name, seeds=2, arms=arms_of(name), levels=levels, **FEW)
    return root


@pytest.mark.parametrize(
    ("measure", "arguments", "experiment"),
    [
        ("highest", {"tie": 0.02, "column": "coarse_max_median_return"}, "algorithms"),
        ("first", {"rivals": {"role": "baseline"}, "time": "learn_step"}, "algorithms"),
        ("solves", {}, "algorithms"),
        ("after_the_best", {"lost": 0.01}, "algorithms"),
        ("saved_after", {"column": "updates"}, "stop_her"),
        ("best_s", {"within": 0.1}, "s_ratio"),
        ("leaning", {"ends": False}, "s_ratio"),
        ("meher_gain", {"count": False}, "s_ratio"),
        ("targeting", {}, "targeted"),
        ("retained", {"experiment": "dimensions", "key": "n_dims", "hardest": "largest"},
         "dimensions"),
    ],
)  # fmt: skip
def test_levels_of_a_key_that_a_measure_does_not_know_are_refused(
    with_gammas, measure, arguments, experiment
):
    with pytest.raises(Untested, match=f"several levels of {experiment} would count as seeds"):
        measured(with_gammas, measure, arguments)


def test_several_subjects_are_refused(tmp_path):
    folder = tmp_path / "results/tables/laptop/mine"
    folder.mkdir(parents=True)
    arms = [("PPO", "baseline"), ("PPO-HER", "subject"), ("MEHER", "subject")]
    rows = [
        {"fidelity": "released", "arm": arm, "role": role, "level": "", "condition": "one",
         "seed": seed, "success_auc": 0.5}
        for (arm, role), seed in itertools.product(arms, range(5))
    ]  # fmt: skip
    pd.DataFrame(rows).to_parquet(folder / "runs.parquet")
    with pytest.raises(Untested, match="several arms of mine would count as seeds"):
        measured(tmp_path, "difference", {"experiment": "mine", "column": "success_auc"})


def test_several_values_of_a_run_are_refused_whoever_measures():
    runs = pd.DataFrame({"condition": "one", "seed": [0, 1, 1], "auc": [1.0, 2.0, 3.0]})
    once = runs[:2]
    for pair in ((runs, once), (once, runs)):
        with pytest.raises(Untested, match="condition one, seed 1 has several values"):
            paired(*pair, "auc")
    with pytest.raises(Untested, match="condition one, seed 1 has several values"):
        of_values(runs.set_index(RUN)["auc"])
