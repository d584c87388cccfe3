"""Verdicts on results whose verdict is known."""

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.claims import Verdict, evaluate, write_claims
from hindsight.claims.evidence import RUN, Evidence, Untested, of_values, paired
from hindsight.claims.measures import CUT, MEASURES, lean
from tests.analysis.synthetic import (
    CONDITIONS,
    N_STEPS,
    CurveFunction,
    arms_of,
    constant,
    levels_of,
    second_paper,
    summarise,
    summarised,
    write_experiment,
)

Curves = Callable[[str, dict[str, Any], str, str], CurveFunction]
S_RATIOS = levels_of("s_ratio")
TABLES = "results/tables/laptop"
ALL_ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")


def rise(iteration: float, top: float = 0.99) -> CurveFunction:
    """Success 0 until an iteration, then `top`; below 1, so that no run ends early."""
    return lambda seed, env_steps: np.where(env_steps < iteration * N_STEPS, 0.0, top)


def judged(
    root: Path, experiment: str, curve_of: Curves, *, seeds: int = 5, **kwargs: Any
) -> dict[str, Verdict]:
    """The verdicts by claim after one experiment."""
    kwargs = {"fidelities": ("released",), "iterations": 20} | kwargs
    tables = summarised(root, experiment, seeds=seeds, curve_of=curve_of, **kwargs)
    return {verdict.claim: verdict for verdict in evaluate(tables.parent)}


def left_out(root: Path, plan: Path, keep: Callable[[dict[str, Any]], bool]) -> dict[str, Verdict]:
    """The verdicts without the entries that are not kept."""
    own = json.loads(plan.read_text())
    own["entries"] = [entry for entry in own["entries"] if keep(entry)]
    plan.write_text(json.dumps(own))
    summarise(plan, root)
    return {verdict.claim: verdict for verdict in evaluate(plan.parent.parent)}


def measured(root: Path, measure: str, fidelity: str = "released", **arguments: Any) -> Any:
    return MEASURES[measure](Evidence(root / TABLES, fidelity), **arguments)


def test_without_results_nothing_is_tested(tmp_path):
    verdicts = write_claims(tmp_path / "claims.json")
    assert {v.verdict for v in verdicts} == {"not tested"}
    assert all("has no results" in v.why for v in verdicts)
    rows = json.loads((tmp_path / "claims.json").read_text())
    assert len(rows) == len(verdicts) and rows[0]["measured"]["value"] is None
    assert not (tmp_path / "answers.json").exists()


def test_who_never_learns_is_beaten_and_not_compared(tmp_path):
    def curve_of(arm: str, *_: Any) -> CurveFunction:
        return rise(4) if arm == "PPO-HER" else rise(10, 0.4)

    few: dict[str, Any] = {"arms": ALL_ARMS, "conditions": CONDITIONS[:2]}
    p2b = judged(tmp_path, "algorithms", curve_of, **few)["P2b"]
    assert p2b.verdict == "yes" and p2b.measured.ahead == 2
    assert p2b.measured.words["compared"] == 0 and np.isnan(p2b.measured.value)
    assert p2b.measured.words["never"] == p2b.measured.words["runs"] == 10


@pytest.mark.parametrize("winner", ["PPO-HER", "PPO"])
def test_one_seed_decides_no_race(tmp_path, winner):
    few: dict[str, Any] = {"arms": ALL_ARMS, "conditions": CONDITIONS[:1], "seeds": 1}
    found = judged(tmp_path, "algorithms", lambda arm, *_: rise(4 if arm == winner else 10), **few)
    for claim in ("P1", "P2a", "P2b", "P3a", "P3b"):
        assert found[claim].verdict == "not tested" and "seed" in found[claim].why, claim


def test_rivals_that_stopped_before_ppo_her_learned_leave_the_race_open(tmp_path):
    few: dict[str, Any] = {"arms": ALL_ARMS, "conditions": CONDITIONS[:2]}
    short = {"PPO-HER": {}}
    found = judged(
        tmp_path, "algorithms", lambda arm, *_: rise(15 if arm == "PPO-HER" else 30),
        more_of=lambda arm, *_: short.get(arm, {"iterations": 10}), **few,
    )  # fmt: skip
    for claim in ("P2a", "P2b"):
        assert found[claim].measured.open == 2 and found[claim].verdict == "open"


