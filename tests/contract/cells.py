"""Small cells of every registered algorithm, in every registered environment that it fits."""

from typing import Any

from pydantic import ValidationError

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments import ENVIRONMENTS
from tests.training.small import cell_in

#: Keys that keep a cell small, as far as an algorithm or an environment has them.
SMALL = {
    "n_steps": 60, "n_epochs": 2, "batch_size": 16, "log_interval": 60, "learning_starts": 30,
    "max_steps": 8, "train_freq": 4, "gradient_steps": 4,
}  # fmt: skip
HINDSIGHT = {"strategy": "future", "fidelity": "described"}


def small(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    """These keys of a specification of this kind, and those that keep it small."""
    return {key: value for key, value in SMALL.items() if key in kind.model_fields} | given


def cell(name: str, task: dict[str, Any], hindsight: Any = HINDSIGHT, **keys: Any) -> CellSpec:
    """A small cell of an algorithm with these keys, with or (None) without hindsight."""
    kind = ALGORITHMS[name]
    how = {"hindsight": hindsight} if kind.on_policy else {"replay": hindsight or {}}
    return cell_in(task, {"name": name, **small(kind, keys)}, **how)


def tasks() -> dict[str, dict[str, Any]]:
    """Every registered environment, as it is and with each of its switches."""
    found = {}
    for name, kind in ENVIRONMENTS.items():
        found[name] = small(kind, {"id": name})
        for key, field in kind.model_fields.items():
            if isinstance(field.default, bool):
                found[f"{name} {key}"] = found[name] | {key: not field.default}
    return found


def fits(name: str, task: dict[str, Any]) -> bool:
    try:
        cell(name, task)
    except ValidationError:
        return False
    return True


TASKS = tasks()
#: Algorithm and task.
PAIRS = [(name, task) for name in ALGORITHMS for task in TASKS if fits(name, TASKS[task])]
