"""Fingerprint of the code that decides a cell's numbers.

A cell depends on its specification, its training loop, its algorithm and its environment, and on
what these use.  The source of a user's own environment counts, too.  Not covered: `training.cell`
and `training.record`, which call the loop, and write what it returns.
"""

import hashlib

from hindsight.io.fingerprint import fingerprint
from hindsight.specs.cell import CellSpec


def file_name(spec: CellSpec) -> str:
    """Stem of a trained cell's files, `<name>-<code>`: other code writes other files."""
    return f"{spec.name}-{code_of(spec)}"


def identity_of(spec: CellSpec) -> dict[str, str]:
    """What metadata of results and checkpoints must hold to be of this cell and today's code."""
    return {"spec_hash": spec.hash, "code": code_of(spec)}


def code_of(spec: CellSpec) -> str:
    """Fingerprint of the code that decides a cell's numbers."""
    how, where = spec.algorithm, spec.environment
    kinds = (type(spec), type(how), type(where))
    specifications = (f"{kind.__module__}:{kind.__name__}" for kind in kinds)
    mathematics = filter(None, (how.module, how.compiled_module))
    ours = fingerprint(how.loop, *mathematics, *where.code, *specifications)
    own = where.own_code
    return hashlib.sha256(f"{ours} {own}".encode()).hexdigest()[:12] if own else ours
