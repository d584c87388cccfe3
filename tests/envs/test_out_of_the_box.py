"""Other people's environments: which goals end episodes, and rewards that goals do not explain."""

import gc
import multiprocessing
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.envs.gymnasium import trial
from hindsight.specs.errors import EnvironmentFailure, SpecError, validated
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training.runs import runs_of
from tests.training.small import cell_in

REACH = 0.3  # what counts as the goal
#: A configuration that several environments may share.
SHARED = SimpleNamespace(goal=np.array([0.7]))


class Line(gym.Env[Any, Any]):
    """A place on a line moves by up to 0.5; walls at -1.2 and 1.2 cost `fine` and end the episode.

    ends: whether the goal ends an episode.  knows: how the environment tells what the goal is.
    """

    def __init__(
        self, ends: bool = True, knows: str = "_is_success", dense: bool = False, fine: float = 0.0
    ) -> None:
        self.ends, self.knows, self.dense, self.fine = ends, knows, dense, fine
        goal = Box(-9, 9, (1,), np.float64)
        spaces: dict[str, Any] = {key: goal for key in ("achieved_goal", "desired_goal")}
        self.observation_space = Dict({**spaces, "observation": goal})
        self.action_space = Box(-200, 200, (1,), np.float64)
        self.is_success = False  # no function of goals
        if knows == "shared":
            self.config = SHARED
        if knows == "task":
            self.task = SimpleNamespace(is_success=near)
        if knows == "_is_success":
            self._is_success = lambda achieved, desired: near(achieved, desired)
        if knows == "compute_terminated":
            self.compute_terminated = lambda achieved, desired, info: near(achieved, desired) & ends
        if knows == "falls":  # as gymnasium-robotics describes it: whether a state ends an episode
            self.compute_terminated = lambda achieved, desired, info: (
                near(achieved, desired) | (np.abs(achieved)[..., 0] >= 1.2)
            )

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        far = np.abs(achieved - desired)[..., 0]
        return -far if self.dense else -(far > REACH).astype(float)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, target = self.np_random.uniform(-1, 1, (2, 1))
        if self.knows == "far":  # never met, and not to be found
            self.place, target = np.zeros(1), np.array([50.0])
        if self.knows == "shared":
            target = self.config.goal
        self.hidden = lambda: target  # where nobody looks
        if self.knows != "far":
            self.goal = target.tolist() if self.knows == "list" else target
        return self.obs(), {}

    def obs(self) -> dict[str, Any]:
        goal = self.hidden() if self.knows == "far" else np.array(self.goal)
        return {"achieved_goal": self.place.copy(), "desired_goal": goal, "observation": self.place}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.place = np.clip(self.place + action / 400, -1.2, 1.2)
        obs = self.obs()
        success = bool(near(obs["achieved_goal"], obs["desired_goal"]))
        if self.knows == "_is_success":
            success = bool(self._is_success(obs["achieved_goal"], obs["desired_goal"]))
        crashed = bool(abs(self.place[0]) >= 1.2)
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        reward -= self.fine * crashed
        info = {} if self.knows in ("falls", "nothing") else {"is_success": success}
        return obs, reward, (success and self.ends) or crashed, False, info


def near(achieved: Any, desired: Any) -> Any:
    return np.abs(np.asarray(achieved) - desired)[..., 0] <= REACH


gym.register("Line-v0", Line, max_episode_steps=10)


def line(terminates: Any = None, rest: Any = "keep", **kwargs: Any) -> GymnasiumSpec:
    values = {"id": "Line-v0", "kwargs": kwargs, "terminates": terminates, "rest": rest}
    return validated(GymnasiumSpec, values)


LEARNS_LATER = {"log_interval": 60, "learning_starts": 1000}


def begun(environment: Any, algorithm: dict[str, Any], **hindsight: Any) -> Any:
    """A run that is about to begin, whose environment is stepped by this process."""
    return runs_of(cell_in(environment, algorithm, **hindsight), [0], "cpu", 0)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("knows", ["_is_success", "compute_terminated"])
def test_relabelled_ends_are_those_of_the_environment(knows, ends, dense):
    """Also for dense rewards with a tolerance, where no step earns the reward of equal goals."""
    spec = line(knows=knows, ends=ends, dense=dense)
    assert spec.facts.terminates_on_success is ends
    said = [note for note in spec.facts.notes if "trial episodes began at their goal" not in note]
    assert bool(said) == (knows == "_is_success")  # what was found by trying is said
    task = GoalEnvironments(spec, [0], workers=0).task
    achieved = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]
    desired = torch.full_like(achieved, 0.2)
    _, reached = task.reward(achieved, desired, torch.zeros(41, dtype=torch.bool))
    if ends or knows == "_is_success":
        assert torch.equal(reached, ((achieved - desired).abs() <= REACH)[:, 0])


