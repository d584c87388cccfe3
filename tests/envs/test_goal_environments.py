"""Any gymnasium goal environment on the run axis, against plain loops over `gymnasium.make`."""

import itertools
import math
import sys
import time
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
import pytest
import torch

from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.envs.gymnasium.workers import episode_seed
from hindsight.envs.rollout import Trajectories
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import EnvironmentFailure, SpecError, validated
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.streams import Purpose
from hindsight.training.evaluate import actor_of, episode
from hindsight.training.runs import runs_of
from tests.envs import corridor  # registers Corridor-v0
from tests.training.small import cell_in, through_a_file

assert "Corridor-v0" in gym.registry, corridor
WORLDS: dict[str, dict[str, Any]] = {
    "goes on": {"id": "Corridor-v0"},
    "terminates": {"id": "Corridor-v0", "kwargs": {"terminates": True}},
    "ours": {"id": "hindsight.envs:PointReach-v0", "max_episode_steps": 7},
    "push": {"id": "FetchPush-v4", "max_episode_steps": 9},
}


def spec_of(world: str) -> GymnasiumSpec:
    return GymnasiumSpec.model_validate(WORLDS[world])


gym.register("Endless-v0", corridor.Corridor)


def corridors(**kwargs: Any) -> GymnasiumSpec:
    return GymnasiumSpec(id="Corridor-v0", kwargs=kwargs)


def pids_of(env: GoalEnvironments) -> list[int]:
    """The processes that step these environments."""
    return [process.pid for process in env.pool._processes if process.pid is not None]


def actions_for(env: GoalEnvironments, steps: int, seed: int = 0) -> torch.Tensor:
    """[step, run, env, action], some beyond the box."""
    numbers = np.random.default_rng(seed).uniform(-1.3, 1.3, (steps, *env.elapsed.shape, 9))
    return torch.from_numpy(numbers[..., : env.action_size].astype(np.float32))


def played(env: GoalEnvironments, actions: torch.Tensor) -> list[torch.Tensor]:
    """Every field of every step but `rest`, and `state` and `elapsed` after it."""
    found = []
    for action in actions:
        step = env.step(action)
        assert step.rest is not None and not step.rest.any()  # goals explain all rewards
        found.append([*step[:5], env.state, env.elapsed])
    return [torch.stack(field) for field in zip(*found, strict=True)]


def assert_equal(found: list[torch.Tensor], expected: list[torch.Tensor], runs: Any) -> None:
    """Every field is that of these runs."""
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b[:, runs])


def row(obs: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.ravel(obs[key]) for key in GOAL_KEYS]).astype(np.float32)


@pytest.mark.parametrize("world", WORLDS)
def test_every_field_is_that_of_a_plain_loop(world):
    spec, seeds = spec_of(world), [3, 8]
    env = GoalEnvironments(spec, seeds, 2, workers=2)
    g, steps = env.goal_size, 30
    first = env.state.clone()
    actions = actions_for(env, steps)
    achieved, terminated, truncated, success, next_obs, state, elapsed = played(env, actions)
    assert (terminated | truncated).any() and not (terminated & truncated).any()
    for i, seed in enumerate(seeds):
        for j in range(2):
            plain = gym.make(
                spec.id, max_episode_steps=spec.max_episode_steps, **spec.kwargs
            )  # with all of gymnasium's own checks
            low, high = plain.action_space.low, plain.action_space.high
            episode, count = 0, 0
            slot = seed, j
            obs, _ = plain.reset(seed=episode_seed(slot, Purpose.SPAWN, episode))
            assert np.array_equal(first[i, j], row(obs))
            for t in range(steps):
                share = (np.clip(actions[t, i, j].double().numpy(), -1, 1) + 1) / 2
                action = (low + share * (high - low)).astype(plain.action_space.dtype)
                obs, reward, over, cut, info = plain.step(action)
                count += 1
                # The box is scaled by another formula here: equal up to rounding.
                np.testing.assert_allclose(next_obs[t, i, j], row(obs), rtol=0, atol=1e-5)
                assert torch.equal(achieved[t, i, j], next_obs[t, i, j, :g])
                assert bool(terminated[t, i, j]) == over
                assert bool(truncated[t, i, j]) == (cut and not over)
                assert bool(success[t, i, j]) == info.get("is_success", reward == 0)
                desired = next_obs[t, i, j, g : 2 * g]
                found, reached = env.task.reward(achieved[t, i, j], desired, over)
                assert float(found) == reward and bool(reached) == bool(success[t, i, j])
                if over or cut:
                    episode, count = episode + 1, 0
                    obs, _ = plain.reset(seed=episode_seed(slot, Purpose.SPAWN, episode))
                np.testing.assert_allclose(state[t, i, j], row(obs), rtol=0, atol=1e-5)
                assert int(elapsed[t, i, j]) == count
            assert episode >= 2


