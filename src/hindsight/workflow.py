"""What the Snakefile asks: which files belong to one source, a preset or the published results.

Layout, relative to the project's folder:
    results/specs/<cell>.json             a cell's specification: all that its job reads
    results/cells/<cell>.parquet          its curves
    results/policies/<cell>.pt            its parameters at the end
    results/tables/<source>/<experiment>/ plan.json and the tables made from the cells
    figures/<source>/                     figures, report.html and REPLICATION.md
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hindsight.figures import ALSO_READ, names_for
from hindsight.specs.cost import megabytes, seconds
from hindsight.specs.experiments import (
    EPISODES,
    PUBLISHED,
    TRAINED,
    Plan,
    as_json,
    write_if_changed,
)

MAIN_EXPERIMENT = "algorithms"
SAFETY = 3  # a cluster's node may be this much slower than the machine the costs were measured on


@dataclass(frozen=True)
class Stage:
    """The files of one plan."""

    plan: Plan
    never_train: bool

    #: Tables of an experiment that other rules read.
    TABLES = (
        "summary.csv",
        "summary.tex",
        "tests.csv",
        "aggregate.csv",
        "sensitivity.csv",
        "m_c.csv",
        "best_level.csv",
        "time_saved.csv",
        "curves.parquet",
        "seed_curves.parquet",
        "evaluations.parquet",
        "runs.parquet",
        "missing.json",
    )

    @classmethod
    def of(cls, plan: Plan) -> "Stage":
        """Everything; but nothing is trained for published results."""
        return cls(plan, plan.config.results == "published")

    @property
    def present(self) -> "Stage":
        """The part for which nothing need be trained."""
        return replace(self, never_train=True)

    @property
    def source(self) -> str:
        """A preset's name, or `published`."""
        return self.plan.config.source

    @property
    def tables(self) -> str:
        """Folder of the tables."""
        return f"results/tables/{self.source}"

    @property
    def folder(self) -> str:
        """Folder of the figures."""
        return f"figures/{self.source}"

    @property
    def cells(self) -> list[str]:
        """Names of all cells."""
        return list(self.plan.cells)

    @property
    def experiments(self) -> list[str]:
        """Names of the experiments that are trained."""
        return list(self.plan.experiments)

    def curves(self, name: str) -> Path:
        """Where a cell's curves are."""
        root = PUBLISHED if self.plan.config.results == "published" else TRAINED
        return root / "cells" / f"{name}.parquet"

    def cells_of(self, experiment: str) -> list[str]:
        """Curves that an experiment's tables are made of."""
        paths = [self.curves(name) for name in self.plan.cells_of(experiment)]
        return [str(path) for path in paths if path.exists() or not self.never_train]

    @property
    def episodes(self) -> str:
        """Episodes for the picture of the environment: made from policies, or published."""
        published = self.plan.config.results == "published"
        return str((PUBLISHED if published else Path(self.tables)) / EPISODES)

    @property
    def policies(self) -> list[str]:
        """Policies whose episodes the picture of the environment shows, if it is made anew."""
        if self.plan.config.results == "published":
            return []
        names = dict.fromkeys(
            name
            for entry, name in self.plan.experiments.get(MAIN_EXPERIMENT, [])
            if entry.spec.hindsight is not None
            and entry.fidelity == "released"
            and entry.spawn == "random"
        )
        paths = [TRAINED / "policies" / f"{name}.pt" for name in names]
        return [str(path) for path in paths if path.exists() or not self.never_train]

    @property
    def drawn_experiments(self) -> list[str]:
        """Experiments of which there is something to draw."""
        trained = [name for name in self.experiments if self.cells_of(name)]
        return ["environment"] * bool(self.policies or Path(self.episodes).exists()) + trained

    def drawn_of(self, experiment: str) -> list[str]:
        """Files of an experiment's figures."""
        entries = self.plan.experiments.get(experiment, [])
        names = names_for(experiment, list(dict.fromkeys(entry.fidelity for entry, _ in entries)))
        return [f"{self.folder}/{name}.{kind}" for name in names for kind in ("png", "pdf")]

    @property
    def drawn(self) -> list[str]:
        """Files of all figures."""
        return [path for name in self.drawn_experiments for path in self.drawn_of(name)]

    def tables_of(self, experiment: str) -> list[str]:
        """What an experiment's figures are drawn from."""
        if experiment == "environment":
            return [self.episodes]
        beside = [name for name in ALSO_READ.get(experiment, ()) if name in self.experiments]
        names = [experiment, *beside]
        return [f"{self.tables}/{name}/{table}" for name in names for table in self.TABLES]

    @property
    def all_tables(self) -> list[str]:
        """Every experiment's summary."""
        return [f"{self.tables}/{name}/summary.csv" for name in self.experiments]

    @property
    def page(self) -> str:
        """The self-contained HTML page."""
        return f"{self.folder}/report.html"

    @property
    def scoreboard(self) -> str:
        """REPLICATION.md; the published one is the repository's own."""
        published = self.source == "published"
        return "REPLICATION.md" if published else f"{self.folder}/REPLICATION.md"

    @property
    def execution(self) -> str:
        """Options of every training job."""
        execution = self.plan.config.execution
        options = f"--device {execution.device}"
        if execution.runs_per_axis is not None:
            options += f" --runs-per-axis {execution.runs_per_axis}"
        return options

    def priority(self, wildcards: Any) -> int:
        """The main figure's cells come first."""
        main = MAIN_EXPERIMENT in self.plan.experiments
        return int(main and wildcards.cell in self.plan.cells_of(MAIN_EXPERIMENT))

    def memory(self, wildcards: Any) -> int:
        """Megabytes to ask for."""
        return megabytes(self.plan.cells[wildcards.cell])

    def runtime(self, wildcards: Any, attempt: int) -> int:
        """Minutes to ask for, more at each attempt."""
        spec = self.plan.cells[wildcards.cell]
        per_axis = self.plan.config.execution.runs_per_axis
        return 5 + int(SAFETY * attempt * seconds(spec, per_axis) / 60)

    def write_plans(self) -> None:
        """Write what jobs read: each experiment's plan, and each cell's specification, if new."""
        for experiment in self.experiments:
            text = as_json(self.plan.document(experiment))
            write_if_changed(Path(self.tables) / experiment / "plan.json", text)
        if self.never_train:
            return
        for name, spec in self.plan.cells.items():
            write_if_changed(TRAINED / "specs" / f"{name}.json", spec.model_dump_json(indent=1))
