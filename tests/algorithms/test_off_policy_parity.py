"""Parity of the off-policy algorithms with Stable-Baselines3; what it leaves out, by hand."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from hindsight.algorithms import ddpg, dqn, sac, td3
from hindsight.replay.transitions import Batch
from hindsight.specs.algorithms.ddpg import DDPGSpec
from hindsight.specs.algorithms.dqn import DQNSpec
from hindsight.specs.algorithms.sac import SACSpec
from hindsight.specs.algorithms.td3 import TD3Spec
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError, validated
from tests.algorithms import twins
from tests.algorithms.twins import HIDDEN, N_ACTIONS, N_OBS, SAMPLES
from tests.support.agents import agent as agent_for

stable_baselines3 = pytest.importorskip("stable_baselines3")
UPDATES = 7


@contextmanager
def of_distributions(noise: Tensor) -> Iterator[None]:
    """SAC draws standard normal numbers for its actions, and then for the next ones."""
    draws = iter(noise.split(SAMPLES))
    with pytest.MonkeyPatch.context() as patch:
        drawn: Callable[..., Tensor] = lambda *_, **__: next(draws)  # noqa: E731
        patch.setattr(torch.distributions.normal, "_standard_normal", drawn)
        yield
    assert next(draws, None) is None, "all noise is used"


@contextmanager
def in_place(noise: Tensor) -> Iterator[None]:
    """TD3 fills a tensor with the noise of its target policy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "normal_", lambda x, mean, std: x.copy_(mean + std * noise))
        yield


@dataclass(frozen=True)
class Algorithm:
    """One of our algorithms and its twin in Stable-Baselines3."""

    module: ModuleType
    spec: Any
    theirs: str  # its class in Stable-Baselines3
    parameters_of: Callable[[Any], Sequence[Tensor]]
    noise: Any  # a context in which a twin's update draws our noise; DDPG and DQN draw none
    n_critics: int
    more: Callable[[Any], dict[str, Any]]  # a twin's further arguments
    variants: dict[str, dict[str, Any]]

    def spec_of(self, variant: str) -> Any:
        return self.spec(hidden=HIDDEN, **self.variants[variant])

    def batches(self, n: int, runs: int) -> list[Batch]:
        return twins.batches(n, runs, discrete=self.module is dqn)


ALGORITHMS = {
    "dqn": Algorithm(
        dqn, partial(DQNSpec, double=False), "DQN", twins.of_dqn, nullcontext, 1,
        # Instead of its own clipping there is that of all twins.
        lambda spec: {
            "target_update_interval": spec.target_update_interval, "max_grad_norm": math.inf,
        },
        {
            "defaults of Stable-Baselines3": {},
            "a target that moves": {"target_update_interval": 3},
            "moving average": {"target_update_interval": 1, "tau": 0.1},
            "clipping": {"max_grad_norm": 0.05},
            "weight decay": {"weight_decay": 0.3},
            "discount": {"gamma": 0.9},
        },
    ),
    "ddpg": Algorithm(
        ddpg, DDPGSpec, "DDPG", twins.of_deterministic, nullcontext, 1,
        lambda spec: {},
        {
            "notebook": {},
            "defaults of Stable-Baselines3": {"gamma": 0.99, "max_grad_norm": None},
            "moving average": {"tau": 0.1},
            "weight decay": {"weight_decay": 0.3},
        },
    ),
    "sac": Algorithm(
        sac, SACSpec, "SAC", twins.of_sac, of_distributions, 2,
        lambda spec: {
            "target_entropy": "auto" if spec.target_entropy is None else spec.target_entropy,
            "ent_coef": spec.ent_coef,
        },
        {
            "papers": {},
            "defaults of Stable-Baselines3": {"gamma": 0.99, "tau": 0.005},
            "weight decay": {"weight_decay": 0.3},
            "clipping": {"max_grad_norm": 0.05},
            "target entropy": {"target_entropy": 5.0},
            "fixed temperature": {"ent_coef": 0.05, "weight_decay": 0.1},
        },
    ),
    "td3": Algorithm(
        td3, TD3Spec, "TD3", twins.of_deterministic, in_place, 2,
        lambda spec: {
            name: getattr(spec, name)
            for name in ("policy_delay", "target_policy_noise", "target_noise_clip")
        },
        {
            "defaults of Stable-Baselines3": {},
            "no delay": {"policy_delay": 1},
            "a delay of three": {"policy_delay": 3},
            "no smoothing": {"target_policy_noise": 0.0},
            "much noise, clipped": {"target_policy_noise": 1.0},
            "much noise, hardly clipped": {"target_policy_noise": 1.0, "target_noise_clip": 5.0},
            "weight decay": {"weight_decay": 0.3},
            "clipping": {"max_grad_norm": 0.05},
            "discount": {"gamma": 0.9},
        },
    ),
}  # fmt: skip
ACTOR_CRITICS = {name: of for name, of in ALGORITHMS.items() if name != "dqn"}


