"""PPO's parts: sample orders, advantages, analytic probes.

The update itself is held to Stable-Baselines3 in `test_ppo_parity`.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from hindsight.algorithms import ppo
from hindsight.envs.step import Step
from hindsight.nn.adam import Adam
from hindsight.replay.rollout import Trajectories
from hindsight.specs.algorithms.ppo import PPOSpec

# --- orders ---------------------------------------------------------------------------------------


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


# --- advantages -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
def test_doubling_equals_the_recurrence(gamma, lam):
    """Schulman et al. 2016, eq. 16.

    All lengths from 1 to 70, around every power of two, with few, many and only ends.
    """
    for steps, p_end in itertools.product(range(1, 71), (0.0, 0.1, 0.5, 1.0)):
        rng = np.random.default_rng(steps)
        rewards, values = rng.standard_normal((2, 6, steps))
        last, ends = rng.standard_normal(6), rng.random((6, steps)) < p_end
        given = [torch.from_numpy(x) for x in (rewards, values, last, ends)]
        found = ppo.advantages(*given, gamma, lam)
        expected, running, following = np.zeros_like(values), 0.0, last
        for t in reversed(range(steps)):
            goes_on = ~ends[:, t]
            delta = rewards[:, t] + gamma * following * goes_on - values[:, t]
            expected[:, t] = running = delta + gamma * lam * running * goes_on
            following = values[:, t]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_constant_reward_for_ever():
    """With the true value 1 / (1 - gamma) everywhere, also after the rollout, advantages are 0."""
    steps, gamma = 50, 0.9
    true = torch.full((1, steps), 1 / (1 - gamma), dtype=torch.float64)
    never = torch.zeros(1, steps, dtype=torch.bool)
    result = ppo.advantages(torch.ones_like(true), true, true[:, 0], never, gamma, 0.95)
    assert float(result.abs().max()) < 1e-12
    # A control: treating the rollout's end as an episode's end loses the future.
    cut = never.clone()
    cut[:, -1] = True
    wrong = ppo.advantages(torch.ones_like(true), true, true[:, 0], cut, gamma, 0.95)
    assert float(wrong[0, -1]) == pytest.approx(1 - 1 / (1 - gamma))


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


@pytest.mark.parametrize(
    ("length", "reward_of", "gamma", "iterations", "expected"),
    [
        (1, lambda seen, action: torch.ones_like(seen), PROBE.gamma, 25, [1.0, 1.0]),
        (1, lambda seen, action: seen, PROBE.gamma, 25, [-1.0, 1.0]),
        # A delayed reward, seen at the first and at the second step.
        (2, lambda seen, action: torch.ones_like(seen), 0.5, 40, [0.5, 0.5, 1.0, 1.0]),
    ],
)
def test_values_that_are_known(length, reward_of, gamma, iterations, expected):
    env = Probe(2, 2, length, reward_of)
    agent, rows = learned(env, PROBE.model_copy(update={"gamma": gamma}), iterations)
    values = values_at(agent, rows, [(sign, step) for step in range(length) for sign in (-1, 1)])
    assert float((values - torch.tensor(expected)).abs().max()) < 0.05


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
