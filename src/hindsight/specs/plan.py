"""Expand a configuration into a plan: the cells to train, and the experiments that use them.

Experiments share equal cells.  If cells differ only in their number of seeds, the largest is
trained, since runs are independent of each other.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import Fidelity
from hindsight.specs.cell import SECTIONS, CellSpec, cell_values, must_count
from hindsight.specs.code import file_name
from hindsight.specs.config import (
    CONFIG,
    PAPERS_TASK,
    PUBLISHED,
    PUBLISHED_PRESET,
    TRAINED,
    Config,
    Experiment,
    Row,
    Size,
    condition_name,
    load,
)
from hindsight.specs.environments.predator_prey import Prey, Spawn
from hindsight.specs.errors import SpecError, validated

#: The preset with the papers' own grids, against which coverage is measured.
PAPERS_PRESET = "paper"
#: Points of an off-policy algorithm's learning curve (PPO-HER Fig. 2).
BINS = 100


@dataclass(frozen=True)
class Place:
    """A selected point of an experiment's grid."""

    experiment: str
    fidelity: Fidelity
    arm: str
    level: dict[str, Any]
    task: str
    #: Of the papers' conditions; None in other tasks.
    spawn: Spawn | None
    prey: Prey | None
    #: The selection's rows that name it.
    rows: list[Row]

    @property
    def condition(self) -> str:
        """Name within the experiment: spawn and prey, such as `random static`, or the task."""
        return condition_name(self.spawn or "", self.prey or self.task)

    def seeds(self, size: Size, experiment: Experiment) -> int:
        """Its number of seeds: a row's replaces the experiment's, and the preset's is the most."""
        seeds: int = self.last("seeds", experiment.seeds)
        return min(size.seeds, seeds)

    def steps(self, size: Size) -> int:
        """Its budget, of which the preset's is the largest."""
        steps: int = self.last("steps", size.steps)
        return min(size.steps, steps)

    def last(self, key: str, otherwise: Any) -> Any:
        """What the last row that gives a key gives for it."""
        given = (getattr(row, key) for row in reversed(self.rows))
        return next((value for value in given if value is not None), otherwise)


@dataclass(frozen=True)
class Entry(Place):
    """A point of the grid, and its cell with the seeds that this experiment asks for.

    If it is published, the cell is the largest published one.
    """

    spec: CellSpec
    #: Whether the cell is read from the published results, whatever the preset.
    published: bool = False


def places(config: Config, size: Size) -> Iterator[Place]:
    """Iterate over the selected points of all experiments, in the order of the size's `select`."""
    for name, selection in size.select.items():
        experiment = config.experiments[name]
        of = experiment.conditions or config.conditions
        papers = list(itertools.product([PAPERS_TASK], of.spawns, of.preys))
        conditions = [(task, None, None) for task in experiment.tasks] or papers
        grid = [experiment.fidelities, conditions, experiment.arms, *experiment.vary.values()]
        for fidelity, (task, spawn, prey), arm, *values in itertools.product(*grid):
            level = dict(zip(experiment.vary, values, strict=True))
            point = {
                "arms": arm, "spawns": spawn, "preys": prey, "tasks": task, "fidelities": fidelity
            }  # fmt: skip
            point |= {f"levels.{key}": value for key, value in level.items()}
            rows = [row for row in selection if row.names(point)]
            at = Place(name, fidelity, arm, level, task, spawn, prey, rows)
            tasks = experiment.arms[arm].tasks
            if rows and not at.last("skip", False) and (tasks is None or task in tasks):
                yield at


def entries(config: Config) -> Iterator[Entry]:
    """Iterate over the selected points with their cells."""
    shipped = cache(Shipped)
    for at in places(config, config.size):
        ships = config.experiments[at.experiment].arms[at.arm].published
        spec = shipped().cell(config, at) if ships else _cell(config, at)
        yield Entry(**vars(at), spec=spec, published=ships)


