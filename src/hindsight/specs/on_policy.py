from typing import ClassVar, Literal

from pydantic import model_validator

from hindsight.specs.base import AlgorithmSpec, Count, Fraction, NonNegative, Positive, TwoOrMore

Exploration = Literal["gaussian", "squashed", "annealed"]


class OnPolicySpec(AlgorithmSpec):
    """Options of all on-policy algorithms: actor and critic, rollouts, advantages, minibatches."""

    loop: ClassVar[str] = "hindsight.training.on_policy:OnPolicyRuns"
    on_policy: ClassVar[bool] = True

    n_steps: TwoOrMore = 2048
    batch_size: TwoOrMore = 64
    n_epochs: Count = 10
    gae_lambda: Fraction = 0.95
    ent_coef: NonNegative = 0.0
    vf_coef: NonNegative = 0.5
    max_grad_norm: Positive = 0.5
    sigma_init: Positive = 1.0
    #: linear: falls to 0 over the budget.
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    #: gaussian: clipped to the action box; squashed: tanh of a Gaussian; annealed: a Gaussian whose
    #: sigma is not learned but falls from sigma_init to sigma_final over the budget.
    exploration: Exploration = "gaussian"
    sigma_final: Positive = 0.05
    #: Add to each reward the decrease in distance between achieved and desired goal.
    dense_reward: bool = False

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
    def _sigma_final_where_it_is_used(self) -> "OnPolicySpec":
        if self.exploration != "annealed":
            self._reset("sigma_final")
        return self
