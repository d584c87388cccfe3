"""What a figure says, for tests."""

from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from hindsight.figures.draw import figure_of


@cache
def picture(name: str, tables: Path) -> tuple[Figure, NDArray[np.float64]]:
    """A figure of results/tables/<preset>, and its pixels [row, column, colour], its lowest row
    first; drawn once, at a third of its dots.
    """
    figure = figure_of(name, tables)
    figure.set_dpi(50)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return figure, np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(float)


def drawn(name: str, tables: Path) -> Figure:
    """The figure."""
    return picture(name, tables)[0]


def texts(figure: Figure) -> str:
    """All that stands in and above the panels, no-break spaces as spaces."""
    inside = [text.get_text() for ax in figure.axes for text in ax.texts]
    words = [*(text.get_text() for text in figure.texts), *inside]
    return " ".join(words).replace("\u00a0", " ").replace("\n", " ")


def labels(figure: Figure) -> list[str]:
    """The legends' entries."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def line_of(ax: Axes, colour: str) -> Line2D:
    """The line with most points of this colour."""
    found = [line for line in ax.lines if line.get_color() == colour]
    return max(found, key=lambda line: np.size(line.get_xdata()))
