"""What the experiments on other systems' tasks show, as numbers computed from their tables.

Success is what counts here: the tasks' returns have no common scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hindsight.analysis import statistics
from hindsight.analysis.arms import SET, name_of, names_of, select
from hindsight.analysis.effects import CONDITION, NAN, Effect, effect, paired
from hindsight.claims.fetch import yardstick
from hindsight.claims.questions import QUESTIONS, Untested, read
from hindsight.claims.verdicts import Evidence, Numbers
from hindsight.specs.environments.point_reach import PointReachSpec

#: The notebook's setting, and what it printed (of one run): success over its last episodes.
_PRINTED = QUESTIONS["T1"].published
NOTEBOOK_EPISODES: int = _PRINTED["episodes"]
NOTEBOOK_LAST: int = _PRINTED["last"]
NOTEBOOK_SUCCESS: float = _PRINTED["success"]
FINAL, AREA = "final_evaluation_success", "success_auc"

Array = NDArray[np.float64]


def early_success(rows: pd.DataFrame) -> pd.Series:
    """What the notebook prints: success over episodes 126 to 150, by arm and seed.

    rows: of seed_curves.parquet with a row per episode; runs with fewer episodes are left out.
    """
    rows = rows.sort_values(["arm", "seed", "env_steps"])
    episode = rows.groupby(["arm", "seed"], sort=False).cumcount() + 1
    window = rows[(episode > NOTEBOOK_EPISODES - NOTEBOOK_LAST) & (episode <= NOTEBOOK_EPISODES)]
    runs = window.groupby(["arm", "seed"], sort=False)["episode_success"]
    return runs.mean()[runs.count() == NOTEBOOK_LAST]


def notebook(evidence: Evidence) -> Numbers:
    """T1."""
    runs = read(evidence, "point_reach", "runs.parquet")
    early = early_success(read(evidence, "point_reach", "seed_curves.parquet"))
    numbers: Numbers = {"printed": _PRINTED, "early": {}, "end": {}, "differences": {}}
    for arm in names_of(runs):
        if arm in early.index:
            values = early[arm].to_numpy()
            numbers["early"][arm] = _mean(values) | {
                "lowest": float(values.min()), "highest": float(values.max())
            }  # fmt: skip
        if (values := runs.loc[runs["arm"] == arm, FINAL].dropna().to_numpy()).size:
            numbers["end"][arm] = _mean(values)
    if not numbers["end"]:
        raise Untested("no results")
    numbers["episodes"] = evidence.budget("point_reach") // PointReachSpec().step_limit
    numbers["seeds"] = _seeds(runs)
    for name, role, against in (
        ("bootstrapping", "level", "reference"),
        ("uniform", "subject", "level"),
        ("hindsight", "subject", "baseline"),
    ):
        difference = _difference(runs, name_of(runs, role), name_of(runs, against))
        if difference is not None:
            numbers["differences"][name] = difference.numbers() | {"sign": difference.sign()}
    return numbers


def bits(evidence: Evidence) -> Numbers:
    """T2."""
    limits = QUESTIONS["T2"].thresholds
    runs = read(evidence, "bit_flipping", "runs.parquet")
    plain, her = name_of(runs, "baseline"), name_of(runs, "subject")
    numbers: Numbers = {
        "steps": evidence.budget("bit_flipping"), **limits, "arms": {}, "pairs": [],
        "strategies": {}, "seeds": _seeds(runs),
    }  # fmt: skip
    for arm in (plain, her):
        own = runs[runs["arm"] == arm]
        means = own.groupby("n_bits")[FINAL].mean().dropna().sort_index()
        if len(means):
            numbers["arms"][str(arm)] = {
                "means": {f"{n:g}": float(x) for n, x in means.items()}
            } | reach(means)
    if not numbers["arms"]:
        raise Untested("no arm", roles=["baseline", "subject"])
    prioritized = {
        plain: name_of(runs, "level", prioritized=SET, her=None),
        her: name_of(runs, "level", prioritized=SET, her=SET),
    }
    for baseline, arm in ((plain, her), *prioritized.items()):
        found = _difference(runs, arm, baseline)
        if found is not None:
            numbers["pairs"].append({"arm": arm, "baseline": baseline, **found.numbers()})
    for arm in names_of(runs, "level", prioritized=None):
        found = _difference(runs, arm, her)
        if found is not None:
            strategy = str(select(runs[runs["arm"] == arm])["her"].iloc[0])
            numbers["strategies"][strategy] = found.numbers()
    return numbers


def reach(means: pd.Series) -> Numbers:
    """Up to which of the numbers of bits (the index, ascending) all are solved, from which on all
    fail; None: at none.
    """
    limits = QUESTIONS["T2"].thresholds
    solved = means[(means >= limits["solved"]).cummin()]
    failed = means[(means < limits["failed"])[::-1].cummin()[::-1]]
    return {
        "solved_up_to": float(solved.index[-1]) if len(solved) else None,
        "failed_from": float(failed.index[0]) if len(failed) else None,
    }


def best_strategy(evidence: Evidence, experiment: str) -> Numbers:
    """T3, T4, T6: the setting with the largest area under the curve of success, and the others."""
    runs = read(evidence, experiment, "runs.parquet").dropna(subset=[AREA])
    names = runs[["strategy", "k"]].drop_duplicates()
    if len(names) < 2:
        raise Untested("one setting")
    # As if each setting were an arm: what differs is compared seed by seed.
    runs = runs.assign(arm=[f"{s}, k = {k:g}" for s, k in zip(runs["strategy"], runs["k"],
                                                              strict=True)])  # fmt: skip
    table = runs.groupby("arm")[[AREA, FINAL]].mean().sort_values(AREA, ascending=False)
    best = str(table.index[0])
    own = runs[runs["arm"] == best]
    same = []
    for arm in table.index[1:]:
        found = effect(paired(own, runs[runs["arm"] == arm], AREA))
        if not np.isnan(found.low) and not found.sign():
            same.append(str(arm))
    by = {key: runs.groupby(key)[AREA].mean().sort_values(ascending=False)
          for key in ("strategy", "k")}  # fmt: skip
    return {
        "settings": len(names), "best": best, "same": same,
        "area": _mean(own[AREA].to_numpy()), "final": _mean(own[FINAL].to_numpy()),
        "enough": len(own) >= statistics.FEWEST_SEEDS, "seeds": _seeds(runs),
        "worst": str(table.index[-1]), "lowest": float(table[AREA].iloc[-1]),
        "all": {str(arm): float(x) for arm, x in table[AREA].items()},
        "by": {
            key: {n if isinstance(n, str) else f"{n:g}": float(x) for n, x in means.items()}
            for key, means in by.items()
            if len(means) > 1
        },
    }  # fmt: skip


def _mean(values: Array) -> dict[str, float]:
    """The mean over seeds with its bootstrap interval."""
    low, high = statistics.bootstrap([values], statistics.mean)
    return {"mean": float(values.mean()), "low": low, "high": high}


def _difference(runs: pd.DataFrame, arm: str | None, baseline: str | None) -> Effect | None:
    """What `arm` has more of success at the end, level by level and seed by seed; None if no level
    has both.
    """
    mine, other = (runs[runs["arm"] == name] for name in (arm, baseline))
    values = paired(mine, other, FINAL, ["level", CONDITION, "seed"])
    strata = [group.to_numpy() for _, group in values.groupby(level=["level", CONDITION])]
    if not strata:
        return None
    low, high = statistics.bootstrap(strata, statistics.mean)
    means = [group.mean() for group in strata]
    ahead, behind = sum(m > 0 for m in means), sum(m < 0 for m in means)
    fewest = min(len(group) for group in strata)
    mean = float(np.concatenate(strata).mean())
    return Effect(mean, low, high, NAN, "seeds", ahead, behind, len(strata), fewest)


def _seeds(runs: pd.DataFrame) -> list[int]:
    """The fewest and the most seeds of the cells that these runs are of."""
    counts = runs.groupby(["arm", "level"])["seed"].nunique()
    return sorted({int(counts.min()), int(counts.max())})


ANSWERS: dict[str, Callable[[Evidence], Numbers]] = {
    "T1": notebook,
    "T2": bits,
    "T3": partial(best_strategy, experiment="bit_strategies"),
    "T4": partial(best_strategy, experiment="reach_strategies"),
    "T5": yardstick,
    "T6": partial(best_strategy, experiment="fetch_strategies"),
}
