"""report.html: the text of REPLICATION.md and its appendix in one file, with its figures in it.

It loads nothing from anywhere and needs no script.  Figures as PDF, long tables, and what it links
to in the repository, lie where they lay when it was made.
"""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import markdown_it
import numpy as np
from markdown_it.token import Token
from PIL import Image

#: Colours of an embedded figure; its lines and letters need no more.
COLOURS = 64
#: Pixels by which they are chosen.
SAMPLE = 20_000


@dataclass
class Page:
    """A page in the making.

    path: where it will lie; captions: of the figures that may stand in it, by their files; places:
    other pages of the report, which are parts of this one, by their files, with the name of the
    part's place; embedded, ids: figures and places that it has so far.
    """

    path: Path
    captions: Mapping[Path, str]
    places: Mapping[Path, str]
    embedded: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    tables: int = 0

    def add(self, markdown: str, source: Path, *, deeper: int = 0, images: bool = True) -> str:
        """A part of the page as HTML, without its title.

        source: where the Markdown lies, from where its links lead; deeper: levels by which its
        headings sink.
        """
        parser = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
        if not images:
            parser.disable("image")
        tokens = parser.parse(re.sub(r"(?<=\d) (?=\d{3}\b)", "\u00a0", markdown))  # 12 345
        if tokens and tokens[0].tag == "h1":
            del tokens[:3]  # its opening, its text, its closing
        for i, token in enumerate(tokens):
            if token.type == "heading_open":
                self._identify(token, tokens[i + 1].content)
            if token.type.startswith("heading"):
                token.tag = f"h{min(int(token.tag[1]) + deeper, 6)}"
            if token.type == "th_open" and not tokens[i + 1].content:  # a header of nothing
                token.tag = tokens[i + 2].tag = "td"
            alone = token.children and [c.type for c in token.children] == ["image"]
            if alone:  # a figure, which stands in no paragraph
                tokens[i - 1].hidden = tokens[i + 1].hidden = True
            for inside in token.children or ():
                if inside.type == "link_open":
                    inside.attrSet("href", self._target(str(inside.attrGet("href")), source))
        parser.add_render_rule("image", lambda _, own, i, *__: self._figure(own[i], source))
        parser.add_render_rule("table_open", lambda *_: self._table_open())
        parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
        return str(parser.renderer.render(tokens, parser.options, {}))

    def _identify(self, heading: Token, text: str) -> None:
        """Give a heading the place by which it is linked to, as GitHub names it."""
        place = re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        if place not in self.ids:
            self.ids.add(place)
            heading.attrSet("id", place)

    def _target(self, target: str, source: Path) -> str:
        """Where a link leads from this page that stood in the Markdown of `source`."""
        if target.startswith(("http:", "https:", "mailto:", "#")):
            return target
        path, mark, place = target.partition("#")
        file = Path(os.path.normpath(source.parent / path))
        if file in self.captions:
            return f"#figure-{file.stem}"
        if file in self.places:
            return f"#{place or self.places[file]}"
        return link(file, self.path) + mark + place

    def _figure(self, image: Token, source: Path) -> str:
        """A figure with its caption; where it stands already, a link there, and to its file where
        the page does not hold it.
        """
        file = Path(os.path.normpath(source.parent / str(image.attrGet("src"))))
        name = file.stem
        if file not in self.captions:
            return f'<p><a href="{escape(link(file, self.path))}">{name}</a></p>\n'
        if name in self.embedded:
            return f'<p><a href="#figure-{name}">{name}</a> stands above.</p>\n'
        self.embedded.add(name)
        width, height = size(file)
        caption, near = escape(self.captions[file]), escape(link(file, self.path))
        pdf = file.with_suffix(".pdf")  # of a figure that ships, only its picture does
        more = f'<a href="{escape(link(pdf, self.path))}">PDF</a>' if pdf.exists() else ""
        return (
            f'<figure id="figure-{name}"><a href="{near}"><img loading="lazy" decoding="async" '
            f'width="{width}" height="{height}" alt="{name}: {caption}" src="{webp(file)}"></a>'
            f"<figcaption>{caption} {more}</figcaption></figure>\n"
        )

    def _table_open(self) -> str:
        """A table that scrolls within the page, also by keys."""
        self.tables += 1
        label = f"Table {self.tables}"
        return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n'


def webp(path: Path) -> str:
    """A figure as a data: address: lossless but for the number of its colours."""
    with Image.open(path) as image:
        made = io.BytesIO()
        # Of a lossless picture `quality` is the effort: a fortieth smaller for a tenth of a second.
        _with_few_colours(image).save(made, "WEBP", lossless=True, method=4, quality=100)
    return data("webp", made.getvalue())


def data(kind: str, content: bytes) -> str:
    """An image as a data: address."""
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")


def animation(path: Path) -> dict[str, str | int]:
    """A GIF for the page; still: its last frame, for whoever wants no motion."""
    with Image.open(path) as film:
        width, height = film.size
        film.seek(film.n_frames - 1)  # type: ignore[attr-defined]
        still = io.BytesIO()
        film.convert("RGB").save(still, "WEBP", quality=80)
    return {"width": width, "height": height, "still": data("webp", still.getvalue()),
            "moving": data("gif", path.read_bytes())}  # fmt: skip


def _with_few_colours(image: Image.Image) -> Image.Image:
    """A figure, which has a palette, with COLOURS of its colours at most.

    They are chosen by a sample in which each colour of the palette has its share, and at least one
    pixel: in a twentieth of the time that all pixels take.
    """
    image.load()
    palette = np.array(image.getpalette(), np.uint8).reshape(-1, 3)
    count = np.array(image.histogram()[: len(palette)])
    share = np.ceil(SAMPLE * count / count.sum()).astype(int)
    sample = Image.fromarray(np.repeat(palette, share, axis=0)[None])
    few = sample.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    shown = share > 0
    palette[shown] = np.asarray(few.convert("RGB"))[0][(share.cumsum() - share)[shown]]
    image.putpalette(palette.tobytes())
    return image.convert("RGB")


def size(path: Path) -> tuple[int, int]:
    """Width and height of an image in pixels."""
    with Image.open(path) as image:
        return image.size


def link(path: Path, page: Path) -> str:
    """The address of a file, for a page."""
    return Path(os.path.relpath(path, page.parent)).as_posix()
