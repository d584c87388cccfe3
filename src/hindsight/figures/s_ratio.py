"""What the share of successes among the training episodes, S, does (MEHER Figs. 3 and 5)."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hindsight.analysis.reduce import ALL
from hindsight.claims.data import CLAIMS
from hindsight.figures import points, style
from hindsight.figures.grids import planned_of, preys_of, same_runs, say_absent, subtitle
from hindsight.figures.points import Along, Dots, Spread
from hindsight.figures.tables import Tables, levels_of, look_of
from hindsight.specs.config import condition_name

#: MEHER: the S-ratios with the highest M_c.
PUBLISHED_BEST: tuple[float, float] = (
    CLAIMS["M1"].limits["at_least"],
    CLAIMS["M1"].limits["at_most"],
)
_INK = style.Look(style.TEXT, "-", "v", 1.5)


def bars(tables: Tables) -> Figure:
    """MEHER Fig. 3: M_c over S in each condition, failures towards random goals."""
    return _bars(tables, "MEHER Fig. 3 · " + style.M_C + " by S-ratio")


def bars_targeted(tables: Tables) -> Figure:
    """MEHER Fig. 5: M_c over S in each condition, failures towards near misses."""
    return _bars(tables, "MEHER Fig. 5 · " + style.M_C + " by S-ratio, targeted failures")


def arm_of(tables: Tables) -> str:
    """The arm of an experiment that has one: M_c of several arms cannot be compared."""
    return str(tables.plan["entries"][0]["arm"])


def read_m_c(tables: Tables) -> dict[str, dict[float, Spread]]:
    """M_c by condition and by the number that varies, with its interval."""
    key, table = tables.plan["vary"][0], tables.read("m_c.csv")
    found: dict[str, dict[float, Spread]] = {}
    for row in table[table["arm"] == arm_of(tables)].to_dict("records"):
        spread = (float(row["m_c"]), float(row["m_c_low"]), float(row["m_c_high"]))
        found.setdefault(row["condition"], {})[float(row[key])] = spread
    return found


def mean_m_c(by_condition: Mapping[str, Mapping[float, Spread]]) -> dict[float, Spread]:
    """The mean over the conditions that have every level.

    Its interval combines theirs as those of independent means: the distances of the bounds, root
    of the sum of squares, over the number of conditions.
    """
    levels = sorted({level for curve in by_condition.values() for level in curve})
    whole = [curve for curve in by_condition.values() if len(curve) == len(levels)]
    means: dict[float, Spread] = {}
    for level in levels if whole else []:
        value, low, high = np.array([curve[level] for curve in whole]).T
        mean = float(value.mean())
        below, above = (float(np.sqrt(((b - value) ** 2).sum())) / len(whole) for b in (low, high))
        means[level] = (mean, mean - below, mean + above)
    return means


def read_best(tables: Tables) -> dict[str, dict[Hashable, Any]]:
    """Rows of best_level.csv per condition; ALL: over all complete conditions."""
    table = tables.read("best_level.csv")
    rows = table[table["arm"] == arm_of(tables)].to_dict("records")
    return {str(row["condition"]): row for row in rows}


def _counts(tables: Tables) -> list[int]:
    """Numbers of seeds of the experiment's cells."""
    return tables.read("m_c.csv")["n_seeds"].astype(int).tolist()


def _published() -> Line2D:
    return style.band_handle("the paper's best S, 0.5 to 0.7")


def _bars(tables: Tables, title: str) -> Figure:
    """The grid of conditions: a bar per S with its bootstrap interval, the best S above them."""
    plan = tables.plan
    by_condition = read_m_c(tables) if plan["entries"] else {}
    if not by_condition:
        return style.nothing(title, plan["source"], tables.fidelity)
    drawn = (
        f"bar: {style.M_C} = scaled maximum median return × (1 − time to learn / the slowest S's); "
        "line: bootstrap 95 % over seeds · only the shape is read, not the height"
    )
    where = subtitle(plan, tables.fidelity, _counts(tables), drawn)
    best = read_best(tables)
    handles = (_INK.handle("best S and its 95 % interval"), _published())
    head = style.Head(title, where, handles)
    spawns = [s for s in style.SPAWNS if any(e["spawn"] == s for e in plan["entries"])]
    labels = [style.RowLabel(s, style.SPAWNS[s]) for s in spawns]
    fig, axes = style.grid(labels, preys_of(plan), head, style.KEYS["s_ratio"], style.M_C)
    top = max(np.nanmax(spread) for curve in by_condition.values() for spread in curve.values())
    top = max(top, 0.05)
    levels = {text: float(level["s_ratio"]) for text, level in levels_of(plan).items()}
    arm, planned = arm_of(tables), planned_of(plan)
    for panel, ax in axes.items():
        place = condition_name(*panel)
        curve = by_condition.get(place, {})
        absent = {text: s for text, s in levels.items() if s not in curve}
        lacking = [(f"S = {s:g}", (arm, text, place) in planned) for text, s in absent.items()]
        say_absent(ax, lacking, len(levels))
        if curve:
            ax.axvspan(*PUBLISHED_BEST, color=style.BAND, linewidth=0, zorder=0)
        if curve and max(value for value, *_ in curve.values()) <= 0:
            style.note(ax, "no S learns")
        elif curve:
            _bar_panel(ax, curve, best.get(place), top)
        ax.grid(False, axis="x")
    first = next(iter(axes.values()))
    first.set_xlim(-0.08, 1.08)
    first.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    first.set_ylim(0, 1.33 * top)
    ticks = np.arange(0, top + 1e-9, 0.5 if top > 0.75 else 0.25 if top > 0.3 else 0.1)
    first.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    return fig


