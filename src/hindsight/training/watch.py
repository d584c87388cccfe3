"""Episodes of trained policies: to watch, and for the picture of the environment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.animation import AbstractMovieWriter, FFMpegWriter, PillowWriter

from hindsight.envs.episodes import Episode, save_episodes
from hindsight.envs.predator_prey import PredatorPrey
from hindsight.envs.render import draw_episode, figure_axes
from hindsight.files import FileError, write_whole
from hindsight.specs.cell import CellSpec, PredatorPreySpec
from hindsight.training.files import load
from hindsight.training.policies import initial_row, policy_of

FRAMES_PER_SECOND = 5


@torch.no_grad()
def play(spec: CellSpec, row: torch.Tensor, episodes: int, seed: int = 0) -> list[Episode]:
    """Evaluation episodes of one run's policy, `row` [parameter], with the mean action."""
    where, act = spec.environment, policy_of(spec, row[None])
    if not isinstance(where, PredatorPreySpec):
        raise FileError(f"{where.id}: only episodes of PredatorPrey-v0 can be watched")
    env = PredatorPrey([where], [seed], episodes, evaluation=True)
    n, box, longest = env.n, where.grid_size, 1 + where.max_steps
    env.prepare_rollout(0, longest)
    achieved, prey = [env.state[0, :, :n].clone()], [env.state[0, :, n : 2 * n].clone()]
    predator = [env.state[0, :, -n:].clone()]
    length = torch.full((episodes,), longest)
    for t in range(1, longest + 1):
        # From an episode's last step on, the state shows the beginning of the next.
        velocity = env.state[0, :, 2 * n : 3 * n]
        prey.append((env.state[0, :, n : 2 * n] + velocity).clamp(-box, box))
        actions = act(env.state)
        predator.append((predator[-1] + actions[0].clamp(-1, 1)).clamp(-box, box))
        step = env.step(actions)
        achieved.append(step.next_achieved[0].clone())
        length = torch.where(step.terminated[0] & (length > t), t, length)
    if not where.pushes_object:
        predator = achieved
    paths = [torch.stack(path, 1).numpy() for path in (predator, prey, achieved)]
    return [
        Episode(
            by[: end + 1], at[: end + 1], box, where.interception_distance, where.prey,
            pushed[: end + 1] if where.pushes_object else None,
        )
        for by, at, pushed, end in zip(*paths, length.tolist(), strict=True)
    ]  # fmt: skip


def _saved(path: Path) -> dict[str, Any]:
    saved = load(path)
    if not {"spec", "seeds", "rows"} <= saved.keys():
        raise FileError(f"{path}: is no policy file")
    return saved


def runs_in(path: Path) -> list[int]:
    """The runs (seeds) of a policy file."""
    return list(_saved(path)["seeds"])


def read_policy(path: Path, run: int) -> tuple[CellSpec, torch.Tensor]:
    """Specification and parameters of one run, from a file below results/policies."""
    saved = _saved(path)
    if run not in saved["seeds"]:
        raise FileError(f"{path}: has no run {run}; there are {saved['seeds']}")
    spec, row = (
        CellSpec.model_validate_json(saved["spec"]),
        saved["rows"][saved["seeds"].index(run)],
    )
    if len(row) != len(initial_row(spec)):
        raise FileError(f"{path}: its parameters are not those of its specification")
    return spec, row


def play_policy(path: Path, run: int, episodes: int, seed: int) -> list[Episode]:
    """Episodes of one run of a policy file."""
    spec, row = read_policy(path, run)
    return play(spec, row, episodes, seed)


def write_episodes(policies: Sequence[Path], out: Path) -> None:
    """One episode of each policy file: the longest of some, if may be one that ends well."""
    played = [play_policy(path, 0, 8, 0) for path in policies]
    save_episodes(out, [max(some, key=lambda e: (e.caught, e.steps)) for some in played])


def animate(episodes: Sequence[Episode], out: Path) -> None:
    """Write the episodes, one after the other, as a GIF or (with ffmpeg) an MP4."""
    if out.suffix not in (".gif", ".mp4"):
        raise FileError(f"{out}: an animation ends in .gif or .mp4")
    if out.suffix == ".mp4" and not FFMpegWriter.isAvailable():
        raise FileError(f"{out}: MP4 needs ffmpeg, which is not installed; choose .gif")
    kind = PillowWriter if out.suffix == ".gif" else FFMpegWriter
    write_whole(out, lambda beside: _film(episodes, kind(FRAMES_PER_SECOND), beside))


def _film(episodes: Sequence[Episode], writer: AbstractMovieWriter, out: Path) -> None:
    figure, axes = figure_axes(episodes[0].n, episodes[0].pushed is not None)
    with writer.saving(figure, str(out), dpi=100):
        for episode in episodes:
            # The end stays in view for a second.
            for step in [*range(episode.steps + 1), *[episode.steps] * FRAMES_PER_SECOND]:
                axes.clear()
                draw_episode(axes, episode.until(step))
                writer.grab_frame()
