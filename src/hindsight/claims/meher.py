"""Verdicts on the claims of MEHER, as `ppo_her` has those of PPO-HER; thresholds: meher.yaml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hindsight.analysis import metrics, statistics
from hindsight.analysis.arms import select
from hindsight.analysis.best_level import S_RATIO, lean
from hindsight.analysis.effects import CONDITION, RUN, effect, paired
from hindsight.analysis.reduce import ALL
from hindsight.analysis.summarise import LEVELS, level_text, read_plan
from hindsight.analysis.time_saved import EQUIVALENCE_CONFIDENCE
from hindsight.claims.data import CLAIMS
from hindsight.claims.verdicts import (
    ROUNDING,
    Evidence,
    Numbers,
    Verdict,
    caveats,
    fewest_seeds,
    lack,
    not_tested,
    outcome,
    untestable,
)

PLACE = ["level", CONDITION]
#: Where PPO-HER's runs at the defaults are: experiment, and its role there.
HER_RUNS = {"stop_her": "baseline", "algorithms": "subject"}


def best_s_ratio(evidence: Evidence) -> Verdict:
    """M1."""
    summary = evidence.table("s_ratio", "summary.csv")
    if (reason := untestable(summary, need=("subject",), fewest=1)) or summary is None:
        return not_tested("M1", evidence, reason or lack("no results"))
    limits = CLAIMS["M1"].thresholds
    overall, each = best_rows(evidence)
    if overall is None:
        return not_tested("M1", evidence, lack("no complete condition"))
    if overall["n_levels"] < limits["levels"]:
        return not_tested("M1", evidence, lack("few S", n=int(overall["n_levels"])))
    best, low, high = (float(overall[name]) for name in ("best_level", "low", "high"))
    best_to = float(overall["best_to"])  # of several that are equal the highest
    inside = within(best, limits["best"]) and within(best_to, limits["best"])
    near = within(low, limits["near"]) and within(high, limits["near"])
    peaked = {True: True, False: False}.get(overall["single_peaked"])
    learnt = each[each["learnt"]]
    low_best, high_best = limits["best"]
    own = learnt["best_level"] <= high_best + ROUNDING
    own &= learnt["best_to"] >= low_best - ROUNDING
    missing = [*caveats("M1", summary), *absent_levels("M1", summary)]
    return Verdict(
        "M1",
        evidence.fidelity,
        outcome(inside and near and peaked is True, inside, missing),
        {
            "best_to": best_to, "single_peaked": peaked, "own": int(own.sum()),
            "learnt": len(learnt), "evaluation": evaluation_by_s(summary),
        },
        best,
        low,
        high,
        n_seeds=int(overall["n_seeds"]),
        n_conditions=int(overall["n_conditions"]),
        missing=missing,
        of=evidence.scale("s_ratio"),
        parts={"best": inside, "near": near, "peaked": peaked is True},
    )  # fmt: skip


def evaluation_by_s(summary: pd.DataFrame) -> Numbers:
    """Without random actions: the mean return of the last evaluation over the conditions that have
    every S; the highest, the S that are within a tie of it (P1's), and how it leans.
    """
    own = select(summary, "subject")
    means = own.pivot(index=CONDITION, columns=S_RATIO, values="mean_return").dropna().mean()
    best = float(means.max())
    tie = CLAIMS["P1"].thresholds["tie"]
    levels = means.index.to_numpy(dtype=np.float64)
    return {
        "best": best, "as_good": [float(s) for s in levels[means >= best - tie + ROUNDING]],
        "lean": float(lean(levels, metrics.scaled(means.to_numpy()))),
    }  # fmt: skip


def best_rows(evidence: Evidence) -> tuple[pd.Series | None, pd.DataFrame]:
    """MEHER's row of best_level.csv over all complete conditions, if there is one, and a row per
    condition.
    """
    table = evidence.table("s_ratio", "best_level.csv")
    assert table is not None  # wherever there is a summary
    table = select(table, "subject")
    together = table[CONDITION] == ALL
    return (table[together].iloc[0] if together.any() else None), table[~together]


def absent_levels(claim: str, summary: pd.DataFrame) -> list[Numbers]:
    """Which of the paper's S have no results: a caveat, as the best may be among them."""
    present = summary[S_RATIO].to_numpy()
    wanted = CLAIMS[claim].needs["levels"]
    absent = [s for s in wanted if not np.isclose(present, s).any()]
    return [lack("levels", absent=absent)] if absent else []


def within(value: float, bounds: tuple[float, float]) -> bool:
    """Whether a value lies within closed bounds; not so where there is none."""
    return bounds[0] - ROUNDING <= value <= bounds[1] + ROUNDING


def beats_her(evidence: Evidence) -> Verdict:
    """M2."""
    summary = evidence.table("s_ratio", "summary.csv")
    if (reason := untestable(summary, need=("subject",), fewest=1)) or summary is None:
        return not_tested("M2", evidence, reason or lack("no results"))
    her = her_runs(evidence, "s_ratio")
    if her is None:
        return not_tested("M2", evidence, lack("no PPO-HER"))
    runs, m_c = (evidence.table("s_ratio", name) for name in ("runs.parquet", "m_c.csv"))
    assert runs is not None and m_c is not None  # wherever there is a summary
    runs = select(runs, "subject")
    chosen = {half: best_text(m_c, f"m_c_{half}") for half in ("even", "odd")}
    everywhere = best_text(m_c, "m_c")
    if not (chosen["even"] and chosen["odd"] and everywhere):
        return not_tested("M2", evidence, lack("no half"))
    is_odd = runs["seed"] % 2 == 1
    apart = [runs[(runs["level"] == chosen["even"]) & is_odd],
             runs[(runs["level"] == chosen["odd"]) & ~is_odd]]  # fmt: skip
    gains = paired(pd.concat(apart), her, "auc")
    found, means = effect(gains), gains.groupby(level=CONDITION, sort=False).mean()
    if not found.n_conditions:
        return not_tested("M2", evidence, lack("no pair"))
    biased = effect(paired(runs[runs["level"] == everywhere], her, "auc"))
    tie = CLAIMS["M2"].thresholds["tie"] - ROUNDING
    ahead, behind = int((means >= tie).sum()), int((means <= -tie).sum())
    missing = [*caveats("M2", summary), *absent_levels("M2", summary)]
    if found.n_conditions < summary[CONDITION].nunique():
        missing.append(lack("PPO-HER in few", n=found.n_conditions))
    at = dict(zip(runs["level"], runs[S_RATIO], strict=True))
    tested = effect(paired(pd.concat(apart), her, "final_evaluation_return"))
    beyond = CLAIMS["M2"].thresholds["beyond"]
    above, more = bool(found.low > beyond), ahead > behind
    return Verdict(
        "M2",
        evidence.fidelity,
        outcome(above and more, found.mean > beyond and more, missing),
        {
            "chosen": [float(at[text]) for text in dict.fromkeys(chosen.values())],
            "difference": found.numbers(), "ahead": ahead, "behind": behind,
            "unit": found.unit, "steps_saved": _steps_saved(evidence, summary, everywhere),
            "everywhere": float(at[everywhere]), "biased": biased.numbers(),
            "evaluation": tested.numbers(),
        },
        found.mean,
        found.low,
        found.high,
        found.p_value,
        n_seeds=fewest_seeds(summary),
        n_conditions=found.n_conditions,
        missing=missing,
        of=evidence.scale("s_ratio"),
        parts={"above": above, "more": more},
    )  # fmt: skip


def _steps_saved(evidence: Evidence, summary: pd.DataFrame, level: str) -> Numbers:
    """By return, in how many conditions MEHER at this level needs fewer steps to it than PPO-HER,
    and the share that it saves (geometric mean).
    """
    tables = [evidence.table(name, "summary.csv") for name in HER_RUNS]
    rows = [select(t, role) for t, role in zip(tables, HER_RUNS.values(), strict=True)
            if t is not None]  # fmt: skip
    her = pd.concat(rows).drop_duplicates(CONDITION).set_index(CONDITION)
    own = select(summary, "subject")
    own = own[own["level"] == level].set_index(CONDITION)
    found = {}
    for name in LEVELS:
        ratio = (own[f"steps_to_{name}"] / her[f"steps_to_{name}"].reindex(own.index)).dropna()
        found[name] = {
            "n": len(ratio), "fewer": int((ratio < 1 - ROUNDING).sum()),
            "saved": 1.0 - float(np.exp(np.log(ratio).mean())) if len(ratio) else np.nan,
        }  # fmt: skip
    return found


def her_runs(evidence: Evidence, experiment: str) -> pd.DataFrame | None:
    """PPO-HER's runs at the defaults, in the conditions in which their budget is no smaller than
    that of the experiment's subject; None if nowhere.

    Their area under the curve is that within the subject's budget there, and so is their last
    evaluation.
    """
    budgets, found = evidence.budgets(experiment, "subject"), []
    for name, role in HER_RUNS.items():
        runs, curves, tests = (
            evidence.table(name, f"{t}.parquet") for t in ("runs", "seed_curves", "evaluations")
        )
        if runs is None or curves is None or tests is None:
            continue
        own = evidence.budgets(name, role)
        runs, curves, tests = (select(table, role) for table in (runs, curves, tests))
        for condition, budget in budgets.items():
            if own.get(condition, 0) < budget:
                continue
            here, curve, tested = (t[t[CONDITION] == condition] for t in (runs, curves, tests))
            if own[condition] > budget:
                areas = area_within(curve, budget)
                last = tested[tested["env_steps"] <= budget].groupby(RUN)["return_mean"].last()
                here = here.drop(columns=["auc", "final_evaluation_return"]).join(areas, on=RUN)
                here = here.join(last.rename("final_evaluation_return"), on=RUN)
            found.append(here)
    table = pd.concat(found).drop_duplicates(RUN) if found else pd.DataFrame()
    return None if table.empty else table


def area_within(curves: pd.DataFrame, budget: int) -> pd.Series:
    """Mean scaled return up to `budget` steps by run: its `auc`, had that been the budget.

    A run that has ended keeps its last value; what the thinning of seed_curves left out, lies on
    the line between its neighbours.
    """
    areas = {}
    for run, curve in curves.dropna(subset="return_mean").groupby(RUN, sort=False):
        steps, returns = (curve[name].to_numpy() for name in ("env_steps", "return_mean"))
        rollout = float(steps.min())  # a curve keeps its first point, the end of the first rollout
        grid = rollout * np.arange(1, budget // rollout + 1)
        areas[run] = float(metrics.scaled(np.interp(grid, steps, returns)).mean())
    return pd.Series(areas, name="auc").rename_axis(RUN)


def best_text(m_c: pd.DataFrame, column: str) -> str:
    """The level (its text) of MEHER's highest mean over complete conditions of a column of m_c.csv;
    "" if no condition is complete.
    """
    own = select(m_c, "subject")
    means = own.pivot(index=CONDITION, columns="level", values=column).dropna().mean()
    return "" if means.isna().any() or means.empty else str(means.idxmax())


def leans_right(evidence: Evidence) -> Verdict:
    """M3."""
    summary = evidence.table("s_ratio", "summary.csv")
    if (reason := untestable(summary, need=("subject",), fewest=1)) or summary is None:
        return not_tested("M3", evidence, reason or lack("no results"))
    overall, each = best_rows(evidence)
    if overall is None:
        return not_tested("M3", evidence, lack("no complete condition"))
    if pd.isna(overall["lean"]):
        return not_tested("M3", evidence, lack("no mirror"))
    inner = inner_lean(evidence)
    leaning, low, high = (float(overall[name]) for name in ("lean", "lean_low", "lean_high"))
    learnt = each[each["learnt"]]["lean"].dropna().to_numpy()
    right, left = int((learnt > 0).sum()), int((learnt < 0).sum())
    missing = [*caveats("M3", summary), *absent_levels("M3", summary)]
    if np.isnan(inner):
        missing.append(lack("no inner mirror"))
    beyond = CLAIMS["M3"].thresholds["beyond"]
    mostly = leaning > beyond and right > left
    return Verdict(
        "M3",
        evidence.fidelity,
        outcome(low > beyond and mostly and inner > beyond, mostly, missing),
        {
            "inner": inner, "right": right, "left": left,
            "evaluation": evaluation_by_s(summary)["lean"],
        },
        leaning,
        low,
        high,
        p_value=statistics.sign_test(right, left),
        n_seeds=int(overall["n_seeds"]),
        n_conditions=int(overall["n_conditions"]),
        missing=missing,
        of=evidence.scale("s_ratio"),
        parts={"above": bool(low > beyond), "inner": bool(inner > beyond), "more": right > left},
    )  # fmt: skip


def inner_lean(evidence: Evidence) -> float:
    """How MEHER's mean M_c over complete conditions leans without S = 0 and 1; NaN without a pair.

    At S = 0 nothing that is learned from has succeeded: that it fails says little about the rest.
    """
    table = evidence.table("s_ratio", "m_c.csv")
    assert table is not None  # wherever there is a summary
    own = select(table, "subject")
    means = own.pivot(index=CONDITION, columns=S_RATIO, values="m_c").dropna().mean()
    means = means[(means.index > ROUNDING) & (means.index < 1 - ROUNDING)]
    return float(lean(means.index.to_numpy(dtype=np.float64), means.to_numpy()))


@dataclass(frozen=True)
class Trained:
    """One arm of an experiment: its rows of two tables, and its cells by level and condition."""

    runs: pd.DataFrame
    summary: pd.DataFrame
    cells: dict[tuple[str, str], str]


def trained(evidence: Evidence, experiment: str, role: str, failures: str | None) -> Trained | None:
    """An arm of an experiment at this fidelity, by its role and its failures; None if it has no
    results.
    """
    tables = [evidence.table(experiment, name) for name in ("runs.parquet", "summary.csv")]
    own = [select(table, role, failures=failures) for table in tables if table is not None]
    if len(own) < 2 or own[0].empty:
        return None
    cells = {
        (level_text(e["level"]), e["condition"]): e["cell"]
        for e in read_plan(evidence.directory / experiment / "plan.json")["entries"]
        if e["fidelity"] == evidence.fidelity and e["arm"] == own[0]["arm"].iloc[0]
    }
    return Trained(own[0], own[1], cells)


def targeting_gains(evidence: Evidence) -> Verdict:
    """M4."""
    for targeted_in, untargeted_in, role in (
        ("targeted", "s_ratio", "subject"),
        ("stop_her", "stop_her", "level"),
    ):
        targeted = trained(evidence, targeted_in, role, "targeted")
        untargeted = trained(evidence, untargeted_in, role, None)
        if targeted is not None and untargeted is not None:
            break
    else:
        return not_tested("M4", evidence, lack("no targeted"))
    if all(untargeted.cells.get(place) == cell for place, cell in targeted.cells.items()):
        return not_tested("M4", evidence, lack("same files"))
    gains = targeted_gains(targeted, untargeted)
    if gains.empty:
        return not_tested("M4", evidence, lack("nothing with failures"))
    found = effect(gains.groupby(level=RUN, sort=False).mean())
    low, high = _equivalence_bounds(gains)
    own = targeted.summary.assign(role="subject")  # in stop_her, too
    missing = caveats("M4", own, targeted_in)
    if targeted_in == "targeted":
        missing += absent_levels("M4", own)
    else:
        missing.append(lack("one S"))
    margin = CLAIMS["M4"].thresholds["margin"]
    return Verdict(
        "M4",
        evidence.fidelity,
        outcome(high < margin and found.low <= 0, found.mean < margin, missing),
        {
            "difference": found.numbers(), "low_90": low, "high_90": high, "margin": margin,
            "below": bool(high < margin), "ahead": found.ahead, "behind": found.behind,
            "unit": found.unit, "levels": gains.index.get_level_values("level").nunique(),
        },
        found.mean,
        found.low,
        found.high,
        found.p_value,
        n_seeds=found.n_seeds,
        n_conditions=found.n_conditions,
        missing=missing,
        of=evidence.scale(targeted_in),
        parts={"below": bool(high < margin), "not above": bool(found.low <= 0)},
    )  # fmt: skip


def targeted_gains(targeted: Trained, untargeted: Trained) -> pd.Series:
    """Area under the curve, targeted less untargeted, by level, condition and seed.

    Where either is learned and the two are not the same runs, other than at S = 1, where no
    failures are made.
    """
    gains = paired(targeted.runs, untargeted.runs, "auc", [*PLACE, "seed"])
    summaries = pd.concat([targeted.summary, untargeted.summary])
    top = metrics.scaled(summaries["max_median_return"])
    own = summaries[top >= CLAIMS["M4"].thresholds["learnt"] - ROUNDING]
    learnt = set(own[PLACE].itertuples(index=False, name=None))
    learnt -= {place for place in learnt if place[0] == level_text({S_RATIO: 1.0})}
    learnt -= {
        place for place, cell in targeted.cells.items() if untargeted.cells.get(place) == cell
    }
    return gains[[place[:2] in learnt for place in gains.index]]


def stops_early(evidence: Evidence) -> Verdict:
    """M5."""
    summary = evidence.table("stop_her", "summary.csv")
    if (reason := untestable(summary)) or summary is None:
        return not_tested("M5", evidence, reason or lack("no results"))
    table = evidence.table("stop_her", "time_saved.csv")
    own = None if table is None else select(table, "subject")
    together = None if own is None else own[own[CONDITION] == ALL]
    if own is None or together is None or together.empty:
        return not_tested("M5", evidence, lack("no switch"))
    limits, row = CLAIMS["M5"].thresholds, together.iloc[0]
    alike, n = int(row["n_timed_alike"]), int(row["n_conditions"])
    untimed = lack("clocks", experiment="stop_her", n=alike, of=n)
    if not alike:
        return not_tested("M5", evidence, untimed)
    saved, low, high = (float(row[name]) for name in ("saved_share", "low", "high"))
    cost, worst, best = (float(row[f"return_{name}"]) for name in ("difference", "low", "high"))
    margin = limits["equal"]
    equal = worst > -margin and best < margin  # not so without an interval
    is_cheaper = saved >= limits["saved"] and low > 0
    missing = caveats("M5", summary) + ([untimed] if alike < n else [])
    clocks = [select(summary, role).set_index(CONDITION) for role in ("subject", "baseline")]
    reached = {}
    for name in LEVELS:
        stopped, always = (table[f"minutes_to_{name}"] for table in clocks)
        same = clocks[0]["timed_on"] == clocks[1]["timed_on"].reindex(stopped.index)
        ratio = (stopped / always.reindex(stopped.index))[same].dropna()
        reached[name] = {"n": len(ratio),
                         "saved": 1.0 - float(ratio.mean()) if len(ratio) else np.nan}  # fmt: skip
    updates = (float(row[f"updates_{x}"]) for x in ("saved_share", "low", "high"))
    gains = own[(own[CONDITION] != ALL) & (own["return_low"] > 0)]["return_difference"]
    return Verdict(
        "M5",
        evidence.fidelity,
        outcome(equal and is_cheaper, abs(cost) < margin and saved > 0, missing),
        {
            "conditions": len(own) - 1, "reached": reached, "updates": list(updates),
            "cost": cost, "low_90": worst, "high_90": best, "equal": bool(equal),
            "margin": margin, "switched": float(row["switched_share"]),
            "switch_step": float(row["switch_step_median"]),
            "timed_alike": alike, "gains": sorted(map(float, gains[gains > margin])),
        },
        saved,
        low,
        high,
        n_seeds=int(row["n_seeds"]),
        n_conditions=n,
        missing=missing,
        of=evidence.scale("stop_her"),
        parts={"equal": bool(equal), "saves": bool(low > 0), "saves enough": bool(is_cheaper)},
    )  # fmt: skip


VERDICTS: dict[str, Callable[[Evidence], Verdict]] = {
    "M1": best_s_ratio,
    "M2": beats_her,
    "M3": leans_right,
    "M4": targeting_gains,
    "M5": stops_early,
}


def _equivalence_bounds(gains: pd.Series) -> tuple[float, float]:
    found = effect(gains.groupby(level=RUN, sort=False).mean(), EQUIVALENCE_CONFIDENCE)
    return found.low, found.high
