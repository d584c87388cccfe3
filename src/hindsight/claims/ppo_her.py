"""Verdicts on the claims of PPO-HER: each a function from an experiment's tables to numbers.

Thresholds and what the paper's evidence is stand in ppo_her.yaml. Intervals of effects are
bootstraps over conditions unless the claim's test says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hindsight.analysis import metrics, statistics
from hindsight.analysis.arms import name_of, select
from hindsight.analysis.effects import CONDITION
from hindsight.analysis.metrics import LEARNT
from hindsight.analysis.reduce import ALL
from hindsight.analysis.summarise import LEVELS
from hindsight.claims.data import CLAIMS
from hindsight.claims.fetch import learns_reach_only
from hindsight.claims.verdicts import (
    NAN,
    ROUNDING,
    Evidence,
    Numbers,
    Verdict,
    caveats,
    clocks,
    fewest_seeds,
    lack,
    mean_interval,
    not_tested,
    outcome,
    rows_of,
    sizes,
    untestable,
)

Array = NDArray[np.float64]

SMOOTHED = 5  # points of a curve of at most 250


@dataclass(frozen=True)
class Race:
    """PPO-HER against the best other arm, condition by condition."""

    wins: int
    ties: int
    lost_to: tuple[str, ...]  # the best other arm of each condition lost
    undecided: int
    effects: Array  # one per condition that has one

    @property
    def losses(self) -> int:
        return len(self.lost_to)

    @property
    def total(self) -> int:
        return self.wins + self.ties + self.losses + self.undecided

    def numbers(self) -> Numbers:
        """What is said of it; to whom conditions were lost, the most frequent first, of equals who
        won first: in the order of a set the page would differ from run to run.
        """
        names = sorted(dict.fromkeys(self.lost_to), key=lambda arm: -self.lost_to.count(arm))
        return {
            "wins": self.wins, "ties": self.ties, "losses": self.losses, "total": self.total,
            "undecided": self.undecided, "compared": len(self.effects),
            "lost_to": [{"arm": arm, "n": self.lost_to.count(arm)} for arm in names],
            "mean_effect": float(np.mean(self.effects)) if len(self.effects) else NAN,
        }  # fmt: skip


RaceOf = Callable[[pd.DataFrame, bool], Race]  # a summary; whether within what all arms had


def highest_return(evidence: Evidence) -> Verdict:
    """P1."""
    needed = CLAIMS["P1"].thresholds["won"]
    return _race_verdict("P1", evidence, return_race, needed, "steps", twice=False)


def fastest(claim: str, unit: Literal["steps", "minutes"]) -> Callable[[Evidence], Verdict]:
    """The rule of P2 and P3: the time to learn by one of the two clocks."""

    def race_of(summary: pd.DataFrame, in_common: bool) -> Race:
        prefix = f"common_{unit}_" if in_common else ""
        if in_common:
            return time_race(summary, f"{prefix}to_learn", f"{prefix}max_median_return")
        if unit == "minutes":
            return time_race(summary, "time_to_learn_minutes")
        return time_race(summary, "coarse_time_to_learn", "coarse_max_median_return")

    def verdict(evidence: Evidence) -> Verdict:
        needed = CLAIMS[claim].thresholds["more_than"] + 1
        return _race_verdict(claim, evidence, race_of, needed, unit)

    return verdict


def return_race(summary: pd.DataFrame, in_common: bool) -> Race:
    """Who has the highest maximum median return; effects: PPO-HER less the best other arm."""
    column = "common_steps_max_median_return" if in_common else "coarse_max_median_return"
    return highest(summary, column)


def highest(summary: pd.DataFrame, column: str) -> Race:
    """Who has the highest value of a column of summary.csv, in units of return."""
    wins, ties, lost_to, effects = 0, 0, [], []
    for _, rows in summary.groupby(CONDITION, sort=False):
        her = str(name_of(rows, "subject"))
        top = rows.set_index("arm")[column].dropna()
        if her not in top or len(top) < 2:
            continue
        others = top.drop(her)
        effect = float(top[her] - others.max())
        effects.append(effect)
        if abs(effect) < CLAIMS["P1"].thresholds["tie"] - ROUNDING:
            ties += 1
        elif effect > 0:
            wins += 1
        else:
            lost_to.append(_best(others, float(others.max())))
    return Race(wins, ties, tuple(lost_to), 0, np.array(effects))


def time_race(summary: pd.DataFrame, column: str, maximum: str = "max_median_return") -> Race:
    """Who learns first, among the arms that learn at all; effects: log2 (best other / PPO-HER).

    `column`, `maximum`: the arms' times to learn and the maxima that say whether they learn.
    """
    wins, ties, undecided, lost_to, effects = 0, 0, 0, [], []
    for _, rows in summary.groupby(CONDITION, sort=False):
        her, arms = str(name_of(rows, "subject")), rows.set_index("arm")
        if her not in arms.index or len(arms) < 2:
            continue
        times = arms[column][metrics.scaled(arms[maximum]) >= LEARNT - ROUNDING]
        others = times.drop(her, errors="ignore")
        if her not in times:
            if len(others):
                lost_to.append(_best(others, float(others.min())))
            else:
                undecided += 1
            continue
        if not len(others):
            wins += 1
            continue
        effect = math.log2(float(others.min()) / float(times[her]))
        effects.append(effect)
        if abs(effect) < ROUNDING:
            ties += 1
        elif effect > 0:
            wins += 1
        else:
            lost_to.append(_best(others, float(others.min())))
    return Race(wins, ties, tuple(lost_to), undecided, np.array(effects))


def level_race(summary: pd.DataFrame, column: str) -> Race:
    """Who first reaches a return that is the same for all, by a column of times; NaN: never."""
    reached = summary.assign(reached=summary[column].notna() * 2.0 - 1.0)
    return time_race(reached, column, "reached")


def _race_verdict(
    claim: str,
    evidence: Evidence,
    race_of: RaceOf,
    needed: int,
    unit: Literal["steps", "minutes"],
    twice: bool = True,
) -> Verdict:
    """Reproduced if `needed` of twelve conditions are won (of fewer: that share of them), partly if
    more are won than lost.

    In the conditions that every arm was trained in. Where an arm's smaller budget ended its runs,
    both must hold twice (but for a maximum): at each arm's own budget, and within what all of them
    had; the numbers are the latter's, because only that is a race. Beside it, PPO-HER against PPO
    alone, wherever both were trained.
    """
    summary = evidence.table("algorithms", "summary.csv")
    if (reason := untestable(summary, need=("subject",))) or summary is None:
        return not_tested(claim, evidence, reason or lack("no results"))
    raced = complete(summary)
    own = race_of(raced, False)
    if own.total == 0:
        return not_tested(claim, evidence, lack("no pair"))
    missing = caveats(claim, summary)
    races, deciding = [own], own
    numbers: Numbers = {"own": own.numbers(), "in_common": None, "pair": None, "sizes": []}
    # Beside the rule: without random actions; and by when a level that is the same for all.
    numbers["evaluation"] = highest(raced, "mean_return").numbers()
    evaluated = raced.groupby("arm", sort=False)["mean_return"].mean()
    runs = evidence.table("algorithms", "runs.parquet")
    numbers["tested"] = {} if runs is None else ended_by_test(runs)
    numbers["evaluated"] = {str(arm): float(own) for arm, own in evaluated.items()}
    if claim != "P1":
        times = {level: f"{unit}_to_{level}" for level in LEVELS}
        numbers["levels"] = {name: level_race(raced, at).numbers() for name, at in times.items()}
    few, every = (table[CONDITION].nunique() for table in (raced, summary))
    numbers |= {"raced": few, "of": every, "rarer": rarer(summary)}
    if unequal := unequal_budgets(raced):
        in_common = race_of(raced, True)
        numbers["in_common"] = in_common.numbers()
        numbers["common_steps"] = int(raced["common_steps"].max())
        missing.append(lack("budgets", experiment="algorithms", sizes=sizes(raced)))
        if twice:
            deciding = in_common
            races.append(in_common)
    if unequal or raced["n_seeds"].nunique() > 1:
        numbers["sizes"] = sizes(raced)
    numbers["clocks"] = clocks(raced) if unit == "minutes" else []
    if (unequal or few < every) and "baseline" in set(summary["role"]):
        numbers["pair"] = race_of(rows_of(summary, "baseline", "subject"), False).numbers()
    effect, low, high = mean_interval(deciding.effects)
    share = needed / CLAIMS[claim].needs["conditions"]
    most = [race.wins >= share * race.total - ROUNDING for race in races]
    more = [race.wins > race.losses for race in races]
    parts = {"most": most[0], "more": more[0]}
    if len(races) > 1:
        parts |= {"most in common": most[1], "more in common": more[1]}
    return Verdict(
        claim,
        evidence.fidelity,
        outcome(all(most), all(more), missing),
        numbers,
        effect,
        low,
        high,
        p_value=statistics.sign_test(deciding.wins, deciding.losses),
        n_seeds=fewest_seeds(raced),
        n_conditions=deciding.total,
        missing=missing,
        of=evidence.scale("algorithms"),
        parts=parts,
    )


def ended_by_test(runs: pd.DataFrame) -> Numbers:
    """By arm how many of its runs a test ended, of how many, after which step at the median, and
    with which mean training return; nothing of arms of which none did.
    """
    found: Numbers = {}
    for arm, own in runs.groupby("arm", sort=False):
        ended = own[own["ended"] == "test"]
        if len(ended):
            found[str(arm)] = {
                "n": len(ended), "of": len(own), "step": float(ended["end_step"].median()),
                "final_return": float(ended["final_return"].mean()),
            }  # fmt: skip
    return found


def unequal_budgets(summary: pd.DataFrame) -> bool:
    """Whether an arm with fewer steps than another was still learning when they were used up.

    Runs that have all ended before, being perfect or passing a test, had what they asked for.
    """
    most = summary.groupby(CONDITION)["budget"].transform("max")
    return bool(((summary["budget"] < most) & (summary["cut_share"] > 0)).any())


def _best(others: pd.Series, best: float) -> str:
    """The arms that share the best value."""
    return " and ".join(str(arm) for arm in others.index[np.isclose(others, best)])


def complete(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of the conditions in which every arm was trained; all rows if there is none."""
    arms = summary.groupby(CONDITION)["arm"].transform("nunique")
    rows = summary[arms == summary["arm"].nunique()]
    return summary if rows.empty else rows


