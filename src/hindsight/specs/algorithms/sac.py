"""SAC: its specification."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from hindsight.specs.base import Fraction, Positive
from hindsight.specs.off_policy import ContinuousSpec


class SACSpec(ContinuousSpec):
    """Soft actor-critic (Haarnoja et al. 2018b); defaults as in PPO-HER (released code).

    The target of the entropy is by default minus the number of action dimensions.
    """

    module: ClassVar[str] = "hindsight.algorithms.sac"
    compiled_module: ClassVar[str] = "hindsight.algorithms.sac_compiled"
    passes: ClassVar[float] = 1.6
    ends_by_test: ClassVar[bool] = True

    name: Literal["sac"] = "sac"
    learning_rate: Positive = 3e-4
    gamma: Fraction = 0.95
    tau: Annotated[float, Field(gt=0, le=1)] = 0.05
    target_entropy: float | None = None
