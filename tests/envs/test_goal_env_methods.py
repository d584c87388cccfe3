"""`compute_terminated` and `compute_truncated` of every wrapper, as gymnasium-robotics has them."""

from typing import Any

import gymnasium
import numpy as np
import pytest

import hindsight.envs  # noqa: F401  (registers the environments)

PARAMETERS: dict[str, dict[str, Any]] = {
    "PredatorPrey-v0": {"n_dims": 2, "grid_size": 3.0, "max_steps": 4, "prey": "attract"},
    "PointReach-v0": {"max_steps": 6, "threshold": 0.4},
    "BitFlipping-v0": {"n_bits": 2},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_they_say_how_each_step_went(name: str) -> None:
    """Of goals at the reward, one by one and in a batch, whatever form the infos have."""
    env = gymnasium.make(name, **PARAMETERS[name])
    wrapper: Any = env.unwrapped
    env.reset(seed=0)
    env.action_space.seed(0)
    achieved, desired, infos, ends = [], [], [], []
    for _ in range(300):
        obs, _, terminated, truncated, info = env.step(env.action_space.sample())
        # The prey has moved since.
        goals = obs["achieved_goal"], info.get("desired_goal_at_reward", obs["desired_goal"])
        assert wrapper.compute_terminated(*goals, info) is terminated
        assert wrapper.compute_truncated(*goals, info) is truncated
        achieved.append(goals[0])
        desired.append(goals[1])
        infos.append(info)
        ends.append((terminated, truncated))
        if terminated or truncated:
            env.reset()
    of_each = {"PredatorPrey-v0": (60, 0), "PointReach-v0": (0, 50), "BitFlipping-v0": (30, 30)}
    counts = np.array(ends).sum(0)
    assert (counts >= of_each[name]).all()
    np.testing.assert_array_equal(counts > 0, np.array(of_each[name]) > 0)
    timed_out = {"timed_out": np.array([info["timed_out"] for info in infos])}
    for said in (infos, np.array(infos), timed_out):
        both = [
            method(np.array(achieved), np.array(desired), said)
            for method in (wrapper.compute_terminated, wrapper.compute_truncated)
        ]
        assert all(flags.dtype == bool for flags in both)
        np.testing.assert_array_equal(np.stack(both, -1), ends)


def test_bits_of_any_leading_shape() -> None:
    wrapper: Any = gymnasium.make("BitFlipping-v0", n_bits=2).unwrapped
    achieved = np.array([[[0, 0], [0, 1], [1, 1]], [[1, 0], [1, 1], [0, 1]]], np.int8)
    desired = np.array([[[0, 0], [1, 0], [1, 1]], [[1, 1], [1, 1], [0, 1]]], np.int8)
    equal = np.array([[True, False, True], [False, True, True]])
    for said in (None, {}, [{}] * 6):
        np.testing.assert_array_equal(wrapper.compute_terminated(achieved, desired, said), equal)
        assert not wrapper.compute_truncated(achieved, desired, said).any()
    late = {"timed_out": True}
    np.testing.assert_array_equal(wrapper.compute_truncated(achieved, desired, late), ~equal)


def test_a_target_that_is_reached_does_not_end_point_reach() -> None:
    wrapper: Any = gymnasium.make("PointReach-v0").unwrapped
    place = np.zeros((3, 2))
    assert wrapper.compute_terminated(place, place, {}).tolist() == [False] * 3
    assert wrapper.compute_truncated(place, place, {"timed_out": True}).tolist() == [True] * 3
    assert wrapper.compute_truncated(place[0], place[0], {}) is False


def test_predator_prey_ends_within_reach_or_when_time_is_over() -> None:
    wrapper: Any = gymnasium.make("PredatorPrey-v0", interception_distance=0.5).unwrapped
    achieved, desired = np.zeros((2, 3)), np.array([[0.5, 0, 0], [0.51, 0, 0]])
    assert wrapper.compute_terminated(achieved, desired, {}).tolist() == [True, False]
    late = [{"timed_out": True}] * 2
    assert wrapper.compute_terminated(achieved, desired, late).tolist() == [True, True]
    assert wrapper.compute_truncated(achieved, desired, late).tolist() == [False, False]
