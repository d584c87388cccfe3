"""Answers to the questions that the papers leave open, as numbers computed from the tables."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pandas as pd

from hindsight.analysis import metrics, statistics
from hindsight.analysis.arms import SET, names_of, select
from hindsight.analysis.best_level import FEWEST_LEVELS, S_RATIO
from hindsight.analysis.effects import CONDITION, RUN, Effect, effect, paired
from hindsight.analysis.metrics import LEARNT
from hindsight.analysis.reduce import ALL
from hindsight.analysis.time_saved import EQUIVALENCE_CONFIDENCE
from hindsight.claims.data import CLAIMS
from hindsight.claims.fetch import moving_goals
from hindsight.claims.ppo_her import stability as stability_of_runs
from hindsight.claims.questions import Untested, needed, read
from hindsight.claims.verdicts import ROUNDING, Evidence, Numbers

ENTROPIES = ("reward_entropy", "action_entropy", "observation_entropy")


def rarely_moves(evidence: Evidence) -> Numbers:
    """Q1."""
    runs = read(evidence, "rarely_moves", "runs.parquet")
    ppo, her = needed(runs, "baseline", "subject")
    numbers: Numbers = {
        "solved": {str(arm): float(own["solved"].mean()) for arm, own in _arms(runs).items()},
        "hindsight": _needed(effect(paired(her, ppo, "auc"))).numbers(),
        "filtered": None,
        "ordinary": None,
    }
    filtered = select(runs, "level", only_if_moved=True)
    if len(filtered):
        numbers["filtered"] = effect(paired(filtered, her, "auc")).numbers()
    ordinary = evidence.table("algorithms", "runs.parquet")
    if ordinary is not None:
        gains = paired(select(ordinary, "subject"), select(ordinary, "baseline"), "auc")
        here = gains.index.get_level_values(CONDITION).isin(her[CONDITION])
        usual = effect(gains[here])
        if usual.n_conditions:
            numbers["ordinary"] = usual.numbers()
    return numbers


def stability(evidence: Evidence) -> Numbers:
    """Q2."""
    runs = read(evidence, "stability", "runs.parquet")
    (her,) = needed(runs, "baseline")
    curves = select(read(evidence, "stability", "seed_curves.parquet"), "baseline")
    table = stability_of_runs(her, curves)
    contrast = effect(table.set_index(RUN)["contrast"].dropna())
    _needed(contrast, "no run reaches half")
    return {
        "contrast": contrast.numbers(),
        "arms": {
            name: {m: effect(paired(arm, her, m)).numbers() for m in ("forgetting", "auc")}
            for name, arm in _arms(select(runs, "level")).items()
        },
    }


def stochasticity(evidence: Evidence) -> Numbers:
    """Q3."""
    _learnt(evidence, "stochasticity")
    runs = read(evidence, "stochasticity", "runs.parquet")
    levels = {str(name): frame for name, frame in runs.groupby("exploration", sort=False)}
    if "gaussian" not in levels or len(levels) < 2:
        raise Untested("one exploration")
    (plain,) = needed(levels["gaussian"], "subject")
    numbers: Numbers = {}
    for name, frame in levels.items():
        (her,) = needed(frame, "subject")
        found: Numbers = {"against gaussian": None, "hindsight": None, "largest log ratio": None}
        if name != "gaussian":
            found["against gaussian"] = _needed(effect(paired(her, plain, "auc"))).numbers()
        if len(ppo := select(frame, "baseline")):
            found["hindsight"] = effect(paired(her, ppo, "auc")).numbers()
        weight = float(her["hindsight_log_ratio_max"].median())
        if not np.isnan(weight):
            found["largest log ratio"] = weight
        numbers[name] = found
    return {"explorations": numbers}


def switch_off(evidence: Evidence) -> Numbers:
    """Q4."""
    _learnt(evidence, "switch_off")
    runs = read(evidence, "switch_off", "runs.parquet")
    best = _best_level(evidence, "switch_off")
    tested = sorted(map(float, runs["until_success"].unique()))
    # A success rate of 1 is never exceeded: these runs are PPO-HER's.
    never = runs[runs["until_success"] >= 1.0]
    return {
        "tested": tested,
        "best": {name: float(best[name]) for name in ("best_level", "best_to", "low", "high")},
        "kept": [x for x in tested if best["low"] - ROUNDING <= x <= best["high"] + ROUNDING],
        "n_seeds": int(best["n_seeds"]),
        "n_conditions": int(best["n_conditions"]),
        "margin": CLAIMS["M5"].thresholds["equal"],
        "against": {
            f"{level:g}": _against(never, runs[runs["until_success"] == level])
            for level in tested
            if level < 1.0 and len(never)
        },
    }


def _against(never: pd.DataFrame, arm: pd.DataFrame) -> Numbers:
    """What an arm saves of the updates of runs that never switch, and what that costs in return."""
    cost = effect(paired(arm, never, "final_evaluation_return"), EQUIVALENCE_CONFIDENCE)
    margin = CLAIMS["M5"].thresholds["equal"]
    return {
        "saved": effect(_saved_updates(arm, never)).numbers(),
        "cost": cost.numbers(),
        "equivalent": bool(cost.low > -margin and cost.high < margin),
    }


def _saved_updates(arm: pd.DataFrame, baseline: pd.DataFrame) -> pd.Series:
    """Share of minibatch updates saved per environment step, by run; free of the clock's noise."""
    a, b = (frame.set_index(RUN) for frame in (arm, baseline))
    b = b.reindex(a.index)
    share = 1.0 - (a["updates"] / a["end_step"]) / (b["updates"] / b["end_step"])
    return share.astype(float).dropna()


