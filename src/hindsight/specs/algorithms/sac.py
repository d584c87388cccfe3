import math
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from hindsight.specs.base import MOST, NUMBER, Fraction, Share
from hindsight.specs.off_policy import ContinuousSpec


def _one_name(value: float | str) -> float | str:
    """Normalise a temperature, so that equal trainings share a name."""
    word, _, first = value.partition("_") if isinstance(value, str) else ("", "", value)
    try:
        alpha = 1.0 if value == "auto" else float(first)
    except ValueError:
        alpha = math.nan
    if word not in ("", "auto") or not 0 < alpha <= MOST:
        raise ValueError(
            f"{value!r} is not allowed; use 'auto', 'auto_0.1' to start at 0.1, or a number above "
            "0 for a fixed temperature"
        )
    if word:
        return "auto" if alpha == 1 else f"auto_{alpha!r}"
    return alpha


class SACSpec(ContinuousSpec):
    """Soft actor-critic (Haarnoja et al. 2018b); defaults as in PPO-HER (released code).

    The target entropy defaults to minus the number of action dimensions.
    """

    module: ClassVar[str] = "hindsight.algorithms.sac"
    compiled_module: ClassVar[str] = "hindsight.algorithms.sac_compiled"
    passes: ClassVar[float] = 1.6
    ends_by_test: ClassVar[bool] = True

    name: Literal["sac"] = "sac"
    gamma: Fraction = 0.95
    tau: Share = 0.05
    target_entropy: Annotated[float, Field(ge=-MOST, le=MOST), NUMBER] | None = None
    """Entropy to which the temperature is adapted; null: minus the number of action dimensions."""
    ent_coef: Annotated[float | str, NUMBER, AfterValidator(_one_name)] = "auto"
    """Temperature alpha, the weight of entropy against reward: auto learns it starting at 1,
    auto_0.1 starting at 0.1, and a number fixes it. Usual: auto, or auto_0.01 where reaching the
    goal ends the episode; fixed 0.01 to 0.2."""

    @model_validator(mode="after")
    def _target_where_the_temperature_is_learned(self) -> "SACSpec":
        if not self.learns_temperature:
            self._reset("target_entropy")
        return self

    @property
    def learns_temperature(self) -> bool:
        """Whether alpha is learned or fixed."""
        return isinstance(self.ent_coef, str)

    @property
    def initialisation(self) -> tuple[float, ...]:
        """The initial alpha, which is part of a run's initial parameters."""
        return (float(str(self.ent_coef).removeprefix("auto").removeprefix("_") or 1),)

    @property
    def words(self) -> str:
        alpha = "" if self.ent_coef == "auto" else f"-alpha-{self.ent_coef}".replace("_", "-")
        return super().words + alpha
