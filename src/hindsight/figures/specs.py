"""Read the definitions of all figures from figures.yaml; imports no plotting library."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    PositiveFloat,
    PrivateAttr,
)

from hindsight.io.records import RECORD
from hindsight.specs.base import Positive, Spec
from hindsight.specs.config import (
    AUTHORS,
    EPISODES,
    MAIN_EXPERIMENT,
    ONCE,
    PICTURE,
    FolderName,
    Role,
)
from hindsight.specs.errors import validated
from hindsight.specs.reading import read_keys

TABLE = Path(__file__).parent / "figures.yaml"
#: What a figure's name ends with, by fidelity.
ENDINGS = {"released": "", "described": "_described"}
#: How a figure is drawn: `DRAWERS` in draw.py.
Kind = Literal["curves", "along", "intervals", "episodes", "learned"]
#: Offset, and lengths of dashes and gaps.
Dashes = tuple[NonNegativeFloat, Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]]


def _from_low_to_high(pair: tuple[float, float]) -> tuple[float, float]:
    if not pair[0] < pair[1]:
        raise ValueError(f"{list(pair)} must be two numbers, the smaller one first")
    return pair


Interval = Annotated[tuple[FiniteFloat, FiniteFloat], AfterValidator(_from_low_to_high)]
#: Matplotlib's.
Marker = Literal["o", "s", "^", "v", "<", ">", "D", "d", "p", "h", "H", "8", "*", "P", "X"]


class Measure(Spec):
    """What an axis shows: a column of one of an experiment's tables."""

    column: str
    label: str
    #: All are Parquet files but m_c, a CSV file with a row per cell.
    table: Literal["seed_curves", "evaluations", "runs", "m_c"]
    limits: Interval | None = None  # of the axis; None: fit to the data
    log: bool = False
    centre: Literal["mean", "share"] = "mean"  # with a bootstrap interval, or with Wilson's
    over: bool = False  # show a run's gain over the baseline's run of the same seed
    bounds: tuple[str, str] | None = None  # the columns of the interval, which m_c has
    unit: Positive = 1.0  # what values are divided by
    role: Role | None = None  # show only arms with this role, if others have the same values


class FigureSpec(Spec):
    """One figure.

    Facets (`rows`, `columns`, `lines`) separate the plan's entries: arm, spawn, prey, place, task,
    measure, any key, or "line" for the arm with its level.
    """

    kind: Kind
    title: str
    caption: str
    experiment: str = ""
    measures: Annotated[tuple[str, ...], Field(min_length=1), ONCE] = ("return",)
    x: str = "env_steps"  # the clock of `curves`, or the swept key of `along`
    rows: Annotated[tuple[str, ...], ONCE] = ("spawn",)
    columns: str = "prey"
    lines: str = "arm"
    #: The entries to show; () for all.
    roles: Annotated[tuple[Role, ...], ONCE] = ()
    arms: Annotated[tuple[str, ...], ONCE] = ()
    places: Annotated[tuple[str, ...], ONCE] = ()
    alone: tuple[Any, ...] = ()  # key and value of entries to show in every row
    shade: Interval | None = None  # the range of x that the paper found best
    authors: bool = False  # draw the authors' own curves
    mark_best: bool = False  # mark the best level, and cells that never learn
    #: Set by this module; figures.yaml leaves it out.
    fidelity: Annotated[str, Field(max_length=0)] = ""


class LookSpec(Spec):
    """The look of a line; what is not given is as in `style.Look`."""

    colour: Annotated[str, Field(pattern="^#[0-9A-Fa-f]{6}$")]
    line: Dashes | None = None
    marker: Marker | tuple[int, int, int] = "o"
    width: Positive = 1.5


class OwnLook(LookSpec):
    """A change to the look of a line; what is not given stays."""

    colour: Annotated[str, Field(pattern="^#[0-9A-Fa-f]{6}$")] = "#000000"


