"""Episodes as arrays and as a file."""

from pathlib import Path

import numpy as np
import pytest

from hindsight.envs.episodes import Episode, load_episodes, save_episodes
from hindsight.io.files import FileError


def walk(n: int, prey: str = "repel") -> Episode:
    """Five steps along the diagonal."""
    steps = np.linspace(0.0, 1.0, 6)[:, None] * np.ones(n)
    return Episode(6.0 * steps, 5.0 + 1.2 * steps, 10.0, 1.0, prey)


def test_episodes_survive_a_file(tmp_path: Path) -> None:
    path = save_episodes(tmp_path / "episodes.npz", [walk(2, "static"), walk(3)])
    first, second = load_episodes(path)
    assert (first.title, second.title) == ("static", "repel")
    np.testing.assert_array_equal(second.predator, walk(3).predator)
    assert (second.grid_size, second.interception_distance) == (10.0, 1.0)


def test_a_projection_does_not_call_a_distant_prey_caught() -> None:
    near, far = walk(4), walk(4)
    far.prey[:, 3] = -9.0  # near in the dimensions that are drawn, far in the fourth
    near.prey[-2] = near.predator[-1]
    assert near.caught and not far.caught


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match=r"\(6, 2\).*\(5, 2\)"):
        Episode(np.zeros((6, 2)), np.zeros((5, 2)), 10.0, 1.0)
    with pytest.raises(ValueError, match="1 dimensions"):
        Episode(np.zeros((6, 1)), np.zeros((6, 1)), 10.0, 1.0)


def test_a_file_without_episodes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"none\.npz: holds no episodes"):
        load_episodes(path)
