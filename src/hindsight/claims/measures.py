"""Measure in the tables what the papers claim, one function per measure.

Steps and minutes are those to a training return of 0.8 (`learn_step`). A run that ends before that
is censored and counts with its last step, so that its log-ratio is a bound. Ratios are log2, and
positive values support the claim. Tests are a run's last evaluation, without random actions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, NonNegativeFloat, PositiveInt

from hindsight.analysis import statistics
from hindsight.analysis.arms import select
from hindsight.analysis.best_level import draw_seeds, resampled_medians
from hindsight.analysis.metrics import FLOOR, LEARNT, ROUNDING, SOLVED_SUCCESS, scaled
from hindsight.analysis.reduce import ALL, Array
from hindsight.analysis.statistics import percentile_interval
from hindsight.analysis.summarise import read_plan
from hindsight.claims.evidence import (
    CONDITION,
    NAN,
    RUN,
    Evidence,
    Measured,
    Untested,
    by_condition,
    detectable,
    of_values,
    paired,
    sides,
)

LAST = {"learn_step": "end_step", "learn_minutes": "minutes"}
BOTH = ("subject", "baseline")
FOUR = (*BOTH, "reference")
NOTHING = "no run reaches a training return of 0.8"
#: Arms are timed alike if their clocks differ by at most this share before the switch.
ALIKE = 0.05
TENTHS = 10  # parts of a run
CUT = "every run that switched, or its partner, diverged"
#: The experiment that compares the algorithms.
MAIN = "algorithms"
S_RATIO = "s_ratio"
#: Columns of summary.csv: over an arm's own steps, and over those that all arms had.
Maximum = Literal["coarse_max_median_return", "common_steps_max_median_return"]
#: What a run of `tasks_learned` must have.
Needs = Annotated[dict[Literal["steps", "weight_decays", "seeds"], int], Field(min_length=3)]


def _log_time(runs: pd.DataFrame, time: str = "learn_step") -> pd.Series:
    """Return log2 of the time to learn, or else of a run's last time, by condition and seed."""
    found = runs[time].fillna(runs[LAST[time]]).astype(float)
    return pd.Series(np.log2(found.to_numpy()), pd.MultiIndex.from_frame(runs[RUN]))


def _by_run(found: Mapping[Any, float]) -> pd.Series:
    index = pd.MultiIndex.from_tuples(list(found), names=RUN)
    return pd.Series(list(found.values()), index, dtype=float)


def _means(strata: Sequence[Array]) -> tuple[Array, Array]:
    """Return means over seeds of an array `[seed, ...]` per condition.

    `[condition, ...]`, and those over resampled seeds, `[condition, draw, ...]`.
    """
    means = np.array([own.mean(axis=0) for own in strata])
    return means, np.array([own[draw_seeds(len(own))].mean(axis=1) for own in strata])


def _tops(rows: pd.DataFrame, spacing: float) -> Array:
    """Return maximum median returns of resampled seeds `[draw]`, read at multiples of `spacing`.

    `rows` are one cell's rows of seed_curves.parquet.
    """
    wide = rows.pivot(index="env_steps", columns="seed", values="return_mean").ffill()
    grid = np.arange(spacing, wide.index[-1] + spacing, spacing)
    curve = wide.reindex(grid, method="ffill").to_numpy(dtype=np.float64)
    return np.asarray(np.nanmax(resampled_medians(curve, draw_seeds(curve.shape[1])), axis=0))


def _must_be_all(evidence: Evidence, experiment: str, *roles: str) -> None:
    """Raise Untested if an arm with one of these roles was left out, and so is no rival."""
    plan = read_plan(evidence.directory / experiment / "plan.json")
    there = {e["arm"] for e in plan["entries"] if e["fidelity"] == evidence.fidelity}
    every = plan.get("roles", dict.fromkeys(plan["arms"], roles[0]))  # older plans have none
    arms = [arm for arm, role in every.items() if role in roles]
    if absent := [arm for arm in arms if arm not in there]:
        raise Untested(f"the experiment {experiment} has no results of {' and '.join(absent)}")


def _must_be_as_long(budgets: pd.DataFrame) -> None:
    """Raise Untested if the cells of a condition had different budgets.

    A run that never learns counts with its last step, so that shorter cells would seem better.
    """
    of = budgets.groupby(CONDITION)["budget"].agg(["min", "max"])
    for place, (least, most) in of[of["min"] < of["max"]].iterrows():
        raise Untested(f"{place} has cells of {least:,} steps and of {most:,}")


