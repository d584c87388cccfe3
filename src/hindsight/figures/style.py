"""One style for all figures: the looks of arms, layout and saving.

An arm has one colour, line and marker in every figure, for greyscale and colour-blind readers.
Swept values share a palette, ordered by lightness. Without pyplot, there is no global state.
"""

import textwrap
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, NullLocator

from hindsight.analysis.arms import SET
from hindsight.figures.names import axis_label
from hindsight.figures.specs import DOCUMENT, LookSpec, OwnStyle
from hindsight.io.files import write_whole

TEXT, FAINT, LINES, BAND, ALARM = "#222222", "#767676", "#D0D0D0", "#EFE3C8", "#B00020"
DPI = 150
#: Widths of a paper's column and page, and the size of all text on it.
COLUMN_INCHES, PAGE_INCHES, PAPER_POINTS = 3.3, 6.9, 8.0
#: Heights in inches: a line of the title, of the subtitle, a row of the legend.
TITLE, SUBTITLE, LEGEND = 0.22, 0.165, 0.23

_RC: dict[str, Any] = (
    sns.axes_style("whitegrid")
    | sns.plotting_context("paper")
    | {
        "font.family": "DejaVu Sans",  # ships with matplotlib: the same glyphs on every machine
        "font.size": 8.0,
        "axes.titlesize": 8.5,
        "axes.labelsize": 8.5,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
        "legend.fontsize": 8.5,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": TEXT,
        "grid.color": "#E8E8E8",
        "grid.linewidth": 0.6,
        "text.color": TEXT,
        "lines.markersize": 3.8,
        "pdf.fonttype": 42,  # TrueType: text in the PDF can be selected and edited
        "pdf.compression": 1,  # 25% faster than 6, for 2% more bytes
        "svg.fonttype": "none",  # text, too
        "svg.hashsalt": "hindsight",  # the same names of clip paths each time
    }
)
_LETTERS = [name for name in _RC if name.endswith(("labelsize", "titlesize", "fontsize"))]
#: What leaves the date and matplotlib's version out of a file, by kind.
_UNDATED = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


@dataclass(frozen=True)
class Drawing:
    """How figures are drawn at the moment."""

    #: For a paper: as wide as its column or page, and without title and subtitle.
    paper: bool = False
    own: OwnStyle = field(default_factory=lambda: OwnStyle())  # the user's looks and labels
    numbers: list[dict[str, Any]] = field(default_factory=list)  # columns of each line drawn


_DRAWING = ContextVar("drawing", default=Drawing())  # noqa: B039  its numbers are never read


@contextmanager
def styled(drawing: Drawing | None = None) -> Iterator[None]:
    """Use the project's settings, regardless of any matplotlibrc, within the block."""
    drawing = drawing or Drawing()
    small = dict.fromkeys([*_LETTERS, "font.size"], PAPER_POINTS) if drawing.paper else {}
    token = _DRAWING.set(drawing)
    try:
        with matplotlib.style.context(["default", _RC | small]):
            yield
    finally:
        _DRAWING.reset(token)


def record(panel: str, **columns: Any) -> None:
    """Keep the numbers of a line that is drawn, for `hindsight figures --csv`."""
    _DRAWING.get().numbers.append({"panel": panel.replace("\n", ", ")} | columns)


def label(text: str) -> str:
    """Return the user's own label instead of this one, if there is one."""
    return _DRAWING.get().own.label(text)


def own_look(name: str, look: "Look") -> "Look":
    """Return a look with the user's own changes for the line of this name."""
    own = _DRAWING.get().own.looks.get(name)
    return look if own is None else replace(look, **own.model_dump(exclude_unset=True))


@dataclass(frozen=True)
class Look:
    colour: str
    line: Any = "-"
    marker: Any = "o"
    width: float = 1.5

    def drawn(self, **more: Any) -> dict[str, Any]:
        look = {"color": self.colour, "linestyle": self.line, "marker": self.marker}
        return look | {"linewidth": self.width} | more

    def handle(self, label: str, **more: Any) -> Line2D:
        return Line2D([], [], label=label, **self.drawn(**more))


VARIED = object()  # the value of a key that the experiment varies


def _look(what: LookSpec) -> Look:
    return Look(**what.model_dump(include=set(LookSpec.model_fields), exclude_unset=True))


#: The looks of methods by name.
METHODS = {what.name: _look(what) for what in DOCUMENT.looks}
#: Looks of swept words.
WORDS = {word: _look(what) for word, what in DOCUMENT.swept.items()}
_MARKERS = "^Dv<>ph8"


