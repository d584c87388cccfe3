"""A corridor that hangs, exits or goes elsewhere if a file in the working directory asks for it."""

import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from tests.envs.corridor import Corridor

if Path("exit-at-import").exists():
    sys.exit(3)
if Path("_exit-at-import").exists():
    os._exit(0)


#: Numbers of the instances; the first two are tried before training.
NUMBERS = itertools.count()


class Stubborn(Corridor):
    """It goes elsewhere at the start; in training it hangs or exits at its third step."""

    def __init__(self) -> None:
        super().__init__()
        self.trains = next(NUMBERS) >= 2

    def reset(self, **options: Any) -> Any:
        if Path("wander").exists():
            Path("elsewhere").mkdir(exist_ok=True)
            os.chdir("elsewhere")
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        if self.trains and self.steps == 2 and Path("hang").exists():
            Path("hangs").touch()
            while True:
                time.sleep(0.1)
        if self.trains and self.steps == 2 and Path("exit").exists():
            sys.exit("I have had enough")
        if self.trains and self.steps == 2 and Path("_exit").exists():
            os._exit(0)
        return super().step(action)


gym.register("Stubborn-v0", Stubborn, max_episode_steps=12)
