"""Our buffer with cpprb's interface: against plain lists, and against cpprb's own."""

import itertools
from unittest.mock import Mock

import numpy as np
import pytest
from scipy import stats

from hindsight.io.files import FileError
from hindsight.library.like_cpprb import HindsightReplayBuffer
from hindsight.specs.replay import GOAL_STRATEGIES
from tests.replay.numbered import ACTION, GOAL, REST, numbers

ENV = {
    "obs": {"shape": REST},
    "act": {"shape": (ACTION,)},
    "next_obs": {"shape": REST},
    "done": {},
    "note": {"shape": (2, 2), "dtype": np.int32},
}


def goal_func(states) -> np.ndarray:
    """The goal that a state achieves, which is not a part of it."""
    return -states[:, 1:]


def reward_func(next_state, action, goal) -> np.ndarray:
    """Depends on all three."""
    return next_state[:, 0] - 3 * action[:, 1] + 7 * goal[:, 1]


def terminated_func(next_state, action, goal) -> np.ndarray:
    return (goal_func(next_state) == goal).all(1)


def step(number: int, done: bool) -> dict[str, np.ndarray]:
    n = np.asarray(number)
    note = (np.arange(4).reshape(2, 2) + 4 * n[..., None, None]).astype(int)
    states = {"obs": numbers(n, "rest"), "next_obs": numbers(n, "next rest")}
    return {**states, "act": numbers(n, "action"), "done": done, "note": note}


def buffer_of(size: int = 1000, max_episode_len: int = 20, **changes) -> HindsightReplayBuffer:
    given = {
        "env_dict": ENV,
        "reward_func": reward_func,
        "goal_func": goal_func,
        "goal_shape": GOAL,
        "terminated_func": terminated_func,
        "prioritized": False,
        "seed": 0,
        **changes,
    }
    return HindsightReplayBuffer(size, max_episode_len=max_episode_len, **given)


OWN = np.array([0.5, -0.5], np.float32)  # the goal of every episode


def fill(buffer: HindsightReplayBuffer, lengths: list[int], own: np.ndarray = OWN) -> None:
    """Two episodes step by step, with one goal; the next two at once, with a goal for each step."""
    number = 0
    for i, length in enumerate(lengths):
        at_once, steps = i % 4 > 1, number + np.arange(length)
        for some in [steps] if at_once else steps:
            buffer.add(**step(some, done=(some == steps[-1]) & (i % 2 == 0)))
        buffer.on_episode_end(np.tile(own, (length, 1)) if at_once else own)
        buffer.on_episode_end(own)  # no episode is open
        number += length


def check(batch: dict, number: np.ndarray, goal: np.ndarray, done: np.ndarray) -> None:
    """Every array is that of the transitions `number` with the goals of the transitions `goal`."""
    for name, field in (("obs", "rest"), ("next_obs", "next rest"), ("act", "action")):
        np.testing.assert_array_equal(batch[name], numbers(number, field))
    note = np.arange(4).reshape(2, 2) + 4 * number[:, None, None]
    np.testing.assert_array_equal(batch["note"], note)
    assert batch["note"].dtype == np.int32
    achieved = goal_func(numbers(goal, "next rest"))
    desired = np.where(goal[:, None] < 0, OWN, achieved).astype(np.float32)
    np.testing.assert_array_equal(batch["goal"], desired)
    reward = reward_func(batch["next_obs"], batch["act"], desired).astype(np.float32)
    np.testing.assert_array_equal(batch["rew"], reward[:, None])
    np.testing.assert_array_equal(batch["done"][:, 0], done)


def decode(batch: dict) -> tuple[np.ndarray, np.ndarray]:
    """Which transitions, and whose goals (-1: their own)."""
    goal = np.floor(-batch["goal"][:, 0] / 10).astype(int)
    own = (batch["goal"] == OWN).all(1)
    return np.floor(batch["obs"][:, 0] / 10).astype(int), np.where(own, -1, goal)


LENGTHS = [4, 1, 7, 3]
BEGIN = np.repeat([0, 4, 5, 12], LENGTHS)
END = np.repeat([3, 4, 11, 14], LENGTHS)
DONE = np.isin(np.arange(15), [3, 11])


