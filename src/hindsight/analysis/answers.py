"""Answers to the questions that the papers leave open, in words computed from the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hindsight.analysis import metrics, statistics
from hindsight.analysis.best_level import FEWEST_LEVELS
from hindsight.analysis.effects import CONDITION, RUN, Effect, effect, paired
from hindsight.analysis.fetch import moving_goals
from hindsight.analysis.judges import stability as stability_of_runs
from hindsight.analysis.questions import (
    Answer,
    Numbers,
    Question,
    Untested,
    ask,
    read,
    seeds,
    size,
    told,
)
from hindsight.analysis.time_saved import EQUIVALENCE_CONFIDENCE, RETURN_MARGIN, is_equal
from hindsight.analysis.verdicts import HER, LEARNT, PPO, Evidence

MOVED = "PPO-HER, moved only"
ENTROPIES = ("reward_entropy", "action_entropy", "observation_entropy")
AREA = "the area under the curve of scaled returns"
SUCCESS_AREA = "success over training"  # mean over the run's steps
#: An arm of `generalise`, followed by its S-ratio.
MEHER_AT = "MEHER, S = "
_ROUNDING = 1e-6


def answers(tables_dir: str | Path) -> list[Answer]:
    """What there is to say to each of the papers' open questions, as `ask` says it."""
    return ask(QUESTIONS, tables_dir)


def rarely_moves(evidence: Evidence) -> tuple[str, Numbers]:
    """Q1."""
    runs = read(evidence, "rarely_moves", "runs.parquet")
    arms = _arms(runs, PPO, HER)
    gain = _needed(effect(paired(arms[HER], arms[PPO], "auc")))
    solved = {name: float(frame["solved"].mean()) for name, frame in arms.items()}
    shares = ", ".join(f"{share:.0%} with {name}" for name, share in solved.items())
    words = (
        "Where the achieved goal is an object that moves only while it is touched, hindsight "
        f"{told(gain, AREA)} ({size(gain)}); runs that solve the task: {shares}."
    )
    numbers: Numbers = {"solved": solved, "hindsight": gain.numbers()}
    if MOVED in arms:
        filtered = effect(paired(arms[MOVED], arms[HER], "auc"))
        words += (
            f" Copying only the segments in which it moved {told(filtered, 'that of PPO-HER')}."
        )
        numbers["moved only"] = filtered.numbers()
    ordinary = evidence.table("algorithms", "runs.parquet")
    if ordinary is not None:
        with_her, without = (ordinary[ordinary["arm"] == arm] for arm in (HER, PPO))
        gains = paired(with_her, without, "auc")
        here = set(arms[HER][CONDITION].itertuples(index=False, name=None))
        usual = effect(gains[[place[:2] in here for place in gains.index]])
        if usual.n_conditions:
            words += (
                " On the ordinary task, in a box and within a budget of its own, with these spawns "
                f"and prey hindsight {told(usual, 'it')}."
            )
            numbers["hindsight, ordinary task"] = usual.numbers()
    return words, numbers


def stability(evidence: Evidence) -> tuple[str, Numbers]:
    """Q2."""
    runs = read(evidence, "stability", "runs.parquet")
    arms = _arms(runs, HER)
    table = stability_of_runs(runs, read(evidence, "stability", "seed_curves.parquet"))
    contrast = effect(table.set_index(RUN)["contrast"].dropna())
    _needed(contrast, f"no {HER} run reaches a success rate of one half")
    tracks = {1: "larger", -1: "smaller", 0: "not distinguishably different"}[contrast.sign()]
    words = (
        f"In PPO-HER runs that learn, downward steps of the return are {tracks} where the policy's "
        f"entropy is low than where it is high: {contrast.words()} ({size(contrast)})."
    )
    numbers: Numbers = {"downward steps, low less high entropy": contrast.numbers()}
    for name, arm in arms.items():
        if name != HER:
            lost, area = (effect(paired(arm, arms[HER], m)) for m in ("forgetting", "auc"))
            words += (
                f" Against PPO-HER, {name} {told(lost, 'the return lost after the best')} and "
                f"{told(area, 'the area under the curve')}."
            )
            numbers[name] = {"forgetting": lost.numbers(), "auc": area.numbers()}
    return words, numbers


