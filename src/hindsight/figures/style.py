"""One style for every figure: looks, names, the grid of conditions, and saving.

An arm keeps its colour, its line style and its marker in every figure, so that a figure can be read
in greyscale and by colour-blind readers (colours: Okabe & Ito 2008).  Swept values share a
sequential palette instead, whose lightness alone orders them.  Figures are built without pyplot:
nothing here touches global state, so drawing is safe inside a renderer or a thread.
"""

import itertools
import re
import textwrap
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox
from PIL import Image

from hindsight.figures import pdf_fonts
from hindsight.files import write_whole
from hindsight.specs.config import condition_name

SPAWNS = {"random": "random spawn", "apart": "spawn apart"}
PREYS = {
    "static": "static",
    "random": "random",
    "attract": "attract",
    "repel": "repel",
    "straight_away": "straight away",
    "random_direction": "random direction",
}
#: The papers' conditions by their names, in their order: how both spawn, how the prey moves.
CONDITIONS = {condition_name(spawn, prey): (spawn, prey) for spawn in SPAWNS for prey in PREYS}
KEYS = {
    "learning_rate": "learning rate",
    "interception_distance": "interception distance r",
    "grid_size": "half-width of the box G",
    "n_dims": "dimensions n",
    "strategy": "strategy",
    "k": "copies k",
    "s_ratio": "S-ratio (share of successes among the training episodes)",
    "failure_distance": "distance of a failure's goal from the final position (in r)",
    "until_success": "success rate at which HER is switched off",
    "exploration": "exploration",
    "n_bits": "bits n",
    "weight_decay": "weight decay",
    "n_steps": "steps of a rollout",
}

SYMBOLS = {
    "learning_rate": "learning rate ",
    "interception_distance": "r = ",
    "grid_size": "G = ",
    "n_dims": "n = ",
    "k": "k = ",
    "s_ratio": "S = ",
    "failure_distance": "distance ",
    "until_success": "off at ",
    "exploration": "",
    "n_bits": "n = ",
    "weight_decay": "weight decay ",
    "n_steps": "rollout ",
}

M_C = "$M_c$"  # scaled maximum median return x (1 - time to learn / its largest)

TEXT = "#222222"
FAINT = "#767676"
LINES = "#D0D0D0"
DPI = 150

_RC: Any = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same glyphs on every machine
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.titley": 1.0,  # looking for room above every panel's ticks takes a tenth of the drawing
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": TEXT,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E8E8E8",
    "grid.linewidth": 0.6,
    "text.color": TEXT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,  # TrueType: text in the PDF can be selected and edited
    "pdf.compression": 1,  # a quarter less time than 6, for 2 % more bytes
}


@dataclass(frozen=True)
class Look:
    """How one arm or one swept value is drawn."""

    colour: str
    line: Any = "-"
    marker: Any = "o"
    width: float = 1.5

    def handle(self, label: str) -> Line2D:
        """The legend's entry."""
        return Line2D(
            [],
            [],
            color=self.colour,
            linestyle=self.line,
            marker=self.marker,
            linewidth=self.width,
            label=label,
        )


