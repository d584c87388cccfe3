"""The kinds of figures, by the names that figures.yaml has for them."""

from collections.abc import Callable

from matplotlib.figure import Figure

from hindsight.figures import curves, environment, learned, points
from hindsight.figures.specs import FigureSpec
from hindsight.figures.tables import Tables

KINDS: dict[str, Callable[[Tables, FigureSpec], Figure]] = {
    "curves": curves.draw,
    "along": points.along,
    "intervals": points.intervals,
    "episodes": environment.draw,
    "learned": learned.draw,
}