def highest(
    evidence: Evidence, *, tie: NonNegativeFloat, column: Maximum, experiment: str = MAIN
) -> Measured:
    """P1: count the conditions in which PPO-HER's maximum median return is the highest, or ties.

    `column`: which maximum, a column of summary.csv.
    """
    summary = evidence.table(experiment, "summary.csv", *FOUR)
    curves = evidence.table(experiment, "seed_curves.parquet", *FOUR)
    _must_be_all(evidence, experiment, *FOUR)
    if select(summary, "reference")["her"].isna().nunique() < 2:
        raise Untested(f"SAC or SAC-HER is missing in {experiment}")
    leads, won, seeds = {}, [], int(summary["n_seeds"].min())
    most = summary.groupby(CONDITION).size().max()
    for place, arms in summary.groupby(CONDITION, sort=False):
        if len(arms) < most or scaled(arms["coarse_max_median_return"]).max() < LEARNT - ROUNDING:
            continue
        if (subject := select(arms, "subject")).empty:
            continue
        her = subject["arm"].iloc[0]
        top = arms.set_index("arm")[column]
        leads[str(place)] = float(top[her] - top.drop(her).max())
        if column.startswith("coarse"):
            here = curves[curves[CONDITION] == place]
            spacing = here.groupby("arm")["env_steps"].min().max()
            tops = {str(arm): _tops(own, spacing) for arm, own in here.groupby("arm")}
            others = np.max([own for arm, own in tops.items() if arm != her], axis=0)
            won.append(tops[her] >= others - tie - ROUNDING)
    if not leads:
        raise Untested("no arm learns in any condition")
    ahead = sum(lead >= -tie - ROUNDING for lead in leads.values())
    low, high = percentile_interval(np.sum(won, axis=0), seeds) if won else (NAN, NAN)
    return Measured(
        float(ahead), low, high, n_conditions=len(leads), n_seeds=seeds, ahead=ahead,
        behind=len(leads) - ahead, conditions=leads,
        words={"alone": sum(lead > tie + ROUNDING for lead in leads.values())},
        missing=sizes(summary),
    )  # fmt: skip


def first(
    evidence: Evidence,
    *,
    rivals: dict[str, str],
    time: Literal["learn_step", "learn_minutes"],
    experiment: str = MAIN,
) -> Measured:
    """P2, P3: compare the times at which the median runs of PPO-HER and its rivals learn.

    The value is log2 of the fastest rival's steps or minutes over PPO-HER's, averaged over the
    conditions in which both medians learn.  These are found anew in each resample.
    """
    runs = evidence.table(experiment, "runs.parquet", "subject", rivals["role"])
    summary = evidence.table(experiment, "summary.csv", "subject", rivals["role"])
    her, other = select(runs, "subject"), select(runs, **rivals)
    if other.empty:
        raise Untested("the rival has no results")
    if rivals == {"role": "reference"}:
        _must_be_all(evidence, experiment, "reference")
    if time == "learn_minutes":
        clocks = summary[summary["arm"].isin({*her["arm"], *other["arm"]})]
        on_gpu = clocks["timed_on"].astype(str).str.contains("NVIDIA")
        if on_gpu.nunique() > 1:
            named = ", ".join(clocks["arm"][on_gpu].unique())
            raise Untested(f"{named} was timed on a GPU, and what it is compared with was not")
    if other[time].isna().all() and her[time].isna().all():
        raise Untested(NOTHING)
    ratios, sides, ratio_of, censored = [], [], dict[str, float](), 0
    resampled, fewest = [], []
    for place, mine in her.groupby(CONDITION, sort=False):
        arms = [own for _, own in other[other[CONDITION] == place].groupby("arm", sort=False)]
        if len(arms) < other["arm"].nunique():  # the fastest may be one that was not trained there
            continue
        resampled.append(_raced([mine, *arms], time))
        fewest.append(min(len(own) for own in (mine, *arms)))
        fastest = min(arms, key=lambda own: _median(own[time]))
        sides.append(min(_before(mine, own, time) for own in arms))
        if np.isfinite([_median(mine[time]), _median(fastest[time])]).all():
            values = (_log_time(fastest, time) - _log_time(mine, time)).dropna()
            ratios.append(values)
            ratio_of[str(place)] = float(values.mean())
            censored += int(fastest[time].isna().sum())
    if not sides:
        raise Untested("no condition has results of both sides")
    counts: dict[str, Any] = {
        "n_conditions": len(sides), "ahead": sides.count(1), "behind": sides.count(-1),
        "open": sides.count(0) + sides.count(UNDECIDED), "conditions": ratio_of,
        "missing": sizes(summary[summary["arm"].isin({*her["arm"], *other["arm"]})]), "words": {
            "compared": len(ratios), "never": int(other[time].isna().sum()), "runs": len(other),
            "censored": censored, "undecided": sides.count(UNDECIDED),
        },
    }  # fmt: skip
    if not ratios:
        return Measured(NAN, n_seeds=int(summary["n_seeds"].min()), **counts)
    raced = _mean_there(resampled)
    low, high = percentile_interval(raced, min(fewest))
    counts |= {"low": low, "high": high, "detectable": detectable(raced, min(fewest))}
    return of_values(pd.concat(ratios), **counts)


