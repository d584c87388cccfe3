"""Pictures of an episode of predator-prey, like Fig. 1 of both papers.

Everything here takes NumPy arrays and draws without pyplot, so that gymnasium's `rgb_array`, the
frames of an animation and the published figure share one drawing and touch no global state.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from hindsight.envs.episodes import Episode, Positions

# Okabe & Ito (2008), told apart by line and mark as well.
PREDATOR: dict[str, Any] = {
    "color": "#D55E00",
    "linestyle": "-",
    "marker": "o",
    "linewidth": 1.6,
}
PREY: dict[str, Any] = {
    "color": "#0072B2",
    "linestyle": (0, (4, 1.6)),
    "marker": "s",
    "linewidth": 1.4,
}
PUSHED: dict[str, Any] = {
    "color": "#009E73",
    "linestyle": (0, (5, 1.3, 1, 1.3)),
    "marker": "D",
    "linewidth": 1.4,
}
SHADOW = "#AAAAAA"
GRID = "#E4E4E4"


def figure_axes(n: int, pushes_object: bool = False, pixels: int = 480) -> tuple[Figure, Any]:
    """A square figure with axes for n dimensions: flat for n = 2, else 3-D; ValueError below 2."""
    if n < 2:
        raise ValueError(f"an episode of {n} dimensions cannot be drawn: it takes 2 at least")
    figure = Figure(figsize=(pixels / 100, pixels / 100), dpi=100, facecolor="white")
    FigureCanvasAgg(figure)
    looks = {"predator": PREDATOR, "prey": PREY} | ({"object": PUSHED} if pushes_object else {})
    handles = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="lower left", ncols=3, frameon=False, handlelength=3)
    if n == 2:
        return figure, figure.add_axes((0.115, 0.125, 0.77, 0.77))
    return figure, figure.add_axes((0.03, 0.05, 0.9, 0.86), projection="3d")


def pixels_of(figure: Figure) -> NDArray[np.uint8]:
    """The figure as an image, [height, width, 3] uint8."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg), "figure_axes makes such figures"
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw_episode(axes: Any, episode: Episode) -> None:
    """Draw an episode so far on axes of `figure_axes`, flat or 3-D; ValueError if n is below that.

    Starts are open marks, the present is filled, the predator's reach is shaded; above three
    dimensions the first three are drawn.  A prey that was caught is drawn where it was met.
    """
    predator, prey = episode.predator, episode.prey
    solid = hasattr(axes, "set_zlim")
    n, shown = episode.n, 3 if solid else 2
    if n < shown:
        raise ValueError(f"positions of {n} dimensions cannot be drawn on axes of {shown}")
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
    # Two lines: above three dimensions one is wider than the picture.
    lines = [episode.title.replace("_", " "), ", ".join(words)]
    axes.set_title("\n".join(filter(None, lines)), pad=2 if solid else 6)


def _path(axes: Any, look: dict[str, Any], path: Positions, grid_size: float) -> None:
    """One agent's way [T + 1, 2 or 3], from an open mark to a filled one."""
    if path.shape[1] == 3:
        # The shadow on the floor: without it, depth cannot be read from a still picture.
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
    """The interception distance around the predator: a disc, or a ball of wire."""
    if len(centre) == 2:
        colour = PREDATOR["color"]
        axes.add_patch(Circle(tuple(centre), radius, facecolor=colour, alpha=0.2, linewidth=0))
        return
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 13), np.linspace(0, np.pi, 7))
    ball = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)])
    surface = centre[:, None, None] + radius * ball
    axes.plot_wireframe(*surface, color=PREDATOR["color"], linewidth=0.4, alpha=0.5)


def _box(axes: Any, grid_size: float, solid: bool) -> None:
    """The whole box to scale, ticks at its walls and its middle."""
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
    inner = ["", *names[1:]]  # at the box's corners two axes' labels would share one place
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
