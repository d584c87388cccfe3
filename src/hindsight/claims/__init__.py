"""The papers' claims and the open questions: as data, and the functions that judge them.

`data` reads a file a paper; `ppo_her` and `meher` turn tables into verdicts, `open_questions` and
`other_systems` into answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from hindsight.analysis import statistics
from hindsight.analysis.summarise import read_table
from hindsight.claims import meher, open_questions, other_systems, ppo_her
from hindsight.claims.data import CLAIMS, Claim
from hindsight.claims.questions import Answer, ask
from hindsight.claims.verdicts import (
    Evidence,
    Incomplete,
    Verdict,
    difference,
    not_tested,
    planned,
)
from hindsight.files import write_whole

__all__ = ["CLAIMS", "Claim", "Verdict", "answers", "evaluate", "row_of", "write_claims"]

#: Rules that claims share, by the name in their entries; a claim's id to its function.
RULES: dict[str, Callable[[str], Callable[[Evidence], Verdict]]] = {
    "difference": difference,
    "first in steps": partial(ppo_her.fastest, unit="steps"),
    "first in minutes": partial(ppo_her.fastest, unit="minutes"),
}
#: The others' own.
OWN = ppo_her.VERDICTS | meher.VERDICTS
VERDICTS = {
    name: RULES[claim.judged_by](name) if claim.judged_by else OWN[name]
    for name, claim in CLAIMS.items()
}
ANSWERS = open_questions.ANSWERS | other_systems.ANSWERS


def evaluate(tables_dir: str | Path) -> list[Verdict]:
    """A verdict for every claim and every fidelity found under results/tables/<source>; both if
    none is found.
    """
    directory = Path(tables_dir)
    found: set[str] = set()
    for path in sorted(directory.glob("*/summary.csv")):
        found |= set(read_table(path)["fidelity"])
        found |= planned(path.with_name("plan.json"))
    fidelities = [name for name in ("released", "described") if name in found or not found]
    return corrected([_judged(claim, Evidence(directory, f, claim)) for claim in VERDICTS
                      for f in fidelities])  # fmt: skip


def _judged(claim: str, evidence: Evidence) -> Verdict:
    """The verdict; on fewer cells than were planned there is none."""
    try:
        return VERDICTS[claim](evidence)
    except Incomplete as found:
        return not_tested(claim, evidence, found.reason)


def corrected(verdicts: list[Verdict]) -> list[Verdict]:
    """The same with Holm's correction over all verdicts of a fidelity that have a p-value."""
    adjusted: dict[tuple[str, str], float] = {}
    for fidelity in dict.fromkeys(verdict.fidelity for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.fidelity == fidelity]
        p_values = statistics.holm([verdict.p_value for verdict in own])
        adjusted |= {(v.claim, fidelity): p for v, p in zip(own, p_values, strict=True)}
    return [replace(v, p_holm=float(adjusted[v.claim, v.fidelity])) for v in verdicts]


def write_claims(tables_dir: str | Path) -> list[Verdict]:
    """Evaluate and write <tables_dir>/claims.json, one object per verdict, and answers.json, one
    per answer to a question: numbers, which the report puts into words.
    """
    directory = Path(tables_dir)
    verdicts = evaluate(directory)
    sentences = [{"sentence": CLAIMS[verdict.claim].sentence} for verdict in verdicts]
    rows = [words | row_of(v) for words, v in zip(sentences, verdicts, strict=True)]
    _write_json(directory / "claims.json", rows)
    _write_json(directory / "answers.json", [row_of(answer) for answer in answers(directory)])
    return verdicts


def answers(tables_dir: str | Path) -> list[Answer]:
    """What there is to say to each question, as `ask` says it."""
    return ask(ANSWERS, tables_dir)


def row_of(found: Verdict | Answer) -> dict[str, Any]:
    """It as plain data: null for numbers that JSON has no word for."""
    row: dict[str, Any] = _finite(asdict(found))
    return row


def _write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    text = json.dumps(rows, indent=1) + "\n"
    write_whole(path, lambda part: part.write_text(text))


def _finite(value: Any) -> Any:
    """The same with null for numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
