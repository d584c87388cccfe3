"""Compiled off-policy updates and loops against their references in PyTorch: same row, same batch,
same random numbers in the same order give the same parameters.
"""

import copy
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hindsight.algorithms import sac_compiled, td3_compiled
from hindsight.nn.numba_cache import use_threads
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import CellSpec
from hindsight.specs.replay import GOAL_STRATEGIES
from hindsight.training.off_policy import OffPolicyRuns
from tests.support.agents import agent as agent_for
from tests.training.small import cell_in

RUNS = 3
CONTINUOUS = {
    "gamma": st.sampled_from([0.0, 0.95, 1.0]),
    "tau": st.sampled_from([0.005, 0.05, 1.0]),
    "max_grad_norm": st.sampled_from([None, 0.1, 10.0]),
    "weight_decay": st.sampled_from([0.0, 0.01]),
}
NOISE = {"exploration_noise": st.sampled_from([0.0, 0.1])}
#: What an off-policy algorithm's specification offers to its updates.
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "sac": {
        **CONTINUOUS,
        "target_entropy": st.sampled_from([None, -7.0]),
        "ent_coef": st.sampled_from(["auto", "auto_0.1", 0.05]),
    },
    "td3": {
        **CONTINUOUS,
        **NOISE,
        "policy_delay": st.integers(1, 3),
        "target_policy_noise": st.sampled_from([0.0, 0.2, 2.0]),
        "target_noise_clip": st.sampled_from([0.0, 0.5]),
    },
    "ddpg": {**CONTINUOUS, **NOISE},
    "dqn": {
        **CONTINUOUS,
        "double": st.booleans(),
        "target_update_interval": st.integers(1, 4),
        "epsilon": st.sampled_from([0.0, 0.3, 1.0]),
    },
}


def test_every_compiled_algorithm_is_compared_with_all_its_options() -> None:
    compiled = {x for x, spec in ALGORITHMS.items() if spec.compiled_module and not spec.on_policy}
    assert OPTIONS.keys() == compiled


@st.composite
def updates(draw: st.DrawFn, name: str) -> tuple[Any, Any, list[Batch], torch.Tensor]:
    """An agent, a specification, and several updates' random batches and noise."""
    spec = ALGORITHMS[name].model_validate({x: draw(y) for x, y in OPTIONS[name].items()})
    n_obs, n_outputs = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    widths = draw(st.lists(st.sampled_from([3, 8, 17]), min_size=1, max_size=3))
    n, count = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    weighted, discrete = draw(st.booleans()), spec.actions == "discrete"
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(RUNS, *size, generator=generator)

    def batch() -> Batch:
        choices = torch.randint(n_outputs, (RUNS, n), generator=generator)
        return Batch(
            normal(n, n_obs),
            choices if discrete else normal(n, n_outputs).tanh(),
            normal(n),
            normal(n, n_obs),
            normal(n) > 1,
            normal(n).exp() if weighted else None,
        )

    module = import_module(spec.module)
    agent = agent_for(module.Agent, n_obs, n_outputs, widths)
    noise = 0.5 * normal(count, module.NOISES * n, n_outputs)
    return agent, spec, [batch() for _ in range(count)], noise


def joined(batches: list[Batch]) -> Batch:
    columns = zip(*(vars(batch).values() for batch in batches), strict=True)
    return Batch(*(None if x[0] is None else torch.cat(x, dim=1) for x in columns))


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), threads=st.sampled_from([1, 2]))
def test_updates_are_those_of_the_reference(name: str, data: st.DataObject, threads: int) -> None:
    agent, spec, batches, noise = data.draw(updates(name))
    module, engine = import_module(spec.module), import_module(spec.compiled_module).ENGINE
    generator = torch.Generator().manual_seed(2)
    rows = torch.stack([agent.initial_row(seed, *spec.initialisation) for seed in range(RUNS)])
    # Little, for where a tanh saturates, log(1 - a^2) is rounding alone.
    rows += 0.03 * torch.randn(rows.shape, generator=generator)
    rates = torch.tensor([1e-3, 3e-4, 0.0])

    def begin() -> Any:
        state = module.TrainState(agent, rows, rates, spec.weight_decay)
        for part in state.optimised:
            # so large that a gradient of rounding does not decide where a parameter goes
            getattr(state, part).eps = 1e-3
        return state

    reference, compiled = begin(), begin()
    if name == "sac":
        seen = torch.cat([torch.cat([x.obs, x.next_obs], 1) for x in batches], 1)
        drawn = module.act(begin(), seen, spec, noise.flatten(1, 2))
        assume(drawn.abs().max() < 0.999)  # nearer to 1, log(1 - a^2) has few digits
    expected = [
        module.update(reference, batch, noise[:, i], spec) for i, batch in enumerate(batches)
    ]
    use_threads(threads)
    found = engine.update(compiled, joined(batches), noise, spec, len(batches))
    use_threads(1)
    for field in fields(found):
        values = torch.stack([getattr(one, field.name) for one in expected], dim=1)
        torch.testing.assert_close(
            getattr(found, field.name), values, atol=1e-4, rtol=1e-3, equal_nan=True,
            msg=lambda text: f"{field.name}: {text}",  # noqa: B023
        )  # fmt: skip
    torch.testing.assert_close(compiled.rows, reference.rows, atol=1e-5, rtol=1e-4)
    for part in reference.optimised:
        for moment in ("m", "v", "steps"):
            values = [getattr(getattr(state, part), moment) for state in (compiled, reference)]
            torch.testing.assert_close(*values, atol=2e-5, rtol=1e-3)


