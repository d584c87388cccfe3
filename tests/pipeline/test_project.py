"""The order of a cluster's jobs, and its queue against a simulated clock."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.pipeline.project import Project
from hindsight.specs.config import load
from hindsight.specs.cost import seconds, wall_seconds

ROOT = Path(__file__).parents[2]


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(1, 6), st.integers(0, 5))
def test_a_clock_that_ticks_agrees(jobs, slots, overhead):
    waiting, busy, now = [job + overhead for job in jobs], [], 0
    while waiting or busy:
        while waiting and len(busy) < slots:
            busy.append(waiting.pop(0))
        now += 1
        busy = [left - 1 for left in busy if left > 1]
    assert wall_seconds(jobs, slots, job_seconds=overhead) == now


def test_the_main_figure_comes_first_and_then_the_longest():
    project = Project.of(load(ROOT / "config.yaml", {"preset": "laptop"}))
    cells = sorted(project.plan.cells.values(), key=lambda spec: -project.priority(spec))
    first = project.plan.cells_of("algorithms")
    assert {spec.name for spec in cells[: len(first)]} == set(first)
    rest = [seconds(spec) for spec in cells[len(first) :]]
    assert rest == pytest.approx(sorted(rest, reverse=True), rel=0.11)  # by tenths of a doubling
    assert project.queue() == [seconds(spec) for spec in cells]


@pytest.mark.parametrize("preset", ["smoke", "laptop", "paper"])
def test_the_queue_holds_every_cell_and_is_well_filled(preset):
    project = Project.of(load(ROOT / "config.yaml", {"preset": preset}))
    queue = project.queue()
    work = sum(map(seconds, project.plan.cells.values()))
    assert len(queue) == len(project.plan.cells) and sum(queue) == pytest.approx(work)
    assert wall_seconds(queue, 1, 0) == pytest.approx(work)
    for slots in (10, 100):
        # Graham (1969): no list schedule is worse than twice the best there can be.
        least = max(work / slots, max(queue))
        assert least <= wall_seconds(queue, slots, 0) + 1e-6 <= 2 * least
