"""From config.yaml to cells: presets, experiments, and the plan of what is to be trained.

An experiment is a grid: arms x levels of what varies x conditions x fidelities.  A preset says how
large: which part of which grids, and the size of a run.  Equal cells of different experiments are
one cell; where they differ in the number of seeds only, the largest is trained, because a run does
not depend on its neighbours.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError, model_validator

from hindsight.files import write_whole
from hindsight.specs.base import Count, Positive, Spec
from hindsight.specs.cell import (
    FIDELITIES,
    PREYS,
    SPAWNS,
    AlgorithmSpec,
    CellSpec,
    EnvironmentSpec,
    EvaluationSpec,
    Fidelity,
    HindsightSpec,
    Prey,
    Spawn,
)
from hindsight.specs.errors import SpecError, one_sentence, validated
from hindsight.specs.replay import ReplaySpec

#: Where results of each kind come from, relative to the project's folder.
TRAINED, PUBLISHED = Path("results"), Path("results/published")
#: The preset that the published results were trained with.
PUBLISHED_PRESET = "large"
#: The episodes that the picture of the environment shows, in either.
EPISODES = Path("environment/episodes.npz")

#: The parts of a cell, and what each may be.
SECTIONS: dict[str, tuple[type[Spec], ...]] = {
    "environment": get_args(EnvironmentSpec),
    "algorithm": get_args(AlgorithmSpec),
    "hindsight": (HindsightSpec,),
    "replay": (ReplaySpec,),
}


class Arm(Spec):
    """One line of a figure: an algorithm, with or without hindsight, and keys of its cells."""

    algorithm: Literal["ppo"] = "ppo"
    her: Literal["final", "future", "episode"] | None = None
    keys: dict[str, Any] = Field(default_factory=dict)


class Experiment(Spec):
    """The grid of one published figure (or several)."""

    title: str
    figures: str
    arms: dict[str, Arm]
    keys: dict[str, Any] = Field(default_factory=dict)
    vary: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    fidelities: tuple[Fidelity, ...] = ("released",)
    seeds: Count = 16


class Selection(Spec):
    """The part of an experiment's grid that a preset trains; everything that is not narrowed."""

    spawns: Annotated[tuple[Spawn, ...], Field(min_length=1)] = SPAWNS
    preys: Annotated[tuple[Prey, ...], Field(min_length=1)] = PREYS
    fidelities: Annotated[tuple[Fidelity, ...], Field(min_length=1)] = FIDELITIES
    levels: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    seeds: Count | None = None
    steps: Count | None = None


class Size(Spec):
    """How large: the keys of a preset."""

    hidden: tuple[Count, ...]
    n_steps: Annotated[int, Field(ge=2)] = 2048
    seeds: Count
    steps: Count
    early_end: float | None = 1.3
    evaluation: EvaluationSpec = EvaluationSpec()
    select: dict[str, Selection]


class Execution(Spec):
    """How cells are trained, which changes no number but their clocks."""

    device: str = "cpu"
    runs_per_axis: Count | None = None
    #: Between checkpoints of a cell: what an interruption loses at most.
    checkpoint_seconds: Positive = 60.0


