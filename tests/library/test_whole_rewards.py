"""Goals of doubles: what an environment pays is what is learned from."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from hindsight import DQN, PPO
from hindsight.training.evaluate import evaluate_policy

STEP = 0.1  # a cell's width, and what counts as the goal: its multiples are not exact in float32


class Cells(gym.Env[Any, Any]):
    """A place on a line of cells; the goal counts within one of them, and may end the episode."""

    def __init__(self, ends: bool = True) -> None:
        place = Box(-2, 2, (1,), np.float64)
        self.observation_space = Dict(
            {key: place for key in ("achieved_goal", "desired_goal", "observation")}
        )
        self.action_space = Discrete(2)
        self.ends, self.paid = ends, list[float]()

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        near = np.abs(np.asarray(achieved) - desired)[..., 0] <= STEP
        return near.astype(float) if self.ends else near - 1.0

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        near = np.abs(np.asarray(achieved) - desired)[..., 0] <= STEP
        return near & self.ends

    def _obs(self) -> dict[str, Any]:
        place, goal = (np.array([cell * STEP]) for cell in (self.cell, self.goal))
        return {"achieved_goal": place, "desired_goal": goal, "observation": place}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell, self.goal = self.np_random.integers(-10, 10, 2)
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.cell = int(np.clip(self.cell + 2 * action - 1, -20, 20))
        obs = self._obs()
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        self.paid.append(reward)
        hit = reward == float(self.ends)
        return obs, reward, hit and self.ends, False, {"is_success": hit}


gym.register("Cells-v0", Cells, max_episode_steps=20)


def paid(model: Any) -> list[float]:
    """What the training environment paid, but for what its first trial did."""
    own: list[float] = model._runs.env.pool._here._envs[0].unwrapped.paid
    return own


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("rest", ["keep", "drop"])
def test_a_stored_reward_is_the_one_that_was_paid(ends, rest):
    """Asked for the same goals in float32, `compute_reward` often says otherwise."""
    settings: dict[str, Any] = {
        "env_kwargs": {"ends": ends},
        "seeds": 1,
        "workers": 0,
        "rest": rest,
    }
    model = DQN("Cells-v0", **settings)
    model.learn(1000)
    buffer = model._runs.buffer
    rows = buffer.rows[0, 0, : buffer.position].numpy()
    stored = rows[:, buffer.row.reward]
    assert np.array_equal(stored, paid(model)[-len(stored) :])
    won = rows[:, buffer.row.terminated] > 0
    assert won.any() == ends and (stored[won] == 1).all()
    places = rows[:, [buffer.row.next_achieved.start, buffer.row.desired[0].start]]
    again = Cells(ends).compute_reward(*places.astype(np.float64).T[..., None], {})
    assert (again != stored).sum() > 5  # float32's rounding matters here


def test_ppo_learns_from_the_rewards_that_were_paid():
    model = PPO("Cells-v0", seeds=1, workers=0, her=None, n_steps=1000)
    model.learn(1000)
    (rollout,) = [own[2] for own in model._runs.learned]
    assert np.array_equal(rollout.rewards[0, 0].numpy(), paid(model)[-1000:])


def test_an_endless_episode_is_an_error():
    with pytest.raises(
        Exception, match="the episode with seed 0 has not ended after 100,000 steps"
    ):
        evaluate_policy(lambda obs: 1, Cells(ends=False), 1)
