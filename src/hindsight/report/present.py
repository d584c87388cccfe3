"""Numbers and tables as a reader wants them; the same in Markdown and in HTML."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hindsight.analysis.reduce import ALL
from hindsight.figures.names import CONDITIONS, PREYS, SPAWNS

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table of words: a title, a header, and rows of the header's length; note: what stands
    below, if anything.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""


def number(value: Any, digits: int = 2) -> str:
    """`0.91`, `12 345` (from a thousand on: whole), `∞`, and `–` for what is not there."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u00a0")
    return f"{value:.{digits}f}".replace("-", "−")


def count(value: Any) -> str:
    """`16`, `12 345`."""
    return number(value, 0)


def interval(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """`0.91 [0.80, 0.97]`; the value alone where it carries no interval."""
    bounds = [number(low, digits), number(high, digits)]
    if NOTHING in bounds:
        return number(value, digits)
    return f"{number(value, digits)} [{bounds[0]}, {bounds[1]}]"


def percent(value: Any, low: Any, high: Any) -> str:
    """`48 [45, 52]`: shares as per cent."""
    return interval(100 * value, 100 * low, 100 * high, 0)


def setting(value: Any, to: Any, low: Any, high: Any) -> str:
    """`0.6 [0.5, 0.7]`, of equals `0.3 to 0.8 [0.3, 0.8]`: one of the swept numbers, with as many
    digits as it has.
    """
    if math.isnan(value):
        return NOTHING
    words = f"{value:g}" if value == to else f"{value:g} to {to:g}"
    return words if math.isnan(low) else f"{words} [{low:g}, {high:g}]"


def p_value(value: Any) -> str:
    """`0.03`, `< 0.001`."""
    if value is None or math.isnan(value):
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


Row = dict[Any, Any]
Column = tuple[str, Callable[[Row], str]]


def _share(row: Row) -> str:
    return interval(row["solved_share"], row["solved_low"], row["solved_high"])


def _level(settings: dict[str, str]) -> list[Column]:
    return [("setting", lambda row: settings[row["level"]])] if len(settings) > 1 else []


_CONDITION: list[Column] = [
    ("spawn", lambda row: SPAWNS.get(row["spawn"], ALL)),
    ("prey", lambda row: PREYS.get(row["prey"], ALL)),
]
_SUMMARY: list[Column] = [
    ("seeds", lambda row: count(row["n_seeds"])),
    ("max. median return (IQR)", lambda row: f"{number(row['max_median_return'])} "
     f"({number(row['iqr'])})"),
    ("time to learn, steps", lambda row: count(row["time_to_learn_steps"])),
    ("time to learn, minutes", lambda row: number(row["time_to_learn_minutes"])),
    ("seeds solved [95 %]", _share),
    ("mean final return [95 %]",
     lambda row: interval(row["mean_return"], row["mean_low"], row["mean_high"])),
]  # fmt: skip
_AGGREGATE: list[Column] = [
    ("conditions", lambda row: count(row["n_conditions"])),
    ("seeds", lambda row: count(row["n_seeds"])),
    ("interquartile mean of final return [95 %]",
     lambda row: interval(row["iqm_return"], row["iqm_return_low"], row["iqm_return_high"])),
    ("mean of final return [95 %]",
     lambda row: interval(row["mean_return"], row["mean_return_low"], row["mean_return_high"])),
    ("seeds solved [95 %]", _share),
]  # fmt: skip
_METRICS = {
    "auc": "area under the curve",
    "final_return": "final return",
    "success_auc": "mean success over training",
    "final_evaluation_success": "success at the end",
}
_TASK: list[Column] = [("task", lambda row: str(row["task"]))]
#: Of other tasks, whose returns have no common scale.
_TASK_SUMMARY: list[Column] = [
    ("seeds", lambda row: count(row["n_seeds"])),
    ("success at the end [95 %]",
     lambda row: interval(row["mean_success"], row["success_low"], row["success_high"])),
    ("mean success over training [95 %]", lambda row: interval(
        row["mean_success_auc"], row["success_auc_low"], row["success_auc_high"])),
    ("seeds solved [95 %]", _share),
    ("steps until solved, median", lambda row: count(row["solve_step_median"])),
]  # fmt: skip
_TESTS: list[Column] = [
    ("pair", lambda row: f"{row['arm']} − {row['baseline']}"),
    ("metric", lambda row: _METRICS[row["metric"]]),
    ("seeds", lambda row: count(row["n_seeds"])),
    ("mean difference [95 %]",
     lambda row: interval(row["mean_difference"], row["low"], row["high"])),
    ("p, sign flips, Holm", lambda row: p_value(row["p_holm"])),
    ("p, Fisher on solved, Holm", lambda row: p_value(row["p_fisher_holm"])),
    ("p, log-rank", lambda row: p_value(row["p_logrank"])),
    ("probability of improvement [95 %]", lambda row: interval(
        row["probability_of_improvement"], row["probability_low"], row["probability_high"])),
]  # fmt: skip
_SENSITIVITY: list[Column] = [
    ("seeds", lambda row: count(row["n_seeds"])),
    ("best scaled return", lambda row: number(row["best"])),
    ("worst scaled return", lambda row: number(row["worst"])),
    (
        "sensitivity, % [95 %]",
        lambda row: interval(row["sensitivity_percent"], row["low"], row["high"], 0),
    ),
]
_M_C: list[Column] = [
    ("seeds", lambda row: count(row["n_seeds"])),
    ("M_c [95 %]", lambda row: interval(row["m_c"], row["m_c_low"], row["m_c_high"])),
]
_BEST: list[Column] = [
    ("conditions", lambda row: count(row["n_conditions"])),
    ("seeds", lambda row: count(row["n_seeds"])),
    ("best by M_c [95 %]", lambda row: setting(
        row["best_level"], row["best_to"], row["low"], row["high"])),
    ("its M_c", lambda row: number(row["m_c"])),
    ("single-peaked", lambda row: {True: "yes", False: "no"}.get(row["single_peaked"], NOTHING)),
    ("M_c at S > 0.5 minus at S < 0.5 [95 %]",
     lambda row: interval(row["lean"], row["lean_low"], row["lean_high"])),
]  # fmt: skip
_SAVED: list[Column] = [
    ("seeds", lambda row: count(row["n_seeds"])),
    ("switched, % of runs", lambda row: number(100 * row["switched_share"], 0)),
    ("switched at step, median", lambda row: count(row["switch_step_median"])),
    ("hindsight to the end, minutes", lambda row: number(row["minutes_baseline"])),
    ("minutes", lambda row: number(row["minutes_arm"])),
    ("time saved, % [95 %]", lambda row: percent(row["saved_share"], row["low"], row["high"])),
    ("updates saved, % [95 %]", lambda row: percent(
        row["updates_saved_share"], row["updates_low"], row["updates_high"])),
    ("final return minus that with hindsight to the end [90 %]", lambda row: interval(
        row["return_difference"], row["return_low"], row["return_high"])),
]  # fmt: skip
_ARM: list[Column] = [("algorithm", lambda row: str(row["arm"]))]


def columns_of(kind: str, settings: dict[str, str], *, of_tasks: bool = False) -> list[Column]:
    """The columns of one of the tables that `summarise` writes.

    settings: what each level of the tables is called; a column of its own if there are several.
    of_tasks: of an experiment on other tasks than the papers', of which only the summary and the
    tests have rows.
    """
    if of_tasks and kind in ("summary.csv", "tests.csv"):
        own = [*_ARM, *_TASK_SUMMARY] if kind == "summary.csv" else _TESTS
        return [*_TASK, *_level(settings), *own]
    return {
        "aggregate.csv": [*_level(settings), *_ARM, *_AGGREGATE],
        "summary.csv": [*_CONDITION, *_level(settings), *_ARM, *_SUMMARY],
        "tests.csv": [*_CONDITION, *_level(settings), *_TESTS],
        "sensitivity.csv": [*_CONDITION, *_ARM, *_SENSITIVITY],
        "best_level.csv": [*_CONDITION, *_ARM, *_BEST],
        "m_c.csv": [*_CONDITION, *_level(settings), *_ARM, *_M_C],
        "time_saved.csv": [*_CONDITION, *_level(settings), *_ARM, *_SAVED],
    }[kind]


def table(title: str, frame: pd.DataFrame, columns: list[Column], arms: list[str]) -> Table:
    """The frame's rows in words, condition by condition, so that neighbours can be compared; first
    those over all conditions. arms: in their order.
    """
    orders = {
        "condition": list(dict.fromkeys([ALL, *CONDITIONS, *frame.get("condition", [])])),
        "level": list(dict.fromkeys(frame.get("level", []))),
        "arm": arms,
    }
    keys = [key for key in orders if key in frame]
    frame = frame.sort_values(keys, key=lambda column: column.map(orders[str(column.name)].index))
    rows = [[text(row) for _, text in columns] for row in frame.to_dict("records")]
    return Table(title, [name for name, _ in columns], rows)
