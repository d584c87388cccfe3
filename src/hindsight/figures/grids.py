"""The published figures of returns: one grid of conditions each, drawn from an experiment's tables.

Each shows, per condition, the median over seeds with its interquartile band (the papers' statistic)
and every seed faintly behind it, because a median hides the seeds that never learn.
"""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hindsight.figures import style
from hindsight.figures.tables import (
    Key,
    Tables,
    arms_of,
    by_condition,
    in_role,
    level_text,
    levels_of,
    look_of,
    seed_counts,
)
from hindsight.specs.config import condition_name

CROWDED = 6  # more curves than that in a panel: their bands would hide them
NO_ROOM = 50  # a median that ends so early on an axis of minutes cannot be seen there


@dataclass(frozen=True)
class Line:
    """One curve of a panel: whose it is, and how it is drawn and called."""

    arm: str
    level: str
    label: str
    look: style.Look


@dataclass(frozen=True)
class Row:
    """One row of panels: a spawn, its name, and the curves drawn in each of its panels."""

    spawn: str
    text: str
    lines: tuple[Line, ...]
    colour: str = style.TEXT


def algorithms_by_steps(tables: Tables) -> Figure:
    """PPO-HER Fig. 2: return against environment steps, one curve per algorithm.

    Budgets differ by more than a factor of ten: a linear axis would leave the short ones no room.
    """
    title = "PPO-HER Fig. 2 · Return by environment steps"
    plan = tables.plan
    return draw_curves(tables, title, arm_rows(plan), log=far_apart(plan))


def algorithms_by_minutes(tables: Tables) -> Figure:
    """PPO-HER Fig. 3: return against the training time of a run, one curve per algorithm."""
    return curves_by_arm(tables, "PPO-HER Fig. 3 · Return by training time", "minutes")


def algorithms_in_common(tables: Tables) -> Figure:
    """Fig. 2 up to the smallest budget of an arm, where a longer axis would hide its curve."""
    plan = tables.plan
    title = "Return by environment steps, as far as every algorithm was trained"
    budget = min(planned_of(plan).values(), default=None)
    return draw_curves(tables, title, arm_rows(plan), until=budget)


def learning_rate(tables: Tables) -> Figure:
    """PPO-HER Fig. 4: curves by learning rate; one block of rows per algorithm."""
    return _swept(tables, "PPO-HER Fig. 4 · Return by learning rate")


def her_strategy(tables: Tables) -> Figure:
    """PPO-HER Fig. A1: curves by number of copies k, a block per goal strategy.

    `final` has one copy by nature; it is drawn in every panel for comparison.
    """
    plan = tables.plan
    levels = levels_of(plan)
    drawn = [s for s in ("future", "episode") if any(v["strategy"] == s for v in levels.values())]
    copies = sorted({v["k"] for v in levels.values() if v["strategy"] != "final"})
    looks = dict(zip(copies, style.level_looks(len(copies)), strict=True))
    final = style.Look("#000000", (0, (3, 1.5)), "X", 1.3)
    rows = []
    for arm in arms_of(plan):
        reference = [
            Line(arm, text, "final (one copy)", final)
            for text, level in levels.items()
            if level["strategy"] == "final"
        ]
        for strategy in drawn or ["final"]:
            lines = [
                Line(arm, text, f"k = {level['k']}", look)
                for text, level in levels.items()
                if level["strategy"] == strategy and (look := looks.get(level["k"])) is not None
            ]
            rows += _rows(plan, f"{strategy}\n{{}}", (*lines, *reference))
    return draw_curves(tables, "PPO-HER Fig. A1 · Return by goal strategy and copies", rows)


def agent_size(tables: Tables) -> Figure:
    """PPO-HER Fig. A2: curves by interception distance; one block of rows per algorithm."""
    return _swept(tables, "PPO-HER Fig. A2 · Return by interception distance")


def grid_size(tables: Tables) -> Figure:
    """PPO-HER Fig. A3: curves by the box's half-width; one block of rows per algorithm."""
    return _swept(tables, "PPO-HER Fig. A3 · Return by size of the box")


def dimensions_with_her(tables: Tables) -> Figure:
    """PPO-HER Fig. A4: curves by number of dimensions, PPO-HER alone."""
    title = "PPO-HER Fig. A4 · Return by dimensions, with hindsight replay"
    return _swept(tables, title, role="subject")


