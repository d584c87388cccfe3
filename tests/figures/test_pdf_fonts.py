"""Fonts of PDFs: cut once for all figures, with every character a figure shows."""

import io
import re
import zlib

from fontTools.ttLib import TTFont
from matplotlib.backends import _backend_pdf_ps
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont

from hindsight.figures import pdf_fonts, style


def saved(tmp_path, text):
    """The bytes of a PDF that shows a text, and the fonts in it."""
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, text)
    pdf = style.save(figure, tmp_path / "figure")[1].read_bytes()
    streams = re.findall(rb"/Length1 .*?stream\n(.*?)\nendstream", pdf, re.S)
    return pdf, [TTFont(io.BytesIO(zlib.decompress(stream))) for stream in streams]


def test_a_pdf_has_the_outlines_of_what_it_shows_rare_characters_too(tmp_path):
    text = "S ≥ 0.5, σ → ж"
    _, fonts = saved(tmp_path, text)
    original = TTFont(findfont("DejaVu Sans"))
    for character in set(text) - {" "}:
        name = original.getBestCmap()[ord(character)]
        here = next(f["glyf"][name] for f in fonts if name in f["glyf"])
        there = original["glyf"][name]
        assert here.numberOfContours == there.numberOfContours
        assert here.numberOfContours and (here.xMax, here.yMax) == (there.xMax, there.yMax)


def test_the_same_figure_gives_the_same_bytes_whatever_was_drawn_before(tmp_path):
    first = saved(tmp_path, "first")[0]
    saved(tmp_path, "another, with ж")
    assert saved(tmp_path, "first")[0] == first


def test_a_font_is_cut_once(tmp_path, monkeypatch):
    saved(tmp_path, "warm")
    monkeypatch.setattr(pdf_fonts, "_cut", None)
    saved(tmp_path, "other letters: xyz")
    assert _backend_pdf_ps.get_glyphs_subset is None  # given back as it was found
