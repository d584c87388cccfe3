from typing import ClassVar, Literal

from pydantic import model_validator

from hindsight.specs.base import AlgorithmSpec, Count, Fraction, NonNegative, Positive, TwoOrMore

Exploration = Literal["gaussian", "squashed", "annealed"]


class OnPolicySpec(AlgorithmSpec):
    """Options of all on-policy algorithms: actor and critic, rollouts, advantages, minibatches."""

    loop: ClassVar[str] = "hindsight.training.on_policy:OnPolicyRuns"
    on_policy: ClassVar[bool] = True

    n_steps: TwoOrMore = 2048
    """Steps of each environment in a rollout. Usual: 256 to 4096; longer estimates advantages
    better, shorter updates more often."""
    batch_size: TwoOrMore = 64
    n_epochs: Count = 10
    """Passes over a rollout. Usual: 3 to 20."""
    gae_lambda: Fraction = 0.95
    """Lambda of generalised advantage estimation: 0 trusts values, 1 returns. Usual: 0.9 to
    0.98."""
    ent_coef: NonNegative = 0.0
    """Weight of the policy's entropy in the loss. Usual: 0 to 0.01."""
    vf_coef: NonNegative = 0.5
    """Weight of the value loss. Usual: 0.5 to 1."""
    max_grad_norm: Positive = 0.5
    """Largest norm of a gradient, which is scaled down to it. Usual: 0.5."""
    sigma_init: Positive = 1.0
    """Initial standard deviation of actions, which lie in [-1, 1]. Usual: 0.3 to 1."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """linear: the learning rate falls to 0 over the budget."""
    exploration: Exploration = "gaussian"
    """gaussian: clipped to the action box; squashed: tanh of a Gaussian; annealed: a Gaussian whose
    sigma is not learned but falls from sigma_init to sigma_final over the budget."""
    sigma_final: Positive = 0.05
    """Standard deviation at the end, if annealed. Usual: 0.02 to 0.2."""
    dense_reward: bool = False
    """Add to each reward the decrease in distance between achieved and desired goal."""

    @property
    def iteration_steps(self) -> int:
        return self.n_steps * self.n_envs

    @property
    def initialisation(self) -> tuple[float, ...]:
        return (self.sigma_init,)

    @property
    def words(self) -> str:
        how = self.name + (f"-{self.exploration}" if self.exploration != "gaussian" else "")
        how += "-decay" if self.learning_rate_schedule == "linear" else ""
        how += f"-entropy{self.ent_coef:g}" if self.ent_coef else ""
        how += "-dense" if self.dense_reward else ""
        how += f"-sigma{self.sigma_init:g}" if self.sigma_init != 1 else ""
        return how + (f"-wd{self.weight_decay:g}" if self.weight_decay else "")

    @model_validator(mode="after")
    def _only_the_schedule_moves_an_annealed_sigma(self) -> "OnPolicySpec":
        self._reset("ent_coef" if self.exploration == "annealed" else "sigma_final")
        return self
