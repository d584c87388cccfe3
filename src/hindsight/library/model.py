"""PPO, SAC, TD3, DDPG and DQN with an interface like that of Stable-Baselines3.

A model trains several runs at once, which differ only in their seeds.  Curves and evaluations cover
every run.  One run acts: by default the one with the best evaluation.
"""

import copy
import pickle
import signal
import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from hindsight.envs.environment import Call
from hindsight.io.checkpoints import MISFITS, save
from hindsight.io.files import FileError, reason
from hindsight.io.interruption import Interrupted, noticed
from hindsight.library.callbacks import TensorBoard
from hindsight.library.environment import Given, environment_values
from hindsight.library.from_stable_baselines3 import (
    INSTEAD,
    RENAMED,
    SAME,
    called_after,
    in_our_words,
    is_theirs,
    learn_words,
    of_vector,
)
from hindsight.library.model_files import (
    MOST_STEPS,
    cell_in,
    curves_beside,
    is_another_task,
    training_of,
    warn_of_another_task,
    whole,
)
from hindsight.library.policy import Policy, export, must_fit, spaces_of
from hindsight.library.presets import called, keys_of, notes_of
from hindsight.replay.buffer import check_choice, count_of
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import PARTS, SECTIONS, CellSpec, cell_values, must_count
from hindsight.specs.errors import EnvironmentFailure, SpecError, validated
from hindsight.specs.gymnasium import GymnasiumSpec
from hindsight.specs.off_policy import ContinuousSpec, OffPolicySpec
from hindsight.training.cell import known_device, prepare_process
from hindsight.training.evaluate import Actor, Evaluation, actor_of, evaluate_run
from hindsight.training.policies import initial_row, n_parameters
from hindsight.training.policy_files import FORMAT, PolicyFile
from hindsight.training.progress import Progress, show
from hindsight.training.record import versions_in_use
from hindsight.training.runs import Runs, runs_of

#: A run's parameters at its best evaluation, or the latest.
Which = Literal["best", "last"]
#: Called with the model after every iteration; returning False ends `learn`.
Callback = Callable[["Model"], bool | None]

#: A message to another thread than that which learns, and one after an error.
LEARNS = "this model is learning already: wait until that call of learn ends"
TORN = (
    "an error ended the training within an iteration, so it cannot continue: create a new model, "
    "or load one that was saved with training=True"
)
#: What cannot be assigned to a model, in our words and in those of Stable-Baselines3.
SETTINGS = {
    *("her", "preset", "seed", "first_seed", "early_end", "evaluation_episodes", "env_kwargs"),
    *("policy_kwargs", "replay_buffer_kwargs", *RENAMED, *SAME, *INSTEAD),
    *(name for part in SECTIONS for kind in PARTS[part].values() for name in kind.model_fields),
    *(alias for part in SECTIONS for kind in PARTS[part].values() for alias in kind.aliases),
} - {"id", "name", "policy"}
#: The score of a run that has not been evaluated.
UNKNOWN = (-np.inf, -np.inf)
#: Bytes that the replay buffers of all runs may take, unless the user sets `buffer_size`.
LARGEST_BUFFER = 8e9


