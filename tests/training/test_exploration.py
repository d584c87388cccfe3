"""Squashed actions, annealed sigma and the learning-rate schedule."""

import math
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from scipy import integrate, special, stats
from stable_baselines3 import PPO
from torch import Tensor

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.envs.rollout import Rollout
from tests.training import small
from tests.training.small import STEPS, runs

cell = partial(small.cell, steps=STEPS * 10)


@pytest.mark.parametrize("exploration", ["gaussian", "squashed", "annealed"])
def test_what_the_environment_is_given(exploration, rollouts):
    """The predator moves by tanh of the Gaussian action, or by that action, clipped."""
    one = runs(cell(exploration=exploration, sigma_init=2.0), 1, 2)
    one.iterate()
    (rollout,) = rollouts
    moves = {"squashed": rollout.actions.tanh()}.get(exploration, rollout.actions.clamp(-1, 1))
    expected = (rollout.achieved + moves).clamp(-4, 4)
    torch.testing.assert_close(rollout.next_achieved, expected, rtol=0, atol=1e-6)
    assert float(rollout.actions.abs().max()) > 2, "kept is the action before the squashing"


def squashed_entropy(mean: float, sigma: float) -> float:
    """-integral of p log p over (-1, 1), p the density of tanh(N(mean, sigma))."""

    def integrand(a: float) -> float:
        p = stats.norm.pdf(math.atanh(a), mean, sigma) / (1 - a * a)
        return special.entr(p)

    value, error = integrate.quad(integrand, -1, 1, points=[math.tanh(mean)], limit=500)
    assert error < 1e-4
    return value


def entropy_of(actions: Tensor, log_std: Tensor) -> float:
    """As a run estimates it, from actions [step, action] before the squashing."""
    nothing = torch.zeros(1, 1, 0)
    rollout = Rollout(nothing, actions[None, None], *[nothing] * 6)
    return float(runs(cell(exploration="squashed"), 1)._entropy(rollout, log_std)[0])


@pytest.mark.parametrize("moments", [(0.0, 0.3), (0.0, 0.8), (0.7, 0.5), (-1.5, 0.2)])
def test_the_entropy_of_a_squashed_policy_is_its_integral(moments):
    """Actions are the quantiles of a Gaussian, different along each axis."""
    mean, sigma = moments
    log_std = torch.tensor([[math.log(sigma), math.log(sigma / 2), math.log(0.4)]])
    quantiles = torch.tensor(special.ndtri((np.arange(20_000) + 0.5) / 20_000), dtype=torch.float32)
    centre = torch.tensor([mean, -mean, 0.2])
    actions = centre + log_std.exp() * quantiles[:, None]
    found = entropy_of(actions, log_std)
    axes = (mean, sigma), (-mean, sigma / 2), (0.2, 0.4)
    assert found == pytest.approx(sum(squashed_entropy(*axis) for axis in axes), abs=3e-3)


def test_the_entropy_of_a_squashed_policy_is_finite_far_out():
    slope = 2 * (2 * math.log(2) - 160)  # log(1 - tanh(u)^2) is 2 (log 2 - |u|) far out
    gaussian = 1.5 * math.log(2 * math.pi * math.e)
    found = entropy_of(torch.tensor([[-80.0, 0.0, 80.0]]), torch.zeros(1, 3))
    assert found == pytest.approx(gaussian + slope, rel=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("ent_coef", "decay", "n"), [(0.0, 0, 5), (0.1, 1e-2, 5), (0.1, 0, 1)])
def test_only_its_schedule_moves_sigma(ent_coef, decay, n, compiled, monkeypatch):
    """It falls from the first to the last iteration, and neither learns nor decays."""
    monkeypatch.setattr("hindsight.training.runs.ENABLED", compiled)
    keys: dict[str, Any] = {"sigma_init": 0.8, "sigma_final": 0.05}
    keys |= {"ent_coef": ent_coef, "weight_decay": decay}
    one = runs(cell(exploration="annealed", steps=STEPS * n, **keys), 1, 2)
    for i in range(n):
        assert one.within_budget
        before = one.rows.clone()
        columns = one.iterate()
        expected = 0.8 * (0.05 / 0.8) ** (i / 4)  # its logarithm falls evenly
        log_std = one.agent.split(one.optimiser.rows)[2]
        np.testing.assert_allclose(log_std.exp().numpy(), expected, rtol=1e-5)
        assert columns["log_std"].tolist() == pytest.approx([math.log(expected)] * 2, abs=1e-5)
        assert not torch.equal(one.rows[:, :-3], before[:, :-3]), "the rest is learned"
    assert not one.within_budget
    for moment in (one.optimiser.m, one.optimiser.v):
        assert not one.agent.split(moment)[2].any()


def test_the_linear_learning_rate_is_that_of_stable_baselines():
    """In each update, by the progress that remains when Stable-Baselines3 asks for the rate."""
    log: list[float] = []

    def schedule(remaining):
        log.append(3e-3 * remaining)
        return log[-1]

    env, small_network = gymnasium.make("PredatorPrey-v0"), {"net_arch": [8]}
    how = {"n_steps": STEPS, "n_epochs": 1, "policy_kwargs": small_network}
    model = PPO("MultiInputPolicy", env, learning_rate=schedule, **how)
    log.clear()
    model.learn(STEPS * 10)
    expected = list(dict.fromkeys(log))  # it asks twice per update

    for n_envs in (1, 2):
        spec = cell(learning_rate_schedule="linear", n_steps=STEPS // n_envs, n_envs=n_envs)
        one, rates = runs(spec, 1, 2), []
        while one.within_budget:
            one.iterate()
            rates.append(one.optimiser.learning_rate.tolist())
        np.testing.assert_allclose(rates, [[x] * 2 for x in expected], rtol=1e-6, atol=1e-12)
