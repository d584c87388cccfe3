"""Which loop trains runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hindsight.specs.kinds import entry

if TYPE_CHECKING:
    from hindsight.specs.cell import CellSpec
    from hindsight.training.runs import Runs


def runs_of(
    spec: "CellSpec", seeds: Sequence[int], device: str, workers: int | None = None
) -> "Runs":
    """Runs of one cell; see `together`."""
    return together([spec] * len(seeds), seeds, device, workers)


def together(
    specs: "Sequence[CellSpec]", seeds: Sequence[int], device: str, workers: int | None = None
) -> "Runs":
    """The loop of the cells' algorithm, with a run for each of these specifications and seeds.

    `workers`: processes that step foreign environments; None: one for each core.
    """
    runs: Runs = entry(specs[0].algorithm.loop)(specs, seeds, device, workers)
    return runs
