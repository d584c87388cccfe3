"""Parity with Stable-Baselines3: same weights, rollout and minibatch order, hence same update.

Stable-Baselines3 collects with its own loop from an environment that plays our transitions back,
computes its own values, advantages and log-probabilities, runs its own `train()`; all it is given
are the parameters, the transitions and the order of the samples.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

from hindsight.algorithms import ppo
from hindsight.envs.rollout import Rollout, Trajectories
from hindsight.nn.adam import Adam
from hindsight.specs.algorithms.ppo import PPOSpec
from tests.algorithms.test_ppo_compiled import agent_for, rows_for
from tests.algorithms.twins import linear, put_row, row_of
from tests.support.native import CASES, prey

stable_baselines3 = pytest.importorskip("stable_baselines3")

HIDDEN = (16, 16)
SEEDS = (5, 6, 7)
#: Large distances and few bits make successes frequent; a short limit, truncations.  Long episodes
#: outlast a rollout.
TASKS = CASES | {
    "prey": prey(prey="random", grid_size=5.0, interception_distance=2.0),
    "long": prey(prey="random", grid_size=5.0, interception_distance=0.01, max_steps=1000),
}


def collect(env: Any, agent: ppo.Agent, rows: Tensor, iteration: int, steps: int) -> Rollout:
    env.prepare_rollout(iteration, steps)
    size = (steps, *env.elapsed.shape, agent.policy.sizes[-1])
    rng = np.random.default_rng(iteration)
    noise = rng.gumbel(size=size) if agent.discrete else rng.standard_normal(size)
    return ppo.collect(env, agent, rows, torch.from_numpy(noise.astype(np.float32)))


class Replayed(gymnasium.Env):
    """Plays the transitions of one environment of a rollout back, whatever it is asked to do."""

    def __init__(self, world: Any, rollout: Rollout, run: int, env: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (world.observation_size,))
        self.action_space = world.action_space
        obs = torch.cat([rollout.obs[run, env], rollout.last_obs[run, env][None]])
        self.obs, self.rewards = obs.numpy(), rollout.rewards[run, env].tolist()
        self.terminated = rollout.terminated[run, env].tolist()
        self.truncated, self.following = [False] * len(self.rewards), self.obs[1:]
        if rollout.cuts is not None:
            self.truncated = rollout.cuts.truncated[run, env].tolist()
            self.following = rollout.cuts.next_obs[run, env].numpy()
        self.t = 0

    def reset(self, **_):
        return self.obs[self.t], {}

    def step(self, action):
        t = self.t
        self.t += 1
        return self.following[t], self.rewards[t], self.terminated[t], self.truncated[t], {}


def parameters_of(policy) -> list[Tensor]:
    """Stable-Baselines3's parameters in the order of a row: bias, weight of each layer."""
    extractor = policy.mlp_extractor
    layers = extractor.policy_net, policy.action_net, extractor.value_net, policy.value_net
    sigma = [policy.log_std] if hasattr(policy, "log_std") else []
    return linear(*layers) + sigma


@dataclass
class Twin:
    """What Stable-Baselines3 did in one update."""

    model: stable_baselines3.PPO
    row: Tensor = field(default_factory=lambda: torch.empty(0))
    log: dict[str, float] = field(default_factory=dict)
    updates: int = 0
    gradient_norms: list[float] = field(default_factory=list)
    kls: list[float] = field(default_factory=list)


#: What a twin is told of a specification; the names are Stable-Baselines3's, too.
OPTIONS = ("batch_size", "n_epochs", "gamma", "gae_lambda", "clip_range", "clip_range_vf",
           "ent_coef", "vf_coef", "max_grad_norm", "target_kl")  # fmt: skip


def build(
    world: Any, rollout: Rollout, run: int, row: Tensor, learning_rate: float, spec: PPOSpec
) -> Twin:
    """A twin of one run whose buffer holds that run's part of the rollout."""
    _, envs, steps = rollout.rewards.shape
    wrappers = [partial(Replayed, world, rollout, run, env) for env in range(envs)]
    optimizer = {"eps": 1e-8, "weight_decay": spec.weight_decay}
    policy = {"net_arch": list(HIDDEN), "activation_fn": torch.nn.Tanh}
    # Of truncated minibatches, which we test.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        model = stable_baselines3.PPO(
            "MlpPolicy",
            stable_baselines3.common.vec_env.DummyVecEnv(wrappers),
            learning_rate=learning_rate,
            n_steps=steps,
            **{name: getattr(spec, name) for name in OPTIONS},
            policy_kwargs={**policy, "optimizer_kwargs": optimizer},
            device="cpu",
        )
    model.set_logger(stable_baselines3.common.logger.configure(None, []))
    put_row(parameters_of(model.policy), row)
    recorded = iter(rollout.actions[run].movedim(1, 0))

    def forward(obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        actions = next(recorded)
        if world.n_choices is not None:
            actions = actions[:, 0].long()
        values, log_prob, _ = model.policy.evaluate_actions(obs, actions)
        return actions, values, log_prob

    _, callback = model._setup_learn(envs * steps)
    model._last_episode_starts = rollout.starts[run, :, 0].numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.policy, "forward", forward)
        model.collect_rollouts(model.env, callback, model.rollout_buffer, steps)
    return Twin(model)