def _raced(arms: Sequence[pd.DataFrame], time: str) -> Array:
    """Return log2 of the fastest rival's mean time over the first arm's [draw of seeds].

    NaN where the median run of one of them does not learn.
    """
    times = pd.concat({i: own.set_index("seed")[time] for i, own in enumerate(arms)}, axis=1)
    logs = {i: _log_time(own, time).droplevel(CONDITION) for i, own in enumerate(arms)}
    shared = pd.concat(logs, axis=1).dropna()
    if shared.empty:
        raise Untested("the arms have no seed in common")
    drawn = draw_seeds(len(shared))
    medians = np.median(times.loc[shared.index].fillna(np.inf).to_numpy()[drawn], axis=1)
    rival = 1 + medians[:, 1:].argmin(axis=1)
    means, draws = shared.to_numpy()[drawn].mean(axis=1), np.arange(len(drawn))
    both = np.isfinite(medians[:, 0]) & np.isfinite(medians[draws, rival])
    return np.where(both, means[draws, rival] - means[:, 0], np.nan)


def _mean_there(replicates: Sequence[Array]) -> Array:
    """Return the mean over conditions of replicates [draw] that are not NaN."""
    stacked = np.array(replicates)
    return np.asarray(np.nanmean(stacked[:, np.isfinite(stacked).any(axis=0)], axis=0))


def _median(times: pd.Series) -> float:
    """Return the median time over all runs; a run that never learns takes infinitely long."""
    return float(np.median(times.fillna(np.inf)))


#: Between level and ahead: against several rivals, the least counts.
UNDECIDED = 0.5


def _before(mine: pd.DataFrame, other: pd.DataFrame, time: str) -> float:
    """Return 1 if my median run learns first, -1 if the other does.

    0 if neither learns, or at a tie; UNDECIDED if the loser was stopped before the winner learned.
    """
    at = [_median(own[time]) for own in (mine, other)]
    if at[0] == at[1]:
        return 0
    winner, loser = int(np.argmin(at)), (other, mine)[int(np.argmin(at))]
    watched = float(loser[time].fillna(loser[LAST[time]]).median())
    is_open = not np.isfinite(at[1 - winner]) and watched < at[winner]
    return UNDECIDED if is_open else (1, -1)[winner]


def sizes(summary: pd.DataFrame) -> list[str]:
    """Say which seeds and budgets the arms had, if they differ."""
    found = {
        str(arm): f"{own['n_seeds'].min()} seeds and {own['budget'].min():,} steps"
        for arm, own in summary.groupby("arm", sort=False)
    }
    if len(set(found.values())) < 2:
        return []
    same = {size: [arm for arm in found if found[arm] == size] for size in found.values()}
    return [f"{' and '.join(arms)} had {size}" for size, arms in same.items()]


def solves(evidence: Evidence, *, experiment: str = MAIN) -> Measured:
    """P4: count the conditions whose tests most runs of PPO-HER solve, and most of PPO do not."""
    runs = evidence.table(experiment, "runs.parquet", *BOTH)
    runs = runs.assign(solved=runs["final_evaluation_success"] >= SOLVED_SUCCESS - ROUNDING)
    if not runs["solved"].any():
        raise Untested("no run solves its task")
    both = set.intersection(*(set(select(runs, role)[CONDITION]) for role in BOTH))
    if not both:
        raise Untested("no condition has results of both sides")
    runs = runs[runs[CONDITION].isin(both)]
    solved = [select(runs, role).set_index(RUN)["solved"] for role in BOTH]
    (her, her_draws), (ppo, ppo_draws) = (_means(by_condition(own)) for own in solved)
    gained, lost = (her >= 0.5) & (ppo < 0.5), (her < 0.5) & (ppo >= 0.5)
    replicates = (her_draws >= 0.5) & (ppo_draws < 0.5)
    seeds = int(runs.groupby(["role", CONDITION]).size().min())
    return Measured(
        float(gained.sum()), *percentile_interval(replicates.sum(axis=0), seeds),
        n_conditions=len(her), n_seeds=seeds, ahead=int(gained.sum()), behind=int(lost.sum()),
        open=int((~gained & ~lost).sum()),
        conditions=dict(zip(solved[0].index.unique(0), (her - ppo).tolist(), strict=True)),
        missing=sizes(evidence.table(experiment, "summary.csv", *BOTH)),
    )  # fmt: skip


def reaches(evidence: Evidence) -> Measured:
    """P5a: measure the share of runs that learn, over all rates, PPO-HER minus PPO."""
    runs = evidence.table("learning_rate", "runs.parquet", *BOTH, over="level")
    if runs["learn_step"].isna().all():
        raise Untested(NOTHING)
    medians = runs.groupby(["role", CONDITION, "level"])["learn_step"].apply(_median)
    both = medians.unstack("role").dropna()  # pairs of condition and rate
    if both.groupby(CONDITION).size().max() < 2:
        raise Untested("no condition has two learning rates of both arms")
    learn = np.isfinite(both).sum()
    hits = runs.assign(hit=runs["learn_step"].notna().astype(float))
    gains = paired(select(hits, "subject"), select(hits, "baseline"), "hit", [*RUN, "level"])
    return of_values(
        gains.groupby(level=RUN, sort=False).mean(),
        words={"her": int(learn["subject"]), "ppo": int(learn["baseline"]), "pairs": len(both)},
        missing=sizes(evidence.table("learning_rate", "summary.csv", *BOTH, over="level")),
    )


