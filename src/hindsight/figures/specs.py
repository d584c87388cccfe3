"""Read the definitions of all figures from figures.yaml; imports no plotting library."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hindsight.specs.config import EPISODES
from hindsight.specs.reading import YAML

TABLE = Path(__file__).parent / "figures.yaml"
#: What a figure's name ends with, by fidelity.
ENDINGS = {"released": "", "described": "_described"}


@dataclass(frozen=True)
class Measure:
    """What an axis shows: a column of one of an experiment's tables.

    Attributes:
        table: seed_curves, evaluations or runs (.parquet) or, with `bounds`, a table with a row per
            cell (.csv).
        limits: the limits of the axis; None: fit to the data.
        centre: `mean` with a bootstrap interval, or `share` with Wilson's.
        over: whether to show a run's gain over the baseline's run of the same seed.
        bounds: the columns of the interval.
        unit: what values are divided by.
        role: show only arms with this role, if others have the same values.
    """

    column: str
    label: str
    table: str
    limits: tuple[float, float] | None = None
    log: bool = False
    centre: str = "mean"
    over: bool = False
    bounds: tuple[str, str] | None = None
    unit: float = 1.0
    role: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """One figure.

    Attributes:
        kind: a key of `KINDS` in `draw`.
        x: the clock of `curves`, or the swept key of `along`.
        rows, columns, lines: facets that separate the plan's entries: arm, spawn, prey, place,
            task, measure, any key, or "line" for the arm with its level.
        roles, arms, places: the entries to show; () for all.
        labels: the names of the arms in `learned`.
        alone: key and value of entries to show in every row.
        shade: the range of x that the paper found best.
        authors: whether to draw the authors' own curves.
        mark_best: whether to mark the best level, and cells that never learn.
    """

    experiment: str
    kind: str
    title: str
    caption: str
    fidelity: str = ""
    measures: tuple[str, ...] = ("return",)
    x: str = "env_steps"
    rows: tuple[str, ...] = ("spawn",)
    columns: str = "prey"
    lines: str = "arm"
    roles: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    shade: tuple[float, float] | None = None
    authors: bool = False
    mark_best: bool = False


def frozen(value: Any) -> Any:
    """Turn lists into tuples, all the way down."""
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value


#: The content of figures.yaml, and its measures by name.
DOCUMENT: Mapping[str, Any] = yaml.load(TABLE.read_text(encoding="utf-8"), YAML)
MEASURES = {name: Measure(**frozen(what)) for name, what in DOCUMENT["measures"].items()}


def _specs(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, FigureSpec]:
    words = DOCUMENT["words"]
    found: dict[str, FigureSpec] = {}
    for name, what in figures.items():
        caption = " ".join(what["caption"].format(**words).split())
        spec = FigureSpec(**frozen(what) | {"caption": caption})
        endings = {"": ""} if spec.kind == "episodes" else ENDINGS
        found |= {name + end: replace(spec, fidelity=of) for of, end in endings.items()}
    return found


#: All figures of the project's own experiments, by name.
FIGURES = _specs(DOCUMENT["figures"])


def specs_of(experiments: Iterable[str]) -> dict[str, FigureSpec]:
    """Return FIGURES, and the default figures of those experiments that have none among them."""
    known = {spec.experiment for spec in FIGURES.values()} | set(DOCUMENT["without"])
    found = dict(FIGURES)
    for name in experiments:
        if name not in known:
            found |= _specs({
                f"{figure}_{name}": {"experiment": name} | what
                for figure, what in DOCUMENT["of_any"].items()
            })  # fmt: skip
    return found


def names_for(experiment: str, fidelities: Sequence[str]) -> list[str]:
    """Return the names of an experiment's figures under these fidelities."""
    return [
        name
        for name, spec in specs_of([experiment]).items()
        if spec.experiment == experiment and spec.fidelity in ("", *fidelities)
    ]


def names_there(tables_root: Path) -> list[str]:
    """Return the names of the figures of all plans in `<tables_root>/<experiment>/`.

    Raises ResultError for a file that is no plan.
    """
    from hindsight.analysis.summarise import read_plan  # with SciPy: half a second

    found: list[str] = []
    for path in sorted(tables_root.glob("*/plan.json")):
        fidelities = [entry["fidelity"] for entry in read_plan(path)["entries"]]
        found += names_for(path.parent.name, fidelities)
    return found + names_for(EPISODES.parent.name, []) * (tables_root / EPISODES).exists()
