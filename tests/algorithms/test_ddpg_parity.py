"""Parity with Stable-Baselines3's DDPG, and with the notebook's update written with torch.nn."""

import itertools
from typing import Any

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


def parameters_of(model: stable_baselines3.DDPG) -> list[Tensor]:
    """A twin's parameters in the order of a row."""
    return twins.linear(model.critic, model.actor, model.critic_target, model.actor_target)


def both(spec: DDPGSpec, learning_rates: tuple[float, ...] = (1e-3,)) -> Tensor:
    """The rows after some updates by both implementations, which are compared all along."""
    runs = len(learning_rates)
    rows = twins.starting_rows(AGENT, *range(runs))
    state = ddpg.State(AGENT, rows, torch.tensor(learning_rates), spec.weight_decay)
    models = [twins.build(stable_baselines3.DDPG, spec, rate) for rate in learning_rates]
    for model, row in zip(models, rows, strict=True):
        twins.put_row(parameters_of(model), row)
    noise = twins.noises(ddpg, UPDATES, runs)
    for batch, eps in zip(twins.batches(UPDATES, runs), noise, strict=True):
        d = ddpg.update(state, batch, eps, spec)
        for run, model in enumerate(models):
            log = twins.train(model, batch, run)
            for ours, theirs in ((d.critic_loss, "critic_loss"), (d.actor_loss, "actor_loss")):
                expected = pytest.approx(log[f"train/{theirs}"], rel=1e-5, abs=1e-5)
                assert float(ours[run]) == expected, theirs
    for row, model in zip(state.rows, models, strict=True):
        torch.testing.assert_close(row, twins.row_of(parameters_of(model)), rtol=0, atol=1e-5)
    assert float((state.rows - rows).abs().max()) > 1e-3, "the updates must move something"
    return state.rows


VARIANTS: dict[str, dict[str, Any]] = {
    "notebook": {},
    "defaults of Stable-Baselines3": {"gamma": 0.99, "max_grad_norm": None},
    "moving average": {"tau": 0.1},
    "weight decay": {"weight_decay": 0.3},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_updates(variant):
    both(DDPGSpec(hidden=HIDDEN, **VARIANTS[variant]))


def test_runs_of_different_learning_rates():
    """Three runs on one axis, each its own twin."""
    both(DDPGSpec(hidden=HIDDEN), twins.LEARNING_RATES)


def test_the_options_make_a_difference():
    """A negative control: each option that parity is shown for changes the parameters."""
    rows = [both(DDPGSpec(hidden=HIDDEN, **options)) for options in VARIANTS.values()]
    for a, b in itertools.combinations(rows, 2):
        assert float((a - b).abs().max()) > 1e-4


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


def test_alone_equals_among_others():
    twins.assert_alone_equals_among_others(ddpg, DDPGSpec(hidden=HIDDEN))


def test_selected_and_resumed_runs_go_on():
    twins.assert_selected_and_resumed_runs_go_on(ddpg, DDPGSpec(hidden=HIDDEN))


def test_initial_rows():
    agent = ddpg.Agent.of(N_OBS, N_ACTIONS, (100, 50))
    twins.assert_initial_rows(ddpg, 1, agent.critic.n_parameters + agent.actor.n_parameters)
