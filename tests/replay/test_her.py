"""The NumPy buffer against the ring that draws with the same generator, its errors and files."""

import copy
import math
import pickle
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import hindsight.envs  # noqa: F401  (registers the environments)
from hindsight.io.checkpoints import load, save
from hindsight.io.files import FileError
from hindsight.replay.buffer import Relabelling, ReplayBuffer
from hindsight.replay.her import HindsightReplayBuffer
from hindsight.specs.replay import GOAL_STRATEGIES
from tests.replay.numbered import REST, ROW, Numbered, box, numbers, observed, stored_reward
from tests.replay.numbered import add as add_to_ring
from tests.support.examples import quick


def add(buffer: HindsightReplayBuffer, number, terminated, truncated, info=None, **changes) -> None:
    step = {"obs": observed(number), "next_obs": observed(number, after=True)}
    step |= {"action": numbers(number, "action"), "reward": stored_reward(number)}
    step |= {"terminated": terminated, "truncated": truncated, "info": info}
    buffer.add(**{**step, **changes})


def add_whole(buffer: HindsightReplayBuffer, number: np.ndarray, terminated, infos=None) -> None:
    """A whole episode of these transitions, or one of each environment."""
    obs, after = observed(number), observed(number, after=True)
    actions, rewards = numbers(number, "action"), stored_reward(number)
    buffer.add_episode(obs, actions, rewards, after, terminated, infos)


def everything(buffer: HindsightReplayBuffer) -> list:
    """What the buffer holds: transitions, priorities, the generator."""
    state = buffer.ring.state_dict()
    del state["left"]  # not written before an episode ends
    left = buffer.ring.left.take(buffer.ring.stored()).tolist()
    contents = [(name, np.asarray(values).tobytes()) for name, values in state.items()]
    return [left, buffer.rng.bit_generator.state, *contents]


@quick(40)
@given(
    strategy=st.sampled_from(GOAL_STRATEGIES),
    fidelity=st.sampled_from(["described", "released"]),
    k=st.sampled_from([0, 1, 4]),
    envs=st.integers(1, 3),
    slots=st.integers(6, 15),
    seed=st.integers(0, 10**6),
)
def test_samples_are_those_of_the_ring(strategy, fidelity, k, envs, slots, seed):
    """With environments out of step, whole episodes in between, and overwritten slots.

    test_buffer compares the ring with plain lists.
    """
    env, rng, generator = Numbered(envs), *(np.random.default_rng(seed) for _ in range(2))
    how = {"strategy": strategy, "k": k, "fidelity": fidelity}
    buffer = HindsightReplayBuffer(envs * slots, env, **how, info_keys=("extra",), seed=seed)
    ends = fidelity == "described" and k > 0
    relabelling = Relabelling(**how, terminates_on_success=ends)
    ring = ReplayBuffer(1, envs, envs * slots, ROW, relabelling, longest=slots)

    def outcome(achieved, desired, ended):
        goals = [goal[0].numpy() for goal in (achieved, desired)]
        infos = [{"extra": number / 2} for number in goals[0][:, 0] // 10]
        rewards = env.compute_reward(*goals, infos).astype(np.float32)
        return torch.from_numpy(rewards), torch.from_numpy(env.compute_terminated(*goals, infos))

    count = 0
    for _ in range(40):
        whole = rng.random() < 0.5 and not ring.elapsed.any()
        steps = int(rng.integers(1, 6)) if whole else 1
        over = (rng.random(envs) < 0.3) | whole
        terminated = over & (rng.random(envs) < 0.5)
        number = count + np.arange(envs * steps).reshape(envs, steps)
        count += number.size
        infos = {"extra": number / 2}
        if whole:
            add_whole(buffer, number, terminated, infos)
        else:
            infos = {"extra": number[:, 0] / 2, "other": "x"}
            add(buffer, number[:, 0], terminated, over, infos)
        for t in range(steps):
            last = t == steps - 1
            flags = (terminated & last, over & last, number[:, t] % 3 == 0)
            add_to_ring(ring, number[None, :, t], *(flag[None] for flag in flags))
        assert len(buffer) == ring.finished().sum()
        if len(buffer):
            batch = ring.sample(generator.random((1, 12, 3)), outcome)
            sample = buffer.sample(12)
            for name in ("obs", "next_obs"):
                parts = np.concatenate([*getattr(sample, name).values()], axis=1)
                np.testing.assert_array_equal(parts, getattr(batch, name)[0])
            for name in ("actions", "rewards", "terminated"):
                np.testing.assert_array_equal(getattr(sample, name), getattr(batch, name)[0])


@pytest.mark.parametrize("n", [1, 3])
def test_each_environment_of_a_vector_keeps_its_own_info(n):
    mode, given = {"autoreset_mode": AutoresetMode.DISABLED}, []
    env = gymnasium.make_vec("BitFlipping-v0", n, vector_kwargs=mode)
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)

    def compute_reward(achieved, desired, infos):
        given.extend([infos] if isinstance(infos, dict) else infos)  # one goal is tried, too
        return np.zeros(len(achieved))

    buffer = HindsightReplayBuffer(60, env, compute_reward=compute_reward, copy_infos=True)
    obs, _ = env.reset(seed=0)
    info = {"hit": np.array([7, 8, 9])[:n], "_hit": np.array([True, False, True])[:n]}
    info["more"] = {"depth": np.array([0.5, 1.5, 2.5])[:n]}
    buffer.add(obs, np.zeros(n, int), -np.ones(n), obs, np.zeros(n, bool), np.ones(n, bool), info)
    buffer.sample(40)
    more = [{"more": {"depth": depth}} for depth in (0.5, 1.5, 2.5)]
    expected = [{"hit": 7, **more[0]}, more[1], {"hit": 9, **more[2]}][:n]
    assert all(one in expected for one in given) and all(one in given for one in expected)
    env.close()


