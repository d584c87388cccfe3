"""Films and positions of trained policies' episodes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.animation import FFMpegWriter
from PIL import Image

from hindsight.envs.episodes import load_episodes
from hindsight.envs.goal_environments import GoalEnvironments
from hindsight.io.files import FileError
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments.predator_prey import PREYS, PredatorPreySpec, Prey
from hindsight.specs.errors import SpecError
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training.files import save
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.policies import agent_of, initial_row, policy_of
from hindsight.training.watch import (
    animate,
    choose_headless,
    film,
    film_policy,
    play_hunts,
    write_episodes,
)
from tests.commands import hindsight
from tests.wants import wants


def cell(prey: Prey = "static", **environment: object) -> CellSpec:
    where = PredatorPreySpec.model_validate({"prey": prey, "grid_size": 5.0, **environment})
    return CellSpec(environment=where, algorithm=PPOSpec(hidden=(4,)))


def hunter(spec: CellSpec, gain: float = 3.0) -> torch.Tensor:
    """A policy with mean action gain * (prey - achieved goal), nearly."""
    n, small = spec.environment.n_dims, 1e-3
    agent = agent_of(spec)
    row = torch.zeros(1, agent.n_parameters)
    (_, first), (_, second) = agent.policy.layers(agent.split(row)[0])
    for axis in range(n):  # tanh(x) is x where x is small
        first[0, axis, axis], first[0, axis, n + axis] = -small, small
        second[0, axis, axis] = gain / small
    return row[0]


def test_a_hunter_catches_a_prey_that_stands_still() -> None:
    spec = cell()
    for episode in play_hunts(spec, hunter(spec), 20, seed=3):
        distance = np.linalg.norm(episode.predator - episode.prey, axis=-1)
        assert episode.caught
        assert distance[-1] <= 1 < distance[:-1].min()
        assert (episode.prey == episode.prey[0]).all()
        # A step is as long as the largest coordinate's move, which is 1 until the prey is near.
        moves = np.abs(np.diff(episode.predator, axis=0)).max(axis=-1)
        np.testing.assert_allclose(moves[:-1], 1, atol=1e-4)
        assert (episode.grid_size, episode.interception_distance) == (5.0, 1.0)
        assert episode.title == "static"


@pytest.mark.parametrize("prey", PREYS)
@pytest.mark.parametrize("pushes", [False, True])
def test_the_episodes_are_those_of_the_evaluation(prey: Prey, pushes: bool) -> None:
    spec = cell(prey, n_dims=2, interception_distance=2.0, pushes_object=pushes)
    row = hunter(spec, 0.12)
    runs = OnPolicyRuns(spec, [4], "cpu")
    runs.start_from(row[None])
    beginnings = runs.evaluation_env.state[0].clone()
    evaluated = runs.evaluate()
    episodes = play_hunts(spec, row, spec.evaluation.episodes, seed=4)
    rate = np.mean([episode.caught for episode in episodes])
    assert 0 < rate <= 1
    assert float(evaluated["success_rate"][0]) == pytest.approx(rate)
    length = np.mean([episode.steps for episode in episodes])
    assert float(evaluated["episode_length"][0]) == pytest.approx(length)
    for episode, first in zip(episodes, beginnings.numpy(), strict=True):
        np.testing.assert_array_equal(episode.achieved[0], first[:2])
        np.testing.assert_array_equal(episode.prey[0], first[2:4])
        np.testing.assert_array_equal(episode.predator[0], first[-2:] if pushes else first[:2])
        # The policy acts on what it saw.
        seen = 0.12 * (episode.prey - episode.achieved)[:-1]
        moved = np.clip(episode.predator[:-1] + np.clip(seen, -1, 1), -5, 5)
        np.testing.assert_allclose(episode.predator[1:], moved, atol=2e-3)


def test_other_environments_have_no_such_positions() -> None:
    spec = CellSpec.model_validate({"environment": {"id": "BitFlipping-v0"}})
    with pytest.raises(SpecError, match="PredatorPrey-v0"):
        play_hunts(spec, initial_row(spec), 1)


@pytest.mark.parametrize(("gain", "caught"), [(3.0, True), (0.0, False)])
def test_a_hunt_is_filmed_to_its_end(gain: float, caught: bool) -> None:
    spec = cell()
    (filmed,) = film(spec, hunter(spec, gain), 1)
    assert filmed.caught == caught and filmed.frames_per_second == 5
    # The start, and a picture after each of 21 steps at most.
    assert len(filmed.frames) < 22 if caught else len(filmed.frames) == 22


# -- files ----------------------------------------------------------------------------------------


def test_episodes_for_the_figure(tmp_path: Path) -> None:
    spec, sources = cell("repel"), []
    for name, gain in [("hunts", 3.0), ("idles", 0.0)]:
        sources.append(tmp_path / f"{name}.pt")
        rows = hunter(spec, gain)[None]
        save(sources[-1], {"spec": spec.model_dump_json(), "seeds": [0], "rows": rows})
    out = tmp_path / "tables" / "episodes.npz"
    write_episodes(sources, out)
    first, second = load_episodes(out)
    assert first.title == second.title == "repel"
    # The longest successful episode.
    lengths = [len(e.predator) for e in play_hunts(spec, hunter(spec), 8) if e.caught]
    assert first.caught and len(first.predator) == max(lengths)
    assert len(second.predator) == 22


def test_a_gif_has_a_frame_for_every_position(tmp_path: Path) -> None:
    spec = cell("repel", max_steps=3)
    path = tmp_path / "new" / "film.gif"
    animate(film(spec, 0 * hunter(spec), 2), path)
    with Image.open(path) as shown:
        milliseconds = 0
        for frame in range(shown.n_frames):
            shown.seek(frame)
            milliseconds += shown.info["duration"]
        # Pillow joins frames that are alike; an episode of 4 steps shows 5 positions.
        assert shown.n_frames >= 2 * 4
        assert shown.size == (480, 480)
    assert milliseconds == 1000 // 5 * 2 * (5 + 5)  # five a second; the end stays for one
    assert [p.name for p in path.parent.iterdir()] == ["film.gif"]


def test_an_mp4_needs_ffmpeg(tmp_path: Path) -> None:
    spec, path = cell(max_steps=2), tmp_path / "film.mp4"
    if FFMpegWriter.isAvailable():
        animate(film(spec, hunter(spec), 1), path)
        assert path.read_bytes()[4:8] == b"ftyp"
    else:
        with pytest.raises(FileError, match=r"film\.mp4: MP4 needs ffmpeg, .* choose \.gif"):
            animate(film(spec, hunter(spec), 1), path)
        assert not list(tmp_path.iterdir())


def test_other_endings_are_refused(tmp_path: Path) -> None:
    spec = cell()
    with pytest.raises(FileError, match=r"film\.avi: an animation must be a \.gif or \.mp4"):
        animate(film(spec, hunter(spec), 1), tmp_path / "film.avi")


# -- foreign environments --------------------------------------------------------------------------


def foreign(**environment: object) -> tuple[CellSpec, torch.Tensor]:
    spec = CellSpec.model_validate(
        {"environment": environment, "algorithm": {"name": "td3", "hidden": (4,)}}
    )
    return spec, initial_row(spec)


def test_a_foreign_environment_draws_itself(tmp_path: Path) -> None:
    spec, row = foreign(id="hindsight.envs:PointReach-v0", max_episode_steps=3)
    path = tmp_path / "policy.pt"
    save(path, {"spec": spec.model_dump_json(), "seeds": [5], "rows": row[None]})
    films = film_policy(path, 5, 2, 0)
    assert [len(each.frames) for each in films] == [4, 4]
    env = GoalEnvironments(spec.environment, [0], evaluation=True, workers=0)
    for each in films:
        for _ in range(3):
            step = env.step(policy_of(spec, row[None])(env.state))
        assert bool(step.truncated) and each.caught == bool(step.success)
    animate(films, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as gif:
        shown = films[0].frames[0]
        assert gif.size == shown.shape[1::-1] and gif.n_frames > 2
        difference = np.asarray(gif.convert("RGB"), float) - shown
    assert np.abs(difference).mean() < 5  # colours of a GIF are few


def works(*ways: str) -> Callable[..., Any]:
    """A machine on which only these rendering backends work."""
    return lambda *_, env, **__: SimpleNamespace(returncode=int(env["MUJOCO_GL"] not in ways))


@pytest.mark.parametrize(
    ("chosen", "ways", "found"),
    [
        (None, ("osmesa",), "osmesa"),
        (None, ("egl", "osmesa"), "egl"),
        (None, (), "neither EGL nor OSMesa"),
        ("osmesa", ("egl",), "MUJOCO_GL=osmesa does not work here"),
        ("disable", ("egl",), "MUJOCO_GL=disable does not work here"),
    ],
)
def test_mujoco_draws_as_was_chosen_or_in_the_first_way_that_works(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, ways: tuple[str, ...], found: str
) -> None:
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.setenv(name, chosen or "")  # so that what is set is undone
        if chosen is None:
            monkeypatch.delenv(name)
    monkeypatch.setattr(subprocess, "run", works(*ways))
    if found in ways:
        choose_headless(GymnasiumSpec(id="FetchReach-v4").make())
        assert os.environ["MUJOCO_GL"] == os.environ["PYOPENGL_PLATFORM"] == found
    else:
        with pytest.raises(FileError, match=f"FetchReach-v4 cannot be drawn: {found}"):
            choose_headless(GymnasiumSpec(id="FetchReach-v4").make())
        assert os.environ.get("MUJOCO_GL") == chosen


def test_nothing_is_asked_of_mujoco_that_it_does_not_draw(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(subprocess, "run", works())
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    pytest.importorskip("mujoco")  # is imported, and has no part in this
    spec, row = foreign(id="hindsight.envs:PointReach-v0", max_episode_steps=3)
    (filmed,) = film(spec, row, 1)
    assert len(filmed.frames) == 4
    with pytest.raises(FileError, match="neither EGL nor OSMesa"):
        choose_headless(GymnasiumSpec(id="PointMaze_UMaze-v3").make())


FILM = """
import sys, torch
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.training.policies import initial_row
from hindsight.training.watch import film
where = {"id": "FetchReach-v4", "max_episode_steps": 3, "kwargs": {"width": 64, "height": 48}}
spec = CellSpec(environment=where, algorithm={"name": "td3", "hidden": (4,)})
try:
    (filmed,) = film(spec, initial_row(spec), 1)
