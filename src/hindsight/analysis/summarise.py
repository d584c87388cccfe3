"""Compute the tables of an experiment from its plan and its cells' results files.

Each cell is reduced once to arrays `[seed, step]`, from which all tables are computed. Every
statistic starts a new generator with seed 0, so that a row does not depend on which others exist.
"""

import itertools
import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from hindsight.analysis import metrics, statistics
from hindsight.analysis.arms import arm_columns
from hindsight.analysis.best_level import best_levels, m_c_rows, score
from hindsight.analysis.cells import Cell, ResultError, load_cell
from hindsight.analysis.common import CommonBudget, values_at
from hindsight.analysis.reduce import Array, Columns, Key, Reduced, grouped, reduce_cell
from hindsight.analysis.sensitivity import sensitivities
from hindsight.io.files import DamagedError, write_if_changed, write_whole
from hindsight.io.records import RECORD, Making
from hindsight.io.startup import side_by_side

#: Enough for every rollout of 1,000,000 steps, so that thinning does not change a run's statistics.
SEED_CURVE_POINTS = 500
#: Bins of training time. The papers use 100, but arms share an axis, and 100 bins of a long run of
#: SAC are too wide to resolve when PPO has learned.
BINS = 1000
PAIRED_METRICS = ("auc", "final_return")
#: For other tasks, whose returns have no common scale.
TASK_METRICS = ("success_auc", "final_evaluation_success")
SPREAD = ("mean", "iqm")
#: The return at which the median run is timed. The time to an arm's own maximum is short if that
#: maximum is low.
LEVEL = 0.8
#: Cells with equal values of these are compared.
COMPARED = ("fidelity", "level", "condition")
#: Where a cell was trained; only the papers' conditions have spawn and prey.
CONDITION_KEYS = ("task", "condition", "spawn", "prey")


def summarise_all(
    plans: Sequence[Path], out: Path, processes: int = 1, planned: str | None = None
) -> list[dict[str, Any]]:
    """Summarise each plan to a folder of its name in `out`; return the entries without a file."""
    import scipy.stats  # noqa: F401  (before the processes fork, so that they share it)

    todo = [(plan, out / plan.stem, planned) for plan in plans]
    return [entry for missing in side_by_side(summarise, todo, processes) for entry in missing]


def summarise(plan_path: Path, out: Path, planned: str | None = None) -> list[dict[str, Any]]:
    """Write a plan's tables, and the plan, to a folder; return the entries without a cell file.

    The plan's paths of cells are relative to the working directory. `planned`: see `Making`.

    Raises:
        DamagedError: cells that cannot be used.
        FileError: the code is not the planned one, or code or cells changed meanwhile.
        ResultError: the file is not a plan.
    """
    plan = read_plan(plan_path)
    there = [str(path) for path in cells_of([plan_path]) if path.exists()]
    making = Making("tables", [str(plan_path), *there], planned)
    write_if_changed(out / "plan.json", plan_path.read_text(encoding="utf-8"))
    cells = _load(there)
    entries = [entry for entry in plan["entries"] if entry["cell"] in cells]
    missing = [entry for entry in plan["entries"] if entry["cell"] not in cells]
    reduced = {path: reduce_cell(cell) for path, cell in cells.items()}
    present = [(_key(entry, plan["vary"]), reduced[entry["cell"]]) for entry in entries]
    columns = dict.fromkeys(["arm", *(name for e in plan["entries"] for name in arm_columns(e))])
    arm = [name for name in columns if name not in plan["vary"]]
    tables = make_tables(present, plan["vary"], arm)
    for name, table in tables.items():
        _write_table(table, out / name)
    once = {(entry["fidelity"], entry["arm"], entry["cell"]): entry for entry in entries[::-1]}
    diverged = [
        {name: entry[name] for name in ("fidelity", "arm", "level", "condition")}
        | {"seed": seed, "step": step}
        for entry in [*once.values()][::-1]
        for seed, step in cells[entry["cell"]].diverged.items()
    ]
    files = [out / name for name in ("plan.json", *tables)]
    making.record(out / RECORD, files, missing=missing, diverged=diverged)
    return missing


