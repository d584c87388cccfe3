"""Goals that are not boxes; goal functions that take one goal at a time or read infos."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from hindsight import DDPG, DQN, PPO, SAC, GoalEnvironment, load
from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.library import model as model_module
from hindsight.library.policy import Policy
from hindsight.specs.base import GOAL_KEYS
from hindsight.specs.cell import CellSpec
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.spaces import action_of, elements, policy_inputs, row_of
from hindsight.training.policies import initial_row

SMALL: dict[str, Any] = {"seeds": 2, "workers": 0, "hidden": (16,), "evaluation_episodes": 2}
OFF_POLICY = {"log_interval": 100, "learning_starts": 50, "batch_size": 16, "buffer_size": 500}


class Rooms(gym.Env[Any, Any]):
    """A square of rooms, as in MiniGrid: the agent steps up, down, left or right to a room.

    `form`: how goals are given: "cell" (MultiDiscrete), "number" (Discrete), "nested", "tuple".
    `singly`: compute_reward takes one goal; of many numbers it fails, of many cells it tells
    the worst.  `toll`: what info says a step to the right costs;
    "mixed": only away from goals.
    """

    def __init__(self, form: str = "cell", singly: bool = False, toll: str = "") -> None:
        self.form, self.singly, self.toll = form, singly, toll
        nested = Dict({"row": Box(0, 3, (1,)), "column": Box(0, 3, (1,))})
        goals = {"number": Discrete(16, start=5), "nested": nested}
        goal: Any = goals.get(form, MultiDiscrete([4, 4]))
        seen: Any = {"achieved_goal": goal, "desired_goal": goal}
        seen["observation"] = Box(0, 255, (2, 2, 1), np.uint8)
        seen |= {"direction": Discrete(4), "mission": gym.spaces.Text(9)}
        seen |= {"keys": Box(0, 9, (2, 2), np.int64), "lamp": Box(0, 255, (1,), np.uint8)}
        seen |= {"wind": Box(-1, 1, (2, 1)), "camera": Box(0, 255, (4, 4, 3), np.uint8)}
        self.observation_space: Any = Dict(seen)
        if form == "tuple":
            self.observation_space = Tuple((goal, goal, seen["observation"]))
        self.action_space = Discrete(4)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if self.singly and self.form == "number":
            assert np.shape(achieved) == ()
        far = np.asarray(achieved) != desired
        if self.form != "number":
            far = np.any(far, axis=-1)
            far = np.full(far.shape, far.any()) if self.singly else far
        if not self.toll:
            return -np.float32(far)
        infos = [info] if isinstance(info, dict) else info
        toll = np.array([one["toll"] for one in infos])
        return -np.float32(far) - toll * (far if self.toll == "mixed" else 1)

    def obs(self) -> Any:
        goals: list[Any] = [self.place.copy(), self.goal.copy()]
        if self.form == "number":
            goals = [int(5 + 4 * cell[0] + cell[1]) for cell in goals]
        if self.form == "nested":
            parts = ("row", "column")
            goals = [dict(zip(parts, np.float32(cell)[:, None], strict=True)) for cell in goals]
        seen = np.zeros((2, 2, 1), np.uint8)
        if self.form == "tuple":
            return (*goals, seen)
        rest = {"observation": seen, "direction": self.action, "mission": "go"}
        rest |= {"keys": np.array([[0, 9], [3, 4]]), "lamp": np.array([255], np.uint8)}
        rest |= {"wind": np.full((2, 1), 0.5, np.float32), "camera": np.zeros((4, 4, 3), np.uint8)}
        return {"achieved_goal": goals[0], "desired_goal": goals[1], **rest}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.integers(0, 4, (2, 2))
        self.action = 0
        return self.obs(), {}

    def step(self, action: Any) -> Any:
        self.action = int(action)
        moves = [(1, 0), (-1, 0), (0, 1), (0, -1)]
        self.place = np.clip(self.place + moves[self.action], 0, 3)
        reached = bool((self.place == self.goal).all())
        info = {"toll": 0.5 * (self.action == 2)}
        reward = -float(not reached)
        if self.toll:
            reward -= info["toll"] * (not reached if self.toll == "mixed" else 1)
        return self.obs(), reward, reached, False, info


gym.register("Rooms-v0", Rooms, max_episode_steps=12)


def rooms(**kwargs: Any) -> GymnasiumSpec:
    return GymnasiumSpec(id="Rooms-v0", kwargs=kwargs, terminates="goal")


@pytest.mark.parametrize(
    "space",
    [
        Box(-2, 2, (2, 3), np.float64), Discrete(5, start=-2), MultiBinary(4), MultiBinary((2, 3)),
        MultiDiscrete([2, 3, 4]), MultiDiscrete([2, 3], start=[4, -1]),
    ],
    ids=str,
)  # fmt: skip
def test_elements_of_a_space_come_back_from_their_rows(space):
    """Against gymnasium's own flattening, where it has the same form."""
    space.seed(0)
    some = [space.sample() for _ in range(50)]
    rows = np.stack([row_of({"x": x}, {"x": space}) for x in some])
    assert rows.shape == (50, gym.spaces.flatdim(space))
    back = elements(space, rows)
    assert back.dtype == space.dtype and np.allclose(back, np.stack(some))
    theirs = np.stack([gym.spaces.flatten(space, x) for x in some])
    np.testing.assert_allclose(rows, theirs, rtol=1e-6)


