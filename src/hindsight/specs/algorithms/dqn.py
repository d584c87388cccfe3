from typing import ClassVar, Literal

from hindsight.specs.base import Actions, Fraction, Positive, Share, Steps, Widths
from hindsight.specs.off_policy import OffPolicySpec


class DQNSpec(OffPolicySpec):
    """Deep Q-learning (Mnih et al. 2015), by default double (van Hasselt et al. 2016).

    Defaults are those of cpprb's example on bit flipping.  The target network moves by `tau`
    towards the online network every `target_update_interval` updates.
    """

    module: ClassVar[str] = "hindsight.algorithms.dqn"
    compiled_module: ClassVar[str] = "hindsight.algorithms.dqn_compiled"
    actions: ClassVar[Actions] = "discrete"
    passes: ClassVar[float] = 0.5

    name: Literal["dqn"] = "dqn"
    hidden: Widths = (64,)
    learning_rate: Positive = 1e-3
    epsilon: Fraction = 0.1
    """Share of training actions that are random. Usual: 0.05 to 0.3."""
    double: bool = True
    """Let the online network choose the action that the target network values (double
    Q-learning)."""
    target_update_interval: Steps = 1000
    """Updates between those of the target network. Usual: 1 with a tau of 0.005, or 500 to 10,000
    with a tau of 1."""
    tau: Share = 1.0
    """Share by which the target network then moves towards the online one. Usual: 1, or 0.005."""
