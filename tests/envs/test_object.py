"""Predator-prey with an object to push (its steps: test_predator_prey)."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.render import PREDATOR, PREY, PUSHED
from hindsight.envs.wrapper import GoalEnv
from hindsight.specs.environments.predator_prey import PredatorPreySpec


def spec_of(**keys: Any) -> PredatorPreySpec:
    """A box in which predator, object and prey often meet."""
    values = {"grid_size": 3.0, "max_steps": 12, "pushes_object": True, "n_dims": 2} | keys
    return PredatorPreySpec.model_validate(values)


def place(env: PredatorPrey, thing: float, predator: float, prey: float = -2.5) -> None:
    """All on the first axis of two, a prey that rests."""
    env.state.copy_(torch.tensor([[[thing, 0.0, prey, 0.0, 0.0, 0.0, predator, 0.0]]]))


def test_it_is_touched_up_to_the_distance_of_interception() -> None:
    """Before the move, not after it."""
    env = PredatorPrey(spec_of(), [0])
    env.prepare_rollout(1, 3)
    forth = torch.tensor([[[0.5, 0.25]]])
    for predator, moved in ((1.0, [0.5, 0.25]), (1.0625, [0.0, 0.0]), (-1.25, [0.0, 0.0])):
        place(env, 0.0, predator)
        assert env.step(forth).next_achieved[0, 0].tolist() == moved


# --- beginnings, the run axis ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5])
def test_all_begin_apart_and_anywhere(n: int) -> None:
    spec = spec_of(n_dims=n, grid_size=10.0, prey="straight_away")
    state = PredatorPrey(spec, [1], 4).beginnings.flatten(0, 2)
    thing, prey, velocity, predator = state.split(n, dim=1)
    for other in (prey, predator):
        assert (torch.linalg.vector_norm(thing - other, dim=1) > 1).all()
        quartiles = np.quantile(other.numpy(), [0.25, 0.5, 0.75], axis=0)
        np.testing.assert_allclose(quartiles, [[-5.0] * n, [0.0] * n, [5.0] * n], atol=0.8)
    assert state.unique().numel() > 0.99 * 3 * n * len(state)
    # The prey flees from the predator at once.
    away = torch.nn.functional.cosine_similarity(velocity, prey - predator, dim=1)
    np.testing.assert_allclose(away.numpy(), 1, atol=1e-4)
    apart = PredatorPrey(spec_of(n_dims=n, grid_size=10.0, spawn="apart"), [1]).state[0, 0]
    expected = np.zeros(4 * n)
    expected[0] = expected[2 * n - 1] = 5.0
    np.testing.assert_array_equal(apart.numpy(), expected)


def make(**parameters: Any) -> GoalEnv:
    env = gymnasium.make("PredatorPrey-v0", pushes_object=True, **parameters).unwrapped
    assert isinstance(env, GoalEnv)
    return env


def count(image: np.ndarray, colour: str) -> int:
    """Pixels of a colour, without the legend."""
    distance = np.abs(image[:440].astype(float) - 255 * np.array(to_rgb(colour))).max(axis=-1)
    return int((distance < 12).sum())


@pytest.mark.parametrize("n", [2, 3])
def test_a_picture_shows_all_three_where_they_are(n: int) -> None:
    env = make(n_dims=n, render_mode="rgb_array")
    env.reset(seed=0, options={"state": [0.5] * n + [-8.0] * n + [0.0] * 2 * n})
    before = env.render()
    for _ in range(6):
        env.step(np.ones(n, np.float32))
    after = env.render()
    assert before is not None and after is not None
    assert before.shape == after.shape == (480, 480, 3)
    for look in (PREDATOR, PREY, PUSHED):
        assert count(before, look["color"]) > 10 and count(after, look["color"]) > 10
    for look in (PREDATOR, PUSHED):  # both have come a long way
        assert count(after, look["color"]) > count(before, look["color"]) + 15


def test_the_reference_draws_as_many_numbers() -> None:
    """An object changes no draw: a seed's prey moves alike with and without one."""
    found = []
    for pushes in (True, False):
        env = PredatorPrey(spec_of(prey="random", grid_size=50.0, pushes_object=pushes), [2])
        env.prepare_rollout(1, 6)
        env.step(torch.zeros(1, 1, 2))
        found.append(env.state[0, 0, 4:6].clone())
    assert torch.equal(*found)
