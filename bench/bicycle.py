"""Environments that others wrote, each with one command: it trains, or is refused by one sentence.

    python bench/bicycle.py                # pip install panda-gym highway-env for all of them
    python bench/bicycle.py FrankaKitchen-v1 parking-v0

Each is made, trained for a few hundred steps and evaluated in a process of its own.  A refusal has
to come within 10 seconds and to say what to type.  What is not installed is skipped.
"""

import importlib.util
import os
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

#: What makes a model, and the package that it needs; `SMALL` is a small training.
SAC = 'SAC("{0}", her="future", **SMALL)'
BITS = "BitFlippingEnv({0}), her='future', **SMALL)"
ENVIRONMENTS = {
    **{
        f"Panda{task}-v3": (SAC, "panda_gym") for task in ("Reach", "Push", "Slide", "PickAndPlace")
    },
    "AntMaze_UMaze-v5": (SAC, "gymnasium_robotics"),
    "PointMaze_Medium-v3": (SAC, "gymnasium_robotics"),
    "parking-v0": (SAC, "highway_env"),
    "HandReach-v3": (SAC, "gymnasium_robotics"),
    "HandManipulateBlock_ContinuousTouchSensors-v1": (SAC, "gymnasium_robotics"),
    "FrankaKitchen-v1": (SAC, "gymnasium_robotics"),
    "BitFlippingEnv, bits": (f"DQN({BITS.format('')}", "stable_baselines3"),
    "BitFlippingEnv, choices": (
        f"DQN({BITS.format('discrete_obs_space=True')}",
        "stable_baselines3",
    ),
    "BitFlippingEnv, boxes": (f"DQN({BITS.format('image_obs_space=True')}", "stable_baselines3"),
}
PROGRAM = """
import warnings
warnings.simplefilter("ignore")
from hindsight import DQN, SAC
from hindsight.specs.errors import SpecError
SMALL = dict(seeds=1, workers=0, hidden=(32,), batch_size=32, buffer_size=2000, log_interval=200,
             learning_starts=100, evaluation_episodes=2)
try:
    {prepare}
    model = {model}
except SpecError as error:
    print("refused:", error)
else:
    for note in model.notes:
        print("note:", note)
    model.learn({steps})
    print("trains:", model.evaluate(2).to_dict("records"))
"""
WITHIN, LONGEST = 10.0, 600.0
STEPS = 600


def ride(name: str) -> tuple[str, float, str]:
    """What came of an environment ("trains", "refused", "failed" or "skipped"), seconds, why."""
    model, package = ENVIRONMENTS[name]
    if importlib.util.find_spec(package) is None:
        return "skipped", 0.0, f"{package} is not installed"
    imports = "from stable_baselines3.common.envs import BitFlippingEnv"
    prepare = imports if package == "stable_baselines3" else "pass"
    program = PROGRAM.format(prepare=prepare, model=model.format(name), steps=STEPS)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        timeout=LONGEST,
    )  # fmt: skip
    seconds = time.monotonic() - began
    told = done.stdout.strip().splitlines()
    for how in ("trains", "refused"):
        if told and told[-1].startswith(f"{how}:"):
            in_time = how == "trains" or seconds <= WITHIN
            # Some environments write about themselves.
            ours = [line for line in told if line.startswith(("note:", f"{how}:"))]
            return how if in_time else "failed", seconds, "\n    ".join(ours)
    return "failed", seconds, done.stderr.strip().splitlines()[-1] if done.stderr else "nothing"


def main() -> None:
    """Ride all of them, or those that are named."""
    failed = 0
    for name in sys.argv[1:] or ENVIRONMENTS:
        how, seconds, why = ride(name)
        failed += how == "failed"
        print(f"{how:8} {seconds:6.1f} s  {name}\n    {why}", flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
