"""The record of a cell while it trains: its curves, how its runs ended, and its files.

Files of a cell `<name>-<code>`: `cells/*.parquet` (the curves), `policies/*.safetensors` (the final
parameters), `checkpoints/*.safetensors` (while it trains).
"""

import os
import platform
import re
import sys
from collections import defaultdict
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from hindsight.io.checkpoints import MISFITS, load, save
from hindsight.io.checksums import file_sha256
from hindsight.io.files import DamagedError, machine_failed, reason, set_aside, sweep
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import identity_of
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import GymnasiumSpec, registered
from hindsight.specs.own_code import versions_of
from hindsight.training.finished import (
    DIVERGED,
    NO_RUNS,
    as_arrow,
    changed_versions,
    diverged_runs,
    runs_to_reuse,
    select_seeds,
    write_curves,
)
from hindsight.training.runs import Runs, runs_of

PACKAGES = ("torch", "numpy", "numba", "gymnasium", "pyarrow")
#: Packages whose versions are recorded only if they are imported, by module name.
ALSO = {"gymnasium_robotics": "gymnasium-robotics", "mujoco": "mujoco"}
#: Attributes of `Record` that a checkpoint keeps besides curves and runs.
KEPT = ("ended", "policies", "seconds", "evaluation_seconds", "steps_done", "runs_per_axis")
INTEGERS = {"seed": "int32", "iteration": "int32", "env_steps": "int64", "episodes": "int32"}


