"""The point mass against its description in NumPy."""

import math

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.envs.point_reach import PointReach, step
from hindsight.envs.step import SUCCESS, TRUNCATED
from hindsight.specs.environments.point_reach import PointReachSpec


@st.composite
def specs(draw: st.DrawFn) -> PointReachSpec:
    """Parameters that are exact in binary, so that both sides compute with the same numbers."""
    return PointReachSpec(
        max_steps=draw(st.integers(1, 12)),
        dt=draw(st.sampled_from([0.0625, 0.125, 0.5])),
        range=draw(st.sampled_from([0.5, 1.0, 4.0])),
        max_speed=draw(st.sampled_from([0.25, 1.0, 2.0])),
        threshold=draw(st.sampled_from([0.0625, 0.25])),
        action_scale=draw(st.sampled_from([0.5, 4.0, 10.0])),
    )


pairs = st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=2, max_size=2)
# Beyond the action box, too; runs of equal actions reach top speed and walls.
actions = st.lists(
    st.lists(
        st.sampled_from([-1.5, -1.0, 0.0, 0.5, 1.0]) | st.floats(-1, 1), min_size=2, max_size=2
    ),
    min_size=1,
    max_size=4,
).map(lambda few: [one for one in few for _ in range(4)])


@settings(max_examples=200, deadline=None)
@given(specs(), pairs, pairs, actions)
def test_steps_are_those_of_the_reference(spec, position, goal, acts):
    here, target = (spec.range * np.array(place) for place in (position, goal))
    velocity = np.zeros(2)
    env, nothing, after = PointReach(spec, [0]), np.empty(0), np.empty(8)
    state = np.concatenate([here, target, here, velocity])
    for t, action in enumerate(np.array(acts[: spec.max_steps])):
        velocity = velocity + np.clip(action, -1, 1) * spec.action_scale * spec.dt
        velocity = np.clip(velocity, -spec.max_speed, spec.max_speed)
        here = np.clip(here + velocity * spec.dt, -spec.range, spec.range)
        distance = math.dist(here, target)
        assume(abs(distance - spec.threshold) > 1e-9)
        before = state.copy()
        flags = step(env.goal_policy, env.parameters, state, t, action, nothing, after)
        assert (state == before).all()
        expected = np.concatenate([here, target, here, velocity])
        np.testing.assert_allclose(after, expected, atol=1e-12)
        success, truncated = distance <= spec.threshold, t + 1 == spec.max_steps
        assert flags == SUCCESS * success + TRUNCATED * truncated
        state = after.copy()


def test_episodes_begin_at_rest_anywhere_in_the_square() -> None:
    spec = PointReachSpec(range=2.0)
    assert spec.step_limit == 50
    state = PointReach(spec, [0], 16).beginnings.flatten(0, 2)
    assert (state[:, 6:] == 0).all() and torch.equal(state[:, :2], state[:, 4:6])
    # U(-2, 2) has quartiles at -1, 0 and 1; position and target know nothing of each other.
    quartiles = np.quantile(state[:, :4].numpy(), [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_allclose(quartiles, [[-1] * 4, [0] * 4, [1] * 4], atol=0.15)
    correlation = np.corrcoef(state[:, :4].numpy().T) - np.eye(4)
    assert np.abs(correlation).max() < 0.1
