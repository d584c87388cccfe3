"""DDPG with hindsight on a point mass, beside the notebook that it is from.

The notebook shows one training of 150 episodes; here every seed is shown, and what follows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hindsight.analysis.tasks import (
    NOTEBOOK_EPISODES,
    NOTEBOOK_LAST,
    NOTEBOOK_SUCCESS,
    early_success,
)
from hindsight.figures import style
from hindsight.figures.course import Measure
from hindsight.figures.grids import draw_seeds, faintness, planned_of, say_absent, subtitle
from hindsight.figures.points import spread
from hindsight.figures.tables import Tables, arms_of, in_role, look_of
from hindsight.specs.environments.point_reach import PointReachSpec

Array = NDArray[np.floating[Any]]

EPISODES = 10  # of the moving average over episodes
ROWS = 4  # of that over updates: 200, of which a row of the results holds 50
OF_EPISODES = (
    Measure("episode_return", "return"),
    Measure("episode_success", "success", (0.0, 1.0)),
)
OF_UPDATES = (
    Measure("critic_loss", "critic loss", log=True),
    Measure("actor_loss", "actor loss"),
    Measure("q_mean", "mean Q"),
)
PRINTED = style.Look("#B00020", "-", "none", 2.6)


def training(tables: Tables) -> Figure:
    """What the notebook shows: return and success per episode, losses and Q over updates."""
    title = "DDPG and hindsight on PointReach · the notebook's curves"
    plan = tables.plan
    measures = (*OF_EPISODES, *OF_UPDATES)
    columns = ["seed", "env_steps", "updates", *(measure.column for measure in measures)]
    runs = tables.read("seed_curves.parquet", columns)
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    runs = averaged(runs)
    arms = arms_of(plan)
    counts = runs.groupby("arm")["seed"].nunique().unique().tolist()
    drawn = (
        "thick: median over seeds; thin: every seed; each a moving average over "
        f"{EPISODES} episodes, or over 200 updates ({ROWS} rows of the results, each the mean of "
        "50 updates)"
    )
    handles = (PRINTED.handle(f"printed by the notebook: success {NOTEBOOK_SUCCESS:g}, one run"),)
    head = style.Head(title, subtitle(plan, tables.fidelity, counts, drawn), handles)
    fig, axes = _layout(plan, head, arms)
    for row, measure in enumerate(measures):
        x = "episode" if measure in OF_EPISODES else "updates"
        unit = 1.0 if x == "episode" else 1000.0
        _scale(axes[row, 0], runs[measure.column], measure)
        axes[row, 0].set_ylabel(measure.label)
        style.limit_x({("", arm): ax for arm, ax in zip(arms, axes[row], strict=True)},
                      max(float(runs[x].max()), 1.0) / unit)  # fmt: skip
        for ax, arm in zip(axes[row], arms, strict=True):
            own = runs[(runs["arm"] == arm) & runs[measure.column].notna()]
            if own.empty:
                there = (runs["arm"] == arm).any()
                style.note(ax, "no updates yet" if there else "missing")
                continue
            look = look_of(plan, arm)
            draw_seeds(ax, own, x, measure.column, unit, look, faintness(1, max(counts)))
            middle = own.groupby(x)[measure.column].median()
            ax.plot(middle.index / unit, middle, color=look.colour, linewidth=1.8, zorder=3)
            if x == "episode":
                ax.axvline(NOTEBOOK_EPISODES, color=style.FAINT, linewidth=0.8, linestyle=":")
    if (its_own := in_role(plan, "reference")) in arms:
        _printed(axes[1, arms.index(its_own)])
    return fig


def averaged(runs: pd.DataFrame) -> pd.DataFrame:
    """Every run's rows in order, with `episode` and the moving averages of its measures; NaN until
    a window is full.
    """
    runs = runs.sort_values(["arm", "seed", "env_steps"])
    groups = runs.groupby(["arm", "seed"], sort=False)
    found = runs.assign(episode=groups.cumcount() + 1)
    for measures, window in ((OF_EPISODES, EPISODES), (OF_UPDATES, ROWS)):
        for measure in measures:
            # Rows before the first update have no loss: the window begins after them.
            values = runs[measure.column].to_numpy(dtype=np.float64)
            means = pd.Series(values, runs.index).groupby([runs["arm"], runs["seed"]], sort=False)
            found[measure.column] = means.transform(lambda x, n=window: x.rolling(n).mean())
    return found


def _scale(ax: Axes, values: pd.Series, measure: Measure) -> None:
    """Limits of a row of panels."""
    numbers = values[np.isfinite(values)].to_numpy(dtype=np.float64)
    if measure.limits is not None:
        low, high = measure.limits
        ax.set_ylim(low - 0.03, high + 0.03)
        ax.set_yticks([low, (low + high) / 2, high])
    elif numbers.size and measure.log and numbers.min() > 0:
        ax.set_yscale("log")
        ax.set_ylim(numbers.min() / 1.3, numbers.max() * 1.3)
    elif numbers.size:
        margin = 0.04 * float(np.ptp(numbers)) + 0.01
        ax.set_ylim(numbers.min() - margin, numbers.max() + margin)


def _printed(ax: Axes) -> None:
    """The notebook's own result, over the episodes that it is the mean of."""
    first = NOTEBOOK_EPISODES - NOTEBOOK_LAST + 1
    ax.plot([first, NOTEBOOK_EPISODES], [NOTEBOOK_SUCCESS] * 2, color=PRINTED.colour,
            linewidth=PRINTED.width, solid_capstyle="butt", zorder=4)  # fmt: skip


