"""Many figures in one go, shared by processes."""

import gc
from collections.abc import Sequence
from pathlib import Path

from hindsight.figures import draw, specs_of
from hindsight.process import side_by_side


def draw_all(stems: Sequence[Path], folders: dict[str, Path], processes: int = 1) -> None:
    """Draw the figures that are named by their files, from their experiments' folders."""
    specs = specs_of(folders)
    todo = [(stem.name, folders[specs[stem.name].experiment].parent, stem) for stem in stems]
    # A figure is many thousand objects: looking through them all again and again takes a tenth of
    # the time.
    gc.freeze()
    gc.set_threshold(100_000, 50)
    side_by_side(draw, todo, processes)