class Line(gymnasium.Env):
    observation_space = Dict({k: box(1) for k in ("achieved_goal", "desired_goal", "observation")})
    action_space = box(1)

    def __init__(self, in_place: bool = False) -> None:
        self.at, self.in_place = np.zeros(1, np.float32), in_place

    def reset(self, *, seed=None, options=None):
        self.at = np.zeros(1, np.float32)
        return self.seen(), {}

    def step(self, action):
        if self.in_place:
            self.at += 1
        elif action > 0:  # else it meets a wall, and its observation is the same object
            self.at = self.at + 1
        return self.seen(), -1.0, False, False, {}

    def seen(self):
        desired = np.ones(1, np.float32)
        return {"achieved_goal": self.at, "desired_goal": desired, "observation": self.at}

    def compute_reward(self, achieved, desired, infos):
        return (achieved == desired).all(-1) - 1.0

    def compute_terminated(self, achieved, desired, infos):
        return np.zeros(len(achieved), bool)


def at(place: float) -> dict[str, np.ndarray]:
    """The observation at a place that is its own goal."""
    return dict.fromkeys(Line.observation_space, np.float32([place]))


def play(buffer: HindsightReplayBuffer, env, actions, cut: bool = True) -> None:
    """Play an episode, which a time limit cuts after the actions, unless it stays open."""
    obs, _ = env.reset()
    for i, action in enumerate(actions):
        next_obs, reward, terminated, _, info = env.step(action)
        over = np.full_like(terminated, cut and i == len(actions) - 1)
        buffer.add(obs, action, reward, next_obs, terminated, over, info)
        obs = next_obs


