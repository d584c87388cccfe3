"""Models learn as `train_cell` does, stop, continue, and are saved and loaded."""

import copy
import math
import pickle
import re
import signal
import subprocess
import sys
import threading
import warnings
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch

import hindsight
from hindsight import DQN, PPO, SAC, TD3
from hindsight.io.checkpoints import load, save
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import EnvironmentFailure, SpecError
from hindsight.training.cell import Execution, train_cell
from tests.envs.corridor import Corridor
from tests.support.commands import python
from tests.support.curves import CLOCKS

SMALL: dict[str, Any] = {
    "hidden": (8,), "log_interval": 30, "learning_starts": 20, "batch_size": 16, "buffer_size": 500,
    "evaluate_every": 60, "evaluation_episodes": 2, "seeds": 2, "workers": 0,
}  # fmt: skip


def small(env: Any = "Corridor-v0", **more: Any) -> SAC:
    return SAC(env, **{**SMALL, **more})


@pytest.mark.parametrize("kind", [SAC, PPO])
def test_a_model_learns_what_the_command_trains(kind, tmp_path):
    """The same numbers as a cell's, to the bit."""
    keys: dict[str, Any] = {"hidden": (8,), "batch_size": 16}
    if kind is PPO:
        keys |= {"n_steps": 80, "n_epochs": 2}
        section = {"hindsight": {"strategy": "final", "fidelity": "described"}}
    else:
        keys |= {"log_interval": 40, "learning_starts": 20}
        section = {"replay": {"strategy": "future", "fidelity": "described"}}
    model = kind("PointReach-v0", seeds=2, evaluate_every=80, evaluation_episodes=3, **keys)
    model.learn(160)
    cell = CellSpec.model_validate(
        {
            "environment": {"id": "PointReach-v0"}, "algorithm": {"name": kind.algorithm, **keys},
            "seeds": 2, "steps": 160, "evaluation": {"points": 2, "episodes": 3},
            "early_end": None, **section,
        }
    )  # fmt: skip
    expected = pd.read_parquet(train_cell(cell, tmp_path, Execution())).drop(columns=CLOCKS)
    found = model.curves().drop(columns=CLOCKS)
    pd.testing.assert_frame_equal(
        found, expected, check_dtype=False, check_exact=False, rtol=1e-6, check_like=True
    )
    rows = load(next(tmp_path.rglob("policies/**/*.safetensors")))["rows"]
    assert torch.equal(parameters(model), rows)


def parameters(model: Any) -> torch.Tensor:
    return torch.stack([model.parameters(run, "last") for run in (0, 1)])


def test_callbacks_are_called_after_every_iteration_and_may_stop():
    heard: list[int] = []
    several = [lambda model: heard.append(model.num_timesteps), lambda model: len(heard) < 3]
    model = small().learn(300, callback=several)
    assert heard == [30, 60, 90] and model.num_timesteps == 90
    assert model.curves().query("phase == 'evaluation'").env_steps.max() == 90
    assert model.learn(300, callback=lambda model: False).num_timesteps == 120


def test_a_budget_is_rounded_up_to_whole_iterations_with_a_warning(capsys, recwarn):
    model = small().learn(10, progress=True)
    (warning,) = recwarn
    words = r"learn\(10\) trains 30 steps, .* whole iterations of 30"
    assert re.match(words, str(warning.message))
    assert model.num_timesteps == 30
    assert "evaluations of 2 episodes took" in capsys.readouterr().err
    model.learn(60)
    assert len(recwarn) == 1


@pytest.mark.parametrize(
    "more", [{"learning_starts": 30}, {"max_episode_steps": 31}, {"train_freq": 31}]
)
def test_a_call_that_learns_nothing_warns(more):
    with pytest.warns(
        UserWarning, match="nothing is learned yet: the first update follows step 31 "
    ):
        model = small(**more).learn(30)
    assert not model.curves().updates.any()


def test_calls_of_learn_that_end_early_do_not_put_evaluations_off():
    """As one call would, a model is evaluated every `evaluate_every` steps."""
    model = SAC(
        "PointReach-v0", seeds=1, hidden=(8,), evaluate_every=1000, log_interval=250,
        evaluation_episodes=1, learning_starts=10_000,
    )  # fmt: skip
    with warnings.catch_warnings(action="ignore"):  # nothing is learned
        for _ in range(4):

            def stop(model):
                if model.num_timesteps % 750 == 0:
                    raise Stopped

            with pytest.raises(Stopped):
                model.learn(2000, stop)
        model.learn(1000)
    steps = model.curves().query("phase == 'evaluation'")["env_steps"].tolist()
    assert steps == [1000, 2000, 3000, 4000]


