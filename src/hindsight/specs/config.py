"""Models and loading of config.yaml and of the files in the folder config.

An experiment is a grid: arms x levels of the varied keys x conditions x fidelities.  A preset
selects parts of these grids and sets the size of a run.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
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
from hindsight.specs.reading import read_keys, values_of
from hindsight.specs.replay import GoalStrategy

#: Folders of trained and of published results, relative to the project's folder.
TRAINED, PUBLISHED = Path("results"), Path("results/published")
#: Learning curves of the authors' unmodified code (README.md beside them).
AUTHORS = PUBLISHED / "authors/curves.json"
#: The preset that the published results were trained with.
PUBLISHED_PRESET = "large"
#: Episodes for the figure of the environment, relative to a folder of tables or to PUBLISHED.
EPISODES = Path("environment/episodes.npz")


def _level(value: Any) -> Any:
    """Convert a numeric string: Snakemake's --config passes nested values as text."""
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{value!r} is not a number or a word")
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value) if isinstance(value, str) else value
    return value


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
if TYPE_CHECKING:
    AlgorithmName = str
else:
    AlgorithmName = Literal[tuple(ALGORITHMS)]
#: Task of the papers' conditions, which differ in spawn and prey.
PAPERS_TASK = "predator-prey"
#: Folder of the figure of the environment, beside those of the experiments.
PICTURE = "environment"
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
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    role: Role = "level"
    keys: dict[str, Any] = Field(default_factory=dict)
    #: Read its cells from results/published instead of training them.
    published: bool = False


class Conditions(Spec):
    """Conditions of predator-prey: all pairs of a spawn and a prey."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1), ONCE] = SPAWNS
    preys: Annotated[tuple[Prey, ...], Field(min_length=1), ONCE] = tuple(PREYS)


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
    def _tasks_are_whole(self) -> "Experiment":
        for name, task in self.tasks.items():
            keys = task.get("keys", {})
            if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys):
                raise ValueError(f"tasks.{name}.keys: {keys!r} is not a mapping of keys to values")
        for name, arm in self.arms.items():
            for task_name in arm.tasks or ():
                must_be_among(self.tasks, task_name, f"arms.{name}.tasks:")
        return self


def condition_name(spawn: str, prey: str) -> str:
    """Name of a condition in the tables; for a task, which has no spawn, `prey` is the task."""
    return f"{spawn} {prey}" if spawn else prey


def _as_keys(tasks: Any) -> Any:
    """Turn a list of names into a mapping from each name to an empty part."""
    if not isinstance(tasks, list | tuple):
        return tasks
    for name in tasks:
        if isinstance(name, dict | list):
            raise ValueError(f"{name!r} in a list is not allowed; give names, or a mapping")
    return {name: {} for name in tasks}


def _false(value: Any) -> Any:
    """Convert the text `false`: Snakemake's --config passes nested values as text."""
    return False if value in ("false", "False") else value


#: Mappings that may also be given as lists of their keys.
Named = BeforeValidator(_as_keys, json_schema_input_type=dict[Any, "Part"] | tuple[Any, ...])


