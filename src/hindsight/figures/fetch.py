"""The Fetch tasks: PPO-HER Fig. 5, a yardstick beside it, and hindsight where goals move or rest.

Success is what counts: returns of -1 a step have no scale in common with other tasks'.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.analysis.tasks import best_decays, gains, goal_movement
from hindsight.claims.data import CLAIMS
from hindsight.figures import points, style, success
from hindsight.figures.grids import say_absent, subtitle
from hindsight.figures.points import Along
from hindsight.figures.tables import Tables, arms_of, in_role, level_text, look_of

FINAL = "final_evaluation_success"
LEARNED: float = CLAIMS["P7"].arguments["learned"]  # share of episodes that succeed
#: How an untrained policy's achieved goal moves, as `goal_movement` names it.
MOVEMENT = {
    "often": "share of untrained episodes in which the achieved goal moves",
    "far": "how far it moves in one, in distances to the desired goal",
}
TITLE_LETTERS = 20  # of a task's name that fit above a panel


def weight_decays(tables: Tables) -> Figure:
    """PPO-HER Fig. 5: success in training over steps; a column per task, a row per weight decay."""
    title = "PPO-HER Fig. 5 · Success on the Fetch tasks by weight decay"
    plan = tables.plan
    arms, tasks = arms_of(plan), _tasks(plan)
    levels = {style.level_label(e["level"]): level_text(e["level"]) for e in plan["entries"]}
    keys = {
        (row, task): {arm: (arm, text, task) for arm in arms}
        for row, text in levels.items()
        for task in tasks
    }
    fig, axes = success.curves(
        plan, tables.fidelity, title, list(levels), tasks, keys, _looks(plan, arms),
        _training(tables), label=success.IN_TRAINING, median=True, said=f"dotted: {LEARNED:g}",
    )  # fmt: skip
    _mark_learned(axes)
    return fig


def rollout_lengths(tables: Tables) -> Figure:
    """Success at the end against the length of a rollout: a panel per task, a line per arm."""
    title = "Success on the Fetch tasks by length of a rollout"
    plan = tables.plan
    runs = tables.read("runs.parquet", ["task", "seed", FINAL]).dropna(subset=[FINAL])
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    arms, tasks = arms_of(plan), _tasks(plan)
    levels = {level_text(e["level"]): e["level"] for e in plan["entries"]}
    drawn = (
        "episodes without random actions; thick: mean over seeds and weight decays; "
        f"{success.BARS}; thin: each weight decay; dots: every seed"
    )
    where = subtitle(plan, tables.fidelity, success.seed_counts(runs), drawn)
    head = style.Head(
        title, where, tuple(look.handle(arm) for arm, look in _looks(plan, arms).items())
    )
    fig, axes = points.panels(head, tasks, style.KEYS["n_steps"])
    axes[0].set_ylabel(success.IN_EVALUATION)
    lengths = sorted({float(level["n_steps"]) for level in levels.values()})
    for ax, task in zip(axes, tasks, strict=True):
        there = runs[runs["task"] == task]
        for order, arm in enumerate(arms):
            # Beside one another, where they are equal.
            aside = 1.0 + 0.06 * (order - (len(arms) - 1) / 2)
            own, look = there[there["arm"] == arm], look_of(plan, arm)
            points.draw_along(ax, _along_lengths(own, levels, look, aside))
            x = [aside * levels[text]["n_steps"] for text in own["level"]]
            ax.plot(x, own[FINAL], color=look.colour, marker=".", markersize=2.5, linestyle="none",
                    alpha=0.5, zorder=1)  # fmt: skip
        ax.set_xscale("log", base=2)
        ax.set_xticks(lengths, [f"{n:g}" for n in lengths])
        ax.minorticks_off()
        success.share_axis(ax)
        planned = {e["arm"] for e in plan["entries"] if e["task"] == task}
        lacking = [(arm, arm in planned) for arm in arms if not (there["arm"] == arm).any()]
        say_absent(ax, lacking, len(arms))
    return fig


def _along_lengths(
    runs: pd.DataFrame, levels: Mapping[str, dict[str, Any]], look: style.Look, aside: float
) -> Along:
    """Means over all weight decays by rollout length, and those of each weight decay; intervals
    over seeds within weight decays.
    """
    found: dict[float, dict[float, Any]] = {}
    for text, own in runs.groupby("level", sort=False):
        level = levels[str(text)]
        length, decay = aside * level["n_steps"], float(level["weight_decay"])
        found.setdefault(length, {})[decay] = own[FINAL].to_numpy(dtype=np.float64)
    decays = sorted({decay for values in found.values() for decay in values})
    return Along(
        look,
        {length: points.spread(list(values.values())) for length, values in found.items()},
        {
            str(decay): {n: float(v[decay].mean()) for n, v in found.items() if decay in v}
            for decay in decays
        },
    )


def off_policy(tables: Tables) -> Figure:
    """Success in evaluation over steps by powers of ten, a column per task, PPO's beside."""
    title = "Beside PPO-HER Fig. 5 · What learns the Fetch tasks?"
    course, plan = success.evaluations(tables), tables.plan
    arms, tasks = arms_of(plan), _tasks(plan)
    entries, rows, network = _of_fetch(tables, tasks)
    levels = {(e["arm"], e["task"]): level_text(e["level"]) for e in entries}
    if entries and not course.empty:
        course = pd.concat([course, rows])
        plan["entries"] += entries
        arms = list(dict.fromkeys([*(e["arm"] for e in entries), *arms]))
    keys = {
        ("", task): {arm: (arm, levels.get((arm, task), ""), task) for arm in arms}
        for task in tasks
    }
    said = f"dotted: {LEARNED:g}"
    if entries:
        said += f"; PPO and PPO-HER: {network}, at the weight decay that is best on the task"
    fig, axes = success.curves(
        plan,
        tables.fidelity,
        title,
        [""],
        tasks,
        keys,
        _looks(plan, arms),
        course,
        log=True,
        said=said,
    )
    _mark_learned(axes)
    return fig