def rarer(summary: pd.DataFrame) -> list[str]:
    """The arms that lack a condition which another has."""
    conditions = summary.groupby("arm", sort=False).size()
    return [str(arm) for arm in conditions.index[conditions < conditions.max()]]


def solves_more(evidence: Evidence) -> Verdict:
    """P4."""
    runs = evidence.table("algorithms", "runs.parquet")
    summary = evidence.table("algorithms", "summary.csv")
    if (reason := untestable(summary)) or runs is None or summary is None:
        return not_tested("P4", evidence, reason or lack("no results"))
    limits = CLAIMS["P4"].thresholds
    p_values: list[float] = []
    shares: list[tuple[float, float]] = []
    differences: list[Array] = []
    for _, rows in runs.groupby(CONDITION, sort=False):
        her, ppo = (
            select(rows, role).set_index("seed")["solved"] for role in ("subject", "baseline")
        )
        if len(her) and len(ppo):
            p_values.append(statistics.fisher(int(her.sum()), len(her), int(ppo.sum()), len(ppo)))
            shares.append((her.mean(), ppo.mean()))
            paired = her.index.intersection(ppo.index)
            differences.append(her[paired].to_numpy(float) - ppo[paired].to_numpy(float))
    if not shares:
        return not_tested("P4", evidence, lack("no pair"))
    adjusted = statistics.holm(p_values)
    solved_her, solved_ppo = (
        np.array(own) >= limits["solved"] for own in zip(*shares, strict=True)
    )
    gained, lost = solved_her & ~solved_ppo, solved_ppo & ~solved_her
    significant = int((adjusted[gained] < limits["alpha"]).sum())
    missing = caveats("P4", summary)
    low, high = statistics.bootstrap(differences, statistics.mean)
    total = runs.groupby("role")["solved"].mean()
    is_reproduced = significant > 0 and gained.sum() > lost.sum()
    return Verdict(
        "P4",
        evidence.fidelity,
        outcome(bool(is_reproduced), bool(gained.any()), missing),
        {
            "gained": int(gained.sum()), "lost": int(lost.sum()), "total": len(shares),
            "significant": significant, "solved_her": float(total["subject"]),
            "solved_ppo": float(total["baseline"]),
        },
        effect=float(np.concatenate(differences).mean()),
        low=low,
        high=high,
        p_value=float(adjusted[gained].min() if gained.any() else adjusted.min()),
        n_seeds=fewest_seeds(rows_of(summary, "baseline", "subject")),
        n_conditions=len(shares),
        missing=missing,
        of=evidence.scale("algorithms"),
        parts={"significant": significant > 0, "more": bool(gained.sum() > lost.sum())},
    )  # fmt: skip