def sensitivity(evidence: Evidence) -> Measured:
    """P5b: measure log2 of the best over the worst maximum median return over all rates.

    PPO minus PPO-HER, where both learn at some rate. The worst is at least FLOOR.
    """
    table = evidence.table("learning_rate", "sensitivity.csv", *BOTH)
    curves = evidence.table("learning_rate", "seed_curves.parquet", *BOTH, over="level")
    each = table[(table[CONDITION] != ALL) & (table["n_levels"] > 1)].set_index([CONDITION, "role"])
    levels = curves.groupby([CONDITION, "role"])["level"].agg(frozenset)
    rates = levels.unstack("role")
    alike = rates.index[rates["subject"] == rates["baseline"]]
    if alike.empty:
        raise Untested("no condition has the same learning rates of both arms")
    best, worst = (
        each[name].unstack("role").reindex(alike, columns=list(BOTH)).dropna().clip(lower=FLOOR)
        for name in ("best", "worst")
    )
    learnt = best.index[best.min(axis=1) >= LEARNT - ROUNDING]
    if learnt.empty:
        raise Untested("no condition in which both learn at some rate")
    ratio = (best / worst).loc[learnt]
    values = pd.Series(np.log2((ratio["baseline"] / ratio["subject"]).to_numpy()), learnt)
    spread = {}
    for place, here in curves.groupby([CONDITION, "role"], sort=False):
        spacing = here["env_steps"].min()
        tops = [np.maximum(scaled(_tops(own, spacing)), FLOOR) for _, own in here.groupby("level")]
        top = np.max(tops, axis=0)
        spread[place] = np.where(top >= LEARNT - ROUNDING, top / np.min(tops, axis=0), np.nan)
    # Which conditions both learn is found anew in each resample.
    replicates = [np.log2(spread[c, "baseline"] / spread[c, "subject"]) for c in best.index]
    mean, seeds = _mean_there(replicates), int(each["n_seeds"].min())
    worst_case = table[table[CONDITION] == ALL].set_index("role").reindex(list(BOTH))
    percent = 100 * (ratio.max() - 1)
    return Measured(
        float(values.mean()), *percentile_interval(mean, seeds),
        *statistics.bootstrap([values], statistics.mean), detectable(mean, seeds),
        len(learnt), seeds, *sides(values)[:2],
        conditions=values.to_dict(),
        words={"her": percent["subject"], "ppo": percent["baseline"],
               "her_worst": worst_case.loc["subject", "sensitivity_percent"],
               "ppo_worst": worst_case.loc["baseline", "sensitivity_percent"],
               "ppo_best": worst_case.loc["baseline", "best"]},
    )  # fmt: skip


def retained(
    evidence: Evidence, *, experiment: str, key: str, hardest: Literal["smallest", "largest"]
) -> Measured:
    """P6: measure the success in tests that is retained at harder levels, PPO-HER minus PPO.

    Retained is the success at a level, averaged over conditions, over that at the easiest level;
    the value is the mean over the harder levels.
    """
    runs = evidence.table(experiment, "runs.parquet", *BOTH, over=key)
    shared = set.intersection(*(set(select(runs, role)[key]) for role in BOTH))
    runs = runs[runs[key].isin(shared)]
    wide = runs.pivot(index=RUN, columns=["role", key], values="final_evaluation_success").dropna()
    if wide.empty or len(shared) < 2:
        raise Untested(f"the experiment {experiment} has fewer than two levels of both arms")
    levels = sorted(shared, reverse=hardest == "smallest")
    strata = [by_condition(wide[role][levels]) for role in BOTH]

    def kept(means: Array) -> Array:
        """Return the retained share `[...]` of means `[..., condition, level]`."""
        mean = means.mean(axis=-2)
        return np.asarray((mean[..., 1:] / np.maximum(mean[..., :1], FLOOR)).mean(axis=-1))

    if min(np.concatenate(own)[:, 0].mean() for own in strata) < FLOOR:
        raise Untested("one of the two never succeeds at the easiest level")

    (her, her_draws), (ppo, ppo_draws) = map(_means, strata)
    enough, seeds = len(her), min(map(len, strata[0]))
    replicates = kept(her_draws.swapaxes(0, 1)) - kept(ppo_draws.swapaxes(0, 1))
    places = draw_seeds(enough, 1)
    by_place = kept(her[places]) - kept(ppo[places])
    # Nothing can be kept where one of the two does not succeed at the easiest level.
    fails = np.minimum(her[:, 0], ppo[:, 0]) < FLOOR
    gain = pd.Series(kept(her[:, None]) - kept(ppo[:, None]), wide.index.unique(0))[~fails]
    return Measured(
        float(kept(her) - kept(ppo)), *percentile_interval(replicates, seeds),
        *percentile_interval(by_place, enough), detectable(replicates, seeds),
        enough, seeds, *sides(gain)[:2], enough - sum(sides(gain)[:2]), conditions=gain.to_dict(),
        words={"her": float(kept(her)), "ppo": float(kept(ppo))},
    )  # fmt: skip


