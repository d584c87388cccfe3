"""PPO-HER Fig. 1 and MEHER Fig. 1: the predator-prey environment, drawn from trajectories."""

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hindsight.envs import render
from hindsight.envs.episodes import Episode, load_episodes
from hindsight.figures import style
from hindsight.figures.tables import Tables


def figure_of_episodes(episodes: Sequence[Episode], title: str) -> Figure:
    """A row or two of episodes side by side with one legend."""
    if not episodes:
        raise ValueError("there is no episode to draw")
    columns = min(3, len(episodes))
    rows = -(-len(episodes) // columns)
    first = episodes[0]
    handles = (
        Line2D([], [], label="predator (shaded: its reach)", **render.PREDATOR),
        Line2D([], [], label="prey", **render.PREY),
    )
    n, g, r = first.n, first.grid_size, first.interception_distance
    where = (
        f"box [−{g:g}, {g:g}] in {n} dimensions, interception distance {r:g} · "
        "open mark: start, filled mark: end" + " · grey: shadow on the floor" * (n > 2)
    )
    head = style.Head(title, where, handles)
    # Flat panels fill their place: the numbers at their walls need some beside them.
    width, gap = style.wide(max(7.2, 2.75 * columns), columns), 0.6
    panel = min(2.5 if n > 2 else 2.15, width / columns - 0.2)
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
        # A box in three dimensions is not as high as its place: its title looks for where it ends.
        with matplotlib.rc_context({"axes.titley": None}):
            axes = fig.add_axes(place, projection="3d" if episode.n > 2 else None)
            render.draw_episode(axes, episode)
    return fig


def episodes(tables: Tables) -> Figure:
    """The published figure, from the folder's episodes.npz."""
    title = "PPO-HER Fig. 1, MEHER Fig. 1 · The predator-prey environment"
    return figure_of_episodes(load_episodes(tables.folder / "episodes.npz"), title)
