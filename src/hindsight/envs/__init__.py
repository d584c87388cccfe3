"""Goal environments with a run axis.  Importing this package registers them with gymnasium."""

import gymnasium as gym

from hindsight.specs.environments import ENVIRONMENTS

for name in ENVIRONMENTS:
    if name not in gym.registry:
        gym.register(name, "hindsight.envs.wrapper:GoalEnv", kwargs={"environment": name})
