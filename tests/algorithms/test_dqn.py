"""DQN by hand: its double target and its choices (its update: test_off_policy_parity)."""

import numpy as np
import pytest
import torch

from hindsight.algorithms import dqn
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.dqn import DQNSpec
from tests.algorithms import twins
from tests.algorithms.twins import N_ACTIONS, N_OBS, network


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
        found = dqn.update(state, batch, torch.empty(0), spec)
        torch.testing.assert_close(found.td_error, torch.tensor([[expected - 1, 2.0]]).abs())
        assert float(found.q_mean) == 1
    assert torch.equal(dqn.act(state, nothing), torch.tensor([[1, 1]]))


def test_epsilon_greedy():
    state = twins.of_three_runs(dqn)
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(3, 4000, N_OBS, generator=generator)
    uniform = torch.rand(3, 4000, 2, generator=generator)
    best = dqn.act(state, obs)
    for run, row in enumerate(state.online.rows):
        assert torch.equal(best[run], network(state.agent.q, row, obs[run]).argmax(1))
    assert len(best.unique()) > 1
    chosen = dqn.act(state, obs, uniform, 0.25)
    explores = uniform[..., 0] < 0.25
    assert torch.equal(chosen[~explores], best[~explores])
    assert torch.equal(chosen[explores], (uniform[..., 1] * N_ACTIONS).long()[explores])
    counts = torch.bincount(chosen[explores], minlength=N_ACTIONS)
    assert float(counts.min()) > 0.3 * counts.sum()
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
