"""`hindsight train`: the cell for its options, what it prints before training and afterwards."""

import shlex
import shutil
import sys
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from hindsight.io.files import FileError, set_aside
from hindsight.library.presets import called
from hindsight.library.presets import keys_of as settings_of
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import CellSpec, cell_values, must_count
from hindsight.specs.code import file_name
from hindsight.specs.config import overrides_of
from hindsight.specs.cost import evaluation_seconds, evaluations, seconds
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.from_file import wants_naming
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training.progress import shown

#: The folder where policies are found by short names.
RESULTS = "results"
#: Default settings of `hindsight train`.
KEYS: dict[str, Any] = {"fidelity": "described", "evaluation_episodes": 20}


def spec_of(flags: Mapping[str, Any], typed: Collection[str]) -> CellSpec:
    """Return the cell that `hindsight train` trains with these flags, some of which were typed.

    Raises SpecError for an option that is invalid, or was typed but has no effect.
    """
    name, env, her, seeds = (flags[flag] for flag in ("algorithm", "env", "her", "seeds"))
    must_be_known(name)
    given = overrides_of(flags["keys"] or [], "")
    if "strategy" in given:
        raise SpecError("strategy is not a key here; use --her")
    if isinstance(widths := given.get("hidden"), str | int):  # 64 or 64,64, without brackets
        given["hidden"] = [width for width in str(widths).split(",") if width.strip()]
    preset = settings_of(flags["preset"], name, env, not ("her" in typed and her == "none"))
    usual = preset.pop("her", her)
    her = her if "her" in typed else usual
    fidelity, episodes = ((KEYS | preset | given)[key] for key in KEYS)
    values = cell_values(
        {"id": env},
        name,
        None if her == "none" else her,
        fidelity,
        {key: value for key, value in preset.items() if key not in KEYS},
        {key: value for key, value in given.items() if key not in KEYS},
        seeds=seeds if seeds is not None else 16 if env in ENVIRONMENTS else 4,
        steps=flags["steps"],
        evaluation={"episodes": episodes},
    )
    with suppress(SpecError):  # reported below, with its location
        how = validated(ALGORITHMS[name], values["algorithm"])
        each = how.iteration_steps
        if values["steps"] > 0:  # else it is refused as it was given
            values["steps"] = -(-values["steps"] // each) * each
    spec = validated(CellSpec, values)
    if "workers" in typed and not spec.environment.foreign:
        raise SpecError(f"--workers has no effect on {env}; it is for gymnasium environments")
    must_count(spec, values, given.keys() - {"max_episode_steps"})  # may be as registered
    return spec


def must_be_known(algorithm: str) -> None:
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise SpecError(f"--algorithm {algorithm!r} is unknown; choose from {known}")


def files_of(spec: CellSpec, out: Path) -> dict[str, Path]:
    """Return the paths of a cell's files, by their folders below `out`."""
    name = file_name(spec)
    policies = {
        kind: out / kind / f"{name}.safetensors" for kind in ("policies", "best", "checkpoints")
    }
    return {"cells": out / "cells" / f"{name}.parquet", **policies}


def to_come(
    spec: CellSpec, out: Path, asked: str, every: int | None, steps: int | None = None
) -> list[str]:
    """Return lines that tell what will be trained, about how long it takes, and the files.

    `asked` is the value of --her, `every` of --checkpoint-every, `steps` of --steps.
    """
    her = spec.hindsight or spec.replay
    strategy, fidelity = (getattr(her, key, None) for key in ("strategy", "fidelity"))
    runs = "1 run" if spec.seeds == 1 else f"{spec.seeds} runs"
    files, where = files_of(spec, out), spec.environment
    step_ms = where.step_ms if isinstance(where, GymnasiumSpec) else 0.0
    whole, tests = seconds(spec, step_ms), evaluation_seconds(spec, step_ms)
    lines = [
        f"Training {called(spec)}: {runs} × {spec.steps:,} steps, about {duration(whole)} on one "
        "core if none ends early "
        f"({tests / whole:.0%} of it for {evaluations(spec)} "
        f"evaluations of {spec.evaluation.episodes} episodes)",
        f"files: {files['cells']}, {files['policies']}; while it trains {files['checkpoints']}",
    ]
    if steps is not None and steps < spec.steps:
        each = f"whole iterations of {spec.algorithm.iteration_steps:,}"
        lines.append(f"{steps:,} steps are rounded up to {spec.steps:,}, {each}")
    if asked not in ("none", strategy):
        lines.append(
            f"{asked} is the same as {strategy} with fidelity {fidelity}: each copy has one goal "
            "and ends there"
        )
    if every is not None:
        lines.append(f"every {every:,} steps {out / 'steps' / file_name(spec)}/STEPS.safetensors")
    return lines


def outcome(spec: CellSpec, out: Path, home: Path) -> list[str]:
    """Return lines with a trained cell's results, its files, and the commands to type next.

    `home` is the absolute path of `out`, taken before an environment could change the working
    directory.
    """
    import pandas as pd

    from hindsight.analysis.cells import load_cell
    from hindsight.analysis.reduce import reduce_cell

    files = files_of(spec, out)
    there = files_of(spec, home)
    cell = load_cell(there["cells"])
    with warnings.catch_warnings():  # about runs without a single episode
        warnings.simplefilter("ignore", RuntimeWarning)
        runs = pd.DataFrame(reduce_cell(cell).runs)
    returns, success = runs["final_evaluation_return"], runs["final_evaluation_success"]
    solved = runs["solve_step"].dropna()
    after = f" after {np.median(solved):,.0f} steps (median)" if len(solved) else ""
    learned = f"{len(solved)} of {len(runs)} runs{after}: 95% success over 100 training episodes"
    found = spec.hash if home == Path(RESULTS).absolute() else str(files["policies"])
    policy, env = shlex.quote(found), spec.environment.id
    named = f" --env {shlex.quote(env)}" if wants_naming(env) else ""
    # The path it was called by, if the virtual environment is not activated.
    program = "hindsight" if shutil.which("hindsight") else shlex.quote(sys.argv[0])
    if program.endswith("__main__.py"):
        program = shlex.join([sys.executable, "-m", "hindsight"])
    return [
        f"final return   {shown(returns.mean(), '.3f')} ({returns.min():.3f} to "
        f"{returns.max():.3f}), mean of {len(runs)} runs' last evaluations, "
        "without exploration noise",
        f"success rate   {shown(success.mean(), '.0%')}, in the same evaluations",
        f"solved         {learned}, with exploration noise",
        f"training took  {duration(cell.metadata['seconds'])}, and evaluations "
        f"{duration(cell.metadata.get('evaluation_seconds', 0.0))}",
        f"curves         {files['cells']}",
        f"policy         {files['policies']}",
        *_best(files["best"], there["best"]),
        f"use it         {program} evaluate {policy}{named}",
        *([f"               {program} watch {policy} episodes.gif{named}"] * is_drawn(spec)),
    ]


def _best(shown: Path, file: Path) -> list[str]:
    """A line about the file of best policies; one that is damaged, or another's, is set aside."""
    from hindsight.training.policy_files import PolicyFile  # with torch

    if not file.exists():
        return []
    try:
        PolicyFile.read(file)
    except FileError as error:
        return [f"best policy    none: {error}; set aside as {set_aside(file).name}"]
    return [f"best policy    {shown}  (each run at its best evaluation)"]


def is_drawn(spec: CellSpec) -> bool:
    """Whether a cell's environment can be filmed."""
    where = spec.environment
    env = where.facts.instance if isinstance(where, GymnasiumSpec) else where.make()
    return "rgb_array" in env.metadata.get("render_modes", ())


def policy_called(name: Path) -> Path:
    """The policy file of a path, of `last`, or of the first characters of a hash in its name.

    Of several with one hash, by other code, it is the newest.  Raises SpecError if none in
    ./results, or policies with other hashes, are called so.
    """
    if name.exists() or name.suffix or len(name.parts) > 1:
        return name
    files = [*Path(RESULTS, "policies").rglob("*.safetensors")]
    # `<name>-<hash of the specification>-<code>`
    hashes = {file: file.stem.rsplit("-", 2)[-2:][0] for file in files}
    if not files:
        raise SpecError(f"{RESULTS}/policies: nothing is trained in this folder yet")
    found = [f for f in files if name.name == "last" or hashes[f].startswith(name.name)]
    if not found or (name.name != "last" and len({hashes[file] for file in found}) > 1):
        several = f"{len(found)} policies begin with it" if found else "there is no such policy"
        raise SpecError(f"{name}: {several} in {RESULTS}/policies; `last` is the newest one")
    return max(found, key=lambda file: file.stat().st_mtime)


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
