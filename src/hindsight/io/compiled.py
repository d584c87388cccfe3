"""Functions that Numba compiles, and the folder in which their machine code is kept.

`compiled` is for functions that compiled functions call, `entry_point` for those that Python calls,
`first_class` for those that are handed to an entry point as an argument.  Entry points and
first-class functions are kept in the user's cache folder, so that only the first process of a
machine compiles: Numba's own cache lies beside the source, which may be read-only, knows a function
by its file's path, which every clone has anew, and does not notice when a function changes that a
cached one calls.

Without Numba, or with NUMBA_DISABLE_JIT=1, all of them are what they were: functions in Python.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

from filelock import FileLock

from hindsight.io.fingerprint import fingerprint
from hindsight.io.interruption import awaited

numba: Any = None
with suppress(ImportError):
    import numba

#: Whether functions are compiled at all.
ENABLED: bool = numba is not None and not numba.config.DISABLE_JIT
#: No flag lets the compiler assume that there is no NaN, by which a divergence is noticed.
OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": {"arcp", "contract", "nsz", "reassoc"},
}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that compiled functions call.

    It is put in its caller's place.  Otherwise the process that compiles calls the one that was
    compiled by itself, later ones that in its caller's machine code, and their last bits differ.
    """
    return numba.njit(forceinline=True, **OPTIONS)(function) if ENABLED else function


def function_type(returns: str, *arguments: Any) -> Any:
    """The type of a first-class function; arguments are Numba's types, by name or themselves."""
    if not ENABLED:
        return None
    return numba.types.FunctionType(_type(returns)(*map(_type, arguments)))


def _type(name: Any) -> Any:
    """`float32`, or `float32[:]` for an array in one piece; with a colon more for each axis."""
    if not isinstance(name, str):
        return name
    scalar, _, axes = name.partition("[")
    number = getattr(numba.types, scalar)
    return numba.types.Array(number, axes.count(",") + 1, "C") if axes else number


class entry_point:
    """Compile a function that Python calls, when it is called first; its machine code is kept.

    It lets other threads run meanwhile.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._call: Callable[..., Any] = self._first_call if ENABLED else function

    def __call__(self, *arguments: Any) -> Any:
        """Its result."""
        return self._call(*arguments)

    def _first_call(self, *arguments: Any) -> Any:
        dispatcher = numba.njit(nogil=True, **OPTIONS)(self.function)
        with _timed(), _kept(self.function) as is_kept:
            if is_kept:
                dispatcher.enable_caching()
            dispatcher.compile(tuple(map(numba.typeof, arguments)))
        dispatcher.disable_compile()  # other types of arguments are a mistake
        self._call = dispatcher
        return dispatcher(*arguments)


class FirstClass:
    """A function that is handed to entry points; called from Python it is one in Python."""

    def __init__(self, function: Callable[..., Any], kind: Any) -> None:
        update_wrapper(self, function)
        self.function, self.kind = function, kind
        self._address: Any = None if ENABLED else function

    def __call__(self, *arguments: Any) -> Any:
        """Its result."""
        return self.function(*arguments)

    @property
    def address(self) -> Any:
        """What an entry point takes for it."""
        if self._address is None:
            with _timed(), _kept(self.function) as is_kept:
                make = numba.cfunc(self.kind.signature, cache=is_kept, **OPTIONS)
                self._address = make(self.function)
        return self._address


def first_class(kind: Any) -> Callable[[Callable[..., Any]], FirstClass]:
    """Compile a function of this `function_type`, when it is handed on first."""
    return lambda function: FirstClass(function, kind)


@cache
def _blas() -> Any:
    # Numba's products are this module's, which is not loaded before the first is compiled.
    import scipy.linalg.cython_blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


_threads = 1


def use_threads(count: int) -> None:
    """Let this process train so many runs at a time."""
    global _threads
    _threads = count


def for_each_run(runs: int, work: Callable[[int], None]) -> None:
    """Call `work` with the number of each run, `use_threads` at a time."""
    # A product takes one thread: these matrices are small, and more threads would wait.
    with _blas().limit(limits=1):
        if _threads == 1 or runs == 1:
            for run in range(runs):
                work(run)
        else:
            with ThreadPoolExecutor(_threads) as pool:
                list(pool.map(work, range(runs)))


@cache
def folder() -> Path | None:
    """Where machine code for this processor lies; None where nothing can be kept."""
    from llvmlite.binding import get_host_cpu_name

    with suppress(OSError, RuntimeError):  # no home folder, or one that cannot be written to
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        path = Path(caches) / "hindsight" / "compiled" / get_host_cpu_name()
        path.mkdir(parents=True, exist_ok=True)
        if os.access(path, os.W_OK):
            return path
    return None


class Locator:
    """What Numba asks where a function's machine code lies: by the code that decides it, whatever
    the path of its source.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        outermost = function.__qualname__.partition(".")[0]
        self.code = fingerprint(f"{function.__module__}:{outermost}")

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> "Locator":
        """That of a function; `source` is its file."""
        return cls(function)

    def ensure_cache_path(self) -> None:
        """It is there."""

    def get_cache_path(self) -> str:
        """The folder."""
        return str(folder())

    def get_source_stamp(self) -> str:
        """What must be equal for machine code to be of this function."""
        return self.code

    def get_disambiguator(self) -> str:
        """What stands in the names of its files."""
        return self.code


_compiling = [0.0, 0.0]


def seconds_compiling() -> tuple[float, float]:
    """Wall and CPU seconds that this process has spent on compiling, or on waiting for it."""
    return _compiling[0], _compiling[1]


@contextmanager
def _timed() -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        _compiling[0] += time.perf_counter() - wall
        _compiling[1] += time.process_time() - cpu


@contextmanager
def _kept(function: Callable[..., Any]) -> Iterator[bool]:
    """Compile inside: one process at a time, which says so unless the code lies in the folder.

    Yields whether it can be kept.
    """
    path = folder()
    trains = function.__module__.startswith("hindsight.algorithms")
    if path is None:
        if trains:
            _say_once()
        yield False
        return
    before = numba.config.CACHE_LOCATOR_CLASSES
    # Who is asked to stop waits for no other process's compiling, nor for his own.
    with awaited("the compiler"), FileLock(path / "lock"):
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-"
        if trains and not any(path.glob(f"{name}{Locator(function).code}*.nbi")):  # Numba's name
            _say_once()
        numba.config.CACHE_LOCATOR_CLASSES = f"{Locator.__module__}.{Locator.__name__}"
        try:
            yield True
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = before


@cache
def _say_once() -> None:
    print(
        "compiling the training loop for this processor, once: up to a minute",
        file=sys.stderr,
        flush=True,
    )