def test_an_observation_that_its_step_overwrites_is_refused():
    """Both would be equal in every transition.  A step that changes nothing is none."""
    buffer = HindsightReplayBuffer(20, Line(), seed=0)
    play(buffer, Line(), np.float32([[1], [0], [0], [1]]))
    batch = buffer.sample(100)
    moved = batch.next_obs["observation"] - batch.obs["observation"]
    assert (moved == batch.actions).all() and set(moved[:, 0]) == {0, 1}
    with pytest.raises(ValueError, match="obs: shares its memory with next_obs: the step has over"):
        play(HindsightReplayBuffer(20, Line()), Line(in_place=True), np.float32([[1], [1]]))


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments(kind):
    """Their functions are found in other processes, too; shared memory is refused."""
    mode = {"autoreset_mode": AutoresetMode.DISABLED}
    with closing(kind([Line] * 2, **mode)) as env:
        buffer = HindsightReplayBuffer(40, env, k=10**6, seed=0)
        play(buffer, env, np.ones((5, 2, 1), np.float32))
        batch = buffer.sample(200)
        reached = (batch.obs["desired_goal"] == batch.next_obs["achieved_goal"])[:, 0]
        np.testing.assert_array_equal(batch.rewards, reached - 1.0)
        assert 0.2 < reached.mean() < 0.8 and not batch.terminated.any()
        with pytest.raises(ValueError, match="compute_terminated: None is not allowed, because"):
            HindsightReplayBuffer(40, kind([NoTerminations] * 2, **mode))
    with (
        closing(kind([Line], copy=False, **mode)) as env,
        pytest.raises(ValueError, match="copy=False is not allowed, because the step has overw"),
    ):
        HindsightReplayBuffer(40, env)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_environments_whose_episodes_do_not_end_together_are_reset_apart(kind):
    """Steps follow one another, no episode is cut, and those that are open are not sampled."""
    makers = [partial(gymnasium.make, "BitFlipping-v0", n_bits=6) for _ in range(3)]
    with closing(kind(makers, autoreset_mode=AutoresetMode.DISABLED)) as env:
        buffer = HindsightReplayBuffer(1000, env, k=0, seed=0)
        obs, _ = env.reset(seed=0)
        env.action_space.seed(0)
        taken, since, ends = [], np.zeros(3, int), set()
        with warnings.catch_warnings(action="error"):
            for _ in range(200):
                action = env.action_space.sample()
                next_obs, reward, terminated, truncated, info = env.step(action)
                buffer.add(obs, action, reward, next_obs, terminated, truncated, info)
                taken.append([np.append(obs["observation"][i], action[i]) for i in range(3)])
                over, since, obs = terminated | truncated, since + 1, next_obs
                ends.add(tuple(over.tolist()))
                if over.any():
                    obs, _ = env.reset(options={"reset_mask": over})
                    since[over] = 0
    assert len(ends) > 3  # they did not all end at once
    finished = [
        row.tobytes() for i in range(3) for row in np.array(taken, float)[: 200 - since[i], i]
    ]
    batch = buffer.sample(20_000)
    found = np.column_stack([batch.obs["observation"], batch.actions]).astype(np.float64)
    assert len(buffer) == len(finished)
    assert {row.tobytes() for row in found} == set(finished)


def test_an_environment_that_resets_by_itself_is_noticed():
    """Its resets are steps, or observations of them end the episodes."""
    buffer = HindsightReplayBuffer(40, Line(), seed=0)
    obs, _ = Line().reset()
    where = [{**obs, "achieved_goal": np.float32([x]), "observation": np.float32([x])}
             for x in (1, 2, 0, 1)]  # fmt: skip
    with warnings.catch_warnings(action="error"):
        buffer.add(where[0], [1], -1, where[1], False, True)
        buffer.add(where[2], [1], -1, where[3], False, False)
        buffer.truncate_last_trajectory()
    with pytest.warns(UserWarning, match="begins exactly where the last one ended"):
        buffer.add(where[3], [1], -1, where[2], False, False)


def test_a_value_that_only_another_environment_has_is_missing():
    """gymnasium fills it with 0."""
    mode = {"autoreset_mode": AutoresetMode.DISABLED}
    env = SyncVectorEnv([Line] * 2, **mode)
    buffer = HindsightReplayBuffer(20, env, info_keys=["depth"], seed=0)
    (obs, _), no = env.reset(), np.zeros(2, bool)
    info = {"depth": np.array([3.0, 0.0]), "_depth": np.array([True, False])}
    with pytest.raises(ValueError, match="info: 'depth' is missing, but info_keys names it"):
        buffer.add(obs, np.ones((2, 1)), [-1, -1], obs, no, no, info)
    both = info | {"_depth": np.array([True, True])}
    buffer.add(obs, np.ones((2, 1)), [-1, -1], obs, no, no, both)


@pytest.mark.parametrize(
    "info",
    [
        {"hit": np.array([np.True_, np.False_], object)},  # as gymnasium puts them together
        [{"hit": np.True_, "more": 1}, {"hit": np.False_}],  # Stable-Baselines3's
    ],
)
def test_numbers_in_infos_of_vector_environments(info):
    env, no = SyncVectorEnv([Line] * 2, autoreset_mode=AutoresetMode.DISABLED), np.zeros(2, bool)
    hits = lambda achieved, desired, infos: np.array([info["hit"] for info in infos])  # noqa: E731
    buffer = HindsightReplayBuffer(20, env, info_keys=["hit"], compute_reward=hits, k=10**6, seed=0)
    obs, _ = env.reset()
    buffer.add(obs, np.float32([[0], [1]]), [-1, -1], obs, no, ~no, info)
    batch = buffer.sample(50)
    np.testing.assert_array_equal(batch.rewards, 1 - batch.actions[:, 0])
    with pytest.raises(ValueError, match="info: 'hit' is missing, but info_keys names it"):
        buffer.add(obs, np.ones((2, 1)), [-1, -1], obs, no, no, [{"hit": 1}, None])