def train(twin: Twin, order: Tensor) -> None:
    """Stable-Baselines3's own update, its samples in our order [epoch, sample]."""
    permutations: Iterator[np.ndarray] = iter(order.numpy())
    model, old_log_probs = twin.model, []
    get_samples, evaluate = model.rollout_buffer._get_samples, model.policy.evaluate_actions
    clip = torch.nn.utils.clip_grad_norm_

    def noting_samples(*args):
        samples = get_samples(*args)
        old_log_probs.append(samples.old_log_prob)
        return samples

    def noting_evaluation(*args):
        values, log_prob, entropy = evaluate(*args)
        log_ratio = (log_prob - old_log_probs[-1]).detach().double()
        twin.kls.append(float((log_ratio.exp() - 1 - log_ratio).mean()))
        return values, log_prob, entropy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "permutation", lambda n: next(permutations))
        patch.setattr(model.rollout_buffer, "_get_samples", noting_samples)
        patch.setattr(model.policy, "evaluate_actions", noting_evaluation)
        norms = twin.gradient_norms
        patch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *a: norms.append(float(clip(*a))))
        model.train()
    twin.row = row_of(parameters_of(model.policy))
    twin.log = dict(model.logger.name_to_value)
    state = model.policy.optimizer.state.get(model.policy.value_net.bias, {})
    twin.updates = int(state.get("step", 0))


def both(spec: PPOSpec, name: str = "prey", *, learning_rates: Any = (3e-4,), stale=0.0) -> Any:
    """Collect with our code, then one update by each implementation; `rows` are those after it.

    Args:
        learning_rates: one per run.
        stale: how far the collecting policy's parameters move before the update begins; a policy
            that is already stale makes ratios far from 1 and so exercises every clip.
    """
    seeds = SEEDS[: len(learning_rates)]
    world = TASKS[name].make(list(seeds), spec.n_envs)
    agent = agent_for(world, HIDDEN)
    rows = rows_for(agent, seeds)
    # A few steps first, so that the rollout begins in the middle of an episode.
    collect(world, agent, rows, 1, 5)
    rollout = collect(world, agent, rows, 2, spec.n_steps)
    assert not rollout.starts[..., 0].all()
    samples = ppo.estimate(agent, rows, Trajectories.real(rollout), spec)
    order = ppo.orders(seeds, 2, samples.valid, spec.n_epochs)
    twins = [
        build(world, rollout, run, rows[run], rate, spec) for run, rate in enumerate(learning_rates)
    ]
    for run, twin in enumerate(twins):
        if stale:
            move = torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(run))
            rows[run] += stale * move
            put_row(parameters_of(twin.model.policy), rows[run])
    optimiser = Adam(
        rows.clone(), torch.tensor(learning_rates), eps=1e-8, weight_decay=spec.weight_decay
    )
    diagnostics = ppo.update(agent, optimiser, samples, order, spec)
    for run, twin in enumerate(twins):
        train(twin, order[:, run])
    return SimpleNamespace(
        agent=agent, twins=twins, rollout=rollout, samples=samples, rows=optimiser.rows,
        diagnostics=diagnostics,
    )  # fmt: skip


def compared(spec: PPOSpec, *task: str, **keys: Any) -> Any:
    """One update: estimates, parameters, losses and diagnostics of every run equal its twin's."""
    result = both(spec, *task, **keys)
    for run, twin in enumerate(result.twins):
        buffer = twin.model.rollout_buffer
        for ours, theirs in (
            (result.samples.value, buffer.values),
            (result.samples.log_prob, buffer.log_probs),
            (result.samples.advantage, buffer.advantages),
            (result.samples.returns, buffer.returns),
        ):
            # `train` has flattened the buffer environment by environment, as ours are.
            np.testing.assert_allclose(ours[run].numpy(), theirs[:, 0], rtol=1e-5, atol=2e-6)
        torch.testing.assert_close(result.rows[run], twin.row, rtol=0, atol=3e-6)
        d = result.diagnostics
        assert int(d.updates[run]) == twin.updates == len(twin.gradient_norms)
        for ours, theirs in (
            (d.policy_loss, twin.log["train/policy_gradient_loss"]),
            (d.value_loss, twin.log["train/value_loss"]),
            (d.approx_kl, float(np.mean(twin.kls))),
        ):
            assert float(ours[run]) == pytest.approx(theirs, rel=1e-4, abs=1e-6)
        # One sample at the edge of the clip range may fall on either side of it.
        one_sample = 1.5 / (spec.batch_size * len(twin.kls))
        fraction = twin.log["train/clip_fraction"]
        assert float(d.clip_fraction[run]) == pytest.approx(fraction, abs=one_sample)
        if len(twin.kls) == twin.updates:  # else it stopped at a minibatch without a gradient
            norm = float(np.mean(twin.gradient_norms))
            assert float(d.gradient_norm[run]) == pytest.approx(norm, rel=1e-4)
    return result


