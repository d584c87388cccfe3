"""What the experiments on other systems' tasks show, in words computed from their tables.

Success is what counts here: the tasks' returns have no common scale.  As in `answers`, a difference
is told only where its interval allows it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hindsight.analysis import statistics
from hindsight.analysis.effects import NAN, Effect, effect, paired
from hindsight.analysis.fetch import yardstick
from hindsight.analysis.questions import Numbers, Question, Untested, read, told
from hindsight.analysis.verdicts import Evidence, count
from hindsight.specs.tasks import PointReachSpec

#: The notebook's setting, and what it printed (of one run): success over its last episodes.
NOTEBOOK, BOOTSTRAPPED = "the notebook's DDPG + HER", "the notebook's, bootstrapped"
NOTEBOOK_EPISODES, NOTEBOOK_LAST, NOTEBOOK_SUCCESS = 150, 25, 0.12
CORRECT, WITHOUT = "DDPG + HER", "DDPG"
NOTEBOOK_ARMS = (NOTEBOOK, BOOTSTRAPPED, CORRECT, WITHOUT)
PLAIN, HINDSIGHT = "DQN", "DQN + HER"
WITH_PRIORITIES = {PLAIN: "DQN + PER", HINDSIGHT: "DQN + HER + PER"}
SOLVES, FAILS = 0.9, 0.1  # shares of the final episodes that succeed
FINAL, AREA = "final_evaluation_success", "success_auc"
SECTION = "other systems"

Array = NDArray[np.float64]
Spread = tuple[float, float, float]  # mean, and its interval's bounds (NaN: none)


def early_success(rows: pd.DataFrame) -> pd.Series:
    """What the notebook prints: success over episodes 126 to 150, by arm and seed.

    rows: of seed_curves.parquet with a row per episode; runs with fewer episodes are left out.
    """
    rows = rows.sort_values(["arm", "seed", "env_steps"])
    episode = rows.groupby(["arm", "seed"], sort=False).cumcount() + 1
    window = rows[(episode > NOTEBOOK_EPISODES - NOTEBOOK_LAST) & (episode <= NOTEBOOK_EPISODES)]
    runs = window.groupby(["arm", "seed"], sort=False)["episode_success"]
    return runs.mean()[runs.count() == NOTEBOOK_LAST]


def notebook(evidence: Evidence) -> tuple[str, Numbers]:
    """T1."""
    runs = read(evidence, "point_reach", "runs.parquet")
    early = early_success(read(evidence, "point_reach", "seed_curves.parquet"))
    numbers: Numbers = {}
    words = (
        f"The notebook printed a success of {NOTEBOOK_SUCCESS:g} over the last {NOTEBOOK_LAST} of "
        f"its {NOTEBOOK_EPISODES} episodes, from one run. "
    )
    told_early = []
    for arm in NOTEBOOK_ARMS:
        if arm in early.index:
            values = early[arm].to_numpy()
            found = _mean(values)
            numbers[f"{arm}, episodes as printed"] = _numbers(found)
            spread = f"runs from {values.min():.2f} to {values.max():.2f}"
            told_early.append(f"{arm} {_words(found)}, {spread}")
    words += (
        f"Over the same episodes here: {'; '.join(told_early)}. "
        if told_early
        else f"No run here has {NOTEBOOK_EPISODES} episodes. "
    )
    ends = {}
    for arm in NOTEBOOK_ARMS:
        values = runs.loc[runs["arm"] == arm, FINAL].dropna().to_numpy()
        if values.size:
            ends[arm] = _mean(values)
            numbers[f"{arm}, at the end"] = _numbers(ends[arm])
    if not ends:
        raise Untested("no arm has results")
    episodes = evidence.budget("point_reach") // PointReachSpec().step_limit
    listed = "; ".join(f"{arm} {_words(found)}" for arm, found in ends.items())
    words += (
        f"After {episodes} episodes, without exploration noise, the share that succeeds is: "
        f"{listed} ({_seeds(runs)})."
    )
    for name, arm, baseline in (
        ("Bootstrapping at the time limit", BOOTSTRAPPED, NOTEBOOK),
        ("Uniform actions until learning starts", CORRECT, BOOTSTRAPPED),
        ("Hindsight", CORRECT, WITHOUT),
    ):
        difference = _difference(runs, arm, baseline)
        if difference is not None:
            numbers[name] = difference.numbers()
            words += f" {name} {told(difference, 'it')}."
    return words, numbers


def bits(evidence: Evidence) -> tuple[str, Numbers]:
    """T2."""
    runs = read(evidence, "bit_flipping", "runs.parquet")
    numbers: Numbers = {}
    parts = []
    for arm in (PLAIN, HINDSIGHT):
        own = runs[runs["arm"] == arm]
        means = own.groupby("n_bits")[FINAL].mean().dropna().sort_index()
        if means.empty:
            continue
        numbers[arm] = {f"n = {n:g}": float(x) for n, x in means.items()}
        parts.append(f"{arm}: {reach(means)} ({_listed(means)})")
    if not parts:
        raise Untested(f"neither {PLAIN} nor {HINDSIGHT} has results")
    words = (
        f"Mean success after {count(evidence.budget('bit_flipping'))} steps by number of bits n, "
        f"solved from {SOLVES:g} and failed below {FAILS:g}. {'. '.join(parts)}."
    )
    for baseline, arm in [(PLAIN, HINDSIGHT), *WITH_PRIORITIES.items()]:
        found = _difference(runs, arm, baseline)
        if found is not None:
            numbers[f"{arm} less {baseline}"] = found.numbers()
            words += f" Over all n, {arm} against {baseline} {told(found, 'success')}."
    others = [arm for arm in runs["arm"].unique() if str(arm).startswith(f"{HINDSIGHT} (")]
    compared = []
    for arm in others:
        found = _difference(runs, str(arm), HINDSIGHT)
        if found is not None:
            numbers[f"{arm} less {HINDSIGHT}"] = found.numbers()
            compared.append(f"{str(arm)[len(HINDSIGHT) + 2 : -1]} {found.words()}")
    if compared:
        words += f" Against the strategy future, where both were trained: {'; '.join(compared)}."
    return f"{words} ({_seeds(runs)}.)", numbers


def reach(means: pd.Series) -> str:
    """Up to which of the numbers of bits (the index, ascending) all are solved, which fail."""
    solved = means[(means >= SOLVES).cummin()]
    failed = means[(means < FAILS)[::-1].cummin()[::-1]]
    first = f"solved up to n = {solved.index[-1]:g}" if len(solved) else "solved at no n"
    last = f"failed from n = {failed.index[0]:g} on" if len(failed) else "failed at no n"
    return f"{first}, {last}"


def _listed(means: pd.Series) -> str:
    return ", ".join(f"{n:g}: {x:.2f}" for n, x in means.items())


def best_strategy(evidence: Evidence, experiment: str) -> tuple[str, Numbers]:
    """T3, T4, T6: the setting with the largest area under the curve of success, and the others."""
    runs = read(evidence, experiment, "runs.parquet").dropna(subset=[AREA])
    names = runs[["strategy", "k"]].drop_duplicates()
    if len(names) < 2:
        raise Untested("fewer than two settings have results")
    # As if each setting were an arm: what differs is compared seed by seed.
    runs = runs.assign(arm=[f"{s}, k = {k:g}" for s, k in zip(runs["strategy"], runs["k"],
                                                              strict=True)])  # fmt: skip
    table = runs.groupby("arm")[[AREA, FINAL]].mean().sort_values(AREA, ascending=False)
    best = str(table.index[0])
    own = runs[runs["arm"] == best]
    area, final = (_mean(own[column].to_numpy()) for column in (AREA, FINAL))
    numbers: Numbers = {
        "best": best,
        "mean success over training": _numbers(area),
        "success at the end": _numbers(final),
        "all": {str(arm): float(x) for arm, x in table[AREA].items()},
    }
    words = (
        f"Of {len(names)} settings, {best} has the highest success over training, "
        f"{_words(area)}, and succeeds in {_words(final)} of the episodes at the end "
        f"({_seeds(runs)})"
    )
    same = []
    for arm in table.index[1:]:
        found = effect(paired(own, runs[runs["arm"] == arm], AREA))
        if not np.isnan(found.low) and not found.sign():
            same.append(str(arm))
    if len(own) < statistics.FEWEST_SEEDS:
        words += "; too few seeds to tell it from the others"
    elif same:
        words += f"; not told apart from it: {'; '.join(same)}"
    else:
        words += "; the intervals of its lead exclude all others"
    worst = str(table.index[-1])
    words += f". The lowest is {worst}, {table[AREA].iloc[-1]:.2f}."
    for key, text in (("strategy", "strategy"), ("k", "k")):
        means = runs.groupby(key)[AREA].mean().sort_values(ascending=False)
        if len(means) > 1:
            numbers[f"by {text}"] = {str(name): float(x) for name, x in means.items()}
            listed = ", ".join(f"{n if isinstance(n, str) else f'{n:g}'} {x:.2f}"
                               for n, x in means.items())  # fmt: skip
            words += f" By {text}, over the rest: {listed}."
    return words, numbers


def _mean(values: Array) -> Spread:
    """The mean over seeds with its bootstrap interval."""
    low, high = statistics.bootstrap([values], statistics.mean, np.random.default_rng(0))
    return float(values.mean()), low, high


def _words(found: Spread) -> str:
    """`0.53 (0.41 to 0.65)`."""
    mean, low, high = found
    return f"{mean:.2f}" if np.isnan(low) else f"{mean:.2f} ({low:.2f} to {high:.2f})"


def _numbers(found: Spread) -> dict[str, float]:
    return dict(zip(("mean", "low", "high"), found, strict=True))


def _difference(runs: pd.DataFrame, arm: str, baseline: str) -> Effect | None:
    """What `arm` has more of success at the end, level by level and seed by seed; None if no level
    has both.
    """
    mine, other = (runs[runs["arm"] == name] for name in (arm, baseline))
    values = paired(mine, other, FINAL, ["level", "prey", "seed"])
    strata = [group.to_numpy() for _, group in values.groupby(level=["level", "prey"])]
    if not strata:
        return None
    low, high = statistics.bootstrap(strata, statistics.mean, np.random.default_rng(0))
    means = [group.mean() for group in strata]
    ahead, behind = sum(m > 0 for m in means), sum(m < 0 for m in means)
    fewest = min(len(group) for group in strata)
    mean = float(np.concatenate(strata).mean())
    return Effect(mean, low, high, NAN, "seeds", ahead, behind, len(strata), fewest)


def _seeds(runs: pd.DataFrame) -> str:
    """`16 seeds`: of the cells that these runs are of."""
    counts = runs.groupby(["arm", "level"])["seed"].nunique()
    few, many = int(counts.min()), int(counts.max())
    words = f"{few} seeds" if few == many else f"{few} to {many} seeds"
    few_said = ", fewer than five without interval" if few < statistics.FEWEST_SEEDS else ""
    return words + few_said


QUESTIONS = (
    Question(
        "T1", "Does DDPG with hindsight reach on a point mass what the notebook reached, and how "
        "far does it go?",
        "point_reach", "point_reach", notebook, ("described",), SECTION,
    ),
    Question(
        "T2", "Up to how many bits does DQN learn, what does hindsight add, and do priorities "
        "help?",
        "bit_flipping", "bit_flipping", bits, section=SECTION,
    ),
    Question(
        "T3", "Which goals, and how many of them, are best when flipping bits?",
        "bit_strategies", "bit_strategies",
        partial(best_strategy, experiment="bit_strategies"), ("described",), SECTION,
    ),
    Question(
        "T4", "Which goals, and how many of them, are best on the point mass?",
        "reach_strategies", "reach_strategies",
        partial(best_strategy, experiment="reach_strategies"), ("described",), SECTION,
    ),
    Question(
        "T5", "Does anything learn the Fetch tasks here, and in how many steps?",
        "fetch_off_policy", "fetch_off_policy", yardstick, ("described",), SECTION,
    ),
    Question(
        "T6", "Which goals are best on FetchReach?",
        "fetch_strategies", "fetch_strategies",
        partial(best_strategy, experiment="fetch_strategies"), ("described",), SECTION,
    ),
)  # fmt: skip