def stochasticity(evidence: Evidence) -> tuple[str, Numbers]:
    """Q3."""
    _learnt(evidence, "stochasticity")
    runs = read(evidence, "stochasticity", "runs.parquet")
    levels = {str(name): frame for name, frame in runs.groupby("exploration", sort=False)}
    if "gaussian" not in levels or len(levels) < 2:
        raise Untested("the plain Gaussian and another way to explore are needed")
    plain = _arms(levels["gaussian"], HER)
    numbers: Numbers = {}
    parts, leads, weights = [], [], []
    for name, frame in levels.items():
        arms = _arms(frame, HER)
        found: Numbers = {}
        if name != "gaussian":
            change = _needed(effect(paired(arms[HER], plain[HER], "auc")))
            parts.append(f"{name} exploration {told(change, AREA)} ({size(change)})")
            found["against gaussian"] = change.numbers()
        if PPO in arms:
            lead = effect(paired(arms[HER], arms[PPO], "auc"))
            leads.append(f"{name} {lead.words()}")
            found["hindsight"] = lead.numbers()
        weight = float(arms[HER]["hindsight_log_ratio_max"].median())
        if not np.isnan(weight):
            weights.append(f"{name} {weight:.1f}")
            found["largest log ratio"] = weight
        numbers[name] = found
    words = f"For PPO-HER, against the plain Gaussian, {'; '.join(parts)}."
    if leads:
        words += f" Its lead over PPO in the area is: {', '.join(leads)}."
    if weights:
        words += (
            " The largest log importance ratio of a relabelled sample, median over runs, in nats: "
            f"{', '.join(weights)}."
        )
    return words, numbers


def switch_off(evidence: Evidence) -> tuple[str, Numbers]:
    """Q4."""
    _learnt(evidence, "switch_off")
    runs = read(evidence, "switch_off", "runs.parquet")
    best = _best_level(evidence, "switch_off")
    tested = sorted(runs["until_success"].unique())
    words = (
        f"Of switching off at a success rate of {_list(tested, _threshold)}, "
        f"{_best_words(best, tested, _threshold)} "
        f"({seeds(best['n_seeds'], best['n_conditions'])}); M_c counts steps, not time."
    )
    numbers: Numbers = {"best": {k: float(best[k]) for k in ("best_level", "low", "high")}}
    # A success rate of 1 is never exceeded: these runs are PPO-HER's.
    never = runs[runs["until_success"] >= 1.0]
    parts = []
    for level in tested if len(never) else ():
        if level < 1.0:
            text, found = _against(never, runs[runs["until_success"] == level])
            parts.append(f"{level:g}: {text}")
            numbers[f"{level:g}"] = found
    if parts:
        words += (
            " Against never switching (returns with 90 % intervals, equivalent within "
            f"{RETURN_MARGIN:g}): {'; '.join(parts)}."
        )
    return words, numbers


def _threshold(success: float) -> str:
    return "1 (never)" if success >= 1.0 else f"{success:g}"


def _against(never: pd.DataFrame, arm: pd.DataFrame) -> tuple[str, Numbers]:
    """What an arm saves of the updates of runs that never switch, and what that costs in return."""
    cost = effect(paired(arm, never, "final_evaluation_return"), EQUIVALENCE_CONFIDENCE)
    saved = effect(_saved_updates(arm, never))
    equal = is_equal(cost.low, cost.high)
    words = (
        f"{100 * saved.mean:.0f} % fewer updates per step, final return {cost.words()}"
        f"{', equivalent' if equal else ''}"
    )
    numbers = {"updates saved": saved.numbers(), "return": cost.numbers(), "equivalent": equal}
    return words, numbers


def _saved_updates(arm: pd.DataFrame, baseline: pd.DataFrame) -> pd.Series:
    """Share of minibatch updates saved per environment step, by run; free of the clock's noise."""
    a, b = (frame.set_index(RUN) for frame in (arm, baseline))
    b = b.reindex(a.index)
    share = 1.0 - (a["updates"] / a["end_step"]) / (b["updates"] / b["end_step"])
    return share.astype(float).dropna()


