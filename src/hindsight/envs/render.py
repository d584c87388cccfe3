"""Images of episodes; predator-prey looks like Fig. 1 of both papers.

All functions take NumPy arrays and avoid pyplot's global state.  They draw gymnasium's `rgb_array`,
the frames of animations, and the published figure.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindsight.envs.episodes import Episode, Positions
from hindsight.io.startup import import_matplotlib
from hindsight.specs.environments.bit_flipping import BitFlippingSpec
from hindsight.specs.environments.point_reach import PointReachSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure


def _look(color: str, linestyle: Any, marker: str, linewidth: float) -> dict[str, Any]:
    return {"color": color, "linestyle": linestyle, "marker": marker, "linewidth": linewidth}


# Colours of Okabe & Ito (2008); line styles and markers differ as well.
PREDATOR = _look("#D55E00", "-", "o", 1.6)
PREY = _look("#0072B2", (0, (4, 1.6)), "s", 1.4)
PUSHED = _look("#009E73", (0, (5, 1.3, 1, 1.3)), "D", 1.4)
SHADOW = "#AAAAAA"
GRID = "#E4E4E4"


def _figure(height: float = 4.8) -> "Figure":
    """An empty figure, 4.8 inches wide."""
    import_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(4.8, height), dpi=100, facecolor="white")


def figure_axes(n: int, pushes_object: bool = False) -> tuple["Figure", Any]:
    """A square figure with 2-D axes for n = 2, or 3-D axes for n > 2."""
    figure = _figure()
    from matplotlib.lines import Line2D

    looks = {"predator": PREDATOR, "prey": PREY} | ({"object": PUSHED} if pushes_object else {})
    handles = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="lower left", ncols=3, frameon=False, handlelength=3)
    if n == 2:
        return figure, figure.add_axes((0.115, 0.125, 0.77, 0.77))
    return figure, figure.add_axes((0.03, 0.05, 0.9, 0.86), projection="3d")


def pixels_of(figure: "Figure") -> NDArray[np.uint8]:
    """Render a figure as an image [height, width, 3], uint8."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw_episode(axes: Any, episode: Episode) -> None:
    """Draw an episode so far on 2-D or 3-D axes.

    Open markers are starts, filled ones current positions; the interception distance is shaded.  Of
    more dimensions, three are drawn, and a caught prey where it was intercepted.
    """
    predator, prey = episode.predator, episode.prey
    solid = hasattr(axes, "set_zlim")
    n, shown = episode.n, 3 if solid else 2
    if episode.caught:
        prey = np.concatenate([prey[:-1], prey[-2:-1]])
    pushed = [] if episode.pushed is None else [(PUSHED, episode.pushed)]
    for look, positions in ((PREY, prey), *pushed, (PREDATOR, predator)):
        _path(axes, look, positions[:, :shown], episode.grid_size)
    _reach(axes, predator[-1, :shown], episode.interception_distance)
    _box(axes, episode.grid_size, solid)
    distance = np.linalg.norm(episode.achieved[-1] - prey[-1])
    words = [f"step {episode.steps}", "caught" if episode.caught else f"distance {distance:.1f}"]
    if n > shown:
        words.append(f"{shown} of {n} dimensions")
    # Two lines, because the title of more than three dimensions is wider than the image.
    lines = [episode.title.replace("_", " "), ", ".join(words)]
    axes.set_title("\n".join(filter(None, lines)), pad=2 if solid else 6)


def _path(axes: Any, look: dict[str, Any], path: Positions, grid_size: float) -> None:
    """Draw a trajectory [T + 1, 2 or 3], from an open marker to a filled one."""
    if path.shape[1] == 3:
        # A shadow on the floor, which shows depth in a still image.
        floor = [-grid_size] * len(path)
        axes.plot(path[:, 0], path[:, 1], floor, color=SHADOW, linewidth=0.9, zorder=0)
        stem = np.repeat(path[-1:], 2, axis=0)
        stem[0, 2] = -grid_size
        axes.plot(*stem.T, color=SHADOW, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=0)
    line = {key: look[key] for key in ("color", "linestyle", "linewidth")}
    axes.plot(*path.T, **line)
    mark = {"color": look["color"], "marker": look["marker"], "linestyle": "none", "markersize": 6}
    axes.plot(*path[:1].T, **mark, markerfacecolor="white")
    axes.plot(*path[-1:].T, **mark)