class Stopped(Exception):
    """A callback's own."""


def test_ctrl_c_ends_learn_after_an_iteration_and_another_call_continues():
    once, interrupted = small().learn(90), small()

    def interrupt(model: Any) -> None:
        if model.num_timesteps == 30:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted.learn(90, callback=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted.num_timesteps == 60  # noticed after the next iteration
    assert torch.equal(parameters(once), parameters(interrupted.learn(30)))


def test_a_callback_that_is_none_begins_nothing(tmp_path):
    path = small().learn(30).save(tmp_path / "model")
    model = hindsight.load(path)
    with pytest.raises(SpecError, match="callback: 5 is not allowed"):
        model.learn(30, callback=5)
    assert model.num_timesteps == 30 and len(model.curves())


@pytest.mark.parametrize("goes_on", [None, False])
def test_ctrl_c_in_the_last_callback_is_noticed(goes_on):
    def interrupt(model: Any) -> bool | None:
        signal.raise_signal(signal.SIGINT)
        return goes_on

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), warnings.catch_warnings(action="ignore"):
            small().learn(30, callback=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_error_within_an_iteration_ends_the_training(tmp_path, monkeypatch):
    model = small(seeds=1).learn(30)
    monkeypatch.setattr(model._runs, "_chunk", lambda *x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.learn(30)
    for call in (
        lambda: model.learn(30),
        lambda: model.save(tmp_path / "a.safetensors", training=True),
    ):
        with pytest.raises(SpecError, match="an error ended the training within an iteration"):
            call()
    assert model.save(tmp_path / "a.safetensors").exists() and model.policy() is not None


@pytest.mark.parametrize("n_envs", [1, 4])
@pytest.mark.parametrize("evaluate_every", [30, 200])
def test_iterations_and_evaluations_count_steps_of_a_run(n_envs, evaluate_every):
    """With several environments as with one; evaluations shorten the usual iterations."""
    seen = []
    keys = {"hidden": (8,), "seeds": 1, "evaluation_episodes": 1, "learning_starts": 5000}
    model = SAC("PointReach-v0", n_envs=n_envs, evaluate_every=evaluate_every, **keys)
    model.learn(600, callback=lambda model: seen.append(model.num_timesteps))
    step = evaluate_every + -evaluate_every % n_envs
    expected = list(range(step, 600 + step, step))
    assert seen == expected
    curves = model.curves()
    assert curves[curves.phase == "evaluation"].env_steps.tolist() == expected
    assert model.spec.algorithm.log_interval == evaluate_every
    assert SAC("PointReach-v0", **keys).spec.algorithm.log_interval == 1000


def test_evaluations_that_cannot_be_as_frequent_as_asked_are_announced():
    with pytest.warns(
        UserWarning, match=r"every 8,192 steps, not every 1,000, .* \(n_steps times n"
    ):
        PPO("PointReach-v0", n_envs=4, evaluate_every=1000)
    with pytest.warns(UserWarning, match=r"every 500 steps, not every 100, .* \(log_interval\)"):
        SAC("PointReach-v0", evaluate_every=100, log_interval=500)
    with pytest.warns(UserWarning, match=r"every 36 steps, not every 25, .* \(log_interval\)"):
        SAC("PointReach-v0", n_envs=4, evaluate_every=25, log_interval=10)
    with warnings.catch_warnings(action="error"):
        PPO("PointReach-v0", n_envs=4)


def test_predictions_are_those_of_the_latest_parameters_and_random_if_asked():
    model, obs = small(), gym.make("Corridor-v0").reset(seed=0)[0]

    def acts() -> list[Any]:
        return [model.predict(obs, which=which)[0].tolist() for which in ("best", "last")]

    def now() -> list[Any]:
        return [model.policy(which=which).numpy(obs).tolist() for which in ("best", "last")]

    def look(model: Any) -> bool:
        assert acts() == now()
        return model.num_timesteps < 60

    model.learn(300, callback=look)
    assert acts() == now()
    drawn = [model.predict(obs, deterministic=False, run=i % 2)[0] for i in range(20)]
    assert len(np.unique(drawn, axis=0)) == 20
    batch = {key: np.stack([value] * 3) for key, value in obs.items()}
    several = model.predict(batch, deterministic=False)[0]
    assert several.shape == (3, 2) and len(np.unique(several, axis=0)) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"desired_goal": None}, "'desired_goal' is missing; it needs achieved_goal"),
        ({"achieved_goal": np.zeros(3)}, r"achieved_goal has shape \(3,\); it must be \(2,\), or"),
        ({"achieved_goal": np.zeros((4, 2))}, "either all parts or none"),
        (
            dict.fromkeys(("achieved_goal", "desired_goal"), np.zeros((4, 2)))
            | {"observation": np.zeros((3, 1, 3))},
            "of the same length$",
        ),
        ({"desired_goal": np.float32([0, np.nan])}, "desired_goal must hold finite numbers"),
        ({"desired_goal": np.float64([0, 1e300])}, "desired_goal must hold finite numbers"),
        ({"desired_goal": np.array([0, 1j])}, "desired_goal must hold finite numbers"),
        ({"desired_goal": np.array(["a", "b"])}, "desired_goal must hold finite numbers"),
        ({"desired_goal": [[0.0], [0.0, 1.0]]}, "desired_goal must be one array; its parts differ"),
    ],
)
def test_an_observation_that_does_not_fit_is_an_error(change, words):
    model = small()
    obs, _ = gym.make("Corridor-v0").reset(seed=0)
    given = {key: value for key, value in {**obs, **change}.items() if value is not None}
    with pytest.raises(SpecError, match=words):
        model.predict(given)
    with pytest.raises(SpecError, match="it must be a dictionary of achieved_goal"):
        model.predict(np.zeros(3))


