"""The grid of panels that most kinds of figures share, and the plan's entries in each panel."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hindsight.analysis.reduce import Array
from hindsight.figures import style
from hindsight.figures.names import PREYS, where_from
from hindsight.figures.specs import MEASURES, FigureSpec, Interval, Measure
from hindsight.figures.tables import (
    MEASURE,
    Entry,
    Key,
    Tables,
    called,
    chosen,
    key_of,
    looks,
    value,
    values,
)

FEW = 6  # with more lines than this, a panel has no bands, and a colour bar instead of a legend
#: Width and height of a panel in inches.
PANEL, WIDE = (1.95, 1.35), (3.6, 2.3)


class NoResults(Exception):
    """This preset trains nothing for a figure."""


@dataclass(frozen=True)
class Panel:
    """One panel: what it shows in words, its measure, and its entries by the name of their line."""

    ax: Axes
    name: str
    measure: Measure
    lines: dict[Any, list[Entry]]

    @property
    def entries(self) -> list[Entry]:
        return [entry for own in self.lines.values() for entry in own]


@dataclass(frozen=True)
class Grid:
    """A figure's panels, and the look of each line by name."""

    figure: Figure
    panels: list[Panel]
    looks: dict[Any, style.Look]
    spec: FigureSpec

    @property
    def many(self) -> bool:
        """Whether there are so many numbered lines that a colour bar replaces the legend."""
        return len(self.looks) > FEW and all(isinstance(name, int | float) for name in self.looks)


def limits_for(measure: Measure, values: Iterable[Array]) -> Interval | None:
    """The limits of a measure's axis; None, to fit the data, if a value lies outside.

    As returns can, which are from -1 to 1 only in predator-prey.
    """
    if measure.limits is None:
        return None
    low, high = measure.limits
    inside = all(((low <= x) & (x <= high) | np.isnan(x)).all() for x in values)
    return measure.limits if inside else None


def fitted(spec: FigureSpec, entries: Sequence[Entry]) -> FigureSpec:
    """Return the spec with a column per condition, without rows, if there are few conditions."""
    places = {entry["condition"] for entry in entries if entry["spawn"]}
    if "spawn" in spec.rows and 0 < len(places) <= len(PREYS) and spec.columns == "prey":
        rows = tuple(facet for facet in spec.rows if facet != "spawn")
        return spec.model_copy(update={"rows": rows, "columns": "place"})
    return spec


def grid(tables: Tables, spec: FigureSpec, size: tuple[float, float] = PANEL) -> Grid:
    """Return empty panels for a figure's entries in the plan; raise NoResults if it has none.

    Panels of a row share y. All share x, except tasks, and measures with different limits.
    """

    def is_alone(entry: Entry) -> bool:
        return bool(spec.alone) and value(entry, spec.alone[0]) == spec.alone[1]

    plan = tables.plan
    entries = sorted(chosen(plan, spec), key=is_alone)
    if not entries:
        raise NoResults
    spec = fitted(spec, entries)
    usual = [e for e in entries if not is_alone(e)] or entries
    *facets, columns = (
        list(spec.measures) if facet == MEASURE else values(plan, usual, facet)
        for facet in (*spec.rows, spec.columns)
    )
    rows = list(product(*facets))
    own_x = spec.columns == "task" or not any(e["spawn"] for e in entries)
    if spec.columns == MEASURE:
        own_x |= len({MEASURES[name].limits for name in spec.measures}) > 1
    fig = style.new_figure(
        len(rows), len(columns), size,
        sharex="col" if own_x else True, sharey=False if spec.columns == MEASURE else "row",
    )  # fmt: skip
    panels = []
    for ax, (row, column) in zip(fig.axes, product(rows, columns), strict=True):
        where = dict(zip((*spec.rows, spec.columns), (*row, column), strict=True))
        measure = MEASURES[where.pop(MEASURE, spec.measures[0])]
        lines: dict[Any, list[Entry]] = {}
        for entry in entries:
            anywhere = spec.alone if is_alone(entry) else ()
            if all(value(entry, f) == v for f, v in where.items() if f not in anywhere):
                line = spec.alone[1] if is_alone(entry) else value(entry, spec.lines)
                lines.setdefault(line, []).append(entry)
        name = ", ".join(filter(None, (called(f, value) for f, value in reversed(where.items()))))
        panels.append(Panel(ax, name, measure, lines))
    _name_panels(fig, spec, rows, columns, int(13 * size[0]))
    shown = looks(plan, usual, spec.lines)
    if is_alone(entries[-1]):
        look = style.Look(style.TEXT, (0, (3, 1.5)), "X", 1.3)
        shown |= {spec.alone[1]: style.own_look(str(spec.alone[1]), look)}
    return Grid(fig, panels, shown, spec)


