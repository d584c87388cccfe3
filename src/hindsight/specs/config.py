"""Models and loading of config.yaml and of the files in the folder config.

An experiment is a grid: arms x levels of the varied keys x conditions x fidelities.  A preset
selects parts of these grids and sets the size of a run.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import (
    DEVICES,
    NUMBER,
    Few,
    Fidelity,
    Positive,
    Spec,
    Steps,
    TwoOrMore,
    Widths,
)
from hindsight.specs.cell import EndTestSpec, EvaluationSpec
from hindsight.specs.environments.predator_prey import PREYS, SPAWNS, Prey, Spawn
from hindsight.specs.errors import SpecError, must_be_among, validated
from hindsight.specs.reading import read_again, read_keys, values_of
from hindsight.specs.replay import GoalStrategy

#: The configuration, relative to the project's folder.
CONFIG = Path("config.yaml")
#: Folders of trained and of published results, relative to the project's folder.
TRAINED, PUBLISHED = Path("results"), Path("results/published")
#: Learning curves of the authors' unmodified code (README.md beside them).
AUTHORS = PUBLISHED / "authors/curves.json"
#: The preset that the published results were trained with.
PUBLISHED_PRESET = "large"
#: Episodes for the figure of the environment, relative to a folder of tables or to PUBLISHED.
EPISODES = Path("environment/episodes.npz")
#: The published figure with which every page opens.
HERO = "learned_described"


def _level(value: Any) -> Any:
    found = read_again(value)
    if not isinstance(found, bool | int | float | str):
        raise ValueError(f"{value!r} is not a number or a word")
    return found


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reject repeated values: their cells would count several times."""
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{value!r} is given twice")
    return values


def _alike(levels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reject levels of several kinds, which cannot be a column of a table."""
    if len({float if type(level) is int else type(level) for level in levels}) > 1:
        raise ValueError(f"{list(levels)} are neither all numbers nor all words")
    return levels


Level = Annotated[Any, BeforeValidator(_level)]
ONCE = AfterValidator(_each_once)
#: Experiments and presets name folders; arms appear in figures.
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
Words = Annotated[str, Field(pattern=r'^[^\x00-\x1f\x7f$\\<>"`|]{1,120}$')]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
if TYPE_CHECKING:
    AlgorithmName = str
else:
    AlgorithmName = Literal[tuple(ALGORITHMS)]
#: Task of the papers' conditions, which differ in spawn and prey.
PAPERS_TASK = "predator-prey"
#: Folder of the figure of the environment, beside those of the experiments.
PICTURE = "environment"
#: How the names of an experiment's figures end that show what is described.
DESCRIBED = "_described"
#: The experiment of the main figure, in which the authors' curves are drawn, too.
MAIN_EXPERIMENT = "algorithms"


#: The subject is the method studied, the baseline what it is compared with, a level one of several
#: variations, a reference shown for comparison only.
Role = Literal["baseline", "subject", "level", "reference"]


class Arm(Spec):
    """One line of a figure: an algorithm, with or without hindsight, and keys of its cells."""

    algorithm: AlgorithmName = "ppo"
    her: GoalStrategy | None = None
    #: Tasks to train on; None: all.
    tasks: Names | None = None
    role: Role = "level"
    keys: dict[str, Any] = Field(default_factory=dict)
    #: Read its cells from results/published instead of training them.
    published: bool = False


class Conditions(Spec):
    """Conditions of predator-prey: all pairs of a spawn and a prey."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1), ONCE] = SPAWNS
    preys: Annotated[tuple[Prey, ...], Field(min_length=1), ONCE] = tuple(PREYS)


#: What gives a key that also names a cell in tables and figures.
GIVEN_BY = {"id": "tasks", "spawn": "conditions", "prey": "conditions", "name": "algorithm",
            "strategy": "her"}  # fmt: skip


class Experiment(Spec):
    """The grid of one or several published figures."""

    title: Words
    figures: Words
    #: Paper in which the figures appear.
    paper: Words | None = None
    arms: Annotated[dict[Words, Arm], Field(min_length=1)]
    #: None: the default ones.
    conditions: Conditions | None = None
    #: Environments by name, instead of the conditions: id, keys of the environment, and under
    #: `keys` the other keys of the cells trained there.
    tasks: dict[Words, dict[str, Any]] = Field(default_factory=dict)
    keys: dict[str, Any] = Field(default_factory=dict)
    vary: dict[str, Annotated[tuple[Level, ...], AfterValidator(_alike), ONCE]] = Field({})
    fidelities: Annotated[tuple[Fidelity, ...], ONCE] = ("released",)
    seeds: Few = 16

    @property
    def published_as(self) -> str:
        """Paper and figure, such as `PPO-HER Fig. 4`."""
        return f"{self.paper} {self.figures}" if self.paper else self.figures

    @model_validator(mode="after")
    def _tasks_are_whole_and_differ(self) -> "Experiment":
        for name, task in self.tasks.items():
            keys = task.get("keys", {})
            if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys):
                raise ValueError(f"tasks.{name}.keys: {keys!r} is not a mapping of keys to values")
            if "id" not in task:
                raise ValueError(f"tasks.{name}.id: is missing; it names the task's environment")
        for name, arm in self.arms.items():
            for task_name in arm.tasks or ():
                must_be_among(self.tasks, task_name, f"arms.{name}.tasks:")
        if self.tasks and self.conditions is not None:
            raise ValueError("conditions: an experiment has either these or tasks")
        arms = {name: arm.model_dump(exclude={"role"}) for name, arm in self.arms.items()}
        for what, among in (("arms", arms), ("tasks", self.tasks)):
            for (one, a), (other, b) in combinations(among.items(), 2):
                if a == b:
                    raise ValueError(f"{what}: {one!r} and {other!r} are the same cells")
        return self

    @model_validator(mode="after")
    def _keys_are_given_once(self) -> "Experiment":
        """Tables and figures name a cell by its place in the grid, so no key may move it."""
        given = {"keys": self.keys} | {f"arms.{n}.keys": arm.keys for n, arm in self.arms.items()}
        given |= {f"tasks.{name}.keys": task.get("keys", {}) for name, task in self.tasks.items()}
        for where, keys in given.items():
            for key in keys:
                if by := "vary" if key in self.vary else GIVEN_BY.get(key):
                    raise ValueError(f"{where}: {key!r} is given by `{by}`")
        for key in self.vary:
            if (by := GIVEN_BY.get(key)) and key != "strategy":
                raise ValueError(f"vary: {key!r} is given by `{by}`")
        return self