def dimensions_without_her(tables: Tables) -> Figure:
    """PPO-HER Fig. A5: curves by number of dimensions, PPO alone."""
    title = "PPO-HER Fig. A5 · Return by dimensions, without hindsight replay"
    return _swept(tables, title, role="baseline")


def s_ratio(tables: Tables) -> Figure:
    """MEHER Fig. 2: curves by S-ratio, failures towards random goals."""
    return _swept(tables, "MEHER Fig. 2 · Return by S-ratio")


def s_ratio_targeted(tables: Tables) -> Figure:
    """MEHER Fig. 4: curves by S-ratio, failures towards goals near the final position."""
    return _swept(tables, "MEHER Fig. 4 · Return by S-ratio, targeted failures")


def stopping_by_steps(tables: Tables) -> Figure:
    """MEHER Fig. 6: return against environment steps, one curve per method."""
    return curves_by_arm(tables, "MEHER Fig. 6 · Return by environment steps")


def stopping_by_minutes(tables: Tables) -> Figure:
    """MEHER Fig. 7: return against the training time of a run, one curve per method; in words what
    switching hindsight off saves, which curves that end early do not show.
    """
    saved = tables.read("time_saved.csv")
    notes = {
        row["condition"]: f"{row['arm']}\nsaves {_percent(row['saved_share'])}\n"
        f"[{_percent(row['low'])}, {_percent(row['high'])}]"
        for row in saved.to_dict("records")
        if pd.notna(row["low"])
    }
    title = "MEHER Fig. 7 · Return by training time"
    return draw_curves(tables, title, arm_rows(tables.plan), "minutes", notes=notes)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%".replace("-", "−")


def experiment(tables: Tables) -> Figure:
    """An experiment of the authors' repository that no figure shows: one curve per arm."""
    return curves_by_arm(tables, f"Return by environment steps · {tables.plan['title']}")


def experiment_by_minutes(tables: Tables) -> Figure:
    """The same by training time."""
    title = f"Return by training time · {tables.plan['title']}"
    return curves_by_arm(tables, title, "minutes")


def curves_by_arm(tables: Tables, title: str, clock: str = "env_steps") -> Figure:
    """A curve per arm, for experiments that vary nothing else."""
    return draw_curves(tables, title, arm_rows(tables.plan), clock)


def arm_rows(plan: dict[str, Any]) -> list[Row]:
    """A row per spawn with a curve per arm, for experiments that vary nothing else; arms that are
    the same runs share one.
    """
    alike = {later: first for first, later in _same_cells(plan)}
    names = {
        arm: " = ".join([arm, *(other for other, first in alike.items() if first == arm)])
        for arm in arms_of(plan)
        if arm not in alike
    }
    lines = tuple(Line(arm, "", name, look_of(plan, arm)) for arm, name in names.items())
    return _rows(plan, "{}", lines)


def far_apart(plan: dict[str, Any]) -> bool:
    """Whether arms' budgets are so unequal that on a linear axis the short ones have no room."""
    budgets = planned_of(plan).values()
    return bool(budgets) and max(budgets) > 10 * min(budgets)


def _swept(tables: Tables, title: str, role: str | None = None) -> Figure:
    """A block of rows per arm (with this role), a curve per value of the one varied key."""
    plan = tables.plan
    levels = levels_of(plan)
    looks = style.swept_looks(list(levels.values()))
    rows = []
    for arm in arms_of(plan):
        if role is None or arm == in_role(plan, role):
            lines = tuple(
                Line(arm, text, style.level_label(level), look)
                for (text, level), look in zip(levels.items(), looks, strict=True)
            )
            rows += _rows(plan, f"{arm}\n{{}}", lines, look_of(plan, arm).colour)
    return draw_curves(tables, title, rows)


def _rows(
    plan: dict[str, Any], text: str, lines: tuple[Line, ...], colour: str = style.TEXT
) -> list[Row]:
    return [Row(spawn, text.format(name), lines, colour) for spawn, name in spawns_of(plan).items()]


def spawns_of(plan: dict[str, Any]) -> dict[str, str]:
    """The plan's spawns and what they are called, in the papers' order; a task's has no name."""
    present = {entry["spawn"] for entry in plan["entries"]}
    return {s: name for s, name in style.SPAWNS.items() if s in present} or {"": ""}


