"""Presets and defaults are the documented ones, and learn."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import typer
from gymnasium.spaces import Box, Dict

from hindsight import PPO, SAC
from hindsight.cli import app
from hindsight.library.presets import presets
from hindsight.library.train import spec_of

SMALL: dict[str, Any] = {"seeds": 1, "workers": 0}


class Point(gym.Env[Any, Any]):
    """A point in a square moves by up to 0.1; within 0.1 of the goal it ends with a reward of 1."""

    def __init__(self) -> None:
        box = Box(-1, 1, (2,), np.float32)
        keys = ("achieved_goal", "desired_goal", "observation")
        self.observation_space = Dict({key: box for key in keys})
        self.action_space = box

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.linalg.norm(achieved - desired, axis=-1) <= 0.1

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.float32(self.compute_terminated(achieved, desired, info))

    def obs(self) -> dict[str, Any]:
        place = self.place.copy()
        return {"achieved_goal": place, "desired_goal": self.goal.copy(), "observation": place}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        return self.obs(), {}

    def step(self, action: Any) -> Any:
        self.place = np.clip(self.place + np.float32(0.1) * action, -1, 1)
        reached = bool(self.compute_terminated(self.place, self.goal, {}))
        return self.obs(), float(reached), reached, False, {"is_success": reached}


gym.register("PointEnds-v0", Point, max_episode_steps=50)


def test_sac_learns_a_goal_that_ends_the_episode_with_a_reward_of_one():
    """At a temperature of 1 it avoids the goal, and learns nothing within 5 000 steps."""
    model = SAC("PointEnds-v0", her="future", seeds=1, evaluate_every=2500, log_interval=500)
    model.workers = 0
    model.learn(2500)
    tested = model.curves().query("phase == 'evaluation' and env_steps == 2500")
    assert len(tested) == 1 and tested.success_rate.min() >= 0.95


def test_a_temperature_that_makes_avoiding_the_goal_worthwhile_is_noted():
    assert SAC("PointEnds-v0", **SMALL).notes == ()
    (note,) = SAC("PointEnds-v0", ent_coef="auto", **SMALL).notes
    # two actions, log 2 each, over 1 - 0.95
    assert "worth up to 28" in note and "ent_coef auto_0.01" in note
    assert PPO("PointEnds-v0", **SMALL).notes == ()


def test_the_temperature_of_our_own_environments_is_the_papers():
    assert SAC("PointReach-v0", **SMALL).spec.algorithm.ent_coef == "auto"  # type: ignore[attr-defined]
    assert SAC("PointEnds-v0", **SMALL).spec.algorithm.ent_coef == "auto_0.01"  # type: ignore[attr-defined]
    fixed = SAC("PointEnds-v0", ent_coef=0.05, **SMALL).learn(1000)
    alphas = fixed.curves().alpha.dropna()
    assert len(alphas) and np.allclose(alphas, 0.05)


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_the_same_for_model_and_command(name):
    kinds = {"ppo": PPO, "sac": SAC}
    about = presets()[name]
    assert len(about["tuned_on"]) > 20
    for algorithm, keys in about.items():
        if algorithm == "tuned_on":
            continue
        model = kinds[algorithm]("PointReach-v0", preset=name, **SMALL)
        parts = (model.spec.algorithm, model.spec.hindsight or model.spec.replay)
        set_ = {key: value for part in parts for key, value in part.model_dump().items()}
        for key, value in keys.items():
            found = set_["strategy" if key == "her" else key]
            assert (list(found) if isinstance(found, tuple) else found) == value, key
        words = ["--algorithm", algorithm, "--preset", name, "--env", "PointReach-v0"]
        train = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
        typed = spec_of(train.make_context("train", words).params, ["algorithm", "preset", "env"])
        assert (typed.algorithm, typed.hindsight or typed.replay) == parts


def test_settings_override_a_preset():
    model = SAC("PointReach-v0", preset="robotics", epsilon=0.1, her="final", **SMALL)
    assert model.spec.algorithm.epsilon == 0.1  # type: ignore[attr-defined]
    assert model.spec.replay is not None and model.spec.replay.strategy == "final"
    assert SAC("PointReach-v0", preset="robotics", her=None, **SMALL).spec.replay.strategy is None  # type: ignore[union-attr]


def test_our_own_environments_move_as_the_fidelity_says():
    train = typer.main.get_command(app).commands["train"]  # type: ignore[attr-defined]
    typed = spec_of(train.make_context("train", ["prey=repel"]).params, []).environment
    by_id = PPO("PredatorPrey-v0", prey="repel", seeds=1).spec.environment
    assert by_id == typed and by_id.fidelity == "described"
    released = PPO("PredatorPrey-v0", prey="repel", fidelity="released", seeds=1).spec.environment
    env = gym.make("PredatorPrey-v0", prey="repel", render_mode="rgb_array")
    assert PPO(env, seeds=1).spec.environment == released == env.unwrapped.parameters