@pytest.mark.parametrize("desired", [Discrete(3), Discrete(5, start=1), MultiDiscrete([5])])
def test_goals_of_different_spaces_are_refused(desired):
    seen = Dict({"achieved_goal": Discrete(5), "desired_goal": desired, "observation": Discrete(2)})
    with pytest.raises(SpecError, match="must have the same shape, type and choices"):
        policy_inputs("Rooms", seen)
    same = Dict({**seen.spaces, "desired_goal": Discrete(5)})
    assert list(policy_inputs("Rooms", same)[0]) == ["achieved_goal", "desired_goal", "observation"]
    with pytest.raises(ValueError, match="observation is 2, which is not in its space"):
        row_of({"achieved_goal": 0, "desired_goal": 4, "observation": 2}, same.spaces)


def test_an_integer_that_float32_would_change_is_refused():
    """Two goals must not become the same."""
    spaces = {"achieved_goal": Box(0, 2**40, (2,), np.int64)}
    largest = {"achieved_goal": np.array([3, 2**24])}
    assert row_of(largest, spaces).tolist() == [3, 2**24]
    with pytest.raises(ValueError, match=r"achieved_goal is \[.*16777217\], which float32 cannot"):
        row_of({"achieved_goal": np.array([3, 2**24 + 1])}, spaces)


def test_actions_stay_in_the_box_despite_rounding():
    rng = np.random.default_rng(0)
    corners = np.array([[-1.0, -1], [1, 1], [-1, 1], [0.5, -0.3]], np.float32)
    for dtype in (np.float32, np.float64):
        for low, high in np.sort(rng.integers(-50, 50, (200, 2)) / 10):
            box = Box(low, high + 0.1, (2,), dtype)
            assert all(box.contains(action_of(box, corner)) for corner in corners)
    spec = CellSpec(environment={"id": "PointReach-v0"}, algorithm={"hidden": (4,)})
    spaces = {key: Box(-1, 1, (n,)) for key, n in zip(GOAL_KEYS, (2, 2, 4), strict=True)}
    seen = {key: rng.normal(size=(200, *space.shape)) for key, space in spaces.items()}
    # The float32 nearest to 0.2 is above it.
    for box in (Box(-1.1, 0.2, (2,), np.float32), Box(-0.2, 0.2, (2,), np.float64)):
        policy = Policy(spec, 100 * initial_row(spec, 0), spaces, box)
        actions = policy.numpy({key: x.astype(np.float32) for key, x in seen.items()})
        assert np.ptp(actions) >= 0.4 and all(box.contains(action) for action in actions)


