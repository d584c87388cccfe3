"""Draw values with intervals: along a swept number, or in rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.analysis import statistics
from hindsight.analysis.reduce import ALL, Array
from hindsight.figures import names, panels, style
from hindsight.figures.panels import PANEL, WIDE, Grid, NoResults, Panel
from hindsight.figures.specs import MEASURES, FigureSpec, Measure
from hindsight.figures.tables import (
    MEASURE,
    Entry,
    Key,
    Tables,
    by_condition,
    called,
    key_of,
    value,
    values,
)

#: By cell, a measure's value of each run `[run]` or, if the table has bounds, the value with these.
Values = Mapping[Key, Array]
Places = Mapping[float, Sequence[Key]]  # the cells at each place of an axis
Spread = tuple[float, ...]  # a value and the bounds of its interval, or NaN
#: Height in inches of a row of `intervals`, and of each of its lines.
ROW, LINE = 0.1, 0.09
BARS = {
    "mean": "bars: bootstrap 95% interval over seeds, within conditions",
    "share": "bars: Wilson 95% interval",
}


def read(tables: Tables, grid: Grid) -> dict[Measure, Values]:
    """Return the values of a figure's measures in its cells; raise NoResults if there are none."""
    shown = {key_of(e) for panel in grid.panels for e in panel.entries}
    found: dict[Measure, Values] = {
        measure: {key: own for key, own in _values(tables, measure).items() if key in shown}
        for measure in (MEASURES[name] for name in grid.spec.measures)
    }
    if not any(found.values()):
        raise NoResults
    return found


def _values(tables: Tables, measure: Measure) -> Values:
    if not measure.bounds:
        runs = by_condition(tables.runs(measure))
        return {key: own["value"].to_numpy(float) for key, own in runs.items()}
    table = tables.read(f"{measure.table}.csv")
    if table.empty:
        return {}
    spread = [measure.column, *measure.bounds]
    rows = by_condition(table.dropna(subset=[measure.column]))
    return {key: own[spread].to_numpy(float)[0] for key, own in rows.items()}


def _pooled(measure: Measure, cells: Sequence[Array]) -> Spread:
    """Return the mean over cells, one per condition, with its interval.

    Given intervals are combined like those of independent means: the root of the sum of squared
    distances of the bounds, divided by the number of conditions.
    """
    if measure.bounds:
        middle, low, high = np.array(cells).T
        mean, n = float(middle.mean()), len(cells)
        below, above = (np.sqrt(((bound - middle) ** 2).sum()) / n for bound in (low, high))
        return mean, float(mean - below), float(mean + above)
    if measure.centre == "share":
        return statistics.share_over_conditions(cells)
    return statistics.mean_over_conditions(cells)


def _spreads(
    measure: Measure, found: Values, places: Places, aside: float
) -> list[tuple[float, ...]]:
    """Return each place, moved aside, with the spread of its cells, where there are any."""
    cells = {at: [found[key] for key in keys if key in found] for at, keys in places.items()}
    return [(at + aside, *_pooled(measure, own)) for at, own in cells.items() if own]


