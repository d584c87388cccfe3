"""Hidden commands for the workflow's jobs."""

import platform
from pathlib import Path
from typing import Annotated

import typer

from hindsight.cli.common import NamedOption, app, check_memory, train_and_show

PlannedOption = Annotated[
    str | None, typer.Option("--code", help="the fingerprint of the code that was planned for")
]


@app.command(hidden=True)
def cell(
    spec: Path,
    device: Annotated[str, typer.Option()] = "cpu",
    threads: Annotated[int, typer.Option(min=1)] = 1,
    checkpoint_seconds: Annotated[float, typer.Option(min=0)] = 60.0,
    env: NamedOption = None,
) -> None:
    """Train the cell of a specification file (a job of the workflow)."""
    from hindsight.specs.from_file import read_spec

    out = Path("results").absolute()  # an environment's own code may change the working folder
    checked = read_spec(spec, env)
    check_memory(checked)
    # If SLURM kills the job, this log and the node's name are all that the user sees.
    typer.echo(f"training on {platform.node()}")
    from hindsight.training.cell import Execution

    execution = Execution(device, checkpoint_seconds, threads, threads, keep_finished=True)
    typer.echo(f"curves: {train_and_show(checked, out, execution)}")


@app.command(hidden=True)
def summarise(
    plans: list[Path],
    out: Annotated[Path, typer.Option()],
    processes: Annotated[int, typer.Option(min=1)] = 1,
    code: PlannedOption = None,
) -> None:
    """Make experiments' tables from their cells (a job of the workflow)."""
    from hindsight.analysis.summarise import cells_of, summarise_all
    from hindsight.specs.manifest import verify

    verify(cells_of(plans))
    for entry in summarise_all(plans, out, processes, code):
        typer.echo(f"missing: {entry['cell']}")


@app.command(hidden=True)
def episodes(out: Path, policies: list[Path], code: PlannedOption = None) -> None:
    """Record episodes of policies for the figure of the environment (a job of the workflow)."""
    from hindsight.io.records import Making
    from hindsight.training.watch import write_episodes

    making = Making("episodes", [str(path) for path in policies], code)
    write_episodes(policies, out)
    making.record(out)


@app.command(hidden=True)
def draw(
    out: list[Path],
    tables: Annotated[Path, typer.Option()],
    episodes: Annotated[Path, typer.Option()],
    processes: Annotated[int, typer.Option(min=1)] = 1,
    code: PlannedOption = None,
) -> None:
    """Draw figures, given by their files, from the tables (a job of the workflow)."""
    from hindsight.figures.draw import draw_all
    from hindsight.specs.manifest import verify

    verify([episodes])
    draw_all(out, tables, episodes, processes, code)


@app.command(hidden=True)
def claims(out: Path, tables: list[Path], code: PlannedOption = None) -> None:
    """Write the verdicts to `out`, from the tables with these records (a job of the workflow)."""
    from hindsight.claims import write_claims
    from hindsight.io.records import Making

    making = Making("claims", [str(path) for path in tables], code)
    for verdict in write_claims(out, [path.parent.name for path in tables]):
        typer.echo(f"{verdict.claim} {verdict.fidelity}: {verdict.verdict}")
    making.record(out)


@app.command(hidden=True)
def report(
    html: Path,
    scoreboard: Path,
    appendix: Path,
    inputs: Annotated[list[Path], typer.Option("--input")],
    code: PlannedOption = None,
) -> None:
    """Write the page, the scoreboard and its appendix (a job of the workflow)."""
    from hindsight.analysis.summarise import cells_of
    from hindsight.io.records import RECORD, Making
    from hindsight.report.build import build
    from hindsight.specs.manifest import verify

    making = Making("report", [str(path) for path in inputs], code)
    (claims,) = (path for path in inputs if path.name == "claims.json")
    tables = [path.parent for path in inputs if path.name == RECORD]
    verify(cells_of(folder / "plan.json" for folder in tables))
    figures = [path for path in inputs if path.suffix == ".png"]
    names = [folder.name for folder in tables]
    pages = build(claims.parent, figures, html, scoreboard, appendix, names)
    making.record(html, pages)
