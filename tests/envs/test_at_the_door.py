"""How an environment is tried before training: where its goal is, what its rewards depend on."""

import dataclasses
import time
import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TimeLimit

from hindsight import SAC, GoalEnvironment, load
from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.envs.gymnasium import trial
from hindsight.io.files import FileError
from hindsight.replay.her import takes_one
from hindsight.specs.errors import EnvironmentFailure, SpecError, validated
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training.evaluate import evaluate_policy
from hindsight.training.recent import RecentEpisodes
from tests.training.small import through_a_file


@dataclasses.dataclass
class Point:
    x: float
    y: float


@dataclasses.dataclass(frozen=True)
class Task:
    target: Any


class Pair(NamedTuple):
    x: float
    y: float


class Slotted:
    __slots__ = ("target",)


class Hovering(gym.Env[Any, Any]):
    """A point that moves by up to 0.1 must come within 0.1 of its goal, which ends the episode
    where it `ends`; the goal is held as `held` says.
    """

    def __init__(self, held: str = "array", ends: bool = False, n: int = 2) -> None:
        self.held, self.ends, self.n = held, ends, n
        place = Box(-3, 3, (n,), np.float32)
        self.observation_space = Dict(achieved_goal=place, desired_goal=place, observation=place)
        self.action_space = Box(-1, 1, (n,), np.float32)
        self.size = 1  # equals no goal
        self.slotted = Slotted()

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(np.asarray(achieved) - desired, axis=-1) > 0.1).astype(float)

    def hold(self, goal: np.ndarray) -> None:
        plain: Any = goal.tolist()
        forms: dict[str, Any] = {
            "array": lambda: goal, "list": lambda: plain, "tuple": lambda: tuple(plain),
            "float": lambda: plain[0], "scalar": lambda: goal[0],
            "scalar32": lambda: np.float32(goal[0]),
            "dataclass": lambda: Point(*plain), "frozen": lambda: Task(goal),
            "named tuple": lambda: Pair(*plain), "dictionary": lambda: {"target": plain},
            "nested": lambda: SimpleNamespace(parts=[SimpleNamespace(target=goal)]),
            "closure": lambda: (lambda: goal), "list of two": lambda: [0 * goal, goal],
            "state": lambda: np.concatenate([self.place, goal]),
        }  # fmt: skip
        if self.held == "two attributes":
            self.goal_x, self.goal_y = plain
        elif self.held == "slots":
            self.slotted.target = goal
        elif self.held == "property":
            self._secret = lambda: goal
        else:
            self.goal = forms[self.held]()

    @property
    def target(self) -> Any:
        return self._secret()

    @target.setter
    def target(self, value: Any) -> None:
        self._secret = lambda: value

    def goal_now(self) -> Any:
        reads: dict[str, Any] = {
            "two attributes": lambda: (self.goal_x, self.goal_y),
            "slots": lambda: self.slotted.target,
            "property": lambda: self.target, "frozen": lambda: self.goal.target,
            "dataclass": lambda: (self.goal.x, self.goal.y),
            "dictionary": lambda: self.goal["target"],
            "nested": lambda: self.goal.parts[0].target, "closure": lambda: self.goal(),
            "list of two": lambda: self.goal[1], "state": lambda: self.goal[self.n :],
        }  # fmt: skip
        found = reads.get(self.held, lambda: self.goal)()
        return np.array(found, np.float32).reshape(self.n)

    def obs(self) -> dict[str, Any]:
        here = self.place.astype(np.float32)
        return {"achieved_goal": here, "desired_goal": self.goal_now(), "observation": here}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = np.zeros(self.n)
        self.hold(self.np_random.uniform(-1, 1, self.n))
        return self.obs(), {}

    def step(self, action: Any) -> Any:
        self.place = np.clip(self.place + 0.1 * np.asarray(action, float), -3, 3)
        obs = self.obs()
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        reached = reward == 0
        return obs, self.pay(reward), self.ends and reached, False, {"is_success": reached}

    def pay(self, reward: float) -> Any:
        """What the step pays, whose reward for its goals is this."""
        return reward


class Holder(gym.Wrapper[Any, Any, Any, Any]):
    """Draws the goal itself and holds it, as its environment does not."""

    def reset(self, **options: Any) -> Any:
        obs, info = self.env.reset(**options)
        self.wish = tuple(float(x) for x in self.unwrapped.np_random.uniform(-1, 1, 2))
        return self._seen(obs), info

    def step(self, action: Any) -> Any:
        obs, _, _, truncated, _ = self.env.step(action)
        obs = self._seen(obs)
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}))
        return obs, reward, self.unwrapped.ends and reward == 0, truncated, {}

    def compute_reward(self, *goals: Any) -> Any:
        return self.unwrapped.compute_reward(*goals)

    def _seen(self, obs: Any) -> Any:
        return {**obs, "desired_goal": np.array(self.wish, np.float32)}


gym.register("Hovering-v0", Hovering, max_episode_steps=20)
gym.register("Held-v0", lambda ends=False: Holder(Hovering("closure", ends)), max_episode_steps=20)


