"""One process at a time: locks that the kernel takes back when their holder ends, however it ends.

So there is no stale lock.  The lock's file is removed by its holder; one that was left behind by a
killed process means nothing.
"""

import errno
import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from hindsight.files import FileError, reason

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
    file, waited = _take(path, what, wait)
    try:
        with suppress(OSError):  # a full disk: only the holder's name is lost
            file.truncate(0)
            file.write(f"{os.getpid()} on {socket.gethostname()}")
            file.flush()
        yield waited
    finally:
        with suppress(OSError):
            path.unlink()
        with suppress(OSError):
            file.close()


def _take(path: Path, what: str, wait: bool) -> tuple[IO[str], bool]:
    waited = False
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+", encoding="utf-8")
            file.seek(0)
            holder = file.read(200).strip() or "unknown"
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {reason(error)}") from error
        if not _lock(file, what, fcntl.LOCK_NB):
            busy = f"{what}: another process is at work there (process {holder})"
            if not wait:
                file.close()
                raise LockedError(busy)
            if not waited:
                print(f"{busy}; waiting for it", file=sys.stderr, flush=True)
            waited = True
            _lock(file, what)
        # Whoever had it may have removed the file: the next one to come would lock another.
        with suppress(FileNotFoundError):
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                return file, waited
        file.close()


def _lock(file: IO[str], what: str, flags: int = 0) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise FileError(f"{file.name}: cannot be locked: {reason(error)}") from error
        told = "this file system has no locks, so never start it twice at once"
        print(f"{what}: {told}", file=sys.stderr, flush=True)
    return True


def only_head() -> ExitStack:
    """Be the only Snakemake at work in this folder until the result is closed, or LockedError.

    Snakemake's own locks stay behind when it is killed.  Whoever is the only one may remove them.
    """
    stack = ExitStack()
    stack.enter_context(held(Path(".snakemake/head.lock"), f"the pipeline in {Path.cwd()}"))
    for left in Path(".snakemake/locks").glob("*.lock"):
        left.unlink(missing_ok=True)
    return stack
