"""Fonts of PDFs, cut once for all figures that a process draws.

matplotlib cuts every font anew for every PDF to the few characters that it shows, which takes as
long as drawing it.  Here a font is cut once, to all characters that figures have.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from matplotlib.backends import _backend_pdf_ps
from matplotlib.font_manager import get_font

#: What most figures show: ASCII, Greek, and what else a text or a formula is made of.
CHARACTERS = [*range(0x20, 0x7F), *range(0x3B1, 0x3CA), *map(ord, "±²³·×–—’“”…→−∞≈≤≥")]
#: How to set letters, which has been done.
LAYOUT = ("GDEF", "GPOS", "GSUB")

_cut = _backend_pdf_ps.get_glyphs_subset


@cache
def _common(font: Any) -> frozenset[int]:
    """Glyphs of CHARACTERS in a font."""
    face = get_font(font)
    return frozenset(face.get_char_index(character) for character in CHARACTERS)


@cache
def _kept_open(font: Any, glyphs: frozenset[int]) -> Any:
    cut = _cut(font, set(glyphs)).__enter__()
    for table in LAYOUT:
        if table in cut.font:
            del cut.font[table]
    return cut


@contextmanager
def _cut_once(font: Any, glyphs: Iterable[int]) -> Iterator[Any]:
    yield _kept_open(font, _common(font).union(glyphs))


@contextmanager
def shared() -> Iterator[None]:
    """PDFs that are saved in this block share their fonts' cuts."""
    _backend_pdf_ps.get_glyphs_subset = _cut_once  # type: ignore[assignment]
    try:
        yield
    finally:
        _backend_pdf_ps.get_glyphs_subset = _cut