@pytest.mark.parametrize("relabel_at", ["episode_end", "sampling"])
@pytest.mark.parametrize("fidelity", ["described", "released"])
@pytest.mark.parametrize("strategy", GOAL_STRATEGIES)
def test_goals_are_those_of_the_strategy(strategy, fidelity, relabel_at):
    """Stored at the episode's end, or drawn for each sample of transitions that are stored once."""
    given = {"additional_goals": 3, "fidelity": fidelity, "relabel_at": relabel_at}
    buffer = buffer_of(strategy=strategy, **given)
    fill(buffer, LENGTHS)
    k = 1 if strategy == "final" else 3
    copies = k if relabel_at == "episode_end" else 0
    assert buffer.additional_goals == k
    assert buffer.get_stored_size() == 15 * (1 + copies) and buffer.get_buffer_size() == 1000
    lowest = {"final": END, "future": np.arange(15), "episode": BEGIN, "random": 0 * END}[strategy]
    highest = END if strategy != "random" or copies else np.full(15, 14)
    stored = buffer.get_all_transitions()
    number, goal = decode(stored)
    assert (np.bincount(number) == 1 + copies).all() and (goal < 0).sum() == 15
    shuffled, _ = decode(buffer.get_all_transitions(shuffle=True))
    assert sorted(shuffled) == sorted(number) and list(shuffled) != list(number)
    for batch in (stored, buffer.sample(500)):
        number, goal = decode(batch)
        new = goal >= 0
        assert ((lowest[number] <= goal) & (goal <= highest[number]))[new].all()
        # No episode achieves its own goal: each that terminates has failed, under any goal.
        done = DONE[number] | ((goal == number) & (fidelity == "described"))
        check(batch, number, goal, done)
    assert set(number) == set(range(15))
    assert 0.5 < new.mean() / (k / (1 + k)) < 1.5


def test_an_episode_that_achieves_its_goal_does_not_end_other_goals():
    """Its last step is done under its own goal only."""
    for fidelity, ends in (("described", False), ("released", True)):
        buffer = buffer_of(strategy="episode", additional_goals=8, fidelity=fidelity)
        for i in range(4):
            buffer.add(**step(i, done=i == 3))
        buffer.on_episode_end(goal_func(numbers(np.array([3]), "next rest"))[0])
        batch = buffer.get_all_transitions()
        goal = np.floor(-batch["goal"][:, 0] / 10).astype(int)
        last = np.floor(batch["obs"][:, 0] / 10) == 3
        others = last & (goal != 3)
        assert others.any() and (batch["done"][others] == ends).all()
        assert batch["done"][last & (goal == 3)].all()


@pytest.mark.parametrize("strategy", ["final", "future", "episode"])
@pytest.mark.parametrize("goal_func", [goal_func, None])
def test_beside_cpprb(strategy, goal_func):
    """After the same episodes both have stored the same rows, about equally often."""
    cpprb = pytest.importorskip("cpprb")
    given = {"goal_func": goal_func, "strategy": strategy, "prioritized": False}
    own = numbers(7, "rest") if goal_func is None else OWN  # without a function, states are goals
    shape = None if goal_func is None else (GOAL,)
    theirs = cpprb.HindsightReplayBuffer(10_000, ENV, 20, reward_func, goal_shape=shape, **given)
    ours = buffer_of(10_000, fidelity="released", goal_shape=shape, **given)
    for buffer in (ours, theirs):
        for _ in range(100):
            fill(buffer, LENGTHS, own)
    assert ours.get_stored_size() == theirs.get_stored_size()
    lines = []
    for buffer in (ours, theirs):
        batch = buffer.get_all_transitions()
        names = sorted(batch)
        assert names == sorted({*ENV, "goal", "rew"})
        lines.append(np.concatenate([batch[n].reshape(len(batch["rew"]), -1) for n in names], 1))
    every, index = np.unique(np.concatenate(lines), axis=0, return_inverse=True)
    counts = [np.bincount(i, minlength=len(every)) for i in np.split(index.ravel(), 2)]
    assert all((c > 0).all() for c in counts)
    assert stats.chi2_contingency(counts).pvalue > 1e-3


