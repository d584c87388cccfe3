"""Corridors in which something happens while they run, for the tests."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TimeLimit

from tests.envs.corridor import Corridor


class Level(Corridor):
    """Its goals are as far away as the level says, and so is its tolerance."""

    width = 0.3

    def __init__(self, width: float = 0.3, goal_size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width, self.goal_size = width, goal_size
        if goal_size == 1:  # all numbers of an observation are as many as before
            goal, seen = Box(-3, 3, (1,), np.float64), Box(-9, 9, (5,))
            self.observation_space = Dict(achieved_goal=goal, desired_goal=goal, observation=seen)

    def set_level(self, width: float, word: str = "set") -> str:
        """Set the level; returns what it was."""
        if width < 0:
            raise RuntimeError("there is no such level")
        was, self.width = self.width, width
        return f"{word} {was}"

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        far = np.linalg.norm(achieved - desired, axis=-1) > self.width
        return -far.astype(np.float32)

    def close(self) -> None:
        """Close it as simulators do: nothing can be asked any more."""
        del self.width

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.goal = self.goal * self.width
        return self._obs(), {}

    def _obs(self) -> dict[str, Any]:
        obs = super()._obs()
        if self.goal_size == 1:
            seen = np.append(obs["observation"], obs["achieved_goal"][1:])
            seen = np.append(seen, obs["desired_goal"][1:]).astype(np.float32)
            return {
                "achieved_goal": obs["achieved_goal"][:1],
                "desired_goal": obs["desired_goal"][:1],
                "observation": seen,
            }
        return obs


class Leftover(Corridor):
    """From the sixth episode on, what is done leads a little further than before."""

    episodes = 0  # a trace that a reset does not remove

    def __init__(self, breaks: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.breaks = breaks

    def reset(self, **options: Any) -> Any:
        self.episodes += 1
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        if self.breaks and self.episodes < 5 and self.steps == 4 and Path("broken").exists():
            raise RuntimeError("the arm is stuck")
        if self.episodes > 5:
            action = action + np.array([1e-6, 0.0]) * np.sign(-action[0])
        return super().step(action)


class Simulator(Corridor):
    """One at a time: it is bound to a port."""

    def __init__(self, port: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", port))
        self.counted = 0

    def count(self) -> int:
        """How often it has been called."""
        self.counted += 1
        return self.counted

    def close(self) -> None:
        self.socket.close()


#: What a fork does in `Careless`, and its exit status.
FORKS = {"fork": 7, "fork that exits": 7, "fork that raises": 1, "fork that goes on": 0}


class Careless(Corridor):
    """It does something that ends or breaks its process, or what is built on it."""

    #: Whether there can be only one instance, and how many were made.
    only, made = False, 0

    def __init__(self, does: str = "", when: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.does, self.when, self.process = does, when, os.getpid()
        if self.only and Careless.made:
            raise OSError("only one")
        Careless.made += 1
        self._do("init")

    def _do(self, when: str) -> None:
        if when != self.when:
            return
        if self.does == "_exit":
            os._exit(0)
        if self.does == "generator":
            raise GeneratorExit("enough")
        if self.does == "raise":
            raise RuntimeError("it does not close")
        if self.process != os.getpid():
            print("a fork goes on", file=sys.stderr, flush=True)
        if self.does in FORKS and (child := os.fork()) == 0:
            if self.does == "fork":
                os._exit(7)
            if self.does == "fork that exits":
                sys.exit(7)
            if self.does == "fork that raises":
                raise RuntimeError("it is the fork's own")
        elif self.does in FORKS:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == FORKS[self.does]

    def reset(self, **options: Any) -> Any:
        self._do("reset")
        return super().reset(**options)

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if np.ndim(achieved) > 1 and len(achieved) > 3:  # of a batch, not of a trial
            self._do("reward")
        found = super().compute_reward(achieved, desired, info)
        if self.does == "in place":
            achieved -= desired
        return found

    def step(self, action: Any) -> Any:
        if self.steps == 3:
            self._do("step")
        if self.does == "in place":
            place, goal = self.place.copy(), self.goal.copy()
            obs, *rest = super().step(action)
            self.place = np.clip(place + 0.2 * (np.asarray(action) - [0, 2]), -3, 3)
            self.goal = goal
            return self._obs(), *rest
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, None if self.does == "no info" else info

    def close(self) -> None:
        self._do("close")


gym.register("Level-v0", Level, max_episode_steps=12)
gym.register("LongLevel-v0", Level, max_episode_steps=20)
gym.register("ShortLevel-v0", Level, max_episode_steps=4)
gym.register("Wide-v0", Level, max_episode_steps=12, kwargs={"width": 1.0})
gym.register("Leftover-v0", Leftover, max_episode_steps=12)
gym.register("Simulator-v0", Simulator, max_episode_steps=12)
gym.register("OneEver-v0", lambda port: TimeLimit(Simulator(port=port), 12))
gym.register("Careless-v0", Careless, max_episode_steps=12)
gym.register(
    "OneCareless-v0", lambda: TimeLimit(Careless(does="fork that goes on", when="step"), 12)
)
gym.register("Unlimited-v0", Corridor, max_episode_steps=10**9)
gym.register("VeryLong-v0", Corridor, max_episode_steps=10**6)
