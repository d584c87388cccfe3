"""The questions that the papers leave open, one figure each, drawn to answer."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hindsight.analysis.effects import RUN
from hindsight.figures import course, points, style
from hindsight.figures.course import ENTROPY, RETURN, SUCCESS, Measure
from hindsight.figures.grids import Line, arm_rows, subtitle
from hindsight.figures.points import Dots
from hindsight.figures.s_ratio import arm_of, m_c_along, read_m_c
from hindsight.figures.tables import CELL, Tables, arms_of, in_role, levels_of, look_of

DROP = Measure("drop", "drop of return")
LOG_STD = Measure("log_std", "log σ")
WEIGHT = Measure("hindsight_log_ratio_max", "log weight (nats)", log=True)


def stability(tables: Tables) -> Figure:
    """Question 2: success, entropy and drops over training, and what each arm lost in the end."""
    title = "Question 2 · Does stability track entropy?"
    measures = [SUCCESS, ENTROPY, LOG_STD, DROP]
    runs = course.read_runs(tables, [SUCCESS, ENTROPY, LOG_STD, RETURN])
    if runs.empty:
        return style.nothing(title, tables.plan["source"], tables.fidelity)
    runs = runs.sort_values([*CELL, "seed", "env_steps"])
    best = runs.groupby([*CELL, "seed"], sort=False)["return_mean"].cummax()
    runs = runs.assign(drop=best - runs["return_mean"])
    lines = arm_rows(tables.plan)[0].lines
    final = tables.read("runs.parquet", ["seed", "forgetting"])
    series = [
        Dots(line.arm, line.look, points.effects_of(
            final[final["arm"] == line.arm].set_index(RUN)["forgetting"]))
        for line in lines
    ]  # fmt: skip
    if not final["forgetting"].any():
        said = "; in the end no run had lost any of the return of its best hundred episodes"
        return course.over_training(tables, title, runs, lines, measures, course.mean, said=said)
    places = points.places_of(tables.plan)
    below = points.forest_inches(places, len(series)) + 0.95
    fig = course.over_training(tables, title, runs, lines, measures, course.mean, below=below)
    label = "Lost in the end: return of a run's best hundred episodes less that of its last"
    ax = points.forest_below(fig, below, label)
    points.forest(ax, places, series, "return lost (mean over seeds, bootstrap 95 % interval)")
    ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
    return fig


def stochasticity(tables: Tables) -> Figure:
    """Question 3: returns per exploration with and without HER, and what HER leaves uncorrected.

    hindsight_log_ratio_max: the largest log [π(a|s, new goal) / π(a|s, old goal)] of a copy.
    """
    title = "Question 3 · Does PPO-HER need a stochastic policy?"
    measures = [RETURN, WEIGHT]
    runs = course.read_runs(tables, measures)
    plan = tables.plan
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    levels = levels_of(plan)
    looks = style.swept_looks(list(levels.values()))
    arms = arms_of(plan)
    ppo, her = (in_role(plan, role) or "" for role in ("baseline", "subject"))
    lines = tuple(
        Line(arm, text, f"{style.level_label(level)}, {arm}", _dashed(look, whole=arm == her))
        for (text, level), look in zip(levels.items(), looks, strict=True)
        for arm in arms
    )
    final = tables.read("runs.parquet", ["seed", "auc"])
    series = [
        Dots(style.level_label(level), look, points.gains(
            final[final["level"] == text], ppo, her, "auc"))
        for (text, level), look in zip(levels.items(), looks, strict=True)
    ]  # fmt: skip
    places = points.places_of(plan)
    below = points.forest_inches(places, len(series)) + 0.95
    said = "; weight: largest π(action | new goal) / π(action | old goal) of a relabelled sample"
    fig = course.over_training(tables, title, runs, lines, measures, said=said, below=below)
    ax = points.forest_below(fig, below, "What HER adds: area under PPO-HER's curve less PPO's")
    _gain_axis(ax)
    points.forest(ax, places, series, "gain in mean scaled return (paired by seed, 95 % interval)")
    return fig


def _dashed(look: style.Look, *, whole: bool) -> style.Look:
    """One colour per exploration; HER's lines are whole and marked."""
    return (
        style.Look(look.colour, "-", look.marker, 1.6)
        if whole
        else style.Look(look.colour, (0, (2, 1.5)), "none", 1.2)
    )


