"""Coming from Stable-Baselines3: its words, callbacks and files, one step at a time."""

import copy
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize
from typer.testing import CliRunner

from hindsight import DDPG, DQN, PPO, SAC, TD3
from hindsight.cli import app
from hindsight.io.files import FileError
from hindsight.library.from_stable_baselines3 import INSTEAD, model_in
from hindsight.specs.errors import SpecError
from hindsight.training.evaluate import evaluate_policy as evaluated
from tests.envs.corridor import Corridor

ENV = "PointReach-v0"
SMALL: dict[str, Any] = {
    "learning_starts": 60, "log_interval": 30, "batch_size": 16, "evaluation_episodes": 2,
}  # fmt: skip
NOISE = NormalActionNoise(np.zeros(2), np.full(2, 0.25))
MOVED = NormalActionNoise(np.ones(2), np.full(2, 0.25))


def sac(env: Any = ENV, **more: Any) -> SAC:
    return SAC(env, **{"hidden": (8,), "seeds": 1, **SMALL, **more})


class Logs(BaseCallback):
    """Prints its number of calls at the tenth."""

    def _on_step(self) -> bool:
        self.logger.record("calls", self.n_calls)
        if self.n_calls == 10:
            self.logger.dump()
        return self.n_calls < 10


class Counts(BaseCallback):
    """Counts its steps, and stops after eighty."""

    def _on_step(self) -> bool:
        return self.num_timesteps >= self.n_calls and self.n_calls < 80


# --- the constructor ------------------------------------------------------------------------------

REPLAY = {"n_sampled_goal": 7, "goal_selection_strategy": "episode"}
#: Theirs, and what it is here: the values of the specification by section.
WORDS = [
    ({"replay_buffer_class": sb3.HerReplayBuffer}, {"replay.strategy": "future"}),
    ({"replay_buffer_kwargs": REPLAY}, {"replay.k": 7, "replay.strategy": "episode"}),
    ({"policy_kwargs": {"net_arch": [16, 8]}}, {"algorithm.hidden": (16, 8)}),
    ({"policy_kwargs": {"net_arch": {"pi": [9], "qf": [9]}}}, {"algorithm.hidden": (9,)}),
    ({"seed": 5}, {"seeds": 1, "first_seed": 5}),
    ({"verbose": 1, "use_sde": False, "action_noise": None, "target_update_interval": 1}, {}),
    ({"tensorboard_log": "curves", "target_entropy": "auto", "stats_window_size": 100}, {}),
    ({"device": "auto"}, {}),
    ({"train_freq": (4, "step"), "gradient_steps": -1}, {"algorithm.gradient_steps": 4}),
    ({"gradient_steps": -1, "n_envs": 3}, {"algorithm.gradient_steps": 3}),
    ({"gradient_steps": -1, "preset": "robotics"}, {"algorithm.gradient_steps": 8}),
    ({"hidden": (16, 8), "policy_kwargs": {"net_arch": [16, 8]}}, {"algorithm.hidden": (16, 8)}),
    ({"learning_rate": 1e-3, "tau": 0.01}, {"algorithm.learning_rate": 1e-3}),
    ({"actor_lr": 1e-4, "critic_lr": 2e-3}, {"algorithm.critic_learning_rate": 2e-3}),
]


@pytest.mark.parametrize(("theirs", "ours"), WORDS, ids=[next(iter(word[0])) for word in WORDS])
def test_their_words(theirs, ours):
    model = SAC("MultiInputPolicy", ENV, **SMALL, **theirs)
    for place, value in ours.items():
        found: Any = model.spec
        for name in place.split("."):
            found = getattr(found, name)
        assert found == value
    assert model.device in ("cpu", "cuda") and len(model.seeds) == (1 if "seed" in theirs else 4)


