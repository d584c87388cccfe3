"""The Fetch experiments in words: claim P7, what learns these tasks, and whether hindsight's
benefit grows with how often and how far the achieved goal moves.

A condition is a task here; success is what counts, because returns have no common scale.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from hindsight.analysis import statistics
from hindsight.analysis.effects import paired
from hindsight.analysis.metrics import carry_forward, median_curve
from hindsight.analysis.questions import Numbers, Untested, read
from hindsight.analysis.verdicts import (
    FEWEST_SEEDS,
    HER,
    NAN,
    PPO,
    Evidence,
    Outcome,
    Verdict,
    count,
    fewest_seeds,
    not_tested,
    outcome,
    sizes,
)

REACH = "FetchReach"
FETCH = (REACH, "FetchPush", "FetchSlide", "FetchPickAndPlace")
LEARNED = 0.9  # share of episodes that succeed
#: The paper's own size, in levels and in steps of a run: less is incomplete evidence.
WEIGHT_DECAYS, PAPER_STEPS = 4, 1_000_000
ALPHA = 0.05
AREA = "success_auc"
_ROUNDING = 1e-6


def learns_reach_only(evidence: Evidence) -> Verdict:
    """P7."""
    runs = evidence.table("fetch", "runs.parquet")
    summary = evidence.table("fetch", "summary.csv")
    if runs is None or summary is None:
        return not_tested("P7", evidence, "the experiment has no results")
    best = best_medians(runs)
    her = best.get(HER, {})
    if REACH not in her:
        return not_tested("P7", evidence, f"{HER} has no run of a hundred episodes on {REACH}")
    missing = _missing(summary, list(her))
    # Before last evaluations were added to the rule.
    first = best_medians(runs.assign(final_evaluation_success=NAN))
    with_her, without = (_judged(runs[runs["arm"] == arm]) for arm in (HER, PPO))
    gains = paired(with_her, without, "success", ["level", "prey", "seed"])
    strata = [group.to_numpy() for _, group in gains.groupby(level=["level", "prey"])]
    low, high = statistics.bootstrap(strata, statistics.mean, np.random.default_rng(0))
    note = (
        "numbers are a task's highest success rate, of a hundred training episodes or of the last "
        "evaluation, median over seeds, at the best weight decay; the effect is its mean "
        "difference, PPO-HER less PPO, paired by seed and weight decay"
    )
    return Verdict(
        "P7",
        evidence.fidelity,
        _reach_only(her, missing),
        f"{_who_learns(best)} By the original rule, of training episodes alone: "
        f"{_reach_only(first[HER], missing)}, {_who_learns(first)}",
        float(gains.mean()) if len(gains) else NAN,
        low,
        high,
        test="bootstrap over seeds within tasks and weight decays; the rule counts tasks",
        n_seeds=fewest_seeds(summary[summary["arm"] == HER]),
        n_conditions=len(her),
        note="; ".join([*missing, note, sizes(summary), evidence.scale("fetch")]),
    )


def _reach_only(her: dict[str, float], missing: list[str]) -> Outcome:
    others = sum(is_learned(success) for task, success in her.items() if task != REACH)
    reach = is_learned(her[REACH])
    return outcome(reach and not others, reach and others <= 1, missing)


def _who_learns(best: dict[str, dict[str, float]]) -> str:
    alone = _learned_words(best[PPO]) if PPO in best else "was not trained"
    return f"{HER} {_learned_words(best[HER])}; {PPO} alone {alone}."


def best_medians(runs: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By arm and task the best over weight decays of the seeds' median of `success`, [0, 1].

    Of runs that had a hundred episodes, on the tasks of FETCH and in their order.
    """
    runs = _judged(runs[runs["prey"].isin(FETCH)]).dropna(subset=["max_success"])
    medians = runs.groupby(["arm", "prey", "level"])["success"].median()
    best = medians.groupby(level=["arm", "prey"]).max().unstack("arm").reindex(list(FETCH))
    return {
        str(arm): {str(task): float(success) for task, success in own.dropna().items()}
        for arm, own in best.items()
    }


def _judged(runs: pd.DataFrame) -> pd.DataFrame:
    """With `success` [0, 1]: of a run's best hundred episodes or its last evaluation."""
    return runs.assign(success=runs[["max_success", "final_evaluation_success"]].max(axis=1))


def is_learned(success: float) -> bool:
    """Whether this share of successes counts as learned."""
    return success >= LEARNED - _ROUNDING


def _learned_words(best: dict[str, float]) -> str:
    learned = sum(map(is_learned, best.values()))
    listed = ", ".join(f"{task} {success:.3g}" for task, success in best.items())
    return f"learns {learned} of {len(best)} tasks ({listed})"


