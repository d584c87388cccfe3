"""The ring against a buffer of plain lists that draws with the same random numbers."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hindsight.replay.buffer import STEP, Relabelling, ReplayBuffer, RowLayout
from hindsight.replay.prioritized import PrioritizedReplayBuffer, SumTree
from hindsight.replay.transitions import Batch
from hindsight.specs.replay import GOAL_STRATEGIES
from tests.replay import numbered
from tests.support.examples import quick


@dataclass
class Both:
    """The buffer and the lists [run][env], filled with the same numbered transitions."""

    buffer: ReplayBuffer
    lists: list[list[numbered.Slots]]
    rng: np.random.Generator
    count: int = 0

    @classmethod
    def of(cls, runs: int, envs: int, slots: int, how: Relabelling, seed: int) -> "Both":
        lists = [[numbered.Slots(slots, slots // 2) for _ in range(envs)] for _ in range(runs)]
        buffer = ReplayBuffer(runs, envs, envs * slots, numbered.ROW, how)
        return cls(buffer, lists, np.random.default_rng(seed))

    def step(self, ends: float) -> None:
        """A step of every environment; an episode ends with probability `ends`."""
        shape = len(self.lists), len(self.lists[0])
        number = self.count + np.arange(math.prod(shape)).reshape(shape)
        self.count += number.size
        kind = self.rng.random(shape)
        success = self.rng.random(shape) < 0.3
        terminated = (kind < ends / 2) | success * (kind < ends)
        truncated = (kind < ends) & ~terminated
        step = number, terminated, truncated, success
        numbered.add(self.buffer, *step)
        for (run, env), *how in zip(np.ndindex(shape), *map(np.ravel, step), strict=True):
            number_, ended, cut, succeeded = (x.item() for x in how)
            self.lists[run][env].add(numbered.Transition(number_, ended, succeeded), ended or cut)

    def expected(self, uniform: np.ndarray) -> list[list[numbered.Expected]]:
        """What the lists draw with `uniform` [run, sample, 3]."""
        how = self.buffer.relabelling
        return [
            [numbered.draw(slots, u, how.strategy, how.k) for u in numbers_of_run]
            for slots, numbers_of_run in zip(self.lists, uniform.tolist(), strict=True)
        ]


def under(e: numbered.Expected, how: Relabelling) -> tuple[bool, bool]:
    """Whether a transition is terminated under its goal, and would be under any goal."""
    terminated, success = e.transition.terminated, e.transition.success
    if how.fidelity == "released":
        return terminated, False
    failed = terminated and not success
    if e.goal == -1 or not how.terminates_on_success:
        return terminated, failed
    return failed or e.goal == e.transition.number, failed


def compare(batch: Batch, expected: list[list[numbered.Expected]], how: Relabelling) -> None:
    """Every field of the batch is that of the expected transition."""
    number = np.array([[e.transition.number for e in run] for run in expected])
    goal = np.array([[e.goal for e in run] for run in expected])
    np.testing.assert_array_equal(batch.obs, numbered.observation(number, goal))
    np.testing.assert_array_equal(batch.next_obs, numbered.observation(number, goal, after=True))
    np.testing.assert_array_equal(batch.actions, numbered.numbers(number, "action"))
    ends = np.array([[under(e, how) for e in run] for run in expected])
    achieved, desired = (
        numbered.numbers(number, "next achieved"),
        numbered.numbers(goal, "next achieved"),
    )
    new = numbered.reward(*map(torch.tensor, (achieved, desired, ends[..., 1])))[0].numpy()
    np.testing.assert_array_equal(
        batch.rewards, np.where(goal < 0, numbered.stored_reward(number), new)
    )
    np.testing.assert_array_equal(batch.terminated, ends[..., 0])


relabellings = st.builds(
    Relabelling,
    strategy=st.sampled_from(GOAL_STRATEGIES),
    k=st.sampled_from([0, 1, 4]),
    terminates_on_success=st.booleans(),
    fidelity=st.sampled_from(["described", "released"]),
)


@quick(60)
@given(
    how=relabellings,
    runs=st.integers(1, 3),
    envs=st.integers(1, 3),
    slots=st.integers(2, 11),
    steps=st.integers(1, 40),
    ends=st.sampled_from([0.1, 0.4, 0.9]),
    seed=st.integers(0, 10**6),
)
def test_samples_are_those_of_plain_lists(how, runs, envs, slots, steps, ends, seed):
    """With unfinished and overlong episodes, overwritten slots and several environments."""
    both = Both.of(runs, envs, slots, how, seed)
    something = False
    for _ in range(steps):
        both.step(ends)
        there = [[sum(map(len, s.finished())) for s in environments] for environments in both.lists]
        np.testing.assert_array_equal(both.buffer.finished(), there)
        every = np.sum(there, axis=1).all()
        assert every or not something, "once there is something, there is always"
        something = every
        uniform = both.rng.random((runs, 6, 3))
        if something:
            compare(both.buffer.sample(uniform, numbered.reward), both.expected(uniform), how)
        else:
            with pytest.raises(ValueError, match="nothing to sample: no episode"):
                both.buffer.sample(uniform, numbered.reward)
    assert something or steps <= slots


def test_among_a_million_transitions_each_is_as_likely_as_another():
    """Numbers in single precision would draw some of them three times and others once."""
    row = RowLayout.of(2, 1, 1)
    buffer = ReplayBuffer(1, 1, 1_000_000, row, Relabelling())
    buffer.add_rows(torch.zeros(1, 1, 1_000_000, row.width), np.array([[True]]))
    index = buffer.choose((np.arange(2_000_000)[None] + 0.5) / 2_000_000)
    assert (np.bincount(index[0], minlength=1_000_000) == 2).all()


@pytest.mark.parametrize("name", STEP)
def test_shapes_that_would_shift_or_spread(name):
    """Too few columns would shift those after them, and sizes of 1 would be broadcast."""
    row = RowLayout.of(numbered.OBS, numbered.GOAL, numbered.ACTION, has_rest=True)
    buffer = ReplayBuffer(2, 3, 30, row, Relabelling(terminates_on_success=True))
    flag = torch.zeros(2, 3, dtype=torch.bool)
    step = {"obs": torch.zeros(2, 3, numbered.OBS), "actions": torch.zeros(2, 3, numbered.ACTION)}
    step |= {"rewards": torch.zeros(2, 3), "next_obs": torch.zeros(2, 3, numbered.OBS)}
    step |= {"terminated": flag, "truncated": flag, "success": flag, "rest": torch.zeros(2, 3)}
    buffer.add(**step)
    right = step[name]
    for wrong in (right[..., 0], right[:1], right[:, :1], right[..., :-1], right[..., None]):
        message = f"{name}: shape .* is not allowed; it must be {re.escape(str((*right.shape,)))}"
        with pytest.raises(ValueError, match=message):
            buffer.add(**{**step, name: wrong})
    assert buffer.position == 1


@pytest.mark.parametrize("has_rest", [False, True])
def test_a_rest_is_given_where_rows_have_one(has_rest):
    """An error leaves the oldest episode where it is."""
    row = RowLayout.of(3, 1, 1, has_rest)
    buffer, no = ReplayBuffer(1, 1, 4, row, Relabelling()), torch.zeros(1, 1, dtype=torch.bool)
    obs, zero = torch.zeros(1, 1, 3), torch.zeros(1, 1)
    step, rests = (obs, zero, zero, obs, no, ~no, no), [None, zero]
    for _ in range(4):
        buffer.add(*step, rests[has_rest])
    with pytest.raises(ValueError, match="rest: it is needed where the rows have one, and only"):
        buffer.add(*step, rests[not has_rest])
    assert buffer.finished() == 4


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
@pytest.mark.parametrize("size", [65_536, 70_000])
def test_a_size_that_does_not_fit_counts_all_that_is_taken(kind, size):
    arrays = dict(vars(buffer := kind(2, 1, size, numbered.ROW, Relabelling())))
    arrays |= vars(arrays.pop("tree", SumTree(1, 1)))
    taken = sum(arrays[name].nbytes for name in ("rows", "before", "left", "sums")) / size
    with pytest.raises(ValueError, match="would take") as error:
        kind(2, 1, 10**15, buffer.row, buffer.relabelling)
    said = int(re.search(r"transitions of (\d+) bytes", str(error.value))[1])
    assert taken - 1 < said < 1.3 * taken
