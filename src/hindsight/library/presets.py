"""Default settings: named presets, and defaults that depend on the environment."""

import math
from functools import cache
from pathlib import Path
from typing import Any

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, guess
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.reading import read_keys

#: SAC's default temperature in gymnasium environments.  Starting from 1, as the papers and
#: Stable-Baselines3 do, SAC avoids goals that end an episode with a reward of 1.
ENT_COEF = "auto_0.01"


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Return the presets by name: what each was tuned on, and its settings for each algorithm."""
    return read_keys(Path(__file__).with_name("presets.yaml"))


def keys_of(
    preset: str | None, algorithm: str, environment: str, hindsight: bool = True
) -> dict[str, Any]:
    """Return an algorithm's settings in an environment, including a preset's `her`, if given.

    hindsight: whether a preset's settings of hindsight are included.
    """
    usual = algorithm == "sac" and environment not in ENVIRONMENTS
    keys: dict[str, Any] = {"ent_coef": ENT_COEF} if usual else {}
    if preset is None:
        return keys
    known = presets()
    if preset not in known:
        meant = guess(str(preset), known) or f"; choose from {', '.join(known)}"
        raise SpecError(f"unknown preset {preset!r}{meant}")
    kinds = {name: keys for name, keys in known[preset].items() if name != "tuned_on"}
    if algorithm not in kinds:
        raise SpecError(f"preset {preset!r} was tuned for {', '.join(kinds)}, not for {algorithm}")
    own = ALGORITHMS[algorithm].model_fields
    return keys | {k: v for k, v in kinds[algorithm].items() if hindsight or k in own}


def called(spec: CellSpec) -> str:
    """Name a training: `SAC with hindsight (future, described) on FetchReach-v4`."""
    her = spec.hindsight or spec.replay
    strategy, fidelity = (getattr(her, key, None) for key in ("strategy", "fidelity"))
    how = f" with hindsight ({strategy}, {fidelity})" if strategy else ""
    where = spec.environment
    name = where.called if isinstance(where, GymnasiumSpec) else where.id
    return f"{spec.algorithm.name.upper()}{how} on {name}"


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
