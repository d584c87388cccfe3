"""Verdicts on MEHER's claims, on results whose verdict is known."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hindsight.analysis.summarise import read_table
from hindsight.claims import meher
from hindsight.claims.meher import Trained, area_within, best_text, targeted_gains
from hindsight.claims.verdicts import Evidence, Verdict
from tests.analysis.synthetic import (
    CONDITIONS,
    N_STEPS,
    CurveFunction,
    keyed,
    summarise,
    what_it_is,
    where_it_is,
    write_experiment,
)
from tests.claims.said import measured, note

ITERATIONS = 20
S = tuple(round(0.1 * i, 1) for i in range(11))
STOPS = {"hindsight": {"strategy": "final", "until_success": 0.5}}


def rise(iteration: float, top: float = 0.9) -> CurveFunction:
    """Success 0 until an iteration, then `top`, a little more from seed to seed."""
    return lambda seed, env_steps: np.where(
        env_steps < iteration * N_STEPS, 0.0, top + 0.002 * seed
    )


def by_s_ratio(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
    """Fastest at S = 0.6, and the slower the further from it; PPO-HER an iteration later."""
    if arm == "PPO-HER":
        return rise(5)
    return rise(4 + 10 * abs(level["s_ratio"] - 0.6))


def written(root: Path, experiment: str, curve_of: Any = by_s_ratio, **kwargs: Any) -> Path:
    """An experiment and its tables; the folder of its source."""
    settings = {"fidelities": ("released",), "seeds": 5, "iterations": ITERATIONS}
    plan = write_experiment(root, experiment, curve_of=curve_of, **(settings | kwargs))
    summarise(plan, root)
    return plan.parent.parent


def of_s_ratio(root: Path, curve_of: Any = by_s_ratio, **kwargs: Any) -> Path:
    levels = [{"s_ratio": s} for s in kwargs.pop("s", S)]
    return written(root, "s_ratio", curve_of, arms=("MEHER",), levels=levels, **kwargs)


def judged(tables: Path, claim: str, fidelity: str = "released") -> Verdict:
    verdict = meher.VERDICTS[claim](Evidence(tables, fidelity))
    assert verdict.claim == claim and verdict.fidelity == fidelity
    return verdict


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All conditions, S and five seeds, with PPO-HER in another experiment."""
    root = tmp_path_factory.mktemp("whole")
    written(root, "algorithms", arms=("PPO-HER",))
    return of_s_ratio(root)


@pytest.fixture
def editable(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "tables"))


def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(read_table(path)).to_csv(path, index=False)


def test_a_best_s_of_0_6_is_reproduced(whole: Path) -> None:
    m1 = judged(whole, "M1")
    assert m1.verdict == "reproduced"
    assert (m1.effect, m1.low, m1.high) == (0.6, 0.6, 0.6)
    assert (m1.n_seeds, m1.n_conditions) == (5, 12)
    assert "is single-peaked" in measured(m1)
    assert "in 12 of the 12 conditions" in measured(m1)


@pytest.mark.parametrize(
    ("column", "value", "verdict"),
    [
        ("best_level", 0.4, "not reproduced"),
        ("best_level", 0.8, "not reproduced"),
        ("best_level", 0.5, "reproduced"),
        ("low", 0.4, "reproduced"),
        ("low", 0.3, "partly"),
        ("high", 0.9, "partly"),
        ("low", np.nan, "partly"),
        ("single_peaked", False, "partly"),
        ("single_peaked", None, "partly"),
        ("n_levels", 2, "not tested"),
    ],
)
def test_each_part_of_the_rule_on_the_best_s(
    editable: Path, column: str, value: Any, verdict: str
) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        values = table[column].astype(object)
        return table.assign(**{column: [value, *values[1:]]})

    edit(editable / "s_ratio" / "best_level.csv", change)
    assert judged(editable, "M1").verdict == verdict


def test_absent_levels_and_conditions_are_said(tmp_path: Path) -> None:
    tables = of_s_ratio(tmp_path, s=(0.0, 0.3, 0.6, 0.7, 1.0), conditions=CONDITIONS[:2])
    m1, m3 = judged(tables, "M1"), judged(tables, "M3")
    assert m1.verdict == m3.verdict == "partly"
    for verdict in (m1, m3):
        assert "S = 0.1, 0.2, 0.4, 0.5, 0.8, 0.9 absent" in note(verdict)
        assert "2 of 12 conditions" in note(verdict)


