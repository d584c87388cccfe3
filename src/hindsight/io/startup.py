"""Prepare a process: standard streams, memory limits, a home folder; and run jobs in parallel."""

import atexit
import gc
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hindsight.io.files import FileError
from hindsight.io.interruption import end_with_parent

Result = TypeVar("Result")

#: Address space in megabytes, measured: any command, one with torch, and what torch's libraries add
#: to a cell's memory.
LEAST_MB, TORCH_MB, LIBRARIES_MB = 500, 1200, 700


def open_streams() -> None:
    """Reopen standard streams that the parent closed, so that no file takes their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        handle = os.dup(1) if name == "stderr" else os.open(os.devnull, os.O_RDWR)
        if handle != number:
            os.dup2(handle, number)
            os.close(handle)
        os.set_inheritable(number, True)
        mode = "r" if name == "stdin" else "w"
        stream = open(number, mode, closefd=False, errors="backslashreplace")  # noqa: SIM115
        setattr(sys, name, stream)


def must_have_memory(megabytes: int = LEAST_MB) -> None:
    """Raise FileError if `ulimit -v` allows less address space: libraries would abort."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < megabytes * 10**6:
        raise FileError(
            f"this process may use {limit // 10**6:,} MB of address space, but needs about "
            f"{megabytes:,} MB; raise the limit, as by 'ulimit -v unlimited', and try again"
        )


def have_home() -> None:
    """Replace an unusable HOME by a temporary folder, for the caches of libraries."""
    if caches := os.environ.get("XDG_CACHE_HOME"):  # if it is unusable, Snakemake stops
        with suppress(OSError):
            Path(caches).mkdir(parents=True, exist_ok=True)
        if not os.access(caches, os.W_OK | os.X_OK) or not Path(caches).is_dir():
            del os.environ["XDG_CACHE_HOME"]
            what = f"XDG_CACHE_HOME {caches} cannot be used; caches go to ~/.cache"
            print(what, file=sys.stderr, flush=True)
    try:
        home = Path.home()
        if home.is_dir() and os.access(home, os.W_OK | os.X_OK):
            return
        what = f"HOME {home} cannot be used"
    except RuntimeError:
        what = "there is no HOME"
    lent = tempfile.TemporaryDirectory(prefix="hindsight-home-", ignore_cleanup_errors=True)
    atexit.register(lent.cleanup)
    print(f"{what}; caches go to {lent.name} for now", file=sys.stderr, flush=True)
    os.environ["HOME"] = lent.name


def import_matplotlib() -> None:
    """Import matplotlib even if MPLBACKEND, as a notebook sets it, names one not installed here."""
    named = os.environ.pop("MPLBACKEND", None)
    import matplotlib

    if named is not None:
        os.environ["MPLBACKEND"] = named
        with suppress(ValueError):
            matplotlib.rcParams["backend"] = named


def side_by_side(
    function: Callable[..., Result], jobs: Sequence[tuple[object, ...]], processes: int
) -> list[Result]:
    """Call a function with each job's arguments in forked processes; returns the results in order.

    Raises the first error.  The processes end with this one.
    """
    gc.freeze()  # the collector would write to pages that the processes share
    if min(processes, len(jobs)) < 2:
        return [function(*job) for job in jobs]
    context = multiprocessing.get_context("fork")
    together = (signal.SIGTERM, str(os.getpid()))
    with ProcessPoolExecutor(processes, context, end_with_parent, together) as pool:
        return [done.result() for done in [pool.submit(function, *job) for job in jobs]]
