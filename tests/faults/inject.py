"""Faults, injected at random moments, and what became of them.

    python -m tests.faults.inject --out docs/survival.md

A fault of a cell strikes one small cell, run by the real command in a forked process; a fault of
the pipeline strikes `hindsight replicate` on a small configuration.  After each: no traceback, no
process left behind, a restart that finishes without help, and curves and policies equal, bit for
bit, to those of a run that nobody disturbed.  Each fault has a folder and random numbers of
its own; as many are under way at a time as there are workers.
"""

import argparse
import ctypes
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import pandas as pd
import torch

from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from tests.faults import pipeline, trainer
from tests.faults.lab import CLOCKS, SPECS, Lab, Survived, can_mount, demand, small_disk


def no_orphans(limit: float = 20.0) -> None:
    """Demand that no process is left that descends from this one, which adopts them all."""
    end = time.monotonic() + limit
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            demand(time.monotonic() < end, "a process was left behind")
            time.sleep(0.02)


def contents(lab: Lab) -> tuple[pd.DataFrame, torch.Tensor]:
    rows = torch.load(lab.path("policies", ".pt"), weights_only=True)["rows"]
    return pd.read_parquet(lab.curves).drop(columns=CLOCKS), rows


def undisturbed(folder: Path, name: str) -> Lab:
    """The lab in which a cell is trained without any fault."""
    return Lab(folder / f"undisturbed-{name}", random.Random(), name)


def prepare(folder: Path) -> dict[str, float]:
    """Train every cell undisturbed; returns how many seconds each took."""
    torch.set_num_threads(1)
    for name in SPECS:  # a second, once: the forked processes know it
        code_of(CellSpec.model_validate(SPECS[name]))
    seconds = {}
    for name in SPECS:
        lab = undisturbed(folder, name)
        lab.folder.mkdir()
        began = time.monotonic()
        lab.trained()
        seconds[name] = time.monotonic() - began
    return seconds


def cell_fault(
    number: int, seed: int, folder: Path, seconds: dict[str, float], only: str = ""
) -> "Told":
    """Inject one fault of a cell, and see that it is survived; else raises Survived."""
    kinds = [
        kind for kind in trainer.FAULTS if only in kind and (kind != "full disk" or can_mount())
    ]
    kind, rng = kinds[number % len(kinds)], random.Random(f"trainer {seed} {number}")
    name = rng.choice(list(SPECS))
    lab = Lab(folder / f"{number}", rng, name, seconds[name], turn=number // len(kinds))
    lab.folder.mkdir()
    try:
        happened = trainer.FAULTS[kind](lab)
        again = lab.start()
        demand(again.wait() == 0, f"the restart failed: {again.said}")
        demand("waiting" not in again.said, f"a stale lock: {again.said}")
        curves, rows = contents(lab)
        whole = contents(undisturbed(folder, lab.name))
        pd.testing.assert_frame_equal(curves, whole[0], check_exact=True)
        demand(torch.equal(rows, whole[1]), "other policies")
        no_orphans()
        rest = [p for p in lab.root.rglob(".*") if p.is_file()]
        demand(not rest, f"half-written files stay: {rest}")
    except Exception as error:
        raise Survived(f"fault {number} of seed {seed}, {kind}: {error!r}") from error
    shutil.rmtree(lab.folder)
    return kind, happened, lab.said


# -- the table ------------------------------------------------------------------------------------


#: Kind of a fault, what happened, and what was said.
Told = tuple[str, str, list[str]]
#: The kind of one that was not.
NOT_SURVIVED = "not survived"


def table(found: list[Told]) -> str:
    """Markdown: a line per kind of fault, with how often what happened."""
    lines = ["| fault | what happened, and how often |", "|---|---|"]
    for kind in dict.fromkeys(kind for kind, _, _ in found):
        times = Counter(happened for k, happened, _ in found if k == kind)
        told = "; ".join(f"{happened} ({n})" for happened, n in sorted(times.items()))
        lines.append(f"| {kind} | {told} |")
    return "\n".join(lines)


def become_reaper() -> None:
    """Adopt the processes that this one's children leave behind."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def inject(
    cells: int, whole: int, seed: int, workers: int, only: str, folder: Path
) -> Iterator[Told]:
    """So many faults of cells and of the whole pipeline, of kinds whose names hold `only`."""
    become_reaper()
    seconds = prepare(folder)
    ready = pipeline.prepare(folder) if whole else None
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, forked, initializer=become_reaper) as pool:
        # The longest first.
        futures: list[Future] = [
            pool.submit(pipeline.fault, number, seed, folder, ready, can_mount(), small_disk, only)
            for number in range(whole)
        ]
        futures += [
            pool.submit(cell_fault, number, seed, folder, seconds, only) for number in range(cells)
        ]
        try:
            for future in [*futures[whole:], *futures[:whole]]:
                try:
                    told = future.result()
                except AssertionError as error:
                    told = NOT_SURVIVED, str(error), []
                yield told
        finally:
            pool.shutdown(cancel_futures=True)
    no_orphans()


def main() -> int:
    """Inject, print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=114)
    parser.add_argument("--pipeline", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--only", default="", help="words of the kinds that are injected")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    # Whoever is started with nohup, or in the background, would hand ignored signals on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    found, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for one in inject(
            chosen.cells, chosen.pipeline, chosen.seed, chosen.workers, chosen.only, folder
        ):
            found.append(one)
            print(f"{len(found):4} {one[0]}: {one[1]}", flush=True)
    told = table(found)
    if lost := sum(kind == NOT_SURVIVED for kind, *_ in found):
        print(f"{lost} of {len(found)} faults not survived")
        return 1
    print(f"\n{told}\n\n{len(found)} faults, all survived, {time.monotonic() - began:.0f} s")
    if not can_mount():
        print("No disk was filled: that takes root.")
    if chosen.out is not None:
        chosen.out.write_text(PAGE.format(count=len(found), table=told))
    return 0


PAGE = """# What it survives

We injected {count} faults (`make faults`). After each there was no traceback,
no process left behind and no lock in the way. The same command then finished without help, and
curves and policies were equal, bit for bit, to those of an undisturbed run (except for
clocks). `make test-slurm` tests what a cluster does to its jobs
([details](cluster.md)). The test suite covers what needs no particular moment: mistakes in commands
and configuration, files that are absurd or name a module, closed streams, too little memory,
environments that hang or exit.

{table}

## What cannot be detected

A results file carries a checksum of its content. A person who changes numbers and recomputes the
checksum is caught only if the numbers contradict each other or the specification: a
return that does not follow from the success rate, two seeds that are equal, a run that ends
early without a reason, a missing last evaluation, a time that the runs cannot have taken.
Plausible numbers pass. `hindsight verify-published` retrains the first iterations of published
cells.
"""

if __name__ == "__main__":
    sys.exit(main())