class Config(Spec):
    """config.yaml, with what `--config` added: a preset's key at the top wins over the preset."""

    preset: str
    results: Literal["trained", "published"] = "trained"
    execution: Execution = Execution()
    experiments: dict[str, Experiment]
    presets: dict[str, Size]

    hidden: tuple[Count, ...] | None = None
    n_steps: int | None = None
    seeds: Count | None = None
    steps: Count | None = None
    early_end: float | None = None
    evaluation: EvaluationSpec | None = None
    select: dict[str, Selection] | None = None

    @model_validator(mode="after")
    def _names_are_known(self) -> "Config":
        if self.size_name not in self.presets:
            known = _list(self.presets)
            raise ValueError(f"preset {self.size_name!r} is unknown; there are {known}")
        if "published" in self.presets:
            raise ValueError("presets: 'published' is the name of the results that ship")
        for name, size in self.presets.items():
            self._selects_what_there_is(f"presets.{name}.select", size.select)
        self._selects_what_there_is("select", self.select or {})
        return self

    def _selects_what_there_is(self, where: str, select: dict[str, Selection]) -> None:
        for name, selection in select.items():
            if name not in self.experiments:
                known = _list(self.experiments)
                raise ValueError(f"{where}: experiment {name!r} is unknown; there are {known}")
            vary = self.experiments[name].vary
            for key, levels in selection.levels.items():
                place = f"{where}.{name}.levels"
                if key not in vary:
                    raise ValueError(f"{place}: {key!r} is not varied there, but {_list(vary)}")
                for level in levels:
                    if level not in vary[key]:
                        known = ", ".join(map(str, vary[key]))
                        raise ValueError(f"{place}.{key}: {level!r} is not among {known}")

    @property
    def size_name(self) -> str:
        """The preset that counts."""
        return PUBLISHED_PRESET if self.results == "published" else self.preset

    @property
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


