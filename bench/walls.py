"""Where hindsight's goals lie on the point mass, and what it learns without those at the walls.

PPO-HER takes the positions in which episodes end for goals.  The more its policy drifts, the more
of them lie at a wall of the square, and goals at a wall teach nothing of goals inside.  Printed
for each arm of the experiment `generalise` without an S-ratio: the share of episodes, of the
policy with its random actions, that end at a wall, and the success rate of its mean actions.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import torch

from hindsight.envs.step import Step
from hindsight.specs.config import load
from hindsight.specs.plan import Plan
from hindsight.training.cell import prepare_process
from hindsight.training.runs import Runs, runs_of

CONFIG = Path(__file__).parent.parent / "config.yaml"
SELECT = {"generalise": {"tasks": ["PointReach"]}}
AT_WALL = 0.98  # of the half-width, in one coordinate at least
ROLLOUTS = (1, 8, 16, 24, 32, 48)


def ends_at_walls(runs: Runs) -> torch.Tensor:
    """One iteration of the runs; the share of its episodes that end at a wall, [run]."""
    ended, at_wall = [], []
    step = runs.env.step

    def watched(actions: torch.Tensor) -> Step:
        taken = step(actions)
        ended.append(taken.truncated)
        at_wall.append(taken.truncated & (taken.next_achieved.abs() > AT_WALL).any(-1))
        return taken

    runs.env.step = watched  # type: ignore[method-assign]
    runs.iterate()
    runs.env.step = step  # type: ignore[method-assign]
    return torch.stack(at_wall).sum((0, 2)) / torch.stack(ended).sum((0, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first-seed", type=int, default=0, help="the cells' are 0, 1, ...")
    given = parser.parse_args()
    prepare_process("cpu")
    plan = Plan.of(load(CONFIG, {"preset": "large", "select": SELECT}))
    seeds = list(range(given.first_seed, given.first_seed + 8))
    for entry, name in plan.experiments["generalise"]:
        if entry.arm.startswith("MEHER"):
            continue
        runs = runs_of(plan.cells[name], seeds, "cpu", 1)
        runs.collector = runs.module  # the reference in PyTorch, which calls `env.step`
        for rollout in range(1, ROLLOUTS[-1] + 1):
            found = {"ends at a wall": ends_at_walls(runs)}
            if rollout in ROLLOUTS:
                found["success"] = runs.evaluate()["success_rate"]
                for what, x in found.items():
                    numbers = f"{x.mean():.2f} ({x.min():.2f} - {x.max():.2f})"
                    print(f"{entry.arm}, {2048 * rollout:,} steps, {what}: {numbers}", flush=True)


if __name__ == "__main__":
    main()
