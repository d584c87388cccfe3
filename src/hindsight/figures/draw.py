"""Draw figures by name, from experiments' tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from matplotlib.figure import Figure

from hindsight.figures import curves, environment, learned, panels, points, style
from hindsight.figures.specs import FigureSpec, Kind, made_from, specs_of
from hindsight.figures.tables import Tables
from hindsight.io.records import Making
from hindsight.io.startup import side_by_side
from hindsight.specs.errors import must_agree

DRAWERS = {
    "curves": curves.draw,
    "along": points.along,
    "intervals": points.intervals,
    "episodes": environment.draw,
    "learned": learned.draw,
}
must_agree("kind of figure", get_args(Kind), DRAWERS)


def draw_spec(spec: FigureSpec, folder: Path, *, paper: bool = False) -> Figure:
    """Return the figure of a spec, from the tables in `folder`."""
    tables = Tables(folder, spec.fidelity)
    with style.styled(paper=paper):
        try:
            return DRAWERS[spec.kind](tables, spec)
        except panels.NoResults:
            return panels.nothing(tables, spec)


def figure_of(name: str, tables_root: Path, *, paper: bool = False) -> Figure:
    """Return figure `name` from `<tables_root>/<experiment>/`."""
    there = specs_of(path.name for path in sorted(tables_root.glob("*/")))
    return draw_spec(there[name], tables_root / there[name].experiment, paper=paper)


def draw(
    name: str,
    tables_root: Path,
    out_stem: Path,
    kinds: Sequence[str] = ("png", "pdf"),
    *,
    paper: bool = False,
) -> list[Path]:
    """Draw figure `name` to `<out_stem>.<kind>` for each of these kinds; return the paths.

    With `paper`, it is 3.3 or 6.9 inches wide, without title and settings.
    """
    figure = figure_of(name, tables_root, paper=paper)
    return style.save(figure, out_stem, kinds=kinds, paper=paper)


def draw_all(
    out: Sequence[Path],
    tables: Path,
    episodes: Path,
    processes: int = 1,
    planned: str | None = None,
) -> None:
    """Draw PNG files, each named after its figure, from a source's folder of tables.

    episodes: the file that the figure of the environment is drawn from. `planned`: see `Making`.

    Raises:
        DamagedError: tables were changed after they were written.
        FileError: the code is not the planned one, or code or tables changed meanwhile.
    """
    specs = specs_of(path.name for path in tables.glob("*/"))
    sources = [made_from(specs[path.stem].experiment, tables, episodes) for path in out]
    making = Making("figures", dict.fromkeys(name for some in sources for name in some), planned)
    todo = [
        (path.stem, Path(source).parents[1], path.with_suffix(""), ("png",))
        for path, (source, *_) in zip(out, sources, strict=True)
    ]
    side_by_side(draw, todo, processes)
    making.record(out[0], out[1:])