def hovering(name: str = "Hovering-v0", **kwargs: Any) -> GymnasiumSpec:
    return validated(GymnasiumSpec, {"id": name, "kwargs": kwargs})


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    ("held", "n"),
    [
        *((held, 1) for held in ("float", "scalar", "scalar32", "array", "list")),
        *((held, 2) for held in (
            "array", "list", "tuple", "dataclass", "frozen", "named tuple", "dictionary", "nested",
            "two attributes", "slots", "property", "list of two", "state",
        )),
    ],
)  # fmt: skip
def test_a_goal_is_found_however_it_is_held(held, n, ends):
    facts = hovering(held=held, n=n, ends=ends).facts
    assert facts.terminates_on_success is ends
    said = "decides when other goals end them" if ends else "does not end an episode, whichever"
    assert any(said in note for note in facts.notes)


@pytest.mark.parametrize("ends", [False, True])
def test_a_goal_that_a_wrapper_holds_is_found(ends):
    assert hovering("Held-v0", ends=ends).facts.terminates_on_success is ends


def test_where_no_goal_is_found_and_nothing_ends_every_step_is_checked():
    """It trains; the first episode that does end at its goal is an error that says what to set."""
    spec = hovering(held="closure", ends=True)
    assert not spec.facts.terminates_on_success
    assert any("goals are taken not to end episodes" in note for note in spec.notes)
    env = GoalEnvironments(spec, [0], workers=0)
    with pytest.raises(EnvironmentFailure, match="set terminates=goal"):
        for _ in range(60):
            env.step((10 * (env.state[..., 2:4] - env.state[..., :2])).clamp(-1, 1))


class Masked(Hovering):
    def goal_now(self) -> Any:
        goal = super().goal_now()
        goal[int(self.np_random.integers(2))] = np.nan
        return goal


gym.register("Masked-v0", Masked, max_episode_steps=20)


class Broken(Hovering):
    """Its observations, or what it returns, are not what its spaces promise."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        if how == "plain":
            self.observation_space = {**self.observation_space.spaces}  # type: ignore[assignment]

    def obs(self) -> dict[str, Any]:
        obs = super().obs()
        if self.how == "short":
            del obs["observation"]
        return obs | ({"observation": np.zeros(3)} if self.how == "long" else {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        obs, info = super().reset(seed=seed)
        return obs if self.how == "old" else (obs, info)

    def step(self, action: Any) -> Any:
        self.t += 1
        if self.how == "late" and self.t == 6:
            raise ZeroDivisionError("mine")
        obs, reward, terminated, truncated, info = super().step(action)
        if self.how == "four":
            return obs, reward, terminated, info
        if self.how == "text":
            return obs, reward, terminated, truncated, "hit"
        paid = np.array([reward]) if self.how == "reward" else reward
        return obs, paid, np.array([terminated]) if self.how == "ends" else False, truncated, info


gym.register("Broken-v0", Broken, max_episode_steps=20)
gym.register("BrokenForever-v0", Broken)


# -- rewards that read the environment's own state -------------------------------------------------


class Gripper(Hovering):
    """Goals count only where the gripper is open."""

    open = True

    def reset(self, **options: Any) -> Any:
        self.open = True
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.open = bool(action[0] > 0)
        return super().step(action)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (
            super().compute_reward(achieved, desired, info) if self.open else self.all_far(desired)
        )

    @staticmethod
    def all_far(desired: Any) -> Any:
        return np.full(np.shape(desired)[:-1], -1.0)[()]


class Curriculum(Hovering):
    """The tolerance shrinks, from `later` episodes on."""

    later, episodes = 0, 0

    def reset(self, **options: Any) -> Any:
        self.episodes += 1
        return super().reset(**options)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        far = np.linalg.norm(np.asarray(achieved) - desired, axis=-1)
        return -(far > max(0.5 * 0.9 ** max(self.episodes - self.later, 0), 0.1)).astype(float)


class Slow(Curriculum):
    later = 40


class Shared(Curriculum):
    """All instances share the number of episodes, so that they agree at any time."""

    later = 60
    counts: ClassVar[list[int]] = [0]

    def reset(self, **options: Any) -> Any:
        self.counts[0] += 1
        return Hovering.reset(self, **options)

    def compute_reward(self, *of: Any) -> Any:
        self.episodes = self.counts[0]
        return super().compute_reward(*of)


class Flagged(Hovering):
    """Whether goals end the episode depends on a flag that is set far from the start."""

    flag = False

    def step(self, action: Any) -> Any:
        self.flag |= bool(abs(self.place[0]) > 0.6)
        return super().step(action)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (super().compute_reward(achieved, desired, info) == 0) & (not self.flag)


class Toll(Hovering):
    """Each step costs what the last action was: a part of the reward that all goals share."""

    cost = 0.0

    def step(self, action: Any) -> Any:
        self.cost = float(np.abs(action).sum())
        return super().step(action)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return super().compute_reward(achieved, desired, info) - self.cost


class Marked(Hovering):
    """A success ends the episode, of whatever goal it is asked: asking changes the environment."""

    reached = False

    def compute_reward(self, *of: Any) -> Any:
        found = super().compute_reward(*of)
        self.reached |= bool(np.any(found == 0))
        return found

    def compute_terminated(self, *of: Any) -> Any:
        return super().compute_reward(*of) == 0

    def reset(self, **options: Any) -> Any:
        self.reached = False
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, self.reached, truncated, info


class Fickle(Hovering):
    """Its tolerance is drawn whenever it is asked."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        far = np.linalg.norm(np.asarray(achieved) - desired, axis=-1)
        return -(far > np.random.default_rng().choice([0.1, 0.4])).astype(float)


