"""One judge per claim: a small function from an experiment's tables to a verdict.

The thresholds that only one judge needs stand beside it; `claims` puts them into words. Intervals
of effects are bootstraps over conditions unless the test's name says otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hindsight.analysis import metrics, statistics
from hindsight.analysis.fetch import learns_reach_only
from hindsight.analysis.verdicts import (
    HER,
    LEARNT,
    NAN,
    PAPER_ARMS,
    PPO,
    Evidence,
    Verdict,
    caveats,
    clocks,
    count,
    fewest_seeds,
    mean_interval,
    not_tested,
    outcome,
    sizes,
    untestable,
)

Array = NDArray[np.float64]

ALPHA = 0.05
TIE = 0.02  # one episode of the last hundred, in return units
WON_SHARE = 10 / 12
SOLVED_SHARE = 0.5
SENSITIVITY_FACTOR = 2.0
SCALED_FLOOR = 0.005  # half an episode of a hundred: bounds the ratio to a setting that never wins
FORGETTING = 0.05  # return units: 2.5 episodes of the last hundred
SWEEPS = {
    "agent_size": ("interception_distance", False),
    "grid_size": ("grid_size", True),
    "dimensions": ("n_dims", True),
}  # experiment: its varied key, and whether larger is harder
_ROUNDING = 1e-6
CONDITION = ["spawn", "prey"]
SIGN_TEST = "sign test over conditions, ties left out"


@dataclass(frozen=True)
class Race:
    """PPO-HER against the best other arm, condition by condition."""

    wins: int
    ties: int
    lost_to: tuple[str, ...]  # the best other arm of each condition lost
    undecided: int
    effects: Array  # one per condition that has one
    detail: str = ""  # what the effects say

    @property
    def losses(self) -> int:
        return len(self.lost_to)

    @property
    def total(self) -> int:
        return self.wins + self.ties + self.losses + self.undecided

    def words(self) -> str:
        none = f", {self.undecided} where no arm learns" if self.undecided else ""
        rivals = Counter(self.lost_to).most_common()
        to = f" to {rivals[0][0]}" if rivals else ""
        if len(rivals) > 1:
            to = ": " + ", ".join(f"{n} to {arm}" for arm, n in rivals)
        rest = f"{self.ties} tied, {self.losses} lost{to}{none}"
        return f"{self.wins} of {self.total} conditions ({rest})"


RaceOf = Callable[[pd.DataFrame, bool], Race]  # a summary; whether within what all arms had


def highest_return(evidence: Evidence) -> Verdict:
    """P1."""
    note = "the effect is the difference in return to the best other arm"
    claim = "PPO-HER alone has the highest maximum median return in"
    return _race_verdict("P1", evidence, return_race, WON_SHARE, claim, "steps", note)


def fastest(claim: str, unit: Literal["steps", "minutes"]) -> Callable[[Evidence], Verdict]:
    """P2 and P3: the judge of time to learn by one of the two clocks."""

    def race_of(summary: pd.DataFrame, in_common: bool) -> Race:
        prefix = f"common_{unit}_" if in_common else ""
        time = f"{prefix}to_learn" if in_common else f"time_to_learn_{unit}"
        return time_race(summary, time, f"{prefix}max_median_return")

    def judge(evidence: Evidence) -> Verdict:
        note = (
            "time to learn is relative to each arm's own maximum; the effect is log2 of the "
            "fastest other arm's time over PPO-HER's"
        )
        more_than_half = 0.5 + 2 * _ROUNDING
        words = f"PPO-HER learns first in {unit} in"
        return _race_verdict(claim, evidence, race_of, more_than_half, words, unit, note)

    return judge


def return_race(summary: pd.DataFrame, in_common: bool) -> Race:
    """Who has the highest maximum median return; effects: PPO-HER less the best other arm."""
    column = "common_steps_max_median_return" if in_common else "max_median_return"
    wins, ties, lost_to, effects = 0, 0, [], []
    for _, rows in summary.groupby(CONDITION, sort=False):
        top = rows.set_index("arm")[column].dropna()
        if HER not in top or len(top) < 2:
            continue
        others = top.drop(HER)
        effect = float(top[HER] - others.max())
        effects.append(effect)
        if abs(effect) < TIE - _ROUNDING:
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
        arms = rows.set_index("arm")
        if HER not in arms.index or len(arms) < 2:
            continue
        times = arms[column][metrics.scaled(arms[maximum]) >= LEARNT - _ROUNDING]
        others = times.drop(HER, errors="ignore")
        if HER not in times:
            if len(others):
                lost_to.append(_best(others, float(others.min())))
            else:
                undecided += 1
            continue
        if not len(others):
            wins += 1
            continue
        effect = math.log2(float(others.min()) / float(times[HER]))
        effects.append(effect)
        if abs(effect) < _ROUNDING:
            ties += 1
        elif effect > 0:
            wins += 1
        else:
            lost_to.append(_best(others, float(others.min())))
    detail = ""
    if effects:
        detail = (
            f"; in the {len(effects)} where another arm learns too, the fastest other takes "
            f"{2.0 ** float(np.mean(effects)):.2f} times as long (geometric mean)"
        )
    return Race(wins, ties, tuple(lost_to), undecided, np.array(effects), detail)


def _race_verdict(
    claim: str,
    evidence: Evidence,
    race_of: RaceOf,
    share: float,
    words: str,
    unit: Literal["steps", "minutes"],
    note: str,
) -> Verdict:
    """Reproduced if at least `share` of the conditions is won, partly if more are won than lost.

    In the conditions that every arm was trained in. Where the arms' budgets differ, both must hold
    twice: at each arm's own budget, and within what all of them had; the numbers are the latter's,
    because only that is a race. Beside it, PPO-HER against PPO alone, wherever both were trained.
    """
    summary = evidence.table("algorithms", "summary.csv")
    if (reason := untestable(summary, need=(HER,))) or summary is None:
        return not_tested(claim, evidence, reason)
    raced = complete(summary)
    own = race_of(raced, False)
    if own.total == 0:
        return not_tested(claim, evidence, f"no condition has {HER} and another arm")
    missing = caveats("algorithms", summary, PAPER_ARMS)
    races, deciding = [own], own
    measured = f"{words} {own.words()}{own.detail}."
    few, every = (table.groupby(CONDITION).ngroups for table in (raced, summary))
    if few < every:
        where = f"In the {few} of {every} conditions where {' and '.join(rarer(summary))}"
        measured = f"{where} {'was' if len(rarer(summary)) == 1 else 'were'} trained, {measured}"
    if unequal := raced["budget"].nunique() > 1:
        deciding = race_of(raced, True)
        races.append(deciding)
        had = "minutes" if unit == "minutes" else f"{count(raced['common_steps'].max())} steps"
        measured += (
            f" Those are unequal budgets ({sizes(raced)}); within the {had} that all arms had, it "
            f"does so in {deciding.words()}{deciding.detail}."
        )
        missing.append("algorithms: budgets differ")
    elif raced["n_seeds"].nunique() > 1:
        note = f"{sizes(raced)}; {note}"
    if unit == "minutes" and (told := clocks(raced)):
        note = f"not timed alike ({told}); {note}"
    if (unequal or few < every) and PPO in set(summary["arm"]):
        pair = race_of(summary[summary["arm"].isin([PPO, HER])], False)
        measured += f" Against PPO alone, it does so in {pair.words()}."
    effect, low, high = mean_interval(deciding.effects)
    return Verdict(
        claim,
        evidence.fidelity,
        outcome(
            all(race.wins >= share * race.total - _ROUNDING for race in races),
            all(race.wins > race.losses for race in races),
            missing,
        ),
        measured,
        effect,
        low,
        high,
        p_value=statistics.sign_test(deciding.wins, deciding.losses),
        test=SIGN_TEST,
        n_seeds=fewest_seeds(raced),
        n_conditions=deciding.total,
        note="; ".join([*missing, note, evidence.scale("algorithms")]),
    )


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
        return not_tested("P4", evidence, reason)
    p_values: list[float] = []
    shares: list[tuple[float, float]] = []
    differences: list[Array] = []
    for _, rows in runs.groupby(CONDITION, sort=False):
        her, ppo = (rows[rows["arm"] == arm].set_index("seed")["solved"] for arm in (HER, PPO))
        if len(her) and len(ppo):
            p_values.append(statistics.fisher(int(her.sum()), len(her), int(ppo.sum()), len(ppo)))
            shares.append((her.mean(), ppo.mean()))
            paired = her.index.intersection(ppo.index)
            differences.append(her[paired].to_numpy(float) - ppo[paired].to_numpy(float))
    if not shares:
        return not_tested("P4", evidence, f"no condition has both {HER} and {PPO}")
    adjusted = statistics.holm(p_values)
    solved_her, solved_ppo = np.array(shares).T >= SOLVED_SHARE
    gained, lost = solved_her & ~solved_ppo, solved_ppo & ~solved_her
    significant = int((adjusted[gained] < ALPHA).sum())
    missing = caveats("algorithms", summary)
    low, high = statistics.bootstrap(differences, statistics.mean, np.random.default_rng(0))
    total = runs.groupby("arm")["solved"].mean()
    is_reproduced = significant > 0 and gained.sum() > lost.sum()
    return Verdict(
        "P4",
        evidence.fidelity,
        outcome(bool(is_reproduced), bool(gained.any()), missing),
        f"PPO-HER solves {gained.sum()} of {len(shares)} conditions that PPO does not "
        f"({significant} significant) and PPO {lost.sum()} that PPO-HER does not; "
        f"{total[HER]:.0%} of all PPO-HER runs solve the task and {total[PPO]:.0%} of PPO's.",
        effect=float(np.concatenate(differences).mean()),
        low=low,
        high=high,
        p_value=float(adjusted[gained].min() if gained.any() else adjusted.min()),
        test="Fisher's exact test per condition with Holm's correction, the smallest; "
        "interval over seeds within conditions",
        n_seeds=fewest_seeds(summary[summary["arm"].isin([PPO, HER])]),
        n_conditions=len(shares),
        note="; ".join([
            *missing, "the effect is the difference in solved share", evidence.scale("algorithms"),
        ]),
    )  # fmt: skip


def less_sensitive(evidence: Evidence) -> Verdict:
    """P5."""
    table = evidence.table("learning_rate", "sensitivity.csv")
    summary = evidence.table("learning_rate", "summary.csv")
    if (reason := untestable(summary)) or table is None or summary is None:
        return not_tested("P5", evidence, reason)
    if summary["level"].nunique() < 2:
        return not_tested("P5", evidence, "only one learning rate has results")
    table = table[table["arm"].isin([PPO, HER])]
    worst = table.groupby("arm")["sensitivity_percent"].max()
    best = table.pivot(index=CONDITION, columns="arm", values="best").dropna()
    least = table.pivot(index=CONDITION, columns="arm", values="worst").dropna()
    ratio = best / least.clip(lower=SCALED_FLOOR)
    learnt = best.min(axis="columns") >= LEARNT - _ROUNDING
    if not learnt.any():
        # An arm that never learns is insensitive to everything: no evidence either way.
        return not_tested("P5", evidence, "no condition in which both arms learn at some rate")
    effects = np.log2((ratio[PPO] / ratio[HER])[learnt].to_numpy(dtype=np.float64))
    wins, losses = int((effects > _ROUNDING).sum()), int((effects < -_ROUNDING).sum())
    p_value = statistics.sign_test(wins, losses)
    is_lower = bool(worst[HER] < worst[PPO])  # twice infinity is no more than infinity
    is_halved = is_lower and bool(SENSITIVITY_FACTOR * worst[HER] <= worst[PPO])
    is_mostly_less = wins > losses and p_value < ALPHA
    missing = caveats("learning_rate", summary)
    effect, low, high = mean_interval(effects)
    note = "the effect is log2 of PPO's best/worst ratio over PPO-HER's"
    levels = ", ".join(dict.fromkeys(summary["level"]))
    return Verdict(
        "P5",
        evidence.fidelity,
        outcome(is_halved and is_mostly_less, is_halved or is_mostly_less, missing),
        f"The worst-case sensitivity is {_percent(worst[HER])} for PPO-HER and "
        f"{_percent(worst[PPO])} for PPO; of the {len(effects)} conditions that both learn, "
        f"PPO-HER is the less sensitive in {wins} and the more sensitive in {losses}.",
        effect,
        low,
        high,
        p_value=p_value,
        test=SIGN_TEST,
        n_seeds=fewest_seeds(summary),
        n_conditions=len(best),
        note="; ".join([*missing, note, levels, evidence.scale("learning_rate")]),
    )


def holds_up(evidence: Evidence) -> Verdict:
    """P6."""
    summaries: dict[str, pd.DataFrame] = {}
    missing: list[str] = []
    for experiment in SWEEPS:
        summary = evidence.table(experiment, "summary.csv")
        if (reason := untestable(summary)) or summary is None:
            missing.append(f"{experiment}: {reason}")
        elif summary[SWEEPS[experiment][0]].nunique() < 2:
            missing.append(f"{experiment}: only one level has results")
        else:
            summaries[experiment] = summary
            missing += caveats(experiment, summary)
    unit, parts = sweeps(evidence, summaries)
    if not parts:
        return not_tested("P6", evidence, "; ".join(missing))
    held = [name for name, part in parts.items() if sweep_holds(part)]
    gains = pd.concat([part["mean_her"] - part["mean_ppo"] for part in parts.values()], axis=1)
    is_leaning = bool((gains.mean() > 0).all())
    # The sweeps share their conditions: one value per unit is what is independent.
    per_unit = gains.mean(axis=1).to_numpy()
    effect, low, high = mean_interval(per_unit)
    words = "; ".join(f"{name}: {_sweep_words(part, unit)}" for name, part in parts.items())
    note = f"the rule holds in {', '.join(held) or 'no sweep'}"
    return Verdict(
        "P6",
        evidence.fidelity,
        outcome(len(held) == len(SWEEPS), bool(held) or is_leaning, missing),
        f"PPO-HER against PPO: {words}.",
        effect,
        low,
        high,
        p_value=statistics.sign_flip_test(per_unit, np.random.default_rng(0)),
        test=f"sign-flip permutation test over {unit} of the difference in mean over levels",
        n_seeds=min(fewest_seeds(summary) for summary in summaries.values()),
        n_conditions=max(len(part.groupby(CONDITION)) for part in parts.values()),
        note="; ".join([*missing, note, evidence.scale(next(iter(parts)))]),
    )


def sweeps(
    evidence: Evidence, summaries: dict[str, pd.DataFrame]
) -> tuple[str, dict[str, pd.DataFrame]]:
    """The unit that is compared, "conditions" or "seeds", and each sweep by that unit.

    Seeds, by their own best return, where a sweep has too few conditions to resample those.
    """
    by_condition = {name: sweep(table, *SWEEPS[name]) for name, table in summaries.items()}
    if all(len(part) >= statistics.FEWEST_SEEDS for part in by_condition.values()):
        return "conditions", by_condition
    by_seed = {}
    for name in summaries:
        runs = evidence.table(name, "runs.parquet")
        if runs is not None:
            runs = runs.rename(columns={"max_return": "max_median_return"})
            by_seed[name] = sweep(runs, *SWEEPS[name], unit=[*CONDITION, "seed"])
    return "seeds", {name: part for name, part in by_seed.items() if len(part)}


def sweep(
    table: pd.DataFrame, column: str, ascending: bool, unit: Sequence[str] = CONDITION
) -> pd.DataFrame:
    """Scaled maximum median returns over the levels, one row per unit, for both arms.

    drop_*: easiest less hardest level; mean_*: over the levels; learnt: both arms reach 0.5 at the
    easiest. Units in which an arm lacks a level are left out.
    """
    pair = table[table["arm"].isin([PPO, HER])].copy()
    pair["scaled"] = metrics.scaled(pair["max_median_return"])
    wide = pair.pivot(index=list(unit), columns=["arm", column], values="scaled").dropna()
    result = pd.DataFrame(index=wide.index)
    learnt = np.ones(len(wide), dtype=bool)
    for arm, name in ((HER, "her"), (PPO, "ppo")):
        levels = wide[arm].sort_index(axis=1, ascending=ascending).to_numpy()
        result[f"drop_{name}"] = levels[:, 0] - levels[:, -1]
        result[f"mean_{name}"] = levels.mean(axis=1)
        learnt &= levels[:, 0] >= LEARNT - _ROUNDING
    return result.assign(learnt=learnt)


def sweep_holds(part: pd.DataFrame) -> bool:
    """Whether PPO-HER's mean is higher and its drop smaller, both with intervals that exclude 0."""
    gain = mean_interval((part["mean_her"] - part["mean_ppo"]).to_numpy())
    kept = (part["drop_ppo"] - part["drop_her"])[part["learnt"]].to_numpy()
    # An arm that fails at the easiest level has nothing to lose: its drop says nothing.
    if kept.size < statistics.FEWEST_SEEDS:
        return gain[1] > 0
    return gain[1] > 0 and mean_interval(kept)[1] > 0


