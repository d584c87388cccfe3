"""A small goal environment for the tests, with faults to choose from."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Corridor(gym.Env[Any, Any]):
    """A place in a square moves by the action; rewards are -1, or 0 within 0.5 of the goal."""

    def __init__(self, terminates: bool = False, discrete: bool = False, wrong: str = "") -> None:
        self.terminates, self.wrong = terminates, wrong
        goal = Box(-3, 3, (2,), np.float64)
        spaces = {"achieved_goal": goal, "desired_goal": goal, "observation": Box(-9, 9, (1, 3))}
        if wrong == "keys":
            del spaces["desired_goal"]
        self.observation_space = Dict(spaces)
        self.action_space = Box(np.array([-1.0, 0.0]), np.array([1.0, 4.0]), dtype=np.float64)
        if discrete:
            self.action_space = Discrete(3, start=-1)
        self.steps = 0

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if self.wrong == "pair":
            return np.zeros(2)
        if self.wrong == "info":
            return info[0]["cost"]
        distance = np.linalg.norm(achieved - desired, axis=-1)
        return np.where(distance <= 0.5, 0.0, -1.0)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        reached = self.compute_reward(achieved, desired, info) == 0
        return reached & (self.terminates and self.wrong != "terminates")

    def _obs(self) -> dict[str, Any]:
        seen = np.array([[self.steps, *self.place]], np.float32)
        if self.wrong == "nan" and self.steps == 2:
            seen[:] = np.nan
        goals = {"achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}
        return {**goals, "observation": seen}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        return self._obs(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps += 1
        if self.wrong == "raises" and self.steps == 3:
            raise RuntimeError("the corridor has collapsed")
        if self.wrong == "forgets":
            action = action + np.random.default_rng().uniform(-1e-3, 1e-3, 2)
        self.place = np.clip(self.place + 0.2 * (np.asarray(action) - [0, 2]), -3, 3)
        paid = self.compute_reward(self.place, self.goal, [{"cost": -1.0}])
        reward = float(np.ravel(paid)[0])
        if self.wrong in ("pays nan", "pays 1e30") and self.steps == 2:
            reward = float(self.wrong.removeprefix("pays "))
        terminated = self.terminates and reward == 0
        info = {} if self.terminates else {"is_success": reward == 0}
        return self._obs(), reward, terminated, False, info


gym.register("Corridor-v0", Corridor, max_episode_steps=12)
