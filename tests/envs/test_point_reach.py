"""The point mass against a reference in plain Python, and its gymnasium wrapper."""

import math
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stable_baselines3 import DDPG
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from stable_baselines3.her import HerReplayBuffer

import hindsight.envs  # noqa: F401  (registers the environment)
from hindsight.envs.point_reach import PointReach, step
from hindsight.envs.step import SUCCESS, TRUNCATED
from hindsight.envs.wrapper import GoalEnv
from hindsight.specs.environments.point_reach import PointReachSpec
from hindsight.specs.errors import SpecError

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
def test_steps_are_those_of_the_reference(
    spec: PointReachSpec, position: list[float], goal: list[float], acts: list[list[float]]
) -> None:
    scaled = [[spec.range * x for x in pair] for pair in (position, goal)]
    reference = Reference(spec, *scaled)
    env, nothing = PointReach([spec], [0]), np.empty(0)
    state, after = np.array(reference.observation), np.empty(8)
    for t, action in enumerate(acts[: spec.max_steps]):
        reward, truncated = reference.step(action)
        assume(abs(reference.distance - spec.threshold) > 1e-9)
        before = state.copy()
        told = env.goal_policy(0), env.parameters[0]
        flags = step(*told, state, t, np.array(action), nothing, after)
        assert (state == before).all()
        np.testing.assert_allclose(after, reference.observation, atol=1e-12)
        assert flags == (SUCCESS if reward == 0.0 else 0) + (TRUNCATED if truncated else 0)
        state = after.copy()


@settings(max_examples=100, deadline=None)
@given(
    spec=st.builds(
        PointReachSpec,
        range=st.floats(0.1, 100),
        max_speed=st.floats(0.01, 100),
        dt=st.floats(0.001, 1),
        action_scale=st.floats(0.1, 1000),
        max_steps=st.integers(1, 40),
    ),
    seed=st.integers(0, 2**32),
)
def test_positions_and_speeds_keep_their_bounds(spec: PointReachSpec, seed: int) -> None:
    env = PointReach([spec], [seed], 5)
    box, top = np.float32(spec.range), np.float32(spec.max_speed)
    generator = np.random.default_rng(seed)
    for _ in range(60):
        assert (env.state[..., :6].abs() <= box).all()
        assert (env.state[..., 6:].abs() <= top).all()
        force = torch.from_numpy(generator.normal(0, 2, (1, 5, 2)).astype(np.float32))
        obs = env.step(force).next_obs
        assert (obs[..., :6].abs() <= box).all() and (obs[..., 6:].abs() <= top).all()


def test_by_hand() -> None:
    """v = min(10 x 0.05, 1) = 0.5, then 1; p moves by the new velocity: 0.025, then 0.05."""
    env = PointReach([PointReachSpec()], [0])
    env.state.copy_(torch.tensor([[[0.0, 0.95, 0.08, 1.0, 0.0, 0.95, 0.0, 0.0]]]))
    right_and_up = torch.tensor([[[1.0, 7.0]]])
    first = env.step(right_and_up)
    expected = [0.025, 0.975, 0.08, 1.0, 0.025, 0.975, 0.5, 0.5]
    np.testing.assert_allclose(first.next_obs[0, 0].numpy(), expected, atol=1e-6)
    assert not first.success  # 0.06 away
    second = env.step(right_and_up)
    expected = [0.075, 1.0, 0.08, 1.0, 0.075, 1.0, 1.0, 1.0]
    np.testing.assert_allclose(second.next_obs[0, 0].numpy(), expected, atol=1e-6)
    assert second.success and not second.terminated and not second.truncated
    third = env.step(-right_and_up)
    np.testing.assert_allclose(third.next_achieved[0, 0].numpy(), [0.1, 1.0], atol=1e-6)
    assert third.success  # it goes on at the target, and may leave it


def test_episodes_begin_at_rest_anywhere_in_the_square() -> None:
    spec = PointReachSpec(range=2.0)
    state = PointReach([spec], [0], 16).beginnings.flatten(0, 2)
    assert (state[:, 6:] == 0).all() and torch.equal(state[:, :2], state[:, 4:6])
    # U(-2, 2) has quartiles at -1, 0 and 1; position and target know nothing of each other.
    quartiles = np.quantile(state[:, :4].numpy(), [0.25, 0.5, 0.75], axis=0)
    np.testing.assert_allclose(quartiles, [[-1] * 4, [0] * 4, [1] * 4], atol=0.15)
    correlation = np.corrcoef(state[:, :4].numpy().T) - np.eye(4)
    assert np.abs(correlation).max() < 0.1