#: By method, whatever an experiment calls the arm (`method_of`).
ARMS = {
    "PPO": Look("#0072B2", (0, (4, 1.6)), "s"),
    "PPO-HER": Look("#D55E00", "-", "o"),
    "SAC": Look("#009E73", (0, (5, 1.3, 1, 1.3)), "^"),
    "SAC-HER": Look("#CC79A7", (0, (1, 1)), "D"),
    "MEHER": Look("#E69F00", (0, (7, 1.3)), "v"),
    "targeted MEHER": Look("#6A3D9A", (0, (5, 1.3, 1, 1.3, 1, 1.3)), "P"),
    "PPO-HER-2-PPO": Look("#000000", (0, (2, 1)), "X"),
    "SAC-HER-2-SAC": Look("#882255", (0, (2, 1, 1, 1)), "8"),
    "PPO-HER-2-MEHER": Look("#117733", (0, (3, 1)), "p"),
    "PPO-HER-2-MEHER (steps)": Look("#66C2A4", (0, (8, 1, 1, 1)), "h"),
    "entropy bonus 0.001": Look("#8FBBD9", (0, (6, 1.5)), "<"),
    "entropy bonus 0.01": Look("#2C5F99", (0, (4, 1, 1, 1)), ">"),
    "learning-rate decay": Look("#1A1A1A", (0, (1.5, 1)), "d"),
    "PPO-HER, moved only": Look("#56B4E9", (0, (6, 1, 2, 1)), "*"),
    # Beside the same methods with a small network: wider.
    "PPO, 3 × 512": Look("#001A2E", (0, (9, 2)), "H", 2.6),
    "PPO-HER, 3 × 512": Look("#5E2600", (0, (12, 1)), (4, 1, 45), 2.6),
    "PPO-HER-2-PPO, 3 × 512": Look("#00513B", (0, (6, 1, 1, 1)), (3, 0, 0), 2.6),
    "SAC-HER, 3 × 512": Look("#DDA0C4", (0, (1.5, 1.5)), (5, 0, 180), 2.6),
}
#: Arms of the experiments on other tasks; no figure shows both these and those above, but those of
#: PPO: in colour, line and mark they need differ from one another alone.
TASK_ARMS = {
    "the notebook's DDPG + HER": Look("#000000", (0, (4, 1.6)), "s"),
    "the notebook's, bootstrapped": Look("#7F9F3F", (0, (6, 1, 2, 1)), (4, 1, 45)),
    "DDPG + HER": Look("#D55E00", "-", "o"),
    "DDPG": Look("#0072B2", (0, (5, 1.3, 1, 1.3)), "^"),
    "DQN": Look("#56B4E9", (0, (6, 1.5)), "v"),
    "DQN + PER": Look("#6A3D9A", (0, (1, 1)), "D"),
    "DQN + HER": Look("#A63603", (0, (9, 1)), "P"),
    "DQN + HER + PER": Look("#117733", (0, (3, 1)), "X"),
    "DQN + HER (final)": Look("#E69F00", (0, (5, 1.3, 1, 1.3, 1, 1.3)), "p"),
    "DQN + HER (episode)": Look("#009E73", (0, (2, 1)), "h"),
    "DQN + HER (random)": Look("#CC79A7", (0, (8, 1, 1, 1)), "*"),
    "PPO-HER (cut)": Look("#882255", (0, (3, 1, 1, 1, 1, 1)), "8"),
    "PPO-HER (cut, inside)": Look("#1A1A1A", (0, (5, 1)), "H"),
    "MEHER, S = 0.3": Look("#8FD744", (0, (7, 1.3)), "<"),
    "MEHER, S = 0.5": Look("#21908C", (0, (4, 1, 1, 1)), ">"),
    "MEHER, S = 0.7": Look("#443A83", (0, (1.5, 1)), "d"),
}
#: Arms of the Fetch experiments, beside PPO, PPO-HER, and SAC-HER or "moved only".
FETCH_ARMS = {
    "SAC-HER (normalized)": Look("#009E73", (0, (6, 1, 2, 1)), "h"),
    "TD3-HER": Look("#332288", (0, (7, 1.3)), "^"),
    "DDPG-HER": Look("#CCBB44", (0, (5, 1.3, 1, 1.3)), "v"),
    "PPO-HER, after contact": Look("#661155", (0, (3, 1)), "P"),
    "PPO-HER, moved goals": Look("#E0C040", (0, (1.5, 1)), "d"),
}
EXPLORATIONS = {
    "gaussian": Look("#332288", "-", "o"),
    "squashed": Look("#AA4499", (0, (5, 1.3, 1, 1.3)), "^"),
    "annealed": Look("#DDAA33", (0, (4, 1.6)), "D"),
}
STRATEGIES = {
    "final": ARMS["PPO-HER"],
    "future": Look("#0072B2", (0, (5, 1.3, 1, 1.3)), "^"),
    "episode": Look("#009E73", (0, (4, 1.6)), "D"),
    "random": Look("#CC79A7", (0, (1, 1)), "s"),
}
_MARKERS = "s^Dv<>ph"


