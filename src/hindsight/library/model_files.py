"""What a model takes from a policy file: its task, and what the workflow has written beside it."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pandas as pd
import torch
from numpy.typing import NDArray

from hindsight.io.checkpoints import MISFITS, load
from hindsight.io.checksums import about, read_table
from hindsight.io.files import FileError, reason
from hindsight.library.environment import Given, environment_values
from hindsight.specs.cell import DEFAULTS, CellSpec
from hindsight.specs.code import identity_of
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.errors import SpecError
from hindsight.specs.from_file import cell_of, wants_naming
from hindsight.specs.gymnasium import NAMESPACE, GymnasiumSpec, called, registered
from hindsight.training.finished import changed_versions
from hindsight.training.policy_files import PolicyFile

#: More steps than any training takes.
MOST_STEPS = 10**15


def whole(value: Any, least: int) -> int:
    """Return a number of steps or iterations that a file holds; ValueError if it is impossible."""
    if type(value) is not int or not least <= value <= MOST_STEPS:
        raise ValueError(f"{value!r} is not a number of steps")
    return value


def cell_in(file: PolicyFile, env: Given | None) -> tuple[CellSpec, torch.Tensor]:
    """Return a file's cell and parameters [run, parameter], in the user's environment if given."""
    trained_in = file.values["environment"]["id"]
    where = _environment_of(file, env)
    try:
        spec = cell_of(file.values | {"environment": where}, file.path, where["id"])
    except FileError as error:
        if env is None or where["id"] == trained_in:
            raise
        why = reason(error).removeprefix(f"{file.path}: ")
        raise SpecError(
            f"env: {called(where['id'])} does not fit the policies in {file.path}: {why}"
        ) from None
    _must_be_as_in(file, spec)
    try:
        return spec, file.rows_of(spec)
    except FileError:
        if env is None:
            raise
        there = spec.environment
        raise SpecError(
            f"env: {called(there.id)} has observations of {there.observation_size} numbers and "
            f"{there.n_outputs} action outputs, which does not fit the policies in {file.path}, "
            f"trained in {trained_in}"
        ) from None


def _environment_of(file: PolicyFile, env: Given | None) -> dict[str, Any]:
    """Values of the environment: the file's, or the user's with what it keeps of the training."""
    old = DEFAULTS["environment"] | file.values["environment"]
    if env is None:
        _must_be_known(file.path, old["id"])
        return old
    if isinstance(env, str) and env.rpartition(":")[2] == old["id"].rpartition(":")[2]:
        return old | {"id": env}  # the same environment, whose module the user may have named
    new = environment_values(env, None, None)
    usual, chosen = GymnasiumSpec.model_fields, ("terminates", "rest", "success")
    if new["id"] not in ENVIRONMENTS:  # which have no such options
        limited = registered(new["id"]).max_episode_steps is not None
        keys = (*chosen, *(() if limited else ("max_episode_steps",)))
        new |= {key: old[key] for key in keys if old.get(key) is not None}
    told = [f"{key}={old[key]}" for key in chosen if key in new and old[key] != usual[key].default]
    if told and not old["id"].startswith(f"{NAMESPACE}/"):
        warnings.warn(
            f"{called(new['id'])} keeps {', '.join(told)} from the training; for other "
            "values, make a new model",
            stacklevel=4,
        )
    return new


def _must_be_as_in(file: PolicyFile, spec: CellSpec) -> None:
    """Raise SpecError if an environment has other actions, goals or observations than a file's."""
    there, trained_in = spec.environment, file.values["environment"]["id"]
    parts: dict[str, tuple[str, Any]] = {
        "choices": ("actions of {} choices", list(there.choices)),
        "goal_size": ("goals of {} numbers", getattr(there, "goal_size", None)),
        "keys": ("observations of {}", list(there.keys)),
    }
    for key, (what, own) in parts.items():
        before = file.saved.get(key)
        if None not in (before, own) and before != own:
            words = (", ".join(map(str, x)) if isinstance(x, list) else x for x in (own, before))
            now, then = (what.format(word or "no") for word in words)
            raise SpecError(
                f"env: {called(there.id)} has {now}, and the policies in {file.path}, trained in "
                f"{trained_in}, are for {then}"
            )


