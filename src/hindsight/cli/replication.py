"""Commands of the replication."""

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hindsight.cli.common import NamedOption, app, check_memory

#: The kinds of file that figures can be.
Format = StrEnum("Format", ["png", "pdf", "svg"])


@app.command()
def plan(
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", help="override a key of config.yaml: seeds=4; repeatable"),
    ] = None,
    jobs: Annotated[
        list[int] | None,
        typer.Option(min=1, help="estimate the time with this many jobs at once; repeatable"),
    ] = None,
) -> None:
    """Show what a configuration would train: cells, runs, estimated time, memory and disk."""
    import pandas as pd
    from rich.filesize import decimal

    from hindsight.pipeline.project import Project, must_be_in_its_clone
    from hindsight.report.definitions import must_fit
    from hindsight.specs.config import CONFIG, load, overrides_of
    from hindsight.specs.cost import file_bytes, seconds, wall_seconds
    from hindsight.specs.plan import left_out

    must_be_in_its_clone()
    chosen = load(CONFIG, overrides_of(config or []))
    must_fit(chosen)
    project = Project(chosen)
    size, cells = chosen.size, project.plan.cells
    each = pd.DataFrame(index=list(cells))
    each["cells"] = 1
    each["runs"] = [spec.seeds for spec in cells.values()]
    each["steps (millions)"] = [spec.steps * spec.seeds / 1e6 for spec in cells.values()]
    each["core-hours"] = [seconds(spec) / 3600 for spec in cells.values()]
    each["trained"] = each.index.isin(project.there)
    table = {name: each.loc[project.plan.cells_of(name)].sum() for name in project.plan.experiments}
    table["all (shared cells count once)"] = each.sum()
    typer.echo(f"{project.source}: networks {size.hidden}, at most {size.steps:,} steps")
    counts = dict.fromkeys(("cells", "runs", "trained"), int)
    typer.echo(pd.DataFrame(table).T.astype(counts).to_string(float_format="{:.2f}".format))

    for line in left_out(project.plan):
        typer.echo(line)
    queue = project.queue()
    typer.echo(f"to be trained: {len(queue)} jobs, core-hours {sum(queue) / 3600:.2f}")
    typer.echo(f"longest job {max(queue, default=0) / 3600:.1f} h")
    most = max(map(project.memory, cells.values()), default=0)
    disk = sum(map(file_bytes, cells.values()))
    typer.echo(f"peak memory of a job {most / 1e3:.1f} GB")
    typer.echo(f"disk {decimal(disk)}, and about twice that until all cells have finished")
    for slots in jobs or (10, 100, 1000):
        took = wall_seconds(queue, slots)
        typer.echo(f"wall time with {slots} jobs at a time {took / 3600:.2f} h")
    typer.echo("Estimated from measurements on one CPU core, assuming that no run ends early.")


@app.command()
def replicate(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="arguments for snakemake, after two dashes: -- --config preset=smoke"),
    ] = None,
    cores: Annotated[str, typer.Option(help="cores to use")] = "all",
    published: Annotated[bool, typer.Option(help="show published results; no training")] = False,
) -> None:
    """Train what is missing, draw the figures, judge the claims, and list the verdicts."""
    check_memory()  # otherwise every job fails
    from hindsight.pipeline.replicate import run

    raise SystemExit(run(arguments or [], cores, published))


