from typing import ClassVar, Literal

from hindsight.specs.base import AlgorithmSpec, Count, Fraction, NonNegative, Positive, Share, Steps


class OffPolicySpec(AlgorithmSpec):
    """Options of all off-policy algorithms.

    `gradient_steps` updates follow every `train_freq` steps of each environment.
    """

    loop: ClassVar[str] = "hindsight.training.off_policy:OffPolicyRuns"
    on_policy: ClassVar[bool] = False
    buffer_size: Steps = 1_000_000
    learning_starts: Steps = 100
    #: Draw actions uniformly until learning starts, instead of from the policy.
    random_warm_up: bool = True
    train_freq: Count = 1
    gradient_steps: Count = 1
    max_grad_norm: Positive | None = None
    #: Steps of a run per row of the curves, rounded up to whole steps of its environments.
    log_interval: Steps = 1000

    @property
    def iteration_steps(self) -> int:
        return -(-self.log_interval // self.n_envs) * self.n_envs


class ContinuousSpec(OffPolicySpec):
    """Options of the actor-critic algorithms for continuous actions."""

    actions: ClassVar[Literal["any", "continuous", "discrete"]] = "continuous"

    tau: Share = 0.005
    batch_size: Count = 256
    #: Share of training actions drawn uniformly (Andrychowicz et al. 2017, appendix A).
    epsilon: Fraction = 0.0
    #: Standardise observations by their running mean and standard deviation, which desired and
    #: achieved goals share, and clip them at five deviations.
    normalize_observations: bool = False

    @property
    def words(self) -> str:
        how = self.name + (f"-epsilon{self.epsilon:g}" if self.epsilon else "")
        return how + ("-normalized" if self.normalize_observations else "")


class DeterministicSpec(ContinuousSpec):
    """Options of the algorithms with a deterministic policy, which explore by Gaussian noise."""

    stochastic: ClassVar[bool] = False
    #: Standard deviation, for actions in [-1, 1].
    exploration_noise: NonNegative = 0.1
