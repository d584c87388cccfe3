"""PPO on actions of several choices at a time: MultiDiscrete and MultiBinary."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from hindsight import DQN, PPO, load
from hindsight.algorithms.ppo import Agent
from hindsight.specs.errors import SpecError
from hindsight.specs.spaces import action_choices, action_of
from hindsight.training.evaluate import evaluate_policy
from tests.support.agents import agent as agent_for

SPACES = [
    MultiDiscrete([3, 3]), MultiDiscrete([3, 5], start=[-1, 2]), MultiDiscrete([[2, 3], [4, 2]]),
    MultiBinary(3), MultiBinary((2, 2)),
]  # fmt: skip


class Dials(gym.Env[Any, Any]):
    """Each component of an action has to be that of the goal, one of the space's own actions."""

    def __init__(self, which: int = 0) -> None:
        self.action_space = SPACES[which]
        goal = Box(-9, 9, self.action_space.shape, np.float32)
        self.observation_space = Dict(achieved_goal=goal, desired_goal=goal, observation=Box(0, 1))

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        axes = tuple(range(-len(self.action_space.shape), 0))
        return (np.asarray(achieved) == desired).mean(axes) - 1

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return self.compute_reward(achieved, desired, info) == 0

    def obs(self, at: Any) -> Any:
        goals = np.asarray(at, np.float32), self.goal.astype(np.float32)
        return dict(zip(self.observation_space, (*goals, np.zeros(1, np.float32)), strict=True))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.action_space.seed(seed)
        self.goal = self.action_space.sample()
        return self.obs(np.full(self.action_space.shape, 9)), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        obs = self.obs(action)
        reward = float(self.compute_reward(action, obs["desired_goal"], {}))
        return obs, reward, reward == 0, False, {"is_success": reward == 0}


gym.register("Dials-v0", Dials, max_episode_steps=5)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_choices_become_every_action_of_the_space(space):
    sizes = action_choices(space)
    assert np.prod(sizes) == len({
        space.sample().tobytes() for _ in range(3000)
    })  # fmt: skip
    for numbers in np.ndindex(*sizes):
        action = action_of(space, np.array(numbers, np.float32))
        assert space.contains(action) and action.shape == space.shape
        first = np.ravel(getattr(space, "start", 0))
        assert np.array_equal(action.ravel() - first, numbers)
    assert action_choices(Discrete(4)) == (4,) and action_choices(Box(0, 1)) == ()


def test_the_distribution_is_that_of_independent_choices():
    """Against Stable-Baselines3's distribution, and its gradient."""
    module = pytest.importorskip("stable_baselines3.common.distributions")
    agent = agent_for(Agent, 1, 9, (), (2, 4, 3))
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(1, 50, 9, generator=generator)
    actions = torch.stack([torch.randint(n, (50,), generator=generator) for n in agent.choices], 1)
    theirs = module.MultiCategoricalDistribution([2, 4, 3]).proba_distribution(logits[0])
    none, weight = torch.empty(1, 0), torch.full((1, 50), 1 / 50)
    log_prob = agent.log_prob(logits, none, actions[None].float())
    torch.testing.assert_close(log_prob[0], theirs.log_prob(actions))
    entropy = agent.entropy(logits, none, weight)
    torch.testing.assert_close(entropy[0], theirs.entropy().mean())
    torch.testing.assert_close(agent.state_entropy(logits)[0], theirs.entropy())


@pytest.mark.parametrize("which", range(len(SPACES)))
def test_it_trains_acts_evaluates_and_is_exported(which, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = PPO(
        "Dials-v0", env_kwargs={"which": which}, seeds=2, workers=0, hidden=(16,), n_steps=64,
        batch_size=32, evaluate_every=64, evaluation_episodes=3,
    ).learn(128)  # fmt: skip
    space, env = SPACES[which], gym.make("Dials-v0", which=which)
    curves = model.curves().query("phase == 'train'")
    assert (curves.policy_entropy > 0).all() and curves.policy_loss.notna().all()
    most = float(np.log(action_choices(space)).sum())
    assert curves.policy_entropy.iloc[0] == pytest.approx(most, rel=0.05)  # at first uniform
    seen = [env.reset(seed=seed)[0] for seed in range(6)]
    batch = {key: np.stack([obs[key] for obs in seen]) for key in seen[0]}
    chosen, _ = model.predict(batch)
    for obs, action in zip(seen, chosen, strict=True):
        assert space.contains(model.predict(obs)[0]) and np.array_equal(
            model.predict(obs)[0], action
        )
    drawn = [model.predict(seen[0], deterministic=False)[0] for _ in range(40)]
    assert all(space.contains(action) for action in drawn)
    assert len({action.tobytes() for action in drawn}) > 3
    session = onnxruntime.InferenceSession(model.export(tmp_path / "dials.onnx"))
    np.testing.assert_array_equal(session.run(["action"], batch)[0], chosen)
    again = load(model.save(tmp_path / "dials.pt", training=True), "Dials-v0")
    assert again.evaluate(2).equals(model.evaluate(2))
    assert evaluate_policy(tmp_path / "dials.pt", env, 2).length_mean <= 5


def test_it_learns_the_dials():
    model = PPO(
        "Dials-v0", env_kwargs={"which": 1}, her=None, seeds=1, workers=0, hidden=(32,),
        n_steps=256, learning_rate=1e-2, evaluate_every=10**6, gamma=0.5,
    )  # fmt: skip
    before = model.evaluate(30).return_mean.item()
    with torch.no_grad():  # its user's business
        model.learn(4096)
    assert model.evaluate(30).return_mean.item() > max(before + 0.5, -0.5)


def test_other_algorithms_say_what_takes_them():
    with pytest.raises(SpecError, match=r"dqn needs discrete actions.*2 at a time, use ppo"):
        DQN("Dials-v0")
