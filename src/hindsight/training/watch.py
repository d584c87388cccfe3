"""Episodes of trained policies: rendered frames for animations, and positions for figures."""

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from hindsight.envs.environment import make
from hindsight.envs.episodes import Episode, save_episodes
from hindsight.envs.gymnasium.workers import episode_seed
from hindsight.io.checksums import about
from hindsight.io.files import DamagedError, FileError, write_whole
from hindsight.io.startup import import_matplotlib
from hindsight.specs.cell import CellSpec
from hindsight.specs.environments.predator_prey import PredatorPreySpec
from hindsight.specs.errors import EnvironmentFailure, SpecError, validated
from hindsight.specs.from_file import cell_of
from hindsight.streams import Purpose
from hindsight.training.evaluate import Actor, actor_of, episode
from hindsight.training.finished import is_policy_of
from hindsight.training.policies import policy_of
from hindsight.training.policy_files import AnotherPolicyError, PolicyFile, read_policy
from hindsight.training.runs import play

import_matplotlib()
from matplotlib.animation import FFMpegWriter, PillowWriter  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402


@dataclass(frozen=True)
class Filmed:
    frames: list[NDArray[Any]]  # [height, width, 3] uint8: at the start and after each step
    frames_per_second: int
    caught: bool  # whether the episode succeeded


def play_hunts(spec: CellSpec, row: torch.Tensor, episodes: int, seed: int = 0) -> list[Episode]:
    """Play hunts with the mean actions of predator-prey's `row` [parameter]; returns positions."""
    policy, where = policy_of(spec, row[None]), cast(PredatorPreySpec, spec.environment)
    env = make(where, [seed], episodes, torch.device("cpu"), evaluation=True)
    seen = [env.state[0].clone()]
    _, _, lengths = play(env, policy, look=lambda step: seen.append(step.next_obs[0].clone()))
    states, ends = torch.stack(seen, 1).numpy(), (1 + lengths[0].long()).tolist()
    return [Episode.of(where, path[:end]) for path, end in zip(states, ends, strict=True)]


def film_policy(
    path: Any, run: int | None, episodes: int, seed: int, named: str | None = None
) -> list[Filmed]:
    """Render episodes of one run of a policy file; see `read_policy` for `run` and `named`.

    Instead of the file, `path` may be a model with `predict(obs)`, which acts in `named`.
    """
    if hasattr(path, "predict"):
        spec = validated(CellSpec, {"environment": {"id": named}})
        return film(spec, lambda obs: path.predict(obs, deterministic=True)[0], episodes, seed)
    spec, row = read_policy(path, run, named)
    if named is not None and named != spec.environment.id:
        raise FileError(f"{path}: its environment is {spec.environment.id}, not {named}")
    return film(spec, row, episodes, seed)


def film(
    spec: CellSpec, policy: torch.Tensor | Actor, episodes: int, seed: int = 0
) -> list[Filmed]:
    """Play and render episodes; FileError if that is impossible, or not without a screen.

    `policy`: a run's parameters [parameter], or a function from observations to actions.
    """
    where = spec.environment
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # gymnasium's, of what is said below
        try:
            env = where.make(render_mode="rgb_array")
        except (EnvironmentFailure, SpecError):  # its own mode, or none of ours
            env = where.make()
    modes = [env.render_mode] if env.render_mode else env.metadata.get("render_modes", ())
    if "rgb_array" not in modes:
        raise FileError(f'{where.id} cannot be filmed: it has no render_mode "rgb_array"')
    if where.foreign:
        choose_headless(env)
    act = actor_of(spec, policy, env) if isinstance(policy, torch.Tensor) else policy
    speed = max(round(env.metadata.get("render_fps", 25)), 1)
    filmed = []
    for number in range(episodes):
        frames: list[NDArray[Any]] = []

        def look(frames: list[NDArray[Any]] = frames) -> None:
            try:
                image: Any = env.render()
            except NotImplementedError:
                raise FileError(f"{where.id} cannot be filmed: it has no render method") from None
            if np.ndim(image) != 3:
                raise FileError(
                    f"{where.id} cannot be filmed: render returned {type(image).__name__} of shape "
                    f"{np.shape(image)}, not an image"
                )
            frames.append(np.array(image, np.uint8))

        first = episode_seed((seed, 0), Purpose.EVALUATION_SPAWN, number)
        any_success = getattr(where, "success", "last") == "any"
        _, _, success = episode(act, env, first, where, look, any_success)
        filmed.append(Filmed(frames, speed, success == 1))
    env.close()
    return filmed