def _sweep_words(part: pd.DataFrame, unit: str) -> str:
    learnt = part[part["learnt"]]
    words = f"mean over levels {part['mean_her'].mean():.2f} against {part['mean_ppo'].mean():.2f}"
    if len(learnt):
        drops = learnt["drop_her"].mean(), learnt["drop_ppo"].mean()
        words += f", drop {drops[0]:.2f} against {drops[1]:.2f}"
    return f"{words} (both learn the easiest level in {len(learnt)} of {len(part)} {unit})"


def loses_stability(evidence: Evidence) -> Verdict:
    """P8."""
    runs = evidence.table("algorithms", "runs.parquet")
    curves = evidence.table("algorithms", "seed_curves.parquet")
    summary = evidence.table("algorithms", "summary.csv")
    if (reason := untestable(summary, need=(HER,), fewest=1)) or summary is None:
        return not_tested("P8", evidence, reason)
    if runs is None or curves is None:
        return not_tested("P8", evidence, "the runs or their curves have no table")
    table = stability(runs, curves)
    means = table.groupby(CONDITION)[["correlation", "contrast", "forgetting"]].mean().dropna()
    if len(means) < statistics.FEWEST_SEEDS:
        few = f"PPO-HER runs reach return 0 in {len(means)} conditions, fewer than five"
        return not_tested("P8", evidence, few)
    correlation, contrast, forgetting = (mean_interval(means[c].to_numpy()) for c in means)
    a, b, c = correlation[2] < 0, contrast[1] > 0, forgetting[0] >= FORGETTING
    missing = caveats("algorithms", summary, (HER,))
    note = "the effect is (b), in return; early end hides what follows 1.3 x the perfect step"
    return Verdict(
        "P8",
        evidence.fidelity,
        outcome(a and b and c, a and (b or c), missing),
        f"Over {len(table)} PPO-HER runs that reach return 0, (a) the rank correlation of entropy "
        f"and success is {_interval(correlation)}, (b) downward steps of the return are larger by "
        f"{_interval(contrast)} in the lower-entropy half, and (c) {_interval(forgetting)} of "
        "return is lost after the best.",
        *contrast,
        p_value=statistics.sign_flip_test(means["contrast"].to_numpy(), np.random.default_rng(0)),
        test="sign-flip permutation test over conditions of the difference in downward steps",
        n_seeds=fewest_seeds(summary[summary["arm"] == HER]),
        n_conditions=len(means),
        note="; ".join([*missing, note, evidence.scale("algorithms")]),
    )