def both(of: Algorithm, spec: Any, learning_rates: tuple[float, ...] = (1e-3,)) -> None:
    """Some updates by both implementations, compared after each."""
    agent, runs = agent_for(of.module.Agent, N_OBS, N_ACTIONS, HIDDEN), len(learning_rates)
    rows = twins.starting_rows(agent, *range(runs))
    if isinstance(spec, SACSpec) and not spec.learns_temperature:
        rows[:, sum(agent.sizes[:2]) - 1] = math.log(spec.ent_coef)  # a twin has no parameter
    state = of.module.TrainState(agent, rows, torch.tensor(learning_rates), spec.weight_decay)
    theirs = getattr(stable_baselines3, of.theirs)
    models = [twins.build(theirs, spec, rate, **of.more(spec)) for rate in learning_rates]
    for model, row in zip(models, rows, strict=True):
        twins.put_row(of.parameters_of(model), row)
    noise = twins.noises(of.module, UPDATES, runs)
    names = {name: name for name in ("loss", "critic_loss", "actor_loss")} | {"alpha": "ent_coef"}
    for i, (batch, eps) in enumerate(zip(of.batches(UPDATES, runs), noise, strict=True), 1):
        d = of.module.update(state, batch, eps, spec)
        ours = {name: getattr(d, name) for name in names if hasattr(d, name)}
        due = i % getattr(spec, "policy_delay", 1) == 0
        if not due:
            assert ours.pop("actor_loss").isnan().all()
        for run, model in enumerate(models):
            with of.noise(eps[run]):
                log = twins.train(model, batch, run)
            assert due or "train/actor_loss" not in log
            for name, values in ours.items():
                expected = pytest.approx(log[f"train/{names[name]}"], rel=1e-5, abs=1e-5)
                assert float(values[run]) == expected, name
            for part, network in twins.networks(model).items():
                if due or part != "actor_":
                    norm = pytest.approx(network.norm, rel=1e-4)
                    assert float(getattr(d, f"{part}gradient_norm")[run]) == norm
    for row, model in zip(state.rows, models, strict=True):
        torch.testing.assert_close(row, twins.row_of(of.parameters_of(model)), rtol=0, atol=1e-5)
    assert float((state.rows - rows).abs().max()) > 1e-3, "the updates must move something"


@pytest.mark.parametrize(
    ("name", "variant"), [(name, v) for name, of in ALGORITHMS.items() for v in of.variants]
)
def test_updates(name: str, variant: str) -> None:
    both(ALGORITHMS[name], ALGORITHMS[name].spec_of(variant))


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_runs_of_different_learning_rates(algorithm: Algorithm) -> None:
    """Three runs on one axis, each its own twin."""
    both(algorithm, algorithm.spec(hidden=HIDDEN), twins.LEARNING_RATES)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("module", "kind"), [(sac, SACSpec), (td3, TD3Spec), (ddpg, DDPGSpec)])