def _missing(summary: pd.DataFrame, tried: list[str]) -> list[str]:
    """What of the paper's experiment PPO-HER lacks: each caps the verdict at "partly"."""
    her = summary[(summary["arm"] == HER) & summary["prey"].isin(tried)]
    found = []
    if absent := [task for task in FETCH if task not in tried]:
        found.append(f"{' and '.join(absent)} not trained")
    decays = her.groupby("prey")["level"].nunique()
    if decays.min() < WEIGHT_DECAYS:
        found.append(f"a task has only {decays.min()} of {WEIGHT_DECAYS} weight decays")
    if fewest_seeds(her) < FEWEST_SEEDS:
        found.append(f"a cell has only {fewest_seeds(her)} seeds")
    if her["budget"].min() < PAPER_STEPS:
        found.append(f"a run has only {count(her['budget'].min())} of {count(PAPER_STEPS)} steps")
    return [f"fetch: {text}" for text in found]


def best_decays(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """By arm and task the level with the highest mean success over training, of `fetch`."""
    means = runs.dropna(subset=[AREA]).groupby(["arm", "prey", "level"], sort=False)[AREA].mean()
    best = means.groupby(level=["arm", "prey"], sort=False).idxmax()
    return {(str(arm), str(task)): str(level) for arm, task, level in best}


def yardstick(evidence: Evidence) -> tuple[str, Numbers]:
    """T5."""
    rows = read(evidence, "fetch_off_policy", "evaluations.parquet")
    tasks = list(dict.fromkeys(rows["prey"]))
    beside = _of_fetch(evidence)
    everything = rows if beside is None else pd.concat([rows, beside])
    numbers: Numbers = {}
    parts = []
    for task in tasks:
        told = []
        numbers[task] = {}
        for arm, curve in everything[everything["prey"] == task].groupby("arm", sort=False):
            steps, end, budget = first_learned(curve)
            numbers[task][str(arm)] = {"steps": steps, "at the end": end, "budget": budget}
            told.append(
                f"{arm} after {count(steps)} steps"
                if steps < math.inf
                else f"{arm} not within {count(budget)} steps ({end:.3g} at the end)"
            )
        parts.append(f"{task}: {', '.join(told)}")
    learned = []
    for arm in dict.fromkeys(rows["arm"]):
        own = [numbers[task][arm]["steps"] for task in tasks if arm in numbers[task]]
        learned.append(f"{arm} learns {sum(x < math.inf for x in own)} of the {len(own)}")
    counts = rows.groupby(["arm", "prey"])["seed"].nunique()
    seeds = " to ".join(dict.fromkeys((str(counts.min()), str(counts.max()))))
    words = (
        f"Of the tasks that each was tried on, {', '.join(learned)}. A success of {LEARNED:g} in "
        f"evaluation, median over {seeds} seeds, is first seen on {'; '.join(parts)}."
    )
    if beside is not None:
        words += (
            f" {' and '.join(dict.fromkeys(beside['arm']))}: at the weight decay that is best on "
            "the task, within a budget of their own."
        )
    return words, numbers


def _of_fetch(evidence: Evidence) -> pd.DataFrame | None:
    """Evaluations of PPO and PPO-HER in `fetch`, each task at its best weight decay; None if
    there are none.
    """
    runs = evidence.table("fetch", "runs.parquet")
    rows = evidence.table("fetch", "evaluations.parquet")
    if runs is None or rows is None:
        return None
    best = best_decays(runs)
    places = zip(rows["arm"], rows["prey"], rows["level"], strict=True)
    return rows[[best.get((arm, task)) == level for arm, task, level in places]]


def first_learned(curve: pd.DataFrame) -> tuple[float, float, int]:
    """Of one cell's evaluations: the first step at which the seeds' median success is at least
    0.9 (infinite: never), the median at the last, and the last step.
    """
    wide = curve.groupby(["seed", "env_steps"])["success_rate"].last().unstack()
    median = median_curve(carry_forward(wide))
    steps = wide.columns.to_numpy()
    learned = steps[[is_learned(x) for x in median]]
    return float(learned[0]) if learned.size else math.inf, float(median[-1]), int(steps[-1])


def goal_movement(runs: pd.DataFrame) -> pd.DataFrame:
    """By task how the achieved goal moves in an episode of PPO, means over seeds.

    `often`: share of the untrained policy's episodes in which it moves, [0, 1]; `trained`: the same
    over training; `far`: from first to last in an episode of the untrained policy, in distances
    between the first and the desired goal.  Tasks of older results are left out.
    """
    names = {
        "goal_moved_first": "often",
        "goal_moved_mean": "trained",
        "goal_displacement_first": "far",
    }
    own = runs[runs["arm"] == PPO].dropna(subset=list(names))
    return own.groupby("prey", sort=False)[list(names)].mean().rename(columns=names)


def gains(tests: pd.DataFrame, arm: str, baseline: str = PPO) -> pd.DataFrame:
    """By task what `arm` has more of than `baseline` in mean success over training.

    Columns mean_difference, low, high (NaN: no interval): paired by seed, within the steps that
    both had. `tests`: rows of tests.csv.
    """
    area = tests[tests["metric"] == AREA].set_index("prey")
    columns = ["mean_difference", "low", "high"]
    same = area[(area["arm"] == arm) & (area["baseline"] == baseline)][columns]
    turned = area[(area["arm"] == baseline) & (area["baseline"] == arm)]
    turned = -turned[["mean_difference", "high", "low"]].set_axis(columns, axis=1)
    return pd.concat([same, turned])


def moving_goals(evidence: Evidence) -> tuple[str, Numbers]:
    """Q8."""
    runs = read(evidence, "moving_goals", "runs.parquet")
    absent = [arm for arm in (PPO, HER) if arm not in set(runs["arm"])]
    if absent:
        raise Untested(f"{' and '.join(absent)} has no results")
    tests = read(evidence, "moving_goals", "tests.csv")
    moved, gain = goal_movement(runs), gains(tests, HER)
    moves, gained = _by_task(moved), _by_task(gain)
    tasks = [task for task in moves if task in gained]
    if not tasks:
        raise Untested("no task has both arms and a record of how its achieved goal moves")
    moved, gain = moved.loc[tasks], gain.loc[tasks]
    cells = runs[runs["arm"] == HER].groupby("prey").agg(
        seeds=("seed", "nunique"), steps=("end_step", "max")
    )  # fmt: skip
    listed = [
        f"{task} in {moves[task]['often']:.0%} ({moves[task]['trained']:.0%} over PPO's training) "
        f"by {moves[task]['far']:.2f}, {_gain_words(gained[task])} ({cells['seeds'][task]} seeds, "
        f"{count(cells['steps'][task])} steps)"
        for task in tasks
    ]
    words = (
        "In how many episodes of an untrained policy the achieved goal moves, how far it does so "
        "in an episode, in distances to the desired goal, and what PPO-HER adds to PPO in mean "
        f"success over training: {'; '.join(listed)}."
    )
    numbers: Numbers = {
        task: {"goal moves": dict(moves[task]), HER: _numbers(gained[task])} for task in tasks
    }
    for how in ("often", "far"):
        pair = moved[how], gain["mean_difference"]
        rank = statistics.spearman(*pair)
        p_value = statistics.spearman_test(*pair, np.random.default_rng(0))
        words += f" {_correlation_words(how, rank, p_value, len(tasks))}"
        numbers[f"rank correlation, how {how}"] = {
            "value": rank, "p": p_value, "tasks": len(tasks)
        }  # fmt: skip
    for arm in dict.fromkeys(runs["arm"]):
        if arm not in (PPO, HER) and len(against := gains(tests, arm, HER)):
            words += f" {_against_words(arm, against)}"
            numbers[f"{arm} less {HER}"] = {
                task: _numbers(row) for task, row in _by_task(against).items()
            }
    return words, numbers


def _by_task(table: pd.DataFrame) -> dict[str, pd.Series]:
    return {str(task): row for task, row in table.iterrows()}


def _correlation_words(how: str, rank: float, p_value: float, n: int) -> str:
    if math.isnan(rank):
        return f"{n} tasks, or tasks that do not differ, have no rank correlation with how {how}."
    if p_value >= ALPHA:
        verdict = "a connection is not shown"
    else:
        verdict = f"the benefit {'grows' if rank > 0 else 'falls'} with the goal's movement"
    return (
        f"Spearman's rank correlation with how {how}, over {n} tasks, which are few, is "
        f"{rank:+.2f} (p = {p_value:.2g}, permutations): {verdict}."
    )


def _gain_words(gain: pd.Series) -> str:
    """`+0.031 (+0.012 to +0.050)`."""
    if np.isnan(gain["low"]):
        return f"{gain['mean_difference']:+.3f}"
    return f"{gain['mean_difference']:+.3f} ({gain['low']:+.3f} to {gain['high']:+.3f})"


def _against_words(arm: str, gain: pd.DataFrame) -> str:
    """On which tasks an arm differs from PPO-HER, as far as intervals tell."""
    mean = f"{arm}, against {HER}: {gain['mean_difference'].mean():+.3f} over {len(gain)} tasks"
    if gain["low"].isna().all():
        return f"{mean}, too few seeds for intervals."
    above, below = (
        [f"{task} {_gain_words(row)}" for task, row in gain[which].iterrows()]
        for which in (gain["low"] > 0, gain["high"] < 0)
    )
    told = [f"{word} on {', '.join(names)}" for word, names in (("better", above), ("worse", below))
            if names]  # fmt: skip
    return f"{mean}, {' and '.join(told) or 'told apart on none'}."


def _numbers(gain: pd.Series) -> dict[str, float]:
    return {name: float(gain[key]) for name, key in (
        ("mean", "mean_difference"), ("low", "low"), ("high", "high"))}  # fmt: skip