def sharing(own: Sequence[Panel], axis: str) -> list[list[Panel]]:
    """Group panels by the axis, "x" or "y", that they share."""
    shared = getattr(own[0].ax, f"get_shared_{axis}_axes")()
    groups: dict[Axes, list[Panel]] = {}
    for panel in own:
        first = next((ax for ax in groups if shared.joined(ax, panel.ax)), panel.ax)
        groups.setdefault(first, []).append(panel)
    return list(groups.values())


def _name_panels(
    fig: Figure, spec: FigureSpec, rows: Sequence[Any], columns: Sequence[Any], letters: int
) -> None:
    """Write the titles of columns, at most `letters` wide, and the names of rows."""
    if spec.columns != MEASURE or len(columns) > 1:
        for ax, column in zip(fig.axes, columns, strict=False):
            lines = called(spec.columns, column).split("\n")
            ax.set_title("\n".join(textwrap.fill(line, letters) for line in lines))
    for i, row in enumerate(rows):
        named = dict(zip(spec.rows, row, strict=True))
        measure = named.pop(MEASURE, None)
        text = "\n".join(filter(None, (called(*facet) for facet in named.items())))
        style.row_label(fig.axes[(i + 1) * len(columns) - 1], text)
        if measure and len(spec.measures) > 1:
            label = textwrap.fill(called(MEASURE, measure), 22)
            fig.axes[i * len(columns)].set_ylabel(label)


def finished(
    tables: Tables, own: Grid, drawn: str, label: str, there: set[Key], more: Sequence[Line2D] = ()
) -> Figure:
    """Finish a figure whose panels are drawn: notes on missing results, legend and head.

    `drawn` says what lines and bands mean, `label` what x is; `there` are the cells with results,
    and `more` further entries of the legend.
    """
    spec = own.spec
    for panel in own.panels:
        lost = [name for name, entries in panel.lines.items()
                if not any(key_of(e) in there for e in entries)]  # fmt: skip
        if not panel.lines:
            style.note(panel.ax, "not in this preset")
        elif lost:
            words = ", ".join(called(spec.lines, name) for name in lost)
            short = words if len(words) <= 30 else f"{len(lost)} of {len(panel.lines)}"
            style.note(panel.ax, f"missing: {short}", alarm=True)
    plan = tables.plan
    handles = [] if own.many else [
        look.handle(called(spec.lines, name)) for name, look in own.looks.items()
    ]  # fmt: skip
    if own.many:
        style.colour_bar(own.figure, [{spec.lines: name} for name in own.looks])
    in_panels = {
        (arm, e["condition"]) for panel in own.panels for e in panel.entries for arm in e["arms"]
    }
    shown = plan | {
        "entries": [e for e in plan["entries"] if (e["arm"], e["condition"]) in in_panels]
    }
    one = len(spec.measures) == 1 and spec.kind != "intervals" and spec.columns != MEASURE
    return style.finish(
        own.figure,
        spec.title.format(title=plan["title"]),
        where_from(shown, tables.fidelity, drawn),
        [*handles, *more] if len(handles) + len(more) > 1 else [],
        x_label=label,
        y_label=called(MEASURE, spec.measures[0]) if one else "",
    )


def nothing(tables: Tables, spec: FigureSpec) -> Figure:
    """Return a figure that says so."""
    fig = Figure(figsize=(7.2, 1.2), dpi=style.DPI, layout="constrained")
    fig.subplots().set_axis_off()  # a layout of nothing is a warning
    words = "This preset trains nothing for this figure."
    fig.text(0.5, 0.25, words, ha="center", color=style.FAINT)
    title = "{title}" if spec.kind == "learned" else spec.title  # the other has numbers in it
    title = title.format(title=tables.plan["title"])
    origin = f"{tables.plan['source']} · {tables.fidelity} fidelity"
    return style.finish(fig, title, origin)