class Zipped(Hovering):
    """Rewards of one goal, whose three parts could be those of three goals."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, n=3)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -1.0 * (sum((x - y) ** 2 for x, y in zip(achieved, desired, strict=True)) > 0.01)


class Pen(Hovering):
    """Rewards that leave out the third number of one goal, and of many the third goal."""

    def __init__(self) -> None:
        super().__init__(n=3)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        achieved = np.array(achieved)
        achieved[2] = desired[2]
        return -1.0 * (np.linalg.norm(achieved - desired, axis=-1) > 0.1)


STATEFUL = [Pen, Gripper, Curriculum, Slow, Shared, Flagged, Toll, Marked, Fickle, Zipped]
for kind in STATEFUL:
    gym.register(f"{kind.__name__}-v0", kind, max_episode_steps=20)


def driven(spec: GymnasiumSpec, steps: int = 2500) -> GoalEnvironments:
    env = GoalEnvironments(spec, [0], workers=0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        env.step(2 * torch.rand(1, 1, 2, generator=generator) - 1)
    return env


def test_a_function_of_one_goal_is_not_mistaken_for_one_of_as_many_as_it_has_parts():
    rewards = hovering("Zipped-v0").facts.rewards
    assert rewards.one_at_a_time
    goals = np.float32([[0, 0, 0], [1, 0, 0], [0, 0.05, 0]])
    assert rewards(goals, goals[:1].repeat(3, 0)).tolist() == [0, -1, 0]


def test_a_function_that_fails_for_a_batch_of_one_is_asked_one_by_one():
    """As HandManipulatePen's of gymnasium-robotics."""
    rewards = hovering("Pen-v0").facts.rewards
    goals = np.float32([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    asked = goals, goals[:1].repeat(4, 0), [{}] * 4
    assert rewards(*asked[:2]).tolist() == [0, -1, -1, 0]
    assert takes_one(Pen().compute_reward, asked)
    assert not takes_one(Hovering(n=3).compute_reward, asked)


@pytest.mark.parametrize("kind", [Slow, Shared])
def test_a_reward_that_reads_it_only_later_is_an_error_then(kind):
    spec = hovering(f"{kind.__name__}-v0")
    with pytest.raises(
        EnvironmentFailure, match="compute_reward reads the environment's own state"
    ):
        driven(spec)


def test_ends_that_read_it_are_an_error():
    with pytest.raises((SpecError, EnvironmentFailure), match="compute_terminated reads the env"):
        driven(hovering("Flagged-v0", ends=True))


def test_what_all_goals_share_is_kept_as_the_rest():
    said = "reads the environment's own state (-"
    assert any(said in note for note in hovering("Toll-v0").facts.notes)
    assert not any(said in note for note in hovering().facts.notes)
    with pytest.warns(UserWarning, match="reads the environment's own state"):
        SAC("Toll-v0", seeds=1, workers=0)
    env = driven(hovering("Toll-v0"), 50)
    action = torch.tensor([[[0.5, -0.25]]])
    assert float(env.step(action).rest) == pytest.approx(-0.75)


class OwnGoal(Hovering):
    """Rewards are for its own goal, whatever goal they are asked for."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return super().compute_reward(achieved, self.goal_now(), info)


class Blind(Hovering):
    """Every goal is as good as any other."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return 0 * super().compute_reward(achieved, desired, info)


class Scaled(Hovering):
    def pay(self, reward: float) -> Any:
        return 0.1 * reward


class Near(Hovering):
    """Pays for nearness."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.linalg.norm(np.asarray(achieved) - desired, axis=-1)


class Exact(Near):
    """Pays by places in doubles, of which it shows float32; each step costs a fee."""

    def __init__(self, origin: float = 0.0, fee: float = 0.0) -> None:
        super().__init__()
        self.origin, self.fee = origin, fee

    def obs(self) -> dict[str, Any]:
        here, goal = (np.float32(x + self.origin) for x in (self.place, self.goal))
        return {"achieved_goal": here, "desired_goal": goal, "observation": here}

    def pay(self, reward: float) -> Any:
        return self.compute_reward(self.place, self.goal, {}) - self.fee


class Bonus(Hovering):
    """Pays more for success than compute_reward says."""

    def pay(self, reward: float) -> Any:
        return reward + 5 * (reward == 0)


class Metres(Hovering):
    """Positions on a map whose origin is far away, from starts that are `spread`.

    `steps`: how far a step leads in each direction.
    """

    def __init__(self, origin: float = 0.0, spread: float = 0.0, steps: Any = 1.0) -> None:
        super().__init__()
        self.middle, self.spread, self.steps = origin, spread, np.array(steps)
        far = Box(-1e7, 1e7, (2,), np.float64)
        parts = {"achieved_goal": far, "desired_goal": far}
        self.observation_space = Dict({**self.observation_space.spaces, **parts})

    def hold(self, goal: np.ndarray) -> None:
        self.origin = self.middle + self.spread * self.np_random.uniform(-1, 1, 2)
        super().hold(goal)

    def obs(self) -> dict[str, Any]:
        goals = {"achieved_goal": self.place, "desired_goal": self.goal_now().astype(float)}
        seen = {"observation": self.place.astype(np.float32)}
        return seen | {key: self.steps * x + self.origin for key, x in goals.items()}


class Far(Near, Metres):
    """Pays for nearness, less a fee."""

    def __init__(self, fee: float = 0.0, **how: Any) -> None:
        super().__init__(**how)
        self.fee = fee

    def pay(self, reward: float) -> Any:
        return reward - self.fee


class Fee(Hovering):
    """Every step costs a half more."""

    def pay(self, reward: float) -> Any:
        return reward - 0.5


class Rounded(Hovering):
    """Far away, rewards are so large that the toll is less than their rounding."""

    tolls = 0

    def pay(self, reward: float) -> Any:
        self.tolls += 1  # nor does it repeat itself
        return float(self.compute_reward(self.place, self.goal_now(), {})) - 0.01

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -1e3 * np.linalg.norm(achieved - desired, axis=-1)


class Hours(Rounded):
    """A step costs more the later it is, whatever the episode."""

    def pay(self, reward: float) -> Any:
        return super().pay(reward) - 0.01 * self.tolls


for kind in (OwnGoal, Blind, Scaled, Near, Exact, Bonus, Fee, Far, Rounded, Hours, Metres):
    gym.register(f"{kind.__name__}-v0", kind, max_episode_steps=20)


OWN = "compute_reward reads the environment's own state.*"
#: An environment, its arguments, and why it is refused before training.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Broken-v0", {"how": "short"}, "the observation of its first reset has no 'observation', wh"),
    ("Broken-v0", {"how": "long"}, r"has a 'observation' of shape \(3,\); its space has \(2,\)"),
    ("Broken-v0", {"how": "old"}, "reset must return two values, the observation and its info"),
    ("Broken-v0", {"how": "reward"}, r"returned a reward of shape \(1,\); it must be a single val"),
    ("Broken-v0", {"how": "ends"}, r"returned a terminated of shape \(1,\); it must be a single v"),
    ("Broken-v0", {"how": "text"}, "the info of its first step is a str, not a dictionary"),
    ("Broken-v0", {"how": "plain"}, "its observation_space is a dict, not a gymnasium.spaces.Dict"),
    # In the search for a step limit.
    ("BrokenForever-v0", {"how": "old"}, "reset must return two values"),
    ("BrokenForever-v0", {"how": "four"}, "step must return five values: observation, reward, ter"),
    ("BrokenForever-v0", {"how": "late"}, "failed after step 5 of a trial episode: ZeroDiv"),
    ("Unbounded-v0", {}, "actions must have bounds"),
    ("Stubborn-v0", {}, "Stubborn-v0: a reset within an episode failed: RuntimeError: finish"),
    ("Masked-v0", {}, r"desired_goal is not finite: .*nan.*add zeros and ones"),
    ("Gripper-v0", {}, f"{OWN}part of achieved_goal and desired_goal"),
    ("Curriculum-v0", {}, f"{OWN}part of achieved_goal and desired_goal"),
    ("Fickle-v0", {}, OWN),  # and info is not blamed
    ("Marked-v0", {"ends": True}, "changes the environment: steps went otherwise after"),
    ("OwnGoal-v0", {}, "did not depend on its argument desired_goal, but on the"),
    ("Scaled-v0", {}, r"its steps pay 0\.1 times what compute_reward returns"),
    ("Metres-v0", {"origin": 5.4e6}, "float32, in which goals are stored, rounds it by up to"),
    ("Metres-v0", {"origin": 5.4e6, "spread": 100.0}, "changes by at most 0.0[0-9]* within a step"),
    ("Metres-v0", {"origin": 5.4e6, "steps": [1, 300]}, "changes by at most 0.0[0-9]* within"),
]


@pytest.mark.parametrize(("name", "kwargs", "said"), REFUSED)
def test_what_is_refused_before_training_is_named(name, kwargs, said):
    with pytest.raises((SpecError, EnvironmentFailure), match=said):
        hovering(name, **kwargs)


def test_a_reward_that_every_goal_shares_is_told_of():
    said = "compute_reward returned the same for every desired goal"
    assert any(said in note for note in hovering("Blind-v0").facts.notes)
    assert not any(said in note for note in hovering().facts.notes)


def test_a_wrapper_that_shows_goals_which_compute_reward_does_not_know_is_refused():
    """Unless what it pays cannot tell."""

    def scaled(name: str, factor: float) -> Any:
        env = gym.make(name)
        space = env.observation_space
        halved = partial(gym.wrappers.TransformObservation, observation_space=space)
        return halved(env, lambda obs: {key: factor * x for key, x in obs.items()})

    with pytest.raises(SpecError, match="TransformObservation changes goals, but compute_reward"):
        SAC(lambda: scaled("Hovering-v0", 0.2), seeds=1, workers=0)
    SAC(lambda: scaled("Hovering-v0", 1.0), seeds=1, workers=0)
    SAC(lambda: scaled("Bonus-v0", 1.0), seeds=1, workers=0)


def test_rewards_of_another_size_than_those_of_other_goals_are_refused():
    for wrapper in (gym.wrappers.NormalizeReward, partial(gym.wrappers.DelayObservation, delay=2)):
        with pytest.raises(SpecError, match=r"(Normalize\w+|Delay\w+) is not allowed, bec"):
            SAC(lambda: wrapper(gym.make("Hovering-v0")), seeds=1, workers=0)  # noqa: B023
    clips = partial(gym.wrappers.ClipReward, min_reward=-0.4, max_reward=0.0)
    with pytest.raises(SpecError, match="ClipReward changes rewards by more than a constant"):
        SAC(lambda: clips(gym.make("Near-v0")), seeds=1, workers=0)
    shifted = SAC(
        lambda: gym.wrappers.TransformReward(gym.make("Near-v0"), lambda reward: reward + 1),
        seeds=1, workers=0,
    )  # fmt: skip
    assert any("+1" not in note and "must not depend on the goal" in note for note in shifted.notes)
    said = "a step's reward was 5, but compute_reward returns 0; the rest is kept under every"
    bonus, always = (hovering(name).facts for name in ("Bonus-v0", "Fee-v0"))
    assert any(said in note.replace("-0", "0") for note in bonus.notes)
    assert "what a step pays beyond compute_reward depends on the goal" in bonus.alarms[0]
    assert not always.alarms and any("a step's reward was -1.5" in note for note in always.notes)
    assert not hovering("Rounded-v0").facts.alarms and not hovering("Hours-v0").facts.alarms
    with pytest.raises(SpecError, match="with rest=refuse they must agree"):
        validated(GymnasiumSpec, {"id": "Bonus-v0", "rest": "refuse"})


@pytest.mark.parametrize(
    ("name", "kwargs", "fee"),
    [
        ("Exact-v0", {"origin": 0.0}, 1e-4),
        ("Exact-v0", {"origin": 300.0}, 3.1e-3),
        ("Far-v0", {"origin": 1e6, "steps": 10.0}, 0.5),  # no rounding of doubles
    ],
)
def test_the_rounding_of_goals_is_no_rest_but_a_small_fee_is(name, kwargs, fee):
    def refusing(fee: float) -> GymnasiumSpec:
        own = {**kwargs, "fee": fee}
        return validated(GymnasiumSpec, {"id": name, "kwargs": own, "rest": "refuse"})

    driven(refusing(0.0), 100)
    with pytest.raises(SpecError, match="with rest=refuse they must agree"):
        refusing(fee)


def test_goals_of_doubles_that_float32_keeps_apart_are_taken():
    """Also of a number that only trembles, as the height of an object that nobody touches."""
    for kwargs in ({"origin": 1000.0}, {"origin": 1.3, "steps": [1, 1e-8]}):
        assert hovering("Metres-v0", **kwargs).facts.goal.dtype == np.float64


# -- success at any step ---------------------------------------------------------------------------


class Moving(Hovering):
    """A goal that is reached moves elsewhere, as in a maze that continues."""

    def step(self, action: Any) -> Any:
        found = super().step(action)
        if found[-1]["is_success"]:
            self.hold(self.np_random.uniform(-1, 1, self.n))
        return found

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.zeros(np.shape(achieved)[:-1], bool)


class Passing(Hovering):
    """Only its fourth step succeeds; another one in the second episode of each pair."""

    def step(self, action: Any) -> Any:
        self.t += 1
        obs, _, _, _, _ = super().step(action)
        return obs, -1.0, False, False, {"is_success": self.t == self.when}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t, self.when = 0, 4 if seed is None or seed % 2 == 0 else 99
        return super().reset(seed=seed)


gym.register("Moving-v0", Moving, max_episode_steps=60)
gym.register("Passing-v0", Passing, max_episode_steps=10)


def towards(obs: Any) -> Any:
    return np.clip(10 * (obs["desired_goal"] - obs["achieved_goal"]), -1, 1).astype(np.float32)


def test_a_goal_that_moves_on_in_the_step_of_its_success_is_noticed():
    class Sudden(Moving):
        def step(self, action: Any) -> Any:
            _, reward, *ends, info = super().step(action)
            return self.obs(), reward, *ends, info

    class Late(Hovering):
        """The new goal is seen one step later, and a random step may succeed."""

        def step(self, action: Any) -> Any:
            obs, *others, info = super().step(action)
            if info["is_success"]:
                self.hold(self.np_random.uniform(-0.2, 0.2, self.n))
            return obs, *others, info

    for kind in (Sudden, Late):
        model = SAC(kind, max_episode_steps=20, seeds=1, workers=0)
        assert any("went on after its success with another goal" in note for note in model.notes)


def test_success_of_any_step_counts_where_goals_move_on():
    spec = hovering("Moving-v0")
    assert any("another goal" in note and "success=any" in note for note in spec.facts.notes)
    assert not any("another goal" in note for note in hovering().facts.notes)
    env = gym.make("Moving-v0")
    assert evaluate_policy(towards, env, 5, success="any").success_rate == 1
    assert evaluate_policy(towards, env, 5).success_rate < 0.5
    with pytest.raises(SpecError, match="choose from last, any"):
        evaluate_policy(towards, env, 5, success="some")


@pytest.mark.parametrize("told", [True, False])
def test_success_of_any_step_is_known_if_any_step_tells(told):
    """The others' infos are empty, that of the last step, too."""

    class Seldom(Passing):
        def step(self, action: Any) -> Any:
            obs, reward, *ends, info = super().step(action)
            says = told and (info["is_success"] or self.t == 2)
            return obs, reward, *ends, info if says else {}

    env = gym.wrappers.TimeLimit(Seldom(), 10)
    found = evaluate_policy(towards, env, 4, success="any").success_rate
    assert found == 0.5 if told else np.isnan(found)
    assert np.isnan(evaluate_policy(towards, env, 4).success_rate)


def test_training_and_a_file_s_evaluation_count_as_the_setting_says(tmp_path):
    for success, rate in (("last", 0.0), ("any", 1.0)):
        model = SAC(
            "Passing-v0", success=success, terminates="never", seeds=1, workers=0, hidden=(4,),
            learning_starts=10**5, log_interval=100, evaluate_every=100, evaluation_episodes=2,
            rest="drop",
        )  # fmt: skip
        with pytest.warns(UserWarning, match="nothing is learned yet"):
            model.learn(200)
        trained = model.curves().query("phase == 'train'").success_rate
        seeds = [np.asarray(x) for x in model._runs.recent.episodes]
        assert len(seeds[0]) == 20 and 0 <= trained.iloc[-1] <= rate
        assert (trained.iloc[-1] > 0) == (success == "any")
        path = model.save(tmp_path / "p.pt")
        by_hand = evaluate_policy(model, gym.make("Passing-v0"), 4, success=success)
        assert by_hand.success_rate == rate / 2  # every other seed
        assert load(path).evaluate(4).success_rate.item() == rate / 2
        assert evaluate_policy(path, "Passing-v0", 4, success="any").success_rate == 0.5


def test_an_open_episode_s_success_survives_a_checkpoint():
    recent = RecentEpisodes(1, 2, any_success=True)
    over = torch.zeros(1, 2, 3, dtype=torch.bool)
    reached = over.clone()
    reached[0, 0, 1] = True
    recent.add(torch.zeros(1, 2, 3), over, reached)
    again = RecentEpisodes(1, 2, any_success=True)
    again.load_state_dict(through_a_file(recent.state_dict()))
    over[0, :, 0] = over[0, :, 2] = True
    again.add(torch.zeros(1, 2, 3), over, torch.zeros_like(over))
    # The open episodes first, of which one had succeeded; then those that began here.
    assert [success for _, success, _ in again.episodes[0]] == [1, 0, 0, 0]
    # A success of an episode that could not go on is not that of the next one.
    recent.abandon(torch.tensor([[True, False]]))
    recent.add(torch.zeros(1, 2, 3), over, torch.zeros_like(over))
    assert [success for _, success, _ in recent.episodes[0]] == [0, 0, 0, 0]


# -- limits, ids, versions -------------------------------------------------------------------------


class Still(Hovering):
    """Cuts its episodes after 50 steps itself; random actions end them before."""

    sleep = 0.0

    def reset(self, **options: Any) -> Any:
        self.t = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        time.sleep(self.sleep)
        self.t += 1
        obs, reward, _, _, info = super().step(action)
        return obs, reward, bool(np.abs(action).max() > 0.05), self.t == 50, info


class Sluggish(Still):
    sleep = 0.05


class Stubborn(Still):
    """Must not be reset within an episode."""

    t = 50

    def reset(self, **options: Any) -> Any:
        if self.t != 50:
            raise RuntimeError("finish the episode")
        return super().reset(**options)


class Unbounded(Still):
    """Checks its actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = Box(-np.inf, np.inf, (2,), np.float32)

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        return super().step(action)


gym.register("Stubborn-v0", Stubborn, max_episode_steps=50)
gym.register("Unbounded-v0", Unbounded)
gym.register("Limited-v0", lambda steps: TimeLimit(Still(), steps))
gym.register("Still-v0", Still)
gym.register("Sluggish-v0", Sluggish, kwargs={"held": "closure"})


def test_a_limit_within_what_a_function_makes_is_found_without_a_trial(capsys):
    spec = hovering("Limited-v0", steps=20_000)
    assert spec.step_limit == 20_000 and "looking for" not in capsys.readouterr().err
    assert validated(GymnasiumSpec, spec.model_dump()) == spec  # as a file says
    with pytest.raises(SpecError, match="has a step limit of 2,000,000, and nothing can be learn"):
        hovering("Limited-v0", steps=2_000_000)


def test_the_neutral_action_shows_a_limit_that_random_ones_do_not():
    assert hovering("Still-v0").step_limit == 50


def test_what_is_missing_is_asked_at_once_and_in_time(monkeypatch, capsys):
    monkeypatch.setattr(trial, "LIMIT_SECONDS", 0.3)  # 1.5 s by the clock on the wall
    monkeypatch.setattr(trial, "SECONDS", 0.6)
    began = time.monotonic()
    with pytest.raises(SpecError, match=r"max_episode_steps=100, .* set terminates=goal or"):
        hovering("Sluggish-v0")
    assert time.monotonic() - began < 30
    assert "looking for its own in trial episodes" in capsys.readouterr().err


def test_what_takes_too_long_decides_nothing(monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", -1.0)
    with pytest.raises(
        SpecError, match="too short to tell whether reaching the goal ends an episode"
    ):
        hovering(held="list")
    assert validated(GymnasiumSpec, {"id": "Hovering-v0", "terminates": "never"}).facts


def test_a_module_s_mistyped_id_is_answered_by_one_of_its_own(tmp_path, monkeypatch):
    text = """
import gymnasium
from tests.envs.corridor import Corridor
class Mine(Corridor): pass
gymnasium.register("FetchReachMine-v0", Mine, max_episode_steps=9)
"""
    (tmp_path / "mine_alone.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match="did you mean 'mine_alone:FetchReachMine-v0'"):
        validated(GymnasiumSpec, {"id": "mine_alone:FetchReachMin-v0"})
    with pytest.raises(SpecError) as said:
        validated(GymnasiumSpec, {"id": "mine_alone:PointMaze_Medum-v3"})
    assert "did you mean" not in str(said.value)
    # One that registers another module's class, and an id without its version.
    text = 'import gymnasium\ngymnasium.register("Other-v0", "tests.envs.corridor:Corridor")\n'
    (tmp_path / "mine_too.py").write_text(text)
    for name, named in (
        ("mine_too:Other", "use 'mine_too:Other-v0'"),
        ("mine_too:Othr-v0", "mean 'mine_too:Other-v0'"),
        ("mine_too.py:Other-v0", "there is no module 'mine_too.py'; leave out .py"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=named):
            validated(GymnasiumSpec, {"id": name})


def test_an_old_id_is_answered_by_the_newest():
    """Unless it is registered and needs nothing that is gone."""
    gym.register_envs(pytest.importorskip("gymnasium_robotics"))
    for old, new in (
        ("FetchPush-v1", "FetchPush-v4"),
        ("FetchReach-v0", "FetchReach-v4"),
        ("HandManipulateEggRotate-v0", "HandManipulateEggRotate-v1"),
        ("PointMaze_UMaze-v1", "PointMaze_UMaze-v3"),
    ):
        with pytest.raises(SpecError, match=f"use '{new}'"):
            validated(GymnasiumSpec, {"id": old})
    with pytest.raises(SpecError, match="'FetchReech-v2' is unknown; did you mean 'FetchReach-v4'"):
        validated(GymnasiumSpec, {"id": "FetchReech-v2"})
    name = f"{__name__}:Hovering-v7"
    with pytest.raises(SpecError, match=f"use '{__name__}:Hovering-v0'"):
        validated(GymnasiumSpec, {"id": name})


def test_a_mujoco_that_the_robots_do_not_bear_is_named(monkeypatch):
    pytest.importorskip("gymnasium_robotics")

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(gym, "make", fails)
    monkeypatch.setattr(
        "hindsight.specs.gymnasium.version", {"gymnasium-robotics": "1.4.2", "mujoco": "4.0.0"}.get
    )
    words = r"gymnasium-robotics 1\.4\.2 and mujoco 4\.0\.0: pip install .*, in a fresh environment"
    with pytest.raises(SpecError, match=words):
        validated(GymnasiumSpec, {"id": "FetchPush-v4", "max_episode_steps": 33})  # not made before


# -- environments without goals --------------------------------------------------------------------


class Plain(gym.Env[Any, Any]):
    """A point whose goal is in the info of a reset alone; draws from numpy's global generator."""

    observation_space = Dict(place=Box(-3, 3, (2,)), speed=Box(-1, 1, (1,)))
    action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.place, self.goal = np.zeros(2), np.random.uniform(-1, 1, 2)  # noqa: NPY002
        return self.obs(), {"goal": self.goal}

    def obs(self) -> Any:
        return {"place": self.place.astype(np.float32), "speed": np.zeros(1, np.float32)}

    def step(self, action: Any) -> Any:
        self.place = self.place + 0.1 * np.asarray(action)
        return self.obs(), 7.0, bool(abs(self.place).max() > 2), False, {"other": 1}


class Silent(Plain):
    """Has None for an info."""

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], None

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], None


