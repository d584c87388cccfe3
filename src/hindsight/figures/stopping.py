"""What switching hindsight off saves, and costs (MEHER's PPO-HER-2-PPO)."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.analysis.arms import select
from hindsight.analysis.effects import CONDITION, RUN, effect
from hindsight.analysis.reduce import ALL
from hindsight.claims.data import CLAIMS
from hindsight.claims.measures import HER_RUNS
from hindsight.figures import points, style
from hindsight.figures.grids import subtitle
from hindsight.figures.points import Along, Dots, Spread
from hindsight.figures.s_ratio import arm_of, m_c_along, read_m_c
from hindsight.figures.tables import Tables, arms_of, levels_of, look_of

#: MEHER: share of computation time saved by PPO-HER-2-PPO.
PUBLISHED_SAVING: tuple[float, float] = (CLAIMS["M5b"].limits["at_least"], 0.56)
#: Return within which two arms count as equally good.
MARGIN: float = CLAIMS["M5a"].limits["within"]
RUNS = ["seed", "final_evaluation_return", "solved", "minutes", "updates", "end_step"]


def time_saved(tables: Tables) -> Figure:
    """Claim M5: computation saved by switching HER off, and what it costs in return."""
    title = "What PPO-HER-2-PPO saves of PPO-HER's computation time, and what it costs"
    plan = tables.plan
    table = tables.read("time_saved.csv")
    if table.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    places = points.places_of(plan)
    arms = [arm for arm in arms_of(plan) if (table["arm"] == arm).any()]
    saved: list[Dots] = []
    cost: list[Dots] = []
    switch: list[Dots] = []
    for arm in arms:
        rows = {str(row["condition"]): row for row in table[table["arm"] == arm].to_dict("records")}
        look = look_of(plan, arm)
        minutes = _spreads(rows, "saved_share", "low", "high")
        updates = _spreads(rows, "updates_saved_share", "updates_low", "updates_high")
        saved += [
            Dots(f"{arm}: training time", look, minutes),
            Dots(f"{arm}: minibatch updates", look, updates, hollow=True),
        ]
        cost.append(
            Dots(arm, look, _spreads(rows, "return_difference", "return_low", "return_high"))
        )
        steps = {
            place: (row["switch_step_median"] / 1e3, *points.NO_INTERVAL)
            for place, row in rows.items()
        }
        switch.append(Dots(arm, look, steps))
    drawn = (
        "runs of one seed compared up to where the first of them ended; bar: bootstrap over "
        "seeds, 95 % (of returns 90 %, as an equivalence test asks); all: conditions in which a "
        "run switched; training time: where both arms were timed alike"
    )
    where = subtitle(plan, tables.fidelity, table["n_seeds"].tolist(), drawn)
    handles = (
        *(points.dot_handle(dots.look, dots.label, dots.hollow) for dots in saved),
        style.band_handle("saved in the paper: 45 to 56 %; returns that count as equal: ±0.1"),
    )
    fig, axes = _three(style.Head(title, where, handles), points.forest_inches(places, len(saved)))
    points.forest(axes[0], places, saved, "share saved")
    points.forest(axes[1], places, cost, "final return less PPO-HER's")
    points.forest(axes[2], places, switch, "HER off after (thousand steps)")
    _share_of(axes[2], table, places)
    axes[0].axvspan(*PUBLISHED_SAVING, color=style.BAND, linewidth=0, zorder=0)
    axes[1].axvspan(-MARGIN, MARGIN, color=style.BAND, linewidth=0, zorder=0)
    for ax in axes[:2]:
        ax.axvline(0, color=style.FAINT, linewidth=0.8)
    low, high = axes[0].get_xlim()
    axes[0].set_xlim(min(low, -0.02), max(high, 0.6))
    axes[0].xaxis.set_major_formatter(_percent)
    low, high = axes[1].get_xlim()
    axes[1].set_xlim(min(low, -1.5 * MARGIN), max(high, 1.5 * MARGIN))
    axes[2].set_xlim(0, 1.08 * max(axes[2].get_xlim()[1], 1e-3))
    for ax in axes[1:]:
        ax.tick_params(labelleft=False)
        ax.set_ylim(axes[0].get_ylim())
    return fig


def _percent(value: float, _position: float) -> str:
    return f"{100 * value:.0f}\u00a0%".replace("-", "−")


def _spreads(
    rows: Mapping[str, Mapping[Hashable, Any]], value: str, low: str, high: str
) -> dict[str, Spread]:
    """Columns of time_saved.csv per condition."""
    return {
        place: (float(row[value]), float(row[low]), float(row[high])) for place, row in rows.items()
    }


def _share_of(ax: Axes, table: pd.DataFrame, places: list[str]) -> None:
    """Where not every run got far enough to switch, say how many did."""
    few = table[(table["switched_share"] < 1.0) & (table["condition"] != ALL)]
    for row in few.to_dict("records"):
        y = places.index(row["condition"])
        text = f"{100 * row['switched_share']:.0f} % of runs"
        ax.annotate(text, (1, y), xytext=(4, 0), xycoords=("axes fraction", "data"), size=7,
                    textcoords="offset points", ha="left", va="center")  # fmt: skip


def _three(head: style.Head, rows: float) -> tuple[Figure, Any]:
    """Three panels side by side that share their rows."""
    width, left, right = style.wide(10.9, 3), points.NAMES_INCHES, 0.85
    bottom, gap = 0.5, 0.35
    panel = max(rows, 0.7)
    top = style.head_inches(head, width) + 0.15
    height = top + panel + bottom
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    axes = fig.subplots(1, 3, width_ratios=[1.3, 1.3, 1])
    fig.subplots_adjust(
        left=left / width, right=1 - right / width, bottom=bottom / height, top=1 - top / height,
        wspace=gap / ((width - left - right - 2 * gap) / 3),
    )  # fmt: skip
    style.draw_head(fig, head)
    return fig, axes


def thresholds(tables: Tables) -> Figure:
    """Question 4: return, solved share and training time by the success rate that ends HER.

    "never" is a threshold of 1, which is never exceeded; or without it PPO-HER in the same
    conditions, from other experiments of the same source.
    """
    title = "Question 4 · At which success rate should hindsight be switched off?"
    plan = tables.plan
    runs = tables.read("runs.parquet", RUNS)
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    levels = {text: float(level["until_success"]) for text, level in levels_of(plan).items()}
    own = runs[runs["level"].isin([text for text, number in levels.items() if number >= 1])]
    never = own if len(own) else _never(tables, runs)
    levels = {text: number for text, number in levels.items() if number < 1}
    at = {text: float(order) for order, text in enumerate(levels)}
    look, her = look_of(plan, arm_of(tables)), style.ARMS["PPO-HER"]
    titles = {
        "final_evaluation_return": "final return",
        "solved": "share of seeds solved",
        "minutes": "training time of a run (minutes)",
    }
    saved = {"minutes": "training time", "updates": "minibatch updates"}
    drawn = (
        "thick: mean over all runs with 95 % interval (bootstrap; share: Wilson); thin: each "
        f"condition; never: PPO-HER in the same conditions · of {style.M_C} only the shape is read"
    )
    handles = [look.handle(arm_of(tables))]
    names = [*titles.values(), style.M_C]
    if not never.empty:
        handles += [her.handle("PPO-HER")]
        handles += [
            points.dot_handle(look, f"saved: {name}", hollow)
            for name, hollow in zip(saved.values(), (False, True), strict=True)
        ]
        names += ["saved of PPO-HER's, per step"]
    counts = runs.groupby(["level", CONDITION])["seed"].nunique().unique().tolist()
    head = style.Head(title, subtitle(plan, tables.fidelity, counts, drawn), tuple(handles))
    fig, axes = points.panels(head, names, style.KEYS["until_success"])
    for ax, column in zip(axes, titles, strict=False):
        summary = points.share if column == "solved" else points.spread
        points.draw_along(ax, points.mean_along(runs, at, column, look, summary))
        last = dict.fromkeys(never["level"], float(len(at)))
        points.draw_along(ax, points.mean_along(never, last, column, her, summary))
    numbers = {**dict(zip(levels.values(), at.values(), strict=True)), 1.0: float(len(at))}
    m_c = {
        place: {numbers[level]: spread for level, spread in curve.items()}
        for place, curve in read_m_c(tables).items()
    }
    points.draw_along(axes[3], m_c_along(look, m_c))
    if not never.empty:
        for order, column in enumerate(saved):
            _draw_saved(axes[4], runs, never, column, at, look, 0.08 * (2 * order - 1))
    axes[0].set_xticks(
        range(len(at) + 1), [*(f"{100 * number:g}\u00a0%" for number in levels.values()), "never"]
    )
    axes[0].set_xlim(-0.4, len(at) + (-0.6 if never.empty else 0.4))
    axes[0].set_ylim(min(axes[0].get_ylim()[0], 0.9), 1.01)  # 1 is the highest return there is
    axes[1].set_ylim(-0.03, 1.03)
    for ax in axes[2:4]:
        ax.set_ylim(0, 1.06 * ax.get_ylim()[1])
    return fig


def _draw_saved(
    ax: Axes,
    runs: pd.DataFrame,
    never: pd.DataFrame,
    column: str,
    at: Mapping[str, float],
    look: style.Look,
    offset: float,
) -> None:
    """Share saved of PPO-HER's minutes or updates of an environment step, run by run."""
    rate = {
        name: (table.set_index(RUN)[column] / table.set_index(RUN)["end_step"]).astype(float)
        for name, table in (("never", never), *runs.groupby("level", sort=False))
    }
    found: dict[float, Spread] = {}
    for text, x in at.items():
        if text not in rate:  # planned, and not trained yet
            continue
        values = (1.0 - rate[text] / rate["never"].reindex(rate[text].index)).dropna()
        if not values.empty:
            whole = effect(values)
            found[x + offset] = (whole.mean, whole.low, whole.high)
    points.draw_along(ax, Along(look, found, {}), hollow=column == "updates")
    ax.axhline(0, color=style.FAINT, linewidth=0.8)
    ax.yaxis.set_major_formatter(_percent)


def _never(tables: Tables, runs: pd.DataFrame) -> pd.DataFrame:
    """PPO-HER's runs of the same conditions and seeds, wherever they were trained."""
    found = [
        select(other.read("runs.parquet", ["role", *RUNS]), role)
        for name, role in HER_RUNS.items()
        if (other := tables.beside(name)) is not None
    ]
    if not found:
        return runs[:0]
    her = pd.concat(found).drop_duplicates(RUN)
    return her.merge(runs[RUN].drop_duplicates(), on=RUN).assign(level="")
