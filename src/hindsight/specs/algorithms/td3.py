from typing import ClassVar, Literal

from pydantic import model_validator

from hindsight.specs.base import Count, NonNegative, Positive
from hindsight.specs.off_policy import DeterministicSpec


class TD3Spec(DeterministicSpec):
    """Twin delayed DDPG (Fujimoto et al. 2018), with noise scaled to actions in [-1, 1]."""

    module: ClassVar[str] = "hindsight.algorithms.td3"
    compiled_module: ClassVar[str] = "hindsight.algorithms.td3_compiled"
    passes: ClassVar[float] = 1.5

    name: Literal["td3"] = "td3"
    learning_rate: Positive = 1e-3
    policy_delay: Count = 2
    """Updates of the critics for each of the policy and the targets. Usual: 2."""
    target_policy_noise: NonNegative = 0.2
    """Standard deviation of the noise on the target policy's actions. Usual: 0.1 to 0.3."""
    target_noise_clip: NonNegative = 0.5
    """Largest absolute value of that noise. Usual: 0.5."""

    @model_validator(mode="after")
    def _clip_where_there_is_noise(self) -> "TD3Spec":
        if not self.target_policy_noise:
            self._reset("target_noise_clip")
        return self
