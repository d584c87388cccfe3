"""From tables to figures: one function per published figure, one style; never imports torch.

FIGURES names every figure with the experiment it is drawn from; `draw` draws one by name.  An
experiment that none of them is of has those that any can have.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from hindsight.figures import (
    beside,
    course,
    environment,
    fetch,
    grids,
    notebook,
    other_tasks,
    questions,
    s_ratio,
    sac_grid,
    stopping,
    style,
)
from hindsight.figures.tables import Tables
from hindsight.specs.config import EPISODES

__all__ = [
    "ALSO_READ",
    "FIGURES",
    "FigureSpec",
    "draw",
    "draw_for_paper",
    "figure_of",
    "name_under",
    "names_for",
    "names_there",
    "specs_of",
]


class FigureSpec(NamedTuple):
    """What a figure is drawn from, and how; fidelity: "" where there is none to tell."""

    experiment: str
    function: Callable[[Tables], Figure]
    caption: str
    fidelity: str


Drawn = dict[str, tuple[str, Callable[[Tables], Figure], str]]

_CURVES = (
    "Each panel is one condition: how the prey moves (column) and where the two start (row). The "
    "thick line is the median over seeds, the band holds the middle half of the seeds, each thin "
    "line is one seed. A return of 1 means that every episode ends with the prey caught. "
)
_BARS = (
    "A bar for each share of successes S among the training episodes: how high and how soon the "
    "median run learns (M_c). Only the shape is read, not the height. Shaded: the paper's best S."
)
_PUBLISHED: Drawn = {
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
    "ppo_her_fig5": (
        "fetch",
        fetch.weight_decays,
        "Each panel is one task (column) at one weight decay (row): success in training, with "
        "random actions. The thick line is the median over seeds, the band holds the middle half "
        "of the seeds, each thin line is one seed. A task is learned where the line comes near 1.",
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
    "meher_fig2": (
        "s_ratio",
        grids.s_ratio,
        _CURVES + "Colour is S, the share of successes among the training episodes: blue below "
        "one half, red above it, and a wide black line for S = 0.5.",
    ),
    "meher_fig3": ("s_ratio", s_ratio.bars, _BARS),
    "meher_fig4": (
        "targeted",
        grids.s_ratio_targeted,
        _CURVES + "Colour is S; failures are near misses, just beyond the final position.",
    ),
    "meher_fig5": ("targeted", s_ratio.bars_targeted, _BARS),
    "meher_fig6": (
        "stop_her",
        grids.stopping_by_steps,
        _CURVES + "PPO-HER-2-PPO switches hindsight off once half of the episodes succeed.",
    ),
    "meher_fig7": (
        "stop_her",
        grids.stopping_by_minutes,
        _CURVES + "Here the axis is training time: what hindsight costs once it is not needed. "
        "In words: the share of the time that switching it off saves, with its 95 % interval, for "
        "runs of one seed, up to where the first of the two ended.",
    ),
    "entropy": (
        "algorithms",
        course.entropy,
        "Success rate (upper row of each pair) and policy entropy (lower row) of the same runs: "
        "whether runs that have learnt fall back once their actions are hardly random any more.",
    ),
}
_BESIDE: Drawn = {
    "algorithms_in_common": (
        "algorithms",
        grids.algorithms_in_common,
        _CURVES + "As PPO-HER Fig. 2, up to the smallest number of steps that an algorithm had.",
    ),
    "sac_grid": (
        "sac_grid",
        sac_grid.by_setting,
        "How SAC-HER depends on which goals it replays, how many of them, and how fast it learns: "
        "the best and the final return, and the steps that the median run needed.",
    ),
    "curves_sac_stop_her": (
        "sac_stop_her",
        grids.experiment,
        _CURVES + "SAC-HER-2-SAC switches hindsight off once half of the episodes succeed.",
    ),
    "curves_sac_stop_her_minutes": (
        "sac_stop_her",
        grids.experiment_by_minutes,
        _CURVES + "Here the axis is training time; hindsight adds no samples to SAC's batches.",
    ),
    "s_ratio_summary": (
        "s_ratio",
        s_ratio.summary,
        "Left, M_c over the share of successes S, all conditions together; right, the S with the "
        "highest M_c in each. Shaded: what the paper found best.",
    ),
    "time_saved": (
        "stop_her",
        stopping.time_saved,
        "What switching hindsight off saves of PPO-HER's computation (left; shaded: the paper's 45 "
        "to 56 %), what it costs in return (centre; shaded: the margin within which both count "
        "as equal), and when it happened (right).",
    ),
    "curves_stop_her_steps": (
        "stop_her_steps",
        grids.experiment,
        _CURVES + "PPO-HER-2-PPO switches hindsight off after a fixed number of steps.",
    ),
    "curves_to_meher": (
        "to_meher",
        grids.experiment,
        _CURVES + "Hindsight is not switched off but balanced: half successes, half failures.",
    ),
    "curves_network": (
        "network",
        grids.experiment,
        _CURVES
        + "Wide lines: the papers' network, three layers of 512. Thin lines: two layers of 64.",
    ),
    "curves_forced_entropy": (
        "forced_entropy",
        grids.experiment,
        _CURVES + "The policy's standard deviation starts at 0.6 rather than 1.",
    ),
}
_BY_STRATEGY = (
    "Above, each panel is one way to choose the goals of relabelled transitions; colour is k, of "
    "which k of k + 1 transitions are relabelled. Below, the same by k: at the end, and over the "
    "whole of training, which rewards learning early."
)
QUESTIONS: Drawn = {
    "question_rarely_moves": (
        "rarely_moves",
        questions.rarely_moves,
        "The achieved goal is an object that moves only when touched. Above, success over "
        "training; below, what hindsight adds to PPO, with and without copies of episodes in which "
        "the object never moved.",
    ),
    "question_stability": (
        "stability",
        questions.stability,
        "Success rate, policy entropy, its log σ and the drop from a run's best return so far; "
        "below, what runs had lost at the end.",
    ),
    "question_stochasticity": (
        "stochasticity",
        questions.stochasticity,
        "Return with and without hindsight for three ways to explore, and the largest log "
        "importance weight of a relabelled sample: how far copies are from the policy that PPO "
        "takes them to come from. Below, what hindsight adds.",
    ),
    "question_switch_off": (
        "switch_off",
        stopping.thresholds,
        "Return, solved seeds and cost by the success rate at which hindsight is switched off.",
    ),
    "question_generalise": (
        "generalise",
        other_tasks.generalise,
        "Success on the tasks of other systems with PPO, PPO-HER and MEHER; below, the same by the "
        "share of successes S among the training episodes.",
    ),
    "question_signals": (
        "s_ratio",
        s_ratio.signals,
        "Entropy of what the agent trains on by the share of successes S, beside the entropy of a "
        "Bernoulli variable that motivates S = 0.5.",
    ),
    "question_near_far": (
        "near_far",
        questions.near_far,
        "How learning depends on how far from the final position the goal of a failure is put, "
        "with as many successes as failures.",
    ),
    "question_moving_goals": (
        "moving_goals",
        fetch.moving_goals,
        "Above, success over training on tasks whose achieved goal moves in every episode, or "
        "rests until it is touched. Below, a row per task: how often and how far the achieved goal "
        "moves before anything is learned, and what hindsight adds to PPO. Were the benefit to "
        "grow with movement, gains would grow from the top row to the lowest.",
    ),
}
OTHER_TASKS: Drawn = {
    "notebook": (
        "point_reach",
        notebook.training,
        "What the notebook shows of its one run, of every seed here: return and success of each "
        "episode, with exploration noise; losses and mean Q of the updates. The dotted line is "
        "where the notebook ends, the red one what it printed for its last 25 episodes.",
    ),
    "point_reach": (
        "point_reach",
        notebook.reached,
        "Left, success over training with actions that are not random; centre, the 25 episodes "
        "whose success the notebook printed; right, success at the end.",
    ),
    "bit_flipping": (
        "bit_flipping",
        other_tasks.bits,
        "With more bits a reward by chance becomes rare: a method fails where its line falls. "
        "Left, with and without hindsight and priorities; right, hindsight by its strategy.",
    ),
    "bit_flipping_curves": (
        "bit_flipping",
        other_tasks.bits_curves,
        "Each panel is one number of bits. Success is that of evaluation episodes without random "
        "actions.",
    ),
    "bit_strategies": ("bit_strategies", other_tasks.strategies, _BY_STRATEGY),
    "reach_strategies": ("reach_strategies", other_tasks.strategies, _BY_STRATEGY),
    "fetch_rollout": (
        "fetch_rollout",
        fetch.rollout_lengths,
        "Success at the end, without random actions, by how many steps PPO collects before each "
        "update: whether longer rollouts help where PPO-HER fails.",
    ),
    "fetch_off_policy": (
        "fetch_off_policy",
        fetch.off_policy,
        "The tasks of PPO-HER Fig. 5 with off-policy algorithms and hindsight, and PPO and PPO-HER "
        "beside them, each within its own budget: whether a task is hard, or hard for PPO.",
    ),
    "fetch_strategies": (
        "fetch_strategies",
        other_tasks.strategies,
        "Each panel is one way to choose the goals of relabelled transitions on FetchReach. Below, "
        "the same at the end, and over the whole of training, which rewards learning early.",
    ),
}
_SHARE = (
    "In each condition, the share of seeds that reached a success rate of 95 % over 100 episodes, "
    "with its 95 % interval. Unlike a median, it shows the seeds that never learn."
)
_AGGREGATE = (
    "All conditions pooled. Left, the mean of the middle half of all final evaluations; centre, "
    "their plain mean (of tasks whose returns have no common scale: success at the end, and over "
    "training); right, the share of seeds that solved their task. Bars are 95 % intervals."
)
_COMPARED = (
    "algorithms", "learning_rate", "her_strategy", "agent_size", "grid_size", "dimensions",
    "s_ratio", "targeted", "stop_her", "stop_her_steps", "to_meher", "forced_entropy",
    "sac_stop_her", "rarely_moves", "stability", "stochasticity", "switch_off", "near_far",
    "network",
)  # fmt: skip
#: Other experiments whose tables an experiment's figures also read, where the preset trains them.
ALSO_READ = {
    "s_ratio": ("targeted",),
    "switch_off": ("stop_her", "algorithms"),
    "rarely_moves": ("algorithms",),
    "fetch_off_policy": ("fetch",),
}
FIDELITIES = {"released": "", "described": "_described"}  # fidelity: ending of the figure's name


def name_under(name: str, fidelity: str) -> str:
    """A figure's name under a fidelity, by that under `released`."""
    return name + FIDELITIES[fidelity]


