"""The gymnasium wrapper: what gymnasium and Stable-Baselines3 ask of it, and the physics behind."""

import importlib
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import SAC
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from stable_baselines3.her import HerReplayBuffer

import hindsight.envs
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.prey import top_speed
from hindsight.envs.wrapper import GoalEnv
from hindsight.specs.environments.predator_prey import PREYS, PredatorPreySpec, Prey
from hindsight.streams import Purpose, stream


def make(**parameters: Any) -> GoalEnv:
    env = gymnasium.make("PredatorPrey-v0", **parameters).unwrapped
    assert isinstance(env, GoalEnv)
    return env


def concatenated(obs: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([obs["achieved_goal"], obs["desired_goal"], obs["observation"]])


@pytest.mark.parametrize("prey", PREYS)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_checkers_find_nothing(prey: Prey, n: int) -> None:
    env = make(n_dims=n, prey=prey, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
        check_env_of_sb3(env)


def test_make_passes_the_parameters_on() -> None:
    env = gymnasium.make(
        "PredatorPrey-v0",
        n_dims=3,
        grid_size=20.0,
        interception_distance=0.5,
        max_steps=7,
        prey="repel",
        spawn="apart",
        fidelity="described",
    )
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs["desired_goal"], [0, 0, 10])
    assert env.observation_space["desired_goal"].high.tolist() == [20.0] * 3  # type: ignore[index]
    for step in range(8):
        _, reward, terminated, truncated, info = env.step(np.zeros(3, np.float32))
        assert (reward, terminated, truncated) == (
            (-1.0, True, False) if step == 7 else (0, False, False)
        )
    assert info["timed_out"] and not info["is_success"]


def test_registering_twice_changes_nothing() -> None:
    before = gymnasium.spec("PredatorPrey-v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # gymnasium warns where a name is given anew
        importlib.reload(hindsight.envs)
    assert gymnasium.spec("PredatorPrey-v0") is before


def test_make_vec() -> None:
    envs = gymnasium.make_vec("PredatorPrey-v0", num_envs=3, prey="random")
    obs, _ = envs.reset(seed=0)
    assert obs["achieved_goal"].shape == (3, 3)
    assert len(np.unique(obs["achieved_goal"], axis=0)) == 3
    envs.close()


def episode(env: GoalEnv, seed: int | None) -> list[np.ndarray]:
    obs, _ = env.reset(seed=seed)
    seen, over = [concatenated(obs)], False
    while not over:
        obs, _, over, _, _ = env.step(np.sin(7 * obs["achieved_goal"]))
        seen.append(concatenated(obs))
    return seen


@pytest.mark.parametrize("prey", ["attract", "random_direction"])
def test_a_seed_decides_an_episode(prey: Prey) -> None:
    one, other = make(prey=prey), make(prey=prey)
    np.testing.assert_array_equal(episode(one, 3), episode(other, 3))
    np.testing.assert_array_equal(episode(one, None), episode(other, None))
    assert (episode(one, 4)[0] != episode(other, 5)[0]).any()


@pytest.mark.parametrize("prey", PREYS)
@pytest.mark.parametrize("fidelity", ["released", "described"])
def test_the_face_is_the_environment_of_the_run_axis(prey: Prey, fidelity: str) -> None:
    parameters = {"prey": prey, "fidelity": fidelity, "grid_size": 4.0, "max_steps": 9}
    spec = PredatorPreySpec.model_validate(parameters)
    axis, wrapper = PredatorPrey([spec], [5]), make(**parameters)
    steps, n = 120, 3
    axis.prepare_rollout(1, steps)
    generator = stream(5, Purpose.PREY, 1)  # what the run draws the prey's numbers from
    rewards, begins = [], True
    for t in range(steps):
        state = axis.state[0, 0].numpy().copy()
        if begins:
            names = ("predator", "prey", "prey_velocity")
            given = dict(zip(names, state.reshape(3, n), strict=True))
            obs, _ = wrapper.reset(seed=0, options=given)
            wrapper.np_random = generator
        np.testing.assert_array_equal(concatenated(obs), state)
        action = np.sin(state[:n] + 2 * state[n : 2 * n] + t)
        desired = axis.state[..., n : 2 * n].clone()
        step = axis.step(torch.from_numpy(action)[None, None])
        expected, success = axis.task.reward(step.next_achieved, desired, step.terminated)
        obs, reward, begins, truncated, info = wrapper.step(action)
        np.testing.assert_array_equal(obs["achieved_goal"], step.next_achieved[0, 0].numpy())
        np.testing.assert_array_equal(info["desired_goal_at_reward"], desired[0, 0].numpy())
        assert (reward, begins) == (float(expected), bool(step.terminated))
        assert info["is_success"] == bool(success) and not truncated
        rewards.append(reward)
    assert {-1.0, 0.0} <= set(rewards)


@pytest.mark.parametrize("prey", PREYS)
@pytest.mark.parametrize("n", [2, 3, 6])
def test_observations_stay_in_their_space(prey: Prey, n: int) -> None:
    env = make(n_dims=n, prey=prey, grid_size=2.5)
    env.action_space.seed(0)
    # Along an axis a velocity is v_max up to rounding.
    ahead = np.eye(n, dtype=np.float32)[0]
    obs, _ = env.reset(seed=0, options={"predator": 0 * ahead, "prey": 1.7 * ahead})
    assert env.observation_space.contains(obs)
    for _ in range(200):
        obs, _, over, _, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
        if over:
            obs, _ = env.reset()
            assert env.observation_space.contains(obs)


# -- rewards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prey", PREYS)
def test_compute_reward_gives_the_reward_of_the_step(prey: Prey) -> None:
    env = make(prey=prey, grid_size=3.0, max_steps=6)
    env.reset(seed=1)
    achieved, desired, infos, rewards = [], [], [], []
    for t in range(300):
        toward = env._seen[-1]["desired_goal"] - env._seen[-1]["achieved_goal"]
        obs, reward, over, _, info = env.step(toward * (-1) ** (t // 40))
        goal = info["desired_goal_at_reward"]
        single = env.compute_reward(obs["achieved_goal"], goal, info)
        assert isinstance(single, float) and single == reward
        achieved.append(obs["achieved_goal"])
        desired.append(goal)
        infos.append(info)
        rewards.append(reward)
        if over:
            env.reset()
    assert set(rewards) == {-1.0, 0.0, 1.0}
    arrays = {"timed_out": np.array([info["timed_out"] for info in infos])}
    for said in (infos, np.array(infos), tuple(infos), arrays):
        batch = env.compute_reward(np.array(achieved), np.array(desired), said)
        assert isinstance(batch, np.ndarray) and batch.dtype == np.float32
        np.testing.assert_array_equal(batch, rewards)


def test_compute_reward_without_word_of_a_timeout() -> None:
    env = make(interception_distance=0.5)
    achieved = np.zeros((2, 2, 3))
    desired = np.array([[[0.5, 0, 0], [0.51, 0, 0]], [[0, 0, 0], [9, 9, 9]]])
    for info in ({}, None, [{}, {}, {}, {}]):
        batch = env.compute_reward(achieved, desired, info)
        np.testing.assert_array_equal(batch, [[1, 0], [1, 0]])
    batch = env.compute_reward(achieved, desired, {"timed_out": True})
    np.testing.assert_array_equal(batch, [[1, -1], [1, -1]])


def test_the_returned_goal_is_that_after_the_prey_moved() -> None:
    env = make(n_dims=2, prey="random_direction")
    env.reset(options={"predator": [0, 0], "prey": [1.5, 0], "prey_velocity": [0.6, 0]})
    obs, reward, terminated, _, info = env.step(np.array([1, 0], np.float32))
    assert reward == 1.0 and terminated and info["is_success"]
    np.testing.assert_allclose(obs["desired_goal"], [2.1, 0], rtol=1e-6)
    np.testing.assert_allclose(info["desired_goal_at_reward"], [1.5, 0])
    assert env.compute_reward(obs["achieved_goal"], obs["desired_goal"], info) == 0.0


@pytest.mark.parametrize("copy_info_dict", [False, True])
def test_hindsight_of_stable_baselines_can_train_on_it(copy_info_dict: bool) -> None:
    model = SAC(
        "MultiInputPolicy",
        gymnasium.make("PredatorPrey-v0", prey="attract"),
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"copy_info_dict": copy_info_dict},
        learning_starts=60,
        batch_size=32,
        policy_kwargs={"net_arch": [8]},
        seed=0,
    )
    model.learn(70)
    assert model.replay_buffer is not None
    rewards = model.replay_buffer.sample(400).rewards
    assert set(rewards.unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert (rewards == 1).any()  # random episodes of 60 steps succeed at relabelled goals


# -- what is refused ------------------------------------------------------------------------------


def test_a_given_state_is_where_the_episode_begins() -> None:
    env = make(prey="repel")
    state = {"predator": [1, 2, 3], "prey": np.float32([-0.5] * 3), "prey_velocity": [0.1, 0, -0.2]}
    obs, info = env.reset(seed=0, options=state)
    np.testing.assert_array_equal(
        concatenated(obs), np.concatenate(list(state.values())).astype(np.float32)
    )
    assert info == {"is_success": False, "timed_out": False}
    # What is not given is drawn: a prey out of reach, a velocity at full speed.
    for seed in range(200):
        obs, _ = env.reset(seed=seed, options={"predator": [0.0, 0.0, 0.0]})
        assert (obs["achieved_goal"] == 0).all()
        assert np.linalg.norm(obs["desired_goal"]) > 1
        assert np.linalg.norm(obs["observation"]) == pytest.approx(top_speed(3))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"hunter": [0, 0, 0]},
            "unknown option 'hunter' of reset; there are predator, prey, prey_velocity",
        ),
        (
            {"prey": [0, 0]},
            r"option 'prey' of reset: \[0, 0\] is not allowed; it takes 3 finite numbers",
        ),
        ({"predator": [0, 0, float("nan")]}, "'predator' .* 3 finite numbers"),
        ({"predator": "here"}, "'predator' .*'here' is not allowed; it takes 3 finite numbers"),
        ({"predator": [0, 0, 10.5]}, r"'predator' .* every entry lies in \[-10, 10\]"),
        (
            {"prey_velocity": [0, 0, 0.9]},
            r"'prey_velocity' .* every entry lies in \[-0.866026, 0.866026\]",
        ),
    ],
)
def test_options_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make().reset(options=options)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_dims": 1}, "n_dims: 1 is not allowed; input should be greater than or equal to 2"),
        ({"grid_sise": 5}, "unknown key 'grid_sise'; did you mean 'grid_size'?"),
        ({"prey": "statik"}, "prey: 'statik' is not allowed; input should be 'static', "),
        (
            {"interception_distance": 6},
            "interception_distance 6 must be below half of grid_size 10",
        ),
        ({"max_steps": 0}, "max_steps: 0 is not allowed"),
        (
            {"render_mode": "ascii"},
            "render_mode: 'ascii' is not allowed; it is 'rgb_array' or None",
        ),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        GoalEnv("PredatorPrey-v0", **parameters)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("action", [[0.0, 0.0], [[0.0, 0.0, 0.0]], [0.0, 0.0, float("inf")], None])
def test_actions_are_checked(action: Any) -> None:
    env = make()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action: .* is not allowed; it takes 3 finite numbers"):
        env.step(action)


def test_steps_belong_to_an_episode() -> None:
    env = make(max_steps=1, spawn="apart")
    with pytest.raises(gymnasium.error.ResetNeeded, match="has not begun"):
        env.step(np.zeros(3, np.float32))
    env.reset()
    env.step(np.zeros(3, np.float32))
    assert env.step(np.zeros(3, np.float32))[2]
    with pytest.raises(gymnasium.error.ResetNeeded, match="is over"):
        env.step(np.zeros(3, np.float32))
