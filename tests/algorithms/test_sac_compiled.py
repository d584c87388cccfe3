"""The compiled SAC against its reference in PyTorch: same rows and batch, same result."""

from dataclasses import fields

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hindsight.algorithms import sac, sac_compiled
from hindsight.io.compiled import use_threads
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.sac import SACSpec


@st.composite
def updates(draw: st.DrawFn) -> tuple[sac.Agent, SACSpec, Batch, torch.Tensor]:
    """An agent, a configuration, a random batch of three runs and its noise."""
    n_obs, n_actions = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    widths = draw(st.lists(st.sampled_from([3, 8, 17]), min_size=1, max_size=3))
    spec = SACSpec(
        gamma=draw(st.sampled_from([0.0, 0.95, 1.0])),
        tau=draw(st.sampled_from([0.005, 0.05, 1.0])),
        max_grad_norm=draw(st.sampled_from([None, 0.1, 10.0])),
        weight_decay=draw(st.sampled_from([0.0, 0.01])),
        target_entropy=draw(st.sampled_from([None, -7.0])),
        ent_coef=draw(st.sampled_from(["auto", "auto_0.1", 0.05])),
    )
    runs, n = 3, draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(runs, *size, generator=generator)

    batch = Batch(
        normal(n, n_obs),
        normal(n, n_actions).tanh(),
        normal(n),
        normal(n, n_obs),
        normal(n) > 1,
        normal(n).exp() if draw(st.booleans()) else None,
    )
    agent = sac.Agent.of(n_obs, n_actions, widths)
    return agent, spec, batch, 0.5 * normal(2 * n, n_actions)


@settings(max_examples=120, deadline=None)
@given(updates(), st.sampled_from([1, 2]))
def test_an_update_is_that_of_the_reference(
    case: tuple[sac.Agent, SACSpec, Batch, torch.Tensor], threads: int
) -> None:
    agent, spec, batch, noise = case
    generator = torch.Generator().manual_seed(2)
    rows = torch.stack([agent.initial_row(seed, *spec.initialisation) for seed in range(3)])
    # Little, for where a tanh saturates, log(1 - a^2) is rounding alone.
    rows += 0.03 * torch.randn(rows.shape, generator=generator)
    states_seen = torch.cat([batch.obs, batch.next_obs], 1)
    drawn = sac.act(sac.State(agent, rows, torch.zeros(3)), states_seen, spec, noise)
    assume(drawn.abs().max() < 0.999)  # nearer to 1, log(1 - a^2) has few digits
    states = []
    for update in (sac.update, sac_compiled.update):
        state = sac.State(agent, rows, torch.tensor([1e-3, 3e-4, 0.0]), spec.weight_decay)
        # so large that a gradient of rounding does not decide where a parameter goes
        state.critics.eps = state.actor.eps = 1e-3
        use_threads(threads)
        states.append(([update(state, batch, noise, spec) for _ in range(3)], state))
    use_threads(1)
    (expected, reference), (found, compiled) = states
    for one, other in zip(expected, found, strict=True):
        for field in fields(one):
            values = getattr(other, field.name), getattr(one, field.name)
            torch.testing.assert_close(*values, atol=1e-4, rtol=1e-3, msg=field.name)
    torch.testing.assert_close(compiled.rows, reference.rows, atol=1e-5, rtol=1e-4)
    for name in ("critics", "actor"):
        for part in ("m", "v", "steps"):
            values = (getattr(getattr(state, name), part) for state in (compiled, reference))
            torch.testing.assert_close(*values, atol=2e-5, rtol=1e-3, msg=f"{name} {part}")


def test_the_density_of_saturated_actions_is_exact() -> None:
    u, log_std = np.linspace(-15, 15, 301), -4.0
    head = np.stack([u, np.full_like(u, log_std)], 1).astype(np.float32)
    noise, actions = np.zeros((2, 301, 1), np.float32)
    log_prob = np.zeros(301, np.float32)
    sac_compiled._sample(head, noise, actions, log_prob)
    slope = 1 / np.cosh(u) ** 2
    exact = -np.log(slope + 1e-6) - log_std - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(log_prob, exact, atol=1e-3)
    np.testing.assert_allclose(actions[:, 0], np.tanh(u), atol=1e-6)
