"""Shares of successes against plain loops and brute force, written from the papers' description.

The references walk over lists of episodes, one run at a time, with the same uniform draws.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from torch import Tensor

from hindsight.envs.rollout import Trajectories
from hindsight.relabel import s_ratio
from hindsight.relabel.on_policy import Draws
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.on_policy import success_counts
from tests.relabel.reference import (
    CPU,
    KINDS,
    Case,
    Entry,
    assert_copy,
    cases,
    entry,
    of_untrained_policies,
)
from tests.support.examples import quick

SHARES = [i / 20 for i in range(21)]
TARGETS = st.lists(st.sampled_from(SHARES), min_size=3, max_size=3)  # of up to three runs
DISTANCES = [1.1, 1.5, 2.0, 4.0, 8.0]
FAILURES = st.sampled_from([("untargeted", 1.1), *(("targeted", d) for d in DISTANCES)])


def balanced(
    case: Case, spec: HindsightSpec, target: Sequence[float], runs: Sequence[int] | None = None
) -> tuple[Trajectories, Trajectories]:
    """Real trajectories and copies of some runs, all by default."""
    runs = range(len(case.seeds)) if runs is None else runs
    draws = Draws([case.seeds[run] for run in runs], 1, CPU)
    rollout = case.rollout.map(lambda x: x[[*runs]])
    targets = torch.tensor([target[run] for run in runs])
    return s_ratio.BALANCE[spec.fidelity](rollout, spec, case.task, targets, draws)


def tensors(of: Any) -> dict[str, Tensor]:
    """Those of a rollout or of trajectories, by name."""
    every = vars(of) | (of.cuts._asdict() if of.cuts is not None else {})
    return {name: x for name, x in every.items() if isinstance(x, Tensor)}


def share_spec(kind: str, fidelity: Any, failures: tuple[Any, float]) -> HindsightSpec:
    # Goals at a distance are no bits.
    how, away = ("untargeted", 1.1) if kind == "bits" else failures
    return HindsightSpec(s_ratio=0.5, fidelity=fidelity, failures=how, failure_distance=away)


# --- how many of each kind ------------------------------------------------------------------------


def choices(real: tuple[int, int], copies: int, can_fail: int) -> set[tuple[int, int]]:
    """Every (successes, failures) that keeping, dropping and relabelling can lead to."""
    return {
        (kept + as_success, failed + as_failure)
        for kept in range(real[0] + 1)
        for failed in range(real[1] + 1)
        for as_success in range(copies + 1)
        for as_failure in range(min(can_fail, copies - as_success) + 1)
    }


def off(share: float, kept: tuple[int, int]) -> float:
    """By how many episodes the successes differ from their share."""
    return abs(kept[0] - share * (kept[0] + kept[1]))


def assert_best(share: float, found: tuple[int, int], possible: set[tuple[int, int]]) -> None:
    """`found` meets the share to within rounding, and no larger choice is as close."""
    assert found in possible
    most = max(map(sum, possible))
    if not any(s for s, _ in possible) or not any(f for _, f in possible):
        assert sum(found) == most, "of one kind alone the share cannot change: nothing is dropped"
        return
    assert off(share, found) <= 0.5 + 1e-9
    for other in possible:
        if sum(other) >= sum(found):
            assert off(share, other) >= off(share, found) - 1e-9, (other, found)
        if sum(other) == most and off(share, other) < 0.5 - 1e-9:
            assert sum(found) == most, "nothing needs to be dropped"


def test_quota_is_the_best_of_all_choices():
    cases = [
        (successes, failures, copies, can_fail, share)
        for successes, failures, copies in itertools.product(range(5), range(5), range(5))
        for can_fail in range(copies + 1)
        for share in [*SHARES, 1 / 3, 0.999]
    ]
    *counts, shares = zip(*cases, strict=True)
    target = torch.tensor(shares, dtype=torch.float64)
    found = s_ratio.quota(target, *map(torch.tensor, counts))
    possible: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for case, as_success, kept, failed in zip(cases, *(x.tolist() for x in found), strict=True):
        successes, failures, copies, can_fail, share = case
        if case[:4] not in possible:
            possible[case[:4]] = choices((successes, failures), copies, can_fail)
        assert copies - can_fail <= as_success <= copies
        assert kept <= successes + as_success and failed <= failures + copies - as_success
        assert_best(share, (kept, failed), possible[case[:4]])


# --- described ------------------------------------------------------------------------------------


def failure_goal(
    case: Case, spec: HindsightSpec, points: list[np.ndarray], numbers: np.ndarray
) -> np.ndarray | None:
    """The first of a hundred goals that is in the space and far from every point."""
    for u in numbers:
        goal = case.rules.anywhere(u)
        if spec.failures == "targeted":
            normal = ndtri(u)
            goal = points[-1] + spec.failure_distance * case.rules.near * normal / math.hypot(
                *normal
            )
        if case.rules.contains(goal) and not any(case.rules.achieves(p, goal) for p in points):
            return goal
    return None


def failure_goals(case: Case, spec: HindsightSpec) -> dict[tuple[int, int, int], Any]:
    """Of the whole episodes (run, environment, first step)."""
    whole = [place[:4] for place in case.segments() if place[4]]
    of_runs = [[place for place in whole if place[0] == run] for run in range(len(case.seeds))]
    draw, (_, envs, steps) = Draws(case.seeds, 1, CPU), case.rollout.rewards.shape
    draw(3, envs * steps)  # the order in which episodes are chosen
    numbers = draw(max(map(len, of_runs)), 100, case.g).double().numpy()
    return {
        place[:3]: failure_goal(case, spec, case.points(*place), u)
        for places, each in zip(of_runs, numbers, strict=True)
        for place, u in zip(places, each, strict=False)
    }


@pytest.mark.parametrize("kind", KINDS)
@given(st.data(), TARGETS, FAILURES)
@quick(60)
def test_described_is_the_walk_over_episodes(kind, data, target, failures):
    """Failures are bootstrapped where a time limit ended the episode."""
    case = data.draw(cases(kind))
    spec, rollout, g = share_spec(kind, "described", failures), case.rollout, case.g
    before = {name: x.clone() for name, x in tensors(rollout).items()}
    real, copies = balanced(case, spec, target)
    for name, x in tensors(rollout).items():
        assert torch.equal(x, before[name]), name
    plain, advantage = Trajectories.real(rollout), case.estimated(copies)
    for name in ("obs", "actions", "rewards", "success", "ends", "last_obs"):
        # Each real step there is once, as it happened, and once more as a copy.
        assert torch.equal(getattr(real, name), getattr(plain, name))
    assert copies.valid.shape == real.valid.shape
    assert torch.equal(copies.obs[..., :g], rollout.obs[..., :g])
    assert torch.equal(copies.obs[..., 2 * g :], rollout.obs[..., 2 * g :])

    goals = failure_goals(case, spec)
    kept, outcomes, heads = np.zeros((3, len(case.seeds), 2), int)
    # Of each run, whole episodes in the order in which they become successes, and of each outcome,
    # real episodes and copies in the order in which they are kept: place in it, and whether.
    as_success: list[list[tuple[float, bool]]] = [[] for _ in case.seeds]
    stay: dict[tuple[int, bool], list[tuple[float, bool]]] = defaultdict(list)
    priority = Draws(case.seeds, 1, CPU)(3, *rollout.rewards.shape[1:]).numpy()
    for run, env, a, b, whole in case.segments():
        here = (run, env, slice(a, b + 1))
        reached = rollout.next_achieved[run, env, b].numpy()
        succeeded = case.rules.achieves(reached, rollout.obs[run, env, b, g : 2 * g].numpy())
        if not whole:  # what the rollout cuts has no outcome: it stays, and has no copy
            assert real.valid[here].all() and not copies.valid[here].any()
            heads[run, int(not succeeded)] += bool(rollout.over[run, env, b])
            continue
        outcomes[run, int(not succeeded)] += 1
        assert real.valid[here].all() or not real.valid[here].any(), "kept or dropped whole"
        kept[run, int(not succeeded)] += bool(real.valid[here].any())
        goal = copies.obs[run, env, a, g : 2 * g].numpy()
        fails = not (goal == reached).all()
        becomes, of_real, of_copy = priority[run, :, env, a]
        as_success[run].append((becomes + (goals[run, env, a] is not None), not fails))
        stay[run, succeeded].append((of_real, bool(real.valid[here].any())))
        stay[run, not fails].append((of_copy, bool(copies.valid[here].any())))
        if not copies.valid[here].any():
            continue
        expected = case.copy_of(run, env, (a, b), goal)
        assert_copy(case, copies, advantage, (run, env), (a, b), expected)
        kept[run, int(fails)] += 1
        if fails:
            assert case.rules.contains(goal) and not any(e.success for e in expected[0])
            assert goals[run, env, a] is not None, "the episode cannot fail"
            np.testing.assert_allclose(goal, goals[run, env, a], rtol=0, atol=2e-4)
            if spec.failures == "targeted":
                away = spec.failure_distance * case.task.threshold
                assert math.dist(goal, reached) == pytest.approx(away, abs=1e-5)
    for order in (*as_success, *stay.values()):
        flags = [flag for _, flag in sorted(order)]
        assert flags == sorted(flags, reverse=True), "the first in order are chosen"
    ends = case.task.terminates_on_success
    logged = success_counts(real, ends) + success_counts(copies, ends)
    # The column of the log also counts the ends of episodes that began before the rollout.
    counted = kept + heads
    assert logged.tolist() == [counted[:, 0].tolist(), counted.sum(1).tolist()]
    for run, each in enumerate(outcomes.tolist()):
        can_fail = sum(goal is not None for place, goal in goals.items() if place[0] == run)
        possible = choices(tuple(each), sum(each), can_fail)
        assert_best(float(np.float32(target[run])), tuple(kept[run].tolist()), possible)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fidelity", ["released", "described"])
@given(st.data(), TARGETS, FAILURES)
@quick(60)
def test_a_run_among_others_is_that_run_alone(kind, fidelity, data, target, failures):
    case = data.draw(cases(kind, least_runs=2))
    spec, last = share_spec(kind, fidelity, failures), len(case.seeds) - 1
    among, alone = balanced(case, spec, target), balanced(case, spec, target, [last])
    for one, several in zip(map(tensors, alone), map(tensors, among), strict=True):
        assert one.keys() == several.keys()
        for name, x in one.items():
            assert torch.equal(x, several[name][last:]), name


# --- released -------------------------------------------------------------------------------------


def trajectories(entries: list[Entry]) -> list[list[int]]:
    """Places of the list, cut before each start."""
    parts: list[list[int]] = []
    for i, each in enumerate(entries):
        if each.start or not parts:
            parts.append([])
        parts[-1].append(i)
    return parts


def dropped(target: float, successes: int, failures: int) -> tuple[int, int]:
    """The authors' formula: how many successes, or else failures, are dropped."""
    total = successes + failures
    count = 0 if target == 1 else int((target * total + failures - total) / (target - 1 + 1e-8))
    if target == 1 or count < 0:
        return 0, int((target * total + failures - total) / target)
    return count, 0


