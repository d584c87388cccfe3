"""The course of training: entropy, drops, importance weights over a run, condition by condition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hindsight.figures import style
from hindsight.figures.grids import (
    Line,
    arm_rows,
    draw_seeds,
    faintness,
    far_apart,
    half_ended,
    planned_of,
    say_absent,
    subtitle,
)
from hindsight.figures.points import place_name, places_of
from hindsight.figures.tables import CELL, Tables, by_condition

Array = NDArray[np.floating[Any]]
Middle = Callable[[Array], Array]  # [seed, step] -> [step]


@dataclass(frozen=True)
class Measure:
    """A column of seed_curves.parquet, and the axis it is drawn on; `limits` None: the data's own.

    `log`: by powers of ten, values above 0 alone.
    """

    column: str
    label: str
    limits: tuple[float, float] | None = None
    log: bool = False


SUCCESS = Measure("success_rate", "success rate", (0.0, 1.0))
RETURN = Measure("return_mean", "return", (-1.0, 1.0))
ENTROPY = Measure("policy_entropy", "entropy (nats)")


def median(values: Array) -> Array:
    """`[step]`: the median over `[seed, step]`."""
    return np.asarray(np.median(values, axis=0))


def mean(values: Array) -> Array:
    """`[step]`: the mean over `[seed, step]`."""
    return np.asarray(np.mean(values, axis=0))


def entropy(tables: Tables) -> Figure:
    """Claim P8: success rate and policy entropy over steps, one row of panels each."""
    title = "Success rate and policy entropy by environment steps"
    runs = read_runs(tables, [SUCCESS, ENTROPY])
    if runs.empty:
        return style.nothing(title, tables.plan["source"], tables.fidelity)
    lines = arm_rows(tables.plan)[0].lines
    plan = tables.plan
    squashed = any(e["algorithm"] == "sac" for e in plan["entries"])
    said = "; SAC's entropy: of its squashed policy, mean of −log π" if squashed else ""
    return over_training(tables, title, runs, lines, [SUCCESS, ENTROPY], said=said)


def read_runs(tables: Tables, measures: Sequence[Measure]) -> pd.DataFrame:
    """Every seed's curves of these measures."""
    columns = [measure.column for measure in measures]
    return tables.read("seed_curves.parquet", ["seed", "env_steps", *columns])


def over_training(
    tables: Tables,
    title: str,
    runs: pd.DataFrame,
    lines: Sequence[Line],
    measures: Sequence[Measure],
    middle: Middle = median,
    *,
    said: str = "",
    more: Sequence[Line2D] = (),
    below: float = 0.0,
) -> Figure:
    """Every measure in every condition: the seeds' middle, and every seed behind it.

    `runs`: every seed's curves, with the measures' columns; `said`: what else the subtitle says;
    `more`: what else the legend does; `below`: inches left free.  A few conditions are columns;
    many, rows of prey policies per spawn.
    """
    plan = tables.plan
    counts = runs.groupby(CELL)["seed"].nunique().unique().tolist()
    drawn = f"line: {middle.__name__} over seeds, until half have ended; thin: every seed{said}"
    where = subtitle(plan, tables.fidelity, counts, drawn, warn=below > 0)
    steps = float(runs["env_steps"].max())
    unit, x_label = style.steps_axis(steps)
    x_label += ", logarithmic" if far_apart(plan) else ""
    drawn_lines = set(zip(runs["arm"], runs["level"], strict=True))
    own = (e.look.handle(e.label) for e in lines if (e.arm, e.level) in drawn_lines)
    handles = (*own, *more)
    head = style.Head(title, where, handles)
    rows, columns, places = _layout(places_of(plan))
    labels = [
        style.RowLabel(f"{measure.column} {row}", style.SPAWNS.get(row, ""))
        for row in rows
        for measure in measures
    ]
    fig, axes = style.grid(labels, columns, head, x_label, "", "row", below)
    pieces, planned = by_condition(runs), planned_of(plan)
    faint = faintness(len(lines), max(counts))
    for measure, row in product(measures, rows):
        panels = {column: axes[f"{measure.column} {row}", column] for column in columns}
        _scale(list(panels.values()), runs[measure.column], measure)
        panels[columns[0]].set_ylabel(measure.label)
        for column, ax in panels.items():
            place = places.get((row, column), "")
            keys = {line: (line.arm, line.level, place) for line in lines}
            there = {line: pieces[key] for line, key in keys.items() if key in pieces}
            lacking = [(line.label, keys[line] in planned) for line in lines if line not in there]
            say_absent(ax, lacking, len(lines))
            found = {
                line: piece[_drawable(piece[measure.column], measure)]
                for line, piece in there.items()
            }
            for line, piece in found.items():
                if not piece.empty:
                    draw_seeds(ax, piece, "env_steps", measure.column, unit, line.look, faint)
                    _middle(ax, piece, measure.column, middle, unit, line.look)
            if found and all(piece.empty for piece in found.values()):
                style.note(ax, "not recorded")
    limit = style.limit_log_x if far_apart(plan) else style.limit_x
    limit(axes, steps / unit)
    return fig