def along(tables: Tables, spec: FigureSpec) -> Figure:
    """Draw means with intervals along the number `spec.x`; thin lines are single conditions."""
    grid = panels.grid(tables, spec, WIDE if MEASURE in (spec.columns, *spec.rows) else PANEL)
    found = read(tables, grid)
    numbers = values(tables.plan, [e for p in grid.panels for e in p.entries], spec.x)
    even = spec.shade or len(numbers) < 3 or np.allclose(np.diff(numbers), numbers[1] - numbers[0])
    at = {number: float(number if even else i) for i, number in enumerate(numbers)}
    step = min(np.diff(sorted(at.values())), default=1.0)
    best, never = _best_and_never(tables) if spec.mark_best else ({}, set())
    for first, *_ in panels.sharing(grid.panels, "y"):
        limits = panels.limits_for(first.measure, found[first.measure].values())
        style.scale(first.ax, limits, log=first.measure.log)
    ticks = list(at.items())[:: -(-len(at) // 8)]
    for first, *_ in panels.sharing(grid.panels, "x"):
        first.ax.set_xlim(min(at.values()) - 0.5 * step, max(at.values()) + 0.5 * step)
        first.ax.set_xticks([x for _, x in ticks], [names.number(number) for number, _ in ticks])
    for panel in grid.panels:
        for order, (line, entries) in enumerate(panel.lines.items()):
            aside = min(0.12, 0.3 / len(panel.lines)) * step * (order - (len(panel.lines) - 1) / 2)
            points = _draw_along(
                panel, found[panel.measure], entries, spec.x, at, grid.looks[line], aside, never
            )
            _record(panel, called(spec.lines, line), spec.x, points)
        if spec.shade:
            panel.ax.axvspan(*spec.shade, color=style.BAND, linewidth=0, zorder=0)
        if spec.mark_best and panel.entries:
            own = panel.entries[0]
            _mark_best(panel.ax, best.get((own["arm"], own["condition"])))
    if spec.mark_best:  # room for the marks above the points
        for first, *_ in panels.sharing(grid.panels, "y"):
            low, high = first.ax.get_ylim()
            first.ax.set_ylim(low, high + 0.22 * (high - low))
    several = any(len({e["condition"] for e in panel.entries}) > 1 for panel in grid.panels)
    thin = "; thin: each condition" if several else ""
    words = f"{_bars(spec)}{thin}{_few(grid)}{_incomplete(grid, found)}"
    cross = style.Look(style.ALARM, "none", "x")
    more = [cross.handle("the median run never reaches a return of 0.8")] * bool(never)
    if spec.shade:
        label = f"the paper's best, {spec.shade[0]:g} to {spec.shade[1]:g}"
        more.append(style.Look(style.BAND, "none", "s").handle(label, markersize=9))
    keys = set().union(*found.values())
    return panels.finished(tables, grid, words, names.axis_label(spec.x), keys, more)


def _bars(spec: FigureSpec) -> str:
    own = [MEASURES[name] for name in spec.measures]
    if any(measure.bounds for measure in own):
        return "bars: 95% interval over seeds"
    return "; ".join(dict.fromkeys(BARS[measure.centre] for measure in own))


def _few(grid: Grid) -> str:
    """Return a remark if some cells have too few seeds for a bootstrap interval."""
    seeds = min((e["seeds"] for panel in grid.panels for e in panel.entries), default=5)
    few = seeds < statistics.FEWEST_SEEDS
    return "; fewer than five seeds carry no interval" if few else ""


def _incomplete(grid: Grid, found: Mapping[Measure, Values]) -> str:
    """Return a remark about lines whose means are over fewer cells than planned."""
    cells: dict[Any, set[Key]] = {}
    lacking: dict[Any, set[Key]] = {}
    for panel in grid.panels:
        if (measure := panel.measure).bounds:  # an M_c may not exist
            continue
        for line, entries in panel.lines.items():
            roles = {measure.role} if measure.role else {e["role"] for e in entries}
            roles -= {"baseline"} if measure.over else set()
            own = {key_of(e) for e in entries if e["role"] in roles}
            cells.setdefault(line, set()).update(own)
            lacking.setdefault(line, set()).update(own - found[measure].keys())
    return "".join(
        f"; {called(grid.spec.lines, line)} lacks {len(lost)} of {len(cells[line])} cells"
        for line, lost in lacking.items()
        if 0 < len(lost) < len(cells[line])
    )


def _draw_along(
    panel: Panel,
    found: Values,
    entries: Sequence[Entry],
    x: str,
    at: Mapping[Any, float],
    look: style.Look,
    aside: float,
    never: set[Key],
) -> dict[Any, Spread]:
    """Draw one line: its means, their intervals, and each condition; return them by x."""
    ax = panel.ax
    there = [(at[value(e, x)], key_of(e)) for e in entries if key_of(e) in found]
    if not there:
        return {}
    by_place: dict[float, list[Key]] = {}
    conditions: dict[str, list[tuple[float, float]]] = {}
    for place, key in sorted(there, key=lambda item: item[0]):
        by_place.setdefault(place, []).append(key)
        middle = found[key][0] if panel.measure.bounds else found[key].mean()
        conditions.setdefault(key[2], []).append((place, middle))
    for points in conditions.values() if len(conditions) > 1 else ():
        ax.plot(*zip(*points, strict=True), color=look.colour, linewidth=0.6, alpha=0.4, zorder=1)
    spreads = _spreads(panel.measure, found, by_place, aside)
    places, middle, low, high = np.array(spreads).T
    ax.vlines(places, low, high, color=look.colour, linewidth=1.3, alpha=0.75, zorder=2)
    ax.plot(places, middle, **look.drawn(linewidth=1.6, markersize=4.5, zorder=3))
    if len(conditions) == 1 and never:
        lost = [i for i, keys in enumerate(by_place.values()) if keys[0] in never]
        ax.plot(places[lost], middle[lost], "x", color=style.ALARM, markersize=7, zorder=4)
    numbers = {place: number for number, place in at.items()}
    return {numbers[place]: own[1:] for place, own in zip(by_place, spreads, strict=True)}


def _record(panel: Panel, line: str, x: str, points: Mapping[Any, Spread]) -> None:
    mean, low, high = np.array(list(points.values())).reshape(-1, 3).T
    style.record(panel.name, measure=panel.measure.label, line=line, **{x: list(points)},
                 mean=mean, low=low, high=high)  # fmt: skip


def _best_and_never(tables: Tables) -> tuple[dict[tuple[str, str], dict[Any, Any]], set[Key]]:
    """Return best_level.csv's rows by arm and condition; cells whose median never reaches 0.8."""
    best, summary = tables.read("best_level.csv"), tables.read("summary.csv")
    never = summary[summary["steps_to_0.8"].isna()] if len(summary) else summary
    rows = {(row["arm"], row["condition"]): row for row in best.to_dict("records")}
    return rows, set(by_condition(never))


def _mark_best(ax: Axes, row: Mapping[Any, Any] | None) -> None:
    """Mark the best level with its interval above the panel's points."""
    if row is None or pd.isna(row["best_level"]):
        return
    at, where = 1.12, ax.get_xaxis_transform()
    ends = sorted({float(row["best_level"]), float(row["best_to"])})
    ax.plot([row["low"], row["high"]], [at - 0.2] * 2, color=style.TEXT, linewidth=1.3,
            transform=where)  # fmt: skip
    ax.plot(ends, [at - 0.2] * len(ends), "v", color=style.TEXT, markersize=4, transform=where)
    label = " to ".join(f"{end:g}" for end in ends)
    ax.text(sum(ends) / len(ends), at - 0.17, label, ha="center", va="bottom", size=7,
            transform=where)  # fmt: skip


def intervals(tables: Tables, spec: FigureSpec) -> Figure:
    """Draw a row per value of the facet `spec.rows`, and a panel per measure or task.

    Each row shows every line's mean, its interval, and each run. The last row pools all conditions.
    """
    (facet,) = spec.rows
    outer = "task" if spec.columns == "task" else MEASURE
    frame = spec.model_copy(update={"rows": (), "columns": outer})
    grid = panels.grid(tables, frame, WIDE)
    found = read(tables, grid)
    entries = list({key_of(e): e for panel in grid.panels for e in panel.entries}.values())
    rows = values(tables.plan, entries, facet)
    names = [called(facet, row).replace("\n", ", ") for row in rows]
    together = facet == "place" and len(rows) > 1
    keys = set().union(*found.values())
    there = {value(e, spec.lines) for e in entries if key_of(e) in keys}
    looks = {line: look for line, look in grid.looks.items() if line in there}
    asides = np.linspace(0, 0.8 - 0.8 / len(looks), len(looks))
    asides -= asides.mean()
    for panel in grid.panels:
        own = found[panel.measure]
        for order, (line, look) in enumerate(looks.items()):
            mine = panel.lines.get(line, [])
            places: dict[float, list[Key]] = {
                y: [key_of(e) for e in mine if value(e, facet) == row] for y, row in enumerate(rows)
            }
            aside = 0.0 if facet == spec.lines else asides[order]
            if panel.measure.centre != "share" and not panel.measure.bounds:
                _draw_runs(panel.ax, own, places, look, aside)
            if together:
                places[len(rows)] = [key_of(e) for e in mine]
            points = _draw_rows(panel, own, places, look, aside)
            whole = [*names, called("place", ALL)]
            _record(panel, called(spec.lines, line), "row", {whole[y]: points[y] for y in points})
        limits = panels.limits_for(panel.measure, own.values())
        _finish_rows(panel, names, together, limits)
    for panel in grid.panels[1:]:
        panel.ax.tick_params(labelleft=False)
    lines = 1 if facet == spec.lines else len(looks)
    height = (len(rows) + together) * (ROW + LINE * max(lines, 1)) + 0.75
    grid.figure.set_size_inches(grid.figure.get_figwidth(), max(height, 1.5))
    words = f"{_bars(spec)}; ticks: every run{_few(grid)}{_incomplete(grid, found)}"
    shown = Grid(grid.figure, grid.panels, {} if facet == spec.lines else looks, frame)
    return panels.finished(tables, shown, words, "", keys | {key_of(e) for e in entries})


def _draw_runs(ax: Axes, found: Values, places: Places, look: style.Look, aside: float) -> None:
    for y, keys in places.items():
        x = [x for key in keys for x in found.get(key, ())]
        # With a colour each, ticks are drawn where they are, not at the nearest pixel.
        ax.scatter(x, [y + aside] * len(x), s=25, color=[look.colour] * len(x), marker="|",
                   linewidth=0.7, alpha=0.35, zorder=1)  # fmt: skip


def _draw_rows(
    panel: Panel, found: Values, places: Places, look: style.Look, aside: float
) -> dict[int, Spread]:
    """Draw a line's mean and interval in each row; return them by row."""
    if not (rows := _spreads(panel.measure, found, places, aside)):
        return {}
    y, middle, low, high = np.array(rows).T
    panel.ax.hlines(y, low, high, color=look.colour, linewidth=1.6, alpha=0.8, zorder=2)
    panel.ax.plot(middle, y, color=look.colour, marker=look.marker, linestyle="none",
                  markersize=4.8, zorder=3, clip_on=False)  # fmt: skip
    return {round(row[0] - aside): row[1:] for row in rows}


def _finish_rows(
    panel: Panel, rows: Sequence[str], together: bool, limits: tuple[float, float] | None
) -> None:
    ax, whole = panel.ax, [*rows, called("place", ALL)] if together else list(rows)
    ax.set_yticks(range(len(whole)), whole)
    ax.set_ylim(len(whole) - 0.5, -0.5)
    for edge in range(1, len(whole)):
        last = together and edge == len(rows)
        ax.axhline(edge - 0.5, color=style.FAINT if last else style.LINES, linewidth=0.6)
    ax.grid(False, axis="y")
    named = ax.get_title().replace("\n", " ") == style.label(panel.measure.label)
    ax.set(xlabel="" if named else panel.measure.label, ylabel="")
    if limits:
        low, high = limits
        ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    if panel.measure.over:
        ax.axvline(0, color=style.FAINT, linewidth=0.8)
