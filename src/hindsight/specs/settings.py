"""All settings with their defaults and meanings, from the specifications.

`hindsight train --settings` prints them, and docs/settings.py makes a page of them.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import Spec
from hindsight.specs.cell import IDENTITIES, PARTS, CellSpec, model_of

#: Settings of a cell that are given like those of its parts.
OF_A_CELL = ("first_seed", "early_end")

#: A setting of `hindsight train` and of models; a cell has it as `evaluation`.
EVALUATION = "evaluation_episodes", "20", "Episodes of each evaluation, with the mean action."


@cache
def described(model: type[Spec]) -> dict[str, FieldInfo]:
    """A model's fields, with the strings below them, or below a base's, as descriptions."""
    found = dict[str, str]()
    for kind in reversed(model.__mro__):
        if issubclass(kind, Spec):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            for field, text in pairwise(getattr(body, "body", ())):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    words = ast.literal_eval(text.value).split()
                    found[ast.unparse(field.target)] = " ".join(words)
    for name, field in model.model_fields.items():
        field.description = field.description or found.get(name)
    return model.model_fields


def rows_of(kind: type[Spec], names: Sequence[str] = ()) -> list[tuple[str, str, str]]:
    """Name, default and meaning of a model's settings: of `names`, or all."""
    return [
        (name, _shown(field.default), _meaning(field))
        for name, field in described(kind).items()
        if name in (names or kind.model_fields.keys() - IDENTITIES)
    ]


def listed(algorithm: str, environment: str, usual: Mapping[str, Any], width: int) -> str:
    """The settings of an algorithm, its hindsight, an environment and a training, as text.

    `usual`: the values of `hindsight train` that are not the specification's defaults.
    """
    how = ALGORITHMS[algorithm]
    her = PARTS["hindsight" if how.on_policy else "replay"][""]
    lines = []
    for title, rows in (
        (algorithm, rows_of(how)),
        (f"hindsight of {algorithm}", rows_of(her)),
        (environment, rows_of(model_of("environment", {"id": environment}))),
        ("the training", [*rows_of(CellSpec, OF_A_CELL), EVALUATION]),
    ):
        lines += ["", title]
        for name, default, meaning in rows:
            shown = _shown(usual[name]) if name in usual else default
            given = f"--her {usual['her']}" if name == "strategy" else f"{name}={shown}"
            begin = f"  {given:<32} "
            lines += textwrap.wrap(begin + meaning, width, subsequent_indent=" " * len(begin))
    return "\n".join(lines[1:])


def _meaning(field: FieldInfo) -> str:
    """A field's description, and its choices if it does not name them all."""
    text, choices = field.description or "", [*map(str, get_args(field.annotation))]
    if get_origin(field.annotation) is Literal and not all(word in text for word in choices):
        text += f" One of {', '.join(choices)}."
    return text


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple | bool | None):
        return json.dumps(value, separators=(",", ":")).strip("[]")
    return f"{value:g}" if isinstance(value, float) else str(value)
