"""Many figures in one go: those that are drawn already stay, the others are shared by processes.

A figure's PDF says in its keywords what it was made of: a digest of the figures' code and of its
experiment's tables.  What is asked for again, of the same, is not drawn again.
"""

import gc
import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hindsight.figures import ALSO_READ, FigureSpec, draw, specs_of
from hindsight.fingerprint import fingerprint
from hindsight.integrity import RECORD, file_sha256
from hindsight.process import side_by_side

#: Files of an experiment's folder whose checksums tell all that is drawn from it.
TELLING = ("plan.json", RECORD, "episodes.npz")


def draw_all(stems: Sequence[Path], folders: dict[str, Path], processes: int = 1) -> None:
    """Draw the figures that are named by their files, from their experiments' folders."""
    specs = specs_of(folders)
    todo = []
    for stem in stems:
        spec = specs[stem.name]
        root = folders[spec.experiment].parent
        digest = made_of(spec, root)
        if not is_drawn(stem, digest):
            todo.append((stem.name, root, stem, digest))
    # A figure is many thousand objects: looking through them all again and again takes a tenth of
    # the time.
    gc.freeze()
    gc.set_threshold(100_000, 50)
    side_by_side(draw, todo, processes)


def made_of(spec: FigureSpec, root: Path) -> str:
    """A digest of the code and the tables that a figure is made of."""
    digest = hashlib.sha256(code_of(spec).encode())
    for experiment in (spec.experiment, *ALSO_READ.get(spec.experiment, ())):
        for path in (root / experiment / name for name in TELLING):
            if path.exists():
                digest.update(f"{experiment}/{path.name} {file_sha256(path)}\n".encode())
    return digest.hexdigest()[:16]


def code_of(spec: FigureSpec) -> str:
    """Fingerprint of the code that decides a figure: its own function, and how it is saved."""
    function: Any = spec.function
    while isinstance(function, partial):
        function = function.func
    save = "hindsight.figures.style:save"
    return fingerprint(f"{function.__module__}:{function.__qualname__}", save)


def is_drawn(stem: Path, digest: str) -> bool:
    """Whether a figure is there, made of the same; its files then count as made now."""
    png, pdf = stem.with_suffix(".png"), stem.with_suffix(".pdf")
    if not (png.exists() and pdf.exists() and digest.encode() in pdf.read_bytes()):
        return False
    png.touch()
    pdf.touch()
    return True