def test_noise_of_an_algorithm_that_explores_by_noise():
    assert TD3(ENV, action_noise=NOISE).spec.algorithm.exploration_noise == 0.25
    dqn = DQN("BitFlipping-v0", target_update_interval=1)
    assert dqn.spec.algorithm.target_update_interval == 1
    ddpg = DDPG(ENV, gradient_steps=-1, policy_kwargs={"n_critics": 1}).spec.algorithm
    assert ddpg.gradient_steps == ddpg.train_freq == 50


@pytest.mark.parametrize("wrap", [lambda env: env, VecMonitor])
def test_the_environments_of_a_vector_environment(wrap):
    model = sac(wrap(make_vec_env(ENV, 3, env_kwargs={"max_speed": 0.5})))
    assert model.spec.environment.id == ENV and model.spec.environment.max_speed == 0.5
    assert model.spec.algorithm.n_envs == 3
    assert sac(gymnasium.make_vec(ENV, 2)).spec.algorithm.n_envs == 2
    keyword = SAC(policy="MultiInputPolicy", env=make_vec_env(ENV, 2), n_envs=5, **SMALL)
    assert keyword.spec.algorithm.n_envs == 5
    assert SAC("MultiInputPolicy", env=ENV, **SMALL).spec.environment.id == ENV
    assert SAC(Monitor(gymnasium.make(ENV)), **SMALL).spec.environment.id == ENV


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sac(use_sde=True), "use_sde: True is not possible here; use instead: epsilon"),
        (lambda: sac(action_noise=NOISE), "action_noise: .* use instead: epsilon=0.2 takes"),
        (lambda: sac(learning_rate=lambda left: left), "learning_rate: .* instead: a number, and"),
        (lambda: PPO(ENV, policy_kwargs={"net_arch": {"pi": [8], "vf": [9]}}), "one `hidden`"),
        (lambda: SAC("CnnPolicy", ENV), "policy: 'CnnPolicy' is not .* use instead: hidden="),
        (lambda: sac(replay_buffer_class=dict), "replay_buffer_class: .* her=None is without"),
        (lambda: sac(VecNormalize(make_vec_env(ENV, 1))), "VecNormalize is not .* normalize_obs"),
        (lambda: sac(seed=0.5), "first_seed: 0.5 is not allowed"),
        (lambda: sac(seed=3, seeds=0), "seeds: 0 is not allowed"),
        (
            lambda: TD3(ENV, exploration_noise=0.3, action_noise=NOISE, **SMALL),
            "action_noise: 0.25 contradicts exploration_noise=0.3; give one",
        ),
        (lambda: SAC(**SMALL), "env: None is not allowed"),
        (lambda: sac(seed=3, first_seed=2), "seed and first_seed are the same here: give one"),
        (lambda: sac(train_freq=(1, "episode")), "train_freq: .* so give the steps of an episode"),
        # Suggestions are only of what this algorithm and environment have.
        (lambda: sac(moved_goals=True), "unknown option 'moved_goals'; hindsight train --algor"),
        (lambda: sac(policy_delay=2), "unknown option 'policy_delay'; sac has actor_learning_rate"),
        (lambda: sac(foo=1), "unknown option 'foo'; hindsight train --algorithm sac --settings l"),
        (lambda: sac(bach_size=1), "unknown option 'bach_size'; did you mean 'batch_size'"),
        (lambda: sac(activation_fn=torch.nn.Tanh), "activation_fn: .* PPO's networks have tanh"),
        (lambda: sac(n_critics=3), "n_critics: 3 is not possible here; .* there are two"),
        (lambda: PPO(ENV, n_critics=2), "n_critics: 2 is not possible here"),
        (lambda: DDPG(ENV, n_critics=2), "n_critics: 2 is not possible here"),
        (lambda: PPO(ENV, n_sampled_goal=4), "k=4 has no effect with strategy final"),
        (
            lambda: sac(k=2, replay_buffer_kwargs=REPLAY),
            "n_sampled_goal: 7 contradicts k=2; give one",
        ),
        (
            lambda: sac(her="final", replay_buffer_kwargs=REPLAY),
            "goal_selection_strategy: 'episode' contradicts her='final'; give one",
        ),
        (lambda: sac(policy_kwargs={"net_arch": [9]}), "net_arch: .9,. contradicts hidden=.8,."),
        (lambda: SAC(ENV, policy_kwargs={"net_arch": {}}), "net_arch: {} is not allowed"),
        (lambda: TD3(ENV, action_noise=MOVED), "action_noise: .* use instead: epsilon"),
        (lambda: sac(n_steps=3), "n_steps: 3 is not possible here; .* one-step returns"),
        (
            lambda: sac().learn(60).learn(30, reset_num_timesteps=True),
            "reset_num_timesteps: True is not possible; steps count on: make a new model",
        ),
        (lambda: sac().learn(30, progres_bar=True), "'progres_bar'; did you mean 'progress_bar'"),
        (lambda: sac().learn(60, StopTrainingOnMaxEpisodes(1)), "callback: Stop.* needs what only"),
    ],
)
@pytest.mark.filterwarnings("ignore:StopTraining")
def test_what_is_refused_names_our_word(make, words):
    with pytest.raises(SpecError, match=words):
        make()


