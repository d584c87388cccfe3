from typing import ClassVar, Literal

from hindsight.specs.base import Positive
from hindsight.specs.on_policy import OnPolicySpec


class PPOSpec(OnPolicySpec):
    """Proximal policy optimisation (Schulman et al. 2017) as in Stable-Baselines3."""

    module: ClassVar[str] = "hindsight.algorithms.ppo"
    compiled_module: ClassVar[str] = "hindsight.algorithms.ppo_compiled"

    name: Literal["ppo"] = "ppo"
    clip_range: Positive = 0.2
    clip_range_vf: Positive | None = 0.2
    target_kl: Positive | None = 0.05
