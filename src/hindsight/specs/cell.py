"""A cell: all seeds of one algorithm variant in one condition; the unit of a job and of a file.

A specification holds everything that decides a cell's numbers and nothing else (not the device, for
example).  Its hash is part of the file name, so experiments that share a cell train it once.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import FIDELITIES, MOST, NUMBER, Count, Few, Fidelity, Spec, Steps
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, guess, validated
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.specs.replay import WITHOUT_HINDSIGHT, ReplaySpec


class EvaluationSpec(Spec):
    """Evaluation on fixed episodes with the mean action, at `points` equally spaced steps."""

    points: Count = 20
    episodes: Count = 100


class EndTestSpec(Spec):
    """End training at the first test in which every episode succeeds, with a mean return of 1.

    Of released SAC: the authors use Stable-Baselines3's `EvalCallback` at its defaults, and stop
    once a test's mean return is 1.
    """

    every: Count = 10_000  # environment steps between two tests
    episodes: Count = 5  # new episodes in each test, with the mean action


#: Options of algorithms that have no effect with `clone`.
CLONES_WITHOUT_REWARDS = ("gamma", "gae_lambda", "clip_range", "clip_range_vf", "vf_coef")
MOST_WEIGHTS = 10**8
#: Characters of each part of a cell's path; a file name has at most 255 bytes, with its suffix.
LONGEST_NAME = 150
#: Defaults for an environment without an id and an algorithm without a name.
DEFAULTS = {"environment": {"id": "PredatorPrey-v0"}, "algorithm": {"name": "ppo"}}
#: Models of each part of a cell by id or name; "" for any other, in the environment gymnasium's.
PARTS: Mapping[str, Mapping[str, type[Spec]]] = {
    "environment": {"": GymnasiumSpec, **ENVIRONMENTS},
    "algorithm": {"": ALGORITHMS["ppo"], **ALGORITHMS},
    "hindsight": {"": HindsightSpec},
    "replay": {"": ReplaySpec},
    "end_test": {"": EndTestSpec},
    "evaluation": {"": EvaluationSpec},
}


def _kind(part: str, values: Any) -> str:
    """Id or name of a part of a cell, given as values or as a model; "" for another environment."""
    ((field, usual),) = DEFAULTS.get(part, {"": ""}).items()
    given = values.get if isinstance(values, Mapping) else partial(getattr, values)
    kind = str(given(field, usual))
    return kind if part == "algorithm" or kind in PARTS[part] else ""


def _union(part: str, *tags: str) -> Any:
    kinds = tuple(Annotated[PARTS[part][tag], Tag(tag)] for tag in tags)
    known = f"choose from {', '.join(tags)}"
    kind_of = Discriminator(
        lambda values: _kind(part, values), custom_error_type="kind", custom_error_message=known
    )
    return Annotated[Union[kinds], kind_of]  # noqa: UP007


if TYPE_CHECKING:
    from hindsight.specs.base import AlgorithmSpec as AnyAlgorithm
    from hindsight.specs.base import EnvironmentSpec as AnyEnvironment
else:
    AnyEnvironment = _union("environment", *PARTS["environment"])
    AnyAlgorithm = _union("algorithm", *ALGORITHMS)


class CellSpec(Spec):
    """Everything that decides the numbers of one cell."""

    environment: AnyEnvironment = ENVIRONMENTS["PredatorPrey-v0"]()
    algorithm: AnyAlgorithm = ALGORITHMS["ppo"]()
    hindsight: HindsightSpec | None = None
    """Of on-policy algorithms; null: no hindsight."""
    replay: ReplaySpec | None = None
    """Off-policy algorithms use this instead of `hindsight`."""
    seeds: Few = 16
    """Number of runs."""
    first_seed: Annotated[int, Field(ge=0, le=10**6), NUMBER] = 0
    """Seed of the first run, so that tuning can use seeds that no result uses."""
    steps: Steps = 1_000_000
    """Environment steps of each run."""
    early_end: Annotated[float, Field(ge=1, le=MOST), NUMBER] | None = 1.3
    """Once its last 100 episodes (released PPO-HER: or fewer) have all succeeded with a return of
    1, a run ends after this multiple of the steps so far; null: never. With rewards of -1 and 0, no
    return is 1."""
    end_test: EndTestSpec | None = None
    evaluation: EvaluationSpec = EvaluationSpec()

    @model_validator(mode="after")
    def _fits_together(self) -> "CellSpec":
        how, where, her, test = self.algorithm, self.environment, self.hindsight, self.end_test
        if self.n_weights > MOST_WEIGHTS:
            raise ValueError(
                f"a network of {self.n_weights:,} weights is larger than {MOST_WEIGHTS:,}"
            )
        if how.on_policy and self.replay:
            raise ValueError(f"replay applies to off-policy algorithms; {how.name} uses hindsight")
        if not how.on_policy and her:
            raise ValueError(f"hindsight applies to on-policy algorithms; {how.name} uses replay")
        discrete = bool(where.choices)
        if how.actions == "discrete" and where.n_choices is None:
            several = f"; for {len(where.choices)} at a time, use ppo" if discrete else ""
            raise ValueError(
                f"{how.name} needs discrete actions, such as those of BitFlipping-v0{several}"
            )
        if how.actions == "continuous" and discrete:
            continuous = ": set continuous" if "continuous" in type(where).model_fields else ""
            raise ValueError(f"{how.name} needs continuous actions{continuous}")
        exploration = getattr(how, "exploration", "gaussian"), getattr(how, "sigma_init", 1)
        if discrete and exploration != ("gaussian", 1):
            raise ValueError(
                "exploration and sigma_init need continuous actions: leave them at their defaults"
            )
        if her and getattr(how, "dense_reward", False):
            raise ValueError("dense_reward is for real steps only: leave hindsight off")
        if her and her.inside is not None and not where.goals_in_box:
            raise ValueError(f"inside needs goals that lie in a box; those of {where.id} do not")
        if her and her.s_ratio is not None and where.foreign and her.fidelity == "released":
            raise ValueError(
                "the authors' code draws failures' goals from all possible goals, which are "
                f"unknown for {where.id}: with an s_ratio, set fidelity described"
            )
        if her and her.failures == "targeted" and not where.goals_in_box:
            raise ValueError(
                "targeted failures need goals at a distance from an episode's end, in any "
                f"direction; {where.id} has none: set failures untargeted"
            )
        n_steps, limit = getattr(how, "n_steps", 0), where.step_limit
        if her and her.fidelity == "described" and n_steps < limit and not where.ends_early:
            raise ValueError(
                f"n_steps {n_steps} is shorter than an episode of {where.id}, and described "
                "hindsight copies only whole episodes within a rollout: set n_steps to "
                f"{limit} or more"
            )
        if "steps" not in self.model_fields_set:  # nobody gave a budget, as of a model
            object.__setattr__(self, "steps", max(self.steps, how.iteration_steps))
        if self.steps < how.iteration_steps:
            raise ValueError(
                f"steps {self.steps} is below one {'rollout' if how.on_policy else 'iteration'} of "
                f"{how.iteration_steps} steps"
            )
        if test and test.every % how.iteration_steps:
            raise ValueError(
                f"end_test: a test every {test.every} steps must fall on the end of an iteration, "
                f"which takes {how.iteration_steps} steps"
            )
        if not how.on_policy and self.replay is None:
            object.__setattr__(self, "replay", ReplaySpec())
        if her and her.clone:
            self._reset_in("algorithm", *CLONES_WITHOUT_REWARDS)
        if self.replay and not where.truncates:
            self._reset_in("replay", "time_limit_terminates")
        return self

    def _reset_in(self, part: str, *names: str) -> None:
        """Reset those of the fields that a part has, and that the others leave without effect."""
        own = getattr(self, part).model_copy()
        own._reset(*(name for name in names if name in type(own).model_fields))
        object.__setattr__(self, part, own)

    @property
    def n_weights(self) -> int:
        """Weights of the policy network, counted with one output and without biases."""
        widths = (self.environment.observation_size, *self.algorithm.hidden, 1)
        return sum(a * b for a, b in pairwise(widths))

    @property
    def run_seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that hash the canonical JSON of all values that are not defaults.

        A new option therefore changes no existing cell's name.  A changed default changes the
        fingerprint of the code, which covers this file.
        """
        return hash_of(self.model_dump(mode="json"))

    @property
    def name(self) -> str:
        """Readable path of the cell, `<environment>/<algorithm>-<hash>`, cut to a valid length."""
        how, her = self.algorithm, self.hindsight or self.replay
        network = "x".join(map(str, how.hidden))
        seeds = f"{self.seeds}seeds" + (f"-from{self.first_seed}" if self.first_seed else "")
        parts = [how.words, her.words if her else "", "end-test" if self.end_test else ""]
        parts += [f"lr{how.learning_rate:g}-{network}-{seeds}-{self.steps}steps"]
        words = "-".join(filter(None, parts))
        return f"{self.environment.words[:LONGEST_NAME]}/{words[:LONGEST_NAME]}-{self.hash}"