#: Invalid arrays of a step.
ARRAYS = [
    ({"weights": {}}, "env_dict: 'weights' is not allowed; the buffer adds it"),
    ({"next_obs": {"shape": 4}}, r"next_obs: shape \(4,\) is not allowed; it must be that of obs"),
    ({"obs": 3}, '^obs: 3 is not allowed; it must be a dictionary with "shape" and "dtype"$'),
    ({"act": {"dtype": "foo"}}, "act: dtype 'foo' is not allowed; it must be a numeric type"),
    ({"act": {"dtype": complex}}, "act: dtype .* is not allowed; it must be a numeric type"),
    ({"act": {"shpe": 2}}, "act: 'shpe' is unknown; it can have"),
    ({"act": {"shape": "two"}}, "act: shape 'two' is not allowed; it must be whole numbers"),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"additional_goals": -1}, "additional_goals: -1 is not allowed; it must be a whole"),
        ({"max_episode_len": 2000}, "size: 1000 is not allowed; it must be at least max_epi"),
        ({"size": True}, "size: True is not allowed"),
        ({"terminated_func": True}, r"terminated_func: True .* \(next states, actions, go"),
        ({"state": "where"}, "env_dict: 'where' is missing; it has"),
        ({"goal_func": None}, r"goal_shape: \(2,\) is not allowed without a goal_func"),
        ({"terminated_func": None}, "terminated_func: None is not allowed, because 'done' is re"),
        ({"done": "note"}, r"note: shape \(2, 2\) is not allowed; it must be"),
        ({"reward_func": None}, "reward_func: None is not allowed; it must be a function of"),
        ({"env_dict": [*ENV]}, r"env_dict: .* is not allowed; it must be a dictionary"),
        *(({"env_dict": {**ENV, **change}}, message) for change, message in ARRAYS),
    ],
)
def test_invalid_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        buffer_of(**changes)


def test_an_array_in_another_layout_is_not_made_to_fit():
    right = step(np.arange(5), done=np.arange(5) == 4)
    buffer = buffer_of()
    for wrong in (right["obs"].T, right["obs"].reshape(-1), right["obs"][:, None]):
        with pytest.raises(ValueError, match=r"^obs: "):
            buffer.add(**right | {"obs": wrong})
    assert buffer.get_stored_size() == 0
    buffer.add(**right)


def test_sizes_may_be_whole_floats_and_types_have_a_default():
    """As cpprb takes them; priorities are (|TD error| + eps)^alpha."""
    env = {"s": {}, "a": {}, "s2": {}, "over": {"dtype": np.int8}}
    given = {"state": "s", "action": "a", "next_state": "s2", "done": "over"}
    given |= {"default_dtype": np.float64, "alpha": 0.5, "eps": 0.25, "fidelity": "released"}
    buffer = HindsightReplayBuffer(
        1e3, env, 5.0, lambda s, a, g: (s == g).all(1), additional_goals=1.0, seed=0, **given
    )
    for i in range(5):
        buffer.add(s=i, a=i, s2=i + 1, over=i == 4)
    buffer.on_episode_end(9)
    assert buffer.get_stored_size() == 10 and buffer.get_buffer_size() == 1000
    batch = buffer.sample(16)
    assert batch["s"].dtype == batch["a"].dtype == np.float64 and batch["over"].dtype == np.int8
    assert batch["goal"].dtype == np.float64 and batch["goal"].shape == (16, 1)
    assert set(batch) > {*env, "weights", "indexes"}
    theirs = pytest.importorskip("cpprb").PrioritizedReplayBuffer(20, {"a": {}}, alpha=0.5)
    theirs.add(a=np.arange(10))
    for error in (0.5, 3.75):  # the largest is at first 1
        for each in (buffer, theirs):
            each.update_priorities(np.arange(10.0), np.full(10, error))
            assert each.get_max_priority() == pytest.approx(max(error, 1.0))
    buffer.clear()
    assert buffer.get_stored_size() == 0 and buffer.get_max_priority() == 1.0


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([ZeroDivisionError("the user's own")], "the user's own"),
        ([np.zeros(4), ZeroDivisionError("of the copies")], "of the copies"),
        ([np.zeros(5)], "reward_func: it returned .* for 4 goals"),
    ],
)
def test_functions_that_fail_leave_the_episode_open(results, message):
    function = Mock(side_effect=reward_func)
    buffer = buffer_of(30, 5, reward_func=function, strategy="random", prioritized=True)
    fill(buffer, [4, 3, 5])
    buffer.add(**step(np.arange(4), done=np.arange(4) == 3))
    before = buffer.get_all_transitions()
    function.side_effect = results
    with pytest.raises((ValueError, ZeroDivisionError), match=message):
        buffer.on_episode_end(OWN)
    for name, values in buffer.get_all_transitions().items():
        np.testing.assert_array_equal(values, before[name])
    function.side_effect = reward_func
    buffer.on_episode_end(OWN)
    number, goal = decode(buffer.get_all_transitions())
    assert number[-20:].tolist() == [0, 1, 2, 3] * 5 and (goal[-16:] >= 0).all()