def _layout(plan: dict[str, Any], head: style.Head, arms: Sequence[str]) -> tuple[Figure, Any]:
    """A column per arm; rows over episodes, and below them rows over updates."""
    count = len(OF_EPISODES), len(OF_UPDATES)
    left, right, bottom, gap, panel_h, between = 0.75, 0.2, 0.5, 0.14, 1.15, 0.62
    panel_w = max(2.6, (7.2 - left - right) / len(arms) - gap)
    width = style.wide(left + right + len(arms) * panel_w + (len(arms) - 1) * gap, 3)
    panel_w = (width - left - right + gap) / len(arms) - gap
    top = style.head_inches(head, width) + 0.25
    heights = [n * panel_h + (n - 1) * gap for n in count]
    height = top + heights[0] + between + heights[1] + bottom
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    style.draw_head(fig, head)
    blocks, edge = [], height - top
    labels = ("episode (dotted: the notebook's last)", "updates (thousands)")
    for n, inches, label in zip(count, heights, labels, strict=True):
        place = fig.add_gridspec(
            n, len(arms), left=left / width, right=1 - right / width, top=edge / height,
            bottom=(edge - inches) / height, wspace=gap / panel_w, hspace=gap / panel_h,
        )  # fmt: skip
        blocks.append(place.subplots(sharex=True, sharey="row", squeeze=False))
        y = (edge - inches - 0.32) / height
        fig.text((left + width - right) / 2 / width, y, label, ha="center", va="center", size=8.5)
        edge -= inches + between
    axes = np.concatenate(blocks)
    for ax, arm in zip(axes[0], arms, strict=True):
        ax.set_title(arm, pad=5, color=look_of(plan, arm).colour)
    return fig, axes