def of_s_ratios(root: Path, curve_of: Curves) -> dict[str, Verdict]:
    """The verdicts on MEHER, if all learn as this says."""
    few: dict[str, Any] = {"conditions": CONDITIONS[:2], "seeds": 6}
    for name, arms in (("s_ratio", ("MEHER",)), ("targeted", ("targeted MEHER",))):
        judged(root, name, curve_of, arms=arms, **few)
    return judged(root, "algorithms", curve_of, arms=ALL_ARMS, **few)


def test_shares_that_are_equally_good_decide_nothing(tmp_path):
    found = of_s_ratios(tmp_path, lambda *_: rise(4))
    m1, m2b = found["M1"], found["M2b"]
    assert m1.verdict == "open" and (m1.measured.low, m1.measured.high) == (0.0, 1.0)
    assert (m2b.measured.ahead, m2b.measured.behind, m2b.measured.open) == (0, 0, 2)
    assert all(choice.answer != "yes" for choice in m2b.choices.values())


def test_censored_runs_decide_nothing(tmp_path):
    """A single run of one condition learns, at S = 1/2; all the others are equally censored."""

    def curve_of(arm: str, level: dict[str, Any], *place: str) -> CurveFunction:
        learns = level.get("s_ratio") == 0.5 and place == CONDITIONS[0]
        return lambda seed, steps: np.where(
            steps < 4 * N_STEPS, 0.0, 0.99 if learns and seed == 0 else 0.3
        )

    found = of_s_ratios(tmp_path, curve_of)
    for claim in ("M1", "M2a", "M2b", "M3", "M4"):
        assert found[claim].verdict == "not tested", claim
        assert "in no condition does the median run" in found[claim].why


def test_levels_that_only_one_arm_has_are_not_compared(tmp_path):
    levels = levels_of("grid_size")[:2]
    plan = write_experiment(
        tmp_path, "grid_size", levels=levels, fidelities=("released",), conditions=CONDITIONS[:1]
    )
    p6b = left_out(tmp_path, plan, lambda e: (e["arm"] == "PPO") != (e["level"] == levels[1]))[
        "P6b"
    ]
    assert p6b.verdict == "not tested" and "fewer than two levels of both arms" in p6b.why


@pytest.mark.parametrize("rates", [(3e-4,), (3e-4, 3e-3)])
def test_p5b_compares_the_same_learning_rates(tmp_path, rates):
    """Both arms learn alike, but PPO ran with these rates only in one condition, in another not."""
    here, whole = CONDITIONS[0], CONDITIONS[2]

    def curve_of(arm: str, level: dict[str, Any], *place: str) -> CurveFunction:
        return rise(3, 0.6 if level["learning_rate"] == 3e-3 else 0.9)

    def keep(entry: dict[str, Any]) -> bool:
        place, rate = (entry["spawn"], entry["prey"]), entry["level"]["learning_rate"]
        return entry["arm"] != "PPO" or place == whole or (place == here and rate in rates)

    how: dict[str, Any] = {"conditions": CONDITIONS[:3], "seeds": 5, "iterations": 10}
    plan = write_experiment(
        tmp_path, "learning_rate", fidelities=("released",), curve_of=curve_of, **how
    )
    p5b = left_out(tmp_path, plan, keep)["P5b"]
    assert p5b.measured is not None and p5b.measured.value == 0
    assert list(p5b.measured.conditions) == [" ".join(whole)]


