"""Which loop trains a cell; where the fingerprint of training begins."""

from hindsight.specs.cell import CellSpec, PPOSpec
from hindsight.training.off_policy import OffPolicyRuns
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.runs import Runs


def runs_of(spec: CellSpec, seeds: list[int], device: str, workers: int | None = None) -> Runs:
    """The loop of a cell's algorithm, with runs of these seeds.

    `workers`: processes that step foreign environments; None: one for each core.
    """
    kind = OnPolicyRuns if isinstance(spec.algorithm, PPOSpec) else OffPolicyRuns
    return kind(spec, seeds, device, workers)
