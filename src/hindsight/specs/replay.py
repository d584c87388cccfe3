"""Specification of an off-policy algorithm's replay."""

from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from pydantic import model_validator

from hindsight.specs.base import Count, Fidelity, Fraction, Spec

# Which achieved goals may replace the desired one (Andrychowicz et al. 2017, section 4.5).
# Fingerprints skip such blocks: a cell depends only on its own strategy.
if TYPE_CHECKING or not TYPE_CHECKING:  # noqa: SIM221
    EpisodeStrategy = Literal["final", "future", "episode"]  # of the transition's own episode
    GoalStrategy = Literal[EpisodeStrategy, "random"]  # or of any episode in the buffer
GOAL_STRATEGIES: tuple[GoalStrategy, ...] = get_args(GoalStrategy)
#: Options that have an effect without hindsight, too.
WITHOUT_HINDSIGHT = ("prioritized", "alpha", "beta", "time_limit_terminates")


class ReplaySpec(Spec):
    """HER (Andrychowicz et al. 2017) and prioritised sampling (Schaul et al. 2016)."""

    aliases: ClassVar[dict[str, str]] = {"n_sampled_goal": "k"}

    strategy: GoalStrategy | None = None
    """Which achieved goals replace the desired one: the episode's last (final), one achieved later
    in it (future), any of it (episode), or any in the buffer (random); null (`--her none`): no
    hindsight."""
    k: Count = 4
    """Additional goals per transition: it is relabelled with probability k / (k + 1). Usual: 1 to
    8."""
    fidelity: Fidelity = "released"
    """released: a relabelled transition keeps its termination, as in Stable-Baselines3; described:
    it is recomputed for the new goal."""
    time_limit_terminates: bool = False
    """Treat truncated episodes as terminated, as in the notebook that DDPG is taken from."""
    prioritized: bool = False
    """Sample transitions in proportion to their TD errors (Schaul et al. 2016)."""
    alpha: Fraction = 0.6
    """Exponent of the priorities; 0 is uniform. Usual: 0.4 to 0.7."""
    beta: Fraction = 0.4
    """Exponent of the importance weights, which rises to 1 over the budget. Usual: 0.4 to 1."""
    until_success: Fraction | None = None
    """Stop hindsight once the success rate of the last 100 episodes is at least this (the
    authors' SAC stops it "at return 0"; PPO's rate must exceed its threshold); null: never."""

    @model_validator(mode="after")
    def _unused_keys_have_one_value(self) -> "ReplaySpec":
        if self.strategy is None:
            self._reset("k", "fidelity", "until_success")
        if not self.prioritized:
            self._reset("alpha", "beta")
        if self.alpha == 0:  # all weights are 1
            self._reset("beta")
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