def test_shares_with_other_budgets_are_not_compared(tmp_path):
    """Runs that never learn count with their last step, so a shorter cell would look better."""

    def more_of(arm: str, level: dict[str, Any], *place: str) -> dict[str, Any]:
        return {"iterations": 5 if level.get("s_ratio") == 0.6 else 20}

    def never_at_0_6(arm: str, level: dict[str, Any], *place: str) -> CurveFunction:
        return rise(30 if level["s_ratio"] == 0.6 else 8)

    found = judged(
        tmp_path, "s_ratio", never_at_0_6, conditions=CONDITIONS[:2], more_of=more_of,
        arms=arms_of("s_ratio"),
    )  # fmt: skip
    for claim in ("M1", "M3"):
        assert found[claim].verdict == "not tested"
        assert f"cells of {5 * N_STEPS:,} steps and of {20 * N_STEPS:,}" in found[claim].why


def test_what_a_diverged_run_does_not_do_is_not_saved(tmp_path):
    few: dict[str, Any] = {"fidelities": ("released",), "conditions": CONDITIONS[:2], "seeds": 6}
    path = second_paper(tmp_path, "stop_her", **few) / "runs.parquet"
    saved = partial(measured, tmp_path, "saved_after", column="updates")
    whole = saved()
    runs = pd.read_parquet(path)
    switches = runs[runs["switch_step"].notna()].groupby("seed").size()
    runs.loc[runs["seed"] == switches[switches == 2].index[0], "ended"] = "diverged"
    runs.to_parquet(path)
    assert saved().n_seeds == whole.n_seeds - 1
    here = " ".join(CONDITIONS[0])
    runs.loc[runs["condition"] == here, "ended"] = "diverged"
    runs.to_parquet(path)
    found = saved()
    assert found.n_conditions == 1 and found.missing == [f"{here}: {CUT}"]
    runs.assign(ended="diverged").to_parquet(path)
    with pytest.raises(Untested, match=CUT):
        saved()


def test_arms_with_fewer_steps_are_named(tmp_path):
    def more_of(arm: str, *place: Any) -> dict[str, Any]:
        return {"iterations": 5 if arm == "PPO" else 20}

    found = judged(
        tmp_path, "algorithms", lambda *_: rise(4), conditions=CONDITIONS[:2], more_of=more_of
    )
    assert found["P4"].measured.missing == found["P2a"].measured.missing != []


def test_without_one_of_the_rivals_nobody_is_first(tmp_path):
    levels: dict[str, Any] = {"levels": [{}], "fidelities": ("released",), "iterations": 20}
    plan = write_experiment(
        tmp_path, "algorithms", arms=ALL_ARMS, conditions=CONDITIONS[:2], seeds=5, **levels
    )
    here, every = " ".join(CONDITIONS[0]), plan.read_text()
    found = left_out(tmp_path, plan, lambda e: e["arm"] != "SAC-HER" or e["condition"] == here)
    for claim in ("P1", "P3a"):
        measured = found[claim].measured
        assert measured.n_conditions == 1 and {*measured.conditions} <= {here}
    found = left_out(tmp_path, plan, lambda entry: entry["arm"] != "SAC-HER")
    for claim in ("P1", "P3a"):
        assert found[claim].verdict == "not tested" and "no results of SAC-HER" in found[claim].why
    assert found["P2a"].verdict != "not tested"
    plan.write_text(every)
    found = left_out(tmp_path, plan, lambda entry: entry["arm"] != "PPO")  # no rival of P3a
    assert found["P3a"].verdict != "not tested", found["P3a"].why


def test_without_sac_nobody_s_return_is_the_highest(tmp_path):
    """Not even among all arms of an experiment that has none of SAC without hindsight."""
    summarised(
        tmp_path, "papers_network", seeds=5, iterations=20, fidelities=("described",),
        curve_of=lambda *_: rise(4), conditions=CONDITIONS[:2],
        arms=arms_of("papers_network"), levels=[{}],
    )  # fmt: skip
    with pytest.raises(Untested, match="SAC or SAC-HER is missing in papers_network"):
        measured(
            tmp_path, "highest", "described", tie=0.02, experiment="papers_network",
            column="coarse_max_median_return",
        )  # fmt: skip


