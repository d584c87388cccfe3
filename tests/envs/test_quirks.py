"""Environments with one quirk each: trained right, or refused in a sentence that names it."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import ClipAction, FrameStackObservation, TimeLimit

from hindsight import SAC
from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.gymnasium import GymnasiumSpec

SMALL: dict[str, Any] = {
    "hidden": (8,), "learning_starts": 100, "log_interval": 200, "batch_size": 16, "seeds": 1,
    "workers": 0, "evaluation_episodes": 2,
}  # fmt: skip


class Drone(gym.Env[Any, Any]):
    """Must reach a height, and is paid by its distance."""

    action_space = Box(-1, 1, (1,), np.float32)

    def __init__(self, seen: int = 1, scale: float = 1.0, **ignored: Any) -> None:
        space, self.scale = Box(-9, 9, (1,), np.float32), scale
        seen_space = Box(-np.inf, np.inf, (seen,), np.float64)
        self.observation_space = Dict(
            achieved_goal=space, desired_goal=space, observation=seen_space
        )
        self.seen = seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.height, self.goal = np.zeros(1, np.float32), self.draw()
        return self.observe(), {}

    def draw(self) -> Any:
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def observe(self) -> dict[str, Any]:
        seen = np.full(self.seen, self.scale)
        return {"achieved_goal": self.height, "desired_goal": self.goal, "observation": seen}

    def step(self, action: Any) -> Any:
        self.height = (self.height + 0.2 * action).astype(np.float32)
        paid = float(self.compute_reward(self.height, self.goal, {}))
        return self.observe(), paid, self.ends(), False, {}

    def ends(self) -> bool:
        return False

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.abs(achieved - desired)[..., 0]


class Global(Drone):
    def draw(self) -> Any:
        return np.random.uniform(-1, 1, 1).astype(np.float32)  # noqa: NPY002


class Own(Drone):
    """Its generator is made with it, and copied with it."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng()

    def draw(self) -> Any:
        return self.rng.uniform(-1, 1, 1).astype(np.float32)


class Plateau(Drone):
    """Far from its goal, the reward does not change."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.minimum(np.abs(achieved - desired)[..., 0], 0.3)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.abs(achieved - desired)[..., 0] <= 0.1

    def ends(self) -> bool:
        return bool(self.compute_terminated(self.height, self.goal, {}))


class Normed(Drone):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.linalg.norm(achieved - desired)


def test_workers_draw_other_numbers_of_a_shared_generator():
    gym.register("Global-v0", Global, max_episode_steps=20)
    spec = validated(GymnasiumSpec, {"id": "Global-v0"})
    env = GoalEnvironments(spec, [0, 1], 2, workers=4)
    assert env.state[..., 1].unique().numel() == 4
    env.close()


def test_copies_that_draw_the_same_numbers_are_an_alarm():
    with pytest.warns(UserWarning, match="all of its copies begin alike, whatever the seed"):
        SAC(Own(), max_episode_steps=20, **SMALL)
    (note,) = [note for note in SAC(Own, max_episode_steps=20, **SMALL).notes if "seed" in note]
    assert "does not repeat itself" in note


def test_an_achieved_goal_that_is_always_the_same_is_told_of():
    class Unmoved(Drone):
        def observe(self) -> dict[str, Any]:
            return super().observe() | {"achieved_goal": np.zeros(1, np.float32)}

    said = "achieved_goal was the same at every step of a trial, whatever the start"
    for env, count in ((Unmoved, 1), (Drone, 0)):
        notes = SAC(env, max_episode_steps=20, **SMALL).notes
        assert sum(said in note for note in notes) == count


@pytest.mark.parametrize("success", [True, False])
def test_a_termination_within_a_reward_that_is_flat_further_away_is_believed(success):
    class Told(Plateau):
        def step(self, action: Any) -> Any:
            *found, info = super().step(action)
            return *found, info | ({"is_success": found[2]} if success else {})

    model = SAC(Told, max_episode_steps=20, **SMALL).learn(1000)
    test = model.spec.environment.facts.success_test
    assert (test.name, test.best) == ("compute_terminated", None)
    ring = model._runs.buffer
    rows = ring.rows[0, 0, : len(ring)].numpy()
    ended = rows[:, ring.row.terminated] > 0
    gap = np.abs(rows[:, ring.row.next_achieved] - rows[:, ring.row.desired[0]])[:, 0]
    assert ended.any() and ((gap <= 0.1) == ended).all()
    assert (rows[:, ring.row.failed] == 0).all()


class Falls(Drone):
    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (np.abs(achieved - desired)[..., 0] <= 0.01) | (np.abs(achieved)[..., 0] > 0.6)

    def ends(self) -> bool:
        return bool(self.compute_terminated(self.height, self.goal, {}))


class Passes(Falls):
    """Goals need only be passed."""

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (achieved - desired)[..., 0] >= -0.1


class Walled(Plateau):
    """Knows no goals beyond its walls."""

    def step(self, action: Any) -> Any:
        return super().step(np.clip(action, *((wall - self.height) / 0.2 for wall in (-1, 1))))

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        assert (np.abs([achieved, desired]) <= 1.01).all()
        return super().compute_terminated(achieved, desired, info)


def at_one_goal(env: type[Drone]) -> type[Drone]:
    return type("Fixed", (env,), {"draw": lambda self: np.float32([0.8])})


@pytest.mark.parametrize("of", [lambda env: env, at_one_goal])
def test_falls_that_count_as_successes_are_told_of(of, capfd):
    SAC(of(Falls), max_episode_steps=20, **SMALL).learn(400)
    assert capfd.readouterr().err.count("(a fall?); it counts as a success, because info") == 1
    for env in (Plateau, Passes, Walled):
        SAC(of(env), max_episode_steps=20, **SMALL).learn(400)
        assert "a fall?" not in capfd.readouterr().err


def test_a_function_that_returns_one_environment_again_and_again_is_refused():
    env = Drone()
    for make in (lambda: env, lambda: TimeLimit(env, 7)):
        with pytest.raises(SpecError, match="the same environment is returned each time"):
            SAC(make, max_episode_steps=7, **SMALL)


def test_an_id_that_is_registered_again_is_tried_again():
    for steps, seen in ((20, 1), (60, 4)):
        gym.register("Again-v0", Drone, max_episode_steps=steps, kwargs={"seen": seen})
        spec = validated(GymnasiumSpec, {"id": "Again-v0"})
        assert (spec.step_limit, spec.observation_size) == (steps, 2 + seen)

    def fails() -> Any:
        raise ValueError("typo")

    gym.register("Again-v0", fails, max_episode_steps=20)
    with pytest.raises(Exception, match="ValueError: typo"):
        validated(GymnasiumSpec, {"id": "Again-v0"})


def test_an_id_that_gymnasium_has_moved_elsewhere_is_a_sentence(monkeypatch):
    """Of gymnasium alone, or of gymnasium-robotics once that is imported."""
    monkeypatch.setitem(gym.registry, "Ant-v2", old := gym.spec("Ant-v2"))
    for entry, words in (
        ("gymnasium.envs:_raise_mujoco_py_error", r"cannot be made with .*moved to the gymn"),
        ("gymnasium_robotics.envs.mujoco.ant_v2:AntEnv", "needs mujoco_py, .*: use 'Ant-v5'"),
    ):
        monkeypatch.setattr(old, "entry_point", entry)
        with pytest.raises(SpecError, match=f"Ant-v2 {words}"):
            validated(GymnasiumSpec, {"id": "Ant-v2"})


class Unbounded(Drone):
    most = np.finfo(np.float32).max
    action_space = Box(-most, most, (1,), np.float32)


REFUSED = {
    "bounds that are none": (Unbounded, "actions must have bounds"),
    "frames": (lambda: FrameStackObservation(Normed(), 3), "FrameStackObservation changes goals"),
    "ClipAction": (
        lambda: ClipAction(Drone()),
        "actions must have bounds, .* leave out ClipAction",
    ),
    "too large": (lambda: Drone(scale=1e39), "observation is not finite"),
}


@pytest.mark.parametrize("quirk", REFUSED)
def test_what_is_refused_is_named(quirk):
    make, said = REFUSED[quirk]
    with pytest.raises(SpecError, match=said):
        SAC(make, max_episode_steps=20, **SMALL)


class Tiers(Drone):
    """Falls end its episodes, too, and pay a third value."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        far = np.abs(achieved - desired)[..., 0]
        return np.where(far <= 0.2, 0.0, np.where(far <= 0.5, -0.5, -1.0))


