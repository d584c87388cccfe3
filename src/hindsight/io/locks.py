"""One process at a time: locks that the kernel takes back when their holder ends, however it ends.

So there is no stale lock.  The lock's file is removed by its holder; one that was left behind by a
killed process means nothing.  Locking itself is filelock's, which follows no symbolic link; who
holds a lock, and what it says to a person, is ours.
"""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from hindsight.io.files import FileError, reason

#: What file systems answer that have no locks.
WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class LockedError(FileError):
    """Another process is at work; one sentence."""


@contextmanager
def held(path: Path, what: str, wait: bool = False) -> Iterator[bool]:
    """Hold the lock `path` of `what`; yields whether another process had to be waited for.

    Raises LockedError where another process holds it and `wait` is false, FileError where the file
    cannot be made.  On a file system without locks it says so, and goes on.
    """
    # No lock by a file's mere existence, which would outlive a killed holder.
    lock = FileLock(path, mode=0o644, fallback_to_soft=False, on_acquired=_sign)
    waited = _take(lock, path, what, wait)
    try:
        yield waited
    finally:
        # Before the lock is let go: the next one to come finds its file removed, and makes another.
        with suppress(OSError):
            path.unlink()
        with suppress(OSError):
            lock.release()


def _sign(handle: int) -> None:
    """Write who holds a lock into its file."""
    with suppress(OSError):  # a full disk: only the holder's name is lost
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())


def _take(lock: FileLock, path: Path, what: str, wait: bool) -> bool:
    """Acquire the lock; returns whether it had to be waited for."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()  # no lock of ours; what it points to stays as it is
            _tell(f"{path}: was a symbolic link, which is removed")
        try:
            lock.acquire(blocking=False)
            return False
        except Timeout:
            busy = f"{what}: another process is at work there (process {_holder(path)})"
            if not wait:
                raise LockedError(busy) from None
            _tell(f"{busy}; waiting for it")
            lock.acquire()
            return True
    except OSError as error:
        if error.errno in WITHOUT_LOCKS:
            _tell(f"{what}: this file system has no locks, so never start it twice at once")
            return False
        raise FileError(f"{path}: cannot be written: {reason(error)}") from error


def _holder(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")[:200].strip() or "unknown"
    return "unknown"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
