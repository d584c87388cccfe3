"""Trainings go on where their environments cannot: in new episodes, with all that was learned."""

import copy
import os
import pickle
import signal
import socket
import sys
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from hindsight import PPO, SAC, TD3
from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.envs.gymnasium import workers as workers_module
from hindsight.envs.gymnasium.facts import facts_of
from hindsight.library.model import Model
from hindsight.specs.errors import EnvironmentFailure, SpecError, others_code
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training.cell import train_cell
from tests.envs import worlds
from tests.envs.test_goal_environments import pids_of
from tests.support.commands import program
from tests.support.configuration import ROOT
from tests.training.small import EAGER, cell_in, interrupted

assert worlds  # registers the environments
SMALL: dict[str, Any] = {
    "her": "future", "seeds": 1, "hidden": (8,), "log_interval": 30, "learning_starts": 20,
    "batch_size": 16, "buffer_size": 2000, "evaluation_episodes": 2, "workers": 0,
}  # fmt: skip


SMALL_PPO: dict[str, Any] = {
    "her": "final", "seeds": 1, "hidden": (8,), "n_steps": 30, "evaluation_episodes": 2,
    "workers": 0,
}  # fmt: skip


def small(env: str, kind: type[Model] = TD3, **settings: Any) -> Model:
    usual = SMALL_PPO if kind is PPO else SMALL
    return kind(env, **{**usual, "evaluate_every": 10**6, **settings})


def assert_chained(model: Model, limit: int = 12) -> int:
    """Within an episode of the buffer, each step begins where the one before it led.

    Returns the number of episodes whose length is neither `limit` nor the step limit.
    """
    buffer: Any = model._runs.buffer  # type: ignore[union-attr]
    limits = {limit, model.spec.environment.step_limit}
    row, short, steps = buffer.row, 0, buffer.position
    assert steps < buffer.n_slots, "the ring has not wrapped"
    for run, env in np.ndindex(buffer.left.shape[:2]):
        rows, before = buffer.rows[run, env, :steps], buffer.before[run, env, :steps]
        for t in range(1, steps):
            if before[t]:
                assert before[t] == before[t - 1] + 1
                assert torch.equal(rows[t, row.obs], rows[t - 1, row.next_obs])
            else:
                short += before[t - 1] + 1 not in limits
    return short


# --- an environment that does not repeat itself ---------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_saved_training_goes_on_in_a_new_episode_if_the_open_one_cannot_be_repeated(
    tmp_path, capsys, workers
):
    model = small("Leftover-v0", n_envs=2, seeds=2, workers=workers).learn(210)
    stored = model._runs.buffer.rows[:, :, :105].clone()
    file = model.save(tmp_path / "a.pt", training=True)
    again = TD3.load(file, workers=workers)
    capsys.readouterr()
    again.learn(60)
    said = capsys.readouterr().err
    assert said.count("new episodes begin in 4 of 4 environments") == 1
    assert again.num_timesteps == 270 and len(again.curves()) == len(model.curves()) + 2 * 3
    assert torch.equal(again._runs.buffer.rows[:, :, :105], stored)
    assert assert_chained(again) == 4
    lengths = again.curves().query("phase == 'train'").episode_length
    assert (lengths == 12).all(), "a part of an episode is not an episode"
    # In this package's own environments and in those that repeat themselves, nothing is cut.
    same = small("Corridor-v0", n_envs=2, workers=workers).learn(210)
    whole = TD3.load(same.save(tmp_path / "b.pt", training=True), workers=workers).learn(60)
    assert assert_chained(whole) == 0 and capsys.readouterr().err == ""
    assert torch.equal(same.learn(60)._rows["last"], whole._rows["last"])


def test_an_interrupted_cell_goes_on_in_a_new_episode(tmp_path, capsys):
    how = {"name": "td3", "batch_size": 16, "log_interval": 50, "learning_starts": 30}
    spec = cell_in({"id": "Leftover-v0"}, how, replay={"strategy": "future"}, steps=300)
    interrupted(spec, tmp_path, iterations=3)
    capsys.readouterr()
    curves = train_cell(spec, tmp_path, EAGER)
    said = capsys.readouterr().err
    assert "continued at 150 of 300 steps" in said and "new episodes begin in 1 of 1" in said
    assert "scratch" not in said and curves.exists() and not list(tmp_path.rglob("*.damaged"))


