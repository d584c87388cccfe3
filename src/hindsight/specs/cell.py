"""A cell: all seeds of one algorithm variant in one condition; the unit of a job and of a file.

A specification says everything that decides a cell's numbers and nothing else (not the device, not
how many runs share an axis).  Its hash names the cell's file, so the same specification is trained
once, whichever experiment asks for it.
"""

import hashlib
import json
import re
from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from hindsight.specs.base import Count, Fidelity, Fraction, NonNegative, Positive, Spec
from hindsight.specs.gymnasium import OURS, GymnasiumSpec
from hindsight.specs.off_policy import ContinuousSpec, DDPGSpec, DQNSpec, SACSpec, TD3Spec
from hindsight.specs.replay import ReplaySpec
from hindsight.specs.tasks import BitFlippingSpec, PointReachSpec

Prey = Literal["static", "random", "attract", "repel", "straight_away", "random_direction"]
Spawn = Literal["random", "apart"]
Strategy = Literal["final", "future", "episode"]
Failures = Literal["untargeted", "targeted"]
Exploration = Literal["gaussian", "squashed", "annealed"]
Schedule = Literal["constant", "linear"]

PREYS: tuple[Prey, ...] = get_args(Prey)
SPAWNS: tuple[Spawn, ...] = get_args(Spawn)
#: Of hindsight, what the authors' code has not.
DESCRIBED_ONLY = ("after_contact", "moved_goals", "inside", "cut_at_success")


class PredatorPreySpec(Spec):
    """The environment of both papers (PPO-HER section 4; released code for what it leaves open)."""

    id: Literal["PredatorPrey-v0"] = "PredatorPrey-v0"
    n_dims: Annotated[int, Field(ge=2)] = 3
    grid_size: Positive = 10.0
    interception_distance: Positive = 1.0
    max_steps: Count = 20
    prey: Prey = "static"
    spawn: Spawn = "random"
    fidelity: Fidelity = "released"
    #: The achieved goal is not the predator but an object, which moves only while it is touched.
    pushes_object: bool = False

    @model_validator(mode="after")
    def _spawn_is_possible(self) -> "PredatorPreySpec":
        # Spawning draws positions until predator and prey are apart; half the box keeps that quick.
        if self.interception_distance >= self.grid_size / 2:
            raise ValueError(
                f"interception_distance {self.interception_distance:g} must be below half of "
                f"grid_size {self.grid_size:g}: otherwise an episode can begin solved"
            )
        return self

    @property
    def step_limit(self) -> int:
        """Steps of the longest episode: it fails once more than `max_steps` have passed."""
        return self.max_steps + 1

    @property
    def observation_size(self) -> int:
        """Numbers a policy sees."""
        return (4 if self.pushes_object else 3) * self.n_dims

    @model_validator(mode="after")
    def _fidelity_where_it_matters(self) -> "PredatorPreySpec":
        # Only attract and repel use the orthogonal vector in which the fidelities differ; for the
        # others one name for one environment lets both fidelities share their trained cells.
        if self.prey not in ("attract", "repel") and self.fidelity != "released":
            object.__setattr__(self, "fidelity", "released")
        return self


class PPOSpec(Spec):
    """Proximal policy optimisation (Schulman et al. 2017) as Stable-Baselines3 defines it."""

    name: Literal["ppo"] = "ppo"
    hidden: tuple[Count, ...] = (64, 64)
    learning_rate: Positive = 3e-4
    n_steps: Annotated[int, Field(ge=2)] = 2048
    n_envs: Count = 1
    batch_size: Annotated[int, Field(ge=2)] = 64
    n_epochs: Count = 10
    gamma: Fraction = 0.99
    gae_lambda: Fraction = 0.95
    clip_range: Positive = 0.2
    clip_range_vf: Positive | None = 0.2
    ent_coef: NonNegative = 0.0
    vf_coef: NonNegative = 0.5
    max_grad_norm: Positive = 0.5
    target_kl: Positive | None = 0.05
    sigma_init: Positive = 1.0
    #: Of all parameters, added to the gradient (as Stable-Baselines3 hands it to Adam).
    weight_decay: NonNegative = 0.0
    #: Falls to 0 over the budget if linear.
    learning_rate_schedule: Schedule = "constant"
    #: Gaussian: clipped at the action box; squashed: tanh of a Gaussian; annealed: a Gaussian whose
    #: sigma is not learned but falls from sigma_init to sigma_final over the budget.
    exploration: Exploration = "gaussian"
    sigma_final: Positive = 0.05

    @property
    def has_sigma_options(self) -> bool:
        """Whether it says anything of a Gaussian policy that is not the default."""
        return self.exploration != "gaussian" or self.sigma_init != 1

    @model_validator(mode="after")
    def _sigma_final_where_it_is_used(self) -> "PPOSpec":
        if self.exploration != "annealed":
            object.__setattr__(self, "sigma_final", 0.05)
        return self


