"""Specification of hindsight relabelling for on-policy algorithms."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from hindsight.specs.base import MOST, NUMBER, Count, Fidelity, Fraction, Spec, Steps
from hindsight.specs.replay import EpisodeStrategy

#: Options that the authors' code lacks.
DESCRIBED_ONLY = ("after_contact", "moved_goals", "inside", "cut_at_success")
#: Options that choose what is copied, and with which goals.
CHOOSES = ("only_if_moved", "after_contact", "moved_goals", "inside")
#: Options that cannot be combined with `clone`.
CLONES_WITHOUT = (
    "copies", "copied_steps", "weight", "only_if_moved", "s_ratio", "until_success", "until_steps",
)  # fmt: skip


class HindsightSpec(Spec):
    """Hindsight relabelling (Andrychowicz et al. 2017) of rollouts (PPO-HER section 3, MEHER)."""

    aliases: ClassVar[dict[str, str]] = {"n_sampled_goal": "k"}

    strategy: EpisodeStrategy = "final"
    """Which achieved goals replace the desired one: the episode's last (final), one achieved later
    in it (future), or any of it (episode)."""
    k: Count = 1
    """Copies of each episode, each with another goal. Usual: 1 to 4."""
    copies: Literal["all", "failed"] = "all"
    """Episodes that are copied: all, or only those that failed."""
    copied_steps: Literal["all", "better"] = "all"
    """Steps of copies to learn from: all, or those whose return exceeds their value (better;
    episodic self-imitation, Dai et al. 2020)."""
    weight: Literal["none", "truncated", "per_decision"] = "none"
    """Weight of a copy's advantages: 1 (none), the importance ratio of its actions,
    pi(a | s, g') / pi(a | s, g), truncated at 1 (Espeholt et al. 2018, rho-bar = 1), or the product
    of these ratios so far, self-normalised (per_decision; hindsight policy gradients, Rauber et al.
    2019)."""
    clone: bool = False
    """Learn from the copies alone, by maximising the likelihood of their actions, without rewards
    or values (goal-conditioned supervised learning, GCSL; Ghosh et al. 2019)."""
    fidelity: Fidelity = "released"
    """released: relabel as the authors' code does; described: as the papers say."""
    only_if_moved: bool = False
    """Copy only segments in which the achieved goal moves (PPO-HER: trajectory filter)."""
    after_contact: bool = False
    """Copy only the steps from the first one that moves the achieved goal."""
    moved_goals: bool = False
    """Relabel only with goals away from where the achieved goal began."""
    inside: Annotated[float, Field(gt=0, lt=1), NUMBER] | None = None
    """Relabel only with goals whose coordinates are within this share of the box's half-width;
    null: with any."""
    cut_at_success: bool = False
    """End a described copy at its first success, even if the task's own episodes continue."""
    s_ratio: Fraction | None = None
    """Share of successes among the episodes to learn from (MEHER); null: not controlled. Usual:
    0.3 to 0.7."""
    failures: Literal["untargeted", "targeted"] = "untargeted"
    """Goals of failure copies: any of the goal space (in other packages' environments, of the
    rollout's episodes), or near the final position (targeted)."""
    failure_distance: Annotated[float, Field(gt=1, le=MOST), NUMBER] = 1.1
    """Distance of targeted failures, in interception distances."""
    until_success: Fraction | None = None
    """Stop hindsight once the success rate of the last 100 episodes (released: or fewer) exceeds
    this; null: never. Usual: null, or 0.5."""
    until_steps: Steps | None = None
    """Stop hindsight after this many steps; null: never."""
    then: Literal["ppo", "meher"] = "ppo"
    """How to continue then: ppo, without copies; meher: from then on, and only then, copies keep
    the share `s_ratio`."""

    @model_validator(mode="after")
    def _has_one_name(self) -> "HindsightSpec":
        """Reset options without effect, so that equal trainings share a name; reject conflicts."""
        # k copies with the same final goal would be identical.
        if self.strategy == "final":
            self._reset("k")
        # A described copy has one goal, drawn at its first step, from where every step lies ahead:
        # both strategies are the same.
        if self.strategy == "future" and self.fidelity == "described":
            object.__setattr__(self, "strategy", "episode")
        chooses = [name for name in CHOOSES if getattr(self, name)]
        chooses += ["copies 'failed'"] if self.copies == "failed" else []
        if self.s_ratio is not None and (self.strategy != "final" or chooses):
            without = ", ".join(chooses) or "only_if_moved"
            raise ValueError(
                f"an s_ratio needs the strategy 'final' without {without}: it chooses between "
                "copies that reach the final achieved goal and copies that fail"
            )
        if self.clone:
            for name in CLONES_WITHOUT:
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(
                        f"clone cannot be combined with {name}: leave {name} at its default"
                    )
        if self.fidelity == "released":
            self._reset(*DESCRIBED_ONLY)
        if self.until_success is not None and self.until_steps is not None:
            raise ValueError("until_success and until_steps exclude each other")
        if self.until_success == 1.0:  # no success rate exceeds 1
            if self.then == "meher":
                raise ValueError(
                    "then 'meher' would never begin, because no success rate exceeds an "
                    "until_success of 1: set a lower one"
                )
            self._reset("until_success")
        switches = self.until_success is not None or self.until_steps is not None
        if self.then == "meher" and (self.s_ratio is None or not switches):
            raise ValueError("then 'meher' needs an s_ratio and one of until_success, until_steps")
        # The authors' "targeted" experiment runs their untargeted code (docs/deviations.md, 11).
        if self.s_ratio is None or self.fidelity == "released":
            self._reset("failures")
        if self.failures == "untargeted":
            self._reset("failure_distance")
        return self

    @property
    def words(self) -> str:
        """Hindsight's part of a cell's path."""
        how = f"her-{self.strategy}" + (f"-k{self.k}" if self.strategy != "final" else "")
        how += f"-{self.fidelity}" + ("-moved" if self.only_if_moved else "")
        how += "-failed" if self.copies == "failed" else ""
        how += "-cloned" if self.clone else ""
        how += "-better" if self.copied_steps == "better" else ""
        how += {"none": "", "truncated": "-weighted"}.get(self.weight, "-per-decision")
        how += "-contact" if self.after_contact else ""
        how += "-goals" if self.moved_goals else ""
        how += f"-inside{self.inside:g}" if self.inside is not None else ""
        how += "-cut" if self.cut_at_success else ""
        how += f"-S{self.s_ratio:g}" if self.s_ratio is not None else ""
        how += f"-targeted{self.failure_distance:g}" if self.failures == "targeted" else ""
        how += f"-until{self.until_success:g}" if self.until_success is not None else ""
        how += f"-until{self.until_steps}steps" if self.until_steps is not None else ""
        return how + ("-then-meher" if self.then == "meher" else "")
