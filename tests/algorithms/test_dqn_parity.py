"""DQN against Stable-Baselines3's, Double DQN against autograd, and values known by hand.

Stable-Baselines3 does its own update, on batches that both implementations are given.
"""

import itertools
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from stable_baselines3.common.buffers import ReplayBufferSamples
from torch import Tensor, nn

from hindsight.algorithms import dqn
from hindsight.nn.adam import Adam
from hindsight.replay.transitions import Batch
from hindsight.specs.off_policy import DQNSpec

N_OBS, N_CHOICES, HIDDEN, BATCH = 6, 4, (32, 24), 48
AGENT = dqn.QNetwork.of(N_OBS, N_CHOICES, HIDDEN)
ACTIVE = torch.ones(1, dtype=torch.bool)


def batches(n: int, runs: int = 1, weights: bool = False) -> list[Batch]:
    """Batches of random transitions; TD errors lie on both sides of 1."""
    generator = torch.Generator().manual_seed(0)

    def normal(*size: int) -> Tensor:
        return torch.randn(runs, BATCH, *size, generator=generator)

    return [
        Batch(
            normal(N_OBS),
            torch.randint(N_CHOICES, (runs, BATCH), generator=generator),
            2 * normal(),
            normal(N_OBS),
            normal() > 0.8,
            normal().abs() if weights else None,
        )
        for _ in range(n)
    ]


def start(runs: int = 1) -> tuple[Tensor, Tensor]:
    """theta and theta^- of runs, which differ."""
    rows = torch.stack([AGENT.initial_row(seed) for seed in range(runs)])
    target = torch.stack([AGENT.initial_row(100 + seed) for seed in range(runs)])
    return rows, target


class Face(gymnasium.Env):
    """Spaces, and nothing that is ever stepped: what Stable-Baselines3 wants to see."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (N_OBS,))
    action_space = gymnasium.spaces.Discrete(N_CHOICES)


def network(row: Tensor) -> nn.Sequential:
    """The network of one run, as `torch.nn` builds it."""
    modules: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise((N_OBS, *HIDDEN, N_CHOICES)):
        modules += [nn.Linear(n_in, n_out), nn.ReLU()]
    built = nn.Sequential(*modules[:-1])
    put_row(built, row)
    return built


def parameters_of(built: nn.Sequential) -> list[Tensor]:
    """In the order of a row: bias, weight of each layer."""
    layers = [m for m in built if isinstance(m, nn.Linear)]
    return [p for layer in layers for p in (layer.bias, layer.weight)]


def put_row(built: nn.Sequential, row: Tensor) -> None:
    parameters = parameters_of(built)
    with torch.no_grad():
        for p, piece in zip(parameters, row.split([p.numel() for p in parameters]), strict=True):
            p.copy_(piece.view_as(p))


def row_of(built: nn.Sequential) -> Tensor:
    return torch.cat([p.detach().flatten() for p in parameters_of(built)])


def twin_of(spec: DQNSpec, row: Tensor, target: Tensor) -> stable_baselines3.DQN:
    """Stable-Baselines3's DQN with this theta and theta^-."""
    assert spec.max_grad_norm is not None, "Stable-Baselines3 always clips"
    model = stable_baselines3.DQN(
        "MlpPolicy",
        Face(),
        learning_rate=spec.learning_rate,
        buffer_size=BATCH,
        gamma=spec.gamma,
        tau=spec.tau,
        target_update_interval=spec.target_update_interval,
        max_grad_norm=spec.max_grad_norm,
        policy_kwargs={"net_arch": list(HIDDEN)},
        device="cpu",
    )
    model.set_logger(stable_baselines3.common.logger.configure(None, []))
    put_row(model.q_net.q_net, row)
    put_row(model.q_net_target.q_net, target)
    return model


def samples_of(batch: Batch) -> ReplayBufferSamples:
    columns = (batch.actions, batch.terminated.float(), batch.rewards)
    actions, dones, rewards = (x[0][:, None] for x in columns)
    return ReplayBufferSamples(batch.obs[0], actions, batch.next_obs[0], dones, rewards)


