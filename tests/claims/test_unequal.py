"""Arms of unequal budgets, seeds and conditions are compared within what they had in common."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.summarise import read_table
from hindsight.claims import Verdict, evaluate
from hindsight.claims.ppo_her import Race, return_race
from tests.analysis.synthetic import CONDITIONS, N_STEPS, keyed
from tests.claims import unequal
from tests.claims.said import measured, note
from tests.claims.unequal import BUDGET, SAC_BUDGET


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unequal.write(tmp_path_factory.mktemp("unequal"))


@pytest.fixture(scope="module")
def verdicts(folder: Path) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in evaluate(folder.parent)}


def test_more_steps_are_no_better_return(verdicts: dict[str, Verdict]) -> None:
    p1 = verdicts["P1"]
    # PPO-HER's 0.99 beats 0.9 in the end, but the second condition's only after SAC's last step.
    # The rule asks for a maximum, at each arm's own budget; the common one stands beside it.
    assert p1.verdict == "partly" and p1.parts == {"most": True, "more": True}
    assert measured(p1).startswith(
        "In the 2 of 3 conditions where SAC and SAC-HER were trained, PPO-HER alone has the "
        "highest maximum median return in 2 of 2 conditions (0 tied, 0 lost); highest "
        "or equal in 2."
    )
    assert "within the 10\u00a0240 steps that all arms had" in measured(p1)
    assert "in 1 of 2 conditions (0 tied, 1 lost to SAC-HER), which" in measured(p1)
    assert "Against PPO alone, it does so in 3 of 3 conditions (0 tied, 0 lost)." in measured(p1)
    assert "which does not decide" in measured(p1)
    assert p1.effect == pytest.approx(0.98 - 0.8)
    assert (p1.n_conditions, p1.n_seeds) == (2, 4)
    assert p1.p_value == 0.5


def test_sizes_are_said_where_they_differ(verdicts: dict[str, Verdict]) -> None:
    sizes = "PPO and PPO-HER 5 seeds, 40\u00a0960 steps; SAC and SAC-HER 4 seeds, 10\u00a0240 steps"
    for claim in ("P1", "P2", "P3"):
        assert sizes in measured(verdicts[claim])
        assert "budgets differ" in note(verdicts[claim])


def test_clocks_are_said_where_they_differ(verdicts: dict[str, Verdict], tmp_path: Path) -> None:
    """A run's minutes are its share of what five runs took together, or four."""
    clocks = (
        "not timed alike (PPO and PPO-HER on unknown, 5 runs sharing an axis; "
        "SAC and SAC-HER on unknown, 4 runs sharing an axis)"
    )
    assert clocks in note(verdicts["P3"])
    assert "timed" not in note(verdicts["P2"])
    folder = unequal.write(tmp_path, conditions=CONDITIONS[:1], iterations=6, seeds=4)
    alike = {verdict.claim: verdict for verdict in evaluate(folder.parent)}["P3"]
    assert alike.verdict != "not tested" and "timed" not in note(alike)


def test_the_faster_learner_is_named(verdicts: dict[str, Verdict]) -> None:
    p2 = verdicts["P2"]
    assert p2.verdict == "not reproduced"
    # At their own budgets SAC-HER needs 2 rollouts' worth of steps, PPO-HER 4 and 10 ...
    assert "in steps in 0 of 2 conditions (0 tied, 2 lost to SAC-HER); in the 2" in measured(p2)
    own = 2.0 ** np.mean([np.log2(2 / 4), np.log2(2 / 10)])
    assert f"takes {own:.2f} times as long" in measured(p2)
    # ... and within SAC's five PPO-HER learns in the first condition alone.
    assert p2.effect == pytest.approx(-1.0)
    assert "(0 tied, 2 lost to SAC-HER); in the 1 where" in measured(p2)
    assert "Against PPO alone, it does so in 3 of 3 conditions" in measured(p2)


def test_who_won_what_was_lost_is_counted() -> None:
    race = Race(1, 0, ("PPO", "SAC-HER", "SAC-HER"), 2, np.zeros(3))
    numbers = race.numbers()
    assert (numbers["wins"], numbers["losses"], numbers["undecided"]) == (1, 3, 2)
    assert numbers["total"] == 6
    assert numbers["lost_to"] == [{"arm": "SAC-HER", "n": 2}, {"arm": "PPO", "n": 1}]


def test_a_loss_to_two_equals_names_both() -> None:
    tops = {"PPO": -1.0, "PPO-HER": 0.5, "SAC": 1.0, "SAC-HER": 1.0}
    rows = [("random", "static", arm, top) for arm, top in tops.items()]
    table = keyed(pd.DataFrame(rows, columns=["spawn", "prey", "arm", "coarse_max_median_return"]))
    assert return_race(table, False).lost_to == ("SAC and SAC-HER",)


def test_minutes_are_common_minutes(verdicts: dict[str, Verdict]) -> None:
    p3 = verdicts["P3"]
    # PPO's whole run takes 41 s: by then SAC-HER, which needs 82 s, has not learned, while PPO-HER
    # has in 13 s and 33 s and PPO in 37 s.
    assert p3.verdict == "partly"
    assert "in minutes in 2 of 2 conditions (0 tied, 0 lost)" in measured(p3)
    assert "within the minutes that all arms had, it does so in 2 of 2 conditions" in measured(p3)
    expected = np.mean(np.log2([18 / (4 * 1.6), 18 / (10 * 1.6)]))
    assert p3.effect == pytest.approx(expected, abs=0.05)
    assert "2 of 12 conditions are complete" in note(p3)


