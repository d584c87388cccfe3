"""What the workflow itself costs, for the whole paper preset: plan, job graph, dry run, a run whose
jobs do nothing, and a second run with nothing to do.

    python bench/workflow.py                     all of it (some minutes)
    python bench/workflow.py --times 10          the grid ten times as large, planned and dry-run
    python bench/workflow.py --compare FOLDER    the queue's simulation beside a run of that folder
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import yaml
from hindsight.workflow import Stage, files_below

from hindsight.specs.config import load
from hindsight.specs.cost import wall_seconds
from hindsight.specs.plan import Plan

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "config.yaml", "config", "environment.yml", "workflow", "profiles", "docs")
#: In place of hindsight: a job's files, empty.
NOTHING = """#!/usr/bin/env bash
set -eu
make() { for path; do mkdir -p "$(dirname "$path")"; : > "$path"; done; }
case $1 in
  cell) name=${2#results/specs/} name=${name%.json}
    make "results/cells/$name.parquet" "results/policies/$name.pt" ;;
  summarise) for table in TABLES; do make "$(dirname "$2")/$table"; done ;;
  episodes) make "$2" ;;
  draw) for word; do out=${word#--out=}; [ "$out" = "$word" ] || make "$out.png" "$out.pdf"; done ;;
  claims) make "$2" ;;
  report) make "$3" "$4" ;;
esac
"""


def project(folder: Path, times: int) -> None:
    """A copy of the project whose jobs do nothing, its grid so many times as large."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part)
        else:
            shutil.copy(ROOT / part, folder / part)
    if times > 1:
        config = yaml.safe_load((folder / "config.yaml").read_text())
        for experiment in config["experiments"].values():
            levels = [0.99 - 0.001 * i for i in range(times)]
            experiment["vary"] = {**experiment.get("vary", {}), "gamma": levels}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
    command = folder / "nothing/hindsight"
    command.parent.mkdir()
    command.write_text(NOTHING.replace("TABLES", " ".join(Stage.TABLES)))
    command.chmod(0o755)
    rules = folder / "workflow/rules/common.smk"
    prefix = rules.read_text()
    assert "PATH={" in prefix
    rules.write_text(prefix.replace("PATH={", f"PATH={command.parent}:{{", 1))


def timed(what: str, folder: Path, *command: str) -> float:
    """Run a command in the folder; print its seconds and memory, return the seconds."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - started
    assert status == 0, told.decode()[-3000:]
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    print(f"{what:28} {took:7.1f} s, CPU {cpu:6.1f} s, {memory:6.0f} MiB", flush=True)
    return took


def measure(times: int) -> None:
    """Every stage of the paper preset, in a folder that is deleted afterwards."""
    preset = ("--config", "preset=paper")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        project(folder, times)
        timed("plan", folder, "hindsight", "plan", "-c", "preset=paper")
        dry = ("snakemake", "--dry-run", "--cores", "1", "--quiet", "all", *preset)
        # The first also writes the specifications.
        timed("dry run, the first", folder, *dry)
        timed("dry run", folder, *dry)
        if times > 1:
            return
        scheduler = ("--scheduler", "greedy")
        run = ("snakemake", "--cores", "2", "--quiet", "all", *scheduler, *preset)
        took = timed("jobs that do nothing", folder, *run)
        idle = timed("second run, nothing to do", folder, *run)
        jobs = sum(1 for _ in (folder / "results/logs").rglob("*.log"))
        print(f"{jobs} jobs, {1e3 * (took - idle) / jobs:.0f} ms each")
        counts = {path: len(os.listdir(path)) for path in folder.rglob("*") if path.is_dir()}
        fullest = max(counts, key=lambda path: counts[path])
        print(f"{sum(counts.values())} files, the fullest folder: ", end="")
        print(f"{fullest.relative_to(folder)} with {counts[fullest]}")


def compare(folder: Path, config: list[str], slots: int) -> None:
    """A run's training beside its estimate and beside the queue's simulation.

    Snakemake writes a cell's benchmark when the cell ends, which tells when each began, too.
    """
    overrides = dict(pair.split("=", 1) for pair in config)
    stage = Stage.of(Plan.of(load(folder / "config.yaml", overrides)))
    benchmarks = folder / "results/benchmarks"
    rows = []
    for name in files_below(benchmarks, ".tsv") & stage.plan.cells.keys():
        path = benchmarks / f"{name}.tsv"
        seconds = float(pd.read_table(path)["s"].iloc[0])
        ended = path.stat().st_mtime
        rows.append((ended - seconds, ended, seconds, stage.seconds(name)))
    cells = pd.DataFrame(sorted(rows), columns=["began", "ended", "measured", "estimated"])
    print(
        f"{len(cells)} cells, seconds of all of them: measured {cells.measured.sum():.0f}, ", end=""
    )
    print(f"estimated {cells.estimated.sum():.0f}; of one: ratio {ratios(cells)}")
    wall = cells.ended.max() - cells.began.min()
    simulated = wall_seconds(list(cells.measured), slots, job_seconds=0)
    ahead = wall_seconds(list(cells.estimated), slots, job_seconds=0)
    print(f"wall time with {slots} at a time: measured {wall:.0f} s, ", end="")
    print(f"simulated {simulated:.0f} s from what they took, {ahead:.0f} s from estimates")


def ratios(cells: pd.DataFrame) -> str:
    """Measured by estimated: median and the middle 80 %."""
    low, middle, high = (cells.measured / cells.estimated).quantile([0.1, 0.5, 0.9])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--config", nargs="*", default=[])
    given = parser.parse_args()
    if given.compare:
        compare(given.compare, given.config, given.slots)
    else:
        measure(given.times)
