"""Copies of failures, importance weights, cloning, dense rewards, and diagnostic columns.

Entropies are held to NumPy's histograms.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hindsight.algorithms import ppo
from hindsight.algorithms.ppo import Samples
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.on_policy import OnPolicyRuns, mechanism
from hindsight.training.signals import BINS
from tests.support.agents import agent as agent_for
from tests.training import small


def runs_of(fidelity: str, *seeds: int, hindsight: Any = None, **keys: Any) -> OnPolicyRuns:
    """Runs with options of hindsight, and with keys of PPO."""
    her = HindsightSpec.model_validate({"fidelity": fidelity, **(hindsight or {})})
    return small.runs(small.cell(her, **{"n_steps": 128, "n_epochs": 1, **keys}), *seeds)


def both(fidelity: str, *seeds: int, always: Any = None, **hindsight: Any) -> list[Any]:
    """Columns, samples, trajectories and copies of an iteration, with and without these options."""
    made = []
    for more in (hindsight, {}):
        runs = runs_of(fidelity, *seeds, hindsight={**(always or {}), **more}, n_envs=2)
        columns = runs.iterate()
        made.append((columns, *runs.learned[0][1:]))
    return made


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_only_failed_episodes_are_copied(fidelity: str) -> None:
    (_, some, real, copies), (_, whole, _, all_copies) = both(fidelity, 1, 2, copies="failed")
    n = some.n_real
    reward_ends = torch.isclose(some.returns[:, :n], torch.ones(1))  # real returns of 1: success
    assert reward_ends.any()
    for place in itertools.product(range(2), range(2)):  # run, environment
        over = np.flatnonzero(real.ends[place].numpy())
        for first, last in zip([0, *over[:-1] + 1], over, strict=False):
            part = *place, slice(first, last + 1)
            caught = bool(real.success[*place, last])
            assert torch.equal(copies.valid[part], all_copies.valid[part] & (not caught))
    assert 0 < some.valid[:, n:].sum() < whole.valid[:, n:].sum()


def test_a_column_tells_which_iterations_had_copies() -> None:
    """A rollout of 4 steps seldom holds a whole episode, of up to 9."""
    runs, found = runs_of("described", 1, 2, n_steps=4, batch_size=4), set()
    for _ in range(20):
        columns = runs.iterate()
        assert torch.equal(columns["hindsight"] > 0, columns["relabelled_share"] > 0)
        found |= {*columns["hindsight"].tolist()}
    assert found == {0.0, 1.0}


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_copies_weigh_by_the_truncated_importance_ratio(fidelity: str, k: int) -> None:
    """log pi(a | s, new goal) - log pi(a | s, original goal), whose largest is a column."""
    strategy = {"strategy": "episode", "k": k}
    weighted, plain = both(fidelity, 3, 4, always=strategy, weight="truncated")
    (found, _, copies), (expected, *_) = weighted[1:], plain[1:]
    n, steps = found.n_real, 128
    path, place = torch.from_numpy(np.indices(copies.valid.shape[1:])).flatten(1)
    env, t = (path // k, place) if fidelity == "described" else (path, place // k)
    original = env * steps + t
    log_ratio = expected.log_prob[:, n:] - expected.log_prob[:, original]
    valid = expected.valid[:, n:]
    assert torch.equal(copies.actions.flatten(1, 2), found.actions[:, original])
    assert (log_ratio[valid] > 0).any() and (log_ratio[valid] < 0).any()
    weighed = expected.advantage[:, n:] * log_ratio.exp().clamp(max=1)
    torch.testing.assert_close(found.advantage[:, n:][valid], weighed[valid])
    torch.testing.assert_close(found.advantage[:, :n], expected.advantage[:, :n])
    torch.testing.assert_close(found.returns, expected.returns)
    largest = log_ratio.masked_fill(~valid, -torch.inf).amax(1)
    torch.testing.assert_close(weighted[0]["hindsight_log_ratio_max"], largest)


def test_the_columns_by_hand() -> None:
    agent = agent_for(ppo.Agent, 2, 1, (3,))
    rows = torch.zeros(1, sum(agent.sizes))
    rows[0, -1] = math.log(2.0)  # mu = 0 everywhere, sigma = 2
    actions = torch.tensor([[[2.0], [0.0], [4.0], [6.0], [9.0]]])
    policy, _, log_std = agent.split(rows)
    obs = torch.zeros(1, 5, 2)
    log_prob = agent.log_prob(agent.policy(policy, obs), log_std, actions)
    advantage = torch.tensor([[1.0, 3.0, 5.0, 7.0, 99.0]])
    valid = torch.tensor([[True, True, True, True, False]])
    nothing = torch.zeros(1, 5)
    samples = Samples(obs, actions, log_prob, nothing, advantage, nothing, valid, n_real=2)
    columns = mechanism(agent, rows, samples, torch.tensor([[0.5, -1.5, 9.0]]))
    spread = math.sqrt((9 + 1 + 1 + 9) / 4)
    expected = {
        "advantage": (-3 - 1) / 2 / spread,
        "relabelled_advantage": (1 + 3) / 2 / spread,
        "z_squared": (1 + 0) / 2 - 1,
        "relabelled_z_squared": (4 + 9) / 2 - 1,
        "hindsight_log_ratio_max": 0.5,
        "hindsight_log_ratio_mean": -0.5,
    }
    assert {k: float(v) for k, v in columns.items()} == pytest.approx(expected, abs=1e-5)
    alone = mechanism(agent, rows, replace(samples, n_real=5), None)
    assert math.isnan(alone["relabelled_advantage"]) and math.isnan(alone["z_squared"]) is False


@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_clones_learn_the_actions_of_copies_alone(fidelity: str) -> None:
    """An epoch of one minibatch follows the gradient of the copies' mean log-likelihood."""
    runs = runs_of(fidelity, 5, hindsight={"clone": True}, batch_size=256)
    before = runs.rows.clone().requires_grad_()
    runs.iterate()
    samples = runs.learned[0][1]
    valid = samples.valid[0]
    assert not valid[: samples.n_real].any() and valid.any()
    policy, value, log_std = runs.agent.split(before)
    outputs, layers = samples.obs, runs.agent.policy.layers(policy)
    for i, (bias, weight) in enumerate(layers):
        outputs = outputs @ weight.mT + bias
        outputs = outputs if i == len(layers) - 1 else outputs.tanh()
    likelihood = runs.agent.log_prob(outputs, log_std, samples.actions)[0, valid].mean()
    (gradient,) = torch.autograd.grad(-likelihood, before)
    # Adam's first moment after its first step is a tenth of the gradient, clipped.
    size = float(gradient.norm())
    expected = 0.1 * gradient * min(1.0, 0.5 / (size + 1e-6))
    torch.testing.assert_close(runs.optimiser.m, expected, atol=1e-6, rtol=1e-4)
    assert torch.equal(runs.agent.split(runs.rows)[1], value)


