"""Shares of successes against plain loops and brute force, written from the papers' description.

The references walk over lists of episodes, one run at a time, with the same uniform draws.
Episodes are walks on a lattice with random outcomes, so some rollouts have no success, no failure
or no whole episode.
"""

import itertools
import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from hindsight.algorithms import ppo
from hindsight.envs.predator_prey import Intercepting, PredatorPrey
from hindsight.relabel import s_ratio
from hindsight.relabel.on_policy import Draws
from hindsight.replay.rollout import Rollout, Trajectories
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.hindsight import HindsightSpec
from hindsight.training.on_policy import success_counts
from tests.examples import quick
from tests.relabel.reference import segments

CPU = torch.device("cpu")
G = 2  # numbers in a goal
FAR = 1000.0  # where the goals of episodes lie that fail
SHARES = [i / 20 for i in range(21)]
DISTANCES = [1.1, 1.5, 2.0, 4.0, 8.0]


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


# --- rollouts -------------------------------------------------------------------------------------

MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (2, 1), (-1, 2)], np.float32)


def task_of(box: float, distance: float) -> Intercepting:
    spec = PredatorPreySpec(n_dims=G, grid_size=box, interception_distance=distance)
    return Intercepting(spec)


def rollout_of(
    paths: list[list[list[tuple[np.ndarray, bool]]]],
    steps: int,
    begins: list[list[bool]],
    task: Intercepting,
    seed: int = 0,
) -> Rollout:
    """Episodes (points [T + 1, 2], whether it succeeds) of each run and environment.

    The last one of an environment is cut where the rollout ends.
    """
    rng = np.random.default_rng(seed)
    size = (len(paths), len(paths[0]), steps)
    obs = rng.integers(-6, 7, (size[0], size[1], steps + 1, 3 * G)).astype(np.float32)
    following = np.zeros((*size, G), np.float32)
    terminated, starts = np.zeros(size, bool), np.zeros(size, bool)
    for run, env in np.ndindex(*size[:2]):
        t = 0
        for points, succeeds in paths[run][env]:
            starts[run, env, t] = t > 0 or begins[run][env]
            n = min(len(points) - 1, steps - t)
            obs[run, env, t : t + n + 1, :G] = points[: n + 1]
            obs[run, env, t : t + n, G : 2 * G] = points[-1] if succeeds else FAR
            following[run, env, t : t + n] = points[1 : n + 1]
            t += n
            terminated[run, env, t - 1] = n == len(points) - 1
            if t == steps:
                break
        assert t == steps, "the episodes must fill the rollout"
        obs[run, env, steps, :G] = 0
    every, after, ended = map(torch.from_numpy, (obs, following, terminated))
    rewards, success = task.reward(after, every[:, :, :-1, G : 2 * G], ended)
    # A walk that passes its goal goes on: its outcome is that of its end.
    success &= ended
    rewards = success.float() - (ended & ~success).float()
    actions = torch.from_numpy(rng.standard_normal((*size, G)).astype(np.float32))
    return Rollout(
        every[:, :, :-1], actions, after, rewards, ended, success,
        torch.from_numpy(starts), every[:, :, -1],
    )  # fmt: skip


def walk(rng: np.random.Generator, steps: int, box: float) -> np.ndarray:
    """Points [steps + 1, 2] on the lattice and in the box, each different from the one before."""
    points = [rng.integers(-1, 2, G).astype(np.float32)]
    while len(points) <= steps:
        new = points[-1] + MOVES[rng.integers(len(MOVES))]
        if np.abs(new).max() <= box:
            points.append(new)
    return np.array(points)


