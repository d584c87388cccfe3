"""Small tables of every experiment, made the way the workflow makes them."""

from pathlib import Path

import numpy as np
import pytest

from hindsight.analysis.summarise import summarise
from hindsight.envs.episodes import Episode, save_episodes
from tests.analysis import synthetic

CONDITIONS = [("random", "static"), ("random", "repel"), ("apart", "static"), ("apart", "repel")]
ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")


def episode(n: int, prey: str = "static") -> Episode:
    """The predator walks along the diagonal towards a prey that flees more slowly."""
    steps = np.linspace(0.0, 1.0, 9)[:, None] * np.ones(n)
    return Episode(6.0 * steps, 7.0 + 1.5 * steps, 10.0, 1.0, prey)


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/tables/laptop: six experiments and the episodes; learning_rate has four seeds."""
    root = tmp_path_factory.mktemp("project")
    for name in synthetic.LEVELS:
        plan = synthetic.write_experiment(
            root,
            name,
            arms=ARMS if name == "algorithms" else None,
            conditions=CONDITIONS,
            seeds=4 if name == "learning_rate" else 5,
            iterations=12,
        )
        summarise(plan, root)
    folder = root / "results" / "tables" / "laptop"
    save_episodes(folder / "environment" / "episodes.npz", [episode(3), episode(3, "repel")])
    return folder