def _load(paths: Iterable[str]) -> dict[str, Cell]:
    """Load all cells, or raise a DamagedError that names every cell that cannot be used."""
    cells, damaged = {}, dict[Path, str]()
    for path in paths:
        try:
            cells[path] = load_cell(path)
        except ResultError as error:
            damaged[Path(path)] = str(error)
    if damaged:
        raise DamagedError("; ".join(damaged.values()), *damaged)
    return cells


def make_tables(
    cells: list[tuple[Key, Reduced]], vary: list[str], arm: list[str]
) -> dict[str, pd.DataFrame]:
    """Return every table by file name. One without rows has only the columns of keys.

    `vary` are the keys that the experiment varies, `arm` the columns that identify an arm.
    """
    keys = ["fidelity", *arm, "level", *vary, *CONDITION_KEYS]

    def table(rows: Sequence[Key], without: Sequence[str] = ()) -> pd.DataFrame:
        first = rows[0] if rows else {}
        columns = [*keys, *(name for name in first if name not in keys)]
        return pd.DataFrame(rows, columns=[name for name in columns if name not in without])

    longest = {  # all cells of a condition share a time axis
        place: max(float(cell.runs["minutes"].max()) for _, cell in own)
        for place, own in grouped(cells, "fidelity", "condition").items()
    }
    compared = {
        place: CommonBudget([cell for _, cell in own])
        for place, own in grouped(cells, *COMPARED).items()
    }
    summaries = [
        key
        | _summary_row(cell, longest[key["fidelity"], key["condition"]])
        | _coarse_row(cell, compared[key["fidelity"], key["level"], key["condition"]])
        for key, cell in cells
    ]
    runs = _stack([(key, cell.runs) for key, cell in cells], keys)
    # The papers' statistics assume returns in [-1, 1]. Other tasks are judged by success.
    like_papers = cells if all(cell.unit_returns for _, cell in cells) else []
    paper_runs = runs if like_papers else runs[:0]
    seed_curves = [(key, _seed_curves(cell)) for key, cell in cells]
    evaluations = [(key, cell.evaluations) for key, cell in cells]
    scores = score(like_papers, vary)
    return {
        "seed_curves.parquet": _stack(seed_curves, keys),
        "evaluations.parquet": _stack(evaluations, keys),
        "runs.parquet": runs,
        "summary.csv": table(summaries),
        "tests.csv": pair_tests(cells, PAIRED_METRICS if like_papers else TASK_METRICS),
        "aggregate.csv": table(aggregate(paper_runs, keys), CONDITION_KEYS),
        # Without a swept key there are no rows.
        "sensitivity.csv": table(sensitivities(like_papers if vary else []), ["level", *vary]),
        "m_c.csv": table(m_c_rows(scores)),
        "best_level.csv": table(best_levels(scores), ["level", *vary]),
    }