def test_a_loaded_buffer_goes_on_in_pieces_of_the_same_length(tmp_path):
    """And what goes on in the next piece is no episode that begins where another ended."""
    buffer, again = (HindsightReplayBuffer(8, Line(), seed=0) for _ in range(2))
    for i in range(30):
        if i == 12:
            buffer.save(tmp_path / "buffer")
            with warnings.catch_warnings(action="error"):
                again.load(tmp_path / "buffer")
        for one in (buffer, again) if i >= 12 else (buffer,):
            with warnings.catch_warnings(action="ignore" if i < 12 else "error"):
                one.add(at(i), [1], -1, at(i + 1), False, False)
        if i >= 12:
            assert len(again) == len(buffer) > 0
            np.testing.assert_array_equal(again.sample(9).rewards, buffer.sample(9).rewards)


@pytest.mark.parametrize("terminates", [False, True])
def test_what_is_cut_by_a_reset_ends_as_what_the_user_cuts(terminates):
    found = []
    for told in (False, True):
        buffer = HindsightReplayBuffer(20, Line(), seed=0)
        buffer.cuts_jumps, buffer.cuts_terminate = True, terminates
        for _ in range(2):
            play(buffer, Line(), np.float32([[1], [1], [1]]), cut=False)
            if told:
                buffer.truncate_last_trajectory()
        buffer.truncate_last_trajectory()
        found.append(buffer.ring.rows.numpy()[0, 0, :6, buffer.row.terminated].tolist())
    assert found[0] == found[1] == [0, 0, float(terminates)] * 2


class Mapped(Line):
    """Also sees a map, always the same array; or `views`, parts of one array, between others'."""

    observation_space = Dict({**Line.observation_space.spaces, "map": box(2)})

    def __init__(self, views: bool) -> None:
        super().__init__()
        self.views, self.places = views, np.arange(20, dtype=np.float32).reshape(2, 10)

    def seen(self):
        return {**super().seen(), "map": self.places[:, int(self.at[0]) if self.views else 0]}


@pytest.mark.parametrize("views", [False, True])
def test_memory_is_shared_only_by_what_a_step_overwrites(views):
    """After a reset that the buffer was told of, and after one that it was not, a warning."""
    env, actions = Mapped(views), np.ones((3, 1), np.float32)
    buffer = HindsightReplayBuffer(20, env, seed=0)
    with warnings.catch_warnings(action="error"):
        play(buffer, env, actions, cut=False)
        buffer.truncate_last_trajectory()
        play(buffer, env, actions, cut=False)
    words = r"not the one that the last step led .* call truncate_last_trajectory\(\)"
    with pytest.warns(UserWarning, match=words):
        play(buffer, env, actions)
    assert len(buffer) == 9


def test_a_function_that_changes_its_arguments_changes_no_sample():
    class Changing(Line):
        def compute_reward(self, achieved, desired, infos):
            achieved -= desired
            assert not any(info.pop("seen", False) for info in infos)
            for info in infos:
                info["seen"] = True
            return -np.abs(achieved[:, 0])

    for keys in ({}, {"copy_infos": True}):
        buffer = HindsightReplayBuffer(40, Changing(), k=10**6, seed=0, **keys)
        play(buffer, Line(), np.ones((5, 1), np.float32))
        for _ in range(2):
            batch = buffer.sample(50)
            gap = batch.next_obs["achieved_goal"] - batch.obs["desired_goal"]
            np.testing.assert_array_equal(batch.rewards, -np.abs(gap[:, 0]))
            assert set(batch.next_obs["achieved_goal"][:, 0]) == set(range(1, 6))
        assert buffer.infos is None or not any(buffer.infos[0, :5])


def test_infos_that_are_not_kept_are_empty_for_each_sample():
    """Also in two threads, and after a function was tried out; what one writes there stays."""
    kept: list[Any] = []

    def reward(achieved: Any, desired: Any, info: Any) -> Any:  # of one goal
        here = info.setdefault("thread", threading.get_ident())
        kept.append(info)
        time.sleep(1e-4)
        assert here == info["thread"] == threading.get_ident()
        return info.setdefault("reward", -abs(float(achieved[0]) - float(desired[0])))

    def samples(seed: int) -> None:
        buffer = HindsightReplayBuffer(40, Line(), compute_reward=reward, k=10**6, seed=seed)
        play(buffer, Line(), np.ones((5, 1), np.float32))
        for _ in range(5):
            batch = buffer.sample(16)
            gap = batch.next_obs["achieved_goal"] - batch.obs["desired_goal"]
            np.testing.assert_array_equal(batch.rewards, -np.abs(gap[:, 0]))

    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")  # that it reads them
        assert len(list(pool.map(samples, range(2)))) == 2
    assert kept and all(info.keys() == {"thread", "reward"} for info in kept)


