"""Progress in a terminal, in a log and in a file."""

import io
import json
import math
from dataclasses import asdict

import pytest

from hindsight.io.checksums import about
from hindsight.training import progress
from hindsight.training.cell import train_cell
from hindsight.training.progress import Progress, display, show
from tests.training.small import SPEC


def test_a_line_says_how_far_it_is_and_what_there_is_not_yet():
    line = Progress("cell", 2000, 8000, 100.0, -0.5, 0.25).text
    assert line == " 25%  100 steps/s  return -0.50  success 25%  at most 1.0 min left"
    line = Progress("cell", 2000, 8000, 100.0, math.nan, math.nan).text
    assert line == " 25%  100 steps/s  return –  success –  at most 1.0 min left"


def test_where_there_is_no_terminal_a_line_is_printed_every_half_minute(monkeypatch):
    now, asked, stream = [100.0], [], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def look():
        asked.append(now[0])
        return 1, 4, f"after {now[0] - 100:g} s"

    with display(stream) as draw:
        for now[0] in (100.0, 110.0, 129.5, 130.0, 131.0):
            draw(look)
    assert stream.getvalue() == "after 0 s\nafter 30 s\n"
    assert asked == [100.0, 130.0]  # nobody is asked for what is not shown


def test_in_a_terminal_there_is_a_bar():
    stream = io.StringIO()
    stream.isatty = lambda: True
    with display(stream) as draw:
        draw(lambda: (1, 4, "a quarter"))
        draw(lambda: (4, 4, "all of it"))
    assert "all of it" in stream.getvalue() and "0:00:0" in stream.getvalue()


def test_the_file_is_there_while_something_trains(tmp_path, capfd):
    path, at = tmp_path / "progress" / "cell.json", Progress("cell", 1, 2, 3.0, 0.0, 0.5)
    with pytest.raises(RuntimeError), show(path) as tell:
        tell(at)
        assert json.loads(path.read_text()) == json.loads(json.dumps(asdict(at)))
        raise RuntimeError
    assert not path.exists()
    assert capfd.readouterr().err == f"{at.text}\n"


def test_the_time_left_counts_evaluations(tmp_path):
    told: list[Progress] = []
    took = about(train_cell(SPEC, tmp_path, tell=told.append))
    seconds = took["seconds"] + took["evaluation_seconds"]
    assert told[-1].steps / told[-1].steps_per_second == pytest.approx(seconds)
