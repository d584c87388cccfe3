"""Off-policy algorithms: their specifications."""

from typing import Annotated, Literal

from pydantic import Field

from hindsight.specs.base import Count, Fraction, Positive, Spec


class DQNSpec(Spec):
    """Deep Q-learning (Mnih et al. 2015), by default double (van Hasselt et al. 2016).

    Defaults are those of the agent that cpprb shows on bit flipping.  The target network moves by
    `tau` towards the online one after every `target_update_interval` updates: a copy from time to
    time (tau 1), or a moving average (interval 1).
    """

    name: Literal["dqn"] = "dqn"
    hidden: tuple[Count, ...] = (64,)
    learning_rate: Positive = 1e-3
    gamma: Fraction = 0.99
    batch_size: Count = 64
    buffer_size: Count = 1_000_000
    learning_starts: Count = 100
    epsilon: Fraction = 0.1
    double: bool = True
    target_update_interval: Count = 1000
    tau: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_grad_norm: Positive | None = None
