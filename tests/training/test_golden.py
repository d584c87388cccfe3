"""Small trainings of every kind give the numbers they always gave.

A change that is meant to leave numbers alone must leave these; one that is meant to change them
writes them anew, and says so:

    python -m tests.training.test_golden

On the processor and with the libraries that `golden.json` names the numbers are the same bit for
bit; elsewhere products round differently, and they agree up to what two iterations make of that.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from hindsight.nn.numba_cache import ENABLED, _blas
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import prepare_process
from hindsight.training.record import machine
from hindsight.training.runs import runs_of

#: A virtual machine's processors of several generations may have one name.
CPU = info.read_text() if (info := Path("/proc/cpuinfo")).exists() else ""
GOLDEN = Path(__file__).with_name("golden.json")
PREY = {"prey": "attract", "n_dims": 2, "grid_size": 4.0, "max_steps": 8}
BITS = {"id": "BitFlipping-v0", "n_bits": 4}
POINT = {"id": "PointReach-v0", "max_steps": 12}
PPO = {"name": "ppo", "n_steps": 128, "n_epochs": 2}
OFF_POLICY = {"batch_size": 16, "log_interval": 40, "learning_starts": 30}
SAC, TD3, DQN = ({"name": name, **OFF_POLICY} for name in ("sac", "td3", "dqn"))
DDPG = {"name": "ddpg", "normalize_observations": True, **OFF_POLICY}
DESCRIBED = {"fidelity": "described"}
#: Environment, algorithm, and hindsight or replay.
CELLS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = {
    "ppo": (PREY, PPO, None),
    "ppo-her-released": (PREY, PPO, {}),
    "ppo-her-described": (PREY, PPO, {"strategy": "episode", "k": 2, **DESCRIBED}),
    "meher-released": (PREY, PPO, {"s_ratio": 0.6}),
    "meher-described": (PREY, PPO, {"s_ratio": 0.6, **DESCRIBED}),
    "ppo-her-bits": (BITS, PPO, DESCRIBED),
    "ppo-her-point": (POINT, PPO, DESCRIBED),
    "sac": (PREY, SAC, {"strategy": "final", "k": 2}),
    "td3": (POINT, TD3, {"strategy": "future"}),
    "ddpg": (POINT, DDPG, {"strategy": "episode", **DESCRIBED}),
    "dqn": (BITS, DQN, {"strategy": "future", "prioritized": True}),
}


def trained(
    kind: str, device: str = "cpu", hidden: tuple[int, ...] = (16, 16)
) -> dict[str, list[float]]:
    """Columns of the curves and of an evaluation after two iterations, and the parameters' squared
    norms, each of three runs.
    """
    environment, algorithm, her = CELLS[kind]
    values: dict[str, Any] = {"environment": environment, "steps": 10_000}
    values["algorithm"] = {**algorithm, "hidden": hidden, "learning_rate": 1e-3}
    values["hindsight" if algorithm is PPO else "replay"] = her
    values["evaluation"] = {"episodes": 5}
    runs = runs_of(CellSpec.model_validate(values), [0, 1, 2], device)
    runs.iterate()
    found = {**runs.iterate(), **{f"evaluation {k}": v for k, v in runs.evaluate().items()}}
    found["parameters squared"] = runs.rows.square().sum(1)
    return {name: column.double().tolist() for name, column in sorted(found.items())}


def here() -> dict[str, str]:
    """What decides the last bits."""
    blas = {x.architecture for x in _blas().lib_controllers} if ENABLED else set()
    return {
        "processor": machine(torch.device("cpu"))["processor"],
        "model": ", ".join(re.findall(r"(?:cpu family|model|stepping)\s*: (\d+)", CPU)[:3]),
        "blas": ", ".join(sorted(blas)),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": str(torch.__version__),
    }


@pytest.mark.parametrize("kind", CELLS)
def test_the_numbers_are_those_of_before(kind: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    prepare_process("cpu")
    found, expected = trained(kind), golden["cells"][kind]
    assert found.keys() == expected.keys()
    tolerance = 0.0 if golden["here"] == here() else 1e-5
    for name, values in found.items():
        assert values == pytest.approx(expected[name], tolerance, tolerance, nan_ok=True), name


if __name__ == "__main__":
    prepare_process("cpu")
    cells = {kind: trained(kind) for kind in CELLS}
    GOLDEN.write_text(json.dumps({"here": here(), "cells": cells}, indent=1) + "\n")
