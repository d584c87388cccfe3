"""PPO's parts: sample orders, probability ratios, analytic probes.

The update itself is held to Stable-Baselines3 in `test_ppo_parity`.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from hindsight.algorithms import ppo
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.step import Step
from hindsight.nn.adam import Adam
from hindsight.relabel import on_policy
from hindsight.replay.rollout import Rollout, Trajectories
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.hindsight import HindsightSpec

# --- orders ---------------------------------------------------------------------------------------


def test_orders_belong_to_run_epoch_and_iteration():
    """Each epoch of a run deals its valid samples once; neighbours only change the padding."""
    valid = torch.ones(2, 50, dtype=torch.bool)
    order = ppo.orders([3, 4], 7, valid, 3)
    assert torch.equal(order.sort(-1).values, torch.arange(50).expand(3, 2, 50))
    assert torch.equal(order, ppo.orders([4, 3], 7, valid, 3).flip(1))
    assert torch.equal(order[:, :1], ppo.orders([3], 7, valid[:1], 3))
    distinct = {tuple(row.tolist()) for row in order.flatten(0, 1)}
    distinct |= {tuple(row.tolist()) for row in ppo.orders([3, 4], 8, valid, 3).flatten(0, 1)}
    assert len(distinct) == 12
    fewer = valid.clone()
    fewer[0, ::2] = False
    dealt = ppo.orders([3, 4], 7, fewer, 3)[:, 0, :25]
    assert torch.equal(dealt.sort(-1).values, torch.arange(1, 50, 2).expand(3, 25))
    assert torch.equal(dealt, ppo.orders([3], 7, fewer[:1], 3)[:, 0])


# --- ratios ---------------------------------------------------------------------------------------


def collected(
    agent: ppo.ActorCritic, rows: Tensor, seeds: list[int], spec: PPOSpec
) -> tuple[PredatorPrey, Rollout]:
    condition = PredatorPreySpec(prey="attract", grid_size=5.0)
    env = PredatorPrey(condition, seeds, spec.n_envs)
    env.prepare_rollout(1, spec.n_steps)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(spec.n_steps, len(seeds), spec.n_envs, 3, generator=generator)
    return env, ppo.collect(env, agent, rows, noise)


def agent_and_rows(seeds: list[int]) -> tuple[ppo.ActorCritic, Tensor]:
    """An agent whose mean action depends on the goal well beyond the initial gain of 0.01."""
    agent = ppo.ActorCritic.of(9, 3, (16, 16))
    rows = torch.stack([agent.initial_row(seed, 0.7) for seed in seeds])
    return agent, rows + 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize(
    "hindsight",
    [
        None,
        HindsightSpec(),
        HindsightSpec(strategy="future", k=3),
        HindsightSpec(fidelity="described"),
        HindsightSpec(strategy="episode", k=3, fidelity="described"),
    ],
)
def test_ratios_begin_at_one(hindsight):
    """The first minibatch, made of all samples: nothing has moved since they were estimated."""
    seeds, spec = [1, 2], PPOSpec(n_steps=128, n_envs=2, n_epochs=1, batch_size=4096)
    agent, rows = agent_and_rows(seeds)
    env, rollout = collected(agent, rows, seeds, spec)
    samples = ppo.estimate(agent, rows, Trajectories.real(rollout), spec)
    if hindsight is not None:
        _, envs, steps = rollout.rewards.shape
        uniform = on_policy.Draws(seeds, 1, torch.device("cpu"))(envs, steps, hindsight.k)
        paths = on_policy.relabel(rollout, hindsight, env.task, uniform)
        copies = ppo.estimate(agent, rows, paths, spec)
        # Log-probabilities are of the new goals, not carried over from the real samples.
        pairs = copies.log_prob[:, : samples.n_real] - samples.log_prob
        assert float(pairs.abs().max()) > 0.1
        samples = samples.with_copies(copies)
    order = ppo.orders(seeds, 1, samples.valid, spec.n_epochs)
    optimiser = Adam(rows.clone(), torch.full((2,), 3e-4))
    d = ppo.update(agent, optimiser, samples, order, spec)
    assert d.updates.tolist() == [1, 1]
    assert float((d.ratio_max - 1).abs().max()) < 1e-5
    assert float(d.approx_kl.abs().max()) < 1e-9, "of a divergence second order in ratio - 1"
    assert d.clip_fraction.tolist() == [0, 0]
    # At a ratio of 1 the loss is minus the mean of the normalised advantages, which is zero.
    assert float(d.policy_loss.abs().max()) < 1e-5


# --- runs -----------------------------------------------------------------------------------------


# --- probe environments ---------------------------------------------------------------------------


class Probe:
    """An environment small enough for analysis: one number to see, episodes of fixed length.

    Its reward travels in the achieved goal, for rewards follow from goals in this project.
    """

    goal_size, observation_size, action_size = 1, 3, 1
    truncates = False
    keeps_rest = False

    def __init__(
        self, runs: int, envs: int, length: int, reward_of: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        """`reward_of(seen, action)`, each [run, env], at the last step; before it, 0."""
        self.length, self.reward_of = length, reward_of
        self.task = self
        self.elapsed = torch.zeros(runs, envs, dtype=torch.int64)
        self.generator = torch.Generator().manual_seed(0)
        self.state = torch.zeros(runs, envs, 3)
        self._look()

    def _look(self) -> None:
        """Seen: a random sign, and the step of the episode."""
        fresh = self.elapsed == 0
        sign = 2.0 * torch.randint(0, 2, fresh.shape, generator=self.generator) - 1
        self.state[..., 1] = torch.where(fresh, sign, self.state[..., 1])
        self.state[..., 2] = self.elapsed

    def step(self, actions: Tensor) -> Step:
        self.elapsed += 1
        terminated = self.elapsed >= self.length
        reward = self.reward_of(self.state[..., 1], actions[..., 0]) * terminated
        next_obs = self.state.clone()
        self.elapsed.masked_fill_(terminated, 0)
        self._look()
        never = torch.zeros_like(terminated)
        return Step(reward[..., None], terminated, never, reward > 0, next_obs)

    def reward(self, achieved: Tensor, goal: Tensor, terminated: Tensor) -> tuple[Tensor, Tensor]:
        return achieved[..., 0], achieved[..., 0] > 0


class Contrary(Probe):
    """Its steps succeed where its reward is 0, as an `info["is_success"]` may say."""

    def step(self, actions: Tensor) -> Step:
        step = super().step(actions)
        return step._replace(success=~step.success)


@pytest.mark.parametrize("world", [Probe, Contrary])
def test_success_is_what_the_environment_says(world: type[Probe]) -> None:
    env = world(2, 3, 2, lambda seen, action: seen)
    agent = ppo.ActorCritic.of(3, 1, (4,))
    rows = torch.stack([agent.initial_row(seed, 1.0) for seed in (0, 1)])
    rollout = ppo.collect(env, agent, rows, torch.randn(20, 2, 3, 1))
    by_reward = rollout.rewards > 0
    assert by_reward.any() and not by_reward.all()
    assert torch.equal(rollout.success, by_reward if world is Probe else ~by_reward)


def learned(
    env: Probe, spec: PPOSpec, iterations: int, forget_ends: bool = False
) -> tuple[ppo.ActorCritic, Tensor]:
    """Agent and rows after some iterations of collect, estimate, update."""
    runs, envs = env.elapsed.shape
    seeds = list(range(runs))
    agent = ppo.ActorCritic.of(3, 1, (16,))
    rows = torch.stack([agent.initial_row(seed, spec.sigma_init) for seed in seeds])
    optimiser = Adam(rows, torch.full((runs,), spec.learning_rate))
    for iteration in range(iterations):
        noise = torch.randn(spec.n_steps, runs, envs, 1, generator=env.generator)
        rollout = ppo.collect(env, agent, optimiser.rows, noise)
        paths = Trajectories.real(rollout)
        if forget_ends:
            paths.ends.zero_()
        samples = ppo.estimate(agent, optimiser.rows, paths, spec)
        order = ppo.orders(seeds, iteration, samples.valid, spec.n_epochs)
        ppo.update(agent, optimiser, samples, order, spec)
    return agent, optimiser.rows


def values_at(agent: ppo.ActorCritic, rows: Tensor, seen: list[tuple[float, float]]) -> Tensor:
    """Values [run, place] at (sign, step of the episode)."""
    obs = torch.tensor([[0.0, *place] for place in seen]).expand(len(rows), -1, -1)
    return agent.value(agent.split(rows)[1], obs)[..., 0]


PROBE = PPOSpec(
    n_steps=64, n_envs=2, learning_rate=1e-2, clip_range_vf=None, target_kl=None, n_epochs=4
)


def test_value_of_a_constant_reward_is_one():
    env = Probe(2, 2, 1, lambda seen, action: torch.ones_like(seen))
    values = values_at(*learned(env, PROBE, 25), [(-1, 0), (1, 0)])
    assert float((values - 1).abs().max()) < 0.05


def test_value_of_what_is_seen():
    env = Probe(2, 2, 1, lambda seen, action: seen)
    values = values_at(*learned(env, PROBE, 25), [(-1, 0), (1, 0)])
    assert float((values - torch.tensor([-1.0, 1.0])).abs().max()) < 0.05


def test_value_of_a_delayed_reward_is_gamma():
    env = Probe(2, 2, 2, lambda seen, action: torch.ones_like(seen))
    spec = PROBE.model_copy(update={"gamma": 0.5})
    values = values_at(*learned(env, spec, 40), [(-1, 0), (1, 0), (-1, 1), (1, 1)])
    assert float((values - torch.tensor([0.5, 0.5, 1, 1])).abs().max()) < 0.05


def test_a_forgotten_end_gives_the_wrong_value():
    """A control: without ends, one-step episodes of reward 1 look worth 1 / (1 - gamma)."""
    env = Probe(1, 2, 1, lambda seen, action: torch.ones_like(seen))
    spec = PROBE.model_copy(update={"gamma": 0.5})
    values = values_at(*learned(env, spec, 40, forget_ends=True), [(-1, 0), (1, 0)])
    assert float((values - 2).abs().max()) < 0.1


def test_the_policy_moves_towards_the_reward():
    """Rewarded is an action whose sign is the one that is seen."""
    env = Probe(2, 2, 1, lambda seen, action: torch.sign(seen * action))
    agent, rows = learned(env, PROBE, 25)
    policy, _, log_std = agent.split(rows)
    obs = torch.tensor([[0.0, -1, 0], [0.0, 1, 0]]).expand(2, -1, -1)
    mean, sigma = agent.policy(policy, obs)[..., 0], log_std.exp()
    assert (mean[:, 0] < -sigma[:, 0]).all() and (mean[:, 1] > sigma[:, 0]).all()
    # The value follows: success is nearly certain.
    assert (values_at(agent, rows, [(-1, 0), (1, 0)]) > 0.6).all()