SET, VARIED = object(), object()  # a key that has any value; one whose values are the levels
#: What an arm is, to the name that it has on this page: the first whose keys it has.
_PPO: dict[str, Any] = {"algorithm": "ppo"}
_DQN: dict[str, Any] = {"algorithm": "dqn"}
_PAPERS: dict[str, Any] = {"hidden": [512, 512, 512]}
METHODS: tuple[tuple[dict[str, Any], str], ...] = (
    (_PPO | _PAPERS | {"her": None}, "PPO, 3 × 512"),
    (_PPO | _PAPERS | {"until_success": SET}, "PPO-HER-2-PPO, 3 × 512"),
    (_PPO | _PAPERS, "PPO-HER, 3 × 512"),
    ({"algorithm": "sac"} | _PAPERS, "SAC-HER, 3 × 512"),
    (_PPO | {"then": "meher", "until_steps": SET}, "PPO-HER-2-MEHER (steps)"),
    (_PPO | {"then": "meher"}, "PPO-HER-2-MEHER"),
    (_PPO | {"until_success": SET}, "PPO-HER-2-PPO"),
    (_PPO | {"until_steps": SET}, "PPO-HER-2-PPO"),
    (_PPO | {"failures": "targeted"}, "targeted MEHER"),
    *((_PPO | {"s_ratio": s}, f"MEHER, S = {s:g}") for s in (0.3, 0.5, 0.7)),
    (_PPO | {"s_ratio": SET}, "MEHER"),
    *((_PPO | {"ent_coef": x}, f"entropy bonus {x:g}") for x in (0.001, 0.01)),
    (_PPO | {"learning_rate_schedule": "linear"}, "learning-rate decay"),
    (_PPO | {"only_if_moved": True}, "PPO-HER, moved only"),
    (_PPO | {"after_contact": True}, "PPO-HER, after contact"),
    (_PPO | {"moved_goals": True}, "PPO-HER, moved goals"),
    (_PPO | {"inside": SET}, "PPO-HER (cut, inside)"),
    (_PPO | {"role": "level", "cut_at_success": True}, "PPO-HER (cut)"),
    (_PPO | {"her": None}, "PPO"),
    (_PPO, "PPO-HER"),
    ({"algorithm": "sac", "her": None}, "SAC"),
    ({"algorithm": "sac", "until_success": SET}, "SAC-HER-2-SAC"),
    ({"algorithm": "sac", "normalize_observations": True}, "SAC-HER (normalized)"),
    ({"algorithm": "sac"}, "SAC-HER"),
    ({"algorithm": "td3", "her": SET}, "TD3-HER"),
    ({"algorithm": "ddpg", "role": "reference"}, "the notebook's DDPG + HER"),
    ({"algorithm": "ddpg", "random_warm_up": False}, "the notebook's, bootstrapped"),
    ({"algorithm": "ddpg", "her": None}, "DDPG"),
    ({"algorithm": "ddpg", "role": "level"}, "DDPG-HER"),
    ({"algorithm": "ddpg"}, "DDPG + HER"),
    (_DQN | {"prioritized": True, "her": None}, "DQN + PER"),
    (_DQN | {"prioritized": True}, "DQN + HER + PER"),
    (_DQN | {"her": None}, "DQN"),
    *((_DQN | {"role": "level", "her": s}, f"DQN + HER ({s})") for s in
      ("final", "episode", "random")),
    (_DQN, "DQN + HER"),
)  # fmt: skip


def method_of(entry: Mapping[str, Any]) -> str:
    """What this page calls the arm of a plan's entry, by what it is; else by its own name."""
    what = {name: entry[name] for name in ("role", "algorithm", "her")} | dict(entry["keys"])
    what |= dict.fromkeys(entry["level"], VARIED)

    def has(key: str, value: Any) -> bool:
        return what.get(key) is not None if value is SET else bool(what.get(key) == value)

    found = (name for keys, name in METHODS if all(has(k, v) for k, v in keys.items()))
    return next(found, str(entry["arm"]))


