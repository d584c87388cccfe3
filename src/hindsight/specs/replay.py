"""Specification of an off-policy algorithm's replay."""

from typing import Literal, get_args

from pydantic import model_validator

from hindsight.specs.base import Count, Fidelity, Fraction, Spec

#: Which achieved goals may replace the desired one (Andrychowicz et al. 2017, section 4.5).
EpisodeStrategy = Literal["final", "future", "episode"]  # of the transition's own episode
GoalStrategy = Literal[EpisodeStrategy, "random"]  # or of any episode in the buffer
GOAL_STRATEGIES: tuple[GoalStrategy, ...] = get_args(GoalStrategy)
#: Options that have an effect without hindsight, too.
WITHOUT_HINDSIGHT = ("prioritized", "alpha", "beta", "time_limit_terminates")


class ReplaySpec(Spec):
    """HER (Andrychowicz et al. 2017) and prioritised sampling (Schaul et al. 2016)."""

    #: Which achieved goals replace the desired one; None: no hindsight.
    strategy: GoalStrategy | None = None
    #: A transition is relabelled with probability k / (k + 1).
    k: Count = 4
    #: released: a relabelled transition keeps its termination, as in Stable-Baselines3.
    fidelity: Fidelity = "released"
    #: Treat truncated episodes as terminated, as in the notebook that DDPG is taken from.
    time_limit_terminates: bool = False
    prioritized: bool = False
    #: Exponents of the priorities and of the importance weights; beta rises to 1 over the budget.
    alpha: Fraction = 0.6
    beta: Fraction = 0.4
    #: Stop hindsight once the success rate of the last 100 episodes is at least this (the
    #: authors' SAC stops it "at return 0"; PPO's rate must exceed its threshold).
    until_success: Fraction | None = None

    @model_validator(mode="after")
    def _unused_keys_have_one_value(self) -> "ReplaySpec":
        if self.strategy is None:
            self._reset("k", "fidelity", "until_success")
        if not self.prioritized:
            self._reset("alpha", "beta")
        return self

    @property
    def words(self) -> str:
        """Replay's part of a cell's path; empty for a plain buffer."""
        how = []
        if self.strategy is not None:
            how.append(f"her-{self.strategy}-k{self.k}-{self.fidelity}")
        how += ["prioritized"] if self.prioritized else []
        how += ["limit-ends"] if self.time_limit_terminates else []
        how += [f"until{self.until_success:g}"] if self.until_success is not None else []
        return "-".join(how)