@pytest.mark.parametrize("choice", [8, -1, 1.5])
def test_a_choice_that_is_none_of_its_space_is_an_error(choice):
    class Chosen(gym.ObservationWrapper[Any, Any, Any]):
        def __init__(self, env: Any) -> None:
            super().__init__(env)
            more = {"gear": gym.spaces.Discrete(5, start=3)}
            self.observation_space = gym.spaces.Dict({**env.observation_space.spaces, **more})

        def observation(self, observation: Any) -> Any:
            return {**observation, "gear": 4}

    model = small(lambda: Chosen(gym.make("Corridor-v0")))
    obs, _ = model.get_env().envs[0].reset(seed=0)
    model.predict(obs)
    with pytest.raises(SpecError, match=r"gear is .*, which is not in its space Discrete"):
        model.predict({**obs, "gear": choice})


def test_the_best_evaluation_is_kept_and_its_run_acts():
    model = small()
    model._note = lambda *arguments: None  # type: ignore[method-assign]
    scores = iter([[0.5, 0.5], [0.2, 0.9], [0.5, 0.1]])  # share of successes of each run

    class Found:
        def evaluate(self) -> dict[str, torch.Tensor]:
            success = torch.tensor(next(scores))
            return {"success_rate": success, "return_mean": torch.zeros(2)}

    for step in range(3):
        model._rows["last"] = torch.full_like(model._rows["last"], step)
        model._test(Found())  # type: ignore[arg-type]
    assert model.best_run == 1
    assert [float(model.parameters(run)[0]) for run in (0, 1)] == [2.0, 1.0]  # a tie: the later
    assert float(model.parameters(which="last")[0]) == 2.0


def test_a_diverged_run_keeps_its_best_parameters_and_is_named():
    model = SAC("PredatorPrey-v0", learning_rate=1.0, **{**SMALL, "evaluate_every": 200})
    with pytest.warns(UserWarning, match=r"the run with seed \d has diverged"):
        model.learn(1200)
    last = parameters(model)
    assert not last.isfinite().all() and all(model.parameters(r).isfinite().all() for r in (0, 1))
    assert len(model.evaluate(2)) == 2
    gone = int(np.flatnonzero(~last.isfinite().all(1))[0])
    with pytest.raises(SpecError, match=f"run {gone}: has diverged, so its last parameters"):
        model.evaluate(1, run=gone, which="last")
    with pytest.raises(SpecError, match=f"run {gone}: has diverged"):
        model.policy(gone, "last")


def test_prioritised_replay_needs_no_hindsight():
    model = DQN("BitFlipping-v0", her=None, prioritized=True, seeds=1)
    assert model.spec.replay is not None and model.spec.replay.prioritized
    with pytest.raises(SpecError, match=r"alpha=0\.5 has no effect$"):
        DQN("BitFlipping-v0", her=None, alpha=0.5, seeds=1)
    with pytest.raises(SpecError, match="seeds: 0 is not allowed"):
        DQN("BitFlipping-v0", seeds=0)


