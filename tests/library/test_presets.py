"""Presets and defaults are the documented ones, and learn."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hindsight import PPO, SAC
from hindsight.library.presets import presets
from tests.envs.corridor import Corridor
from tests.envs.test_at_the_door import Hovering
from tests.test_cli import spec_from

SMALL: dict[str, Any] = {"seeds": 1, "workers": 0}


class Paid(Corridor):
    """Its goal pays 1 and ends the episode; other steps pay 0."""

    def __init__(self) -> None:
        super().__init__(terminates=True)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return 1 + super().compute_reward(achieved, desired, info)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return self.compute_reward(achieved, desired, info) == 1

    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, reward == 1, truncated, info


gym.register("Paid-v0", Paid, max_episode_steps=50)


def test_sac_learns_a_goal_that_ends_the_episode_with_a_reward_of_one():
    """At a temperature of 1 it avoids the goal: of four seeds, none then exceeds 20%."""
    model = SAC("Paid-v0", her="future", evaluate_every=1500, log_interval=250, **SMALL)
    model.learn(1500)
    tested = model.curves().query("phase == 'evaluation' and env_steps == 1500")
    assert len(tested) == 1 and tested.success_rate.min() >= 0.9


def test_a_temperature_that_makes_avoiding_the_goal_worthwhile_is_noted():
    began = "3 of 20 trial episodes began at their goal"
    starts = f"Paid-v0: {began}, where doing nothing may count as success"
    assert SAC("Paid-v0", **SMALL).notes == (starts,)
    (note,) = {*SAC("Paid-v0", ent_coef="auto", **SMALL).notes} - {starts}
    # two actions, log 2 each, over 1 - 0.95
    assert "worth up to 28" in note and "ent_coef auto_0.01" in note
    assert PPO("Paid-v0", **SMALL).notes == (starts,)


def test_the_temperature_of_our_own_environments_is_the_papers():
    assert SAC("PointReach-v0", **SMALL).spec.algorithm.ent_coef == "auto"  # type: ignore[attr-defined]
    assert SAC("Paid-v0", **SMALL).spec.algorithm.ent_coef == "auto_0.01"  # type: ignore[attr-defined]


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
        typed = spec_from("--algorithm", algorithm, "--preset", name, "--env", "PointReach-v0")
        assert (typed.algorithm, typed.hindsight or typed.replay) == parts


def test_settings_override_a_preset():
    model = SAC("PointReach-v0", preset="robotics", epsilon=0.1, her="final", **SMALL)
    assert model.spec.algorithm.epsilon == 0.1  # type: ignore[attr-defined]
    assert model.spec.replay is not None and model.spec.replay.strategy == "final"
    assert SAC("PointReach-v0", preset="robotics", her=False, **SMALL).spec.replay.strategy is None  # type: ignore[union-attr]
    plain = spec_from("--env", "PointReach-v0", "--preset", "recommended", "--her", "none")
    found = PPO("PointReach-v0", preset="recommended", her=None, seeds=1).spec
    assert found.hindsight is plain.hindsight is None


def test_our_own_environments_move_as_the_fidelity_says():
    typed = spec_from("prey=repel").environment
    by_id = PPO("PredatorPrey-v0", prey="repel", seeds=1).spec.environment
    assert by_id == typed and by_id.fidelity == "described"
    released = PPO("PredatorPrey-v0", prey="repel", fidelity="released", seeds=1).spec.environment
    env = gym.make("PredatorPrey-v0", prey="repel", render_mode="rgb_array")
    assert PPO(env, seeds=1).spec.environment == released == env.unwrapped.parameters


def test_a_fidelity_counts_where_the_other_is_not_possible():
    """`described` copies need whole episodes, which these rollouts do not hold."""
    model = PPO("PointReach-v0", her="final", fidelity="released", n_steps=16, batch_size=16)
    assert model.spec.hindsight.fidelity == "released"


class FixedGoal(Hovering):
    """It must be, and stay, within 0.1 of (0.7, 0.7), from wherever it begins."""

    def hold(self, goal: np.ndarray) -> None:
        super().hold(np.full(2, 0.7, np.float32))
        self.place = goal


gym.register("FixedGoal-v0", FixedGoal, max_episode_steps=40)


def test_a_fixed_goal_is_learned_with_standardised_observations():
    """With statistics of its own, the goal has no variance, and no run succeeds once."""
    model = SAC(
        "FixedGoal-v0", her="future", seeds=2, workers=0, hidden=(32, 32), learning_rate=3e-3,
        batch_size=64, log_interval=250, evaluate_every=1000, normalize_observations=True,
        terminates="never",
    ).learn(1000)  # fmt: skip
    assert (model.evaluate(20).success_rate >= 0.9).all()