def less_sensitive(evidence: Evidence) -> Verdict:
    """P5."""
    table = evidence.table("learning_rate", "sensitivity.csv")
    summary = evidence.table("learning_rate", "summary.csv")
    if (reason := untestable(summary)) or table is None or summary is None:
        return not_tested("P5", evidence, reason or lack("no results"))
    if summary["level"].nunique() < 2:
        return not_tested("P5", evidence, lack("one level", experiment="learning_rate"))
    limits = CLAIMS["P5"].thresholds
    table = rows_of(table, "baseline", "subject")
    together = table[CONDITION] == ALL
    each = table[~together]
    best = each.pivot(index=CONDITION, columns="role", values="best").dropna()
    least = each.pivot(index=CONDITION, columns="role", values="worst").dropna()
    ratio = best / least.clip(lower=limits["floor"])
    learnt = best.min(axis="columns") >= limits["learnt"] - ROUNDING
    if table[together]["role"].nunique() < 2 or not learnt.any():
        # An arm that never learns is insensitive to everything: no evidence either way.
        return not_tested("P5", evidence, lack("both never learn"))
    log_ratios = np.log2((ratio["baseline"] / ratio["subject"])[learnt].to_numpy(dtype=np.float64))
    wins, losses = int((log_ratios > ROUNDING).sum()), int((log_ratios < -ROUNDING).sum())
    p_value = statistics.sign_test(wins, losses)
    her, ppo = (_worst_case(table[together & (table["role"] == role)])
                for role in ("subject", "baseline"))  # fmt: skip
    is_halved = her["value"] < ppo["value"] and limits["factor"] * her["value"] <= ppo["value"]
    is_mostly_less = wins > losses and p_value < limits["alpha"]
    missing = caveats("P5", summary)
    effect, low, high = mean_interval(log_ratios)
    return Verdict(
        "P5",
        evidence.fidelity,
        outcome(is_halved and is_mostly_less, is_halved or is_mostly_less, missing),
        {
            "her": her, "ppo": ppo, "compared": len(log_ratios), "less": wins, "more": losses,
            "where_learnt": {role: float(100 * (ratio[role][learnt].max() - 1)) for role in ratio},
            "levels": sorted(map(float, set(summary["learning_rate"])), reverse=True),
            "steps_to": _steps_by_level(summary),
        },
        effect,
        low,
        high,
        p_value=p_value,
        n_seeds=fewest_seeds(summary),
        n_conditions=len(best),
        missing=missing,
        of=evidence.scale("learning_rate"),
        parts={"halved": is_halved, "mostly": is_mostly_less},
    )  # fmt: skip


