"""How the authors tuned SAC-HER: every goal strategy, number of goals and learning rate."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.analysis import metrics
from hindsight.figures import style
from hindsight.figures.grids import subtitle
from hindsight.figures.points import place_name, places_of
from hindsight.figures.tables import Tables

VARIED = ["strategy", "k", "learning_rate"]


@dataclass(frozen=True)
class Row:
    """A row of panels: a column of summary.csv, its name, and each seed's of runs.parquet."""

    column: str
    text: str
    of_seeds: str | None = None


ROWS = (
    Row("max_median_return", "best", "max_return"),
    Row("mean_return", "final", "final_evaluation_return"),
    Row("time_to_learn_steps", "time to learn"),
)


def by_setting(tables: Tables) -> Figure:
    """Best and final return, and the time to learn, over k; a column of panels per learning rate,
    a line per strategy.
    """
    title = "SAC-HER by goal strategy, goals per transition and learning rate"
    plan = tables.plan
    summary = tables.read("summary.csv")
    if summary.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    runs = tables.read("runs.parquet")
    planned = pd.DataFrame([entry["level"] for entry in plan["entries"]])[VARIED]
    rates, copies = (sorted(set(planned[name])) for name in ("learning_rate", "k"))
    strategies = [name for name in style.STRATEGIES if name in set(planned["strategy"])]
    drawn = (
        "best: highest median return over training; final: mean of the last evaluations; small: "
        "every seed; time to learn: where the median run catches the prey in half of its episodes"
    )
    where = subtitle(plan, tables.fidelity, sorted(set(summary["n_seeds"])), drawn)
    handles = tuple(style.STRATEGIES[name].handle(name) for name in strategies)
    places = places_of(plan)
    rows = {f"{row.column} {place}": (row, place) for place in places for row in ROWS}
    columns = [style.level_label({"learning_rate": rate}) for rate in rates]
    fig, axes = style.grid(
        [
            style.RowLabel(key, row.text if len(places) == 1 else f"{row.text}\n{place_name(at)}")
            for key, (row, at) in rows.items()
        ],
        columns,
        style.Head(f"{title} · {place_name(places[0])}" if len(places) == 1 else title, where,
                   handles),
        "goals per transition k",
        "",
        "row",
    )  # fmt: skip
    for (key, column), ax in axes.items():
        row, place = rows[key]
        rate = rates[columns.index(column)]
        own, seeds = (_at(table, place, rate) for table in (summary, runs))
        if own.empty:
            style.note(ax, "missing")
        elif row.of_seeds is None and not _learnt(own).any():
            style.note(ax, "not learned")
        for order, strategy in enumerate(strategies):
            shift = (order - (len(strategies) - 1) / 2) * 0.12
            of_strategy = own[own["strategy"] == strategy].sort_values("k")
            if row.of_seeds is None:
                of_strategy = of_strategy[_learnt(of_strategy)]
            _line(ax, of_strategy, row.column, copies, shift, style.STRATEGIES[strategy])
            if row.of_seeds is not None:
                every = seeds[seeds["strategy"] == strategy]
                at = [copies.index(k) + shift for k in every["k"]]
                ax.plot(at, every[row.of_seeds], ".", markersize=3.0, alpha=0.5, zorder=2,
                        color=style.STRATEGIES[strategy].colour)  # fmt: skip
        ax.set_xlim(-0.5, len(copies) - 0.5)
        ax.set_xticks(range(len(copies)), [f"{k:g}" for k in copies])
    longest = max(entry.get("steps", plan["preset"]["steps"]) for entry in plan["entries"])
    for key, (row, _) in rows.items():
        first = axes[key, columns[0]]
        if row.of_seeds is None:
            first.set_ylim(0, 1.04 * longest)
            first.yaxis.set_major_formatter(lambda steps, _: f"{steps / 1e3:g}")
            first.set_ylabel("thousand steps")
        else:
            first.set_ylim(-1.06, 1.06)
            first.set_yticks([-1, -0.5, 0, 0.5, 1], ["−1", "", "0", "", "1"])
            first.set_ylabel("return")
    return fig


def _at(table: pd.DataFrame, place: str, rate: float) -> pd.DataFrame:
    return table[(table["condition"] == place) & np.isclose(table["learning_rate"], rate)]


def _learnt(summary: pd.DataFrame) -> npt.NDArray[np.bool_]:
    return metrics.scaled(summary["max_median_return"]) >= metrics.LEARNT


def _line(
    ax: Axes, rows: pd.DataFrame, column: str, copies: list[Any], shift: float, look: style.Look
) -> None:
    at = [copies.index(k) + shift for k in rows["k"]]
    ax.plot(at, rows[column], color=look.colour, linestyle=look.line, marker=look.marker,
            markersize=4.5, linewidth=look.width, zorder=3, clip_on=False)  # fmt: skip
