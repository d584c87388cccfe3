"""Contenders that take turns, so that a machine that slows down slows all of them alike.

Each lives in a process of its own, does one turn to warm up, and is then timed turn by turn: by its
processor's time, so that waiting for the machine does not count, or by the wall's.  A contender
whose package is not installed is left out, and a line says so.
"""

import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection

os.environ.setdefault("OMP_NUM_THREADS", "1")
# JAX reads it when it is imported: one thread for it, too.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import torch
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_info

from hindsight.training.cell import prepare_process
from hindsight.training.record import machine

#: One turn: how many steps, or whatever is counted, it did.
Turn = Callable[[], int]


def timed(call: Callable[[], object], calls: int, steps: int) -> Turn:
    """A turn of so many calls, each of which does so many steps, or whatever is counted."""

    def turn() -> int:
        for _ in range(calls):
            call()
        return calls * steps

    return turn


def race(
    title: str,
    contenders: Mapping[str, Callable[[], Turn]],
    ratios: Sequence[tuple[str, str, float | None]],
    repeats: int = 5,
    wall: bool = False,
) -> None:
    """Let them take turns; print a table and the ratios.

    Args:
        contenders: by name, what makes a contender ready, in its own process.
        ratios: a contender, its peer, and how many times the peer's rate is asked of it, if any.
        wall: measure the wall's time, of contenders that are processes themselves.
    """
    lines, rates = dict[str, Connection](), dict[str, list[float]]()
    spawn = multiprocessing.get_context("spawn")
    for name, make in contenders.items():
        ours, theirs = spawn.Pipe()
        spawn.Process(target=_contend, args=(theirs, make, wall)).start()
        theirs.close()  # so that a contender that fails ends the race
        if (absent := ours.recv()) is None:
            lines[name], rates[name] = ours, []
        else:
            print(f"{name} is left out: {absent}", flush=True)
    for _ in range(repeats):
        for name, line in lines.items():
            line.send(True)
            rates[name].append(line.recv())
    for line in lines.values():
        line.send(False)
    table = Table("", "median", "least", "most", title=f"{title}, {repeats} repeats")
    for name, values in rates.items():
        table.add_row(name, *(f"{f(values):,.0f}" for f in (statistics.median, min, max)))
    Console(width=110).print(table)
    for name, peer, bar in ratios:
        if name in rates and peer in rates:
            pairs = [a / b for a, b in zip(rates[name], rates[peer], strict=True)]
            ratio = statistics.median(pairs)
            met = f"(bar {bar:g}: {'met' if ratio >= bar else 'MISSED'})" if bar else ""
            print(f"{ratio:6.2f} x  {met:20}{name} / {peer}")
    print_machine()


def _contend(line: Connection, make: Callable[[], Turn], wall: bool) -> None:
    if not wall:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    prepare_process("cpu")
    try:
        turn = make()
    except ImportError as error:
        line.send(str(error))
        return
    turn()
    line.send(None)
    clock = time.perf_counter if wall else time.process_time
    while line.recv():
        start = clock()
        line.send(turn() / (clock() - start))


def print_machine() -> None:
    # OPENBLAS_CORETYPE may ask for others than this processor's.
    kernels = sorted({x["architecture"] for x in threadpool_info() if "architecture" in x})
    versions = {"python": platform.python_version(), "torch": torch.__version__, "blas": kernels}
    print({**machine(torch.device("cpu")), **versions})