@pytest.mark.parametrize(
    ("knows", "decides"),
    [("info", "compute_reward"), ("list", "compute_reward"), ("task", "is_success")],
)
def test_a_goal_that_ends_an_episode_is_found_and_what_tells_which(knows, decides):
    """The reward alone, or a success test of the environment's task."""
    facts = line(knows=knows, dense=knows == "task").facts
    assert facts.success_test.name == decides
    assert facts.terminates_on_success and f"{decides} decides when other goals" in facts.notes[0]


def test_where_nothing_tells_it_is_refused_at_the_start_with_what_to_write():
    for kwargs in ({"knows": "info", "dense": True}, {"knows": "nothing", "dense": True}):
        with pytest.raises(SpecError, match="def compute_terminated") as caught:
            line(**kwargs)
        assert "terminates=never" in str(caught.value)
    with pytest.raises(SpecError, match=r"changes with every distance.* `def compute_terminated"):
        line("goal", knows="info", dense=True)
    assert line("never", knows="far").facts.terminates_on_success is False
    assert line("goal", knows="far").facts.terminates_on_success is True


def test_a_fall_ends_an_episode_and_is_no_success():
    spec = line(knows="falls")
    env = GoalEnvironments(spec, [0], workers=0)
    steps = [env.step(torch.ones(1, 1, 1)) for _ in range(30)]  # into the wall
    fell = [s for s in steps if s.terminated and float(s.next_achieved) >= 1.2]
    distance = [abs(float(s.next_achieved) - float(s.next_obs[..., 1])) for s in fell]
    assert [bool(s.success) for s in fell] == [d <= REACH for d in distance]
    assert max(distance) > REACH
    # Elsewhere than at the wall, another goal ends an episode where it is met.
    achieved = torch.tensor([[0.1], [0.5], [1.2]], dtype=torch.float64)
    desired = torch.zeros_like(achieved)
    never = torch.zeros(3, dtype=torch.bool)
    assert env.task.reward(achieved, desired, never)[1].tolist() == [True, False, False]


def test_trying_an_environment_changes_nothing_that_others_share():
    assert line(knows="shared").facts.terminates_on_success  # the goal was moved
    assert SHARED.goal.tolist() == [0.7]


