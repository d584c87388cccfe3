"""What stands beside the published figures: solved shares and aggregates.

The papers' medians hide seeds that never learn; the share of seeds that solved the task, with its
interval, does not (Agarwal et al. 2021 make the case for intervals over point estimates).
"""

import textwrap
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hindsight.figures import points, style
from hindsight.figures.grids import arm_rows, preys_of, spawns_of, subtitle
from hindsight.figures.tables import CELL, Key, Tables, arms_of, levels_of, look_of
from hindsight.specs.config import condition_name

Array = NDArray[np.floating[Any]]
Rows = dict[Any, dict[Any, Any]]  # a table's rows by (arm, level, condition)
SOLVED = "share of seeds that solved the task"


@dataclass(frozen=True)
class Series:
    """Points that belong together: the level's text at each position that has one."""

    arm: str
    label: str
    look: style.Look
    levels: tuple[tuple[int, str], ...]


def solved_share(tables: Tables) -> Figure:
    """Share of solved seeds with Wilson's interval: by condition, or by the swept value in each."""
    plan = tables.plan
    title = f"Solved seeds · {plan['title']}"
    summary = tables.read("summary.csv")
    if summary.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    drawn = "bar: Wilson 95 % interval; solved: 95 % of 100 episodes succeed"
    where = subtitle(plan, tables.fidelity, summary["n_seeds"].tolist(), drawn, warn=False)
    rows = {tuple(row[name] for name in CELL): row for row in summary.to_dict("records")}
    return (_share_by_level if plan["vary"] else _share_by_prey)(plan, rows, title, where)