def with_goals(of: Any = Plain, /, **how: Any) -> GoalEnvironment:
    how.setdefault("tolerance", 0.15)
    how.setdefault("seed", lambda env, seed: np.random.seed(seed))  # noqa: NPY002
    return GoalEnvironment(
        of(), lambda env, obs, info: obs["place"], lambda env, obs, info: info["goal"], **how
    )


gym.register("Goals-v0", with_goals, max_episode_steps=30)


def test_an_environment_without_goals_is_given_some():
    env = with_goals()
    obs, _ = env.reset(seed=3)
    assert env.observation_space.contains(obs) and obs["observation"].shape == (3,)
    assert np.array_equal(env.reset(seed=3)[0]["desired_goal"], obs["desired_goal"])
    over = False
    while not over:
        before = obs
        obs, reward, over, _, info = env.step(towards(before))
        near = np.linalg.norm(obs["achieved_goal"] - obs["desired_goal"]) <= 0.15
        assert (reward, over, info["is_success"]) == (near - 1, near, near) and info["other"] == 1
        assert np.array_equal(before["desired_goal"], obs["desired_goal"])
    goals = np.array([[0, 0], [0.1, 0.1], [0.2, 0]])
    assert env.compute_reward(goals, np.zeros((3, 2)), [{}] * 3).tolist() == [0, 0, -1]
    assert env.compute_terminated(goals, np.zeros((3, 2)), [{}] * 3).tolist() == [True, True, False]
    each = with_goals(tolerance=[0.05, 0.3], terminates=False)
    assert each.compute_reward(goals, np.zeros((3, 2)), {}).tolist() == [0, -1, -1]
    assert not each.compute_terminated(goals, np.zeros((3, 2)), {}).any()


