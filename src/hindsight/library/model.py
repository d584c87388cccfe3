"""PPO, SAC, TD3, DDPG and DQN as users of Stable-Baselines3 know them, over this package's loops.

A model trains several runs at once, which differ in their seeds.  What it says of itself is of all
of them; what acts is one of them, by default the one that evaluates best.
"""

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import gymnasium as gym
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from hindsight.io.checksums import about, read_table
from hindsight.io.files import FileError, reason
from hindsight.library.callbacks import TensorBoard
from hindsight.library.environment import NAMESPACE, Given, environment_values
from hindsight.library.policy import Policy, export, must_fit, spaces_of
from hindsight.library.presets import cell_values, keys_of, notes_of
from hindsight.specs.cell import DEFAULTS, CellSpec, must_count
from hindsight.specs.code import code_of
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError, validated
from hindsight.specs.from_file import cell_of
from hindsight.specs.gymnasium import is_known
from hindsight.training.cell import must_be_usable, prepare_process
from hindsight.training.evaluate import Actor, actor_of, evaluate_run
from hindsight.training.files import load, save
from hindsight.training.policies import initial_row
from hindsight.training.policy_files import PolicyFile
from hindsight.training.progress import Progress, show
from hindsight.training.runs import Runs, runs_of

#: What a model's file says it is.
FORMAT = "hindsight model 1"
#: Which parameters of a run: those of its best evaluation, or the latest.
Which = Literal["best", "last"]
#: Called after every iteration; False ends `learn`.
Callback = Callable[["Model"], bool | None]

#: Bytes of the replay buffers of all runs, unless a person says how much they keep.
LARGEST_BUFFER = 8e9

INTEGERS = ("seed", "iteration", "env_steps", "episodes")