def method_of(entry: Mapping[str, Any]) -> str:
    """Return the first method in figures.yaml whose keys an entry's arm has, or the arm's name."""
    what = {name: entry[name] for name in ("role", "algorithm", "her")} | dict(entry["keys"])
    what |= dict.fromkeys(entry["level"], VARIED)

    def has(key: str, value: Any) -> bool:
        return what.get(key) is not None if value == SET else bool(what.get(key) == value)

    looks = DOCUMENT.looks
    found = (look.name for look in looks if all(has(k, v) for k, v in look.arm.items()))
    return next(found, str(entry["arm"]))


def arm_look(method: str, nth: int = 0) -> Look:
    """Return a method's look; unknown methods get greys that depend only on their names.

    Further arms of the same method (`nth` from 1) have its colour, and other lines and markers.
    """
    if nth:
        dashes = (0, (1 + 3 * (nth % 2), 1 + nth // 2))
        return replace(arm_look(method), line=dashes, marker=_MARKERS[nth % len(_MARKERS)])
    if method in METHODS:
        return METHODS[method]
    code = zlib.crc32(method.encode())
    grey = 0x50 + 0x18 * (code % 4)
    dashes = (0, (1 + code // 4 % 5, 1 + code // 20 % 2))
    return Look(f"#{grey:02x}{grey:02x}{grey:02x}", dashes, _MARKERS[code // 40 % len(_MARKERS)])


def palette() -> LinearSegmentedColormap:
    """Return a palette from light to dark whose lightest colour is visible on white."""
    colours = sns.color_palette(_DRAWING.get().own.palette, 20)
    return LinearSegmentedColormap.from_list("swept", colours[3:])


def swept_looks(levels: Sequence[dict[str, Any]]) -> list[Look]:
    """Return the looks of swept values: words have their own, numbers go from light to dark."""
    words = [next((v for v in level.values() if v in WORDS), None) for level in levels]
    if len(set(words)) == len(words) and None not in words:
        return [own_look(str(word), WORDS[str(word)]) for word in words]
    at = np.linspace(1.0 if len(levels) == 1 else 0.0, 1.0, len(levels))
    return [Look(to_hex(palette()(x)), "-", "os^Dv"[i % 5], 1.3) for i, x in enumerate(at)]


def colour_bar(fig: Figure, levels: Sequence[dict[str, Any]]) -> None:
    """Add a colour bar instead of a legend, for many values of one number, by their rank."""
    (key,) = levels[0]
    scale = Normalize(0, len(levels) - 1)
    bar = fig.colorbar(ScalarMappable(scale, palette()), ax=fig.axes, aspect=40, pad=0.02)
    bar.set_ticks(range(len(levels)), labels=[f"{level[key]:g}" for level in levels])
    bar.set_label(axis_label(key))


def new_figure(rows: int, columns: int, panel: tuple[float, float], **grid: Any) -> Figure:
    """Return a figure with a grid of panels; `panel`: width and height of one in inches."""
    width = max(7.2, columns * panel[0] + 0.8)
    if _DRAWING.get().paper:
        width = COLUMN_INCHES if columns <= 2 else PAGE_INCHES
    fig = Figure((width, rows * panel[1] + 0.75), dpi=DPI, layout="constrained")
    fig.get_layout_engine().set(w_pad=0.02, h_pad=0.03)  # type: ignore[union-attr, call-arg]
    fig.subplots(rows, columns, squeeze=False, **grid)
    return fig


def finish(
    fig: Figure,
    title: str,
    subtitle: str,
    handles: Sequence[Line2D] = (),
    x_label: str = "",
    y_label: str = "",
) -> Figure:
    """Add axis labels and, in extra room above the panels, title, subtitle and legend."""
    # Names of lines and panels are the user's by now: a second time, swapped ones would swap back.
    own = _DRAWING.get().own
    done = own.written
    for text in fig.findobj(Text) if own.labels else ():  # slow
        if isinstance(text, Text) and text.get_text() not in done:
            text.set_text(label(text.get_text()))
    for handle in handles:
        if handle.get_label() not in done:
            handle.set_label(label(str(handle.get_label())))
    x_label, y_label = label(x_label), label(y_label)
    for ax in filter(Axes.get_in_layout, fig.axes):
        # These places would else be found from all tick labels, again and again.
        ax.set_title(ax.get_title(), y=1.0)
        for axis in (ax.xaxis, ax.yaxis):
            if not axis.get_label_text():
                axis.set_label_coords(0.5, 0.5)
    width, panels = fig.get_size_inches()
    paper = _DRAWING.get().paper
    head = [] if paper else textwrap.wrap(title, int(width / 0.1), break_on_hyphens=False)
    whole = subtitle.replace(" ·", "\u00a0·")  # not at a line's start
    words = [] if paper else textwrap.wrap(whole, int(width / 0.07), break_on_hyphens=False)
    rows = _legend_rows(handles, width)
    room = 0.1 + TITLE * len(head) + SUBTITLE * len(words) + LEGEND * len(rows)
    fig.set_size_inches(width, panels + room)
    share = panels / (panels + room)
    fig.get_layout_engine().set(rect=(0, 0, 1, share))  # type: ignore[union-attr, call-arg]
    if x_label:
        fig.supxlabel(textwrap.fill(x_label, int(width / 0.07)), size="medium")
    if y_label:
        fig.supylabel(textwrap.fill(y_label, int(panels / 0.07)), size="medium",
                      y=share / 2 + 0.12 / (panels + room))  # fmt: skip
    y = 1 - 0.05 / (panels + room)
    for lines, inches, look in (
        (head, TITLE, {"size": 11, "weight": "bold"}),
        (words, SUBTITLE, {"size": 8.5, "color": "#555555"}),
    ):
        for line in lines:
            fig.text(0.08 / width, y, line.replace("\u00a0·", " ·"), va="top", **look)  # type: ignore[arg-type]
            y -= inches / (panels + room)
    for row in rows:
        fig.legend(
            handles=row,
            loc="upper left",
            bbox_to_anchor=(0.08 / width, y),
            ncols=len(row),
            borderaxespad=0,
            borderpad=0.2,
            handlelength=3.0 if row[0].get_linestyle() != "None" else 1.0,
            columnspacing=1.5,
        )
        y -= LEGEND / (panels + room)
    return fig


def _legend_rows(handles: Sequence[Line2D], width: float) -> list[list[Line2D]]:
    """Split handles into rows for a width in inches; a letter takes about 0.075."""
    rows: list[list[Line2D]] = []
    used = 0.0
    for handle in handles:
        need = 0.75 + 0.075 * len(str(handle.get_label()))
        if not rows or used + need > width - 0.2:
            rows.append([])
            used = 0.0
        rows[-1].append(handle)
        used += need
    return rows


def row_label(ax: Axes, text: str) -> None:
    """Write the name of a row of panels to the right of it."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    turned: dict[str, Any] = {"rotation": -90, "va": "center", "multialignment": "center"}
    ax.annotate(text, (1, 0.5), (5, 0), **place, **turned, annotation_clip=False)


def number_axis(ax: Axes, low: float, high: float, *, log: bool) -> None:
    """Set limits and a few ticks of an x axis, and of those that share it."""
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if high < 20 * low:  # powers of ten would give too few ticks
            ticks = [m * 10.0**n for n in range(-6, 9) for m in (1, 2, 5)]
            ax.set_xticks([tick for tick in ticks if low <= tick <= high])
    else:
        found = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        ax.set_xticks([tick for tick in found if low <= tick <= 0.93 * high])
    ax.set_xlim(low, high)


def scale(ax: Axes, limits: tuple[float, float] | None, *, log: bool = False) -> None:
    """Set a y axis, and those that share it: limits with a margin; None: fit to the data."""
    if log:
        ax.set_yscale("log")
    if limits is not None:
        low, high = limits
        ax.set_ylim(low - 0.03 * (high - low), high + 0.03 * (high - low))
        ticks = np.linspace(low, high, 5)
        named = [f"{y:g}".replace("-", "−") if i % 2 == 0 else "" for i, y in enumerate(ticks)]
        ax.set_yticks(ticks, named)


def note(ax: Axes, text: str, *, alarm: bool = False) -> None:
    """Write a note in an empty panel or, as an alarm, at the edge of an incomplete one."""
    if alarm:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.8}
        ax.text(0.97, 0.06, text, transform=ax.transAxes, ha="right", va="bottom", color=ALARM,
                size=7, bbox=box, zorder=5)  # fmt: skip
        return
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=FAINT)
    ax.grid(False)


def save(
    fig: Figure, stem: str | Path, *, kinds: Collection[str] = ("png", "pdf"), paper: bool = False
) -> list[Path]:
    """Write `<stem>.<kind>` for each kind; the same figure gives the same bytes (no dates)."""
    paths = [Path(f"{stem}.{kind}") for kind in kinds]
    with styled(Drawing(paper)):
        if (engine := fig.get_layout_engine()) is not None:
            engine.execute(fig)
            fig.set_layout_engine("none")  # one layout is enough
        for path, kind in zip(paths, kinds, strict=True):
            saved = partial(fig.savefig, format=kind, dpi=DPI, metadata=_UNDATED[kind])
            write_whole(path, saved)
    return paths
