"""Nothing is exchanged but the class: what Stable-Baselines3's and cpprb's users do with theirs."""

import warnings
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from hindsight.library.like_cpprb import HindsightReplayBuffer
from hindsight.library.like_stable_baselines3 import HerReplayBuffer
from hindsight.training.cell import prepare_process

stable_baselines3 = pytest.importorskip("stable_baselines3")
from stable_baselines3 import DDPG, DQN, SAC, TD3  # noqa: E402
from stable_baselines3 import HerReplayBuffer as Theirs  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv  # noqa: E402
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """These networks are so small that a second thread only waits for the first."""
    prepare_process("cpu")


def bits(n: int = 4, n_envs: int = 1, continuous: bool = True, **more: Any) -> Any:
    """Their own environment, which has no compute_terminated."""
    return make_vec_env(lambda: BitFlippingEnv(n, continuous, **more), n_envs)


def model_of(kind: Any, env: Any, **more: Any) -> Any:
    settings = {"replay_buffer_class": HerReplayBuffer, "train_freq": 4, "learning_starts": 20}
    settings |= {
        "policy_kwargs": {"net_arch": [8]},
        "buffer_size": 500,
        "batch_size": 16,
        "seed": 1,
    }
    return kind("MultiInputPolicy", env, device="cpu", **{**settings, **more})


def learned(model: Any) -> None:
    """64 steps of two environments: all but open episodes of 3 steps at most are learned from."""
    assert model.num_timesteps == 64 and model._n_updates > 0
    assert 58 <= model.replay_buffer.size() <= 64


# --- Stable-Baselines3 ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SAC, TD3, DDPG, DQN])
@pytest.mark.parametrize("images", [False, True])
def test_every_algorithm_learns_with_infos_kept(kind, images):
    env = bits(continuous=kind is not DQN, image_obs_space=images)
    kept = {"n_sampled_goal": 2, "copy_info_dict": True}
    model = model_of(kind, env, replay_buffer_kwargs=kept)
    model.learn(60)
    assert model.replay_buffer.size() >= 50


