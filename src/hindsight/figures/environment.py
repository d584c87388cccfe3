"""PPO-HER Fig. 1 and MEHER Fig. 1: the predator-prey environment, drawn from trajectories.

Everything takes NumPy arrays and draws on the axes it is given, on an Agg canvas, without pyplot:
the same function makes the figure, a frame of an animation and gymnasium's `rgb_array`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import NDArray

from hindsight.figures import style
from hindsight.files import write_whole

Array = NDArray[np.floating[Any]]
PREDATOR = style.Look("#D55E00", "-", "o", 1.6)
PREY = style.Look("#0072B2", (0, (4, 1.6)), "s", 1.4)


@dataclass(frozen=True)
class Episode:
    """One episode in the box [-grid_size, grid_size]^n; predator, prey: [T + 1, n], n >= 2.

    Position 0 is the start; ValueError for shapes that differ or one dimension.
    """

    predator: Array
    prey: Array
    grid_size: float
    interception_distance: float
    title: str = ""

    def __post_init__(self) -> None:
        if self.predator.shape != self.prey.shape or self.predator.ndim != 2:
            raise ValueError(
                f"predator {self.predator.shape} and prey {self.prey.shape} must both be [T + 1, n]"
            )
        if self.predator.shape[1] < 2:
            raise ValueError(f"an episode of {self.predator.shape[1]} dimensions cannot be drawn")


def draw_episode(ax: Axes, episode: Episode, upto: int | None = None) -> None:
    """Draw an episode up to step `upto` (default: to its end) on 2-D or 3-D axes.

    3-D axes (projection="3d") show n = 3; 2-D axes show the first two coordinates, and above n = 2
    say that they are a projection.  Starts are open marks, the present is filled.
    """
    last = len(episode.predator) - 1 if upto is None else upto
    solid = hasattr(ax, "set_zlim")
    shown = 3 if solid else 2
    for look, whole in ((PREY, episode.prey), (PREDATOR, episode.predator)):
        path = whole[: last + 1, :shown]
        if solid:  # the shadow on the floor: without it, depth cannot be read from a still picture
            floor = np.full(len(path), -episode.grid_size)
            ax.plot(path[:, 0], path[:, 1], floor, color="#AAAAAA", linewidth=0.9, zorder=0)
        ax.plot(*path.T, color=look.colour, linestyle=look.line, linewidth=look.width)
        mark: dict[str, Any] = {
            "color": look.colour,
            "marker": look.marker,
            "linestyle": "none",
            "markersize": 5.5,
        }
        ax.plot(*path[:1].T, **mark, markerfacecolor="white")
        ax.plot(*path[-1:].T, **mark)
    _reach(ax, episode, last, solid)
    _box(ax, episode, solid)
    ax.set_title(_title(episode, last, shown), pad=2 if solid else 5)


def _title(episode: Episode, last: int, shown: int) -> str:
    distance = np.linalg.norm(episode.predator[last] - episode.prey[last])
    outcome = "caught" if distance <= episode.interception_distance else f"distance {distance:.1f}"
    projected = episode.predator.shape[1] > shown
    words = [style.PREYS.get(episode.title, episode.title), f"step {last}, {outcome}"]
    if projected:
        words.append(f"{shown} of {episode.predator.shape[1]} dimensions")
    return "\n".join([words[0], ", ".join(words[1:])]).strip()


def _reach(ax: Axes, episode: Episode, last: int, solid: bool) -> None:
    """The interception distance around the predator: a circle, or a wire sphere."""
    radius, centre = episode.interception_distance, episode.predator[last]
    if not solid:
        ax.add_patch(
            Circle(tuple(centre[:2]), radius, facecolor=PREDATOR.colour, alpha=0.2, linewidth=0)
        )
        return
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 13), np.linspace(0, np.pi, 7))
    ball = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)])
    x, y, z = centre[:3, None, None] + radius * ball
    ax.plot_wireframe(x, y, z, color=PREDATOR.colour, linewidth=0.4, alpha=0.5)  # type: ignore[attr-defined]


def _box(ax: Axes, episode: Episode, solid: bool) -> None:
    """The whole box to scale, ticks at its middle and its walls."""
    g = episode.grid_size
    ticks, names = [-g, 0, g], [f"−{g:g}", "0", f"{g:g}"]
    ax.set_xlim(-g, g)
    ax.set_ylim(-g, g)
    ax.set_xticks(ticks, names)
    ax.set_yticks(ticks, names)
    if solid:
        inner = ["", *names[1:]]  # at the box's corners two axes' labels would share one place
        ax.set_yticks(ticks, inner)
        ax.set_zlim(-g, g)  # type: ignore[attr-defined]
        ax.set_zticks(ticks, inner)  # type: ignore[attr-defined]
        ax.set_box_aspect((1, 1, 1), zoom=1.0)  # type: ignore[arg-type, call-arg]
        ax.tick_params(pad=-3)
    else:
        ax.set_aspect("equal")
        ax.grid(False)


def figure_of_episodes(episodes: Sequence[Episode], title: str) -> Figure:
    """A row or two of episodes side by side with one legend."""
    if not episodes:
        raise ValueError("there is no episode to draw")
    columns = min(3, len(episodes))
    rows = -(-len(episodes) // columns)
    first = episodes[0]
    handles = (PREDATOR.handle("predator (shaded: its reach)"), PREY.handle("prey"))
    n, g, r = first.predator.shape[1], first.grid_size, first.interception_distance
    where = (
        f"box [−{g:g}, {g:g}] in {n} dimensions, interception distance {r:g} · "
        "open mark: start, filled mark: end" + " · grey: shadow on the floor" * (n == 3)
    )
    head = style.Head(title, where, handles)
    width, panel, gap = max(7.2, 2.75 * columns), 2.5, 0.45
    top = style.head_inches(head, width) + 0.3
    height = top + rows * panel + (rows - 1) * gap + 0.3
    fig = Figure(figsize=(width, height), dpi=style.DPI)
    style.draw_head(fig, head)
    step = (width - 0.4) / columns
    for index, episode in enumerate(episodes):
        row, column = divmod(index, columns)
        x = 0.3 + column * step + (step - panel) / 2
        y = height - top - panel - row * (panel + gap)
        place = (x / width, y / height, panel / width, panel / height)
        solid = episode.predator.shape[1] == 3
        draw_episode(fig.add_axes(place, projection="3d" if solid else None), episode)
    return fig


def render(episode: Episode, upto: int | None = None, pixels: int = 480) -> NDArray[np.uint8]:
    """One frame, [pixels, pixels, 3] uint8, as gymnasium's `rgb_array` wants it."""
    with style.styled():
        fig = Figure(figsize=(pixels / 100, pixels / 100), dpi=100)
        canvas = FigureCanvasAgg(fig)
        solid = episode.predator.shape[1] == 3
        ax = fig.add_axes((0.1, 0.07, 0.82, 0.82), projection="3d" if solid else None)
        draw_episode(ax, episode, upto)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def save_episodes(path: str | Path, episodes: Sequence[Episode]) -> Path:
    """Write episodes to an .npz that `load_episodes` reads; whole or not at all."""
    arrays: dict[str, Any] = {}
    for i, episode in enumerate(episodes):
        arrays[f"predator_{i}"], arrays[f"prey_{i}"] = episode.predator, episode.prey
        arrays[f"size_{i}"] = np.array([episode.grid_size, episode.interception_distance])
        arrays[f"title_{i}"] = np.array(episode.title)
    path = Path(path)
    write_whole(path, lambda part: np.savez(part, **arrays))
    return path


def load_episodes(path: str | Path) -> list[Episode]:
    """Episodes as `save_episodes` wrote them."""
    with np.load(path) as data:
        return [
            Episode(
                data[f"predator_{i}"],
                data[f"prey_{i}"],
                float(data[f"size_{i}"][0]),
                float(data[f"size_{i}"][1]),
                str(data[f"title_{i}"]),
            )
            for i in range(sum(name.startswith("predator_") for name in data.files))
        ]


def draw_folder(folder: Path) -> Figure:
    """The published figure, from `<folder>/episodes.npz`."""
    title = "PPO-HER Fig. 1, MEHER Fig. 1 · The predator-prey environment"
    return figure_of_episodes(load_episodes(folder / "episodes.npz"), title)
