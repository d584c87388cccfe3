"""Draw curves over steps or minutes, in a grid of conditions: median, quartiles, every seed."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hindsight.analysis import authors
from hindsight.analysis.reduce import Array
from hindsight.figures import panels, style
from hindsight.figures.panels import FEW, Grid, NoResults, Panel
from hindsight.figures.specs import MEASURES, FigureSpec, Measure
from hindsight.figures.tables import Key, Tables, by_condition, called, key_of
from hindsight.specs.config import AUTHORS

POINTS = 200  # of a median
#: An axis is logarithmic if it is this many times as long as the first quartile of the lines.
EARLY = 5.0
#: The return or success of a median that counts as perfect.
NEAR_TOP = 0.8
#: Why a line ends before its axis: marker and label.
ENDS = {
    "early": ("o", "ends: a hundred episodes in a row succeeded"),
    "half": ("d", "ends: half of the runs learned, the others did not"),
    "test": ("x", "ends: five test episodes succeeded, as the authors' SAC does"),
    "budget": ("|", "ends: budget used up"),
}
#: The x axis: what it shows, and its units from the largest one: how many steps or minutes one has,
#: the least end of the last line for which it is used, and its name.
AXES = {
    "env_steps": ("environment steps", ((1e6, 1e6, "millions"), (1e3, 0.0, "thousands"))),
    "minutes": ("training time of a run", ((1.0, 10.0, "minutes"), (1 / 60, 0.0, "seconds"))),
}


@dataclass(frozen=True)
class Curve:
    """One cell's curve, until half of its runs have ended; the others keep their last values."""

    x: Array  # [point]
    middle: Array  # [point], the median over seeds
    low: Array  # [point], the lower quartile
    high: Array  # [point], the upper quartile
    seeds: list[Array]  # by run, [row, (x, y)]

    @property
    def end(self) -> float:
        return float(self.x[-1])

    def in_units(self, unit: float) -> "Curve":
        return replace(self, x=self.x / unit, seeds=[run / [unit, 1.0] for run in self.seeds])


def curve_of(rows: pd.DataFrame, x: str, measure: Measure) -> Curve | None:
    """Return the curve of a cell's rows (seed, x, the measure's column); None without values."""
    points = rows[["seed", x, measure.column]].to_numpy(float)
    points = points[np.isfinite(points).all(axis=1)]
    if measure.log:
        points = points[points[:, 2] > 0]
    points = points[np.lexsort(points.T[1::-1])]  # by seed, then by x
    runs = np.split(points[:, 1:], np.flatnonzero(np.diff(points[:, 0])) + 1)
    return _over_seeds(runs) if len(points) else None


def _over_seeds(seeds: list[Array]) -> Curve:
    """Return the curve of runs `[row, (x, y)]`."""
    first = min(run[0, 0] for run in seeds)
    end = float(np.quantile([run[-1, 0] for run in seeds], 0.5, method="lower"))
    grid = np.linspace(first, end, POINTS)
    if first > 0:
        grid = np.union1d(grid, np.geomspace(first, end, POINTS).clip(first, end))
    values = np.array([np.interp(grid, run[:, 0], run[:, 1]) for run in seeds])
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    return Curve(grid, middle, low, high, seeds)


def _values_of(found: Mapping[tuple[Measure, Key], Curve], measure: Measure) -> Iterator[Array]:
    for (other, _), curve in found.items():
        if other == measure:
            yield from (run[:, 1] for run in curve.seeds)


def draw(tables: Tables, spec: FigureSpec) -> Figure:
    own = panels.grid(tables, spec)
    found = _read(tables, own)
    if not found:
        raise NoResults
    unlike = _on_another_processor(tables, own) if spec.x == "minutes" else set()
    drawn = {key: curve for key, curve in found.items() if key[1] not in unlike}
    unit, x_label = _scale_x(own, drawn)
    drawn = {key: curve.in_units(unit) for key, curve in drawn.items()}
    # Before anything is drawn, so that matplotlib does not fit the axes to each line again.
    limits = {measure: panels.limits_for(measure, _values_of(found, measure))
              for measure in (panel.measure for panel in own.panels)}  # fmt: skip
    for first, *_ in panels.sharing(own.panels, "y"):
        style.scale(first.ax, limits[first.measure], log=first.measure.log)
    ended = _ended(tables)
    marks: set[str] = set()
    counts = max(len(curve.seeds) for curve in found.values())
    seeds: dict[Axes, str] = {}
    for panel in own.panels:
        few = len(panel.lines) <= FEW
        faint = max(0.18 if few else 0.07, 8.0 / (max(len(panel.lines), 1) * counts))
        for order, (name, entries) in enumerate(panel.lines.items()):
            key, look = key_of(entries[0]), own.looks[name]
            if (curve := drawn.get((panel.measure, key))) is not None:
                _draw_seeds(panel.ax, curve, look, min(0.6, faint))
                _record(panel, called(spec.lines, name), spec.x, curve.in_units(1 / unit))
                shown = replace(look, marker="none") if own.many else look
                _draw_median(panel.ax, curve, shown, order, band=few)
                dotted = few and limits[panel.measure] is not None
                marks |= _mark_end(panel.ax, curve, look, ended.get(key, ""), few=dotted)
        here = {key: curve for (measure, key), curve in found.items() if measure == panel.measure}
        _note_absent(panel, here.keys(), unlike)
        seeds[panel.ax] = _seeds(panel, here, spec.lines)
    if len(set(seeds.values()) - {""}) > 1:  # else the subtitle says all
        for ax, text in seeds.items():
            _write_seeds(ax, text)
    more = [
        style.Look(style.FAINT, "none", marker).handle(label, markeredgewidth=1.5)
        for end, (marker, label) in ENDS.items()
        if end in marks
    ]
    if spec.authors and tables.fidelity == "released":
        more = [*_draw_authors(own, tables, unit), *more]
    band = "" if max(len(p.lines) for p in own.panels) > FEW else "; band: middle half of the seeds"
    words = f"line: median over seeds, until half have ended{band}; thin: every seed"
    if unlike:
        words += "; left out: what was timed on another processor"
    keys = {key for _, key in found}
    return panels.finished(tables, own, words, x_label, keys, more)


