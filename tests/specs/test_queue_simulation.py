"""The queue's simulation, against hand-computed schedules and a slot-by-slot recount."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.config import load
from hindsight.specs.cost import JOB_SECONDS, MOST_CELLS, cells_per_job, seconds
from hindsight.specs.plan import Plan
from hindsight.specs.queue_simulation import CELL_SECONDS, Queued, queue_of, wall_seconds
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


def test_short_cells_share_jobs_and_the_first_figure_comes_first():
    short, long = Queued(10, cells_per_job=4), Queued(500)
    first = Queued(7, priority=1)
    cells = [long, short, short, short, short, long, short, first]
    assert queue_of(cells, cell_seconds=1) == [8, 501, 44, 501, 11]


@given(st.integers(1, 2000), st.sampled_from([16, 64, 512]))
def test_a_full_job_is_minutes_long(rollouts, width):
    spec = CellSpec(algorithm=PPOSpec(hidden=(width, width)), seeds=2, steps=2048 * rollouts)
    together, one = cells_per_job(spec), seconds(spec)
    assert together == 2 ** int(math.log2(together)) <= MOST_CELLS
    assert together * one >= JOB_SECONDS or together == MOST_CELLS
    # And not much longer than it must be.
    assert together == 1 or together * one < 2 * JOB_SECONDS


@pytest.mark.parametrize("preset", ["smoke", "laptop", "paper"])
def test_nothing_of_a_preset_is_lost_in_the_queue(preset):
    stage = Stage.of(Plan.of(load(ROOT / "config.yaml", {"preset": preset})))
    queue = stage.queue(10)
    bundles = stage.bundles(stage.plan.cells, 10)
    work = sum(stage.seconds(*names) + CELL_SECONDS for names in bundles)
    assert sorted(name for names in bundles for name in names) == sorted(stage.plan.cells)
    assert sum(queue) == pytest.approx(work)
    assert wall_seconds(queue, 1, 0) == pytest.approx(work)
    for slots in (10, 100):
        # Graham (1969): no list schedule is worse than twice the best there can be.
        least = max(work / slots, max(queue))
        assert least <= wall_seconds(queue, slots, 0) + 1e-6 <= 2 * least