def test_what_no_s_learns_is_not_tested(tmp_path: Path) -> None:
    tables = of_s_ratio(
        tmp_path, lambda *_: rise(3, 0.1), s=(0.0, 0.5, 1.0), conditions=CONDITIONS[:1]
    )
    for claim in ("M1", "M2", "M3"):
        assert judged(tables, claim).verdict == "not tested"
    assert "no arm reaches" in measured(judged(tables, "M1"))


def test_without_results_nothing_is_tested(tmp_path: Path) -> None:
    for claim in meher.VERDICTS:
        assert judged(tmp_path, claim, "described").verdict == "not tested"


def test_meher_at_its_best_beats_ppo_her(whole: Path) -> None:
    m2 = judged(whole, "M2")
    assert m2.verdict == "reproduced"
    # One of twenty iterations more at a success rate of 0.9 and a little.
    assert m2.effect == pytest.approx((0.9 + 0.002 * 2) / 20, rel=1e-5)
    assert m2.p_value == pytest.approx(2 / 2**12)
    assert "ahead in 12 and behind in 0 of 12" in measured(m2)
    assert "seeds (S = 0.6)" in measured(m2)


def test_the_best_s_is_not_compared_on_the_seeds_that_chose_it(tmp_path: Path) -> None:
    def lucky(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        """Even seeds happen to be fast at S = 0.3, odd ones at 0.7; no S is better."""

        def curve(seed: int, env_steps: np.ndarray) -> np.ndarray:
            favoured = arm == "MEHER" and level["s_ratio"] == (0.7 if seed % 2 else 0.3)
            return rise(6.0 if favoured else 8.0)(seed, env_steps)

        return curve

    small = {"conditions": CONDITIONS[:1], "seeds": 8}
    written(tmp_path, "stop_her", lucky, arms=("PPO-HER",), **small)
    tables = of_s_ratio(tmp_path, lucky, s=(0.0, 0.3, 0.5, 0.7, 1.0), **small)
    m2 = judged(tables, "M2")
    assert "half of the seeds (S = 0.3 and S = 0.7)" in measured(m2)
    assert m2.effect == 0.0
    assert m2.verdict == "not reproduced"
    # On the seeds that chose it, either S is two iterations earlier than PPO-HER.
    runs = read_table(tables / "s_ratio" / "runs.parquet").query("s_ratio == 0.3 and seed == 0")
    her = read_table(tables / "stop_her" / "runs.parquet").query("seed == 0")
    assert runs["auc"].item() - her["auc"].item() == pytest.approx(0.9 * 2 / 20, rel=1e-5)


def test_areas_within_a_smaller_budget(tmp_path: Path) -> None:
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return lambda seed, env_steps: np.minimum(1.0, env_steps / ((20 + seed) * N_STEPS))

    small = {"arms": ("PPO-HER",), "conditions": CONDITIONS[:1], "seeds": 3}
    runs, curves = [], []
    for name, iterations in (("short", 16), ("long", 400)):
        tables = written(tmp_path, name, curve_of, iterations=iterations, **small)
        runs.append(read_table(tables / name / "runs.parquet"))
        curves.append(read_table(tables / name / "seed_curves.parquet"))
    # The long runs end early, at 1.3 x 20 iterations: nothing is thinned.
    found = area_within(curves[1], 16 * N_STEPS + 5)
    np.testing.assert_allclose(found, runs[0]["auc"], rtol=1e-6)
    np.testing.assert_allclose(area_within(curves[1], 400 * N_STEPS), runs[1]["auc"], rtol=1e-6)


def test_areas_of_thinned_curves(tmp_path: Path) -> None:
    def slow(seed: int, env_steps: np.ndarray) -> np.ndarray:
        return 0.9 / (1.0 + np.exp(-(env_steps / N_STEPS - 150) / 20))

    tables = written(
        tmp_path, "long", lambda *_: slow, iterations=400, arms=("PPO-HER",),
        conditions=CONDITIONS[:1], seeds=2,
    )  # fmt: skip
    curves = read_table(tables / "long" / "seed_curves.parquet")
    assert len(curves) == 2 * 250
    expected = slow(0, N_STEPS * np.arange(1.0, 201.0)).mean()
    np.testing.assert_allclose(area_within(curves, 200 * N_STEPS), expected, atol=1e-4)


def test_ppo_her_over_more_steps_counts_as_far_as_meher_went(tmp_path: Path) -> None:
    def curves(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return rise(5) if arm == "PPO-HER" else rise(4 if level["s_ratio"] == 0.5 else 15)

    tables = of_s_ratio(tmp_path, curves, s=(0.0, 0.5, 1.0), conditions=CONDITIONS[:1])
    written(tmp_path, "algorithms", curves, arms=("PPO-HER",), conditions=CONDITIONS[:1],
            iterations=80)  # fmt: skip
    same = judged(tables, "M2")
    assert same.effect == pytest.approx((0.9 + 0.004) / 20, rel=1e-4)
    shutil.rmtree(tables / "algorithms")
    written(tmp_path, "stop_her", curves, arms=("PPO-HER",), conditions=CONDITIONS[:1],
            iterations=10)  # fmt: skip
    assert "no results over as many steps" in measured(judged(tables, "M2"))


def test_ppo_her_may_be_in_two_experiments(editable: Path) -> None:
    before = judged(editable, "M2")
    shutil.copytree(editable / "algorithms", editable / "stop_her")
    assert judged(editable, "M2") == before


def test_meher_needs_ppo_her_in_the_same_conditions(editable: Path) -> None:
    path = editable / "algorithms" / "runs.parquet"
    runs = read_table(path)
    runs[runs["prey"] != "static"].to_parquet(path, index=False)
    m2 = judged(editable, "M2")
    assert m2.verdict == "partly"
    assert m2.n_conditions == 10
    assert "PPO-HER has results in 10 of its conditions only" in note(m2)
    shutil.rmtree(editable / "algorithms")
    assert "PPO-HER has no results" in measured(judged(editable, "M2"))


def test_best_text_is_that_of_complete_conditions() -> None:
    rows = [
        ("MEHER", "s_ratio=0.3", "random", "static", 0.2), ("MEHER", "s_ratio=0.6", "random",
         "static", 0.4), ("MEHER", "s_ratio=0.3", "random", "repel", 0.9),
        ("targeted MEHER", "s_ratio=0.3", "random", "static", 1.0),
    ]  # fmt: skip
    table = keyed(pd.DataFrame(rows, columns=["arm", "level", "spawn", "prey", "m_c"]), "s_ratio")
    assert best_text(table, "m_c") == "s_ratio=0.6"
    assert best_text(table.assign(m_c=np.nan), "m_c") == ""


def test_bars_that_lean_right(whole: Path) -> None:
    m3 = judged(whole, "M3")
    assert m3.verdict == "reproduced"
    m_c = read_table(whole / "s_ratio" / "m_c.csv").groupby("s_ratio")["m_c"].mean()
    assert m3.effect == pytest.approx(m_c[S[6] : 1.0].mean() - m_c[0.0:0.4].mean(), abs=1e-6)
    inner = m_c[0.6:0.9].mean() - m_c[0.1:0.4].mean()
    assert f"(without S = 0 and 1: {inner:+.3f})" in measured(m3)
    assert "12 lean to successes and 0 to failures" in measured(m3)
    assert m3.p_value == pytest.approx(2 / 2**12)


def test_a_lean_that_comes_from_s_0_alone_is_partly(editable: Path) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        inner = table["s_ratio"].between(0.05, 0.95)
        return table.assign(m_c=table["m_c"].where(~inner, 1.0 - table["s_ratio"]))

    edit(editable / "s_ratio" / "m_c.csv", change)
    m3 = judged(editable, "M3")
    assert m3.verdict == "partly"
    assert "(without S = 0 and 1: -0.5" in measured(m3)


def test_bars_that_lean_left_are_not_reproduced(tmp_path: Path) -> None:
    def mirrored(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return by_s_ratio(arm, {"s_ratio": 1.0 - level["s_ratio"]}, spawn, prey)

    tables = of_s_ratio(tmp_path, mirrored, s=(0.0, 0.3, 0.5, 0.7, 1.0), conditions=CONDITIONS[:2])
    m3 = judged(tables, "M3")
    assert m3.verdict == "not reproduced"
    assert m3.high < 0


def fabricated(folder: Path, arm: str, auc: float, cell: str, n_conditions: int = 12) -> None:
    """plan.json, summary.csv and runs.parquet of an experiment over all S: four seeds, which learn
    with this area under the curve.
    """
    places = [(s, *condition) for s in S for condition in CONDITIONS[:n_conditions]]
    table = pd.DataFrame(places, columns=["s_ratio", "spawn", "prey"]).assign(arm=arm)
    table = keyed(table, folder.name).assign(**what_it_is(folder.name, arm)["keys"])
    table = table.assign(fidelity="described", max_median_return=0.5, n_seeds=4)
    table["level"] = [f"s_ratio={s:g}" for s in table["s_ratio"]]
    entries = [
        {"fidelity": "described", "arm": arm, "level": {"s_ratio": s},
         **where_it_is(spawn, prey), "cell": f"{cell}-{s}-{spawn}-{prey}"}
        for s, spawn, prey in places
    ]  # fmt: skip
    plan = {"experiment": folder.name, "source": "laptop", "vary": ["s_ratio"], "arms": [arm],
            "entries": entries,
            "preset": {"hidden": [64, 64], "steps": 1000}}  # fmt: skip
    runs = pd.concat([table.assign(seed=i, auc=auc + 0.01 * i) for i in range(4)])
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    table.to_csv(folder / "summary.csv", index=False)
    runs.to_parquet(folder / "runs.parquet", index=False)


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [(0.0, "reproduced"), (-0.1, "reproduced"), (0.03, "partly"), (0.06, "not reproduced")],
)
def test_targeting_that_gains_or_does_not(tmp_path: Path, gain: float, verdict: str) -> None:
    fabricated(tmp_path / "s_ratio", "MEHER", 0.6, "untargeted")
    fabricated(tmp_path / "targeted", "targeted MEHER", 0.6 + gain, "targeted")
    m4 = judged(tmp_path, "M4", "described")
    assert m4.effect == pytest.approx(gain)
    assert "Mean over 10 S" in measured(m4)  # at S = 1 no failures are made
    assert (m4.verdict, m4.n_seeds, m4.n_conditions) == (verdict, 4, 12)


def test_targeting_without_an_interval_is_at_most_partly(tmp_path: Path) -> None:
    fabricated(tmp_path / "s_ratio", "MEHER", 0.6, "untargeted", n_conditions=4)
    fabricated(tmp_path / "targeted", "targeted MEHER", 0.5, "targeted", n_conditions=4)
    m4 = judged(tmp_path, "M4", "described")
    assert m4.verdict == "partly"
    assert np.isnan(m4.low)
    assert "without an interval, not shown to be below" in measured(m4)


def test_runs_that_are_the_same_do_not_test_targeting(tmp_path: Path) -> None:
    fabricated(tmp_path / "s_ratio", "MEHER", 0.6, "same")
    fabricated(tmp_path / "targeted", "targeted MEHER", 0.6, "same")
    m4 = judged(tmp_path, "M4", "described")
    assert m4.verdict == "not tested"
    assert "the same files" in measured(m4)


def test_targeting_at_one_s_where_the_sweep_is_absent(tmp_path: Path) -> None:
    tables = written(
        tmp_path, "stop_her", lambda arm, *_: rise(8 if arm == "MEHER" else 10), seeds=6,
        arms=("PPO-HER", "MEHER", "targeted MEHER"), fidelities=("described",),
        conditions=CONDITIONS[:1],
    )  # fmt: skip
    m4 = judged(tables, "M4", "described")
    assert m4.verdict == "partly"
    assert m4.effect == pytest.approx(-2 / 20 * 0.905, rel=1e-3)
    assert "one S of switching off" in note(m4)


def test_gains_count_where_something_is_learned_and_the_runs_differ() -> None:
    places = [("s_ratio=0.5", "random static"), ("s_ratio=0.5", "random repel"),
              ("s_ratio=0.8", "random static"), ("s_ratio=1", "random static")]  # fmt: skip
    frame = pd.DataFrame(places, columns=["level", "condition"])

    def arm(auc: list[float], top: list[float], same: int) -> Trained:
        cells = {place: f"{i}" if i == same else f"{auc}{i}" for i, place in enumerate(places)}
        return Trained(frame.assign(seed=0, auc=auc), frame.assign(max_median_return=top), cells)

    # Learned by one arm is enough; 0.0 is a success rate of one half.
    targeted = arm([0.5, 0.5, 0.5, 0.5], [0.0, -0.1, 0.9, 0.9], same=2)
    untargeted = arm([0.1, 0.2, 0.3, 0.4], [-1.0, -0.9, 0.9, 0.9], same=2)
    gains = targeted_gains(targeted, untargeted)
    assert gains.to_dict() == {("s_ratio=0.5", "random static", 0): 0.4}


def of_stopping(root: Path, share: float, top: float = 0.9, stuck: str = "", **kwargs: Any) -> Path:
    """stop_her, where PPO-HER-2-PPO saves a share of the time and ends at another success rate;
    PPO-HER is stuck at 0.6 with one prey.
    """

    def more(arm: str, level: Any, spawn: str, prey: str) -> dict[str, Any]:
        if arm == "PPO-HER":
            return {"seconds_per_step": 1e-3}
        switch = {"switch_step": lambda seed: (5 + seed) * N_STEPS, "spec_overrides": STOPS}
        return {"seconds_per_step": 1e-3 * (1 - share)} | switch

    arms = ("PPO-HER", "PPO-HER-2-PPO")

    def curves(arm: str, level: Any, spawn: str, prey: str) -> Any:
        return rise(5, top if arm != "PPO-HER" else 0.6 if prey == stuck else 0.9)

    return written(root, "stop_her", curves, arms=arms, more_of=more, **kwargs)


@pytest.mark.parametrize(
    ("share", "top", "verdict"),
    [
        (0.5, 0.9, "reproduced"),
        (0.5, 0.86, "reproduced"),  # 0.08 of return is within the margin of 0.1
        (0.3, 0.9, "partly"),
        (0.5, 0.84, "not reproduced"),
        (-0.1, 0.9, "not reproduced"),
    ],
)
def test_stopping_saves_time_at_equal_returns(
    tmp_path: Path, share: float, top: float, verdict: str
) -> None:
    m5 = judged(of_stopping(tmp_path, share, top), "M5")
    assert m5.verdict == verdict
    assert m5.effect == pytest.approx(share, abs=1e-5)
    assert m5.low == pytest.approx(share, abs=1e-5)
    assert "0 % (0 to 0 %) fewer minibatch updates" in measured(m5)
    assert f"differs by {2 * (top - 0.9):+.3f}" in measured(m5)
    assert "100% of these runs switch, at the median after 14336 steps" in note(m5)


def test_where_stopping_gains_is_told(tmp_path: Path) -> None:
    m5 = judged(of_stopping(tmp_path, 0.5, stuck="repel", conditions=CONDITIONS), "M5")
    stuck = [prey for _, prey in CONDITIONS].count("repel")
    assert stuck and m5.numbers["gains"] == pytest.approx([0.6] * stuck)


def test_stopping_on_few_seeds_is_at_most_partly(tmp_path: Path) -> None:
    m5 = judged(of_stopping(tmp_path, 0.5, seeds=2, conditions=CONDITIONS[:2]), "M5")
    assert m5.verdict == "partly"
    assert np.isnan(m5.low)
    assert "only 2 seeds" in note(m5)


def test_runs_that_never_switch_test_nothing(tmp_path: Path) -> None:
    tables = written(
        tmp_path, "stop_her", lambda *_: rise(5), arms=("PPO-HER", "PPO-HER-2-PPO"), seeds=2,
        conditions=CONDITIONS[:1],
        more_of=lambda *_: {"switch_step": lambda seed: None, "spec_overrides": STOPS},
    )  # fmt: skip
    m5 = judged(tables, "M5")
    assert m5.verdict == "not tested"
    assert "often enough to switch" in measured(m5)