def test_a_dense_reward_is_the_distance_gained() -> None:
    """It adds the decrease of the distance that the observations show."""
    plain, dense = (small.runs(small.cell(dense_reward=dense), 4) for dense in (False, True))
    columns = [runs.iterate() for runs in (plain, dense)]
    # the curves show the task's own return
    torch.testing.assert_close(columns[0]["return_mean"], columns[1]["return_mean"])
    (_, _, paths, _), (_, _, shaped, _) = plain.learned[0], dense.learned[0]
    gained, n = (shaped.rewards - paths.rewards)[0, 0].double(), 3
    obs, ends = paths.obs[0, 0].double(), paths.ends[0, 0]
    path = torch.cat([obs, paths.last_obs[0, 0].double()[None]])
    distance = (path[:, :n] - path[:, n : 2 * n]).norm(dim=1)
    decrease = distance[:-1] - distance[1:]
    torch.testing.assert_close(gained[~ends], decrease[~ends], rtol=0, atol=1e-5)
    # No move is longer than the diagonal of the action box.
    assert ends.any() and (gained[ends].abs() <= math.sqrt(3) + 1e-5).all()


def bits(values: np.ndarray, low: float, high: float, bins: int) -> float:
    """The corrected entropy, by NumPy's histogram."""
    counts = np.histogram(np.clip(values, low, high), bins, (low, high))[0]
    p = counts[counts > 0] / counts.sum()
    miller_madow = (len(p) - 1) / (2 * counts.sum() * math.log(2))
    return float(-(p * np.log2(p)).sum() + miller_madow)


@pytest.mark.parametrize("exploration", ["gaussian", "squashed"])
@pytest.mark.parametrize(
    "hindsight",
    [
        None,
        HindsightSpec(strategy="future", k=2),
        HindsightSpec(s_ratio=0.3, fidelity="described"),
        HindsightSpec(until_steps=1),
    ],
)
def test_the_entropies_are_of_what_the_last_iteration_learned_from(exploration, hindsight):
    """Rewards, executed actions and observations of the valid samples, real and copied."""
    where = {"n_dims": 2, "pushes_object": True}
    runs = small.runs(small.cell(hindsight, where=where, exploration=exploration), 3, 4)
    runs.iterate()
    runs.iterate()
    found = runs.evaluate()
    ((_, _, real, copies),) = runs.learned
    paths = [real] if copies is None else [real, copies]
    # Goals, prey's velocity (at most |(1, 1)| / 2), predator.
    limits = [4.0] * 4 + [math.sqrt(2) / 2] * 2 + [4.0] * 2
    for run in range(2):
        obs, actions, rewards = (
            np.concatenate([getattr(p, name)[run][p.valid[run]].numpy() for p in paths])
            for name in ("obs", "actions", "rewards")
        )
        if exploration == "squashed":
            actions = np.tanh(actions)
        expected = {
            "reward_entropy": bits(rewards, -1, 1, 3),
            "action_entropy": np.mean([bits(a, -1, 1, BINS) for a in actions.T]),
        }
        places = [bits(o, -g, g, BINS) for o, g in zip(obs.T, limits, strict=True)]
        expected["observation_entropy"] = np.mean(places)
        for name, value in expected.items():
            assert float(found[name][run]) == pytest.approx(value, abs=0.02), name
    assert float(found["reward_entropy"].min()) > 0.1
