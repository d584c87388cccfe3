"""From config.yaml to cells: presets, experiments, and the plan of what is to be trained.

An experiment is a grid: arms x levels of what varies x conditions x fidelities.  A preset says how
large: which part of which grids, and the size of a run.  Equal cells of different experiments are
one cell; where they differ in the number of seeds only, the largest is trained, because a run does
not depend on its neighbours.
"""

import itertools
import json
import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from hindsight.files import reason, write_whole
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.base import DEVICES, Count, Fidelity, Positive, Seeds, Spec, Widths
from hindsight.specs.cell import DEFAULTS, CellSpec, EndTestSpec, EvaluationSpec
from hindsight.specs.code import code_of
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.environments.predator_prey import (
    PREYS,
    SPAWNS,
    PredatorPreySpec,
    Prey,
    Spawn,
)
from hindsight.specs.errors import SpecError, guess, one_sentence, validated
from hindsight.specs.from_file import cell_of
from hindsight.specs.from_file import values_of as values_in_file
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.specs.reading import read_keys, values_of
from hindsight.specs.replay import GoalStrategy, ReplaySpec

#: Where results of each kind come from, relative to the project's folder.
TRAINED, PUBLISHED = Path("results"), Path("results/published")
#: The preset that the published results were trained with.
PUBLISHED_PRESET = "large"
#: The preset that is as large as the papers' own experiments: coverage is measured by it.
PAPERS_PRESET = "paper"
#: The episodes that the picture of the environment shows, in either.
EPISODES = Path("environment/episodes.npz")

#: The parts of a cell, and what each may be.
SECTIONS: dict[str, tuple[type[Spec], ...]] = {
    "environment": (*ENVIRONMENTS.values(), GymnasiumSpec),
    "algorithm": tuple(ALGORITHMS.values()),
    "hindsight": (HindsightSpec,),
    "replay": (ReplaySpec,),
}


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
#: Points of an off-policy algorithm's curves (PPO-HER Fig. 2).
BINS = 100
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


class Experiment(Spec):
    """The grid of one published figure (or several)."""

    title: Words
    figures: Words
    #: The paper that these figures are of.
    paper: Words | None = None
    arms: Annotated[dict[Words, Arm], Field(min_length=1)]
    #: Environments by name, in place of the papers' conditions: id, keys of the environment, and
    #: under `keys` those of its cells there.
    tasks: dict[Words, dict[str, Any]] = Field(default_factory=dict)
    keys: dict[str, Any] = Field(default_factory=dict)
    vary: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    fidelities: tuple[Fidelity, ...] = ("released",)
    seeds: Seeds = 16
    #: Its arms are compared in minutes, too: what trains beside a cell must not tell them apart.
    timed: bool = False

    @property
    def published_as(self) -> str:
        """Where it is published: `PPO-HER Fig. 4`."""
        return f"{self.paper} {self.figures}" if self.paper else self.figures

    @model_validator(mode="after")
    def _arms_are_for_its_tasks(self) -> "Experiment":
        for name, arm in self.arms.items():
            for task in arm.tasks or ():
                if task not in self.tasks:
                    known = _list(self.tasks)
                    raise ValueError(f"arms.{name}.tasks: {task!r} is unknown; there are {known}")
        return self


def _as_keys(tasks: Any) -> Any:
    """A mapping, also where only names are given: all of each."""
    return {name: {} for name in tasks} if isinstance(tasks, list | tuple) else tasks


def _false(value: Any) -> Any:
    """False where its word stands: within a key on its command line Snakemake reads words only."""
    return False if value in ("false", "False") else value


#: Names alone are fine, too.
Named = BeforeValidator(_as_keys, json_schema_input_type=dict[str, "Part"] | tuple[str, ...])


class Part(Spec):
    """Part of a grid; everything that is not narrowed."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1)] = SPAWNS
    #: By name: of each, what is narrowed there in turn.  None: all.
    preys: Annotated[dict[Prey, "Part"], Named, Field(min_length=1)] | None = None
    tasks: Annotated[dict[str, "Part"], Named, Field(min_length=1)] | None = None
    fidelities: Annotated[dict[Fidelity, "Part"], Named, Field(min_length=1)] | None = None
    levels: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
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

    def at(self, where: "Condition", fidelity: Fidelity) -> list["Part"]:
        """This part, and what it narrows at a condition and a fidelity: of unequal budgets the
        least counts.
        """
        preys, tasks = self.preys or {}, self.tasks or {}
        narrowed = [
            preys.get(where.prey) if where.prey else tasks.get(where.task),
            (self.fidelities or {}).get(fidelity),
        ]
        return [self, *(p for part in narrowed if part for p in part.at(where, fidelity))]


class Selection(Part):
    """The part of an experiment's grid that a preset trains."""

    #: Arms of which only a part of that is trained.
    arms: dict[str, Part] = Field(default_factory=dict)


