"""The off-policy loop: exploration, updates, the end of hindsight."""

from typing import Any

import pytest
import torch

from hindsight.replay.buffer import draws
from hindsight.specs.cell import CellSpec
from hindsight.training import off_policy
from hindsight.training.policies import policy_of
from tests.training.small import cell_in, runs

POINT: dict[str, Any] = {"id": "PointReach-v0", "max_steps": 12}
PREY: dict[str, Any] = {"prey": "attract", "max_steps": 8}
BITS: dict[str, Any] = {"id": "BitFlipping-v0", "n_bits": 4}
SMALL = {"batch_size": 16, "log_interval": 60, "learning_starts": 30}
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "sac": (PREY, {"name": "sac"}, {"strategy": "final", "k": 2}),
    "sac-random": (PREY, {"name": "sac"}, {"strategy": "random", "fidelity": "described"}),
    "td3": (POINT, {"name": "td3", "policy_delay": 4}, {"strategy": "future"}),
    "ddpg": (
        POINT,
        {"name": "ddpg", "train_freq": 12, "gradient_steps": 5},
        {"strategy": "episode", "time_limit_terminates": True},
    ),
    "dqn": (BITS, {"name": "dqn"}, {"strategy": "future", "fidelity": "described"}),
    "dqn-prioritized": (BITS, {"name": "dqn"}, {"strategy": "future", "prioritized": True}),
    "sac-normalized": (
        PREY,
        {"name": "sac", "n_envs": 2, "normalize_observations": True, "epsilon": 0.3},
        {"strategy": "final", "fidelity": "described"},
    ),
    "td3-normalized": (POINT, {"name": "td3", "normalize_observations": True}, {}),
}


def cell(variant: str, more: Any = None, **of_algorithm: Any) -> CellSpec:
    """The cell of a variant; `more`: keys of its replay."""
    environment, algorithm, replay = VARIANTS[variant]
    algorithm = {**SMALL, **algorithm, **of_algorithm}
    return cell_in(environment, algorithm, replay={**replay, **(more or {})})


@pytest.mark.parametrize("random_warm_up", [True, False])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_policy_acts_once_enough_steps_were_random(n_envs, random_warm_up, monkeypatch):
    """`learning_starts` counts the steps of all environments of a run, as in Stable-Baselines3."""
    made = runs(cell("sac", n_envs=n_envs, random_warm_up=random_warm_up), 5)
    made.compiled, acted = False, []
    explore = made._explore
    monkeypatch.setattr(made, "_explore", lambda *x: acted.append(made.steps) or explore(*x))
    made.iterate()
    assert acted == list(range(30 // n_envs if random_warm_up else 0, 60 // n_envs))


@pytest.mark.parametrize(("log_interval", "indices"), [(60, 4), (100, 4), (50, 2), (30, 2)])
def test_no_two_chunks_draw_the_same_numbers(log_interval, indices, monkeypatch):
    """Also if an iteration is not a whole number of chunks of fifty steps."""
    made = runs(cell("sac", log_interval=log_interval), 5)
    drawn, prepared = [], []
    prepare = made.env.prepare_rollout
    monkeypatch.setattr(off_policy, "draws", lambda *x: drawn.append(x[1]) or draws(*x))
    monkeypatch.setattr(
        made.env, "prepare_rollout", lambda *x: prepared.append(x[0]) or prepare(*x)
    )
    made.iterate()
    made.iterate()
    assert drawn == list(range(indices)) and prepared == [index + 1 for index in drawn]


def test_a_share_of_the_actions_is_uniform():
    made = runs(cell("ddpg", epsilon=0.3, learning_starts=1, exploration_noise=0.0), 1, 2, 3)
    taken, expected, step = [], [], made.env.step
    made.compiled = False

    def record(actions):
        taken.append(actions.clone())
        expected.append(made.policy()(made.env.state))
        return step(actions)

    made.env.step = record
    for _ in range(10):
        made.iterate()
    actions, of_the_policy = torch.stack(taken[1:]), torch.stack(expected[1:])
    others = actions[(actions != of_the_policy).all(-1)]
    share = len(others) / actions[..., 0].numel()
    assert share == pytest.approx(0.3, abs=0.04)
    assert others.abs().max() <= 1 and others.mean().abs() < 0.05
    assert others.var().item() == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("variant", ["sac-normalized", "td3-normalized"])
def test_what_is_kept_of_a_run_needs_no_standardised_observations(variant):
    made = runs(cell(variant), 3, 4)
    for _ in range(2):
        made.iterate()
    obs = made.env.state
    assert not torch.allclose(made.standardiser(obs), obs, atol=0.1)
    kept = policy_of(made.spec, made.rows)
    for seen in (obs, 100 * obs):  # and one that is clipped
        torch.testing.assert_close(kept(seen), made.policy()(seen), rtol=0, atol=1e-5)
    networks = made.rows[:, : made.state.rows.shape[1]]
    assert not torch.allclose(made.state.rows, networks)
    # a policy trained before observations were clipped has no bounds
    spec = made.spec.model_copy(
        update={"algorithm": made.algorithm.model_copy(update={"normalize_observations": False})}
    )
    assert not torch.allclose(policy_of(spec, networks)(100 * obs), kept(100 * obs))


@pytest.mark.parametrize(("n_envs", "iteration"), [(1, 60), (4, 60), (7, 63), (100, 100)])
def test_an_iteration_counts_the_steps_of_a_run(n_envs, iteration):
    """Whole steps of all its environments, so at least `log_interval`."""
    made = runs(cell("ddpg", n_envs=n_envs, learning_starts=1000), 3, 4)
    made.iterate()
    assert made.env_steps == made.buffer.position * n_envs == iteration


@pytest.mark.parametrize(("buffer_size", "longest"), [(1_000_000, 100), (1_599, 99)])
def test_episodes_are_stored_whole_unless_buffer_size_is_too_small(buffer_size, longest, capsys):
    """However few steps there are to come."""
    where, how = {**POINT, "max_steps": 100}, {"name": "td3", "n_envs": 8, **SMALL}
    made = runs(cell_in(where, {**how, "buffer_size": buffer_size}, steps=1000), 1)
    told = capsys.readouterr().err
    assert made.buffer.longest == longest
    assert ("share, 199 steps, holds" in told) == ("to 1,600 or more" in told) == (longest < 100)


def test_a_short_training_takes_no_room_for_episodes_longer_than_it():
    where, how = {**POINT, "max_steps": 10_000}, {"name": "td3", "n_envs": 8, **SMALL}
    made = runs(cell_in(where, how, steps=800), 1)
    assert made.buffer.n_slots * 8 < 5000


def test_hindsight_is_over_for_a_run_that_succeeds_often_enough():
    """A threshold of 0 is reached with the hundredth episode: then nothing is relabelled."""
    released = {"fidelity": "released"}
    keys = released | {"until_success": 0.0}
    early, switching, plain = (runs(cell("dqn", x), 7) for x in (keys, keys, released))
    for one, episodes in ((early, 0), (switching, 99), (plain, 99)):
        one.recent.finished[:] = episodes
        assert one.iterate()["hindsight"].tolist() == [1]
    assert early.switched == [None] and int(early.recent.finished) < 100
    assert torch.equal(switching.rows, plain.rows), "the first iteration is the same"
    assert switching.switched == [60] and plain.switched == [None]
    columns = switching.iterate()
    plain.iterate()
    assert columns["hindsight"].tolist() == [0] and not torch.equal(switching.rows, plain.rows)
