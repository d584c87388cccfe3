"""Our buffer with cpprb's interface: against plain lists, and against cpprb's own."""

from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy import stats

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
    number = 0
    for i, length in enumerate(lengths):
        for t in range(length):
            buffer.add(**step(number, done=t == length - 1 and i % 2 == 0))
            number += 1
        buffer.on_episode_end(own)


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


def test_several_steps_at_once_are_the_same():
    one, several = buffer_of(), buffer_of()
    for i in range(6):
        one.add(**step(i, done=False))
    several.add(**step(np.arange(2), done=np.zeros(2)))
    several.add(**step(np.arange(2, 6), done=np.zeros((4, 1))))
    for buffer in (one, several):
        assert buffer.get_stored_size() == 0
        buffer.on_episode_end(np.tile(OWN, (6, 1)))
        buffer.on_episode_end(OWN)
    a, b = one.get_all_transitions(), several.get_all_transitions()
    for name, values in a.items():
        np.testing.assert_array_equal(values, b[name])
    shuffled = one.get_all_transitions(shuffle=True)
    assert not np.array_equal(shuffled["obs"], a["obs"])
    np.testing.assert_array_equal(np.sort(shuffled["obs"], 0), np.sort(a["obs"], 0))


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


def two_steps(kind: Any, **options: Any) -> Any:
    """A buffer, ours or cpprb's, with an episode of two steps whose states are numbers."""
    arrays: Any = {"obs": {}, "act": {}, "next_obs": {}}
    buffer = kind(20, arrays, 2, lambda s, a, g: -1.0 * (s != g), additional_goals=2, **options)
    buffer.add(obs=0, act=0, next_obs=1)
    buffer.add(obs=1, act=0, next_obs=2)
    buffer.on_episode_end(3)  # a goal of shape 1, without its axis
    return buffer


def test_a_single_number_is_a_goal():
    buffer = two_steps(HindsightReplayBuffer, strategy="final", prioritized=False)
    found = buffer.get_all_transitions()
    assert found["goal"].tolist() == [[3.0], [3.0], [2.0], [2.0]]
    assert found["rew"].tolist() == [[-1.0], [-1.0], [-1.0], [0.0]]


def test_the_largest_priority_is_that_of_an_error():
    ours = two_steps(HindsightReplayBuffer, alpha=0.5, eps=0.0)
    assert ours.get_max_priority() == 1.0
    ours.update_priorities(np.array([0.0, 1.0]), np.array([0.5, 0.25]))  # indexes as numbers
    assert ours.get_max_priority() == 1.0
    ours.update_priorities([2], [9.0])
    assert ours.get_max_priority() == pytest.approx(9.0)
    ours.clear()
    assert ours.get_stored_size() == 0 and ours.get_max_priority() == 1.0
    theirs = two_steps(pytest.importorskip("cpprb").HindsightReplayBuffer, alpha=0.5)
    theirs.update_priorities([2], [9.0])
    assert theirs.get_max_priority() == pytest.approx(9.0)


def test_an_error_of_zero_is_allowed_without_eps():
    buffer = two_steps(HindsightReplayBuffer, eps=0.0, seed=0)
    everything = np.arange(6)
    for one in (4, 1):  # the second comes back from zero
        buffer.update_priorities(everything, np.where(everything == one, 1.0, 0.0))
        assert set(buffer.sample(300)["indexes"]) == {one}


#: Invalid arrays of a step.
ARRAYS = [
    ({"weights": {}}, "env_dict: 'weights' is not allowed; the buffer adds it"),
    ({"next_obs": {"shape": 4}}, r"next_obs: shape \(4,\) is not allowed; it must be that of obs"),
    ({"obs": 3}, '^obs: 3 is not allowed; it must be a dictionary with "shape" and "dtype"$'),
    ({"act": {"dtype": "foo"}}, "act: dtype 'foo' is not allowed; it must be a numeric type"),
    ({"act": {"dtype": complex}}, "act: dtype .* is not allowed; it must be a numeric type"),
    ({"act": {"shape": "two"}}, "act: shape 'two' is not allowed; it must be whole numbers"),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"additional_goals": -1}, "additional_goals: -1 is not allowed; it must be a whole"),
        ({"max_episode_len": 2000}, "size: 1000 is not allowed; it must be at least max_epi"),
        ({"size": float("inf")}, "size: inf is not allowed"),
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


@pytest.mark.parametrize("unneeded", [{"fidelity": "released"}, {"done": "over"}])
def test_where_terminations_stay_there_is_no_function_of_them(unneeded):
    buffer_of(terminated_func=None, **unneeded)