@pytest.mark.parametrize("strategy", ["final", "episode", "future", *GoalSelectionStrategy])
def test_strategies_go_by_name_and_by_constant(strategy):
    env = bits(n_envs=2)
    model = model_of(SAC, env, replay_buffer_kwargs={"goal_selection_strategy": strategy})
    model.learn(60)
    named = strategy if isinstance(strategy, str) else strategy.name.lower()
    assert model.replay_buffer.goal_selection_strategy == named
    learned(model)


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("n_envs", [1, 2])
def test_a_saved_buffer_holds_what_it_held(n_envs, truncates, tmp_path):
    kept = {"copy_info_dict": True}
    model = model_of(SAC, bits(6, n_envs), replay_buffer_kwargs=kept, buffer_size=20_000)
    model.learn(61 * n_envs)
    model.replay_buffer.add(  # an episode is open
        *[{k: v for k, v in model._last_obs.items()}] * 2, np.zeros((n_envs, 6), np.float32),
        np.zeros(n_envs), np.zeros(n_envs, bool), [{}] * n_envs,
    )  # fmt: skip
    old = deepcopy(model.replay_buffer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save_replay_buffer(tmp_path / "buffer.pkl")
    del model.replay_buffer
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.load_replay_buffer(tmp_path / "buffer.pkl", truncate_last_traj=truncates)
    said = [str(one.message) for one in heard if one.category is UserWarning]
    assert len(said) == truncates
    assert all("last trajectory in the replay buffer will be truncated" in s for s in said)
    new, pos = model.replay_buffer, old.pos
    assert 0 < pos <= new.pos
    for name in ("observations", "next_observations"):
        for key in ("observation", "achieved_goal", "desired_goal"):
            assert np.array_equal(getattr(old, name)[key][:pos], getattr(new, name)[key][:pos])
    for name in ("actions", "rewards"):
        assert np.array_equal(getattr(old, name)[:pos], getattr(new, name)[:pos])
    # What was cut has ended in its last step, as theirs.
    assert np.array_equal(old.dones[: pos - 1], new.dones[: pos - 1])
    assert (new.dones[pos - 1] == truncates).all() and not old.dones[pos - 1].any()
    model.learn(40, reset_num_timesteps=truncates)


class Tilted(gym.Env[Any, Any]):
    """Rewards depend on the info of the step; actions are float64."""

    observation_space = Dict(
        {k: Box(-9, 9, (1,), np.float64) for k in ("achieved_goal", "desired_goal", "observation")}
    )
    action_space = Box(-1, 1, (2,), np.float64)

    def compute_reward(self, achieved: Any, desired: Any, infos: Any) -> Any:
        tilt = np.array([info["tilt"] for info in np.atleast_1d(infos)])
        return -np.abs(achieved - desired)[..., 0] - tilt


@pytest.mark.parametrize("kind", [HerReplayBuffer, Theirs])
def test_infos_reach_the_rewards_and_actions_are_single(kind):
    """Against their own class: the same samples, but for which goals are drawn."""
    env = make_vec_env(lambda: gym.wrappers.TimeLimit(Tilted(), 5), 1)
    spaces = env.observation_space, env.action_space
    buffer = kind(200, *spaces, env, device="cpu", copy_info_dict=True, n_sampled_goal=10**6)
    for t in range(100):
        place = np.full((1, 1), t / 10)
        obs = {"achieved_goal": place, "desired_goal": place + 3, "observation": place}
        after = {key: value + 0.1 for key, value in obs.items()} | {"desired_goal": place + 3}
        done = np.array([t % 5 == 4])
        info = {"tilt": float(t), "TimeLimit.truncated": bool(done[0])}
        buffer.add(obs, after, np.ones((1, 2)), np.zeros(1), done, [info])
    batch = buffer.sample(500)
    assert batch.actions.dtype == batch.rewards.dtype == torch.float32
    own = batch.observations["observation"][:, 0].double()
    goal = batch.observations["desired_goal"][:, 0].double()
    relabelled = (goal - own - 3).abs() > 0.01
    assert relabelled.sum() >= 499  # theirs leaves one of a batch as it is
    expected = -(own + 0.1 - goal).abs() - (10 * own).round()
    found = batch.rewards[:, 0].double()
    torch.testing.assert_close(found[relabelled], expected[relabelled], atol=1e-4, rtol=0)
    assert not batch.dones.any()


NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
           "float16", "float32", "float64")  # fmt: skip
ACTIONS = (gym.spaces.Discrete(10), *(Box(-1, 1, (1,), kind) for kind in (np.float32, np.float64)))


@pytest.mark.parametrize("action_space", ACTIONS, ids=str)
@pytest.mark.parametrize("number", NUMBERS)
def test_samples_have_the_types_and_shapes_of_theirs(number, action_space):
    env = make_vec_env(Tilted, 1)
    goals = Dict({key: Box(0, 100, (2,), number) for key in Tilted.observation_space.spaces})
    found = []
    for kind in (Theirs, HerReplayBuffer):
        buffer = kind(100, goals, action_space, env=env, device="cpu", copy_info_dict=True)
        for t in range(10):
            obs, after = ({key: np.full((1, 2), x, number) for key in goals} for x in (t, t + 1))
            action = np.array([action_space.sample()]).reshape(1, -1)
            done = np.array([t % 5 == 4])
            buffer.add(obs, after, action, np.zeros(1), done, [{"tilt": 0.0}])
        batch = buffer.sample(16)
        parts = {**batch.observations, "action": batch.actions, "dones": batch.dones}
        parts |= {"rewards": batch.rewards, **{f"next {k}": v for k, v in
                  batch.next_observations.items()}}  # fmt: skip
        found.append({name: (value.dtype, value.shape) for name, value in parts.items()})
    assert found[0] == found[1]