class HindsightSpec(Spec):
    """Hindsight relabelling (Andrychowicz et al. 2017) of rollouts (PPO-HER section 3, MEHER)."""

    strategy: Strategy = "final"
    k: Count = 1
    fidelity: Fidelity = "released"
    #: Only segments in which the achieved goal moves are copied (PPO-HER: trajectory filter), ...
    only_if_moved: bool = False
    #: ... only their steps from the first that moves it, ...
    after_contact: bool = False
    #: ... only towards goals that are not where it began.
    moved_goals: bool = False
    #: ... only towards goals with no coordinate beyond this share of the box's half-width.
    inside: Annotated[float, Field(gt=0, lt=1)] | None = None
    #: A described copy ends at its first success, also where the task's own episodes go on.
    cut_at_success: bool = False
    #: Share of successes among the episodes that are learned from (MEHER); None: whatever comes.
    s_ratio: Fraction | None = None
    #: Goals of failure copies: anywhere in the box, or near the final position ...
    failures: Failures = "untargeted"
    #: ... at this distance, in interception distances.
    failure_distance: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 1.1
    #: Hindsight is over once the last hundred episodes succeed more often than this ...
    until_success: Fraction | None = None
    #: ... or after so many steps,
    until_steps: Count | None = None
    #: and what follows it.
    then: Literal["ppo", "meher"] = "ppo"

    @model_validator(mode="after")
    def _final_has_one_goal(self) -> "HindsightSpec":
        # k copies towards one and the same goal would be the same copy k times.
        if self.strategy == "final" and self.k != 1:
            object.__setattr__(self, "k", 1)
        return self

    @model_validator(mode="after")
    def _described_future_is_episode(self) -> "HindsightSpec":
        # A described copy strives for one goal of its episode and ends at its first success: the
        # part of the episode before that goal, whichever of the two names it was asked for by.
        if self.strategy == "future" and self.fidelity == "described":
            object.__setattr__(self, "strategy", "episode")
        return self

    @model_validator(mode="after")
    def _s_ratio_is_of_final(self) -> "HindsightSpec":
        chooses = [name for name in ("only_if_moved", *DESCRIBED_ONLY) if getattr(self, name)]
        if self.s_ratio is not None and (self.strategy != "final" or chooses):
            without = ", ".join(chooses) or "only_if_moved"
            raise ValueError(
                f"an s_ratio needs the strategy 'final' without {without}: it chooses among "
                "copies for the final achieved goal and copies that fail"
            )
        return self

    @model_validator(mode="after")
    def _described_only(self) -> "HindsightSpec":
        # What the authors' code has not, `released` has not: one name for one training.
        if self.fidelity == "released":
            for name in DESCRIBED_ONLY:
                object.__setattr__(self, name, type(self).model_fields[name].default)
        return self

    @model_validator(mode="after")
    def _switches_once(self) -> "HindsightSpec":
        if self.until_success is not None and self.until_steps is not None:
            raise ValueError("until_success and until_steps exclude each other")
        if self.until_success == 1.0:  # which no success rate exceeds
            object.__setattr__(self, "until_success", None)
        switches = self.until_success is not None or self.until_steps is not None
        if self.then == "meher" and (self.s_ratio is None or not switches):
            raise ValueError("then 'meher' needs an s_ratio and one of until_success, until_steps")
        return self

    @model_validator(mode="after")
    def _failures_where_they_are_made(self) -> "HindsightSpec":
        # The authors' "targeted" experiment runs their untargeted code (PAPERS: section 2): one
        # name for one training.
        if self.s_ratio is None or self.fidelity == "released":
            object.__setattr__(self, "failures", "untargeted")
        if self.failures == "untargeted":
            object.__setattr__(self, "failure_distance", 1.1)
        return self