def condition_name(spawn: str, prey: str) -> str:
    """Name of a condition in the tables; for a task, which has no spawn, `prey` is the task."""
    return f"{spawn} {prey}" if spawn else prey


class Row(Spec):
    """Points of an experiment's grid, and how much is trained there.

    It names the points that are in all of its lists; a list that it lacks leaves none out.
    """

    arms: Names | None = None
    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1)] | None = None
    preys: Annotated[tuple[Prey, ...], Field(min_length=1)] | None = None
    tasks: Names | None = None
    fidelities: Annotated[tuple[Fidelity, ...], Field(min_length=1)] | None = None
    #: Levels of varied keys.
    levels: dict[str, Annotated[tuple[Level, ...], Field(min_length=1)]] = Field(default={})
    #: True: train nothing there.
    skip: bool | None = None
    seeds: Few | None = None
    steps: Steps | None = None
    evaluation: EvaluationSpec | None = None
    #: False: no test, even if the preset has one.
    end_test: EndTestSpec | Literal[False] | None = None

    def names(self, point: dict[str, Any]) -> bool:
        """Whether the row names a point of the grid, whose keys are those of `lists`."""
        return all(point[key] in values for key, values in self.lists.items())

    @property
    def lists(self) -> dict[str, tuple[Any, ...]]:
        """What the row's points must be in: `arms`, ..., and the levels of each varied key."""
        keys = ("arms", "spawns", "preys", "tasks", "fidelities")
        given = {key: values for key in keys if (values := getattr(self, key)) is not None}
        return given | {f"levels.{key}": values for key, values in self.levels.items()}


#: The part of an experiment's grid that a preset trains; a mapping is its only row.
Selection = Annotated[
    tuple[Row, ...],
    BeforeValidator(
        lambda rows: [rows] if isinstance(rows, dict) else rows,
        json_schema_input_type=Row | tuple[Row, ...],
    ),
    Field(min_length=1),
]


class Size(Spec):
    """The keys of a preset: how much is trained."""

    hidden: Widths
    n_steps: TwoOrMore = 2048
    seeds: Few
    steps: Steps
    early_end: Annotated[float, NUMBER] | None = 1.3
    #: Only for SAC as released, and only if runs may end early.
    end_test: EndTestSpec | None = EndTestSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    select: dict[str, Selection]


class Execution(Spec):
    """How cells are trained; changes no result except the time taken."""

    device: Annotated[str, Field(pattern=DEVICES)] = "cpu"
    #: Seconds between checkpoints of a cell, which are written at the end of an iteration.
    checkpoint_seconds: Positive = 60.0
    #: Cores of a job: runs that train at a time, or processes that step third-party environments.
    threads: Annotated[int, Field(ge=1, le=256), NUMBER] = 1


