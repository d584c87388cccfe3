"""`evaluate_policy` against plain loops, for policy files, functions and models."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from scipy import stats

from hindsight import PPO
from hindsight.io.checkpoints import load, save
from hindsight.io.files import FileError
from hindsight.library.policy import Policy
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError
from hindsight.training.evaluate import Evaluation, actor_of, evaluate_policy
from hindsight.training.policies import initial_row
from tests.envs import corridor
from tests.support.commands import python
from tests.training.small import cell_in, policy_file

CORRIDOR = "tests.envs.corridor:Corridor-v0"
PREY: dict[str, Any] = {"prey": "attract", "n_dims": 2, "grid_size": 3.0, "max_steps": 6}
POINT: dict[str, Any] = {"id": "PointReach-v0", "max_steps": 9, "threshold": 0.4}
BITS: dict[str, Any] = {"id": "BitFlipping-v0", "n_bits": 3}
CELLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ppo": (PREY, {}),
    "ppo-squashed": (POINT, {"exploration": "squashed"}),
    "ppo-choices": (BITS, {}),
    "ppo-bits": ({**BITS, "continuous": True}, {}),
    "dqn": (BITS, {"name": "dqn"}),
    "sac": (POINT, {"name": "sac"}),
    "td3": (POINT, {"name": "td3"}),
}


def cell(name: str) -> tuple[CellSpec, torch.Tensor]:
    """A specification, and rows of two runs away from the initial parameters."""
    environment, algorithm = CELLS[name]
    spec = cell_in(environment, {"hidden": (5,), **algorithm}, steps=10_000, seeds=2)
    rows = torch.stack([initial_row(spec, seed) for seed in range(2)])
    return spec, rows + 0.3 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))


def file_of(name: str, folder: Path) -> Path:
    spec, rows = cell(name)
    return policy_file(folder / "policy.safetensors", spec, {4: rows[0], 7: rows[1]})


def acts(spec: CellSpec, row: torch.Tensor, env: Any) -> Any:
    """The policy by torch's own layers (see library/test_policy)."""
    module = Policy(spec, row, env.observation_space.spaces, env.action_space)

    def act(obs: dict[str, np.ndarray]) -> Any:
        action = module({key: torch.as_tensor(obs[key]) for key in module.shapes})
        return action.detach().numpy() if action.ndim else action.item()

    return act


def plain_episode(env: Any, act: Any, seed: int) -> tuple[list[float], bool]:
    """The rewards of one episode, and whether its last info says that it succeeded."""
    obs, _ = env.reset(seed=seed)
    rewards, over = [], False
    while not over:
        obs, reward, *ends, info = env.step(act(obs))
        rewards.append(reward)
        over = any(ends)
    return rewards, info.get("is_success", reward == 0)


def assert_is_a_plain_loop(found: Evaluation, env: Any, act: Any, seed: int = 0) -> None:
    episodes = [plain_episode(env, act, seed + e) for e in range(len(found.returns))]
    returns = [sum(rewards) for rewards, _ in episodes]
    successes = [success for _, success in episodes]
    assert found.returns.tolist() == returns and found.successes.tolist() == successes
    assert found.return_mean == pytest.approx(np.mean(returns))
    assert found.return_std == pytest.approx(np.std(returns)) and found.return_std > 0
    assert found.success_rate == pytest.approx(np.mean(successes))
    assert found.length_mean == pytest.approx(np.mean([len(rewards) for rewards, _ in episodes]))


@pytest.mark.parametrize("name", ["ppo", "ppo-squashed", "ppo-choices", "ppo-bits", "dqn"])
def test_a_policy_of_a_file_is_what_a_plain_loop_makes_of_it(name, tmp_path):
    found = evaluate_policy(file_of(name, tmp_path), n_episodes=40, run=7, seed=3)
    parameters = dict(CELLS[name][0])
    env = gymnasium.make(parameters.pop("id", "PredatorPrey-v0"), **parameters)
    spec, rows = cell(name)
    assert 0 < found.success_rate < 1
    assert_is_a_plain_loop(found, env, acts(spec, rows[1], env), 3)


@pytest.mark.parametrize("name", ["ppo-choices", "dqn", "sac", "td3"])
def test_random_episodes_are_the_same_again_and_others_of_other_runs_and_seeds(name, tmp_path):
    file = file_of(name, tmp_path)
    one, again, other_run, other_seed = (
        evaluate_policy(str(file), None, 12, False, run=run, seed=seed).returns.tolist()
        for run, seed in ((4, 0), (4, 0), (7, 0), (4, 100))
    )
    assert one == again
    assert one not in (other_run, other_seed)


