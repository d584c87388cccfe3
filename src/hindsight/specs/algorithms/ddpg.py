from typing import ClassVar, Literal

from hindsight.specs.base import Count, Fraction, NonNegative, Positive, Steps, Widths
from hindsight.specs.off_policy import DeterministicSpec


class DDPGSpec(DeterministicSpec):
    """Deep deterministic policy gradient (Lillicrap et al. 2016).

    Defaults are the notebook's: 50 updates after each episode of 50 steps, and Gaussian noise.
    """

    module: ClassVar[str] = "hindsight.algorithms.ddpg"
    compiled_module: ClassVar[str] = "hindsight.algorithms.td3_compiled"

    name: Literal["ddpg"] = "ddpg"
    hidden: Widths = (256, 256)
    learning_rate: Positive = 1e-3
    gamma: Fraction = 0.98
    buffer_size: Steps = 100_000
    learning_starts: Steps = 2000
    train_freq: Count = 50
    gradient_steps: Count = 50
    exploration_noise: NonNegative = 0.2
    max_grad_norm: Positive | None = 1.0
