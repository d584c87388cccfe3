"""Small tables of some experiments, made the way the workflow makes them."""

import numpy as np
import pytest

from hindsight.envs.episodes import Episode, save_episodes
from tests.analysis import synthetic

CONDITIONS = [("random", "static"), ("random", "repel"), ("apart", "static"), ("apart", "repel")]
FIDELITIES = ("released", "described")
ARMS = ("PPO", "PPO-HER", "SAC", "SAC-HER")
#: Together, these have figures of every kind.
FIRST_PAPER = ("algorithms", "learning_rate", "agent_size", "her_strategy")
SECOND_PAPER = (
    "s_ratio", "stop_her", "rarely_moves", "stochasticity", "switch_off", "network",
)  # fmt: skip
#: The experiments that are here under both fidelities; conditions in which no spawn and no prey
#: occurs twice.
BOTH = ("s_ratio", "stop_her", "algorithms")
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
    """results/tables/laptop: these and the episodes; learning_rate has four seeds."""
    root = tmp_path_factory.mktemp("project")
    for name in FIRST_PAPER:
        synthetic.summarised(
            root,
            name,
            arms=ARMS if name == "algorithms" else None,
            conditions=CONDITIONS if name in SQUARE else TWO_CONDITIONS,
            fidelities=FIDELITIES[: 1 + (name in BOTH)],
            seeds=4 if name == "learning_rate" else 5,
            iterations=12,
        )
    for name in SECOND_PAPER:
        synthetic.second_paper(
            root,
            name,
            conditions=TWO_CONDITIONS,
            fidelities=FIDELITIES[: 1 + (name in BOTH)],
            levels=S_RATIOS if name == "s_ratio" else None,
        )
    folder = root / "results" / "tables" / "laptop"
    save_episodes(folder / "environment" / "episodes.npz", [episode(3), episode(3, "repel")])
    return folder