class Model:
    """Runs of one algorithm in one environment; see `PPO`, `SAC`, `TD3`, `DDPG` and `DQN`."""

    algorithm: ClassVar[str]
    default_her: ClassVar[str] = "future"

    def __init__(
        self,
        env: Given,
        *,
        her: str | None = "default",
        preset: str | None = None,
        seeds: int = 4,
        evaluate_every: int = 2000,
        evaluation_episodes: int = 20,
        env_kwargs: Mapping[str, Any] | None = None,
        max_episode_steps: int | None = None,
        fidelity: Literal["described", "released"] = "described",
        device: str = "cpu",
        workers: int | None = None,
        **settings: Any,
    ) -> None:
        """Nothing is trained yet.

        Args:
            env: an id, a function that makes an environment, or an environment, which is made anew
                by its id or copied.
            her: where the goals of hindsight come from: "final", "future", "episode", "random" (not
                PPO); None: no hindsight.  If not given, PPO's is "final", the others' "future".
            preset: settings by name, "recommended" or "robotics"; see docs/library.md.  Those
                given beside it win.
            seeds: how many runs train, with the seeds 0, 1, ...
            evaluate_every: environment steps of a run between two evaluations, ...
            evaluation_episodes: ... and episodes of each.
            env_kwargs: arguments for the environment, if it is given by id or function.
            max_episode_steps: steps after which an episode is truncated; None: as registered.
            fidelity: how hindsight relabels; see docs/deviations.md.
            device: "cpu" or "cuda".
            workers: processes that step the environments; None: one for each core.
            settings: any other key of the algorithm or of hindsight, as learning_rate, hidden,
                n_envs, batch_size, prioritized, k (goals per step: PPO's is 1, the others' 4); of
                an environment of others terminates and rest (docs/your-environment.md).

        Raises:
            SpecError: a key or value that is none; an environment that cannot be trained in.
        """
        keys = keys_of(preset, self.algorithm)
        usual = keys.pop("her", self.default_her)
        given = cell_values(
            environment_values(env, env_kwargs, max_episode_steps),
            self.algorithm,
            usual if her == "default" else her,
            fidelity,
            keys | settings,
            seeds=seeds,
            early_end=None,
            evaluation={"episodes": evaluation_episodes},
        )
        spec = validated(CellSpec, given)
        rows = torch.stack([initial_row(spec, seed) for seed in spec.run_seeds])
        self._set_up(spec, list(spec.run_seeds), rows, evaluate_every, device, workers)
        must_count(self.spec, given, settings)

    def _set_up(
        self,
        spec: CellSpec,
        seeds: list[int],
        rows: torch.Tensor,
        evaluate_every: int,
        device: str,
        workers: int | None,
    ) -> None:
        """`rows` [run, parameter]: the parameters of the runs with these seeds."""
        must_be_usable(device)
        if evaluate_every < 1:
            raise SpecError(f"evaluate_every: {evaluate_every} is not allowed; it is 1 or more")
        self.spec, self.evaluate_every, self.device, self.workers = (
            spec, evaluate_every, device, workers,
        )  # fmt: skip
        self.seeds = seeds
        self._runs: Runs | None = None
        #: What a loaded model learns on from, if that is there, and the file that it is of.
        self._resumes: dict[str, Any] | None = None
        self._file: PolicyFile | None = None
        self._steps = 0
        self._testing = 0.0  # seconds of this `learn` that evaluations took
        #: Parameters [run, parameter], and how good those of the best evaluation were.
        self._rows: dict[str, torch.Tensor] = {name: rows.clone() for name in ("best", "last")}
        self._scores = [(-np.inf, -np.inf)] * len(self.seeds)
        self._columns: dict[str, dict[str, list[NDArray[Any]]]] = {
            "train": defaultdict(list), "evaluation": defaultdict(list),
        }  # fmt: skip
        self._spaces = spaces_of(spec.environment)
        #: What acts, and for which run, parameters and step it was made.
        self._acting: tuple[Any, Policy] | None = None
        self._random: tuple[Any, Actor] | None = None
        self._board: TensorBoard | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the environment, and what follows; `learn(progress=True)` shows
        it."""
        return notes_of(self.spec)

    # -- learning -------------------------------------------------------------------------------

    @property
    def num_timesteps(self) -> int:
        """Environment steps of each run so far."""
        return self._steps

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool = False,
        tensorboard: str | Path | None = None,
    ) -> Self:
        """Train every run for so many environment steps more, rounded up to whole iterations.

        Args:
            callback: one or several, called with this model after every iteration (`log_interval`
                steps, or PPO's rollout); False ends the call.
            progress: show a bar, or lines where there is no terminal, and what evaluations took.
            tensorboard: a folder in which TensorBoard finds the curves, run by run.

        Raises:
            EnvironmentFailure: an environment raised, or contradicts itself.
            SpecError: tensorboard is missing.

        Warns where a loaded model's training is not at hand: it starts anew from its parameters;
        and where whole iterations are more than a tenth above what was asked for.
        """
        if total_timesteps < 1:
            raise SpecError(f"total_timesteps: {total_timesteps} is not allowed; it is 1 or more")
        callbacks = _callbacks(callback)
        prepare_process(self.device)
        board = None if tensorboard is None else TensorBoard(Path(tensorboard), self.spec)
        if progress:
            print(*self.notes, sep="\n", end="\n" if self.notes else "", file=sys.stderr)
        runs = self._started()
        first, each = runs.env_steps, runs.rollout_steps
        whole = -(-total_timesteps // each) * each
        target = first + whole
        if whole > 1.1 * total_timesteps:
            key = "n_steps" if self.spec.algorithm.on_policy else "log_interval"
            warnings.warn(
                f"learn({total_timesteps}) trains {whole:,} steps: a run learns in whole "
                f"iterations of {each:,} ({key} times n_envs)",
                stacklevel=2,
            )
        began, self._testing = time.monotonic(), 0.0
        # Schedules run from the first step of all to the last of this call.
        runs.spec = self.spec.model_copy(update={"steps": target})
        tested = first
        with ExitStack() as stack:
            tell = stack.enter_context(show() if progress else nullcontext(lambda progress: None))
            if board is not None:
                self._board = stack.enter_context(closing(board))
                stack.callback(setattr, self, "_board", None)
            while runs.env_steps < target:
                columns = runs.iterate()
                self._steps = runs.env_steps
                self._note("train", columns)
                self._rows["last"] = runs.rows.detach().cpu().clone()
                if self._steps - tested >= self.evaluate_every or self._steps >= target:
                    tested = self._steps
                    self._test(runs)
                tell(self._progress(columns, runs, first, target))
                if False in [each(self) for each in callbacks]:
                    break
            if tested < self._steps:
                self._test(runs)
        if progress:
            share = self._testing / max(time.monotonic() - began, 1e-9)
            episodes = self.spec.evaluation.episodes
            line = f"{runs.env_steps - first:,} steps of each run; evaluations of {episodes} "
            print(f"{line}episodes took {share:.0%} of the time", file=sys.stderr)
        return self

    def _started(self) -> Runs:
        """The runs, where they stand."""
        if self._runs is None:
            resumes = self._resumes
            if resumes is None and self._file is not None:
                resumes = self._checkpoint(self._file.path)
            if resumes is None and self._file is not None:
                self._forget_training(self._file.path)
            # Room for as many transitions as the algorithm keeps, however long it will learn.
            room = max(self._most_stored(), self.spec.iteration_steps)
            spec = self.spec.model_copy(update={"steps": room})
            self._runs = runs_of(spec, self.seeds, self.device, self.workers)
            if resumes is not None:
                self._runs.load_state_dict(resumes)
            elif self._file is not None:
                self._runs.start_from(self._rows["last"])
            self._resumes = self._file = None
        return self._runs

    def _most_stored(self) -> int:
        """Transitions of a run that the replay buffer has room for; 1 without a buffer.

        Pictures as goals would not fit in memory by default; what a person says is kept.
        """
        how, where = self.spec.algorithm, self.spec.environment
        wanted: int = getattr(how, "buffer_size", 1)
        each = 4 * len(self.seeds) * (2 * where.observation_size + where.action_size + 4)
        fits = max(int(LARGEST_BUFFER / each), 1)
        if wanted <= fits or wanted != type(how).model_fields["buffer_size"].default:
            return wanted
        warnings.warn(
            f"the replay buffer keeps {fits:,} transitions of each run, since {wanted:,} would "
            f"take {wanted * each / 1e9:.0f} GB; buffer_size says otherwise",
            stacklevel=4,
        )
        return fits

    def _checkpoint(self, path: Path) -> dict[str, Any] | None:
        """What an interrupted training has left beside its policies; its curves are taken over.

        None where there is nothing, or of other code, another specification or other runs.
        """
        checkpoint = Path(*("checkpoints" if x == "best" else x for x in path.parts))
        if checkpoint == path or not checkpoint.exists():
            return None
        saved = load(checkpoint)
        made_by = {"spec_hash": self.spec.hash, "code": code_of(self.spec)}
        state: dict[str, Any] | None = saved.get("runs")
        if saved.get("identity") != made_by or state is None or state["seeds"] != self.seeds:
            return None
        for name, parts in saved["curves"].items():
            phase, _, column = name.partition("/")
            self._columns[phase][column] = [part.numpy() for part in parts]
        return state

    def _forget_training(self, path: Path) -> None:
        """Only parameters are known: the steps count anew."""
        says = "the optimisers and the steps begin anew"
        if not self.spec.algorithm.on_policy:
            says = "the replay buffer, the optimisers and the steps begin anew"
        if self._file is not None and self._file.acts_only:
            says += ", and so does the critic, which that file lacks"
        if getattr(self.spec.algorithm, "standardises", False):
            # The parameters are for observations as they are given.
            how = self.spec.algorithm.model_copy(update={"normalize_observations": False})
            self.spec = self.spec.model_copy(update={"algorithm": how})
            says += "; observations are no longer standardised"
        warnings.warn(f"learns on from the parameters in {path} alone: {says}", stacklevel=4)
        self._steps = 0
        for columns in self._columns.values():
            columns.clear()

    def _test(self, runs: Runs) -> None:
        began = time.monotonic()
        found = runs.evaluate()
        self._testing += time.monotonic() - began
        self._note("evaluation", found)
        for i, score in enumerate(
            zip(found["success_rate"].tolist(), found["return_mean"].tolist(), strict=True)
        ):
            if score >= self._scores[i]:
                self._scores[i] = score
                self._rows["best"][i] = self._rows["last"][i]

    def _note(self, phase: str, columns: Mapping[str, torch.Tensor]) -> None:
        runs = self._started()
        n = len(self.seeds)
        rows = {
            "seed": np.array(self.seeds),
            "iteration": np.full(n, runs.iteration),
            "env_steps": np.full(n, runs.env_steps),
            "wall_seconds": runs.clock.wall.numpy().copy(),
            "cpu_seconds": runs.clock.cpu.numpy().copy(),
            **{name: value.detach().cpu().double().numpy() for name, value in columns.items()},
        }
        for name, value in rows.items():
            self._columns[phase][name].append(value)
        if self._board is not None:
            self._board(runs, phase, columns)

    def _progress(
        self, columns: Mapping[str, torch.Tensor], runs: Runs, first: int, target: int
    ) -> Progress:
        n, done = len(self.seeds), runs.env_steps - first
        seconds = float(runs.clock.wall.sum()) * done / max(runs.env_steps, 1)
        return Progress(
            self.spec.environment.id, n * done, n * (target - first),
            n * done / max(seconds, 1e-9), float(columns["return_mean"].nanmean()),
            float(columns["success_rate"].nanmean()),
        )  # fmt: skip

    def curves(self) -> pd.DataFrame:
        """What was recorded, a row for each run, iteration ("train") and evaluation ("evaluation").

        Columns: phase; seed, of the run; iteration; env_steps, of the run so far; wall_seconds and
        cpu_seconds, its share of the training time; episodes, finished while training; return_mean,
        success_rate and episode_length (steps), of the last hundred episodes or of the
        evaluation's; reward_rest, the mean reward per step that goals do not explain; and the
        algorithm's own, as losses.  NaN where a phase has no such column.
        """
        frames = [pd.DataFrame({"phase": [], "seed": [], "iteration": [], "env_steps": []})]
        for phase, columns in self._columns.items():
            values = {name: np.concatenate(parts) for name, parts in columns.items()}
            if values:
                frames.append(pd.DataFrame({"phase": phase, **values}))
        table = pd.concat(frames[1:] or frames, ignore_index=True)
        kinds = {name: "int64" for name in INTEGERS if name in table}
        table = table.astype(kinds).sort_values(["phase", "seed", "env_steps"], kind="stable")
        return table.reset_index(drop=True)

    # -- acting ---------------------------------------------------------------------------------

    @property
    def best_run(self) -> int:
        """The run (seed) with the best evaluation: by its share of successes, then its return."""
        return max(zip(self.seeds, self._scores, strict=True), key=lambda one: one[1])[0]

    def parameters(self, run: int | None = None, which: Which = "best") -> torch.Tensor:
        """A run's parameters [parameter], for observations as they are given."""
        run = self.best_run if run is None else run
        if run not in self.seeds:
            raise SpecError(f"run: {run} is not allowed; there are {self.seeds}")
        if which not in self._rows:
            raise SpecError(f"which: {which!r} is not allowed; there are best and last")
        return self._rows[which][self.seeds.index(run)]

    def policy(self, run: int | None = None, which: Which = "best") -> Policy:
        """What a run does, as an ordinary module of torch (`library.policy.Policy`).

        Args:
            run: its seed; None: the one that evaluates best.
            which: its parameters at its best evaluation, or the last.
        """
        return Policy(self.spec, self.parameters(run, which), *self._spaces)

    def predict(
        self,
        observation: Mapping[str, Any] | NDArray[Any],
        state: None = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        run: int | None = None,
        which: Which = "best",
    ) -> tuple[Any, None]:
        """An action as the environment takes it, and None, for Stable-Baselines3's sake.

        Args:
            observation: as the environment gives it, or several with a leading axis.
            state: ignored.
            episode_start: ignored.
            deterministic: False: drawn as in training, of a single observation.
            run: as of `policy`.
            which: as of `policy`.
        """
        if not deterministic:
            self._must_draw()
        shapes = {key: tuple(space.shape or ()) for key, space in self._spaces[0].items()}
        must_fit(observation, shapes, self.spec.environment.observation_size)
        key = (self.best_run if run is None else run, which, self._steps)
        if not deterministic:
            if not isinstance(observation, Mapping):
                raise SpecError("observation: random actions are drawn for a dictionary")
            if self._random is None or self._random[0] != key:
                generator = torch.Generator().manual_seed(0)
                row = self.parameters(run, which)
                env = self.spec.environment.make()
                self._random = key, actor_of(self.spec, row, env, generator)
            return self._random[1](observation), None
        if self._acting is None or self._acting[0] != key:
            self._acting = key, self.policy(run, which)
        return self._acting[1].numpy(observation), None

    def evaluate(
        self,
        episodes: int = 100,
        *,
        run: int | None = None,
        which: Which = "best",
        deterministic: bool = True,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Episodes of every run, or of one; a row per run, its seed the index.

        Columns: return_mean and return_std, over its episodes; success_rate; length_mean, in steps.
        Episode e begins as `reset(seed=seed + e)` makes it, for every run alike.
        """
        prepare_process("cpu")
        if not deterministic:
            self._must_draw()
        rows = {}
        for each in self.seeds if run is None else [run]:
            found = evaluate_run(
                self.spec, self.parameters(each, which), episodes, deterministic, seed=seed
            )
            rows[each] = found[:4]
        names = ["return_mean", "return_std", "success_rate", "length_mean"]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=names)
        return table.rename_axis("run")

    def _must_draw(self) -> None:
        if self._file is not None:
            self._file.must_draw()

    def film(
        self, path: str | Path, run: int | None = None, episodes: int = 3, which: Which = "best"
    ) -> Path:
        """Write an animation, .gif or .mp4, of a run's episodes; returns its path."""
        from hindsight.training.watch import animate, film

        animate(film(self.spec, self.parameters(run, which), episodes), Path(path))
        return Path(path)

    def export(self, path: str | Path, run: int | None = None, which: Which = "best") -> Path:
        """Write a run's policy as .onnx or .pt2 (`library.policy.export`); returns its path."""
        return export(self.policy(run, which), Path(path))

    # -- files ----------------------------------------------------------------------------------

    def save(self, path: str | Path, *, training: bool = False) -> Path:
        """Write policies and curves; returns the path.

        Such a file may stand wherever the commands `watch` and `evaluate` want a policy.

        Args:
            training: everything else, too, so that a loaded model learns on as this one would: the
                replay buffer, optimisers, open episodes.

        Raises:
            FileError: it cannot be written.
        """
        state = {
            "format": FORMAT,
            "spec": self.spec.model_dump_json(),
            "seeds": self.seeds,
            "rows": self._rows["best"],
            "last": self._rows["last"],
            "scores": self._scores,
            "steps": self._steps,
            "evaluate_every": self.evaluate_every,
            "curves": {
                phase: {name: torch.from_numpy(np.concatenate(v)) for name, v in columns.items()}
                for phase, columns in self._columns.items()
            },
            "training": self._started().state_dict() if training else None,
        }
        save(Path(path), state)
        return Path(path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: Given | None = None,
        *,
        device: str = "cpu",
        workers: int | None = None,
    ) -> Self:
        """The model of a policy file that `save`, the workflow or `hindsight train` wrote, or that
        ships.  Nothing in the file is run, and no module is imported for it.

        Args:
            env: its environment; None: the one that the file names, which must be known: of this
                package, of gymnasium-robotics or registered before.

        Raises:
            FileError: a file that is damaged, or of another kind.
            SpecError: an environment that is not known, or does not fit.
        """
        file = PolicyFile.read(Path(path))
        try:
            return cls._of_file(file, env, device, workers)
        except (KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
            raise FileError(f"{path}: is damaged: {reason(error)}") from error

    @classmethod
    def _of_file(
        cls, file: PolicyFile, env: Given | None, device: str, workers: int | None
    ) -> Self:
        path, values, saved = file.path, file.values, file.saved
        name, where = values.get("algorithm", {}).get("name", "ppo"), values["environment"]
        kinds = {kind.algorithm: kind for kind in (PPO, SAC, TD3, DDPG, DQN)}
        if name not in kinds:
            raise FileError(f"{path}: its algorithm {name!r} is unknown")
        if not issubclass(kinds[name], cls):
            raise FileError(f"{path}: is a model of {name}: {kinds[name].__name__}.load reads it")
        trained_in = where.get("id", DEFAULTS["environment"]["id"])
        if env is not None:
            # What was said of an environment of others does not apply to one of ours.
            ours = isinstance(env, str) and env in ENVIRONMENTS
            said = {} if ours else where
            given = environment_values(env, None, said.get("max_episode_steps"))
            kept = {key: said[key] for key in ("terminates", "rest") if said.get(key) is not None}
            values["environment"] = where = given | kept
        else:
            _must_be_known(path, trained_in)
        spec = cell_of(values, path, [where.get("id", trained_in)])
        rows = file.rows_of(spec) if env is None else _fitting(file, spec, trained_in)
        kind = cast(type[Self], kinds[name])
        model = kind.__new__(kind)
        grid = max(spec.steps // spec.evaluation.points, 1)
        every = int(saved.get("evaluate_every", grid))
        model._set_up(spec, file.seeds, rows, every, device, workers)
        model._file = file
        if saved.get("format") == FORMAT:
            last = saved["last"]
            if last.shape != rows.shape or last.dtype != rows.dtype:
                raise FileError(f"{path}: its parameters are not those of its specification")
            model._rows["last"], model._steps = last, int(saved["steps"])
            model._resumes = saved["training"]
            # Nothing has been learned that could be lost.
            model._file = file if model._steps else None
            curves = saved["curves"]
            for phase, columns in model._columns.items():
                columns.update({name: [v.numpy()] for name, v in curves[phase].items()})
        else:
            model._steps = max(saved.get("steps", [saved.get("result", {}).get("steps", 0)]))
            model._take_curves(path)
        if "scores" in saved:
            model._scores = [(float(success), float(mean)) for success, mean in saved["scores"]]
        return model

    def _take_curves(self, path: Path) -> None:
        """The curves of its cell, where they lie beside a workflow's policies."""
        curves = Path(*("cells" if x in ("policies", "best") else x for x in path.parts))
        curves = curves.with_suffix(".parquet")
        if curves == path or about(curves).get("spec_hash") != self.spec.hash:
            return
        table = read_table(curves).to_pandas()
        for phase, columns in self._columns.items():
            rows = table[(table.phase == phase) & table.seed.isin(self.seeds)]
            present = rows.drop(columns="phase").dropna(axis=1, how="all")
            columns.update({name: [present[name].to_numpy()] for name in present})
        tested = table[table.phase == "evaluation"].groupby("seed").last()
        self._scores = [
            (float(tested.success_rate[seed]), float(tested.return_mean[seed]))
            for seed in self.seeds
        ]
        self._steps = int(tested.env_steps[self.seeds].max())


def _fitting(file: PolicyFile, spec: CellSpec, trained_in: str) -> torch.Tensor:
    """Parameters [run, parameter] in another environment; SpecError where they do not fit it."""
    try:
        return file.rows_of(spec)
    except FileError:
        where = spec.environment
        raise SpecError(
            f"env: {where.id} shows a policy {where.observation_size} numbers and takes "
            f"{where.n_outputs}, which does not fit the policies of {file.path}, trained in "
            f"{trained_in}"
        ) from None


def _must_be_known(path: Path, name: str) -> None:
    """Raise SpecError for an environment that one would have to import something for."""
    module, _, bare = name.rpartition(":")
    if bare.startswith(f"{NAMESPACE}/"):
        raise SpecError(
            f"{path}: its environment was given as an object, which no file keeps; give it again: "
            "load(path, env=...)"
        )
    # One that gymnasium would import from somewhere is not there yet, whoever registered it.
    made_by = gym.registry[bare].entry_point if bare in gym.registry else None
    registered = callable(made_by) and (not module or module in sys.modules)
    there = name in ENVIRONMENTS or registered
    if not there and not is_known(name):
        raise SpecError(
            f"{path}: its environment {name!r} is of a module that is not imported; import "
            f"{module or 'it'} first if you trust it, or give the environment: load(path, env=...)"
        )


def _callbacks(given: Any) -> list[Callback]:
    """As a list; SpecError for what is no function."""
    several = isinstance(given, list | tuple)
    found: list[Any] = list(given) if several else [] if given is None else [given]
    for each in found:
        if not callable(each):
            raise SpecError(
                f"callback: {each!r} is not allowed; it is a function of the model, or several"
            )
    return found


class PPO(Model):
    """Proximal policy optimisation, with PPO-HER's hindsight (`specs.algorithms.ppo.PPOSpec`)."""

    algorithm = "ppo"
    default_her = "final"


class SAC(Model):
    """Soft actor-critic, continuous actions (`specs.algorithms.sac.SACSpec`)."""

    algorithm = "sac"


class TD3(Model):
    """Twin delayed DDPG, continuous actions (`specs.algorithms.td3.TD3Spec`)."""

    algorithm = "td3"


class DDPG(Model):
    """Deep deterministic policy gradient, continuous actions (`specs.algorithms.ddpg.DDPGSpec`)."""

    algorithm = "ddpg"


class DQN(Model):
    """Double deep Q-learning, discrete actions (`specs.algorithms.dqn.DQNSpec`)."""

    algorithm = "dqn"
