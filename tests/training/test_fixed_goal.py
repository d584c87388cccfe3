"""A goal that never changes: hindsight's goals lie elsewhere, and are learned from all the same."""

import gymnasium
import numpy as np

from hindsight import SAC
from tests.envs.test_at_the_door import Hovering


class FixedGoal(Hovering):
    """It must be, and stay, within 0.1 of (0.7, 0.7), from wherever it begins."""

    def hold(self, goal: np.ndarray) -> None:
        super().hold(np.full(2, 0.7, np.float32))
        self.place = goal


gymnasium.register("FixedGoal-v0", FixedGoal, max_episode_steps=40)


def test_a_fixed_goal_is_learned_with_standardised_observations():
    """With statistics of its own, the goal has no variance, and no run succeeds once."""
    model = SAC(
        "FixedGoal-v0", her="future", seeds=2, workers=0, hidden=(32, 32), learning_rate=3e-3,
        batch_size=64, log_interval=250, evaluate_every=1000, normalize_observations=True,
        terminates="never",
    ).learn(1000)  # fmt: skip
    assert (model.evaluate(20).success_rate >= 0.9).all()
