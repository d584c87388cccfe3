"""Bits to be flipped and points to be reached: what hindsight adds on the tasks of other systems.

All curves are success in evaluation episodes, whose actions are not random: the tasks' returns have
no common scale.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.figures import points, style, success
from hindsight.figures.grids import say_absent, subtitle
from hindsight.figures.points import Along
from hindsight.figures.tables import Key, Tables, arms_of, level_text, look_of

FINAL, AREA = "final_evaluation_success", "success_auc"


def bits(tables: Tables) -> Figure:
    """Success at the end against the number of bits, by arm."""
    title = "How many bits can be flipped · success at the end"
    plan = tables.plan
    runs = tables.read("runs.parquet", ["seed", FINAL]).dropna(subset=[FINAL])
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    levels = {level_text(e["level"]): float(e["level"]["n_bits"]) for e in plan["entries"]}
    groups = _groups(plan)
    drawn = f"episodes without random actions; mean over seeds; {success.BARS}; dots: every seed"
    where = subtitle(plan, tables.fidelity, success.seed_counts(runs), drawn)
    head = style.Head(
        title, where, _handles(plan, [arm for arms in groups.values() for arm in arms])
    )
    fig, axes = points.panels(head, list(groups), style.KEYS["n_bits"])
    axes[0].set_ylabel(success.IN_EVALUATION)
    for ax, arms in zip(axes, groups.values(), strict=True):
        for order, arm in enumerate(arms):
            # Beside one another, where they are equal.
            aside = 0.3 * (order - (len(arms) - 1) / 2)
            at = {text: n + aside for text, n in levels.items()}
            own, look = runs[runs["arm"] == arm], look_of(plan, arm)
            points.draw_along(ax, _pooled(own, at, FINAL, look))
            x = own["level"].map(at)
            ax.plot(x, own[FINAL], color=look.colour, marker=".", markersize=2.5, linestyle="none",
                    alpha=0.5, zorder=1)  # fmt: skip
        ax.set_xticks(sorted(set(levels.values())))
        success.share_axis(ax)
        lost = [arm for arm in arms if not (runs["arm"] == arm).any()]
        say_absent(ax, [(arm, True) for arm in lost], len(arms) + 1)
    return fig


def bits_curves(tables: Tables) -> Figure:
    """Success over steps: a column per number of bits."""
    plan = tables.plan
    title = "How many bits can be flipped · success over training"
    levels = {level_text(e["level"]): float(e["level"]["n_bits"]) for e in plan["entries"]}
    texts = sorted(levels, key=levels.__getitem__)
    groups = _groups(plan)
    keys = {
        (group, f"n = {levels[text]:g}"): {arm: (arm, text, entry["condition"]) for arm in arms}
        for group, arms in groups.items()
        for text in texts
        for entry in plan["entries"][:1]
    }
    looks = {arm: look_of(plan, arm) for arms in groups.values() for arm in arms}
    columns = [f"n = {levels[text]:g}" for text in texts]
    course = success.evaluations(tables)
    rows = list(groups)
    return success.curves(plan, tables.fidelity, title, rows, columns, keys, looks, course)[0]


def strategies(tables: Tables) -> Figure:
    """Success over steps by number of goals k, a column per strategy; below, what it comes to."""
    plan = tables.plan
    title = f"{plan['title']} · success by strategy and k"
    levels = {level_text(e["level"]): e["level"] for e in plan["entries"]}
    names = [name for name in style.STRATEGIES if any(name == v["strategy"]
             for v in levels.values())]  # fmt: skip
    copies = sorted({level["k"] for level in levels.values()})
    looks = dict(zip(map(_k, copies), style.level_looks(len(copies)), strict=True))
    place = plan["entries"][0]
    keys: Mapping[tuple[str, str], dict[str, Key]] = {
        ("", name): {
            _k(level["k"]): (place["arm"], text, place["condition"])
            for text, level in sorted(levels.items(), key=lambda item: item[1]["k"])
            if level["strategy"] == name
        }
        for name in names
    }
    runs = tables.read("runs.parquet", ["seed", FINAL, AREA])
    more = [points.dot_handle(style.STRATEGIES[name], name) for name in names]
    below = 2.75
    said = f"below: mean over seeds; {success.BARS}; dots: every seed"
    fig, axes = success.curves(
        plan, tables.fidelity, title, [""], names, keys, looks, success.evaluations(tables),
        more=more, said=said, below=below,
    )  # fmt: skip
    if not axes:
        return fig
    labels = {FINAL: "success at the end", AREA: "mean success over training"}
    panels = success.panels_below(fig, below, 2)
    for ax, (column, label) in zip(panels, labels.items(), strict=True):
        ax.set_title(label, loc="left")
        for order, name in enumerate(names):
            aside = 0.09 * (order - (len(names) - 1) / 2)
            at = {
                text: copies.index(level["k"]) + aside
                for text, level in levels.items()
                if level["strategy"] == name
            }
            look = style.STRATEGIES[name]
            own = runs[runs["level"].isin(at)]
            points.draw_along(ax, _pooled(own, at, column, look))
            ax.plot(own["level"].map(at), own[column], color=look.colour, marker=".",
                    markersize=2.5, linestyle="none", alpha=0.5, zorder=1)  # fmt: skip
        ax.set_xticks(range(len(copies)), [f"{k:g}" for k in copies])
        ax.set_xlim(-0.4, len(copies) - 0.6)
        ax.set_xlabel("additional goals k (relabelled: k of k + 1)")
        success.share_axis(ax)
    return fig


def generalise(tables: Tables) -> Figure:
    """Question 5: success over steps on each task, and what it comes to by S."""
    title = "Question 5 · Does the best share of successes S hold elsewhere?"
    plan = tables.plan
    arms = arms_of(plan)
    tasks = list(dict.fromkeys(entry["task"] for entry in plan["entries"]))
    keys = {("", task): {arm: (arm, "", task) for arm in arms} for task in tasks}
    looks = {arm: look_of(plan, arm) for arm in arms}
    said = (
        f"below: filled, at the end, and hollow, mean over training; {success.BARS}; level lines: "
        "without S (dotted: over training)"
    )
    below = 2.75
    fig, axes = success.curves(
        plan, tables.fidelity, title, [""], tasks, keys, looks, success.evaluations(tables),
        said=said, below=below,
    )  # fmt: skip
    if not axes:
        return fig
    runs = tables.read("runs.parquet", ["seed", FINAL, AREA])
    ratios = {e["arm"]: e["keys"].get("s_ratio") for e in plan["entries"]}
    for ax, task in zip(success.panels_below(fig, below, len(tasks)), tasks, strict=True):
        ax.set_title(f"{task}: success by S", loc="left")
        for arm in arms:
            own = runs[(runs["arm"] == arm) & (runs["condition"] == task)]
            for column in (FINAL, AREA):
                if own[column].notna().any():
                    _by_s(
                        ax, look_of(plan, arm), ratios.get(arm), own[column], hollow=column == AREA
                    )
        ax.set_xlabel("share of successes S")
        ax.set_xlim(0, 1)
        success.share_axis(ax)
    return fig


def _by_s(ax: Axes, look: style.Look, s: float | None, values: pd.Series, *, hollow: bool) -> None:
    """A point with its interval at an arm's S; a level line for an arm without."""
    mean, low, high = points.spread([values.dropna().to_numpy(dtype=np.float64)])
    if s is None:
        line: Any = (0, (1, 2)) if hollow else look.line
        ax.axhline(mean, color=look.colour, linestyle=line, linewidth=1.2)
        if not np.isnan(low) and not hollow:
            ax.axhspan(low, high, color=look.colour, alpha=0.12, linewidth=0)
        return
    s += 0.012 if hollow else -0.012
    ax.vlines(s, low, high, color=look.colour, linewidth=1.3, alpha=0.75)
    ax.plot(s, mean, color=look.colour, marker=look.marker, markersize=5.5, linestyle="none",
            markerfacecolor="white" if hollow else look.colour, zorder=3,
            clip_on=False)  # fmt: skip