def _reach(axes: Any, centre: Positions, radius: float) -> None:
    """Draw the interception distance around the predator: a disc, or a wireframe ball."""
    if len(centre) == 2:
        from matplotlib.patches import Circle

        colour = PREDATOR["color"]
        axes.add_patch(Circle(tuple(centre), radius, facecolor=colour, alpha=0.2, linewidth=0))
        return
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 13), np.linspace(0, np.pi, 7))
    ball = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)])
    surface = centre[:, None, None] + radius * ball
    axes.plot_wireframe(*surface, color=PREDATOR["color"], linewidth=0.4, alpha=0.5)


def _box(axes: Any, grid_size: float, solid: bool) -> None:
    """Show the whole box to scale, with ticks at its walls and its centre."""
    ticks: Sequence[float] = [-grid_size, 0, grid_size]
    names = [f"−{grid_size:g}", "0", f"{grid_size:g}"]
    axes.set_xlim(-grid_size, grid_size)
    axes.set_ylim(-grid_size, grid_size)
    axes.set_xticks(ticks, names)
    if not solid:
        axes.set_yticks(ticks, names)
        axes.set_aspect("equal")
        axes.spines[:].set_visible(True)  # the walls
        axes.grid(False)
        return
    inner = ["", *names[1:]]  # labels of two axes would overlap at the box's corners
    axes.set_yticks(ticks, inner)
    axes.set_zlim(-grid_size, grid_size)
    axes.set_zticks(ticks, inner)
    axes.set_box_aspect((1, 1, 1))
    for fixed in itertools.product((-grid_size, grid_size), repeat=2):
        for along in range(3):
            edge = np.insert(np.repeat([fixed], 2, axis=0), along, [-grid_size, grid_size], axis=1)
            axes.plot(*edge.T, color=GRID, linewidth=0.8, zorder=0)
    axes.tick_params(pad=-2)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis.line.set_color(SHADOW)
        axis._axinfo["grid"].update(color=GRID, linewidth=0.6)


class Picture(NamedTuple):
    #: Draws the states [T + 1, obs] of an episode so far, given the specification.
    draw: Callable[[Any, Positions], NDArray[np.uint8]]
    fps: int  # steps per second in a film


def _of_predator_prey(spec: PredatorPreySpec, states: Positions) -> NDArray[np.uint8]:
    figure, axes = figure_axes(spec.n_dims, spec.pushes_object)
    draw_episode(axes, Episode.of(spec, states))
    return pixels_of(figure)


def _of_point_reach(spec: PointReachSpec, states: Positions) -> NDArray[np.uint8]:
    """The way to the target, which is reached within the disc; [480, 480, 3]."""
    path, target = states[:, :2], states[-1, 2:4]
    figure = _figure()
    from matplotlib.patches import Circle

    axes = figure.add_axes((0.115, 0.09, 0.8, 0.8))
    colour = PREY["color"]
    disc = Circle(tuple(target), spec.threshold, facecolor=colour, alpha=0.35, linewidth=0)
    axes.add_patch(disc)
    axes.plot(*target, color=colour, marker="+", markersize=8)
    _path(axes, PREDATOR, path, spec.range)
    _box(axes, spec.range, solid=False)
    axes.spines[:].set_color(SHADOW)
    distance = float(np.linalg.norm(path[-1] - target))
    there = "reached" if distance <= spec.threshold else f"distance {distance:.2f}"
    axes.set_title(f"step {len(path) - 1}, {there}")
    return pixels_of(figure)


def _of_bit_flipping(spec: BitFlippingSpec, states: Positions) -> NDArray[np.uint8]:
    """The bits above their goal, wrong ones framed; [240, 480, 3]."""
    bits, goal, _ = np.split(states[-1], 3)
    figure = _figure(2.4)
    axes = figure.add_axes((0.12, 0.08, 0.86, 0.72))
    wrong = np.flatnonzero(bits != goal)
    axes.pcolormesh([goal, bits], cmap="Blues", vmin=0, vmax=1.5, edgecolors=SHADOW)
    axes.bar(wrong + 0.5, 1.9, 0.9, 0.05, facecolor="none", edgecolor="black", linewidth=1.5)
    axes.set(xlim=(-0.1, len(bits) + 0.1), ylim=(-0.1, 2.1))
    axes.set_xticks([])
    axes.set_yticks([0.5, 1.5], ["goal", "bits"])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    there = f"{len(wrong)} of {len(bits)} wrong" if len(wrong) else "reached"
    axes.set_title(f"step {len(states) - 1}, {there}")
    return pixels_of(figure)


#: By environment ID; an environment without an entry can be trained, but not watched.
PICTURES = {
    "PredatorPrey-v0": Picture(_of_predator_prey, 5),
    "PointReach-v0": Picture(_of_point_reach, 20),
    "BitFlipping-v0": Picture(_of_bit_flipping, 2),
}
