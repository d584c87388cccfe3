"""Parity with Stable-Baselines3's TD3, and gradients against automatic differentiation."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hindsight.algorithms import td3
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.td3 import TD3Spec
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS, SAMPLES, network

stable_baselines3 = pytest.importorskip("stable_baselines3")

AGENT = td3.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
UPDATES = 7
#: The numbers of a batch that are real.
FLOATS = ("obs", "actions", "rewards", "next_obs", "weight")


def parameters_of(model: stable_baselines3.TD3) -> list[Tensor]:
    """A twin's parameters in the order of a row."""
    return twins.linear(model.critic, model.actor, model.critic_target, model.actor_target)


def both(
    spec: TD3Spec, monkeypatch: pytest.MonkeyPatch, learning_rates: tuple[float, ...] = (1e-3,)
) -> Tensor:
    """The rows after some updates by both implementations, which are compared all along."""
    runs = len(learning_rates)
    rows = twins.starting_rows(AGENT, *range(runs))
    state = td3.State(AGENT, rows, torch.tensor(learning_rates), spec.weight_decay)
    models = [
        twins.build(
            stable_baselines3.TD3,
            spec,
            rate,
            policy_delay=spec.policy_delay,
            target_policy_noise=spec.target_policy_noise,
            target_noise_clip=spec.target_noise_clip,
        )
        for rate in learning_rates
    ]
    for model, row in zip(models, rows, strict=True):
        twins.put_row(parameters_of(model), row)
    noise = twins.noises(td3, UPDATES, runs)
    for i, (batch, eps) in enumerate(zip(twins.batches(UPDATES, runs), noise, strict=True), 1):
        d = td3.update(state, batch, eps, spec)
        for run, model in enumerate(models):
            with monkeypatch.context() as patch:
                patch.setattr(
                    Tensor, "normal_", lambda x, mean, std, e=eps[run]: x.copy_(mean + std * e)
                )
                log = twins.train(model, batch, run)
            compared = {"critic_loss": d.critic_loss, "actor_loss": d.actor_loss}
            due = i % spec.policy_delay == 0
            assert ("train/actor_loss" in log) == due == (not d.actor_loss.isnan().any())
            for name in ("critic_loss", "actor_loss") if due else ("critic_loss",):
                expected = pytest.approx(log[f"train/{name}"], rel=1e-5, abs=1e-5)
                assert float(compared[name][run]) == expected, name
    for row, model in zip(state.rows, models, strict=True):
        torch.testing.assert_close(row, twins.row_of(parameters_of(model)), rtol=0, atol=1e-5)
    assert float((state.rows - rows).abs().max()) > 1e-3, "the updates must move something"
    return state.rows


