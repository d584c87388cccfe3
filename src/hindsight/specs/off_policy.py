"""Off-policy algorithms: what their specifications share."""

from typing import ClassVar, Literal

from hindsight.specs.base import (
    AlgorithmSpec,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Share,
    Widths,
)


class OffPolicySpec(AlgorithmSpec):
    """What all off-policy algorithms share.

    Every `train_freq` steps of each environment, `gradient_steps` updates follow.
    """

    loop: ClassVar[str] = "hindsight.training.off_policy:OffPolicyRuns"
    on_policy: ClassVar[bool] = False
    gamma: Fraction = 0.99
    buffer_size: Count = 1_000_000
    learning_starts: Count = 100
    #: Until learning starts, actions are uniform; or else the policy's, as ever after.
    random_warm_up: bool = True
    n_envs: Count = 1
    train_freq: Count = 1
    gradient_steps: Count = 1
    weight_decay: NonNegative = 0.0
    max_grad_norm: Positive | None = None
    #: Steps of each environment between two rows of the curves.
    log_interval: Count = 1000

    @property
    def iteration_steps(self) -> int:
        return self.log_interval

    def updates(self, steps: int, copies: int) -> float:
        return steps / self.train_freq * self.gradient_steps

    def most_stored(self, steps: int, copies: int) -> int:
        """Transitions in the replay buffer."""
        return min(self.buffer_size, steps * self.n_envs)

    @property
    def uniform_share(self) -> float:
        """Share of actions that the loop draws uniformly while training."""
        return 0.0

    @property
    def standardises(self) -> bool:
        """Whether networks see standardised observations."""
        return False


class ContinuousSpec(OffPolicySpec):
    """What the actor-critic methods for continuous actions share."""

    actions: ClassVar[Literal["any", "continuous", "discrete"]] = "continuous"

    hidden: Widths = (64, 64)
    tau: Share = 0.005
    batch_size: Count = 256
    #: Share of actions drawn uniformly while training (Andrychowicz et al. 2017, appendix A).
    epsilon: Fraction = 0.0
    #: Networks see observations less their mean so far, in units of their standard deviation.
    normalize_observations: bool = False

    @property
    def uniform_share(self) -> float:
        return self.epsilon

    @property
    def standardises(self) -> bool:
        return self.normalize_observations

    @property
    def words(self) -> str:
        how = self.name + (f"-epsilon{self.epsilon:g}" if self.epsilon else "")
        return how + ("-normalized" if self.normalize_observations else "")


class DeterministicSpec(ContinuousSpec):
    """What those share whose policy is no distribution: Gaussian noise explores."""

    stochastic: ClassVar[bool] = False

    #: In units of the action box [-1, 1].
    exploration_noise: NonNegative = 0.1
