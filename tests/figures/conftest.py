"""Small tables of every experiment, made the way the workflow makes them."""

import numpy as np
import pytest

from hindsight.envs.episodes import Episode, save_episodes
from tests.analysis import synthetic
from tests.figures import second_paper

CONDITIONS = [("random", "static"), ("random", "repel"), ("apart", "static"), ("apart", "repel")]
ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")
#: The experiments of the second paper that are here under both fidelities, and the S of the first
#: two; conditions in which no spawn and no prey occurs twice.
BOTH = ("s_ratio", "targeted", "stop_her", "near_far")
S_RATIOS = [{"s_ratio": s} for s in (0.0, 0.3, 0.5, 0.6, 0.7, 1.0)]
TWO_CONDITIONS = CONDITIONS[::3]
#: Where each spawn meets each prey.
SQUARE = ("algorithms", "her_strategy")


def episode(n: int, prey: str = "static") -> Episode:
    """The predator walks along the diagonal towards a prey that flees more slowly."""
    steps = np.linspace(0.0, 1.0, 9)[:, None] * np.ones(n)
    return Episode(6.0 * steps, 7.0 + 1.5 * steps, 10.0, 1.0, prey)


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """results/tables/laptop: every experiment and the episodes; learning_rate has four seeds."""
    root = tmp_path_factory.mktemp("project")
    for name in synthetic.FIRST_PAPER:
        plan = synthetic.write_experiment(
            root,
            name,
            arms=ARMS if name == "algorithms" else None,
            conditions=CONDITIONS if name in SQUARE else TWO_CONDITIONS,
            seeds=4 if name == "learning_rate" else 5,
            iterations=12,
        )
        synthetic.summarise(plan, root)
    for name in second_paper.EXPERIMENTS:
        second_paper.write(
            root,
            name,
            TWO_CONDITIONS,
            fidelities=("released", "described") if name in BOTH else ("released",),
            levels=S_RATIOS if name in BOTH[:2] else None,
        )
    folder = root / "results" / "tables" / "laptop"
    save_episodes(folder / "environment" / "episodes.npz", [episode(3), episode(3, "repel")])
    return folder
