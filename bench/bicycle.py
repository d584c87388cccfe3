"""Environments that others wrote, each with one command: it trains, or is refused by one sentence.

    python bench/bicycle.py                # what is not installed is refused, too
    python bench/bicycle.py FrankaKitchen-v1 parking-v0

Each is trained for a few hundred steps and evaluated in a process of its own.  A refusal says what
to type, and has to come within 10 seconds.  The packages, some of which need an environment of
their own, as they replace another's MuJoCo, NumPy or gymnasium:

    pip install panda-gym highway-env gym-pusht minigrid stable-baselines3
    pip install gymnasium-robotics==1.4.2 mujoco==3.10.0
    pip install ogbench | metaworld packaging | gym-xarm | gym-hil
"""

import os
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

#: Ids for SAC, with settings, or the arguments of Stable-Baselines3's BitFlippingEnv for DQN.
ENVIRONMENTS = {
    **dict.fromkeys((f"Panda{task}-v3" for task in ("Reach", "Push", "Slide", "PickAndPlace")), ""),
    "FetchPush-v4": "", "HandReach-v3": "", "HandManipulateBlock_ContinuousTouchSensors-v1": "",
    "AntMaze_UMaze-v5": "", "PointMaze_Medium-v3": "", "FrankaKitchen-v1": "",
    "parking-v0": "", "parking-v0 ": "max_episode_steps=40, terminates='goal'",
    "discrete_obs_space=False": "", "discrete_obs_space=True": "terminates='goal'",
    "image_obs_space=True": "terminates='goal'",
    "ogbench:pointmaze-medium-v0": "", "gym_pusht:gym_pusht/PushT-v0": "",
    "metaworld:Meta-World/MT1": "env_kwargs={'env_name': 'reach-v3'}",
    "gym_xarm:gym_xarm/XarmLift-v0": "", "gym_hil:gym_hil/PandaPickCubeBase-v0": "",
    "minigrid:MiniGrid-Empty-5x5-v0": "",
}  # fmt: skip
PROGRAM = """
import warnings
warnings.simplefilter("ignore")
from hindsight import DQN, SAC
from hindsight.specs.errors import EnvironmentFailure, SpecError
SMALL = dict(her="future", seeds=1, workers=0, hidden=(32,), batch_size=32, buffer_size=2000,
             log_interval=200, learning_starts=100, evaluation_episodes=2)
try:
    {imports}
    model = {model}
except (SpecError, EnvironmentFailure) as error:
    print("refused:", str(error).splitlines()[0])
else:
    model.learn(600)
    print("trains:", *model.notes, model.evaluate(2).to_dict("records"))
"""


def main() -> None:
    failed = False
    for name in sys.argv[1:] or ENVIRONMENTS:
        imports, what = "pass", f"SAC({name.strip()!r}"
        if "=" in name:
            imports = "from stable_baselines3.common.envs import BitFlippingEnv"
            what = f"DQN(BitFlippingEnv({name})"
        model = ", ".join(filter(None, [what, ENVIRONMENTS.get(name), "**SMALL)"]))
        began = time.monotonic()
        program = [sys.executable, "-c", PROGRAM.format(model=model, imports=imports)]
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=600)
        seconds = time.monotonic() - began
        said = (done.stderr if done.returncode else done.stdout).strip().splitlines()[-1]
        failed |= done.returncode != 0 or (said.startswith("refused:") and seconds > 10.0)
        print(f"{seconds:6.1f} s  {name}: {said}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
