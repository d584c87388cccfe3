"""A goal that never changes: hindsight's goals lie elsewhere, and are learned from all the same."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from hindsight import SAC


class Square(gymnasium.Env[Any, Any]):
    """A point in a square, steps of up to 0.1; it must be, and stay, within 0.1 of (0.7, 0.7)."""

    def __init__(self) -> None:
        place = Box(-1, 1, (2,), np.float32)
        self.observation_space = Dict(achieved_goal=place, desired_goal=place, observation=place)
        self.action_space = Box(-1, 1, (2,), np.float32)
        self.goal = np.full(2, 0.7, np.float32)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        far = np.linalg.norm(np.asarray(achieved_goal) - desired_goal, axis=-1) > 0.1
        return -far.astype(np.float32)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return np.zeros(np.shape(achieved_goal)[:-1], bool)

    def _observe(self) -> dict[str, Any]:
        place = self.place.copy()
        return {"achieved_goal": place, "desired_goal": self.goal.copy(), "observation": place}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.place = np.clip(self.place + 0.1 * np.asarray(action), -1, 1).astype(np.float32)
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self._observe(), reward, False, False, {"is_success": reward == 0}


gymnasium.register("FixedGoal-v0", Square, max_episode_steps=40)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_fixed_goal_is_learned_with_standardised_observations_as_without(normalize):
    """With statistics of its own, the goal has no variance, and no run succeeds once."""
    model = SAC(
        "FixedGoal-v0", her="future", seeds=2, workers=0, hidden=(32, 32), learning_rate=3e-3,
        batch_size=64, log_interval=250, evaluate_every=1000, normalize_observations=normalize,
    ).learn(1000)  # fmt: skip
    assert (model.evaluate(20).success_rate >= 0.9).all()
