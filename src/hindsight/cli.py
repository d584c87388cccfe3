"""The command line: commands for users, and hidden ones for the workflow's jobs.

Commands import what they need themselves, so that drawing a figure does not wait for torch.
"""

import gc
import os
import platform
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight import __version__
from hindsight.io.files import DamagedError, FileError, reason, set_aside
from hindsight.io.interruption import Interrupted, end_with_parent
from hindsight.io.startup import LIBRARIES_MB, TORCH_MB, have_home, must_have_memory, open_streams
from hindsight.specs.errors import EnvironmentFailure, SpecError


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"hindsight {__version__}")
        raise typer.Exit


app = typer.Typer(
    help="Hindsight replay for reinforcement learning, and a replication of PPO-HER and MEHER. "
    "To begin, type: hindsight train --her final --steps 40000",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

#: Options of `hindsight train`, by panel of its --help.
what, how, writes = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("What is trained", "How", "What is written")
)
NamedPolicy = Annotated[
    Path,
    typer.Argument(
        help="a policy file or saved model, as in results/policies; there, `last` is the newest, "
        "and the first characters of a name's hash are enough"
    ),
]
NamedOption = Annotated[
    str | None,
    typer.Option(
        help="the policy's environment, if it comes from neither this package nor "
        "gymnasium-robotics, such as PandaReach-v3 or module:Name-v0"
    ),
]
PlannedOption = Annotated[
    str | None, typer.Option("--code", help="the fingerprint of the code that was planned for")
]
#: Packages of the optional dependency group `report`.
REPORT = ("jinja2", "markdown_it", "seaborn")
#: The configuration, in a clone of the repository.
CONFIG = Path("config.yaml")
#: Largest number of episodes, and largest seed.
MOST = 10**9
#: Names of the algorithms' files, found without importing them.
ALGORITHMS = sorted(p.stem for p in (Path(__file__).parent / "specs/algorithms").glob("[!_]*.py"))


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
            if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
                raise
            raise FileError(f"out of memory ({reason(error)})") from None
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
        if {TRAINED / "cells", TRAINED / "policies"}.intersection(path.parents):
            actions.append(f"set aside as {set_aside(path).name}, and trained again")
        elif TRAINED / "tables" in path.parents:
            actions.append("it is made again")
    return f"; {', '.join(actions)} when the workflow next runs" if actions else ""


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
    from hindsight.specs.config import load, overrides_of
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
    typer.echo(f"peak memory of a job {most / 1e3:.1f} GB, disk {decimal(disk)}")
    for slots in jobs or (10, 100, 1000):
        took = wall_seconds(queue, slots)
        typer.echo(f"wall time with {slots} jobs at a time {took / 3600:.2f} h")
    typer.echo("Estimated from measurements on one CPU core, assuming that no run ends early.")