@pytest.mark.parametrize("relabel_at", ["episode_end", "sampling"])
def test_a_function_that_changes_its_arguments_changes_no_sample(relabel_at):
    def goals(states):
        states *= -1
        return states[:, 1:]

    def rewards(next_state, action, goal):
        found = reward_func(next_state, action, goal)
        for given in (next_state, action, goal):
            given[:] = 99
        return found

    batches = []
    for functions in ({}, {"goal_func": goals, "reward_func": rewards}):
        buffer = buffer_of(relabel_at=relabel_at, **functions)
        fill(buffer, [4, 3, 5])
        batches.append(buffer.sample(64))
    for name, values in batches[0].items():
        np.testing.assert_array_equal(batches[1][name], values)


def test_goals_of_a_function_are_as_exact_as_the_states():
    far = 1e8 + np.arange(4.0)
    shapes = {"obs": {"shape": 1, "dtype": float}, "act": {"shape": 1},
              "next_obs": {"shape": 1, "dtype": float}}  # fmt: skip
    buffer = HindsightReplayBuffer(
        40, shapes, 10, lambda state, action, goal: (state == goal)[:, 0] - 1.0,
        goal_func=lambda states: states, goal_shape=1, prioritized=False, seed=0,
    )  # fmt: skip
    for before, after in itertools.pairwise(far):
        buffer.add(obs=before, act=0, next_obs=after)
    buffer.on_episode_end(far[2])
    assert set(buffer.get_all_transitions()["goal"].ravel()) == {*far[1:]}


def test_invalid_steps_and_goals():
    buffer = buffer_of()
    buffer.add(**step(np.arange(19), done=np.zeros(19)))
    for change, message in (
        ({"obs": np.zeros(4)}, r"obs: an array of shape \(4,\)"),
        ({"done": -1}, "done: -1 is not allowed; it must be true or false, or 1 or 0"),
        ({"more": 1}, r"add: \['act', 'done', 'more', .*\] is not allowed; its arguments must be"),
        (step(np.arange(2), np.zeros(2)), "an episode of 21 steps is not allowed; it must have"),
    ):
        with pytest.raises(ValueError, match=message):
            buffer.add(**{**step(19, done=False), **change})
    for goal, message in (
        (np.zeros(3), r"goal: shape \(3,\) is not allowed; it must be \(2,\)"),
        (np.array([0.0, np.nan]), "goal: nan is not allowed; every number must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            buffer.on_episode_end(goal)
    assert buffer.ring.elapsed.item() == 19 and buffer.get_stored_size() == 0
    with pytest.raises(ValueError, match=r"nothing to sample: call on_episode_end\(goal\) first"):
        buffer.sample(4)
    with pytest.raises(ValueError, match="there are no priorities"):
        buffer.get_max_priority()


def test_a_goal_of_fractions_is_judged_whole():
    """States of whole numbers: a sample has goals in their type, as in cpprb."""
    state = {"shape": 2, "dtype": np.int64}
    arrays = {"obs": state, "act": {"dtype": np.int64}, "next_obs": state}
    middle = {"goal_func": lambda states: states.mean(-1, keepdims=True), "goal_shape": 1}
    buffer = HindsightReplayBuffer(
        100, arrays, 4, lambda states, _, goals: -np.abs(states.mean(-1) - goals[:, 0]),
        strategy="final", prioritized=False, seed=0, **middle,
    )  # fmt: skip
    buffer.add(obs=[0, 0], act=0, next_obs=[0, 1])
    buffer.on_episode_end([2.5])
    found = buffer.sample(40)
    pairs = zip(found["goal"].ravel(), found["rew"].ravel(), strict=True)
    assert {*pairs} == {(2, -2.0), (0, 0.0)}


@pytest.mark.parametrize(
    ("name", "value"), [("max_episode_len", 10), ("additional_goals", 8), ("eps", 1e-4)]
)
def test_a_file_of_a_buffer_with_other_settings_is_refused(tmp_path, name, value):
    """With the length of its episodes, the next one would be sampled before it has a goal."""
    buffer_of(prioritized=True, **{name: value}).save(tmp_path / "buffer.safetensors")
    with pytest.raises(FileError, match=f"from a buffer with {name} {value}, but this one has"):
        buffer_of(prioritized=True).load(tmp_path / "buffer.safetensors")


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_buffer_of_one_longest_episode_is_saved_and_loaded(tmp_path, prioritized):
    buffer, other = (buffer_of(20, 20, prioritized=prioritized) for _ in range(2))
    fill(buffer, [20])
    buffer.save(tmp_path / "buffer.safetensors")
    other.load(tmp_path / "buffer.safetensors")
    np.testing.assert_array_equal(buffer.sample(9)["obs"], other.sample(9)["obs"])
