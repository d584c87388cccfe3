"""Draw the share of runs that have learned over environment steps, one line per arm."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from hindsight.figures import style
from hindsight.figures.panels import NoResults
from hindsight.figures.specs import FigureSpec
from hindsight.figures.tables import Tables, chosen, look_of

#: Inches of the figure without its head, small enough to be legible on a phone.
SIZE = (4.7, 2.25)
MEASURED = "Share of runs that have learned (nine of ten episodes succeed)"
FIRST = 5_000  # steps at the start of the axis
TICKS = (10_000, 30_000, 100_000, 300_000)


def draw(tables: Tables, spec: FigureSpec) -> Figure:
    """Draw the share of each arm's runs whose training return has reached 0.8.

    The fields of the title are each arm's number of such runs, and `runs`, the number of all runs
    of an arm.
    """
    entries = [entry for entry in chosen(tables.plan, spec) if not entry["level"]]
    runs = tables.read("runs.parquet", ["seed", "learn_step"])
    runs = runs[runs["arm"].isin([entry["arm"] for entry in entries])]
    if runs.empty:
        raise NoResults
    figure = Figure(SIZE, dpi=style.DPI, layout="constrained")
    ax = figure.subplots()
    budget = max(entry["steps"] for entry in entries)
    counts, total = [], 0
    for arm, label in zip(spec.arms, spec.labels, strict=True):
        steps = np.sort(runs.loc[runs["arm"] == arm, "learn_step"].to_numpy(float))
        total, learned = max(total, steps.size), int(np.isfinite(steps).sum())
        look, share = look_of(tables.plan, arm), np.arange(learned + 1) / max(steps.size, 1)
        x = np.array([FIRST, *steps[:learned], budget])
        y = np.append(share, share[-1])
        style.record("", measure=MEASURED, line=label, env_steps=x, share=y)
        line = look.drawn(linewidth=look.width + 0.3, marker="none", clip_on=False)
        ax.step(x, y, where="post", **line)
        ax.annotate(label, (budget, share[-1]), (0, 3), textcoords="offset points", ha="right",
                    color=look.colour, size="medium", weight="bold")  # fmt: skip
        counts.append(f"all {learned}" if 0 < learned == steps.size else str(learned))
    ax.set(xscale="log", xlim=(FIRST, budget), ylim=(0, 1.13), yticks=np.linspace(0, 1, 6))
    ax.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    title = spec.title.format(*counts, runs=total)
    return style.finish(figure, title, MEASURED, x_label="environment steps, logarithmic")
