"""Which code decides a cell's numbers: where the fingerprint of each cell begins.

A cell depends on its specification, on the loop that trains it, on its own algorithm and on its own
environment, and on what these use.  No shared code names an algorithm or an environment: each is
found by what its specification says of itself.  A person's own environment counts by its source.
"""

import hashlib
from typing import Any

from hindsight.io.fingerprint import fingerprint
from hindsight.specs.cell import CellSpec


def roots_of(spec: CellSpec) -> tuple[str, ...]:
    """Where the code of a cell begins: `module` or `module:name`."""
    how, where = spec.algorithm, spec.environment
    kinds = (type(spec), type(how), type(where))
    specifications = (f"{kind.__module__}:{kind.__name__}" for kind in kinds)
    mathematics = filter(None, (how.module, how.compiled_module))
    return (how.loop, *mathematics, *where.code, *specifications)


def file_name(spec: CellSpec) -> str:
    """What a trained cell's files are called: `<name>-<code>`.

    Its name covers the specification.  So a file of other code is another file, and nobody looks
    for it.
    """
    return f"{spec.name}-{code_of(spec)}"


def is_of(about: dict[str, Any], spec: CellSpec) -> bool:
    """Whether a results file that says this of itself was made by this very training."""
    return (about.get("spec_hash"), about.get("code")) == (spec.hash, code_of(spec))


def code_of(spec: CellSpec) -> str:
    """Fingerprint of the code that decides a cell's numbers."""
    ours, own = fingerprint(*roots_of(spec)), spec.environment.own_code
    return hashlib.sha256(f"{ours} {own}".encode()).hexdigest()[:12] if own else ours
