"""What every specification shares: strictness, and the kinds of numbers there are."""

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
#: What the authors' code does, or what the papers say.
Fidelity = Literal["released", "described"]
FIDELITIES: tuple[Fidelity, ...] = get_args(Fidelity)
#: Names of devices.
DEVICES = "^(cpu|cuda(:[0-9]{1,3})?)$"


class Spec(BaseModel):
    """Immutable, and strict: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