def tasks_learned(
    evidence: Evidence, *, only: str, others: list[str], learned: float, needs: Needs
) -> Measured:
    """P7: count the tasks that PPO-HER learns at some weight decay; 0 unless `only` is one of them.

    A task is learned by the median over seeds of a run's best hundred episodes or last test. Runs
    shorter than needed do not count.
    """
    runs = evidence.table("fetch", "runs.parquet", *BOTH, over="level")
    budgets = evidence.table("fetch", "summary.csv", *BOTH, over="level")
    whole = budgets[budgets["budget"] >= needs["steps"]].set_index(["arm", "level", "task"]).index
    runs = runs[pd.MultiIndex.from_frame(runs[["arm", "level", "task"]]).isin(whole)]
    her = select(runs, "subject")
    cells = her.groupby(["task", "level"])["seed"].nunique()
    enough = cells[cells >= needs["seeds"]].groupby(level="task").size()
    few = [f"{task} {enough.get(task, 0)} of {needs['weight_decays']}" for task in (only, *others)
           if enough.get(task, 0) < needs["weight_decays"]]  # fmt: skip
    if few:
        runs_of = f"{needs['seeds']} runs of {needs['steps']:,} steps"
        raise Untested(f"weight decays that have {runs_of}, as the rule needs: {', '.join(few)}")
    success = runs[["max_success", "final_evaluation_success"]].max(axis=1)
    medians = runs.assign(s=success).groupby(["role", "task", "level"])["s"].median()
    best = medians.groupby(level=["role", "task"]).max()
    learns = best[best >= learned - ROUNDING].reset_index()
    found, ppo = (learns["task"][learns["role"] == role] for role in BOTH)
    had = "baseline" in best.index.unique("role")
    decays = select(runs, "baseline").groupby("task")["level"].nunique()
    fewer = decays.reindex([only, *others], fill_value=0).min() < needs["weight_decays"]
    learns_ppo = f"learns {len(ppo)}" + (", tried with fewer weight decays" if fewer else "")
    return Measured(
        float(len(found)) if only in set(found) else 0.0, n_conditions=len(others) + 1,
        n_seeds=int(cells.min()), conditions=best["subject"].to_dict(),
        words={
            "tasks": ", ".join(sorted(found)) or "none",
            "ppo": learns_ppo if had else "had fewer steps",
        },
    )  # fmt: skip


def after_the_best(evidence: Evidence, *, lost: float) -> Measured:
    """P8: measure the rank correlation of entropy and return after a run's best tenth.

    In the conditions whose runs lose at least `lost` from it to their last tenth, on average.  The
    best of many noisy returns is high by chance.  So even rollouts say which tenth is best, and
    odd ones what is lost and how return and entropy go together.
    """
    curves = evidence.table(MAIN, "seed_curves.parquet", "subject")
    columns = ["loss", "together", "rise"]
    found = pd.DataFrame(
        {run: _since_best(curve) for run, curve in curves.groupby(RUN, sort=False)}, columns
    ).T.rename_axis(RUN)
    # A condition is measured by most of its runs, or not at all.
    found = found[found["loss"].notna().groupby(level=CONDITION).transform("mean") > 0.5]
    if found.empty:
        raise Untested(f"in no condition do most runs have {2 * TENTHS} rollouts")
    loses = found["loss"].groupby(level=CONDITION).transform("mean") >= lost - ROUNDING
    falling = found[loses].dropna()
    if falling.empty:
        raise Untested(f"in no condition do runs lose {lost:g} of return after their best tenth")
    rise = falling["rise"].groupby(level=CONDITION).mean()
    return of_values(falling["together"], words={
        "of": found.index.unique(CONDITION).size,
        "rise": float(rise.mean()), "rising": int((rise > 0).sum()),
    })  # fmt: skip


def _since_best(curve: pd.DataFrame) -> tuple[float, float, float]:
    """Return what a run loses from its best tenth to its last, and what entropy does meanwhile.

    That is the rank correlation of return and entropy, and by how much entropy has risen.  NaN for
    a run of few rollouts.
    """
    returns, entropy = (curve[name].to_numpy() for name in ("return_mean", "policy_entropy"))
    n = len(returns)
    if n < 2 * TENTHS:
        return NAN, NAN, NAN
    part, odd = np.arange(n) * TENTHS // n, np.arange(n) % 2 == 1
    best = int(np.argmax([np.nanmean(returns[~odd & (part == i)]) for i in range(TENTHS)]))
    then, now, since = odd & (part == best), odd & (part == TENTHS - 1), odd & (part >= best)
    loss = np.nanmean(returns[then]) - np.nanmean(returns[now])
    together = statistics.spearman(entropy[since], returns[since])
    return float(loss), together, float(entropy[now].mean() - entropy[then].mean())