def choose_headless(env: gym.Env[Any, Any]) -> None:
    """If MuJoCo renders, let it do so without a screen: with MUJOCO_GL, or what works.

    Raises FileError if MUJOCO_GL, or without it every backend, fails.
    """
    bare = env.unwrapped
    parts = [bare, *(x for x in vars(bare).values() if isinstance(x, gym.Env))]
    values = [value for part in parts for value in vars(part).values()]
    if not any(type(value).__module__.partition(".")[0] == "mujoco" for value in values):
        return
    chosen = os.environ.get("MUJOCO_GL")
    # Each trial runs in its own process, because a failed backend prevents the use of another.
    trial = (
        "import mujoco; context = mujoco.GLContext(64, 64); context.make_current(); "
        "mujoco.MjrContext(mujoco.MjModel.from_xml_string('<mujoco/>'), 100)"
    )
    for way in [chosen] if chosen else ["egl", "osmesa"]:
        environment = {**os.environ, "MUJOCO_GL": way, "PYOPENGL_PLATFORM": way}
        tried = subprocess.run(
            [sys.executable, "-c", trial], env=environment, capture_output=True, check=False
        )
        if tried.returncode == 0:
            os.environ["MUJOCO_GL"] = os.environ["PYOPENGL_PLATFORM"] = way
            return
    why = "neither EGL nor OSMesa works here; on Debian or Ubuntu install libegl1 or libosmesa6"
    if chosen:
        why = f"MUJOCO_GL={chosen} does not work here"
    raise FileError(f"{env.spec.id if env.spec else env} cannot be filmed: {why}")


def write_episodes(policies: Sequence[Path], out: Path) -> None:
    """Write one episode per policy file: the longest of eight, if possible a successful one.

    Raises DamagedError for a policy of another training than its name or the curves beside it say.
    """
    for path in policies:
        try:
            file = PolicyFile.read(path)
        except AnotherPolicyError as error:
            raise DamagedError(str(error), path) from error
        spec = cell_of(file.values, path)
        curves = path.parents[2] / "cells" / path.parent.name / f"{path.stem}.parquet"
        found = about(curves)
        if found and not is_policy_of(spec, found, file.saved, path):
            raise DamagedError(f"{path}: is of another training than {curves}", path)
    played = [play_hunts(*read_policy(path), 8) for path in policies]
    save_episodes(out, [max(some, key=lambda e: (e.caught, e.steps)) for some in played])


def film_writer(out: Path) -> type[PillowWriter] | type[FFMpegWriter]:
    """Matplotlib's writer for this file; raises FileError for another format than GIF or MP4."""
    if out.suffix not in (".gif", ".mp4"):
        raise FileError(f"{out}: an animation must be a .gif or .mp4 file")
    if out.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise FileError(f"{out}: MP4 needs ffmpeg, which is not installed; choose .gif")
    return PillowWriter if out.suffix == ".gif" else FFMpegWriter


def animate(episodes: Sequence[Filmed], out: Path) -> None:
    """Write the episodes, one after the other, as a GIF or (with ffmpeg) an MP4."""
    writer = film_writer(out)(episodes[0].frames_per_second)
    height, width, _ = episodes[0].frames[0].shape
    figure = Figure(figsize=(width / 100, height / 100), dpi=100)
    image = figure.figimage(episodes[0].frames[0])

    def write(beside: Path) -> None:
        with writer.saving(figure, str(beside), dpi=100):
            for episode in episodes:
                # The last frame stays for a second.
                for frame in episode.frames + episode.frames[-1:] * episode.frames_per_second:
                    image.set_data(frame)
                    writer.grab_frame()

    write_whole(out, write)
