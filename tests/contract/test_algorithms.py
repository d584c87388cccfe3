"""What every registered algorithm must do, in every environment that it fits.

A new algorithm is tested as soon as its specification is registered.
"""

import importlib
from dataclasses import fields, make_dataclass
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

import hindsight
from hindsight.algorithms.interface import (
    OF_OFF_POLICY,
    OF_ON_POLICY,
    columns_of,
    off_policy,
    on_policy,
)
from hindsight.library.model import model_of
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError
from hindsight.training.policies import agent_of, initial_row, policy_of
from tests.contract.cells import HINDSIGHT, PAIRS, TASKS, cell
from tests.training.small import assert_alone_as_among, assert_resumed_as_whole, assert_same, runs

pairs = pytest.mark.parametrize(("name", "task"), PAIRS)
each_way = pytest.mark.parametrize("way", [None, HINDSIGHT], ids=["plain", "hindsight"])


def observations(spec: CellSpec, n: int = 50) -> Tensor:
    """[3, n, obs], for three runs."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, n, spec.environment.observation_size, generator=generator)


def assert_actions(spec: CellSpec, actions: Tensor) -> None:
    """They belong to the task's action space; a Gaussian's samples may lie beyond a box."""
    if choices := spec.environment.choices:
        assert not actions.is_floating_point() or torch.equal(actions, actions.round())
        assert actions.min() >= 0 and actions.max() < max(choices)
        return
    assert actions.shape[-1] == spec.environment.action_size and actions.isfinite().all()
    if not (spec.algorithm.on_policy and getattr(spec.algorithm, "exploration", "") != "squashed"):
        assert actions.abs().max() <= 1


@pytest.mark.parametrize(
    ("kind", "load", "lacking"),
    [("dqn", off_policy, "lacks NOISES, .*which algorithms.interface.OffPolicyAlgorithm"),
     ("ppo", on_policy, "Diagnostics must be a dataclass with `updates`"),
     ("sac", off_policy, "Diagnostics.seed has the name of a column that every results file has")],
)  # fmt: skip
def test_what_a_file_lacks_is_named(kind, load, lacking, monkeypatch):
    spec = ALGORITHMS[kind]()
    file = importlib.import_module(spec.module)
    if kind == "dqn":
        monkeypatch.delattr(file, "NOISES")
    elif kind == "sac":
        monkeypatch.setattr(file, "Diagnostics", make_dataclass("Diagnostics", ["seed"]))
    else:
        monkeypatch.setattr(file, "Diagnostics", dict)
    with pytest.raises(SpecError, match=lacking):
        load(spec)


@pairs
@each_way
def test_diagnostics_have_names_of_their_own(name, task, way):
    made = runs(cell(name, TASKS[task], way), 0, 1)
    columns, own = made.iterate(), {field.name for field in fields(made.module.Diagnostics)}
    known = OF_ON_POLICY if ALGORITHMS[name].on_policy else OF_OFF_POLICY
    assert made.recorded(columns).keys() - own <= known and not known & own


@pytest.mark.parametrize("loss", [torch.zeros(2, 3), torch.zeros(()), 0.5])
def test_diagnostics_of_another_shape_are_named(loss):
    found = make_dataclass("Diagnostics", ["td_error", "loss"], slots=True)
    with pytest.raises(SpecError, match=r"Diagnostics.loss: has the shape .*, but results"):
        columns_of(found(torch.zeros(2, 3), loss), 2, but="td_error")
    assert columns_of(found(torch.ones(2), torch.ones(2)), 2).keys() == {"td_error", "loss"}


@pairs
def test_an_initial_row_fits_its_networks_and_is_its_seeds(name, task):
    spec = cell(name, TASKS[task])
    agent = agent_of(spec)
    first, again, other = (initial_row(spec, seed) for seed in (0, 0, 1))
    assert first.shape == (sum(agent.sizes),) and first.dtype == torch.float32
    assert torch.equal(first, again) and not torch.equal(first, other) and first.isfinite().all()
    mlp, rows = agent.acting(first[None])
    assert mlp.sizes[0] == spec.environment.observation_size and rows.shape[1] == mlp.n_parameters


@pairs
def test_actions_belong_to_the_space_and_runs_share_nothing(name, task):
    """Those that are evaluated, those that explore, and `Agent.actions` of the outputs."""
    spec = cell(name, TASKS[task])
    rows, obs = torch.stack([initial_row(spec, seed) for seed in (4, 5, 6)]), observations(spec)
    rows += 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    actions = policy_of(spec, rows)(obs)
    assert actions.shape[:2] == (3, 50)
    assert_actions(spec, actions)
    sampled = policy_of(spec, rows, torch.Generator().manual_seed(0))(obs)
    assert sampled.shape == actions.shape
    assert_actions(spec, sampled)
    for run in range(3):
        alone = policy_of(spec, rows[run : run + 1])(obs[run : run + 1])
        torch.testing.assert_close(alone[0], actions[run], rtol=0, atol=1e-5)
    agent = agent_of(spec)
    mlp, acting = agent.acting(rows)
    torch.testing.assert_close(agent.actions(mlp(acting, obs)), actions, rtol=0, atol=1e-5)


@pairs
@each_way
@pytest.mark.parametrize("holds", [assert_alone_as_among, assert_resumed_as_whole])
def test_a_run_is_the_same_among_others_and_resumed(name, task, way, holds):
    holds(cell(name, TASKS[task], way, n_envs=2))


@pairs
@each_way
def test_the_compiled_training_is_that_of_the_reference(name, task, way, monkeypatch):
    """Over one iteration, with its updates."""
    spec = cell(name, TASKS[task], way, n_envs=2, learning_rate=1e-3)
    if not spec.algorithm.compiled_module:
        pytest.skip(f"{name} has no compiled module")
    compiled = runs(spec, 2, 3)
    monkeypatch.setattr("hindsight.training.runs.ENABLED", False)
    reference = runs(spec, 2, 3)
    assert compiled.updater is not reference.updater
    before = reference.rows.clone()
    columns, expected = compiled.iterate(), reference.iterate()
    assert_same(columns, expected, rtol=1e-2, atol=1e-3)
    # Where a gradient is of rounding alone, Adam's first steps go either way.
    moved = (reference.rows - before).abs().mean()
    assert (compiled.rows - reference.rows).abs().mean() < 0.01 * moved


BITS = {"id": "BitFlipping-v0", "n_bits": 2}
CHASE = {
    "id": "PredatorPrey-v0", "n_dims": 2, "grid_size": 1.5, "interception_distance": 0.5,
    "max_steps": 6,
}  # fmt: skip


def fewest_steps(task: dict[str, Any], state: Tensor) -> Tensor:
    """The least that solves the task from these first observations [run, env, obs]."""
    away = (state[..., :2] - state[..., 2:4]).abs()
    if task is BITS:  # two wrong ones need two; if none is wrong, one is flipped there and back
        return torch.where(away.sum(-1) == 1, 1.0, 2.0)
    # The prey stands still, and a move is at most 1 in each direction.
    ahead = [(away - t).clamp(min=0).norm(dim=-1) > 0.5 for t in range(5)]
    return torch.stack(ahead).sum(0).float()


@pytest.mark.parametrize("name", ALGORITHMS)
@each_way
def test_it_learns_the_shortest_way(name, way):
    task = BITS if ALGORITHMS[name].actions == "discrete" else CHASE
    made = runs(cell(name, task, way, hidden=[32], n_envs=4, learning_rate=3e-3), 0, 1, 2, 3)
    for _ in range(150):
        made.iterate()
    made.evaluation_env.rewind()
    fewest = fewest_steps(task, made.evaluation_env.state).mean(1)
    found = made.evaluate()
    assert (found["episode_length"] >= fewest).all()
    assert (found["episode_length"] - fewest).median() < 0.5
    assert found["success_rate"].median() > 0.85


#: Keys that only shape a training, or count in a long one.
SHAPES = {"name", "buffer_size", "log_interval", "n_steps", "sigma_final"}
#: Other values of keys that twice the default, or a half, would not move in a short training.
OTHERWISE = {
    "max_grad_norm": 1e-3, "target_kl": 1e-9, "clip_range": 1e-4, "clip_range_vf": 1e-4,
    "hidden": (4,), "target_update_interval": 5, "ent_coef": 0.3, "train_freq": 2, "epsilon": 0.5,
    "gradient_steps": 2,
}  # fmt: skip


def otherwise(key: str, field: Any) -> Any:
    """A value of a specification's field that is not its default."""
    default, words = field.default, [x for x in get_args(field.annotation) if isinstance(x, str)]
    if key in OTHERWISE or words:
        return OTHERWISE[key] if key in OTHERWISE else words[-1]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int):
        return default + 3
    return default / 2 if default else 0.02


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_key_counts_and_every_parameter_learns(name):
    kind = ALGORITHMS[name]
    reach = (name, "PointReach-v0") in PAIRS
    task = TASKS["PointReach-v0" if reach else "BitFlipping-v0"]

    def trained(**keys: Any) -> Any:
        quick = {"learning_rate": 1e-3, "target_update_interval": 3, "n_envs": 2} | keys
        there = {key: value for key, value in quick.items() if key in kind.model_fields}
        made = runs(cell(name, task, None, **there), 0)
        for _ in range(2):
            made.iterate()
        return made

    usual = trained()
    first = initial_row(usual.spec, 0)
    for part, before in zip(
        usual.rows[0].split(agent_of(usual.spec).sizes), first.split(agent_of(usual.spec).sizes),
        strict=True,
    ):  # fmt: skip
        assert not part.numel() or (part != before).float().mean() > 0.5
    idle = []  # and not reset by the specification, which tells who gives it
    for key in kind.model_fields.keys() - SHAPES:
        made = trained(**{key: otherwise(key, kind.model_fields[key])})
        if made.spec != usual.spec and torch.equal(usual.rows, made.rows):
            idle.append(key)
    assert idle == []