class Size(Spec):
    """How large: the keys of a preset."""

    hidden: Widths
    n_steps: Annotated[int, Field(ge=2)] = 2048
    seeds: Seeds
    steps: Count
    early_end: float | None = 1.3
    #: Of SAC as released, where runs end early at all.
    end_test: EndTestSpec | None = EndTestSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    select: dict[str, Selection]


class Execution(Spec):
    """How cells are trained, which changes no number but their clocks (but see `full_width`)."""

    device: Device = "cpu"
    runs_per_axis: Count | None = None
    #: Between checkpoints of a cell: what an interruption loses at most.
    checkpoint_seconds: Positive = 60.0
    #: On an AMD core MKL's products at AVX-512's width, which round differently.
    full_width: bool = False


class Config(Spec):
    """config.yaml, with what `--config` added: a preset's key at the top wins over the preset."""

    preset: FolderName
    results: Literal["trained", "published"] = "trained"
    execution: Execution = Execution()
    experiments: dict[FolderName, Experiment]
    presets: dict[FolderName, Size]

    hidden: Widths | None = None
    n_steps: int | None = None
    seeds: Seeds | None = None
    steps: Count | None = None
    early_end: float | None = None
    end_test: EndTestSpec | None = None
    evaluation: EvaluationSpec | None = None
    select: dict[str, Selection] | None = None

    @model_validator(mode="after")
    def _names_are_known(self) -> "Config":
        if self.size_name not in self.presets:
            known = _list(self.presets)
            raise ValueError(f"preset {self.size_name!r} is unknown; there are {known}")
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
            if name not in self.experiments:
                known = _list(self.experiments)
                raise ValueError(f"{where}: experiment {name!r} is unknown; there are {known}")
            experiment = self.experiments[name]
            parts: dict[str, Part] = {f"{where}.{name}": selection}
            for arm, part in selection.arms.items():
                if arm not in experiment.arms:
                    known = _list(experiment.arms)
                    raise ValueError(f"{where}.{name}.arms: {arm!r} is unknown; there are {known}")
                parts[f"{where}.{name}.arms.{arm}"] = part
            for place, part in parts.items():
                _is_part_of(place, part, experiment)

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
        return self.preset if self.results == "trained" else "published"


def _is_part_of(where: str, part: Part, experiment: Experiment) -> None:
    """ValueError where a part names a task or a level that the experiment's grid has not."""
    for task, narrowed in (part.tasks or {}).items():
        if task not in experiment.tasks:
            raise ValueError(
                f"{where}.tasks: {task!r} is unknown; there are {_list(experiment.tasks)}"
            )
        _is_part_of(f"{where}.tasks.{task}", narrowed, experiment)
    for prey, narrowed in (part.preys or {}).items():
        _is_part_of(f"{where}.preys.{prey}", narrowed, experiment)
    for fidelity, narrowed in (part.fidelities or {}).items():
        _is_part_of(f"{where}.fidelities.{fidelity}", narrowed, experiment)
    for key, levels in part.levels.items():
        if key not in experiment.vary:
            known = _list(experiment.vary)
            raise ValueError(f"{where}.levels: {key!r} is not varied there, but {known}")
        for level in levels:
            if level not in experiment.vary[key]:
                known = ", ".join(map(str, experiment.vary[key]))
                raise ValueError(f"{where}.levels.{key}: {level!r} is not among {known}")