def test_the_density_of_saturated_actions_is_exact() -> None:
    u, log_std = np.linspace(-15, 15, 301), -4.0
    head = np.stack([u, np.full_like(u, log_std)], 1).astype(np.float32)
    noise, actions = np.zeros((2, 301, 1), np.float32)
    log_prob = np.zeros(301, np.float32)
    sac_compiled._sample(head, noise, actions, log_prob)
    slope = 1 / np.cosh(u) ** 2
    exact = -np.log(slope + 1e-6) - log_std - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_prob, exact, atol=1e-3)
    np.testing.assert_allclose(actions[:, 0], np.tanh(u), atol=1e-6)


# -- the loop --------------------------------------------------------------------------------------

REACH = {"id": "PointReach-v0", "max_steps": 7}
BOX = {"prey": "repel", "max_steps": 5, "grid_size": 3.0}
BITS = {"id": "BitFlipping-v0", "n_bits": 3}
TASKS = {"dqn": [BITS]}
#: Steps of each comparison.
STEPS = 60


@st.composite
def cells(draw: st.DrawFn, name: str) -> CellSpec:
    """A small cell, whose buffer is overwritten in some of them."""
    continuous = [REACH, BOX, BOX | {"pushes_object": True}, BITS | {"continuous": True}]
    algorithm: dict[str, Any] = {
        "name": name, "hidden": [8], "batch_size": 16, "learning_rate": 1e-3,
        "n_envs": draw(st.integers(1, 3)), "log_interval": STEPS,
        "buffer_size": draw(st.sampled_from([60, 1000])),
        "learning_starts": draw(st.sampled_from([1, 12, 30])),
        "random_warm_up": draw(st.booleans()),
        "train_freq": (every := draw(st.sampled_from([1, 4]))),
        "gradient_steps": draw(st.sampled_from([1, every])),
    }  # fmt: skip
    if name != "dqn":
        algorithm["epsilon"] = draw(st.sampled_from([0.0, 0.3]))
    replay = {
        "strategy": draw(st.sampled_from([None, *GOAL_STRATEGIES])),
        "k": draw(st.integers(1, 4)),
        "fidelity": draw(st.sampled_from(["released", "described"])),
        "time_limit_terminates": draw(st.booleans()),
        "prioritized": draw(st.booleans()),
    }
    where, tests = draw(st.sampled_from(TASKS.get(name, continuous))), {"points": 1, "episodes": 1}
    return cell_in(where, algorithm, replay=replay, seeds=2, steps=10_000, evaluation=tests)


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_compiled_chunk_is_that_of_the_reference(name: str, data: st.DataObject) -> None:
    """With the same updates, since near a saturated tanh others differ by more than rounding."""
    spec = data.draw(cells(name))
    compiled, reference = (OffPolicyRuns(spec, [0, 5], "cpu") for _ in range(2))
    assert compiled.compiled
    reference.compiled = False
    columns = [runs.iterate() for runs in (compiled, reference)]
    for column, expected in columns[1].items():
        torch.testing.assert_close(
            columns[0][column].double(), expected.double(), atol=1e-4, rtol=1e-4, equal_nan=True,
            msg=lambda text: f"{column}: {text}",  # noqa: B023
        )  # fmt: skip
    torch.testing.assert_close(compiled.rows, reference.rows, atol=1e-5, rtol=1e-5)
    ring, other = (copy.copy(runs.buffer) for runs in (compiled, reference))
    assert ring.position == other.position
    for part in ("elapsed", "oldest"):
        np.testing.assert_array_equal(getattr(ring, part), getattr(other, part))
    slots = ring.stored()
    np.testing.assert_array_equal(slots, other.stored())
    np.testing.assert_array_equal(ring.before.take(slots), other.before.take(slots))
    np.testing.assert_array_equal(ring.left.take(slots), other.left.take(slots))
    # A prey's velocity has a fixed length: where the sum that it is scaled from is short, scaling
    # multiplies what rounding leaves.
    near = 1e-4 if hasattr(spec.environment, "prey") else 1e-5
    torch.testing.assert_close(ring.gather(slots), other.gather(slots), atol=near, rtol=near)
    if spec.replay and spec.replay.prioritized:
        np.testing.assert_allclose(ring.tree.sums, other.tree.sums, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(ring.largest, other.largest, rtol=1e-3)
    for part in ("state", "elapsed", "episode"):
        values = (getattr(runs.env, part) for runs in (compiled, reference))
        torch.testing.assert_close(*values, atol=near, rtol=near)


def test_saturated_actions_are_whole_so_that_nothing_is_learned_there():
    """As in PyTorch, whose tanh has no slope there; the engine's is an approximation."""
    policy = getattr(td3_compiled._policy, "py_func", td3_compiled._policy)
    for u in (20.0, -1e6, 3.0, -0.5):
        row, actions = np.full(2, u, np.float32), np.zeros((1, 1), np.float32)
        policy(
            row, np.array([1, 1]), np.zeros((1, 1), np.float32), np.empty(2, np.float32), actions
        )
        expected = float(torch.tensor(u).tanh())
        assert abs(actions[0, 0] - expected) < 5e-7 and (abs(u) < 9 or actions[0, 0] == expected)
