"""The Fetch experiments: claim P7, what learns these tasks, and whether hindsight's benefit grows
with how often and how far the achieved goal moves.

A condition is a task here; success is what counts, because returns have no common scale.
"""

from __future__ import annotations

import math

import pandas as pd

from hindsight.analysis import statistics
from hindsight.analysis.arms import name_of, names_of, select
from hindsight.analysis.effects import CONDITION, paired
from hindsight.analysis.metrics import carry_forward, median_curve
from hindsight.claims.data import CLAIMS
from hindsight.claims.questions import Untested, needed, read
from hindsight.claims.verdicts import (
    NAN,
    ROUNDING,
    Evidence,
    Numbers,
    Outcome,
    Verdict,
    fewest_seeds,
    lack,
    not_tested,
    outcome,
    sizes,
)

REACH: str = CLAIMS["P7"].more["tasks"]["only"]
FETCH: tuple[str, ...] = (REACH, *CLAIMS["P7"].more["tasks"]["others"])
LEARNED: float = CLAIMS["P7"].thresholds["learned"]  # share of episodes that succeed
AREA = "success_auc"


def learns_reach_only(evidence: Evidence) -> Verdict:
    """P7."""
    runs = evidence.table("fetch", "runs.parquet")
    summary = evidence.table("fetch", "summary.csv")
    if runs is None or summary is None:
        return not_tested("P7", evidence, lack("no results"))
    best = best_medians(runs)
    her = best.get("subject", {})
    if REACH not in her:
        return not_tested("P7", evidence, lack("no run of a hundred", task=REACH))
    missing = _missing(summary, list(her))
    # Before last evaluations were added to the rule.
    first = best_medians(runs.assign(final_evaluation_success=NAN))
    with_her, without = (_judged(select(runs, role)) for role in ("subject", "baseline"))
    gains = paired(with_her, without, "success", ["level", CONDITION, "seed"])
    strata = [group.to_numpy() for _, group in gains.groupby(level=["level", CONDITION])]
    low, high = statistics.bootstrap(strata, statistics.mean)
    return Verdict(
        "P7",
        evidence.fidelity,
        _reach_only(her, missing),
        {
            "her": _who(her),
            "ppo": _who(best.get("baseline")),
            "original": _reach_only(first["subject"], missing),
            "original_her": _who(first["subject"]),
            "original_ppo": _who(first.get("baseline")),
            "sizes": sizes(summary),
        },
        float(gains.mean()) if len(gains) else NAN,
        low,
        high,
        n_seeds=fewest_seeds(select(summary, "subject")),
        n_conditions=len(her),
        missing=missing,
        of=evidence.scale("fetch"),
        parts={"reach": is_learned(her[REACH]), "only": not _others(her)},
    )


def _others(her: dict[str, float]) -> int:
    """How many of the other tasks are learned."""
    return sum(is_learned(success) for task, success in her.items() if task != REACH)


def _reach_only(her: dict[str, float], missing: list[Numbers]) -> Outcome:
    others, reach = _others(her), is_learned(her[REACH])
    few = others <= CLAIMS["P7"].thresholds["others"]
    return outcome(reach and not others, reach and few, missing)


def _who(best: dict[str, float] | None) -> Numbers | None:
    """Success by task, and how many of the tasks are learned; None of an arm without runs."""
    if best is None:
        return None
    return {"learned": sum(map(is_learned, best.values())), "of": len(best), "success": best}


