"""Settings that nobody has to type: presets by their names, and what else suits an environment."""

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.cell import CellSpec, put
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, guess
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.reading import read_keys

PRESETS = Path(__file__).with_name("presets.yaml")
#: SAC's temperature in environments of others, unless something else is said.  From 1 on, as in
#: the papers and in Stable-Baselines3, it avoids goals that end an episode with a reward of 1.
ENT_COEF = "auto_0.01"


@cache
def presets() -> dict[str, dict[str, Any]]:
    """By name: what each preset was tuned on, and its keys for each algorithm."""
    return read_keys(PRESETS)


def keys_of(preset: str | None, algorithm: str) -> dict[str, Any]:
    """What a preset sets for an algorithm: keys of a cell, and `her`; nothing for None.

    Raises SpecError for a name that is none, or an algorithm that it was not tuned for.
    """
    if preset is None:
        return {}
    known = presets()
    if preset not in known:
        meant = guess(preset, known) or f"; there are {', '.join(known)}"
        raise SpecError(f"unknown preset {preset!r}{meant}")
    kinds = {name: keys for name, keys in known[preset].items() if name != "tuned_on"}
    if algorithm not in kinds:
        raise SpecError(f"preset {preset!r} was tuned for {', '.join(kinds)}, not for {algorithm}")
    return dict(kinds[algorithm])


def cell_values(
    environment: Mapping[str, Any],
    algorithm: str,
    her: str | None,
    fidelity: str,
    keys: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """What `CellSpec` takes, with each key where it belongs, and what suits the environment.

    Args:
        her: a strategy of hindsight; None: no hindsight.
        keys: of the environment, the algorithm or hindsight.
        more: of the cell itself, as `seeds`.

    Raises:
        SpecError: a key that is none, or needs hindsight.
    """
    values = {"environment": {**environment}, "algorithm": {"name": algorithm}, **more}
    if her is not None:
        section = "hindsight" if ALGORITHMS[algorithm].on_policy else "replay"
        values[section] = {"strategy": her, "fidelity": fidelity}
    for key, value in keys.items():
        put(values, key, value, f"{key}={value}")
    if algorithm == "sac" and environment["id"] not in ENVIRONMENTS:
        values["algorithm"].setdefault("ent_coef", ENT_COEF)
    return values


def notes_of(spec: CellSpec) -> tuple[str, ...]:
    """What a person should know before training, one sentence each."""
    where, how = spec.environment, spec.algorithm
    notes = where.notes
    if not isinstance(how, SACSpec) or not isinstance(where, GymnasiumSpec):
        return notes
    if not where.facts.terminates_on_success:
        return notes
    # Uniform actions in [-1, 1] have the most entropy: log 2 each, at every step.
    (alpha,) = how.initialisation
    endless = alpha * where.action_size * math.log(2) / max(1 - how.gamma, 1e-3)
    reward = where.facts.achieved_reward
    if 0 < reward < endless:
        notes += (
            f"{where.called}: its goal ends the episode with a reward of {reward:g}, but at a "
            f"temperature of {alpha:g} random actions for ever are worth up to {endless:.2g}, so "
            f"SAC may avoid the goal until the temperature has fallen: begin lower, with ent_coef "
            f"{ENT_COEF} or less",
        )
    return notes