@pairs
def test_a_policy_acts_the_same_exported_saved_and_loaded(name, task, tmp_path):
    """As a module, as `torch.export`'s program, and from the library's file."""
    parameters = {key: value for key, value in TASKS[task].items() if key != "id"}
    made = model_of(name)(TASKS[task]["id"], seeds=3, env_kwargs=parameters, hidden=[8])
    for rows in made._rows.values():
        rows += 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    space = made._spaces[0]
    generator = np.random.default_rng(1)
    obs = {
        key: generator.normal(size=(20, *one.shape)).astype(np.float32)
        for key, one in space.items()
    }
    flat = torch.from_numpy(np.concatenate([obs[key] for key in GOAL_KEYS], axis=1))
    acting = policy_of(made.spec, made._rows["best"])(flat.expand(3, *flat.shape))
    if not made.spec.environment.choices:
        acting = acting.clamp(-1, 1)
    program = torch.export.load(made.export(tmp_path / "policy.pt2", 2)).module()
    tensors = {key: torch.from_numpy(value) for key, value in obs.items()}
    loaded = hindsight.load(made.save(tmp_path / "model.safetensors"))
    for found in (
        program(*tensors.values()),
        made.policy(2)(tensors),
        torch.as_tensor(made.predict(obs, run=2)[0]),
        torch.as_tensor(loaded.predict(obs, run=2)[0]),
    ):
        torch.testing.assert_close(found.detach().float(), acting[2].float(), rtol=0, atol=1e-5)