def _summary_row(cell: Reduced, longest: float) -> Key:
    """Return a row of summary.csv: the papers' statistics, then those of the final evaluation.

    `longest` is the length of the condition's longest run in minutes, divided into BINS bins.
    """
    finals, solve_step = (cell.runs[n] for n in ("final_evaluation_return", "solve_step"))
    median = metrics.median_curve(cell.carried_returns)
    ended = not np.isnan(median).all()  # else no run has finished an episode
    solved = int(cell.runs["solved"].sum())
    row: Key = {
        "n_seeds": len(finals),
        "max_median_return": _maximum(median),
        "iqr": metrics.iqr_at_maximum(cell.carried_returns) if ended else float("nan"),
        "time_to_learn_steps": float("nan"),
        "time_to_learn_minutes": float("nan"),
        "solved_share": solved / len(finals),
    }
    # Decided on the grid of steps for both clocks: on the time grid a maximum may be missed.
    learnt = metrics.scaled(row["max_median_return"]) >= metrics.LEARNT - metrics.ROUNDING
    if cell.unit_returns and learnt:
        edges = longest * np.arange(1, BINS + 1) / BINS
        by_minutes = metrics.on_time_grid(cell.carried_returns, cell.minutes, edges)
        row["time_to_learn_steps"] = metrics.time_to_learn(median, cell.env_steps)
        row["time_to_learn_minutes"] = metrics.time_to_learn(
            metrics.median_curve(by_minutes), edges
        )
    row["solved_low"], row["solved_high"] = statistics.wilson(solved, len(finals))
    row |= _spread("mean", [finals], "mean_return", "mean")
    for column, prefix in (("final_evaluation_success", "success"), ("success_auc", "success_auc")):
        row |= _spread("mean", [cell.runs[column]], f"mean_{prefix}", prefix)
    # Over all runs: one that does not solve its task takes infinitely long.
    row["solve_step_median"] = np.median(np.where(np.isnan(solve_step), np.inf, solve_step))
    return row | {"timed_on": cell.timed_on, "budget": cell.budget}