def _mark_learned(axes: Mapping[tuple[str, str], Axes]) -> None:
    for ax in axes.values():
        ax.axhline(LEARNED, color=style.FAINT, linestyle=(0, (1, 2)), linewidth=0.9)


def _of_fetch(
    tables: Tables, tasks: Sequence[str]
) -> tuple[list[dict[str, Any]], pd.DataFrame, str]:
    """Of `fetch`, where it was trained: PPO's and PPO-HER's cells at each task's best weight decay,
    as entries of its plan, their evaluations, and their network in words.
    """
    other = tables.beside("fetch")
    if other is None:
        return [], pd.DataFrame(), ""
    best = best_decays(other.read("runs.parquet", ["task", "success_auc"]))
    entries = [
        e
        for e in other.plan["entries"]
        if e["task"] in tasks and best.get((e["arm"], e["task"])) == level_text(e["level"])
    ]
    wanted = {(e["arm"], level_text(e["level"]), e["task"]) for e in entries}
    rows = success.evaluations(other)
    places = zip(rows["arm"], rows["level"], rows["condition"], strict=True)
    network = style.network_note(other.plan["preset"]["hidden"])
    return entries, rows[[place in wanted for place in places]], network


def moving_goals(tables: Tables) -> Figure:
    """Question 8: success on each task; below, a row per task: how its goal moves, and what
    hindsight adds.
    """
    title = "Question 8 · Does hindsight's benefit grow with how the goal moves?"
    plan = tables.plan
    arms, tasks = arms_of(plan), _tasks(plan)
    names = {task: textwrap.fill(task, TITLE_LETTERS) for task in tasks}
    keys = {
        ("", names[task]): {arm: (arm, "", task) for arm in arms} for task in tasks
    }  # fmt: skip
    ppo = in_role(plan, "baseline") or ""
    others = [arm for arm in arms if arm != ppo]
    said = (
        "below: the gain is the mean difference of success over training, paired by seed, with its "
        "95 % interval"
    )
    below = 1.0 + points.forest_inches(tasks, len(others))
    fig, axes = success.curves(
        plan, tables.fidelity, title, [""], list(names.values()), keys, _looks(plan, arms),
        _training(tables), label=success.IN_TRAINING, said=said, below=below,
    )  # fmt: skip
    if not axes:
        return fig
    columns = ["goal_moved_first", "goal_moved_mean", "goal_displacement_first"]
    moved = goal_movement(tables.read("runs.parquet", ["task", "role", *columns]))
    tests = tables.read("tests.csv")
    often, far, gained = _panels_of_movement(fig, below)
    if moved.empty or tests.empty:
        why = "not recorded how the goal moves" if moved.empty else "nothing to pair"
        for ax in (often, far, gained):
            style.note(ax, why)
        return fig
    found = {arm: gains(tests, arm, ppo) for arm in others}
    rows = [str(task) for task in moved.sort_values(list(MOVEMENT)).index]
    grey = style.Look(style.FAINT, "none", "o")
    for ax, (how, label) in zip((often, far), MOVEMENT.items(), strict=True):
        values = {str(task): (float(x), *points.NO_INTERVAL) for task, x in moved[how].items()}
        points.forest(ax, rows, [points.Dots(label, grey, values)], textwrap.fill(label, 34))
        ax.set_xlim(left=0)
    series = [
        points.Dots(arm, look_of(plan, arm), {
            str(task): (row["mean_difference"], row["low"], row["high"])
            for task, row in own.iterrows()
        })
        for arm, own in found.items()
    ]  # fmt: skip
    points.forest(gained, rows, series, "gain in mean success over PPO")
    gained.axvline(0, color=style.FAINT, linewidth=0.8)
    for ax in (far, gained):
        ax.tick_params(labelleft=False)
    return fig


def _panels_of_movement(fig: Figure, inches: float) -> list[Axes]:
    """Three axes in the `inches` below a grid: how often and how far goals move, and the gains."""
    width, height = fig.get_size_inches()
    bottom, top, gap = 0.68, 0.2, 0.25
    room, panel = width - points.NAMES_INCHES - 0.44 - 2 * gap, inches - bottom - top
    left, panels = points.NAMES_INCHES, []
    for share in (0.22, 0.22, 0.56):
        place = left / width, bottom / height, share * room / width, panel / height
        panels.append(fig.add_axes(place))
        left += share * room + gap
    return panels


def _training(tables: Tables) -> pd.DataFrame:
    """Every seed's success rate over its last hundred episodes, with random actions."""
    return tables.read("seed_curves.parquet", ["seed", "env_steps", "success_rate"])


def _tasks(plan: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(entry["task"] for entry in plan["entries"]))


def _looks(plan: dict[str, Any], arms: Sequence[str]) -> dict[str, style.Look]:
    return {arm: look_of(plan, arm) for arm in arms}
