"""Fingerprint of the code that decides a cell's numbers.

A cell depends on its specification, its training loop, its algorithm and its environment, and on
what these use.  The source of a user's own environment counts, too.  Not covered: `training.cell`
and `training.record`, which call the loop, and write what it returns.
"""

import hashlib
import re
from collections.abc import Iterator

from hindsight.io.files import FileError
from hindsight.io.fingerprint import fingerprint, import_all
from hindsight.specs.cell import CellSpec
from hindsight.specs.gymnasium import GymnasiumSpec, is_known, registered
from hindsight.specs.own_code import changed_since_noted, import_own

#: The number of seeds in the name of a cell, and so of its files.
SEEDS = re.compile(r"-(\d+)seeds")


def file_name(spec: CellSpec) -> str:
    """Stem of a trained cell's files, `<name>-<code>`: other code writes other files."""
    return f"{spec.name}-{code_of(spec)}"


def identity_of(spec: CellSpec) -> dict[str, str]:
    """What metadata of results and checkpoints must hold to be of this cell and today's code."""
    return {"spec_hash": spec.hash, "code": code_of(spec)}


def code_of(spec: CellSpec) -> str:
    """Fingerprint of the code that decides a cell's numbers."""
    ours, own = fingerprint(*_roots(spec)), spec.environment.own_code
    return hashlib.sha256(f"{ours} {own}".encode()).hexdigest()[:12] if own else ours


def import_code(spec: CellSpec) -> None:
    """Import all code that decides a cell's numbers, so that what runs is what `code_of` is of.

    Raises FileError if some of it changed since this process began.
    """
    environment, changed = spec.environment, import_all(*_roots(spec))
    if isinstance(environment, GymnasiumSpec) and not is_known(environment.id):
        entry = registered(environment.id).entry_point
        import_own(environment.id, entry)
        changed = [*changed, *changed_since_noted(environment.id, entry)]
    if changed:
        raise FileError(
            f"{', '.join(map(str, changed))} changed while this training began; type the same "
            "command again"
        )


def _roots(spec: CellSpec) -> Iterator[str]:
    algorithm, environment = spec.algorithm, spec.environment
    yield from (algorithm.loop, *environment.code)
    yield from filter(None, (algorithm.module, algorithm.compiled_module))
    chosen = {part.strategy for part in (spec.hindsight, spec.replay) if part is not None}
    yield from (f"hindsight.relabel.goals:{name}" for name in chosen - {None, "random"})
    for kind in (type(spec), type(algorithm), type(environment)):
        yield f"{kind.__module__}:{kind.__name__}"
