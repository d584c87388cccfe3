"""Numba decorators with a cache that all processes and clones of a machine share.

Use `compiled` for functions called by compiled functions, `entry_point` for those called from
Python, and `first_class` for those passed to an entry point as an argument.  Entry points and
first-class functions are cached in the user's cache folder by a fingerprint of their code, with a
checksum.  Numba's own cache is beside the source, which may be read-only; it is keyed by the file's
path, which differs between clones; and it misses damage, and changes in the functions that a cached
function calls.

With NUMBA_DISABLE_JIT=1, all functions stay in Python.
"""

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial, update_wrapper, wraps
from pathlib import Path
from typing import Any, TypeVar

import numba
from filelock import FileLock

from hindsight.io.fingerprint import fingerprint, import_all
from hindsight.io.interruption import awaited

Function = TypeVar("Function", bound=Callable[..., Any])
CONFIG: Any = numba.config
#: Whether functions are compiled.
ENABLED: bool = not CONFIG.DISABLE_JIT
COMPILING = "compiling the training loop for this processor, {}: up to a minute"
#: Without `nnan` and `ninf`: NaN and infinity reveal a divergence.
OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "fastmath": {"arcp", "contract", "nsz", "reassoc"},
}


def compiled(function: Function) -> Function:
    """Compile a function that compiled functions call, and inline it into its callers.

    Without inlining, the process that compiles and those that load from the cache would run
    different machine code, and their results would differ in the last bits.
    """
    if not ENABLED:
        return function
    made: Function = numba.njit(forceinline=True, **OPTIONS)(function)
    return made