# --- errors ---------------------------------------------------------------------------------------


def changed(**spaces):
    """An environment with other spaces: of observations, by name, or of actions."""
    env = Numbered()
    env.action_space = spaces.pop("action", env.action_space)
    env.observation_space = Dict({**env.observation_space.spaces, **spaces})
    return env


class Bare:
    observation_space, action_space = Numbered().observation_space, box(2)


#: Goals that would wrap around: 200 is -56 as int8.
BYTES, SIGNED = Box(0, 255, (2,), np.uint8), Box(-128, 127, (2,), np.int8)


class NoTerminations(Line):
    """Has no method of that name."""

    compute_terminated = property(lambda self: getattr(self, "none"))  # noqa: B009


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "past"}, "strategy: 'past' is not allowed; choose from final, future"),
        ({"k": -1}, "k: -1 is not allowed; it must be a whole number, 0 or more"),
        ({"size": 1}, "size: 1 is not allowed; it must be at least 2, two transitions for each"),
        ({"rest": "some"}, "rest: 'some' is not allowed; choose from keep, drop"),
        ({"env": None}, "env: None is not allowed; it must be an environment, with observation"),
        ({"compute_reward": 3}, "compute_reward: 3 is not allowed; it must be a function of "),
        ({"compute_terminated": False}, "compute_terminated: False is not allowed"),
        ({"info_keys": ("reward",)}, "'reward' is not allowed: another part of a transition has"),
        ({"env": Bare()}, "compute_reward: None is not allowed, because the env"),
        (
            {"env": Bare(), "compute_reward": max},
            r"compute_terminated: None .*fidelity='released' to keep",
        ),
        ({"env": changed(desired_goal=box(3))}, r"observation_space: .* must have the same shape"),
        (
            {"env": changed(achieved_goal=BYTES, desired_goal=SIGNED)},
            "the same shape, type and cho",
        ),
        ({"env": changed(action=Dict({"a": box(1)}))}, r"action: the space .* is not allowed"),
        # Their next observation may be that after a reset; so it is by default in gymnasium.
        (
            {"env": gymnasium.make_vec("BitFlipping-v0", 3)},
            "env: AutoresetMode.NEXT_STEP is not al",
        ),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        HindsightReplayBuffer(**{"size": 10, "env": Numbered(), **arguments})


def test_without_hindsight_there_is_no_function_of_terminations():
    HindsightReplayBuffer(10, Bare(), k=0, compute_reward=max)


