"""The headlines, computed once more from the published cells: plain pandas, written from the
papers' definitions (PPO-HER section 4, MEHER section 4) and not from the code.

Returns lie in [-1, 1]; a run that ended keeps its last value; scaled: (return + 1) / 2; time to
learn: where the median over seeds first has 0.95 of its own scaled maximum.  Files hold single
precision, hence EPSILON.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from hindsight.analysis.summarise import read_table
from hindsight.claims import Verdict, evaluate
from hindsight.specs.config import load
from hindsight.specs.plan import Plan

ROOT = Path(__file__).parents[2]
EPSILON = 1e-6
Curves = dict[tuple[str, str, str, str], pd.DataFrame]  # fidelity, arm, level, condition


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.of(load(ROOT / "config.yaml", {"results": "published"}))


@pytest.fixture(scope="module")
def tables(published_project: Path) -> Path:
    """Of the published results, as the pipeline makes them."""
    return published_project / "results/tables/published"


@pytest.fixture(scope="module")
def verdicts(tables: Path) -> dict[tuple[str, str], Verdict]:
    return {(v.claim, v.fidelity): v for v in evaluate(tables)}


def curves_of(plan: Plan, experiment: str) -> Curves:
    """Returns over steps, a column per seed, to the end of the budget, of every cell there is."""
    found: Curves = {}
    for entry in plan.document(experiment)["entries"]:
        path = ROOT / entry["cell"]
        if not path.exists():
            continue
        rows = pq.read_table(path, columns=["phase", "seed", "env_steps", "return_mean"])
        rows = rows.to_pandas().query("phase == 'train'")
        wide = rows.pivot(index="env_steps", columns="seed", values="return_mean").astype(float)
        spacing = wide.index[-1] - wide.index[-2]
        more = np.arange(wide.index[-1] + spacing, entry["steps"] + 1, spacing)
        wide = wide.reindex([*wide.index, *more]).ffill()
        level = str(next(iter(entry["level"].values()), ""))
        found[entry["fidelity"], entry["arm"], level, entry["condition"]] = wide
    return found


def maximum(curve: pd.DataFrame) -> float:
    return float(curve.median(axis=1).max())


def time_to_learn(curve: pd.DataFrame) -> float:
    scaled = (curve.median(axis=1) + 1) / 2
    return float(scaled.index[scaled >= 0.95 * scaled.max() - EPSILON][0])


def on_coarsest(curves: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The same read where the one that is read least often is."""
    spacing = max(curve.index[0] for curve in curves.values())
    return {
        arm: curve.reindex(np.arange(spacing, curve.index[-1] + 1, spacing), method="ffill")
        for arm, curve in curves.items()
    }