def generalise(evidence: Evidence) -> tuple[str, Numbers]:
    """Q5."""
    runs = read(evidence, "generalise", "runs.parquet")
    parts = []
    numbers: Numbers = {}
    for task, own in runs.groupby("prey", sort=False):
        arms = {str(arm): frame for arm, frame in own.groupby("arm", sort=False)}
        means = {arm: float(frame["success_auc"].mean()) for arm, frame in arms.items()}
        ratios = sorted((arm for arm in means if arm.startswith(MEHER_AT)), key=s_ratio_of)
        if len(ratios) < 2:
            continue
        best = max(ratios, key=means.__getitem__)
        listed = ", ".join(f"{arm} {mean:.2f}" for arm, mean in means.items())
        said = f"On {task}, mean {SUCCESS_AREA} is: {listed}. "
        rest = {
            arm: effect(paired(arms[best], arms[arm], "success_auc"))
            for arm in (*ratios, HER)
            if arm != best and arm in arms
        }
        others = [f"S = {s_ratio_of(arm):g}" for arm in ratios if arm != best]
        unsure = [arm for arm in ratios if arm != best and rest[arm].sign() <= 0]
        same = ", ".join(f"S = {s_ratio_of(arm):g}" for arm in unsure)
        said += f"Of S it is highest at {s_ratio_of(best):g}"
        said += f", not told apart from {same}" if same else f", ahead of {' and '.join(others)}"
        if HER in rest:
            said += f"; against {HER} this S {told(rest[HER], 'it')}"
        more = {
            arm: effect(paired(arms[arm], arms[HER], "success_auc"))
            for arm in means
            if HER in arms and arm.startswith(f"{HER} (")
        }
        said += "".join(f"; {arm} {told(found, 'it')}" for arm, found in more.items())
        sizes = {len(frame) for frame in arms.values()}
        parts.append(f"{said} ({' or '.join(map(str, sorted(sizes)))} seeds).")
        numbers[str(task)] = (
            means
            | {f"best less {arm}": found.numbers() for arm, found in rest.items()}
            | {f"{arm} less {HER}": found.numbers() for arm, found in more.items()}
        )
    if not parts:
        raise Untested("no task has results at two values of S")
    return " ".join(parts), numbers


def s_ratio_of(arm: str) -> float:
    """S of an arm of `generalise`; NaN of one without."""
    return float(arm.removeprefix(MEHER_AT)) if arm.startswith(MEHER_AT) else float("nan")


def signals(evidence: Evidence) -> tuple[str, Numbers]:
    """Q6."""
    _learnt(evidence, "s_ratio")
    rows = read(evidence, "s_ratio", "evaluations.parquet").dropna(subset=list(ENTROPIES))
    if rows.empty:
        raise Untested("the results were made before entropies were recorded")
    entropies = rows.groupby(["s_ratio", *RUN])[list(ENTROPIES)].mean()
    # Means over runs that have every S: else a condition that lacks one would tilt them.
    whole = entropies["reward_entropy"].unstack("s_ratio").dropna()
    if whole.empty or rows["s_ratio"].nunique() < FEWEST_LEVELS:
        raise Untested("no condition has results at every S, or fewer than three S have any")
    means = {name: entropies[name].unstack("s_ratio").dropna().mean() for name in ENTROPIES}
    rewards = means["reward_entropy"]
    first, last = rewards.index.min(), rewards.index.max()
    spans = ", ".join(
        f"of {name.removesuffix('_entropy')}s {mean[first]:.2f} and {mean[last]:.2f}"
        for name, mean in means.items()
    )
    n_conditions = len(whole.groupby(level=CONDITION))
    words = (
        f"Averaged over training, the entropy of a sample's reward is highest at S = "
        f"{rewards.idxmax():g} ({rewards.max():.2f} bits); at S = {first:g} and {last:g} the "
        f"entropies in bits are {spans} ({seeds(len(whole) // n_conditions, n_conditions)})."
    )
    numbers: Numbers = {
        name: {f"{s:g}": float(x) for s, x in mean.items()} for name, mean in means.items()
    }
    area = read(evidence, "s_ratio", "runs.parquet").set_index(["s_ratio", *RUN])["auc"]
    correlation = effect(_correlations(entropies.join(area), "reward_entropy", "auc"))
    if correlation.n_conditions:
        words += (
            f" Across S, the rank correlation of the entropy of rewards with {AREA} is "
            f"{correlation.words()}."
        )
        numbers["rank correlation"] = correlation.numbers()
    return words, numbers


def near_far(evidence: Evidence) -> tuple[str, Numbers]:
    """Q7."""
    _learnt(evidence, "near_far")
    runs = read(evidence, "near_far", "runs.parquet")
    tested = sorted(runs["failure_distance"].unique())
    if len(tested) < 2:
        raise Untested("only one distance has results")
    near, far = tested[0], tested[-1]
    nearest, farthest = (runs[runs["failure_distance"] == distance] for distance in (near, far))
    gain = _needed(effect(paired(nearest, farthest, "auc")))
    trend = effect(_correlations(runs.set_index(["failure_distance", *RUN]), None, "auc"))
    words = (
        f"Putting the goals of failures {near:g} r from the final position, rather than {far:g} r, "
        f"{told(gain, AREA)} ({size(gain)})."
    )
    numbers: Numbers = {"nearest less farthest": gain.numbers()}
    if trend.n_conditions:
        words += f" Over all {len(tested)} distances the rank correlation is {trend.words()}."
        numbers["rank correlation"] = trend.numbers()
    return words, numbers