def preys_of(plan: dict[str, Any]) -> list[str]:
    """The plan's prey policies, in the papers' order, or its tasks."""
    present = {entry["prey"] for entry in plan["entries"]}
    tasks = list(dict.fromkeys(entry["task"] for entry in plan["entries"]))
    return [prey for prey in style.PREYS if prey in present] or tasks


def subtitle(
    plan: dict[str, Any], fidelity: str, counts: Sequence[int], drawn: str, warn: bool = True
) -> str:
    """Where a figure's numbers come from, and what is drawn of them.

    counts: seeds of what is drawn; those of narrowed arms stand beside their names.
    warn: whether to say that few seeds carry no interval; a band of quartiles is none.
    """
    preset = plan["preset"]
    narrowed = narrowed_arms(plan)
    apart = {e["seeds"] for e in plan["entries"] if e["arm"] in narrowed and "seeds" in e}
    apart -= {e["seeds"] for e in plan["entries"] if e["arm"] not in narrowed and "seeds" in e}
    counts = [count for count in counts if count not in apart] or counts
    network = style.network_note(preset["hidden"])
    steps = f"up to {_steps(max(planned_of(plan).values(), default=preset['steps']))}"
    origin = f"{style.origin(plan['source'])} · {network} · {steps} · {fidelity} fidelity"
    same = same_runs(plan, fidelity)
    fewest = min([*counts, *(n for less in narrowed.values() for n in less.seeds)])
    few = "fewer than five seeds carry no interval" if warn and fewest < 5 else ""
    seeds = style.seeds_note(counts)
    return " · ".join(filter(None, (origin, seeds, narrowed_note(narrowed), few, same, drawn)))


@dataclass(frozen=True)
class Narrowed:
    """What an arm had less of than others, in ascending order; () and "" where it was as many."""

    seeds: tuple[int, ...]
    steps: tuple[int, ...]
    where: str


def narrowed_arms(plan: dict[str, Any]) -> dict[str, Narrowed]:
    """The arms that were planned with fewer seeds, steps or conditions than others."""
    preset, entries = plan["preset"], plan["entries"]
    everywhere = {e["condition"] for e in entries}

    def less(name: str, arm: str) -> tuple[int, ...]:
        most = max(e.get(name, preset[name]) for e in entries)
        counts = {e.get(name, preset[name]) for e in entries if e["arm"] == arm}
        return () if counts == {most} else tuple(sorted(counts))

    found = {}
    for arm in arms_of(plan):
        own = {e["condition"] for e in entries if e["arm"] == arm}
        seeds, steps = less("seeds", arm), less("steps", arm)
        if seeds or steps or own != everywhere:
            found[arm] = Narrowed(seeds, steps, places_in_words(own, everywhere))
    all_alike = len(set(found.values())) == 1 and found.keys() == {e["arm"] for e in entries}
    return {} if all_alike else found


def places_in_words(own: set[str], every: set[str]) -> str:
    """`random spawn`, `random spawn, static or attract`, `3 of 12 conditions`, or tasks by name; ""
    for all.
    """
    if own == every:
        return ""
    if every.isdisjoint(style.CONDITIONS):
        return ", ".join(sorted(own))
    here, there = ([style.CONDITIONS[place] for place in places] for places in (own, every))
    spawns = [name for name in style.SPAWNS if name in {spawn for spawn, _ in here}]
    preys = [name for name in style.PREYS if name in {prey for _, prey in here}]
    if set(here) != {(spawn, prey) for spawn, prey in there if spawn in spawns and prey in preys}:
        return f"{len(own)} of {len(every)} conditions"
    words = []
    if set(spawns) != {spawn for spawn, _ in there}:
        words.append(" or ".join(style.SPAWNS[name] for name in spawns))
    if set(preys) != {prey for _, prey in there}:
        words.append(" or ".join(style.PREYS[name] for name in preys))
    return ", ".join(words)


def narrowed_note(narrowed: dict[str, Narrowed]) -> str:
    """`SAC, SAC-HER: 4 seeds, 25 000 steps, random spawn`; "" if no arm had less than others."""
    arms: dict[str, list[str]] = {}
    for arm, less in narrowed.items():
        seeds = style.seeds_note(less.seeds) if less.seeds else ""
        steps = _steps(*less.steps) if less.steps else ""
        words = ", ".join(filter(None, (seeds, steps, less.where)))
        arms.setdefault(words, []).append(arm)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in arms.items())