def test_goals_fill_each_runs_square() -> None:
    env = PointReach([PointReachSpec(range=1.0), PointReachSpec(range=3.0)], [0, 1])
    uniform = torch.tensor([[0.0, 0.5], [0.75, 0.25]]).expand(2, 5, 2, 2)
    goals = env.task.goals(uniform)
    assert goals.shape == (2, 5, 2, 2)
    np.testing.assert_allclose(goals[0, 3].numpy(), [[-1, 0], [0.5, -0.5]])
    np.testing.assert_allclose(goals[1, 4].numpy(), [[-3, 0], [1.5, -1.5]])


def test_each_run_is_judged_by_its_own_threshold() -> None:
    env = PointReach([PointReachSpec(threshold=t) for t in (0.1, 0.2)], [0, 1])
    achieved = torch.zeros(2, 3, 2)
    desired = torch.tensor([[0.0, 0.05], [0.0, 0.15], [0.15, 0.15]]).expand(2, 3, 2)
    reward, success = env.task.reward(achieved, desired, torch.zeros(2, 3, dtype=torch.bool))
    assert success.tolist() == [[True, False, False], [True, True, False]]
    assert reward.tolist() == [[0, -1, -1], [0, 0, -1]]


# -- the gymnasium wrapper ------------------------------------------------------------------------


def make(**parameters: Any) -> GoalEnv:
    env = gymnasium.make("PointReach-v0", **parameters).unwrapped
    assert isinstance(env, GoalEnv)
    return env


