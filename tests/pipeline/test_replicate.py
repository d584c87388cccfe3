"""What `hindsight replicate` shows while it works."""

import heapq
import os
import random
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hindsight.pipeline.project import Project
from hindsight.pipeline.replicate import Pace, _Watch, kind_of, what_comes
from hindsight.specs.config import load
from hindsight.specs.cost import seconds

CONFIG = Path(__file__).parents[2] / "config.yaml"


def test_the_line_moves_while_figures_are_drawn(tmp_path: Path) -> None:
    project: Any = SimpleNamespace(
        plan=SimpleNamespace(cells={}), files={}, there=set(), root=tmp_path, folder=str(tmp_path)
    )
    (tmp_path / "of_yesterday.png").touch()
    os.utime(tmp_path / "of_yesterday.png", (0, 0))
    watch = _Watch(project)
    assert watch.look()[1] == "0 of 0 cells  tables, figures, report"
    for count, name in enumerate(("a.png", "b.png"), 1):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (watch.began + 1, watch.began + 1))
        assert watch.look()[1] == f"0 of 0 cells  tables, figures ({count} done), report"


@pytest.mark.parametrize("on_policy", [0.7, 3.0])
@pytest.mark.parametrize("off_policy", [1.0, 2.5])
@pytest.mark.parametrize("foreign", [0.8, 2.0])
def test_the_time_left_is_right_to_30_percent_after_a_quarter(on_policy, off_policy, foreign):
    """The laptop preset on two cores that are by unlike factors slower than the estimates; within
    the last minutes to a minute, since it is minutes that are told.

    Jobs start as the workflow has them; each takes its estimate by its kind's factor and one of
    its own, up to 1.4; a program needs four seconds before anything is seen of it.
    """
    project = Project.of(load(CONFIG, {"preset": "laptop"}))
    chance = random.Random(0)
    queue = sorted(project.plan.cells.values(), key=lambda spec: -project.priority(spec))
    free, parts, starts = [0.0, 0.0], [], []
    for spec in queue:
        begins = free[0] + 4
        starts.append(begins)
        factor = foreign if spec.environment.foreign else off_policy
        own = spec.algorithm.on_policy and not spec.environment.foreign
        factor = on_policy if own else factor
        worth = seconds(spec)
        ends = begins + factor * chance.uniform(1 / 1.4, 1.4) * worth
        parts.append((begins, ends, kind_of(spec), worth))
        heapq.heapreplace(free, ends)
    end, pace, over = max(free), Pace(), set()
    tick, wrong = 5, []
    for now in range(tick, int(end), tick):
        left, part = defaultdict(float), defaultdict(float)
        for i, (begins, ends, kind, worth) in enumerate(parts):
            if ends <= now:
                pace.finished[kind] += worth if i not in over else 0.0
                over.add(i)
                continue
            left[kind] += worth
            if begins <= now:
                part[kind] += worth * (now - begins) / (ends - begins)
                pace.spent[kind] += tick
        if now > 0.25 * end:
            pace.begun = sum(begins <= now for begins in starts)
            pace.at_once = 2
            error = pace.seconds_left(now, left, part, len(starts) - pace.begun) - (end - now)
            wrong.append(abs(error) / max(0.3 * (end - now), 60))
    assert len(wrong) > 200 and max(wrong) < 1


def test_it_begins_by_saying_what_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    project = Project.of(load(CONFIG, {"preset": "smoke"}))
    first, how_long, where = what_comes(project, "2")
    total = len(project.plan.cells)
    assert first == f"Preset smoke: {total} of {total} cells are to be trained."
    work = sum(map(seconds, project.plan.cells.values()))
    assert f"{work / 120:.0f} minutes on 2 of this machine's cores" in how_long
    assert where.endswith("figures and the page to figures/smoke/.")
    # On a cluster the profile says how many cores there are; all are those that this process has.
    assert "machine" not in list(what_comes(project, None))[1]
    assert "on 4 of" in list(what_comes(project, "all"))[1]


def test_published_results_are_drawn_byte_for_byte(tmp_path: Path) -> None:
    told = list(what_comes(Project.of(load(CONFIG, {"results": "published"})), "all"))
    assert told[0].startswith("Nothing is trained") and "byte for byte" in told[1]