def _layout(
    places: Sequence[str],
) -> tuple[list[str], list[str], dict[tuple[str, str], str]]:
    """Rows, columns, and the condition at each: few conditions are columns of one row, many are
    the papers' grid of spawns and prey policies.
    """
    if len(places) <= len(style.PREYS):
        names = {("", place_name(place, "\n")): place for place in places}
        return [""], [column for _, column in names], names
    panels = {style.CONDITIONS[place]: place for place in places}
    spawns = [spawn for spawn in style.SPAWNS if spawn in {spawn for spawn, _ in panels}]
    preys = [prey for prey in style.PREYS if prey in {prey for _, prey in panels}]
    return spawns, preys, panels


def _drawable(values: pd.Series, measure: Measure) -> NDArray[np.bool_]:
    """Which values have a place on the measure's axis."""
    numbers = values.to_numpy(dtype=np.float64)
    return np.isfinite(numbers) & ((numbers > 0) | (not measure.log))


def _scale(axes: list[Axes], values: pd.Series, measure: Measure) -> None:
    """Limits and ticks of a row of panels, from all rows' values of the measure."""
    for ax in axes:
        if measure.log:
            ax.set_yscale("log")
    numbers = values[_drawable(values, measure)].to_numpy(dtype=np.float64)
    first = axes[0]
    if measure.limits is not None:
        low, high = measure.limits
        ticks = [low, (low + high) / 2, high]
        first.set_yticks(ticks, [f"{y:g}".replace("-", "−") for y in ticks])
        margin = 0.03 * (high - low)
    elif numbers.size:
        low, high = float(numbers.min()), float(numbers.max())
        margin = 0.04 * (high - low) + 0.01
    else:
        return
    if measure.log:
        first.set_ylim(low / 1.3, high * 1.3)
    else:
        first.set_ylim(low - margin, high + margin)


def _middle(
    ax: Axes,
    runs: pd.DataFrame,
    column: str,
    middle: Middle,
    unit: float,
    look: style.Look,
) -> None:
    """The seeds' middle on a common grid of steps, until half of the runs have ended; one that
    ended before keeps its last value.
    """
    first, last = runs["env_steps"].min() / unit, half_ended(runs, "env_steps") / unit
    grid = np.unique([*np.linspace(first, last, 150), *np.geomspace(first, last, 150)])
    curves = [
        np.interp(grid, run["env_steps"] / unit, run[column])  # constant beyond a run's last step
        for _, run in runs.sort_values("env_steps").groupby("seed")
    ]
    ax.plot(
        grid,
        middle(np.array(curves)),
        color=look.colour,
        linestyle=look.line,
        linewidth=look.width,
        marker=look.marker,
        markersize=3.2,
        markevery=(0.1, 0.26),
        zorder=3,
    )