def _learnt(runs: pd.DataFrame, cap: float = np.inf) -> set[str]:
    """Return the conditions in which the median run learns at some S, within so many steps.

    In the others nothing is compared: all runs are censored, which looks like equality.
    """
    medians = runs.groupby([CONDITION, S_RATIO])["learn_step"].apply(_median)
    learns = medians[np.isfinite(medians) & (medians <= cap)]
    return {str(condition) for condition in learns.index.unique(CONDITION)}


def _there(values: Any, conditions: set[str]) -> Any:
    """Return the rows of these conditions; Untested if there are none."""
    kept = values[values.index.get_level_values(CONDITION).isin(conditions)]
    if kept.empty:
        raise Untested("in no condition does the median run reach a training return of 0.8")
    return kept


def _by_s(evidence: Evidence, cap: float = np.inf) -> tuple[pd.DataFrame, pd.Series, set[str]]:
    """Return log2 of MEHER's steps to learn, the budget by condition, and where it learns.

    The steps are by condition and seed, with a column per S, where every S has results.
    cap: a common budget.
    """
    runs = evidence.table("s_ratio", "runs.parquet", "subject", over=S_RATIO)
    budgets = evidence.table("s_ratio", "summary.csv", "subject", over=S_RATIO)
    budgets = budgets.assign(budget=budgets["budget"].clip(upper=cap))
    _must_be_as_long(budgets)
    if runs[S_RATIO].nunique() < 3:
        raise Untested(f"only {runs[S_RATIO].nunique()} S have results")
    own = {s: _log_time(rows) for s, rows in runs.groupby(S_RATIO)}
    wide = pd.DataFrame(own).dropna().sort_index(level=0, sort_remaining=False)
    if wide.empty:
        raise Untested("no condition has results at every S")
    budget = budgets.groupby(CONDITION)["budget"].min()
    return wide.clip(upper=np.log2(cap)), budget, _learnt(runs, cap)


