"""Bit flipping against Stable-Baselines3's."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.envs import BitFlippingEnv as BitFlippingOfSB3

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.envs.bit_flipping import BitFlipping
from hindsight.envs.wrapper import GoalEnv
from hindsight.specs.environments.bit_flipping import BitFlippingSpec

bit_lists = st.lists(st.integers(0, 1), min_size=1, max_size=12)


@st.composite
def bits_and_goal(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """In half of the cases they differ in two places at most, so that solutions are likely."""
    bits = draw(bit_lists)
    near = draw(st.booleans())
    goal = list(bits) if near else draw(st.lists(st.integers(0, 1), min_size=len(bits)))
    goal = (goal + bits)[: len(bits)]
    for place in draw(st.lists(st.integers(0, len(bits) - 1), max_size=2)):
        goal[place] = 1 - goal[place]
    return bits, goal


@settings(max_examples=100, deadline=None)
@given(bits_and_goal(), st.data())
def test_steps_are_those_of_stable_baselines(start, data):
    """Both variants, until the episode is over; it may begin solved."""
    bits, goal = start
    n = len(bits)
    continuous = data.draw(st.booleans())
    theirs = BitFlippingOfSB3(n_bits=n, continuous=continuous, render_mode="rgb_array")
    theirs.reset(seed=0)
    theirs.state, theirs.desired_goal = np.array(bits, np.int8), np.array(goal, np.int8)
    ours = GoalEnv("BitFlipping-v0", n_bits=n, continuous=continuous)
    _, info = ours.reset(options={"state": [*bits, *goal, *bits]})
    assert info == {"is_success": False, "timed_out": False}  # nothing is said before an action
    for _ in range(n):
        action: Any
        if continuous:
            numbers = st.sampled_from([-1.0, -0.25, 0.0, 1e-6, 0.5, 1.0])
            action = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n)), np.float32)
        else:
            action = data.draw(st.integers(0, n - 1))
        expected, reward, terminated, truncated, info = theirs.step(action)
        obs, *rest = ours.step(action)
        for name, value in expected.items():
            np.testing.assert_array_equal(obs[name], value)
        # Theirs also calls an episode truncated that is solved in its last step.
        info["timed_out"] = truncated
        assert rest == [reward, terminated, truncated and not terminated, info]
        if terminated or truncated:
            return
    raise AssertionError("an episode lasts n steps at most")


def test_every_bit_of_start_and_goal_is_fair() -> None:
    """And all six are independent, so one episode in eight begins solved."""
    state = BitFlipping(BitFlippingSpec(n_bits=3), [0], 32).beginnings.flatten(0, 2)
    kinds, counts = state[:, :6].unique(dim=0, return_counts=True)
    assert len(kinds) == 64
    assert float(((counts - 64) ** 2 / 64).sum()) < 103  # chi-squared with 63, at 0.001