class Part(Spec):
    """Part of a grid: all of it, except where a key narrows it."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1)] = SPAWNS
    #: By name, each with a part that narrows it further; None: all.
    preys: Annotated[dict[Prey, "Part"], Named, Field(min_length=1)] | None = None
    tasks: Annotated[dict[str, "Part"], Named, Field(min_length=1)] | None = None
    fidelities: Annotated[dict[Fidelity, "Part"], Named, Field(min_length=1)] | None = None
    #: Levels of each varied key, each with a part that narrows it further.
    levels: dict[str, Annotated[dict[Level, "Part"], Named]] = Field(default_factory=dict)
    seeds: Few | None = None
    steps: Steps | None = None
    evaluation: EvaluationSpec | None = None
    #: False: no test, even if the preset has one.
    end_test: Annotated[EndTestSpec | Literal[False] | None, BeforeValidator(_false)] = None

    def at(self, point: dict[str, Any]) -> list["Part"] | None:
        """This part and those inside it that apply at a point of the grid; None if it lacks it.

        point: the spawn, or None for a task; and the values of `inner`'s keys.
        """
        if point["spawn"] not in (None, *self.spawns):
            return None
        found = [self]
        for key, parts in self.inner.items():
            if point[key] is None:
                continue
            inside = parts[point[key]].at(point) if point[key] in parts else None
            if inside is None:
                return None
            found += inside
        return found

    @property
    def inner(self) -> dict[str, dict[Any, "Part"]]:
        """The parts inside this one, by the key that they belong to and then by its values."""
        named = {name: getattr(self, name) for name in ("preys", "tasks", "fidelities")}
        named |= {f"levels.{key}": parts for key, parts in self.levels.items()}
        return {key: parts for key, parts in named.items() if parts is not None}


class Selection(Part):
    """The part of an experiment's grid that a preset trains."""

    #: Arms that are narrowed further.
    arms: dict[str, Part] = Field(default_factory=dict)


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
    #: Seconds between checkpoints of a cell: the most that an interruption loses.
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
        must_be_among(self.presets, self.size_name, "preset")
        if "published" in self.presets:
            raise ValueError("presets: 'published' is the name of the results that ship")
        if PICTURE in self.experiments:
            raise ValueError(
                f"experiments: {PICTURE!r} is the name of the picture of the environment; "
                "choose another"
            )
        selects = {f"presets.{name}.select": size.select for name, size in self.presets.items()}
        for where, select in (selects | {"select": self.select or {}}).items():
            for name, selection in select.items():
                must_be_among(self.experiments, name, f"{where}: experiment")
                _is_part_of(f"{where}.{name}", selection, self.experiments[name])
        return self

    @property
    def size_name(self) -> str:
        """Name of the preset in force."""
        return PUBLISHED_PRESET if self.results == "published" else self.preset

    @cached_property
    def size(self) -> Size:
        """The preset in force with its overrides; what was published has none."""
        preset = self.presets[self.size_name]
        if self.results == "published":
            return preset
        # A null that was given is an override, too: `early_end: null` means never.
        given = self.model_dump(include=set(Size.model_fields), exclude_unset=True)
        return validated(Size, preset.model_dump() | given)

    @property
    def source(self) -> str:
        """Folder name of tables and figures: the preset, or `published`."""
        return "published" if self.results == "published" else self.preset


def _is_part_of(where: str, part: Part, experiment: Experiment) -> None:
    """Raise ValueError if a part names an arm, task, prey or level that the experiment lacks."""
    for key in part.levels:
        must_be_among(experiment.vary, key, f"{where}.levels:")
    known: dict[str, Iterable[Any]] = {"arms": experiment.arms, "tasks": experiment.tasks}
    known |= {"preys": ()} if experiment.tasks else {}
    known |= {f"levels.{key}": values for key, values in experiment.vary.items()}
    arms = {"arms": part.arms} if isinstance(part, Selection) else {}
    for name, parts in (part.inner | arms).items():
        for key, narrowed in parts.items():
            must_be_among(known.get(name, parts), key, f"{where}.{name}:")
            _is_part_of(f"{where}.{name}.{key}", narrowed, experiment)


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
    """Read config.yaml and the files beside it (`completed`); raises SpecError."""
    return parse(completed({**read_keys(path), **(overrides or {})}, path.parent))


def completed(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the folder config's experiments and presets, but for those that config.yaml replaces."""
    experiments = folder / "config/experiments.yaml"
    shared = read_keys(experiments) if experiments.exists() else {}
    shared["presets"] = {
        path.stem: read_keys(path) for path in sorted(folder.glob("config/presets/*.yaml"))
    }
    for name in ("experiments", "presets"):
        if isinstance(own := values.get(name, {}), dict):  # else it is refused
            values = {**values, name: {**shared.get(name, {}), **own}}
    return {**shared, **values}


def parse(values: dict[str, Any]) -> Config:
    """Validate a configuration given as plain values; raises SpecError.  Cells: see `Plan.of`."""
    return validated(Config, values)
