"""Four arms of unequal budgets, seeds and conditions, whose statistics are known.

PPO and PPO-HER have 20 rollouts of 2048 steps and five seeds in three conditions; SAC and SAC-HER
20 rows of 512 steps (five rollouts' worth) and four seeds in the first two of them. PPO succeeds in
0.7 of its episodes from the 18th rollout on; PPO-HER in 0.99 from the 4th in the first condition,
from the 10th in the others; SAC-HER in 0.9 from step 4096, and SAC never in more than 0.1.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tests.analysis.synthetic import (
    CONDITIONS,
    N_STEPS,
    CurveFunction,
    constant,
    summarise,
    write_experiment,
)

ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")
PLACES = CONDITIONS[:3]
BUDGET, SAC_BUDGET = 20 * N_STEPS, 20 * 512


def rise(step: int, top: float) -> CurveFunction:
    """Success 0 until a step, then `top`."""
    return lambda seed, env_steps: np.where(env_steps < step, 0.0, top)


def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
    """As the module says."""
    if arm == "SAC":
        return constant(0.1)
    if arm == "SAC-HER":
        return rise(2 * N_STEPS, 0.9)
    if arm == "PPO":
        return rise(18 * N_STEPS, 0.7)
    return rise((4 if prey == "static" else 10) * N_STEPS, 0.99)


def write(root: Path, sac_seconds_per_step: float = 20e-3, **kwargs: Any) -> Path:
    """The tables' folder below `root`; a step takes PPO 1 ms, PPO-HER 1.6 ms."""

    def more_of(arm: str, *_: object) -> dict[str, Any]:
        if not arm.startswith("SAC"):
            return {}
        sac = {"spec_overrides": {"algorithm.name": "sac"}}
        sizes = {"seeds": 4, "every": 512, "iterations": 20}
        return {**sac, **sizes, "seconds_per_step": sac_seconds_per_step}

    settings: dict[str, Any] = {
        "arms": ARMS, "conditions": PLACES, "fidelities": ("released",), "seeds": 5,
        "iterations": 20, "curve_of": curve_of, "more_of": more_of,
        "trains": lambda arm, spawn, prey: not arm.startswith("SAC") or prey != "attract",
    }  # fmt: skip
    plan = write_experiment(root, "algorithms", **(settings | kwargs))
    assert summarise(plan, root) == []
    return plan.parent
