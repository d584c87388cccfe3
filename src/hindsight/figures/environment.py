"""Draw PPO-HER Fig. 1 and MEHER Fig. 1: trajectories in the predator-prey environment."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hindsight.envs import render
from hindsight.envs.episodes import Episode, load_episodes
from hindsight.figures import style
from hindsight.figures.specs import FigureSpec
from hindsight.figures.tables import Tables


def draw(tables: Tables, spec: FigureSpec) -> Figure:
    return figure_of_episodes(load_episodes(tables.folder / "episodes.npz"), spec.title)


def figure_of_episodes(episodes: Sequence[Episode], title: str) -> Figure:
    """A row or two of episodes side by side with one legend."""
    first, columns = episodes[0], min(3, len(episodes))
    n, g, r = first.n, first.grid_size, first.interception_distance
    where = (
        f"box [−{g:g}, {g:g}] in {n} dimensions, interception distance {r:g} · "
        "open mark: start, filled mark: end" + " · grey: shadow on the floor" * (n > 2)
    )
    handles = (
        Line2D([], [], label="predator (shaded: its reach)", **render.PREDATOR),
        Line2D([], [], label="prey", **render.PREY),
    )
    look = {"projection": "3d"} if n > 2 else {}
    fig = style.new_figure(-(-len(episodes) // columns), columns, (2.75, 2.6), subplot_kw=look)
    fig.get_layout_engine().set(w_pad=0.25, h_pad=0.25)  # type: ignore[union-attr, call-arg]
    for ax, episode in zip(fig.axes, episodes, strict=False):
        render.draw_episode(ax, episode)
        for line, path in (("predator", episode.predator), ("prey", episode.prey)):
            axes = {f"x{i}": path[:, i] for i in range(n)}
            style.record(episode.title, line=line, step=np.arange(len(path)), **axes)
        ax.set_in_layout(n == 2)  # matplotlib cannot measure 3D panels
    for ax in fig.axes[len(episodes) :]:
        ax.remove()
    return style.finish(fig, title, where, handles)
