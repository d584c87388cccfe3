"""Handle requests to stop from a user, a terminal or a batch system, and end with the parent."""

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

#: SLURM sends SIGTERM before it preempts a job or its time limit expires.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: A second signal within these seconds repeats the first: make and the terminal may both send one.
ECHO_SECONDS = 1.0
#: Third-party code that takes longer than this is abandoned after a request to stop.
PATIENCE_SECONDS = 5.0
#: Environment variable with the id of the parent process to end with.
PARENT = "HINDSIGHT_PARENT"


class Interrupted(KeyboardInterrupt):
    """A signal stopped the training, which can continue; the message is one sentence."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.status = 128 + number  # of the shell's convention


@dataclass
class Notice:
    """The signal that requested a stop, if any."""

    signal: int | None = None


#: Third-party code that is running, outermost first, and when it started.
_awaited: list[tuple[str, float]] = []


@contextmanager
def awaited(what: str) -> Iterator[None]:
    """Mark third-party code, so that a request to stop interrupts it if it hangs."""
    _awaited.append((what, time.monotonic()))
    try:
        yield
    finally:
        _awaited.pop()


@contextmanager
def noticed(signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[Notice]:
    """Record the first signal in the yielded notice; raise KeyboardInterrupt at a later second one.

    Ignored signals (nohup) stay ignored.  Outside the main thread, where Python allows no handlers,
    nothing is recorded.  After a signal, `awaited` code that hangs is stopped by Interrupted.
    """
    notice, at = Notice(), 0.0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal at
        if notice.signal is None:
            notice.signal, at = number, time.monotonic()
            before[signal.SIGALRM] = signal.signal(signal.SIGALRM, look)
            signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
        elif time.monotonic() - at > ECHO_SECONDS:
            raise KeyboardInterrupt

    def look(number: int, frame: FrameType | None) -> None:
        if _awaited and time.monotonic() - _awaited[0][1] > PATIENCE_SECONDS:
            assert notice.signal is not None
            raise Interrupted(
                f"stopped by {signal.Signals(notice.signal).name} while {_awaited[0][0]} did not "
                "answer",
                notice.signal,
            )

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in signals:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    try:
        yield notice
    finally:
        if signal.SIGALRM in before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def end_with_parent(number: int = signal.SIGTERM, parent: str = "") -> None:
    """Receive this signal when the parent process ends (on Linux).

    parent: its process id; by default, what the environment variable PARENT holds.
    """
    parent = parent or os.environ.pop(PARENT, "")
    if not parent.isdigit():
        return
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, int(number), 0, 0, 0)
    if os.getppid() != int(parent):  # it has already ended
        os.kill(os.getpid(), number)
