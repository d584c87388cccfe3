"""The commands a person types, and those that the workflow's jobs call.

Imports stand inside the commands: drawing a figure does not wait for torch.
"""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.specs.errors import EnvironmentFailure, SpecError

app = typer.Typer(
    help="Hindsight replay, and the replication of PPO-HER and MEHER.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="key=value, as for Snakemake; repeatable")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(min=0, help="processes that step a gymnasium environment; one for each core"),
]


class Algorithm(StrEnum):
    """Algorithms there are."""

    ppo = "ppo"
    sac = "sac"
    td3 = "td3"
    ddpg = "ddpg"
    dqn = "dqn"


class Her(StrEnum):
    """Hindsight strategies, or none."""

    none = "none"
    final = "final"
    future = "future"
    episode = "episode"
    random = "random"


def main() -> None:
    """Run a command; what a person can mend is told in one sentence."""
    import os
    import sys

    from hindsight.files import DamagedError, FileError
    from hindsight.interruption import end_with_parent

    end_with_parent()
    sys.path.append(os.getcwd())  # where a person's own environment lies
    try:
        try:
            app()
        except DamagedError as error:
            raise FileError(f"{error}{_set_aside(error.paths)}") from None
    except (SpecError, EnvironmentFailure, FileError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None


def _set_aside(paths: Iterable[Path]) -> str:
    """Set aside damaged files that the workflow makes again; returns what is to be said of it."""
    from hindsight.files import set_aside
    from hindsight.specs.experiments import PUBLISHED, TRAINED

    made = [path for path in paths if TRAINED in path.parents and PUBLISHED not in path.parents]
    for path in made:
        set_aside(path)
        cell = path.parent.name + "/" + path.stem
        curves = TRAINED / "cells" / f"{cell}.parquet"
        if TRAINED / "policies" in path.parents and curves.exists():
            set_aside(curves)  # one job makes both
        # Snakemake makes a missing file again only for one that is missing, too, up to the page.
        for plan in (TRAINED / "tables").glob("*/*/plan.json"):
            about = path.parent == plan.parent or f"{cell}.parquet" in plan.read_text()
            if about:
                (plan.parent / "summary.csv").unlink(missing_ok=True)
            if about or path.parent == plan.parents[1]:
                Path("figures", plan.parents[1].name, "report.html").unlink(missing_ok=True)
    names = " and ".join(f"{path.name}.damaged" for path in made)
    return f"; set aside as {names}, and made again when the workflow next runs" if made else ""


def _config(pairs: list[str] | None) -> Any:
    """config.yaml with key=value pairs on top."""
    from hindsight.specs.experiments import load, overrides_of

    return load(Path("config.yaml"), overrides_of(pairs or []))


@app.command()
def plan(
    config: ConfigOption = None,
    jobs: Annotated[
        list[int] | None, typer.Option(min=1, help="jobs at a time on a cluster; repeatable")
    ] = None,
) -> None:
    """Say what a configuration trains: cells, runs, estimated time, memory and disk."""
    from rich.console import Console
    from rich.table import Table

    from hindsight.specs.cost import file_bytes
    from hindsight.specs.experiments import Plan
    from hindsight.specs.queue_simulation import wall_seconds
    from hindsight.workflow import Stage

    chosen = _config(config)
    stage = Stage.of(Plan.of(chosen))
    size, cells = chosen.size, stage.plan.cells
    hours = {name: stage.seconds(spec) / 3600 for name, spec in cells.items()}
    table = Table(title=f"{stage.source}: networks {size.hidden}, at most {size.steps:,} steps")
    for column in ("experiment", "cells", "runs", "steps (millions)", "core-hours", "there"):
        table.add_column(column, justify="left" if column == "experiment" else "right")

    def row(name: str, names: list[str]) -> None:
        steps = sum(cells[n].steps * cells[n].seeds for n in names)
        runs = sum(cells[n].seeds for n in names)
        there = sum(n in stage.there for n in names)
        spent = sum(hours[n] for n in names)
        table.add_row(
            name, str(len(names)), str(runs), f"{steps / 1e6:.1f}", f"{spent:.2f}", str(there)
        )

    for name in stage.experiments:
        row(name, stage.plan.cells_of(name))
    table.add_section()
    row("all, shared cells once", stage.cells)
    Console().print(table)

    queue = stage.queue()
    everything = sum(hours.values())
    on_gpus = f", GPU-hours {everything:.2f}" if stage.on_gpu else ""
    typer.echo(f"jobs {len(queue)} on a cluster, core-hours {everything:.2f}{on_gpus}")
    typer.echo(f"longest job {max(queue, default=0) / 3600:.1f} h")
    most = max((stage.memory_of(spec) for spec in cells.values()), default=0)
    disk = sum(map(file_bytes, cells.values()))
    typer.echo(f"peak memory of a job {most / 1e3:.1f} GB, disk {_size(disk)}")
    for slots in jobs or (10, 100, 1000):
        took = wall_seconds(queue, slots)
        typer.echo(f"wall time with {slots} jobs at a time {took / 3600:.2f} h")
    typer.echo("Estimates, without early ends, from measurements of one CPU core.")


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


@app.command()
def train(
    algorithm: Annotated[Algorithm, typer.Option(help="learning algorithm")] = Algorithm.ppo,
    her: Annotated[Her, typer.Option(help="hindsight strategy")] = Her.none,
    k: Annotated[
        int | None, typer.Option(help="goals per step: ppo's copies (1), or of a replay (4)")
    ] = None,
    env: Annotated[
        str, typer.Option(help="environment: ours, or gymnasium's id, as module:Name-v0")
    ] = "PredatorPrey-v0",
    prey: Annotated[str, typer.Option(help="how the prey moves")] = "static",
    spawn: Annotated[str, typer.Option(help="where predator and prey begin")] = "random",
    n_dims: Annotated[int, typer.Option(help="dimensions of the box")] = 3,
    grid_size: Annotated[float, typer.Option(help="half-width of the box")] = 10.0,
    interception_distance: Annotated[float, typer.Option(help="how near is caught")] = 1.0,
    fidelity: Annotated[str, typer.Option(help="released or described")] = "described",
    seeds: Annotated[int, typer.Option(help="runs")] = 16,
    steps: Annotated[int, typer.Option(help="environment steps of each run")] = 200_000,
    learning_rate: Annotated[
        float | None, typer.Option(help="of Adam; the algorithm's own if not given")
    ] = None,
    hidden: Annotated[str, typer.Option(help="widths of the hidden layers")] = "64,64",
    evaluation_episodes: Annotated[
        int, typer.Option(help="episodes of each of the twenty evaluations")
    ] = 100,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="key=value, any other key of a cell, as s_ratio=0.6; repeatable"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    runs_per_axis: Annotated[int | None, typer.Option(help="runs that train together")] = None,
    workers: WorkersOption = None,
    out: Annotated[Path, typer.Option(help="folder of the results")] = Path("results"),
) -> None:
    """Train one cell, without Snakemake; writes the same files."""
    from hindsight.specs.cell import CellSpec
    from hindsight.specs.errors import validated
    from hindsight.specs.experiments import must_count, overrides_of, put

    widths = [width.strip() for width in hidden.split(",") if width.strip()]
    values: dict[str, Any] = {
        "environment": {"id": env},
        "algorithm": {"name": algorithm.value, "hidden": widths},
        "seeds": seeds,
        "steps": steps,
        "evaluation": {"episodes": evaluation_episodes},
    }
    if env == "PredatorPrey-v0":
        values["environment"] |= {
            "prey": prey,
            "spawn": spawn,
            "n_dims": n_dims,
            "grid_size": grid_size,
            "interception_distance": interception_distance,
            "fidelity": fidelity,
        }
    if learning_rate is not None:
        values["algorithm"]["learning_rate"] = learning_rate
    if her is not Her.none:
        section = "hindsight" if algorithm is Algorithm.ppo else "replay"
        values[section] = {"strategy": her.value, "fidelity": fidelity}
        values[section] |= {} if k is None else {"k": k}
    more = overrides_of(keys or [], "--set")
    for key, value in more.items():
        put(values, key, value, "--set")
    spec = validated(CellSpec, values)
    must_count(spec, values, [*more, *([] if k is None else ["k"])])
    from hindsight.training.cell import Execution

    _train(spec, out, Execution(device, runs_per_axis, workers=workers))


@app.command(hidden=True)
def cell(
    spec: Path,
    device: Annotated[str, typer.Option()] = "cpu",
    runs_per_axis: Annotated[int | None, typer.Option()] = None,
    workers: WorkersOption = None,
    checkpoint_seconds: Annotated[float, typer.Option(min=0)] = 60.0,
    out: Annotated[Path, typer.Option()] = Path("results"),
) -> None:
    """Train the cell of a specification file (a job of the workflow)."""
    from hindsight.specs.cost import cells_per_job
    from hindsight.specs.experiments import read_spec

    checked = read_spec(spec)  # told before torch takes its second
    from hindsight.training.cell import Execution

    shares_a_job = cells_per_job(checked) > 1
    execution = Execution(device, runs_per_axis, checkpoint_seconds, workers, shares_a_job)
    _train(checked, out, execution)


def _train(spec: Any, out: Path, execution: Any) -> None:
    from hindsight.interruption import Interrupted
    from hindsight.training.cell import train_cell
    from hindsight.training.progress import show

    try:
        with show(out / "progress" / f"{spec.name}.json") as tell:
            path = train_cell(spec, out, execution, tell)
    except Interrupted as stop:
        typer.echo(str(stop), err=True)
        raise typer.Exit(stop.status) from None
    typer.echo(f"curves: {path}")


@app.command()
def watch(
    policy: Annotated[Path, typer.Argument(help="a file below results/policies")],
    out: Annotated[Path, typer.Argument(help="the animation: .gif, or .mp4 where ffmpeg is")],
    episodes: Annotated[int, typer.Option(min=1, help="episodes shown")] = 3,
    run: Annotated[int, typer.Option(help="which of the cell's runs (its seed)")] = 0,
    seed: Annotated[int, typer.Option(help="seed of the episodes")] = 0,
) -> None:
    """Write an animation of a trained policy's episodes."""
    from hindsight.training.watch import animate, play_to_watch

    shown = play_to_watch(policy, run, episodes, seed)
    animate(shown, out)
    caught = sum(episode.caught for episode in shown)
    typer.echo(f"{out}: {len(shown)} episodes, {caught} of them end at the goal")


@app.command()
def evaluate(
    policy: Annotated[Path, typer.Argument(help="a file below results/policies")],
    episodes: Annotated[int, typer.Option(min=1, help="episodes of each run")] = 100,
    run: Annotated[
        int | None, typer.Option(help="which of the cell's runs (its seed); all if not given")
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="actions drawn as in training, not the mode")
    ] = False,
    seed: Annotated[int, typer.Option(help="seed of the first episode")] = 0,
    env: Annotated[
        str | None, typer.Option(help="another environment than that of the training")
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value of the environment, as prey=repel; repeatable"),
    ] = None,
) -> None:
    """Mean and standard deviation of the return, and success rate, of a trained policy."""
    import numpy as np

    from hindsight.specs.experiments import overrides_of
    from hindsight.training.cell import prepare_process
    from hindsight.training.evaluate import evaluate_policy
    from hindsight.training.watch import runs_in

    prepare_process("cpu")
    parameters, found = overrides_of(keys or [], "--set"), []
    for each in runs_in(policy) if run is None else [run]:
        result = evaluate_policy(
            policy, env, episodes, not random, parameters=parameters, run=each, seed=seed
        )
        found.append(result)
        typer.echo(
            f"run {each}: return {result.return_mean:.3f} ± {result.return_std:.3f}, "
            f"success {result.success_rate:.3f}, length {result.length_mean:.1f}"
        )
    if len(found) > 1:
        means = np.array([result.return_mean for result in found])
        success = np.mean([result.success_rate for result in found])
        typer.echo(
            f"{len(found)} runs: return {means.mean():.3f} ± {means.std():.3f} between runs, "
            f"success {success:.3f}"
        )