class Shipped:
    """The published cells, looked up by algorithm, condition, fidelity and first seed."""

    def __init__(self) -> None:
        self.config = config = load(CONFIG, {"results": "published"})
        specs = [
            _cell(config, at)
            for at in places(config, config.size)
            if not config.experiments[at.experiment].arms[at.arm].published
        ]
        specs.sort(key=lambda spec: (spec.steps, spec.seeds), reverse=True)
        #: Those that differ only in size; the largest come first.
        self._cells: dict[str, list[CellSpec]] = {}
        for spec in specs:
            self._cells.setdefault(_but_for_size(spec), []).append(spec)

    def cell(self, config: Config, at: Place) -> CellSpec:
        """The largest published cell at a point of a configuration's grid, whatever its preset.

        Its early end is the published one's, unless keys give it.  SpecError if there is none.
        """
        asking = self.config.model_copy(update={"experiments": config.experiments})
        asked = _cell(asking, replace(at, rows=[]))
        given = "early_end" in _keys(config.experiments[at.experiment], at)
        for found in self._cells.get(_but_for_size(asked), ()):
            if not given or found.early_end == asked.early_end:
                return found
        raise SpecError(
            f"experiments.{at.experiment}, {at.arm}, {at.condition}: no published cell has this "
            "algorithm, condition and fidelity, and any early_end and first_seed that are given; "
            "leave `published` out to train it, or narrow the experiment with `select`"
        )


def _but_for_size(spec: CellSpec) -> str:
    """A key that is equal for cells that differ only in seeds, steps and what these imply."""
    but = {"algorithm": {"log_interval"}}
    values = spec.model_dump(mode="json", include={*SECTIONS, "first_seed"}, exclude=but)
    return json.dumps(values, sort_keys=True)


def _keys(experiment: Experiment, at: Place) -> dict[str, Any]:
    """The keys that an experiment gives a point of its grid."""
    of_task = experiment.tasks.get(at.task, {}).get("keys", {})
    return {**experiment.keys, **of_task, **experiment.arms[at.arm].keys, **at.level}


def papers_grids(config: Config) -> dict[str, Any]:
    """The grids of the preset `paper` by experiment, as plain data; empty without that preset.

    A published experiment that this preset lacks has its whole grid.  `seeds` and `steps` are the
    largest in the grid; `arms` holds the levels and conditions of each arm.
    """
    if PAPERS_PRESET not in config.presets:
        return {}
    size, found = config.presets[PAPERS_PRESET], dict[str, Any]()
    if PUBLISHED_PRESET in config.presets:
        others = config.presets[PUBLISHED_PRESET].select.keys() - size.select.keys()
        select = size.select | {name: (Row(),) for name in sorted(others)}
        size = size.model_copy(update={"select": select})
    for at in places(config, size):
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
        for name, value in (("levels", at.level), ("conditions", at.condition)):
            if value not in arm[name]:
                arm[name].append(value)
    return found


def _cell(config: Config, at: Place) -> CellSpec:
    return validated(CellSpec, *_values(config, at))


