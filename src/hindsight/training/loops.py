"""Which loop trains a cell."""

from typing import TYPE_CHECKING

from hindsight.specs.kinds import entry

if TYPE_CHECKING:
    from hindsight.specs.cell import CellSpec
    from hindsight.training.runs import Runs


def runs_of(spec: "CellSpec", seeds: list[int], device: str, workers: int | None = None) -> "Runs":
    """The loop of a cell's algorithm, with runs of these seeds.

    `workers`: processes that step foreign environments; None: one for each core.
    """
    runs: Runs = entry(spec.algorithm.loop)(spec, seeds, device, workers)
    return runs