except FileError as error:
    sys.exit(f"error: {error}")
print(*(f"{f.shape} {f.std():.0f}" for f in filmed.frames), sep=";")
"""


def test_fetch_is_drawn_without_a_screen() -> None:
    """In its own process, because a process chooses its backend once."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")
    bare = {key: value for key, value in os.environ.items() if key not in hidden}
    command = [sys.executable, "-c", FILM]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=bare)
    if result.returncode:  # a machine without EGL and OSMesa
        assert result.stderr.startswith("error: FetchReach-v4 cannot be drawn: neither EGL")
    wants(result.returncode == 0, "a renderer without a screen", "libosmesa6 or libegl1")
    frames = result.stdout.strip().split(";")
    assert len(frames) == 4
    for frame in frames:
        shape, contrast = frame.rsplit(" ", 1)
        assert shape == "(48, 64, 3)" and int(contrast) > 10


@pytest.mark.parametrize("way", ["disable", "nonsense"])
def test_watching_in_a_way_that_is_none_ends_in_one_sentence(tmp_path: Path, way: str) -> None:
    spec = CellSpec(environment={"id": "FetchReach-v4"}, algorithm={"name": "td3", "hidden": (4,)})
    policy = tmp_path / "policy.pt"
    torch.save(
        {"spec": spec.model_dump_json(), "seeds": [0], "rows": initial_row(spec)[None]}, policy
    )
    result = hindsight("watch", str(policy), "a.gif", cwd=tmp_path, MUJOCO_GL=way)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and f"MUJOCO_GL={way}" in line