def released_lists(case: Case, target: Sequence[float]) -> list[list[list[tuple[Entry, bool]]]]:
    """[run][env], the list that each run learns from, rollout and copies; what is kept."""
    rollout, g, result = case.rollout, case.g, []
    _, envs, steps = rollout.rewards.shape
    draw = Draws(case.seeds, 1, CPU)
    coins, goals = draw(envs, steps).numpy(), draw(envs, steps, g).numpy()
    priorities = draw(2 * envs * steps).view(-1, envs, 2 * steps).numpy()
    for run in range(len(case.seeds)):
        parts = [
            [place[1:4] for place in case.segments() if place[:2] == (run, env)]
            for env in range(envs)
        ]
        terminal = [
            float(rollout.rewards[run, env, b])
            for env, a, b in itertools.chain(*parts)
            if rollout.starts[run, env, a] and b < steps - 1
        ]
        # Without an episode to go by, A is 1/2 (the authors' mean of nothing is not a number).
        share_now = (np.mean(terminal) + 1) / 2 if terminal else 0.5
        probability = min(max(2 * target[run] - share_now, 0.0), 1.0)
        lists, counted = [], []
        for env in range(envs):
            entries = []
            for t in range(steps):
                obs, action = rollout.obs[run, env, t].numpy(), rollout.actions[run, env, t].numpy()
                reward, start = float(rollout.rewards[run, env, t]), rollout.starts[run, env, t]
                entries.append(Entry(obs, action, reward, False, bool(start)))
            for _, a, b in parts[env]:
                is_final = coins[run, env, a] < probability
                for t in range(a, b + 1):
                    anywhere = case.rules.anywhere(goals[run, env, t])
                    goal = rollout.obs[run, env, b, :g].numpy() if is_final else anywhere
                    achieved = rollout.obs[run, env, t, :g].numpy()
                    entries.append(entry(rollout, (run, env, t), achieved, goal, case.rules))
            lists.append(entries)
            *known, _ = trajectories(entries)
            counted += [(env, part) for part in known if entries[part[0]].start]
        kept = np.ones((envs, 2 * steps), bool)
        ends_well = [lists[env][part[-1]].reward >= 0 for env, part in counted]
        exact = float(np.float32(target[run]))
        numbers = dropped(exact, sum(ends_well), len(ends_well) - sum(ends_well))
        for well, number in zip((True, False), numbers, strict=True):
            group = [each for each, own in zip(counted, ends_well, strict=True) if own == well]
            group.sort(key=lambda each: priorities[run, each[0], each[1][-1]])
            for env, part in group[:number]:
                kept[env, part] = False
        result.append([list(zip(*each, strict=True)) for each in zip(lists, kept, strict=True)])
    return result


