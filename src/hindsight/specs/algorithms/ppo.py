from typing import ClassVar, Literal

from hindsight.specs.base import Positive
from hindsight.specs.on_policy import OnPolicySpec


class PPOSpec(OnPolicySpec):
    """Proximal policy optimisation (Schulman et al. 2017) as in Stable-Baselines3."""

    module: ClassVar[str] = "hindsight.algorithms.ppo"
    compiled_module: ClassVar[str] = "hindsight.algorithms.ppo_compiled"

    name: Literal["ppo"] = "ppo"
    clip_range: Positive = 0.2
    """How far an action's probability ratio may move from 1 before its gradient stops. Usual: 0.1
    to 0.3."""
    clip_range_vf: Positive | None = 0.2
    """How far a value may move in one iteration before its gradient stops; null: any way. Usual:
    null, or 0.2; depends on the scale of rewards."""
    target_kl: Positive | None = 0.05
    """An iteration ends early once the policy has moved by 1.5 times this divergence; null: never.
    Usual: null, or 0.01 to 0.05."""