def entry_point(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls, on its first call, and cache its machine code.

    The function releases the GIL.
    """
    if not ENABLED:
        return function
    made: Any = None

    @wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal made
        if made is None:
            with _one_at_a_time:
                if made is None:  # else another thread has compiled it
                    types = tuple(map(numba.typeof, arguments))  # any other types are a bug
                    made = _made(function, numba.njit, types, nogil=True)
        return made(*arguments)

    return call


class FirstClass:
    """A function that is passed to entry points; a call from Python runs it in Python."""

    def __init__(self, function: Callable[..., Any], kind: Any) -> None:
        update_wrapper(self, function)
        self.function, self.kind = function, kind
        self._address: Any = None if ENABLED else function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    @property
    def address(self) -> Any:
        """The argument that passes this function to an entry point."""
        return self.of()

    def of(self, *example: Any) -> Any:
        """`address`, if the types of the arguments are those of this example."""
        if self._address is None:
            with _one_at_a_time:
                if self._address is None:
                    signature = self.kind and self.kind.signature
                    own = signature or numba.void(*map(numba.typeof, example))
                    self._address = _made(self.function, numba.cfunc, own)
        return self._address


def first_class(kind: Any = None) -> Callable[[Callable[..., Any]], FirstClass]:
    """Compile a function when it is first passed to an entry point.

    kind: its Numba type; None: it returns nothing, and `of` is given an example of its arguments.
    """
    return lambda function: FirstClass(getattr(function, "py_func", function), kind)


@cache
def _blas() -> Any:
    # Numba uses SciPy's BLAS, which must be loaded to be limited.
    import scipy.linalg.cython_blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def kernels() -> str:
    """What OpenBLAS calls the processor that its kernels are for; "" for another library."""
    libraries = _blas().info()
    return next((x["architecture"] for x in libraries if "architecture" in x), "")


_threads = 1


def use_threads(count: int) -> None:
    """Set how many runs this process trains at a time."""
    global _threads
    _threads = count


def for_each_run(runs: int, work: Callable[[int], None]) -> None:
    """Call `work` with each run's index, in as many threads as `use_threads` allows."""
    # One BLAS thread per run: the matrices are too small for more.
    with _blas().limit(limits=1):
        if _threads == 1 or runs == 1:
            for run in range(runs):
                work(run)
        else:
            with ThreadPoolExecutor(_threads) as pool:
                list(pool.map(work, range(runs)))


@cache
def folder() -> Path | None:
    """Cache folder for this processor's machine code and kernels; None if there is no writable one.

    It must be the user's alone: Numba's files are pickles, which run code.
    """
    from llvmlite.binding import get_host_cpu_name

    with suppress(OSError, RuntimeError):  # no home folder, a read-only one, or another user's
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        processor = f"{get_host_cpu_name()}-{kernels()}"
        path = Path(caches) / "hindsight" / "numba" / processor
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        if os.access(path, os.W_OK) and path.stat().st_uid == os.getuid():
            return path
    return None


class Locator:
    """Numba's interface to a cache, keyed by a function's code instead of its source's path."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.code = fingerprint(_root(function))

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> "Locator":
        return cls(function)

    def ensure_cache_path(self) -> None:
        pass  # `folder` has made it

    def get_cache_path(self) -> str:
        return str(folder())

    def get_source_stamp(self) -> str:
        """The fingerprint, which cached machine code must match."""
        return self.code

    #: Part of the cache files' names.
    get_disambiguator = get_source_stamp


def _root(function: Callable[..., Any]) -> str:
    """The top-level definition that a function is part of, as a fingerprint's root."""
    return f"{function.__module__}:{function.__qualname__.partition('.')[0]}"


#: Threads that wait for another one's compiler would count its time again.
_one_at_a_time = threading.RLock()


def _made(function: Callable[..., Any], compiler: Any, signature: Any, **options: Any) -> Any:
    """Compile for a signature; without the cache if that is full or cannot be locked."""
    options |= OPTIONS
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with _kept(function) as is_kept:
            return compiler(signature, cache=is_kept, **options)(function)
    except OSError as error:
        _say(f"{folder()}: cannot be used ({error}); compiling without it")
        return compiler(signature, **options)(function)
    finally:
        _compiling[0] += time.perf_counter() - wall
        _compiling[1] += time.process_time() - cpu


_compiling = [0.0, 0.0]


def seconds_compiling() -> tuple[float, float]:
    """Wall and CPU seconds that this process has spent compiling, or waiting for the lock."""
    return _compiling[0], _compiling[1]


@contextmanager
def _kept(function: Callable[..., Any]) -> Iterator[bool]:
    """Hold the lock of the function's module while compiling; announce what is not cached.

    Yields whether there is a cache.
    """
    path = folder()
    trains = function.__module__.startswith("hindsight.algorithms")
    if path is None:
        if trains:
            why = "no cache folder of yours can be written, but XDG_CACHE_HOME can name one"
            _say(f"{COMPILING.format('in each process')} ({why})")
        yield False
        return
    if not function.__module__.startswith("hindsight."):  # its code has no fingerprint
        yield False
        return
    if changed := import_all(_root(function)):  # machine code of the old text, with the new key
        edited = ", ".join(path.name for path in changed)
        _say(f"{edited} changed since this process began: what it compiles now is not kept")
        yield False
        return
    before = CONFIG.CACHE_LOCATOR_CLASSES
    module = function.__module__.rpartition(".")[2]
    lock = FileLock(path / f"{module}.lock", fallback_to_soft=False)
    # A request to stop does not wait for the compiler, here or in another process.
    with awaited("the compiler"), lock:
        name = f"{module}.{function.__qualname__}-{Locator(function).code}"
        files, record = partial(path.glob, f"{name}.*.nb?"), path / f"{name}.sha256"
        known = record.read_bytes() if record.exists() else b""
        if any(files()) and _checksum(files()) != known:
            _say(f"{path}: a file is damaged or incomplete, and is compiled anew")
            for file in files():
                file.unlink()
        if trains and not any(files()):
            _say(COMPILING.format("once"))
        CONFIG.CACHE_LOCATOR_CLASSES = f"{Locator.__module__}.{Locator.__name__}"
        try:
            yield True
        finally:
            CONFIG.CACHE_LOCATOR_CLASSES = before
        if (made := _checksum(files())) != known:
            record.write_bytes(made)


def _checksum(files: Iterable[Path]) -> bytes:
    """SHA-256 of files, in the order of their names."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).digest()


@cache
def _say(line: str) -> None:
    """Print a line to standard error, once."""
    print(line, file=sys.stderr, flush=True)