@pytest.mark.parametrize("kind", KINDS)
@given(st.data(), TARGETS)
@quick(60)
def test_released_is_the_authors_algorithm(kind, data, target):
    case = data.draw(cases(kind))
    real, copies = balanced(case, HindsightSpec(s_ratio=0.5), target)
    steps = case.rollout.rewards.shape[2]
    for run, lists in enumerate(released_lists(case, target)):
        for env, each in enumerate(lists):
            for paths, part in ((real, each[:steps]), (copies, each[steps:])):
                entries, kept = zip(*part, strict=True)
                np.testing.assert_array_equal(paths.obs[run, env], [e.obs for e in entries])
                np.testing.assert_array_equal(paths.actions[run, env], [e.action for e in entries])
                assert paths.rewards[run, env].tolist() == [e.reward for e in entries]
                assert paths.valid[run, env].tolist() == list(kept)
            assert real.ends[run, env].tolist() == case.rollout.over[run, env].tolist()
            following = [e.start for e in entries[1:]]
            assert copies.ends[run, env].tolist() == [*following, entries[-1].success]


@pytest.mark.parametrize("target", [0.0, 0.05, 0.3, 0.5, 0.6, 0.95, 1.0])
def test_surplus_is_the_authors_formula(target):
    counts = torch.tensor(list(itertools.product(range(40), range(40))))
    shares = torch.full((len(counts),), target)
    found = torch.stack(s_ratio.surplus(shares, *counts.T), dim=1).tolist()
    assert found == [list(dropped(float(shares[0]), *each)) for each in counts.tolist()]