class Arena(Line):
    """Truncates where it is left."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, bool(abs(self.place[0]) > 1), info


gym.register("Arena-v0", Arena, kwargs={"ends": False})


def test_where_an_arena_is_left_is_no_step_limit():
    """But where all episodes are cut is one (test_other_goals: Stable-Baselines3's example)."""
    with pytest.raises(SpecError, match="Arena-v0 has no step limit that is always the same"):
        validated(GymnasiumSpec, {"id": "Arena-v0"})


def test_relabelled_transitions_keep_what_goals_do_not_explain():
    """The fine for the wall, and the end there; dense rewards with a tolerance."""
    where = line(knows="compute_terminated", dense=True, fine=5.0)
    replay = {"strategy": "episode", "k": 10**6, "fidelity": "described"}
    runs = begun(where, {"name": "sac", **LEARNS_LATER}, replay=replay)
    for _ in range(3):
        columns = runs.iterate()
    rests = runs.buffer.rows[0, 0, 120:180, runs.buffer.row.rest]  # in chunks of 50 and of 10
    assert float(columns["reward_rest"]) == pytest.approx(float(rests.mean())) != 0
    done = int(runs.buffer.finished().sum())
    # The goals of the first steps of episodes.
    how = np.arange(done)[None], np.zeros((1, done, 2)), runs.env.task.reward
    batch = runs.buffer.sample_at(*how)
    achieved, desired, _ = batch.next_obs[0].unbind(-1)
    far, crashed = (achieved - desired).abs(), achieved.abs() >= 1.2
    torch.testing.assert_close(batch.rewards[0], -far - 5 * crashed.float())
    assert torch.equal(batch.terminated[0], (far <= REACH) | crashed)
    assert crashed.any() and not batch.terminated.all() and (far[crashed] > REACH).any()


def test_an_episode_that_goes_on_at_its_goal_is_reported_at_its_step():
    env = GoalEnvironments(line("goal", ends=False), [0, 1, 2], workers=0)
    with pytest.raises(EnvironmentFailure, match="went on although its goal was achieved"):
        for _ in range(40):
            env.step(2 * (env.state[..., 1:2] - env.state[..., :1]))


@pytest.mark.parametrize("rest", ["keep", "drop", "refuse"])
def test_the_rest_of_a_reward_is_found_where_it_is_paid(rest, capsys, monkeypatch):
    if rest == "refuse":
        with pytest.raises(SpecError, match="with rest=refuse they must agree"):
            line("never", rest, fine=5.0)
        monkeypatch.setattr(trial, "STEPS", 1)  # too few to meet a wall
    env = GoalEnvironments(line("never", rest, fine=5.0), [0], workers=0)
    into_the_wall = torch.ones(1, 1, 1)
    if rest == "refuse":
        with pytest.raises(EnvironmentFailure, match="rest=refuse"):
            [env.step(into_the_wall) for _ in range(9)]
        return
    steps = [env.step(into_the_wall) for _ in range(9)]
    if rest == "drop":
        assert all(step.rest is None for step in steps)
        return
    crashed = [bool(step.terminated) and not bool(step.success) for step in steps]
    assert any(crashed)
    assert [float(step.rest) for step in steps] == [-5.0 * c for c in crashed]
    assert capsys.readouterr().err.count("a step paid -5 beyond compute_reward") == 1


@pytest.mark.parametrize("rest", ["keep", "drop"])
def test_on_policy_steps_and_their_copies_are_paid_the_rest(rest):
    hindsight = {"strategy": "final", "fidelity": "described"}
    runs = begun(line("never", rest, fine=5.0), {"n_steps": 60}, hindsight=hindsight)
    columns = runs.iterate()
    ((_, _, real, copies),) = runs.learned
    crashed = (real.obs[..., 0] + 0.5 * real.actions[..., 0].clamp(-1, 1)).abs() >= 1.2
    assert crashed.any() and copies.valid[crashed].any()
    assert ("reward_rest" in columns) == (rest == "keep")
    if rest == "keep":
        assert float(columns["reward_rest"]) == pytest.approx(-5 * float(crashed.float().mean()))
        assert (real.rewards[crashed] <= -5).all() and (real.rewards[~crashed] >= -1).all()
        assert (copies.rewards[crashed & copies.valid] == -5).all()
    else:
        assert real.rewards.min() == -1 and copies.rewards[copies.valid].min() >= -1
    runs.policy = lambda: lambda obs: torch.ones(*obs.shape[:2], 1)  # into the wall
    assert (float(runs.evaluate()["return_mean"]) < -4) == (rest == "keep")


class Fleeing(Line):
    """Each step moves the goal, and is paid, and ends the episode, by where the goal then is."""

    paid: ClassVar[list[float]] = []

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return near(achieved, desired)

    def step(self, action: Any) -> Any:
        super().step(action)
        self.goal = np.clip(self.goal + 0.1, -1.2, 1.2)
        obs = self.obs()
        goals = obs["achieved_goal"], obs["desired_goal"]
        reward, over = float(self.compute_reward(*goals, {})), bool(near(*goals))
        self.paid.append(reward)
        return obs, reward, over, False, {"is_success": over}


gym.register("Fleeing-v0", Fleeing, max_episode_steps=10)


@pytest.mark.parametrize("rest", ["keep", "drop"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_a_step_that_moves_its_goal_is_paid_what_the_environment_pays(name, dense, rest):
    how = {"n_steps": 60} if name == "ppo" else LEARNS_LATER
    where = {"id": "Fleeing-v0", "kwargs": {"dense": dense}, "rest": rest}
    runs = begun(where, {"name": name, **how})
    Fleeing.paid.clear()
    columns = runs.iterate()
    if name == "ppo":
        stored = runs.learned[0][2].rewards.ravel()
        assert torch.equal(runs.learned[0][2].success.ravel(), stored >= -REACH)  # as info says
    else:
        stored = runs.buffer.rows[0, 0, :60, runs.buffer.row.reward]
    np.testing.assert_allclose(stored, Fleeing.paid, atol=1e-5)
    assert float(columns.get("reward_rest", torch.zeros(1))) == 0


def test_environments_are_closed_once_nothing_steps_them(monkeypatch):
    gc.collect()  # what earlier tests left
    spec, closed = line(), []
    monkeypatch.setattr(Line, "close", lambda env: closed.append(env))
    for end in (GoalEnvironments.close, lambda envs: None):
        closed.clear()
        envs = GoalEnvironments(spec, [0, 1], 2, workers=0)
        assert not closed
        end(envs)
        del envs
        gc.collect()
        assert len(closed) == 4


def test_a_daemonic_process_steps_environments_itself():
    """As in a `multiprocessing.Pool`, whose processes may start no others."""
    spec = line()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        here = pool.apply(places, (spec,))
    np.testing.assert_array_equal(here, places(spec))


def places(spec: GymnasiumSpec) -> Any:
    envs = GoalEnvironments(spec, [0, 1], workers=2)
    return envs.step(torch.ones(2, 1, 1)).next_obs.numpy()