@app.command()
def replicate(
    arguments: Annotated[list[str] | None, typer.Argument(help="handed to snakemake")] = None,
    cores: Annotated[str, typer.Option(help="cores to use")] = "all",
    published: Annotated[bool, typer.Option(help="draw the published results")] = False,
) -> None:
    """Run the whole workflow with a progress display, and say what was reproduced."""
    from hindsight.replicate import run

    raise SystemExit(run(arguments or [], cores, published))


@app.command()
def publish(config: ConfigOption = None) -> None:
    """Copy trained cells of the preset `large` to results/published, with a manifest."""
    from hindsight.publish import publish_cells
    from hindsight.specs.experiments import PUBLISHED_PRESET

    for line in publish_cells(_config([*(config or []), f"preset={PUBLISHED_PRESET}"])):
        typer.echo(line)


def _vouched_for(plans: Iterable[Path]) -> None:
    """Raise FileError for a published cell of these plans that its manifest does not vouch for."""
    from hindsight.analysis.summarise import read_plan
    from hindsight.publish import verify

    verify(sorted({Path(entry["cell"]) for plan in plans for entry in read_plan(plan)["entries"]}))


@app.command(hidden=True)
def summarise(plan: Path) -> None:
    """An experiment's cells to its tables (a job of the workflow)."""
    from hindsight.analysis import summarise as analysis

    _vouched_for([plan])
    for entry in analysis.summarise(plan):
        typer.echo(f"missing: {entry['cell']}")