def _steps(*counts: int) -> str:
    """`25 000 steps`, `25 000 to 50 000 steps`."""
    ends = dict.fromkeys(f"{n:,}" for n in (min(counts), max(counts)))
    return f"{' to '.join(ends)} steps".replace(",", "\u00a0")


def same_runs(plan: dict[str, Any], fidelity: str) -> str:
    """Says which runs stand under two names; "" if none do.

    The authors' targeted experiment runs the code of their untargeted one.
    """
    if plan["experiment"] == "targeted" and fidelity == "released":
        return "the same runs as untargeted MEHER, as in the authors' code"
    return "; ".join(f"{a} and {b} are the same runs" for a, b in _same_cells(plan))


def _same_cells(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs of arms, in their order, that stand for the same cells."""
    cells: dict[str, dict[tuple[str, str], str]] = {}
    for entry in plan["entries"]:
        place = (level_text(entry["level"]), entry["condition"])
        cells.setdefault(entry["arm"], {})[place] = entry["cell"]
    return [(a, b) for a, b in combinations(arms_of(plan), 2) if cells[a] == cells[b]]


def legend(rows: Sequence[Row], drawn: Collection[tuple[str, str]]) -> tuple[Line2D, ...]:
    """One entry per name, in the order in which the rows bring them, of the (arm, level) drawn."""
    lines = {
        line.label: line.look
        for row in rows
        for line in row.lines
        if (line.arm, line.level) in drawn
    }
    return tuple(look.handle(label) for label, look in lines.items())


def draw_curves(
    tables: Tables,
    title: str,
    rows: list[Row],
    clock: str = "env_steps",
    until: float | None = None,
    log: bool = False,
    notes: Mapping[str, str] | None = None,
) -> Figure:
    """The grid: median, interquartile band and every seed, for the rows given; all of it, or until
    this point of the clock.  A median ends where half of its runs have ended.

    log: the clock's axis is logarithmic, as that of minutes is where a median has no room
    otherwise; notes: what stands in a condition's panels.
    """
    plan = tables.plan
    curves = tables.read("curves.parquet", ["clock", "x", "median", "q25", "q75", "n_seeds"])
    wanted = {line.arm for row in rows for line in row.lines}
    curves = curves[(curves["clock"] == clock) & curves["arm"].isin(wanted)]
    if not rows or curves.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    seeds = tables.read("seed_curves.parquet", ["seed", clock, "return_mean"])
    if until is not None:
        curves, seeds = curves[curves["x"] <= until], seeds[seeds[clock] <= until]
    crowded = max(len(row.lines) for row in rows) > CROWDED
    band = "" if crowded else "band: middle half of the seeds; "
    drawn = f"line: median over seeds, until half have ended; {band}thin: every seed"
    counts = seed_counts(curves)
    where = subtitle(plan, tables.fidelity, counts, drawn, warn=False)
    unit, x_label = style.steps_axis(float(curves["x"].max()))
    pieces, runs = by_condition(curves), by_condition(seeds)
    first = None
    if clock == "minutes":
        shortest = min((half_ended(run, clock) for run in runs.values()), default=0.0)
        if log := 0.0 < shortest < float(curves["x"].max()) / NO_ROOM:
            first = shortest / 10
        # How a run's share of a process that trains several is counted belongs on the figure.
        share = "its share of the process's CPU time, on a GPU of wall time"
        axis = "minutes, logarithmic" if log else "minutes"
        unit, x_label = 1.0, f"training time of a run ({axis}; {share})"
    elif log:
        x_label += ", logarithmic"
    fig, axes = style.grid(
        [style.RowLabel(str(i), row.text, row.colour) for i, row in enumerate(rows)],
        preys_of(plan),
        style.Head(title, where, legend(rows, {(arm, level) for arm, level, _ in pieces})),
        x_label,
        "return (mean of a run's last 100 episodes)",
    )
    planned = planned_of(plan)
    for (index, prey), ax in axes.items():
        row = rows[int(index)]
        faint = faintness(len(row.lines), max(counts))
        where = condition_name(row.spawn, prey)
        keys = {line: (line.arm, line.level, where) for line in row.lines}
        for order, (line, key) in enumerate(keys.items()):
            if key in pieces:
                piece = pieces[key]
                if key in runs:
                    draw_seeds(ax, runs[key], clock, "return_mean", unit, line.look, faint)
                    piece = piece[piece["x"] <= half_ended(runs[key], clock)]
                draw_median(ax, piece, unit, line.look, order, band=not crowded)
        lacking = {line: key for line, key in keys.items() if key not in pieces}
        say_absent(ax, [(line.label, key in planned) for line, key in lacking.items()], len(keys))
        if notes and where in notes and not lacking:
            ax.text(0.97, 0.06, notes[where], transform=ax.transAxes, ha="right", va="bottom",
                    size=7.5, zorder=5)  # fmt: skip
    if log:
        style.limit_log_x(axes, float(curves["x"].max()) / unit, first)
    else:
        style.limit_x(axes, float(curves["x"].max()) / unit)
    one = next(iter(axes.values()))
    one.set_ylim(-1.06, 1.06)
    one.set_yticks([-1, -0.5, 0, 0.5, 1], ["−1", "", "0", "", "1"])
    return fig


def planned_of(plan: dict[str, Any]) -> dict[Key, int]:
    """The places of all planned cells, and their budgets in steps."""
    return {
        (e["arm"], level_text(e["level"]), e["condition"]): e.get("steps", plan["preset"]["steps"])
        for e in plan["entries"]
    }


def half_ended(runs: pd.DataFrame, clock: str) -> float:
    """The point of the clock at which half of the seeds have ended: from there on a median would
    show more of what runs had in the end than of what they do.
    """
    return float(runs.groupby("seed")[clock].max().median())


def draw_median(
    ax: Axes, curve: pd.DataFrame, unit: float, look: style.Look, order: int, *, band: bool
) -> None:
    """Median and interquartile band; markers are staggered so that equal curves stay visible."""
    curve = curve.sort_values("x")
    x = curve["x"].to_numpy() / unit
    if band:
        ax.fill_between(x, curve["q25"], curve["q75"], color=look.colour, alpha=0.16, linewidth=0)
    ax.plot(
        x,
        curve["median"],
        color=look.colour,
        linestyle=look.line,
        linewidth=look.width,
        marker=look.marker,
        markersize=3.2,
        markevery=(0.06 + 0.045 * (order % 5), 0.26),
        zorder=3,
    )


def faintness(lines: int, seeds: int) -> float:
    """Opacity of single seeds: the more of them share a panel, the fainter."""
    return min(0.6, max(0.07 if lines > CROWDED else 0.18, 8.0 / (lines * seeds)))


def draw_seeds(
    ax: Axes, runs: pd.DataFrame, x: str, y: str, unit: float, look: style.Look, alpha: float
) -> None:
    """Every seed as a thin line; one picture per panel in the PDF, so that it stays small."""
    runs = runs.sort_values(["seed", x])
    points = np.column_stack([runs[x].to_numpy() / unit, runs[y].to_numpy()])
    cuts = np.flatnonzero(np.diff(runs["seed"].to_numpy())) + 1
    ax.add_collection(
        LineCollection(
            np.split(points, cuts),
            colors=look.colour,
            linewidths=0.45,
            alpha=alpha,
            zorder=0.7,  # above the grid
            rasterized=True,
        ),
        autolim=False,
    )
    ax.set_rasterization_zorder(1)


def say_absent(ax: Axes, missing: list[tuple[str, bool]], count: int) -> None:
    """Say what a panel lacks: a cell that was planned and is not there, or no cell at all."""
    if len(missing) == count and not any(planned for _, planned in missing):
        style.note(ax, "not in this preset")
    elif lost := [label for label, planned in missing if planned]:
        words = "missing: " + ", ".join(lost)
        lines = textwrap.wrap(words, 32, break_on_hyphens=False)  # as a panel is wide
        # More would cover what is there; the report names every cell.
        text = "\n".join(lines) if len(lines) <= 3 else f"missing: {len(lost)} of {count}"
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        place: dict[str, Any] = {"transform": ax.transAxes, "ha": "right", "va": "bottom"}
        ax.text(0.97, 0.06, text, color="#B00020", size=7, bbox=box, zorder=5, **place)
