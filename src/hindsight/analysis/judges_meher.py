"""The judges of MEHER's claims; those of PPO-HER's are in `judges`, the rules in `claims`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hindsight.analysis import metrics, statistics
from hindsight.analysis.best_level import FEWEST_LEVELS, S_RATIO, lean
from hindsight.analysis.effects import CONDITION, RUN, Effect, effect, paired
from hindsight.analysis.summarise import level_text, read_plan
from hindsight.analysis.time_saved import EQUIVALENCE_CONFIDENCE, RETURN_MARGIN, is_equal
from hindsight.analysis.verdicts import (
    HER,
    LEARNT,
    Evidence,
    Verdict,
    caveats,
    fewest_seeds,
    not_tested,
    outcome,
    untestable,
)

MEHER, TARGETED, STOPPED = "MEHER", "targeted MEHER", "PPO-HER-2-PPO"
PAPER_LEVELS = tuple(tenth / 10 for tenth in range(11))
BEST = (0.5, 0.7)  # where the paper finds the best S
NEAR_BEST = (0.4, 0.8)  # and one level more at either side, for its interval
GAIN_MARGIN = 0.05  # scaled area under the curve: 0.1 in return, five episodes of a hundred
SAVED_SHARE = 0.45  # the least that the paper saves of the computation time
_ROUNDING = 1e-6
PLACE = ["level", *CONDITION]
AREA = "the effect is the difference in the area under the curve of scaled returns"


def best_s_ratio(evidence: Evidence) -> Verdict:
    """M1."""
    summary = evidence.table("s_ratio", "summary.csv")
    if (reason := untestable(summary, need=(MEHER,), fewest=1)) or summary is None:
        return not_tested("M1", evidence, reason)
    overall, each = best_rows(evidence)
    if overall is None:
        return not_tested("M1", evidence, "no condition has results at every S")
    if overall["n_levels"] < FEWEST_LEVELS:
        return not_tested("M1", evidence, f"only {overall['n_levels']} S have results")
    best, low, high = (float(overall[name]) for name in ("best_level", "low", "high"))
    inside = within(best, BEST)
    near = within(low, NEAR_BEST) and within(high, NEAR_BEST)
    peaks = {True: "single-peaked", False: "not single-peaked"}
    shape = peaks.get(overall["single_peaked"], "of unknown shape (too few seeds)")
    learnt = each[each["learnt"]]
    own = int(learnt["best_level"].between(BEST[0] - _ROUNDING, BEST[1] + _ROUNDING).sum())
    missing = [*caveats("s_ratio", summary, (MEHER,)), *absent_levels(summary)]
    return Verdict(
        "M1",
        evidence.fidelity,
        outcome(inside and near and shape == peaks[True], inside, missing),
        f"The mean of M_c over conditions is highest at S = {best:g}{_bounds(low, high)} and is "
        f"{shape}; a condition's own best S lies in 0.5 to 0.7 in {own} of the {len(learnt)} "
        "conditions that are learned at some S.",
        best,
        low,
        high,
        test="bootstrap of the best S over seeds and, from five on, conditions",
        n_seeds=int(overall["n_seeds"]),
        n_conditions=int(overall["n_conditions"]),
        note="; ".join([*missing, "the effect is the best S", evidence.scale("s_ratio")]),
    )


def best_rows(evidence: Evidence) -> tuple[pd.Series | None, pd.DataFrame]:
    """MEHER's row of best_level.csv over all complete conditions, if there is one, and a row per
    condition.
    """
    table = evidence.table("s_ratio", "best_level.csv")
    assert table is not None  # wherever there is a summary
    table = table[table["arm"] == MEHER]
    together = table["spawn"].isna()
    return (table[together].iloc[0] if together.any() else None), table[~together]


def absent_levels(summary: pd.DataFrame) -> list[str]:
    """Which of the paper's S have no results: a caveat, as the best may be among them."""
    present = summary[S_RATIO].to_numpy()
    absent = [s for s in PAPER_LEVELS if not np.isclose(present, s).any()]
    return [f"S = {', '.join(f'{s:g}' for s in absent)} absent"] if absent else []


def within(value: float, bounds: tuple[float, float]) -> bool:
    """Whether a value lies within closed bounds; not so where there is none."""
    return bounds[0] - _ROUNDING <= value <= bounds[1] + _ROUNDING