def seen(**parts):
    """An observation with other parts."""
    return {**observed(np.array(9)), **parts}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": {}}, "achieved_goal: missing from the observation, which has"),
        ({"obs": (seen(), {})}, "obs: a tuple is not allowed; it must be a dictionary"),
        ({"obs": seen(achieved_goal=np.zeros(3))}, r"achieved_goal: an array of shape \(3,\)"),
        ({"next_obs": seen(observation=[1e300] * REST)}, "next observation: inf is not allowed"),
        ({"obs": seen(observation=np.array(["a"] * REST))}, "observation: .* type <U1"),
        ({"obs": seen(observation=[2**24 + 1] * REST)}, "16777217 is not allowed; float32 cannot"),
        ({"reward": float("nan")}, "reward: nan is not allowed; every number must be finite"),
        ({"terminated": -1}, "terminated: -1 is not allowed; it must be true or false, or 1 or 0"),
        ({"truncated": "no"}, r"truncated: .* type <U2 is not allowed; it must be booleans of sh"),
        ({"info": {}}, "info: 'extra' is missing, but info_keys names it"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_an_invalid_step_leaves_the_buffer_as_it_was(change, message):
    buffer = HindsightReplayBuffer(50, Numbered(), info_keys=("extra",), seed=0)
    for i in range(7):
        add(buffer, np.array(i), False, i == 4, {"extra": 0.0})
    before = everything(buffer)
    step = {"terminated": True, "truncated": False, "info": {"extra": 0.0}}
    with pytest.raises(ValueError, match=message):
        add(buffer, np.array(9), **{**step, **change})
    assert everything(buffer) == before
    add(buffer, np.array(9), **step)
    assert len(buffer) == 8


@pytest.mark.parametrize("rest", ["keep", "drop"])
def test_a_function_that_raises_leaves_the_buffer_as_it_was(rest):
    """Of two environments, when the buffer is full."""
    env, no = Numbered(2), np.zeros(2, bool)
    raising = Mock(side_effect=env.compute_reward)
    given = {"compute_reward": raising, "prioritized": True, "rest": rest}
    buffer = HindsightReplayBuffer(40, env, seed=0, **given)
    for i in range(29):
        add(buffer, np.array([2 * i, 2 * i + 1]), no, no | (i % 5 == 4))
    before = everything(buffer)
    raising.side_effect = ZeroDivisionError("the user's own")
    with pytest.raises(ZeroDivisionError):
        add(buffer, np.array([58, 59]), ~no, no)
    assert everything(buffer) == before
    raising.side_effect = env.compute_reward
    add(buffer, np.array([58, 59]), ~no, no)
    assert buffer.ring.position == 30 and everything(buffer) != before


def test_invalid_whole_episodes():
    buffer = HindsightReplayBuffer(3, Numbered(), seed=0)
    for n, terminated, message in (
        (4, True, "an episode of 4 steps is not allowed; it must"),
        (0, True, "an episode of 0 steps is not allowed; it must"),
        (2, np.nan, "terminated: nan is not allowed"),
    ):
        with pytest.raises(ValueError, match=message):
            add_whole(buffer, np.arange(n), terminated)
    assert not buffer.ring.position
    add(buffer, np.array(2), False, False)
    with pytest.raises(ValueError, match="cannot be added while another episode is open"):
        add_whole(buffer, np.arange(2), True)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", ["compute_reward", "compute_terminated"])
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.array([0.0] * 7 + [np.nan]), "nan, which is not"),
        (np.array([0.0] * 7 + [1e39]), "inf, which is not"),
        (np.zeros(3), ".* for 8 goals"),
        ("yes", ".* for 8 goals"),
    ],
)
def test_functions_must_return_a_number_for_each_goal(name, returned, message):
    buffer = HindsightReplayBuffer(50, Numbered(), seed=0, **{name: lambda *_: returned})
    add(buffer, np.array(0), False, True)
    with pytest.raises(ValueError, match=f"{name}: it returned {message}"):
        buffer.sample(8)


def test_invalid_samples_and_priorities():
    buffer = HindsightReplayBuffer(50, Numbered(), seed=0)
    add(buffer, np.array(0), False, False)
    with pytest.raises(ValueError, match="nothing to sample: no episode is finished; begin"):
        buffer.sample(4)
    for size in (0, 2.5):
        with pytest.raises(ValueError, match=f"batch_size: {size} is not allowed"):
            buffer.sample(size)
    with pytest.raises(ValueError, match="there are no priorities"):
        buffer.update_priorities(np.zeros(1, int), np.zeros(1))
    buffer = HindsightReplayBuffer(50, Numbered(), seed=0, prioritized=True)
    with pytest.raises(ValueError, match="indexes: an array of shape"):
        buffer.update_priorities(np.zeros(1), np.zeros(1))


# --- files ----------------------------------------------------------------------------------------


def some(seed: int = 0, size: int = 30, **arguments) -> HindsightReplayBuffer:
    """A buffer with finished and open episodes of two environments."""
    buffer = HindsightReplayBuffer(size, Numbered(2), seed=seed, **arguments)
    for i in range(25):
        over = np.array([i % 4 == 3, i % 7 == 6])
        add(buffer, np.array([2 * i, 2 * i + 1]), over & (i % 2 == 0), over)
    return buffer


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("way", ["file", "copy", "pickle"])
def test_a_saved_or_copied_buffer_continues_as_the_original(tmp_path, way, prioritized):
    """With open episodes, priorities, the generator and the functions that were passed in."""
    given = {"prioritized": prioritized, "compute_terminated": lambda a, d, i: (a == d).all(-1)}
    buffer = some(size=np.int64(30), alpha=np.float32(0.5), **given)
    if prioritized:
        buffer.update_priorities(buffer.sample(5).indexes, np.arange(5))
    if way == "file":
        other = some(5, alpha=0.5, **given)
        buffer.save(tmp_path / "buffer.safetensors")
        other.load(str(tmp_path / "buffer.safetensors"))
    else:
        other = copy.deepcopy(buffer) if way == "copy" else pickle.loads(pickle.dumps(buffer))
        with pytest.raises(ValueError, match="without its environment; call set_env"):
            add(other, np.array([0, 1]), np.ones(2), np.zeros(2))
        other.set_env(Numbered(2))
    for i in range(100, 140):
        for each in (buffer, other):
            over = np.array([i % 3 == 0, i % 5 == 0])
            add(each, np.array([2 * i, 2 * i + 1]), over, over)
            sample = each.sample(8)
            if prioritized:
                each.update_priorities(sample.indexes, np.arange(8))
        assert everything(buffer) == everything(other)


