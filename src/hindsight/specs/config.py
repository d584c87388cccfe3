"""What config.yaml and the folder config may say: the models of the keys, and how they are read.

An experiment is a grid: arms x levels of what varies x conditions x fidelities.  A preset says how
large: which part of which grids, and the size of a run.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import (
    DEVICES,
    NUMBER,
    Count,
    Fidelity,
    Positive,
    Seeds,
    Spec,
    TwoOrMore,
    Widths,
)
from hindsight.specs.cell import EndTestSpec, EvaluationSpec
from hindsight.specs.environments.predator_prey import PREYS, SPAWNS, Prey, Spawn
from hindsight.specs.errors import SpecError, one_sentence, validated
from hindsight.specs.reading import read_keys, values_of
from hindsight.specs.replay import GoalStrategy

#: Where results of each kind come from, relative to the project's folder.
TRAINED, PUBLISHED = Path("results"), Path("results/published")
#: Learning curves that the authors' repository made as it is (README.md beside them).
AUTHORS = PUBLISHED / "authors/curves.json"
#: The preset that the published results were trained with.
PUBLISHED_PRESET = "large"
#: The episodes that the picture of the environment shows, in either.
EPISODES = Path("environment/episodes.npz")


def _number(value: Any) -> Any:
    """A number where it is one: within a key on its command line Snakemake reads words only."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value) if isinstance(value, str) else value
    return value


Level = Annotated[Any, BeforeValidator(_number)]
#: Names of experiments and presets are names of folders; names of arms stand in figures.
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
Words = Annotated[str, Field(pattern=r'^[^\x00-\x1f\x7f$\\<>"`|]{1,120}$')]
Device = Annotated[str, Field(pattern=DEVICES)]
if TYPE_CHECKING:
    AlgorithmName = str
else:
    AlgorithmName = Literal[tuple(ALGORITHMS)]
#: The task of the papers' conditions, which differ in spawn and prey.
PAPERS_TASK = "predator-prey"
#: What an arm is to its experiment: what the subject is compared with; the method that the
#: experiment is about; one of several variations, which their keys tell apart; shown beside them.
Role = Literal["baseline", "subject", "level", "reference"]
#: What stands beside the experiments wherever figures and tables do.
PICTURE = "environment"


class Arm(Spec):
    """One line of a figure: an algorithm, with or without hindsight, and keys of its cells."""

    algorithm: AlgorithmName = "ppo"
    her: GoalStrategy | None = None
    #: The only tasks that it is for; None: all.
    tasks: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    role: Role = "level"
    keys: dict[str, Any] = Field(default_factory=dict)
    #: Its cells are read from results/published, not trained.
    published: bool = False


class Conditions(Spec):
    """How predator and prey spawn, and how the prey moves: all pairs of these."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1)] = SPAWNS
    preys: Annotated[tuple[Prey, ...], Field(min_length=1)] = PREYS


class Experiment(Spec):
    """The grid of one published figure (or several)."""

    title: Words
    figures: Words
    #: The paper that these figures are of.
    paper: Words | None = None
    arms: Annotated[dict[Words, Arm], Field(min_length=1)]
    conditions: Conditions = Conditions()
    #: Environments by name, in place of the conditions: id, keys of the environment, and under
    #: `keys` those of its cells there.
    tasks: dict[Words, dict[str, Any]] = Field(default_factory=dict)
    keys: dict[str, Any] = Field(default_factory=dict)
    vary: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    fidelities: tuple[Fidelity, ...] = ("released",)
    seeds: Seeds = 16

    @property
    def published_as(self) -> str:
        """Where it is published: `PPO-HER Fig. 4`."""
        return f"{self.paper} {self.figures}" if self.paper else self.figures

    @model_validator(mode="after")
    def _arms_are_for_its_tasks(self) -> "Experiment":
        for name, arm in self.arms.items():
            for task in arm.tasks or ():
                _must_be_among(self.tasks, task, f"arms.{name}.tasks:")
        return self


@dataclass(frozen=True)
class Condition:
    """Where a cell is trained: a task; the papers' own by how both spawn and how the prey moves."""

    task: str
    spawn: Spawn | None = None
    prey: Prey | None = None

    @property
    def name(self) -> str:
        """What tells it from an experiment's others: `random static`, or the task."""
        return self.task if self.spawn is None else condition_name(self.spawn, str(self.prey))


def condition_name(spawn: str, prey: str) -> str:
    """What the tables call one of the papers' conditions; a task alone (no spawn) is its own."""
    return f"{spawn} {prey}" if spawn else prey