def _read(tables: Tables, own: Grid) -> dict[tuple[Measure, Key], Curve]:
    """Return every curve that the panels may show, by the measure and the cell."""
    x, wanted = own.spec.x, {key_of(e) for panel in own.panels for e in panel.entries}
    found = {}
    for measure in (MEASURES[name] for name in own.spec.measures):
        rows = tables.read(f"{measure.table}.parquet", ["seed", x, measure.column])
        for key, piece in by_condition(rows).items():
            if key in wanted and (curve := curve_of(piece, x, measure)) is not None:
                found[measure, key] = curve
    return found


def _on_another_processor(tables: Tables, own: Grid) -> set[Key]:
    """Return the cells timed on another processor than the first line of their panel."""
    rows = by_condition(tables.read("summary.csv"))
    timed = {key: str(own["timed_on"].iloc[0]).split(",")[0] for key, own in rows.items()}
    found = set()
    for panel in own.panels:
        keys = [key for e in panel.entries if (key := key_of(e)) in timed]
        found |= {key for key in keys if timed[key] != timed[keys[0]]}
    return found


def _ended(tables: Tables) -> dict[Key, str]:
    """Return how the run of each cell ended with which its line ends: the (lower) middle one."""
    runs = tables.read("runs.parquet", ["ended", "end_step"]).dropna(subset=["ended"])
    runs = runs.sort_values("end_step", kind="stable")
    return {
        key: str(own["ended"].iloc[(len(own) - 1) // 2]) for key, own in by_condition(runs).items()
    }


def _scale_x(own: Grid, drawn: Mapping[tuple[Measure, Key], Curve]) -> tuple[float, str]:
    """Set the x axes of all panels, up to the end of the last line; return the unit and the label.

    The axes are logarithmic if many lines end early.
    """
    ends = [curve.end for curve in drawn.values()]
    longest, (what, units) = max(ends), AXES[own.spec.x]
    unit, named = next((unit, name) for unit, least, name in units if longest >= least)
    log = bool(longest > EARLY * np.quantile(ends, 0.25))
    label = f"{what} ({named})"
    for group in panels.sharing(own.panels, "x"):
        keys = {(p.measure, key_of(e)) for p in group for e in p.entries}
        here = [drawn[key] for key in keys if key in drawn] or list(drawn.values())
        high = max(curve.end for curve in here) / unit
        first = min(curve.x[0] for curve in here) / unit
        low = max(first, high / 1000) if log else 0.0
        style.number_axis(group[0].ax, low, high * (1.08 if log else 1.02), log=log)
    return unit, f"{label}, logarithmic" if log else label


def _draw_median(ax: Axes, curve: Curve, look: style.Look, order: int, *, band: bool) -> None:
    """Draw median and quartiles, with staggered markers so that equal curves stay visible."""
    if band:
        ax.fill_between(curve.x, curve.low, curve.high, color=look.colour, alpha=0.16, linewidth=0)
    every = (0.06 + 0.045 * (order % 5), 0.26)
    ax.plot(curve.x, curve.middle, **look.drawn(markersize=3.2, markevery=every, zorder=3))


def _record(panel: Panel, line: str, x: str, curve: Curve) -> None:
    bands = {"median": curve.middle, "lower_quartile": curve.low, "upper_quartile": curve.high}
    style.record(panel.name, measure=panel.measure.label, line=line, seeds=len(curve.seeds),
                 **{x: curve.x}, **bands)  # fmt: skip


def _draw_seeds(ax: Axes, curve: Curve, look: style.Look, alpha: float) -> None:
    """Draw every seed as a thin line, rasterized so that the PDF stays small."""
    bundle = LineCollection(curve.seeds, colors=look.colour, linewidths=0.45, alpha=alpha)
    bundle.set(zorder=0.7, rasterized=True)  # above the grid
    ax.add_collection(bundle, autolim=False)
    if ax.get_autoscaley_on():
        ends = [run[[run[:, 1].argmin(), run[:, 1].argmax()]] for run in curve.seeds]
        ax.update_datalim(np.concatenate(ends), updatex=False)
    ax.set_rasterization_zorder(1)


def _mark_end(ax: Axes, curve: Curve, look: style.Look, ended: str, *, few: bool) -> set[str]:
    """Mark the reason where a line ends before its axis; return it in a set.

    If `few`, perfect lines are continued by dots. A median below the top means that half of the
    runs became perfect and the others did not learn.
    """
    end, last, high = curve.end, curve.middle[-1], ax.get_xlim()[1]
    if ended not in ENDS or end > 0.9 * high:
        return set()
    if ended == "early" and few and last < NEAR_TOP:
        ended = "half"
    ax.plot([end], [last], ENDS[ended][0], color=look.colour, markersize=5.5 if few else 4,
            markeredgewidth=1.5, zorder=4)  # fmt: skip
    if ended == "early" and few:
        ax.plot([end, high], [last, last], color=look.colour, linestyle=(0, (1, 3)),
                linewidth=1.0, zorder=2)  # fmt: skip
    return {ended}


def _seeds(panel: Panel, there: Mapping[Key, Curve], facet: str) -> str:
    """Say how many seeds the lines of a panel have, one for each value of the facet."""
    keys = {called(facet, name): key_of(own[0]) for name, own in panel.lines.items()}
    seeds = {name: len(there[key].seeds) for name, key in keys.items() if key in there}
    if not seeds:
        return ""
    most = max(seeds.values())
    fewer = {name: n for name, n in seeds.items() if n < most}
    if len(fewer) > 2 or max(map(len, fewer), default=0) > 12:  # its box would hide curves
        return f"n = {min(fewer.values())} to {most}"
    return "\n".join([f"n = {most}", *(f"{name} {n}" for name, n in fewer.items())])


def _write_seeds(ax: Axes, text: str) -> None:
    """Write how many seeds there are at the upper left or, if fewer lines pass, lower right."""
    ax.autoscale_view()
    to_axes = ax.transData + ax.transAxes.inverted()
    points = np.concatenate([[(0.5, 0.5)], *(to_axes.transform(x.get_xydata()) for x in ax.lines)])
    left = ((points < (0.35, 1.1)) & (points > (-0.1, 0.8))).all(axis=1).sum()
    right = ((points < (1.1, 0.2)) & (points > (0.65, -0.1))).all(axis=1).sum()
    x, y, across, up = 0.03, 0.96, "left", "top"
    if right < left:
        x, y, across, up = 0.97, 0.04, "right", "bottom"
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # over curves
    ax.text(x, y, text, transform=ax.transAxes, ha=across, va=up, color=style.FAINT, size=7,
            zorder=5, bbox=box)  # fmt: skip


def _note_absent(panel: Panel, there: Set[Key], unlike: set[Key]) -> None:
    """Note in a panel which of its cells have results that it cannot show."""
    keys = [key_of(entry) for entry in panel.entries]
    if keys and not any(key in there for key in keys):
        style.note(panel.ax, "not recorded")
    if left := [name for name, entries in panel.lines.items() if key_of(entries[0]) in unlike]:
        style.note(panel.ax, f"timed elsewhere: {len(left)} of {len(panel.lines)}", alarm=True)


def _draw_authors(own: Grid, tables: Tables, unit: float) -> list[Line2D]:
    """Draw the median of the authors' runs with our network; return entries for the legend."""
    network = "x".join(map(str, tables.plan["preset"]["hidden"]))
    theirs = authors.read(AUTHORS) if AUTHORS.exists() else {}
    arms = {role: arm for arm, role in authors.ROLES.items()}
    handles: dict[str, Line2D] = {}
    for panel in own.panels:
        for name, entries in panel.lines.items():
            arm = arms.get(entries[0]["role"], "")
            if runs := theirs.get((entries[0]["condition"], arm, network)):
                curve = _over_seeds(runs)
                look: dict[str, Any] = {"color": "black", "linewidth": 1.1,
                                        "linestyle": own.looks[name].line}  # fmt: skip
                panel.ax.plot(curve.x / unit, curve.middle, zorder=3.5, **look)
                label = f"the authors' code: {called(own.spec.lines, name)} ({len(runs)} runs)"
                _record(panel, label, own.spec.x, curve)
                handles.setdefault(label, Line2D([], [], label=label, **look))
    return list(handles.values())