@pytest.mark.parametrize("form", ["cell", "number"])
def test_other_goals_are_paid_and_ended_as_the_environment_says(form):
    spec = rooms(form=form)
    # Other keys with numbers belong to the observation.
    more = ("direction", "keys", "lamp", "wind")
    assert spec.keys == ("achieved_goal", "desired_goal", "observation", *more)
    assert any("camera, mission left out" in note for note in spec.facts.notes)
    env = GoalEnvironments(spec, [0], workers=0)
    assert env.state[0, 0, -7:].tolist() == [0, 9, 3, 4, 255, 0.5, 0.5]
    cells = np.array([[a, b] for a in range(4) for b in range(4)])
    native = cells if form == "cell" else 5 + 4 * cells[:, 0] + cells[:, 1]
    rows = torch.from_numpy(np.stack([row_of({"g": g}, {"g": spec.facts.goal}) for g in native]))
    achieved, desired = rows[:, None].expand(-1, 16, -1), rows[None].expand(16, -1, -1)
    never = torch.zeros(16, 16, dtype=torch.bool)
    reward, success = env.task.reward(achieved, desired, never)
    same = torch.eye(16, dtype=torch.bool)
    assert torch.equal(success, same) and torch.equal(reward, -(~same).float())
    assert env.task.terminates_on_success


@pytest.mark.parametrize(("kind", "form"), [(DQN, "cell"), (PPO, "number")])
def test_rooms_train_by_one_command_and_act(kind, form, tmp_path):
    more: dict[str, Any] = dict(OFF_POLICY) if kind is DQN else {"n_steps": 50, "batch_size": 50}
    kind("Rooms-v0", env_kwargs={"form": form}, **more, **SMALL)  # the trial finds how it ends
    more["terminates"] = "goal"
    model = kind("Rooms-v0", env_kwargs={"form": form}, **more, **SMALL).learn(200)
    env = gym.make("Rooms-v0", form=form)
    obs, _ = env.reset(seed=3)
    action, _ = model.predict(obs)
    assert env.action_space.contains(action) and len(model.evaluate(2)) == 2
    onnxruntime = pytest.importorskip("onnxruntime")
    path = model.export(tmp_path / "rooms.onnx")
    session = onnxruntime.InferenceSession(path)
    kinds = {"float": np.float32, "int64": np.int64}
    inputs = {
        x.name: np.asarray(obs[x.name], kinds[x.type[7:-1]])[None] for x in session.get_inputs()
    }
    assert session.run(["action"], inputs)[0][0] == action
    assert int(model.policy()({key: torch.from_numpy(x) for key, x in inputs.items()})[0]) == action


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (DQN, {}),
        (DQN, {"image_obs_space": True, "n_bits": 6}),
        (DDPG, {"continuous": True, "n_bits": 6}),
    ],
    ids=str,
)
def test_the_example_of_stable_baselines3_trains_by_one_command(kind, form):
    module = pytest.importorskip("stable_baselines3.common.envs")
    more: dict[str, Any] = dict(OFF_POLICY)
    if kind is DDPG:
        more |= {"train_freq": 10, "gradient_steps": 1}
    if "image_obs_space" in form:  # whose goal cannot be moved
        more["terminates"] = "goal"
    model = kind(module.BitFlippingEnv(**form), **more, **SMALL)
    # It is registered without a step limit, but truncates episodes after as many steps as bits.
    limit = form.get("n_bits", 10)
    assert model.spec.environment.step_limit == limit
    assert any(f"cuts episodes after {limit} steps" in note for note in model.notes)
    assert model.spec.environment.facts.terminates_on_success
    model.learn(200)
    assert model.curves().query("phase == 'evaluation'").return_mean.notna().all()


def test_pictures_as_goals_fit_in_memory_unless_a_person_says_otherwise(monkeypatch):
    module = pytest.importorskip("stable_baselines3.common.envs")
    env = module.BitFlippingEnv(6, image_obs_space=True)
    monkeypatch.setattr(model_module, "LARGEST_BUFFER", 8e8)
    with pytest.warns(UserWarning, match=r"keeps .* of each run, since 1,000,000 would take 62 GB"):
        model = DQN(env, log_interval=100, **SMALL).learn(100)
    assert any("observation is an image, which networks see as one row" in x for x in model.notes)
    runs: Any = model._runs
    assert 7e8 < runs.buffer.rows.numel() * 4 < 9e8
    asked = DQN(env, buffer_size=300, **SMALL)
    assert asked._most_stored() == 300


