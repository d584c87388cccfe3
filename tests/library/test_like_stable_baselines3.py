"""Our HerReplayBuffer against Stable-Baselines3's, and inside its algorithms."""

import importlib.util
import inspect
import math
import os
import pickle
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as Theirs

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.io.files import FileError
from hindsight.library.like_stable_baselines3 import HerReplayBuffer
from tests.replay.numbered import Numbered, box, numbers, observed, stored_reward


class Pictured(Numbered):
    """Also sees a picture."""

    camera = Box(0, 255, (2, 3), np.uint8)
    observation_space = Dict({**Numbered.observation_space.spaces, "camera": camera})


def step(buffer, number: np.ndarray, over, infos=None) -> None:
    """A step of each environment, with the transitions `number` [env].

    In an episode, it begins where the last step led to.
    """
    values = numbers(number, "action"), stored_reward(number), np.asarray(over)
    infos = [{} for _ in number] if infos is None else infos
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3) + number.astype(np.uint8)[:, None, None]
    before, after = (
        observed(number, after=later) | {"camera": pixels + later} for later in (False, True)
    )
    last, was_over = getattr(buffer, "last_step", (before, np.ones(len(number), bool)))
    for key in before.keys() - {"desired_goal"}:
        goes_on = ~was_over.reshape(-1, *[1] * (before[key].ndim - 1))
        before[key] = np.where(goes_on, last[key], before[key])
    buffer.last_step = after, np.asarray(over)
    buffer.add(before, after, *values, infos)


def fill(buffer, n_envs: int, steps: int, seed: int = 0, first: int = 0) -> None:
    """Steps of several environments, with episodes of uneven lengths."""
    rng = np.random.default_rng(seed)
    for i in range(first, first + steps):
        number = i * n_envs + np.arange(n_envs)
        over, cut = rng.random(n_envs) < 0.25, rng.random(n_envs) < 0.5
        infos = [{"TimeLimit.truncated": bool(each), "extra": float(i)} for each in over & cut]
        step(buffer, number, over, infos)


def pair(n_envs: int, strategy, size: int = 200, world=Pictured, **options):
    """A buffer of ours and one of theirs."""
    spaces = world.observation_space, world.action_space
    arguments = (size, *spaces, DummyVecEnv([world] * n_envs), "cpu")
    options |= {"n_envs": n_envs, "goal_selection_strategy": strategy}
    return (
        HerReplayBuffer(*arguments, fidelity="released", **options),
        Theirs(*arguments, **options),
    )


def parts(samples) -> list[torch.Tensor]:
    """All tensors of a batch."""
    observations = [
        each[key]
        for each in (samples.observations, samples.next_observations)
        for key in sorted(each)
    ]
    return [*observations, samples.actions, samples.dones, samples.rewards]


