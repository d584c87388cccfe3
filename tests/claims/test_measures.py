"""Verdicts on results whose verdict is known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.claims import Verdict, evaluate, row_of, write_claims
from hindsight.report import words
from tests.analysis.synthetic import (
    CONDITIONS,
    N_STEPS,
    CurveFunction,
    constant,
    summarise,
    write_experiment,
)
from tests.figures import second_paper

Curves = Callable[[str, dict[str, Any], str, str], CurveFunction]
ALL_ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")


def rise(iteration: float, top: float = 0.99) -> CurveFunction:
    """Success 0 until an iteration, then `top`; below 1, so that no run ends early."""
    return lambda seed, env_steps: np.where(env_steps < iteration * N_STEPS, 0.0, top)


def judged(
    root: Path, experiment: str, curve_of: Curves, *, seeds: int = 5, **kwargs: Any
) -> dict[str, Verdict]:
    """The verdicts by claim after one experiment."""
    kwargs = {"fidelities": ("released",), "iterations": 20} | kwargs
    plan = write_experiment(root, experiment, seeds=seeds, curve_of=curve_of, **kwargs)
    summarise(plan, root)
    return {verdict.claim: verdict for verdict in evaluate(plan.parent.parent)}


def by_arm(**curves: CurveFunction) -> Curves:
    return lambda arm, level, spawn, prey: curves[arm.replace("-", "_")]


def says(verdict: Verdict) -> str:
    return words.says(row_of(verdict))


def test_without_results_nothing_is_tested(tmp_path: Path) -> None:
    verdicts = write_claims(tmp_path)
    assert {v.verdict for v in verdicts} == {"not tested"}
    assert all("has no results" in v.why for v in verdicts)
    rows = json.loads((tmp_path / "claims.json").read_text())
    assert len(rows) == len(verdicts) and rows[0]["measured"]["value"] is None
    assert not (tmp_path / "answers.json").exists()


def test_a_clear_winner(tmp_path: Path) -> None:
    curves = by_arm(PPO=rise(12, 0.95), PPO_HER=rise(4), SAC=rise(8, 0.95), SAC_HER=rise(10, 0.4))
    found = judged(tmp_path, "algorithms", curves, arms=ALL_ARMS)
    names = ("P1", "P2a", "P2b", "P3a", "P3b")
    assert [found[name].verdict for name in names] == ["yes"] * 5
    p1, p2a, p2b, p3a, _ = (found[name].measured for name in names)
    assert (p1.value, p1.low, p1.high, p1.ahead, p1.words["alone"]) == (12, 12, 12, 12, 12)
    assert p2a.value == pytest.approx(np.log2(12 / 4))
    assert (p2a.ahead, p2a.behind, p2a.open, p2a.n_conditions, p2a.n_seeds) == (12, 0, 0, 12, 5)
    assert p2b.words["compared"] == 0 and np.isnan(p2b.value)  # it never learns
    assert p2b.words["never"] == p2b.words["runs"] == 60
    # In minutes PPO-HER's steps cost 1.6 times SAC's.
    assert p3a.value == pytest.approx(np.log2(8 / 6.4), abs=1e-6)
    assert "PPO needs 3.00 (3.00 to 3.00) times its steps" in says(found["P2a"])


def test_a_race_that_is_won_by_default_alone_is_not_won(tmp_path: Path) -> None:
    """PPO never learns in nine conditions; in the three others it is sooner."""

    def curve_of(arm: str, level: Any, spawn: str, prey: str) -> CurveFunction:
        learns = spawn == "apart" and prey in ("static", "random", "attract")
        return rise(8) if arm != "PPO" else rise(6) if learns else constant(0.0)

    found = judged(tmp_path, "algorithms", curve_of)
    p2 = found["P2a"]
    assert p2.verdict == "no"
    assert (p2.measured.ahead, p2.measured.behind) == (9, 3)
    assert p2.measured.value == pytest.approx(np.log2(6 / 8))
    assert found["P2b"].verdict == "not tested" and "reference" in found["P2b"].why


def test_a_rival_that_stopped_before_leaves_the_condition_open(tmp_path: Path) -> None:
    """SAC-HER is trained for 5 rollouts' worth of steps; PPO-HER learns after 3, or after 8."""

    def curve_of(arm: str, level: Any, spawn: str, prey: str) -> CurveFunction:
        return rise(3 if spawn == "random" else 8) if arm == "PPO-HER" else constant(0.5)

    def more_of(arm: str, *_: Any) -> dict[str, Any]:
        sac = {"spec_overrides": {"algorithm.name": "sac"}, "every": 512, "iterations": 20}
        return sac if arm == "SAC-HER" else {}

    found = judged(tmp_path, "algorithms", curve_of, more_of=more_of, arms=("PPO-HER", "SAC-HER"))
    m = found["P2b"].measured
    assert (m.ahead, m.behind, m.open) == (6, 0, 6)
    assert found["P2b"].verdict == "no"
    assert m.missing == [
        "PPO-HER had 5 seeds and 40 960 steps; SAC-HER had 5 seeds and 10 240 steps"
    ]