@pytest.mark.parametrize("world", ["terminates", "push"])
def test_a_run_is_the_same_alone_with_any_number_of_workers_and_if_others_leave(world):
    among = GoalEnvironments(spec_of(world), [5, 6, 7], 2, workers=0)
    actions = actions_for(among, 25)
    expected = played(among, actions)
    for seeds, workers in [([5, 6, 7], 2), ([5, 6, 7], 5), ([6], 0), ([7, 6], 3)]:
        env = GoalEnvironments(spec_of(world), seeds, 2, workers=workers)
        assert len(pids_of(env)) == workers
        runs = [seed - 5 for seed in seeds]
        assert_equal(played(env, actions[:, runs]), expected, runs)
    leaves = GoalEnvironments(spec_of(world), [5, 6, 7], 2, workers=2)
    played(leaves, actions[:10])
    leaves.select(torch.tensor([2, 0]))
    assert_equal(played(leaves, actions[10:, [2, 0]]), [x[10:] for x in expected], [2, 0])
    assert len(leaves.state_dict()["obs"]) == 2


@pytest.mark.parametrize(("world", "steps"), [("terminates", 20), ("push", 15), ("push", 18)])
def test_a_checkpoint_continues_bit_for_bit(world, steps):
    whole = GoalEnvironments(spec_of(world), [4, 5], 2, workers=2)
    actions = actions_for(whole, steps + 15, seed=1)
    played(whole, actions[:steps])
    saved = through_a_file(whole.state_dict())
    expected = played(whole, actions[steps:])
    resumed = GoalEnvironments(spec_of(world), [4, 5], 2, workers=0)
    resumed.load_state_dict(saved)
    assert_equal(played(resumed, actions[steps:]), expected, [0, 1])
    assert resumed.begin_lost() is None
    # An environment that does not repeat itself begins a new episode.
    env = GoalEnvironments(corridors(wrong="forgets"), [1], workers=0)
    played(env, torch.zeros(5, 1, 1, 2))  # so small that noise never leaves the box
    env.load_state_dict(env.state_dict())
    lost = env.begin_lost()
    assert lost is not None and lost.all() and env.begin_lost() is None
    seed = episode_seed((1, 0), Purpose.SPAWN, 1)
    assert np.array_equal(env.state[0, 0], row(gym.make("Corridor-v0").reset(seed=seed)[0]))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"id": "FetchPush-v9"}, "FetchPush-v9' is unknown"),
        ({"id": "PredatorPray-v0"}, "did you mean 'PredatorPrey-v0'"),
        ({"id": "nowhere.to.be:Found-v0"}, "there is no module 'nowhere.to.be'"),
        ({"id": "./mine.py:Drone-v0"}, r"'./mine\.py' is no module; give its name alone"),
        ({"id": "CartPole-v1"}, "dictionaries with achieved_goal, desired_goal, observation"),
        ({"id": "Endless-v0"}, "could tell: set one, such as max_episode_steps=100"),
        ({"id": "Corridor-v0", "kwargs": {"wrong": "keys"}}, "it has achieved_goal, observation"),
        ({"id": "Corridor-v0", "kwargs": {"wrong": "pair"}}, r"shape \(3,\), not \(2,\)"),
        ({"id": "Corridor-v0", "kwargs": {"wrong": "info"}}, "of 3 goals failed: KeyError"),
    ],
)
def test_what_cannot_be_trained_on_is_reported_in_one_sentence(environment, words):
    with pytest.raises((SpecError, EnvironmentFailure), match=words) as caught:
        validated(CellSpec, {"environment": environment, "algorithm": {"name": "sac"}})
    assert "\n" not in str(caught.value).split("\n\nTraceback")[0]


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    monkeypatch.delitem(gym.registry, "FetchPush-v4", raising=False)
    with pytest.raises(SpecError, match="pip install gymnasium-robotics"):
        validated(CellSpec, {"environment": {"id": "FetchPush-v4"}, "algorithm": {"name": "sac"}})


