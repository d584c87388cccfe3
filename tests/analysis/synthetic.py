"""Small result files with known curves, in the format that training writes: cells and whole
experiments.

`write_cell` writes one results file from a function of the training step; `write_experiment` writes
the cells and the plan of an experiment, by default with learning curves that look like the papers';
`second_paper` those of the second paper's experiments and of the open questions.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hindsight.analysis import summarise as analysis
from hindsight.io.checksums import sealed
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import PAPERS_TASK, condition_name, load
from hindsight.specs.environments.predator_prey import PREYS, SPAWNS

Array = NDArray[np.float64]
CurveFunction = Callable[[int, Array], Array]
ExtraFunction = Callable[[int, Array], dict[str, Array]]

N_STEPS = 2048
CONDITIONS = tuple((spawn, prey) for spawn in SPAWNS for prey in PREYS)
TRAIN_ONLY = (
    "policy_entropy", "log_std", "approx_kl", "clip_fraction", "policy_loss", "value_loss",
    "gradient_norm", "updates", "s_ratio_before", "s_ratio_after",
)  # fmt: skip
PPO_ALONE = tuple(name for name in TRAIN_ONLY if name not in ("policy_entropy", "updates"))
EVALUATION_ONLY = ("reward_entropy", "action_entropy", "observation_entropy")
INTEGERS = {"seed": "int32", "iteration": "int32", "env_steps": "int64", "episodes": "int32"}


def specification(
    overrides: dict[str, Any] | None = None, seeds: int = 4, steps: int = 40 * N_STEPS
) -> dict[str, Any]:
    """A cell's specification; `overrides` maps dotted keys to values, e.g. {"environment.prey":
    "repel"}.
    """
    spec = CellSpec(seeds=seeds, steps=steps).model_dump(mode="json")
    for key, value in (overrides or {}).items():
        *parents, last = key.split(".")
        place = spec
        for parent in parents:
            place = place[parent]
        place[last] = value
    environment = spec["environment"]
    given = {"environment", "environment.max_steps"} & (overrides or {}).keys()
    if environment["id"] != "PredatorPrey-v0" and not given:
        environment["max_steps"] = 50  # as long as the episodes of the other tasks are
    return spec


def constant(success: float) -> CurveFunction:
    """The curve of a run whose success rate never changes."""
    return lambda seed, env_steps: np.full(env_steps.shape, success)


def _run(
    seed: int, success: Array, env_steps: Array, early_end: float
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A run's training rows and its metadata, cut at `early_end` x its first perfect step."""
    budget = env_steps[-1]
    perfect = np.flatnonzero(success >= 1.0)
    perfect_step = int(env_steps[perfect[0]]) if perfect.size else None
    limit = np.inf if perfect_step is None else early_end * perfect_step
    keep = min(int(np.searchsorted(env_steps, limit)) + 1, len(env_steps))
    success, env_steps = success[:keep], env_steps[:keep]
    rows = pd.DataFrame({
        "seed": seed, "iteration": np.arange(1, keep + 1), "env_steps": env_steps,
        "wall_seconds": 1.5e-3 * env_steps,
        "cpu_seconds": 1e-3 * env_steps,
        "episodes": np.maximum(100.0, env_steps // 20),
        "return_mean": 2.0 * success - 1.0, "success_rate": success,
        # no two runs are the same
        "episode_length": 21.0 - 13.0 * success - 1e-5 * seed,
    } | dict.fromkeys(TRAIN_ONLY, 0.1))  # fmt: skip
    log_std = -1.2 * success
    entropy = 3.0 * (0.5 * np.log(2.0 * np.pi * np.e) + log_std)
    rows = rows.assign(log_std=log_std, policy_entropy=entropy, updates=320.0)
    end = int(env_steps[-1])
    ended = "early" if end < budget else "budget"
    return rows, {"seed": seed, "perfect_step": perfect_step, "end_step": end, "ended": ended}


def write_cell(
    path: Path,
    spec_overrides: dict[str, Any] | None = None,
    seeds: int = 4,
    curve_fn: CurveFunction | None = None,
    iterations: int = 40,
    extra: ExtraFunction | None = None,
    switch_step: Callable[[int], int | None] | None = None,
    every: int = N_STEPS,
) -> Path:
    """Write a results file of `seeds` runs and `iterations` rollouts of `every` steps each.

    `curve_fn(seed, env_steps)` gives the success rate in [0, 1] at every rollout; the return is
    2 success - 1. A run is cut at 1.3 times the step at which its success rate is first 1, as
    training does. Training time is a millisecond a step on the CPU clock and half as much again on
    the wall clock. Evaluation rows repeat the training window's numbers every five rollouts and at
    the run's end. A file of another algorithm than PPO lacks what only PPO notes, but for its
    entropy. `extra(seed, env_steps)` adds or replaces columns of a run, `switch_step(seed)` says
    when it switched (without either: an older file).
    """
    curve_fn = curve_fn or constant(0.5)
    spec = specification(spec_overrides, seeds, iterations * every)
    grid = np.arange(1, iterations + 1, dtype=np.float64) * every
    train, tests, runs = [], [], []
    for seed in range(seeds):
        success = np.clip(np.asarray(curve_fn(seed, grid), dtype=np.float64), 0.0, 1.0)
        rows, run = _run(seed, success, grid, spec["early_end"])
        if extra is not None:
            rows = rows.assign(**extra(seed, rows["env_steps"].to_numpy()))
        if switch_step is not None:
            run["switch_step"] = switch_step(seed)
        tested = (rows["iteration"] % 5 == 0) | (rows["iteration"] == len(rows))
        tests.append(rows[tested].assign(phase="evaluation", **dict.fromkeys(TRAIN_ONLY, np.nan)))
        only = rows.columns.intersection(EVALUATION_ONLY)
        train.append(rows.assign(phase="train", **dict.fromkeys(only, np.nan)))
        runs.append(run)
    # Phases in alphabetical order, seeds and steps ascending: the order of a results file.
    table = pd.concat([*tests, *train])
    if spec["algorithm"]["name"] != "ppo":
        table = table.drop(columns=list(PPO_ALONE))
    numbers = table.columns.drop("phase")
    table = table.astype({name: INTEGERS.get(name, "float32") for name in numbers})
    metadata = {
        "spec": spec,
        "spec_hash": hashlib.sha256(json.dumps(spec).encode()).hexdigest()[:10],
        "code": "synthetic",
        "versions": {"numpy": np.__version__},
        "machine": {"cores": 1},
        "device": "cpu",
        "precision": "float32",
        "clock": "cpu",
        "runs_per_axis": seeds,
        "seconds": float(table["cpu_seconds"].max()),
        "runs": runs,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
    pq.write_table(sealed(rows, json.dumps(metadata)), path)
    return path


def success_of(
    arm: str, level: dict[str, Any], spawn: str, prey: str, seed: int, part: Array
) -> Array:
    """Success rate by the part of the budget: rises, and then falls a little."""
    hard = {"static": 0.0, "random": 0.3, "attract": 0.1, "repel": 1.0}.get(prey, 0.7)
    hard += 0.4 * (spawn == "random") + 1.2 * arm.startswith("PPO") * ("HER" not in arm)
    hard += 4.0 * (level.get("s_ratio", 0.55) - 0.55) ** 2
    rng = np.random.default_rng([seed, *map(ord, f"{arm}{level}{spawn}{prey}")])
    middle = 0.12 + 0.16 * hard + 0.04 * rng.standard_normal()
    top = 0.99 if rng.random() > 0.15 * hard else 0.2
    fall = rng.random() * (0.25 if arm in ("PPO-HER", "PPO-HER-2-PPO") else 0.1)
    rise = top / (1.0 + np.exp(-(part - middle) / 0.04))
    noise = np.random.default_rng(seed).standard_normal(1000)[np.round(part * 500).astype(int)]
    value = rise - fall * np.clip(part - 2.0 * middle, 0.0, None) + 0.015 * noise
    return np.round(np.clip(value, 0.0, 1.0), 2)


@functools.cache
def _configured() -> dict[str, Any]:
    """The repository's own experiments."""
    return dict(load(Path(__file__).parents[2] / "config.yaml").experiments)


def arms_of(experiment: str) -> list[str]:
    """Its arms in config.yaml."""
    return list(_configured()[experiment].arms)


def levels_of(experiment: str) -> list[dict[str, Any]]:
    """The levels of what it varies in config.yaml; one of nothing for any other experiment."""
    vary = _configured()[experiment].vary if experiment in _configured() else {}
    return [dict(zip(vary, values, strict=True)) for values in itertools.product(*vary.values())]


def what_it_is(experiment: str, arm: str) -> dict[str, Any]:
    """Role, algorithm, strategy and keys of an arm, as in config.yaml; else a guess."""
    known = _configured().get(experiment)
    if known is not None and arm in known.arms:
        own = known.arms[arm]
        return {
            "role": own.role, "algorithm": own.algorithm, "her": own.her, "keys": dict(own.keys)
        }  # fmt: skip
    algorithm = arm.split("-")[0].lower()
    her = "final" if "HER" in arm else None
    return {"role": "level", "algorithm": algorithm, "her": her, "keys": {}}


def where_it_is(spawn: str, prey: str) -> dict[str, Any]:
    """A plan's columns of one of the papers' conditions, or of a task (no spawn)."""
    here = {"task": PAPERS_TASK if spawn else prey, "condition": condition_name(spawn, prey)}
    return here | {"spawn": spawn or None, "prey": prey if spawn else None}


def summarise(plan: Path, root: Path) -> list[dict[str, Any]]:
    """Tables beside a plan, made in the folder to which its cells' paths are relative."""
    with contextlib.chdir(root):
        return analysis.summarise(plan, plan.parent)


def summarised(root: Path, name: str, **settings: Any) -> Path:
    """The folder of an experiment's tables; all its cells are written."""
    plan = write_experiment(root, name, **settings)
    assert summarise(plan, root) == []
    return plan.parent


def tables_of(root: Path, name: str, **settings: Any) -> dict[str, pd.DataFrame]:
    """Its tables by file; of two seeds in one condition as released, unless it is said."""
    small = {"fidelities": ("released",), "conditions": CONDITIONS[:1], "seeds": 2}
    folder = summarised(root, name, **(small | settings))
    paths = [path for path in folder.iterdir() if path.suffix in (".csv", ".parquet")]
    return {path.name: analysis.read_table(path) for path in paths}


def write_experiment(
    root: Path,
    name: str,
    *,
    arms: Sequence[str] | None = None,
    fidelities: Sequence[str] = ("released", "described"),
    conditions: Iterable[tuple[str, str]] = CONDITIONS,
    levels: Sequence[dict[str, Any]] | None = None,
    seeds: int = 6,
    iterations: int = 30,
    curve_of: Callable[[str, dict[str, Any], str, str], CurveFunction] | None = None,
    more_of: Callable[[str, dict[str, Any], str, str], dict[str, Any]] | None = None,
) -> Path:
    """Write the cells of an experiment under `root` and its plan; return the plan's path.

    Cells go to root/results/cells, the plan to root/results/tables/laptop/<name>/plan.json; paths
    in the plan are relative to `root`. `curve_of(arm, level, spawn, prey)` replaces the default
    learning curves; `more_of(arm, level, spawn, prey)` gives other arguments of `write_cell`. PPO's
    cells are shared by the fidelities, as in the real plans. Levels are those of config.yaml, if
    they are not given.
    """
    arms = arms or (("PPO-HER",) if name == "her_strategy" else ("PPO", "PPO-HER"))
    levels = levels_of(name) if levels is None else levels
    budget = iterations * N_STEPS

    def default(*where: Any) -> CurveFunction:
        return lambda seed, steps: success_of(*where, seed, steps / budget)

    entries = []
    for fidelity, arm, level, (spawn, prey) in itertools.product(
        fidelities, arms, levels, tuple(conditions)
    ):
        shared = fidelity if "HER" in arm else "any"
        # PPO's `final` makes one copy, and so is one cell, whatever k says.
        one_copy = level.get("strategy") == "final" and arm == "PPO-HER"
        values = [str(v) for key, v in level.items() if not (one_copy and key == "k")]
        words = "-".join([arm.lower(), shared, *values])
        cell = f"results/cells/{name}-{spawn}-{prey}/{words}.parquet"
        curve = curve_of(arm, level, spawn, prey) if curve_of else default(arm, level, spawn, prey)
        more = more_of(arm, level, spawn, prey) if more_of else {}
        if not (root / cell).exists():
            place = {"environment.spawn": spawn or "random", "environment.prey": prey}
            settings: dict[str, Any] = {"seeds": seeds, "curve_fn": curve, "iterations": iterations}
            overrides = {"spec_overrides": place | more.get("spec_overrides", {})}
            write_cell(root / cell, **(settings | more | overrides))
        steps = more.get("iterations", iterations) * more.get("every", N_STEPS)
        size = {"seeds": more.get("seeds", seeds), "steps": steps}
        what = {"fidelity": fidelity, "arm": arm, **what_it_is(name, arm), "level": level}
        entries.append({**what, **where_it_is(spawn, prey), **size, "cell": cell})
    plan = {
        "experiment": name,
        "title": name.replace("_", " "),
        "figures": name,
        "source": "laptop",
        "preset": {"hidden": [64, 64], "seeds": seeds, "steps": iterations * N_STEPS},
        "arms": list(arms),
        "roles": {arm: what_it_is(name, arm)["role"] for arm in arms},
        "vary": list(levels[0]),
        "entries": entries,
    }
    path = root / "results/tables/laptop" / name / "plan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plan, indent=1))
    return path


def second_paper(
    root: Path, name: str, levels: Sequence[dict[str, Any]] | None = None, **settings: Any
) -> Path:
    """Write an experiment with the arms of config.yaml and what the second paper records besides:
    cost, importance weights, entropies; return the folder of its tables.
    """
    settings = {"seeds": 5, "iterations": 16} | settings
    grid = N_STEPS * np.arange(1.0, settings["iterations"] + 1)

    def more(arm: str, level: dict[str, Any], spawn: str, prey: str) -> dict[str, Any]:
        def success(seed: int, steps: Array) -> Array:
            return success_of(arm, level, spawn, prey, seed, steps / grid[-1])

        def switch(seed: int) -> int | None:
            above = grid[success(seed, grid) >= level.get("until_success", 0.5)]
            return int(above[0]) if above.size and arm == "PPO-HER-2-PPO" else None

        def extra(seed: int, steps: Array) -> dict[str, Array]:
            hindsight = np.full(steps.shape, arm != "PPO") & (steps <= (switch(seed) or np.inf))
            return _second_papers_columns(level, success(seed, steps), hindsight)

        return {"extra": extra, "switch_step": switch}

    path = write_experiment(root, name, arms=arms_of(name), levels=levels, more_of=more, **settings)
    summarise(path, root)
    return path.parent


def _second_papers_columns(
    level: dict[str, Any], success: Array, hindsight: NDArray[np.bool_]
) -> dict[str, Array]:
    seconds = 2.0 * np.cumsum(np.where(hindsight, 2.2, 1.0))
    share = level.get("s_ratio", 0.5) * success
    return {
        "hindsight": hindsight.astype(float), "updates": np.where(hindsight, 640.0, 320.0),
        "cpu_seconds": seconds, "wall_seconds": seconds,
        "hindsight_log_ratio_max": np.where(hindsight, 4.0 * np.exp(0.5 * success), -np.inf),
        "reward_entropy": 0.2 + share * (1.3 - share), "action_entropy": 3.2 - 1.1 * success,
        "observation_entropy": 4.2 - 0.4 * success,
    }  # fmt: skip