def _gain_axis(ax: Axes) -> None:
    ax.axvline(0, color=style.FAINT, linewidth=0.8)


def rarely_moves(tables: Tables) -> Figure:
    """Question 1: curves where the achieved goal rarely moves, and what HER still adds."""
    title = "Question 1 · What does HER add where the achieved goal rarely moves?"
    plan = tables.plan
    runs = course.read_runs(tables, [SUCCESS])
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    lines = arm_rows(plan)[0].lines
    final = tables.read("runs.parquet", ["seed", "auc"])
    ppo = in_role(plan, "baseline") or ""
    series = [
        Dots(line.arm, line.look, points.gains(final, ppo, line.arm, "auc"))
        for line in lines
        if line.arm != ppo
    ]
    places = points.places_of(plan)
    ordinary = _ordinary(tables, places)
    series += ordinary
    below = points.forest_inches(places, len(series)) + 0.95
    more = [points.dot_handle(dots.look, dots.label, dots.hollow) for dots in ordinary]
    fig = course.over_training(
        tables, title, runs, lines, [SUCCESS], course.mean, more=more, below=below
    )
    ax = points.forest_below(fig, below, "What each adds: area under its curve less PPO's")
    _gain_axis(ax)
    points.forest(ax, places, series, "gain in mean scaled return (paired by seed, 95 % interval)")
    return fig


def _ordinary(tables: Tables, places: list[str]) -> list[Dots]:
    """PPO-HER's gain in the same conditions of the ordinary environment, if it was trained."""
    other = tables.beside("algorithms")
    if other is None:
        return []
    runs = other.read("runs.parquet", ["seed", "auc"])
    ppo, her = (in_role(other.plan, role) or "" for role in ("baseline", "subject"))
    gains = points.gains(runs[runs["condition"].isin(places)], ppo, her, "auc")
    look = style.Look(style.FAINT, "none", "o")
    return [Dots(f"{her} in the ordinary environment", look, gains, hollow=True)] if gains else []


def near_far(tables: Tables) -> Figure:
    """Question 7: M_c, area under the curve and solved share by how far a failure's goal lies."""
    title = "Question 7 · Are near misses more informative than far ones?"
    plan = tables.plan
    runs = tables.read("runs.parquet", ["seed", "auc", "solved"])
    if runs.empty:
        return style.nothing(title, plan["source"], tables.fidelity)
    levels = {text: float(v["failure_distance"]) for text, v in levels_of(plan).items()}
    by_condition = read_m_c(tables)
    arm = arm_of(tables)
    look = look_of(plan, arm)
    drawn = (
        "thick: mean over all runs with 95 % interval (bootstrap; share: Wilson); thin: each "
        f"condition; of {style.M_C} only the shape is read"
    )
    counts = runs.groupby(["level", "condition"])["seed"].nunique().unique().tolist()
    head = style.Head(title, subtitle(plan, tables.fidelity, counts, drawn), (look.handle(arm),))
    titles = [style.M_C, "area under the curve (mean scaled return)", "share of seeds solved"]
    fig, axes = points.panels(head, titles, style.KEYS["failure_distance"])
    points.draw_along(axes[0], m_c_along(look, by_condition))
    points.draw_along(axes[1], points.mean_along(runs, levels, "auc", look))
    points.draw_along(axes[2], points.mean_along(runs, levels, "solved", look, points.share))
    if not by_condition:
        style.note(axes[0], "not recorded")
    axes[0].set_xscale("log")
    axes[0].set_xticks(sorted(levels.values()), [f"{x:g}" for x in sorted(levels.values())])
    axes[0].minorticks_off()
    axes[0].set_ylim(bottom=0)
    axes[2].set_ylim(-0.03, 1.03)
    return fig
