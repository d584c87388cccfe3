"""Parity with Stable-Baselines3's DDPG, and with the notebook's update written with torch.nn."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from hindsight.algorithms import ddpg
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.ddpg import DDPGSpec
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS

stable_baselines3 = pytest.importorskip("stable_baselines3")

AGENT = ddpg.Agent.of(N_OBS, N_ACTIONS, HIDDEN)
UPDATES = 6


def network(n_in: int, n_out: int) -> nn.Sequential:
    """Two hidden layers of rectified linear units."""
    a, b = HIDDEN
    layers = nn.Linear(n_in, a), nn.ReLU(), nn.Linear(a, b), nn.ReLU(), nn.Linear(b, n_out)
    return nn.Sequential(*layers).double()


def descend(net: nn.Module, optimiser: torch.optim.Optimizer, loss: Tensor, spec: DDPGSpec) -> None:
    """A step of one network."""
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), spec.max_grad_norm)
    optimiser.step()


@pytest.mark.parametrize("weights", [False, True])
def test_against_the_algorithm_in_torch_nn(weights):
    """Algorithm 1 in float64 with automatic differentiation; importance weights included."""
    spec = DDPGSpec(hidden=HIDDEN)
    row = twins.starting_rows(AGENT, 0).double()
    q, mu = network(N_OBS + N_ACTIONS, 1), network(N_OBS, N_ACTIONS)
    target_q, target_mu = network(N_OBS + N_ACTIONS, 1), network(N_OBS, N_ACTIONS)
    nets = (q, mu, target_q, target_mu)
    twins.put_row(twins.linear(*nets), row[0])
    optimisers = [torch.optim.Adam(net.parameters(), 1e-3) for net in (q, mu)]
    state = ddpg.State(AGENT, row, torch.tensor([1e-3], dtype=torch.float64))
    for batch in twins.batches(UPDATES, 1, weights):
        values = {name: x for name, x in vars(batch).items() if x is not None}
        batch = Batch(**{k: x.double() if x.is_floating_point() else x for k, x in values.items()})
        d = ddpg.update(state, batch, torch.empty(0), spec)
        obs, next_obs = batch.obs[0], batch.next_obs[0]
        with torch.no_grad():
            value = target_q(torch.cat([next_obs, target_mu(next_obs).tanh()], -1))[:, 0]
            y = batch.rewards[0] + spec.gamma * torch.where(batch.terminated[0], 0, value)
        judged = q(torch.cat([obs, batch.actions[0]], -1))[:, 0]
        errors = mse_loss(judged, y, reduction="none")
        critic_loss = (errors if batch.weight is None else batch.weight[0] * errors).mean()
        torch.testing.assert_close(d.td_error[0], (judged - y).detach().abs())
        descend(q, optimisers[0], critic_loss, spec)
        descend(mu, optimisers[1], -q(torch.cat([obs, mu(obs).tanh()], -1)).mean(), spec)
        assert float(d.critic_loss) == pytest.approx(critic_loss.item(), rel=1e-9)
        assert float(d.q_mean) == pytest.approx(judged.mean().item(), rel=1e-9)
        with torch.no_grad():
            for net, target in ((q, target_q), (mu, target_mu)):
                for p, followed in zip(net.parameters(), target.parameters(), strict=True):
                    followed += spec.tau * (p - followed)
    expected = twins.row_of(twins.linear(*nets))
    torch.testing.assert_close(state.rows[0], expected, rtol=0, atol=1e-9)
