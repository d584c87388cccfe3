"""A cluster's jobs, and its queue against hand-computed schedules and a slot-by-slot recount."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.specs.config import load
from hindsight.specs.cost import START_SECONDS, wall_seconds
from hindsight.specs.plan import Plan
from hindsight.workflow import Stage

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("jobs", "slots", "overhead", "wall"),
    [
        ([], 3, 5, 0),
        ([3, 3, 2, 2, 2], 1, 0, 12),
        # 3 | 3, then 2 | 2 until 5, then one more.
        ([3, 3, 2, 2, 2], 2, 0, 7),
        ([3, 3, 2, 2, 2], 2, 1, 10),
        ([3, 3, 2, 2, 2], 100, 0, 3),
        # The long one comes last and is waited for.
        ([1, 1, 1, 9], 2, 0, 10),
    ],
)
def test_schedules_by_hand(jobs, slots, overhead, wall):
    assert wall_seconds(jobs, slots, overhead) == wall


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(1, 6))
def test_a_clock_that_ticks_agrees(jobs, slots):
    waiting, busy, now = list(jobs), [], 0
    while waiting or busy:
        while waiting and len(busy) < slots:
            busy.append(waiting.pop(0))
        now += 1
        busy = [left - 1 for left in busy if left > 1]
    assert wall_seconds(jobs, slots, job_seconds=0) == now


def test_short_cells_share_jobs_and_the_main_figure_comes_first():
    """A job is an experiment's, and as long as asked for; each saves a start of a program."""
    config = load(ROOT / "config.yaml", {"preset": "laptop"})
    queues = {}
    for minutes in (0, 1, 60):
        execution = config.execution.model_copy(update={"job_minutes": minutes})
        stage = Stage.of(Plan.of(config.model_copy(update={"execution": execution})))
        jobs = stage.jobs(stage.plan.cells)
        queues[minutes] = stage.queue()
        for names in jobs:
            assert len(names) == 1 or stage.seconds(*names) <= 60 * minutes
            experiments = [set(stage.plan.cells_of(name)) for name in stage.experiments]
            assert any(set(names) <= cells for cells in experiments)
        assert sorted(queues[minutes]) == sorted(stage.seconds(*names) for names in jobs)
        first = max(jobs, key=lambda names: stage.priority(*names))
        assert queues[minutes][0] == stage.seconds(*first)
        assert set(first) & set(stage.plan.cells_of("algorithms"))
    assert len(queues[0]) == len(stage.plan.cells) > len(queues[1]) > len(queues[60])
    saved = START_SECONDS * (len(queues[0]) - len(queues[1]))
    assert sum(queues[0]) - sum(queues[1]) == pytest.approx(saved)


@pytest.mark.parametrize("preset", ["smoke", "laptop", "paper"])
def test_nothing_of_a_preset_is_lost_in_the_queue(preset):
    stage = Stage.of(Plan.of(load(ROOT / "config.yaml", {"preset": preset})))
    queue = stage.queue()
    jobs = stage.jobs(stage.plan.cells)
    work = sum(stage.seconds(*names) for names in jobs)
    assert sorted(name for names in jobs for name in names) == sorted(stage.plan.cells)
    assert sum(queue) == pytest.approx(work)
    assert wall_seconds(queue, 1, 0) == pytest.approx(work)
    for slots in (10, 100):
        # Graham (1969): no list schedule is worse than twice the best there can be.
        least = max(work / slots, max(queue))
        assert least <= wall_seconds(queue, slots, 0) + 1e-6 <= 2 * least