@pytest.mark.parametrize(
    "arrays",
    [
        {},  # a file of another kind
        {"rows": torch.zeros(1, 2, 14, ROW.width)},  # a step too few
        {"before": torch.zeros(1, 1, 1, dtype=torch.int32)},  # would be broadcast
        {"more": torch.zeros(3)},
        {"oldest": torch.full((1, 2), -5)},  # would sample memory that was never written
        {"oldest": torch.full((1, 2), 26)},
        {"elapsed": torch.full((1, 2), -1)},
        {"position": 200},
        {"left": torch.zeros(1, 2, 15, dtype=torch.int32)},  # dropping it would never end
        {"left": torch.full((1, 2, 15), 500, dtype=torch.int32)},  # goals of other memory
        {"before": torch.full((1, 2, 15), 10**9, dtype=torch.int32)},
        {"before": torch.zeros(1, 2, 15, dtype=torch.int64)},  # would be cast
        {"position": -1},
    ],
)
def test_a_damaged_file_leaves_the_buffer_as_it_was(tmp_path, arrays):
    """How files in general are read is tested in test_files_from_elsewhere."""
    path = tmp_path / "buffer.safetensors"
    some().save(path)
    saved = load(path)
    save(path, {**saved, "ring": saved["ring"] | arrays} if arrays else {"rows": torch.zeros(3)})
    assert_refused(path, some(3))


@pytest.mark.parametrize(
    ("name", "by"),
    [
        *(("priorities", x) for x in (math.nan, math.inf, -5.0, 0.0)),
        *(("largest", x) for x in (math.nan, -1.0)),
    ],
)
def test_impossible_priorities_and_generators_are_refused(tmp_path, name, by):
    path = tmp_path / "buffer.safetensors"
    some(prioritized=True).save(path)
    saved = load(path)
    save(path, {**saved, "ring": saved["ring"] | {name: torch.full_like(saved["ring"][name], by)}})
    assert_refused(path, some(3, prioritized=True))
    state = saved["rng"]["state"] | {"state": -1}
    save(path, {**saved, "rng": saved["rng"] | {"state": state}})
    assert_refused(path, some(3, prioritized=True))


def assert_refused(path: Path, buffer: HindsightReplayBuffer) -> None:
    before = everything(buffer)
    with pytest.raises(FileError, match=r"buffer\.safetensors: ") as error:
        buffer.load(path)
    assert "\n" not in str(error.value)
    assert everything(buffer) == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"size": 40}, "saved from a buffer with size 30, but this one has 40"),
        ({"env": Numbered(3)}, "from a buffer with n_envs 2"),
        ({"prioritized": True}, "alpha none, but this one has 0.6"),
        ({"info_keys": ("extra",)}, "with field 'extra' in columns none, but this one has .19"),
        ({"copy_infos": True}, "with infos none, but this one has copies"),
    ],
)
def test_files_of_another_buffer(tmp_path, other, message):
    saved, buffer = (
        HindsightReplayBuffer(**{"size": 30, "env": Numbered(2), **keys}) for keys in ({}, other)
    )
    saved.save(tmp_path / "buffer.safetensors")
    with pytest.raises(FileError, match=message):
        buffer.load(tmp_path / "buffer.safetensors")
    if buffer.infos is not None:
        return  # it cannot be saved
    buffer.save(tmp_path / "buffer.safetensors")
    with pytest.raises(FileError, match="was saved from a buffer with"):
        saved.load(tmp_path / "buffer.safetensors")


