"""From tables to figures; never imports torch.

figures.yaml says which figures there are and what each shows; `draw` draws one by name.  What draws
is imported once something is drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hindsight.figures.specs import (
    FIDELITIES,
    FIGURES,
    FigureSpec,
    name_under,
    names_for,
    names_there,
    of_any,
    specs_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FIDELITIES",
    "FIGURES",
    "FigureSpec",
    "draw",
    "draw_for_paper",
    "draw_spec",
    "figure_of",
    "name_under",
    "names_for",
    "names_there",
    "of_any",
    "specs_of",
]


def draw_spec(spec: FigureSpec, folder: Path, *, paper: bool = False) -> "Figure":
    """The figure of a spec, from the tables in `folder`."""
    from hindsight.figures import kinds, style
    from hindsight.figures.tables import Tables

    with style.styled(paper=paper):
        return kinds.KINDS[spec.kind](Tables(folder, spec.fidelity), spec)


def figure_of(name: str, tables_root: Path, *, paper: bool = False) -> "Figure":
    """Figure `name`, from `<tables_root>/<experiment>/`; KeyError names the figures there are."""
    there = specs_of(path.name for path in sorted(tables_root.glob("*/")))
    if name not in there:
        raise KeyError(f"there is no figure {name!r}; there are {', '.join(there)}")
    return draw_spec(there[name], tables_root / there[name].experiment, paper=paper)


def draw(
    name: str, tables_root: Path, out_stem: Path, kinds: Sequence[str] = ("png", "pdf")
) -> list[Path]:
    """Draw figure `name` to `<out_stem>.<kind>` for each of these kinds; returns their paths."""
    from hindsight.figures import style

    return style.save(figure_of(name, tables_root), out_stem, kinds=kinds)


def draw_for_paper(name: str, tables_root: Path, out_stem: Path) -> Path:
    """Draw figure `name` to `<out_stem>.pdf`: 3.3 or 6.9 inches wide, no title, no settings."""
    from hindsight.figures import style

    figure = figure_of(name, tables_root, paper=True)
    return style.save(figure, out_stem, kinds=("pdf",), paper=True)[0]