def _bar_panel(
    ax: Axes, curve: Mapping[float, Spread], best: Mapping[Hashable, Any] | None, top: float
) -> None:
    ratios = np.array(sorted(curve))
    value, low, high = np.array([curve[s] for s in ratios]).T
    width = 0.8 * min(np.diff(ratios).min(initial=0.1), 0.1)
    ends = (np.nan, np.nan) if best is None else (best["best_level"], best["best_to"])
    for s, height in zip(ratios, value, strict=True):
        edge = style.TEXT if ends[0] - 1e-9 <= s <= ends[1] + 1e-9 else "none"
        ax.bar(s, height, width, color=style.s_ratio_look(s).colour, edgecolor=edge, linewidth=1.3)
    ax.vlines(ratios, low, high, color=style.TEXT, linewidth=0.9, zorder=3)
    if best is None or np.isnan(ends[0]):
        return
    ax.hlines(1.12 * top, best["low"], best["high"], color=style.TEXT, linewidth=1.5)
    ax.plot(sorted(set(ends)), [1.12 * top] * len(set(ends)), "v", color=style.TEXT, markersize=5)
    ax.text(sum(ends) / 2, 1.18 * top, _range(best), ha="center", va="bottom", size=7.5)


def summary(tables: Tables) -> Figure:
    """Claims M1 and M3: the mean of M_c over conditions, and the best S of each condition.

    Both kinds of failures, where the targeted experiment was trained and is one of its own.
    """
    title = f"Which share of successes is best? {style.M_C} over all conditions"
    plan = tables.plan
    shown = [tables, *_targeted(tables)] if plan["entries"] else []
    curves = [read_m_c(one) for one in shown]
    if not any(curves):
        return style.nothing(title, plan["source"], tables.fidelity)
    arms = [arm_of(one) for one in shown]
    best = [read_best(one) for one in shown]
    places = points.places_of({"entries": [e for one in shown for e in one.plan["entries"]]})
    words = [_verdict(arm, rows.get(ALL)) for arm, rows in zip(arms, best, strict=True)]
    complete = [int(rows[ALL]["n_conditions"]) for rows in best if ALL in rows]
    drawn = (
        f"{_conditions(max(complete, default=len(places)))} · thick: mean over conditions; band: "
        "their bootstrap 95 % intervals combined; thin: each condition · only the shape is read, "
        "not the height; lean: its mean at S > 0.5 less that at S < 0.5"
    )
    counts = [count for one in shown for count in _counts(one)]
    where = subtitle(plan, tables.fidelity, counts, drawn)
    if len(shown) == 1 and tables.beside("targeted") is not None:
        where += " · targeted MEHER: the same runs, as in the authors' code"
    looks = [look_of(one.plan, arm) for one, arm in zip(shown, arms, strict=True)]
    handles = [look.handle(text) for look, text in zip(looks, words, strict=True)]
    head = style.Head(title, where, (*handles, _published()))
    fig, (left, right) = _summary_axes(head, points.forest_inches(places, len(shown)))
    for look, by_condition in zip(looks, curves, strict=True):
        points.draw_along(left, m_c_along(look, by_condition), band=True)
    series = [
        Dots(arm, look, {place: _best_spread(row) for place, row in rows.items()})
        for arm, look, rows in zip(arms, looks, best, strict=True)
    ]
    points.forest(
        right, places, series, f"best S (highest {style.M_C}) and its bootstrap 95 % interval"
    )
    for ax in (left, right):
        ax.axvspan(*PUBLISHED_BEST, color=style.BAND, linewidth=0, zorder=0)
        ax.set_xlim(-0.04, 1.04)
        ax.set_xticks(np.linspace(0, 1, 6))
    left.set_ylim(bottom=0)
    left.set_xlabel("S-ratio")
    left.set_ylabel(style.M_C)
    return fig


def m_c_along(look: style.Look, by_condition: Mapping[str, Mapping[float, Spread]]) -> Along:
    """M_c along what varies: its mean over conditions, and each of them."""
    curves = {
        place: {x: value for x, (value, *_) in curve.items()}
        for place, curve in by_condition.items()
    }
    return Along(look, mean_m_c(by_condition), curves)