def test_an_error_while_an_episode_is_repeated_is_no_error_of_the_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"env_kwargs": {"breaks": True}}
    model = small("Leftover-v0", **env).learn(90)  # the open episode has six steps
    file = model.save("a.pt", training=True)
    Path("broken").touch()
    again = TD3.load(file, workers=0)._started()
    Path("broken").unlink()
    assert again.env.elapsed.item() == 0
    again.iterate()


# --- another task ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "new"), [("Level-v0", 0), ("LongLevel-v0", 0), ("ShortLevel-v0", 1), ("Wide-v0", 1)]
)
@pytest.mark.parametrize("kind", [TD3, PPO])
def test_a_saved_training_goes_on_in_a_wider_longer_or_shorter_task(
    tmp_path, capsys, kind, env, new
):
    model = small("Level-v0", kind).learn(90)
    file = model.save(tmp_path / "a.pt", training=True)
    again = kind.load(file, env=env, workers=0)
    capsys.readouterr()
    again.learn(60)
    assert again.num_timesteps == 150 and len(again.curves()) > len(model.curves())
    assert capsys.readouterr().err.count("new episodes begin in 1 of 1") == new
    if kind is TD3:
        assert again._runs.buffer.position == 150
        assert assert_chained(again) == new


def test_a_training_that_cannot_go_on_elsewhere_says_so(tmp_path):
    other_env = gymnasium.wrappers.TimeLimit(worlds.Level(goal_size=1), 12)
    for training in (True, False):
        file = small("Level-v0").learn(60).save(tmp_path / "a.pt", training=training)
        with pytest.raises(SpecError, match=r"has goals of 1 numbers, .* for goals of 2"):
            TD3.load(file, env=other_env, workers=0)


# --- a process that ends --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TD3, PPO])
def test_a_model_goes_on_after_its_workers_were_killed(kind, tmp_path):
    model = small("Corridor-v0", kind, n_envs=2, seeds=2, workers=2).learn(90)
    steps, before = model.num_timesteps, model._rows["last"].clone()
    os.kill(pids_of(model._runs.env)[1], signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match="was killed by signal 9") as caught:
        model.learn(60)
    assert "checkpoint" not in str(caught.value)
    assert "`learn` goes on from there in new episodes" in caught.value.__notes__[0]
    assert model.num_timesteps == steps
    assert model.save(tmp_path / "a.pt", training=True).exists()
    model.learn(60)
    assert model.num_timesteps > steps and not torch.equal(model._rows["last"], before)
    if kind is TD3:
        assert_chained(model)


def test_a_model_goes_on_after_an_error_of_its_environment(tmp_path):
    model = small("Corridor-v0", env_kwargs={"wrong": "raises"})
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match="the corridor has collapsed"):
            model.learn(300)
    assert model.num_timesteps == 0
    assert assert_chained(model) == 1
    path = model.save(tmp_path / "a.safetensors", training=True)
    with pytest.raises(EnvironmentFailure, match="the corridor has collapsed"):
        TD3.load(path, workers=0).learn(30)


FORKS = """
import os, sys, time
from tests.envs import worlds
from hindsight import TD3
model = TD3("Corridor-v0", her="future", seeds=2, hidden=(8,), log_interval=30, learning_starts=20,
            batch_size=16, evaluation_episodes=2, workers=2, evaluate_every=10**6).learn(60)
for does in ("ends", "learns"):
    child = os.fork()
    if child == 0:
        if does == "learns":
            steps = model.num_timesteps
            model.learn(30)
            assert model.num_timesteps == steps + 30
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    model.learn(60)
    assert model._runs.env.pool.goes_on
    print(model.num_timesteps, model._runs.buffer.position, flush=True)  # before the next fork
"""


def test_a_fork_that_ends_ends_nothing_of_its_parent():
    found = program(sys.executable, "-c", FORKS, cwd=ROOT, timeout=300)
    assert found.stdout == "120 120\n180 180\n", found.stderr
    assert "Error" not in found.stderr


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("when", ["step", "reset", "reward", "init"])
@pytest.mark.parametrize("does", ["_exit", "generator"])
def test_an_environment_cannot_end_its_process_without_a_word(does, when, workers):
    real = os._exit
    with pytest.raises((EnvironmentFailure, SpecError)) as caught:
        small("Careless-v0", env_kwargs={"does": does, "when": when}, seeds=2, workers=workers,
              fidelity="described").learn(90)  # fmt: skip
    assert os._exit is real
    said = str(caught.value)
    if does == "_exit":
        assert "it called os._exit(0), in " in said and "worlds.py, line " in said
    else:
        assert "GeneratorExit: enough" in said


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("does", worlds.FORKS)
def test_a_process_that_an_environment_forks_ends_there(does, workers, capfd):
    """Not as a second one of this program, which would train on, or write what this one writes."""
    kwargs = {"does": does, "when": "step"}
    model = small("Careless-v0", env_kwargs=kwargs, seeds=2, workers=workers).learn(60)
    assert model.num_timesteps == 60
    said = capfd.readouterr().err
    assert ("it is the fork's own" in said) == (does == "fork that raises")
    assert "a fork goes on" not in said  # nor with the trial, in which it would fork again