@app.command()
def figures(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="names of figures, such as ppo_her_fig2; default: all"),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="PDFs for a paper: 8 pt, no titles")
    ] = False,
    formats: Annotated[
        list[Format] | None,
        typer.Option("--format", help="repeatable; default: png and pdf, or with --paper pdf"),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="write the numbers of lines and bands, too")
    ] = False,
    own: Annotated[
        Path | None, typer.Option("--style", help="YAML file with your colours and labels")
    ] = None,
    tables: Annotated[Path, typer.Option("--from", help="folder of tables")] = Path(
        "results/tables/published"
    ),
    out: Annotated[Path, typer.Option(help="folder for figures")] = Path("figures/pdf"),
) -> None:
    """Draw figures from existing tables, as in the report, for a paper or for a talk."""
    from hindsight.figures.draw import check_tables, draw, own_style
    from hindsight.figures.specs import names_there
    from hindsight.pipeline.project import must_run_this_code

    must_run_this_code()
    there = names_there(tables)
    if not there:
        raise typer.BadParameter(f"there are no tables in {tables}; in a clone, run make figures")
    style = own_style(own, tables) if own else None
    usual = ["pdf"] if paper else ["png", "pdf"]
    kinds = [*map(str, formats)] if formats else usual
    for name in names or there:
        if name not in there:
            raise typer.BadParameter(f"there is no figure {name!r}; choose from {', '.join(there)}")
        check_tables(name, tables)
        made = draw(name, tables, out / name, kinds, paper=paper, own=style, csv=csv)
        typer.echo("  ".join(map(str, made)))
    for text in style.unused if style else ():
        typer.echo(f"{own}: labels: {text!r} does not appear in any of these figures", err=True)


@app.command()
def publish(
    trained: Annotated[
        Path, typer.Option("--from", help="results folder that holds the trained cells")
    ] = Path("results"),
    policy: Annotated[
        list[Path] | None,
        typer.Option(help="curves of `hindsight train`: publish only their policy; repeatable"),
    ] = None,
    env: NamedOption = None,
) -> None:
    """Copy the trained cells of the preset `large` to results/published, and write its manifest."""
    from hindsight.pipeline.project import must_be_in_its_clone
    from hindsight.pipeline.publish import publish as write
    from hindsight.pipeline.publish import publish_policy
    from hindsight.specs.config import CONFIG, load

    for path in policy or ():
        typer.echo(publish_policy(path, env))
    if not policy:
        must_be_in_its_clone()
        for line in write(load(CONFIG, {"results": "published"}), trained):
            typer.echo(line)


@app.command()
def verify_published(
    everything: Annotated[
        bool, typer.Option("--all", help="check every cell, not just one of each kind; takes long")
    ] = False,
) -> None:
    """Retrain the first iterations of published cells and compare the numbers."""
    from hindsight.pipeline.project import must_be_in_its_clone
    from hindsight.pipeline.verify import compare, must_hold, one_of_each_kind, published

    must_be_in_its_clone()
    cells, found = published(), []
    for name, spec in (cells if everything else one_of_each_kind(cells)).items():
        one = compare(name, spec)
        found.append(one)
        typer.echo(f"{one.verdict:5}  {one.middle:.1e} {one.worst:.1e} ({one.column})  {one.name}")
    must_hold(found)
    same = sum(one.verdict == "same" for one in found)
    typer.echo(
        f"same, up to rounding: {same} of {len(found)} published cells.  chaos: rounding alone "
        "moves the numbers about as far, or parts one run while another is the same.  The numbers "
        "are relative differences: of the median column, and of the worst.  Cells with "
        "standardised observations are left out: they were trained before that rule changed."
    )


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="remove them, not only list them")] = False,
    out: Annotated[Path, typer.Option(help="folder for the results")] = Path("results"),
    env: Annotated[
        str | None,
        typer.Option(help="your environment, module:Name-v0, whose results count as well"),
    ] = None,
) -> None:
    """List results that another version of the code trained; --yes removes them."""
    from rich.filesize import decimal

    from hindsight.pipeline.project import clean as left_over
    from hindsight.pipeline.project import lock, must_run_this_code
    from hindsight.specs.config import PUBLISHED, TRAINED
    from hindsight.specs.errors import SpecError

    must_run_this_code()
    home = out.absolute()  # an environment's own code may change the working folder
    if not (out.is_dir() or out == TRAINED) or home.resolve() == PUBLISHED.resolve():
        raise SpecError(f"--out {out}: is not a folder of results that were trained here")
    with lock(results=home) if yes else nullcontext():
        paths = left_over(home, env)
        size = sum(path.stat().st_size for path in paths)
        for path in paths:
            typer.echo(out / path.relative_to(home))
            if yes:
                path.unlink()
    done = "removed" if yes else "to be removed by hindsight clean --yes"
    typer.echo(f"{len(paths)} files, {decimal(size)}, {done}")