def generalise(evidence: Evidence) -> Numbers:
    """Q5."""
    runs = read(evidence, "generalise", "runs.parquet")
    numbers: Numbers = {}
    for task, own in runs.groupby("task", sort=False):
        arms = _arms(own)
        means = {arm: float(frame["success_auc"].mean()) for arm, frame in arms.items()}
        of_s = _arms(select(own, s_ratio=SET))
        at = {arm: float(rows[S_RATIO].iloc[0]) for arm, rows in of_s.items()}
        ratios = sorted(at, key=at.__getitem__)
        if len(ratios) < 2:
            continue
        best = max(ratios, key=means.__getitem__)
        against = {
            arm: effect(paired(arms[best], arms[arm], "success_auc"))
            for arm in ratios
            if arm != best
        }
        found: Numbers = {
            "means": means, "best": at[best],
            "others": [
                {"s": at[arm], "unsure": one.sign() <= 0, **one.numbers()}
                for arm, one in against.items()
            ],
            "hindsight": None, "more": {},
            "seeds": sorted({len(frame) for frame in arms.values()}),
        }  # fmt: skip
        her = select(own, "baseline")
        if len(her):
            gain = effect(paired(arms[best], her, "success_auc"))
            found["hindsight"] = gain.numbers()
            for arm in names_of(own, "level", s_ratio=None):
                found["more"][arm] = effect(paired(arms[arm], her, "success_auc")).numbers()
        numbers[str(task)] = found
    if not numbers:
        raise Untested("no two S")
    return {"tasks": numbers}


def signals(evidence: Evidence) -> Numbers:
    """Q6."""
    _learnt(evidence, "s_ratio")
    rows = read(evidence, "s_ratio", "evaluations.parquet").dropna(subset=list(ENTROPIES))
    if rows.empty:
        raise Untested("no entropies")
    entropies = rows.groupby([S_RATIO, *RUN])[list(ENTROPIES)].mean()
    # Means over runs that have every S: else a condition that lacks one would tilt them.
    whole = entropies["reward_entropy"].unstack(S_RATIO).dropna()
    if whole.empty or rows[S_RATIO].nunique() < FEWEST_LEVELS:
        raise Untested("no whole S")
    means = {name: entropies[name].unstack(S_RATIO).dropna().mean() for name in ENTROPIES}
    rewards = means["reward_entropy"]
    n_conditions = len(whole.groupby(level=CONDITION))
    area = read(evidence, "s_ratio", "runs.parquet").set_index([S_RATIO, *RUN])["auc"]
    correlation = effect(_correlations(entropies.join(area), "reward_entropy", "auc"))
    return {
        "means": {
            name.removesuffix("_entropy"): {f"{s:g}": float(x) for s, x in mean.items()}
            for name, mean in means.items()
        },
        "highest": float(str(rewards.idxmax())), "bits": float(rewards.max()),
        "first": f"{rewards.index.min():g}", "last": f"{rewards.index.max():g}",
        "n_seeds": len(whole) // n_conditions, "n_conditions": n_conditions,
        "correlation": correlation.numbers() if correlation.n_conditions else None,
    }  # fmt: skip