def arm_look(method: str) -> Look:
    """A method's look; one this page does not know gets greys that depend on its name alone."""
    known = ARMS | TASK_ARMS | FETCH_ARMS
    if method in known:
        return known[method]
    code = zlib.crc32(method.encode())
    grey = 0x50 + 0x18 * (code % 4)
    dashes = (0, (1 + code // 4 % 5, 1 + code // 20 % 2))
    return Look(f"#{grey:02x}{grey:02x}{grey:02x}", dashes, _MARKERS[code // 40 % len(_MARKERS)])


def level_looks(count: int) -> list[Look]:
    """`count` looks from light to dark, for swept values in ascending order."""
    palette = matplotlib.colormaps["viridis_r"]
    # The lightest fifth of the palette is too pale for a thin line on white.
    at = [0.2 + 0.8 * i / max(count - 1, 1) for i in range(count)]
    return [Look(to_hex(palette(x)), "-", "os^Dv"[i % 5], 1.3) for i, x in enumerate(at)]


_S_RATIOS = LinearSegmentedColormap.from_list(
    "S",
    [(0.0, "#7CC0EE"), (0.2, "#3E95D6"), (0.4, "#1B4F9C"), (0.5, "#555555"), (0.6, "#8E1528"),
     (0.7, "#D6223A"), (0.8, "#F36F36"), (0.9, "#E69500"), (1.0, "#A58600")],
)  # fmt: skip


def s_ratio_look(s_ratio: float) -> Look:
    """An S-ratio's look: its colour says its value, whichever others are drawn beside it.

    Blue is less than one half and red more, the darker the nearer to it.  Marks alone tell 0, 1/2
    and 1, and width 1/2: eleven marked curves would hide one another.  Dashes help neighbours.
    """
    colour = to_hex(_S_RATIOS(s_ratio))
    half = abs(s_ratio - 0.5) < 1e-9
    marker = "D" if half else {0.0: "o", 1.0: "s"}.get(s_ratio, "none")
    dashes: tuple[Any, ...] = ("-", (0, (5, 1.3)), (0, (1, 1)), (0, (5, 1.3, 1, 1.3)))
    line = "-" if half else dashes[round(10 * s_ratio) % len(dashes)]
    return Look(colour, line, marker, 2.6 if half else 1.3)


def swept_looks(levels: Sequence[dict[str, Any]]) -> list[Look]:
    """Looks of the swept values, ascending."""
    if all(set(level) == {"s_ratio"} for level in levels):
        return [s_ratio_look(level["s_ratio"]) for level in levels]
    if all(level.get("exploration") in EXPLORATIONS for level in levels):
        return [EXPLORATIONS[level["exploration"]] for level in levels]
    return level_looks(len(levels))


def number(value: float) -> str:
    """`0.5`, `3e-5`."""
    return f"{value:g}".replace("e-0", "e-")


def level_label(level: dict[str, Any]) -> str:
    """`r = 0.5`, `future k = 4`: a level in the papers' symbols (`final` alone is one copy)."""
    words = [
        value if isinstance(value, str) else f"{SYMBOLS.get(key, key + ' ')}{number(value)}"
        for key, value in level.items()
        if level.get("strategy") != "final" or (key, value) != ("k", 1)
    ]
    return " ".join(words)


def seeds_note(counts: Sequence[int]) -> str:
    """`16 seeds`, `4 to 16 seeds`."""
    few, many = min(counts), max(counts)
    if many == 1:
        return "1 seed"
    return f"{few} seeds" if few == many else f"{few} to {many} seeds"


def network_note(hidden: Sequence[int]) -> str:
    """`network 2 x 64` for equal layers, `network 64-32` otherwise; () where arms differ."""
    if not hidden:
        return "unequal networks"
    if len(set(hidden)) == 1:
        return f"network {len(hidden)} × {hidden[0]}"
    return "network " + "-".join(map(str, hidden))


#: Whether figures are made for a paper: as wide as its column or its page, and no words of their
#: own, for the caption has them.
_PAPER = ContextVar("paper", default=False)
COLUMN_INCHES, PAGE_INCHES, PAPER_POINTS = 3.3, 6.9, 8.0


@contextmanager
def styled(*, paper: bool = False) -> Iterator[None]:
    """The project's rc settings, and nobody else's matplotlibrc, for the block."""
    token = _PAPER.set(paper)
    try:
        with matplotlib.rc_context():
            settings: Any = matplotlib.rcParams
            # Past its checks, which they have passed.
            dict[str, Any].update(settings, _settings(paper))
            yield
    finally:
        _PAPER.reset(token)


@cache
def _settings(paper: bool) -> dict[str, Any]:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        if paper:
            sizes = {name: PAPER_POINTS for name in _RC if name.endswith("size")}
            keep = ("lines.markersize", "xtick.major.size", "ytick.major.size")
            matplotlib.rcParams.update({k: v for k, v in sizes.items() if k not in keep})
        backend = {"backend", "backend_fallback"}  # the caller's
        return {k: v for k, v in matplotlib.rcParams.copy().items() if k not in backend}


def wide(inches: float, columns: int) -> float:
    """Width of a figure with so many columns of panels: as drawn for the screen, or a paper's."""
    if not _PAPER.get():
        return inches
    return COLUMN_INCHES if columns <= 2 else PAGE_INCHES


@dataclass(frozen=True)
class Head:
    """What is written above the panels."""

    title: str
    subtitle: str
    handles: tuple[Line2D, ...] = ()


def head_inches(head: Head, width: float) -> float:
    """Height that the head takes on a figure `width` inches wide."""
    title, text, legend = _title(head, width), _wrap(head, width), _legend_rows(head, width)
    if _PAPER.get():
        return 0.1 + 0.2 * len(legend)
    return 0.17 + 0.21 * len(title) + 0.16 * len(text) + 0.23 * len(legend) + 0.1


def draw_head(fig: Figure, head: Head, left: float = 0.12) -> None:
    """Title, subtitle and legend, left-aligned at `left` inches from the figure's edge."""
    width, height = fig.get_size_inches()
    y = height - 0.1
    for line in _title(head, width):
        fig.text(left / width, y / height, line, size=11, weight="bold", va="top")
        y -= 0.21
    y -= 0.05
    for line in _wrap(head, width):
        fig.text(left / width, y / height, line, size=8.5, color="#555555", va="top")
        y -= 0.16
    y -= 0.06
    for row in _legend_rows(head, width):
        fig.legend(
            handles=row,
            loc="upper left",
            bbox_to_anchor=(left / width, y / height),
            ncols=len(row),
            borderpad=0,
            borderaxespad=0,
            handlelength=1.0 if row[0].get_linestyle() == "None" else 3.2,
            columnspacing=1.8,
        )
        y -= 0.23


def _title(head: Head, width: float) -> list[str]:
    if _PAPER.get():
        return []
    return textwrap.wrap(head.title, int((width - 0.3) / 0.098), break_on_hyphens=False)


def _wrap(head: Head, width: float) -> list[str]:
    if _PAPER.get():
        return []
    # A number keeps its unit, and no line begins with a dot.
    whole = head.subtitle.replace(" %", "\u00a0%").replace(" ·", "\u00a0·")
    lines = textwrap.wrap(whole, int((width - 0.3) / 0.064), break_on_hyphens=False)
    return [line.replace("\u00a0·", " ·") for line in lines]


def _legend_rows(head: Head, width: float) -> list[list[Line2D]]:
    """Handles in rows that fit the figure (widths estimated: 0.075 inches a letter)."""
    rows: list[list[Line2D]] = []
    used = 0.0
    for handle in head.handles:
        need = 0.8 + 0.075 * len(str(handle.get_label()))
        if not rows or used + need > width - 0.3:
            rows.append([])
            used = 0.0
        rows[-1].append(handle)
        used += need
    return rows


@dataclass(frozen=True)
class RowLabel:
    """A row of the grid: its key, and its name on the right-hand side."""

    key: str
    text: str
    colour: str = TEXT


def grid(
    rows: Sequence[RowLabel],
    columns: Sequence[str],
    head: Head,
    x_label: str,
    y_label: str,
    share_y: Literal["all", "row"] = "all",
    below: float = 0.0,
    share_x: Literal["all", "col"] = "all",
) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """The papers' grid of conditions: rows x prey policies, axes shared (x within columns
    alone, if so asked), laid out in inches.

    A column that is no prey policy is its own title.
    Panels keep a legible size: a grid of few columns gets larger panels rather than a narrow
    figure that its own title does not fit.  `below`: inches kept free under the grid.  Returns the
    figure and its panels by (row, prey), whose limits the caller sets.
    """
    left, right, bottom, gap = 0.68, 0.44, 0.52 + below, 0.13
    panel_w = max(1.72, (7.2 - left - right) / len(columns) - gap)
    width = left + right + len(columns) * panel_w + (len(columns) - 1) * gap
    if _PAPER.get():
        width = wide(width, len(columns))
        panel_w = (width - left - right + gap) / len(columns) - gap
    panel_h = min(max(1.3, 0.62 * panel_w), 2.6 if len(rows) < 3 else 1.5)
    titles = [PREYS.get(column, column) for column in columns]
    top = head_inches(head, width) + (0.34 if any("\n" in title for title in titles) else 0.2)
    height = top + bottom + len(rows) * panel_h + (len(rows) - 1) * gap
    fig = Figure(figsize=(width, height), dpi=DPI)
    axes = fig.subplots(len(rows), len(columns), sharex=share_x, sharey=share_y, squeeze=False)
    for ax in axes.flat:
        ax.set_autoscale_on(False)  # limits are set; looking for them again costs half the drawing
    fig.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        bottom=bottom / height,
        top=1 - top / height,
        wspace=gap / panel_w,
        hspace=gap / panel_h,
    )
    draw_head(fig, head)
    middle = (bottom + (height - top)) / 2 / height
    letters = int((height - top - bottom + 0.3) / 0.064)
    fig.text(0.1 / width, middle, textwrap.fill(y_label, letters), rotation=90, va="center",
             ha="left", size=8.5, multialignment="center", linespacing=1.1)  # fmt: skip
    centre = (left + width - right) / 2 / width
    fig.text(centre, (below + 0.1) / height, x_label, va="bottom", ha="center", size=8.5)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, pad=5)
    for line, row in zip(axes, rows, strict=True):
        line[-1].annotate(
            row.text,
            (1, 0.5),
            xytext=(5, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            rotation=-90,
            va="center",
            ha="left",
            multialignment="center",
            linespacing=1.1,
            size=8.5,
            color=readable(row.colour),
            annotation_clip=False,
        )
    return fig, {
        (row.key, prey): axes[i, j] for i, row in enumerate(rows) for j, prey in enumerate(columns)
    }


def limit_x(axes: dict[tuple[str, str], Axes], limit: float) -> None:
    """x from 0 to `limit`; labels at the ends stay inside their panel, clear of the next one's."""
    ticks = [
        tick
        for tick in MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, limit)
        if 0 <= tick <= limit
    ]
    for ax in axes.values():
        ax.set_xlim(0, limit)
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        labels = ax.get_xticklabels()
        if not labels:  # shared axes label their lowest row only
            continue
        labels[0].set_horizontalalignment("left")
        if ticks[-1] > 0.93 * limit:
            labels[-1].set_horizontalalignment("right")


def limit_log_x(
    axes: dict[tuple[str, str], Axes], limit: float, first: float | None = None
) -> None:
    """x to `limit` in powers of ten, from `first`, or a 500th of it."""
    for ax in axes.values():
        ax.set_xscale("log")
        ax.set_xlim(limit / 500 if first is None else first, limit)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())


def readable(colour: str) -> str:
    """The colour, darkened until it can be read as text on white (contrast of 4.5, WCAG)."""
    red, green, blue = to_rgb(colour)
    while 1.05 / (_luminance(red, green, blue) + 0.05) < 4.5:
        red, green, blue = 0.95 * red, 0.95 * green, 0.95 * blue
    return to_hex((red, green, blue))


def _luminance(*channels: float) -> float:
    """Relative luminance of sRGB channels in [0, 1] (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


BAND = "#EFE3C8"


def band_handle(label: str) -> Line2D:
    """The legend's entry of a shaded range."""
    return Line2D([], [], linestyle="none", marker="s", markersize=9, color=BAND, label=label)


def note(ax: Axes, text: str) -> None:
    """A quiet sentence in the middle of a panel that has nothing to show."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=FAINT)
    ax.grid(False)


def empty_figure(head: Head, text: str) -> Figure:
    """A figure that says why there is nothing on it."""
    fig = Figure(figsize=(7.2, 2.0), dpi=DPI)
    draw_head(fig, replace(head, handles=()))
    fig.text(0.5, 0.3, text, ha="center", color=FAINT)
    return fig


def origin(source: str) -> str:
    """Whose results a figure shows: a preset's, those that ship, or whatever was compared."""
    words = {"published": "published results", "comparison": "results side by side"}
    return words.get(source, f"preset {source}")


def nothing(title: str, source: str, fidelity: str) -> Figure:
    """The figure of an experiment of which the preset trains nothing."""
    head = Head(title, f"{origin(source)} · {fidelity} fidelity")
    return empty_figure(head, "This preset trains nothing for this figure.")


def steps_axis(budget: float) -> tuple[float, str]:
    """Divisor and label of a steps axis: thousands below a million, millions from there."""
    if budget < 1e6:
        return 1e3, "environment steps (thousands)"
    return 1e6, "environment steps (millions)"


def fit_for_paper(fig: Figure) -> None:
    """Every word at 8 points, within its panel: long names are wrapped, ticks that touch thinned;
    the figure as high as what is on it.
    """
    for text in fig.findobj(Text):
        text.set_fontsize(PAPER_POINTS)
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    for ax in fig.axes:
        inches = ax.get_window_extent().width / fig.dpi
        for place in ("center", "left"):
            ax.set_title(_wrapped(ax.get_title(place), inches + 0.1), loc=place)
        ax.set_xlabel(_wrapped(ax.get_xlabel(), inches + 0.1))
        _thin(ax.xaxis)
    width, height = fig.get_size_inches()
    for text in fig.texts:
        if text.get_rotation() == 0:
            text.set_text(_wrapped(text.get_text(), width - 0.2))
            lines = text.get_text().count("\n")
            text.set_y(text.get_position()[1] - 0.14 * lines / height)  # downwards, from the ticks
    canvas.draw()
    if fig.legends:
        boxes = [box for ax in fig.axes if (box := ax.get_tightbbox()) is not None]
        panels = max(box.y1 for box in boxes) / fig.dpi + 0.06
        lift = panels - min(one.get_window_extent().y0 for one in fig.legends) / fig.dpi
        for one in fig.legends:
            box = one.get_bbox_to_anchor().transformed(fig.transFigure.inverted())
            one.set_bbox_to_anchor((box.x0, box.y0 + lift / height), transform=fig.transFigure)


def _wrapped(text: str, inches: float) -> str:
    """Text in lines of so many inches at 8 points; a long name breaks before its capitals."""
    letters = max(int(inches / 0.062), 6)
    if max(map(len, text.split("\n"))) <= letters:
        return text
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "\x00", text) if " " not in text else text
    lines = textwrap.wrap(parts.replace("\x00", " "), letters, break_long_words=False,
                          break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)