def test_an_environment_without_infos_can_be_wrapped():
    def made() -> GoalEnvironment:
        place, goal = lambda env, obs, info: obs["place"], lambda env, obs, info: env.goal
        return GoalEnvironment(Silent(), place, goal, tolerance=0.1)

    model = SAC(made, max_episode_steps=20, seeds=1, workers=0, log_interval=200, hidden=(8,))
    assert model.learn(200).num_timesteps == 200


class Strict(Plain):
    """Its own goals need to be reached more closely."""

    def _is_success(self, achieved: Any, desired: Any) -> Any:
        return np.linalg.norm(np.asarray(achieved) - desired, axis=-1) < 0.01


def test_wrappers_of_rewards_that_are_replaced_are_no_matter():
    rewards = lambda: gym.wrappers.NormalizeReward(Plain())  # noqa: E731
    assert SAC(partial(with_goals, rewards), max_episode_steps=30, seeds=1, workers=0)


@pytest.mark.parametrize("own", [Plain, Strict])
def test_a_tolerance_counts_for_relabelled_goals_where_goals_end_no_episode(own):
    def dense(achieved: Any, desired: Any) -> Any:
        return -np.abs(achieved - desired).sum(1)

    model = SAC(
        partial(with_goals, own, reward=dense, terminates=False),
        max_episode_steps=30, seeds=1, workers=0,
    )  # fmt: skip
    goals = np.array([[0, 0], [0.1, 0.1], [0.2, 0]])
    facts = model.spec.environment.facts
    assert facts.outcome(goals, np.zeros((3, 2)))[1].tolist() == [True, True, False]
    assert not facts.terminates_on_success


