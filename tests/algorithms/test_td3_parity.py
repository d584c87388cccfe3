"""Acting like Stable-Baselines3's TD3; gradients of TD3 and DDPG against autograd."""

import pytest
import torch
from torch import Tensor

from hindsight.algorithms import ddpg, td3
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.ddpg import DDPGSpec
from hindsight.specs.algorithms.td3 import TD3Spec
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS, network

stable_baselines3 = pytest.importorskip("stable_baselines3")

AGENT = td3.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
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
@pytest.mark.parametrize(
    ("module", "spec"), [(td3, TD3Spec(hidden=HIDDEN, policy_delay=1)), (ddpg, DDPGSpec())]
)
def test_gradients_against_automatic_differentiation(module, spec, weights):
    """Of the papers' losses, in float64, with and without importance weights."""
    agent = module.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
    row = twins.starting_rows(agent, 0).double()
    values = vars(twins.batches(1, 1, weights)[0]).items()
    batch = Batch(**{k: x.double() if k in FLOATS and x is not None else x for k, x in values})
    noise = twins.noises(module, 1, 1)[0].double()
    leaf = row[0].clone().requires_grad_()
    theta, phi, theta_bar, phi_bar = leaf.split(agent.sizes)

    def q(critics: Tensor, obs: Tensor, actions: Tensor) -> Tensor:
        x = torch.cat([obs, actions], -1)
        each = critics.chunk(agent.n_critics)
        return torch.stack([network(agent.critic, critic, x)[:, 0] for critic in each])

    obs, next_obs = batch.obs[0], batch.next_obs[0]
    with torch.no_grad():
        next_actions = network(agent.actor, phi_bar, next_obs).tanh()
        if module is td3:
            next_actions = (next_actions + (0.2 * noise[0]).clamp(-0.5, 0.5)).clamp(-1, 1)
        least = q(theta_bar, next_obs, next_actions).amin(0)
        y = batch.rewards[0] + spec.gamma * torch.where(batch.terminated[0], 0.0, least)
    delta = q(theta, obs, batch.actions[0]) - y
    judged = q(theta.detach(), obs, network(agent.actor, phi, obs).tanh())[0]
    weight = torch.ones_like(y) if batch.weight is None else batch.weight[0]
    losses = (weight * delta**2).mean(1).sum(), -judged.mean()
    critics, policy = torch.autograd.grad(sum(losses), leaf)[0].split(agent.sizes)[:2]
    # So small a step that the policy's gradient is that by the old critics.
    state = module.State(agent, row, torch.tensor([1e-14], dtype=torch.float64))
    d = module.update(state, batch, noise, spec)
    # Adam's first moment after one step is (1 - beta_1) times the clipped gradient.
    limit = spec.max_grad_norm or torch.inf
    for part, gradient in ((state.critics, critics), (state.actor, policy)):
        clipped = gradient * min(1.0, limit / float(gradient.norm() + 1e-6))
        torch.testing.assert_close(part.m[0] / (1 - 0.9), clipped, rtol=1e-8, atol=1e-10)
    for ours, loss in zip((d.critic_loss, d.actor_loss), losses, strict=True):
        torch.testing.assert_close(ours[0], loss.detach())
    torch.testing.assert_close(d.td_error[0], delta.detach().abs().mean(0))