# --- environments ---------------------------------------------------------------------------------


def test_an_environment_may_be_an_id_a_function_or_an_instance():
    by_id = small(env_kwargs={"terminates": True})
    of_instance = small(gym.make("Corridor-v0", terminates=True))
    by_function = small(lambda: gym.make("Corridor-v0", terminates=True))
    copied = small(Corridor(terminates=True), max_episode_steps=12)
    first, *others = (
        parameters(each.learn(60)) for each in (by_id, of_instance, by_function, copied)
    )
    assert all(torch.equal(first, other) for other in others)
    assert of_instance.spec.environment == by_id.spec.environment
    ours = [
        SAC(lambda: gym.make("PointReach-v0", range=2.0, max_steps=30), seeds=1),
        SAC("PointReach-v0", range=2.0, max_episode_steps=30, seeds=1),
        SAC(gym.make("PointReach-v0", range=2.0, max_episode_steps=30), seeds=1),
        # its own limit, or the wrapper's: the one that is met first
        SAC(gym.make("PointReach-v0", range=2.0, max_steps=30, max_episode_steps=99), seeds=1),
        SAC(gym.wrappers.TimeLimit(gym.make("PointReach-v0", range=2.0), 30), seeds=1),
        SAC(gym.make("PointReach-v0", range=2.0), seeds=1, max_steps=30),
    ]
    assert {each.spec.environment for each in ours} == {
        SAC("PointReach-v0", range=2.0, max_steps=30, seeds=1).spec.environment
    }
    assert DQN(gym.make("BitFlipping-v0"), n_bits=5).spec.environment.step_limit == 5


def test_an_object_is_not_taken_for_another_one_of_another_process(tmp_path):
    """A pickle names an environment that only its own process has."""
    path, model = tmp_path / "model.pickle", small(lambda: Corridor(), max_episode_steps=12)
    path.write_bytes(pickle.dumps(model))
    told = python(
        "import pickle\n"
        "from tests.library.test_model import Corridor, small\n"
        "small(lambda: Corridor(terminates=True), max_episode_steps=12)\n"
        f"pickle.load(open({str(path)!r}, 'rb')).learn(9)\n"
    )
    assert (
        "was passed as an object in another process, and this one does not have it"
        in told.finished().stderr
    )


def drawn(picture: Any) -> Corridor:
    """Its way of drawing is its own: another one of its class lacks it."""
    env: Any = Corridor()
    env.metadata = {"render_modes": ["rgb_array"], "render_fps": 0.5}
    env.render_mode, env.render = "rgb_array", lambda: picture
    return env


def test_an_instance_is_filmed_as_it_draws_itself(tmp_path):
    model = small(drawn(np.zeros((8, 8, 3), np.uint8)), max_episode_steps=12)
    assert model.film(tmp_path / "a.gif", episodes=1).stat().st_size > 0
    with pytest.raises(FileError, match=r"cannot be filmed: .*returned NoneType of shape"):
        small(drawn(None), max_episode_steps=12).film(tmp_path / "b.gif")
    plain: Any = Corridor()
    plain.metadata, plain.render_mode = {"render_modes": ["rgb_array"]}, "rgb_array"
    with pytest.raises(FileError, match="cannot be filmed: it has no render method"):
        small(plain, max_episode_steps=12).film(tmp_path / "c.gif")
    with pytest.raises(FileError, match=r"must be a \.gif or \.mp4"):  # before it cannot be filmed
        small(plain, max_episode_steps=12).film(tmp_path / "c.avi")