@pytest.mark.parametrize("kind", [PPO, SAC, TD3, DDPG, DQN], ids=lambda kind: kind.__name__)
def test_their_defaults_are_accepted_by_name(kind):
    """Other values decide less than a default: it is typed to make a script explicit."""
    theirs = inspect.signature(getattr(sb3, kind.__name__)).parameters
    ours = {*kind.__init__.__annotations__, "policy", "learning_rate"}
    # Their None is without hindsight, and these decay; both are errors that name our word.
    refused = {"replay_buffer_class"} | {name for name in theirs if "exploration_" in name}
    env = "BitFlipping-v0" if kind is DQN else ENV
    given = {name: each.default for name, each in theirs.items() if name not in ours | refused}
    assert len(given) > 10 and kind("MultiInputPolicy", env, **given).spec.seeds == 4
    for name in refused & {*theirs}:
        with pytest.raises(SpecError, match=f"^{name}: .* use instead: "):
            kind(env, **{name: theirs[name].default})


def test_attributes_of_their_models_name_ours():
    model = sac()
    assert model.learn(60, reset_num_timesteps=True).num_timesteps == 60
    for name, instead in INSTEAD.items():
        with pytest.raises(
            AttributeError, match=re.escape(f"{name}: a model has none; use instea")
        ):
            getattr(model, name)
        assert hasattr(model, re.split(r"\W", instead)[0]) or "=" in instead
    for name in ("learning_rate", "k", "her", "n_sampled_goal", "actor_lr", "seed", "env"):
        with pytest.raises(AttributeError, match=f"{name}: a model's settings cannot be changed"):
            setattr(model, name, 1)
    with pytest.raises(AttributeError, match="'SAC' object has no attribute 'foo'"):
        model.foo  # noqa: B018
    with pytest.raises(AttributeError, match="set_env"):
        getattr(copy.deepcopy(model), "set_env")  # noqa: B009


def test_a_model_is_loaded_in_a_vector_environment(tmp_path):
    path = sac(n_envs=2).save(tmp_path / "model")
    model = SAC.load(path, DummyVecEnv([lambda: gymnasium.make(ENV)]))
    assert model.spec.algorithm.n_envs == 2 and model.spec.environment.id == ENV


def test_environments_in_other_processes_are_refused():
    env = SubprocVecEnv([lambda: gymnasium.make(ENV)] * 2)
    with pytest.raises(SpecError, match=r"SubprocVecEnv is not allowed; pass an id.* n_envs=2"):
        sac(env)
    env.close()


# --- learn, and what comes after ------------------------------------------------------------------


