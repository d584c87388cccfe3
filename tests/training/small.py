"""Small cells, and helpers for training them."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hindsight.io.checkpoints import load, save
from hindsight.specs.cell import CellSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.cell import Execution, train_cell
from hindsight.training.runs import runs_of

STEPS = 64  # of a rollout


#: Ways to learn from hindsight, on policy.
HINDSIGHT = {
    "ppo": None,
    "released": HindsightSpec(),
    "released-future-k2": HindsightSpec(strategy="future", k=2),
    "described-episode-k2": HindsightSpec(strategy="episode", k=2, fidelity="described"),
    "released-meher": HindsightSpec(s_ratio=0.6),
    "described-meher": HindsightSpec(s_ratio=0.6, fidelity="described"),
    "described-targeted": HindsightSpec(s_ratio=0.3, failures="targeted", fidelity="described"),
    "released-to-meher": HindsightSpec(s_ratio=0.6, until_steps=100, then="meher"),
}


def cell(
    hindsight: HindsightSpec | None = None, *, steps: int = 10_000, where: Any = None, **keys: Any
) -> CellSpec:
    """A cell with short episodes, some successful, and a prey that draws numbers in every step.

    A rollout is 64 steps of one environment unless said otherwise.  `where`: keys of the
    environment; others are those of PPO.
    """
    box = {"prey": "attract", "grid_size": 4.0, "interception_distance": 1.5, "max_steps": 8}
    keys = {"n_steps": STEPS, "n_epochs": 2, "learning_rate": 3e-3, **keys}
    more = {"hindsight": hindsight, "evaluation": {"episodes": 10}, "steps": steps}
    return cell_in({**box, **(where or {})}, keys, **more)


def cell_in(environment: Any, algorithm: dict[str, Any], **keys: Any) -> CellSpec:
    """A cell of any environment and algorithm: small networks, one seed, no early end."""
    values = {"seeds": 1, "steps": 2000, "early_end": None, "evaluation": {"episodes": 20}}
    small = {"hidden": (8, 8), **algorithm}
    return CellSpec(environment=environment, algorithm=small, **{**values, **keys})


def policy_file(path: Path, spec: CellSpec, rows: dict[int, Tensor]) -> Path:
    """The policy file of a cell whose runs have these parameters, by seed."""
    stacked = torch.stack(list(rows.values()))
    save(path, {"spec": spec.model_dump_json(), "seeds": list(rows), "rows": stacked})
    return path


def runs(spec: CellSpec, *seeds: int) -> Any:
    return runs_of(spec, list(seeds), "cpu")


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        save(file := Path(folder, "state.safetensors"), state)
        return load(file)


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor], **tolerance: float) -> None:
    """Columns are equal; bit for bit if no tolerance is given."""
    assert a.keys() == b.keys()
    exact = {"rtol": 0.0, "atol": 0.0}
    for name in a:
        torch.testing.assert_close(
            a[name], b[name], equal_nan=True, **(tolerance or exact), msg=name
        )


def assert_alone_as_among(spec: CellSpec) -> None:
    """Over two iterations, after the first of which another run leaves the axis."""
    among, alone = runs(spec, 11, 12, 13), runs(spec, 12)
    for i in range(2):
        columns, expected = among.iterate(), alone.iterate()
        place = among.seeds.index(12)
        # Larger products may round differently.
        torch.testing.assert_close(among.rows[place], alone.rows[0], rtol=0, atol=1e-4)
        its = {column: values[place : place + 1] for column, values in columns.items()}
        assert_same(its, expected, rtol=1e-3, atol=1e-3)
        if i == 0:
            assert not torch.equal(among.rows[0], among.rows[1])
            among.select(torch.tensor([2, 1]))
    assert int(columns["updates"][0]) > 0
    evaluated = {column: values[1:] for column, values in among.evaluate().items()}
    assert_same(evaluated, alone.evaluate(), rtol=0, atol=0.11)


def assert_resumed_as_whole(spec: CellSpec) -> Any:
    """Bit for bit, two iterations before and two after; returns the runs that went on."""
    whole = runs(spec, 7, 8)
    for _ in range(2):
        whole.iterate()
    saved = through_a_file(whole.state_dict())
    resumed = runs(spec, 7, 8)
    resumed.load_state_dict(saved)
    assert resumed.env_steps == whole.env_steps == 2 * whole.rollout_steps
    for _ in range(2):
        assert_same(whole.iterate(), resumed.iterate())
        resumed.evaluate()  # disturbs no training
    assert_same(whole.evaluate(), resumed.evaluate())
    assert torch.equal(whole.rows, resumed.rows)
    assert torch.equal(whole.env.state, resumed.env.state)
    return whole


#: A small cell with three seeds.
SPEC = CellSpec.model_validate(
    {
        "algorithm": {"hidden": [8, 8], "n_steps": 64},
        "hindsight": {"strategy": "final"},
        "environment": {"n_dims": 2, "prey": "random"},
        "seeds": 3,
        "steps": 64 * 12,
        "evaluation": {"points": 3, "episodes": 5},
    }
)


class Interruption(Exception):
    """Ends a training from within."""


#: Writes a checkpoint after every iteration.
EAGER = Execution(checkpoint_seconds=0)


def interrupted(
    spec: CellSpec, root: Path, iterations: int = 1, execution: Execution = EAGER
) -> Path:
    """Interrupt a cell's training after some iterations; returns its checkpoint."""
    heard = []

    def interrupt(progress: Any) -> None:
        heard.append(progress)
        if len(heard) == iterations:
            raise Interruption

    with pytest.raises(Interruption):
        train_cell(spec, root, execution, interrupt)
    (path,) = (root / "checkpoints").rglob("*.safetensors")
    return path