def _worst_case(rows: pd.DataFrame) -> Numbers:
    """An arm's row over all conditions; evaluation: the same without random actions; best: the
    scaled return that it has there at its best level.
    """
    row = rows.iloc[0]
    names = {"value": "sensitivity_percent", "evaluation": "evaluation_percent"}
    return {n: float(row[names.get(n, n)]) for n in ("value", "low", "high", "evaluation", "best")}


def _steps_by_level(summary: pd.DataFrame) -> Numbers:
    """By return that is the same for all, how many of an arm's cells reach it, by role, and of how
    many.
    """
    found: Numbers = {}
    for name in LEVELS:
        reached = summary.assign(reached=summary[f"steps_to_{name}"].notna()).groupby("role")
        found[name] = {
            str(role): {"reached": int(own["reached"].sum()), "of": len(own)}
            for role, own in reached
        }
    return found


def holds_up(evidence: Evidence) -> Verdict:
    """P6."""
    sweeps_of = CLAIMS["P6"].more["sweeps"]
    summaries: dict[str, pd.DataFrame] = {}
    missing: list[Numbers] = []
    for experiment, varied in sweeps_of.items():
        summary = evidence.table(experiment, "summary.csv")
        if (reason := untestable(summary)) or summary is None:
            missing.append((reason or lack("no results")) | {"experiment": experiment})
        elif summary[varied["key"]].nunique() < 2:
            missing.append(lack("one level", experiment=experiment))
        else:
            summaries[experiment] = summary
            missing += caveats("P6", summary, experiment)
    unit, parts = sweeps(evidence, summaries)
    if not parts:
        return not_tested("P6", evidence, *missing)
    held = [name for name, part in parts.items() if sweep_holds(part)]
    gains = pd.concat([part["mean_her"] - part["mean_ppo"] for part in parts.values()], axis=1)
    is_leaning = bool((gains.mean() > 0).all())
    # The sweeps share their conditions: one value per unit is what is independent.
    per_unit = gains.mean(axis=1).to_numpy()
    effect, low, high = mean_interval(per_unit)
    return Verdict(
        "P6",
        evidence.fidelity,
        outcome(len(held) == len(sweeps_of), bool(held) or is_leaning, missing),
        {
            "unit": unit, "held": held,
            "sweeps": {name: _sweep_numbers(part) for name, part in parts.items()},
        },
        effect,
        low,
        high,
        p_value=statistics.sign_flip_test(per_unit),
        n_seeds=min(fewest_seeds(summary) for summary in summaries.values()),
        n_conditions=max(len(part.groupby(CONDITION)) for part in parts.values()),
        missing=missing,
        of=evidence.scale(next(iter(parts))),
        parts={name: name in held for name in parts},
    )  # fmt: skip