def test_learn_with_their_arguments_and_callbacks(tmp_path):
    counts = Counts()
    callbacks = [
        counts,
        EvalCallback(
            make_vec_env(ENV, 1), eval_freq=30, n_eval_episodes=2, verbose=0,
            best_model_save_path=str(tmp_path), log_path=str(tmp_path),
        ),
        CheckpointCallback(30, str(tmp_path), "step"),
    ]  # fmt: skip
    model = sac()
    with pytest.warns(UserWarning, match="^EvalCallback is called .* evaluate_every evaluates"):
        model.learn(
            120, callbacks, log_interval=4, progress_bar=False, tb_log_name="first",
            reset_num_timesteps=False,
        )  # fmt: skip
    # The iteration in which the eightieth step lies was the last.
    assert model.num_timesteps == 90 and counts.n_calls == 80
    results = np.load(tmp_path / "evaluations.npz")
    assert results["timesteps"].tolist() == [30, 60, 90]
    assert SAC.load(tmp_path / "best_model").num_timesteps in (30, 60, 90)
    assert len(list(tmp_path.glob("step_*"))) == 3
    mean, _ = evaluate_policy(model, model.get_env(), 2)
    assert -50 <= mean <= 0
    observations = make_vec_env(ENV, 3).reset()
    assert model.predict(observations)[0].shape == (3, 2)


class Acts(BaseCallback):
    """Notes what it is told of the training, and how the model acts."""

    def _on_training_start(self) -> None:
        self.found = [self.locals["total_timesteps"]]

    def _on_step(self) -> bool:
        observation = {key: np.ones(box.shape) for key, box in BOXES.items()}
        self.found.append(self.model.predict(observation)[0].tolist())
        return True


BOXES = gymnasium.make(ENV).observation_space.spaces  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:Acts is called")
def test_their_callbacks_see_how_the_model_acts_now_and_others_its_best(monkeypatch):
    acts, model = Acts(), sac(evaluate_every=60)
    observation = {key: np.ones(box.shape) for key, box in BOXES.items()}
    seen: list[Any] = []

    def look(model):
        both = (model.predict(observation, which=which)[0].tolist() for which in ("last", "best"))
        seen.append((*both, model.predict(observation)[0].tolist()))

    end: list[Any] = []
    monkeypatch.setattr(Acts, "_on_training_end", lambda acts: end.append(acts.model.acts_by))
    model.learn(120, [acts, look])
    assert end == ["last"]
    assert acts.found[0] == 120 and len(seen) == 4
    model.learn(30, again := Acts())
    assert again.found[0] == 150 and again.locals["total_timesteps"] == 150
    for i, (last, best, usual) in enumerate(seen[:-1]):
        assert acts.found[1 + 30 * i] == last and usual == best
    assert seen[2][0] != seen[2][1]


@pytest.mark.filterwarnings("ignore:Counts is called")
def test_their_callbacks_are_told_of_rollouts_and_the_end(monkeypatch):
    told: list[tuple[str, int]] = []
    for name in ("training_start", "rollout_start", "rollout_end", "training_end"):
        note = lambda callback, name=name: told.append((name, callback.n_calls))  # noqa: E731
        monkeypatch.setattr(Counts, f"_on_{name}", note)
    sac().learn(60, Counts())
    names, steps = zip(*told, strict=True)
    rollouts = ["rollout_start", "rollout_end"] * 2
    assert [*names] == ["training_start", *rollouts, "training_end"]
    assert steps == (0, 0, 30, 30, 60, 60)


@pytest.mark.filterwarnings("ignore:Counts is called", "ignore:training continues from the param")
def test_their_callbacks_count_the_steps_of_a_loaded_model(tmp_path):
    """One that goes on where it was, and one from its parameters alone, whose steps begin anew."""
    model = sac().learn(30)
    for training, steps in ((True, 30), (False, 0)):
        counts, path = Counts(), model.save(tmp_path / "model", training=training)
        SAC.load(path).learn(30, counts)
        assert counts.n_calls == counts.num_timesteps == steps + 30