VARIANTS: dict[str, dict[str, Any]] = {
    "defaults of Stable-Baselines3": {},
    "no delay": {"policy_delay": 1},
    "a delay of three": {"policy_delay": 3},
    "no smoothing": {"target_policy_noise": 0.0},
    "much noise, clipped": {"target_policy_noise": 1.0},
    "much noise, hardly clipped": {"target_policy_noise": 1.0, "target_noise_clip": 5.0},
    "weight decay": {"weight_decay": 0.3},
    "clipping": {"max_grad_norm": 0.05},
    "discount": {"gamma": 0.9},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_updates(monkeypatch, variant):
    both(TD3Spec(hidden=HIDDEN, **VARIANTS[variant]), monkeypatch)


def test_runs_of_different_learning_rates(monkeypatch):
    """Three runs on one axis, each its own twin."""
    both(TD3Spec(hidden=HIDDEN), monkeypatch, twins.LEARNING_RATES)


def test_the_options_make_a_difference(monkeypatch):
    """A negative control: each option that parity is shown for changes the parameters."""
    rows = [both(TD3Spec(hidden=HIDDEN, **options), monkeypatch) for options in VARIANTS.values()]
    for a, b in itertools.combinations(rows, 2):
        assert float((a - b).abs().max()) > 1e-4


def test_acting():
    rows, obs = twins.starting_rows(AGENT, 0), torch.randn(1, 20, N_OBS)
    model = twins.build(stable_baselines3.TD3, TD3Spec(hidden=HIDDEN), 1e-3)
    twins.put_row(parameters_of(model), rows[0])
    state = td3.State(AGENT, rows, torch.tensor([1e-3]))
    with torch.no_grad():
        expected = model.actor(obs[0])
    torch.testing.assert_close(td3.act(state, obs)[0], expected, rtol=0, atol=1e-6)
    noise = torch.randn(1, 20, N_ACTIONS)
    explored = (expected + noise[0]).clamp(-1, 1)
    torch.testing.assert_close(td3.act(state, obs, noise)[0], explored, rtol=0, atol=1e-6)
    assert 0 < int((explored.abs() == 1).sum()) < explored.numel()


def test_importance_weights():
    """Weights of zero and two: the mean over the samples that are left."""
    spec = TD3Spec(hidden=HIDDEN, policy_delay=100)
    (batch,), noise = twins.batches(1, 3), twins.noises(td3, 1, 3)[0]
    half = SAMPLES // 2
    weight = torch.cat([torch.full((3, half), 2.0), torch.zeros(3, half)], dim=1)
    weighted, halved = twins.of_three_runs(td3), twins.of_three_runs(td3)
    d = td3.update(weighted, replace(batch, weight=weight), noise, spec)
    left = {name: x[:, :half] for name, x in vars(batch).items() if x is not None}
    d_half = td3.update(halved, replace(batch, **left), noise[:, :half], spec)
    torch.testing.assert_close(d.critic_loss, d_half.critic_loss)
    torch.testing.assert_close(d.td_error[:, :half], d_half.td_error)
    torch.testing.assert_close(weighted.critics.m, halved.critics.m, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("weights", [False, True])
def test_gradients_against_automatic_differentiation(weights):
    """Of the losses as `td3` states them, in float64; they are those of the paper."""
    spec = TD3Spec(hidden=HIDDEN, policy_delay=1)
    row = twins.starting_rows(AGENT, 0).double()
    values = vars(twins.batches(1, 1, weights)[0]).items()
    batch = Batch(**{k: x.double() if k in FLOATS and x is not None else x for k, x in values})
    noise = twins.noises(td3, 1, 1)[0].double()
    leaf = row[0].clone().requires_grad_()
    theta, phi, theta_bar, phi_bar = leaf.split(AGENT.sizes)

    def q(critic: Tensor, obs: Tensor, actions: Tensor) -> Tensor:
        return network(AGENT.critic, critic, torch.cat([obs, actions], -1))[:, 0]

    obs, next_obs = batch.obs[0], batch.next_obs[0]
    with torch.no_grad():
        epsilon = (0.2 * noise[0]).clamp(-0.5, 0.5)
        next_actions = (network(AGENT.actor, phi_bar, next_obs).tanh() + epsilon).clamp(-1, 1)
        least = torch.min(*(q(critic, next_obs, next_actions) for critic in theta_bar.chunk(2)))
        y = batch.rewards[0] + spec.gamma * torch.where(batch.terminated[0], 0.0, least)
    delta = torch.stack([q(critic, obs, batch.actions[0]) for critic in theta.chunk(2)]) - y
    judged = q(theta.chunk(2)[0].detach(), obs, network(AGENT.actor, phi, obs).tanh())
    losses = td3.critic_loss(delta[None], batch.weight), td3.policy_loss(judged[None, :, None])
    weight = torch.ones_like(y) if batch.weight is None else batch.weight[0]
    papers = (weight * delta**2).mean(1).sum(), -judged.mean()
    for ours, paper in zip(losses, papers, strict=True):
        torch.testing.assert_close(ours[0], paper)
    (expected,) = torch.autograd.grad(sum(losses), leaf)
    # So small a step that the policy's gradient is that by the old critics.
    state = td3.State(AGENT, row, torch.tensor([1e-14], dtype=torch.float64))
    d = td3.update(state, batch, noise, spec)
    # Adam's first moment after one step is (1 - beta_1) times the gradient.
    gradient = torch.cat([state.critics.m[0], state.actor.m[0]]) / (1 - 0.9)
    torch.testing.assert_close(gradient, expected[: len(gradient)], rtol=1e-8, atol=1e-10)
    for ours, loss in zip((d.critic_loss, d.actor_loss), losses, strict=True):
        torch.testing.assert_close(ours, loss.detach())


def test_alone_equals_among_others():
    twins.assert_alone_equals_among_others(td3, TD3Spec(hidden=HIDDEN))


def test_selected_and_resumed_runs_go_on():
    twins.assert_selected_and_resumed_runs_go_on(td3, TD3Spec(hidden=HIDDEN))


def test_initial_rows():
    agent = td3.Agent.of(N_OBS, N_ACTIONS, (100, 50))
    twins.assert_initial_rows(td3, 2, 2 * agent.critic.n_parameters + agent.actor.n_parameters)
