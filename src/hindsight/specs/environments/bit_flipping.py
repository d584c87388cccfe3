from typing import ClassVar, Literal

from pydantic import model_validator

from hindsight.specs.base import EnvironmentSpec, Few


class BitFlippingSpec(EnvironmentSpec):
    """Flip `n_bits` bits to match a random goal (Andrychowicz et al. 2017, section 3.1).

    An action flips one bit or, if `continuous`, any number of them.  `max_steps` defaults to
    `n_bits`, the most flips that can be needed.
    """

    entry_point: ClassVar[str] = "hindsight.envs.bit_flipping:BitFlipping"
    aliases: ClassVar[dict[str, str]] = {"max_episode_steps": "max_steps"}

    id: Literal["BitFlipping-v0"] = "BitFlipping-v0"
    n_bits: Few = 10
    """Number of bits; more are harder."""
    max_steps: Few | None = None
    """Steps of an episode; null: as many as bits."""
    continuous: bool = False
    """An action is a number for each bit, which flips if it is positive."""

    @model_validator(mode="after")
    def _one_name_for_one_limit(self) -> "BitFlippingSpec":
        if self.max_steps == self.n_bits:
            self._reset("max_steps")
        return self

    @property
    def step_limit(self) -> int:
        return self.n_bits if self.max_steps is None else self.max_steps

    @property
    def observation_size(self) -> int:
        return 3 * self.n_bits

    @property
    def action_size(self) -> int:
        return self.n_bits if self.continuous else 1

    @property
    def choices(self) -> tuple[int, ...]:
        return () if self.continuous else (self.n_bits,)

    @property
    def words(self) -> str:
        return f"BitFlipping-{self.n_bits}" + ("-continuous" if self.continuous else "")