def _coarse_row(cell: Reduced, common: CommonBudget) -> Key:
    """Return maxima and time to LEVEL on the coarsest grid of a condition's arms.

    Up to the arm's own end, and (`common`) within the steps that all of them had; NaN without a
    value.
    """
    steps = common.spacing * np.arange(1, cell.budget // common.spacing + 1)
    returns = cell.carried_returns if cell.unit_returns else np.full_like(cell.returns, np.nan)
    whole, shared = (
        metrics.median_curve(values_at(x, cell, returns)) for x in (steps, common.grid)
    )
    return {
        "coarse_max_median_return": _maximum(whole),
        f"steps_to_{LEVEL}": float(metrics.first_at(whole, steps, LEVEL)),
        "common_steps_max_median_return": _maximum(shared),
    }


def _maximum(median: Array) -> float:
    there = np.isfinite(median).any()
    return float(median[metrics.maximum_steps(median)[0]]) if there else float("nan")


def _spread(name: str, strata: list[Array], column: str, prefix: str) -> Key:
    """Return the mean over conditions or the IQM of all runs, with its stratified interval."""
    if name == "mean":
        value, low, high = statistics.mean_over_conditions(strata)
    else:
        low, high = statistics.bootstrap(strata, statistics.iqm)
        value = float(statistics.iqm(np.concatenate(strata)))
    return {column: value, f"{prefix}_low": low, f"{prefix}_high": high}


def _seed_curves(cell: Reduced) -> Columns:
    """Return every seed's curve up to its own end, thinned for drawing; `updates` is cumulative.

    Curves with a row per episode are not thinned, because moving averages need each episode.
    """
    lengths = (~np.isnan(cell.minutes)).sum(axis=1)
    limit = max(lengths) if cell.by_episode else SEED_CURVE_POINTS
    kept = [metrics.thin(int(length), limit) for length in lengths]
    row = np.repeat(np.arange(len(kept)), [len(index) for index in kept])
    step = np.concatenate(kept)
    return {
        "seed": cell.seeds[row],
        "env_steps": cell.env_steps[step], "minutes": cell.minutes[row, step],
        "updates": np.nancumsum(cell.updates, axis=1)[row, step],
        "return_mean": cell.returns[row, step], "success_rate": cell.success[row, step],
        **{name: values[row, step] for name, values in cell.traces.items()},
    }  # fmt: skip


def pair_tests(cells: Sequence[tuple[Key, Reduced]], compared: Sequence[str]) -> pd.DataFrame:
    """Compare every pair of arms in every condition, paired by seed, within the steps both had.

    `compared` are columns of `CommonBudget.runs`. P-values are corrected by Holm over a pair's
    conditions.
    """
    rows = []
    for (fidelity, level, _), own in grouped(cells, *COMPARED).items():
        arms = {key["arm"]: cell for key, cell in own}
        where = {name: own[0][0][name] for name in CONDITION_KEYS}
        for baseline, arm in itertools.combinations(arms, 2):
            common = CommonBudget([arms[baseline], arms[arm]])
            if not common.grid.size:
                continue
            pair: Key = {"fidelity": fidelity, "level": level} | where
            pair |= {"baseline": baseline, "arm": arm}
            both = common.runs(arms[baseline]), common.runs(arms[arm])
            found = _pair_rows(*both, common.budget, compared)
            rows += [pair | row for row in found]
    if not rows:
        return pd.DataFrame(columns=["fidelity", "level"])
    table = pd.DataFrame(rows)
    family = table.groupby(["fidelity", "level", "baseline", "arm", "metric"], sort=False)
    for raw, corrected in (("p_permutation", "p_holm"), ("p_fisher", "p_fisher_holm")):
        p = family[raw].transform(lambda p: statistics.holm(p.to_numpy()))
        table.insert(list(table).index(raw) + 1, corrected, p)
    return table


def _pair_rows(baseline: Columns, arm: Columns, budget: int, compared: Sequence[str]) -> list[Key]:
    """Return one row per metric; the tests on solved runs are the same in each row."""
    shared, *index = np.intersect1d(baseline["seed"], arm["seed"], return_indices=True)
    steps = [own["solve_step"][own["solved"]] for own in (baseline, arm)]
    ends = [own["end_step"][~own["solved"]] for own in (baseline, arm)]
    n_solved = [len(events) for events in steps]
    n_runs = [len(own["seed"]) for own in (baseline, arm)]
    p_logrank = statistics.logrank(steps[0], ends[0], steps[1], ends[1])
    rows = []
    for metric in compared:
        difference = arm[metric][index[1]] - baseline[metric][index[0]]
        low, high = statistics.bootstrap([difference], statistics.mean)
        chance, bounds = statistics.probability_of_improvement(arm[metric], baseline[metric])
        rows.append({
            "n_seeds": len(shared),
            "steps": budget,
            "metric": metric,
            "mean_difference": float(difference.mean()) if difference.size else float("nan"),
            "low": low,
            "high": high,
            "p_permutation": statistics.sign_flip_test(difference),
            "solved_baseline": n_solved[0] / n_runs[0],
            "solved_arm": n_solved[1] / n_runs[1],
            "p_fisher": statistics.fisher(n_solved[0], n_runs[0], n_solved[1], n_runs[1]),
            "probability_of_improvement": chance,
            "probability_low": bounds[0],
            "probability_high": bounds[1],
            "p_logrank": p_logrank,
        })  # fmt: skip
    return rows


def aggregate(runs: pd.DataFrame, keys: list[str]) -> list[Key]:
    """Return means, IQMs and solved runs over all conditions, per fidelity, arm and level."""
    rows = []
    for _, group in runs.groupby(["fidelity", "level", "arm"], sort=False):
        strata = [frame for _, frame in group.groupby("condition", sort=False)]
        row: Key = {name: group[name].iloc[0] for name in keys}
        row |= {"n_conditions": len(strata), "n_seeds": min(len(frame) for frame in strata)}
        values = [frame["final_evaluation_return"].to_numpy() for frame in strata]
        for name in SPREAD:
            row |= _spread(name, values, f"{name}_return", f"{name}_return")
        share = statistics.share_over_conditions([frame["solved"].to_numpy() for frame in strata])
        row["solved_share"], row["solved_low"], row["solved_high"] = share
        rows.append(row)
    return rows


def read_plan(path: str | Path) -> dict[str, Any]:
    """Read a plan; raise ResultError if the file is not one."""
    try:
        plan: dict[str, Any] = json.loads(Path(path).read_text())
        lacking = {"experiment", "source", "preset", "vary", "entries"} - plan.keys()
        if lacking:
            raise ResultError(f"{path}: not a plan, it lacks {', '.join(sorted(lacking))}")
        cells = [Path(entry["cell"]) for entry in plan["entries"] if str(entry["fidelity"])]
    except (OSError, ValueError, AttributeError, LookupError, TypeError, RecursionError) as error:
        raise ResultError(f"{path}: not a readable plan ({error})") from None
    if any(".." in cell.parts for cell in cells):
        raise ResultError(f"{path}: not a plan, the path of one of its cells contains '..'")
    return plan


def plans_in(tables: Path, experiments: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Read the plans of these experiments (None: of all) in a source's folder of tables."""
    paths = sorted(tables.glob("*/plan.json"))
    return [
        read_plan(path) for path in paths if experiments is None or path.parent.name in experiments
    ]


def cells_of(plans: Iterable[Path]) -> list[Path]:
    """Return the files of these plans' cells, each once; raise ResultError if a file is no plan."""
    return sorted({Path(entry["cell"]) for plan in plans for entry in read_plan(plan)["entries"]})


def read_table(
    path: Path, columns: list[str] | None = None, fidelity: str | None = None
) -> pd.DataFrame:
    """Read the rows of a table under one fidelity (None: all).

    Of a parquet table, read these columns (NaN where absent). The level of an experiment that
    varies nothing is the empty string.
    """
    if path.suffix == ".parquet":
        own = [("fidelity", "==", fidelity)] if fidelity else None
        there = pq.read_schema(path).names
        found = [name for name in columns or there if name in there]
        return pd.read_parquet(path, columns=found, filters=own).reindex(columns=columns)
    # An arm may be named None or 1.
    text = dict.fromkeys(("arm", "baseline", "role", "level", "condition", "task"), str)
    table = pd.read_csv(path, dtype=text, keep_default_na=False, na_values=[""])
    if "level" in table:
        table["level"] = table["level"].fillna("")
    return table[table["fidelity"] == fidelity].reset_index(drop=True) if fidelity else table


def level_text(level: dict[str, Any]) -> str:
    """Return a level as text: `learning_rate=0.003`, `strategy=future, k=4`, or ``."""
    texts = {k: v if isinstance(v, str) else f"{v:.12g}" for k, v in level.items()}
    return ", ".join(f"{k}={text}" for k, text in texts.items())


def _write_table(table: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        write_whole(path, lambda part: table.to_parquet(part, index=False))
    else:
        write_whole(path, lambda part: table.to_csv(part, index=False, float_format="%.8g"))


def _key(entry: dict[str, Any], vary: list[str]) -> Key:
    level = {name: entry["level"][name] for name in vary}
    text = {"fidelity": entry["fidelity"]} | arm_columns(entry) | {"level": level_text(level)}
    return text | level | {name: entry[name] for name in CONDITION_KEYS}


def _stack(parts: Sequence[tuple[Key, Columns]], keys: list[str]) -> pd.DataFrame:
    """Concatenate the parts, and give each row its part's key."""
    if not parts:
        return pd.DataFrame(columns=keys)
    part = np.repeat(np.arange(len(parts)), [len(table["seed"]) for _, table in parts])
    keyed = pd.DataFrame([key for key, _ in parts], columns=keys)
    for name in keyed.columns[keyed.dtypes == "object"]:  # a column has one kind of values
        if keyed[name].dropna().map(type).nunique() > 1:
            keyed[name] = keyed[name].map(str, na_action="ignore")
    keyed = keyed.iloc[part]
    body = {name: np.concatenate([table[name] for _, table in parts]) for name in parts[0][1]}
    return pd.concat([keyed.reset_index(drop=True), pd.DataFrame(body)], axis=1)
