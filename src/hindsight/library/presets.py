"""Default settings: named presets, and defaults that depend on the environment."""

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.cell import CellSpec, model_of, put
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, guess
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.reading import read_keys
from hindsight.specs.replay import WITHOUT_HINDSIGHT

#: SAC's default temperature in gymnasium environments.  Starting from 1, as the papers and
#: Stable-Baselines3 do, SAC avoids goals that end an episode with a reward of 1.
ENT_COEF = "auto_0.01"


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Return the presets by name: what each was tuned on, and its settings for each algorithm."""
    return read_keys(Path(__file__).with_name("presets.yaml"))


def keys_of(preset: str | None, algorithm: str) -> dict[str, Any]:
    """Return a preset's settings for an algorithm, including `her`; none if `preset` is None."""
    if preset is None:
        return {}
    known = presets()
    if preset not in known:
        meant = guess(preset, known) or f"; choose from {', '.join(known)}"
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
    """Assemble the values for `CellSpec`, with each of the `keys` in its section.

    her: the strategy of hindsight; None: no hindsight.  `fidelity` is that of hindsight, and of the
    environment unless it has its own.

    Raises SpecError for a key that is unknown, or needs hindsight.
    """
    values = {"environment": {**environment}, "algorithm": {"name": algorithm}, **more}
    if "fidelity" in model_of("environment", environment).model_fields:
        values["environment"].setdefault("fidelity", fidelity)
    if her is not None:
        section = "hindsight" if ALGORITHMS[algorithm].on_policy else "replay"
        values[section] = {"strategy": her, "fidelity": fidelity}
    elif not ALGORITHMS[algorithm].on_policy and keys.keys() & set(WITHOUT_HINDSIGHT):
        values["replay"] = {}
    for key, value in keys.items():
        put(values, key, value, f"{key}={value}")
    if algorithm == "sac" and environment["id"] not in ENVIRONMENTS:
        values["algorithm"].setdefault("ent_coef", ENT_COEF)
    return values


def notes_of(spec: CellSpec) -> tuple[str, ...]:
    """Return what the user should know before training, one sentence each."""
    where, how = spec.environment, spec.algorithm
    if not isinstance(where, GymnasiumSpec):
        return ()
    notes = where.notes
    if not isinstance(how, SACSpec):
        return notes
    # Uniform actions in [-1, 1] maximise the entropy: log 2 per coordinate and step.
    (alpha,) = how.initialisation
    endless = alpha * where.action_size * math.log(2) / max(1 - how.gamma, 1e-3)
    reward = where.facts.achieved_reward
    if where.facts.terminates_on_success and 0 < reward < endless:
        notes += (
            f"{where.called}: reaching the goal ends the episode with a reward of {reward:g}, but "
            f"at a temperature of {alpha:g} acting randomly forever is worth up to {endless:.2g}, "
            f"so SAC may avoid the goal until the temperature has fallen; start lower, with "
            f"ent_coef {ENT_COEF} or less",
        )
    return notes
