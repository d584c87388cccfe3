"""The command line: commands for users, and hidden ones for the workflow's jobs.

Commands import what they need themselves, so that drawing a figure does not wait for torch.
"""

import gc
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from hindsight import __version__

# Importing them registers their commands, in the order of --help.
from hindsight.cli import jobs, library, replication  # noqa: F401
from hindsight.cli.common import app
from hindsight.io.files import DamagedError, FileError, machine_failed, reason, set_aside
from hindsight.io.interruption import end_with_parent
from hindsight.io.startup import have_home, must_have_memory, open_streams
from hindsight.specs.errors import EnvironmentFailure, SpecError

#: Packages of the optional dependency group `report`.
REPORT = ("jinja2", "markdown_it", "seaborn")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"hindsight {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="print the version and exit"
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command; print errors that the user can fix as one sentence."""
    # By default, collecting garbage takes a tenth of the time to import torch and Numba, and of the
    # time to make tables and figures, which have many objects.
    gc.set_threshold(100_000, 50)
    open_streams()
    end_with_parent()
    # A notebook's backend may not be installed here; everything is drawn into files.
    os.environ["MPLBACKEND"] = "agg"
    try:
        must_have_memory()
        have_home()
        try:
            app()
        except DamagedError as error:
            raise FileError(f"{error}{_set_aside(error.paths)}") from None
        except (MemoryError, RuntimeError) as error:
            if not machine_failed(error):
                raise
            what = "the GPU failed" if "CUDA error" in str(error) else "out of memory"
            raise FileError(f"{what} ({reason(error)})") from None
        except ModuleNotFoundError as error:
            if error.name not in REPORT:
                raise
            raise SpecError(
                f"figures and reports need the package {error.name}: "
                "pip install jinja2 markdown-it-py seaborn"
            ) from None
    except (SpecError, EnvironmentFailure, FileError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None


def _set_aside(paths: Iterable[Path]) -> str:
    """Set damaged cells aside; returns the end of the error message."""
    from hindsight.specs.config import TRAINED

    actions = []
    for path in paths:
        if TRAINED / "cells" in path.parents:
            actions.append(
                f"set aside as {set_aside(path).name}; the workflow trains it again, unless "
                "`results` is cached"
            )
        elif TRAINED / "policies" in path.parents:
            curves = TRAINED / "cells" / path.relative_to(TRAINED / "policies")
            actions.append(
                f"set aside as {set_aside(path).name}; the workflow leaves it out, and trains it "
                f"again only once {curves.with_suffix('.parquet')} is removed"
            )
        elif TRAINED / "tables" in path.parents:
            actions.append("it is made again when the workflow next runs")
    return f"; {', '.join(actions)}" if actions else ""