def minibatches(spec: PPOSpec) -> int:
    """Of a whole update."""
    return spec.n_epochs * -(-spec.n_steps * spec.n_envs // spec.batch_size)


def spec_of(**keys: Any) -> PPOSpec:
    return PPOSpec(**{"hidden": HIDDEN, "n_steps": 128, "target_kl": None, **keys})


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        ("prey", {"n_steps": 256}),
        ("prey", {"n_steps": 128, "weight_decay": 0.01, "gamma": 0.9, "gae_lambda": 0.5}),
        # Samples lie environment by environment; advantages do not cross from one to the next.
        ("prey", {"n_steps": 96, "n_envs": 2}),
        # 64 + 36 samples, and 64 + 64 + 1: a single sample has no spread and is not normalised.
        ("long", {"n_steps": 100}),
        ("prey", {"n_steps": 129}),
        # Five steps come first and episodes have nine: the last step is truncated.
        ("point", {"n_steps": 67}),
    ],
)
def test_a_full_update(task, keys):
    spec = spec_of(**keys)
    result = compared(spec, task)
    assert int(result.diagnostics.updates[0]) == minibatches(spec)
    moved = (result.rows - rows_for(result.agent, SEEDS[:1])).abs()
    assert float(moved.max()) > 5e-4, "the update must move something"
    cuts = result.rollout.cuts
    assert cuts is None or cuts.truncated[..., -1].all()


@pytest.mark.parametrize("name", ["point", "bits"])
def test_truncations(name):
    """Two environments whose episodes a time limit cuts, the last one at the rollout's end."""
    spec = spec_of(n_steps=94, n_envs=2)
    result = compared(spec, name, learning_rates=(3e-4, 1e-3))
    rollout = result.rollout
    assert rollout.cuts is not None and int(rollout.cuts.truncated.sum()) > 30
    assert bool(rollout.terminated.any()) == (name == "bits")
    # A control: without the values behind truncations the advantages are others.
    rows = rows_for(result.agent, SEEDS[:2])
    uncut = replace(Trajectories.real(rollout), cuts=None)
    wrong = ppo.estimate(result.agent, rows, uncut, spec).advantage
    assert float((wrong - result.samples.advantage).abs().amax()) > 0.01


@pytest.mark.parametrize("clip_range_vf", [None, 0.2])
@pytest.mark.parametrize("ent_coef", [0.0, 0.1])
@pytest.mark.parametrize(("task", "stale"), [("prey", 0.1), ("bits", 0.2)])
def test_clips_and_entropy(task, stale, clip_range_vf, ent_coef):
    """With a stale policy, Gaussian or categorical: clipped from the first minibatch on."""
    spec = spec_of(clip_range_vf=clip_range_vf, ent_coef=ent_coef, n_epochs=3)
    result = compared(spec, task, stale=stale)
    assert float(result.diagnostics.clip_fraction[0]) > 0.2


@pytest.mark.parametrize("times, stops", [(1.49, False), (1.51, True)])
def test_the_kl_stop_is_at_one_and_a_half_times_the_target(times, stops):
    """The target is set so that the largest divergence so far lies just below or just above."""
    spec = spec_of(n_steps=256, n_epochs=4)
    kls = both(spec, learning_rates=(1e-3,)).twins[0].kls
    largest = int(np.argmax(kls))
    assert largest > 0
    spec = spec.model_copy(update={"target_kl": kls[largest] / times})
    result = compared(spec, learning_rates=(1e-3,))
    assert int(result.diagnostics.updates[0]) == (largest if stops else minibatches(spec))


def test_a_stop_before_any_update():
    result = compared(spec_of(target_kl=0.01), stale=0.2)
    assert int(result.diagnostics.updates[0]) == 0


def test_runs_of_different_learning_rates():
    """Three runs on one axis, each its own twin; they stop at different times, one not at all."""
    spec = spec_of(n_epochs=6, target_kl=0.001)
    updates = [twin.updates for twin in compared(spec, learning_rates=(3e-5, 1e-3, 3e-3)).twins]
    assert minibatches(spec) == updates[0] > updates[1] > updates[2] > 0