def test_a_buffer_for_little_memory_is_as_large_whatever_the_step_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(model_module, "LARGEST_BUFFER", 1e5)
    few: dict[str, Any] = SMALL | {"n_envs": 8, "log_interval": 40, "learning_starts": 50}
    fits, keeps = int(1e5 / (4 * 2 * 22)), "the replay buffer keeps 568 transitions of each run"
    with pytest.warns(UserWarning, match=keeps):
        model = SAC("PointReach-v0", max_steps=1000, **few).learn(400)
    path = model.save(tmp_path / "model.safetensors", training=True)
    with pytest.warns(UserWarning, match=keeps):
        again = load(path, env=partial(gym.make, "PointReach-v0")).learn(400)
    for runs in (model._runs, again._runs):
        assert fits - 8 < runs.buffer.n_envs * runs.buffer.n_slots <= fits
    assert again.num_timesteps == 800


@pytest.mark.parametrize(
    ("form", "words"), [("nested", "achieved_goal is a Dict"), ("tuple", "it has a Tuple")]
)
def test_nested_goals_and_tuples_are_refused_with_the_wrapper_that_takes_them(form, words):
    with pytest.raises(SpecError, match=words) as caught:
        PPO("Rooms-v0", env_kwargs={"form": form})
    assert "hindsight.GoalEnvironment(env, achieved=" in str(caught.value)

    def goal(number: int) -> Any:
        key = ("achieved_goal", "desired_goal")[number]
        if form == "tuple":
            return lambda env, obs, info: obs[number]
        return lambda env, obs, info: np.concatenate(list(obs[key].values()))

    def made() -> GoalEnvironment:
        return GoalEnvironment(gym.make("Rooms-v0", form=form), goal(0), goal(1), tolerance=0.5)

    obs, _ = made().reset(seed=0)
    assert obs["achieved_goal"].shape == (2,) and obs["observation"].ndim == 1
    model = PPO(made, max_episode_steps=9, n_steps=50, batch_size=50, **SMALL)
    assert model.spec.environment.facts.terminates_on_success
    assert model.learn(50).evaluate(1).length_mean.notna().all()


@pytest.mark.parametrize("form", ["cell", "number"])
def test_an_environment_of_single_goals_trains_as_one_of_batches(form):
    def trained(singly: bool) -> DQN:
        keys = {"form": form, "singly": singly}
        model = DQN("Rooms-v0", env_kwargs=keys, terminates="goal", **OFF_POLICY, **SMALL)
        assert any("one goal at a time" in note for note in model.notes) == singly
        return model.learn(200)

    one, other = trained(False), trained(True)
    for run in (0, 1):
        assert torch.equal(one.parameters(run, "last"), other.parameters(run, "last"))


def test_what_compute_reward_reads_of_info_is_given_and_kept_under_every_goal():
    spec = rooms(toll="always")
    assert any("compute_reward reads info" in note for note in spec.facts.notes)
    env = GoalEnvironments(spec, [0, 1], workers=0)
    for t in range(30):
        right = t % 3 == 0
        action = 2 if right else t % 2
        desired = env.state[..., env.goal_size : 2 * env.goal_size].clone()
        step = env.step(torch.full((2, 1, 1), action))
        assert step.rest is not None
        for goal in (desired, step.next_achieved, step.next_achieved.roll(1, 0)):
            reward, success = env.task.reward(step.next_achieved, goal, step.terminated)
            paid = -(~success).float() - 0.5 * right
            assert torch.allclose(reward + step.rest, paid)
    # What info does to some goals only is an error, before training or at the step.
    with pytest.raises(ValueError, match="contribution of info depends on the goal"):
        rooms(toll="mixed")