def test_equal_to_the_highest_is_highest(tmp_path: Path) -> None:
    def curve_of(arm: str, level: Any, spawn: str, prey: str) -> CurveFunction:
        worse = (spawn, prey) in (("random", "repel"), ("apart", "repel"), ("apart", "static"))
        return constant(0.9 - 0.02 * (worse and arm == "PPO-HER"))

    p1 = judged(tmp_path, "algorithms", curve_of, arms=ALL_ARMS)["P1"]
    assert (p1.measured.value, p1.measured.words["alone"], p1.verdict) == (9, 0, "no")
    assert p1.measured.conditions["random repel"] == pytest.approx(-0.04)


@pytest.mark.parametrize(("sign", "verdict"), [(1, "yes"), (-1, "no")])
def test_stability_that_falls_with_entropy(tmp_path: Path, sign: int, verdict: str) -> None:
    """Return is lost from the middle on, while entropy falls, or rises."""

    def falls(seed: int, steps: np.ndarray) -> np.ndarray:
        part = steps / steps[-1]
        return np.where(part < 0.5, part, 1 - part) * 1.8 + 0.01 * seed

    def more_of(*_: Any) -> dict[str, Any]:
        return {"extra": lambda seed, steps: {"policy_entropy": -sign * steps / steps[-1]}}

    few = {"conditions": CONDITIONS[:3], "more_of": more_of}
    p8 = judged(tmp_path, "algorithms", lambda *_: falls, **few)["P8"]
    assert p8.verdict == verdict
    assert p8.measured.value == pytest.approx(sign, abs=0.05)
    assert (p8.measured.n_conditions, p8.measured.words["losing"]) == (3, 15)


def test_where_no_return_is_lost_stability_is_not_tested(tmp_path: Path) -> None:
    steady = judged(tmp_path, "algorithms", lambda *_: rise(3), conditions=CONDITIONS[:1])["P8"]
    assert steady.verdict == "not tested" and "in no condition do five runs lose 0.05" in steady.why


def test_a_planned_cell_that_is_missing_is_named(tmp_path: Path) -> None:
    plan = write_experiment(
        tmp_path, "algorithms", arms=ALL_ARMS, conditions=CONDITIONS[:2], seeds=5, iterations=6,
        fidelities=("released",),
    )  # fmt: skip
    (tmp_path / "results/cells/algorithms-random-static/sac-any.parquet").unlink()
    summarise(plan, tmp_path)
    found = {v.claim: v for v in evaluate(plan.parent.parent)}
    for claim in ("P1", "P3a"):
        assert (
            found[claim].why == "1 cell is missing of algorithms: algorithms-random-static/sac-any"
        )
    assert found["P4"].verdict != "not tested"  # it asks for PPO and PPO-HER alone


def test_where_nothing_is_learned_nothing_is_tested(tmp_path: Path) -> None:
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
    assert found["P2a"].why == found["M1"].why == "no run reaches a training return of 0.8"
    assert found["P6a"].why == "one of the two never succeeds at the easiest level"


def test_four_seeds_have_no_interval(tmp_path: Path) -> None:
    curves = by_arm(PPO=rise(12, 0.95), PPO_HER=rise(4))
    found = judged(tmp_path, "algorithms", curves, seeds=4, conditions=CONDITIONS[:2])
    for name in ("P2a", "P4"):
        why = "4 seeds, and an interval needs five"
        assert (found[name].verdict, found[name].why) == ("not tested", why)


@pytest.mark.parametrize(
    ("push", "reach", "seeds", "steps", "verdict"),
    [(0.1, 0.95, 4, 200_000, "yes"), (0.95, 0.95, 4, 200_000, "no"), (0.1, 0.8, 4, 200_000, "no"),
     (0.95, 0.8, 4, 200_000, "no"), (0.1, 0.95, 3, 200_000, "not tested"),
     (0.1, 0.95, 4, 199_999, "not tested")],
)  # fmt: skip
def test_fetch_reach_alone_is_learned(
    tmp_path: Path, push: float, reach: float, seeds: int, steps: int, verdict: str
) -> None:
    """From tables of what the judge reads."""
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
    if verdict == "not tested":
        assert p7.why.startswith("weight decays with 4 runs of 200 000 steps: FetchReach 0 of 4")
    else:
        assert p7.measured.words["ppo"] == 0 and p7.measured.n_seeds == 4


def by_s(best: float, steep: float = 20.0) -> Curves:
    """MEHER learns later the further S is from `best`; of S = 0 nothing is learned."""

    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        s = level["s_ratio"]
        return rise(round(4 + steep * abs(s - best)) if s else 99)

    return curve_of


S_RATIOS = [{"s_ratio": round(0.1 * i, 1)} for i in range(11)]


def of_s(root: Path, curve_of: Curves, **kwargs: Any) -> dict[str, Verdict]:
    more = {"arms": ["MEHER"], "levels": S_RATIOS, "conditions": CONDITIONS[:3], "seeds": 6}
    return judged(root, "s_ratio", curve_of, **(more | kwargs))