class EvaluationSpec(Spec):
    """Fixed episodes with the mean action, at `points` equally spaced steps of the budget."""

    points: Count = 20
    episodes: Count = 100


EnvironmentSpec = PredatorPreySpec | PointReachSpec | BitFlippingSpec | GymnasiumSpec
AlgorithmSpec = PPOSpec | SACSpec | TD3Spec | DDPGSpec | DQNSpec


def _kind_of_environment(values: Any) -> str:
    """Which kind an environment is, by its id; gymnasium's where the id is none of ours."""
    name = values.get("id") if isinstance(values, dict) else getattr(values, "id", None)
    return name if name in OURS else GymnasiumSpec.__name__


def has_choices(environment: EnvironmentSpec) -> bool:
    """Whether an action is one of several choices, rather than numbers."""
    if isinstance(environment, GymnasiumSpec):
        return environment.n_choices is not None
    return isinstance(environment, BitFlippingSpec) and not environment.continuous


class CellSpec(Spec):
    """Everything that decides the numbers of one cell."""

    environment: Annotated[
        Annotated[PredatorPreySpec, Tag("PredatorPrey-v0")]
        | Annotated[PointReachSpec, Tag("PointReach-v0")]
        | Annotated[BitFlippingSpec, Tag("BitFlipping-v0")]
        | Annotated[GymnasiumSpec, Tag("GymnasiumSpec")],
        Discriminator(_kind_of_environment),
    ] = PredatorPreySpec()
    algorithm: Annotated[AlgorithmSpec, Field(discriminator="name")] = PPOSpec()
    hindsight: HindsightSpec | None = None
    #: Of an off-policy algorithm, in place of `hindsight`.
    replay: ReplaySpec | None = None
    seeds: Count = 16
    steps: Count = 1_000_000
    early_end: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = 1.3
    evaluation: EvaluationSpec = EvaluationSpec()

    @model_validator(mode="before")
    @classmethod
    def _kinds_have_defaults(cls, values: Any) -> Any:
        """Without an id an environment is predator-prey, without a name an algorithm is PPO."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for key, tag, kind in (
            ("environment", "id", "PredatorPrey-v0"),
            ("algorithm", "name", "ppo"),
        ):
            if isinstance(values.get(key), dict):
                values[key] = {tag: kind, **values[key]}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> "CellSpec":
        on_policy = isinstance(self.algorithm, PPOSpec)
        if on_policy and self.replay is not None:
            raise ValueError("replay is of off-policy algorithms; for ppo there is hindsight")
        if not on_policy and self.hindsight is not None:
            raise ValueError(f"hindsight is of ppo; for {self.algorithm.name} there is replay")
        choices = has_choices(self.environment)
        if choices and isinstance(self.algorithm, PPOSpec) and self.algorithm.has_sigma_options:
            raise ValueError(
                "exploration and sigma_init are of continuous actions: leave them at gaussian and 1"
            )
        bits, her = isinstance(self.environment, BitFlippingSpec), self.hindsight
        if bits and her is not None and her.failures == "targeted":
            raise ValueError(
                "targeted failures lie some distance from an episode's end in any direction, which "
                "goals of bits do not: set failures untargeted"
            )
        if choices and isinstance(self.algorithm, SACSpec | TD3Spec | DDPGSpec):
            hint = ": set continuous" if isinstance(self.environment, BitFlippingSpec) else ""
            raise ValueError(f"{self.algorithm.name} wants continuous actions{hint}")
        if not choices and isinstance(self.algorithm, DQNSpec):
            raise ValueError("dqn wants discrete actions, as those of BitFlipping-v0")
        if not on_policy and self.replay is None:
            object.__setattr__(self, "replay", ReplaySpec())
        return self

    @model_validator(mode="after")
    def _goals_can_be_drawn(self) -> "CellSpec":
        boxes = isinstance(self.environment, PredatorPreySpec | PointReachSpec)
        if not boxes and self.hindsight is not None and self.hindsight.inside is not None:
            raise ValueError(
                f"inside is a share of a box that goals lie in, which {self.environment.id} has not"
            )
        foreign = isinstance(self.environment, GymnasiumSpec)
        if foreign and self.hindsight is not None and self.hindsight.s_ratio is not None:
            raise ValueError(
                "an s_ratio needs failures, so goals drawn from all goals that there are, which "
                f"{self.environment.id} does not tell"
            )
        return self

    @model_validator(mode="after")
    def _at_least_one_iteration(self) -> "CellSpec":
        if self.steps < self.iteration_steps:
            what = "rollout" if isinstance(self.algorithm, PPOSpec) else "iteration"
            raise ValueError(
                f"steps {self.steps} is below one {what} of {self.iteration_steps} steps"
            )
        return self

    @property
    def iteration_steps(self) -> int:
        """Environment steps of a run between two rows of its curves: one rollout, for PPO."""
        algorithm = self.algorithm
        steps = algorithm.n_steps if isinstance(algorithm, PPOSpec) else algorithm.log_interval
        return steps * algorithm.n_envs

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of the canonical JSON of what differs from the defaults.

        So a new option, at its default, changes no existing cell's name.  A default that changes is
        seen by the fingerprint of the code, which covers this file.
        """
        values = self.model_dump(mode="json", exclude_defaults=True)
        # Which kind it is says more than its values.
        if self.environment.id != "PredatorPrey-v0":
            values.setdefault("environment", {})["id"] = self.environment.id
        if self.algorithm.name != "ppo":
            values.setdefault("algorithm", {})["name"] = self.algorithm.name
        canonical = json.dumps(values, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        """The path of the cell, in words: `<environment>/<algorithm>-<hash>`."""
        env, alg, her = self.environment, self.algorithm, self.hindsight
        where = env.id.removesuffix("-v0")
        if isinstance(env, PredatorPreySpec):
            where = f"{env.spawn}-{env.prey}-n{env.n_dims}-G{env.grid_size:g}"
            where += f"-r{env.interception_distance:g}" + ("-object" if env.pushes_object else "")
        elif isinstance(env, GymnasiumSpec):
            where = re.sub(r"[^\w.-]+", "-", where.rpartition(":")[2])
        elif isinstance(env, BitFlippingSpec):
            where += f"-{env.n_bits}" + ("-continuous" if env.continuous else "")
        how: str = alg.name
        if isinstance(alg, PPOSpec):
            how += f"-{alg.exploration}" if alg.exploration != "gaussian" else ""
            how += "-decay" if alg.learning_rate_schedule == "linear" else ""
            how += f"-entropy{alg.ent_coef:g}" if alg.ent_coef else ""
            how += f"-sigma{alg.sigma_init:g}" if alg.sigma_init != 1 else ""
            how += f"-wd{alg.weight_decay:g}" if alg.weight_decay else ""
        if (replay := self.replay) is not None:
            if isinstance(alg, ContinuousSpec):
                how += f"-epsilon{alg.epsilon:g}" if alg.epsilon else ""
                how += "-normalized" if alg.normalize_observations else ""
            if replay.strategy is not None:
                how += f"-her-{replay.strategy}-k{replay.k}-{replay.fidelity}"
            how += "-prioritized" if replay.prioritized else ""
            how += "-limit-ends" if replay.time_limit_terminates else ""
            how += f"-until{replay.until_success:g}" if replay.until_success is not None else ""
        if her is not None:
            how += f"-her-{her.strategy}" + (f"-k{her.k}" if her.strategy != "final" else "")
            how += f"-{her.fidelity}" + ("-moved" if her.only_if_moved else "")
            how += "-contact" if her.after_contact else ""
            how += "-goals" if her.moved_goals else ""
            how += f"-inside{her.inside:g}" if her.inside is not None else ""
            how += "-cut" if her.cut_at_success else ""
            how += f"-S{her.s_ratio:g}" if her.s_ratio is not None else ""
            how += f"-targeted{her.failure_distance:g}" if her.failures == "targeted" else ""
            how += f"-until{her.until_success:g}" if her.until_success is not None else ""
            how += f"-until{her.until_steps}steps" if her.until_steps is not None else ""
            how += "-then-meher" if her.then == "meher" else ""
        network = "x".join(map(str, alg.hidden))
        how += f"-lr{alg.learning_rate:g}-{network}-{self.seeds}seeds-{self.steps}steps"
        return f"{where}/{how}-{self.hash}"
