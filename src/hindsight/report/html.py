"""report.html: the answer on its first screen, everything behind it a click away, in one file.

It loads nothing from anywhere.  It holds the figures of the papers, of claims and of questions; the
others, and every figure as PDF, lie beside it.  Whole tables, and what it links to in the
repository, lie where they lay when it was made.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import markdown_it
import numpy as np
from markupsafe import Markup
from PIL import Image

from hindsight.figures import FIDELITIES as ENDINGS
from hindsight.report.charts import Chart

if TYPE_CHECKING:
    from hindsight.report.build import Judged, Picture, Report

#: Where the papers are.
ADDRESSES = {
    "PPO-HER": "https://arxiv.org/abs/2410.22524",
    "MEHER": "https://arxiv.org/abs/2410.24016",
}
#: Tables of more rows are downloaded rather than read.
SHOWN_ROWS = 16
#: Colours of an embedded figure; its lines and letters need no more.
COLOURS = 64
#: Pixels by which they are chosen.
SAMPLE = 20_000
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Pair:
    """A figure under each fidelity that it was drawn for; one of the two at least."""

    name: str
    caption: str
    sides: dict[str, Picture]


def pairs(pictures: Iterable[Picture]) -> list[Pair]:
    """Pictures of the same thing belong together: their names differ in the fidelity's ending."""
    found: dict[str, Pair] = {}
    for picture in pictures:
        key = picture.name.removesuffix(ENDINGS.get(picture.fidelity, ""))
        pair = found.setdefault(key, Pair(picture.name, picture.caption, {}))
        pair.sides[picture.fidelity] = picture
    return list(found.values())


def of_claims(claims: Iterable[Judged]) -> dict[str, Pair]:
    """The figure of each claim that has one that was drawn."""
    return {
        judged.claim.id: pairs(judged.pictures.values())[0] for judged in claims if judged.pictures
    }


def render(
    environment: Any, names: Mapping[str, Any], report: Report, page: Path, deviations: Path
) -> str:
    """The page as text; page: where it will lie, deviations: the page that it quotes."""
    environment.filters["webp"] = webp
    environment.filters["size"] = size
    environment.filters["pairs"] = pairs
    environment.filters["link"] = lambda path: link(path, page)
    environment.filters["pdf"] = lambda path: path.with_suffix(".pdf").name
    claimed = of_claims(report.claims)
    beside: dict[str, str] = {}  # by figure the claim that it stands beside
    for claim, pair in claimed.items():
        beside.setdefault(pair.name, claim)
    return str(
        environment.get_template("report.html.j2").render(
            **names,
            claimed=claimed,
            beside=beside,
            addresses=ADDRESSES,
            shown_rows=SHOWN_ROWS,
            specs=[specification(chart) for chart in report.charts],
            libraries=[packed(script(name)) for name in LIBRARIES],
            script=Markup(script("page.js")),
            licence=script("vega-licence.txt"),
            deviations=Markup(as_html(report.deviations, deviations, page)),
        )
    )


LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")


def script(name: str) -> str:
    """A file of the page's, as it is."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def packed(text: str) -> str:
    """By gzip and base64, as page.js unpacks it: less than half the size."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def specification(chart: Chart) -> Markup:
    """A chart's JSON, such that it can stand in a page."""
    return Markup(json.dumps(chart.spec, separators=(",", ":")).replace("<", "\\u003c"))


def webp(path: Path) -> str:
    """A figure as a data: address: lossless but for the number of its colours."""
    with Image.open(path) as image:
        made = io.BytesIO()
        # Of a lossless picture `quality` is the effort: a fortieth smaller for a tenth of a second.
        _with_few_colours(image).save(made, "WEBP", lossless=True, method=4, quality=100)
    return "data:image/webp;base64," + base64.b64encode(made.getvalue()).decode("ascii")


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


def as_html(markdown: str, source: Path, page: Path) -> str:
    """Markdown to HTML without images or raw HTML; links lead from the page to where they led.

    The page has its own heading for this text, so a title is left out and headings move one level
    down.
    """
    parser = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable("image")
    tokens = parser.parse(markdown)
    if tokens and tokens[0].tag == "h1":
        del tokens[:3]  # its opening, its text, its closing
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
        for inside in token.children or ():
            if inside.type == "link_open":
                target = str(inside.attrGet("href"))
                inside.attrSet("href", moved(target, source.parent, page.parent))
    return str(parser.renderer.render(tokens, parser.options, {}))


def moved(target: str, old: Path, new: Path) -> str:
    """A link that stood in folder `old`, for a page in folder `new`."""
    if target.startswith(("http:", "https:", "mailto:")):
        return target
    path, mark, place = target.partition("#")
    # of a page elsewhere, the place itself
    path = Path(os.path.relpath(old / path, new)).as_posix() if path else ""
    return path + mark + place
