"""Off-policy algorithms: their specifications."""

from typing import Annotated, Literal

from pydantic import Field

from hindsight.specs.base import Count, Fraction, NonNegative, Positive, Spec


class OffPolicySpec(Spec):
    """What all off-policy algorithms share.

    Every `train_freq` steps of each environment, `gradient_steps` updates follow.
    """

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


class ContinuousSpec(OffPolicySpec):
    """What the actor-critic methods for continuous actions share."""

    hidden: tuple[Count, ...] = (64, 64)
    tau: Annotated[float, Field(gt=0, le=1)] = 0.005
    batch_size: Count = 256
    #: Share of actions drawn uniformly while training (Andrychowicz et al. 2017, appendix A).
    epsilon: Fraction = 0.0
    #: Networks see observations less their mean so far, in units of their standard deviation.
    normalize_observations: bool = False


class SACSpec(ContinuousSpec):
    """Soft actor-critic (Haarnoja et al. 2018b); defaults as in PPO-HER (released code).

    The target of the entropy is by default minus the number of action dimensions.
    """

    name: Literal["sac"] = "sac"
    learning_rate: Positive = 3e-4
    gamma: Fraction = 0.95
    tau: Annotated[float, Field(gt=0, le=1)] = 0.05
    target_entropy: float | None = None


class TD3Spec(ContinuousSpec):
    """Twin delayed DDPG (Fujimoto et al. 2018); noises in units of the action box [-1, 1]."""

    name: Literal["td3"] = "td3"
    learning_rate: Positive = 1e-3
    exploration_noise: NonNegative = 0.1
    policy_delay: Count = 2
    target_policy_noise: NonNegative = 0.2
    target_noise_clip: NonNegative = 0.5


class DDPGSpec(ContinuousSpec):
    """Deep deterministic policy gradient (Lillicrap et al. 2016); defaults of the notebook's agent.

    One episode of 50 steps, then 50 updates; the exploration noise is Gaussian.
    """

    name: Literal["ddpg"] = "ddpg"
    hidden: tuple[Count, ...] = (256, 256)
    learning_rate: Positive = 1e-3
    gamma: Fraction = 0.98
    buffer_size: Count = 100_000
    learning_starts: Count = 2000
    train_freq: Count = 50
    gradient_steps: Count = 50
    exploration_noise: NonNegative = 0.2
    max_grad_norm: Positive | None = 1.0


class DQNSpec(OffPolicySpec):
    """Deep Q-learning (Mnih et al. 2015), by default double (van Hasselt et al. 2016).

    Defaults are those of the agent that cpprb shows on bit flipping.  The target network moves by
    `tau` towards the online one after every `target_update_interval` updates: a copy from time to
    time (tau 1), or a moving average (interval 1).
    """

    name: Literal["dqn"] = "dqn"
    hidden: tuple[Count, ...] = (64,)
    learning_rate: Positive = 1e-3
    batch_size: Count = 64
    epsilon: Fraction = 0.1
    double: bool = True
    target_update_interval: Count = 1000
    tau: Annotated[float, Field(gt=0, le=1)] = 1.0
