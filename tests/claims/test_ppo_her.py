"""Verdicts on results whose verdict is known."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from hindsight.claims import CLAIMS, VERDICTS, Verdict, evaluate, write_claims
from hindsight.claims.ppo_her import (
    Race,
    drop_contrast,
    ended_by_test,
    sweep,
    time_race,
    unequal_budgets,
)
from hindsight.claims.questions import QUESTIONS
from tests.analysis.synthetic import (
    CONDITIONS,
    N_STEPS,
    CurveFunction,
    constant,
    keyed,
    summarise,
    write_experiment,
)
from tests.claims.said import measured, note, p_value_of

Curves = Callable[[str, dict[str, Any], str, str], CurveFunction]
ALL_ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")


def rise(iteration: int, top: float = 0.99) -> CurveFunction:
    """Success 0 until an iteration, then `top`; below 1, so that no run ends early."""
    return lambda seed, env_steps: np.where(env_steps < iteration * N_STEPS, 0.0, top)


def judged(
    root: Path, experiment: str, curve_of: Curves, *, seeds: int = 5, **kwargs: Any
) -> dict[str, Verdict]:
    """The verdicts by claim after one experiment (its source holds what was judged before, too)."""
    kwargs = {"fidelities": ("released",), "iterations": 20} | kwargs
    plan = write_experiment(root, experiment, seeds=seeds, curve_of=curve_of, **kwargs)
    summarise(plan, root)
    return {verdict.claim: verdict for verdict in evaluate(plan.parent.parent)}


def by_arm(**curves: CurveFunction) -> Curves:
    return lambda arm, level, spawn, prey: curves[arm.replace("-", "_")]


def test_claims_and_judges_are_the_same_list() -> None:
    papers = ["P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "M1", "M2", "M3", "M4", "M5"]
    assert list(CLAIMS) == list(VERDICTS) == papers
    for claim in CLAIMS.values():
        assert claim.rule.startswith("Reproduced: ")
        assert "  " not in claim.rule


def test_all_four_arms_and_a_clear_winner_reproduce_the_race(tmp_path: Path) -> None:
    curves = by_arm(PPO=rise(12, 0.7), PPO_HER=rise(4), SAC=rise(8, 0.9), SAC_HER=rise(10, 0.4))
    verdicts = judged(tmp_path, "algorithms", curves, arms=ALL_ARMS)
    p1, p2, p3 = (verdicts[name] for name in ("P1", "P2", "P3"))
    assert [v.verdict for v in (p1, p2, p3)] == ["reproduced"] * 3
    assert p1.effect == pytest.approx(2 * (0.99 - 0.9), abs=1e-6)
    # SAC at iteration 8 is the fastest other that learns: twice as long.
    assert p2.effect == pytest.approx(1.0)
    # In minutes PPO-HER's steps cost 1.6 times SAC's: log2(8 / 6.4), up to the bins.
    assert p3.effect == pytest.approx(np.log2(8 / 6.4), abs=0.06)
    assert p2.p_value == pytest.approx(2 / 2**12)
    assert (p2.n_seeds, p2.n_conditions) == (5, 12)
    assert "absent" not in note(p2)


def test_of_arms_that_won_as_often_the_first_is_named_first() -> None:
    arms = tuple(f"arm {i}" for i in range(9, 0, -1))
    lost = Race(0, 0, (*arms, *arms, "last", "last", "last"), 0, np.zeros(0)).numbers()["lost_to"]
    assert [x["arm"] for x in lost] == ["last", *arms]


def test_without_sac_the_race_is_partly_and_says_so(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, "algorithms", by_arm(PPO=rise(12, 0.7), PPO_HER=rise(4)))
    for name in ("P1", "P2", "P3"):
        assert verdicts[name].verdict == "partly"
        assert "2 of 4 arms have results" in note(verdicts[name])


def test_ties_are_shown_and_not_won(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, "algorithms", by_arm(PPO=rise(6), PPO_HER=rise(6)))
    assert verdicts["P1"].verdict == verdicts["P2"].verdict == "not reproduced"
    assert "0 of 12 conditions (12 tied, 0 lost)" in measured(verdicts["P1"])
    assert "0 of 12 conditions (12 tied, 0 lost)" in measured(verdicts["P2"])
    assert verdicts["P1"].p_value == 1.0
    assert verdicts["P3"].verdict == "not reproduced"
    assert "12 lost" in measured(verdicts["P3"])


def test_an_arm_that_never_learns_wins_no_race() -> None:
    # PPO-HER is flat in the first condition (its "time to learn" is its first step), the only one
    # to learn in the second; nobody learns in the third.
    rows = [
        ("random", "static", "PPO", 0.9, 50), ("random", "static", "PPO-HER", -1.0, 1),
        ("random", "repel", "PPO", -0.5, 1), ("random", "repel", "PPO-HER", 0.8, 90),
        ("apart", "static", "PPO", -1.0, 1), ("apart", "static", "PPO-HER", -0.2, 2),
        ("apart", "repel", "PPO", 0.9, 80), ("apart", "repel", "PPO-HER", 0.9, 20),
    ]  # fmt: skip
    columns = ["spawn", "prey", "arm", "max_median_return", "time"]
    race = time_race(keyed(pd.DataFrame(rows, columns=columns)), "time")
    assert (race.wins, race.ties, race.losses, race.undecided) == (2, 0, 1, 1)
    np.testing.assert_allclose(race.effects, [2.0])


def test_solving_what_ppo_does_not(tmp_path: Path) -> None:
    def curve_of(arm: str, level: Any, spawn: str, prey: str) -> CurveFunction:
        is_hard = (spawn, prey) == ("random", "repel")
        return constant(0.1) if arm == "PPO" and is_hard else rise(5)

    p4 = judged(tmp_path, "algorithms", curve_of, seeds=8)["P4"]
    assert p4.verdict == "reproduced"
    assert "1 of 12 conditions" in measured(p4)
    assert p4.effect == pytest.approx(1 / 12)
    assert p4.p_value == pytest.approx(12 * scipy.stats.fisher_exact([[8, 0], [0, 8]]).pvalue)


def test_solving_more_by_too_few_seeds_is_partly(tmp_path: Path) -> None:
    curves = by_arm(PPO=constant(0.1), PPO_HER=rise(5))
    p4 = judged(tmp_path, "algorithms", curves, seeds=4)["P4"]
    assert p4.p_value > 0.05
    assert p4.verdict == "partly"
    assert np.isnan(p4.low)


def test_solving_the_same_is_not_reproduced(tmp_path: Path) -> None:
    p4 = judged(tmp_path, "algorithms", by_arm(PPO=rise(9), PPO_HER=rise(5)))["P4"]
    assert p4.verdict == "not reproduced"
    assert p4.p_value == 1.0


@pytest.mark.parametrize(
    ("ppo", "her", "verdict"),
    [
        ((0.05, 0.95, 0.9), (0.6, 0.95, 0.9), "reproduced"),
        ((0.6, 0.95, 0.9), (0.5, 0.95, 0.9), "not reproduced"),
        ((0.6, 0.95, 0.9), (0.7, 0.95, 0.9), "partly"),  # less, but not half of it
    ],
)
def test_learning_rate_sensitivity(
    tmp_path: Path, ppo: Sequence[float], her: Sequence[float], verdict: str
) -> None:
    rates = (3e-3, 3e-4, 3e-5)

    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return constant((ppo if arm == "PPO" else her)[rates.index(level["learning_rate"])])

    p5 = judged(tmp_path, "learning_rate", curve_of, seeds=4, iterations=4)["P5"]
    assert p5.verdict == verdict
    expected = np.log2((max(ppo) / min(ppo)) / (max(her) / min(her)))
    assert p5.effect == pytest.approx(expected, rel=1e-4)
    assert f"{100 * (max(ppo) / min(ppo) - 1):.0f} % for PPO" in measured(p5)
    spread = {"subject": max(her) / min(her), "baseline": max(ppo) / min(ppo)}
    assert p5.numbers["where_learnt"] == pytest.approx(
        {k: 100 * x - 100 for k, x in spread.items()}
    )
    assert p5.numbers["ppo"]["best"] == pytest.approx(max(ppo))


def test_a_rate_that_never_succeeds_counts_as_half_an_episode_of_a_hundred(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return constant(0.0 if arm == "PPO" and level["learning_rate"] > 1e-3 else 0.9)

    p5 = judged(tmp_path, "learning_rate", curve_of, seeds=4, iterations=4)["P5"]
    assert p5.verdict == "reproduced"
    assert "17900 % for PPO" in measured(p5)
    assert (
        p5.numbers["steps_to"]["0.8"]["baseline"]["reached"] * 3
        == 2 * p5.numbers["steps_to"]["0.8"]["baseline"]["of"]
    )
    assert p5.effect == pytest.approx(np.log2(0.9 / 0.005), rel=1e-4)


def test_sweep_orders_the_levels_from_easy_to_hard() -> None:
    rows = [
        ("random", "static", arm, r, 2 * s - 1)
        for arm, scaled in (("PPO", (0.1, 0.5, 0.9)), ("PPO-HER", (0.7, 0.8, 0.9)))
        for r, s in zip((0.1, 0.5, 1.0), scaled, strict=True)
    ]
    columns = ["spawn", "prey", "arm", "interception_distance", "measured"]
    table = keyed(pd.DataFrame(rows, columns=columns))
    part = sweep(table, "interception_distance", ascending=False)
    row = part.iloc[0]
    np.testing.assert_allclose(row[["drop_ppo", "drop_her"]].astype(float), [0.8, 0.2])
    np.testing.assert_allclose(row[["mean_ppo", "mean_her"]].astype(float), [0.5, 0.8])
    assert bool(row["learnt"])


def test_holding_up_needs_all_three_sweeps(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        hardness = [
            np.log10(1 / level.get("interception_distance", 1.0)),
            level.get("grid_size", 10) / 10 - 1,
            abs(level.get("n_dims", 2) - 2),
        ]
        loss = (0.2 if arm == "PPO" else 0.05) * max(hardness)
        return constant(0.9 - loss)

    def swept(experiment: str, levels: list[dict[str, Any]]) -> Verdict:
        sizes = {"seeds": 4, "iterations": 4, "levels": levels}
        return judged(tmp_path, experiment, curve_of, **sizes)["P6"]

    p6 = swept("agent_size", [{"interception_distance": r} for r in (1.0, 0.1)])
    assert p6.verdict == "partly"
    assert "box sizes: the experiment has no results" in note(p6)
    swept("grid_size", [{"grid_size": g} for g in (10.0, 50.0)])
    p6 = swept("dimensions", [{"n_dims": n} for n in (2, 6)])
    assert p6.verdict == "reproduced"
    assert p6.p_value == pytest.approx(2 / 2**12)
    assert p6.n_conditions == 12
    assert {part["conditions"] for part in p6.numbers["sweeps"].values()} == {12}
    # The mean over two levels loses half the hardest level's hardness: 1, 4 and 4.
    assert p6.effect == pytest.approx(0.15 * np.mean([1, 4, 4]) / 2, rel=1e-4)


def test_a_steeper_fall_does_not_hold_up(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return constant(0.9 - (0.3 if arm == "PPO-HER" else 0.1) * np.log2(level["grid_size"] / 10))

    levels = [{"grid_size": g} for g in (10.0, 20.0, 40.0)]
    p6 = judged(tmp_path, "grid_size", curve_of, seeds=4, iterations=4, levels=levels)["P6"]
    assert p6.verdict == "not reproduced"
    assert p6.high < 0


def test_one_condition_is_compared_by_its_seeds(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        loss = (0.1 if arm == "PPO-HER" else 0.3) * np.log2(level["grid_size"] / 10)
        return lambda seed, env_steps: np.full(env_steps.shape, 0.9 - loss - 0.01 * seed)

    levels = [{"grid_size": g} for g in (10.0, 20.0, 40.0)]
    small = {"iterations": 4, "levels": levels, "conditions": CONDITIONS[:1]}
    p6 = judged(tmp_path, "grid_size", curve_of, seeds=6, **small)["P6"]
    assert p6.verdict == "partly"
    assert p6.effect == pytest.approx(0.2, rel=1e-4)
    assert p6.p_value == 2 / 2**6
    assert "over seeds" in p_value_of(p6)
    assert "in 6 of 6 seeds" in measured(p6)
    assert (p6.n_seeds, p6.n_conditions) == (6, 1)
    assert "holds in grid_size" in note(p6)


def test_drop_contrast_by_hand() -> None:
    # Drops 0, 0.1 start from high entropy (4, 3), 0.4, 0.2 from low (2, 1).
    returns = np.array([0.0, 0.5, 0.4, 0.0, -0.2])
    contrast = drop_contrast(np.array([4.0, 3.0, 2.0, 1.0, 0.0]), returns)
    assert contrast == pytest.approx(0.3 - 0.05)
    assert np.isnan(drop_contrast(np.ones(5), returns))


def test_stability_that_falls_with_entropy(tmp_path: Path) -> None:
    def unstable(seed: int, env_steps: np.ndarray) -> np.ndarray:
        t = env_steps / env_steps[-1]
        wobble = 0.2 * t * (np.arange(t.size) % 2 == 1)
        fall = 0.2 * np.maximum(0.0, t - 0.8) / 0.2  # what is lost is more than noise
        return np.minimum(0.98, 1.2 * t) - wobble - fall - 0.001 * seed

    p8 = judged(tmp_path, "algorithms", by_arm(PPO=rise(5), PPO_HER=unstable))["P8"]
    assert p8.verdict == "reproduced"
    assert p8.low > 0
    assert "60 PPO-HER runs" in measured(p8)


def test_a_stable_rise_is_not_losing_stability(tmp_path: Path) -> None:
    def steady(seed: int, env_steps: np.ndarray) -> np.ndarray:
        return 0.99 * env_steps / env_steps[-1]

    p8 = judged(tmp_path, "algorithms", by_arm(PPO=rise(5), PPO_HER=steady))["P8"]
    assert p8.verdict == "not reproduced"
    assert p8.effect == 0.0


def test_what_never_learns_is_not_tested(tmp_path: Path) -> None:
    verdicts = judged(tmp_path, "algorithms", by_arm(PPO=constant(0.1), PPO_HER=constant(0.2)))
    assert {v.verdict for v in verdicts.values()} == {"not tested"}
    assert "no arm reaches" in measured(verdicts["P1"])
    assert "no results" in measured(verdicts["P5"])


def test_few_conditions_and_few_seeds_are_at_most_partly(tmp_path: Path) -> None:
    curves = by_arm(PPO=rise(12, 0.7), PPO_HER=rise(4), SAC=rise(8, 0.9), SAC_HER=rise(10, 0.4))
    small = {"arms": ALL_ARMS, "conditions": CONDITIONS[:3], "seeds": 2}
    p1 = judged(tmp_path, "algorithms", curves, **small)["P1"]
    assert p1.verdict == "partly"
    assert "3 of 12 conditions" in note(p1)
    assert "only 2 seeds" in note(p1)
    assert np.isnan(p1.low)


def test_both_fidelities_are_judged_apart(tmp_path: Path) -> None:
    fidelities = ("released", "described")
    plan = write_experiment(
        tmp_path, "algorithms", seeds=2, iterations=6, conditions=CONDITIONS[:2],
        fidelities=fidelities,
    )  # fmt: skip
    summarise(plan, tmp_path)
    verdicts = evaluate(plan.parent.parent)
    assert [(v.claim, v.fidelity) for v in verdicts] == [(c, f) for c in CLAIMS for f in fidelities]


def test_claims_json_is_valid_and_holds_rule_and_verdict(tmp_path: Path) -> None:
    verdicts = write_claims(tmp_path)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = (tmp_path / "claims.json").read_text()
    rows = json.loads(text, parse_constant=refuse)
    assert len(rows) == len(verdicts) == 2 * len(CLAIMS)
    first = rows[0]
    assert (first["claim"], first["fidelity"], first["verdict"]) == ("P1", "released", "not tested")
    assert first["sentence"] == CLAIMS["P1"].sentence
    assert first["effect"] is None
    answers = json.loads((tmp_path / "answers.json").read_text(), parse_constant=refuse)
    ids = [row["id"] for row in answers]
    assert ids == list(QUESTIONS)
    assert all(name.startswith("T") for name in ids[9:]) and len(set(ids)) == len(ids)
    assert {row["status"] for row in answers} == {"not tested"}


def test_runs_that_a_test_ended_are_counted_by_arm() -> None:
    """As released, the authors' SAC stops once a test's five episodes all succeed."""
    rows = [
        ("SAC-HER", "test", 20_000, 0.5), ("SAC-HER", "test", 30_000, 0.7),
        ("SAC-HER", "test", 70_000, 0.9), ("SAC-HER", "early", 90_000, 1.0),
        ("SAC", "budget", 150_000, -1.0),
    ]  # fmt: skip
    runs = pd.DataFrame(rows, columns=["arm", "ended", "end_step", "final_return"])
    found = ended_by_test(runs)
    assert list(found) == ["SAC-HER"]
    assert found["SAC-HER"] == {
        "n": 3, "of": 4, "step": 30_000, "final_return": pytest.approx(0.7),
    }  # fmt: skip


def test_a_smaller_budget_counts_only_where_it_ended_runs() -> None:
    rows = [("a", "PPO", 500, 1.0), ("a", "SAC", 150, 0.0), ("b", "PPO", 500, 0.0),
            ("b", "SAC", 150, 0.0)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["condition", "arm", "budget", "cut_share"])
    assert not unequal_budgets(table)
    assert unequal_budgets(table.assign(cut_share=[0.0, 0.0, 0.0, 0.25]))
