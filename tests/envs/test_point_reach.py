"""The point mass against a reference in plain Python."""

import math

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.envs.point_reach import PointReach, step
from hindsight.envs.step import SUCCESS, TRUNCATED
from hindsight.specs.environments.point_reach import PointReachSpec

# -- the reference: SYSTEMS, section 1, one environment, plain Python -----------------------------


def clip(x: float, bound: float) -> float:
    return min(max(x, -bound), bound)


class Reference:
    """The point mass as its description reads."""

    def __init__(self, spec: PointReachSpec, position: list[float], goal: list[float]) -> None:
        self.spec, self.position, self.goal = spec, list(position), list(goal)
        self.velocity = [0.0, 0.0]
        self.count = 0

    def step(self, action: list[float]) -> tuple[float, bool]:
        """Reward, and whether the episode is truncated."""
        s = self.spec
        for i in (0, 1):
            a = clip(action[i], 1.0) * s.action_scale
            self.velocity[i] = clip(self.velocity[i] + a * s.dt, s.max_speed)
            self.position[i] = clip(self.position[i] + self.velocity[i] * s.dt, s.range)
        self.count += 1
        return (0.0 if self.distance <= s.threshold else -1.0), self.count == s.max_steps

    @property
    def distance(self) -> float:
        return math.dist(self.position, self.goal)

    @property
    def observation(self) -> list[float]:
        return [*self.position, *self.goal, *self.position, *self.velocity]


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
    scaled = [[spec.range * x for x in pair] for pair in (position, goal)]
    reference = Reference(spec, *scaled)
    env, nothing = PointReach(spec, [0]), np.empty(0)
    state, after = np.array(reference.observation), np.empty(8)
    for t, action in enumerate(acts[: spec.max_steps]):
        reward, truncated = reference.step(action)
        assume(abs(reference.distance - spec.threshold) > 1e-9)
        before = state.copy()
        task = env.goal_policy, env.parameters
        flags = step(*task, state, t, np.array(action), nothing, after)
        assert (state == before).all()
        np.testing.assert_allclose(after, reference.observation, atol=1e-12)
        assert flags == (SUCCESS if reward == 0.0 else 0) + (TRUNCATED if truncated else 0)
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


def test_goals_fill_the_square() -> None:
    task = PointReach(PointReachSpec(range=3.0), [0]).task
    uniform = torch.tensor([[0.0, 0.5], [0.75, 0.25]]).expand(2, 5, 2, 2)
    goals = task.goals(uniform)
    assert goals.shape == (2, 5, 2, 2) and task.contains(goals).all()
    np.testing.assert_allclose(goals[1, 4].numpy(), [[-3, 0], [1.5, -1.5]])
    assert task.contains(torch.tensor([[3.0, -3.0], [3.1, 0.0]])).tolist() == [True, False]
