"""Environments that others wrote, each with one command: it trains, or is refused by one sentence.

    python bench/bicycle.py                # pip install panda-gym highway-env for all of them
    python bench/bicycle.py FrankaKitchen-v1 parking-v0

Each is trained for a few hundred steps and evaluated in a process of its own.  A refusal, such as
of what is not installed, says what to type, and has to come within 10 seconds.
"""

import os
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

#: An id for SAC, or the arguments of Stable-Baselines3's BitFlippingEnv for DQN.
ENVIRONMENTS = [
    *(f"Panda{task}-v3" for task in ("Reach", "Push", "Slide", "PickAndPlace")),
    "AntMaze_UMaze-v5", "PointMaze_Medium-v3", "parking-v0", "HandReach-v3",
    "HandManipulateBlock_ContinuousTouchSensors-v1", "FrankaKitchen-v1",
    "discrete_obs_space=False", "discrete_obs_space=True", "image_obs_space=True",
]  # fmt: skip
PROGRAM = """
import warnings
warnings.simplefilter("ignore")
from hindsight import DQN, SAC
from hindsight.specs.errors import SpecError
from stable_baselines3.common.envs import BitFlippingEnv
SMALL = dict(her="future", seeds=1, workers=0, hidden=(32,), batch_size=32, buffer_size=2000,
             log_interval=200, learning_starts=100, evaluation_episodes=2)
try:
    model = {model}
except SpecError as error:
    print("refused:", error)
else:
    model.learn(600)
    print("trains:", *model.notes, model.evaluate(2).to_dict("records"))
"""


def main() -> None:
    failed = False
    for name in sys.argv[1:] or ENVIRONMENTS:
        model = (
            f"DQN(BitFlippingEnv({name}), **SMALL)" if "=" in name else f"SAC({name!r}, **SMALL)"
        )
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(model=model)], capture_output=True, text=True,
            check=False, timeout=600,
        )  # fmt: skip
        seconds = time.monotonic() - began
        said = (done.stderr if done.returncode else done.stdout).strip().splitlines()[-1]
        failed |= done.returncode != 0 or (said.startswith("refused:") and seconds > 10.0)
        print(f"{seconds:6.1f} s  {name}: {said}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