def test_sizes_may_be_whole_floats_and_types_have_a_default():
    """As cpprb takes them; priorities are (|TD error| + eps)^alpha."""
    env = {"s": {"shape": 2}, "a": {}, "s2": {"shape": 2}, "over": {"dtype": np.int8}}
    given = {"state": "s", "action": "a", "next_state": "s2", "done": "over"}
    given |= {"default_dtype": np.float64, "alpha": 0.5, "eps": 0.25, "fidelity": "released"}
    buffer = HindsightReplayBuffer(
        1e3, env, 5.0, lambda s, a, g: (s == g).all(1), additional_goals=1.0, seed=0, **given
    )
    for i in range(5):
        buffer.add(s=[i, i], a=i, s2=[i + 1, i + 1], over=i == 4)
    buffer.on_episode_end([9, 9])
    assert buffer.get_stored_size() == 10 and buffer.get_buffer_size() == 1000
    batch = buffer.sample(16)
    assert batch["s"].dtype == batch["a"].dtype == np.float64 and batch["over"].dtype == np.int8
    assert batch["goal"].dtype == np.float64 and set(batch) > {*env, "weights", "indexes"}
    buffer.update_priorities(batch["indexes"], np.full(16, 3.75))
    assert buffer.get_max_priority() == pytest.approx(3.75)
    with pytest.raises(ValueError, match="size: True is not allowed"):
        HindsightReplayBuffer(True, env, 5, lambda s, a, g: 0, **given)


@pytest.mark.parametrize("call", [1, 2])
def test_functions_that_raise_leave_the_episode_open(call):
    """The first call is for the episode itself, the second for its copies."""
    raising = Mock(side_effect=reward_func)
    buffer = buffer_of(30, 5, reward_func=raising, strategy="random", prioritized=True)
    fill(buffer, [4, 3, 5])
    buffer.add(**step(np.arange(4), done=np.arange(4) == 3))
    before = buffer.get_all_transitions()
    raising.side_effect = [np.zeros(4)] * (call - 1) + [ZeroDivisionError("the user's own")]
    with pytest.raises(ZeroDivisionError):
        buffer.on_episode_end(OWN)
    for name, values in buffer.get_all_transitions().items():
        np.testing.assert_array_equal(values, before[name])
    raising.side_effect = reward_func
    buffer.on_episode_end(OWN)
    number, goal = decode(buffer.get_all_transitions())
    assert number[-20:].tolist() == [0, 1, 2, 3] * 5 and (goal[-16:] >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.zeros(4)}, r"obs: an array of shape \(4,\)"),
        ({"next_obs": np.full(3, np.nan)}, "next_obs: nan is not allowed; every number must be"),
        ({"done": -1}, "done: -1 is not allowed; it must be true or false, or 1 or 0"),
        ({"more": 1}, r"add: \['act', 'done', 'more', .*\] is not allowed; its arguments must be"),
        ({"act": None}, r"add: \['done', 'next_obs', .*\] is not allowed; its arguments must be"),
    ],
)
def test_an_invalid_step_leaves_the_buffer_as_it_was(change, message):
    buffer = buffer_of()
    fill(buffer, [3])
    buffer.add(**step(3, done=False))
    before = buffer.ring.state_dict()
    given = {**step(4, done=False), **change}
    with pytest.raises(ValueError, match=message):
        buffer.add(**{name: value for name, value in given.items() if value is not None})
    after = buffer.ring.state_dict()
    for name in ("rows", "before", "elapsed", "oldest"):
        assert torch.equal(before[name], after[name]), name


def test_invalid_goals_and_functions():
    buffer = buffer_of()
    buffer.add(**step(np.arange(19), done=np.zeros(19)))
    with pytest.raises(ValueError, match="an episode of 21 steps is not allowed; it must have"):
        buffer.add(**step(np.arange(2), done=np.zeros(2)))
    for goal, message in (
        (np.zeros(3), r"goal: shape \(3,\) is not allowed; it must be \(2,\)"),
        (np.array([0.0, np.nan]), "goal: nan is not allowed; every number must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            buffer.on_episode_end(goal)
    for name, wrong, message in (
        (
            "goal_func",
            lambda s: s,
            r"achieved goal: .* shape \(4, 3\) .* of shape \(4, 2\)",
        ),
        ("reward_func", lambda *_: np.zeros(5), "reward_func: it returned .* for 4 goals"),
        ("terminated_func", lambda *_: None, "terminated_func: it returned .* for 4 goals"),
    ):
        broken = buffer_of(100, **{name: wrong})
        broken.add(**step(np.arange(4), done=np.arange(4) == 3))
        with pytest.raises(ValueError, match=message):
            broken.on_episode_end(OWN)
        assert broken.get_stored_size() == 0 and broken.ring.elapsed.item() == 4
    for call in (buffer.get_max_priority, partial(buffer.update_priorities, [0], [1.0])):
        with pytest.raises(ValueError, match="there are no priorities"):
            call()