@pytest.mark.parametrize(("interval", "tau"), [(1000, 1.0), (5, 1.0), (1, 0.02)])
@pytest.mark.parametrize("max_grad_norm", [10.0, 0.1])
def test_updates_equal_those_of_stable_baselines(monkeypatch, interval, tau, max_grad_norm):
    """Losses, gradient norms, theta and theta^- through 12 updates of one network beside ours."""
    spec = DQNSpec(
        hidden=HIDDEN,
        double=False,
        target_update_interval=interval,
        tau=tau,
        max_grad_norm=max_grad_norm,
    )
    rows, target_rows = start()
    model = twin_of(spec, rows[0], target_rows[0])
    optimiser = Adam(rows.clone(), torch.tensor([spec.learning_rate]))
    moved = target_rows.clone()
    norms = []
    clip = nn.utils.clip_grad_norm_

    def noting_norm(*args):
        norms.append(float(clip(*args)))

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", noting_norm)
    for batch in batches(12):
        monkeypatch.setattr(model.replay_buffer, "sample", lambda *_, b=batch, **__: samples_of(b))
        model.train(1, BATCH)
        model._on_step()  # where Stable-Baselines3 moves its target
        found = dqn.update(AGENT, optimiser, moved, batch, spec, ACTIVE)
        loss = model.logger.name_to_value["train/loss"]
        assert float(found.loss) == pytest.approx(loss, rel=1e-5)
        assert float(found.gradient_norm) == pytest.approx(norms[-1], rel=1e-4)
        assert (norms[-1] > max_grad_norm) == (max_grad_norm == 0.1)
        for ours, theirs in ((optimiser.rows, model.q_net), (moved, model.q_net_target)):
            torch.testing.assert_close(ours[0], row_of(theirs.q_net), rtol=0, atol=2e-6)
    assert float((optimiser.rows - rows).abs().max()) > 3e-3, "the updates must move something"
    assert bool((moved != target_rows).any()) == (interval < 12)