def test_a_function_is_what_a_plain_loop_makes_of_it():
    """Without a specification, success is unknown where the environment does not tell."""

    def act(obs: Any) -> Any:
        gap = obs["desired_goal"] - obs["achieved_goal"]
        return np.array([np.clip(5 * gap[0], -1, 1), 2.0])

    env = gymnasium.make(CORRIDOR)
    found = evaluate_policy(act, env, n_episodes=30, seed=10)
    assert 0 < found.success_rate < 1
    assert_is_a_plain_loop(found, env, act, 10)
    silent = gymnasium.make(CORRIDOR, terminates=True)
    assert np.isnan(evaluate_policy(act, silent, n_episodes=2).success_rate)


@pytest.mark.parametrize("env", ["Corridor-v0", lambda: gymnasium.make("Corridor-v0")])
def test_an_environment_of_a_program_s_own_is_named_with_its_module(env, tmp_path):
    file = (model := PPO(env, seeds=1, hidden=(5,))).save(tmp_path / "policy.safetensors")
    found = evaluate_policy(file, CORRIDOR, n_episodes=3)
    assert found[:4] == tuple(model.evaluate(3).iloc[0])
    with pytest.raises(
        FileError, match=r"--env (Corridor-v0, or pass it|module:Name-v0, or load it)"
    ):
        evaluate_policy(file, n_episodes=3)


def test_an_environment_of_ours_may_be_an_instance(tmp_path):
    file = PPO("PredatorPrey-v0", seeds=1, hidden=(5,)).save(tmp_path / "policy.safetensors")
    found = evaluate_policy(file, gymnasium.make("PredatorPrey-v0"), 3)
    assert found[:4] == evaluate_policy(file, n_episodes=3)[:4]


def test_what_registers_an_environment_is_imported():
    code = """
import numpy as np
from hindsight.training.evaluate import evaluate_policy
print(evaluate_policy(lambda obs: np.zeros(4), "FetchReach-v4", 1).length_mean)
"""
    pytest.importorskip("gymnasium_robotics")
    assert python(code).finished().stdout.strip() == "50.0"


@pytest.mark.parametrize("kwargs", [{}, {"terminates": True}, {"discrete": True}])
def test_a_foreign_environment_is_seen_and_acted_in_as_in_training(kwargs, tmp_path):
    """Observations of any shape, actions in a box of their own, success as the reward says."""
    spec = cell_in({"id": CORRIDOR, "kwargs": kwargs}, {"hidden": (5,)}, steps=10_000)
    row = initial_row(spec, 0)
    row = row + 0.1 * torch.randn(row.shape, generator=torch.Generator().manual_seed(2))
    file = policy_file(tmp_path / "policy.safetensors", spec, {0: row})
    with pytest.raises(FileError, match=r"add --env tests\.envs"):
        evaluate_policy(file, n_episodes=30)
    found = evaluate_policy(file, CORRIDOR, n_episodes=30)

    env = gymnasium.make(CORRIDOR, **kwargs)
    assert "discrete" in kwargs or 0 < found.success_rate < 1
    assert_is_a_plain_loop(found, env, acts(spec, row, env))


def test_settings_of_a_training_are_taken_as_such_in_an_evaluation():
    """A constructor that takes anything would swallow them."""

    def stays(obs):
        return np.array([0.0, 2.0])

    def passes(obs):
        return np.array([0.5, 2.0])

    def of(*environment, **parameters):
        return evaluate_policy(stays, *environment, 20, parameters=parameters).length_mean

    assert of(CORRIDOR, terminates=True) < of(CORRIDOR) == of(CORRIDOR, kwargs={})
    assert of(CORRIDOR, kwargs={"terminates": True}) == of(CORRIDOR, terminates=True)
    for parameters, why in (
        ({"kwargs": 3}, "kwargs: 3 is not allowed; it must be a dictionary"),
        ({"discrete": False, "kwargs": {"discrete": True}}, "discrete: given twice"),
    ):
        with pytest.raises(SpecError, match=why):
            of(CORRIDOR, **parameters)
    with pytest.raises(SpecError, match="success: given twice"):
        evaluate_policy(stays, CORRIDOR, 1, parameters={"success": "any"}, success="last")
    any_step = {"success": "any"}
    rates = [
        evaluate_policy(passes, CORRIDOR, 20, parameters=own).success_rate for own in ({}, any_step)
    ]
    assert rates[1] > rates[0]
    assert of(CORRIDOR, **{"kwargs.terminates": True}) == of(CORRIDOR, terminates=True)