def near_far(evidence: Evidence) -> Numbers:
    """Q7."""
    _learnt(evidence, "near_far")
    runs = read(evidence, "near_far", "runs.parquet")
    tested = sorted(map(float, runs["failure_distance"].unique()))
    if len(tested) < 2:
        raise Untested("one distance")
    near, far = tested[0], tested[-1]
    nearest, farthest = (runs[runs["failure_distance"] == distance] for distance in (near, far))
    gain = _needed(effect(paired(nearest, farthest, "auc")))
    trend = effect(_correlations(runs.set_index(["failure_distance", *RUN]), None, "auc"))
    return {
        "near": near, "far": far, "distances": len(tested), "difference": gain.numbers(),
        "correlation": trend.numbers() if trend.n_conditions else None,
    }  # fmt: skip


def network(evidence: Evidence) -> Numbers:
    """Q9: each algorithm with the smallest and the largest network, by condition."""
    runs = read(evidence, "network", "runs.parquet")
    sizes = sorted(runs["hidden"].unique(), key=lambda text: sum(json.loads(text)))
    if len(sizes) < 2:
        raise Untested("no pair")
    small, large = (select(runs, hidden=size) for size in (sizes[0], sizes[-1]))
    found: dict[str, dict[str, dict[str, float]]] = {}
    pairs: list[pd.DataFrame] = []
    for arm, own in _arms(small).items():
        first = own.iloc[0]
        her = None if pd.isna(first["her"]) else first["her"]
        other = select(large, algorithm=first["algorithm"], her=her)
        for condition, rows in other.groupby(CONDITION, sort=False):
            both = own[own[CONDITION] == condition], rows
            means = [float(x["final_evaluation_success"].mean()) for x in both]
            found.setdefault(str(condition), {})[arm] = {"small": means[0], "large": means[1]}
            pairs += both
    if not pairs:
        raise Untested("no pair")
    return {
        "small": json.loads(sizes[0]), "large": json.loads(sizes[-1]), "conditions": found,
        "n_seeds": sorted({len(rows) for rows in pairs}),
    }  # fmt: skip


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


ANSWERS: dict[str, Callable[[Evidence], Numbers]] = {
    "Q1": rarely_moves,
    "Q2": stability,
    "Q3": stochasticity,
    "Q4": switch_off,
    "Q5": generalise,
    "Q6": signals,
    "Q7": near_far,
    "Q8": moving_goals,
    "Q9": network,
}


def _arms(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The runs of each arm."""
    return {str(arm): frame for arm, frame in runs.groupby("arm", sort=False)}


def _learnt(evidence: Evidence, experiment: str) -> None:
    """Where nothing is learned nothing can be compared."""
    summary = read(evidence, experiment, "summary.csv")
    if (metrics.scaled(summary["max_median_return"]) < LEARNT - ROUNDING).all():
        raise Untested("nothing learned")


def _best_level(evidence: Evidence, experiment: str) -> pd.Series:
    """The row of best_level.csv over all complete conditions."""
    table = read(evidence, experiment, "best_level.csv")
    together = table[table[CONDITION] == ALL]
    if together.empty:
        raise Untested("no complete condition")
    return together.iloc[0]


def _needed(found: Effect, reason: str = "no pair") -> Effect:
    if not found.n_conditions:
        raise Untested(reason)
    return found
