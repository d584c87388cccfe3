"""Locks that the kernel releases when their holder ends, so that none becomes stale.

A file that a killed process left behind locks nothing.  filelock does the locking, without
following symbolic links; this module adds the holder's name and the messages.
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hindsight.io.files import FileError, reason


@contextmanager
def held(path: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold the lock `path` of `what`; announces it if it waits for another process.

    Raises FileError if another process holds it and `wait` is false, or the file cannot be created.
    On a file system without locks, warns and continues.
    """
    # No soft lock, whose file would outlive a killed holder.
    lock = FileLock(path, fallback_to_soft=False, on_acquired=_sign)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        busy = f"{what} is already running (process {_holder(path)})"
        if not wait:
            raise FileError(busy) from None
        print(f"{busy}; waiting for it", file=sys.stderr, flush=True)
        lock.acquire()
    except OSError as error:
        # File systems without locks fail in many ways: the file can be opened, but not locked.
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW))
        except OSError:
            raise FileError(f"{path}: cannot be written: {reason(error)}") from error
        warning = f"{what}: this file system has no locks, so never start it twice at once"
        print(warning, file=sys.stderr, flush=True)
    holder = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == holder:  # a fork of it shares the lock, and would release it
            # Unlink before releasing: the next process then creates a new file.
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                lock.release()


def _sign(handle: int) -> None:
    """Write the holder's name into the lock's file."""
    with suppress(OSError):  # on a full disk, only the name is lost
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())


def _holder(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[:200].strip() or "unknown"
    return "unknown"