def _targeted(tables: Tables) -> Sequence[Tables]:
    """The targeted experiment, where it has runs of its own."""
    other = tables.beside("targeted")
    if other is None:
        return []
    return [] if same_runs(other.plan, other.fidelity) else [other]


def _conditions(count: int) -> str:
    return f"{count} condition{'s' if count > 1 else ''}"


def _best_spread(row: Mapping[Hashable, Any]) -> Spread:
    return float(row["best_level"]), float(row["low"]), float(row["high"])


def _range(row: Mapping[Hashable, Any]) -> str:
    """`0.6`, or, of several S that are equally good, `0.3 to 0.8`."""
    low, high = float(row["best_level"]), float(row["best_to"])
    return f"{low:g}" if high - low < 1e-9 else f"{low:g} to {high:g}"


def _verdict(arm: str, row: Mapping[Hashable, Any] | None) -> str:
    """`MEHER: best S 0.6 [0.5, 0.7], single-peaked, leans by +0.05 to S > 0.5`."""
    if row is None:
        return arm
    value, low, high = _best_spread(row)
    if np.isnan(value):
        return f"{arm}: no S learns"
    bounds = "" if np.isnan(low) else f" [{low:g}, {high:g}]"
    peaks = {True: "single-peaked", False: "not single-peaked"}.get(row["single_peaked"], "")
    lean = "" if pd.isna(row["lean"]) else f"lean {row['lean']:+.2f}".replace("-", "−")
    return ", ".join(word for word in (f"{arm}: best S {_range(row)}{bounds}", peaks, lean) if word)


def _summary_axes(head: style.Head, rows: float) -> tuple[Figure, tuple[Axes, Axes]]:
    """A panel of curves, and beside it one with a row per condition."""
    width, left, right, bottom = style.wide(10.6, 3), 0.6, 0.2, 0.5
    middle = points.NAMES_INCHES
    panel = max(2.6, rows)
    top = style.head_inches(head, width) + 0.15
    height = top + panel + bottom
    each = (width - left - middle - right) / 2
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    style.draw_head(fig, head)
    places = [
        (x / width, bottom / height, each / width, panel / height)
        for x in (left, left + each + middle)
    ]
    curves, best = (fig.add_axes(place) for place in places)
    return fig, (curves, best)


SIGNALS = {
    "reward_entropy": "entropy of rewards (bits)",
    "action_entropy": "entropy of actions (bits)",
    "observation_entropy": "entropy of observations (bits)",
}


def signals(tables: Tables) -> Figure:
    """Question 6: entropy of what the agent trains on, by S; H(S) is that of an episode's end."""
    title = "Question 6 · What does S do to the entropy of rewards, actions and observations?"
    plan = tables.plan
    table = tables.read("evaluations.parquet", ["seed", *SIGNALS])
    table = table.dropna(subset=list(SIGNALS), how="all")
    if table.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    levels = {text: float(level["s_ratio"]) for text, level in levels_of(plan).items()}
    keys = ["level", "condition", "seed"]
    runs = table.groupby(keys, sort=False)[list(SIGNALS)].mean().reset_index()
    places = runs["condition"].nunique()
    drawn = (
        f"{_conditions(places)} · each run's mean over its training · thick: mean over runs with "
        "bootstrap 95 % interval; thin: each condition"
    )
    counts = runs.groupby(["level", "condition"])["seed"].nunique().unique().tolist()
    where = subtitle(plan, tables.fidelity, counts, drawn)
    look = look_of(tables.plan, arm_of(tables))
    reference = style.Look(style.TEXT, (0, (2, 2)), "none", 1.2)
    handles = (
        look.handle(arm_of(tables)),
        reference.handle("H(S), entropy of a Bernoulli variable: an episode's end"),
    )
    fig, axes = points.panels(
        style.Head(title, where, handles), list(SIGNALS.values()), style.KEYS["s_ratio"]
    )
    for ax, column in zip(axes, SIGNALS, strict=True):
        points.draw_along(ax, points.mean_along(runs, levels, column, look))
    axes[0].plot(*_bernoulli(), color=reference.colour, linestyle=reference.line, linewidth=1.2)
    axes[0].set_ylim(bottom=0)
    axes[0].set_xticks(np.linspace(0, 1, 6))
    return fig


def _bernoulli() -> tuple[np.ndarray, np.ndarray]:
    """p and H(p) = −p log2 p − (1 − p) log2 (1 − p) (MEHER, its motivation)."""
    p = np.linspace(0.0, 1.0, 101)
    inner = p[1:-1]
    entropy = np.zeros_like(p)
    entropy[1:-1] = -inner * np.log2(inner) - (1 - inner) * np.log2(1 - inner)
    return p, entropy