def concatenated(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([obs["achieved_goal"], obs["desired_goal"], obs["observation"]])


@pytest.mark.parametrize("parameters", [{}, {"range": 3.3, "max_speed": 0.7, "threshold": 1.0}])
def test_the_checkers_find_nothing(parameters: dict[str, Any]) -> None:
    env = make(render_mode="rgb_array", **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
        check_env_of_sb3(env)


def test_the_run_axis_is_a_loop_over_faces() -> None:
    """Step for step, through the ends of episodes, runs of different parameters side by side."""
    parameters: list[dict[str, Any]] = [
        {"max_steps": 7},
        {"max_steps": 5, "range": 0.4, "threshold": 0.15, "action_scale": 4.0},
        {"max_steps": 11, "dt": 0.2, "max_speed": 0.4, "threshold": 0.2},
    ]
    axis = PointReach([PointReachSpec.model_validate(p) for p in parameters], [3, 1, 4], 2)
    wrappers = [[make(**p) for _ in range(2)] for p in parameters]
    begins = np.ones((3, 2), dtype=bool)
    successes = 0
    for t in range(120):
        state = axis.state.numpy().copy()
        toward = state[..., 2:4] - state[..., :2]
        chosen = (3 * toward + np.sin(state[..., :2] + t)).astype(np.float32)
        step = axis.step(torch.from_numpy(chosen))
        desired = torch.from_numpy(state[..., 2:4])
        rewards, _ = axis.task.reward(step.next_achieved, desired, step.terminated)
        for run, env in np.ndindex(3, 2):
            wrapper = wrappers[run][env]
            if begins[run, env]:
                given = {
                    "achieved_goal": state[run, env, :2],
                    "desired_goal": state[run, env, 2:4],
                }
                obs, info = wrapper.reset(options=given)
                np.testing.assert_array_equal(concatenated(obs), state[run, env])
                assert info == {"is_success": False, "timed_out": False}
            obs, reward, terminated, truncated, info = wrapper.step(chosen[run, env])
            np.testing.assert_array_equal(concatenated(obs), step.next_obs[run, env].numpy())
            assert reward == float(rewards[run, env])
            assert terminated is False and truncated == bool(step.truncated[run, env])
            success = bool(step.success[run, env])
            assert info == {"is_success": success, "timed_out": truncated}
            begins[run, env] = truncated
            successes += info["is_success"]
    assert 50 < successes < 600


def test_an_episode_is_truncated_after_fifty_steps_and_never_terminates() -> None:
    env = make()
    env.reset(options={"achieved_goal": [0.5, 0.5], "desired_goal": [0.5, 0.5]})
    for t in range(1, 51):
        _, reward, terminated, truncated, info = env.step(np.zeros(2, np.float32))
        assert reward == 0.0 and info["is_success"]  # it has begun at its target
        assert (terminated, truncated) == (False, t == 50)
    with pytest.raises(gymnasium.error.ResetNeeded, match="is over"):
        env.step(np.zeros(2, np.float32))


def test_make_passes_the_parameters_on() -> None:
    env = gymnasium.make("PointReach-v0", threshold=0.5, range=2.0, max_speed=0.25, max_steps=3)
    assert env.observation_space["desired_goal"].high.tolist() == [2, 2]  # type: ignore[index]
    assert env.observation_space["observation"].high.tolist() == [2, 2, 0.25, 0.25]  # type: ignore[index]
    env.reset(seed=0, options={"achieved_goal": [0, 0], "desired_goal": [0.4, 0]})
    results = [env.step(np.zeros(2, np.float32)) for _ in range(3)]
    assert [result[1] for result in results] == [0.0] * 3
    assert [result[3] for result in results] == [False, False, True]


def test_a_seed_decides_an_episode() -> None:
    one, other = make(), make()
    first = [concatenated(env.reset(seed=3)[0]) for env in (one, other)]
    second = [concatenated(env.reset()[0]) for env in (one, other)]
    np.testing.assert_array_equal(*first)
    np.testing.assert_array_equal(*second)
    assert (first[0][:4] != second[0][:4]).all()
    assert (first[0][:4] != concatenated(one.reset(seed=4)[0])[:4]).all()


def test_compute_reward_takes_any_leading_shape() -> None:
    env = make(threshold=0.25)
    achieved = np.zeros((2, 3, 2))
    desired = np.array([[[0, 0.25], [0, 0.26], [0.2, 0.2]], [[0.1, -0.1], [-0.25, 0], [1, 1]]])
    expected = np.array([[0, -1, -1], [0, 0, -1]], np.float32)
    for said in ({}, None, [{}] * 6):
        batch = env.compute_reward(achieved, desired, said)
        assert isinstance(batch, np.ndarray) and batch.dtype == np.float32
        np.testing.assert_array_equal(batch, expected)
    single = env.compute_reward(achieved[0, 0], desired[0, 0], {})
    assert isinstance(single, float) and single == 0.0
    np.testing.assert_array_equal(env.compute_reward(achieved[0], desired[0], {}), expected[0])


def test_hindsight_of_stable_baselines_can_train_on_it() -> None:
    model = DDPG(
        "MultiInputPolicy",
        gymnasium.make("PointReach-v0"),
        replay_buffer_class=HerReplayBuffer,
        learning_starts=110,
        batch_size=32,
        policy_kwargs={"net_arch": [8]},
        seed=0,
    )
    model.learn(112)
    assert model.replay_buffer is not None
    sample = model.replay_buffer.sample(400)
    assert set(sample.rewards.unique().tolist()) == {-1.0, 0.0}
    assert not sample.dones.any()


def test_a_picture() -> None:
    env = make(render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded, match="no episode to draw"):
        env.render()
    env.reset(seed=0, options={"achieved_goal": [-0.5, 0.5], "desired_goal": [0.5, -0.5]})
    before = env.render()
    for _ in range(20):
        env.step(np.array([1.0, 0.0], np.float32))
    after = env.render()
    assert before is not None and after is not None
    assert before.shape == after.shape == (480, 480, 3) and before.dtype == np.uint8
    # The mass has moved to the right, in the upper half; around the target nothing has changed.
    changed = (before != after).any(-1)
    rows, columns = np.nonzero(changed[60:])
    assert len(rows) > 100 and rows.max() + 60 < 240
    assert columns.min() < 160 < 300 < columns.max()


def test_without_a_render_mode_nothing_is_drawn() -> None:
    env = make()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="draws nothing without a render mode"):
        assert env.render() is None


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_steps": 0}, "max_steps: 0 is not allowed"),
        ({"dt": -0.1}, "dt: -0.1 is not allowed; input should be greater than 0"),
        ({"range": float("inf")}, "range: inf is not allowed; input should be a finite number"),
        ({"threshold": 1.5}, "threshold 1.5 must be below range 1: otherwise half of the episodes"),
        ({"treshold": 0.1}, "unknown key 'treshold'; did you mean 'threshold'?"),
        ({"render_mode": "human"}, "render_mode: 'human' is not allowed; it is 'rgb_array'"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        GoalEnv("PointReach-v0", **parameters)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
    assert isinstance(caught.value, SpecError) or "render_mode" in parameters


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"goal": [0, 0]}, "unknown option 'goal' of reset; there are achieved_goal, desired_goal"),
        ({"desired_goal": [0, 0, 0]}, "'desired_goal' of reset: .* takes 2 finite numbers"),
        (
            {"achieved_goal": [0, 1.5]},
            r"'achieved_goal' of reset: \[0, 1.5\] is not allowed; .*Box",
        ),
        ({"achieved_goal": "here"}, "'achieved_goal' of reset: 'here' is not allowed"),
    ],
)
def test_options_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make().reset(options=options)


@pytest.mark.parametrize("action", [[0.0], [[0.0, 0.0]], [0.0, float("nan")], None])
def test_actions_are_checked(action: Any) -> None:
    env = make()
    with pytest.raises(gymnasium.error.ResetNeeded, match="has not begun"):
        env.step(np.zeros(2, np.float32))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action: .* is not allowed; it takes 2 finite numbers"):
        env.step(action)
