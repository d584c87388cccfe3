"""Commands to train, and to use what was trained."""

import shutil
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hindsight.cli.common import NamedOption, NamedPolicy, app, check_memory, train_and_show
from hindsight.specs.errors import SpecError

#: Options of `hindsight train`, by panel of its --help.
what, how, writes = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("What is trained", "How", "What is written")
)
#: Largest number of episodes, and largest seed.
MOST = 10**9
#: Names of the algorithms' files, found without importing them.
ALGORITHMS = sorted(
    p.stem for p in (Path(__file__).parents[1] / "specs/algorithms").glob("[!_]*.py")
)


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
    her: Annotated[
        str, what(help="hindsight goals: final, future, episode, random (not ppo)")
    ] = "none",
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
    device: Annotated[str, how(help="cpu, cuda or auto")] = "cpu",
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
        usual |= {"her": her} if _is_typed(context, "her") else {}
        typer.echo(listed(algorithm, env, usual, shutil.get_terminal_size((100, 24)).columns))
        return
    home = out.absolute()  # an environment's own code may change the working folder
    spec = spec_of(context.params, [name for name in context.params if _is_typed(context, name)])
    check_memory(spec)
    from hindsight.io.checksums import about
    from hindsight.io.files import set_aside
    from hindsight.library.callbacks import KeepBest, KeepOnTheWay, TensorBoard
    from hindsight.specs.code import file_name
    from hindsight.training.cell import Execution, known_device
    from hindsight.training.finished import changed_versions, diverged_runs, load_trained

    trained, files = load_trained(home, spec), files_of(spec, home)
    if trained and not again:
        changed = changed_versions(trained.origin["versions"])
        but = f", but with {changed}" if changed else ""
        typer.echo(f"already trained by the same code{but}; --again retrains it")
        if tensorboard is not None or checkpoint_every is not None:
            typer.echo("--tensorboard and --checkpoint-every work only while training: add --again")
    else:
        there, both = files["cells"].exists() and not trained, files["policies"].exists()
        if there and (both or about(files["cells"]).get("spec_hash") != spec.hash):
            for file in filter(Path.exists, (files["cells"], files["policies"])):
                why = "curves and policies are not both whole and of this training; set aside as"
                typer.echo(f"{file}: {why} {set_aside(file).name}")
        elif there:
            typer.echo(f"{files['policies']}: is missing, so its cell is trained again")
        execution = Execution(known_device(device), workers=workers, again=again)
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
            train_and_show(spec, home, execution, [best, *callbacks])
            if trained and beside.exists():
                beside.replace(files["best"])
            elif trained:  # every run diverged
                files["best"].unlink(missing_ok=True)
    found = about(files["cells"])
    # Also after a process that was killed when its training had ended.
    KeepBest(files["best"], spec).add_reused(found.get("reused"))
    typer.echo("\n".join(outcome(spec, out, home)))
    if len(diverged_runs(found["runs"])) == len(found["runs"]):
        raise SpecError(
            "every run diverged, so nothing was learned; a lower learning rate may help"
        )


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


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
    check_memory()
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
    check_memory()
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
