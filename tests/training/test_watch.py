"""Films and positions of trained policies' episodes."""

import os
import subprocess
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
from hindsight.envs.render import PICTURES
from hindsight.io.files import DamagedError, FileError
from hindsight.library.model import SAC
from hindsight.library.train import is_drawn
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments.predator_prey import PREYS, Prey
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.training import watch
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.policies import agent_of, initial_row, policy_of
from tests.support.commands import hindsight
from tests.support.wants import wants
from tests.training.small import cell_in, policy_file


def cell(prey: Prey = "static", **environment: object) -> CellSpec:
    where = {"prey": prey, "grid_size": 5.0, **environment}
    return cell_in(where, {"hidden": (4,)}, steps=10_000)


def hunter(spec: CellSpec, gain: float = 3.0) -> torch.Tensor:
    """A policy with mean action gain * (prey - achieved goal), nearly."""
    n, small = spec.environment.n_dims, 1e-3
    agent = agent_of(spec)
    row = torch.zeros(1, sum(agent.sizes))
    (_, first), (_, second) = agent.policy.layers(agent.split(row)[0])
    for axis in range(n):  # tanh(x) is x where x is small
        first[0, axis, axis], first[0, axis, n + axis] = -small, small
        second[0, axis, axis] = gain / small
    return row[0]


@pytest.mark.parametrize("prey", PREYS)
@pytest.mark.parametrize("pushes", [False, True])
def test_the_episodes_are_those_of_the_evaluation(prey: Prey, pushes: bool) -> None:
    spec = cell(prey, n_dims=2, interception_distance=2.0, pushes_object=pushes)
    row = hunter(spec, 0.12)
    runs = OnPolicyRuns(spec, [4], "cpu")
    runs.begin(row[None].clone())
    beginnings = runs.evaluation_env.state[0].clone()
    evaluated = runs.evaluate()
    episodes = watch.play_hunts(spec, row, spec.evaluation.episodes, seed=4)
    rate = np.mean([episode.caught for episode in episodes])
    assert 0 < rate <= 1
    assert float(evaluated["success_rate"][0]) == pytest.approx(rate)
    assert float(evaluated["return_mean"][0]) == pytest.approx(2 * rate - 1)
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


def test_episodes_for_the_figure(tmp_path: Path) -> None:
    spec = cell("repel")
    sources = [
        policy_file(tmp_path / f"{x}/{spec.name}-None.safetensors", spec, {5: hunter(spec, x)})
        for x in (3.0, 0.0)
    ]
    out = tmp_path / "tables" / "episodes.npz"
    watch.write_episodes(sources, out)
    first, second = load_episodes(out)
    assert first.title == second.title == "repel"
    assert (first.grid_size, first.interception_distance) == (5.0, 1.0)
    # The longest successful episode.
    lengths = [len(e.predator) for e in watch.play_hunts(spec, hunter(spec), 8) if e.caught]
    assert first.caught and len(first.predator) == max(lengths)
    assert len(second.predator) == 22
    renamed = tmp_path / f"x/{spec.name.rsplit('-', 1)[0]}-0123456789-0123456789ab.safetensors"
    with pytest.raises(DamagedError, match="holds another policy than its name says") as named:
        watch.write_episodes([policy_file(renamed, spec, {5: hunter(spec)})], out)
    assert named.value.paths == (renamed,)


def test_a_gif_has_a_frame_for_every_position(tmp_path: Path) -> None:
    spec = cell("repel", max_steps=3)
    path = tmp_path / "new" / "film.gif"
    films = watch.film(spec, 0 * hunter(spec), 2)
    watch.animate(films, path)
    with Image.open(path) as shown:
        difference = np.asarray(shown.convert("RGB"), float) - films[0].frames[0]
        assert np.abs(difference).mean() < 5  # colours of a GIF are few
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
        watch.animate(watch.film(spec, hunter(spec), 1), path)
        assert path.read_bytes()[4:8] == b"ftyp"
    else:
        with pytest.raises(FileError, match=r"film\.mp4: MP4 needs ffmpeg, .* choose \.gif"):
            watch.animate(watch.film(spec, hunter(spec), 1), path)
        assert not list(tmp_path.iterdir())


