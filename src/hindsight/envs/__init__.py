"""Goal environments with a run axis, and their gymnasium faces: importing this registers them."""

import gymnasium as gym

if "PredatorPrey-v0" not in gym.registry:
    gym.register("PredatorPrey-v0", "hindsight.envs.gymnasium_faces:PredatorPreyEnv")