@pytest.mark.parametrize("index", [[900], [-1], [10**6], [5], [[0]], [0.0]])
def test_only_finished_transitions_can_be_asked_for(index):
    """Five steps of a finished episode, and one of an open one."""
    buffer = HindsightReplayBuffer(1000, Numbered(1), seed=0)
    for step in range(6):
        add(buffer, np.array([step]), np.array([step == 4]), np.array([False]))
    assert len(buffer.sample_at(np.arange(5), np.full((5, 2), 0.5)).rewards) == 5
    with pytest.raises(ValueError, match="all must be of finished transitions"):
        buffer.sample_at(np.array(index), np.full((1, 2), 0.5))
    for uniform in ([[0.5]], [[0.5, np.nan]], [[0.5, 1.0]]):
        with pytest.raises(ValueError, match=r"numbers \[1, 2\] in \[0, 1\)"):
            buffer.sample_at(np.array([0]), np.array(uniform))


KEPT = {"info_keys": ["tax"], "copy_infos": True, "rest": "keep"}


class Taxed(Line):
    """Pays what its info says."""

    def step(self, action):
        obs, reward, *rest, _ = super().step(action)
        return obs, reward - 2.0, *rest, {"tax": 2.0}

    def compute_reward(self, achieved, desired, infos):
        return -np.abs(achieved - desired)[..., 0] - np.array([i.get("tax", 0) for i in infos])


@pytest.mark.parametrize(
    ("how", "warned"),
    [({}, True), *(({key: value}, False) for key, value in KEPT.items())],
)
def test_a_reward_that_reads_infos_which_are_not_kept_is_named(how, warned):
    env = Taxed()
    buffer = HindsightReplayBuffer(100, env, fidelity="released", seed=0, **how)
    obs, _ = env.reset(seed=0)
    with warnings.catch_warnings(record=True, action="always") as told:
        for _ in range(3):
            after, *rest = env.step(np.ones(1))
            buffer.add(obs, np.ones(1), rest[0], after, False, False, rest[-1])
            obs = after
        buffer.truncate_last_trajectory()
        for _ in range(2):
            buffer.sample(8)
    assert [str(x.message)[:26] for x in told] == ["compute_reward reads infos"] * warned
    with pytest.raises(ValueError, match="info_keys: 'tax' is not allowed"):
        HindsightReplayBuffer(100, env, fidelity="released", info_keys="tax")


@pytest.mark.parametrize("size", [2, 7, 30, 49])
def test_a_long_episode_is_stored_in_pieces_of_which_some_can_always_be_sampled(size):
    """With one warning, and goals of their own piece."""
    buffer = HindsightReplayBuffer(size, Line(), fidelity="released", k=10**9, seed=0)

    with warnings.catch_warnings(record=True, action="always") as told:
        for step in range(250):
            over = step % 50 == 49
            buffer.add(at(step), np.ones(1), -1.0, at(step + 1 - over / 2), False, over)
            if step + 1 >= size:
                found = buffer.sample(20)
                later = found.obs["desired_goal"] - found.next_obs["achieved_goal"]
                assert (later >= 0).all() and (later <= size // 2).all()
    assert [str(x.message) for x in told] == [
        f"an episode has {size} steps or more, which is all that this buffer holds of one "
        f"environment: it is stored in pieces of {size // 2}, as are later ones with more, and "
        "goals come from the same piece; a larger size keeps them whole"
    ]


def test_a_cleared_buffer_is_as_a_new_one():
    """After an episode that it stored in pieces, and kept the infos of."""
    env = Line()
    buffer = HindsightReplayBuffer(4, env, fidelity="released", copy_infos=True, strategy="final")
    with pytest.warns(UserWarning, match="stored in pieces of 2"):
        play(buffer, env, np.ones((9, 1), np.float32))
    buffer.clear()
    assert len(buffer) == 0 and not any(buffer.infos.ravel())
    play(buffer, env, np.ones((4, 1), np.float32))
    assert set(buffer.sample(100).obs["desired_goal"].ravel()) == {1, 4}


def test_an_episode_that_fills_the_buffer_leaves_nothing_to_sample_while_the_next_is_open():
    env = gymnasium.make("PointReach-v0")
    buffer = HindsightReplayBuffer(50, env, seed=0)
    for _ in range(2):
        obs, _ = env.reset(seed=0)
        for _ in range(50):
            action = np.zeros(2, np.float32)
            after, reward, terminated, truncated, info = env.step(action)
            buffer.add(obs, action, reward, after, terminated, truncated, info)
            obs = after
        buffer.sample(4)
    buffer.truncate_last_trajectory()
    buffer.add(env.reset(seed=1)[0], action, reward, after, False, False, info)
    with pytest.raises(ValueError, match="a size of twice an episode's length"):
        buffer.sample(4)
