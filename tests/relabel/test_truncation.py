"""Relabelling where a time limit truncates, against plain loops: a point mass and bits.

Rollouts come from the environments themselves, and values from the same network.  Points are near
each other and bits few, so that goals are achieved by chance; each step's achieved goal differs
from the next one's.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hindsight.algorithms import ppo
from hindsight.envs.bit_flipping import BitFlipping
from hindsight.envs.point_reach import PointReach
from hindsight.relabel import on_policy, s_ratio
from hindsight.relabel.on_policy import Draws
from hindsight.replay.rollout import Rollout, Trajectories
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.environments.bit_flipping import BitFlippingSpec
from hindsight.specs.environments.point_reach import PointReachSpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.on_policy import success_counts
from tests.examples import quick
from tests.relabel.reference import (
    GAMMA,
    LAMBDA,
    Entry,
    Rules,
    Value,
    advantages,
    described_copy,
    released_advantages,
    released_list,
    segments,
    with_desired,
)
from tests.relabel.test_s_ratio import SHARES, assert_best, choices

CPU = torch.device("cpu")
SPEC = PPOSpec(gamma=GAMMA, gae_lambda=LAMBDA)
RUNS = 2


@dataclass
class Case:
    """A rollout that may begin in the middle of episodes, its environment and its agent."""

    env: Any
    agent: ppo.ActorCritic
    rows: Tensor
    rollout: Rollout
    rules: Rules

    @property
    def ends_with_success(self) -> bool:
        return isinstance(self.env, BitFlipping)

    @property
    def g(self) -> int:
        return self.env.goal_size

    def value(self, run: int) -> Value:
        return partial(self._value, run)

    def _value(self, run: int, obs: np.ndarray) -> float:
        value = self.agent.split(self.rows[run : run + 1])[1]
        return float(self.agent.value(value, torch.from_numpy(obs)[None, None])[0, 0, 0])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    envs, steps, limit = draw(st.integers(1, 2)), draw(st.integers(1, 16)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**16))
    if draw(st.booleans()):
        # At most 0.15 per step; the threshold is a little more than half of that.
        spec = PointReachSpec(max_steps=limit, dt=0.15, threshold=0.11)
        env: Any = PointReach(spec, [seed, seed + 1], envs)
    else:
        bits = BitFlippingSpec(n_bits=draw(st.integers(2, 3)), max_steps=limit)
        env = BitFlipping(bits, [seed, seed + 1], envs)
    discrete = env.n_choices is not None
    outputs = env.n_choices if discrete else env.action_size
    agent = ppo.ActorCritic.of(env.observation_size, outputs, (6,), discrete)
    rows = torch.stack([agent.initial_row(seed, 1.0) for seed in range(RUNS)])
    rows += 0.3 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(seed))
    noise = np.random.default_rng(seed).gumbel(size=(3 + steps, RUNS, envs, outputs))
    noise = torch.from_numpy(noise.astype(np.float32))
    before = draw(st.integers(0, 3))
    if before:
        ppo.collect(env, agent, rows, noise[:before])
    rollout = ppo.collect(env, agent, rows, noise[3:])
    rules = Rules(env.goal_size, 0.0 if discrete else 0.11, (-1.0, 0.0), success_ends=discrete)
    return Case(env, agent, rows, rollout, rules)


def copy_of(
    case: Case, run: int, env: int, a: int, b: int, goal: np.ndarray
) -> tuple[list[Entry], float]:
    """An episode under another goal, and the value that follows it."""
    entries = described_copy(case.rollout, run, env, (a, b), goal, case.rules)
    if entries[-1].success and case.rules.success_ends:
        return entries, 0.0
    return entries, case.value(run)(with_desired(case.rollout.cuts.next_obs[run, env, b], goal))


def assert_copy(
    case: Case,
    paths: Trajectories,
    advantage: Tensor,
    where: tuple[int, int],
    span: tuple[int, int],
    expected: tuple[list[Entry], float],
) -> None:
    """The path holds exactly this trajectory between the first and the last step of an episode."""
    (run, path), (a, b), (entries, after) = where, span, expected
    n = len(entries)
    here = slice(a, a + n)
    assert paths.valid[run, path, a : b + 1].tolist() == [True] * n + [False] * (b + 1 - a - n)
    np.testing.assert_array_equal(
        paths.obs[run, path, here].numpy(), np.array([e.obs for e in entries])
    )
    assert paths.rewards[run, path, here].tolist() == [e.reward for e in entries]
    assert paths.success[run, path, here].tolist() == [e.success for e in entries]
    assert paths.ends[run, path, here].tolist() == [False] * (n - 1) + [True]
    np.testing.assert_allclose(
        advantage[run, path, here].numpy(),
        advantages(entries, case.value(run), after),
        rtol=0,
        atol=2e-5,
    )


def estimated(case: Case, paths: Trajectories) -> Tensor:
    """Advantages [run, path, step], rewards at truncations included."""
    samples = ppo.estimate(case.agent, case.rows, paths, SPEC)
    return samples.advantage.view(paths.rewards.shape)


@given(cases())
@quick(40)
def test_what_follows_is_of_the_same_episode(case):
    """Also if the next episode has begun; its goal is that of the step."""
    rollout, g = case.rollout, case.g
    assert torch.equal(rollout.cuts.next_obs[..., :g], rollout.next_achieved)
    goals = rollout.obs[..., g : 2 * g]
    assert torch.equal(rollout.cuts.next_obs[..., g : 2 * g], goals)


@given(cases())
@quick(40)
def test_real_steps(case):
    """Whatever ends an episode; what the rollout cuts is followed by its own value."""
    paths = Trajectories.real(case.rollout)
    advantage, steps = estimated(case, paths), paths.rewards.shape[-1]
    for run, env in np.ndindex(*paths.rewards.shape[:2]):
        for a, b, _ in segments(case.rollout, run, env):
            obs, rewards = case.rollout.obs[run, env].numpy(), paths.rewards[run, env].tolist()
            entries = [Entry(obs[t], obs, rewards[t], False, t == a) for t in range(a, b + 1)]
            after = 0.0
            if case.rollout.cuts.truncated[run, env, b]:
                after = case.value(run)(case.rollout.cuts.next_obs[run, env, b].numpy())
            elif not case.rollout.terminated[run, env, b]:
                assert b == steps - 1
                after = case.value(run)(case.rollout.last_obs[run, env].numpy())
            np.testing.assert_allclose(
                advantage[run, env, a : b + 1].numpy(),
                advantages(entries, case.value(run), after),
                rtol=0,
                atol=2e-5,
            )


@given(cases(), st.sampled_from(["final", "episode"]), st.integers(1, 3))
@quick(40)
def test_described_copies_are_what_the_environment_would_have_shown(case, strategy, k):
    spec = HindsightSpec(strategy=strategy, k=k, fidelity="described")
    rollout = case.rollout
    uniform = Draws([3, 4], 1, CPU)(*rollout.rewards.shape[1:], spec.k)
    paths = on_policy.relabel(rollout, spec, case.env.task, uniform)
    advantage = estimated(case, paths)
    counted = np.zeros((2, RUNS))
    for run, env, copy in np.ndindex(*rollout.rewards.shape[:2], spec.k):
        path = env * spec.k + copy
        for a, b, whole in segments(case.rollout, run, env):
            if not whole:
                assert not paths.valid[run, path, a : b + 1].any()
                continue
            chosen = b
            if strategy == "episode":
                chosen = a + math.floor(float(uniform[run, env, a, copy]) * (b - a + 1))
            goal = rollout.next_achieved[run, env, chosen].numpy()
            expected = copy_of(case, run, env, a, b, goal)
            assert_copy(case, paths, advantage, (run, path), (a, b), expected)
            counted[:, run] += (expected[0][-1].success, 1)
    counts = success_counts(paths, case.env.task.terminates_on_success)
    assert counts.tolist() == counted.tolist()


@given(cases(), st.sampled_from(["final", "episode"]))
@quick(40)
def test_described_copies_can_be_cut_at_their_success(case, strategy):
    """The success then terminates them; without one, nothing changes."""
    rollout = case.rollout
    uniform = Draws([3, 4], 1, CPU)(*rollout.rewards.shape[1:], 1)
    whole, cut = (
        on_policy.relabel(
            rollout,
            HindsightSpec(strategy=strategy, fidelity="described", cut_at_success=at_success),
            case.env.task,
            uniform,
        )
        for at_success in (False, True)
    )
    advantage = estimated(case, cut)
    for run, env in np.ndindex(*rollout.rewards.shape[:2]):
        for a, b, complete in segments(case.rollout, run, env):
            if not complete:
                assert not cut.valid[run, env, a : b + 1].any()
                continue
            goal = whole.obs[run, env, a, case.g : 2 * case.g].numpy()
            entries, after = copy_of(case, run, env, a, b, goal)
            n = next((i + 1 for i, e in enumerate(entries) if e.success), None)
            expected = (entries, after) if n is None else (entries[:n], 0.0)
            assert_copy(case, cut, advantage, (run, env), (a, b), expected)


@given(cases(), st.sampled_from(["final", "future", "episode"]), st.integers(1, 2))
@quick(40)
def test_released_copies_end_at_a_truncation_without_a_value(case, strategy, k):
    """One list per environment, with goals and rewards from before the action."""
    spec = HindsightSpec(strategy=strategy, k=k)
    rollout = case.rollout
    uniform = Draws([3, 4], 1, CPU)(*rollout.rewards.shape[1:], spec.k)
    paths = on_policy.relabel(rollout, spec, case.env.task, uniform)
    advantage = estimated(case, paths)
    assert paths.valid.all()
    for run, env in np.ndindex(*rollout.rewards.shape[:2]):
        entries, _ = released_list(rollout, run, env, spec, uniform, case.rules)
        assert paths.rewards[run, env].tolist() == [e.reward for e in entries]
        np.testing.assert_array_equal(
            paths.obs[run, env].numpy(), np.array([e.obs for e in entries])
        )
        expected = released_advantages(entries, case.value(run))
        np.testing.assert_allclose(advantage[run, env].numpy(), expected, rtol=0, atol=2e-5)


def assert_failure(
    case: Case, copies: Trajectories, advantage: Tensor, run: int, env: int, a: int, b: int
) -> None:
    """The copy has one goal of the space, which no step achieves, and is bootstrapped."""
    goal = copies.obs[run, env, a, case.g : 2 * case.g].numpy()
    points = [
        case.rollout.obs[run, env, a, : case.g].numpy(),
        *case.rollout.next_achieved[run, env, a : b + 1].numpy(),
    ]
    assert not any(case.rules.achieves(point, goal) for point in points)
    assert case.env.task.contains(torch.from_numpy(goal))
    expected = copy_of(case, run, env, a, b, goal)
    assert len(expected[0]) == b - a + 1 and expected[1] != 0
    assert_copy(case, copies, advantage, (run, env), (a, b), expected)


@given(cases(), st.sampled_from(SHARES), st.booleans())
@quick(40)
def test_described_shares_of_success(case, share, targeted):
    """The last step decides on success; failures are bootstrapped where the episode ended."""
    targeted &= not case.rules.success_ends
    spec = HindsightSpec(
        s_ratio=share, fidelity="described", failures="targeted" if targeted else "untargeted"
    )
    rollout, task = case.rollout, case.env.task
    target = torch.full((RUNS,), share)
    real, copies = s_ratio.described(rollout, spec, task, target, Draws([3, 4], 1, CPU))
    _, can_fail = s_ratio.failures(rollout, spec, task, after_first_draw(rollout))
    advantage = estimated(case, copies)
    for run in range(RUNS):
        kept, outcomes, failing = [0, 0], [0, 0], 0
        for env in range(rollout.rewards.shape[1]):
            for a, b, whole in segments(case.rollout, run, env):
                if not whole:
                    assert real.valid[run, env, a : b + 1].all()
                    assert not copies.valid[run, env, a : b + 1].any()
                    continue
                reached = rollout.next_achieved[run, env, b].numpy()
                desired = rollout.obs[run, env, b, case.g : 2 * case.g].numpy()
                succeeded = case.rules.achieves(reached, desired)
                outcomes[not succeeded] += 1
                failing += bool(can_fail[run, env, a])
                kept[not succeeded] += bool(real.valid[run, env, a : b + 1].all())
                if not copies.valid[run, env, a]:
                    continue
                goal = copies.obs[run, env, a, case.g : 2 * case.g].numpy()
                if (goal == reached).all():
                    expected = copy_of(case, run, env, a, b, reached)
                    assert_copy(case, copies, advantage, (run, env), (a, b), expected)
                    kept[0] += 1
                else:
                    assert_failure(case, copies, advantage, run, env, a, b)
                    kept[1] += 1
        possible = choices((outcomes[0], outcomes[1]), sum(outcomes), failing)
        assert_best(float(np.float32(share)), (kept[0], kept[1]), possible)


def after_first_draw(rollout: Rollout) -> Draws:
    draw = Draws([3, 4], 1, CPU)
    draw(3, rollout.rewards[0].numel())  # who is chosen
    return draw


@given(cases(), st.sampled_from(SHARES), st.sampled_from(["released", "described"]), st.booleans())
@quick(60)
def test_a_run_among_others_is_that_run_alone(case, share, fidelity, targeted):
    targeted &= not case.rules.success_ends
    spec = HindsightSpec(
        s_ratio=share, fidelity=fidelity, failures="targeted" if targeted else "untargeted"
    )

    def balanced(runs: list[int]) -> tuple[Trajectories, Trajectories]:
        index = torch.tensor(runs)
        target, draws = torch.full((len(runs),), share), Draws([3 + i for i in runs], 1, CPU)
        task = case.env.task
        return s_ratio.BALANCE[fidelity](case.rollout.select(index), spec, task, target, draws)

    among, alone = balanced([0, 1]), balanced([1])
    for one, several in zip(alone, among, strict=True):
        for name, x in vars(one).items():
            if isinstance(x, Tensor):
                assert torch.equal(x, getattr(several, name)[1:]), name
        assert (one.cuts is None) == (several.cuts is None)
        if one.cuts is not None:
            for x, y in zip(one.cuts, several.cuts, strict=True):
                assert torch.equal(x, y[1:])


@pytest.mark.parametrize("ends", [True, False])
def test_where_success_does_not_end_it_the_last_step_counts(ends):
    """Three trajectories: a success in the middle, one at the end, and one that is cut."""
    success = torch.tensor([[[True, False, False, True, True]]])
    over = torch.tensor([[[False, True, False, True, False]]])
    nothing, there = torch.zeros(1, 1, 5, 1), torch.ones(1, 1, 5, dtype=torch.bool)
    paths = Trajectories(nothing, nothing, nothing[..., 0], success, over, nothing[:, :, 0], there)
    assert success_counts(paths, ends).tolist() == [[2.0 if ends else 1.0], [2.0]]
    assert success_counts(replace(paths, valid=~there), ends).tolist() == [[0.0], [0.0]]