@pytest.fixture(scope="module")
def untrained():
    """Rollouts of 2048 steps of sixteen untrained policies in the default environment."""
    return of_untrained_policies(
        torch.randn(2048, 16, 1, 3, generator=torch.Generator().manual_seed(0))
    )


@pytest.mark.parametrize(
    ("target", "low", "high"),
    [(0.0, 0.0, 0.0), (0.3, 0.18, 0.21), (0.5, 0.47, 0.50), (0.7, 0.69, 0.69), (1.0, 0.99, 0.99)],
)
def test_released_shares_are_those_measured_on_the_authors_code(untrained, target, low, high):
    """Share of the trajectories learned from that contain a +1."""
    env, rollout = untrained
    seeds = env.seeds
    shares = []
    targets, draws = torch.full((len(seeds),), target), Draws(seeds, 1, CPU)
    spec = HindsightSpec(s_ratio=target)
    real, copies = s_ratio.released(rollout, spec, env.task, targets, draws)
    starts = (rollout.starts, rollout.first_steps)
    for run in range(len(seeds)):
        rewarded = []
        for paths, begins in zip((real, copies), starts, strict=True):
            firsts = sorted({0, *begins[run, 0].nonzero()[:, 0].tolist()})
            for a, b in zip(firsts, [*firsts[1:], 2048], strict=True):
                if paths.valid[run, 0, a]:
                    rewarded.append(bool((paths.rewards[run, 0, a:b] == 1).any()))
        shares.append(np.mean(rewarded))
    assert low - 0.02 <= np.mean(shares) <= high + 0.02
