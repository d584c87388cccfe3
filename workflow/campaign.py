"""Train what the published results are to become, in the background and over many sittings.

    nice -n 19 python workflow/campaign.py --preset next --cores 2

It trains the cells of a preset that are neither published nor staged, in the preset's order and as
many together as pays, one process a core at the lowest priority, and copies the curves of those
that are finished to results/staged, which is tracked; and of the main figures a policy of each,
which ships with them.  Unlike the pipeline it never trains a cell
again because code has changed since: `make verify-published` proves cells of older code.  Stop it
at any moment; it continues.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from hindsight.analysis.cells import load_cell
from hindsight.files import FileError, write_whole
from hindsight.publish import STAGED
from hindsight.publish_policies import stage_policy
from hindsight.specs.config import PUBLISHED, TRAINED, load
from hindsight.specs.plan import Plan, spec_document
from hindsight.workflow import MAIN_EXPERIMENT

WORK = TRAINED / "campaign"


def missing(plan: Plan) -> Iterator[str]:
    """Names of the plan's cells that are neither published nor staged, in its order."""
    for name in dict.fromkeys(name for rows in plan.experiments.values() for _, name in rows):
        if not any((root / "cells" / f"{name}.parquet").exists() for root in (PUBLISHED, STAGED)):
            yield name


def train(names: list[str], plan: Plan) -> int:
    """Train cells together, or what is left of them, and stage the curves of those that are done.

    Returns the exit status.
    """
    log = WORK / "logs" / f"{names[0]}.log"
    specs = [WORK / "specs" / f"{name}.json" for name in names]
    for path in (*specs, log):
        path.parent.mkdir(parents=True, exist_ok=True)
    for spec, name in zip(specs, names, strict=True):
        spec.write_text(spec_document(plan.cells[name]), encoding="utf-8")
    hindsight = str(Path(sys.executable).with_name("hindsight"))
    command = [hindsight, "cell", *map(str, specs), "--workers", "1", "--out", str(WORK)]
    with log.open("a", encoding="utf-8") as told:
        status = subprocess.run(
            command,
            stdout=told, stderr=subprocess.STDOUT, check=False,
            env={**os.environ, "HINDSIGHT_PARENT": str(os.getpid())},
        ).returncode  # fmt: skip
    stage(names, plan)
    return status


def stage(names: Iterable[str], plan: Plan) -> None:
    """Copy the curves of those of these cells that are trained to where they are tracked."""
    main = {name for _, name in plan.experiments.get(MAIN_EXPERIMENT, ())}
    for name in names:
        curves = WORK / "cells" / f"{name}.parquet"
        if curves.exists():
            load_cell(curves)  # refuses a damaged one
            write_whole(STAGED / "cells" / f"{name}.parquet", partial(shutil.copyfile, curves))
            if name in main:
                stage_policy(plan.cells[name], WORK)
            (WORK / "checkpoints" / f"{name}.pt").unlink(missing_ok=True)


def main() -> None:
    """Keep the cores busy until nothing is missing, or a signal comes."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--preset", default="next")
    options.add_argument("--cores", type=int, default=os.cpu_count())
    asked = options.parse_args()
    os.nice(19 - os.nice(0))
    plan = Plan.of(load(Path("config.yaml"), {"preset": asked.preset}))
    cells = {name: plan.cells[name] for name in missing(plan)}
    left, lock = iter(cells), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                name = next(left, None)
            if name is None:
                return
            began = time.time()
            try:
                status = train([name], plan)
                told = "trained" if status == 0 else f"status {status}"
            except FileError as error:  # the next cell may do better
                status, told = 1, str(error)
            print(
                f"{time.strftime('%H:%M')} {time.time() - began:5.0f} s {told} {name}",
                flush=True,
            )
            if status < 0 or status >= 128:  # a signal: somebody wants it to end
                return

    # They end with this thread, and the trainers, with their checkpoints, with this process.
    workers = [threading.Thread(target=work, daemon=True) for _ in range(asked.cores)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