@dataclass
class Case:
    """A rollout, its box and distance, its runs' targets and seeds."""

    rollout: Rollout
    box: float
    distance: float
    target: list[float]
    seeds: list[int]
    iteration: int

    @property
    def task(self) -> Intercepting:
        return task_of(self.box, self.distance)

    def balanced(self, spec: HindsightSpec) -> tuple[Trajectories, Trajectories]:
        draws, target = Draws(self.seeds, self.iteration, CPU), torch.tensor(self.target)
        return s_ratio.BALANCE[spec.fidelity](self.rollout, spec, self.task, target, draws)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Several runs and environments, with equal or mixed outcomes, cut at the end or not."""
    runs, envs, steps = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 20))
    box = draw(st.sampled_from([3.0, 10.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    succeeding = draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    longest = draw(st.integers(1, 12))
    exactly, cut = draw(st.booleans()), draw(st.booleans())
    paths, begins = [], []
    for _ in range(runs):
        paths.append([])
        begins.append([not cut or bool(rng.integers(2)) for _ in range(envs)])
        for _ in range(envs):
            left, episodes = steps, []
            while left > 0:
                length = int(rng.integers(1, longest + 1))
                length = min(length, left) if exactly else length
                episodes.append((walk(rng, length, box), bool(rng.random() < succeeding)))
                left -= length
            paths[-1].append(episodes)
    distance = float(rng.choice([0.5, 1.0, 1.45]))
    target = [draw(st.sampled_from(SHARES)) for _ in range(runs)]
    seeds = rng.permutation(1000)[:runs].tolist()
    rollout = rollout_of(paths, steps, begins, task_of(box, distance))
    return Case(rollout, box, distance, target, seeds, draw(st.integers(1, 9)))


#: Where nothing is truncated there are no cuts.
TENSORS = [field.name for field in fields(Trajectories) if field.name != "cuts"]
FAILURES = st.sampled_from([("untargeted", 1.1), *(("targeted", d) for d in DISTANCES)])


# --- described ------------------------------------------------------------------------------------


def points_of(rollout: Rollout, run: int, env: int, a: int, b: int) -> list[list[float]]:
    """Where an episode was: its start, and where each action led."""
    after = rollout.next_achieved[run, env, a : b + 1].tolist()
    return [rollout.obs[run, env, a, :G].tolist(), *after]


def failure_goal(
    case: Case, spec: HindsightSpec, run: int, points: list[list[float]], numbers: np.ndarray
) -> list[float] | None:
    """The first of a hundred goals that is in the box and far from every point."""
    r = case.distance
    for u in numbers:
        goal = [(2 * x - 1) * case.box for x in u]
        if spec.failures == "targeted":
            normal = [float(ndtri(x)) for x in u]
            away = spec.failure_distance * r / math.hypot(*normal)
            goal = [x + away * z for x, z in zip(points[-1], normal, strict=True)]
        if max(map(abs, goal)) <= case.box and min(math.dist(goal, p) for p in points) > r:
            return goal
    return None


@dataclass
class Episode:
    """One whole episode of a rollout, and the goal of its copy as a failure."""

    env: int
    a: int
    b: int
    goal: list[float] | None


def episodes_of(case: Case, spec: HindsightSpec) -> list[list[Episode]]:
    """Every run's whole episodes."""
    rollout = case.rollout
    places = [
        [
            (env, a, b)
            for env in range(rollout.rewards.shape[1])
            for a, b, whole in segments(rollout, run, env)
            if whole
        ]
        for run in range(len(case.seeds))
    ]
    draw, (_, envs, steps) = Draws(case.seeds, case.iteration, CPU), rollout.rewards.shape
    draw(3, envs * steps)  # who is chosen
    numbers = draw(max(map(len, places)), 100, G).double().numpy()
    return [
        [
            Episode(*place, failure_goal(case, spec, run, points_of(rollout, run, *place), u))
            for place, u in zip(each, numbers[run], strict=False)
        ]
        for run, each in enumerate(places)
    ]


def assert_success(case: Case, copies: Trajectories, run: int, e: Episode) -> None:
    """The copy pursues the episode's last point and ends, with +1, when it first reaches it."""
    r, points = case.distance, points_of(case.rollout, run, e.env, e.a, e.b)
    reached = [math.dist(p, points[-1]) <= r for p in points[1:]]
    n = reached.index(True) + 1
    here = slice(e.a, e.a + n)
    assert copies.valid[run, e.env, e.a : e.b + 1].tolist() == [True] * n + [False] * (
        e.b + 1 - e.a - n
    )
    assert copies.obs[run, e.env, here, G : 2 * G].tolist() == [points[-1]] * n
    assert copies.rewards[run, e.env, here].tolist() == [0.0] * (n - 1) + [1.0]
    assert copies.ends[run, e.env, here].tolist() == [False] * (n - 1) + [True]


def assert_failure(case: Case, copies: Trajectories, run: int, e: Episode, away: float) -> None:
    """The whole copy pursues one goal, which no point comes near, and ends with -1."""
    r, points = case.distance, points_of(case.rollout, run, e.env, e.a, e.b)
    n, here = e.b + 1 - e.a, slice(e.a, e.b + 1)
    goals = copies.obs[run, e.env, here, G : 2 * G].tolist()
    assert goals == [goals[0]] * n
    assert max(map(abs, goals[0])) <= case.box
    assert min(math.dist(goals[0], p) for p in points) > r
    assert e.goal is not None, "the episode cannot fail"
    np.testing.assert_allclose(goals[0], e.goal, rtol=0, atol=2e-4)
    if away:
        assert math.dist(goals[0], points[-1]) == pytest.approx(away * r, abs=1e-5)
    assert copies.valid[run, e.env, here].all()
    assert copies.rewards[run, e.env, here].tolist() == [0.0] * (n - 1) + [-1.0]
    assert copies.ends[run, e.env, here].tolist() == [False] * (n - 1) + [True]