def best_medians(runs: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By role and task the best over weight decays of the seeds' median of `success`, [0, 1].

    Of runs that had a hundred episodes, on the tasks of FETCH and in their order.
    """
    runs = _judged(runs[runs["task"].isin(FETCH)]).dropna(subset=["max_success"])
    medians = runs.groupby(["role", "task", "level"])["success"].median()
    best = medians.groupby(level=["role", "task"]).max().unstack("role").reindex(list(FETCH))
    return {
        str(role): {str(task): float(success) for task, success in own.dropna().items()}
        for role, own in best.items()
    }


def _judged(runs: pd.DataFrame) -> pd.DataFrame:
    """With `success` [0, 1]: of a run's best hundred episodes or its last evaluation."""
    return runs.assign(success=runs[["max_success", "final_evaluation_success"]].max(axis=1))


def is_learned(success: float) -> bool:
    """Whether this share of successes counts as learned."""
    return success >= LEARNED - ROUNDING


def _missing(summary: pd.DataFrame, tried: list[str]) -> list[Numbers]:
    """What of the paper's experiment PPO-HER lacks: each caps the verdict at "partly".

    A task counts by its longest runs; a weight decay that was tried for less is absent from these.
    """
    her = select(summary, "subject")
    her = her[her["task"].isin(tried)]
    longest = her[her["budget"] == her.groupby("task")["budget"].transform("max")]
    needs, found = CLAIMS["P7"].needs, []
    if absent := [task for task in FETCH if task not in tried]:
        found.append(lack("tasks", absent=absent))
    decays = int(longest.groupby("task")["level"].nunique().min())
    if decays < needs["weight_decays"]:
        found.append(lack("weight decays", n=decays, of=needs["weight_decays"]))
    if (seeds := fewest_seeds(longest)) < needs["seeds"]:
        found.append(lack("seeds", experiment="fetch", n=seeds, of=needs["seeds"]))
    if (steps := int(longest["budget"].min())) < needs["steps"]:
        found.append(lack("steps", n=steps, of=needs["steps"]))
    return found


def best_decays(runs: pd.DataFrame) -> dict[tuple[str, str], str]:
    """By arm and task the level with the highest mean success over training, of `fetch`."""
    means = runs.dropna(subset=[AREA]).groupby(["arm", "task", "level"], sort=False)[AREA].mean()
    best = means.groupby(level=["arm", "task"], sort=False).idxmax()
    return {(str(arm), str(task)): str(level) for arm, task, level in best}


def yardstick(evidence: Evidence) -> Numbers:
    """T5."""
    rows = read(evidence, "fetch_off_policy", "evaluations.parquet")
    tasks = list(dict.fromkeys(rows["task"]))
    beside = _of_fetch(evidence)
    everything = rows if beside is None else pd.concat([rows, beside])
    found: Numbers = {}
    for task in tasks:
        found[task] = {}
        for arm, curve in everything[everything["task"] == task].groupby("arm", sort=False):
            steps, end, budget = first_learned(curve)
            found[task][str(arm)] = {"steps": steps, "at the end": end, "budget": budget}
    counts = rows.groupby(["arm", "task"])["seed"].nunique()
    return {
        "tasks": found,
        "arms": list(dict.fromkeys(map(str, rows["arm"]))),
        "beside": [] if beside is None else list(dict.fromkeys(map(str, beside["arm"]))),
        "seeds": sorted({int(counts.min()), int(counts.max())}),
        "learned": LEARNED,
    }


def _of_fetch(evidence: Evidence) -> pd.DataFrame | None:
    """Evaluations of PPO and PPO-HER in `fetch`, each task at its best weight decay; None if
    there are none.
    """
    runs = evidence.table("fetch", "runs.parquet")
    rows = evidence.table("fetch", "evaluations.parquet")
    if runs is None or rows is None:
        return None
    best = best_decays(runs)
    places = zip(rows["arm"], rows["task"], rows["level"], strict=True)
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
    own = select(runs, "baseline").dropna(subset=list(names))
    return own.groupby("task", sort=False)[list(names)].mean().rename(columns=names)


def gains(tests: pd.DataFrame, arm: str, baseline: str) -> pd.DataFrame:
    """By task what `arm` has more of than `baseline` in mean success over training.

    Columns mean_difference, low, high (NaN: no interval): paired by seed, within the steps that
    both had. `tests`: rows of tests.csv.
    """
    area = tests[tests["metric"] == AREA].set_index("task")
    columns = ["mean_difference", "low", "high"]
    same = area[(area["arm"] == arm) & (area["baseline"] == baseline)][columns]
    turned = area[(area["arm"] == baseline) & (area["baseline"] == arm)]
    turned = -turned[["mean_difference", "high", "low"]].set_axis(columns, axis=1)
    return pd.concat([same, turned])


def moving_goals(evidence: Evidence) -> Numbers:
    """Q8."""
    runs = read(evidence, "moving_goals", "runs.parquet")
    needed(runs, "baseline", "subject")
    ppo, her = (str(name_of(runs, role)) for role in ("baseline", "subject"))
    tests = read(evidence, "moving_goals", "tests.csv")
    moved, gain = goal_movement(runs), gains(tests, her, ppo)
    tasks = [task for task in moved.index if task in gain.index]
    if not tasks:
        raise Untested("no task with both")
    moved, gain = moved.loc[tasks], gain.loc[tasks]
    cells = select(runs, "subject").groupby("task").agg(
        seeds=("seed", "nunique"), steps=("end_step", "max")
    )  # fmt: skip
    numbers: Numbers = {
        "tasks": {
            task: {
                "moves": {name: float(x) for name, x in moved.loc[task].items()},
                "gain": _numbers(gain.loc[task]),
                "seeds": int(cells["seeds"][task]), "steps": int(cells["steps"][task]),
            }
            for task in tasks
        },
        "correlations": {}, "against": {},
    }  # fmt: skip
    for how in ("often", "far"):
        pair = moved[how], gain["mean_difference"]
        numbers["correlations"][how] = {
            "value": statistics.spearman(*pair),
            "p": statistics.spearman_test(*pair),
        }
    for arm in names_of(runs, "level"):
        if len(against := gains(tests, arm, her)):
            numbers["against"][arm] = {str(task): _numbers(row) for task, row in against.iterrows()}
    return numbers


def _numbers(gain: pd.Series) -> dict[str, float]:
    return {name: float(gain[key]) for name, key in (
        ("mean", "mean_difference"), ("low", "low"), ("high", "high"))}  # fmt: skip
