"""Parity with Stable-Baselines3's SAC, and gradients against automatic differentiation."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hindsight.algorithms import sac
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError, validated
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS, SAMPLES, network

stable_baselines3 = pytest.importorskip("stable_baselines3")

AGENT = sac.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
UPDATES = 6


def rows_at_the_limits() -> Tensor:
    """A run whose first log sigma is above its limit on some samples, whose second is below.

    Not for parity: at such sigmas Stable-Baselines3's log pi is mostly rounding in float32.
    """
    rows = twins.starting_rows(AGENT, 0)
    bias, weight = AGENT.actor.layers(rows[:, AGENT.sizes[0] :])[-1]
    bias[:, N_ACTIONS:] = torch.tensor([2.0, -20.0, 0.0])
    weight *= 5
    return rows


def test_acting(monkeypatch):
    row = twins.starting_rows(AGENT, 0)
    model = twins.build(stable_baselines3.SAC, SACSpec(hidden=HIDDEN), 1e-3)
    twins.put_row(twins.of_sac(model), row[0])
    state = sac.State(AGENT, row, torch.tensor([1e-3]))
    obs, eps = torch.randn(1, 20, N_OBS), torch.randn(1, 20, N_ACTIONS)
    with torch.no_grad():
        mode = model.actor(obs[0], deterministic=True)
        monkeypatch.setattr(torch.distributions.normal, "_standard_normal", lambda *_, **__: eps[0])
        drawn = model.actor(obs[0])
    torch.testing.assert_close(sac.act(state, obs)[0], mode, rtol=0, atol=1e-6)
    torch.testing.assert_close(sac.act(state, obs, eps)[0], drawn, rtol=0, atol=1e-6)
    assert float((drawn - mode).abs().max()) > 0.1


def losses(row: Tensor, batch: Batch, noise: Tensor, spec: SACSpec) -> tuple[Tensor, ...]:
    """J_Q, J_pi and J(alpha) of one run as `sac` states them, on torch.distributions.

    They are compared with the paper's equations, written out here.
    """
    theta, phi, theta_bar = row.split(AGENT.sizes)
    log_alpha, critics, targets = phi[-1], theta.chunk(2), theta_bar.detach().chunk(2)
    alpha = log_alpha.exp().detach()

    def policy(obs: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = network(AGENT.actor, phi[:-1], obs).chunk(2, dim=-1)
        sigma = log_std.clamp(-20, 2).exp()
        a = (mean + sigma * eps).tanh()
        # log N(u; mu, sigma) at u = mu + sigma eps is log N(eps; 0, 1) - log sigma.
        log_prob = torch.distributions.Normal(0, 1).log_prob(eps) - sigma.log()
        return a, (log_prob - torch.log(1 - a**2 + 1e-6)).sum(-1)

    def q(rows: Any, obs: Tensor, actions: Tensor) -> Tensor:
        x = torch.cat([obs, actions], dim=-1)
        return torch.stack([network(AGENT.critic, r, x)[:, 0] for r in rows])

    with torch.no_grad():
        next_actions, next_log_prob = policy(batch.next_obs[0], noise[0, SAMPLES:])
        value = q(targets, batch.next_obs[0], next_actions).min(0).values - alpha * next_log_prob
        y = torch.where(batch.terminated[0], 0.0, spec.gamma * value) + batch.rewards[0]
    weight = torch.ones_like(y) if batch.weight is None else batch.weight[0]
    delta = q(critics, batch.obs[0], batch.actions[0]) - y
    actions, log_prob = policy(batch.obs[0], noise[0, :SAMPLES])
    judged = q([c.detach() for c in critics], batch.obs[0], actions)
    j_q = sac.critic_loss(delta[None], batch.weight)[0]
    j_pi = sac.policy_loss(log_prob[None], judged[None], alpha[None])[0]
    j_alpha = sac.temperature_loss(log_alpha[None], log_prob.detach()[None], -N_ACTIONS)
    for ours, paper in (
        (j_q, (weight * delta**2 / 2).mean(1).sum()),
        (j_pi, (alpha * log_prob - judged.min(0).values).mean()),
        (j_alpha, -(log_alpha * (log_prob - N_ACTIONS)).mean()),
    ):
        torch.testing.assert_close(ours[0], paper)
    return j_q[0], j_pi[0], j_alpha[0]


@pytest.mark.parametrize("weights", [False, True])
def test_gradients_against_automatic_differentiation(weights):
    """In float64; importance weights, which Stable-Baselines3 lacks, included."""
    spec = SACSpec(hidden=HIDDEN)
    row = rows_at_the_limits()[0].double()
    batch = twins.batches(1, 1, weights)[0]
    batch = Batch(
        *(x if x is None or x.dtype == torch.bool else x.double() for x in vars(batch).values())
    )
    noise = twins.noises(sac, 1, 1)[0].double()
    leaf = row.clone().requires_grad_()
    j_q, j_pi, j_alpha = losses(leaf, batch, noise, spec)
    (expected,) = torch.autograd.grad(j_q + j_pi + j_alpha, leaf)
    # So small a step that the policy's gradient is that by the old critics.
    state = sac.State(AGENT, row[None], torch.tensor([1e-14], dtype=torch.float64))
    d = sac.update(state, batch, noise, spec)
    # Adam's first moment after one step is (1 - beta_1) times the gradient.
    gradient = torch.cat([state.critics.m[0], state.actor.m[0]]) / (1 - 0.9)
    torch.testing.assert_close(gradient, expected[: len(gradient)], rtol=1e-8, atol=1e-10)
    for ours, loss in ((d.critic_loss, j_q), (d.actor_loss, j_pi)):
        assert float(ours[0]) == pytest.approx(loss.item(), rel=1e-9)
    for norm, part in zip(
        (d.critic_gradient_norm, d.actor_gradient_norm),
        (expected[: AGENT.sizes[0]], expected[AGENT.sizes[0] :][: AGENT.actor.n_parameters]),
        strict=True,
    ):
        assert float(norm[0]) == pytest.approx(float(part.norm()), rel=1e-9)


def test_the_case_exercises_what_it_should():
    """Both critics are the smaller one somewhere; log sigma lies on either side of its limits."""
    row, batch = rows_at_the_limits()[0], twins.batches(1, 1)[0]
    theta, phi, _ = row.split(AGENT.sizes)
    log_std = network(AGENT.actor, phi[:-1], batch.obs[0])[:, N_ACTIONS:]
    assert 0.1 < float((log_std[:, 0] > 2).float().mean()) < 0.9
    assert 0.1 < float((log_std[:, 1] < -20).float().mean()) < 0.9
    x = torch.cat([batch.obs[0], batch.actions[0]], dim=-1)
    a, b = (network(AGENT.critic, r, x) for r in theta.chunk(2))
    assert 0.1 < float((a < b).float().mean()) < 0.9


def test_td_errors():
    """For priorities: per sample, the mean distance of the two critics from y."""
    spec = SACSpec(hidden=HIDDEN, gamma=0.0)
    state = twins.of_three_runs(sac)
    theta = state.rows[:, : AGENT.sizes[0]]
    (batch,), noise = twins.batches(1, 3), twins.noises(sac, 1, 3)[0]
    d = sac.update(state, batch, noise, spec)
    for run in range(3):
        x = torch.cat([batch.obs[run], batch.actions[run]], dim=-1)
        q = torch.stack([network(AGENT.critic, r, x)[:, 0] for r in theta[run].chunk(2)])
        expected = (q - batch.rewards[run]).abs().mean(0)
        torch.testing.assert_close(d.td_error[run], expected, rtol=1e-5, atol=1e-6)
        assert float(d.q_mean[run]) == pytest.approx(float(q.mean()), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("ent_coef", ["auto", "auto_0.1", "auto_1e-3", 0.05])
def test_the_first_temperature_is_that_of_stable_baselines3(ent_coef):
    spec = SACSpec(hidden=HIDDEN, ent_coef=ent_coef)
    model = twins.build(stable_baselines3.SAC, spec, 1e-3, ent_coef=ent_coef)
    theirs = twins.of_sac(model)[-len(twins.linear(model.critic_target)) - 1]
    state = sac.State(AGENT, AGENT.initial_row(0, *spec.initialisation)[None], torch.ones(1))
    assert float(state.log_alpha) == pytest.approx(float(theirs), abs=1e-6)
    assert spec.learns_temperature == (model.ent_coef_optimizer is not None)


@pytest.mark.parametrize("wrong", [0, -1.0, "auto_0", "auto_x", "auto_", "often", math.inf, True])
def test_invalid_temperatures_are_reported(wrong):
    with pytest.raises(SpecError, match="ent_coef"):
        validated(SACSpec, {"ent_coef": wrong})


def test_a_temperature_has_one_name():
    """Cells are named by their specification: the default changes none, spelling makes no other."""
    names = {CellSpec(algorithm={"name": "sac", "ent_coef": e}).name for e in ("auto", "auto_1.0")}
    assert names == {CellSpec(algorithm={"name": "sac"}).name}
    others = ["auto_0.1", "auto_0.10", 0.1]
    specs = [CellSpec(algorithm={"name": "sac", "ent_coef": e}) for e in others]
    assert specs[0].hash == specs[1].hash != specs[2].hash
    assert "sac-alpha-auto-0.1-" in specs[0].name and "sac-alpha-0.1-" in specs[2].name