def test_a_reward_of_one_s_own_counts_as_success_where_it_is_best():
    def dense(achieved: Any, desired: Any) -> Any:
        assert achieved.shape == desired.shape == (len(achieved), 2)
        return -np.abs(achieved - desired).sum(1)

    env = with_goals(reward=dense, tolerance=None)
    assert env.compute_reward(np.ones(2), np.zeros(2), {}) == -2
    assert env.compute_terminated(np.eye(2), np.eye(2), {}).tolist() == [True, True]
    assert not env.compute_terminated(np.ones(2), np.zeros(2), {})
    with pytest.raises(SpecError, match="needs a reward, a tolerance, or both"):
        with_goals(tolerance=None)
    for impossible in (-1, np.nan, [0.1], [0.1, 0.1, 0.1], [0.1, -0.1]):
        with pytest.raises(SpecError, match=r"one for each number of a goal, of shape \(2,\)"):
            with_goals(tolerance=impossible)
    with pytest.raises(SpecError, match="must have the same shape"):
        wrong = partial(GoalEnvironment, Plain(), lambda *of: np.zeros(2), lambda *of: 0.0)
        SAC(partial(wrong, tolerance=1), max_episode_steps=5)


def test_what_has_no_goals_is_told_of_the_wrapper_and_learns_in_it():
    with pytest.raises(SpecError, match=r"hindsight\.GoalEnvironment\(env, achieved="):
        SAC("CartPole-v1")
    spec = hovering("Goals-v0")
    assert spec.facts.terminates_on_success and not spec.facts.notes
    (said,) = hovering("Goals-v0", seed=None).facts.notes
    assert "does not repeat itself" in said and "numpy.random.seed(seed) in its reset" in said
    model = SAC(
        "Goals-v0", seeds=1, workers=0, hidden=(32, 32), learning_rate=3e-3, batch_size=64,
        log_interval=250, evaluate_every=10**6,
    )  # fmt: skip
    assert model.learn(1000).evaluate(20).success_rate.item() >= 0.9