def _of_any(experiments: Iterable[str]) -> Drawn:
    """The figures that any experiment can have."""
    drawn: Drawn = {}
    for experiment in experiments:
        drawn[f"solved_share_{experiment}"] = (experiment, beside.solved_share, _SHARE)
        drawn[f"aggregate_{experiment}"] = (experiment, beside.aggregate, _AGGREGATE)
    return drawn


def _specs(drawn: Drawn) -> dict[str, FigureSpec]:
    return {
        name + ending: FigureSpec(*what, fidelity)
        for name, what in drawn.items()
        for fidelity, ending in FIDELITIES.items()
    }


FIGURES = {
    "ppo_her_fig1": FigureSpec(
        "environment",
        environment.episodes,
        "The environment: one episode per prey policy. The predator (orange) must come "
        "within the interception distance of the prey (blue). Open marks are starts.",
        "",
    )
} | _specs(_PUBLISHED | _BESIDE | QUESTIONS | OTHER_TASKS | _of_any(_COMPARED))


def specs_of(experiments: Iterable[str]) -> dict[str, FigureSpec]:
    """FIGURES, and those of these experiments that have none of their own among them."""
    known = {spec.experiment for spec in FIGURES.values()}
    return FIGURES | _specs(_of_any(name for name in experiments if name not in known))


