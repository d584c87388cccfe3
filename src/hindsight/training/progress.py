"""How far a cell is: a bar in a terminal, lines in a log, a small file for whoever watches."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hindsight.files import write_whole


@dataclass(frozen=True)
class Progress:
    """After an iteration of some cells' runs."""

    cells: tuple[str, ...]
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


def every(interval: float, tell: Tell) -> Tell:
    """Tell at most once in `interval` seconds."""
    last = -float("inf")

    def seldom(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= interval:
            last = now
            tell(progress)

    return seldom


@contextmanager
def show(file: Path | None = None) -> Iterator[Tell]:
    """A bar where standard error is a terminal, else a line every half minute; and the file."""
    tells: list[Tell] = []
    if file is not None:

        def write(progress: Progress) -> None:
            write_whole(file, lambda p: p.write_text(json.dumps(asdict(progress))))

        tells.append(every(2.0, write))

    def to_all(progress: Progress) -> None:
        for tell in tells:
            tell(progress)

    try:
        if sys.stderr.isatty():
            with _bar() as tell:
                tells.append(tell)
                yield to_all
        else:
            tells.append(every(30.0, lambda p: print(p.text, file=sys.stderr, flush=True)))
            yield to_all
    finally:
        if file is not None:
            with suppress(OSError):  # whatever ended the training is the error to tell
                file.unlink(missing_ok=True)


@contextmanager
def _bar() -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"))
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda p: bar.update(task, total=p.of, completed=p.steps, description=p.text)