@given(cases(), FAILURES)
@quick(60)
def test_described_is_the_walk_over_episodes(case, failures):
    kind, away = failures
    spec = HindsightSpec(s_ratio=0.5, failures=kind, failure_distance=away, fidelity="described")
    rollout = case.rollout
    assert rollout.cuts is None
    parts = {name: x for name, x in vars(rollout).items() if x is not None}
    before = {name: x.clone() for name, x in parts.items()}
    real, copies = case.balanced(spec)
    for name, x in parts.items():
        assert torch.equal(x, before[name]), name
    plain = Trajectories.real(rollout)
    for name in TENSORS:
        if name != "valid":  # each real step there is once, as it happened
            assert torch.equal(getattr(real, name), getattr(plain, name))
    assert copies.valid.shape == real.valid.shape, "and once more as a copy"
    assert torch.equal(copies.actions, rollout.actions)
    changed = [*range(G), *range(2 * G, 3 * G)]
    assert torch.equal(copies.obs[..., changed], rollout.obs[..., changed])

    logged = success_counts(real) + success_counts(copies)
    for run, episodes in enumerate(episodes_of(case, spec)):
        # What the rollout cuts has no outcome: it stays, and has no copy.
        there = torch.ones_like(rollout.starts[run])
        for e in episodes:
            there[e.env, e.a : e.b + 1] = False
        assert real.valid[run][there].all() and not copies.valid[run][there].any()
        heads = [
            bool(rollout.success[run, env, b])
            for env in range(rollout.rewards.shape[1])
            for a, b, whole in segments(rollout, run, env)
            if rollout.terminated[run, env, b] and not whole
        ]
        kept, outcomes = [0, 0], [0, 0]
        for e in episodes:
            succeeded = bool(rollout.success[run, e.env, e.b])
            outcomes[not succeeded] += 1
            valid = real.valid[run, e.env, e.a : e.b + 1]
            assert valid.all() or not valid.any(), "an episode is kept or dropped whole"
            kept[not succeeded] += bool(valid.any())
            if not copies.valid[run, e.env, e.a : e.b + 1].any():
                continue
            goal = copies.obs[run, e.env, e.a, G : 2 * G].tolist()
            if goal == rollout.next_achieved[run, e.env, e.b].tolist():
                assert_success(case, copies, run, e)
                kept[0] += 1
            else:
                assert_failure(case, copies, run, e, away if kind == "targeted" else 0)
                kept[1] += 1
        can_fail = sum(e.goal is not None for e in episodes)
        possible = choices((outcomes[0], outcomes[1]), len(episodes), can_fail)
        assert_best(float(np.float32(case.target[run])), (kept[0], kept[1]), possible)
        # The column of the log also counts the ends of episodes that began before the rollout.
        assert logged[:, run].tolist() == [kept[0] + sum(heads), sum(kept) + len(heads)]


def straight(n: int, succeeds: bool) -> tuple[np.ndarray, bool]:
    """A short episode in the corner."""
    return np.array([(9.0, 9.0 - 0.25 * i) for i in range(n + 1)], np.float32), succeeds


def copied(
    target: float, episodes: list[tuple[np.ndarray, bool]], seeds: int, **keys: Any
) -> tuple[Trajectories, Trajectories]:
    """The same episodes in every run; each run draws its own numbers."""
    steps = sum(len(points) - 1 for points, _ in episodes)
    box = keys.pop("box", 10.0)
    task = task_of(box, keys.pop("distance", 0.5))
    rollout = rollout_of([[episodes]] * seeds, steps, [[True]] * seeds, task)
    spec = HindsightSpec(s_ratio=target, fidelity="described", **keys)
    draws = Draws(range(seeds), 1, CPU)
    return s_ratio.described(rollout, spec, task, torch.full((seeds,), target), draws)