def _list(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def overrides_of(pairs: Sequence[str], option: str = "--config") -> dict[str, Any]:
    """Keys and values from an option's `key=value` pairs, values as YAML; raises SpecError."""
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SpecError(f"{option} {pair!r} is not key=value")
        overrides[key] = yaml.safe_load(value)
    return overrides


def load(path: Path, overrides: dict[str, Any] | None = None) -> Config:
    """Read config.yaml; raises SpecError, one sentence, for anything that cannot be."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise SpecError(f"{path}: holds no keys")
    return parse({**values, **(overrides or {})})


def parse(values: dict[str, Any]) -> Config:
    """A configuration from plain values; raises SpecError."""
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise SpecError(one_sentence(error, Config)) from None
    list(entries(config))  # every cell must be possible, before anything is trained
    return config


@dataclass(frozen=True)
class Entry:
    """One place in an experiment's grid, and the cell whose first `seeds` runs belong there."""

    experiment: str
    fidelity: Fidelity
    arm: str
    level: dict[str, Any]
    spawn: Spawn
    prey: Prey
    spec: CellSpec


def entries(config: Config) -> Iterator[Entry]:
    """Every place of every selected experiment, main experiment first."""
    size = config.size
    for name, selection in size.select.items():
        experiment = config.experiments[name]
        levels = {
            key: [v for v in values if v in selection.levels.get(key, values)]
            for key, values in experiment.vary.items()
        }
        fidelities = [f for f in experiment.fidelities if f in selection.fidelities]
        for fidelity, spawn, prey, arm, *values in itertools.product(
            fidelities, selection.spawns, selection.preys, experiment.arms, *levels.values()
        ):
            level = dict(zip(levels, values, strict=True))
            spec = _cell(config, name, fidelity, spawn, prey, arm, level, selection)
            yield Entry(name, fidelity, arm, level, spawn, prey, spec)


def _cell(
    config: Config,
    name: str,
    fidelity: Fidelity,
    spawn: Spawn,
    prey: Prey,
    arm_name: str,
    level: dict[str, Any],
    selection: Selection,
) -> CellSpec:
    size, experiment = config.size, config.experiments[name]
    arm = experiment.arms[arm_name]
    where = f"experiments.{name}, {arm_name}, {spawn} {prey}"
    values: dict[str, Any] = {
        "environment": {"spawn": spawn, "prey": prey, "fidelity": fidelity},
        "algorithm": {"name": arm.algorithm, "hidden": size.hidden, "n_steps": size.n_steps},
        "seeds": min(selection.seeds or size.seeds, size.seeds, experiment.seeds),
        "steps": min(selection.steps or size.steps, size.steps),
        "early_end": size.early_end,
        "evaluation": size.evaluation,
    }
    if arm.her is not None:
        values["hindsight"] = {"strategy": arm.her, "fidelity": fidelity}
    for key, value in {**experiment.keys, **arm.keys, **level}.items():
        put(values, key, value, where)
    try:
        return CellSpec.model_validate(values)
    except ValidationError as error:
        raise SpecError(f"{where}: {one_sentence(error, CellSpec)}") from None


def put(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Give a cell's values a key, where it belongs; SpecError, beginning with `where`."""
    if key == "early_end":
        values[key] = value
        return
    homes = [s for s, models in SECTIONS.items() if any(key in m.model_fields for m in models)]
    if not homes:
        raise SpecError(f"{where}: {key!r} is no key of a cell")
    for home in homes:
        if home in values and key in _kind(home, values[home]).model_fields:
            values[home][key] = value
            return
    if homes[0] in values:
        raise SpecError(
            f"{where}: {key!r} is no key of {_kind(homes[0], values[homes[0]]).__name__}"
        )
    raise SpecError(f"{where}: {key!r} needs hindsight, so a strategy (her)")


def _kind(section: str, values: dict[str, Any]) -> type[Spec]:
    """What a section is, by its id or name; the first kind there is, if it has neither."""
    tag = values.get("id", values.get("name"))
    for model in SECTIONS[section]:
        if tag in {field.default for field in model.model_fields.values() if field.default}:
            return model
    return SECTIONS[section][0]


@dataclass(frozen=True)
class Plan:
    """What a configuration trains: cells by name, and where each experiment finds its own."""

    config: Config
    cells: dict[str, CellSpec]
    experiments: dict[str, list[tuple[Entry, str]]]

    @classmethod
    def of(cls, config: Config) -> "Plan":
        """Merge equal cells; of cells that differ in seeds only, the largest serves all."""
        everything = list(entries(config))
        largest: dict[str, CellSpec] = {}
        for entry in everything:
            key = _but_for_seeds(entry.spec)
            if key not in largest or entry.spec.seeds > largest[key].seeds:
                largest[key] = entry.spec
        cells = {spec.name: spec for spec in largest.values()}
        experiments: dict[str, list[tuple[Entry, str]]] = {}
        for entry in everything:
            name = largest[_but_for_seeds(entry.spec)].name
            experiments.setdefault(entry.experiment, []).append((entry, name))
        return cls(config, cells, experiments)

    def cells_of(self, experiment: str) -> list[str]:
        """Names of the cells an experiment needs, without repetition."""
        return list(dict.fromkeys(name for _, name in self.experiments[experiment]))

    def document(self, experiment: str) -> dict[str, Any]:
        """The experiment's plan as plain data: what analysis reads (a plan.json)."""
        root = PUBLISHED if self.config.results == "published" else TRAINED
        definition, size = self.config.experiments[experiment], self.config.size
        selected = size.select[experiment].steps or size.steps
        return {
            "experiment": experiment,
            "title": definition.title,
            "figures": definition.figures,
            "source": self.config.source,
            "preset": {
                **size.model_dump(mode="json", exclude={"select"}),
                "steps": min(selected, size.steps),
            },
            "vary": list(definition.vary),
            "entries": [
                {
                    "fidelity": entry.fidelity,
                    "arm": entry.arm,
                    "level": entry.level,
                    "spawn": entry.spawn,
                    "prey": entry.prey,
                    "seeds": entry.spec.seeds,
                    "cell": str(root / "cells" / f"{name}.parquet"),
                }
                for entry, name in self.experiments[experiment]
            ],
        }


def _but_for_seeds(spec: CellSpec) -> str:
    return spec.model_copy(update={"seeds": 1}).name


def write_if_changed(path: Path, text: str) -> None:
    """Write a derived file only if its text differs: what depends on it is then not redone."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def as_json(value: Any) -> str:
    """Plain data as stable, readable JSON."""
    return json.dumps(value, indent=1, sort_keys=False) + "\n"
