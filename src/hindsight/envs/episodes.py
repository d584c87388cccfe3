"""Predator-prey episodes as arrays and files.  Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindsight.io.files import (
    DamagedError,
    FileError,
    machine_failed,
    must_be_regular,
    reason,
    write_whole,
)
from hindsight.specs.environments.predator_prey import PredatorPreySpec

Positions = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Episode:
    """One episode in the box [-grid_size, grid_size]^n; predator, prey, pushed: [T + 1, n], n >= 2.

    `pushed` is the object that must meet the prey, in the variant `pushes_object`.  Position 0 is
    the start, position t that after step t, including the prey's move.
    """

    predator: Positions
    prey: Positions
    grid_size: float
    interception_distance: float
    title: str = ""
    pushed: Positions | None = None

    @classmethod
    def of(cls, spec: PredatorPreySpec, states: Positions) -> "Episode":
        """Make an episode from the states [T + 1, obs] of the environment."""
        n, size = spec.n_dims, (spec.grid_size, spec.interception_distance)
        achieved, prey, last = states[:, :n], states[:, n : 2 * n], states[:, -n:]
        if spec.pushes_object:
            return cls(last, prey, *size, spec.prey, pushed=achieved)
        return cls(achieved, prey, *size, spec.prey)

    @property
    def n(self) -> int:
        return self.predator.shape[1]

    @property
    def steps(self) -> int:
        return len(self.predator) - 1

    @property
    def achieved(self) -> Positions:
        """The achieved goal [T + 1, n]: the pushed object's position or else the predator's."""
        return self.predator if self.pushed is None else self.pushed

    @property
    def caught(self) -> bool:
        """Whether the last step is an interception.

        Interception depends on the predator after its move and the prey before its own.
        """
        if self.steps == 0:
            return False
        distance = np.linalg.norm(self.achieved[-1] - self.prey[-2])
        return bool(distance <= self.interception_distance)


def save_episodes(path: Path, episodes: Sequence[Episode]) -> None:
    """Write episodes atomically to an .npz file, for `load_episodes`."""
    arrays: dict[str, Any] = {}
    for i, episode in enumerate(episodes):
        arrays[f"predator_{i}"], arrays[f"prey_{i}"] = episode.predator, episode.prey
        arrays[f"size_{i}"] = np.array([episode.grid_size, episode.interception_distance])
        arrays[f"title_{i}"] = np.array(episode.title)
        if episode.pushed is not None:
            arrays[f"pushed_{i}"] = episode.pushed
    write_whole(path, lambda part: np.savez(part, **arrays))


def load_episodes(path: Path) -> list[Episode]:
    """Read a file that `save_episodes` wrote; FileError if it contains no episodes."""
    try:
        must_be_regular(path)
        with np.load(path, allow_pickle=False) as data:
            if any(entry.compress_type for entry in data.zip.infolist()):  # not by `save_episodes`
                raise ValueError("its archive is compressed, and could expand beyond memory")
            return [
                Episode(
                    data[f"predator_{i}"],
                    data[f"prey_{i}"],
                    float(data[f"size_{i}"][0]),
                    float(data[f"size_{i}"][1]),
                    str(data[f"title_{i}"]),
                    data[f"pushed_{i}"] if f"pushed_{i}" in data.files else None,
                )
                for i in range(sum(name.startswith("predator_") for name in data.files))
            ]
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path}: holds no episodes: {reason(error)}") from error
    except Exception as error:  # an unrelated file can make the loader raise anything
        if machine_failed(error):
            raise
        raise DamagedError(f"{path}: holds no episodes: {reason(error)}", path) from error
