"""Format numbers and tables for Markdown and HTML."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from hindsight.analysis.reduce import ALL
from hindsight.figures.names import CONDITIONS, PREYS, SPAWNS

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table of text; each row is as long as the header, and `note` goes below the table."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""


def number(value: Any, digits: int = 2) -> str:
    """Format a number: `0.91`, `12,345` (no decimals from 1000 on), `∞`, `–` for NaN and None."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}".replace("-", "−")


def count(value: Any) -> str:
    """Format a whole number: `16`, `12,345`."""
    return number(value, 0)


def interval(value: Any, low: Any, high: Any, digits: int = 2) -> str:
    """Format a value with its interval, `0.91 [0.80, 0.97]`, or alone if it has none."""
    bounds = [number(low, digits), number(high, digits)]
    if NOTHING in bounds:
        return number(value, digits)
    return f"{number(value, digits)} [{bounds[0]}, {bounds[1]}]"


def setting(value: Any, to: Any, low: Any, high: Any) -> str:
    """Format the best of the swept values, `0.6 [0.5, 0.7]`; a tie is `0.3 to 0.8 [0.3, 0.8]`."""
    if math.isnan(value):
        return NOTHING
    words = f"{value:g}" if value == to else f"{value:g} to {to:g}"
    return words if math.isnan(low) else f"{words} [{low:g}, {high:g}]"


def p_value(value: Any) -> str:
    """Format a p-value: `0.03`, `< 0.001`."""
    if value is None or math.isnan(value):
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


Column = tuple[str, Callable[[dict[Any, Any]], str]]


def column(show: Callable[..., str], *columns: str) -> Callable[[dict[Any, Any]], str]:
    """Return a function that shows these columns of a row by `show`."""
    return lambda row: show(*(row[name] for name in columns))


_ARM: Column = ("algorithm", column(str, "arm"))
_TASK: Column = (
    "task", column(lambda task, place: ALL if place == ALL else str(task), "task", "condition")
)  # fmt: skip
_CONDITION: list[Column] = [
    ("spawn", column(lambda spawn: SPAWNS.get(spawn, ALL), "spawn")),
    ("prey", column(lambda prey: PREYS.get(prey, ALL), "prey")),
]
#: Only in the tables of an experiment with several levels.
LEVEL: Column = ("setting", column(str, "level"))
_CONDITIONS: Column = ("conditions", column(count, "n_conditions"))
_SEEDS: Column = ("seeds", column(count, "n_seeds"))
_SOLVED: Column = (
    "seeds solved [95%]", column(interval, "solved_share", "solved_low", "solved_high")
)  # fmt: skip
_METRICS = {
    "auc": "area under the curve",
    "final_return": "final return",
    "success_auc": "mean success over training",
    "final_evaluation_success": "success at the end",
}
_TESTS: list[Column] = [
    ("pair", column("{} − {}".format, "arm", "baseline")),
    ("metric", column(_METRICS.__getitem__, "metric")),
    _SEEDS,
    ("mean difference [95%]", column(interval, "mean_difference", "low", "high")),
    ("p, sign flips, Holm", column(p_value, "p_holm")),
    ("p, Fisher on solved, Holm", column(p_value, "p_fisher_holm")),
    ("p, log-rank", column(p_value, "p_logrank")),
    ("probability of improvement [95%]",
     column(interval, "probability_of_improvement", "probability_low", "probability_high")),
]  # fmt: skip
#: The title and the columns of the tables that `summarise` writes, by file name.
TABLES: dict[str, tuple[str, list[Column]]] = {
    "aggregate.csv": ("All conditions together", [
        LEVEL, _ARM, _CONDITIONS, _SEEDS,
        ("interquartile mean of final return [95%]",
         column(interval, "iqm_return", "iqm_return_low", "iqm_return_high")),
        ("mean of final return [95%]",
         column(interval, "mean_return", "mean_return_low", "mean_return_high")),
        _SOLVED,
    ]),
    "summary.csv": ("By condition", [
        *_CONDITION, LEVEL, _ARM, _SEEDS,
        ("max. median return (IQR)",
         column(lambda top, iqr: f"{number(top)} ({number(iqr)})", "max_median_return", "iqr")),
        ("steps to 95% of its best", column(count, "time_to_learn_steps")),
        ("minutes to 95% of its best", column(number, "time_to_learn_minutes")),
        _SOLVED,
        ("mean final return [95%]", column(interval, "mean_return", "mean_low", "mean_high")),
    ]),
    "sensitivity.csv": ("Sensitivity", [
        *_CONDITION, _ARM, _SEEDS,
        ("best scaled return", column(number, "best")),
        ("worst scaled return", column(number, "worst")),
        ("sensitivity, % [95%]",
         column(partial(interval, digits=0), "sensitivity_percent", "low", "high")),
    ]),
    "best_level.csv": ("Best setting", [
        *_CONDITION, _ARM, _CONDITIONS, _SEEDS,
        ("best by M_c [95%]", column(setting, "best_level", "best_to", "low", "high")),
        ("its M_c", column(number, "m_c")),
    ]),
    "m_c.csv": ("M_c by setting", [
        *_CONDITION, LEVEL, _ARM, _SEEDS,
        ("M_c [95%]", column(interval, "m_c", "m_c_low", "m_c_high")),
    ]),
    "tests.csv": ("Pairwise tests", [*_CONDITION, LEVEL, *_TESTS]),
}  # fmt: skip
#: The columns for other tasks than the papers', whose returns may have no common scale.
OF_TASKS: dict[str, list[Column]] = {
    "summary.csv": [
        _TASK, LEVEL, _ARM, _SEEDS,
        ("success at the end [95%]",
         column(interval, "mean_success", "success_low", "success_high")),
        ("mean success over training [95%]",
         column(interval, "mean_success_auc", "success_auc_low", "success_auc_high")),
        _SOLVED,
        ("steps until solved, median", column(count, "solve_step_median")),
    ],
}  # fmt: skip
for _name, (_, _columns) in TABLES.items():
    _own = [column for column in _columns if column not in _CONDITION]
    OF_TASKS.setdefault(_name, [_TASK, *_own] if len(_own) < len(_columns) else _own)


def table(
    title: str, frame: pd.DataFrame, columns: list[Column], arms: list[str], note: str = ""
) -> Table:
    """Return the frame's rows as text: first those over all conditions, then by condition.

    Within a condition, rows are sorted by level and then by arm, in the order of `arms`.
    """
    orders = {
        "condition": list(dict.fromkeys([ALL, *CONDITIONS, *frame.get("condition", [])])),
        "level": list(dict.fromkeys(frame.get("level", []))),
        "arm": arms,
    }
    keys = [key for key in orders if key in frame]
    frame = frame.sort_values(keys, key=lambda column: column.map(orders[str(column.name)].index))
    rows = [[text(row) for _, text in columns] for row in frame.to_dict("records")]
    return Table(title, [name for name, _ in columns], rows, note)