def _thin(axis: Axis) -> None:
    """Leave out every second tick label until none touches the next."""
    labels = [label for label in axis.get_ticklabels() if label.get_text()]
    for _ in range(3):
        boxes = [label.get_window_extent() for label in labels]
        if all(b.x0 - a.x1 > 4 for a, b in itertools.pairwise(boxes)):
            return
        for label in labels[1::2]:
            label.set_visible(False)
        labels = labels[::2]


def _save_png(fig: Figure, path: Path) -> None:
    """256 colours are enough for these pictures and make their files a quarter as large."""
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    # Of Pillow's methods the one that keeps white white and rare colours, those of markers, close.
    few = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    # Level 9 takes six times as long for 5 % fewer bytes.
    few.save(path, "PNG", compress_level=6, dpi=(DPI, DPI))


def save(fig: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write `<stem>.png` and `<stem>.pdf`; the same figure gives the same bytes (no dates)."""
    stem = Path(stem)
    png, pdf = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".pdf")
    with styled(), pdf_fonts.shared():
        write_whole(png, lambda path: _save_png(fig, path))
        write_whole(pdf, lambda path: fig.savefig(path, dpi=DPI, metadata={"CreationDate": None}))
    return png, pdf


def save_for_paper(fig: Figure, stem: Path) -> Path:
    """Write `<stem>.pdf`, as wide as the figure and as high as what is on it."""
    pdf = stem.with_name(stem.name + ".pdf")
    with styled(paper=True), pdf_fonts.shared():
        fit_for_paper(fig)
        box = fig.get_tightbbox()
        whole = Bbox([[0, box.y0 - 0.03], [fig.get_figwidth(), box.y1 + 0.03]])
        write_whole(pdf, lambda path: fig.savefig(path, dpi=300, bbox_inches=whole,
                                                  metadata={"CreationDate": None}))  # fmt: skip
    return pdf