class Config(Spec):
    """config.yaml with the overrides of `--config`; a preset's key at the top level wins."""

    preset: FolderName = "laptop"
    #: trained: train missing cells; cached: show trained cells; published: show published cells.
    results: Literal["trained", "cached", "published"] = "trained"
    execution: Execution = Execution()
    #: Default conditions of experiments.
    conditions: Conditions = Conditions()
    experiments: dict[FolderName, Experiment] = Field(default_factory=dict)
    presets: dict[FolderName, Size] = Field(default_factory=dict)

    hidden: Widths | None = None
    n_steps: Annotated[int, NUMBER] | None = None
    seeds: Few | None = None
    steps: Steps | None = None
    early_end: Annotated[float, NUMBER] | None = None
    end_test: EndTestSpec | None = None
    evaluation: EvaluationSpec | None = None
    select: dict[str, Selection] | None = None

    @model_validator(mode="after")
    def _names_are_known(self) -> "Config":
        must_be_among(self.presets, self.size_name, "preset:")
        if "published" in self.presets:
            raise ValueError("presets: 'published' is the name of the results that ship")
        if PICTURE in self.experiments:
            raise ValueError(
                f"experiments: {PICTURE!r} is the name of the picture of the environment; "
                "choose another"
            )
        for name in self.experiments:
            if name.endswith(DESCRIBED):
                raise ValueError(
                    f"experiments: {name!r} may not end in {DESCRIBED!r}, as the names of figures "
                    "of what is described do; choose another"
                )
        # Other presets may name what was replaced here: they are checked once they are in force.
        where, select = f"presets.{self.size_name}.select", self.presets[self.size_name].select
        if self.select is not None:
            where, select = "select", self.select
        for name, rows in select.items():
            must_be_among(self.experiments, name, f"{where}: experiment")
            for row in rows:
                _is_part_of(f"{where}.{name}", row, self.experiments[name])
        return self

    @property
    def size_name(self) -> str:
        """Name of the preset in force."""
        return PUBLISHED_PRESET if self.results == "published" else self.preset

    @cached_property
    def size(self) -> Size:
        """The preset in force with its overrides."""
        preset = self.presets[self.size_name]
        # A null that was given is an override, too: `early_end: null` means never.
        given = self.model_dump(include=set(Size.model_fields), exclude_unset=True)
        return validated(Size, preset.model_dump() | given)

    @property
    def source(self) -> str:
        """Folder name of tables and figures: the preset, or `published`."""
        return "published" if self.results == "published" else self.preset


def _is_part_of(where: str, row: Row, experiment: Experiment) -> None:
    """Raise ValueError if a row names an arm, task, condition or level that is not there."""
    of = experiment.conditions or Conditions()  # a configuration may train fewer
    for key in row.levels:
        must_be_among(experiment.vary, key, f"{where}.levels:")
    known: dict[str, Iterable[Any]] = {"arms": experiment.arms, "tasks": experiment.tasks}
    known |= {"preys": () if experiment.tasks else of.preys}
    known |= {"spawns": () if experiment.tasks else of.spawns}
    known |= {"fidelities": experiment.fidelities}
    known |= {f"levels.{key}": values for key, values in experiment.vary.items()}
    for key, values in row.lists.items():
        for value in values:
            must_be_among(known.get(key, values), value, f"{where}.{key}:")


def overrides_of(pairs: Sequence[str], option: str = "--config") -> dict[str, Any]:
    """Parse an option's `key=value` pairs, with values in YAML; raises SpecError."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SpecError(f"{option} {pair!r} is not key=value".strip())
        if key in overrides:
            raise SpecError(f"{option} {key} is given twice".strip())
        overrides[key] = values_of(value, f"{option} {pair}".strip())
    return overrides


def load(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read config.yaml and the files beside it (`completed`); SpecError names the file."""
    own, given = read_keys(path), dict(overrides or {})
    # Titles and the like are words, whatever they look like.
    given |= {key: read_again(given[key]) for key in given.keys() - {"experiments"}}
    values = completed({**own, **given}, path.parent)
    try:
        return validated(Config, values)
    except SpecError as error:
        # Its message begins with the keys that lead to the mistake, or with an unknown key.
        keys = re.split(r"[.:]", re.sub(r"^unknown key '([^']*)'", r"\1:", str(error)))
        kind, name = (*keys, "")[:2]
        where, ours = path, own.get(kind, {})
        if kind in given:
            where = Path("--config")
        elif kind in ("experiments", "presets") and isinstance(ours, dict) and name not in ours:
            where = path.parent / "config" / f"{kind}.yaml"
            where = where.with_suffix("") / f"{name}.yaml" if kind == "presets" else where
        raise SpecError(f"{where}: {error}") from None


def completed(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the folder config's experiments and presets, but for those that config.yaml replaces.

    What was published is what that folder says, whatever config.yaml trains.
    """
    if values.get("results") == "published":
        trained = {"conditions", "experiments", "presets", *Size.model_fields}
        values = {key: value for key, value in values.items() if key not in trained}
    experiments = folder / "config/experiments.yaml"
    shared = read_keys(experiments) if experiments.exists() else {}
    shared["presets"] = {
        path.stem: read_keys(path) for path in sorted(folder.glob("config/presets/*.yaml"))
    }
    for name in ("experiments", "presets"):
        if isinstance(own := values.get(name, {}), dict):  # else it is refused
            values = {**values, name: {**shared.get(name, {}), **own}}
    return {**shared, **values}