def test_dropped_episodes_and_successes_are_random():
    """Twelve episodes in 600 runs: each is dropped, and copied as a success, equally often."""
    seeds, lengths = 600, [1 + i % 3 for i in range(12)]
    firsts = np.cumsum([0, *lengths[:-1]])
    episodes = [straight(n, i % 2 == 0) for i, n in enumerate(lengths)]
    real, copies = copied(0.8, episodes, seeds)
    assert copies.valid[..., firsts].all()
    kept = real.valid[:, 0, firsts].float().mean(0).tolist()
    assert kept[::2] == [1.0] * 6
    # 18 successes: round(0.25 * 18) = 4 failures of 6.
    assert kept[1::2] == pytest.approx([4 / 6] * 6, abs=0.08)
    # S = 0.5: 6 of 12 copies are successes.
    real, copies = copied(0.5, episodes, seeds)
    assert real.valid.all() and copies.valid[..., firsts].all()
    goals = copies.obs[:, 0, firsts, G : 2 * G]
    ends = torch.tensor(np.array([points[-1] for points, _ in episodes]))
    as_success = (goals == ends).all(-1).float()
    assert (as_success.sum(1) == 6).all()
    assert as_success.mean(0).tolist() == pytest.approx([0.5] * 12, abs=0.08)
    # Twelve real successes, twelve copies as failures: S = 0.2 leaves three of the former.
    real, copies = copied(0.2, [straight(1, True)] * 12, seeds)
    assert real.valid.sum((1, 2)).tolist() == [3] * seeds
    assert copies.valid.all()
    assert real.valid[:, 0].float().mean(0).tolist() == pytest.approx([0.25] * 12, abs=0.08)


def test_an_episode_that_cannot_fail_is_no_failure():
    """Points 0.6 apart fill the box [-1, 1]^2: nowhere is further than 0.43 from one of them."""
    places = [-0.9, -0.3, 0.3, 0.9]
    filling = np.array(list(itertools.product(places, places)), np.float32)
    short = np.array([(-0.9, -0.9), (-0.9, -0.3)], np.float32)
    for kind in ("untargeted", "targeted"):
        keys: dict[str, Any] = {"failures": kind, "box": 1.0, "distance": 0.45}
        both = [(filling, False), (short, False)]
        # S = 0.25 of four episodes: the one copied success is that which cannot fail, always.
        real, copies = copied(0.25, both, 200, **keys)
        assert real.valid.all()
        ends = copies.rewards[:, 0, [14, 15]]
        assert (copies.valid[:, 0, 15]).all() and (ends[:, 1] == -1).all()
        goals = copies.obs[:, 0, 0, G : 2 * G]
        assert torch.equal(goals, torch.tensor(filling[-1]).expand(200, G))
        # S = 0: it is dropped instead.
        real, copies = copied(0.0, both, 200, **keys)
        assert real.valid.all() and not copies.valid[..., :15].any() and copies.valid[..., 15].all()
        # Where nothing can fail, and nothing has failed, there is no other share than 1.
        real, copies = copied(0.5, [(filling, True)] * 2, 5, **keys)
        assert real.valid.all() and success_counts(copies).tolist() == [[2] * 5] * 2


# --- released -------------------------------------------------------------------------------------


@dataclass
class Entry:
    """One sample of the authors' list."""

    obs: np.ndarray
    action: np.ndarray
    reward: float
    start: bool
    priority: float
    kept: bool = True


def trajectories(entries: list[Entry]) -> list[list[Entry]]:
    """The list, cut before each start."""
    parts: list[list[Entry]] = []
    for entry in entries:
        if entry.start or not parts:
            parts.append([])
        parts[-1].append(entry)
    return parts


def dropped(target: float, successes: int, failures: int) -> tuple[int, int]:
    """The authors' formula: how many successes, or else failures, are dropped."""
    total = successes + failures
    count = 0 if target == 1 else int((target * total + failures - total) / (target - 1 + 1e-8))
    if target == 1 or count < 0:
        return 0, int((target * total + failures - total) / target)
    return count, 0


