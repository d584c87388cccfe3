"""Parity with Stable-Baselines3's TD3, and gradients against automatic differentiation."""

import pytest
import torch
from torch import Tensor

from hindsight.algorithms import td3
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.td3 import TD3Spec
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS, network

stable_baselines3 = pytest.importorskip("stable_baselines3")

AGENT = td3.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
UPDATES = 7
#: The numbers of a batch that are real.
FLOATS = ("obs", "actions", "rewards", "next_obs", "weight")


def test_acting():
    rows, obs = twins.starting_rows(AGENT, 0), torch.randn(1, 20, N_OBS)
    model = twins.build(stable_baselines3.TD3, TD3Spec(hidden=HIDDEN), 1e-3)
    twins.put_row(twins.of_deterministic(model), rows[0])
    state = td3.State(AGENT, rows, torch.tensor([1e-3]))
    with torch.no_grad():
        expected = model.actor(obs[0])
    torch.testing.assert_close(td3.act(state, obs)[0], expected, rtol=0, atol=1e-6)
    noise = torch.randn(1, 20, N_ACTIONS)
    explored = (expected + noise[0]).clamp(-1, 1)
    torch.testing.assert_close(td3.act(state, obs, noise)[0], explored, rtol=0, atol=1e-6)
    assert 0 < int((explored.abs() == 1).sum()) < explored.numel()


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