class Uncopied(Corridor):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot be copied")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: small(Uncopied(), max_episode_steps=9), "pass a function that creates one"),
        (lambda: small(Corridor()), "Corridor has no step limit that is always the same"),
        (lambda: small(3), "it must be a gymnasium id, a function"),
        (
            lambda: PPO(gym.wrappers.TimeLimit(gym.make("PredatorPrey-v0"), 6)),
            "PredatorPrey-v0 takes no step limit from a wrapper",
        ),
        (
            lambda: SAC(
                lambda: gym.wrappers.TimeLimit(gym.make("PointReach-v0"), 10), max_episode_steps=20
            ),
            "20 has no effect, because the environment itself ends episodes after 10",
        ),
        (lambda: small(lambda: 3), "returned int, not an environment"),
        (lambda: PPO("PredatorPrey-v0", dense_reward=True), "leave hindsight off"),
        (lambda: PPO("PointReach-v0", her=None, fidelity="released"), "fidelity has no effect"),
        (lambda: small(her="past"), "'past' is not allowed"),
        (lambda: small(her="final", strategy="future"), "her and strategy are the same: give one"),
        (
            lambda: small(env_kwargs={"terminates": True}, kwargs={}),
            "are given already, as env_kwargs",
        ),
        (lambda: small(name="td3"), "unknown option 'name'; sac has actor_learning_rate"),
        (lambda: SAC("PointReach-v0", id="Corridor-v0"), "unknown option 'id'; PointReach-v0 has"),
        (lambda: SAC("PointReach-v0", env_kwargs={"id": "Corridor-v0"}), "id is not allowed; env"),
        (lambda: small(actor_lr=1, actor_learning_rate=2), "are the same: give one"),
        (
            lambda: SAC("PointReach-v0", max_steps=9, max_episode_steps=8),
            "max_steps is given twice",
        ),
        (lambda: SAC("PointReach-v0", env_kwargs={"range": 1, "goal_range": 2}), "is given twice"),
        (lambda: SAC("PointReach-v0", env_kwargs={"range": 1}, range=2), "range is given twice"),
        (lambda: PPO("Corridor-v0", preset="robotics"), "'robotics' was tuned for sac, not for"),
        (lambda: small(env_kwargs={"terminates": np.bool_(True)}), "a file cannot hold it"),
        (lambda: small(evaluate_every="x"), "evaluate_every: 'x' is not allowed; it must be a"),
        (
            lambda: small(device=torch.device("meta")),
            "device 'meta' is unknown; choose from auto, cpu",
        ),
        (lambda: small().learn(0), "total_timesteps: 0 is not allowed"),
        (lambda: small().learn(float("nan")), "total_timesteps: nan is not allowed; it must be a"),
        (lambda: small().evaluate("3"), "episodes: '3' is not allowed; it must be a whole number"),
        (lambda: small().learn(9, callback=[None, 5]), "callback: 5 is not allowed"),
        (lambda: small().evaluate(0), "episodes: 0 is not allowed"),
        (lambda: small().policy(5), r"run: 5 is not allowed; choose from \[0, 1\]"),
        (lambda: small().evaluate(1, seed=-1), "seed: -1 is not allowed"),
        (lambda: small().evaluate(1, seed=None), "seed: None is not allowed"),
        (lambda: small().parameters([0]), r"run: \[0\] is not allowed; choose from"),
        (lambda: small().parameters(which={}), "which: {} is not allowed; choose from best, last"),
        (lambda: small(env_kwargs=3), "env_kwargs: 3 is not allowed; it must be a dict"),
        (lambda: small(preset=3), "unknown preset 3"),
        (lambda: small(lambda: 1 / 0), "failed: ZeroDivisionError: division by zero"),
    ],
)
def test_an_invalid_argument_is_an_error_of_one_sentence(make, words):
    with pytest.raises((SpecError, EnvironmentFailure), match=words) as caught:
        make()
    assert "\n" not in str(caught.value).split("\n\nTraceback")[0]


def test_another_default_type_of_pytorch_is_named():
    model = small()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(
            SpecError, match=r"default type is torch\.float64, which a module has set"
        ):
            model.learn(30)
    finally:
        torch.set_default_dtype(torch.float32)
    assert model.learn(30).num_timesteps == 30


def test_a_refused_preset_makes_no_environment():
    made = []
    with pytest.raises(SpecError, match="did you mean 'robotics'"):
        small(lambda: made.append(1), preset="robotic")
    assert not made


@pytest.mark.parametrize("kind", [SAC, PPO])
@pytest.mark.parametrize("way", ["a copy", "a pickle", "a file"])
@pytest.mark.parametrize("steps", [0, 60])
def test_a_copied_or_saved_model_continues_as_the_original(kind, way, steps, tmp_path):
    def copied(model: Any) -> Any:
        if way == "a copy":
            return copy.deepcopy(model)
        if way == "a pickle":
            return pickle.loads(pickle.dumps(model))
        return kind.load(model.save(tmp_path / "model.safetensors", training=True), workers=0)

    small_ppo = {"hidden": (8,), "n_steps": 30, "evaluation_episodes": 2, "seeds": 2, "workers": 0}
    model = kind("Corridor-v0", **(small_ppo if kind is PPO else SMALL))
    if steps:
        model.learn(steps)
    other = copied(model)
    again = copied(other)  # before it has learned
    for each in (model, other, again):
        each.learn(60)
    assert torch.equal(parameters(model), parameters(other))
    assert torch.equal(parameters(model), parameters(again))
    columns = [each.curves().drop(columns=CLOCKS) for each in (model, again)]
    pd.testing.assert_frame_equal(*columns)


