"""Which parameters are best, and act: never those of another task, or of before any training."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import hindsight
from hindsight import PPO, SAC
from hindsight.specs.errors import SpecError
from hindsight.training.evaluate import evaluate_policy
from tests.envs import worlds
from tests.envs.test_quirks import SMALL, Drone

assert worlds  # registers the environments


def small(env: Any = "Level-v0", **more: Any) -> SAC:
    return SAC(env, **SMALL | {"evaluate_every": 400} | more)


def last_is_best(model: SAC) -> bool:
    return torch.equal(model.parameters(), model.parameters(which="last"))


@pytest.mark.parametrize("training", [True, False])
def test_what_was_best_in_another_task_is_forgotten(training, tmp_path):
    model = small().learn(800)
    model._scores = [(1.0, 0.0)]  # which no later evaluation reaches
    path = model.save(tmp_path / "model", training=training)
    with pytest.warns(UserWarning):
        harder = hindsight.load(path, env="Wide-v0")
        assert torch.equal(harder.parameters(), model.parameters())  # until it learns
        harder.learn(400)
    assert last_is_best(harder) and not torch.equal(harder.parameters(), model.parameters())
    again = hindsight.load(path)
    assert again._scores == [(1.0, 0.0)] and hindsight.load(path, env="Level-v0")._scores == [
        (1, 0)
    ]


def test_the_best_run_acts_until_a_model_learns_elsewhere(tmp_path):
    model = small(seeds=2).learn(400)
    model._scores, model._rows["best"] = [(0.0, -1.0), (1.0, 0.0)], model._rows["best"] + 1
    best = model.parameters()
    path = model.save(tmp_path / "model")
    harder = hindsight.load(path, env="Wide-v0")
    model.call("set_level", 1.0)
    for one in (model, harder):
        assert one.best_run == 1 and torch.equal(one.parameters(), best)
    again = hindsight.load(harder.save(tmp_path / "again"))
    assert again.best_run == 1 and torch.equal(again.parameters(), best)
    for one in (again, model):
        one.learn(400)
        assert max(one._scores) < (1.0, 0.0)


def test_a_method_that_does_not_exist_changes_nothing():
    model = small().learn(400)
    model._scores, model._rows["best"] = [(1.0, 0.0)], model._rows["best"] + 1
    with pytest.raises(SpecError, match="has no method 'set_lvl'"):
        model.call("set_lvl", 1.0)
    assert model._scores == [(1.0, 0.0)] and not last_is_best(model)


def test_learn_ends_with_an_evaluation_in_the_task_as_it_is_then(tmp_path):
    model = small(seeds=2)
    model.learn(800, callback=lambda model: model.call("set_level", 1.0))
    tests = model.curves().query("phase == 'evaluation'")
    last = tests.groupby("seed").tail(1)
    assert (tests.env_steps == 800).sum() == 4 and (last.env_steps == 800).all()
    scores = last.set_index("seed")[["success_rate", "return_mean"]].apply(tuple, axis=1)
    assert scores[model.best_run] == max(scores)
    assert hindsight.load(model.save(tmp_path / "model")).best_run == model.best_run


def test_until_the_first_evaluation_the_latest_parameters_act(tmp_path):
    def stop(model):
        if model.num_timesteps == 600:
            raise InterruptedError("by its user")

    model = small(evaluate_every=10_000)
    before = model.parameters()
    with pytest.raises(InterruptedError):
        model.learn(2000, stop)
    assert last_is_best(model) and not torch.equal(model.parameters(), before)
    assert last_is_best(hindsight.load(model.save(tmp_path / "model")))


def test_a_model_that_goes_on_from_parameters_alone_is_saved_as_one(tmp_path):
    path = small().learn(400).save(tmp_path / "parameters")
    with pytest.warns(UserWarning, match="start from scratch"):
        whole = hindsight.load(path).save(tmp_path / "whole", training=True)
    again = hindsight.load(whole)
    before = again.parameters(which="last")
    begun = hindsight.load(again.save(tmp_path / "begun", training=True))
    assert torch.equal(begun.parameters(which="last"), before)
    assert again.learn(200).num_timesteps == 200


def test_a_copy_shares_nothing_that_training_changes():
    model = small().learn(400)
    before, rows = model.parameters(which="last"), len(model.curves())
    other = copy.copy(model)
    other.learn(400)
    assert len(model.curves()) == rows and torch.equal(model.parameters(which="last"), before)
    assert torch.equal(model.learn(400).parameters(which="last"), other.parameters(which="last"))


def test_the_id_alone_keeps_the_parameters_of_the_training(tmp_path):
    model = PPO("PredatorPrey-v0", seeds=1, env_kwargs={"prey": "repel", "max_steps": 15})
    path = model.learn(2048).save(tmp_path / "model")
    named = evaluate_policy(path, "PredatorPrey-v0", 20)
    assert named.length_mean < 20
    assert named[:4] == evaluate_policy(path, None, 20)[:4]


def test_predicted_actions_are_those_that_evaluations_take():
    """To the bit, also in a narrow box far from 0."""

    class Narrow(Drone):
        action_space = gym.spaces.Box(1000.0, 1000.001, (1,), np.float64)

        def step(self, action: Any) -> Any:
            taken.append(action.copy())
            return super().step((action - 1000) * 1000)

    taken: list[Any] = []
    model = SAC(Narrow, max_episode_steps=10, **SMALL).learn(400)
    taken.clear()
    model.evaluate(1, which="last")
    env, played = gym.wrappers.TimeLimit(Narrow(), 10), taken[:]
    taken.clear()
    obs, over = env.reset(seed=0)[0], False
    while not over:
        obs, _, *ends, _ = env.step(model.predict(obs, which="last")[0])
        over = any(ends)
    assert len(played) == 10
    np.testing.assert_array_equal(taken, played)