def conditions(experiment: Experiment) -> list[Condition]:
    """The experiment's tasks, or its conditions of predator-prey."""
    if experiment.tasks:
        return [Condition(task) for task in experiment.tasks]
    places = itertools.product(experiment.conditions.spawns, experiment.conditions.preys)
    return [Condition(PAPERS_TASK, spawn, prey) for spawn, prey in places]


def _as_keys(tasks: Any) -> Any:
    """A mapping, also where only names are given: all of each."""
    return {name: {} for name in tasks} if isinstance(tasks, list | tuple) else tasks


def _false(value: Any) -> Any:
    """False where its word stands: within a key on its command line Snakemake reads words only."""
    return False if value in ("false", "False") else value


#: Names alone are fine, too.
Named = BeforeValidator(_as_keys, json_schema_input_type=dict[str, "Part"] | tuple[str, ...])
#: Levels alone, too.
Levels = BeforeValidator(_as_keys, json_schema_input_type=dict[Any, "Part"] | tuple[Any, ...])


class Part(Spec):
    """Part of a grid; everything that is not narrowed."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1)] = SPAWNS
    #: By name: of each, what is narrowed there in turn.  None: all.
    preys: Annotated[dict[Prey, "Part"], Named, Field(min_length=1)] | None = None
    tasks: Annotated[dict[str, "Part"], Named, Field(min_length=1)] | None = None
    fidelities: Annotated[dict[Fidelity, "Part"], Named, Field(min_length=1)] | None = None
    #: By the key that varies: its levels, and of each what is narrowed there in turn.
    levels: dict[str, Annotated[dict[Level, "Part"], Levels]] = Field(default_factory=dict)
    seeds: Seeds | None = None
    steps: Count | None = None
    evaluation: EvaluationSpec | None = None
    #: False: none, where the preset has one.
    end_test: Annotated[EndTestSpec | Literal[False] | None, BeforeValidator(_false)] = None

    def has(self, fidelity: Fidelity, where: "Condition", level: dict[str, Any]) -> bool:
        """Whether a place of the grid belongs to it."""
        if where.spawn is None:
            here = self.tasks is None or where.task in self.tasks
        else:
            here = where.spawn in self.spawns and (self.preys is None or where.prey in self.preys)
        levels = all(level[key] in values for key, values in self.levels.items())
        return here and levels and (self.fidelities is None or fidelity in self.fidelities)

    def at(self, where: "Condition", fidelity: Fidelity, level: dict[str, Any]) -> Iterator["Part"]:
        """This part, and what it narrows at a place of the grid: of unequal budgets the least
        counts.
        """
        yield self
        at = {"preys": where.prey, "tasks": where.task, "fidelities": fidelity}
        at |= {f"levels.{key}": value for key, value in level.items()}
        for name, parts in self.inner.items():
            if at[name] in parts:
                yield from parts[at[name]].at(where, fidelity, level)

    @property
    def inner(self) -> dict[str, dict[Any, "Part"]]:
        """The parts that it narrows in turn, by what narrows and then by its values."""
        named = {name: getattr(self, name) or {} for name in ("preys", "tasks", "fidelities")}
        return named | {f"levels.{key}": parts for key, parts in self.levels.items()}


class Selection(Part):
    """The part of an experiment's grid that a preset trains."""

    #: Arms of which only a part of that is trained.
    arms: dict[str, Part] = Field(default_factory=dict)


class Size(Spec):
    """How large: the keys of a preset."""

    hidden: Widths
    n_steps: TwoOrMore = 2048
    seeds: Seeds
    steps: Count
    early_end: Annotated[float, NUMBER] | None = 1.3
    #: Of SAC as released, where runs end early at all.
    end_test: EndTestSpec | None = EndTestSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    select: dict[str, Selection]


class Execution(Spec):
    """How cells are trained, which changes no number but their clocks."""

    device: Device = "cpu"
    #: Between checkpoints of a cell: what an interruption loses at most.
    checkpoint_seconds: Positive = 60.0
    #: Cores of a job: runs of a cell that are trained at a time, or processes that step foreign
    #: environments.
    threads: Annotated[int, Field(ge=1, le=256), NUMBER] = 1