def sweeps(
    evidence: Evidence, summaries: dict[str, pd.DataFrame]
) -> tuple[str, dict[str, pd.DataFrame]]:
    """The unit that is compared, "conditions" or "seeds", and each sweep by that unit.

    Returns are those of the last evaluation, without random actions. Seeds, where a sweep has too
    few conditions to resample those.
    """
    varied = CLAIMS["P6"].more["sweeps"]
    by_condition = {
        name: sweep(table.assign(measured=table["mean_return"]), **varied[name])
        for name, table in summaries.items()
    }
    if all(len(part) >= statistics.FEWEST_SEEDS for part in by_condition.values()):
        return "conditions", by_condition
    by_seed = {}
    for name in summaries:
        runs = evidence.table(name, "runs.parquet")
        if runs is not None:
            runs = runs.assign(measured=runs["final_evaluation_return"])
            by_seed[name] = sweep(runs, **varied[name], unit=(CONDITION, "seed"))
    return "seeds", {name: part for name, part in by_seed.items() if len(part)}


def sweep(
    table: pd.DataFrame, key: str, ascending: bool, unit: Sequence[str] = (CONDITION,)
) -> pd.DataFrame:
    """Scaled returns (the column `measured`) over the levels, one row per unit, for both arms.

    drop_*: easiest less hardest level; mean_*: over the levels; learnt: both arms reach 0.5 at the
    easiest. Units in which an arm lacks a level are left out.
    """
    pair = rows_of(table, "baseline", "subject")
    pair["scaled"] = metrics.scaled(pair["measured"])
    wide = pair.pivot(index=list(unit), columns=["role", key], values="scaled").dropna()
    result = pd.DataFrame(index=wide.index)
    learnt = np.ones(len(wide), dtype=bool)
    for role, name in (("subject", "her"), ("baseline", "ppo")):
        levels = wide[role].sort_index(axis=1, ascending=ascending).to_numpy()
        result[f"drop_{name}"] = levels[:, 0] - levels[:, -1]
        result[f"mean_{name}"] = levels.mean(axis=1)
        learnt &= levels[:, 0] >= LEARNT - ROUNDING
    return result.assign(learnt=learnt)


def sweep_holds(part: pd.DataFrame) -> bool:
    """Whether PPO-HER's mean is higher and its drop smaller, both with intervals that exclude 0."""
    gain = mean_interval((part["mean_her"] - part["mean_ppo"]).to_numpy())
    kept = (part["drop_ppo"] - part["drop_her"])[part["learnt"]].to_numpy()
    # An arm that fails at the easiest level has nothing to lose: its drop says nothing.
    if kept.size < statistics.FEWEST_SEEDS:
        return gain[1] > 0
    return gain[1] > 0 and mean_interval(kept)[1] > 0


def _sweep_numbers(part: pd.DataFrame) -> Numbers:
    learnt = part[part["learnt"]]
    columns = ["mean_her", "mean_ppo", "drop_her", "drop_ppo"]
    means = [part[columns[0]], part[columns[1]], learnt[columns[2]], learnt[columns[3]]]
    numbers = {name: float(own.mean()) for name, own in zip(columns, means, strict=True)}
    conditions = part.index.get_level_values(CONDITION).nunique()
    return numbers | {"learnt": len(learnt), "of": len(part), "conditions": conditions}