def test_p5a_counts_the_rates_of_both_arms(tmp_path):
    plan = write_experiment(
        tmp_path, "learning_rate", fidelities=("released",), conditions=CONDITIONS[:2], seeds=5,
        iterations=10, curve_of=lambda *_: rise(3),
    )  # fmt: skip
    two = {3e-4, 3e-3}
    found = left_out(
        tmp_path, plan, lambda e: e["arm"] != "PPO" or e["level"]["learning_rate"] in two
    )
    words = found["P5a"].measured.words
    assert words["pairs"] == words["ppo"] == words["her"] == 2 * len(two)
    found = left_out(
        tmp_path, plan, lambda e: e["arm"] != "PPO" or e["level"]["learning_rate"] == 3e-4
    )
    assert found["P5a"].verdict == "not tested" and "two learning rates" in found["P5a"].why


def test_repeated_timings_widen_an_interval(tmp_path):
    few: dict[str, Any] = {"fidelities": ("released",), "conditions": CONDITIONS[:4]}
    second_paper(tmp_path, "stop_her", seeds=8, **few)
    saved = partial(measured, tmp_path, "saved_after", column="updates")
    of_seeds, wider = saved(), saved(timing_sd=0.02, timings=5)
    timing = 2.776 * 0.02 / np.sqrt(4)  # four conditions, each with one timing; t of 4
    assert of_seeds.low <= of_seeds.value == wider.value <= of_seeds.high
    assert wider.value - wider.low == pytest.approx(
        np.hypot(of_seeds.value - of_seeds.low, timing), rel=1e-3
    )
    assert wider.high - wider.value == pytest.approx(
        np.hypot(of_seeds.high - of_seeds.value, timing), rel=1e-3
    )


def test_the_share_of_a_sum(tmp_path):
    """A run counts by what it would have spent; the interval is the ratio's bootstrap."""
    few: dict[str, Any] = {"fidelities": ("released",), "conditions": CONDITIONS[:4]}
    path = second_paper(tmp_path, "stop_her", seeds=8, **few) / "seed_curves.parquet"
    evidence = Evidence(tmp_path / TABLES, "released")
    rng = np.random.default_rng(0)
    table = pd.read_parquet(path)
    of_run = table.groupby(["arm", "condition", "seed"]).ngroup()
    pace = rng.uniform(0.5, 2, of_run.max() + 1)
    evidence.read[path] = table.assign(updates=table["updates"] * pace[of_run])
    curves = evidence.table("stop_her", "seed_curves.parquet", "subject", "baseline")
    runs = evidence.table("stop_her", "runs.parquet", "subject").set_index(["condition", "seed"])
    spent = []
    for place, own in curves.groupby(["condition", "seed"]):
        stopped, always = (
            own[own["role"] == role].set_index("env_steps")["updates"]
            for role in ("subject", "baseline")
        )
        since, last = runs["switch_step"][place], min(stopped.index[-1], always.index[-1])
        if np.isfinite(since) and last > since:
            spent.append((place[0], *(one[last] - one[since] for one in (stopped, always))))
    sums = pd.DataFrame(spent, columns=["condition", "stopped", "always"])

    def share(rows: pd.DataFrame) -> float:
        after, before = rows.groupby("condition").mean().sum()
        return float(1 - after / before)

    found = MEASURES["saved_after"](evidence, column="updates", pooled=True)
    assert len(sums) > 8 and found.value == pytest.approx(share(sums))
    by_condition = sums.groupby("condition")
    drawn = [share(by_condition.sample(frac=1, replace=True, random_state=rng))
             for _ in range(1000)]  # fmt: skip
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert found.high - found.low == pytest.approx(high - low, rel=0.15)