class Config(Spec):
    """config.yaml, with what `--config` added: a preset's key at the top wins over the preset."""

    preset: FolderName = "laptop"
    #: trained: train what is missing; cached: show what has been trained; published: what ships.
    results: Literal["trained", "cached", "published"] = "trained"
    execution: Execution = Execution()
    #: Of experiments that have none of their own: the papers'.
    conditions: Conditions = Conditions()
    experiments: dict[FolderName, Experiment] = Field(default_factory=dict)
    presets: dict[FolderName, Size] = Field(default_factory=dict)

    hidden: Widths | None = None
    n_steps: Annotated[int, NUMBER] | None = None
    seeds: Seeds | None = None
    steps: Count | None = None
    early_end: Annotated[float, NUMBER] | None = None
    end_test: EndTestSpec | None = None
    evaluation: EvaluationSpec | None = None
    select: dict[str, Selection] | None = None

    @model_validator(mode="before")
    @classmethod
    def _experiments_have_conditions(cls, values: Any) -> Any:
        found, shared = values.get("experiments"), values.get("conditions")
        if shared is None or not isinstance(found, dict):
            return values
        experiments = {
            name: {"conditions": shared, **each} if isinstance(each, dict) else each
            for name, each in found.items()
        }
        return {**values, "experiments": experiments}

    @model_validator(mode="after")
    def _names_are_known(self) -> "Config":
        _must_be_among(self.presets, self.size_name, "preset")
        if "published" in self.presets:
            raise ValueError("presets: 'published' is the name of the results that ship")
        if PICTURE in self.experiments:
            raise ValueError(
                f"experiments: {PICTURE!r} is the name of the picture of the environment; "
                "choose another"
            )
        for name, size in self.presets.items():
            self._selects_what_there_is(f"presets.{name}.select", size.select)
        self._selects_what_there_is("select", self.select or {})
        return self

    def _selects_what_there_is(self, where: str, select: dict[str, Selection]) -> None:
        for name, selection in select.items():
            _must_be_among(self.experiments, name, f"{where}: experiment")
            experiment = self.experiments[name]
            _is_part_of(f"{where}.{name}", selection, experiment)
            for arm, part in selection.arms.items():
                _must_be_among(experiment.arms, arm, f"{where}.{name}.arms:")
                _is_part_of(f"{where}.{name}.arms.{arm}", part, experiment)

    @property
    def named(self) -> set[str]:
        """The environments' ids that stand in it: a person typed them, so they may be imported."""
        tasks = [task for each in self.experiments.values() for task in each.tasks.values()]
        return {str(task["id"]) for task in tasks if "id" in task}

    @property
    def size_name(self) -> str:
        """The preset that counts."""
        return PUBLISHED_PRESET if self.results == "published" else self.preset

    @cached_property
    def size(self) -> Size:
        """The preset, with the keys that are overridden."""
        preset = self.presets[self.size_name]
        # What was given counts, also where it is null: `early_end: null` means never.
        given = {
            name: getattr(self, name) for name in Size.model_fields.keys() & self.model_fields_set
        }
        return validated(Size, preset.model_dump() | given)

    @property
    def source(self) -> str:
        """Where figures come from, as a folder's name: a preset's, or `published`."""
        return "published" if self.results == "published" else self.preset


def _is_part_of(where: str, part: Part, experiment: Experiment) -> None:
    """ValueError where a part names a task or a level that the experiment's grid has not."""
    for task in part.tasks or ():
        _must_be_among(experiment.tasks, task, f"{where}.tasks:")
    for key, levels in part.levels.items():
        _must_be_among(experiment.vary, key, f"{where}.levels:")
        for level in levels:
            _must_be_among(experiment.vary[key], level, f"{where}.levels.{key}:")
    for name, parts in part.inner.items():
        for key, narrowed in parts.items():
            _is_part_of(f"{where}.{name}.{key}", narrowed, experiment)


def _must_be_among(there: Iterable[Any], name: Any, where: str) -> None:
    """ValueError that begins with `where`."""
    if name not in there:
        known = ", ".join(sorted(map(str, there))) or "none"
        raise ValueError(f"{where} {name!r} is unknown; there are {known}")


def overrides_of(pairs: Sequence[str], option: str = "--config") -> dict[str, Any]:
    """Keys and values from an option's `key=value` pairs, values as YAML; raises SpecError."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SpecError(f"{option} {pair!r} is not key=value".strip())
        overrides[key] = values_of(value, f"{option} {pair}".strip())
    return overrides


def load(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read config.yaml and the files beside it (`completed`); raises SpecError, one sentence, for
    anything that cannot be.
    """
    return parse(completed({**read_keys(path), **(overrides or {})}, path.parent))


def completed(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values of config.yaml with those of `config` in its folder: experiments.yaml, and a file
    for each preset.  Of experiments and presets of one name config.yaml's counts.
    """
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
    """A configuration from plain values; raises SpecError.  Its cells are a plan's to check."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise SpecError(one_sentence(error)) from None