class Model:
    """Several runs of one algorithm in one environment.

    Create one with `PPO`, `SAC`, `TD3`, `DDPG` or `DQN`:

        model = SAC("FetchReach-v4", her="future", seeds=4)
        model.learn(20_000)  # environment steps of each run
        action, _ = model.predict(observation)
        print(model.evaluate(episodes=100))
        model.save("reach.safetensors")

    Where a method takes them, `run` is a run's seed, by default that of the run with the best
    evaluation; `which` is "best" for the parameters at that run's best evaluation, or "last" for
    the latest ones.
    """

    algorithm: ClassVar[str]
    #: What `learn` does by default: show progress, and write curves for TensorBoard.
    verbose: int = 0
    tensorboard_log: str | Path | None = None
    #: The `which` of `predict`; "last" while one of Stable-Baselines3's callbacks runs.
    acts_by: Which = "best"

    def __init__(
        self,
        env_or_policy: Given | None = None,
        env: Given | None = None,
        *,
        her: str | None = "default",
        preset: str | None = None,
        seeds: int | None = None,
        evaluate_every: int | None = None,
        evaluation_episodes: int = 20,
        env_kwargs: Mapping[str, Any] | None = None,
        max_episode_steps: int | None = None,
        fidelity: Literal["described", "released"] = "described",
        device: str = "cpu",
        workers: int | None = None,
        verbose: int = 0,
        tensorboard_log: str | Path | None = None,
        **settings: Any,
    ) -> None:
        """Create an untrained model; docs/from-stable-baselines3.md lists other words for settings.

        Args:
            env_or_policy: the environment, or "MultiInputPolicy" before it.
            env: the environment: an id, a function that creates one, or an instance.  An instance
                is recreated from its id if gymnasium made it, without what was changed since, and
                copied otherwise; of a vector environment, the first, with its number as `n_envs`.
            her: hindsight strategy, which chooses the new goals: "final", "future", "episode" or
                "random" (not with PPO).  None turns hindsight off.  Default: "final" with PPO,
                "future" with the other algorithms.
            preset: a named set of settings: "recommended" (PPO) or "robotics" (SAC); see
                docs/library.md.  Your own settings override it.
            seeds: number of runs, with the seeds 0, 1, ...  None: 4, or 1 if `seed` is given.
            evaluate_every: environment steps of each run between evaluations.  None: 2,000, or an
                iteration if that is longer.  An off-policy algorithm's iteration is no longer than
                this, unless you set `log_interval`.
            evaluation_episodes: episodes of each evaluation.
            env_kwargs: arguments for the environment; only if `env` is an id or a function.
            max_episode_steps: steps after which an episode is truncated.  None: as registered.
            fidelity: "described" relabels, and moves our prey, as the papers describe it,
                "released" as their authors' code does; see docs/deviations.md.
            device: "cpu", "cuda" or "cuda:1", ..., or "auto": a GPU if there is one.
            workers: processes that step an environment of another package.  None: one per core.
            verbose: 1: `learn` shows its progress, unless told otherwise.
            tensorboard_log: default folder of `learn`'s curves for TensorBoard.
            **settings: any other option of the algorithm, of hindsight or of the environment, for
                example `learning_rate`, `hidden`, `n_envs`, `batch_size`, `prioritized`, or `k`,
                the additional goals per step (default: 1 with PPO, 4 with the others).
                docs/settings.md lists them all.

        Raises:
            SpecError: an option is unknown, has no effect or has an invalid value, or the
                environment is not suitable.
        """
        given_env: Any = env_or_policy if env is None else env
        if None not in (env_or_policy, env):
            if not isinstance(env_or_policy, str | type):
                raise SpecError("env is given twice")
            settings = {"policy": env_or_policy, **settings}
        if hasattr(given_env, "num_envs"):
            given_env, n_envs = of_vector(given_env)
            settings = {"n_envs": n_envs, **settings}
        usually = keys_of(preset, self.algorithm, "")  # refuses an unknown one at once
        settings = in_our_words(self.algorithm, {"seeds": seeds, "her": her, **settings}, usually)
        seeds, her = settings.pop("seeds"), settings.pop("her")
        if her != "default" and "strategy" in settings:
            raise SpecError("her and strategy are the same: give one")
        seeds = 4 if seeds is None else seeds
        environment = environment_values(given_env, env_kwargs, max_episode_steps, settings)
        keys = keys_of(preset, self.algorithm, environment["id"], bool(her))
        usual = keys.pop("her", "final" if ALGORITHMS[self.algorithm].on_policy else "future")
        asked = count_of("evaluate_every", 2000 if evaluate_every is None else evaluate_every)
        asked = min(asked, MOST_STEPS)
        often = ALGORITHMS[self.algorithm].model_fields.get("log_interval")
        if often is not None and asked < often.default:
            keys["log_interval"] = asked
        given = cell_values(
            environment,
            self.algorithm,
            usual if her == "default" else her or None,
            fidelity,
            keys,
            settings,
            seeds=seeds,
            early_end=None,
            evaluation={"episodes": evaluation_episodes},
        )
        spec = validated(CellSpec, given)
        rows = torch.stack([initial_row(spec, seed) for seed in spec.run_seeds])
        self._set_up(spec, list(spec.run_seeds), rows, asked, device, workers)
        self.verbose, self.tensorboard_log = verbose, tensorboard_log
        if isinstance(spec.environment, GymnasiumSpec):
            for line in spec.environment.facts.alarms:
                warnings.warn(line, stacklevel=2)
        must_count(spec, given, [*settings, *(["fidelity"] if fidelity != "described" else [])])
        each, key = self._whole_iterations(asked)
        if evaluate_every is not None and each > 1.1 * asked:
            warnings.warn(
                f"runs are evaluated every {each:,} steps, not every {asked:,}, because they are "
                f"evaluated at the end of an iteration ({key})",
                stacklevel=2,
            )

    def _set_up(
        self,
        spec: CellSpec,
        seeds: list[int],
        rows: torch.Tensor,
        evaluate_every: int,
        device: str,
        workers: int | None,
    ) -> None:
        """Initialise a model of runs with these seeds and parameters `rows` [run, parameter]."""
        self.device = known_device(str(device))
        self.spec, self.seeds, self.evaluate_every = spec, seeds, evaluate_every
        self.workers = None if workers is None else count_of("workers", workers, 0)
        self._learns = threading.Lock()
        self._runs: Runs | None = None
        #: State of the training of a copied model, until `learn` continues it.
        self._resumes: dict[str, Any] | None = None
        #: The file a model was loaded from, until `learn` continues its training.
        self._file: PolicyFile | None = None
        #: Methods that were called in the environments of the model that this one is a copy of.
        self._calls: Sequence[Call] = ()
        #: Whether `call` may have changed the task since the last evaluation.
        self._task_changed = False
        #: Environment steps that each run has trained so far; of a file in `results/best`, until
        #: `learn` finds the checkpoint, those of its policies.
        self.num_timesteps = 0
        #: Seconds of the evaluations of this call of `learn`.
        self._test_seconds = 0.0
        #: Parameters [run, parameter], and success rate and mean return at the best evaluation.
        self._rows: dict[str, torch.Tensor] = {name: rows.clone() for name in ("best", "last")}
        self._scores = [UNKNOWN] * len(self.seeds)
        self._columns: dict[str, dict[str, list[NDArray[Any]]]] = {
            "train": defaultdict(list), "evaluation": defaultdict(list),
        }  # fmt: skip
        self._spaces = spaces_of(spec.environment)
        #: The actors of `predict`, by `deterministic`, run and `which`, since the last iteration.
        self._actors: dict[tuple[bool, int, str], Actor] = {}
        self._generator = torch.Generator().manual_seed(0)
        #: Whether an error that is not the environment's ended `learn` within an iteration.
        self._torn = False
        self._board: TensorBoard | None = None
        self._logger: Any = None

    def __repr__(self) -> str:
        runs = f"{len(self.seeds)} run{'s' * (len(self.seeds) != 1)}"
        return f"<{called(self.spec)}: {runs}, {self.num_timesteps:,} steps trained>"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was detected about the environment, one sentence each.

        `learn(progress=True)` prints these notes.
        """
        return notes_of(self.spec)

    # -- learning -------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        callback: Callback | Sequence[Callback] | None = None,
        *,
        progress: bool | None = None,
        tensorboard: str | Path | None = None,
        **theirs: Any,
    ) -> Self:
        """Train every run for `total_timesteps` more environment steps; returns the model.

        A run trains in whole iterations, so the number is rounded up.  A second call continues the
        training.  Linear schedules run from the very first step to the last step of this call.
        Ctrl-C ends the call after the current iteration, with KeyboardInterrupt; another call
        continues.

        Warns if rounding adds more than a tenth, if no step is learned from yet, or if a loaded
        model's file has its parameters alone, without the state of the training.

        Args:
            total_timesteps: environment steps of each run.
            callback: a function, or several, called with this model after every iteration
                (`log_interval` steps of a run, or PPO's rollout: `n_steps` of each environment);
                returning False ends the training.  One of Stable-Baselines3's is then called for
                each step.
            progress: show a progress bar (lines, if there is no terminal) and the share of time
                that evaluations took.  None: if the model is `verbose`.
            tensorboard: folder for TensorBoard curves, with a subfolder for each run.
            **theirs: Stable-Baselines3's `progress_bar`, `tb_log_name`, `log_interval` (without
                effect) and `reset_num_timesteps` (True only if the model is new).

        Raises:
            EnvironmentFailure: the environment raised an error or contradicts itself, or its
                process ended.  Another call continues, in new episodes.
            SpecError: an argument is invalid, the package tensorboard is missing, or an error ended
                an earlier call within an iteration.
        """
        total_timesteps = count_of("total_timesteps", total_timesteps)
        progress, name = learn_words(
            theirs, bool(self.verbose) if progress is None else progress, not self.num_timesteps
        )
        folder = self.tensorboard_log if tensorboard is None else tensorboard
        several = callback if isinstance(callback, Sequence) else [callback]
        callbacks = [each for each in several if each is not None]
        for each in callbacks:
            if not callable(each) and not hasattr(each, "on_step"):
                raise SpecError(
                    f"callback: {each!r} is not allowed; it must be a callable that takes the "
                    "model, or a list of them"
                )
        prepare_process(self.device)
        with ExitStack() as stack:
            if not self._learns.acquire(blocking=False):  # in another thread
                raise SpecError(LEARNS)
            stack.callback(self._learns.release)
            if self._torn:
                raise SpecError(TORN)
            self._board = None
            if folder is not None:
                board = TensorBoard(Path(folder) / name, self.spec)
                self._board = stack.enter_context(closing(board))
            if progress:
                print(*self.notes, sep="\n", end="\n" if self.notes else "", file=sys.stderr)
            runs = self._started()
            first, began = runs.env_steps, time.monotonic()
            ends: list[Callable[[], None]] = []
            for i, each in enumerate(callbacks):
                if hasattr(each, "on_step"):
                    callbacks[i], end = called_after(each, self, total_timesteps)
                    ends.append(end)
            whole, key = self._whole_iterations(total_timesteps)
            if whole > 1.1 * total_timesteps:
                warnings.warn(
                    f"learn({total_timesteps}) trains {whole:,} steps, because a run learns in "
                    f"whole iterations of {runs.rollout_steps:,} steps ({key})",
                    stacklevel=2,
                )
            target = first + whole
            self._warn_before_learning(target)
            runs.spec = self.spec.model_copy(update={"steps": target})
            self._test_seconds = 0.0
            tell = stack.enter_context(show() if progress else nullcontext(lambda progress: None))
            stop = stack.enter_context(noticed([signal.SIGINT]))
            stack.enter_context(torch.enable_grad())  # whatever the caller is within
            while runs.env_steps < target:
                self._torn = True
                try:
                    tell(self._iterate(runs, first, target))
                except (EnvironmentFailure, Interrupted) as error:
                    self._torn = False
                    steps = f"{self.num_timesteps:,} steps of each run"
                    error.add_note(f"{steps} are done; `learn` goes on from there in new episodes")
                    raise
                self._torn = False
                if stop.signal is not None:
                    raise KeyboardInterrupt
                said = [each(self) for each in callbacks]
                if any(one is False or one is np.False_ for one in said):
                    break
            if self._tested < self.num_timesteps or self._task_changed:
                self._test(runs)
            for end in ends:
                end()
            if stop.signal is not None:
                raise KeyboardInterrupt
        if progress:
            share = self._test_seconds / max(time.monotonic() - began, 1e-9)
            episodes = self.spec.evaluation.episodes
            line = f"{runs.env_steps - first:,} steps of each run; evaluations of {episodes} "
            print(f"{line}episodes took {share:.0%} of the time", file=sys.stderr)
        return self

    def _warn_before_learning(self, target: int) -> None:
        """Warn if no step is learned from up to the step `target`."""
        how, limit = self.spec.algorithm, self.spec.environment.step_limit
        if isinstance(how, OffPolicySpec):
            often = how.n_envs * how.train_freq
            starts = max(how.learning_starts, how.n_envs * limit - 1) // often * often + often
            if target < starts:
                warnings.warn(
                    f"nothing is learned yet: the first update follows step {starts:,} "
                    f"(learning_starts, train_freq, and an episode of up to {limit:,} in each "
                    "environment)",
                    stacklevel=3,
                )

    def _whole_iterations(self, steps: int) -> tuple[int, str]:
        """Round up to whole iterations; also returns the settings that decide their length."""
        how = self.spec.algorithm
        whole = -(-steps // how.iteration_steps) * how.iteration_steps
        return whole, "n_steps times n_envs" if how.on_policy else "log_interval"

    def _iterate(self, runs: Runs, first: int, target: int) -> Progress:
        """Train for one iteration, evaluate if due; returns the progress since step `first`."""
        columns = runs.iterate()
        self.num_timesteps = runs.env_steps
        self._note(runs, "train", columns)
        self._rows["last"] = runs.rows.detach().cpu().clone()
        self._forget_scores()
        self._act_as_known()
        if self.num_timesteps - self._tested >= self.evaluate_every or self.num_timesteps >= target:
            self._test(runs)
        n, done = len(self.seeds), self.num_timesteps - first
        seconds = float(runs.clock.wall.sum()) * done / self.num_timesteps
        name = self.spec.environment.id
        return Progress.of_iteration(name, n * done, n * (target - first), seconds, columns)

    def _forget_scores(self) -> None:
        if self._task_changed:
            self._scores = [UNKNOWN] * len(self.seeds)

    def _act_as_known(self) -> None:
        """Let runs that no evaluation has scored act with their latest finite parameters."""
        for i, row in enumerate(self._rows["last"]):
            if self._scores[i] == UNKNOWN and row.isfinite().all():
                self._rows["best"][i] = row
        self._actors.clear()

    def _started(self) -> Runs:
        """Return the runs, created or restored on the first call."""
        if self._runs is None:
            file, resumes = self._file, self._resumes
            if file is not None:
                begun = training_of(file, self.spec)
                if begun is None:
                    self._forget_training(file)
                else:
                    resumes, curves = begun
                    for (phase, column), parts in curves.items():
                        self._columns[phase][column] = parts
            # The replay buffer's size must not depend on the length of a call of `learn`.
            how, room = self.spec.algorithm, self._most_stored()
            if not how.on_policy:
                how = how.model_copy(update={"buffer_size": room})
            steps = max(room, how.iteration_steps)
            spec = self.spec.model_copy(update={"steps": steps, "algorithm": how})
            rows = self._rows["last"].clone()
            runs = runs_of(spec, self.seeds, self.device, self.workers, rows)
            for call in self._calls:
                runs.call(*call)
            if resumes is not None:
                try:
                    runs.load_state_dict(resumes)
                except MISFITS as error:
                    if file is None:
                        raise
                    raise FileError(
                        f"{file.path}: its training is damaged, of another task or of another "
                        f"version of this package, and cannot continue: {reason(error)}"
                    ) from error
                if file is not None:
                    warn_of_another_task(file, self.spec)
            self._runs, self._file, self._resumes = runs, None, None
            # A file's steps and parameters may not be those of the training that goes on.
            self.num_timesteps = runs.env_steps
            self._rows["last"] = runs.rows.detach().cpu().clone()
        return self._runs

    def _most_stored(self) -> int:
        """Capacity of a run's replay buffer, in transitions; 1 without a buffer.

        Only the default is reduced, if it would not fit in memory, as with images as goals.
        """
        how, where = self.spec.algorithm, self.spec.environment
        wanted: int = getattr(how, "buffer_size", 1)
        each = 4 * len(self.seeds) * (2 * where.observation_size + where.action_size + 4)
        fits = max(int(LARGEST_BUFFER / each), 1)
        if wanted <= fits or wanted != type(how).model_fields["buffer_size"].default:
            return wanted
        warnings.warn(
            f"the replay buffer keeps {fits:,} transitions of each run, since {wanted:,} would "
            f"take {wanted * each / 1e9:.0f} GB; set buffer_size to choose another number",
            stacklevel=4,
        )
        return fits

    def _forget_training(self, file: PolicyFile) -> None:
        """Start training from step 0 with only the parameters of a file, and warn about it."""
        restarts = "optimisers, step count and any replay buffer start from scratch"
        if file.acts_only:
            restarts += ", and so does the critic, which the file does not contain"
        how = self.spec.algorithm
        if isinstance(how, ContinuousSpec) and how.normalize_observations:
            # The parameters in the file take observations that are not standardised.
            how = how.model_copy(update={"normalize_observations": False})
            self.spec = self.spec.model_copy(update={"algorithm": how})
            n = n_parameters(self.spec)
            self._rows = {name: rows[:, :n].clone() for name, rows in self._rows.items()}
            restarts += "; observations are no longer standardised"
        warnings.warn(
            f"training continues from the parameters in {file.path} alone: {restarts}", stacklevel=4
        )
        self.num_timesteps = 0
        for columns in self._columns.values():
            columns.clear()

    @property
    def _tested(self) -> int:
        """The step of the last evaluation in the curves; 0 without one."""
        steps = self._columns["evaluation"].get("env_steps")
        return int(steps[-1].max()) if steps else 0

    def _test(self, runs: Runs) -> None:
        """Evaluate every run and keep its parameters if they are the best."""
        began = time.monotonic()
        found = runs.evaluate()
        self._forget_scores()
        self._task_changed = False
        self._test_seconds += time.monotonic() - began
        self._note(runs, "evaluation", found)
        scores = zip(found["success_rate"].tolist(), found["return_mean"].tolist(), strict=True)
        for i, score in enumerate(scores):
            row = self._rows["last"][i]
            if not row.isfinite().all():
                warnings.warn(
                    f"the run with seed {self.seeds[i]} has diverged: its parameters are not "
                    "finite; a smaller learning_rate may help",
                    stacklevel=3,
                )
            elif score >= self._scores[i]:
                self._scores[i], self._rows["best"][i] = score, row
        self._actors.clear()

    def _note(self, runs: Runs, phase: str, columns: Mapping[str, torch.Tensor]) -> None:
        for name, value in runs.recorded(columns).items():
            self._columns[phase][name].append(value)
        if self._board is not None:
            self._board(runs, phase, columns)

    def call(self, method: str, *arguments: Any, **options: Any) -> list[list[Any]]:
        """Call a method of the environments that `learn` uses, as to raise a task's difficulty.

            model.learn(50_000, callback=lambda model: model.call("set_level", 2))

        This reaches the instances of training and of `learn`'s evaluations, and the one whose
        `compute_reward` relabels; `evaluate`, `film` and a loaded model make new instances.  Stored
        rewards stay as they are, unless relabelled.

        The task may be another one then, so the scores of before are forgotten: from the next
        iteration on, the latest parameters act until the next evaluation, with which `learn` ends.

        Returns what it returned in training, by run and environment.

        Raises:
            SpecError: the environment has no such method.
            EnvironmentFailure: the method raised an error.
        """
        runs = self._started()
        try:
            found = runs.call(method, arguments, options)
        except EnvironmentFailure:  # in some environments it may have been called
            self._task_changed = True
            raise
        self._task_changed = True
        return found

    def curves(self) -> pd.DataFrame:
        """Return the learning curves: a row per run and iteration, and per run and evaluation.

        docs/library.md describes the columns, which are NaN where a phase lacks one.
        """
        frames = [pd.DataFrame(columns=["phase", "seed", "iteration", "env_steps", "episodes"])]
        for phase, columns in self._columns.items():
            values = {name: np.concatenate(parts) for name, parts in columns.items()}
            if values:
                frames.append(pd.DataFrame({"phase": phase, **values}))
        table = pd.concat(frames[1:] or frames).astype({"episodes": "int64"})
        order = ["phase", "seed", "env_steps"]
        return table.sort_values(order, kind="stable", ignore_index=True)

    # -- acting ---------------------------------------------------------------------------------

    @property
    def best_run(self) -> int:
        """Seed of the run with the best evaluation: highest success rate, then highest return."""
        return max(zip(self.seeds, self._scores, strict=True), key=lambda one: one[1])[0]

    def parameters(self, run: int | None = None, which: Which = "best") -> torch.Tensor:
        """Return a run's parameters [parameter], for observations that are not standardised."""
        run = self._chosen(run, which)
        return self._rows[which][self.seeds.index(run)].clone()

    def _acting(self, run: int | None, which: Which) -> torch.Tensor:
        """As `parameters`; raises SpecError if the run has diverged."""
        row = self.parameters(run, which)
        if not row.isfinite().all():
            raise SpecError(
                f"run {self._chosen(run, which)}: has diverged, so its {which} parameters are not "
                "finite, and it cannot act; a smaller learning_rate may help"
            )
        return row

    def _chosen(self, run: int | None, which: Which) -> int:
        """The seed of a run, None being the best; raises SpecError for an unknown one."""
        run = self.best_run if run is None else run
        if not isinstance(run, Integral) or run not in self.seeds:
            raise SpecError(f"run: {run!r} is not allowed; choose from {self.seeds}")
        check_choice("which", which, ("best", "last"))
        return int(run)

    def policy(self, run: int | None = None, which: Which = "best") -> Policy:
        """Return a run's deterministic policy as a `torch.nn.Module` (`library.policy.Policy`)."""
        return Policy(self.spec, self._acting(run, which), *self._spaces)

    def predict(
        self,
        observation: Mapping[str, Any],
        state: None = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        run: int | None = None,
        which: Which | None = None,
    ) -> tuple[Any, None]:
        """Choose an action; returns it in the environment's format, and None as in SB3.

        Args:
            observation: an observation of the environment, or a batch with a leading axis.
            state: ignored, like `episode_start`; Stable-Baselines3 has them.
            deterministic: False samples actions as in training.
            which: None: "best", but "last" for Stable-Baselines3's callbacks, as there.

        Raises:
            SpecError: the observation does not fit the environment's spaces.
            FileError: `deterministic=False`, but the model's file has only deterministic actions.
        """
        if not deterministic and self._file is not None:
            self._file.must_draw()
        which = self.acts_by if which is None else which
        spaces = self._spaces[0]
        must_fit(observation, spaces)
        key = (deterministic, self._chosen(run, which), which)
        if key not in self._actors:
            if deterministic:
                self._actors[key] = self.policy(run, which).numpy
            else:
                row = self._acting(run, which)
                with closing(self.spec.environment.make()) as env:  # for its spaces
                    self._actors[key] = actor_of(self.spec, row, env, self._generator)
        act, first = self._actors[key], next(iter(spaces))
        if deterministic or np.shape(observation[first]) == spaces[first].shape:
            return act(observation), None
        size, space = len(observation[first]), self._spaces[1]
        each = [act({key: observation[key][i] for key in spaces}) for i in range(size)]
        return np.array(each, space.dtype).reshape(size, *(space.shape or ())), None

    def evaluate(
        self,
        episodes: int = 100,
        *,
        run: int | None = None,
        which: Which = "best",
        deterministic: bool = True,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Evaluate every run, or one, and return a table with a row per run.

        Columns: `return_mean` and `return_std` over the run's episodes, `success_rate`, and
        `length_mean` in steps.  The index is the run's seed.

        Args:
            run: None: every run.
            deterministic: False samples actions as in training.
            seed: episode e starts from `reset(seed=seed + e)`, so all runs see the same episodes.
        """
        prepare_process("cpu")
        episodes = count_of("episodes", episodes)
        if not deterministic and self._file is not None:
            self._file.must_draw()
        seeds = self.seeds if run is None else [run]
        how: dict[str, Any] = {"n_episodes": episodes, "deterministic": deterministic, "seed": seed}
        rows = (self._acting(each, which) for each in seeds)
        found = [evaluate_run(self.spec, row, **how)[:4] for row in rows]
        return pd.DataFrame(found, pd.Index(seeds, name="run"), Evaluation._fields[:4])

    def film(
        self, path: str | Path, run: int | None = None, episodes: int = 3, which: Which = "best"
    ) -> Path:
        """Write an animation of a run's episodes, .gif or (with ffmpeg) .mp4; returns its path.

        Raises:
            FileError: the file cannot be written, or the environment cannot be filmed.
        """
        from hindsight.training.watch import animate, film, film_writer

        film_writer(Path(path))  # refuses another format before any episode is played
        episodes = count_of("episodes", episodes)
        animate(film(self.spec, self._acting(run, which), episodes), Path(path))
        return Path(path)

    def export(self, path: str | Path, run: int | None = None, which: Which = "best") -> Path:
        """Export a run's policy, as .onnx for ONNX Runtime or .pt2 for `torch.export.load`.

        The inputs are the parts of an observation in their order, float32 [n, ...] for any n, or
        int64 if discrete.  In an ONNX file they are named by their keys, and the output is
        `action`.

        Raises:
            FileError: the file has another ending or cannot be written.
            SpecError: the packages that ONNX needs are missing.
        """
        return export(self.policy(run, which), Path(path))

    # -- Stable-Baselines3's names ----------------------------------------------------------------

    if not TYPE_CHECKING:  # mypy would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name in INSTEAD:
                raise AttributeError(f"{name}: a model has none; use instead: {INSTEAD[name]}")
            return self.__getattribute__(name)  # raises the usual error

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS:
            raise AttributeError(f"{name}: a model's settings cannot be changed; make a new model")
        super().__setattr__(name, value)

    def get_env(self) -> Any:
        """Return a new vector environment of Stable-Baselines3 with one environment."""
        from stable_baselines3.common.vec_env import DummyVecEnv

        return DummyVecEnv([self.spec.environment.make])

    def get_vec_normalize_env(self) -> None:
        """Return None: `normalize_observations` standardises what the networks see."""

    @property
    def logger(self) -> Any:
        """A logger of Stable-Baselines3, for its callbacks; it prints if the model is `verbose`."""
        from stable_baselines3.common.logger import HumanOutputFormat, Logger

        if self._logger is None:
            self._logger = Logger(None, [HumanOutputFormat(sys.stdout)] if self.verbose else [])
        return self._logger

    # -- files ----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle with the state of the training instead of environments and networks.

        Raises SpecError while another thread is learning.
        """
        if self._torn and self._learns.locked():
            raise SpecError(LEARNS)
        resumes = self._resumes if self._runs is None else self._runs.state_dict()
        left: dict[str, Any] = {"_learns": None, "_runs": None, "_board": None, "_actors": {}}
        left["_logger"] = None
        calls = self._calls if self._runs is None else self._runs.env.calls
        left["_calls"] = cloudpickle.dumps(calls)  # arguments may be lambdas
        return {**vars(self), **left, "_resumes": resumes, "acts_by": "best"}

    def __copy__(self) -> Self:
        """Copy all, so that the two share nothing that training changes."""
        return copy.deepcopy(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        calls = pickle.loads(state["_calls"])
        vars(self).update(state, _learns=threading.Lock(), _calls=calls)

    def save(self, path: str | Path, *, training: bool = False) -> Path:
        """Save every run's policy and the curves; returns the path.

        The commands `hindsight watch` and `hindsight evaluate` accept the file as a policy.

        Args:
            training: also save replay buffer, optimisers and open episodes, so that a loaded model
                continues training as this one would: exactly, if the environment repeats itself.

        Raises:
            FileError: the file cannot be written.
            SpecError: `training`, but an error ended the training within an iteration.
        """
        if training and self._torn:
            raise SpecError(LEARNS if self._learns.locked() else TORN)
        # First, as a model that goes on from parameters alone begins anew.
        runs = self._started().state_dict() if training else None
        versions = versions_in_use(self.spec) if training else {}
        environment = self.spec.environment
        state = {
            "format": FORMAT,
            "spec": self.spec.model_dump_json(),
            "seeds": self.seeds,
            "rows": self._rows["best"],
            "last": self._rows["last"],
            "scores": self._scores,
            "task_changed": self._task_changed,
            "steps": self.num_timesteps,
            "evaluate_every": self.evaluate_every,
            "choices": list(environment.choices),
            "goal_size": getattr(environment, "goal_size", None),
            "keys": list(environment.keys),
            "curves": {
                phase: {name: torch.from_numpy(np.concatenate(v)) for name, v in columns.items()}
                for phase, columns in self._columns.items()
            },
            "training": runs,
            "versions": versions,
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
        """Load a model from a policy file.

        Reads files written by `save`, by `hindsight train` and by the workflow, as well as the
        published policies.  Runs no code from the file and imports no module that it names.

        Args:
            env: the environment.  None: the one that the file names, which must be one of this
                package, of gymnasium-robotics, or already registered.  Its id alone keeps the
                parameters of the training.  An object counts as the task of the training if its
                class has the same name; then the best parameters stay those of the file until an
                evaluation is better.
            device: as for a new model.
            workers: as for a new model.

        Raises:
            FileError: the file is damaged or of another kind.
            SpecError: the environment is unknown or does not fit the policy.
        """
        if is_theirs(Path(path)):
            raise FileError(
                f"{path}: is a Stable-Baselines3 model, not one of ours; hindsight evaluate, watch "
                "and export take it"
            )
        file = PolicyFile.read(Path(path))
        if hasattr(env, "num_envs"):  # the model keeps its own number
            env, _ = of_vector(env)
        try:
            spec, rows = cell_in(file, env)
            kind: Any = model_of(spec.algorithm.name)
            if not issubclass(kind, cls):
                raise FileError(
                    f"{path}: is a model of {kind.algorithm}; load it with {kind.__name__}.load"
                )
            model: Self = kind.__new__(kind)
            grid = max(spec.steps // spec.evaluation.points, 1)
            every = whole(file.saved.get("evaluate_every", grid), 1)
            model._set_up(spec, file.seeds, rows, every, device, workers)
            model._restore(file)
            changed = file.saved.get("task_changed", False)  # of another task are the scores, too
            model._task_changed = bool(changed) or is_another_task(file, spec)
        except SpecError:
            raise
        except MISFITS as error:
            raise FileError(f"{path}: is damaged: {reason(error)}") from error
        return model

    def _restore(self, file: PolicyFile) -> None:
        """Take what a file has besides the best parameters."""
        saved, self._file = file.saved, file
        if saved.get("format") == FORMAT:
            last, best = saved["last"], self._rows["best"]
            if last.shape != best.shape or last.dtype != best.dtype:
                raise FileError(f"{file.path}: its parameters do not match its specification")
            self._rows["last"], self.num_timesteps = last, whole(saved["steps"], 0)
            if (training := saved["training"]) is not None:
                iterations = whole(training["iteration"], 0)
                if iterations * self.spec.algorithm.iteration_steps != self.num_timesteps:
                    raise ValueError(f"{iterations} iterations are not {self.num_timesteps} steps")
            # An untrained model has no training state to lose, so `learn` need not warn.
            self._file = file if self.num_timesteps else None
            for phase, columns in self._columns.items():
                curves = saved["curves"][phase]
                columns.update({name: [column.numpy()] for name, column in curves.items()})
        else:
            steps = saved.get("steps", [saved.get("result", {}).get("steps", 0)])
            self.num_timesteps = max(whole(each, 0) for each in steps)
            if (table := curves_beside(file, self.spec)) is not None:
                for phase, columns in self._columns.items():
                    present = table[table.phase == phase].drop(columns="phase")
                    present = present.dropna(axis=1, how="all")
                    columns.update({str(name): [present[name].to_numpy()] for name in present})
                last = table[table.phase == "evaluation"].groupby("seed").last().loc[self.seeds]
                scores = zip(last.success_rate.tolist(), last.return_mean.tolist(), strict=True)
                self._scores, self.num_timesteps = list(scores), int(last.env_steps.max())
        if "scores" in saved:
            self._scores = [(float(success), float(mean)) for success, mean in saved["scores"]]
            if np.isnan(self._scores).any():
                raise ValueError("a score is not a number")
        self.curves()  # raises an error if they do not fit together


@cache
def model_of(algorithm: str) -> type[Model]:
    """The class of an algorithm's models, whose name is the algorithm's in capitals."""
    found = next((kind for kind in Model.__subclasses__() if kind.algorithm == algorithm), None)
    if found is not None:
        return found
    keys = {"algorithm": algorithm, "__doc__": ALGORITHMS[algorithm].__doc__}
    # A pickle looks for it in `hindsight`, which asks this function.
    return type(algorithm.upper(), (Model,), {**keys, "__module__": "hindsight"})


class PPO(Model):
    """Proximal policy optimisation with the hindsight of PPO-HER, for any actions."""

    algorithm = "ppo"


class SAC(Model):
    """Soft actor-critic with hindsight replay, for continuous actions."""

    algorithm = "sac"


class TD3(Model):
    """Twin delayed DDPG with hindsight replay, for continuous actions."""

    algorithm = "td3"


class DDPG(Model):
    """Deep deterministic policy gradient with hindsight replay, for continuous actions."""

    algorithm = "ddpg"


class DQN(Model):
    """Double deep Q-learning with hindsight replay, for discrete actions."""

    algorithm = "dqn"
