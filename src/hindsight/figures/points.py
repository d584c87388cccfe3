"""Points with intervals: condition by condition in rows, or along a swept number."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hindsight.analysis import statistics
from hindsight.analysis.effects import CONDITION, Effect, effect, paired
from hindsight.analysis.reduce import ALL
from hindsight.figures import style

Array = NDArray[np.floating[Any]]
Spread = tuple[float, float, float]  # value, and the bounds of its interval (NaN: none)

ROW_INCHES, SERIES_INCHES = 0.1, 0.1  # height of a row of `forest`, and what each series adds
NAMES_INCHES = 2.1  # width of the names of its rows
NO_INTERVAL = (float("nan"), float("nan"))


@dataclass(frozen=True)
class Dots:
    """One value per condition, with its interval; hollow circles stand for a second measure."""

    label: str
    look: style.Look
    values: Mapping[str, Spread]
    hollow: bool = False


def spread(strata: Sequence[Array]) -> Spread:
    """Mean of all values with its bootstrap interval, resampled within each condition's `[seed]`.

    NaN without values; no interval where a condition has fewer than five.
    """
    values = np.concatenate([*strata, np.empty(0)])
    if not values.size:
        return float("nan"), float("nan"), float("nan")
    low, high = statistics.bootstrap(strata, statistics.mean)
    return float(values.mean()), low, high


def share(strata: Sequence[Array]) -> Spread:
    """The share of ones among all values, with Wilson's interval."""
    values = np.concatenate([*strata, np.empty(0)])
    if not values.size:
        return float("nan"), float("nan"), float("nan")
    low, high = statistics.wilson(int(values.sum()), values.size)
    return float(values.mean()), low, high


def by_place(runs: pd.DataFrame, column: str) -> dict[str, Array]:
    """`[seed]` of a column of runs.parquet per condition."""
    groups = runs.groupby(CONDITION, sort=False)[column]
    return {str(place): values.to_numpy(dtype=np.float64) for place, values in groups}


def gains(runs: pd.DataFrame, baseline: str, arm: str, column: str) -> dict[str, Spread]:
    """What `arm` has more of than `baseline`, run by run of the same seed, as answers count it."""
    values = paired(runs[runs["arm"] == arm], runs[runs["arm"] == baseline], column)
    return effects_of(values)


def effects_of(values: pd.Series) -> dict[str, Spread]:
    """Mean and interval in each condition, and over all where there are several.

    values: indexed by condition and seed.
    """
    places = values.index.get_level_values(CONDITION)
    found = {
        str(place): _spread(effect(values[places == place])) for place in dict.fromkeys(places)
    }
    return found if len(found) < 2 else found | {ALL: _spread(effect(values))}


def _spread(found: Effect) -> Spread:
    return found.mean, found.low, found.high


def places_of(plan: dict[str, Any]) -> list[str]:
    """The plan's conditions in the papers' order."""
    present = {entry["condition"] for entry in plan["entries"]}
    return [place for place in style.CONDITIONS if place in present]


def place_name(place: str, between: str = ", ") -> str:
    """`static, random spawn`; a task has its own name."""
    if place == ALL:
        return "all conditions"
    if place not in style.CONDITIONS:
        return place
    spawn, prey = style.CONDITIONS[place]
    return f"{style.PREYS[prey]}{between}{style.SPAWNS[spawn]}"


def forest_inches(places: Sequence[str], series: int) -> float:
    """Height of a `forest` of these conditions."""
    return (len(places) + (len(places) > 1)) * (ROW_INCHES + SERIES_INCHES * series)