def test_released_failures_need_a_region_of_goals():
    with pytest.raises(ValueError, match="unknown for Corridor-v0: with an s_ratio, set fidelity"):
        CellSpec(environment={"id": "Corridor-v0"}, hindsight={"s_ratio": 0.5})


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_failures_pursue_goals_of_other_episodes_that_they_never_reach(share, cut):
    """MEHER where the goal space is unknown, beside the corridor's rule in plain Python."""
    one = on_policy({"id": "Corridor-v0"}, s_ratio=share, cut_at_success=cut)
    one.iterate()
    for seeds, _, real, copies in one.learned:
        assert copies is not None and len(seeds) == 2
        for run in range(2):
            kept = np.concatenate([outcomes(paths, run) for paths in (real, copies)])
            assert abs(kept.sum() - share * len(kept)) <= 0.5
            given = {tuple(goal) for goal in real.obs[run, ..., 2:4].flatten(0, 1).tolist()}
            failed = 0
            for env, first in itertools.product(range(2), range(0, 120, 12)):
                steps = slice(first, first + 12)
                valid, success = copies.valid[run, env, steps], copies.success[run, env, steps]
                if success.any() and valid[0]:
                    n = int(success.int().argmax()) + 1 if cut else 12
                    assert valid.tolist() == [True] * n + [False] * (12 - n)
                elif valid[0]:
                    goal, there = copies.obs[run, env, first, 2:4], real.obs[run, env, steps, :2]
                    assert tuple(goal.tolist()) in given
                    assert min(math.dist(goal, place) for place in there.tolist()) > 0.5
                    failed += 1
            assert failed or share > 0.5, "of twenty episodes, which fail, eight fail once more"


class Ending(corridor.Corridor):
    """Its time limit is reported as a termination, whatever was achieved."""

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.steps == 12, False, info


gym.register("Ending-v0", Ending, max_episode_steps=20)


@pytest.mark.parametrize("how", [{}, {"s_ratio": 0.5}])
def test_what_no_goal_explains_ends_copies_of_successes_too(how):
    """Neither an episode nor its copy is worth anything after it, though it reached its goal."""
    one = on_policy({"id": "Ending-v0", "terminates": "never"}, **how)
    seen = 0
    for _ in range(3):
        one.iterate()
        for _, _, real, copies in one.learned:
            ends = real.ends & copies.valid
            seen += int((ends & real.success).sum())
            assert torch.equal(copies.ends, real.ends)
            assert not (real.cuts.truncated & ends).any()
            assert not (copies.cuts.truncated & ends).any()
    assert seen