def stability(runs: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """One row per PPO-HER run that reaches return 0: spawn, prey, seed, correlation, contrast,
    forgetting.
    """
    run = [*CONDITION, "seed"]
    learnt = runs[(runs["arm"] == HER) & (runs["max_return"] >= -_ROUNDING)].set_index(run)
    rows = []
    for key, curve in curves[curves["arm"] == HER].groupby(run, sort=False):
        if key in learnt.index:
            entropy, success = (curve[c].to_numpy() for c in ("policy_entropy", "success_rate"))
            contrast = drop_contrast(entropy, curve["return_mean"].to_numpy())
            rows.append((*key, statistics.spearman(entropy, success), contrast))
    table = pd.DataFrame(rows, columns=[*run, "correlation", "contrast"])
    return table.join(learnt["forgetting"], on=run)


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


JUDGES: dict[str, Callable[[Evidence], Verdict]] = {
    "P1": highest_return,
    "P2": fastest("P2", "steps"),
    "P3": fastest("P3", "minutes"),
    "P4": solves_more,
    "P5": less_sensitive,
    "P6": holds_up,
    "P7": learns_reach_only,
    "P8": loses_stability,
}


def _percent(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    return "unbounded" if math.isinf(value) else f"{value:.0f} %"


def _interval(values: tuple[float, float, float]) -> str:
    mean, low, high = values
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"
