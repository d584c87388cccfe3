"""Numbers and tables as a reader wants them; the same in Markdown and in HTML."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hindsight.figures.style import PREYS, SPAWNS, in_order

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """A table of words: a title, a header, and rows of the header's length."""

    title: str
    header: list[str]
    rows: list[list[str]]


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
    ("spawn", lambda row: SPAWNS[row["spawn"]]),
    ("prey", lambda row: PREYS[row["prey"]]),
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
_METRICS = {"auc": "area under the curve", "final_return": "final return"}
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
    ("best scaled return", lambda row: number(row["best"])),
    ("worst scaled return", lambda row: number(row["worst"])),
    ("sensitivity, %", lambda row: number(row["sensitivity_percent"], 0)),
]
_ARM: list[Column] = [("algorithm", lambda row: str(row["arm"]))]


def columns_of(kind: str, settings: dict[str, str]) -> list[Column]:
    """The columns of one of the tables that `summarise` writes.

    settings: what each level of the tables is called; a column of its own if there are several.
    """
    return {
        "aggregate.csv": [*_level(settings), *_ARM, *_AGGREGATE],
        "summary.csv": [*_CONDITION, *_level(settings), *_ARM, *_SUMMARY],
        "tests.csv": [*_CONDITION, *_level(settings), *_TESTS],
        "sensitivity.csv": [*_CONDITION, *_ARM, *_SENSITIVITY],
    }[kind]


def table(title: str, frame: pd.DataFrame, columns: list[Column]) -> Table:
    """The frame's rows in words, condition by condition, so that neighbours can be compared."""
    orders = {
        "spawn": list(SPAWNS),
        "prey": list(PREYS),
        "level": list(dict.fromkeys(frame.get("level", []))),
        "arm": in_order(frame["arm"].tolist()),
    }
    keys = [key for key in orders if key in frame]
    frame = frame.sort_values(keys, key=lambda column: column.map(orders[str(column.name)].index))
    rows = [[text(row) for _, text in columns] for row in frame.to_dict("records")]
    return Table(title, [name for name, _ in columns], rows)
