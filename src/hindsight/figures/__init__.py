"""From tables to figures: one function per published figure, one style; never imports torch.

FIGURES names every figure with the experiment it is drawn from; `draw` draws one by name.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from hindsight.figures import beside, environment, grids, style
from hindsight.figures.tables import Tables

__all__ = ["FIGURES", "FigureSpec", "draw", "names_for"]


class FigureSpec(NamedTuple):
    """What a figure is drawn from, and how; `function` takes the folder of its tables."""

    experiment: str
    function: Callable[[Path], Figure]
    caption: str
    fidelity: str | None = None


_CURVES = (
    "Each panel is one condition: how the prey moves (column) and where the two start (row). The "
    "thick line is the median over seeds, the band holds the middle half of the seeds, each thin "
    "line is one seed. A return of 1 means that every episode ends with the prey caught. "
)
_PUBLISHED: dict[str, tuple[str, Callable[[Tables], Figure], str]] = {
    "ppo_her_fig2": (
        "algorithms",
        grids.algorithms_by_steps,
        _CURVES + "The further left a curve rises, the fewer environment steps it needed.",
    ),
    "ppo_her_fig3": (
        "algorithms",
        grids.algorithms_by_minutes,
        _CURVES + "Here the axis is training time, so that the cost of relabelling counts.",
    ),
    "ppo_her_fig4": (
        "learning_rate",
        grids.learning_rate,
        _CURVES + "Colour is the learning rate: the closer the colours, the less it matters.",
    ),
    "ppo_her_figA1": (
        "her_strategy",
        grids.her_strategy,
        _CURVES + "Colour is the number of relabelled copies; black is the strategy `final`.",
    ),
    "ppo_her_figA2": (
        "agent_size",
        grids.agent_size,
        _CURVES + "Colour is how near the predator must come: the nearer, the rarer the reward.",
    ),
    "ppo_her_figA3": (
        "grid_size",
        grids.grid_size,
        _CURVES + "Colour is the size of the box: in a larger one a chance encounter is rarer.",
    ),
    "ppo_her_figA4": (
        "dimensions",
        grids.dimensions_with_her,
        _CURVES + "Colour is the number of dimensions of the box; with hindsight replay.",
    ),
    "ppo_her_figA5": (
        "dimensions",
        grids.dimensions_without_her,
        _CURVES + "Colour is the number of dimensions of the box; without hindsight replay.",
    ),
    "entropy": (
        "algorithms",
        beside.entropy,
        "Success rate (upper row of each pair) and policy entropy (lower row) of the same runs: "
        "whether runs that have learnt fall back once their actions are hardly random any more.",
    ),
}
_SHARE = (
    "In each condition, the share of seeds that reached a success rate of 95 % over 100 episodes, "
    "with its 95 % interval. Unlike a median, it shows the seeds that never learn."
)
_AGGREGATE = (
    "All conditions pooled. Left, the mean of the middle half of all final evaluations; centre, "
    "their plain mean; right, the share of seeds that solved their task. Bars are 95 % intervals."
)
_SWEEPS = ("algorithms", "learning_rate", "her_strategy", "agent_size", "grid_size", "dimensions")
FIDELITIES = {"released": "", "described": "_described"}  # fidelity: ending of the figure's name


def _under(function: Callable[[Tables], Figure], fidelity: str, folder: Path) -> Figure:
    return function(Tables(folder, fidelity))


def _all_figures() -> dict[str, FigureSpec]:
    drawn = dict(_PUBLISHED)
    for experiment in _SWEEPS:
        drawn[f"solved_share_{experiment}"] = (experiment, beside.solved_share, _SHARE)
        drawn[f"aggregate_{experiment}"] = (experiment, beside.aggregate, _AGGREGATE)
    figures = {
        "ppo_her_fig1": FigureSpec(
            "environment",
            environment.draw_folder,
            "The environment: one episode per prey policy. The predator (orange) must come "
            "within the interception distance of the prey (blue). Open marks are starts.",
        )
    }
    for name, (experiment, function, caption) in drawn.items():
        for fidelity, ending in FIDELITIES.items():
            figures[name + ending] = FigureSpec(
                experiment, partial(_under, function, fidelity), caption, fidelity
            )
    return figures


FIGURES = _all_figures()


def names_for(experiment: str, fidelities: Sequence[str]) -> list[str]:
    """Names of the figures of an experiment that is trained under these fidelities."""
    return [
        name
        for name, spec in FIGURES.items()
        if spec.experiment == experiment and (spec.fidelity is None or spec.fidelity in fidelities)
    ]


def draw(name: str, tables_root: str | Path, out_stem: str | Path) -> tuple[Path, Path]:
    """Draw figure `name` from `<tables_root>/<experiment>/` to `<out_stem>.png` and `.pdf`.

    KeyError names the figures there are.
    """
    if name not in FIGURES:
        raise KeyError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    spec = FIGURES[name]
    with style.styled():
        figure = spec.function(Path(tables_root) / spec.experiment)
    return style.save(figure, out_stem)