def _share_by_prey(plan: dict[str, Any], rows: Rows, title: str, where: str) -> Figure:
    """One panel per spawn, prey policies along the axis."""
    grid_rows, preys = arm_rows(plan), preys_of(plan)
    there = {arm for arm, *_ in rows}
    handles = tuple(_dot(e.look, e.label) for e in grid_rows[0].lines if e.arm in there)
    head = style.Head(title, where, handles)
    width, panel, bottom = style.wide(max(7.2, 1.2 + 1.2 * len(preys)), len(preys)), 1.9, 0.55
    top = style.head_inches(head, width) + 0.25
    height = top + bottom + panel * len(grid_rows) + 0.4 * (len(grid_rows) - 1)
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    axes = fig.subplots(len(grid_rows), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    fig.subplots_adjust(
        left=0.65 / width, right=1 - 0.15 / width, bottom=bottom / height, top=1 - top / height,
        hspace=0.4 / panel,
    )  # fmt: skip
    style.draw_head(fig, head)
    middle = (bottom + height - top) / 2 / height
    fig.text(0.12 / width, middle, SOLVED, rotation=90, va="center", size=8.5)
    for ax, row in zip(axes, grid_rows, strict=True):
        ax.set_title(row.text, loc="left")
        for order, line in enumerate(row.lines):
            offset = (order - (len(row.lines) - 1) / 2) * min(0.16, 0.7 / len(row.lines))
            keys = [(line.arm, line.level, condition_name(row.spawn, prey)) for prey in preys]
            _shares(ax, rows, keys, np.arange(len(preys)) + offset, line.look, joined=False)
        for edge in range(1, len(preys)):
            ax.axvline(edge - 0.5, color=style.LINES, linewidth=0.6)
        ax.grid(False, axis="x")
    names = [style.PREYS.get(prey) or textwrap.fill(prey, 18) for prey in preys]
    axes[-1].set_xticks(range(len(preys)), names)
    axes[-1].set_xlim(-0.5, len(preys) - 0.5)
    axes[-1].set_xlabel("prey policy" if grid_rows[0].text else "task")
    _share_axis(axes[-1])
    return fig


def _share_by_level(plan: dict[str, Any], rows: Rows, title: str, where: str) -> Figure:
    """The grid of conditions, the swept value along each panel's axis."""
    series, positions, x_label = series_by_level(plan)
    head = style.Head(title, where, tuple(s.look.handle(s.label) for s in series))
    rows_of = [style.RowLabel(*spawn) for spawn in spawns_of(plan).items()]
    fig, axes = style.grid(rows_of, preys_of(plan), head, x_label, SOLVED)
    for (spawn, prey), ax in axes.items():
        found = False
        for order, one in enumerate(series):
            offset = (order - (len(series) - 1) / 2) * min(0.2, 0.8 / len(series))
            keys = [(one.arm, level, condition_name(spawn, prey)) for _, level in one.levels]
            at = np.array([position for position, _ in one.levels]) + offset
            found |= _shares(ax, rows, keys, at, one.look, joined=True)
        if not found:
            style.note(ax, "no results")
        ax.grid(False, axis="x")
    first = next(iter(axes.values()))
    every = -(-len(positions) // 6)  # six names of a level fit under a panel
    first.set_xticks(range(0, len(positions), every), positions[::every])
    first.set_xlim(-0.5, len(positions) - 0.5)
    _share_axis(first)
    return fig


def series_by_level(plan: dict[str, Any]) -> tuple[list[Series], list[str], str]:
    """The lines of a sweep, the names of the axis' positions, and the axis' label.

    A position per value of the last key; a line per arm and setting of the others, if there are any
    (strategy and k: a line per strategy).
    """
    levels = levels_of(plan)
    arms = arms_of(plan)
    *others, key = plan["vary"]
    values = list(dict.fromkeys(level[key] for level in levels.values()))
    if not isinstance(values[0], str):
        values.sort()
    place = {value: index for index, value in enumerate(values)}
    groups: dict[str, list[tuple[int, str]]] = {}
    for text, level in levels.items():
        name = style.level_label({other: level[other] for other in others})
        groups.setdefault(name, []).append((place[level[key]], text))
    lines = list(product(arms, groups.items()))
    series = []
    for (arm, (name, at)), shade in zip(lines, style.level_looks(len(lines)), strict=True):
        look = style.STRATEGIES.get(name, shade) if name else look_of(plan, arm)
        label = " ".join(word for word in (arm if len(arms) > 1 or not name else "", name) if word)
        series.append(Series(arm, label, look, tuple(at)))
    names = [value if isinstance(value, str) else style.number(value) for value in values]
    return series, names, style.KEYS.get(key, key)


def _shares(
    ax: Axes, rows: Rows, keys: list[Key], at: Array, look: style.Look, *, joined: bool
) -> bool:
    """Points with Wilson intervals where there are rows; whether there were any."""
    found = [(x, rows[key]) for x, key in zip(at, keys, strict=True) if key in rows]
    if not found:
        return False
    x = np.array([position for position, _ in found])
    share, low, high = (
        np.array([float(row[name]) for _, row in found])
        for name in ("solved_share", "solved_low", "solved_high")
    )
    _interval(ax, x, share, low, high, look, linestyle=look.line if joined else "none")
    return True


def _interval(
    ax: Axes, x: Array, y: Array, low: Array, high: Array, look: style.Look, **line: Any
) -> None:
    """Markers with vertical bars; a value without interval keeps its marker alone."""
    ax.vlines(x, low, high, color=look.colour, linewidth=1.1, alpha=0.75, zorder=2)
    ax.plot(x, y, color=look.colour, marker=look.marker, markersize=4.5, zorder=3, clip_on=False,
            linewidth=1.1, **line)  # fmt: skip


def _share_axis(ax: Axes) -> None:
    ax.set_ylim(-0.04, 1.04)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])


def _dot(look: style.Look, label: str) -> Any:
    handle = look.handle(label)
    handle.set_linestyle("none")
    return handle


#: Column: its title, the stem of its interval's columns, the axis' limits.
AGGREGATES = {
    "iqm_return": ("interquartile mean of final return", "iqm_return", (-1, 1)),
    "mean_return": ("mean of final return", "mean_return", (-1, 1)),
    "solved_share": ("share of seeds solved", "solved", (0, 1)),
}
#: Columns of runs.parquet: the same of tasks whose returns have no common scale.
OF_TASKS = {
    "final_evaluation_success": ("success at the end", "final_evaluation_success", (0, 1)),
    "success_auc": ("mean success over training", "success_auc", (0, 1)),
    "solved": AGGREGATES["solved_share"],
}