def test_a_copy_whose_environments_fail_first_goes_on_later(monkeypatch):
    model = small().learn(60)
    other = copy.deepcopy(model)
    with monkeypatch.context() as patch:
        patch.setattr("hindsight.library.model.runs_of", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            other.learn(60)
    for each in (model, other):
        each.learn(60)
    assert torch.equal(parameters(model), parameters(other)) and other.num_timesteps == 120


def test_another_thread_waits_for_the_end_of_learn(tmp_path, monkeypatch):
    """Within an iteration, its state is not whole, but no error has torn it."""
    model, refused = small(), []

    def elsewhere() -> None:
        save = partial(model.save, tmp_path / "model.safetensors", training=True)
        for call in (save, partial(copy.deepcopy, model), partial(pickle.dumps, model)):
            with pytest.raises(SpecError, match="this model is learning already: wait") as error:
                call()
            refused.append(error)

    def iterate(runs: Any) -> Any:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return whole(runs)

    kind = type(model.learn(30)._runs)
    whole = kind.iterate
    monkeypatch.setattr(kind, "iterate", iterate)
    model.learn(30)
    assert len(refused) == 3
    assert copy.deepcopy(model).num_timesteps == 60


def test_only_one_call_of_learn_at_a_time():
    model, refused = small(), []

    def second(model: Any) -> None:
        try:
            model.learn(30)
        except SpecError as error:
            refused.append(str(error))

    def callback(model: Any) -> None:
        thread = threading.Thread(target=second, args=(model,))
        thread.start()
        thread.join()

    model.learn(60, callback=callback)
    assert refused == ["this model is learning already: wait until that call of learn ends"] * 2
    assert len(model.curves().query("phase == 'train'")) == 4
    assert model.learn(30).num_timesteps == 90


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_observations_get_no_actions(deterministic):
    model = small()
    obs, _ = gym.make("Corridor-v0").reset(seed=0)
    none = {key: np.zeros((0, *np.shape(value)), np.float32) for key, value in obs.items()}
    actions, _ = model.predict(none, deterministic=deterministic)
    assert actions.shape == (0, *model.predict(obs)[0].shape)
    before = model.parameters().clone()
    model.parameters().zero_()
    assert torch.equal(model.parameters(), before), "a copy"


# --- files ----------------------------------------------------------------------------------------


def test_actions_of_another_kind_do_not_fit(tmp_path):
    """Though they need as many outputs."""

    class Choosing(gym.ActionWrapper[Any, Any, Any]):
        def __init__(self, space: Any) -> None:
            super().__init__(gym.make("Corridor-v0"))
            self.action_space = space

        def action(self, action: Any) -> Any:
            return self.env.action_space.sample()

    MultiDiscrete, Discrete = gym.spaces.MultiDiscrete, gym.spaces.Discrete
    small_ppo = {"seeds": 1, "hidden": (4,), "evaluation_episodes": 1}
    path = PPO(lambda: Choosing(MultiDiscrete([3, 3])), **small_ppo).save(
        tmp_path / "x.safetensors"
    )
    assert PPO.load(path, lambda: Choosing(MultiDiscrete([3, 3]))).seeds == [0]
    for other in (Discrete(6), gym.spaces.MultiBinary(3)):
        with pytest.raises(SpecError, match=r"has actions of .* choices, and the policies in"):
            PPO.load(path, lambda other=other: Choosing(other))


def test_a_buffer_that_goes_on_in_another_task_is_named(tmp_path, recwarn):
    """Not for the same object, which has another id each time."""
    known = gym.registry["Corridor-v0"]
    gym.register("Corridor-v1", known.entry_point, max_episode_steps=known.max_episode_steps)
    made = partial(gym.make, "Corridor-v0")
    for first, then, told in ((made, made, 0), ("Corridor-v0", "Corridor-v1", 1)):
        path = small(first).learn(60).save(tmp_path / "x.safetensors", training=True)
        recwarn.clear()
        SAC.load(path, then).learn(30)
        assert sum("are still those of Corridor-v0" in str(x.message) for x in recwarn) == told
    del gym.registry["Corridor-v1"]


def test_evaluations_as_rare_as_may_be_are_saved(tmp_path):
    model = small(evaluate_every=10**16)
    assert hindsight.load(model.save(tmp_path / "x.safetensors")).evaluate_every <= 10**15


def test_a_saved_model_acts_as_before_and_has_its_curves(tmp_path):
    model = small().learn(60)
    again = SAC.load(model.save(tmp_path / "model.safetensors"))
    name = "SAC with hindsight (future, described) on Corridor-v0"
    assert repr(again) == f"<{name}: 2 runs, 60 steps trained>"
    assert repr(again.policy()) == f"<policy of {name}>"
    pd.testing.assert_frame_equal(again.curves(), model.curves())
    assert again.best_run == model.best_run and again.num_timesteps == 60
    obs, _ = gym.make("Corridor-v0").reset(seed=0)
    assert np.array_equal(again.predict(obs)[0], model.predict(obs)[0])
    pd.testing.assert_frame_equal(again.evaluate(2), model.evaluate(2))
    with pytest.warns(UserWarning, match="continues from the parameters in .* alone"):
        assert again.learn(30).num_timesteps == 30


def test_the_name_of_the_environment_keeps_its_parameters(tmp_path):
    path = PPO("PredatorPrey-v0", prey="repel", hidden=(8,), seeds=1).save(
        tmp_path / "hunt.safetensors"
    )
    where: Any = PPO.load(path, env="PredatorPrey-v0").spec.environment
    assert where.prey == "repel"
    where = PPO.load(path, env=gym.make("PredatorPrey-v0", grid_size=7)).spec.environment
    assert (where.prey, where.grid_size) == ("static", 7)
    path = small(env_kwargs={"terminates": True}).save(tmp_path / "model.safetensors")
    found: Any = SAC.load(path, env="Corridor-v0").spec.environment
    assert found.kwargs == {"terminates": True}
    found = SAC.load(path, env="tests.envs.corridor:Corridor-v0").spec.environment
    assert found.kwargs == {"terminates": True}
    found = SAC.load(path, env=partial(gym.make, "Corridor-v0")).spec.environment
    assert found.kwargs == {} and found.id.startswith("given/")
    again = partial(gym.make, "Corridor-v0")
    small(again, success="any").save(path)
    assert SAC.load(path, env=again).spec.environment.success == "any"
    small(success="any").save(path)
    with pytest.warns(UserWarning, match="keeps success=any from the training"):
        SAC.load(path, env=again)


def test_a_file_of_another_kind_is_an_error(tmp_path):
    path = small().save(tmp_path / "model.safetensors")
    with pytest.raises(FileError, match=r"is a model of sac; load it with SAC\.load"):
        TD3.load(path)
    saved = load(path)
    save(path, {**saved, "last": saved["last"][:, :-1]})
    with pytest.raises(FileError, match="do not match its specification"):
        SAC.load(path)
    given = small(lambda: Corridor(), max_episode_steps=12)
    with pytest.raises(SpecError, match="was passed as an object"):
        SAC.load(given.save(tmp_path / "given.safetensors"))


def altered(saved: dict[str, Any], *keys: str, by: Any) -> dict[str, Any]:
    """A file's content with another value of a nested key, or without it."""
    part = saved
    for key in keys[:-1]:
        part = part[key]
    if by is None:
        del part[keys[-1]]
    else:
        part[keys[-1]] = by(part[keys[-1]]) if callable(by) else by
    return saved


@pytest.mark.parametrize(
    ("keys", "by", "words"),
    [
        (["steps"], math.nan, "is damaged: nan is not a number of steps"),
        (["steps"], 10**400, "is damaged: 1000.* is not a number"),
        (["steps"], 90, "is damaged: 2 iterations are not 90 steps"),
        (["evaluate_every"], 0, "is damaged: 0 is not a number"),
        (["scores"], lambda scores: scores[:-1], "lacks the steps or the scores of a run"),
        (["scores"], [[0.0], [1.0]], "is damaged: not enough values"),
        (["scores"], [["a", 0.0]] * 2, "is damaged: could not convert"),
        (["scores"], [[0.0, math.nan]] * 2, "is damaged: a score is not a number"),
        (["curves", "train", "return_mean"], lambda x: x[1:], "is damaged: All arrays must be"),
        (["curves", "train"], lambda columns: {"seed": columns["seed"]}, "damaged: Cannot conv"),
        (["curves", "train", "seed"], torch.zeros(2, 3), "is damaged: "),
        (["curves"], {}, "is damaged: 'train'"),
        (["curves", "train", "seed"], 7, "is damaged: "),
        (["training", "iteration"], -5, "is damaged: -5 is not a number"),
        (["training"], [], "is damaged: list indices"),
        (["format"], "hindsight model 2", "newer version of hindsight .'hindsight model 2'.; upda"),
        (["format"], "", "is not a policy file: its format is ''"),
    ],
)
def test_a_file_with_impossible_values_is_named(tmp_path, keys, by, words, one_saved):
    """At once, not when `learn` or `curves` stumbles over them."""
    save(path := tmp_path / "model.safetensors", altered(load(one_saved), *keys, by=by))
    with pytest.raises(FileError, match=words) as caught:
        SAC.load(path, workers=0)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("keys", "by"),
    [
        (["recent"], None),
        (["recent", "episodes"], lambda runs: runs[:-1]),
        (["recent", "episodes"], lambda runs: [[episode[:2] for episode in run] for run in runs]),
        (["recent", "finished"], lambda x: x[:-1]),
        (["recent", "finished"], lambda x: x.double()),
        (["recent", "so_far"], lambda x: x[:-1]),
        (["clock", "wall"], lambda x: x[:-1]),
        (["switched"], lambda x: x[:-1]),
        *((["buffer", name], lambda x: x[:1]) for name in ("rows", "elapsed", "oldest", "left")),
        *((["env", name], lambda x: x[:1]) for name in ("obs", "elapsed", "actions")),
    ],
)
def test_a_state_of_a_training_that_is_not_whole_is_named(tmp_path, keys, by, one_saved):
    save(path := tmp_path / "model.safetensors", altered(load(one_saved), "training", *keys, by=by))
    model = SAC.load(path, workers=0)
    words = "its training is damaged, of another task or of another version of this package, and"
    for _ in range(2):
        with pytest.raises(FileError, match=words) as it:
            model.learn(30)
        assert "\n" not in str(it.value)