def test_a_verdict_on_fewer_cells_than_were_planned_is_none(tmp_path):
    """The cells are named; without any of its own, a fidelity is judged by what is missing."""
    plan = write_experiment(
        tmp_path, "algorithms", arms=ALL_ARMS, conditions=CONDITIONS[:2], seeds=5, iterations=6
    )

    def judge() -> dict[tuple[str, str], Verdict]:
        summarise(plan, tmp_path)
        return {(v.claim, v.fidelity): v for v in evaluate(plan.parent.parent)}

    whole, files = judge(), sorted(tmp_path.glob("results/cells/*/*-her-described.parquet"))
    assert whole["P1", "described"].verdict != "not tested"
    lost = [path for path in files if "sac" in path.name]
    for path in lost:
        path.unlink()
    found, names = judge(), [f"{path.parent.name}/{path.stem}" for path in lost]
    for claim in ("P1", "P3a"):
        assert found[claim, "described"].verdict == "not tested"
        assert found[claim, "described"].why == (
            f"2 cells are missing of algorithms: {names[1]}, {names[0]}"
        )
        assert found[claim, "released"].measured == whole[claim, "released"].measured
    # It asks for PPO and PPO-HER alone.
    assert found["P4", "described"].measured == whole["P4", "described"].measured
    for path in set(files) - set(lost):
        path.unlink()
    assert "cells are missing of algorithms" in judge()["P4", "described"].why


def test_where_nothing_is_learned_nothing_is_tested(tmp_path):
    """All arms being equally bad is no evidence for any."""
    few: dict[str, Any] = {"conditions": CONDITIONS[:1], "iterations": 4}
    for name in ("learning_rate", "agent_size", "grid_size", "dimensions"):
        judged(tmp_path, name, lambda *_: constant(0.0), **few)
    for name, arm in (("s_ratio", "MEHER"), ("targeted", "targeted MEHER")):
        judged(tmp_path, name, lambda *_: constant(0.0), **few, arms=[arm], levels=S_RATIOS)
    judged(tmp_path, "stop_her", lambda *_: constant(0.0), **few, arms=("PPO-HER", "PPO-HER-2-PPO"))
    found = judged(tmp_path, "algorithms", lambda *_: constant(0.0), **few, arms=ALL_ARMS)
    assert {v.verdict for v in found.values()} == {"not tested"}
    assert found["P1"].why == "no arm learns in any condition"
    assert found["P2a"].why == "no run reaches a training return of 0.8"
    none = "in no condition does the median run reach a training return of 0.8"
    assert {found[claim].why for claim in ("M1", "M2a", "M2b", "M3", "M4")} == {none}
    assert found["P6a"].why == "one of the two never succeeds at the easiest level"


@pytest.mark.parametrize(
    ("push", "reach", "seeds", "steps", "verdict"),
    [(0.95, 0.95, 4, 200_000, "no"), (0.1, 0.8, 4, 200_000, "no"),
     (0.1, 0.95, 3, 200_000, "not tested"), (0.1, 0.95, 4, 199_999, "not tested")],
)  # fmt: skip
def test_fetch_reach_alone_is_learned(tmp_path, push, reach, seeds, steps, verdict):
    """From tables of what the judge reads; the published ones are judged yes."""
    tasks = {"FetchReach": reach, "FetchPush": push, "FetchSlide": 0.0, "FetchPickAndPlace": 0.0}
    cells = [
        {"fidelity": "released", "arm": arm, "role": role, "level": f"weight_decay={x:g}",
         "task": task, "n_seeds": seeds, "budget": steps, "final_evaluation_success": 0.0,
         "max_success": success if x == 1e-2 and role == "subject" else 0.05}
        for arm, role in (("PPO", "baseline"), ("PPO-HER", "subject"))
        for task, success in tasks.items() for x in (1e-2, 1e-3, 1e-4, 1e-5)
    ]  # fmt: skip
    folder = tmp_path / "fetch"
    folder.mkdir()
    pd.DataFrame(cells).to_csv(folder / "summary.csv", index=False)
    runs = pd.DataFrame([cell | {"seed": seed} for cell in cells for seed in range(seeds)])
    runs.to_parquet(folder / "runs.parquet")
    p7 = next(v for v in evaluate(tmp_path) if v.claim == "P7")
    assert p7.verdict == verdict
    if verdict == "no":  # PPO had as many steps at each weight decay
        assert p7.measured.words["ppo"] == "learns 0"
        fewer = [x | {"budget": 100} if x["role"] == "baseline" and "0.01" not in x["level"] else x
                 for x in cells]  # fmt: skip
        pd.DataFrame(fewer).to_csv(folder / "summary.csv", index=False)
        p7 = next(v for v in evaluate(tmp_path) if v.claim == "P7")
        assert p7.measured.words["ppo"] == "learns 0, tried with fewer weight decays"
    if verdict == "not tested":
        lacking = "weight decays that have 4 runs of 200,000 steps, as the rule needs"
        assert p7.why.startswith(f"{lacking}: FetchReach 0 of 4")


