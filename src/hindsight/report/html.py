"""Convert Markdown and figures into report.html, one file that loads nothing and needs no script.

Its links to long tables and files of the repository are relative to its folder.
"""

import base64
import io
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import markdown_it
from markdown_it.token import Token
from PIL import Image

#: Pictures with more pixels in a row are shown larger than a telephone, and scroll there.
WIDE = 1000


@dataclass
class Page:
    """Build a page from parts; it remembers the figures, anchors and tables that it has so far."""

    path: Path
    captions: Mapping[Path, str]  # of the figures that may be embedded, by file
    places: Mapping[Path, str]  # anchors of the Markdown pages that are parts of this one, by file
    common: Collection[str] = ()  # texts that many captions begin with; each is shown once
    told: dict[str, str] = field(default_factory=dict)
    embedded: set[Path] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    tables: int = 0

    def add(self, markdown: str, source: Path, *, deeper: int = 0, images: bool = True) -> str:
        """Return a part of the page as HTML, without its title.

        Links are relative to the file `source`; headings are lowered by `deeper` levels.
        """
        parser = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
        if not images:
            parser.disable("image")
        tokens = parser.parse(markdown)
        if tokens and tokens[0].tag == "h1":
            del tokens[:3]  # its opening, its text, its closing
        headers, cell = list[str](), 0
        for i, token in enumerate(tokens):
            if token.type == "heading_open":
                self._identify(token, tokens[i + 1].content)
            if token.type.startswith("heading"):
                token.tag = f"h{min(int(token.tag[1]) + deeper, 6)}"
            if token.type == "th_open":
                headers.append(tokens[i + 1].content)
            if token.type == "tr_open":
                cell = 0
            if token.type == "td_open":  # on a telephone, its header stands before it
                token.attrSet("data-label", headers[cell] if cell < len(headers) else "")
                cell += 1
            if token.type == "table_open":
                headers = []
                if tokens[i + 3].type == "th_open" and tokens[i + 4].content == "id":
                    token.attrSet("class", "claims")
            if token.type == "th_open" and not tokens[i + 1].content:  # an empty header
                token.tag = tokens[i + 2].tag = "td"
            if token.children and [c.type for c in token.children] == ["image"]:
                tokens[i - 1].hidden = tokens[i + 1].hidden = True  # a figure needs no paragraph
            for inside in token.children or ():
                if inside.type == "link_open":
                    inside.attrSet("href", self._target(str(inside.attrGet("href")), source))
        parser.add_render_rule("image", lambda _, own, i, *__: self._figure(own[i], source))
        parser.add_render_rule("table_open", lambda _, own, i, *__: self._open_table(own[i]))
        parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
        return str(parser.renderer.render(tokens, parser.options, {}))

    def _identify(self, heading: Token, text: str) -> None:
        """Give a heading the anchor that GitHub would give it."""
        place = re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        if place not in self.ids:
            self.ids.add(place)
            heading.attrSet("id", place)

    def _target(self, target: str, source: Path) -> str:
        """Return the target, for this page, of a link in the Markdown file `source`."""
        if target.startswith(("http:", "https:", "mailto:", "#")):
            return target
        path, mark, place = target.partition("#")
        file = Path(os.path.normpath(source.parent / path))
        if file in self.captions:
            return f"#{self._place(file)}"
        if file in self.places:
            return f"#{place or self.places[file]}"
        return link(file, self.path) + mark + place

    def _place(self, file: Path) -> str:
        """Return a figure's anchor; the published one that opens the page may have a namesake."""
        alike = sum(file.stem == other.stem for other in self.captions)
        return f"figure-{file.parent.name}-{file.stem}" if alike > 1 else f"figure-{file.stem}"

    def _figure(self, image: Token, source: Path) -> str:
        """Return a figure with its caption, or a link if it is embedded already or not at all."""
        file = Path(os.path.normpath(source.parent / str(image.attrGet("src"))))
        name, place = file.stem, self._place(file)
        if file not in self.captions:
            return f'<p><a href="{escape(link(file, self.path))}">{name}</a></p>\n'
        if file in self.embedded:
            return f'<p><a href="#{place}">{name}</a> is shown above.</p>\n'
        self.embedded.add(file)
        with Image.open(file) as picture:
            width, height = picture.size
        caption, near = escape(self.captions[file]), escape(link(file, self.path))
        shown = self._once(self.captions[file], place)
        size = ' class="wide"' if width > WIDE else ""
        image_tag = (
            f'<img loading="lazy" decoding="async" width="{width}" height="{height}" '
            f'alt="{name}: {caption}" src="{avif(file)}">'
        )
        return (
            f'<figure id="{place}"{size}><a href="{near}">{image_tag}</a>'
            f"<figcaption>{shown}</figcaption></figure>\n"
        )

    def _once(self, caption: str, place: str) -> str:
        """Return a caption as HTML; what another figure has said before is a link to that."""
        for text in self.common:
            if text in caption and (first := self.told.setdefault(text, place)) != place:
                name, rest = first.removeprefix("figure-"), caption.replace(text, "").strip()
                return f'Drawn as <a href="#{first}">{name}</a>. {escape(rest)}'.strip()
        return escape(caption)

    def _open_table(self, table: Token) -> str:
        """Open a table that scrolls within the page, also by keyboard."""
        self.tables += 1
        label = f"Table {self.tables}"
        kind = f' class="{table.attrGet("class")}"' if table.attrGet("class") else ""
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table{kind}>\n'
        )


def avif(path: Path) -> str:
    """Return a figure as a data: URL, a sixth as large as its file, which it links to."""
    made = io.BytesIO()
    with Image.open(path) as image:
        # Lines are thin: with the usual subsampling, half of their colour would be lost.
        image.convert("RGB").save(made, "AVIF", quality=40, speed=8, subsampling="4:4:4")
    return data("avif", made.getvalue())


def data(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")


def animation(path: Path) -> dict[str, str | int]:
    """Embed a GIF; `still`, its last frame, is for readers who prefer reduced motion."""
    with Image.open(path) as film:
        width, height = film.size
        film.seek(film.n_frames - 1)  # type: ignore[attr-defined]
        still = io.BytesIO()
        film.convert("RGB").save(still, "WEBP", quality=80)
    return {"width": width, "height": height, "still": data("webp", still.getvalue()),
            "moving": data("gif", path.read_bytes())}  # fmt: skip


def link(path: Path, page: Path) -> str:
    return Path(os.path.relpath(path, page.parent)).as_posix()
