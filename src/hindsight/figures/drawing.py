"""Many figures in one go, shared by processes."""

import gc
from collections.abc import Sequence
from pathlib import Path

from hindsight.figures import draw, specs_of
from hindsight.io.checksums import check_tables
from hindsight.io.startup import side_by_side


def draw_all(out: Sequence[Path], folders: dict[str, Path], processes: int = 1) -> None:
    """Draw the PNG files that are named like their figures, from their experiments' folders.

    Raises DamagedError for tables that are not as they were written.
    """
    specs = specs_of(folders)
    sources = {path: folders[specs[path.stem].experiment] for path in out}
    check_tables(dict.fromkeys(sources.values()))
    todo = [(path.stem, sources[path].parent, path.with_suffix(""), ("png",)) for path in out]
    # A figure is many thousand objects: looking through them all again and again takes a tenth of
    # the time.
    gc.freeze()
    gc.set_threshold(100_000, 50)
    side_by_side(draw, todo, processes)
