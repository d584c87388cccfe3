"""The application, and what several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.io.interruption import Interrupted
from hindsight.io.startup import LIBRARIES_MB, TORCH_MB, must_have_memory

app = typer.Typer(
    help="Hindsight replay for reinforcement learning, and a replication of PPO-HER and MEHER. "
    "To begin, type: hindsight train --her final --steps 40000",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

NamedPolicy = Annotated[
    Path,
    typer.Argument(
        help="a policy file or saved model, as in results/policies (there, `last` is the newest, "
        "and the first characters of a name's hash are enough), or a Stable-Baselines3 .zip"
    ),
]
NamedOption = Annotated[
    str | None,
    typer.Option(
        help="the policy's environment, if it comes from neither this package nor "
        "gymnasium-robotics, such as PandaReach-v3 or module:Name-v0"
    ),
]


def check_memory(spec: Any = None) -> None:
    """Raise FileError without the memory for torch, or for a cell's training."""
    from hindsight.specs.cost import megabytes

    must_have_memory(TORCH_MB if spec is None else LIBRARIES_MB + megabytes(spec))


def train_and_show(spec: Any, out: Path, execution: Any, callbacks: Sequence[Any] = ()) -> Path:
    """Train a cell and show its progress; returns the file of its curves."""
    from hindsight.library.presets import notes_of
    from hindsight.specs.code import file_name
    from hindsight.training.cell import train_cell
    from hindsight.training.progress import show

    for note in notes_of(spec):
        typer.echo(note, err=True)
    try:
        with show(out / "progress" / f"{file_name(spec)}.json") as tell:
            return train_cell(spec, out, execution, tell, callbacks)
    except Interrupted as stop:
        typer.echo(str(stop), err=True)
        raise typer.Exit(stop.status) from None
