"""What a figure says, for tests."""

from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from hindsight.figures import figure_of


@cache
def drawn(name: str, tables: Path) -> Figure:
    """A figure of results/tables/<preset>, drawn once."""
    return figure_of(name, tables)


def texts(figure: Figure) -> str:
    """All that stands in and above the panels, no-break spaces as spaces."""
    inside = [text.get_text() for ax in figure.axes for text in ax.texts]
    words = [*(text.get_text() for text in figure.texts), *inside]
    return " ".join(words).replace("\u00a0", " ")


def labels(figure: Figure) -> list[str]:
    """The legends' entries."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]