class Record:
    """Everything recorded of one cell, from its first iteration to its result files."""

    def __init__(self, spec: CellSpec, root: Path, device: str, workers: int | None = None) -> None:
        self.spec, self.root, self.device, self.workers = spec, root, device, workers
        #: Fixed at the start: the code that this process has imported, even if files change later.
        self.identity = identity_of(spec)
        self.columns: dict[str, list[np.ndarray]] = defaultdict(list)
        self.ended: list[dict[str, Any]] = []
        self.policies: dict[int, Tensor] = {}
        self.seconds = 0.0  # training time of the runs that have ended
        self.evaluation_seconds = 0.0  # not included in `seconds`
        self.steps_done = 0
        #: Machines and versions that trained the cell before it was continued here.
        self.earlier: list[dict[str, Any]] = []
        #: The largest number of runs that trained together.
        self.runs_per_axis = 0
        #: Runs taken from a cell with another number of seeds.
        self.reused = NO_RUNS

    def path(self, kind: str, suffix: str) -> Path:
        return self.root / kind / f"{self.spec.name}-{self.identity['code']}{suffix}"

    def begin(self, reuses: bool = True) -> Runs | None:
        """Load existing results; returns the runs to continue from a checkpoint, if there is one.

        `reuses`: also take runs from a cell that differs only in its number of seeds, and those of
        a finished checkpoint.
        """
        for kind in ("cells", "policies", "checkpoints", "progress"):
            path = self.path(kind, "")
            sweep(path.parent, path.name)  # what killed processes have left of writing its files
        if reuses:
            device = torch.device(self.device).type
            self.reused = runs_to_reuse(self.root, self.spec, device) or NO_RUNS
        resumed = self._resume(reuses)
        if runs := self.reused.runs:  # which the checkpoint lacks
            taken = f"{len(runs)} of {self.spec.seeds} runs are taken over from"
            print(f"{taken} {self.reused.origin['cell']}", file=sys.stderr)
        return resumed

    @property
    def missing(self) -> list[int]:
        taken = {run["seed"] for run in self._all_ended}
        return [seed for seed in self.spec.run_seeds if seed not in taken]

    @property
    def steps(self) -> int:
        """Steps of all runs to train, if none ends early."""
        return self.spec.steps * (self.spec.seeds - len(self.reused.runs))

    def add(self, phase: str, rows: dict[str, np.ndarray]) -> None:
        for name, value in rows.items():
            self.columns[f"{phase}/{name}"].append(value)

    def end(self, runs: Runs, run: int, why: str) -> None:
        """Record that a run, given by its index on the axis, ends now, and why."""
        seed = runs.seeds[run]
        self.seconds += float(runs.clock.wall[run])
        self.ended.append(
            {
                "seed": seed,
                "perfect_step": runs.perfect[run],
                "end_step": runs.env_steps,
                "ended": why,
                "switch_step": runs.switched[run],
            }
        )
        if why != DIVERGED:
            self.policies[seed] = runs.rows[run].detach().cpu().clone()

    def write(self) -> None:
        """Write the result files; every run must have ended."""
        policies = self.reused.policies | self.policies
        kept = sorted(policies)
        rows = torch.stack([policies[s] for s in kept]) if kept else torch.empty(0, 0)
        path = self.path("policies", ".safetensors")
        made_by = {"spec": self.spec.model_dump_json(), "code": self.identity["code"]}
        # An earlier training's files stay until there is room for both of these.
        beside = path.with_suffix(".new")
        try:
            save(beside, {**made_by, "seeds": kept, "rows": rows})
            metadata = {**self._metadata(), "policies": file_sha256(beside)}
            write_curves(self.path("cells", ".parquet"), self._table(), metadata)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        if steps := sorted(diverged_runs(self._all_ended).items()):
            which = ", ".join(f"seed {seed} at step {step:,}" for seed, step in steps)
            why = "their parameters are no longer finite, and they count as not having learned"
            print(f"{self.spec.name}: {len(steps)} runs diverged ({which}): {why}", file=sys.stderr)

    def save(self, runs: dict[str, Any] | None) -> None:
        """Write a checkpoint; `runs` is the state of the runs still training, if there are any."""
        # Concatenated, because a file of thousands of small tensors takes seconds to write.
        for name, parts in self.columns.items():
            self.columns[name] = [np.concatenate(parts)]
        curves = {
            name: [torch.from_numpy(x) for x in parts] for name, parts in self.columns.items()
        }
        state = {"runs": runs, "curves": curves, "made_on": self._made_on()}
        state |= {"identity": self.identity, **{name: getattr(self, name) for name in KEPT}}
        save(self.path("checkpoints", ".safetensors"), state)

    @property
    def _all_ended(self) -> list[dict[str, Any]]:
        return self.reused.runs + self.ended

    def _table(self) -> pa.Table:
        """Return the curves, sorted by phase, seed and step; NaN where a phase lacks a column."""
        phases = []
        for phase in ("train", "evaluation"):
            columns = {
                name.removeprefix(f"{phase}/"): np.concatenate(parts)
                for name, parts in self.columns.items()
                if name.startswith(f"{phase}/")
            }
            words = pa.repeat(phase, len(next(iter(columns.values()), ())))
            phases.append(pa.table({"phase": words, **{x: as_arrow(columns[x]) for x in columns}}))
        table = pa.concat_tables([*phases, self.reused.table], promote_options="permissive")
        table = table.sort_by([(name, "ascending") for name in ("phase", "seed", "env_steps")])
        curves = {"phase": table["phase"]}
        nan = as_arrow(np.array([np.nan], np.float32))[0]
        for name in table.column_names[1:]:
            column = table[name].cast(INTEGERS.get(name, "float32"))
            curves[name] = column if name in INTEGERS else column.fill_null(nan)
        return pa.table(curves)

    @cached_property
    def _here(self) -> dict[str, Any]:
        versions = versions_in_use(self.spec)
        return {"machine": machine(torch.device(self.device)), "versions": versions}

    def _made_on(self) -> list[dict[str, Any]]:
        """The machines and versions that have trained the cell, this process's last."""
        theirs = [{key: self.reused.origin[key] for key in self._here}] if self.reused.runs else []
        others = (other for other in (*theirs, *self.earlier) if other != self._here)
        return [*others, self._here]

    def _metadata(self) -> dict[str, Any]:
        device, made_on = torch.device(self.device), self._made_on()
        return {
            "spec": self.spec.model_dump(mode="json"),
            **self.identity,
            **made_on[-1],
            **({"made_on": made_on} if len(made_on) > 1 else {}),
            "device": device.type,
            "precision": "float32",
            "clock": "cpu" if device.type == "cpu" else "wall",
            "runs_per_axis": self.runs_per_axis or len(self._all_ended),
            "seconds": self.seconds + self.reused.seconds,
            "evaluation_seconds": self.evaluation_seconds,
            **({"reused": self.reused.origin} if self.reused.origin else {}),
            "runs": sorted(self._all_ended, key=lambda run: run["seed"]),
        }

    # -- surviving interruption -----------------------------------------------------------------

    def _resume(self, reuses: bool) -> Runs | None:
        """Restore the cell's checkpoint, if there is a valid one; returns its runs."""
        path = self.path("checkpoints", ".safetensors")
        if not path.exists():
            return None
        runs, why = None, ""
        try:
            saved = load(path)
            if saved["identity"] != self.identity:
                path.unlink()
                why = f"{path}: made by other code or from another specification;"
            elif changed := changed_versions(saved["made_on"][-1]["versions"]):
                why = f"{path}: made with {changed}; set aside as {set_aside(path).name},"
            elif not reuses and saved["runs"] is None:  # it is finished
                path.unlink()  # of the training that is to be done again
                return None
            else:
                runs = self._continue(saved)
                at = f"continued at {self.steps_done:,} of {self.steps:,} steps"
                print(f"{path}: {at if self.missing else 'was finished'}", file=sys.stderr)
        except (DamagedError, *MISFITS) as error:
            if machine_failed(error) or isinstance(error, SpecError):
                raise
            set_aside(path)
            misfit = f"{path}: does not fit its cell ({reason(error)})"
            why = f"{error if isinstance(error, DamagedError) else misfit}; set aside,"
        if why:
            print(f"{why} training starts from scratch", file=sys.stderr)
        return runs

    def _continue(self, saved: dict[str, Any]) -> Runs | None:
        """Restore a checkpoint completely, or raise and change nothing; returns its runs."""
        state, runs = saved["runs"], None
        taken = [run["seed"] for run in saved["ended"]]
        # Runs that the checkpoint has are not taken from another cell.
        others = {*self.spec.run_seeds} - {*taken} - {*(state["seeds"] if state else ())}
        reused = select_seeds(self.reused, sorted(others))
        if state is not None:
            runs = runs_of(self.spec, state["seeds"], self.device, self.workers)
            runs.load_state_dict(state)
        columns = {
            name: [part.numpy() for part in parts] for name, parts in saved["curves"].items()
        }
        kept = {name: saved[name] for name in KEPT}
        kept["policies"] = {int(seed): row for seed, row in saved["policies"].items()}
        kept |= {"earlier": list(saved["made_on"]), "reused": reused}
        vars(self).update(kept, columns=defaultdict(list, columns))
        return runs


def versions_in_use(spec: CellSpec) -> dict[str, str]:
    """Versions of Python and of the packages that a cell's numbers depend on."""
    env, more = spec.environment, dict[str, str]()
    if isinstance(env, GymnasiumSpec):
        more = versions_of(env.id, registered(env.id).entry_point)
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        **{name: version(name) for module, name in ALSO.items() if module in sys.modules},
        **more,
    }


def machine(device: torch.device) -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*:(.*)", info.read_text(), re.M) if info.exists() else None
    name = model[1].strip() if model else platform.processor() or platform.machine()
    found = {"system": platform.system(), "processor": name, "cores": os.cpu_count()}
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found
