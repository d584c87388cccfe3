"""The headlines, computed once more from the published cells: plain pandas, written from the
papers' definitions (PPO-HER section 4, MEHER section 4) and not from the code.

Returns lie in [-1, 1]; a run that ended keeps its last value; scaled: (return + 1) / 2; time to
learn: where the median over seeds first has 0.95 of its own scaled maximum.  Files hold single
precision, hence EPSILON.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from hindsight.analysis.summarise import read_table, summarise
from hindsight.claims import Verdict, evaluate
from hindsight.specs.experiments import Plan, as_json, load

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ("algorithms", "learning_rate", "s_ratio")
EPSILON = 1e-6
Curves = dict[tuple[str, str, str, str], pd.DataFrame]  # fidelity, arm, level, condition


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan.of(load(ROOT / "config.yaml", {"results": "published"}))


@pytest.fixture(scope="module")
def tables(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the published results of some experiments, as the pipeline makes them."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        for name in EXPERIMENTS:
            (folder / name).mkdir()
            (folder / name / "plan.json").write_text(as_json(plan.document(name)))
            summarise(folder / name / "plan.json")
    return folder


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
        wide = wide[sorted(wide.columns)[: entry["seeds"]]]
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
            row = rows.loc[(arm, condition)]
            assert row["time_to_learn_steps"] == time_to_learn(curve), (arm, condition)
            assert row["max_median_return"] == pytest.approx(maximum(curve), abs=EPSILON)


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
        worst[arm] = max(worst[arm], 100 * (max(values) - min(values)) / min(values))
    numbers = verdicts["P5", fidelity].numbers
    assert round(numbers["her"]) == round(worst["PPO-HER"])
    assert round(numbers["ppo"]) == round(worst["PPO"])


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