def test_solving_more_than_ppo_counts_ppo_s_seeds_alone(verdicts: dict[str, Verdict]) -> None:
    p4 = verdicts["P4"]
    assert (p4.n_conditions, p4.n_seeds) == (3, 5)


def test_unequal_budgets_alone_make_it_partly(tmp_path: Path) -> None:
    """Were SAC's steps as many, PPO-HER would have won all there is to win."""

    def curve_of(arm: str, *_: object) -> unequal.CurveFunction:
        return unequal.rise(2 * N_STEPS if arm == "PPO-HER" else 4 * N_STEPS, 0.99)

    folder = unequal.write(
        tmp_path, curve_of=curve_of, conditions=CONDITIONS, iterations=6, seeds=4,
        trains=lambda *_: True,
    )  # fmt: skip
    p2 = {verdict.claim: verdict for verdict in evaluate(folder.parent)}["P2"]
    assert p2.verdict == "partly"
    assert measured(p2).startswith("PPO-HER learns first in steps in 12 of 12 conditions")
    assert p2.effect == pytest.approx(1.0)
    notes = [text for text in note(p2).split("; ") if text.startswith("algorithms: ")]
    assert len(notes) == 1 and notes[0].startswith("algorithms: budgets differ, PPO and PPO-HER ")
    assert all(p2.parts.values())


def pair(table: pd.DataFrame, baseline: str, arm: str, metric: str) -> pd.Series:
    here = (table["prey"] == "static") & (table["metric"] == metric)
    rows = table[here & (table["baseline"] == baseline) & (table["arm"] == arm)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_pairs_are_compared_within_the_steps_that_both_had(folder: Path) -> None:
    table = read_table(folder / "tests.csv")
    row = pair(table, "PPO-HER", "SAC-HER", "auc")
    assert (row["steps"], row["n_seeds"]) == (SAC_BUDGET, 4)
    # Of the five rollouts' ends in common, SAC-HER is at 0.9 in four, PPO-HER at 0.99 in two.
    assert row["mean_difference"] == pytest.approx(0.9 * 4 / 5 - 0.99 * 2 / 5)
    assert pair(table, "PPO-HER", "SAC-HER", "final_return")["mean_difference"] == pytest.approx(
        0.8 - 0.98
    )
    # Every run of PPO-HER solves the task by then, none of SAC's.
    assert (row["solved_baseline"], row["solved_arm"]) == (1.0, 0.0)
    # The two that had as many steps are compared over all of them.
    row = pair(table, "PPO", "PPO-HER", "auc")
    assert (row["steps"], row["n_seeds"]) == (BUDGET, 5)
    assert row["mean_difference"] == pytest.approx(0.99 * 17 / 20 - 0.7 * 3 / 20)


def test_solved_after_the_common_steps_is_not_solved(folder: Path) -> None:
    table = read_table(folder / "tests.csv")
    late = table[(table["prey"] == "random") & (table["arm"] == "SAC-HER")]
    assert set(late["baseline"]) == {"PPO", "PPO-HER", "SAC"}
    assert (late["solved_baseline"] == 0.0).all()
    own = table[(table["prey"] == "random") & (table["arm"] == "PPO-HER")]
    assert (own["solved_arm"] == 1.0).all()


def test_summary_has_both_its_own_budget_and_the_common(folder: Path) -> None:
    summary = read_table(folder / "summary.csv").set_index(["arm", "prey"])
    her = summary.loc[("PPO-HER", "random")]
    assert (her["budget"], her["common_steps"]) == (BUDGET, SAC_BUDGET)
    assert her["max_median_return"] == pytest.approx(0.98)
    assert her["common_steps_max_median_return"] == -1.0
    assert her["common_minutes"] == pytest.approx(BUDGET * 1e-3 / 60)
    assert her["common_minutes_to_learn"] == pytest.approx(10 * 1.6e-3 * N_STEPS / 60, rel=0.02)
    # Without SAC nothing is cut off.
    alone = summary.loc[("PPO-HER", "attract")]
    assert alone["common_steps"] == BUDGET
    assert alone["common_steps_to_learn"] == alone["time_to_learn_steps"] == 10 * N_STEPS


def test_curves_end_with_the_budget(tmp_path: Path) -> None:
    folder = unequal.write(tmp_path, 1e-3, conditions=CONDITIONS[:1])
    curves = read_table(folder / "curves.parquet").groupby(["clock", "arm"])["x"].max()
    assert curves["env_steps"].to_dict() == {
        "PPO": BUDGET, "PPO-HER": BUDGET, "SAC": SAC_BUDGET, "SAC-HER": SAC_BUDGET,
    }  # fmt: skip
    # A run of PPO took 1 ms a step, one of PPO-HER 1.6 ms, one of SAC 1 ms: each to its own end.
    minutes = curves["minutes"]
    assert minutes["PPO"] == pytest.approx(BUDGET * 1e-3 / 60)
    assert minutes["PPO-HER"] == pytest.approx(BUDGET * 1.6e-3 / 60)
    assert minutes["SAC"] == minutes["SAC-HER"] == pytest.approx(SAC_BUDGET * 1e-3 / 60)
