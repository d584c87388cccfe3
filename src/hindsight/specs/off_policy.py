from typing import ClassVar, Self

from pydantic import model_validator

from hindsight.specs.base import (
    Actions,
    AlgorithmSpec,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Share,
    Steps,
)
from hindsight.specs.errors import not_allowed


class OffPolicySpec(AlgorithmSpec):
    """Options of all off-policy algorithms.

    `gradient_steps` updates follow every `train_freq` steps of each environment.
    """

    loop: ClassVar[str] = "hindsight.training.off_policy:OffPolicyRuns"
    on_policy: ClassVar[bool] = False
    buffer_size: Steps = 1_000_000
    """Transitions that a run's replay buffer holds. Usual: 1e5 to 1e6."""
    learning_starts: Steps = 100
    """Steps of a run before its first update. Usual: 100 to 10,000, and more than an episode."""
    random_warm_up: bool = True
    """Draw actions uniformly until learning starts, instead of from the policy."""
    train_freq: Count = 1
    """Steps of each environment between updates. Usual: 1, or an episode's length."""
    gradient_steps: Count = 1
    """Updates each time. Usual: as many as `train_freq`; more learn more from a step, and may
    overfit to it."""
    max_grad_norm: Positive | None = None
    """Largest norm of a gradient, which is scaled down to it; null: not clipped. Usual: null, or
    0.5 to 10."""
    log_interval: Steps = 1000
    """Steps of a run per row of the curves, rounded up to whole steps of its environments."""

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        if self.buffer_size < 2 * self.n_envs:
            least = f"it must be at least {2 * self.n_envs}, two transitions for each environment"
            raise not_allowed("buffer_size", self.buffer_size, least)
        return self

    @property
    def iteration_steps(self) -> int:
        return -(-self.log_interval // self.n_envs) * self.n_envs

    def rate_of(self, part: str) -> float:
        """Learning rate of a part of `algorithms.learner.Learner.optimised`."""
        return self.learning_rate


class ContinuousSpec(OffPolicySpec):
    """Options of the actor-critic algorithms for continuous actions."""

    actions: ClassVar[Actions] = "continuous"
    aliases: ClassVar[dict[str, str]] = {
        "actor_lr": "actor_learning_rate",
        "critic_lr": "critic_learning_rate",
    }

    actor_learning_rate: Positive | None = None
    """Adam's step size for the policy, and for SAC's temperature, also `actor_lr`; null:
    `learning_rate`."""
    critic_learning_rate: Positive | None = None
    """Adam's step size for the critics, also `critic_lr`; null: `learning_rate`. Usual: that of the
    policy, or up to ten times as much."""
    tau: Share = 0.005
    """Share by which target networks move towards the learned ones at each update. Usual: 0.005 to
    0.05; smaller is steadier and slower."""
    batch_size: Count = 256
    epsilon: Fraction = 0.0
    """Share of training actions that are drawn uniformly (Andrychowicz et al. 2017, appendix A).
    Usual: 0 to 0.3; helps where the goal is rarely met by noise alone."""
    normalize_observations: bool = False
    """Standardise observations by their running mean and standard deviation, which desired and
    achieved goals share, and clip them at five deviations. Helps where numbers differ in scale."""

    @model_validator(mode="after")
    def _one_rate_where_there_are_two(self) -> Self:
        if self.actor_learning_rate is not None and self.critic_learning_rate is not None:
            self._reset("learning_rate")
        return self

    def rate_of(self, part: str) -> float:
        own = {"actor": self.actor_learning_rate, "critics": self.critic_learning_rate}
        return own.get(part) or self.learning_rate

    @property
    def words(self) -> str:
        how = self.name + (f"-epsilon{self.epsilon:g}" if self.epsilon else "")
        return how + ("-normalized" if self.normalize_observations else "")


class DeterministicSpec(ContinuousSpec):
    """Options of the algorithms with a deterministic policy, which explore by Gaussian noise."""

    stochastic: ClassVar[bool] = False
    exploration_noise: NonNegative = 0.1
    """Standard deviation of the noise on training actions, which lie in [-1, 1]. Usual: 0.1 to
    0.3."""