def works(*ways: str) -> Callable[..., Any]:
    """A machine on which only these rendering backends work."""
    return lambda *_, env, **__: SimpleNamespace(returncode=int(env["MUJOCO_GL"] not in ways))


def test_a_foreign_environment_draws_itself(monkeypatch, tmp_path):
    """Nothing is asked of MuJoCo, which is imported and has no part in this."""
    monkeypatch.setattr(subprocess, "run", works())
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    pytest.importorskip("mujoco")
    where = {"id": "hindsight.envs:PointReach-v0", "max_episode_steps": 3}
    spec = CellSpec(environment=where, algorithm={"name": "td3", "hidden": (4,)})
    row = initial_row(spec)
    films = watch.film_policy(policy_file(tmp_path / "policy.safetensors", spec, {5: row}), 5, 2, 0)
    assert [len(each.frames) for each in films] == [4, 4]
    env = GoalEnvironments(spec.environment, [0], evaluation=True, workers=0)
    for each in films:
        for _ in range(3):
            step = env.step(policy_of(spec, row[None])(env.state))
        assert bool(step.truncated) and each.caught == bool(step.success)


@pytest.mark.parametrize("name", ["FetchReach-v4", "PointMaze_UMaze-v3"])
def test_mujoco_draws_in_the_first_way_that_works(monkeypatch, name):
    """The maze holds the environment that draws as a part of it."""
    env = GymnasiumSpec(id=name).make()
    for variable in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(subprocess, "run", works())
    with pytest.raises(FileError, match=f"{name} cannot be filmed: neither EGL nor OSMesa"):
        watch.choose_headless(env)
    monkeypatch.setattr(subprocess, "run", works("osmesa"))
    watch.choose_headless(env)
    assert os.environ["MUJOCO_GL"] == os.environ["PYOPENGL_PLATFORM"] == "osmesa"


def watched(tmp_path: Path, **environment: str) -> Any:
    """`hindsight watch` of a policy that moves a robot, without a screen."""
    where = {"id": "FetchReach-v4", "max_episode_steps": 3, "kwargs": {"width": 64, "height": 48}}
    spec = CellSpec(environment=where, algorithm={"name": "td3", "hidden": (4,)})
    policy = policy_file(tmp_path / "policy.safetensors", spec, {5: initial_row(spec)})
    hidden = dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM"), "")
    words = "watch", str(policy), "a.gif", "--episodes", "1"
    return hindsight(*words, cwd=tmp_path, **{**hidden, **environment})


def test_fetch_is_drawn_without_a_screen(tmp_path: Path) -> None:
    done = watched(tmp_path)
    if done.returncode:  # a machine without EGL and OSMesa
        assert done.stderr.startswith("error: FetchReach-v4 cannot be filmed: neither EGL")
    wants(done.returncode == 0, "a renderer without a screen", "libosmesa6 or libegl1")
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.size == (64, 48) and gif.n_frames == 4
        assert np.asarray(gif.convert("RGB")).std() > 10


@pytest.mark.parametrize("way", ["disable", "nonsense"])
def test_watching_in_a_way_that_is_none_ends_in_one_sentence(tmp_path: Path, way: str) -> None:
    result = watched(tmp_path, MUJOCO_GL=way)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and f"MUJOCO_GL={way}" in line


def test_an_environment_without_a_picture_is_not_offered_as_a_film(monkeypatch, tmp_path):
    spec = CellSpec(environment={"id": "PointReach-v0"})
    assert is_drawn(spec)
    monkeypatch.delitem(PICTURES, "PointReach-v0")
    assert not is_drawn(spec)
    with pytest.raises(FileError, match="PointReach-v0 cannot be filmed: it has no render_mode"):
        SAC("PointReach-v0", seeds=1, hidden=(8,)).film(tmp_path / "nothing.gif")