# -- files and films -------------------------------------------------------------------------------


def test_a_file_of_an_environment_that_is_not_registered_says_what_to_import(tmp_path, monkeypatch):
    settings: dict[str, Any] = {"terminates": "never", "seeds": 1, "workers": 0, "hidden": (4,)}
    path = SAC("Hovering-v0", **settings).save(tmp_path / "hovering.pt")
    monkeypatch.delitem(gym.registry, "Hovering-v0")
    words = r"import that module first, or name it: env=\"module:Hovering-v0\", --env module:Hov"
    with pytest.raises(SpecError, match=words):
        load(path)
    with pytest.raises(FileError, match=words):
        evaluate_policy(path)


def test_an_environment_s_own_argument_is_told_where_it_goes():
    with pytest.raises(SpecError, match=r"an argument of Hovering-v0 is given by 'kwargs=\{\"n\""):
        SAC("Hovering-v0", terminates="never", n=3)


def test_what_draws_nothing_is_said_once_without_a_warning(tmp_path):
    model = SAC("Hovering-v0", seeds=1, workers=0, hidden=(4,), terminates="never")
    refused = pytest.raises(FileError, match='cannot be filmed: it has no render_mode "rgb_array"')
    with warnings.catch_warnings(action="error"), refused:
        model.film(tmp_path / "nothing.gif")


class Repeats(gym.Wrapper[Any, Any, Any, Any]):
    """Takes each action four times."""

    def step(self, action: Any) -> Any:
        for _ in range(4):
            result = self.env.step(action)
            if result[2] or result[3]:
                break
        return result


gym.register(
    "Repeated-v0", entry_point=lambda: Repeats(gym.wrappers.TimeLimit(Hovering(ends=False), 100))
)


def test_a_limit_beneath_a_wrapper_that_repeats_actions_is_not_that_of_its_steps():
    spec = hovering("Repeated-v0")
    assert spec.max_episode_steps == 25