def _list(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def overrides_of(pairs: Sequence[str], option: str = "--config") -> dict[str, Any]:
    """Keys and values from an option's `key=value` pairs, values as YAML; raises SpecError."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SpecError(f"{option} {pair!r} is not key=value")
        overrides[key] = values_of(value, f"{option} {pair}")
    return overrides


def load(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read config.yaml; raises SpecError, one sentence, for anything that cannot be."""
    return parse({**read_keys(path), **(overrides or {})})


def parse(values: dict[str, Any]) -> Config:
    """A configuration from plain values; raises SpecError.  Its cells are a plan's to check."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise SpecError(one_sentence(error, Config)) from None


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
    """The experiment's tasks, or the papers' twelve conditions."""
    if experiment.tasks:
        return [Condition(task) for task in experiment.tasks]
    places = itertools.product(SPAWNS, PREYS)
    return [Condition(PAPERS_TASK, spawn, prey) for spawn, prey in places]


@dataclass(frozen=True)
class Entry:
    """One place in an experiment's grid, and the cell whose first `seeds` runs belong there."""

    experiment: str
    fidelity: Fidelity
    arm: str
    level: dict[str, Any]
    condition: Condition
    spec: CellSpec
    #: The cell is one that ships, whatever the preset.
    published: bool = False


@dataclass(frozen=True)
class Place:
    """One place in an experiment's grid that is selected; parts: what narrows it."""

    experiment: str
    fidelity: Fidelity
    arm: str
    level: dict[str, Any]
    condition: Condition
    parts: list[Part]

    def seeds(self, size: Size, experiment: Experiment) -> int:
        """Of unequal numbers of runs the least; what is selected counts before the papers' own."""
        return min(size.seeds, *([p.seeds for p in self.parts if p.seeds] or [experiment.seeds]))

    def steps(self, size: Size) -> int:
        """Of unequal budgets the least."""
        return min([size.steps, *(part.steps for part in self.parts if part.steps)])


def places(size: Size, experiments: dict[str, Experiment]) -> Iterator[Place]:
    """Every place of every selected experiment, main experiment first."""
    for name, selection in size.select.items():
        experiment = experiments[name]
        for fidelity, where, arm, *values in itertools.product(
            experiment.fidelities,
            conditions(experiment),
            experiment.arms,
            *experiment.vary.values(),
        ):
            level = dict(zip(experiment.vary, values, strict=True))
            of_arm = selection.arms.get(arm, Part())
            parts = [part for whole in (selection, of_arm) for part in whole.at(where, fidelity)]
            if where.task in (experiment.arms[arm].tasks or [where.task]) and all(
                part.has(fidelity, where, level) for part in parts
            ):
                yield Place(name, fidelity, arm, level, where, parts)


def entries(config: Config) -> Iterator[Entry]:
    """The same places with their cells."""
    shipped = Shipped(config)
    for at in places(config.size, config.experiments):
        ships = config.experiments[at.experiment].arms[at.arm].published
        spec = shipped.cell(at) if ships else _cell(config, at)
        yield Entry(at.experiment, at.fidelity, at.arm, at.level, at.condition, spec, ships)


class Shipped:
    """The published cells, found by what they are; they are planned when first asked for."""

    def __init__(self, config: Config) -> None:
        self._of = config

    @cached_property
    def config(self) -> Config:
        """What was published, whatever preset and overrides are in force."""
        return self._config()

    def _config(self, **more: Any) -> Config:
        own = self._of
        values = {"experiments": own.experiments, "presets": own.presets, **more}
        return validated(Config, {"preset": PUBLISHED_PRESET, "results": "published", **values})

    @cached_property
    def _cells(self) -> dict[str, CellSpec]:
        arms = {name: each.arms.values() for name, each in self.config.experiments.items()}
        select = self.config.size.select
        trained = {
            name: part
            for name, part in select.items()
            if not any(arm.published for arm in arms[name])
        }
        found: dict[str, CellSpec] = {}
        for entry in entries(self._config(select=trained)):
            most = found.setdefault(_but_for_size(entry.spec), entry.spec)
            if (entry.spec.steps, entry.spec.seeds) > (most.steps, most.seeds):
                found[_but_for_size(entry.spec)] = entry.spec
        return found

    def cell(self, at: Place) -> CellSpec:
        """The published cell of a place's algorithm and condition, whatever its size: of several
        the one with the most steps; SpecError without one.
        """
        found = self._cells.get(_but_for_size(_cell(self.config, replace(at, parts=[]))))
        if found is None:
            raise SpecError(
                f"experiments.{at.experiment}, {at.arm}, {at.condition.name}: no published cell is "
                "of this algorithm, condition and fidelity; leave `published` out to train it, or "
                "narrow the experiment with `select`"
            )
        return found


def _but_for_size(spec: CellSpec) -> str:
    """A cell's hash without its numbers of seeds and steps, and what follows from these."""
    algorithm = spec.algorithm.model_dump(mode="json")
    algorithm.pop("log_interval", None)
    values = spec.model_dump(mode="json", include={"environment", "hindsight", "replay"})
    return json.dumps(values | {"algorithm": algorithm}, sort_keys=True)


def papers_grids(config: Config) -> dict[str, Any]:
    """By experiment what the papers' own preset would train of it, as plain data.

    arms: by name the levels and conditions of each; seeds and steps: the most that a run has there;
    hidden: the network.  Nothing without such a preset.
    """
    if PAPERS_PRESET not in config.presets:
        return {}
    size, found = config.presets[PAPERS_PRESET], dict[str, Any]()
    for at in places(size, config.experiments):
        experiment = config.experiments[at.experiment]
        grid = found.setdefault(at.experiment, {
            "title": experiment.title, "figures": experiment.published_as,
            "paper": experiment.paper, "fidelities": list(experiment.fidelities),
            "hidden": list(experiment.keys.get("hidden", size.hidden)),
            "seeds": 0, "steps": 0, "arms": {},
        })  # fmt: skip
        grid["seeds"] = max(grid["seeds"], at.seeds(size, experiment))
        grid["steps"] = max(grid["steps"], at.steps(size))
        arm = grid["arms"].setdefault(at.arm, {"levels": [], "conditions": []})
        for name, value in (("levels", at.level), ("conditions", at.condition.name)):
            if value not in arm[name]:
                arm[name].append(value)
    return found


def _cell(config: Config, at: Place) -> CellSpec:
    size, experiment = config.size, config.experiments[at.experiment]
    arm, condition, fidelity = experiment.arms[at.arm], at.condition, at.fidelity
    where = f"experiments.{at.experiment}, {at.arm}, {condition.name}"
    steps, seeds = at.steps(size), at.seeds(size, experiment)
    environment: dict[str, Any]
    if condition.spawn is not None:
        environment = {"spawn": condition.spawn, "prey": condition.prey, "fidelity": fidelity}
    else:
        environment = dict(experiment.tasks[condition.task])
        if _kind("environment", environment) is PredatorPreySpec:
            environment.setdefault("fidelity", fidelity)
    keys = {**experiment.keys, **environment.pop("keys", {}), **arm.keys, **at.level}
    values: dict[str, Any] = {
        "environment": environment,
        "algorithm": {"name": arm.algorithm, "hidden": size.hidden},
        "seeds": seeds,
        "steps": steps,
        "early_end": size.early_end,
        "evaluation": [size.evaluation, *(p.evaluation for p in at.parts if p.evaluation)][-1],
    }
    her = {"strategy": arm.her, "fidelity": fidelity} if arm.her is not None else {}
    if ALGORITHMS[arm.algorithm].on_policy:
        values["algorithm"]["n_steps"] = size.n_steps
        values |= {"hindsight": her} if her else {}
    else:
        # The papers show off-policy curves in so many equal bins.
        n_envs = keys.get("n_envs", 1)
        values["algorithm"]["log_interval"] = max(1, steps // BINS // n_envs)
        values["replay"] = her
    for key, value in keys.items():
        put(values, key, value, where)
    test = [size.end_test, *(p.end_test for p in at.parts if p.end_test is not None)][-1]
    ends = values["early_end"] is not None
    if arm.algorithm == "sac" and fidelity == "released" and test and ends:
        # The authors' SAC runs end by a test, too; it falls on the end of an iteration.
        values["end_test"] = test
        values["algorithm"]["log_interval"] = _divisor(test.every, at_most=steps // BINS)
    try:
        return CellSpec.model_validate(values)
    except ValidationError as error:
        raise SpecError(f"{where}: {one_sentence(error, CellSpec)}") from None


def _divisor(number: int, at_most: int) -> int:
    """The largest divisor of a number that is not above another, at least 1."""
    return max(d for d in range(1, max(1, min(at_most, number)) + 1) if number % d == 0)


def put(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Give a cell's values a key, where it belongs; SpecError, beginning with `where`."""
    if key == "early_end":
        values[key] = value
        return
    if key == "fidelity":
        raise SpecError(f"{where}: 'fidelity' is given by `fidelities`, in `train` by --fidelity")
    homes = [s for s, models in SECTIONS.items() if any(key in m.model_fields for m in models)]
    if not homes:
        keys = {name for models in SECTIONS.values() for m in models for name in m.model_fields}
        raise SpecError(f"{where}: {key!r} is no key of a cell{guess(key, keys)}")
    for home in homes:
        if home in values and key in _kind(home, values[home]).model_fields:
            values[home][key] = value
            return
    if homes[0] in values:
        raise SpecError(
            f"{where}: {key!r} is no key of {_kind(homes[0], values[homes[0]]).__name__}"
        )
    raise SpecError(f"{where}: {key!r} needs hindsight, so a strategy (her)")


def must_count(spec: CellSpec, values: dict[str, Any], keys: Iterable[str]) -> None:
    """Raise SpecError for a given key of a cell that its other keys leave without effect."""
    for key in keys:
        for section in SECTIONS.keys() & values.keys():
            part, given = getattr(spec, section), values[section]
            if key not in given:
                continue
            asked = TypeAdapter(type(part).model_fields[key].annotation).validate_python(given[key])
            if getattr(part, key) != asked:
                others = ", ".join(
                    f"{name} {value}" for name, value in given.items() if name != key
                )
                raise SpecError(f"{key}={given[key]} has no effect beside {others}")


def _kind(section: str, values: dict[str, Any]) -> type[Spec]:
    """What a section is, by its id or name; the default kind, if it has neither."""
    tags = {**DEFAULTS.get(section, {}), **values}
    if section == "environment":
        return ENVIRONMENTS.get(str(tags["id"]), GymnasiumSpec)
    if section == "algorithm":
        return ALGORITHMS.get(str(tags["name"]), PPOSpec)
    return SECTIONS[section][0]


def spec_path(name: str) -> Path:
    """Where a cell's specification is written."""
    return TRAINED / "specs" / f"{name}.json"


def spec_document(spec: CellSpec) -> str:
    """What a job reads: the specification, and the fingerprint of the code it is planned with."""
    return as_json({"code": code_of(spec), "spec": spec.model_dump(mode="json")})


def read_spec(path: Path, named: Collection[str] = ()) -> CellSpec:
    """The specification in a file, of an environment that is known or `named` (`from_file`).

    Raises SpecError or FileError for what is none, also if it was planned with other code.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: cannot be read as a specification: {reason(error)}") from error
    values = values_in_file(text, path)
    planned = values.get("code")
    if planned is None:  # a specification alone
        return cell_of(values, path, named)
    spec = cell_of(values.get("spec"), path, named)
    if planned != (code := code_of(spec)):
        raise SpecError(
            f"{path}: planned with the code {planned}, which is {code} by now: the sources have "
            "been edited since; the same command plans anew"
        )
    return spec


class Written(dict[str, CellSpec]):
    """Specifications that have been written, each read when it is asked for."""

    def __init__(self, named: Collection[str]) -> None:
        super().__init__()
        self.named = named

    def __missing__(self, name: str) -> CellSpec:
        return self.setdefault(name, read_spec(spec_path(name), self.named))


@dataclass(frozen=True)
class Plan:
    """What a configuration trains: cells by name, and where each experiment finds its own."""

    config: Config
    cells: dict[str, CellSpec]
    experiments: dict[str, list[tuple[Entry, str]]]

    @classmethod
    def of(cls, config: Config) -> "Plan":
        """Merge equal cells; of cells that differ in seeds only, the largest serves all.

        Raises SpecError for a cell that cannot be.
        """
        everything = [(entry, _but_for_seeds(entry.spec)) for entry in entries(config)]
        largest: dict[str, CellSpec] = {}
        for entry, key in everything:
            if entry.published:
                continue
            if key not in largest or entry.spec.seeds > largest[key].seeds:
                largest[key] = entry.spec
        names = {key: spec.name for key, spec in largest.items()}
        experiments: dict[str, list[tuple[Entry, str]]] = {}
        for entry, key in everything:
            name = entry.spec.name if entry.published else names[key]
            experiments.setdefault(entry.experiment, []).append((entry, name))
        return cls(config, {names[key]: spec for key, spec in largest.items()}, experiments)

    @classmethod
    def as_written(cls, config: Config) -> "Plan":
        """What a cluster's job needs: the cells as the head has written them, no experiments."""
        return cls(config, Written(config.named), {})

    def cells_of(self, experiment: str) -> list[str]:
        """Names of the cells that are trained for an experiment, without repetition."""
        places = self.experiments[experiment]
        return list(dict.fromkeys(name for entry, name in places if not entry.published))

    def shipped_of(self, experiment: str) -> list[str]:
        """Names of the published cells that it reads beside them."""
        places = self.experiments[experiment]
        return list(dict.fromkeys(name for entry, name in places if entry.published))

    @cached_property
    def timed(self) -> dict[str, Hashable]:
        """Where a cell stands in the experiments that compare minutes, but for its condition.

        Of those that stand nowhere there is nothing.  Cells that train together have this in
        common: arms are then timed alike, each among its own cells.
        """
        places: dict[str, set[Hashable]] = {}
        for experiment, rows in self.experiments.items():
            if self.config.experiments[experiment].timed:
                for entry, name in rows:
                    level = tuple(sorted((key, str(x)) for key, x in entry.level.items()))
                    place = (experiment, entry.fidelity, entry.arm, level)
                    places.setdefault(name, set()).add(place)
        return {name: frozenset(found) for name, found in places.items()}

    def document(self, experiment: str) -> dict[str, Any]:
        """The experiment's plan as plain data: what analysis reads (a plan.json)."""
        root = PUBLISHED if self.config.results == "published" else TRAINED
        definition, size = self.config.experiments[experiment], self.config.size
        selected = size.select[experiment].steps or size.steps
        # An experiment's keys may say another network than the preset's.
        networks = {entry.spec.algorithm.hidden for entry, _ in self.experiments[experiment]}
        network = {"hidden": list(networks.pop())} if len(networks) == 1 else {}
        return {
            "experiment": experiment,
            "title": definition.title,
            "figures": definition.published_as,
            "source": self.config.source,
            "preset": {
                **size.model_dump(mode="json", exclude={"select"}),
                "steps": min(selected, size.steps),
                **network,
            },
            "arms": list(definition.arms),
            "vary": list(definition.vary),
            "entries": [
                {
                    "fidelity": entry.fidelity,
                    "arm": entry.arm,
                    **_what_it_is(definition.arms[entry.arm]),
                    "level": entry.level,
                    "task": entry.condition.task,
                    "condition": entry.condition.name,
                    "spawn": entry.condition.spawn,
                    "prey": entry.condition.prey,
                    "seeds": entry.spec.seeds,
                    "steps": entry.spec.steps,
                    "cell": str(
                        (PUBLISHED if entry.published else root) / "cells" / f"{name}.parquet"
                    ),
                }
                for entry, name in self.experiments[experiment]
            ],
        }


def _what_it_is(arm: Arm) -> dict[str, Any]:
    """An arm but for its name: by this, not by the name, analysis knows it."""
    return {"role": arm.role, "algorithm": arm.algorithm, "her": arm.her, "keys": arm.keys}


def left_out(plan: Plan) -> list[str]:
    """What `select` leaves out: a line for each experiment without some levels, arms or tasks."""
    lines = []
    for name, places in plan.experiments.items():
        experiment, found = plan.config.experiments[name], [entry for entry, _ in places]
        parts: dict[str, tuple[Iterable[Any], list[Any]]] = {
            **{
                key: (levels, [entry.level[key] for entry in found])
                for key, levels in experiment.vary.items()
            },
            "arms": (experiment.arms, [entry.arm for entry in found]),
            "tasks": (experiment.tasks, [entry.condition.task for entry in found]),
        }
        told = []
        for what, (everything, planned) in parts.items():
            kept, hidden = (
                ", ".join(str(one) for one in everything if (one in planned) == there)
                for there in (True, False)
            )
            if hidden:
                told.append(f"{what} {kept} without {hidden}")
        if told:
            lines.append(f"  {name}: {'; '.join(told)}")
    return ["`select` narrows the experiments to", *lines] if lines else []


def _but_for_seeds(spec: CellSpec) -> str:
    return spec.model_copy(update={"seeds": 1}).name


def write_if_changed(path: Path, text: str) -> None:
    """Write a derived file only if it differs: what depends on it is then not redone.

    One with a time in the future is written, too: what is made of it would always be older.
    """
    data = text.encode()
    with suppress(OSError):  # writing it tells why
        if path.read_bytes() == data and path.stat().st_mtime <= time.time():
            return
    write_whole(path, lambda beside: beside.write_bytes(data))


def as_json(value: Any) -> str:
    """Plain data as stable, readable JSON."""
    return json.dumps(value, indent=1, sort_keys=False) + "\n"
