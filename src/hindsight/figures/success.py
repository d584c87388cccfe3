"""Grids of success over steps, for tasks whose returns have no common scale."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.figures import style
from hindsight.figures.grids import (
    draw_median,
    draw_seeds,
    faintness,
    planned_of,
    say_absent,
    subtitle,
)
from hindsight.figures.tables import Key, Tables, by_condition

IN_EVALUATION, IN_TRAINING = "evaluation success", "success (last 100 episodes)"
BARS = "bars: bootstrap 95 % interval"


def curves(
    plan: dict[str, Any],
    fidelity: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    keys: Mapping[tuple[str, str], Mapping[str, Key]],
    looks: Mapping[str, style.Look],
    course: pd.DataFrame,
    *,
    label: str = IN_EVALUATION,
    median: bool = False,
    log: bool = False,
    more: Sequence[Any] = (),
    said: str = "",
    below: float = 0.0,
) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """A grid of success over steps, and its panels; none where nothing was trained.

    keys: of each panel (row, column), the places in `course` of its lines by their names; course:
    every seed's success_rate over env_steps. Lines are means over seeds, or medians with the
    middle half. Each column has its own range of steps, on a logarithmic axis if `log`.
    """
    if course.empty:
        return style.nothing(title, plan["source"], fidelity), {}
    counts = seed_counts(course)
    drawn = "line: median over seeds; band: middle half" if median else "lines: mean over seeds"
    drawn = "; ".join(filter(None, (drawn, "thin: every seed", said)))
    handles = [look.handle(name) for name, look in looks.items()]
    head = style.Head(
        title, subtitle(plan, fidelity, counts, drawn, warn=below > 0), (*handles, *more)
    )
    pieces, planned = by_condition(course), planned_of(plan)
    ranges = {column: _range(column, keys, pieces, course) for column in columns}
    unit, x_label = style.steps_axis(min(end for _, end in ranges.values()))
    x_label += ", logarithmic" if log else ""
    x_label += "; each column has its own scale" if len(set(ranges.values())) > 1 else ""
    labels = [style.RowLabel(row, row) for row in rows]
    fig, axes = style.grid(labels, columns, head, x_label, label, below=below, share_x="col")
    for panel, ax in axes.items():
        lines = keys[panel]
        faint = faintness(len(lines), max(counts))
        for order, (name, key) in enumerate(lines.items()):
            if (piece := pieces.get(key)) is not None:
                look = looks[name]
                draw_seeds(ax, piece, "env_steps", "success_rate", unit, look, faint)
                draw_median(ax, middle(piece, median=median), unit, look, order, band=median)
        lacking = [(name, key in planned) for name, key in lines.items() if key not in pieces]
        say_absent(ax, lacking, len(lines))
    for column, (start, end) in ranges.items():
        own = {panel: ax for panel, ax in axes.items() if panel[1] == column}
        if log:
            for ax in own.values():
                _log_axis(ax, start / unit, end / unit)
        else:
            style.limit_x(own, end / unit)
    share_axis(next(iter(axes.values())))
    return fig, axes


def evaluations(tables: Tables) -> pd.DataFrame:
    """Every seed's success in evaluation."""
    return tables.read("evaluations.parquet", ["seed", "env_steps", "success_rate"])


def _range(
    column: str,
    keys: Mapping[tuple[str, str], Mapping[str, Key]],
    pieces: Mapping[Key, pd.DataFrame],
    course: pd.DataFrame,
) -> tuple[float, float]:
    """First and last step of what a column's panels show; of everything, if they show nothing."""
    own = [
        pieces[key]["env_steps"]
        for (_, name), lines in keys.items()
        for key in lines.values()
        if name == column and key in pieces
    ] or [course["env_steps"]]
    return float(min(x.min() for x in own)), float(max(x.max() for x in own))


def _log_axis(ax: Axes, start: float, end: float) -> None:
    """A logarithmic x axis with at least two ticks, and no more than fit a panel."""
    ax.set_xscale("log")
    low, high = start / 1.25, 1.25 * end
    powers = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    between = (1, 2, 5) if high < 10 * low else (1, 3) if high < 100 * low else (1,)
    ticks = [m * power for power in powers for m in between if low <= m * power <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(low, high)


def middle(piece: pd.DataFrame, *, median: bool) -> pd.DataFrame:
    """The seeds' mean or median and quartiles at each step, as columns x, median, q25 and q75.

    A run that ended early keeps its last value.
    """
    wide = piece.groupby(["env_steps", "seed"])["success_rate"].last().unstack()
    wide = wide.interpolate(method="index", limit_area="inside").ffill()
    centre = wide.median(axis=1) if median else wide.mean(axis=1)
    return pd.DataFrame({
        "x": wide.index, "median": centre.to_numpy(),
        "q25": wide.quantile(0.25, axis=1).to_numpy(),
        "q75": wide.quantile(0.75, axis=1).to_numpy(),
    })  # fmt: skip


def seed_counts(table: pd.DataFrame) -> list[int]:
    """The distinct numbers of seeds of the cells."""
    counts = table.groupby(["arm", "level", "condition"])["seed"].nunique()
    return sorted({int(n) for n in counts})


def panels_below(fig: Figure, inches: float, count: int) -> list[Axes]:
    """Panels side by side in the `inches` that a grid left free at its lower edge."""
    width, height = fig.get_size_inches()
    left, right, bottom, top, gap = 0.68, 0.44, 0.5, 0.42, 0.5
    panel = (width - left - right - gap * (count - 1)) / count
    size = panel / width, (inches - bottom - top) / height
    return [
        fig.add_axes(((left + i * (panel + gap)) / width, bottom / height, *size))
        for i in range(count)
    ]


def share_axis(ax: Axes) -> None:
    """A y axis of shares, [0, 1]."""
    ax.set_ylim(-0.03, 1.03)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