def names_for(experiment: str, fidelities: Sequence[str]) -> list[str]:
    """Names of the figures of an experiment that is trained under these fidelities."""
    return [
        name
        for name, spec in specs_of([experiment]).items()
        if spec.experiment == experiment and spec.fidelity in ("", *fidelities)
    ]


def names_there(tables_root: Path) -> list[str]:
    """Names of the figures of what was planned under `<tables_root>/<experiment>/`."""
    found: list[str] = []
    for path in sorted(tables_root.glob("*/plan.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
        found += names_for(path.parent.name, list(dict.fromkeys(e["fidelity"] for e in entries)))
    pictured = (tables_root / EPISODES).exists()
    return found + names_for(EPISODES.parent.name, []) * pictured


def figure_of(name: str, tables_root: Path, *, paper: bool = False) -> Figure:
    """Figure `name`, from `<tables_root>/<experiment>/`; KeyError names the figures there are."""
    there = specs_of(path.name for path in sorted(tables_root.glob("*/")))
    if name not in there:
        raise KeyError(f"there is no figure {name!r}; there are {', '.join(there)}")
    spec = there[name]
    with style.styled(paper=paper):
        return spec.function(Tables(tables_root / spec.experiment, spec.fidelity))


def draw(name: str, tables_root: Path, out_stem: Path) -> tuple[Path, Path]:
    """Draw figure `name` to `<out_stem>.png` and `.pdf`."""
    return style.save(figure_of(name, tables_root), out_stem)


def draw_for_paper(name: str, tables_root: Path, out_stem: Path) -> Path:
    """Draw figure `name` to `<out_stem>.pdf`: 3.3 or 6.9 inches wide, no title, no settings."""
    return style.save_for_paper(figure_of(name, tables_root, paper=True), out_stem)