def forest(ax: Axes, places: Sequence[str], series: Sequence[Dots], label: str) -> None:
    """A row per condition, and below several one of all together where the series have it."""
    together = len(places) > 1 and any(ALL in dots.values for dots in series)
    rows = [*places, ALL] if together else list(places)
    step = SERIES_INCHES / (ROW_INCHES + SERIES_INCHES * len(series))
    for order, dots in enumerate(series):
        offset = (order - (len(series) - 1) / 2) * step
        there = [(y, row) for y, row in enumerate(rows) if row in dots.values]
        found = [(y + offset, *dots.values[row]) for y, row in there]
        if not found:
            continue
        y, value, low, high = np.array(found).T
        ax.hlines(y, low, high, color=dots.look.colour, linewidth=1.3, alpha=0.75, zorder=2)
        face = "white" if dots.hollow else dots.look.colour
        marker = "o" if dots.hollow else dots.look.marker
        ax.plot(value, y, color=dots.look.colour, marker=marker, linestyle="none",
                markersize=4.5, markerfacecolor=face, zorder=3)  # fmt: skip
    ax.set_yticks(range(len(rows)), [place_name(row) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for edge in range(1, len(rows)):
        whole = rows[edge] == ALL
        ax.axhline(edge - 0.5, color=style.FAINT if whole else style.LINES, linewidth=0.6)
    ax.grid(False, axis="y")
    ax.set_xlabel(label)


def forest_below(fig: Figure, inches: float, label: str) -> Axes:
    """Axes for a `forest` in the `inches` that a grid left free at its lower edge."""
    width, height = fig.get_size_inches()
    left, right, bottom, top = NAMES_INCHES, 0.44, 0.5, 0.3
    place = (left / width, bottom / height, 1 - (left + right) / width,
             (inches - bottom - top) / height)  # fmt: skip
    ax = fig.add_axes(place)
    ax.set_title(label, loc="left")
    return ax


def dot_handle(look: style.Look, label: str, hollow: bool = False) -> Any:
    """A legend's entry without a line."""
    handle = replace(look, line="none", marker="o" if hollow else look.marker).handle(label)
    if hollow:
        handle.set_markerfacecolor("white")
    return handle


@dataclass(frozen=True)
class Along:
    """Means over all conditions along a swept number, with intervals; the conditions thin.

    points: value of the number -> mean and interval; conditions: condition -> {number: mean}.
    """

    look: style.Look
    points: Mapping[float, Spread]
    conditions: Mapping[str, Mapping[float, float]]


def panels(head: style.Head, titles: Sequence[str], x_label: str) -> tuple[Figure, list[Axes]]:
    """Panels side by side, each with its own y axis, under one head."""
    width, height = style.wide(min(max(7.2, 3.3 * len(titles)), 13.0), len(titles)), 2.3
    left = gap = 0.55
    top, bottom = style.head_inches(head, width) + 0.25, 0.55
    total = top + height + bottom
    panel = (width - left - 0.2 - gap * (len(titles) - 1)) / len(titles)
    fig = Figure(figsize=(width, total), dpi=style.DPI)
    axes = fig.subplots(1, len(titles), sharex=True, squeeze=False)[0]
    fig.subplots_adjust(
        left=left / width, right=1 - 0.2 / width, bottom=bottom / total, top=1 - top / total,
        wspace=gap / panel,
    )  # fmt: skip
    style.draw_head(fig, head)
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, loc="left")
    fig.text(0.5, 0.1 / total, x_label, va="bottom", ha="center", size=8.5)
    return fig, list(axes)


def draw_along(ax: Axes, along: Along, *, band: bool = False, hollow: bool = False) -> None:
    """Conditions thin, their mean thick (or hollow circles), its interval as bars or as a band."""
    for curve in along.conditions.values():
        x, y = np.array(sorted(curve.items())).T
        ax.plot(x, y, color=along.look.colour, linewidth=0.6, alpha=0.4, zorder=1)
    if not along.points:
        return
    x, value, low, high = np.array([(x, *along.points[x]) for x in sorted(along.points)]).T
    if band:
        ax.fill_between(x, low, high, color=along.look.colour, alpha=0.18, linewidth=0)
    else:
        ax.vlines(x, low, high, color=along.look.colour, linewidth=1.3, alpha=0.75, zorder=2)
    face = "white" if hollow else along.look.colour
    marker = "o" if hollow else along.look.marker
    ax.plot(x, value, color=along.look.colour, linestyle=along.look.line, linewidth=2.0,
            marker=marker, markersize=4.5, markerfacecolor=face, zorder=3,
            clip_on=False)  # fmt: skip


def mean_along(
    runs: pd.DataFrame,
    levels: Mapping[str, float],
    column: str,
    look: style.Look,
    summary: Callable[[Sequence[Array]], Spread] = spread,
) -> Along:
    """Means of a column of runs along the levels' numbers: over all runs, and per condition."""
    pooled: dict[float, Spread] = {}
    conditions: dict[str, dict[float, float]] = {}
    for text, number in levels.items():
        values = by_place(runs[runs["level"] == text].dropna(subset=[column]), column)
        if values:
            pooled[number] = summary(list(values.values()))
        for place, array in values.items():
            conditions.setdefault(place, {})[number] = float(array.mean())
    return Along(look, pooled, conditions)