def is_another_task(file: PolicyFile, spec: CellSpec) -> bool:
    """Whether a file's environment had another name, other parameters or another step limit."""
    before, now = file.values["environment"], spec.environment.model_dump(mode="json")
    names = (called(x["id"].rpartition(":")[2]) for x in (before, now))
    others = {key: value for key, value in before.items() if key != "id"}
    return len({*names}) > 1 or any(now.get(key) != value for key, value in others.items())


def warn_of_another_task(file: PolicyFile, spec: CellSpec) -> None:
    """Warn that a replay buffer goes on with the rewards and ends of another environment.

    Not of objects, which have a new id each time.
    """
    ids = file.values["environment"]["id"], spec.environment.id
    trained_in, there = (name.rpartition(":")[2] for name in ids)
    named = not trained_in.startswith(f"{NAMESPACE}/")
    if not spec.algorithm.on_policy and named and trained_in != there:
        warnings.warn(
            f"the training goes on in {there}: rewards and ends that its replay buffer holds are "
            f"still those of {trained_in}, until they are overwritten or relabelled",
            stacklevel=4,
        )


def _must_be_known(path: Path, name: str) -> None:
    """Raise SpecError for an environment whose module has not been imported yet."""
    module, _, bare = name.rpartition(":")
    if bare.startswith(f"{NAMESPACE}/"):
        raise SpecError(
            f"{path}: its environment was passed as an object, which a file cannot contain; pass "
            "it again: load(path, env=...)"
        )
    # An entry point given as text is a module that gymnasium has yet to import: only from a package
    # that has been imported.
    made_by = gym.registry[bare].entry_point if bare in gym.registry else ""
    imported = not isinstance(made_by, str) or re.split("[.:]", made_by)[0] in sys.modules
    registered = imported and (not module or module in sys.modules)
    if not registered and wants_naming(name):
        raise SpecError(
            f"{path}: the module of its environment {name!r} has not been imported; import "
            f"{module or 'it'} first if you trust it, or name it: load(path, env=...), or --env"
        )


def training_of(
    file: PolicyFile, spec: CellSpec
) -> tuple[dict[str, Any], dict[tuple[str, str], list[NDArray[Any]]]] | None:
    """The training in a file, or in the checkpoint of an interrupted training beside it.

    Returns the state of its runs, and their curves by phase and column, none if they are the
    file's.  None if there is no training, or it is of other code, another specification or other
    runs.  Warns if packages have other versions now; raises FileError if it is damaged.
    """
    path, curves = file.path, dict[tuple[str, str], list[NDArray[Any]]]()
    try:
        state, versions = file.saved.get("training"), file.saved.get("versions", {})
        if state is None:
            path = _in_folder("checkpoints", file.path, "best")
            saved = load(path) if path != file.path and path.exists() else {}
            if saved.get("identity") != identity_of(spec) or saved["runs"] is None:
                return None
            state, versions = saved["runs"], saved["made_on"][-1]["versions"]
            if state["seeds"] != file.seeds:
                return None
            for name, parts in saved["curves"].items():
                phase, column = name.split("/")
                curves[phase, column] = [part.numpy() for part in parts]
        changed = changed_versions(versions)
    except MISFITS as error:
        raise FileError(f"{path}: its training is damaged: {reason(error)}") from error
    if changed:
        warnings.warn(
            f"{file.path}: its training was made with {changed}; what follows may differ",
            stacklevel=4,
        )
    return state, curves


def curves_beside(file: PolicyFile, spec: CellSpec) -> pd.DataFrame | None:
    """The curves of a file's runs that the workflow has written beside its policies, if any."""
    path = _in_folder("cells", file.path, "policies", "best").with_suffix(".parquet")
    if path == file.path or about(path).get("spec_hash") != spec.hash:
        return None
    table = read_table(path).to_pandas()
    return table[table.seed.isin(file.seeds)]


def _in_folder(folder: str, path: Path, *others: str) -> Path:
    """Replace the last folder of a path that has one of these names; without one, the same path."""
    parts = list(path.parts)
    at = max((i for i, part in enumerate(parts[:-1]) if part in others), default=None)
    if at is not None:
        parts[at] = folder
    return Path(*parts)
