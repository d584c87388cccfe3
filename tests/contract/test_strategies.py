"""What every goal strategy must do, in rollouts and in replay.

A new strategy is tested as soon as its name and function are registered.
"""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hindsight.relabel.goals import STRATEGIES, choose, choose_on, must_stay
from hindsight.specs.errors import SpecError
from hindsight.specs.replay import GOAL_STRATEGIES, EpisodeStrategy
from tests.contract.cells import TASKS, cell
from tests.training.small import runs

#: The largest number below 1 that a generator of float32 numbers draws.
HIGHEST = float(np.nextafter(np.float32(1), np.float32(0)))
steps = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
uniform = st.floats(0, HIGHEST, width=32)
each = pytest.mark.parametrize("name", get_args(EpisodeStrategy))


@each
@given(among=st.lists(st.tuples(steps, uniform), min_size=1, max_size=20))
def test_it_chooses_a_step_of_the_episode(name, among):
    """The same for numbers, arrays and tensors."""
    places, u = np.array([x for x, _ in among]).T, np.array([u for _, u in among], np.float32)
    step, before, left = places[0] + places[1], places[1], places[2]
    found = choose(name, step, before, left, u)
    assert found.dtype == np.int64
    assert (step - before <= found).all() and (found < step + left).all()
    tensors = map(torch.from_numpy, (step, before, left, u))
    assert choose_on(name, *tensors).tolist() == found.tolist()
    for i, expected in enumerate(found):
        one = STRATEGIES[name](int(step[i]), int(before[i]), int(left[i]), float(u[i]))
        assert one == expected


@pytest.mark.parametrize("fidelity", ["released", "described"])
@pytest.mark.parametrize("name", GOAL_STRATEGIES)
@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_it_trains(algorithm, name, fidelity):
    if algorithm == "ppo" and name not in STRATEGIES:
        pytest.skip("a rollout has no goals of other episodes")
    how = {"strategy": name, "fidelity": fidelity}
    made = runs(cell(algorithm, TASKS["PointReach-v0"], how), 0, 1)
    before = made.rows.clone()
    columns = made.iterate()
    assert (made.rows != before).any(1).all()
    if algorithm == "ppo":
        assert (columns["relabelled_share"] > 0).all()


@pytest.mark.parametrize("chosen", [
    lambda step, before, left, uniform: step + left,
    lambda step, before, left, uniform: step - before - 1,
    lambda step, before, left, uniform: step + 0.5,
    lambda step, before, left, uniform: np.nan,
])  # fmt: skip
def test_a_strategy_that_leaves_its_episode_is_an_error_at_import(chosen):
    with pytest.raises(SpecError, match=r"'mine' chose step .* it must choose one of these"):
        must_stay({**STRATEGIES, "mine": chosen})
