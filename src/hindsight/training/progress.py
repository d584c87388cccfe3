"""How far a cell is: a bar in a terminal, lines in a log, a small file for whoever watches."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO, TypeVar

from hindsight.io.files import write_whole

#: Between two lines of a display that is no terminal, and two writings of the small file.
LINE_SECONDS, FILE_SECONDS = 30.0, 2.0


@dataclass(frozen=True)
class Progress:
    """After an iteration of a cell's runs."""

    cell: str
    steps: int  # of all runs together
    of: int  # if no run ends early
    steps_per_second: float
    return_mean: float  # mean over the runs that train
    success_rate: float

    @property
    def text(self) -> str:
        """One line."""
        left = (self.of - self.steps) / max(self.steps_per_second, 1e-9) / 60
        return (
            f"{self.steps / self.of:4.0%}  {self.steps_per_second:,.0f} steps/s  "
            f"return {shown(self.return_mean, '+.2f')}  success {shown(self.success_rate, '.0%')}  "
            f"at most {left:.1f} min left"
        )


def shown(value: float, form: str) -> str:
    """A number; a dash for one that there is not, before the first episode is over."""
    return "–" if math.isnan(value) else format(value, form)


Tell = Callable[[Progress], None]
#: What a display shows: what is done, of how much, and a line of text.
Shown = tuple[float, float, str]
T = TypeVar("T")


def every(interval: float, tell: Callable[[T], None]) -> Callable[[T], None]:
    """Tell at most once in `interval` seconds."""
    last = -float("inf")

    def seldom(what: T) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= interval:
            last = now
            tell(what)

    return seldom


@contextmanager
def display(stream: TextIO) -> Iterator[Callable[[Callable[[], Shown]], None]]:
    """A bar where `stream` is a terminal, else a line every half minute.

    What is yielded takes a function, which is asked for what to show only when something is.
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
    """The display of a training, on the standard error; and the file, if one is named."""

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
            with suppress(OSError):  # whatever ended the training is the error to tell
                file.unlink(missing_ok=True)