def reached(tables: Tables) -> Figure:
    """How far success goes: over all episodes, where the notebook ends, and at the end."""
    title = "How far DDPG goes on PointReach, and what hindsight adds"
    plan = tables.plan
    final = tables.read("runs.parquet", ["seed", "final_evaluation_success"])
    course = tables.read("evaluations.parquet", ["seed", "env_steps", "success_rate"])
    if final.empty or course.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    rows = tables.read("seed_curves.parquet", ["seed", "env_steps", "episode_success"])
    arms = arms_of(plan)
    counts = final.groupby("arm")["seed"].nunique().unique().tolist()
    drawn = (
        "left and right: episodes without exploration noise, from fixed starts; lines: mean over "
        "seeds; thin and small: every seed; bars: bootstrap 95 % interval"
    )
    handles = (
        *(look_of(plan, arm).handle(arm) for arm in arms),
        PRINTED.handle(f"printed by the notebook: {NOTEBOOK_SUCCESS:g}, one run"),
    )
    head = style.Head(title, subtitle(plan, tables.fidelity, counts, drawn), handles)
    fig, (left, middle, right) = _three(head)
    unit, x_label = style.steps_axis(float(course["env_steps"].max()))
    planned = {arm for arm, _, _ in planned_of(plan)}
    for arm in arms:
        look, own = look_of(plan, arm), course[course["arm"] == arm]
        if not own.empty:
            draw_seeds(left, own, "env_steps", "success_rate", unit, look, 0.25)
            mean = own.groupby("env_steps")["success_rate"].mean()
            left.plot(mean.index / unit, mean, color=look.colour, linestyle=look.line,
                      marker=look.marker, markersize=3.2, markevery=(0.1, 0.26),
                      zorder=3)  # fmt: skip
    missing = [(arm, arm in planned) for arm in arms if not (course["arm"] == arm).any()]
    say_absent(left, missing, len(arms))
    end = NOTEBOOK_EPISODES * PointReachSpec().step_limit / unit
    left.axvline(end, color=style.FAINT, linewidth=0.8, linestyle=":")
    left.set_xlabel(f"{x_label}; dotted: the notebook's end")
    left.set_xlim(0, float(course["env_steps"].max()) / unit)
    left.set_title("success, over training", loc="left")
    early = early_success(rows)
    middle.set_title(f"success, episodes {NOTEBOOK_EPISODES - NOTEBOOK_LAST + 1} to "
                     f"{NOTEBOOK_EPISODES}, with noise", loc="left")  # fmt: skip
    middle.axvline(NOTEBOOK_SUCCESS, color=PRINTED.colour, linewidth=1.4, zorder=1)
    if early.empty:
        style.note(middle, "too few episodes")
    _by_arm(middle, plan, early)
    right.set_title("success, at the end", loc="left")
    _by_arm(right, plan, final.set_index(["arm", "seed"])["final_evaluation_success"])
    left.set_ylim(-0.03, 1.03)
    return fig


def _by_arm(ax: Axes, plan: dict[str, Any], values: pd.Series) -> None:
    """Every seed's value (index: arm, seed), with mean and interval, a row per arm."""
    arms = arms_of(plan)
    for y, arm in enumerate(arms):
        own = values[values.index.get_level_values("arm") == arm].dropna().to_numpy(np.float64)
        if not own.size:
            continue
        look, (mean, low, high) = look_of(plan, arm), spread([own])
        ax.plot(own, np.full(own.size, y + 0.22), color=look.colour, marker="|", markersize=5,
                linestyle="none", alpha=0.6)  # fmt: skip
        ax.hlines(y, low, high, color=look.colour, linewidth=1.6, alpha=0.75)
        ax.plot(mean, y, color=look.colour, marker=look.marker, markersize=5, clip_on=False,
                zorder=3)  # fmt: skip
    ax.set_yticks([])
    ax.set_ylim(len(arms) - 0.5, -0.5)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("share of episodes that succeed")
    ax.grid(False, axis="y")


def _three(head: style.Head) -> tuple[Figure, Any]:
    """Three panels side by side."""
    width, panel, left, bottom = style.wide(10.2, 3), 2.2, 0.45, 0.5
    top = style.head_inches(head, width) + 0.25
    height = top + panel + bottom
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    axes = fig.subplots(1, 3, width_ratios=[1.3, 1, 1])
    fig.subplots_adjust(
        left=left / width, right=1 - 0.2 / width, bottom=bottom / height, top=1 - top / height,
        wspace=0.12,
    )  # fmt: skip
    style.draw_head(fig, head)
    return fig, axes