@app.command(hidden=True)
def episodes(out: Path, policies: list[Path]) -> None:
    """Episodes of trained policies, for the picture of the environment (a job of the workflow)."""
    from hindsight.training.watch import write_episodes

    write_episodes(policies, out)


@app.command(hidden=True)
def draw(tables: list[Path], out: Annotated[list[Path], typer.Option()]) -> None:
    """Figures, named by their files, from their experiment's tables (a job of the workflow)."""
    from hindsight import figures
    from hindsight.integrity import check_tables
    from hindsight.publish import verify

    verify(tables)
    check_tables({path.parent for path in tables})
    for stem in dict.fromkeys(path.with_suffix("") for path in out):
        figures.draw(stem.name, tables[0].parent.parent, stem)


@app.command(hidden=True)
def claims(out: Path) -> None:
    """Verdicts from the tables beside which `out` lies (a job of the workflow)."""
    from hindsight.analysis.claims import write_claims
    from hindsight.integrity import check_tables

    check_tables(path.parent for path in out.parent.glob("*/plan.json"))
    for verdict in write_claims(out.parent):
        typer.echo(f"{verdict.claim} {verdict.fidelity}: {verdict.verdict}")


@app.command(hidden=True)
def report(claims: Path, html: Path, scoreboard: Path) -> None:
    """The page and the scoreboard, from the verdicts and what lies beside (a job)."""
    from hindsight.integrity import check_json, check_tables
    from hindsight.report.build import build

    plans = sorted(claims.parent.glob("*/plan.json"))
    check_tables(plan.parent for plan in plans)
    _vouched_for(plans)
    check_json([claims, claims.with_name("answers.json")])
    build(claims.parent, html.parent, html, scoreboard)