def _correlations(table: pd.DataFrame, x: str | None, y: str) -> pd.Series:
    """Rank correlation of columns over the levels (the first index; None: with the level), by run;
    runs without one are left out.
    """
    found = {
        run: statistics.spearman(rows.index.get_level_values(0) if x is None else rows[x], rows[y])
        for run, rows in table.groupby(level=RUN, sort=False)
    }
    index = pd.MultiIndex.from_tuples(list(found), names=RUN)
    return pd.Series(list(found.values()), index, dtype=float).dropna()


QUESTIONS = (
    Question(
        "Q1", "Why does PPO-HER fail on most Fetch tasks: is it because the achieved goal rarely "
        "moves, and does a filter for that help?",
        "rarely_moves", "question_rarely_moves", rarely_moves,
    ),
    Question(
        "Q2", "Does stability track entropy, and does an entropy bonus or a falling learning rate "
        "help?",
        "stability", "question_stability", stability,
    ),
    Question(
        "Q3", "Does PPO-HER need a stochastic policy?",
        "stochasticity", "question_stochasticity", stochasticity,
    ),
    Question(
        "Q4", "At which success rate is hindsight best switched off?",
        "switch_off", "question_switch_off", switch_off,
    ),
    Question(
        "Q5", "Does the best share of successes S hold in other goal environments?",
        "generalise", "question_generalise", generalise, ("described",),
    ),
    Question(
        "Q6", "What does the S-ratio do to the entropy of rewards, actions and observations?",
        "s_ratio", "question_signals", signals,
    ),
    Question(
        "Q7", "Are near misses more informative than far ones?",
        "near_far", "question_near_far", near_far, ("described",),
    ),
    Question(
        "Q8", "Q1, on Fetch, too: does hindsight's benefit grow with how often and how far the "
        "achieved goal moves?",
        "moving_goals", "question_moving_goals", moving_goals, ("described",),
    ),
)  # fmt: skip


def _arms(runs: pd.DataFrame, *needed: str) -> dict[str, pd.DataFrame]:
    """The runs of each arm."""
    found = {str(arm): frame for arm, frame in runs.groupby("arm", sort=False)}
    absent = [arm for arm in needed if arm not in found]
    if absent:
        raise Untested(f"{' and '.join(absent)} has no results")
    return found


def _learnt(evidence: Evidence, experiment: str) -> None:
    """Where nothing is learned nothing can be compared."""
    summary = read(evidence, experiment, "summary.csv")
    if (metrics.scaled(summary["max_median_return"]) < LEARNT - _ROUNDING).all():
        raise Untested("no arm reaches a scaled maximum median return of 0.5 in any condition")


def _best_level(evidence: Evidence, experiment: str) -> pd.Series:
    """The row of best_level.csv over all complete conditions."""
    table = read(evidence, experiment, "best_level.csv")
    together = table[table["spawn"].isna()]
    if together.empty:
        raise Untested("no condition has results at every level")
    return together.iloc[0]


def _best_words(best: pd.Series, tested: Sequence[float], text: Callable[[float], str]) -> str:
    """Which level is best by M_c, and which others its interval does not exclude."""
    words = f"{text(best['best_level'])} has the highest mean M_c"
    if np.isnan(best["low"]):
        return f"{words}, on too few seeds for an interval"
    kept = [x for x in tested if best["low"] - _ROUNDING <= x <= best["high"] + _ROUNDING]
    if len(kept) == len(tested):
        return f"{words}, but its 95 % interval excludes none of them"
    others = [x for x in kept if x != best["best_level"]]
    if not others:
        return f"{words}, and its 95 % interval excludes the others"
    return f"{words}; its 95 % interval does not exclude {_list(others, text)}"


def _needed(found: Effect, reason: str = "no condition has both sides of the comparison") -> Effect:
    if not found.n_conditions:
        raise Untested(reason)
    return found


def _list(values: Sequence[float], text: Callable[[float], str]) -> str:
    return ", ".join(text(value) for value in values)