def beats_her(evidence: Evidence) -> Verdict:
    """M2."""
    summary = evidence.table("s_ratio", "summary.csv")
    if (reason := untestable(summary, need=(MEHER,), fewest=1)) or summary is None:
        return not_tested("M2", evidence, reason)
    her = her_runs(evidence, "s_ratio")
    if her is None:
        return not_tested("M2", evidence, f"{HER} has no results over as many steps")
    runs, m_c = (evidence.table("s_ratio", name) for name in ("runs.parquet", "m_c.csv"))
    assert runs is not None and m_c is not None  # wherever there is a summary
    runs = runs[runs["arm"] == MEHER]
    chosen = {half: best_text(m_c, f"m_c_{half}") for half in ("even", "odd")}
    everywhere = best_text(m_c, "m_c")
    if not (chosen["even"] and chosen["odd"] and everywhere):
        return not_tested("M2", evidence, "S cannot be chosen on half of the seeds")
    is_odd = runs["seed"] % 2 == 1
    apart = [runs[(runs["level"] == chosen["even"]) & is_odd],
             runs[(runs["level"] == chosen["odd"]) & ~is_odd]]  # fmt: skip
    found = effect(paired(pd.concat(apart), her, "auc"))
    if not found.n_conditions:
        return not_tested("M2", evidence, f"no condition has both {MEHER} and {HER}")
    biased = effect(paired(runs[runs["level"] == everywhere], her, "auc"))
    missing = [*caveats("s_ratio", summary, (MEHER,)), *absent_levels(summary)]
    if found.n_conditions < len(summary.groupby(CONDITION)):
        missing.append(f"{HER} has results in {found.n_conditions} of its conditions only")
    words = " and ".join(dict.fromkeys(_s(text) for text in chosen.values()))
    return Verdict(
        "M2",
        evidence.fidelity,
        outcome(found.low > 0 and _mostly(found), found.mean > 0 and _mostly(found), missing),
        f"With S chosen on the other half of the seeds ({words}), MEHER's area under the curve "
        f"differs from PPO-HER's by {found.words()}; it is ahead in {found.ahead} and behind in "
        f"{found.behind} of {found.n_conditions} conditions. Chosen and compared on the same seeds "
        f"({_s(everywhere)}), which favours MEHER, the difference is {biased.words()}.",
        found.mean,
        found.low,
        found.high,
        found.p_value,
        test=_flips(found, "difference"),
        n_seeds=fewest_seeds(summary),
        n_conditions=found.n_conditions,
        note="; ".join([*missing, AREA, evidence.scale("s_ratio")]),
    )


def her_runs(evidence: Evidence, experiment: str) -> pd.DataFrame | None:
    """PPO-HER's runs at the defaults, wherever their budget is no smaller than the experiment's;
    None if nowhere.

    Their area under the curve is that within the experiment's budget.
    """
    budget, found = evidence.budget(experiment), []
    for name in ("stop_her", "algorithms"):
        runs, curves = (evidence.table(name, f"{t}.parquet") for t in ("runs", "seed_curves"))
        if runs is None or curves is None or evidence.budget(name) < budget:
            continue
        runs = runs[runs["arm"] == HER]
        if evidence.budget(name) > budget:
            areas = area_within(curves[curves["arm"] == HER], budget)
            runs = runs.drop(columns="auc").join(areas, on=RUN)
        found.append(runs)
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
    own = m_c[m_c["arm"] == MEHER]
    means = own.pivot(index=CONDITION, columns="level", values=column).dropna().mean()
    return "" if means.isna().any() or means.empty else str(means.idxmax())


def leans_right(evidence: Evidence) -> Verdict:
    """M3."""
    summary = evidence.table("s_ratio", "summary.csv")
    if (reason := untestable(summary, need=(MEHER,), fewest=1)) or summary is None:
        return not_tested("M3", evidence, reason)
    overall, each = best_rows(evidence)
    if overall is None:
        return not_tested("M3", evidence, "no condition has results at every S")
    if pd.isna(overall["lean"]):
        return not_tested("M3", evidence, "no S has results together with its mirror image 1 - S")
    inner = inner_lean(evidence)
    leaning, low, high = (float(overall[name]) for name in ("lean", "lean_low", "lean_high"))
    learnt = each[each["learnt"]]["lean"].dropna().to_numpy()
    right, left = int((learnt > 0).sum()), int((learnt < 0).sum())
    missing = [*caveats("s_ratio", summary, (MEHER,)), *absent_levels(summary)]
    if np.isnan(inner):
        missing.append("no mirrored S but 0 and 1")
    mostly = leaning > 0 and right > left
    tested = f" (without S = 0 and 1: {inner:+.3f})" if not np.isnan(inner) else ""
    return Verdict(
        "M3",
        evidence.fidelity,
        outcome(low > 0 and mostly and inner > 0, mostly, missing),
        f"M_c is {leaning:+.3f}{_bounds(low, high)} higher at S above 0.5 than at the mirrored S "
        f"below{tested}; of the conditions that are learned at some S, {right} lean to successes "
        f"and {left} to failures.",
        leaning,
        low,
        high,
        p_value=statistics.sign_test(right, left),
        test="sign test over conditions; interval: bootstrap over seeds and, from five on, "
        "conditions",
        n_seeds=int(overall["n_seeds"]),
        n_conditions=int(overall["n_conditions"]),
        note="; ".join([
            *missing, "the effect is the difference in M_c", evidence.scale("s_ratio"),
        ]),
    )  # fmt: skip