def loses_stability(evidence: Evidence) -> Verdict:
    """P8."""
    runs = evidence.table("algorithms", "runs.parquet")
    curves = evidence.table("algorithms", "seed_curves.parquet")
    summary = evidence.table("algorithms", "summary.csv")
    reason = untestable(summary, need=("subject",), fewest=1)
    if reason or summary is None or runs is None or curves is None:
        return not_tested("P8", evidence, reason or lack("no results"))
    limits = CLAIMS["P8"].thresholds
    table = stability(select(runs, "subject"), select(curves, "subject"))
    means = table.groupby(CONDITION)[["correlation", "contrast"]].mean().dropna()
    if len(means) < limits["interval_from"]:
        few = lack("few reach", n=len(means), of=limits["interval_from"])
        return not_tested("P8", evidence, few)
    correlation, contrast = (mean_interval(means[c].to_numpy()) for c in means)
    # A run that ended early, being perfect, could not be seen to fall back.
    lost = table[~table["censored"]].groupby(CONDITION)["lost"].mean().dropna()
    forgetting = mean_interval(lost.to_numpy())
    a, b, c = correlation[2] < 0, contrast[1] > 0, forgetting[0] >= limits["lost"]
    missing = caveats("P8", summary)
    return Verdict(
        "P8",
        evidence.fidelity,
        outcome(a and b and c, a and (b or c), missing),
        {
            "runs": len(table), "correlation": correlation, "contrast": contrast,
            "forgetting": forgetting, "uncensored": int((~table["censored"]).sum()),
            "seen_in": len(lost), "lost_in": int((lost >= limits["lost"]).sum()),
            "opposite": int((means["correlation"].reindex(lost.index[lost >= limits["lost"]])
                             > 0).sum()),
        },
        *contrast,
        p_value=statistics.sign_flip_test(means["contrast"].to_numpy()),
        n_seeds=fewest_seeds(select(summary, "subject")),
        n_conditions=len(means),
        missing=missing,
        of=evidence.scale("algorithms"),
        parts={"a": a, "b": b, "c": c},
    )  # fmt: skip


def stability(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """One row per run that reaches return 0, of one arm's: condition, seed, correlation, contrast;
    lost: return after the best, both as means over SMOOTHED points of the curve; censored: whether
    the run ended before its budget.
    """
    run = [CONDITION, "seed"]
    reaches = CLAIMS["P8"].thresholds["reaches"] - ROUNDING
    learnt = runs[runs["max_return"] >= reaches].set_index(run)
    last_step = runs["end_step"].max()  # that of a run which its budget ended
    rows = []
    for key, curve in curves.groupby(run, sort=False):
        if key in learnt.index:
            entropy, success = (curve[c].to_numpy() for c in ("policy_entropy", "success_rate"))
            contrast = drop_contrast(entropy, curve["return_mean"].to_numpy())
            smooth = curve["return_mean"].rolling(SMOOTHED, min_periods=1).mean()
            lost = float(smooth.max() - smooth.iloc[-1])
            censored = bool(learnt.at[key, "end_step"] < last_step)
            correlation = statistics.spearman(entropy, success)
            rows.append((*key, correlation, contrast, lost, censored))
    return pd.DataFrame(rows, columns=[*run, "correlation", "contrast", "lost", "censored"])


def drop_contrast(entropy: Array, returns: Array) -> float:
    """Mean downward step of the return in a run's lower-entropy half, less that in the higher.

    `[step]` curves; a step is filed under the entropy it starts from. NaN if a half is empty.
    """
    start, drops = entropy[:-1], np.maximum(0.0, -np.diff(returns))
    valid = ~(np.isnan(start) | np.isnan(drops))
    start, drops = start[valid], drops[valid]
    if not start.size:
        return NAN
    low, high = start < np.median(start), start > np.median(start)
    return float(drops[low].mean() - drops[high].mean()) if low.any() and high.any() else NAN


VERDICTS: dict[str, Callable[[Evidence], Verdict]] = {
    "P1": highest_return,
    "P4": solves_more,
    "P5": less_sensitive,
    "P6": holds_up,
    "P7": learns_reach_only,
    "P8": loses_stability,
}