def aggregate(tables: Tables) -> Figure:
    """All conditions pooled: interquartile mean, mean and solved share with 95 % intervals."""
    plan = tables.plan
    title = f"All conditions together · {plan['title']}"
    table, shown = tables.read("aggregate.csv"), AGGREGATES
    if table.empty:
        table, shown = _of_tasks(tables.read("runs.parquet")), OF_TASKS
    if table.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    arms = arms_of(plan)
    levels = levels_of(plan)
    rows = {(row["level"], row["arm"]): row for row in table.to_dict("records")}
    slots = [(text, arm) for text in levels for arm in arms if (text, arm) in rows]
    conditions = int(table["n_conditions"].max())
    alike = bool((table["n_conditions"] == conditions).all())
    drawn = (
        f"{_conditions(conditions)}{'' if alike else ', where no other number is given'} · "
        "bar: 95 % interval (means: bootstrap within conditions; share: Wilson over all seeds)"
    )
    where = subtitle(plan, tables.fidelity, table["n_seeds"].tolist(), drawn)
    head = style.Head(title, where)
    fig, axes = _aggregate_axes(head, len(slots))
    for ax, (column, (label, stem, limits)) in zip(axes, shown.items(), strict=True):
        for y, slot in enumerate(slots):
            row, strategy = rows[slot], levels[slot[0]].get("strategy")
            look = style.STRATEGIES[strategy] if strategy else look_of(plan, slot[1])
            low, high = row[f"{stem}_low"], row[f"{stem}_high"]
            ax.hlines(y, low, high, color=look.colour, linewidth=2, alpha=0.75)
            ax.plot(row[column], y, color=look.colour, marker=look.marker, markersize=5.5,
                    clip_on=False)  # fmt: skip
        for y in range(1, len(slots)):
            if len(arms) > 1 and slots[y][0] != slots[y - 1][0]:
                ax.axhline(y - 0.5, color=style.LINES, linewidth=0.6)
        ax.set_title(label)
        ax.set_xticks(np.linspace(*limits, 5), [f"{x:g}" for x in np.linspace(*limits, 5)])
        margin = 0.03 * (limits[1] - limits[0])
        ax.set_xlim(limits[0] - margin, limits[1] + margin)
        ax.grid(False, axis="y")
    arm_needed = len(arms) > 1 or not plan["vary"]
    names = [
        " · ".join(word for word in (style.level_label(levels[text]), arm * arm_needed) if word)
        for text, arm in slots
    ]
    for i, slot in enumerate(slots):
        # Pooled over other conditions than its neighbours: not to be compared with them.
        if (own := int(rows[slot]["n_conditions"])) != conditions:
            names[i] += f"\n({_conditions(own)} only)"
    axes[0].set_yticks(range(len(slots)), names)
    axes[0].set_ylim(len(slots) - 0.5, -0.5)
    return fig


def _of_tasks(runs: pd.DataFrame) -> pd.DataFrame:
    """As aggregate.csv, of success."""
    rows = []
    for (level, arm), own in runs.groupby(["level", "arm"], sort=False):
        sizes = own.groupby("condition").size()
        row = {"level": level, "arm": arm, "n_conditions": len(sizes), "n_seeds": sizes.max()}
        for column, (_, stem, _) in OF_TASKS.items():
            measure = points.share if column == "solved" else points.spread
            value, low, high = measure(list(points.by_place(own, column).values()))
            row |= {column: value, f"{stem}_low": low, f"{stem}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def _conditions(count: int) -> str:
    return f"{count} condition{'s' if count > 1 else ''}"


def _aggregate_axes(head: style.Head, slots: int) -> tuple[Figure, Any]:
    width, left, bottom = style.wide(9.6, 3), 2.1, 0.35
    top = style.head_inches(head, width) + 0.25
    height = top + bottom + max(0.27 * slots, 0.6)
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    axes = fig.subplots(1, 3, sharey=True)
    fig.subplots_adjust(
        left=left / width, right=1 - 0.2 / width, bottom=bottom / height, top=1 - top / height,
        wspace=0.12,
    )  # fmt: skip
    style.draw_head(fig, head)
    return fig, axes