class OneByOne(corridor.Corridor):
    """Its rewards are computed row by row, of which NumPy needs one."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        far = np.apply_along_axis(np.linalg.norm, -1, achieved - desired) > 0.5
        return -np.float64(far)


gym.register("OneByOne-v0", OneByOne, max_episode_steps=12)


@pytest.mark.parametrize("n_steps", [5, 120])  # without a whole episode, and with ten
def test_an_environment_is_never_asked_for_the_rewards_of_no_goals(n_steps):
    one = on_policy({"id": "OneByOne-v0"}, n_steps=n_steps, s_ratio=0.5)
    assert one.iterate()["hindsight"].tolist() == [float(n_steps > 12)] * 2


@pytest.mark.parametrize("how", [{"s_ratio": 0.5}, {"copies": "failed"}])
def test_an_episode_that_any_success_makes_one_is_one_for_hindsight(how):
    one = on_policy({"id": "Corridor-v0", "success": "any"}, n_steps=360, **how)
    columns = one.iterate()
    copied = 0
    for _, _, real, copies in one.learned:
        for run in range(2):
            success = real.success[run].reshape(-1, 12)
            reached = success.any(1)
            assert 0 < reached.sum() < len(reached) and (reached & ~success[:, -1]).any()
            assert float(columns["s_ratio_before"][run]) == pytest.approx(reached.float().mean())
            valid = copies.valid[run].reshape(-1, 12)[:, 0]
            if "copies" in how:
                assert torch.equal(valid, ~reached)
            else:
                kept = real.valid[run].reshape(-1, 12)[:, 0]
                again = copies.success[run].reshape(-1, 12).any(1)[valid]
                share = (reached[kept].sum() + again.sum()) / (kept.sum() + valid.sum())
                assert float(columns["s_ratio_after"][run]) == pytest.approx(share)
                assert abs(share - 0.5) * (kept.sum() + valid.sum()) <= 0.5
            copied += int(valid.sum())
    assert copied


def on_policy(environment: dict[str, Any], n_steps: int = 120, **hindsight: Any) -> Any:
    """Two runs of PPO-HER, `described`, before their first iteration."""
    how, her = {"n_steps": n_steps, "n_envs": 2}, {"fidelity": "described", **hindsight}
    return runs_of(CellSpec(environment=environment, algorithm=how, hindsight=her), [1, 2], "cpu")


def outcomes(paths: Trajectories, run: int) -> np.ndarray:
    """Whether each of the episodes to learn from, of twelve steps each, reaches its goal."""
    valid, success = (x[run].reshape(-1, 12) for x in (paths.valid, paths.success))
    last = (valid.long().cumsum(-1) * valid).argmax(-1, keepdim=True)
    return success.gather(-1, last)[valid.any(-1)].numpy()[:, 0]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"wrong": "raises"}, ["step 3 of episode 0", "seed 1", "the corridor has collapsed"]),
        ({"wrong": "nan"}, ["step 2 of episode 0", "not finite"]),
        ({"wrong": "pays nan"}, ["step 2 of episode 0", "the reward was nan; a reward must be"]),
        ({"wrong": "pays 1e30"}, ["step 2 of episode 0", "the reward was 1e+30; a reward must"]),
        (
            {"wrong": "terminates", "terminates": True},
            ["compute_terminated, or the test used"],
        ),
    ],
)
def test_what_an_environment_does_wrong_ends_in_one_sentence_and_its_own_traceback(
    workers, kwargs, words
):
    env = GoalEnvironments(corridors(**kwargs), [1, 2], 1, workers=workers)
    pids = pids_of(env)
    with pytest.raises(EnvironmentFailure) as caught:
        # towards the goal, so that one of them gets there
        for _ in range(40):
            state = env.state
            wanted = (state[..., 2:4] - state[..., :2]) / torch.tensor([0.2, 0.4])
            env.step(wanted.clamp(-1, 1))
    message = str(caught.value)
    for word in ["Corridor-v0", *words]:
        assert word in message
    # Only the environment's own code needs a traceback, not a check of ours.
    assert ("Traceback" in message) == (kwargs["wrong"] == "raises")
    assert "\n" not in message.split("\n\nTraceback")[0]
    assert gone(pids)


def gone(pids: list[int], seconds: float = 5.0) -> bool:
    """Whether these processes end within a few seconds."""
    end = time.monotonic() + seconds
    while (left := any(map(alive, pids))) and time.monotonic() < end:
        time.sleep(0.02)
    return not left


def alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def cell() -> CellSpec:
    how = {"name": "td3", "batch_size": 8, "log_interval": 50, "n_envs": 2}
    replay = {"strategy": "future", "fidelity": "described"}
    tests = {"points": 3, "episodes": 6}
    return cell_in({"id": "Corridor-v0"}, how, replay=replay, evaluation=tests)


def children(pid: int) -> list[int]:
    """Processes that step environments for this one."""
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(pid).children()
        return sorted(one.pid for one in found if "resource_tracker" not in str(one.cmdline()))
    return []


def test_evaluation_plays_all_its_episodes():
    """Six episodes, three environments of two each: their mean is that of six plain loops."""
    runs = runs_of(cell(), [4], "cpu", workers=0)
    assert (runs.evaluation_env.elapsed.shape, runs.rounds) == ((1, 3), 2)
    found, plain = runs.evaluate(), gym.make("Corridor-v0")
    act = actor_of(runs.spec, runs.rows[0], plain)
    places = itertools.product([(4, env) for env in range(3)], range(2))
    seeds = [episode_seed(slot, Purpose.EVALUATION_SPAWN, number) for slot, number in places]
    means = np.mean([episode(act, plain, seed) for seed in seeds], axis=0)
    names = ("return_mean", "episode_length", "success_rate")
    assert [float(found[name][0]) for name in names] == pytest.approx(means)
    assert means[1] == 12
    assert float(found["return_mean"][0]) == float(runs.evaluate()["return_mean"][0])


def test_processor_time_of_all_workers_counts():
    """As the kernel counts it, in hundredths of a second."""
    runs = runs_of(cell(), [0, 1], "cpu", workers=3)
    before = runs.env.cpu_seconds()
    for _ in range(10):
        runs.iterate()
    counted = runs.env.cpu_seconds()
    kernel = [sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids_of(runs.env)]
    assert counted == pytest.approx(sum(kernel), abs=0.05)
    assert counted > 1.5 * max(kernel)
    assert float(runs.clock.cpu.sum()) >= counted - before > 0


@pytest.mark.parametrize("task", ["Reach", "Push", "Slide", "PickAndPlace"])
def test_quick_observations_are_the_library_s_own_to_the_bit(task):
    name = f"Fetch{task}-v4"
    ours, theirs = GymnasiumSpec(id=name).make(), gym.make(name, disable_env_checker=True)
    assert ours.unwrapped._utils is not theirs.unwrapped._utils
    generator = np.random.default_rng(3)
    for seed in range(2):
        seen = [env.reset(seed=seed)[0] for env in (ours, theirs)]
        for _ in range(30):
            assert all(np.array_equal(seen[0][key], seen[1][key]) for key in seen[1])
            # A copy, not a view of the running simulation.
            assert not np.shares_memory(seen[0]["observation"], ours.unwrapped.data.qpos)
            action = generator.uniform(-1, 1, 4)
            steps = [env.step(action) for env in (ours, theirs)]
            assert steps[0][1:] == steps[1][1:]
            seen = [step[0] for step in steps]
