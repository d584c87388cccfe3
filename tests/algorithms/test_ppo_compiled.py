"""The compiled PPO against its reference in PyTorch: same row, samples and order, same result.

The reference's update and advantages are held to Stable-Baselines3 in `test_ppo_parity`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight.algorithms import ppo, ppo_compiled
from hindsight.algorithms.ppo import Agent, Samples
from hindsight.envs.environment import Environment
from hindsight.nn.adam import Adam
from hindsight.nn.numba_cache import use_threads
from hindsight.specs.algorithms.ppo import PPOSpec
from tests.support.agents import agent as agent_of_size
from tests.support.native import CASES, prey

TASKS = CASES | {"static": prey(prey="static", grid_size=4.0, max_steps=6)}


def agent_for(env: Environment, hidden: tuple[int, ...], **settings: Any) -> Agent:
    return Agent.of(env.spec, PPOSpec(hidden=hidden, **settings))


def rows_for(agent: Agent, seeds: Sequence[int]) -> torch.Tensor:
    """Parameters [run, parameter] away from the special initial ones: no bias or mean is zero."""
    rows = torch.stack([agent.initial_row(seed, 0.8) for seed in seeds])
    return rows + 0.05 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("exploration", ["gaussian", "squashed"])
@pytest.mark.parametrize("task", TASKS)
def test_a_rollout_is_that_of_the_reference(task: str, exploration) -> None:
    reference, compiled = (TASKS[task].make([0, 1]) for _ in range(2))
    agent = agent_for(reference, (16, 8), exploration=exploration)
    rows = rows_for(agent, [0, 1])
    n_steps = 300  # more than a block of beginnings
    generator = np.random.default_rng(3)
    size = (n_steps, 2, 2, agent.policy.sizes[-1])
    noise = torch.from_numpy(generator.standard_normal(size).astype(np.float32))
    for iteration in (1, 2):  # the second begins within episodes
        for env in (reference, compiled):
            env.prepare_rollout(iteration, n_steps)
        expected = ppo.collect(reference, agent, rows, noise)
        use_threads(2)
        found = ppo_compiled.collect(compiled, agent, rows, noise)
        use_threads(1)
        assert expected.over.any() and not expected.over.all()
        assert (expected.cuts is None) == (found.cuts is None)
        if expected.cuts is not None and found.cuts is not None:
            assert torch.equal(expected.cuts.truncated, found.cuts.truncated)
            torch.testing.assert_close(found.cuts.next_obs, expected.cuts.next_obs)
        for name, one in vars(expected).items():
            if isinstance(one, torch.Tensor):
                other = getattr(found, name)
                torch.testing.assert_close(other, one, atol=2e-4, rtol=1e-4, msg=name)
        for name, value in reference.state_dict().items():
            torch.testing.assert_close(compiled.state_dict()[name], value, atol=2e-4, rtol=1e-4)


@st.composite
def updates(draw: st.DrawFn) -> tuple[Agent, PPOSpec, Samples, torch.Tensor, float]:
    """An agent, a configuration, random samples of two runs, their order and a weight decay."""
    discrete = draw(st.booleans())
    widths = draw(st.lists(st.sampled_from([3, 8, 17]), min_size=1, max_size=3))
    n_obs, n_outputs = draw(st.integers(1, 9)), draw(st.integers(2, 4))
    agent = agent_of_size(Agent, n_obs, n_outputs, widths, (n_outputs,) if discrete else ())
    spec = PPOSpec(
        batch_size=draw(st.sampled_from([2, 16, 64])),
        n_epochs=draw(st.integers(1, 3)),
        clip_range=draw(st.sampled_from([0.05, 0.2])),
        clip_range_vf=draw(st.sampled_from([None, 0.1, 0.2])),
        target_kl=draw(st.sampled_from([None, 0.05, 0.003])),
        ent_coef=draw(st.sampled_from([0.0, 0.02])),
        vf_coef=draw(st.sampled_from([0.5, 1.0])),
        max_grad_norm=draw(st.sampled_from([0.1, 0.5, 100.0])),
        exploration="gaussian" if discrete else draw(st.sampled_from(["gaussian", "annealed"])),
        weight_decay=draw(st.sampled_from([0.0, 0.01])),
    )
    n, runs = draw(st.integers(2, 90)), 2
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(runs, n, *size, generator=generator)

    actions = normal(n_outputs)
    if discrete:
        actions = torch.randint(0, n_outputs, (runs, n, 1), generator=generator).float()
    rows = rows_for(agent, range(runs))
    obs = normal(n_obs)
    policy, value, log_std = agent.split(rows)
    log_prob = agent.log_prob(agent.policy(policy, obs), log_std, actions)
    valid = torch.rand(runs, n, generator=generator) < 0.8
    valid[:, 0] = True
    # In any order, but apart: a minibatch is divided by its spread, and that of two nearly equal
    # advantages has few digits.
    advantage = torch.rand(runs, n, generator=generator).argsort(1) * (4 / n) - 2
    samples = Samples(
        obs,
        actions,
        log_prob + 0.1 * normal(),
        agent.value(value, obs)[..., 0] + 0.1 * normal(),
        advantage,
        normal(),
        valid,
        n_real=draw(st.integers(1, n)),
        cloned=draw(st.booleans()),
    )
    order = ppo.orders([0, 1], draw(st.integers(1, 5)), valid, spec.n_epochs)
    return agent, spec, samples, order, draw(st.sampled_from([1e-3, 0.0]))


@settings(max_examples=150, deadline=None)
@given(updates(), st.sampled_from([1, 2]))
def test_an_update_is_that_of_the_reference(
    case: tuple[Agent, PPOSpec, Samples, torch.Tensor, float], threads: int
) -> None:
    agent, spec, samples, order, rate = case
    use_threads(threads)
    results = []
    for update in (ppo.update, ppo_compiled.update):
        optimiser = Adam(
            rows_for(agent, [0, 1]),
            torch.tensor([3e-4, rate]),
            # so large that a gradient of rounding does not decide where a parameter goes
            eps=1e-3,
            weight_decay=spec.weight_decay,
        )
        results.append((update(agent, optimiser, samples, order, spec), optimiser))
    use_threads(1)
    (expected, reference), (found, compiled) = results
    # Within rounding of its limit, a divergence may stop an update or not, and a sample be clipped
    # or not.
    stops = (expected.updates - found.updates).abs()
    clips = (expected.clip_fraction - found.clip_fraction).abs()
    # In the last minibatch, which may be the smallest, a sample counts most.
    smallest = (samples.valid.sum(1) - 1) % spec.batch_size + 1
    seen = smallest * expected.updates.clamp(min=1)
    assert ((stops == 1) | (stops == 0) & (clips < 1.5 / seen)).all()
    same = (stops == 0) & (clips < 1e-5)
    one = vars(expected) | reference.state_dict()
    other = vars(found) | compiled.state_dict()
    for name, value in one.items():
        values = other[name][same], value[same]
        torch.testing.assert_close(*values, atol=1e-5, rtol=1e-4, msg=name)


def test_orders_belong_to_run_epoch_and_iteration():
    """Each epoch of a run deals its valid samples once; neighbours only change the padding."""
    valid = torch.ones(2, 50, dtype=torch.bool)
    order = ppo.orders([3, 4], 7, valid, 3)
    assert torch.equal(order.sort(-1).values, torch.arange(50).expand(3, 2, 50))
    assert torch.equal(order, ppo.orders([4, 3], 7, valid, 3).flip(1))
    other = ppo.orders([3, 4], 8, valid, 3)
    assert len(torch.cat([order, other]).flatten(0, 1).unique(dim=0)) == 12
    fewer = valid.clone()
    fewer[0, ::2] = False
    dealt = ppo.orders([3, 4], 7, fewer, 3)[:, 0, :25]
    assert torch.equal(dealt.sort(-1).values, torch.arange(1, 50, 2).expand(3, 25))
    assert torch.equal(dealt, ppo.orders([3], 7, fewer[:1], 3)[:, 0])