def released_lists(case: Case) -> list[list[list[Entry]]]:
    """[run][env], the list that each run learns from: the rollout, then its copies."""
    rollout, result = case.rollout, []
    runs, envs, steps = rollout.rewards.shape
    draw = Draws(case.seeds, case.iteration, CPU)
    coins, goals = draw(envs, steps).numpy(), draw(envs, steps, G).numpy()
    priorities = draw(2 * envs * steps).view(runs, envs, 2 * steps).numpy()
    obs, actions = rollout.obs.numpy(), rollout.actions.numpy()
    for run in range(runs):
        parts = [segments(rollout, run, env) for env in range(envs)]
        terminal = [
            float(rollout.rewards[run, env, b])
            for env in range(envs)
            for a, b, _ in parts[env]
            if rollout.starts[run, env, a] and b < steps - 1
        ]
        # Without an episode to go by, A is 1/2 (the authors' mean of nothing is not a number).
        share_now = (np.mean(terminal) + 1) / 2 if terminal else 0.5
        probability = min(max(2 * case.target[run] - share_now, 0.0), 1.0)
        lists: list[list[Entry]] = []
        for env in range(envs):
            entries = [
                Entry(
                    obs[run, env, t],
                    actions[run, env, t],
                    float(rollout.rewards[run, env, t]),
                    bool(rollout.starts[run, env, t]),
                    float(priorities[run, env, t]),
                )
                for t in range(steps)
            ]
            for a, b, _ in parts[env]:
                is_final = coins[run, env, a] < probability
                for t in range(a, b + 1):
                    anywhere = (2 * goals[run, env, t] - 1) * np.float32(case.box)
                    goal = obs[run, env, b, :G] if is_final else anywhere
                    changed = obs[run, env, t].copy()
                    changed[G : 2 * G] = goal
                    near = math.dist(changed[:G], goal) <= case.distance
                    priority = float(priorities[run, env, steps + t])
                    entries.append(
                        Entry(changed, actions[run, env, t], float(near), t == a, priority)
                    )
            lists.append(entries)
        counted = []
        for entries in lists:
            *known, _ = trajectories(entries)
            counted += [part for part in known if part[0].start]
        successes = [part for part in counted if part[-1].reward >= 0]
        failures = [part for part in counted if part[-1].reward < 0]
        target = float(np.float32(case.target[run]))
        numbers = dropped(target, len(successes), len(failures))
        for group, number in zip((successes, failures), numbers, strict=True):
            for part in sorted(group, key=lambda part: part[-1].priority)[:number]:
                for entry in part:
                    entry.kept = False
        result.append(lists)
    return result


@given(cases())
@quick(60)
def test_released_is_the_authors_algorithm(case):
    real, copies = case.balanced(HindsightSpec(s_ratio=0.5))
    steps = case.rollout.rewards.shape[2]
    for run, lists in enumerate(released_lists(case)):
        for env, entries in enumerate(lists):
            for paths, part in ((real, entries[:steps]), (copies, entries[steps:])):
                np.testing.assert_array_equal(paths.obs[run, env], [e.obs for e in part])
                np.testing.assert_array_equal(paths.actions[run, env], [e.action for e in part])
                assert paths.rewards[run, env].tolist() == [e.reward for e in part]
                assert paths.valid[run, env].tolist() == [e.kept for e in part]
            assert real.ends[run, env].tolist() == case.rollout.terminated[run, env].tolist()
            following = [e.start for e in entries[steps + 1 :]]
            assert copies.ends[run, env].tolist() == [*following, entries[-1].reward > 0]


@pytest.mark.parametrize("target", [0.0, 0.05, 0.3, 0.5, 0.6, 0.95, 1.0])
def test_surplus_is_the_authors_formula(target):
    counts = list(itertools.product(range(0, 40), range(0, 40)))
    successes, failures = map(torch.tensor, zip(*counts, strict=True))
    shares = torch.full((len(counts),), target)
    found = torch.stack(s_ratio.surplus(shares, successes, failures), dim=1).tolist()
    exact = float(shares[0])
    assert found == [list(dropped(exact, *each)) for each in counts]
    for (good, bad), (good_dropped, bad_dropped) in zip(counts, found, strict=True):
        # It meets its target to within one trajectory: of the whole where it can.
        left = (good - good_dropped, bad - bad_dropped)
        assert min(left) >= 0 and off(exact, left) <= 1 + 1e-5


@pytest.fixture(scope="module")
def untrained() -> tuple[PredatorPrey, Rollout]:
    """Rollouts of 2048 steps of sixteen untrained policies in the default environment."""
    seeds = list(range(16))
    env = PredatorPrey(PredatorPreySpec(), seeds)
    agent = ppo.ActorCritic.of(env.observation_size, env.action_size, (8, 8))
    rows = torch.stack([agent.initial_row(seed, 1.0) for seed in seeds])
    env.prepare_rollout(1, 2048)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2048, len(seeds), 1, 3, generator=generator)
    return env, ppo.collect(env, agent, rows, noise)


@pytest.mark.parametrize(
    ("target", "low", "high"),
    [(0.0, 0.0, 0.0), (0.3, 0.18, 0.21), (0.5, 0.47, 0.50), (0.7, 0.69, 0.69), (1.0, 0.99, 0.99)],
)
def test_released_shares_are_those_measured_on_the_authors_code(untrained, target, low, high):
    """Share of the trajectories learned from that contain a +1 (PAPERS: section 2)."""
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
