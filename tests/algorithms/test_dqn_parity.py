"""DQN against Stable-Baselines3's, and values known by hand.

Stable-Baselines3 does its own update, on batches that both implementations are given.
"""

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from torch import nn

from hindsight.algorithms import dqn
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.dqn import DQNSpec
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_OBS, linear, network, put_row, row_of

N_CHOICES = 4
AGENT = dqn.Agent.of(N_OBS, N_CHOICES, HIDDEN)
NO_NOISE = torch.empty(0)


def batches(n: int, runs: int = 1) -> list[Batch]:
    return twins.batches(n, runs, N_CHOICES)


def start(*learning_rates: float, weight_decay: float = 0.0) -> dqn.State:
    """As many runs, whose theta and theta^- differ."""
    rows = torch.stack([AGENT.initial_row(seed) for seed in range(len(learning_rates))])
    rows[:, AGENT.q.n_parameters :] = rows[:, : AGENT.q.n_parameters].flip(0, 1)
    return dqn.State(AGENT, rows, torch.tensor(learning_rates), weight_decay)


def twin_of(spec: DQNSpec, state: dqn.State) -> stable_baselines3.DQN:
    """Stable-Baselines3's DQN with theta and theta^- of the first run."""
    assert spec.max_grad_norm is not None, "Stable-Baselines3 always clips"
    env = twins.Wrapper(N_OBS, gymnasium.spaces.Discrete(N_CHOICES))
    names = ("target_update_interval", "max_grad_norm")
    options = {name: getattr(spec, name) for name in names}
    model = twins.build(stable_baselines3.DQN, spec, spec.learning_rate, env, **options)
    put_row(linear(model.q_net), state.online.rows[0])
    put_row(linear(model.q_net_target), state.target[0])
    return model


@pytest.mark.parametrize(("interval", "tau"), [(1000, 1.0), (5, 1.0), (1, 0.02)])
@pytest.mark.parametrize(("max_grad_norm", "weight_decay"), [(10.0, 0.0), (0.1, 0.0), (0.1, 0.03)])
def test_updates_equal_those_of_stable_baselines(
    monkeypatch, interval, tau, max_grad_norm, weight_decay
):
    """Losses, gradient norms, theta and theta^- through 12 updates of one network beside ours."""
    keys = {"target_update_interval": interval, "tau": tau, "weight_decay": weight_decay}
    spec = DQNSpec(hidden=HIDDEN, double=False, max_grad_norm=max_grad_norm, **keys)
    state = start(spec.learning_rate, weight_decay=weight_decay)
    rows, target = state.online.rows.clone(), state.target.clone()
    model = twin_of(spec, state)
    norms = []
    clip = nn.utils.clip_grad_norm_

    def noting_norm(*args):
        norms.append(float(clip(*args)))

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", noting_norm)
    for batch in batches(12):
        loss = twins.train(model, batch, 0)["train/loss"]
        model._on_step()  # where Stable-Baselines3 moves its target
        found = dqn.update(state, batch, NO_NOISE, spec)
        assert float(found.loss) == pytest.approx(loss, rel=1e-5)
        assert float(found.gradient_norm) == pytest.approx(norms[-1], rel=1e-4)
        assert (norms[-1] > max_grad_norm) == (max_grad_norm == 0.1)
        for ours, theirs in ((state.online.rows, model.q_net), (state.target, model.q_net_target)):
            torch.testing.assert_close(ours[0], row_of(linear(theirs)), rtol=0, atol=2e-6)
    assert float((state.online.rows - rows).abs().max()) > 3e-3, "the updates must move something"
    assert bool((state.target != target).any()) == (interval < 12)


@pytest.mark.parametrize("double", [True, False])
def test_importance_weights(double):
    rates, (batch,) = (1e-3, 3e-4, 1e-2), batches(1, runs=3)
    states, spec = (start(*rates), start(*rates)), DQNSpec(hidden=HIDDEN, double=double)
    twins.assert_weights_are_repetitions(dqn, spec, states, batch, torch.empty(3, 0, 1))


def test_the_double_target_by_hand():
    """Online: a' = 1; target: Q(s', .) = (5, 3, 4).  y = r + gamma 3, or for DQN r + gamma 5."""
    agent = dqn.Agent.of(1, 3, ())
    # A layer without inputs to speak of: its values are its biases.
    row = torch.tensor([[0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 5.0, 3.0, 4.0, 0.0, 0.0, 0.0]])
    nothing = torch.zeros(1, 2, 1)
    terminated = torch.tensor([[False, True]])
    batch = Batch(nothing, torch.tensor([[2, 2]]), torch.full((1, 2), -1.0), nothing, terminated)
    for double, expected in ((True, -1 + 0.9 * 3), (False, -1 + 0.9 * 5)):
        spec = DQNSpec(double=double, gamma=0.9)
        state = dqn.State(agent, row, torch.tensor([0.1]))
        found = dqn.update(state, batch, NO_NOISE, spec)
        torch.testing.assert_close(found.td_error, torch.tensor([[expected - 1, 2.0]]).abs())
        assert float(found.q_mean) == 1
    assert torch.equal(dqn.act(state, nothing), torch.tensor([[1, 1]]))


def test_epsilon_greedy():
    state = start(1e-3, 1e-3)
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(2, 4000, N_OBS, generator=generator)
    uniform = torch.rand(2, 4000, 2, generator=generator)
    best = dqn.act(state, obs)
    for run, row in enumerate(state.online.rows):
        assert torch.equal(best[run], network(AGENT.q, row, obs[run]).argmax(1))
    assert len(best.unique()) > 1
    chosen = dqn.act(state, obs, uniform, 0.25)
    explores = uniform[..., 0] < 0.25
    assert torch.equal(chosen[~explores], best[~explores])
    assert torch.equal(chosen[explores], (uniform[..., 1] * N_CHOICES).long()[explores])
    counts = torch.bincount(chosen[explores], minlength=N_CHOICES)
    assert float(counts.min()) > 0.2 * counts.sum()
    assert torch.equal(dqn.act(state, obs, uniform, 0.0), best)


@pytest.mark.parametrize("n_choices", [1, 2, 3, 10, 1_000_001])
def test_random_choices_lie_in_their_range(n_choices):
    """Also for the least and the largest float32 in [0, 1): the product is rounded down."""
    agent = dqn.Agent.of(N_OBS, n_choices, ())
    state = dqn.State(agent, torch.zeros(1, 2 * agent.q.n_parameters), torch.ones(1))
    largest = float(np.nextafter(np.float32(1), np.float32(0)))
    uniform = torch.tensor([[[0.5, 0.0], [0.5, largest]]])
    chosen = dqn.act(state, torch.zeros(1, 2, N_OBS), uniform, 1.0)
    assert chosen.tolist() == [[0, n_choices - 1]]