def _groups(plan: dict[str, Any]) -> dict[str, list[str]]:
    """The arms that share a panel, by its name: with and without priorities, and the strategies of
    hindsight; the experiment's subject is in both, and no panel has it alone.
    """
    what = {entry["arm"]: entry for entry in plan["entries"]}
    found: dict[str, list[str]] = {"hindsight and priorities": [], "which goals": []}
    for arm in arms_of(plan):
        other = what[arm]["role"] == "level" and not what[arm]["keys"].get("prioritized")
        if not other:
            found["hindsight and priorities"].append(arm)
        if other or what[arm]["role"] == "subject":
            found["which goals"].append(arm)
    more = {name: arms for name, arms in found.items() if len(arms) > 1}
    return more or {name: arms for name, arms in found.items() if arms} or {"": sorted(what)}


def _pooled(runs: pd.DataFrame, at: Mapping[str, float], column: str, look: style.Look) -> Along:
    """Mean and interval over seeds at each level's place."""
    own = runs.dropna(subset=[column])
    levels = {text: x for text, x in at.items() if (own["level"] == text).any()}
    spreads = {
        x: points.spread([own.loc[own["level"] == text, column].to_numpy(dtype=np.float64)])
        for text, x in levels.items()
    }
    return Along(look, spreads, {})


def _handles(plan: dict[str, Any], arms: Sequence[str]) -> tuple[Any, ...]:
    return tuple(look_of(plan, arm).handle(arm) for arm in dict.fromkeys(arms))


def _k(k: float) -> str:
    return f"k = {k:g}"
