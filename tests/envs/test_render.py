"""Pictures of episodes in two, three and more dimensions; the file of episodes."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.lines import Line2D

from hindsight.envs.episodes import Episode, load_episodes
from hindsight.envs.render import PREDATOR, PREY, draw_episode, figure_axes, pixels_of
from hindsight.envs.wrapper import GoalEnv
from hindsight.io.files import FileError


def walk(n: int, steps: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """The predator goes from 0 to 6 along the diagonal, the prey from 5 to 7."""
    t = np.linspace(0.0, 1.0, steps)[:, None] * np.ones(n)
    return 6 * t, 5 + 2 * t


def drawn(axes: object, look: dict, marker: str) -> list[Line2D]:
    lines = axes.lines  # type: ignore[attr-defined]
    return [x for x in lines if x.get_color() == look["color"] and x.get_marker() == marker]


def places(line: Line2D) -> np.ndarray:
    """Its points [point, 2 or 3]."""
    return np.column_stack(line.get_data_3d() if hasattr(line, "get_data_3d") else line.get_data())


@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_is_drawn_are_the_positions(n: int) -> None:
    predator, prey = walk(n)
    _, axes = figure_axes(n)
    draw_episode(axes, Episode(predator[:4], prey[:4], 10.0, 0.5, "repel"))
    shown = 2 if n == 2 else 3
    for look, path in ((PREDATOR, predator), (PREY, prey)):
        (line,) = drawn(axes, look, "None")
        start, now = drawn(axes, look, look["marker"])
        for artist, positions in ((line, path[:4]), (start, path[:1]), (now, path[3:4])):
            np.testing.assert_allclose(places(artist), positions[:, :shown])
    distance = np.linalg.norm(predator[3] - prey[3])
    projected = ", 3 of 4 dimensions" if n == 4 else ""
    assert axes.get_title() == f"repel\nstep 3, distance {distance:.1f}{projected}"
    assert axes.get_xlim() == axes.get_ylim() == (-10, 10)
    if n == 2:
        (reach,) = axes.patches
        assert reach.get_radius() == 0.5 and tuple(reach.get_center()) == tuple(predator[3])
    # A prey that is caught is drawn where it was met, before its last move; all dimensions count.
    prey[2] = predator[3]
    _, axes = figure_axes(n)
    draw_episode(axes, Episode(predator[:4], prey[:4], 10.0, 0.5))
    assert axes.get_title() == f"step 3, caught{projected}"
    _, now = drawn(axes, PREY, PREY["marker"])
    np.testing.assert_allclose(places(now), predator[3:4, :shown])
    prey[2, -1] = -9.0
    assert not Episode(predator[:4], prey[:4], 10.0, 0.5).caught


@pytest.mark.parametrize("n", [2, 3, 12])
def test_the_longest_title_is_in_the_picture(n: int) -> None:
    predator, prey = walk(n, 22)
    figure, axes = figure_axes(n)
    draw_episode(axes, Episode(predator, prey - 30, 10.0, 1.0, "random_direction"))
    pixels_of(figure)
    place = axes.title.get_window_extent()
    assert axes.get_title().startswith("random direction\nstep 21, distance ")
    assert place.x0 >= 0 and place.x1 <= 480 and place.y1 <= 480


@pytest.mark.parametrize(
    ("name", "parameters", "size"),
    [
        *(("PredatorPrey-v0", {"n_dims": n, "prey": "random"}, (480, 480)) for n in (2, 3, 6)),
        *(("PredatorPrey-v0", {"n_dims": n, "pushes_object": True}, (480, 480)) for n in (2, 3)),
        ("PointReach-v0", {}, (480, 480)),
        ("BitFlipping-v0", {"n_bits": 4}, (240, 480)),
    ],
)
def test_gymnasium_environments_draw_the_episode_so_far(name, parameters, size):
    env = GoalEnv(name, "rgb_array", **parameters)
    env.reset(seed=0)
    env.action_space.seed(0)
    pictures = [env.render()]
    for _ in range(2):
        env.step(env.action_space.sample())
        pictures.append(env.render())
    for one, other in pairwise(pictures):
        assert one is not None and one.shape == (*size, 3) and (one != other).any()
    env.reset(seed=0)
    np.testing.assert_array_equal(env.render(), pictures[0])


def test_a_file_without_episodes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"none\.npz: holds no episodes"):
        load_episodes(path)