def inner_lean(evidence: Evidence) -> float:
    """How MEHER's mean M_c over complete conditions leans without S = 0 and 1; NaN without a pair.

    At S = 0 nothing that is learned from has succeeded: that it fails says little about the rest.
    """
    table = evidence.table("s_ratio", "m_c.csv")
    assert table is not None  # wherever there is a summary
    own = table[table["arm"] == MEHER]
    means = own.pivot(index=CONDITION, columns=S_RATIO, values="m_c").dropna().mean()
    means = means[(means.index > _ROUNDING) & (means.index < 1 - _ROUNDING)]
    return float(lean(means.index.to_numpy(dtype=np.float64), means.to_numpy()))


@dataclass(frozen=True)
class Trained:
    """One arm of an experiment: its rows of two tables, and its cells by level and condition."""

    runs: pd.DataFrame
    summary: pd.DataFrame
    cells: dict[tuple[str, str, str], str]


def trained(evidence: Evidence, experiment: str, arm: str) -> Trained | None:
    """An arm of an experiment at this fidelity; None if it has no results."""
    tables = [evidence.table(experiment, name) for name in ("runs.parquet", "summary.csv")]
    own = [table[table["arm"] == arm] for table in tables if table is not None]
    if len(own) < 2 or own[0].empty:
        return None
    cells = {
        (level_text(e["level"]), e["spawn"], e["prey"]): e["cell"]
        for e in read_plan(evidence.directory / experiment / "plan.json")["entries"]
        if e["fidelity"] == evidence.fidelity and e["arm"] == arm
    }
    return Trained(own[0], own[1], cells)


def targeting_gains(evidence: Evidence) -> Verdict:
    """M4."""
    for experiments in (("targeted", "s_ratio"), ("stop_her", "stop_her")):
        targeted, untargeted = (
            trained(evidence, experiment, arm)
            for experiment, arm in zip(experiments, (TARGETED, MEHER), strict=True)
        )
        if targeted is not None and untargeted is not None:
            break
    else:
        return not_tested("M4", evidence, f"{TARGETED} and {MEHER} have no results to compare")
    if all(untargeted.cells.get(place) == cell for place, cell in targeted.cells.items()):
        reason = (
            "the targeted runs are the untargeted ones, the same files, because the authors' "
            "targeted experiment runs its untargeted code"
        )
        return not_tested("M4", evidence, reason)
    gains = targeted_gains(targeted, untargeted)
    if gains.empty:
        return not_tested("M4", evidence, "nothing is learned wherever failures are made")
    found = effect(gains.groupby(level=RUN, sort=False).mean())
    low, high = _equivalence_bounds(gains)
    missing = caveats(experiments[0], targeted.summary, (TARGETED,))
    levels = gains.index.get_level_values("level").unique()
    if experiments[0] == "targeted":
        missing += absent_levels(targeted.summary)
    else:
        missing.append("targeted: no results, one S of stop_her is compared")
    is_below = high < GAIN_MARGIN
    return Verdict(
        "M4",
        evidence.fidelity,
        outcome(is_below and found.low <= 0, found.mean < GAIN_MARGIN, missing),
        f"At equal S, targeted failures change the area under the curve by {found.words()}, "
        f"{_bounds_90(low, high)}, {'' if is_below else 'not '}shown to be below the margin of "
        f"{GAIN_MARGIN:g}. Mean over {len(levels)} S; more in {found.ahead} and less in "
        f"{found.behind} of {found.n_conditions} conditions.",
        found.mean,
        found.low,
        found.high,
        found.p_value,
        test=_flips(found, "difference") + "; non-superiority by the 90 % interval",
        n_seeds=found.n_seeds,
        n_conditions=found.n_conditions,
        note="; ".join([*missing, AREA, evidence.scale(experiments[0])]),
    )