class OwnStyle(Spec):
    """The content of the file that `hindsight figures --style` takes."""

    #: By the name of an arm or of a swept word, as the legend has it.
    looks: dict[str, OwnLook] = Field(default={})
    palette: str = "viridis_r"  # seaborn's or matplotlib's, for swept numbers, from light to dark
    labels: dict[str, str] = Field(default={})  # what to write instead of a label, by the label
    _replaced: dict[str, str] = PrivateAttr(default_factory=dict)  # those of `labels` so far

    def label(self, text: str) -> str:
        if text in self.labels:
            self._replaced[text] = self.labels[text]
        return self.labels.get(text, text)

    @property
    def written(self) -> frozenset[str]:
        """The user's own labels that stand in figures by now."""
        return frozenset(self._replaced.values())

    @property
    def unused(self) -> list[str]:
        return [text for text in self.labels if text not in self._replaced]


class Method(LookSpec):
    """The name and look of arms with these keys."""

    arm: dict[str, Any]
    name: str


class Document(Spec):
    words: dict[str, str]
    measures: dict[str, Measure]
    keys: dict[str, dict[Literal["label", "symbol"], str]]
    dashes: tuple[Dashes, ...]
    swept: dict[str, LookSpec]
    looks: tuple[Method, ...]
    without: tuple[str, ...]
    of_any: dict[FolderName, FigureSpec]
    figures: dict[FolderName, FigureSpec]


#: The content of figures.yaml, and its measures by name.
DOCUMENT = validated(Document, read_keys(TABLE), f"{TABLE}")
MEASURES = DOCUMENT.measures


def _specs(figures: Mapping[str, FigureSpec], **more: str) -> dict[str, FigureSpec]:
    found: dict[str, FigureSpec] = {}
    for name, spec in figures.items():
        caption = spec.caption
        for word, text in DOCUMENT.words.items():
            caption = caption.replace(f"{{{word}}}", text)
        values = {"caption": " ".join(caption.split()), **more}
        for of, end in ({"": ""} if spec.kind == "episodes" else ENDINGS).items():
            found[name + end] = spec.model_copy(update={**values, "fidelity": of})
    return found


#: All figures of the project's own experiments, by name.
FIGURES = _specs(DOCUMENT.figures)


def specs_of(experiments: Iterable[str]) -> dict[str, FigureSpec]:
    """Return FIGURES, and the default figures of those experiments that have none among them."""
    known = {spec.experiment for spec in FIGURES.values()} | set(DOCUMENT.without)
    found = dict(FIGURES)
    for name in experiments:
        if name not in known:
            own = {f"{figure}_{name}": spec for figure, spec in DOCUMENT.of_any.items()}
            found |= _specs(own, experiment=name)
    return found


def names_for(experiment: str, fidelities: Sequence[str]) -> list[str]:
    """Return the names of an experiment's figures under these fidelities."""
    return [
        name
        for name, spec in specs_of([experiment]).items()
        if spec.experiment == experiment and spec.fidelity in ("", *fidelities)
    ]


def made_from(experiment: str, tables: Path, episodes: Path) -> list[str]:
    """Return the files that stand for all that an experiment's figures are drawn from."""
    if experiment == PICTURE:
        return [str(episodes)]
    authors = [str(AUTHORS)] if experiment == MAIN_EXPERIMENT and AUTHORS.exists() else []
    return [str(tables / experiment / RECORD), *authors]


def names_there(tables_root: Path) -> list[str]:
    """Return the names of the figures of all plans in `<tables_root>/<experiment>/`.

    Copies of folders, under other names, do not count.  Raises ResultError for a file that is no
    plan, or if there is nothing but copies.
    """
    from hindsight.analysis.summarise import ResultError, read_plan  # with SciPy: half a second

    found, copied = list[str](), list[str]()
    for path in sorted(tables_root.glob("*/plan.json")):
        plan = read_plan(path)
        if plan["experiment"] == path.parent.name:
            found += names_for(path.parent.name, [entry["fidelity"] for entry in plan["entries"]])
        else:
            copied.append(f"{path.parent}: holds the tables of {plan['experiment']}")
    if copied and not found:
        raise ResultError(f"{copied[0]}; a folder of tables must keep its name")
    return found + names_for(EPISODES.parent.name, []) * (tables_root / EPISODES).exists()
