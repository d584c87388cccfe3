"""Four cells of four seeds in one bundle, beside the same cells one after another.

Seconds of CPU time, the two in turns; PPO and PPO-HER of the laptop preset (2 x 64, 4 preys), files
and evaluations included, once in this process, and once as the workflow does: a process for each
job, its start included.  `specs/cost.py` estimates the former.

    python bench/bundles.py --repeats 5
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from hindsight.specs.cell import CellSpec
from hindsight.specs.cost import as_one, seconds
from hindsight.specs.plan import spec_document
from hindsight.training.cell import prepare_process, train_cells
from hindsight.training.record import machine

BAR = 2.5
SEEDS, ROLLOUTS = 4, 8
PREYS = ("static", "random", "attract", "repel")
ARMS: dict[str, dict[str, str] | None] = {"PPO": None, "PPO-HER": {"strategy": "final"}}
#: Runs beyond four cells of four, for the estimates.
MORE = (4, 16, 36, 64)


def cells(hindsight: dict[str, str] | None, seeds: int = SEEDS) -> list[CellSpec]:
    """One cell for each prey."""
    return [
        CellSpec.model_validate(
            {
                "environment": {"prey": prey},
                "algorithm": {"hidden": [64, 64]},
                "hindsight": hindsight,
                "seeds": seeds,
                "steps": ROLLOUTS * 2048,
            }
        )
        for prey in PREYS
    ]


def here(bundles: list[list[CellSpec]]) -> float:
    """CPU seconds of training these bundles in this process."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        for specs in bundles:
            train_cells(specs, Path(folder))
        return time.process_time() - began


def as_jobs(bundles: list[list[CellSpec]]) -> float:
    """CPU seconds of a process for each of these bundles."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, specs in enumerate(bundles):
            files = [Path(folder, f"{i}-{j}.json") for j in range(len(specs))]
            for path, spec in zip(files, specs, strict=True):
                path.write_text(spec_document(spec), encoding="utf-8")
            paths.append([str(path) for path in files])
        hindsight = str(Path(sys.executable).with_name("hindsight"))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for files_of in paths:
            command = [hindsight, "cell", *files_of, "--workers", "1", "--out", folder]
            subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    prepare_process("cpu")
    here([cells(None)[:1]])  # warm-up
    measured: dict[str, dict[str, list[float]]] = {}
    ways: dict[str, Callable[[list[list[CellSpec]]], float]] = {
        "training": here, "processes": as_jobs
    }  # fmt: skip
    for arm, hindsight in ARMS.items():
        four = cells(hindsight)
        for way, run in ways.items():
            pairs = [(run([four]), run([[cell] for cell in four])) for _ in range(repeats)]
            ratios = [apart / together for together, apart in pairs]
            measured[f"{arm}, {way}"] = {
                "together": [pair[0] for pair in pairs],
                "apart": [pair[1] for pair in pairs],
                "ratios": ratios,
            }
            together, apart = (statistics.median(x) for x in zip(*pairs, strict=True))
            ratio = statistics.median(ratios)
            verdict = "met" if ratio >= BAR else "MISSED"
            print(
                f"{ratio:5.2f} x  (bar {BAR:g}: {verdict})  {arm}, {way}: "
                f"{together:.1f} s together, {apart:.1f} s one after another",
                flush=True,
            )
    estimates = {}
    for arm, hindsight in ARMS.items():
        for runs in MORE:
            spec = as_one(cells(hindsight, seeds=runs // 4))
            took = here([cells(hindsight, seeds=runs // 4)])
            estimates[f"{arm}, {runs} runs"] = [took, seconds(spec)]
            told = f"{arm}, {runs} runs: {took:.1f} s, estimated {seconds(spec):.1f}"
            print(f"{told}; {runs * spec.steps / took:,.0f} steps/s", flush=True)
    out = Path(__file__).parent / "results" / "bundles.json"
    out.parent.mkdir(exist_ok=True)
    found = {"machine": machine(torch.device("cpu")), "torch": torch.__version__}
    found |= {"cpu_seconds": measured, "estimates": estimates}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
