"""Episodes are drawn from arrays alone, in two, three and more dimensions."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from hindsight.figures.environment import (
    PREDATOR,
    Episode,
    draw_episode,
    load_episodes,
    render,
    save_episodes,
)


def walk(n: int, prey: str = "repel") -> Episode:
    """Five steps along the diagonal; the last position is within reach."""
    steps = np.linspace(0.0, 1.0, 6)[:, None] * np.ones(n)
    return Episode(6.0 * steps, 5.0 + 1.2 * steps, 10.0, 1.0, prey)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_frame_is_a_picture_that_changes_with_the_step(n: int) -> None:
    first, last = render(walk(n), 0, 240), render(walk(n), None, 240)
    assert first.shape == last.shape == (240, 240, 3)
    assert first.dtype == np.uint8
    assert (first != last).any()
    # The predator's own colour is in the picture.
    colour = [int(PREDATOR.colour[i : i + 2], 16) for i in (1, 3, 5)]
    assert (np.abs(last.astype(int) - colour).max(axis=-1) < 12).sum() > 20


def test_the_same_step_gives_the_same_frame() -> None:
    np.testing.assert_array_equal(render(walk(3), 2), render(walk(3), 2))


def test_trajectories_are_drawn_up_to_the_step_asked_for() -> None:
    ax = Figure().add_subplot()
    draw_episode(ax, walk(2), 3)
    prey, predator = ax.lines[0], ax.lines[3]
    np.testing.assert_allclose(np.column_stack(predator.get_data()), walk(2).predator[:4])
    np.testing.assert_allclose(np.column_stack(prey.get_data()), walk(2).prey[:4])
    assert ax.patches[0].get_radius() == 1.0
    assert tuple(ax.patches[0].get_center()) == pytest.approx(tuple(walk(2).predator[3]))


def test_title_says_outcome_and_projection() -> None:
    ax = Figure().add_subplot()
    draw_episode(ax, walk(5))
    assert ax.get_title() == "repel\nstep 5, caught, 2 of 5 dimensions"
    assert ax.get_xlim() == (-10.0, 10.0)


def test_a_projection_does_not_call_a_distant_prey_caught() -> None:
    far = walk(4)
    far.prey[:, 3] = -9.0  # near in the two dimensions shown, far in the fourth
    ax = Figure().add_subplot()
    draw_episode(ax, far)
    assert "caught" not in ax.get_title()


def test_episodes_survive_a_file(tmp_path: Path) -> None:
    path = save_episodes(tmp_path / "episodes.npz", [walk(2, "static"), walk(3)])
    first, second = load_episodes(path)
    assert (first.title, second.title) == ("static", "repel")
    np.testing.assert_array_equal(second.predator, walk(3).predator)
    assert (second.grid_size, second.interception_distance) == (10.0, 1.0)


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"\(6, 2\).*\(5, 2\)"):
        Episode(np.zeros((6, 2)), np.zeros((5, 2)), 10.0, 1.0)
    with pytest.raises(ValueError, match="1 dimensions"):
        Episode(np.zeros((6, 1)), np.zeros((6, 1)), 10.0, 1.0)