def test_the_policy_and_the_critics_have_their_own_learning_rates(
    module: ModuleType, kind: Any, compiled: bool
) -> None:
    """Adam's first step is proportional to its rate, and the policy's follows the critics'."""
    found = {}
    for actor in (1e-3, 2e-4):
        how = kind(hidden=HIDDEN, learning_rate=0.5, actor_lr=actor, critic_lr=1e-3)
        how = how.model_copy(update={"policy_delay": 1}) if kind is TD3Spec else how
        agent = agent_for(module.Agent, N_OBS, N_ACTIONS, HIDDEN)
        state = module.TrainState(agent, before := twins.starting_rows(agent, 0), how.rate_of)
        (batch,), (noise,) = twins.batches(1), twins.noises(module, 1, 1)
        if compiled:
            engine = import_module(how.compiled_module).ENGINE
            engine.update(state, batch, noise[:, None], how, 1)
        else:
            module.update(state, batch, noise, how)
        found[actor] = (state.rows - before).split(agent.sizes, dim=1)
    assert torch.equal(found[1e-3][0], found[2e-4][0]), "the critics"
    torch.testing.assert_close(0.2 * found[1e-3][1], found[2e-4][1], rtol=1e-3, atol=3e-7)
    assert found[1e-3][1].abs().max() > 5e-4


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_importance_weights(algorithm: Algorithm) -> None:
    """A weighted update is that of a batch with as many copies of each sample, for the critics.

    Weights leave the policy alone.  Stable-Baselines3, to which updates without weights are held,
    has no importance weights.
    """
    module = algorithm.module
    spec = algorithm.spec(hidden=HIDDEN, **({"policy_delay": 1} if module is td3 else {}))
    states = [twins.of_three_runs(module) for _ in range(3)]
    for state, name in itertools.product(states, states[0].optimised):
        getattr(state, name).learning_rate.zero_()  # the policy sees critics that do not differ
    (batch,), noise = algorithm.batches(1, 3), twins.noises(module, 1, 3)[0]
    counts = torch.arange(SAMPLES) % 4
    copies = torch.arange(SAMPLES).repeat_interleave(counts)
    weight = (counts * SAMPLES / len(copies)).expand(3, SAMPLES)
    parts = {name: x[:, copies] for name, x in vars(batch).items() if x is not None}
    of_copies = noise.unflatten(1, (module.NOISES, SAMPLES))[:, :, copies].flatten(1, 2)
    weighted = module.update(states[0], replace(batch, weight=weight), noise, spec)
    repeated = module.update(states[1], Batch(**parts), of_copies, spec)
    plain = module.update(states[2], batch, noise, spec)
    moments = [getattr(state, state.optimised[0]).m for state in states[:2]]
    torch.testing.assert_close(*moments, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(weighted.td_error[:, copies], repeated.td_error)
    for name in ("loss", "gradient_norm", "critic_loss", "critic_gradient_norm"):
        if hasattr(weighted, name):
            torch.testing.assert_close(getattr(weighted, name), getattr(repeated, name))
            assert (getattr(weighted, name) != getattr(plain, name)).all()
    if module is not dqn:
        torch.testing.assert_close(weighted.actor_gradient_norm, plain.actor_gradient_norm)


@pytest.mark.parametrize("algorithm", ACTOR_CRITICS.values(), ids=ACTOR_CRITICS)
def test_td_errors(algorithm: Algorithm) -> None:
    """For priorities: per sample, the mean distance of the critics from y, here the reward."""
    state = twins.of_three_runs(algorithm.module)
    critics = state.critics.rows.clone()
    (batch,), noise = twins.batches(1, 3), twins.noises(algorithm.module, 1, 3)[0]
    d = algorithm.module.update(state, batch, noise, algorithm.spec(hidden=HIDDEN, gamma=0.0))
    for run, row in enumerate(critics):
        x = torch.cat([batch.obs[run], batch.actions[run]], dim=-1)
        each = row.chunk(algorithm.n_critics)
        q = torch.stack([twins.network(state.agent.critic, r, x)[:, 0] for r in each])
        expected = (q - batch.rewards[run]).abs().mean(0)
        torch.testing.assert_close(d.td_error[run], expected, rtol=1e-5, atol=1e-6)
        assert float(d.q_mean[run]) == pytest.approx(float(q.mean()), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("algorithm", ACTOR_CRITICS.values(), ids=ACTOR_CRITICS)
def test_acting(algorithm: Algorithm) -> None:
    agent = agent_for(algorithm.module.Agent, N_OBS, N_ACTIONS, HIDDEN)
    noise = {} if algorithm.module is sac else {"exploration_noise": 1.0}
    row, spec = twins.starting_rows(agent, 0), algorithm.spec(hidden=HIDDEN, **noise)
    theirs = getattr(stable_baselines3, algorithm.theirs)
    model = twins.build(theirs, spec, 1e-3, **algorithm.more(spec))
    twins.put_row(algorithm.parameters_of(model), row[0])
    state = algorithm.module.TrainState(agent, row, torch.tensor([1e-3]))
    obs, eps = torch.randn(1, 20, N_OBS), torch.randn(1, 20, N_ACTIONS)
    with torch.no_grad():
        mode = model.policy._predict(obs[0], deterministic=True)
        drawn = (mode + eps[0]).clamp(-1, 1)
        if algorithm.module is sac:
            with of_distributions(eps[0]):
                drawn = model.policy._predict(obs[0], deterministic=False)
        else:
            assert 0 < int((drawn.abs() == 1).sum()) < drawn.numel()
    act = algorithm.module.act
    torch.testing.assert_close(act(state, obs, spec)[0], mode, rtol=0, atol=1e-6)
    torch.testing.assert_close(act(state, obs, spec, eps)[0], drawn, rtol=0, atol=1e-6)
    assert float((drawn - mode).abs().max()) > 0.1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_initial_rows(name: str) -> None:
    """Layers are uniform within 1 / sqrt(inputs), all different, and the targets copies."""
    agent = agent_for(ALGORITHMS[name].module.Agent, N_OBS, N_ACTIONS, (100, 50))
    row = agent.initial_row(3)
    # A row begins with the critics and ends with the targets: SAC has none of its actor.
    n_targets = agent.sizes[0] if name in ("dqn", "sac") else sum(agent.sizes[:2])
    learned = row[: len(row) - n_targets]
    assert torch.equal(row[:n_targets], row[-n_targets:])
    assert learned.unique().numel() > 0.999 * len(learned)
    if name == "dqn":
        networks = [agent.q]
    else:
        networks = [agent.critic] * ALGORITHMS[name].n_critics + [agent.actor]
    for mlp in networks:
        part, learned = learned[: mlp.n_parameters], learned[mlp.n_parameters :]
        for (bias, weight), n_in in zip(mlp.layers(part[None]), mlp.sizes, strict=False):
            bound = n_in**-0.5
            assert float(bias.abs().max()) <= bound and float(weight.abs().max()) <= bound
            if weight.numel() > 1000:
                expected = stats.uniform(-bound, 2 * bound)
                assert stats.kstest(weight.flatten(), expected.cdf).pvalue > 0.01


# --- DQN by hand ----------------------------------------------------------------------------------


def test_the_double_target_by_hand():
    """Online: a' = 1; target: Q(s', .) = (5, 3, 4).  y = r + gamma 3, or for DQN r + gamma 5."""
    agent = agent_for(dqn.Agent, 1, 3, ())
    # A layer without inputs to speak of: its values are its biases.
    row = torch.tensor([[0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 5.0, 3.0, 4.0, 0.0, 0.0, 0.0]])
    nothing = torch.zeros(1, 2, 1)
    terminated = torch.tensor([[False, True]])
    batch = Batch(nothing, torch.tensor([[2, 2]]), torch.full((1, 2), -1.0), nothing, terminated)
    for double, expected in ((True, -1 + 0.9 * 3), (False, -1 + 0.9 * 5)):
        spec = DQNSpec(double=double, gamma=0.9)
        state = dqn.TrainState(agent, row, torch.tensor([0.1]))
        found = dqn.update(state, batch, torch.empty(0), spec)
        torch.testing.assert_close(found.td_error, torch.tensor([[expected - 1, 2.0]]).abs())
        assert float(found.q_mean) == 1
    assert torch.equal(dqn.act(state, nothing, spec), torch.tensor([[1, 1]]))


@pytest.mark.parametrize("n_choices", [1, 2, 3, 10, 1_000_001])
def test_random_choices_lie_in_their_range(n_choices):
    """Also for the least and the largest float32 in [0, 1): the product is rounded down."""
    agent = agent_for(dqn.Agent, N_OBS, n_choices, ())
    state = dqn.TrainState(agent, torch.zeros(1, 2 * agent.q.n_parameters), torch.ones(1))
    largest = float(np.nextafter(np.float32(1), np.float32(0)))
    uniform = torch.tensor([[[0.5, 0.0], [0.5, largest]]])
    chosen = dqn.act(state, torch.zeros(1, 2, N_OBS), DQNSpec(epsilon=1.0), uniform)
    assert chosen.tolist() == [[0, n_choices - 1]]


# --- SAC's temperature ----------------------------------------------------------------------------


@pytest.mark.parametrize("ent_coef", ["auto", "auto_0.1", "auto_1e-3", 0.05])
def test_the_first_temperature_is_that_of_stable_baselines3(ent_coef):
    spec = SACSpec(hidden=HIDDEN, ent_coef=ent_coef)
    agent = agent_for(sac.Agent, N_OBS, N_ACTIONS, HIDDEN)
    model = twins.build(stable_baselines3.SAC, spec, 1e-3, ent_coef=ent_coef)
    theirs = twins.of_sac(model)[-len(twins.linear(model.critic_target)) - 1]
    state = sac.TrainState(agent, agent.initial_row(0, *spec.initialisation)[None], torch.ones(1))
    assert float(state.log_alpha) == pytest.approx(float(theirs.detach()), abs=1e-6)
    assert spec.learns_temperature == (model.ent_coef_optimizer is not None)


@pytest.mark.parametrize("wrong", [0, -1.0, "auto_0", "auto_x", "auto_", "often", math.inf, True])
def test_invalid_temperatures_are_reported(wrong):
    with pytest.raises(SpecError, match="ent_coef"):
        validated(SACSpec, {"ent_coef": wrong})


def test_a_temperature_has_one_name():
    """Cells are named by their specification: the default changes none, spelling makes no other."""
    names = {CellSpec(algorithm={"name": "sac", "ent_coef": e}).name for e in ("auto", "auto_1.0")}
    assert names == {CellSpec(algorithm={"name": "sac"}).name}
    others = ["auto_0.1", "auto_0.10", 0.1]
    specs = [CellSpec(algorithm={"name": "sac", "ent_coef": e}) for e in others]
    assert specs[0].hash == specs[1].hash != specs[2].hash
    assert "sac-alpha-auto-0.1-" in specs[0].name and "sac-alpha-0.1-" in specs[2].name