def test_a_fork_ends_where_only_one_instance_can_exist_too(monkeypatch, capfd):
    monkeypatch.setattr(worlds.Careless, "only", True)
    monkeypatch.setattr(worlds.Careless, "made", 0)
    small("OneCareless-v0", seeds=1, workers=0).learn(60)
    assert "a fork goes on" not in capfd.readouterr().err


@pytest.mark.parametrize("again", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_a_made_environment_is_one_of_its_own(again):
    env = GymnasiumSpec(id="Level-v0").make()
    env.reset(seed=0)
    copied = again(env)
    assert copied.step(env.action_space.sample())[0]["observation"].size
    assert (copied.unwrapped.steps, env.unwrapped.steps) == (1, 0)


def test_exits_are_allowed_again_afterwards():
    real = os._exit
    refused = pytest.raises(EnvironmentFailure, match=r"it called os\._exit\(3\)")
    with refused, others_code("a"), others_code("b"):
        os._exit(3)
    assert os._exit is real


# --- only one instance ----------------------------------------------------------------------------


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_an_environment_of_which_only_one_can_exist_trains_one_run(port, capsys):
    model = small("Simulator-v0", env_kwargs={"port": port}, evaluate_every=60, workers=None)
    model.learn(300)
    said = capsys.readouterr().err
    assert said.count("only one instance of Simulator-v0 can exist, as another one failed") == 1
    assert "OSError" in said and "evaluations end its open episode" in said
    curves = model.curves()
    assert (curves.phase == "evaluation").sum() == 5
    assert curves[curves.phase == "evaluation"].episode_length.eq(12).all()
    # 60 steps are five episodes: an evaluation finds none open
    assert assert_chained(model) == 0
    assert model.evaluate(2).length_mean.item() == 12
    model.learn(30)
    model.evaluate(1)  # ends the open episode
    model.learn(60)
    assert assert_chained(model) == 1
    with pytest.raises(EnvironmentFailure, match="set seeds and n_envs to 1") as caught:
        small("Simulator-v0", env_kwargs={"port": port}, seeds=2, workers=2).learn(60)
    assert "Traceback" not in str(caught.value)


def test_a_method_is_called_once_in_the_only_instance_and_ends_no_episode(port):
    made = small("Simulator-v0", env_kwargs={"port": port}, log_interval=5)
    counts = []
    model = made.learn(60, callback=lambda model: counts.extend(model.call("count")[0]))
    assert counts == [*range(1, 13)]
    assert model.curves().query("phase == 'train'").episodes.max() == 5
    assert assert_chained(model) == 0


@pytest.mark.parametrize("how", ["the user's", "by a function", "without a registered limit"])
def test_the_first_instance_of_all_may_be_the_only_one(port, how, capsys):
    with ExitStack() as ended:
        if how == "the user's":
            mine = ended.enter_context(closing(gymnasium.make("Simulator-v0", port=port)))
            model = small(mine)
        elif how == "by a function":
            model = small(lambda: worlds.Simulator(port=port), max_episode_steps=12)
        else:
            model = small("OneEver-v0", env_kwargs={"port": port})
        assert model.learn(60).evaluate(1).length_mean.item() == 12
    assert capsys.readouterr().err.count("can exist, as another one failed") == 1


# --- methods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_method_is_called_in_every_environment(workers):
    model = small("Level-v0", seeds=2, n_envs=2, workers=workers, evaluate_every=60)
    assert model.call("set_level", 0.5) == [["set 0.3", "set 0.3"]] * 2
    widths: Counter[str] = Counter()

    def raise_it(model: Model) -> None:
        found = model.call("set_level", 0.1 * (model.num_timesteps // 30 + 5), word="was")
        widths.update(word for run in found for word in run)

    model.learn(90, callback=raise_it)
    assert widths == {"was 0.5": 4, "was 0.6000000000000001": 4, "was 0.7000000000000001": 4}
    runs: Any = model._runs
    for env in (runs.env, runs.evaluation_env):
        found = env.pool.do("call", "set_level", (0.8,), {})
        assert set(found.values()) == {"set 0.8"}
    goals = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.7]])
    assert runs.env.task.reward(*goals, None)[0].item() == 0, "rewards are those of the new level"
    # new environments begin at the same level
    if workers:
        os.kill(pids_of(runs.env)[0], signal.SIGKILL)
        with pytest.raises(EnvironmentFailure):
            model.learn(30)
        model.learn(30)
        assert set(runs.env.pool.do("call", "set_level", (0.8,), {}).values()) == {"set 0.8"}
        assert runs.env.task.reward(*goals, None)[0].item() == 0
    # and so do those of a copy or a pickle
    for made in (copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert made.call("set_level", 0.9) == copy.copy(model).call("set_level", 0.9)
    model.call("set_level", 0.9)
    # but no other model's: rewards of goals 0.4 apart are still those of level 0.3
    facts = facts_of(model.spec.environment)
    assert facts.outcome(np.float32([[0.0, 0.0]]), np.float32([[0.0, 0.4]]))[0].item() == -1
    assert small("Level-v0", workers=0).learn(60).num_timesteps == 60


@pytest.mark.parametrize("workers", [0, 2])
def test_a_method_that_is_missing_or_fails_is_one_sentence(workers):
    model = small("Level-v0", n_envs=2, workers=workers)
    with pytest.raises(SpecError, match=r"Level-v0 has no method 'set_lvl'"):
        model.call("set_lvl", 2)
    with pytest.raises(EnvironmentFailure, match="there is no such level"):
        model.call("set_level", -1)
    assert model.call("set_level", 0.5) == [["set 0.3", "set 0.3"]]  # in new environments
    model.learn(30)
    again = small("Level-v0", n_envs=2, workers=workers)
    assert len(again.call("_obs")[0]) == 2, "a method may need an episode"
    with pytest.raises(EnvironmentFailure, match="there is no such level"):
        again.call("set_level", -1)
    again.learn(30)  # in new environments, in which the method is called again
    found = again.call("set_wrapper_attr", "rule", lambda: 0)
    assert found == [[True, True]], "an argument may be what pickle cannot send"
    with pytest.raises(SpecError, match="PointReach-v0 has no methods to call"):
        SAC("PointReach-v0", seeds=1).call("set_level", 2)


# --- the rest -------------------------------------------------------------------------------------


def test_an_environment_may_fail_to_close_and_may_return_no_info():
    small("Careless-v0", env_kwargs={"does": "raise", "when": "close"}).learn(30).evaluate(1)
    made = lambda: worlds.Careless(does="raise", when="close")  # noqa: E731
    small(made, max_episode_steps=12).learn(30)  # type: ignore[arg-type]
    model = small("Careless-v0", env_kwargs={"does": "no info"}).learn(60)
    assert model.evaluate(1).success_rate.notna().all()


def test_a_reward_that_changes_its_arguments_changes_nothing_else():
    plain, in_place = (
        small("Careless-v0", env_kwargs={"does": does, "terminates": True}).learn(120)
        for does in ("", "in place")
    )
    assert torch.equal(plain._rows["last"], in_place._rows["last"])


def test_an_absurd_step_limit_is_refused_and_a_long_one_takes_little_memory(monkeypatch, capsys):
    with pytest.raises(SpecError, match="a step limit of 1,000,000,000, and"):
        small("Unlimited-v0")
    assert small("Unlimited-v0", max_episode_steps=12).learn(30).num_timesteps == 30
    spec = GymnasiumSpec(id="VeryLong-v0")
    assert workers_module.row_type(spec).itemsize < 200_000
    # an episode that is longer than what is kept of it cannot be continued, but goes on
    monkeypatch.setattr(workers_module, "LONGEST_REPLAY", 5)
    env, short = (GoalEnvironments(GymnasiumSpec(id="Corridor-v0"), [1], workers=0) for _ in "ab")
    for t in range(8):
        if t == 4:
            short.load_state_dict(env.state_dict())
            assert torch.equal(short.state, env.state) and short.begin_lost() is None
        env.step(torch.full((1, 1, 2), 0.1 * t))
    assert env.elapsed.item() == 8
    short.load_state_dict(env.state_dict())
    assert short.elapsed.item() == 0 and short.begin_lost().tolist() == [[True]]
    assert "another state" not in capsys.readouterr().err, "nothing was repeated"