def model_of(part: str, values: Mapping[str, Any]) -> type[Spec]:
    """The model of a part of a cell, by the id or name in its values, or else the default one."""
    return PARTS[part].get(_kind(part, values), PARTS[part][""])


def hash_of(values: dict[str, Any]) -> str:
    """Hash a specification given as plain values, without making its environment.

    Raises KeyError, TypeError or AttributeError for values that are not a specification.
    """
    plain = json.loads(json.dumps(values))
    for part in PARTS.keys() & plain.keys():
        if (own := plain[part]) is not None:
            given = {key: tuple(x) if isinstance(x, list) else x for key, x in own.items()}
            plain[part] = model_of(part, own).model_construct(None, **given)
    spec = CellSpec.model_construct(**plain)
    kept = spec.model_dump(mode="json", exclude_defaults=True, warnings=False)
    for part, tag in DEFAULTS.items():  # each kind of part has its own defaults
        if (kind := {key: values[part][key] for key in tag}) != tag:
            kept[part] = kept[part] | kind
    canonical = json.dumps(kept, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


#: The parts whose keys the user gives without naming the part.
SECTIONS = ("environment", "algorithm", "hindsight", "replay")
#: These keys, by part.
KEYS = {s: {key for model in PARTS[s].values() for key in model.model_fields} for s in SECTIONS}
#: Fields that say which environment or algorithm it is: they are no settings of it.
IDENTITIES = {"id", "name"}
#: Other libraries' words for settings, which a message translates.
THEIRS = {"seed": "first_seed", "action_noise": "exploration_noise"}


def cell_values(
    environment: Mapping[str, Any],
    algorithm: str,
    her: str | None,
    fidelity: str,
    usual: Mapping[str, Any],
    keys: Mapping[str, Any],
    location: str = "",
    **more: Any,
) -> dict[str, Any]:
    """Assemble the values for `CellSpec`, with each of the `keys` in its section.

    her: the strategy of hindsight; None: no hindsight.  `fidelity` is that of hindsight, and of the
    environment unless it has its own.  `usual`: keys that were not given by the user.

    Raises SpecError, which begins with `location` or the key, for a key that is unknown, was given
    by two names, or needs hindsight.
    """
    values = {"environment": {**environment}, "algorithm": {"name": algorithm}, **more}
    if "fidelity" in model_of("environment", environment).model_fields:
        values["environment"].setdefault("fidelity", fidelity)
    if her is not None:
        section = "hindsight" if ALGORITHMS[algorithm].on_policy else "replay"
        values[section] = {"strategy": her, "fidelity": fidelity}
    elif not ALGORITHMS[algorithm].on_policy and {*usual, *keys} & {*WITHOUT_HINDSIGHT}:
        values["replay"] = {}
    for key, value in usual.items():
        _put(values, key, value, location)
    given = dict[tuple[str, str], str]()
    for key, value in keys.items():
        other = given.setdefault(_put(values, key, value, location or f"{key}={value}"), key)
        if other != key:
            raise SpecError(f"{location or key}: {other} and {key} are the same: give one")
    return values


def _put(values: dict[str, Any], key: str, value: Any, location: str) -> tuple[str, str]:
    """Set a key in its section of a cell's values; returns the names of the section and the field.

    Raises SpecError if it is unknown.
    """
    if key in ("early_end", "first_seed"):
        values[key] = value
        return "", key
    if key == "fidelity":
        raise SpecError(
            f"{location}: 'fidelity' is given by `fidelities` in an experiment, and as "
            "fidelity=released in `hindsight train`"
        )
    if key in ("seeds", "steps"):
        raise SpecError(
            f"{location}: {key!r} is given by `{key}` in a preset or `select`, by --{key} in "
            "`hindsight train`, and by an argument in Python"
        )
    ours = {
        section: model_of(section, values[section]) for section in SECTIONS if section in values
    }
    for section, model in ours.items():
        if (name := model.aliases.get(key, key)) in model.model_fields.keys() - IDENTITIES:
            values[section][name] = value
            return section, name
    how = values["algorithm"]["name"]
    of_others = {"hindsight", "replay"} - {"hindsight" if ALGORITHMS[how].on_policy else "replay"}
    home = [s for s in SECTIONS if s not in of_others and key in KEYS[s]]
    if home and home[0] not in values:
        raise SpecError(f"{location}: {key!r} needs hindsight: set a strategy (her)")
    if home:
        who = values[home[0]].get("name") or values[home[0]].get("id")
        names = ", ".join(sorted(ours[home[0]].model_fields.keys() - IDENTITIES))
        raise SpecError(f"{location}: unknown option {key!r}; {who} has {names}")
    known = {"first_seed", "early_end"}.union(*(model.model_fields for model in ours.values()))
    meant = guess(THEIRS.get(key, key), known - IDENTITIES)
    listed = f"; hindsight train --algorithm {how} --settings lists them"
    if "kwargs" in ours["environment"].model_fields:
        own = json.dumps({key: "..."})
        listed += f"; an argument of {values['environment']['id']} is given by 'kwargs={own}'"
    raise SpecError(f"{location}: unknown option {key!r}{meant or listed}")


def must_count(spec: CellSpec, values: dict[str, Any], keys: Collection[str]) -> None:
    """Raise SpecError for a key that the user gave and that its other keys leave without effect."""
    if "fidelity" in keys and all(_with_fidelity(values, one) == spec for one in FIDELITIES):
        raise SpecError(
            "fidelity has no effect here: the authors' code and the papers differ only in "
            "hindsight (her), and in the preys attract and repel"
        )
    for section in SECTIONS:
        part, given = getattr(spec, section), values.get(section, {})
        asked = {part.aliases.get(key, key) for key in keys} if given else set()
        for key in (asked & given.keys()) - {"fidelity"}:
            field = type(part).model_fields[key]
            checked: Any = Annotated[field.annotation, field]
            if getattr(part, key) != TypeAdapter(checked).validate_python(given[key]):
                because_of = [given]
                if getattr(validated(type(part), given), key) != getattr(part, key):
                    because_of = [values.get(name, {}) for name in SECTIONS if name != section]
                others = [f"{n} {x}" for one in because_of for n, x in one.items() if n != key]
                because = f" with {', '.join(others)}" if others else ""
                raise SpecError(f"{key}={given[key]} has no effect{because}")


def _with_fidelity(values: Mapping[str, Any], fidelity: Fidelity) -> CellSpec | None:
    """The cell with this fidelity; None if it is not possible."""
    parts = {key: part for key, part in values.items() if isinstance(part, dict)}
    changed = {k: {**part, "fidelity": fidelity} for k, part in parts.items() if "fidelity" in part}
    with suppress(SpecError):
        return validated(CellSpec, {**values, **changed})
    return None