def _values(config: Config, at: Place) -> tuple[dict[str, Any], str]:
    """The values of a point's cell, and where they are from."""
    size, experiment = config.size, config.experiments[at.experiment]
    arm, fidelity = experiment.arms[at.arm], at.fidelity
    where = f"experiments.{at.experiment}, {at.arm}, {at.condition}"
    steps, seeds = at.steps(size), at.seeds(size, experiment)
    papers = {"spawn": at.spawn, "prey": at.prey}
    environment = {**experiment.tasks.get(at.task, papers)}
    environment.pop("keys", None)
    keys = _keys(experiment, at)
    values: dict[str, Any] = {
        "seeds": seeds,
        "steps": steps,
        "early_end": size.early_end,
        "evaluation": at.last("evaluation", size.evaluation),
    }
    usual: dict[str, Any] = {"hidden": size.hidden}
    if ALGORITHMS[arm.algorithm].on_policy:
        usual["n_steps"] = size.n_steps
    else:
        # The papers bin off-policy curves. Published cells have this value in their names, from
        # when it counted the steps of each environment. An impossible `n_envs` is refused below.
        n_envs = keys.get("n_envs")
        n_envs = max(1, n_envs) if isinstance(n_envs, int) else 1
        usual["log_interval"] = max(1, steps // BINS // n_envs)
        values["replay"] = {}
    values = cell_values(
        environment, arm.algorithm, arm.her, fidelity, usual, keys, where, **values
    )
    test = at.last("end_test", size.end_test)
    ends = values["early_end"] is not None
    if ALGORITHMS[arm.algorithm].ends_by_test and fidelity == "released" and test and ends:
        values["end_test"] = test
        # A test must fall on the end of an iteration.
        divisors = (n for n in range(1, steps // BINS + 1) if test.every % n == 0)
        if "log_interval" not in keys:
            values["algorithm"]["log_interval"] = max(divisors, default=1)
    return values, where


def _whole(config: Config, experiment: str) -> list[Place]:
    """The grid of an experiment, whatever is selected of it."""
    return [*places(config, config.size.model_copy(update={"select": {experiment: (Row(),)}}))]


def _must_count(config: Config, experiment: str, selected: Sequence[Place]) -> None:
    """Raise SpecError for a key of `keys` that has no effect anywhere, as `must_count` does."""
    definition = config.experiments[experiment]
    given = [(definition.keys, "", "")]
    given += [(task.get("keys", {}), "task", name) for name, task in definition.tasks.items()]
    given += [(x.keys, "arm", name) for name, x in definition.arms.items() if not x.published]
    for keys, part, name in given:
        for key in keys:
            own = [at for at in selected if not part or getattr(at, part) == name]
            if not own or not _without_effect(config, own, key):
                continue
            whole = _whole(config, experiment)
            whole = [at for at in whole if not part or getattr(at, part) == name]
            if why := _without_effect(config, whole, key):
                raise SpecError(why)


def _without_effect(config: Config, grid: Sequence[Place], key: str) -> str:
    """Say that a key has no effect at any of these points; "" if it has."""
    why = ""
    for at in grid:
        values, where = _values(config, at)
        try:
            must_count(validated(CellSpec, values, where), values, [key])
        except SpecError as error:
            why = why or f"{where}: {error}"
        else:
            return ""
    return why


def _must_vary(config: Config, experiment: str, selected: Sequence[tuple[Place, str]]) -> None:
    """Raise SpecError for a key whose levels are the same cells, wherever else they are alike."""
    for key in selected[0][0].level:
        if _varies(selected, key) is False:
            whole = [(at, _cell(config, at).name) for at in _whole(config, experiment)]
            if _varies(whole, key) is False:
                raise SpecError(
                    f"experiments.{experiment}.vary: {key!r} has no effect: all levels are one cell"
                )


def _varies(cells: Sequence[tuple[Place, str]], key: str) -> bool | None:
    """Whether levels of a key are different cells; None if there is one level."""
    alike: dict[Any, list[str]] = {}
    for at, name in cells:
        others = [str(x) for other, x in at.level.items() if other != key]
        alike.setdefault((at.fidelity, at.arm, at.condition, *others), []).append(name)
    several = [{*names} for names in alike.values() if len(names) > 1]
    return any(len(names) > 1 for names in several) if several else None


@dataclass(frozen=True)
class Plan:
    """The cells of a configuration by name, and each experiment's entries with cell names."""

    config: Config
    cells: dict[str, CellSpec]
    experiments: dict[str, list[tuple[Entry, str]]]

    @classmethod
    def of(cls, config: Config) -> "Plan":
        """Plan a configuration; raises SpecError for an invalid cell."""
        everything = [
            (entry, entry.spec.model_copy(update={"seeds": 1}).name) for entry in entries(config)
        ]
        largest: dict[str, CellSpec] = {}
        for entry, key in everything:
            if not entry.published:
                most = largest.setdefault(key, entry.spec)
                largest[key] = max(most, entry.spec, key=lambda spec: spec.seeds)
        names = {key: spec.name for key, spec in largest.items()}
        experiments: dict[str, list[tuple[Entry, str]]] = {}
        for entry, key in everything:
            name = entry.spec.name if entry.published else names[key]
            experiments.setdefault(entry.experiment, []).append((entry, name))
        if not config.size.select:
            raise SpecError("select: names no experiment")
        for name, places in experiments.items():
            _must_vary(config, name, places)
            _must_count(config, name, [entry for entry, _ in places])
        for name in config.size.select:
            if name not in experiments:
                raise SpecError(f"select.{name}: leaves nothing of the experiment to train")
        return cls(config, {names[key]: spec for key, spec in largest.items()}, experiments)

    @cached_property
    def files(self) -> dict[str, str]:
        """Stem of each cell's files: the name, with the code's fingerprint unless published."""
        ships = self.config.results == "published"
        return {name: name if ships else file_name(spec) for name, spec in self.cells.items()}

    def cells_of(self, experiment: str, published: bool = False) -> list[str]:
        """Names of the cells that an experiment trains, or of the published ones that it reads."""
        places = self.experiments[experiment]
        return list(dict.fromkeys(name for entry, name in places if entry.published is published))

    def document(self, experiment: str) -> dict[str, Any]:
        """An experiment's plan as plain data, which the analysis reads (plan.json)."""
        definition, size = self.config.experiments[experiment], self.config.size
        # An experiment's keys can override the preset's network; [] if its arms differ.
        networks = {entry.spec.algorithm.hidden for entry, _ in self.experiments[experiment]}
        return {
            "experiment": experiment,
            "title": definition.title,
            "figures": definition.published_as,
            "source": self.config.source,
            "preset": {
                **size.model_dump(mode="json", exclude={"select"}),
                "steps": max(entry.spec.steps for entry, _ in self.experiments[experiment]),
                "hidden": list(*networks) if len(networks) == 1 else [],
            },
            "arms": list(definition.arms),
            "roles": {name: arm.role for name, arm in definition.arms.items()},
            "vary": list(definition.vary),
            "entries": [
                {
                    "fidelity": entry.fidelity,
                    "arm": entry.arm,
                    # The analysis identifies an arm by these, not by its name.
                    **definition.arms[entry.arm].model_dump(
                        include={"role", "algorithm", "her", "keys"}
                    ),
                    "level": entry.level,
                    "task": entry.task,
                    "spawn": entry.spawn,
                    "prey": entry.prey,
                    "condition": entry.condition,
                    # A cell of several experiments has the most seeds that any of them asks for.
                    "seeds": self.cells.get(name, entry.spec).seeds,
                    "steps": entry.spec.steps,
                    "cell": str(self._curves_of(entry, name)),
                }
                for entry, name in self.experiments[experiment]
            ],
        }

    def _curves_of(self, entry: Entry, name: str) -> Path:
        if entry.published or self.config.results == "published":
            return PUBLISHED / "cells" / f"{name}.parquet"
        return TRAINED / "cells" / f"{self.files[name]}.parquet"


def left_out(plan: Plan) -> list[str]:
    """Describe what `select` leaves out: a line per experiment that lacks levels, arms or tasks."""
    lines = []
    for name, places in plan.experiments.items():
        experiment = plan.config.experiments[name]
        found = [{**e.level, "arms": e.arm, "tasks": e.task} for e, _ in places]
        grid = {**experiment.vary, "arms": experiment.arms, "tasks": experiment.tasks}
        narrowed = []
        for what, everything in grid.items():
            planned = {one[what] for one in found}
            kept = [str(one) for one in everything if one in planned]
            if hidden := [str(one) for one in everything if one not in planned]:
                narrowed.append(f"{what} {', '.join(kept)} without {', '.join(hidden)}")
        if narrowed:
            lines.append(f"  {name}: {'; '.join(narrowed)}")
    return ["`select` narrows the experiments to", *lines] if lines else []