@pytest.mark.filterwarnings("ignore:Logs is called", "ignore:nothing is learned yet")
@pytest.mark.parametrize("verbose", [0, 1])
def test_their_callbacks_log(verbose, capsys):
    model = sac(verbose=verbose).learn(30, Logs(), progress=False)
    assert ("| calls | 10" in capsys.readouterr().out) == bool(verbose)
    assert copy.deepcopy(model).logger is not model.logger


# --- their files ----------------------------------------------------------------------------------


def their_sac(env: Any) -> sb3.SAC:
    return sb3.SAC(
        "MultiInputPolicy", env, policy_kwargs={"net_arch": [8]}, device="cpu", seed=0,
        replay_buffer_class=sb3.HerReplayBuffer, learning_starts=60,
    )  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    env = DummyVecEnv([lambda: gymnasium.make(ENV)])
    their_sac(env).learn(70).save(folder / "theirs.zip")
    sb3.PPO("MultiInputPolicy", env, policy_kwargs={"net_arch": [8]}, device="cpu").save(
        folder / "ppo.zip"
    )
    return folder / "theirs.zip"


def typed(*words: str) -> Any:
    """`hindsight` in this process, which has imported Stable-Baselines3: that takes seconds."""
    return CliRunner().invoke(app, words)


def test_commands_take_their_files(saved, monkeypatch):
    monkeypatch.chdir(here := saved.parent)
    with pytest.raises(FileError, match="is a Stable-Baselines3 model, not one of ours; hindsight"):
        SAC.load(saved)
    assert "add --env" in str(typed("evaluate", "theirs.zip").exception)
    how = ["--env", ENV, "--episodes", "20", "threshold=0.8"]
    told = typed("evaluate", "theirs.zip", *how)
    model: Any = sb3.SAC.load(saved, gymnasium.make(ENV))
    expected = evaluated(model, ENV, 20, parameters={"threshold": 0.8})
    assert told.stdout.startswith(f"run 0: return {expected.return_mean:.3f} ±"), told.output
    assert "VecNormalize" not in told.stderr
    assert 0 < expected.success_rate < 1, "or all policies are alike"
    # Of other files, no code is run, whatever they hold.
    shutil.copy(saved, here / "theirs.safetensors")
    refused = typed("evaluate", "theirs.safetensors", "--env", ENV)
    assert isinstance(refused.exception, FileError)
    assert str(refused.exception).startswith("theirs.safetensors")
    for other, why in (("BitFlipping-v0", "does not fit a model"), ("CartPole-v1", "are not dict")):
        with pytest.raises(SpecError, match=why):
            evaluated(model, other, 1)
    assert typed("watch", "ppo.zip", "a.gif", "--env", ENV, "--episodes", "1").exit_code == 0
    assert (here / "a.gif").stat().st_size > 1000


def test_observations_are_as_their_normalisation_made_them(tmp_path, monkeypatch):
    """A file does not hold it."""
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make(ENV)]), norm_reward=False)
    model: Any = their_sac(env).learn(100)
    env.training, seen, act = False, [], model.predict

    def predict(obs, **keys):
        seen.append({key: value.copy() for key, value in obs.items()})
        return act(obs, **keys)

    model.predict = predict
    evaluated(model, ENV, 1)
    first, _ = gymnasium.make(ENV).reset(seed=0)
    for key, value in env.normalize_obs(first).items():
        np.testing.assert_array_equal(seen[0][key], value)
    del model.predict
    model.save(tmp_path / "theirs.zip")
    monkeypatch.chdir(tmp_path)
    told = typed("evaluate", "theirs.zip", "--env", ENV)
    # Its last observation lies outside the space, as no other could.
    assert "was trained in a VecNormalize" in str(told.exception)


