"""Exported policies: the module, torch.export and ONNX Runtime act as in training."""

import warnings
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import hindsight
from hindsight.library.model import Model
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.spaces import action_of
from hindsight.training.policies import n_bounds, policy_of
from tests.envs import corridor

assert corridor  # registers Corridor-v0
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": ("PPO", "PointReach-v0", {}),
    "ppo squashed": ("PPO", "Corridor-v0", {"exploration": "squashed"}),
    "ppo choices": ("PPO", "BitFlipping-v0", {}),
    "sac": ("SAC", "Corridor-v0", {"hidden": (16, 16)}),
    "sac standardised": ("SAC", "Corridor-v0", {"normalize_observations": True}),
    "td3": ("TD3", "Corridor-v0", {}),
    "dqn": ("DQN", "Corridor-v0", {"env_kwargs": {"discrete": True}}),
}


@pytest.fixture(params=MODELS)
def model(request) -> Model:
    name, env, settings = MODELS[request.param]
    made: Model = getattr(hindsight, name)(env, seeds=3, **settings)
    generator = torch.Generator().manual_seed(0)
    for rows in made._rows.values():  # actions beyond the bounds, too
        rows += 0.3 * torch.randn(rows.shape, generator=generator)
        if n := n_bounds(made.spec):
            rows[:, -n:] = torch.cat([torch.full((n // 2,), -0.7), torch.full((n // 2,), 0.4)])
    return made


def observations(model: Model, n: int = 200) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {
        key: generator.normal(size=(n, *(space.shape or ()))).astype(np.float32)
        for key, space in model._spaces[0].items()
    }


def on_the_run_axis(model: Model, obs: dict[str, np.ndarray]) -> np.ndarray:
    """Actions [run, n, ...] as in training, scaled as its workers scale them."""
    flat = np.concatenate([obs[key].reshape(len(obs[key]), -1) for key in GOAL_KEYS], axis=1)
    seen = torch.from_numpy(flat).expand(3, *flat.shape).contiguous()
    chosen = policy_of(model.spec, model._rows["best"])(seen).numpy()
    space = model._spaces[1]
    return np.array([[action_of(space, np.atleast_1d(a)) for a in run] for run in chosen])


def test_all_forms_of_a_policy_agree_with_the_run_axis(model, tmp_path):
    obs = observations(model)
    expected = on_the_run_axis(model, obs)
    tensors = {key: torch.from_numpy(value) for key, value in obs.items()}
    for run in range(3):
        policy = model.policy(run)
        actions = policy(tensors).detach().numpy()
        np.testing.assert_allclose(actions, expected[run], rtol=1e-5, atol=1e-5)
        one = {key: value[7] for key, value in tensors.items()}
        np.testing.assert_allclose(policy(one).detach(), actions[7], atol=1e-6)
    run = 2
    program = torch.export.load(model.export(tmp_path / "p.pt2", run)).module()
    with warnings.catch_warnings(action="error"):  # such as the tracer's
        session = onnxruntime.InferenceSession(model.export(tmp_path / "p.onnx", run))
    assert [x.name for x in session.get_inputs()] == list(obs)
    for n in (1, 3, 200):
        part = {key: value[:n] for key, value in obs.items()}
        found = session.run(["action"], part)[0]
        np.testing.assert_allclose(found, expected[run][:n], rtol=1e-5, atol=1e-5)
        traced = program(*(torch.from_numpy(value) for value in part.values())).detach()
        np.testing.assert_allclose(traced, expected[run][:n], rtol=1e-5, atol=1e-5)


def test_actions_belong_to_the_action_space(model):
    obs = observations(model, 4)
    space = model._spaces[1]
    single, nothing = model.predict({key: value[0] for key, value in obs.items()}, run=0)
    several, _ = model.predict(obs, run=0)
    assert nothing is None and space.contains(single)
    assert len(several) == 4 and all(space.contains(action) for action in several)
    drawn, _ = model.predict({key: v[0] for key, v in obs.items()}, run=0, deterministic=False)
    assert space.contains(drawn)