def test_the_best_share_of_successes(tmp_path: Path) -> None:
    found = of_s(tmp_path, by_s(0.7))
    m1, m3 = found["M1"], found["M3"]
    assert (m1.verdict, m1.measured.value, m1.measured.low) == ("yes", 0.7, 0.7)
    assert m1.measured.words == {"flat": "no other S", "more": "10 %", "m_c": "0.7"}
    # Steps in rollouts at S = 0.1, ..., 0.9: 16, 14, 12, 10, 8, 6, 4, 6, 8.
    expected = np.mean(np.log2([16 / 8, 14 / 6, 12 / 4, 10 / 6]))
    assert m3.verdict == "yes" and m3.measured.value == pytest.approx(expected)
    beside = m3.beside["with S = 0 and 1"]
    ends = np.log2(20 / 10)  # at S = 0 and 1
    assert beside is not None and beside.value == pytest.approx((4 * expected + ends) / 5)
    left = of_s(tmp_path / "left", by_s(0.3), conditions=CONDITIONS[:1])
    assert (left["M1"].verdict, left["M3"].verdict) == ("no", "no")
    assert left["M3"].measured.value < 0
    few = of_s(tmp_path / "few", by_s(0.7), levels=S_RATIOS[:2], conditions=CONDITIONS[:1])
    assert few["M1"].why == few["M3"].why == "only 2 S have results"


def test_meher_beside_ppo_her(tmp_path: Path) -> None:
    """MEHER needs 4 rollouts at its best; PPO-HER 8 in one of three conditions, 3 in two."""
    her = write_experiment(
        tmp_path, "algorithms", arms=("PPO-HER",), conditions=CONDITIONS[:3], seeds=6,
        fidelities=("released",), iterations=40,
        curve_of=lambda arm, level, spawn, prey: rise(8 if prey == "static" else 3),
    )  # fmt: skip
    summarise(her, tmp_path)
    found = of_s(tmp_path, by_s(0.6))
    expected = (np.log2(8 / 4) + 2 * np.log2(3 / 4)) / 3
    assert found["M2a"].measured.value == pytest.approx(expected)
    assert found["M2a"].measured.words == {"s": "0.6"}
    assert found["M2a"].verdict == "yes"
    m2b = found["M2b"]
    assert (m2b.measured.value, m2b.measured.behind, m2b.verdict) == (1, 2, "no")
    alone = of_s(tmp_path / "alone", by_s(0.6), conditions=CONDITIONS[:1])["M2a"]
    assert alone.why == "PPO-HER has no results over as many steps"


def test_ppo_her_counts_as_far_as_meher_went(tmp_path: Path) -> None:
    """Trained for 40 rollouts, it learns after 30; MEHER had 20 and learned after 4."""
    her = write_experiment(
        tmp_path, "algorithms", arms=("PPO-HER",), conditions=CONDITIONS[:3], seeds=6,
        fidelities=("released",), iterations=40, curve_of=lambda *_: rise(30),
    )  # fmt: skip
    summarise(her, tmp_path)
    assert of_s(tmp_path, by_s(0.6))["M2a"].measured.value == pytest.approx(np.log2(20 / 4))


def test_runs_that_are_the_same_do_not_test_targeting(tmp_path: Path) -> None:
    for name in ("s_ratio", "targeted"):
        folder = second_paper.write(tmp_path, name, CONDITIONS[:1], levels=S_RATIOS[::2])
    found = {(v.claim, v.fidelity): v for v in evaluate(folder.parent)}
    assert "the same files" in found["M4", "released"].why
    assert found["M4", "described"].verdict != "not tested"


def test_what_switching_off_saves(tmp_path: Path) -> None:
    """The same runs until the switch after rollout 5 of 20; then half of the updates."""

    def more_of(arm: str, *_: Any) -> dict[str, Any]:
        stops = arm == "PPO-HER-2-PPO"

        def extra(seed: int, steps: np.ndarray) -> dict[str, np.ndarray]:
            cost = np.where(stops & (steps > 5 * N_STEPS), 1.0, 2.0)
            return {"updates": 320 * cost, "cpu_seconds": np.cumsum(cost)}

        overrides = {"hindsight": {"until_success": 0.5}} if stops else {}
        return {"extra": extra, "switch_step": lambda seed: 5 * N_STEPS if stops else None,
                "spec_overrides": overrides}  # fmt: skip

    found = judged(
        tmp_path, "stop_her", lambda *_: rise(3), arms=("PPO-HER", "PPO-HER-2-PPO"),
        conditions=CONDITIONS[:3], more_of=more_of,
    )  # fmt: skip
    assert [found[name].verdict for name in ("M5a", "M5b", "M5c")] == ["yes"] * 3
    for name in ("M5b", "M5c"):
        assert found[name].measured.value == pytest.approx(0.5)
        assert found[name].measured.words["whole"] == pytest.approx(0.5 * 15 / 20)
    assert found["M5a"].measured.value == pytest.approx(0.0, abs=1e-6)
