"""Reduce a cell's results to arrays `[seed, step]`, from which all tables are computed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hindsight.analysis import metrics
from hindsight.analysis.cells import PAPERS_ENVIRONMENT, Cell, Columns

Array = NDArray[np.float64]
Key = dict[str, Any]
Item = TypeVar("Item")

#: The condition of a row over several conditions.
ALL = "all"
EVERYWHERE: Key = {"condition": ALL, "spawn": None, "prey": None}
EVALUATION_COLUMNS = (
    "seed", "env_steps", "return_mean", "success_rate", "episode_length",
    "reward_entropy", "action_entropy", "observation_entropy",
)  # fmt: skip
#: The return at which a run has learned: nine of ten episodes succeed.
LEARNED_RETURN = 0.8
#: Columns of training rows that are kept for every seed.
TRACED = (
    "policy_entropy", "log_std", "hindsight_log_ratio_max", "critic_loss", "q_mean",
    "episode_return", "episode_success",
)  # fmt: skip
#: Columns of some tables, besides those of keys, which figures and claims read.
COLUMNS = {
    "seed_curves": (
        "seed", "env_steps", "minutes", "updates", "return_mean", "success_rate", *TRACED,
        "copies_push",
    ),
    "evaluations": EVALUATION_COLUMNS,
    "runs": (
        "seed", "max_return", "final_return", "final_evaluation_return",
        "final_evaluation_success", "solved", "solve_step", "end_step", "ended", "switch_step",
        "minutes", "updates", "success_auc", "max_success", "goal_moved_first", "learn_step",
        "learn_minutes",
    ),
    "m_c": ("m_c", "m_c_low", "m_c_high", "n_seeds"),
}  # fmt: skip


@dataclass(frozen=True)
class Reduced:
    """A cell as arrays on one grid of steps up to the budget; NaN after a run's end."""

    budget: int
    seeds: NDArray[np.int64]
    env_steps: Array  # [step]
    returns: Array  # [seed, step]
    success: Array  # [seed, step]
    carried_returns: Array  # [seed, step]; after a run's end, its last value
    carried_success: Array  # [seed, step]; after a run's end, its last value
    minutes: Array  # [seed, step]
    updates: Array  # [seed, step], per iteration
    traces: dict[str, Array]  # further columns by name, each [seed, step]
    runs: Columns
    evaluations: Columns
    unit_returns: bool  # whether returns lie in [-1, 1], as the papers' statistics assume
    by_episode: bool  # whether no row covers more than one episode
    timed_on: str  # the processors, and how many runs trained together on it


def grouped(
    items: Iterable[tuple[Key, Item]], *names: str
) -> dict[tuple[Any, ...], list[tuple[Key, Item]]]:
    """Group keyed items by these values of their keys, in order of appearance."""
    found: dict[tuple[Any, ...], list[tuple[Key, Item]]] = {}
    for key, item in items:
        found.setdefault(tuple(key[name] for name in names), []).append((key, item))
    return found


def reduce_cell(cell: Cell) -> Reduced:
    """Reduce a cell's runs to arrays on a grid of steps that is continued to the budget.

    A cell that is part of several experiments has the largest number of seeds that any of them asks
    for, and all of these count in each experiment.
    """
    seeds = np.unique(cell.training["seed"])
    rows, evaluations = cell.training, {name: cell.tests[name] for name in EVALUATION_COLUMNS}
    observed = np.unique(rows["env_steps"])
    env_steps = metrics.extend_grid(observed, cell.budget)
    seed_index = np.searchsorted(seeds, rows["seed"])
    step_index = np.searchsorted(observed, rows["env_steps"])

    def matrix(column: str) -> Array:
        values = np.full((seeds.size, env_steps.size), np.nan)
        values[seed_index, step_index] = rows[column]
        # The file holds -inf for the largest of no relabelled samples.
        return np.where(np.isneginf(values), np.nan, values)

    success, returns, updates = (matrix(c) for c in ("success_rate", "return_mean", "updates"))
    minutes = matrix(cell.clock_column) / 60.0
    traces = {name: matrix(name) for name in TRACED}
    traces["copies_push"] = copies_push(
        *map(matrix, ("relabelled_share", "relabelled_advantage", "relabelled_z_squared"))
    )
    episodes = matrix("episodes")
    of_hundred = metrics.of_hundred(success, episodes)
    solve_step = metrics.first_at(of_hundred, env_steps, metrics.SOLVED_SUCCESS)
    last = np.searchsorted(evaluations["seed"], seeds, side="right") - 1
    by_seed = {int(run["seed"]): run for run in cell.metadata["runs"]}
    ended = [by_seed[int(seed)] for seed in seeds]
    ends = np.array([run["end_step"] for run in ended])
    # A run that diverged fails up to the budget, as its rows do.
    to_budget = np.where([run["ended"] == "diverged" for run in ended], cell.budget / ends, 1.0)
    full, full_success = metrics.carry_forward(returns), metrics.carry_forward(success)
    spec = cell.metadata["spec"]
    task = spec.get("environment", {}).get("id", PAPERS_ENVIRONMENT)
    unit_returns = task == PAPERS_ENVIRONMENT
    on_scale = returns if unit_returns else np.full_like(returns, np.nan)
    machines = [place["machine"] for place in cell.metadata.get("made_on", [cell.metadata])]
    processors = dict.fromkeys(own.get("gpu", own.get("processor", "unknown")) for own in machines)
    runs: Columns = {
        "seed": seeds,
        "max_return": np.fmax.reduce(returns, axis=1),
        "final_return": full[:, -1],
        "final_evaluation_return": evaluations["return_mean"][last].astype(np.float64),
        "final_evaluation_success": evaluations["success_rate"][last].astype(np.float64),
        "solved": ~np.isnan(solve_step),
        "solve_step": solve_step,
        "end_step": np.round(ends * to_budget).astype(np.int64),
        "ended": np.array([run["ended"] for run in ended], dtype=object),
        "switch_step": np.array([run.get("switch_step") for run in ended], dtype=np.float64),
        "minutes": np.nanmax(minutes, axis=1) * to_budget,
        "updates": np.nansum(updates, axis=1) * to_budget,
        "success_auc": np.nanmean(full_success, axis=1),
        "max_success": np.fmax.reduce(of_hundred, axis=1),
        "goal_moved_first": matrix("goal_moved")[:, 0],
        "learn_step": metrics.first_at(on_scale, env_steps, LEARNED_RETURN),
        "learn_minutes": metrics.first_at(on_scale, minutes, LEARNED_RETURN),
    }  # fmt: skip
    return Reduced(
        cell.budget, seeds, env_steps, returns, success, full, full_success, minutes, updates,
        traces, runs, evaluations, unit_returns,
        bool((np.nan_to_num(np.diff(episodes, axis=1)) <= 1).all()),
        f"{' and '.join(processors)}, {cell.metadata['runs_per_axis']} runs sharing an axis",
    )  # fmt: skip


def copies_push(share: Array, advantage: Array, z_squared: Array) -> Array:
    """Approximate what relabelled copies add to PPO's gradient of a Gaussian's log sigma.

    Per coordinate, d log N(a; mu, sigma) / d log sigma = z^2 - 1, where z = (a - mu) / sigma. The
    mean of its product with the advantage is approximated by the product of the means. 0 without
    copies.
    """
    return np.where(share == 0, 0.0, share * advantage * z_squared)