def test_what_other_versions_trained_is_named(tmp_path, one_saved):
    saved = load(one_saved)
    assert saved["versions"]["gymnasium"] == gym.__version__
    saved["versions"]["gymnasium"] = "0.9"
    save(path := tmp_path / "model.safetensors", saved)
    words = rf"made with gymnasium 0.9 \(now {gym.__version__}\); what follows may differ"
    with pytest.warns(UserWarning, match=words):
        SAC.load(path, workers=0).learn(30)


@pytest.mark.parametrize("versions", [5, [], "x", None, {"": "1"}])
def test_versions_that_are_none_are_named(tmp_path, versions, one_saved):
    save(path := tmp_path / "model.safetensors", {**load(one_saved), "versions": versions})
    with pytest.raises(FileError, match=r"model.safetensors: its training is damaged: "):
        SAC.load(path, workers=0).learn(30)


def test_a_model_may_have_a_name_like_a_cell_s(tmp_path, one_saved):
    path = tmp_path / "sac-1764529083-202611301858.safetensors"
    path.write_bytes(one_saved.read_bytes())
    assert SAC.load(path).num_timesteps == 60


@pytest.fixture(scope="module")
def one_saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    return small().learn(60).save(path, training=True)


def test_a_wrapper_s_time_limit_is_the_environment_s_own(tmp_path):
    """So a policy may be loaded into an environment with another limit."""

    def limited(steps: int) -> Any:
        return lambda: gym.wrappers.TimeLimit(Corridor(), steps)

    model = small(limited(12))
    assert model.spec.environment.step_limit == 12
    assert not any("limit cuts episodes" in note for note in model.notes)
    path = model.save(tmp_path / "model.safetensors")
    assert SAC.load(path, env=limited(20)).spec.environment.step_limit == 20
    assert SAC.load(path, env=limited(20)()).spec.environment.step_limit == 20
    path = small(Corridor, max_episode_steps=9).save(path)
    assert SAC.load(path, env=Corridor).spec.environment.step_limit == 9  # it has no own limit


# --- the package ----------------------------------------------------------------------------------


def test_importing_the_package_imports_nothing_large():
    code = (
        "import sys, hindsight; hindsight.__version__; "
        "assert not {'torch', 'numpy', 'gymnasium'} & set(sys.modules); "
        "import hindsight.figures.draw; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert hindsight.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no attribute 'A2C'"):
        _ = hindsight.A2C