def best_s(evidence: Evidence, *, within: float) -> Measured:
    """M1: find the S with the fewest steps to learn, and those within a share of it."""
    wide, _, learnt = _by_s(evidence)
    wide = _there(wide, learnt)
    levels, strata = wide.columns.to_numpy(dtype=float), by_condition(wide)
    means, draws = _means(strata)
    mean, draws = means.mean(axis=0), draws.mean(axis=0)
    wider = means[draw_seeds(len(means), 1)].mean(axis=1)
    # Levels that are equally good are all the best: an interval reaches from the first to the last.
    low, high, wide_low, wide_high = (
        percentile_interval(levels[::way][own[:, ::way].argmin(axis=1)], n)[(way - 1) // 2]
        for own, n in ((draws, min(map(len, strata))), (wider, len(means)))
        for way in (1, -1)
    )
    good = levels[mean <= mean.min() + np.log2(1 + within) + ROUNDING]
    table = evidence.table("s_ratio", "best_level.csv", "subject")
    together = table[table[CONDITION] == ALL]
    each = wide.groupby(level=0, sort=False).mean().idxmin(axis=1)
    return Measured(
        float(levels[mean.argmin()]), low, high, wide_low, wide_high, n_conditions=len(means),
        n_seeds=min(map(len, strata)), conditions=each.to_dict(), missing=_absent(levels),
        words={"flat": f"S = {good.min():g} to {good.max():g}" if len(good) > 1 else "no other S",
               "more": f"{within:.0%}",
               "m_c": f"{together['best_level'].iloc[0]:g}" if len(together) else "–"},
    )  # fmt: skip


def _absent(levels: Array) -> list[str]:
    """Say which of the paper's S have no results."""
    absent = [s / 10 for s in range(11) if not np.isclose(levels, s / 10).any()]
    return [f"S = {', '.join(f'{s:g}' for s in absent)} absent"] if absent else []


def lean(levels: Array, values: Array) -> Any:
    """Return the mean at S > 1/2 minus that at S < 1/2.

    It is over levels whose mirror image 1 - S exists, and NaN without such a pair.
    values: `[..., level]`.
    """
    mirrored = np.isclose(levels[:, None], 1.0 - levels[None, :]).any(axis=1)
    right, left = mirrored & (levels > 0.5 + ROUNDING), mirrored & (levels < 0.5 - ROUNDING)
    if not right.any():
        return np.full(values.shape[:-1], np.nan)[()]
    return values[..., right].mean(axis=-1) - values[..., left].mean(axis=-1)


def leaning(evidence: Evidence, *, ends: bool) -> Measured:
    """M3: measure log2 steps at S < 1/2 minus those at 1 - S; `ends`: include 0 and 1."""
    wide, _, learnt = _by_s(evidence)
    wide = _there(wide, learnt)
    levels = wide.columns.to_numpy(dtype=float)
    kept = np.full(len(levels), ends) | ((levels > ROUNDING) & (levels < 1 - ROUNDING))
    values = pd.Series(-lean(levels[kept], wide.to_numpy()[:, kept]), wide.index)
    if values.isna().all():
        raise Untested("no S has results together with its mirror image 1 - S")
    return of_values(values, missing=_absent(levels))


def meher_gain(
    evidence: Evidence,
    *,
    count: bool,
    tie: NonNegativeFloat = 0.0,
    cap: PositiveInt | None = None,
    both: bool = False,
) -> Measured:
    """M2: measure log2 of PPO-HER's steps to learn over MEHER's.

    Or count the conditions above a tie. S is chosen on the other half of the seeds.

    cap: a common budget: what happens after so many steps does not count.
    both: without the conditions in which PPO-HER's median run does not learn in time.
    """
    wide, budgets, learnt = _by_s(evidence, np.inf if cap is None else cap)
    odd = wide.index.get_level_values("seed") % 2 == 1
    if not odd.any() or odd.all():
        raise Untested("S cannot be chosen on half of the seeds")
    best = [float(str(wide[half].groupby(level=0).mean().mean().idxmin())) for half in (~odd, odd)]
    meher = wide[best[0]].where(odd, wide[best[1]])
    her, learns = _her(evidence, budgets)
    values = _there((her - meher).dropna(), learns if both else learns | learnt)
    more: dict[str, Any] = {
        "words": {"s": " and ".join(f"{s:g}" for s in sorted(set(best)))},
        "missing": _absent(wide.columns.to_numpy(dtype=float)),
    }
    found = of_values(values, **more)
    if not count:
        return found
    means, draws = _means(by_condition(values))
    least = max(tie, ROUNDING)  # a draw is nobody's
    ahead, behind = int((means >= least).sum()), int((means <= -least).sum())
    return Measured(
        float(ahead), *percentile_interval((draws >= least).sum(axis=0), found.n_seeds),
        ahead=ahead, behind=behind, open=len(means) - ahead - behind, n_conditions=len(means),
        n_seeds=found.n_seeds, conditions=found.conditions, **more,
    )  # fmt: skip


def _her(evidence: Evidence, budgets: pd.Series) -> tuple[pd.Series, set[str]]:
    """Return log2 of PPO-HER's steps to learn within budgets, and where its median run learns.

    budgets: by condition.
    """
    runs = evidence.table(MAIN, "runs.parquet", "subject")
    own = evidence.table(MAIN, "summary.csv", "subject")
    has = own.groupby(CONDITION)["budget"].min()
    runs = runs[runs[CONDITION].map(has) >= runs[CONDITION].map(budgets)]
    if runs.empty:
        raise Untested("PPO-HER has no results over as many steps")
    cap = runs[CONDITION].map(budgets)
    late = runs["learn_step"] > cap
    runs = runs.assign(
        learn_step=runs["learn_step"].mask(late), end_step=np.minimum(runs["end_step"], cap)
    )
    medians = runs.groupby(CONDITION)["learn_step"].apply(_median)
    return _log_time(runs), set(medians.index[np.isfinite(medians)])


def targeting(evidence: Evidence) -> Measured:
    """M4: measure log2 of untargeted over targeted MEHER's steps to learn, mean over S < 1."""
    keys = [*RUN, S_RATIO]
    sides, cells, budgets = [], [], []
    for experiment, failures in (("targeted", "targeted"), ("s_ratio", None)):
        runs = evidence.table(experiment, "runs.parquet", "subject", over=S_RATIO)
        runs = select(runs, "subject", failures=failures)
        if runs.empty:
            raise Untested("targeted and untargeted MEHER have no results to compare")
        cells.append(evidence.cells(experiment, str(runs["arm"].iloc[0])))
        summary = evidence.table(experiment, "summary.csv", "subject", over=S_RATIO)
        summary = summary[summary[S_RATIO] < 1 - ROUNDING]
        budgets.append(select(summary, "subject", failures=failures))
        sides.append(runs.assign(log=_log_time(runs).to_numpy())[runs[S_RATIO] < 1 - ROUNDING])
    if all(cells[1].get(place) == cell for place, cell in cells[0].items()):
        raise Untested(
            "the targeted runs are the untargeted ones, the same files, because the authors' "
            "targeted experiment runs its untargeted code"
        )
    _must_be_as_long(pd.concat(budgets))
    gains = _there(paired(sides[1], sides[0], "log", keys), set.union(*map(_learnt, sides)))
    return of_values(
        gains.groupby(level=RUN, sort=False).mean(),
        missing=_absent(np.append(sides[0][S_RATIO].unique(), 1.0)),
    )


def difference(
    evidence: Evidence, *, experiment: str, column: str, once: str | None = None
) -> Measured:
    """M5a: measure a column of runs.parquet, subject minus baseline, paired by seed.

    It is the mean over the levels of what the experiment varies. `once` is a column that must have
    a value in some run of the subject.
    """
    runs = evidence.table(experiment, "runs.parquet", *BOTH, over="level")
    own, other = (select(runs, role) for role in BOTH)
    if once is not None and own[once].isna().all():
        raise Untested(f"no run has a {once.replace('_', ' ')}")
    gains = paired(own, other, column, [*RUN, "level"])
    missing = sizes(evidence.table(experiment, "summary.csv", *BOTH, over="level"))
    return of_values(gains.groupby(level=RUN, sort=False).mean(), missing=missing)


def saved_after(
    evidence: Evidence,
    *,
    column: Literal["updates", "minutes"],
    timing_sd: float = 0.0,
    timings: Annotated[int, Field(ge=2)] = 2,
    pooled: bool = False,
    experiment: str = "stop_her",
) -> Measured:
    """M5b, M5c: measure the share of `updates` or `minutes` saved after the switch.

    Of several conditions, the mean share, or (pooled) the share of their sum. Both arms are
    compared over the same steps. Minutes count only if both were timed alike: on the same machine,
    and equally fast before the first iteration without hindsight, which ends at the run's
    `switch_step`. Until then both do the same.

    timing_sd: standard deviation of a condition's share over so many `timings` of its two cells,
    whose seeds share one timing; it widens the interval, by Student's t.
    """
    runs = evidence.table(experiment, "runs.parquet", *BOTH)
    curves = evidence.table(experiment, "seed_curves.parquet", *BOTH)
    summary = evidence.table(experiment, "summary.csv", *BOTH)
    # What a run that diverged does not do is not saved.
    lost = set(runs[runs["ended"] == "diverged"].set_index(RUN).index)
    switch = select(runs, "subject").set_index(RUN)["switch_step"].dropna()
    clocks = summary.groupby(CONDITION)["timed_on"].nunique()
    stopped, always = (dict(list(select(curves, role).groupby(RUN))) for role in BOTH)
    after, whole, pace = dict[tuple[Any, ...], float](), [], dict[tuple[Any, ...], float]()
    size = dict[tuple[Any, ...], float]()
    for run, step in zip(switch.index, switch, strict=True):
        if run in lost or run not in stopped or run not in always:
            continue
        pair = stopped[run], always[run]
        last = min(curve["env_steps"].iloc[-1] for curve in pair)
        before = pair[0]["env_steps"][pair[0]["env_steps"] < step].max()
        at = [before, step, last]
        spent = np.array([np.interp(at, c["env_steps"], c[column]) for c in pair])
        if last > step:
            size[run] = np.diff(spent[1])[1]
            after[run] = 1.0 - np.diff(spent[0])[1] / size[run]
            whole.append(1.0 - spent[0, 2] / spent[1, 2])
            pace[run] = spent[0, 0] / spent[1, 0]  # NaN: hindsight is off from the first iteration
    if not after:
        cut = not switch.empty and lost.issuperset(switch.index)
        raise Untested(CUT if cut else "no run succeeds often enough to switch")
    paces = _by_run(pace).groupby(CONDITION).median()
    alike = (paces - 1.0).abs().le(ALIKE) & clocks.reindex(paces.index).eq(1)
    if column == "minutes" and not alike.all():
        raise Untested(f"both arms were timed alike in {alike.sum()} of {len(alike)} conditions")
    more = {"whole": float(np.mean(whole)), "switch": switch.median()}
    shares, sizes = _by_run(after), _by_run(size)
    if pooled:  # a ratio of sums, linearised: each run's value is how it moves the ratio
        of_conditions = sizes.groupby(CONDITION).mean()
        ratio = (shares * sizes).groupby(CONDITION).mean().sum() / of_conditions.sum()
        shares = ratio + (shares - ratio) * sizes / of_conditions.mean()
    measured = shares.index.unique(CONDITION)
    places = dict.fromkeys(place for place, seed in switch.index if (place, seed) in lost)
    absent = [f"{place}: {CUT}" for place in places if place not in measured]
    found = of_values(shares, words=more, missing=absent)
    timing = 0.0
    if timing_sd:
        timing = statistics.student(timings) * timing_sd / math.sqrt(found.n_conditions)
    return replace(
        found,
        low=found.value - math.hypot(found.value - found.low, timing),
        high=found.value + math.hypot(found.high - found.value, timing),
    )


MEASURES: Mapping[str, Callable[..., Measured]] = {
    own.__name__: own
    for own in (
        highest, first, solves, reaches, sensitivity, retained, tasks_learned, after_the_best,
        best_s, leaning, meher_gain, targeting, difference, saved_after,
    )
}  # fmt: skip
#: What measures add to the fields of a verdict's sentence.
WORDS = {
    "highest": "alone", "first": "compared never runs censored undecided",
    "reaches": "her ppo pairs",
    "sensitivity": "her ppo her_worst ppo_worst ppo_best", "retained": "her ppo",
    "tasks_learned": "tasks ppo", "after_the_best": "of rise rising", "meher_gain": "s",
    "best_s": "flat more m_c", "saved_after": "whole switch",
}  # fmt: skip
#: Those of them that are text.
OF_TEXT = {"best_s": "flat more m_c", "meher_gain": "s", "tasks_learned": "tasks ppo"}