@app.command()
def train(
    context: typer.Context,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="any setting, such as prey=repel k=4 learning_rate=1e-3 hidden=256,256; "
            "--settings lists them",
        ),
    ] = None,
    algorithm: Annotated[str, what(help=f"learning algorithm: {', '.join(ALGORITHMS)}")] = "ppo",
    her: Annotated[str, what(help="hindsight goals: final, future, episode, random")] = "none",
    env: Annotated[
        str, what(help="environment: a gymnasium id, such as FetchReach-v4, or module:Name-v0")
    ] = "PredatorPrey-v0",
    preset: Annotated[
        str | None, what(help="named settings: recommended (for ppo) or robotics (for sac)")
    ] = None,
    seeds: Annotated[
        int | None,
        what(help="number of runs; default: 16, or 4 in an environment that is not built in"),
    ] = None,
    steps: Annotated[int, what(help="environment steps of each run")] = 200_000,
    device: Annotated[str, how(help="cpu or cuda")] = "cpu",
    workers: Annotated[
        int | None,
        how(min=0, help="processes for an environment that is not built in; default: one per core"),
    ] = None,
    again: Annotated[bool, how("--again", help="train again even if results exist")] = False,
    settings: Annotated[
        bool, how("--settings", help="list every setting with its default and meaning, and exit")
    ] = False,
    out: Annotated[Path, writes(help="folder for the results")] = Path("results"),
    tensorboard: Annotated[Path | None, writes(help="folder for TensorBoard curves")] = None,
    checkpoint_every: Annotated[
        int | None,
        writes(min=1, help="also save the policies each time every run has taken this many steps"),
    ] = None,
) -> None:
    """Train one algorithm in one environment, several seeds side by side.

    The same command continues an interrupted training, and shows the results of a finished one.
    """
    from hindsight.library.train import files_of, must_be_known, outcome, spec_of, to_come

    if settings:
        from hindsight.library.presets import keys_of
        from hindsight.library.train import KEYS
        from hindsight.specs.settings import listed

        must_be_known(algorithm)
        usual = {"her": her} | KEYS | keys_of(preset, algorithm, env)
        typer.echo(listed(algorithm, env, usual, shutil.get_terminal_size((100, 24)).columns))
        return
    home = out.absolute()  # an environment's own code may change the working folder
    spec = spec_of(context.params, [name for name in context.params if _is_typed(context, name)])
    _must_have_memory(spec)
    from hindsight.io.checksums import about
    from hindsight.library.callbacks import KeepBest, KeepOnTheWay, TensorBoard
    from hindsight.specs.code import file_name
    from hindsight.training.cell import Execution, check_device
    from hindsight.training.finished import changed_versions, diverged_runs, load_trained

    trained, files = load_trained(home, spec), files_of(spec, home)
    if trained and not again:
        changed = changed_versions(trained.origin["versions"])
        but = f", but with {changed}" if changed else ""
        typer.echo(f"already trained by the same code{but}; --again retrains it")
        if tensorboard is not None or checkpoint_every is not None:
            typer.echo("--tensorboard and --checkpoint-every work only while training: add --again")
    else:
        check_device(device)
        execution = Execution(device, workers=workers, again=again)
        callbacks: list[Any] = []
        if checkpoint_every is not None:
            folder = home / "steps" / file_name(spec)
            callbacks.append(KeepOnTheWay(folder, spec, checkpoint_every))
        with ExitStack() as stack:
            if tensorboard is not None:
                callbacks.append(stack.enter_context(closing(TensorBoard(tensorboard, spec))))
            typer.echo("\n".join(to_come(spec, out, her, checkpoint_every, steps)))
            # Until a training has ended, the results of an earlier one stay.
            beside = files["best"].with_stem(f"{files['best'].stem}.again")
            best = KeepBest(beside if trained else files["best"], spec)
            _train(spec, home, execution, [best, *callbacks])
            best.add_reused(about(files["cells"]).get("reused"))
            if trained and beside.exists():
                beside.replace(files["best"])
            elif trained:  # every run diverged
                files["best"].unlink(missing_ok=True)
    typer.echo("\n".join(outcome(spec, out, home)))
    runs = about(files["cells"])["runs"]
    if len(diverged_runs(runs)) == len(runs):
        raise SpecError(
            "every run diverged, so nothing was learned; a lower learning rate may help"
        )


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


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
    _must_have_memory(checked)
    # If SLURM kills the job, this log and the node's name are all that the user sees.
    typer.echo(f"training on {platform.node()}")
    from hindsight.training.cell import Execution

    execution = Execution(device, checkpoint_seconds, threads, threads, keep_finished=True)
    typer.echo(f"curves: {_train(checked, out, execution)}")


def _must_have_memory(spec: Any = None) -> None:
    """Raise FileError without the memory for torch, or for a cell's training."""
    from hindsight.specs.cost import megabytes

    must_have_memory(TORCH_MB if spec is None else LIBRARIES_MB + megabytes(spec))


def _train(spec: Any, out: Path, execution: Any, callbacks: Sequence[Any] = ()) -> Path:
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


@app.command()
def watch(
    policy: NamedPolicy,
    out: Annotated[Path, typer.Argument(help="the animation: .gif, or .mp4 with ffmpeg")] = Path(
        "episodes.gif"
    ),
    episodes: Annotated[int, typer.Option(min=1, max=MOST, help="number of episodes")] = 3,
    run: Annotated[int | None, typer.Option(help="the run's seed; default: the first")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="seed of the episodes")] = 0,
    env: NamedOption = None,
) -> None:
    """Film episodes of a trained policy."""
    _must_have_memory()
    from hindsight.library.from_stable_baselines3 import model_in
    from hindsight.library.train import policy_called
    from hindsight.training.watch import animate, film_policy, film_writer

    policy = policy_called(policy)
    film_writer(out)  # refuses a format before the episodes are played
    film = out.absolute()  # an environment's own code may change the working folder
    shown = film_policy(model_in(policy, env) or policy, run, episodes, seed, env)
    animate(shown, film)
    caught = sum(episode.caught for episode in shown)
    of = "1 episode" if len(shown) == 1 else f"{len(shown)} episodes"
    typer.echo(f"{out}: {of}, {caught} ending at the goal")