def test_what_is_too_little_to_compare_is_said(tmp_path):
    few: dict[str, Any] = {"conditions": CONDITIONS[:1], "seeds": 6, "arms": ["MEHER"]}
    found = judged(tmp_path, "s_ratio", lambda *_: rise(4), levels=S_RATIOS, **few)
    assert found["M2a"].why == "the experiment algorithms has no results"
    found = judged(tmp_path / "two", "s_ratio", lambda *_: rise(4), levels=S_RATIOS[:2], **few)
    assert found["M1"].why == found["M3"].why == "only 2 S have results"


def test_ppo_her_counts_as_far_as_meher_went(tmp_path):
    """Trained for 40 rollouts, it learns after 30; MEHER had 20 and learned after 4."""
    few: dict[str, Any] = {"conditions": CONDITIONS[:1], "seeds": 6}
    judged(tmp_path, "algorithms", lambda *_: rise(30), arms=["PPO-HER"], iterations=40, **few)
    few |= {"arms": ["MEHER"], "levels": S_RATIOS}
    m2a = judged(tmp_path, "s_ratio", lambda *_: rise(4), **few)["M2a"].measured
    assert m2a.value == pytest.approx(np.log2(20 / 4))


def test_lean_by_hand():
    # 0.2 has no mirror image and 0.5 is its own: neither counts.
    levels = np.array([0.0, 0.1, 0.2, 0.5, 0.9, 1.0])
    values = np.array([0.1, 0.2, 9.0, 9.0, 0.5, 0.3])
    assert lean(levels, values) == pytest.approx(0.4 - 0.15)
    np.testing.assert_allclose(lean(levels, np.stack([values, 2 * values])), [0.25, 0.5])
    assert np.isnan(lean(levels[2:4], values[2:4]))


# --- levels of what an experiment varies, and arms, are no seeds ----------------------------------

RATES = levels_of("learning_rate")
GAMMAS = [{"gamma": gamma} for gamma in (0.9, 0.99)]
FEW: dict[str, Any] = {"fidelities": ("released",), "conditions": CONDITIONS[:2], "iterations": 6}


def test_a_difference_is_the_mean_over_levels_of_each_seed(tmp_path):
    """Two seeds at three levels are two seeds, too few for an interval."""
    gains = {0.003: 0.0, 0.0003: 0.3, 3e-05: 0.6}

    def curve_of(arm: str, level: dict[str, Any], *_: str) -> Any:
        gain = gains[level["learning_rate"]] * (arm == "PPO-HER")
        return lambda seed, steps: np.full(steps.shape, 0.2 + gain + 0.1 * seed * (gain > 0))

    summarised(tmp_path, "learning_rate", seeds=2, levels=RATES, curve_of=curve_of, **FEW)
    column = {"experiment": "learning_rate", "column": "final_evaluation_success"}
    found = measured(tmp_path, "difference", **column)
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
        measured(with_gammas, measure, **arguments)


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
        measured(tmp_path, "difference", experiment="mine", column="success_auc")


def test_several_values_of_a_run_are_refused_whoever_measures():
    runs = pd.DataFrame({"condition": "one", "seed": [0, 1, 1], "auc": [1.0, 2.0, 3.0]})
    once = runs[:2]
    for pair in ((runs, once), (once, runs)):
        with pytest.raises(Untested, match="condition one, seed 1 has several values"):
            paired(*pair, "auc")
    with pytest.raises(Untested, match="condition one, seed 1 has several values"):
        of_values(runs.set_index(RUN)["auc"])
