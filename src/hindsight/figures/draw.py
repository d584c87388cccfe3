"""Draw figures by name, from experiments' tables."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from hindsight.analysis.summarise import read_plan
from hindsight.figures import curves, environment, learned, panels, points, style
from hindsight.figures.specs import FigureSpec, Kind, OwnStyle, made_from, specs_of
from hindsight.figures.tables import Tables
from hindsight.io.files import write_whole
from hindsight.io.records import RECORD, Making, must_be_as_made
from hindsight.io.startup import side_by_side
from hindsight.specs.config import EPISODES, PICTURE
from hindsight.specs.errors import SpecError, must_agree, must_be_among, validated
from hindsight.specs.reading import read_keys

DRAWERS = {
    "curves": curves.draw,
    "along": points.along,
    "intervals": points.intervals,
    "episodes": environment.draw,
    "learned": learned.draw,
}
must_agree("kind of figure", get_args(Kind), DRAWERS)


def draw_spec(spec: FigureSpec, folder: Path, drawing: style.Drawing | None = None) -> Figure:
    tables = Tables(folder, spec.fidelity)
    with style.styled(drawing):
        try:
            return DRAWERS[spec.kind](tables, spec)
        except panels.NoResults:
            return panels.nothing(tables, spec)


def figure_of(name: str, tables_root: Path, drawing: style.Drawing | None = None) -> Figure:
    there = specs_of(path.name for path in sorted(tables_root.glob("*/")))
    return draw_spec(there[name], tables_root / there[name].experiment, drawing)


def check_tables(name: str, tables_root: Path) -> None:
    """Raise FileError if the tables of figure `name` are not as the workflow made them."""
    experiment = specs_of(path.name for path in tables_root.glob("*/"))[name].experiment
    made = EPISODES if experiment == PICTURE else f"{experiment}/{RECORD}"
    must_be_as_made(tables_root / made)


def draw(
    name: str,
    tables_root: Path,
    out_stem: Path,
    kinds: Sequence[str] = ("png", "pdf"),
    *,
    paper: bool = False,
    own: OwnStyle | None = None,
    csv: bool = False,
) -> list[Path]:
    """Draw figure `name` to `<out_stem>.<kind>` for each of these kinds; return the paths.

    paper: 3.3 or 6.9 inches wide, without title. `own`: looks and labels. `csv`: also its numbers.
    """
    drawing = style.Drawing(paper, own or OwnStyle())
    figure = figure_of(name, tables_root, drawing)
    made = style.save(figure, out_stem, kinds=kinds, paper=paper)
    if csv:
        table = pd.concat([pd.DataFrame(), *map(pd.DataFrame, drawing.numbers)])
        made.append(Path(f"{out_stem}.csv"))
        write_whole(made[-1], partial(table.to_csv, index=False, float_format="%.7g"))
    return made


def own_style(path: Path, tables_root: Path) -> OwnStyle:
    """Read a file of looks and labels for figures from these tables; SpecError if it is invalid."""
    own = validated(OwnStyle, read_keys(path), f"{path}")
    plans = [read_plan(plan) for plan in tables_root.glob("*/plan.json")]
    known = {arm for plan in plans for arm in plan["arms"]} | style.WORDS.keys()
    try:
        for name in own.looks:
            must_be_among(known, name, "looks: the arm")
        sns.color_palette(own.palette)
    except ValueError as error:
        raise SpecError(f"{path}: {error}") from None
    return own


def draw_all(
    out: Sequence[Path],
    tables: Path,
    episodes: Path,
    processes: int = 1,
    planned: str | None = None,
) -> None:
    """Draw PNG files, each named after its figure, from a source's folder of tables.

    episodes: the file that the figure of the environment is drawn from. `planned`: see `Making`.

    Raises DamagedError if tables were changed after they were written, and FileError if the code is
    not the planned one, or code or tables changed meanwhile.
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