@app.command()
def evaluate(
    policy: NamedPolicy,
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="settings of the environment: prey=repel"),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, max=MOST, help="episodes per run")] = 100,
    run: Annotated[int | None, typer.Option(help="the run's seed; default: all")] = None,
    random: Annotated[bool, typer.Option("--random", help="sample actions as in training")] = False,
    seed: Annotated[int, typer.Option(min=0, max=MOST, help="seed of the first episode")] = 0,
    success: Annotated[
        str | None,
        typer.Option(help="whether an episode succeeds by its last step, or by any: last, any"),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            help="environment, if not the one trained in, or if it comes from neither this "
            "package nor gymnasium-robotics, such as PandaReach-v3 or module:Name-v0"
        ),
    ] = None,
) -> None:
    """Print a policy's return (mean and standard deviation) and success rate."""
    _must_have_memory()
    import numpy as np

    from hindsight.library.from_stable_baselines3 import model_in
    from hindsight.library.train import policy_called
    from hindsight.specs.config import overrides_of
    from hindsight.training.cell import prepare_process
    from hindsight.training.evaluate import evaluate_policy
    from hindsight.training.policy_files import PolicyFile

    prepare_process("cpu")
    parameters, found = overrides_of(keys or [], ""), []
    policy = policy_called(policy)
    theirs = model_in(policy, env)
    # Absolute, because an environment's own code may change the working folder.
    played, one = theirs or policy.absolute(), theirs is not None or run is not None
    for each in [run or 0] if one else PolicyFile.read(policy).seeds:
        how: Any = {"parameters": parameters, "run": each, "seed": seed, "success": success}
        result = evaluate_policy(played, env, episodes, not random, **how)
        found.append(result)
        typer.echo(
            f"run {each}: return {result.return_mean:.3f} ± {result.return_std:.3f}, "
            f"success {result.success_rate:.3f}, length {result.length_mean:.1f}"
        )
    if len(found) > 1:
        means = np.array([result.return_mean for result in found])
        rate = np.mean([result.success_rate for result in found])
        typer.echo(
            f"{len(found)} runs: return {means.mean():.3f} ± {means.std():.3f} between runs, "
            f"success {rate:.3f}"
        )


@app.command()
def export(
    policy: NamedPolicy,
    out: Annotated[Path, typer.Argument(help="the file to write: .onnx, or .pt2 for torch.export")],
    run: Annotated[int | None, typer.Option(help="the run's seed; default: the best")] = None,
    env: NamedOption = None,
) -> None:
    """Export a policy to a file for ONNX Runtime or for torch.export.load."""
    from hindsight.library.from_stable_baselines3 import Acting, model_in
    from hindsight.library.model import Model
    from hindsight.library.policy import export as write
    from hindsight.library.train import policy_called

    file, policy = out.absolute(), policy_called(policy)  # before its own code changes the folder
    if (theirs := model_in(policy, "")) is not None:
        write(Acting(theirs), file)
        typer.echo(f"{out}: the policy of a Stable-Baselines3 model")
        return
    model = Model.load(policy, env)
    model.export(file, run)
    typer.echo(f"{out}: run {model.best_run if run is None else run}")


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
    _must_have_memory()  # otherwise every job fails
    from hindsight.pipeline.replicate import run

    raise SystemExit(run(arguments or [], cores, published))


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
    from hindsight.specs.config import PUBLISHED_PRESET, load

    for path in policy or ():
        typer.echo(publish_policy(path, env))
    if not policy:
        must_be_in_its_clone()
        for line in write(load(CONFIG, {"preset": PUBLISHED_PRESET}), trained):
            typer.echo(line)


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="remove them, not only list them")] = False,
    out: Annotated[Path, typer.Option(help="folder for the results")] = Path("results"),
    env: NamedOption = None,
) -> None:
    """List results that another version of the code trained; --yes removes them."""
    from rich.filesize import decimal

    from hindsight.pipeline.project import clean as left_over

    home = out.absolute()  # an environment's own code may change the working folder
    paths = left_over(home, env)
    size = sum(path.stat().st_size for path in paths)
    for path in paths:
        typer.echo(out / path.relative_to(home))
        if yes:
            path.unlink()
    done = "removed" if yes else "to be removed by hindsight clean --yes"
    typer.echo(f"{len(paths)} files, {decimal(size)}, {done}")


@app.command()
def verify_published(
    everything: Annotated[
        bool, typer.Option("--all", help="check every cell, not just one of each kind; takes long")
    ] = False,
) -> None:
    """Retrain the first iterations of published cells and compare the numbers."""
    from hindsight.pipeline.verify import compare, must_hold, one_of_each_kind, published

    cells, found = published(), []
    for name, spec in (cells if everything else one_of_each_kind(cells)).items():
        one = compare(name, spec)
        found.append(one)
        typer.echo(f"{one.verdict:5}  {one.middle:.1e} {one.worst:.1e} ({one.column})  {one.name}")
    must_hold(found)
    same = sum(one.verdict == "same" for one in found)
    typer.echo(
        f"same, up to rounding: {same} of {len(found)} published cells.  chaos: rounding alone "
        "moves the numbers about as far, so nothing can be said.  The numbers are relative "
        "differences: of the median column, and of the worst.  Cells with standardised "
        "observations are left out: they were trained before that rule changed."
    )


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


#: The kinds of file that figures can be.
Format = StrEnum("Format", ["png", "pdf", "svg"])


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
