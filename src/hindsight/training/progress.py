"""Progress of a training: a bar in a terminal, lines in a log, and a file for other processes."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from hindsight.io.files import write_whole

#: Shortest interval between two lines of a log, and between two updates of the file.
LINE_SECONDS, FILE_SECONDS = 30.0, 2.0


@dataclass(frozen=True)
class Progress:
    cell: str
    steps: int  # of all runs together
    of: int  # the total, if no run ends early
    steps_per_second: float
    return_mean: float  # mean over the runs still training
    success_rate: float

    @classmethod
    def of_iteration(
        cls, cell: str, steps: int, of: int, seconds: float, columns: Mapping[str, Any]
    ) -> Self:
        """Summarise an iteration: `columns` [run] are its curves, `seconds` the time so far."""
        means = (float(columns[name].nanmean()) for name in ("return_mean", "success_rate"))
        return cls(cell, steps, of, steps / max(seconds, 1e-9), *means)

    @property
    def text(self) -> str:
        left = (self.of - self.steps) / max(self.steps_per_second, 1e-9) / 60
        return (
            f"{self.steps / self.of:4.0%}  {self.steps_per_second:,.0f} steps/s  "
            f"return {shown(self.return_mean, '+.2f')}  success {shown(self.success_rate, '.0%')}  "
            f"at most {left:.1f} min left"
        )


def shown(value: float, form: str) -> str:
    """Format a number; a dash for NaN, as before the first episode has ended."""
    return "–" if math.isnan(value) else format(value, form)


Tell = Callable[[Progress], None]
#: What a display shows: the amount done, the total, and a line of text.
Shown = tuple[float, float, str]


def every(interval: float, tell: Callable[[Any], None]) -> Callable[[Any], None]:
    """Limit a function to one call per `interval` seconds; further calls do nothing."""
    last = -float("inf")

    def seldom(what: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= interval:
            last = now
            tell(what)

    return seldom


@contextmanager
def display(stream: TextIO) -> Iterator[Callable[[Callable[[], Shown]], None]]:
    """Show a bar if `stream` is a terminal, otherwise a line every half minute.

    Yields a function of a callable, which is called only when something is to be shown.
    """
    if not stream.isatty():
        yield every(LINE_SECONDS, lambda look: print(look()[2], file=stream, flush=True))
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"), TimeElapsedColumn())
    with RichProgress(*columns, console=Console(file=stream)) as bar:
        task = bar.add_task("starting", total=None)

        def draw(look: Callable[[], Shown]) -> None:
            done, of, text = look()
            bar.update(task, total=of, completed=done, description=text)

        yield draw


@contextmanager
def show(file: Path | None = None) -> Iterator[Tell]:
    """Show the progress of a training on standard error, and keep it in `file`, if given."""

    def write(progress: Progress) -> None:
        if file is not None:
            write_whole(file, lambda p: p.write_text(json.dumps(asdict(progress))))

    seldom = every(FILE_SECONDS, write)
    try:
        with display(sys.stderr) as draw:

            def tell(progress: Progress) -> None:
                seldom(progress)
                draw(lambda: (progress.steps, progress.of, progress.text))

            yield tell
    finally:
        if file is not None:
            with suppress(OSError):  # do not hide the error that ended the training
                file.unlink(missing_ok=True)
