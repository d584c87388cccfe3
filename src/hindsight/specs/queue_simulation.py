"""How long a plan takes with so many jobs at a time: the queue, simulated.

Cells are grouped as on a cluster (workflow/profiles/slurm), and a free slot takes the next job.
What users of a cluster wait for others is not in it.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: A job on a cluster before and after its cells (queue, Snakemake, status), and each cell in it
#: before and after its training.
#: Assumed for an idle node; on two cores that eight processes shared
#: a cell was seen to take 31 s.
JOB_SECONDS, CELL_SECONDS = 15.0, 9.0


@dataclass(frozen=True)
class Queued:
    """A cell as the queue sees it."""

    seconds: float
    priority: int = 0
    cells_per_job: int = 1


def queue_of(cells: Iterable[Queued], cell_seconds: float = CELL_SECONDS) -> list[float]:
    """Seconds of each job, in the order in which they start: by priority, then as planned.

    Cells of one length class share jobs, as many as fill one; `cell_seconds` is added for each.
    """
    jobs: list[tuple[int, float]] = []
    open_jobs: dict[int, list[Queued]] = {}

    def close(job: list[Queued]) -> None:
        length = sum(cell.seconds + cell_seconds for cell in job)
        jobs.append((max(cell.priority for cell in job), length))

    for cell in cells:
        job = open_jobs.setdefault(cell.cells_per_job, [])
        job.append(cell)
        if len(job) == cell.cells_per_job:
            close(open_jobs.pop(cell.cells_per_job))
    for job in open_jobs.values():
        close(job)
    return [length for _, length in sorted(jobs, key=lambda job: -job[0])]


def wall_seconds(jobs: Sequence[float], slots: int, job_seconds: float = JOB_SECONDS) -> float:
    """When the last job ends, if each of `slots` takes the next as soon as it is free.

    Each job takes `job_seconds` longer than its cells.
    """
    free = [0.0] * min(slots, len(jobs))
    for length in jobs:
        heapq.heapreplace(free, free[0] + length + job_seconds)
    return max(free, default=0.0)