@pytest.mark.parametrize("kind", ["SAC", "TD3", "DDPG", "DQN", "PPO"])
@pytest.mark.parametrize("steps", [70, 100])  # within an episode, and at its end
def test_what_was_trained_in_no_normalisation_is_not_refused(kind, steps, tmp_path, capsys):
    """Off-policy, their models keep an observation that looks like that of one."""
    env = "BitFlipping-v0" if kind == "DQN" else ENV
    starts = {} if kind == "PPO" else {"learning_starts": 60}
    more: dict[str, Any] = {"n_steps": 50, "batch_size": 50} if kind == "PPO" else starts
    make: Any = getattr(sb3, kind)
    make("MultiInputPolicy", env, device="cpu", seed=0, **more).learn(steps).save(tmp_path / "a")
    assert model_in(tmp_path / "a.zip", env) is not None
    said = capsys.readouterr().err
    assert said == "" or (steps == 100 and "does not say whether it was trained in" in said)


def test_a_model_that_was_loaded_and_saved_again_may_be_either(tmp_path, capsys):
    model = sb3.TD3("MultiInputPolicy", ENV, device="cpu", seed=0, learning_starts=60).learn(70)
    model.save(tmp_path / "a")
    sb3.TD3.load(tmp_path / "a", env=gymnasium.make(ENV)).save(tmp_path / "b")
    assert model_in(tmp_path / "b.zip", ENV) is not None
    assert "does not say whether it was trained in a VecNormalize" in capsys.readouterr().err


def test_a_normalisation_that_its_last_observation_shows_is_refused(tmp_path):
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make(ENV)]), norm_reward=False)
    model = sb3.PPO("MultiInputPolicy", env, n_steps=50, batch_size=50, device="cpu").learn(50)
    model.save(tmp_path / "a")
    with pytest.raises(SpecError, match="was trained in a VecNormalize, which the file does not"):
        model_in(tmp_path / "a.zip", ENV)


def test_their_policy_is_exported(saved, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.chdir(saved.parent)
    ran = typed("export", "theirs.zip", "theirs.onnx")
    assert ran.exit_code == 0, ran.output
    model = sb3.SAC.load(saved, gymnasium.make(ENV), device="cpu")
    model.observation_space.seed(0)
    spaces = model.observation_space.spaces
    several = {key: np.stack([space.sample() for _ in range(4)]) for key, space in spaces.items()}
    (found,) = onnxruntime.InferenceSession(saved.with_suffix(".onnx")).run(None, several)
    np.testing.assert_allclose(found, model.predict(several, deterministic=True)[0], atol=1e-5)


def test_a_vector_environment_of_theirs_without_monitors():
    """Its environments are of that package, too."""
    make = lambda: BitFlippingEnv(n_bits=4, continuous=False, max_steps=4)  # noqa: E731
    for env in (make_vec_env(make, 2), DummyVecEnv([make, make])):
        model = DQN("MultiInputPolicy", env, seed=0, terminates="goal", **SMALL)
        assert model.spec.algorithm.n_envs == 2 and model.learn(120).num_timesteps >= 120


def test_a_wrapper_of_a_vector_environment_is_refused():
    """It would be left out: here, the rewards would not be those that it pays."""
    plain = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(ENV)] * 2)
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(plain)
    assert sac(counted).spec.algorithm.n_envs == 2
    with pytest.raises(SpecError, match="TransformReward is not allowed"):
        sac(gymnasium.wrappers.vector.TransformReward(plain, lambda reward: 100 * reward))


def test_settings_without_effect_are_refused():
    short = gymnasium.wrappers.TimeLimit(Corridor(), 5)
    assert sac(short, max_episode_steps=3).spec.environment.step_limit == 3
    for env in (short, lambda: short):
        with pytest.raises(SpecError, match=r"max_episode_steps: 60 has no effect, .* 5"):
            sac(env, max_episode_steps=60)
    for workers in ("2", -1, 1.5):
        with pytest.raises(SpecError, match=r"^workers: .* is not allowed"):
            sac(workers=workers)
    with pytest.raises(SpecError, match="buffer_size: 5 is not allowed; it must be at least 6"):
        sac(buffer_size=5, n_envs=3)