class Penal(gym.Wrapper[Any, Any, Any, Any]):
    def step(self, action: Any) -> Any:
        obs, reward, *over, info = super().step(action)
        return obs, float(reward) - 0.1 * float(np.square(action).sum()), *over, info


class Noop(gym.Wrapper[Any, Any, Any, Any]):
    def reset(self, **keys: Any) -> Any:
        obs, info = super().reset(**keys)
        for _ in range(3):
            obs, *_, info = self.step(np.ones(1, np.float32))
        return obs, info


def test_what_is_well_is_not_refused(recwarn):
    gym.register("Penal-v0", Drone, max_episode_steps=20)
    SAC(lambda: Penal(Noop(gym.make("Penal-v0"))), **SMALL)
    SAC(lambda: Tiers(), max_episode_steps=20, **SMALL)
    gym.register("Tiers-v0", Tiers, max_episode_steps=20)
    assert validated(GymnasiumSpec, {"id": "Tiers-v0", "terminates": "goal"}).facts
    assert not [w for w in recwarn if "begin alike" in str(w.message)]


@pytest.mark.parametrize("value", [float("inf"), (1, 2), {1: 0.1}])
def test_arguments_that_a_file_would_return_otherwise_are_refused(value):
    gym.register("Drone-v0", Drone, max_episode_steps=20)
    with pytest.raises(SpecError, match="a file cannot hold it; pass a function"):
        SAC("Drone-v0", env_kwargs={"scale": value}, **SMALL)


def test_of_two_step_limits_the_smaller_one_counts():
    gym.register("Short-v0", Drone, max_episode_steps=6)
    for env in (TimeLimit(gym.make("Short-v0"), 10), TimeLimit(TimeLimit(Drone(), 10), 6)):
        assert SAC(env, **SMALL).spec.environment.step_limit == 6


def test_a_part_of_no_numbers_is_predicted_from():
    model = SAC(lambda: Drone(seen=0), max_episode_steps=20, **SMALL)
    obs, _ = Drone(seen=0).reset(seed=0)
    assert model.predict(obs)[0].shape == (1,)
