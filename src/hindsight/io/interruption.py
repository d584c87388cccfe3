"""Being asked to stop, by a person, a closing terminal or a batch system; and ending together."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

#: SLURM sends SIGTERM before it preempts a job or ends its time.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: One request may come twice, from make and from who signals its whole group: within these seconds.
ECHO_SECONDS = 1.0
#: Somebody else's code that has not come back for so many seconds is not waited for any longer.
PATIENCE_SECONDS = 5.0
#: A process started with this in its environment ends with the process of that number.
PARENT = "HINDSIGHT_PARENT"


class Interrupted(KeyboardInterrupt):
    """Stopped by a signal, with everything kept; one sentence."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status by which a shell knows the signal."""
        return 128 + self.number


@dataclass
class Notice:
    """The signal that asked to stop, if one did."""

    signal: int | None = None
    at: float = 0.0  # of the monotonic clock


#: What is waited for at the moment, outermost first, and since when.
_awaited: list[tuple[str, float]] = []


@contextmanager
def awaited(what: str) -> Iterator[None]:
    """While somebody else's code runs: if it hangs, who is asked to stop does not wait for it."""
    _awaited.append((what, time.monotonic()))
    try:
        yield
    finally:
        _awaited.pop()


@contextmanager
def noticed() -> Iterator[Notice]:
    """Take note of the first signal that asks to stop, for whoever looks; obey a later second.

    A signal that is ignored (as by nohup) stays so.  Outside of the main thread, where Python
    allows no handlers, nothing is noticed.  Raises Interrupted, then, out of code that is awaited
    and does not come back.
    """
    notice = Notice()

    def note(number: int, frame: FrameType | None) -> None:
        if notice.signal is None:
            notice.signal, notice.at = number, time.monotonic()
            before[signal.SIGALRM] = signal.signal(signal.SIGALRM, look)
            signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
        elif time.monotonic() - notice.at > ECHO_SECONDS:
            raise KeyboardInterrupt

    def look(number: int, frame: FrameType | None) -> None:
        if _awaited and time.monotonic() - _awaited[0][1] > PATIENCE_SECONDS:
            assert notice.signal is not None
            raise Interrupted(
                f"stopped by {signal.Signals(notice.signal).name} while {_awaited[0][0]} did not "
                "answer; the same command continues from the last checkpoint",
                notice.signal,
            )

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    try:
        yield notice
    finally:
        if signal.SIGALRM in before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Get this signal when the process that the environment names as parent ends (on Linux)."""
    parent = os.environ.pop(PARENT, "")
    if not parent.isdigit():
        return
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(number), 0, 0, 0)
    if os.getppid() != int(parent):  # it ended before
        os.kill(os.getpid(), number)
