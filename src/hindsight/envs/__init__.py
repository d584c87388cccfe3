"""Goal environments with a run axis, and their gymnasium faces: importing this registers them."""

import gymnasium as gym

FACES = {
    "PredatorPrey-v0": "hindsight.envs.gymnasium_faces:PredatorPreyEnv",
    "PointReach-v0": "hindsight.envs.task_faces:PointReachEnv",
    "BitFlipping-v0": "hindsight.envs.task_faces:BitFlippingEnv",
}

for name, face in FACES.items():
    if name not in gym.registry:
        gym.register(name, face)
