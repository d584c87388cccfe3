"""bench/pursuer.py, the yardstick for larger boxes, against closed forms for a static prey."""

import pytest

from bench.pursuer import caught
from hindsight.specs.environments.predator_prey import PredatorPreySpec

EPISODES = 1500


@pytest.mark.parametrize("size", [20.0, 40.0])
def test_it_catches_all_prey_that_rests_within_21_steps(size: float) -> None:
    """Of two coordinates uniform in [-G, G] a share 1 - (1 - x / 2 G)^2 lies within x."""
    share = caught(PredatorPreySpec(grid_size=size, prey="static"), episodes=EPISODES)
    low, high = ((1 - (1 - x / (2 * size)) ** 2) ** 3 for x in (21, 22))  # to r = 1 beyond 21 steps
    noise = 4 * (high * (1 - high) / EPISODES) ** 0.5
    assert low - noise <= share <= high + noise


def test_halfway_up_an_axis_prey_is_out_of_reach_from_44_on() -> None:
    # It stands at G / 2, and 21 + 1 is what can be reached.
    for size, expected in ((43.9, 1.0), (44.1, 0.0)):
        spec = PredatorPreySpec(spawn="apart", grid_size=size, prey="static")
        assert caught(spec, episodes=3) == expected