def assert_same_samples(ours, theirs, seed: int, env=None) -> None:
    """To the bit and in their order, from one state of NumPy's generator."""
    batches = []
    for buffer in (ours, theirs):
        np.random.seed(seed)  # noqa: NPY002
        batches.append(parts(buffer.sample(300, env=env)))
    for a, b in zip(*batches, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


def assert_same_arrays(ours, theirs) -> None:
    for name in ("pos", "full", "_current_ep_start", "ep_start", "ep_length", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for name in ("observations", "next_observations"):
        for key, values in getattr(theirs, name).items():
            np.testing.assert_array_equal(getattr(ours, name)[key], values)
    assert (ours.actions.dtype, ours.rewards.dtype) == (theirs.actions.dtype, np.float32)
    finished = theirs.ep_length > 0  # theirs keep the ends of episodes that were dropped
    for name in ("dones", "timeouts"):
        a, b = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_array_equal(a[finished], b[finished])
        assert not a[~finished].any()
    there = np.arange(ours.buffer_size) < (ours.buffer_size if ours.full else ours.pos)
    assert (ours.infos[there] == theirs.infos[there]).all() and ours.infos.shape == finished.shape


@pytest.mark.parametrize("strategy", GoalSelectionStrategy)
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("k", [0, 1, 4])
@pytest.mark.filterwarnings("ignore:The last trajectory in the replay buffer will be truncated")
def test_samples_and_arrays_are_theirs(strategy, n_envs, k):
    """Also when old episodes have been overwritten, and others are open or were truncated."""
    copies = k == 1  # then rewards depend on infos
    options = {"copy_info_dict": copies, "handle_timeout_termination": k != 0}
    ours, theirs = pair(n_envs, strategy, 60 * n_envs, n_sampled_goal=k, **options)
    steps = 0
    for more in (7, 20, 33, 30, 1, 1, 1, 60, 200):
        for buffer in (ours, theirs):
            fill(buffer, n_envs, more, seed=steps, first=steps)
            if more in (30, 60):
                buffer.truncate_last_trajectory()
        steps += more
        assert_same_samples(ours, theirs, steps)
        assert_same_arrays(ours, theirs)
    ours.truncate_last_trajectory()
    with warnings.catch_warnings(action="error"):
        ours.truncate_last_trajectory()  # nothing is open


def test_a_seeded_buffer_draws_the_same_and_is_saved_with_its_generator(tmp_path):
    spaces, env = (Pictured.observation_space, Pictured.action_space), DummyVecEnv([Pictured] * 2)
    buffers = [HerReplayBuffer(200, *spaces, env, n_envs=2, seed=seed) for seed in (3, 3, 4)]
    for buffer in buffers:
        fill(buffer, 2, 60)
    a, b, c = (buffer.sample(50).observations["desired_goal"] for buffer in buffers)
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
    buffers[0].save(tmp_path / "buffer")
    buffers[2].load(tmp_path / "buffer")
    d, _, e = (buffer.sample(50).observations["desired_goal"] for buffer in buffers)
    np.testing.assert_array_equal(d, e)
    assert (a != d).any()
    buffers[2].reset()
    assert buffers[2].size() == buffers[2].pos == 0 and not buffers[2].actions.any()


def test_arguments_are_theirs():
    for name in ("__init__", "add", "sample"):
        theirs, ours = (
            inspect.signature(getattr(kind, name)).parameters for kind in (Theirs, HerReplayBuffer)
        )
        assert list(ours)[: len(theirs)] == list(theirs)
        for parameter in theirs.values():
            # Without a device, ours returns arrays.
            optional = parameter.name in ("device", "env") or name != "__init__"
            assert optional or ours[parameter.name].default == parameter.default, parameter


def test_it_has_every_public_name_of_theirs():
    ours, theirs = pair(2, "final", 40)
    for buffer in (ours, theirs):
        fill(buffer, 2, 10)
        step(
            buffer, 20 + np.arange(2), np.ones(2, bool), [{"extra": 10.0}] * 2
        )  # ends both episodes
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert names <= set(dir(ours))
    same = "her_ratio obs_shape action_dim observation_space action_space optimize_memory_usage"
    for name in (*same.split(), "n_envs", "n_sampled_goal", "buffer_size", "device"):
        assert getattr(ours, name) == getattr(theirs, name), name
    flat = [type(b).swap_and_flatten(b.observations["camera"]) for b in (ours, theirs)]
    np.testing.assert_array_equal(*flat)
    assert torch.equal(ours.to_torch(flat[0]), theirs.to_torch(flat[0]))
    assert pickle.loads(pickle.dumps(ours)).env is None and ours.env is not None
    steps = [buffer.observations for buffer in (ours, theirs)]
    one = [{key: part[:4] for key, part in some.items()} for some in steps]
    rows = [[{key: part[t] for key, part in some.items()} for t in range(4)] for some in one]
    for buffer, some in zip((ours, theirs), rows, strict=True):
        ends = np.ones((4, 2), bool)
        after = [{key: part.copy() for key, part in step.items()} for step in some]
        buffer.extend(some, after, np.zeros((4, 2, 2)), np.zeros((4, 2)), ends, [[{}] * 2] * 4)
    assert_same_samples(ours, theirs, 0)


def test_an_empty_batch_is_theirs_and_there_is_no_other_before_an_episode_has_ended():
    for buffer in pair(1, "future"):
        fill(buffer, 1, 1)
        with pytest.raises(RuntimeError):
            buffer.sample(3)
        fill(buffer, 1, 20, first=1)
        assert [len(part) for part in parts(buffer.sample(0))] == [0] * 11


@pytest.mark.parametrize("seed", [None, 3])
def test_random_goals_are_of_any_finished_episode(seed):
    buffer = HerReplayBuffer(
        500, Pictured.observation_space, Pictured.action_space, Pictured(), n_sampled_goal=10**6,
        goal_selection_strategy="random", seed=seed,
    )  # fmt: skip
    fill(buffer, 1, 60)
    batch = buffer.sample(4000)
    own, goal = (
        obs[key][1:, 0] // 10
        for obs, key in (
            (batch.next_observations, "achieved_goal"),
            (batch.observations, "desired_goal"),
        )
    )
    assert set(goal) == set(range(buffer.size())) and abs(np.corrcoef(own, goal)[0, 1]) < 0.1


@pytest.mark.parametrize(
    "name", ["online_sampling", "max_episode_length", "env_info", "wrapped_env"]
)
def test_arguments_of_earlier_versions(name):
    arguments = 50, Pictured.observation_space, Pictured.action_space, Pictured()
    with pytest.warns(UserWarning, match=f"^{name} has no effect: "):
        HerReplayBuffer(*arguments, **{name: True})
    with pytest.raises(TypeError, match=f"did you mean '{name}'"):
        HerReplayBuffer(*arguments, **{f"{name}s": True})
    with pytest.raises(TypeError, match=r"n_sampled_goals is no .* did you mean 'n_sampled_goal'"):
        HerReplayBuffer(*arguments, n_sampled_goals=4)
    with pytest.raises(TypeError, match=r"formers is no argument of HerReplayBuffer$"):
        HerReplayBuffer(*arguments, formers=4)


class Episodes(gymnasium.Env):
    """Its goals say where they are from: the episode, and the step in it."""

    observation_space = Dict({key: box(2) for key in ("achieved_goal", "desired_goal")})
    observation_space.spaces["observation"] = box(1)
    action_space = box(1)

    def __init__(self, limit: int = 7) -> None:
        self.at, self.limit = np.array([0, 0], np.float32), limit

    def reset(self, *, seed=None, options=None):
        self.at = np.array([self.at[0] + 1, 0], np.float32)
        return self.seen(), {}

    def step(self, action):
        self.at = self.at + np.float32([0, 1])
        return self.seen(), -1.0, False, self.at[1] == self.limit, {}

    def seen(self):
        desired = np.float32([self.at[0], -1])
        return {"achieved_goal": self.at, "desired_goal": desired, "observation": self.at[1:]}

    def compute_reward(self, achieved, desired, infos):
        return (achieved == desired).all(-1) - 1.0


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.filterwarnings("ignore:.*is not wrapped with a ``Monitor`` wrapper")
def test_a_second_learn_does_not_join_two_episodes(n_envs):
    """It resets the environment by default, and no buffer is told."""
    found = {}
    for kind in (Theirs, HerReplayBuffer):
        model = small_model("SAC", DummyVecEnv([Episodes] * n_envs), kind, learning_starts=10**6)
        model.learn(10 * n_envs)  # three steps into the second episode
        with warnings.catch_warnings(record=True, action="always") as caught:
            model.learn(30 * n_envs)
        told = [str(each.message) for each in caught if "reset_num_timesteps" in str(each.message)]
        assert len(told) == (kind is HerReplayBuffer)
        samples = model.replay_buffer.sample(3000)
        goals = samples.observations["desired_goal"], samples.next_observations["achieved_goal"]
        found[kind] = int((goals[0][:, 0] != goals[1][:, 0]).sum())  # of another episode
        lengths = set(np.unique(model.replay_buffer.ep_length)) - {0}
        assert lengths == ({7, 3} if kind is HerReplayBuffer else {7, 10})
    assert found[HerReplayBuffer] == 0 < found[Theirs]


def test_what_follows_is_not_cut():
    """The step after the end of an episode, a goal that changes on the way, and a continued one."""
    with warnings.catch_warnings(action="error", category=UserWarning):
        model = small_model("SAC", make_vec_env(Episodes, 2), learning_starts=10**6)
        model.learn(20)
        model.learn(20, reset_num_timesteps=False)
    assert set(np.unique(model.replay_buffer.ep_length)) == {0, 7}


class OneGoal(Episodes):
    """Its functions are for one goal, as gymnasium-robotics specifies `compute_terminated`."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return float(np.linalg.norm(achieved_goal - desired_goal) < 0.5) - 1

    def compute_terminated(self, achieved_goal, desired_goal, info) -> bool:
        return math.dist(achieved_goal, desired_goal) < 0.5  # an error for many goals


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_functions_for_one_goal(vector):
    env = vector([OneGoal] * 2)
    model = small_model("SAC", env, learning_starts=20)
    model.learn(60)
    samples = model.replay_buffer.sample(300)
    env.close()
    goals = samples.observations["desired_goal"], samples.next_observations["achieved_goal"]
    reached = (goals[0] == goals[1]).all(1).float()
    assert 0.1 < reached.mean() < 0.9
    assert torch.equal(samples.rewards[:, 0], reached - 1) and torch.equal(
        samples.dones[:, 0], reached
    )


class ManyGoals(OneGoal):
    def compute_reward(self, achieved_goal, desired_goal, info):
        return (np.linalg.norm(achieved_goal - desired_goal, axis=1) < 0.5) - 1.0

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return np.linalg.norm(achieved_goal - desired_goal) < 0.5

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        goals = obs["achieved_goal"][None], obs["desired_goal"][None]
        return obs, float(self.compute_reward(*goals, {})[0]), terminated, truncated, info


class Failing(ManyGoals):
    def compute_reward(self, achieved_goal, desired_goal, info):
        assert len(achieved_goal) < 3
        return super().compute_reward(achieved_goal, desired_goal, info)


def test_a_function_in_another_process_is_not_tried_out():
    """A failure would end the process, and with it the training."""
    env = SubprocVecEnv([ManyGoals] * 2)
    model = small_model("SAC", env, learning_starts=20)
    model.learn(60)
    samples = model.replay_buffer.sample(300)
    reached = samples.observations["desired_goal"] == samples.next_observations["achieved_goal"]
    assert torch.equal(samples.rewards, reached.all(1, keepdim=True).float() - 1)
    env.close()
    env = SubprocVecEnv([Failing] * 2)
    with pytest.raises(ValueError, match="compute_reward: failed for many goals at once, and "):
        small_model("SAC", env, learning_starts=20).learn(60)


#: A large number of each type: what float32 cannot hold is kept, too.
NUMBERS = {
    "uint8": 2**8 - 1, "int8": 2**7 - 1, "uint16": 2**16 - 1, "int16": 2**15 - 1,
    "uint32": 2**32 - 1, "int32": 2**31 - 1, "uint64": 2**62, "int64": 2**62,
    "float16": 60_000, "float32": 1e18, "float64": 1e18,
}  # fmt: skip
SPACES = {
    **{number: (Box(0, most, (2,), number), box(1)) for number, most in NUMBERS.items()},
    "float64 actions": (Box(0, 100, (2,)), Box(-1, 1, (1,), np.float64)),
    "choices": (Box(0, 100, (2,)), Discrete(10)),
    "a choice as goal": (Discrete(16), Discrete(5)),
    "images": (Box(0, 255, (2, 3), np.uint8), MultiBinary(5)),
}


@pytest.mark.parametrize("spaces", SPACES)
def test_samples_of_other_spaces_are_theirs(spaces):
    goal, actions = SPACES[spaces]

    class Spaces(Pictured):
        observation_space = Dict({key: goal for key in Pictured.observation_space})
        action_space = actions

        def compute_reward(self, achieved, desired, infos):
            assert achieved.shape == desired.shape == (len(infos), *(goal.shape or (1,)))
            return (achieved == desired).reshape(len(infos), -1).all(1) - 1.0

    ours, theirs = pair(1, "future", world=Spaces, copy_info_dict=True)
    goal.seed(0)
    after = {}
    for t in range(20):
        first, now = (
            {key: np.round(goal.sample())[None] for key in Spaces.observation_space}
            for _ in range(2)
        )
        obs, after = (after if t % 5 else first), now
        step = obs, after, np.round(actions.sample())[None], np.zeros(1), np.array([t % 5 == 4])
        for buffer in (ours, theirs):
            buffer.add(*step, [{}])
    assert_same_samples(ours, theirs, 0)
    assert_same_arrays(ours, theirs)


def arrays_of(buffer) -> int:
    """Bytes of all arrays of a buffer of theirs."""
    own = [
        value for x in vars(buffer).values() for value in (x.values() if type(x) is dict else [x])
    ]
    return sum(x.nbytes for x in own if isinstance(x, np.ndarray))


@pytest.mark.parametrize("number", ["uint8", "int8", "float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(1,), (25,), (64, 64, 3)])
def test_it_takes_no_more_memory_than_theirs(number, shape):
    """Pictures of bytes stay bytes."""

    class Seeing(Pictured):
        observation_space = Dict(
            {**Pictured.observation_space.spaces, "camera": Box(0, 100, shape, number)}
        )

    ours, theirs = pair(2, "future", 300, Seeing)
    ring = ours.buffer.ring
    taken = sum(x.nbytes for x in (ring.rows, ring.before, ring.left, ring.elapsed, ring.oldest))
    assert 0.5 < taken / arrays_of(theirs) < 1.1


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_taken_as_it_fills_and_what_cannot_fit_is_refused():
    spaces, before = (Pictured.observation_space, Pictured.action_space), resident()
    buffer = HerReplayBuffer(5_000_000, *spaces, Pictured())
    fill(buffer, 1, 30)
    assert resident() - before < 20e6 < buffer.buffer.ring.rows.nbytes / 20
    for size in (10**12, 10**15):
        message = f"size: {size:,} is not allowed; transitions of .* GB of memory: at most .* fit$"
        with pytest.raises(ValueError, match=f"^buffer_{message}"):
            HerReplayBuffer(size, *spaces, Pictured())
        with pytest.raises(ValueError, match=f"batch_{message}"):
            buffer.sample(size)


def test_normalised_samples_are_theirs():
    ours, theirs = pair(1, "future", 50)
    env = VecNormalize(DummyVecEnv([Pictured]), gamma=0.9)
    env.ret_rms.var = np.array(9.0)
    for key, statistics in env.obs_rms.items():
        statistics.mean, statistics.var = np.full(statistics.mean.shape, len(key)), np.array(4.0)
    for buffer in (ours, theirs):
        fill(buffer, 1, 30)
    assert_same_samples(ours, theirs, 0, env)


def small_model(algorithm, env, kind=HerReplayBuffer, learning_starts=20, **options):
    """A small model, whose environment it passes to the buffer by itself."""
    replay = {"replay_buffer_class": kind, "replay_buffer_kwargs": options}
    keys = {
        "learning_starts": learning_starts,
        "batch_size": 32,
        "train_freq": 10,
        "buffer_size": 500,
    }
    keys |= {"policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}
    return getattr(stable_baselines3, algorithm)("MultiInputPolicy", env, **replay, **keys)


@pytest.mark.parametrize("recomputes", [True, False])
def test_their_algorithms_train_on_it(recomputes):
    """Terminations are those of `compute_terminated`; their environment has none: as stored."""
    env = make_vec_env("BitFlipping-v0", env_kwargs={"n_bits": 3})
    if not recomputes:
        env = make_vec_env(lambda: BitFlippingEnv(4, image_obs_space=True), 2)
    model = small_model("DQN", env, copy_info_dict=not recomputes)
    before = parameters(model)
    model.learn(120)
    assert not torch.equal(before, parameters(model))
    assert 90 <= model.replay_buffer.size() <= 120
    samples = model.replay_buffer.sample(300)
    assert isinstance(samples.rewards, torch.Tensor)
    reached = (samples.rewards == 0).float()
    assert 0.2 < reached.mean() < 0.95
    assert torch.equal(samples.dones, reached) == recomputes


# --- through their models -------------------------------------------------------------------------


def point_reach(threshold: float = 0.05):
    return gymnasium.make("PointReach-v0", max_steps=7, threshold=threshold)


def parameters(model) -> torch.Tensor:
    return torch.cat([parameter.detach().ravel() for parameter in model.policy.parameters()])


def test_a_model_saves_and_loads_its_buffer(tmp_path):
    """It continues to learn, with open episodes, and with the rewards of its new environment.

    The buffer keeps a function passed in, even a lambda, which pickle cannot write.
    """
    model = small_model(
        "SAC",
        DummyVecEnv([point_reach] * 2),
        n_sampled_goal=10**9,
        goal_selection_strategy="episode",
        copy_info_dict=True,
        seed=3,
        compute_terminated=lambda achieved, desired, infos: achieved[:, 0] > 0,
    )
    model.learn(60)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    assert (tmp_path / "buffer.pkl").stat().st_size < 45_000, "only what has been written"

    env = DummyVecEnv([lambda: point_reach(0.15)] * 2)
    other = stable_baselines3.SAC.load(tmp_path / "model", env=env, device="cpu")
    assert other.replay_buffer.size() == 0
    other.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=False)
    ours, theirs = model.replay_buffer, other.replay_buffer
    assert not theirs.full and theirs.pos == 30 and theirs.size() == 56
    assert theirs.buffer.ring.elapsed.tolist() == [[2, 2]]
    a, b = ours.sample(200), theirs.sample(200)
    assert torch.equal(a.observations["desired_goal"], b.observations["desired_goal"])
    assert torch.equal(a.actions, b.actions) and torch.equal(a.dones, b.dones)
    assert not torch.equal(a.rewards, b.rewards)
    batch = theirs.sample(500)
    goals = batch.observations["desired_goal"], batch.next_observations["achieved_goal"]
    near = torch.linalg.vector_norm(goals[0] - goals[1], dim=1) <= 0.15
    assert 0.1 < near.float().mean() < 0.95
    # The first keeps its goal: a share of 1 - 1 / (k + 1) of the batch is rounded down.
    assert torch.equal(batch.rewards[1:, 0], near.float()[1:] - 1)
    assert torch.equal(batch.dones[1:, 0], (goals[1][1:, 0] > 0).float())

    before = parameters(other)
    with pytest.warns(UserWarning, match="so the open episode was cut there"):
        other.learn(40, reset_num_timesteps=False)  # a loaded model resets its environment
    assert not torch.equal(before, parameters(other))
    assert theirs is other.replay_buffer and theirs.buffer.ring.position == 50


def test_it_needs_no_stable_baselines3(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3.her.her_replay_buffer", None)
    spec = importlib.util.spec_from_file_location("alone", inspect.getfile(HerReplayBuffer))
    alone = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "alone", alone)
    spec.loader.exec_module(alone)
    assert issubclass(HerReplayBuffer, Theirs) and not issubclass(alone.HerReplayBuffer, Theirs)
    arguments = Pictured.observation_space, Pictured.action_space, Pictured()
    buffer = alone.HerReplayBuffer(50, *arguments)
    fill(buffer, 1, 20)
    assert len(buffer.sample(9).rewards) == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"buffer_size": 1}, "^buffer_size: 1 is not allowed; it must be at least 2, two"),
        ({"n_sampled_goal": -1}, "n_sampled_goal: -1 is not allowed; it must be a whole num"),
        ({"goal_selection_strategy": "best"}, "goal_selection_strategy: 'best' is not allowed"),
        ({"goal_selection_strategy": None}, "goal_selection_strategy: None is not allowed"),
        ({"optimize_memory_usage": True}, "optimize_memory_usage: True is not allowed"),
        (
            {"env": gymnasium.make_vec("PointReach-v0", 2)},
            "NEXT_STEP is not allowed, because the step after .* a reset, whose reward of 0 would",
        ),
    ],
)
def test_invalid_arguments(arguments, message):
    given = {"buffer_size": 50, "observation_space": Pictured.observation_space}
    given |= {"action_space": Pictured.action_space, "env": Pictured(), **arguments}
    with pytest.raises(ValueError, match=message):
        HerReplayBuffer(**given)


def test_messages_about_infos_name_its_argument(tmp_path):
    without, kept = (pair(1, "future", copy_info_dict=copies)[0] for copies in (False, True))
    fill(without, 1, 20)
    with pytest.warns(UserWarning, match="empty ones in .* keep them with copy_info_dict=True$"):
        without.sample(9)
    with pytest.raises(
        ValueError, match=r"with copy_info_dict=True cannot be .*; pickle the buffer$"
    ):
        kept.save(tmp_path / "buffer")


def test_a_file_of_another_buffer(tmp_path):
    saved, buffer = (pair(1, "future", handle_timeout_termination=x)[0] for x in (True, False))
    saved.save(tmp_path / "buffer")
    with pytest.raises(FileError, match="a buffer with handle_timeout_termination True, but this"):
        buffer.load(tmp_path / "buffer")


def test_invalid_steps():
    ours, _ = pair(2, "future")
    number = np.array([0, 1])
    values = numbers(number, "action"), stored_reward(number)
    right = {"obs": observed(number), "done": np.zeros(2, bool), "infos": [{}, {}]}
    for change, message in (
        *(({"infos": infos}, "infos: a list of 2 is") for infos in ([{}], {}, None, [{}, None])),
        ({"done": np.zeros((2, 1), bool)}, "done: .* is not allowed; it must"),
        ({"obs": (right["obs"], {})}, "obs: a tuple is not allowed; it must be a dictionary"),
    ):
        obs, done, infos = (right | change).values()
        with pytest.raises(ValueError, match=message):
            ours.add(obs, observed(number), *values, done, infos)
    assert not ours.pos
