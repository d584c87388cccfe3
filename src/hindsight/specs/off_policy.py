"""Base specifications of off-policy algorithms."""

from typing import ClassVar, Literal

from hindsight.specs.base import (
    AlgorithmSpec,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Share,
    Steps,
    Widths,
)


class OffPolicySpec(AlgorithmSpec):
    """Options of all off-policy algorithms.

    `gradient_steps` updates follow every `train_freq` steps of each environment.
    """

    loop: ClassVar[str] = "hindsight.training.off_policy:OffPolicyRuns"
    on_policy: ClassVar[bool] = False
    gamma: Fraction = 0.99
    buffer_size: Steps = 1_000_000
    learning_starts: Steps = 100
    #: Draw actions uniformly until learning starts, instead of from the policy.
    random_warm_up: bool = True
    n_envs: Count = 1
    train_freq: Count = 1
    gradient_steps: Count = 1
    weight_decay: NonNegative = 0.0
    max_grad_norm: Positive | None = None
    #: Steps of each environment per row of the curves.
    log_interval: Steps = 1000

    @property
    def iteration_steps(self) -> int:
        return self.log_interval

    def updates(self, steps: int, copies: int) -> float:
        return steps / self.train_freq * self.gradient_steps

    def most_stored(self, steps: int, copies: int) -> int:
        """Maximum number of transitions in the replay buffer."""
        return min(self.buffer_size, steps * self.n_envs)

    @property
    def uniform_share(self) -> float:
        """Share of training actions that the loop draws uniformly."""
        return 0.0

    @property
    def standardises(self) -> bool:
        """Whether the networks' inputs are standardised."""
        return False


class ContinuousSpec(OffPolicySpec):
    """Options of the actor-critic algorithms for continuous actions."""

    actions: ClassVar[Literal["any", "continuous", "discrete"]] = "continuous"

    hidden: Widths = (64, 64)
    tau: Share = 0.005
    batch_size: Count = 256
    #: Share of training actions drawn uniformly (Andrychowicz et al. 2017, appendix A).
    epsilon: Fraction = 0.0
    #: Standardise observations by their running mean and standard deviation.
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
    """Options of the algorithms with a deterministic policy, which explore by Gaussian noise."""

    stochastic: ClassVar[bool] = False

    #: Standard deviation, for actions in [-1, 1].
    exploration_noise: NonNegative = 0.1
