"""Draw the share of runs that have learned over environment steps, one line per arm."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, PercentFormatter

from hindsight.figures import style
from hindsight.figures.panels import NoResults
from hindsight.figures.specs import FigureSpec
from hindsight.figures.tables import Tables, called, chosen, look_of, values

#: Inches of the panels together, small enough to be legible on a phone.
SIZE = (5.2, 1.75)
MEASURED = "Share of runs that have learned (nine of ten episodes succeed)"
FIRST = 1_500  # steps at the start of the axis, unless a run learns sooner
TICKS = (3_000, 30_000, 300_000)


def draw(tables: Tables, spec: FigureSpec) -> Figure:
    """Draw the share of each arm's runs whose training return has reached 0.8, by start.

    A line ends at its arm's budget. The fields of the title are each arm's number of such runs (a
    dash if it has none), and `runs`, the number of runs of the first arm that has any.
    """
    entries = [entry for entry in chosen(tables.plan, spec) if not entry["level"]]
    runs = tables.read("runs.parquet", ["seed", "learn_step"])
    if not runs["arm"].isin([entry["arm"] for entry in entries]).any():
        raise NoResults
    spawns = values(tables.plan, entries, "spawn")
    figure = Figure(SIZE, dpi=style.DPI, layout="constrained")
    panels = figure.subplots(1, len(spawns), sharey=True, squeeze=False)[0]
    looks = {arm: look_of(tables.plan, arm) for arm in spec.arms}
    longest = max(entry["steps"] for entry in entries)
    shown = runs["condition"].isin({entry["condition"] for entry in entries})
    soonest = runs["learn_step"][runs["arm"].isin(spec.arms) & shown].min()  # NaN: none learns
    first = np.nanmin([FIRST, soonest, min(entry["steps"] for entry in entries) / 2])
    ticks = [tick for tick in TICKS if first <= tick <= longest]
    for ax, spawn in zip(panels, spawns, strict=True):
        for arm, look in looks.items():
            own = [e for e in entries if (e["arm"], e["spawn"]) == (arm, spawn)]
            places = [entry["condition"] for entry in own]
            steps = runs[(runs["arm"] == arm) & runs["condition"].isin(places)]["learn_step"]
            if steps.empty:
                continue
            reached = np.sort(steps.dropna().to_numpy(float))
            x = np.array([first, *reached, max(entry["steps"] for entry in own)])
            y = np.append(np.arange(reached.size + 1), reached.size) / steps.size
            name = called("arm", arm)
            style.record(called("spawn", spawn), measure=MEASURED, line=name, env_steps=x, share=y)
            ax.step(x, y, where="post", **look.drawn(marker="none", clip_on=False))
        ax.set(xscale="log", xlim=(first, longest), ylim=(0, 1.05), yticks=np.linspace(0, 1, 6))
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_title(called("spawn", spawn))
    steps_by_arm = runs.groupby("arm")["learn_step"]
    learned, trained = steps_by_arm.count(), steps_by_arm.size()
    there = [arm for arm in spec.arms if arm in trained]
    counts = {arm: str(learned[arm]) for arm in there}
    most = trained[there[0]]
    counts |= {arm: f"{n} of {trained[arm]}" for arm, n in counts.items() if trained[arm] != most}
    counts |= {arm: f"all {n}" for arm, n in counts.items() if learned[arm] == trained[arm]}
    title = spec.title.format(*(counts.get(arm, "–") for arm in spec.arms), runs=most)
    handles = [looks[arm].handle(arm, marker="none") for arm in there]
    x_label, y_label = "environment steps, logarithmic", "runs that have learned"
    return style.finish(figure, title, MEASURED, handles, x_label=x_label, y_label=y_label)