def test_random_actions_are_those_of_the_policy():
    """Frequencies of choices, moments of numbers: 2,000 draws at one observation."""
    rng = np.random.default_rng(0)
    for name, width in (("ppo-choices", 3), ("ppo", 2)):
        spec, rows = cell(name)
        if name == "ppo":
            rows[0, -2:] = -2  # log sigma: none is clipped at the box
        obs = {
            k: rng.integers(0, 2, width) for k in ("achieved_goal", "desired_goal", "observation")
        }
        env = gymnasium.make(spec.environment.id, **spec.environment.model_dump(exclude={"id"}))
        act = actor_of(spec, rows[0], env, torch.Generator().manual_seed(0))
        drawn = np.array([act(obs) for _ in range(2000)])
        spaces = env.observation_space.spaces, env.action_space
        x = torch.from_numpy(np.concatenate(list(obs.values()))).float()
        outputs = Policy(spec, rows[0], *spaces).network(x).detach().double().numpy()
        if name == "ppo":
            sigma = rows[0, -2:].exp().numpy()
            for z in ((drawn - outputs) / sigma).T:
                assert stats.kstest(z, "norm").pvalue > 1e-3
        else:
            p = np.exp(outputs) / np.exp(outputs).sum()
            assert p.max() - p.min() > 0.05
            assert stats.chisquare(np.bincount(drawn, minlength=3), 2000 * p).pvalue > 1e-3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_episodes": 0}, SpecError, "n_episodes: 0 is not allowed"),
        ({"run": 5}, FileError, "has no run 5"),
        ({"environment": "Nowhere-v0"}, SpecError, "'Nowhere-v0' is unknown"),
        ({"environment": "CartPole-v1"}, SpecError, "does not fit a policy trained in"),
        ({"parameters": {"prey": "statc"}}, SpecError, "prey: 'statc'"),
        ({"parameters": {"n_dims": 3}}, SpecError, "observations of 6 numbers"),
        ({"policy": lambda obs: 0}, SpecError, "environment: None is not allowed"),
        (
            {"policy": lambda obs: 0, "environment": "CartPole-v1"},
            SpecError,
            "the observations of CartPole-v1 are not dictionaries with goals",
        ),
        ({"policy": "none.safetensors"}, FileError, "none.safetensors"),
        ({"policy": 3}, SpecError, "policy: an object of type int is not allowed; it must"),
        (
            {"environment": gymnasium.make_vec("PointReach-v0", 2)},
            SpecError,
            "environment: an object of type SyncVectorEnv is not allowed; it must be a single",
        ),
        (
            {"environment": gymnasium.make("PointReach-v0"), "parameters": {"threshold": 0.1}},
            SpecError,
            "parameters: only allowed if the environment is given by its id",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_reported(arguments, error, words, tmp_path):
    arguments = {"policy": file_of("ppo", tmp_path), "run": 4, **arguments}
    with pytest.raises(error, match=words) as caught:
        evaluate_policy(**arguments)
    assert "\n" not in str(caught.value)


def test_a_policy_does_not_take_goals_of_another_size(tmp_path):
    name = "tests.envs.worlds:Level-v0"
    spec = cell_in({"id": name}, {"hidden": (5,)}, steps=10_000)
    path = policy_file(tmp_path / "policy.safetensors", spec, {0: initial_row(spec, 0)})
    assert evaluate_policy(path, name, 2).length_mean == 12
    with pytest.raises(SpecError, match="Level-v0 does not fit a policy trained in"):
        evaluate_policy(path, name, 2, parameters={"goal_size": 1})


def test_a_file_whose_runs_all_diverged_says_so(tmp_path):
    spec, _ = cell("ppo")
    path = policy_file(tmp_path / "policy.safetensors", spec, {0: initial_row(spec, 0)})
    save(path, {**load(path), "seeds": [], "rows": torch.empty(0, 0)})
    for use in (evaluate_policy, PPO.load):
        with pytest.raises(FileError, match="every run diverged in training, so it holds no pol"):
            use(path)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_model_of_stable_baselines3_is_what_a_plain_loop_makes_of_it(deterministic):
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("BitFlipping-v0", n_bits=3)
    model = stable_baselines3.DQN("MultiInputPolicy", env, seed=0, device="cpu", buffer_size=10)
    model.exploration_rate = 0.8
    asked, chosen = [], []
    predict = model.predict

    def noting(obs: Any, **how: Any) -> Any:
        asked.append(how)
        chosen.append(predict(obs, **how))
        return chosen[-1]

    model.predict = noting
    found = evaluate_policy(model, "BitFlipping-v0", 15, deterministic, parameters={"n_bits": 3})
    assert asked == [{"deterministic": deterministic}] * round(15 * found.length_mean)
    actions = iter(chosen)
    assert_is_a_plain_loop(found, env, lambda obs: int(next(actions)[0]))


class Noted(corridor.Corridor):
    """A part of its observations is left out of training, and cannot be flattened."""

    def __init__(self) -> None:
        super().__init__()
        notes = gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(3))
        self.observation_space = gymnasium.spaces.Dict({**self.observation_space, "notes": notes})

    def _obs(self) -> Any:
        return {**super()._obs(), "notes": (1,)}


gymnasium.register("Noted-v0", Noted, max_episode_steps=5)


def test_parts_that_are_left_out_need_no_size(tmp_path):
    spec = cell_in({"id": f"{__name__}:Noted-v0"}, {"hidden": (5,)}, steps=10_000)
    path = policy_file(tmp_path / "policy.safetensors", spec, {0: initial_row(spec, 0)})
    assert evaluate_policy(path, f"{__name__}:Noted-v0", 2).length_mean == 5
