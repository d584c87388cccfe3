"""Which cells train together: bundles of those that may share an axis, as many as pays.

A cell's numbers do not depend on its bundle, and its checkpoint does not either, so that bundles
may be made anew whenever something is started: of what is missing, for the cores at hand.
"""

import math
from collections.abc import Hashable, Mapping

from hindsight.specs.axis import axis_key
from hindsight.specs.cell import CellSpec
from hindsight.specs.cost import as_one, axis_size, one_after_another, seconds

#: How much longer than its longest cell alone a bundle may take in any case.
DIVIDED = 1.25


def bundles_of(
    cells: Mapping[str, CellSpec],
    apart: Mapping[str, Hashable],
    device: str = "cpu",
    runs_per_axis: int | None = None,
    longest: float | None = None,
) -> list[list[str]]:
    """Names of the cells of each bundle; the order of `cells` is kept within one and among them.

    Args:
        apart: what else cells of one bundle have in common, by name; absent: nothing.
        runs_per_axis: runs that train together; None: as many as is fastest.
        longest: seconds (estimated) above which a bundle is divided, if that makes it much shorter;
            None: never for that.
    """
    alike: dict[Hashable, list[str]] = {}
    for name, spec in cells.items():
        alike.setdefault((axis_key(spec), apart.get(name)), []).append(name)
    bundles = []
    for names in alike.values():
        limit = math.inf
        if longest is not None:
            # Where a cell alone takes so long, dividing gains nothing and costs what sharing saves.
            alone = max(seconds(cells[name], runs_per_axis) for name in names)
            limit = max(longest, DIVIDED * alone)
        for count in range(1, len(names) + 1):
            parts = _divided(names, cells, count)
            if count == len(names) or all(
                _fits([cells[name] for name in part], device, runs_per_axis, limit)
                for part in parts
            ):
                break
        bundles += parts
    place = {name: i for i, name in enumerate(cells)}
    return sorted(bundles, key=lambda bundle: place[bundle[0]])


def jobs_of(
    bundles: list[list[str]],
    cells: Mapping[str, CellSpec],
    long: float,
    runs_per_axis: int | None = None,
) -> list[list[str]]:
    """Names of the cells of each job: of bundles that follow each other in one process.

    A process takes seconds to start, so one goes on with the next bundles that are not `long`
    seconds (estimated) with what it has.  It tells them apart by the axis that they share, hence
    two of one axis never come together; nor do foreign environments with anything else.
    """
    jobs: list[list[str]] = []
    open_jobs: list[list[str]] = []
    for names in bundles:
        own = [cells[name] for name in names]
        job = None
        if not own[0].environment.foreign and seconds(as_one(own), runs_per_axis) < long:
            job = next((job for job in open_jobs if _follows(own, job, cells, long)), None)
            if job is None:
                open_jobs.append(job := [])
                jobs.append(job)
        else:
            jobs.append(job := [])
        job += names
    return jobs


def _follows(
    specs: list[CellSpec], job: list[str], cells: Mapping[str, CellSpec], long: float
) -> bool:
    there = [cells[name] for name in job]
    axes = {axis_key(spec) for spec in there}
    return axis_key(specs[0]) not in axes and one_after_another([*there, *specs]) <= long


def _divided(names: list[str], cells: Mapping[str, CellSpec], count: int) -> list[list[str]]:
    """At most so many parts of about equally many runs, in order."""
    everything, before = sum(cells[name].seeds for name in names), 0
    parts: list[list[str]] = [[] for _ in range(count)]
    for name in names:
        middle = before + cells[name].seeds / 2
        parts[int(middle * count / everything)].append(name)
        before += cells[name].seeds
    return [part for part in parts if part]


def _fits(specs: list[CellSpec], device: str, runs_per_axis: int | None, limit: float) -> bool:
    if len(specs) == 1:
        return True
    together = as_one(specs)
    most = runs_per_axis or axis_size(specs[0], device)
    return together.seeds <= most and seconds(together, runs_per_axis) <= limit