def autograd_step(
    online: nn.Sequential, frozen: nn.Sequential, batch: Batch, run: int, spec: DQNSpec
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, Q(s, a), |delta| of one run by the papers' formulas; gradients are left in `online`."""
    obs, actions, rewards, next_obs = (
        x[run] for x in (batch.obs, batch.actions, batch.rewards, batch.next_obs)
    )
    with torch.no_grad():
        values = online(next_obs) if spec.double else frozen(next_obs)
        best = values.argmax(1)
        follows = frozen(next_obs)[torch.arange(BATCH), best]
        y = torch.where(batch.terminated[run], rewards, rewards + spec.gamma * follows)
    value = online(obs)[torch.arange(BATCH), actions]
    delta = y - value
    huber = torch.where(delta.abs() <= 1, delta**2 / 2, delta.abs() - 1 / 2)
    loss = (huber if batch.weight is None else batch.weight[run] * huber).mean()
    online.zero_grad()
    loss.backward()
    return loss.detach(), value.detach(), delta.detach().abs()


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_updates_equal_autograd(double, weights):
    """Three runs of different learning rates on one axis, each beside its own network."""
    spec = DQNSpec(hidden=HIDDEN, double=double, target_update_interval=4)
    rates = (1e-3, 3e-4, 1e-2)
    rows, target = start(3)
    online = [network(row) for row in rows]
    frozen = [network(row) for row in target]
    adams = [
        torch.optim.Adam(net.parameters(), rate) for net, rate in zip(online, rates, strict=True)
    ]
    optimiser, active = Adam(rows.clone(), torch.tensor(rates)), ACTIVE.repeat(3)
    for count, batch in enumerate(batches(10, runs=3, weights=weights), 1):
        found = dqn.update(AGENT, optimiser, target, batch, spec, active)
        for run in range(3):
            loss, value, td_error = autograd_step(online[run], frozen[run], batch, run, spec)
            assert (td_error > 1).any() and (td_error < 1).any()
            gradient = torch.cat([p.grad.flatten() for p in parameters_of(online[run])])
            adams[run].step()
            if count % 4 == 0:
                put_row(frozen[run], row_of(online[run]))
            torch.testing.assert_close(found.loss[run], loss, rtol=1e-5, atol=0)
            torch.testing.assert_close(found.gradient_norm[run], gradient.norm(), rtol=1e-4, atol=0)
            mean = value.mean()
            torch.testing.assert_close(found.q_mean[run], mean, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found.td_error[run], td_error, rtol=1e-4, atol=1e-5)
            close = {"rtol": 0, "atol": 1e-5}
            torch.testing.assert_close(optimiser.rows[run], row_of(online[run]), **close)
            torch.testing.assert_close(target[run], row_of(frozen[run]), **close)


def test_the_options_make_a_difference():
    """A negative control: each option that parity is shown for changes the parameters."""

    def trained(weights: bool = False, **options: object) -> Tensor:
        rows, target = start()
        optimiser = Adam(rows, torch.tensor([1e-3]))
        # A target that moves often, since a gradient's size alone means little to Adam.
        base = {"hidden": HIDDEN, "target_update_interval": 2}
        spec = DQNSpec.model_validate({**base, **options})
        for batch in batches(6, weights=weights):
            dqn.update(AGENT, optimiser, target, batch, spec, ACTIVE)
        return rows

    plain = trained()
    changes: list[dict[str, object]] = [
        {"double": False},
        {"gamma": 0.9},
        {"tau": 0.5},
        {"target_update_interval": 5},
        {"max_grad_norm": 0.1},
        {"weights": True},
    ]
    for change in changes:
        assert float((trained(**change) - plain).abs().max()) > 2e-5, change


def test_the_double_target_by_hand():
    """Online: a' = 1; target: Q(s', .) = (5, 3, 4).  y = r + gamma 3, or for DQN r + gamma 5."""
    agent = dqn.QNetwork.of(1, 3, ())
    # A layer without inputs to speak of: its values are its biases.
    online = torch.tensor([[0.0, 2.0, 1.0, 0.0, 0.0, 0.0]])
    target = torch.tensor([[5.0, 3.0, 4.0, 0.0, 0.0, 0.0]])
    nothing = torch.zeros(1, 2, 1)
    terminated = torch.tensor([[False, True]])
    batch = Batch(nothing, torch.tensor([[2, 2]]), torch.full((1, 2), -1.0), nothing, terminated)
    for double, expected in ((True, -1 + 0.9 * 3), (False, -1 + 0.9 * 5)):
        spec = DQNSpec(double=double, gamma=0.9)
        y = dqn.targets(agent, online, target, batch, spec)
        torch.testing.assert_close(y, torch.tensor([[expected, -1.0]]))
        td_error = dqn.update(
            agent, Adam(online.clone(), torch.tensor([0.1])), target.clone(), batch, spec, ACTIVE
        ).td_error
        torch.testing.assert_close(td_error, torch.tensor([[expected - 1, 2.0]]))


# -- probes: environments whose values are known --------------------------------------------------


@pytest.mark.parametrize("double", [True, False])
def test_values_that_are_known(double):
    """Two states, two actions; gamma 0.5, so that values settle within seconds.

    From state 0 action 0 leads to state 1 for -1, action 1 stays for -1 and is cut by a time limit
    each time; from state 1 action 0 ends the episode for 0, action 1 ends it for -1.
    Q(1, .) = (0, -1); Q(0, 0) = -1 + 0.5 x 0 = -1; Q(0, 1) = -1 + 0.5 x Q(0, 0) = -1.5.
    Were the time limit a termination, Q(0, 1) would be -1.
    """
    states = torch.eye(2)
    obs = states[[0, 0, 1, 1]][None]
    actions, rewards = torch.tensor([[0, 1, 0, 1]]), torch.tensor([[-1.0, -1.0, 0.0, -1.0]])
    terminated = torch.tensor([[False, False, True, True]])
    batch = Batch(obs, actions, rewards, states[[1, 0, 0, 0]][None], terminated)
    agent = dqn.QNetwork.of(2, 2, (16,))
    spec = DQNSpec(gamma=0.5, double=double, target_update_interval=20)
    rows = agent.initial_row(0)[None]
    target, optimiser = rows.clone(), Adam(rows, torch.tensor([0.01]))
    for _ in range(600):
        dqn.update(agent, optimiser, target, batch, spec, ACTIVE)
    expected = torch.tensor([[[-1.0, -1.5], [0.0, -1.0]]])
    torch.testing.assert_close(agent.q(rows, states[None]), expected, rtol=0, atol=0.01)
    assert dqn.greedy(agent, rows, states[None]).tolist() == [[0, 0]]


# -- the run axis ---------------------------------------------------------------------------------


def test_a_run_among_others_is_that_run_alone():
    spec = DQNSpec(hidden=HIDDEN, target_update_interval=3)
    rows, target = start(3)
    steps = batches(7, runs=3)
    alone = []
    for run in range(3):
        mine, its_target = rows[run : run + 1].clone(), target[run : run + 1].clone()
        optimiser = Adam(mine, torch.tensor([1e-3]))
        for batch in steps:
            values = {k: v[run : run + 1] for k, v in vars(batch).items() if v is not None}
            dqn.update(AGENT, optimiser, its_target, replace(batch, **values), spec, ACTIVE)
        alone.append((mine, its_target))
    optimiser = Adam(rows, torch.full((3,), 1e-3))
    for batch in steps:
        dqn.update(AGENT, optimiser, target, batch, spec, ACTIVE.repeat(3))
    torch.testing.assert_close(rows, torch.cat([r for r, _ in alone]), rtol=0, atol=1e-6)
    torch.testing.assert_close(target, torch.cat([t for _, t in alone]), rtol=0, atol=1e-6)


def test_a_run_that_is_not_active_stays_as_it_is():
    """Its target, too, also where its count of updates is one at which targets move."""
    spec = DQNSpec(hidden=HIDDEN, target_update_interval=2)
    rows, target = start(2)
    optimiser = Adam(rows, torch.full((2,), 1e-3))
    first, second, third = batches(3, runs=2)
    both = torch.tensor([True, True])
    dqn.update(AGENT, optimiser, target, first, spec, both)
    dqn.update(AGENT, optimiser, target, second, spec, both)
    assert torch.equal(rows, target)
    rows[1] += 1.0
    before = rows.clone(), target.clone()
    dqn.update(AGENT, optimiser, target, third, spec, torch.tensor([True, False]))
    assert torch.equal(rows[1], before[0][1]) and torch.equal(target[1], before[1][1])
    assert not torch.equal(rows[0], before[0][0])
    assert optimiser.steps.tolist() == [3, 2]


# -- acting and beginning -------------------------------------------------------------------------


def test_epsilon_greedy():
    rows, _ = start(2)
    generator = torch.Generator().manual_seed(0)
    obs = torch.randn(2, 4000, N_OBS, generator=generator)
    uniform = torch.rand(2, 4000, 2, generator=generator)
    best = dqn.greedy(AGENT, rows, obs)
    for run in range(2):
        assert torch.equal(best[run], network(rows[run])(obs[run]).argmax(1))
    assert len(best.unique()) > 1
    chosen = dqn.epsilon_greedy(AGENT, rows, obs, uniform, 0.25)
    explores = uniform[..., 0] < 0.25
    assert torch.equal(chosen[~explores], best[~explores])
    assert torch.equal(chosen[explores], (uniform[..., 1] * N_CHOICES).long()[explores])
    counts = torch.bincount(chosen[explores], minlength=N_CHOICES)
    assert float(counts.min()) > 0.2 * counts.sum()
    assert torch.equal(dqn.epsilon_greedy(AGENT, rows, obs, uniform, 0.0), best)


@pytest.mark.parametrize("n_choices", [1, 2, 3, 10, 1_000_001])
def test_random_choices_lie_in_their_range(n_choices):
    """Also for the least and the largest float32 in [0, 1): the product is rounded down."""
    agent = dqn.QNetwork.of(N_OBS, n_choices, ())
    rows, obs = torch.zeros(1, agent.q.n_parameters), torch.zeros(1, 2, N_OBS)
    largest = float(np.nextafter(np.float32(1), np.float32(0)))
    uniform = torch.tensor([[[0.5, 0.0], [0.5, largest]]])
    chosen = dqn.epsilon_greedy(agent, rows, obs, uniform, 1.0)
    assert chosen.tolist() == [[0, n_choices - 1]]


def test_first_parameters_are_distributed_as_those_of_pytorch():
    agent = dqn.QNetwork.of(25, 3, (400,))
    layers = agent.q.layers(agent.initial_row(5)[None])
    linears = [nn.Linear(25, 400), nn.Linear(400, 3)]
    assert [tuple(w.shape[1:]) for _, w in layers] == [tuple(x.weight.shape) for x in linears]
    for ours, bound in ((layers[0][1], 1 / 5), (layers[1][1], 1 / 20), (layers[0][0], 1 / 5)):
        n = ours.numel()
        assert float(ours.abs().max()) <= bound
        # U(-b, b): mean 0, mean square b^2 / 3, each within five standard errors.
        assert abs(float(ours.mean())) < 5 * bound / (3 * n) ** 0.5
        assert float(ours.square().mean()) == pytest.approx(bound**2 / 3, rel=5 * (0.8 / n) ** 0.5)
    assert not torch.equal(agent.initial_row(5), agent.initial_row(6))
    assert torch.equal(agent.initial_row(5), agent.initial_row(5))