def targeted_gains(targeted: Trained, untargeted: Trained) -> pd.Series:
    """Area under the curve, targeted less untargeted, by level, spawn, prey and seed.

    Where either is learned and the two are not the same runs, other than at S = 1, where no
    failures are made.
    """
    gains = paired(targeted.runs, untargeted.runs, "auc", [*PLACE, "seed"])
    summaries = pd.concat([targeted.summary, untargeted.summary])
    top = metrics.scaled(summaries["max_median_return"])
    learnt = set(summaries[top >= LEARNT - _ROUNDING][PLACE].itertuples(index=False, name=None))
    learnt -= {place for place in learnt if place[0] == level_text({S_RATIO: 1.0})}
    learnt -= {
        place for place, cell in targeted.cells.items() if untargeted.cells.get(place) == cell
    }
    return gains[[place[:3] in learnt for place in gains.index]]


def stops_early(evidence: Evidence) -> Verdict:
    """M5."""
    summary = evidence.table("stop_her", "summary.csv")
    if (reason := untestable(summary, need=(HER, STOPPED))) or summary is None:
        return not_tested("M5", evidence, reason)
    table = evidence.table("stop_her", "time_saved.csv")
    own = None if table is None else table[table["arm"] == STOPPED]
    together = None if own is None else own[own["spawn"].isna()]
    if own is None or together is None or together.empty:
        return not_tested("M5", evidence, f"no {STOPPED} run succeeds often enough to switch")
    row = together.iloc[0]
    saved, low, high = (float(row[name]) for name in ("saved_share", "low", "high"))
    cost, worst, best = (float(row[f"return_{name}"]) for name in ("difference", "low", "high"))
    equal = is_equal(worst, best)
    is_cheaper = saved >= SAVED_SHARE and low > 0
    missing = caveats("stop_her", summary, (HER, STOPPED))
    n = int(row["n_conditions"])
    return Verdict(
        "M5",
        evidence.fidelity,
        outcome(equal and is_cheaper, abs(cost) < RETURN_MARGIN and saved > 0, missing),
        f"In the {n} of {len(own) - 1} conditions in which a run switches, PPO-HER-2-PPO takes "
        f"{_percent(saved, low, high)} less training time than PPO-HER over the same steps and "
        f"{_percent(*(row[f'updates_{x}'] for x in ('saved_share', 'low', 'high')))} fewer "
        f"minibatch updates; its final return differs by {cost:+.3f}, {_bounds_90(worst, best)}, "
        f"{'' if equal else 'not '}shown to be within {RETURN_MARGIN:g}.",
        saved,
        low,
        high,
        test=f"equivalence by the {EQUIVALENCE_CONFIDENCE:.0%} interval of the difference in final "
        "return; interval of the effect: bootstrap over seeds and, from five on, conditions",
        n_seeds=int(row["n_seeds"]),
        n_conditions=n,
        note="; ".join([
            *missing, "the effect is the share of training time saved",
            f"{row['switched_share']:.0%} of these runs switch, at the median after "
            f"{row['switch_step_median']:.0f} steps", evidence.scale("stop_her"),
        ]),
    )  # fmt: skip


JUDGES: dict[str, Callable[[Evidence], Verdict]] = {
    "M1": best_s_ratio,
    "M2": beats_her,
    "M3": leans_right,
    "M4": targeting_gains,
    "M5": stops_early,
}


def _equivalence_bounds(gains: pd.Series) -> tuple[float, float]:
    found = effect(gains.groupby(level=RUN, sort=False).mean(), EQUIVALENCE_CONFIDENCE)
    return found.low, found.high


def _mostly(found: Effect) -> bool:
    return found.ahead > found.behind


def _flips(found: Effect, of: str) -> str:
    return f"sign-flip permutation test over {found.unit} of the {of}"


def _s(level: str) -> str:
    return level.replace("s_ratio=", "S = ")


def _bounds(low: float, high: float) -> str:
    return "" if np.isnan(low) else f" ({low:.3g} to {high:.3g})"


def _bounds_90(low: float, high: float) -> str:
    return "without an interval" if np.isnan(low) else f"90 % interval {low:+.3f} to {high:+.3f}"


def _percent(value: float, low: float, high: float) -> str:
    bounds = "" if np.isnan(low) else f" ({100 * low:.0f} to {100 * high:.0f} %)"
    return f"{100 * value:.0f} %{bounds}"
