"""Hindsight relabelling of rollouts: its specification."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hindsight.specs.base import NUMBER, Count, Fidelity, Fraction, Spec
from hindsight.specs.replay import EpisodeStrategy

Failures = Literal["untargeted", "targeted"]
#: Of hindsight, what the authors' code has not.
DESCRIBED_ONLY = ("after_contact", "moved_goals", "inside", "cut_at_success")
#: What learning from copies alone (`clone`) leaves without effect.
CLONES_WITHOUT = ("copies", "weight", "only_if_moved", "s_ratio", "until_success", "until_steps")


class HindsightSpec(Spec):
    """Hindsight relabelling (Andrychowicz et al. 2017) of rollouts (PPO-HER section 3, MEHER)."""

    strategy: EpisodeStrategy = "final"
    k: Count = 1
    #: Which episodes are copied: all, or those that failed, where there is something to add.
    copies: Literal["all", "failed"] = "all"
    #: What a copy's advantages are multiplied by: 1, or the importance ratio of its actions,
    #: pi(a | s, g') / pi(a | s, g), truncated at 1 (Espeholt et al. 2018, rho-bar = 1).
    weight: Literal["none", "truncated"] = "none"
    #: Only the copies are learned from, by making their actions more likely, as goal-conditioned
    #: supervised learning does (GCSL, Ghosh et al. 2021); there is neither reward nor value.
    clone: bool = False
    fidelity: Fidelity = "released"
    #: Only segments in which the achieved goal moves are copied (PPO-HER: trajectory filter), ...
    only_if_moved: bool = False
    #: ... only their steps from the first that moves it, ...
    after_contact: bool = False
    #: ... only towards goals that are not where it began.
    moved_goals: bool = False
    #: ... only towards goals with no coordinate beyond this share of the box's half-width.
    inside: Annotated[float, Field(gt=0, lt=1), NUMBER] | None = None
    #: A described copy ends at its first success, also where the task's own episodes go on.
    cut_at_success: bool = False
    #: Share of successes among the episodes that are learned from (MEHER); None: whatever comes.
    s_ratio: Fraction | None = None
    #: Goals of failure copies: anywhere in the box, or near the final position ...
    failures: Failures = "untargeted"
    #: ... at this distance, in interception distances.
    failure_distance: Annotated[float, Field(gt=1, allow_inf_nan=False), NUMBER] = 1.1
    #: Hindsight is over once the last hundred episodes succeed more often than this ...
    until_success: Fraction | None = None
    #: ... or after so many steps,
    until_steps: Count | None = None
    #: and what follows it.
    then: Literal["ppo", "meher"] = "ppo"

    @model_validator(mode="after")
    def _has_one_name(self) -> "HindsightSpec":
        """What has no effect has its default: one name for one training.  ValueError for what
        cannot be.
        """
        # k copies towards one and the same goal would be the same copy k times.
        if self.strategy == "final":
            self._reset("k")
        # A described copy strives for one goal of its episode and ends at its first success: the
        # part of the episode before that goal, whichever of the two names it was asked for by.
        if self.strategy == "future" and self.fidelity == "described":
            object.__setattr__(self, "strategy", "episode")
        chooses = [name for name in ("only_if_moved", *DESCRIBED_ONLY) if getattr(self, name)]
        chooses += ["copies 'failed'"] if self.copies == "failed" else []
        if self.s_ratio is not None and (self.strategy != "final" or chooses):
            without = ", ".join(chooses) or "only_if_moved"
            raise ValueError(
                f"an s_ratio needs the strategy 'final' without {without}: it chooses among "
                "copies for the final achieved goal and copies that fail"
            )
        if self.clone:
            for name in CLONES_WITHOUT:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"clone learns from every copy alike, so without {name}")
        # What the authors' code has not, `released` has not.
        if self.fidelity == "released":
            self._reset(*DESCRIBED_ONLY)
        if self.until_success is not None and self.until_steps is not None:
            raise ValueError("until_success and until_steps exclude each other")
        if self.until_success == 1.0:  # which no success rate exceeds
            self._reset("until_success")
        switches = self.until_success is not None or self.until_steps is not None
        if self.then == "meher" and (self.s_ratio is None or not switches):
            raise ValueError("then 'meher' needs an s_ratio and one of until_success, until_steps")
        # The authors' "targeted" experiment runs their untargeted code (PAPERS: section 2).
        if self.s_ratio is None or self.fidelity == "released":
            self._reset("failures")
        if self.failures == "untargeted":
            self._reset("failure_distance")
        return self

    @property
    def words(self) -> str:
        """It, in the path of a cell."""
        how = f"her-{self.strategy}" + (f"-k{self.k}" if self.strategy != "final" else "")
        how += f"-{self.fidelity}" + ("-moved" if self.only_if_moved else "")
        how += "-failed" if self.copies == "failed" else ""
        how += "-cloned" if self.clone else ""
        how += "-weighted" if self.weight == "truncated" else ""
        how += "-contact" if self.after_contact else ""
        how += "-goals" if self.moved_goals else ""
        how += f"-inside{self.inside:g}" if self.inside is not None else ""
        how += "-cut" if self.cut_at_success else ""
        how += f"-S{self.s_ratio:g}" if self.s_ratio is not None else ""
        how += f"-targeted{self.failure_distance:g}" if self.failures == "targeted" else ""
        how += f"-until{self.until_success:g}" if self.until_success is not None else ""
        how += f"-until{self.until_steps}steps" if self.until_steps is not None else ""
        return how + ("-then-meher" if self.then == "meher" else "")