def test_infos_stay_those_of_their_steps_when_the_buffer_is_full():
    env = make_vec_env(lambda: gym.wrappers.TimeLimit(Tilted(), 5), 2)
    spaces = env.observation_space, env.action_space
    buffer = HerReplayBuffer(40, *spaces, env, n_envs=2, copy_info_dict=True, n_sampled_goal=10**6)
    rng = np.random.default_rng(0)
    for t in range(400):
        number = np.array([[2.0 * t], [2.0 * t + 1]]) / 100
        obs = {key: number for key in spaces[0].spaces}
        over = (rng.random(2) < (0.3, 0.1)) | (t % 20 == 19)  # the second's episodes are longer
        info = [{"tilt": float(n)} for n in number[:, 0]]
        buffer.add(obs, obs, np.ones((2, 2)), np.zeros(2), over, info)
        if t % 50 == 49 and buffer.size():
            batch = buffer.sample(200)
            goal = batch.observations["desired_goal"][:, 0]
            own = batch.observations["observation"][:, 0]
            # The first keeps its goal: a share of 1 - 1 / (k + 1) of the batch is rounded down.
            explained = (-abs(own - goal) - own)[1:]
            np.testing.assert_allclose(batch.rewards[1:, 0], explained, atol=1e-5)


def test_terminations_are_theirs_where_nothing_tells_others():
    """Their BitFlippingEnv has no compute_terminated: as there, a termination stays."""
    model = model_of(SAC, bits(2), replay_buffer_kwargs={"n_sampled_goal": 10**6})
    model.learn(200)
    stored = model.replay_buffer
    assert 0 < stored.dones.mean() < 1
    batch = stored.sample(2000)
    assert abs(float(batch.dones.mean()) - stored.dones.mean()) < 0.06


# --- cpprb ----------------------------------------------------------------------------------------


def cpprb_like(**more: Any) -> HindsightReplayBuffer:
    arrays: Any = {"obs": {}, "act": {}, "next_obs": {}}
    settings = {"additional_goals": 2, "seed": 0, **more}
    return HindsightReplayBuffer(20, arrays, 2, lambda s, a, g: -1.0 * (s != g), **settings)


def two_steps(buffer: HindsightReplayBuffer) -> HindsightReplayBuffer:
    buffer.add(obs=0, act=0, next_obs=1)
    buffer.add(obs=1, act=0, next_obs=2)
    buffer.on_episode_end(3)  # a goal of shape 1, without its axis
    return buffer


def test_a_single_number_is_a_goal():
    found = two_steps(cpprb_like(strategy="final", prioritized=False)).get_all_transitions()
    assert found["goal"].tolist() == [[3.0], [3.0], [2.0], [2.0]]
    assert found["rew"].tolist() == [[-1.0], [-1.0], [-1.0], [0.0]]


def test_the_largest_priority_is_that_of_an_error():
    """As cpprb's own, beside which it is put where that is installed."""
    ours = two_steps(cpprb_like(alpha=0.5, eps=0.0))
    assert ours.get_max_priority() == 1.0
    ours.update_priorities(np.array([0.0, 1.0]), np.array([0.5, 0.25]))  # indexes as numbers
    assert ours.get_max_priority() == 1.0
    ours.update_priorities([2], [9.0])
    assert ours.get_max_priority() == pytest.approx(9.0)
    cpprb = pytest.importorskip("cpprb")
    arrays: Any = {"obs": {}, "act": {}, "next_obs": {}}
    theirs = cpprb.HindsightReplayBuffer(
        20, arrays, 2, lambda s, a, g: -1.0 * (s != g), additional_goals=2, alpha=0.5
    )
    two_steps(theirs)
    theirs.update_priorities([2], [9.0])
    assert theirs.get_max_priority() == pytest.approx(ours.get_max_priority())


def test_an_error_of_zero_is_allowed_without_eps():
    buffer = two_steps(cpprb_like(eps=0.0))
    everything = np.arange(6)
    buffer.update_priorities(everything, np.where(everything == 4, 1.0, 0.0))
    assert set(buffer.sample(300)["indexes"]) == {4}
    buffer.update_priorities(everything, np.where(everything == 1, 1.0, 0.0))
    assert set(buffer.sample(300)["indexes"]) == {1}  # one that was at zero comes back