def by_condition(curves: Curves, fidelity: str) -> dict[str, dict[str, pd.DataFrame]]:
    found: dict[str, dict[str, pd.DataFrame]] = {}
    for (own, arm, _, condition), curve in curves.items():
        if own == fidelity:
            found.setdefault(condition, {})[arm] = curve
    return found


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_who_has_the_highest_return_and_who_learns_first(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    places = by_condition(curves_of(plan, "algorithms"), fidelity)
    most = max(map(len, places.values()))
    alone, equal, first = 0, 0, 0
    for arms in places.values():
        if len(arms) < most:
            continue
        arms = on_coarsest(arms)
        top = {arm: maximum(curve) for arm, curve in arms.items()}
        lead = top["PPO-HER"] - max(x for arm, x in top.items() if arm != "PPO-HER")
        alone += lead >= 0.02 - EPSILON
        equal += abs(lead) < 0.02 - EPSILON
        times = {a: time_to_learn(c) for a, c in arms.items() if top[a] >= -EPSILON}
        others = [x for arm, x in times.items() if arm != "PPO-HER"]
        first += "PPO-HER" in times and all(times["PPO-HER"] < x for x in others)
    own = verdicts["P1", fidelity].numbers["own"]
    assert (own["wins"], own["ties"]) == (alone, equal)
    assert verdicts["P2", fidelity].numbers["own"]["wins"] == first


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_times_to_learn_to_the_step(plan: Plan, tables: Path, fidelity: str) -> None:
    summary = read_table(tables / "algorithms" / "summary.csv")
    rows = summary[summary["fidelity"] == fidelity].set_index(["arm", "condition"])
    for (own, arm, _, condition), curve in curves_of(plan, "algorithms").items():
        if own == fidelity:
            row, top = rows.loc[(arm, condition)], maximum(curve)
            assert row["max_median_return"] == pytest.approx(top, abs=EPSILON)
            if top >= -EPSILON:
                assert row["time_to_learn_steps"] == time_to_learn(curve), (arm, condition)
            else:  # the median run never succeeds in half of its episodes
                assert np.isnan(row["time_to_learn_steps"])


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_sensitivity_to_the_learning_rate(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    tops: dict[tuple[str, str], list[float]] = {}
    for (own, arm, _, condition), curve in curves_of(plan, "learning_rate").items():
        if own == fidelity:
            tops.setdefault((arm, condition), []).append((maximum(curve) + 1) / 2)
    worst = {"PPO": 0.0, "PPO-HER": 0.0}
    for (arm, _), values in tops.items():
        least = max(min(values), 0.005)
        worst[arm] = max(worst[arm], 100 * (max(values) - least) / least)
    numbers = verdicts["P5", fidelity].numbers
    assert round(numbers["her"]["value"]) == round(worst["PPO-HER"])
    assert round(numbers["ppo"]["value"]) == round(worst["PPO"])


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_the_best_share_of_successes(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    cells: dict[str, dict[float, pd.DataFrame]] = {}
    for (own, _, level, condition), curve in curves_of(plan, "s_ratio").items():
        if own == fidelity:
            cells.setdefault(condition, {})[float(level)] = curve
    m_c = pd.DataFrame({
        condition: {
            s: (maximum(own) + 1) / 2 * (1 - time_to_learn(own) / max(map(time_to_learn,
                                                                         levels.values())))
            for s, own in levels.items()
        }
        for condition, levels in cells.items()
    }).sort_index()  # fmt: skip
    mirrored = [s for s in m_c.index if any(abs(1 - s - x) < 1e-9 for x in m_c.index)]
    right, left = ([s for s in mirrored if half * (s - 0.5) > 1e-9] for half in (1, -1))
    lean = m_c.loc[right].mean() - m_c.loc[left].mean()
    assert verdicts["M1", fidelity].effect == pytest.approx(m_c.mean(axis=1).idxmax())
    assert verdicts["M3", fidelity].effect == pytest.approx(lean.mean(), abs=5e-4)
    sides = verdicts["M3", fidelity].numbers
    assert (sides["right"], sides["left"]) == ((lean > 0).sum(), (lean < 0).sum())


class Run(NamedTuple):
    """One run: its rows of training and of evaluation, by step, what its file says of it, and on
    what it was timed.
    """

    train: pd.DataFrame
    tests: pd.DataFrame
    about: dict[str, Any]
    timed_on: tuple[str, int]


Place = tuple[str, str, str]  # arm, level, condition


def runs_of(plan: Plan, experiment: str, fidelity: str) -> dict[Place, dict[int, Run]]:
    """By place, then seed, the runs of every cell there is."""
    found: dict[Place, dict[int, Run]] = {}
    for entry in plan.document(experiment)["entries"]:
        path = ROOT / entry["cell"]
        if entry["fidelity"] != fidelity or not path.exists():
            continue
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[b"hindsight"])
        timed_on = about["machine"]["processor"], about["runs_per_axis"]
        rows = table.to_pandas().sort_values(["seed", "env_steps"])
        by_seed = {run["seed"]: run for run in about["runs"]}
        level = str(next(iter(entry["level"].values()), ""))
        found[entry["arm"], level, entry["condition"]] = {
            int(seed): Run(
                own[own["phase"] == "train"],
                own[own["phase"] == "evaluation"],
                by_seed[seed],
                timed_on,
            )
            for seed, own in rows.groupby("seed")
        }
    return found


def in_bins(runs: dict[int, Run], longest: float) -> pd.DataFrame:
    """Returns at the right edges of 1000 equal bins of minutes, a column per seed."""
    edges = longest * np.arange(1, 1001) / 1000
    columns = {}
    for seed, run in runs.items():
        last = np.searchsorted(run.train["cpu_seconds"] / 60, edges * (1 + EPSILON), "right") - 1
        values = run.train["return_mean"].to_numpy(float)
        columns[seed] = np.where(last >= 0, values[np.maximum(last, 0)], np.nan)
    return pd.DataFrame(columns, index=edges)


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_who_learns_first_by_the_clock(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """P3, at each arm's own budget."""
    found = runs_of(plan, "algorithms", fidelity)
    steps = by_condition(curves_of(plan, "algorithms"), fidelity)
    first, later = 0, 0
    for condition, curves in steps.items():
        own = {arm: found[arm, "", condition] for arm in curves}
        ends = [r.train["cpu_seconds"].max() / 60 for runs in own.values() for r in runs.values()]
        times = {
            arm: time_to_learn(in_bins(runs, max(ends)))
            for arm, runs in own.items()
            if maximum(curves[arm]) >= -EPSILON
        }
        others = [x for arm, x in times.items() if arm != "PPO-HER"]
        first += "PPO-HER" in times and all(times["PPO-HER"] < x - EPSILON for x in others)
        later += any(x < times.get("PPO-HER", np.inf) - EPSILON for x in others)
    own_race = verdicts["P3", fidelity].numbers["own"]
    assert (own_race["wins"], own_race["losses"]) == (first, later)


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_which_conditions_are_solved(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """P4: a run solves its task where 95 of its last 100 episodes succeed."""
    solved: dict[str, dict[str, float]] = {"PPO": {}, "PPO-HER": {}}
    for (arm, _, condition), runs in runs_of(plan, "algorithms", fidelity).items():
        if arm in solved:
            of_hundred = [run.train[run.train["episodes"] >= 100] for run in runs.values()]
            each = [(rows["success_rate"] >= 0.95 - EPSILON).any() for rows in of_hundred]
            solved[arm][condition] = float(np.mean(each))
    shares = pd.DataFrame(solved)
    most = shares >= 0.5
    numbers = verdicts["P4", fidelity].numbers
    assert numbers["gained"] == (most["PPO-HER"] & ~most["PPO"]).sum()
    assert numbers["lost"] == (most["PPO"] & ~most["PPO-HER"]).sum()
    assert numbers["solved_her"] == pytest.approx(shares["PPO-HER"].mean(), abs=5e-3)
    assert numbers["solved_ppo"] == pytest.approx(shares["PPO"].mean(), abs=5e-3)


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_how_well_it_holds_up(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """P6: scaled returns of the last evaluation: means over a condition's seeds once each sweep has
    conditions enough, until then of seeds that both arms have at all levels.
    """
    unit = verdicts["P6", fidelity].numbers["unit"]
    for name, easiest in (("agent_size", max), ("grid_size", min), ("dimensions", min)):
        by_level: dict[str, dict[str, dict[Any, float]]] = {"PPO": {}, "PPO-HER": {}}
        for (arm, level, condition), runs in runs_of(plan, name, fidelity).items():
            final = {seed: float(run.tests["return_mean"].iloc[-1]) for seed, run in runs.items()}
            scaled = {(condition, seed): (own + 1) / 2 for seed, own in final.items()}
            if unit == "conditions":
                scaled = {condition: float(np.mean(list(scaled.values())))}
            by_level[arm][level] = by_level[arm].get(level, {}) | scaled
        wide = pd.concat({arm: pd.DataFrame(own) for arm, own in by_level.items()}, axis=1).dropna()
        numbers = verdicts["P6", fidelity].numbers["sweeps"][name]
        levels = wide["PPO"].columns
        easy = easiest(levels, key=float)
        hard = next(x for x in (max, min) if x is not easiest)(levels, key=float)
        learnt = (wide["PPO"][easy] >= 0.5 - EPSILON) & (wide["PPO-HER"][easy] >= 0.5 - EPSILON)
        for arm, short in (("PPO", "ppo"), ("PPO-HER", "her")):
            own = wide[arm]
            assert numbers[f"mean_{short}"] == pytest.approx(own.mean().mean(), abs=5e-4)
            drop = (own[easy] - own[hard])[learnt].mean()
            assert numbers[f"drop_{short}"] == pytest.approx(drop, abs=5e-4)


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_which_robot_tasks_are_learned(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """P7: a run's best hundred episodes or last evaluation; median over seeds, best decay."""
    best: dict[str, dict[str, float]] = {"PPO": {}, "PPO-HER": {}}
    for (arm, _, task), runs in runs_of(plan, "fetch", fidelity).items():
        tops = [
            max(
                run.train.loc[run.train["episodes"] >= 100, "success_rate"].max(),
                run.tests["success_rate"].iloc[-1],
            )
            for run in runs.values()
        ]
        best[arm][task] = max(float(np.median(tops)), best[arm].get(task, 0.0))
    numbers = verdicts["P7", fidelity].numbers
    assert numbers["her"]["success"] == pytest.approx(best["PPO-HER"])
    assert numbers["ppo"]["success"] == pytest.approx(best["PPO"])
    assert numbers["her"]["learned"] == sum(x >= 0.9 for x in best["PPO-HER"].values())


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_entropy_and_stability(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """P8: of the PPO-HER runs that reach return 0."""
    rows = []
    for (arm, _, condition), runs in runs_of(plan, "algorithms", fidelity).items():
        for run in runs.values() if arm == "PPO-HER" else ():
            train = run.train.reset_index(drop=True).astype({"return_mean": float})
            if train["return_mean"].max() < -EPSILON:
                continue
            known = train.dropna(subset=["policy_entropy", "success_rate"])
            ranks = known[["policy_entropy", "success_rate"]].rank()
            steps = pd.DataFrame({
                "entropy": train["policy_entropy"][:-1],
                "drop": (-train["return_mean"].diff().shift(-1)[:-1]).clip(lower=0.0),
            }).dropna()  # fmt: skip
            middle = steps["entropy"].median()
            low, high = steps[steps["entropy"] < middle], steps[steps["entropy"] > middle]
            smooth = train["return_mean"].rolling(5, min_periods=1).mean()
            rows.append({
                "condition": condition,
                "correlation": ranks["policy_entropy"].corr(ranks["success_rate"]),
                "contrast": low["drop"].mean() - high["drop"].mean(),
                "lost": smooth.max() - smooth.iloc[-1],
                "whole": run.about["ended"] == "budget",
            })  # fmt: skip
    table = pd.DataFrame(rows)
    means = table.groupby("condition")[["correlation", "contrast"]].mean()
    lost = table[table["whole"]].groupby("condition")["lost"].mean()
    numbers = verdicts["P8", fidelity].numbers
    assert numbers["runs"] == len(table)
    assert numbers["correlation"][0] == pytest.approx(means["correlation"].mean(), abs=5e-4)
    assert numbers["contrast"][0] == pytest.approx(means["contrast"].mean(), abs=5e-4)
    assert numbers["forgetting"][0] == pytest.approx(lost.mean(), abs=5e-4)
    assert (numbers["uncensored"], numbers["seen_in"]) == (table["whole"].sum(), len(lost))
    assert numbers["lost_in"] == (lost >= 0.05).sum()


def areas(curve: pd.DataFrame, budget: int) -> pd.Series:
    """Mean scaled return by seed up to a budget."""
    return ((curve[curve.index <= budget] + 1) / 2).mean()


def m_c_by_level(levels: dict[str, pd.DataFrame], parity: int) -> pd.Series:
    """M_c of the seeds of one parity, by level."""
    own = {s: curve[[x for x in curve if x % 2 == parity]] for s, curve in levels.items()}
    times = {s: time_to_learn(curve) for s, curve in own.items()}
    slowest = max(times.values())
    return pd.Series({s: (maximum(c) + 1) / 2 * (1 - times[s] / slowest) for s, c in own.items()})


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_meher_at_its_best_beside_ppo_her(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """M2: S is chosen on the other half of the seeds."""
    cells: dict[str, dict[str, pd.DataFrame]] = {}
    for (own, _, level, condition), curve in curves_of(plan, "s_ratio").items():
        if own == fidelity:
            cells.setdefault(condition, {})[level] = curve
    budgets = {
        entry.condition.name: entry.spec.steps
        for entry, _ in plan.experiments["s_ratio"]
        if entry.fidelity == fidelity
    }
    assert fidelity == "described" or len(set(budgets.values())) > 1
    her = {
        condition: areas(curve, budgets[condition])
        for (own, arm, _, condition), curve in curves_of(plan, "algorithms").items()
        if own == fidelity and arm == "PPO-HER" and condition in budgets
    }
    gains: dict[str, list[float]] = {condition: [] for condition in cells}
    for parity in (0, 1):
        mean = pd.DataFrame({c: m_c_by_level(ls, 1 - parity) for c, ls in cells.items()}).mean(
            axis=1
        )
        chosen = mean.idxmax()
        for condition, levels in cells.items():
            gain = areas(levels[chosen], budgets[condition]) - her[condition]
            gains[condition] += [x for seed, x in gain.items() if int(str(seed)) % 2 == parity]
    means = pd.Series({condition: np.mean(values) for condition, values in gains.items()})
    verdict = verdicts["M2", fidelity]
    assert verdict.effect == pytest.approx(means.mean(), abs=5e-4)
    assert verdict.numbers["ahead"] == (means >= 0.01 - EPSILON).sum()
    assert verdict.numbers["behind"] == (means <= -0.01 + EPSILON).sum()


def test_near_misses_beside_far_ones(plan: Plan, verdicts: dict[tuple[str, str], Verdict]) -> None:
    """M4, which the authors' code cannot test: where either is learned and failures are made."""
    targeted, untargeted = (
        {(level, condition): curve for (own, _, level, condition), curve in
         curves_of(plan, name).items() if own == "described"}
        for name in ("targeted", "s_ratio")
    )  # fmt: skip
    gains: dict[str, list[pd.Series]] = {}
    for (level, condition), curve in targeted.items():
        other = untargeted.get((level, condition))
        if other is None or float(level) == 1.0 or max(map(maximum, (curve, other))) < -EPSILON:
            continue
        last = int(curve.index[-1])
        gains.setdefault(condition, []).append(areas(curve, last) - areas(other, last))
    means = pd.Series({c: pd.concat(own, axis=1).mean(axis=1).mean() for c, own in gains.items()})
    verdict = verdicts["M4", "described"]
    assert verdict.effect == pytest.approx(means.mean(), abs=5e-4)
    assert (verdict.numbers["ahead"], verdict.numbers["behind"]) == (
        (means > 0).sum(), (means < 0).sum(),
    )  # fmt: skip
    assert verdicts["M4", "released"].verdict == "not tested"


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_what_switching_off_saves(
    plan: Plan, verdicts: dict[tuple[str, str], Verdict], fidelity: str
) -> None:
    """M5: over the same steps, where a run switches."""
    found = runs_of(plan, "stop_her", fidelity)
    saved, cost = [], []
    for condition in {place[2] for place in found}:
        always, stopped = (found[arm, "", condition] for arm in ("PPO-HER", "PPO-HER-2-PPO"))
        if all(run.about.get("switch_step") is None for run in stopped.values()):
            continue
        seconds: dict[str, list[float]] = {"always": [], "stopped": []}
        differences = []
        for seed in always.keys() & stopped.keys():
            pair = {"always": always[seed], "stopped": stopped[seed]}
            last = min(run.train["env_steps"].max() for run in pair.values())
            for name, run in pair.items():
                seconds[name].append(run.train.set_index("env_steps").at[last, "cpu_seconds"])
            ends = [float(run.tests["return_mean"].iloc[-1]) for run in pair.values()]
            differences.append(ends[1] - ends[0])
        if len({run.timed_on for run in (*always.values(), *stopped.values())}) == 1:
            saved.append(1 - np.mean(seconds["stopped"]) / np.mean(seconds["always"]))
        cost.append(np.mean(differences))
    verdict = verdicts["M5", fidelity]
    assert verdict.effect == pytest.approx(np.mean(saved), abs=5e-4)
    assert verdict.numbers["cost"] == pytest.approx(np.mean(cost), abs=5e-4)
