"""Judge the papers' claims.

`data` reads the claims, one file per paper. `measures` turns tables into a number with its
interval, and `rules` turns that into a verdict.
"""

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hindsight.analysis.summarise import plans_in
from hindsight.claims.data import CLAIMS, Claim, Outcome
from hindsight.claims.evidence import NAN, Evidence, Measured, Untested
from hindsight.claims.measures import MEASURES
from hindsight.claims.rules import RULES
from hindsight.io.files import as_json, write_if_changed


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim under one fidelity.

    `why` is the reason if it is not tested; `beside` are the claim's other measurements by their
    descriptions, None where untested.
    """

    claim: str
    fidelity: str
    verdict: Outcome
    measured: Measured
    why: str = ""
    beside: dict[str, Measured | None] = field(default_factory=dict)


def evaluate(directory: Path, experiments: Collection[str] | None = None) -> list[Verdict]:
    """Return a verdict for every claim under every fidelity found in results/tables/<source>.

    Both fidelities are judged if none is found. Other tables there than those of `experiments`
    (None: all) do not count.
    """
    plans = plans_in(directory, experiments)
    found = {entry["fidelity"] for plan in plans for entry in plan["entries"]}
    fidelities = [name for name in ("released", "described") if name in found or not found]
    evidence = [Evidence(directory, fidelity, experiments) for fidelity in fidelities]
    return [judged(claim, own) for claim in CLAIMS.values() for own in evidence]


def judged(claim: Claim, evidence: Evidence) -> Verdict:
    ((name, arguments),), ((rule, limits),) = claim.measure.items(), claim.rule.items()
    measure = MEASURES[name]
    try:
        measured = measure(evidence, **arguments)
        holds = RULES[rule].holds(measured, **limits)
    except Untested as reason:
        return Verdict(claim.id, evidence.fidelity, "not tested", Measured(NAN), str(reason))
    beside: dict[str, Measured | None] = {}
    for words, more in claim.beside.items():
        beside[words] = None
        with suppress(Untested):
            beside[words] = measure(evidence, **arguments | more)
    outcome: Outcome = "yes" if holds else "no"
    return Verdict(claim.id, evidence.fidelity, outcome, measured, beside=beside)


def write_claims(out: Path, experiments: Collection[str] | None = None) -> list[Verdict]:
    """Evaluate all claims from the tables beside `out`, and write it, one object per verdict."""
    verdicts = evaluate(out.parent, experiments)
    rows = [{"sentence": CLAIMS[verdict.claim].sentence} | row_of(verdict) for verdict in verdicts]
    write_if_changed(out, as_json(rows))
    return verdicts


def row_of(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain data; numbers that are not finite become null."""
    text = json.dumps(asdict(verdict), default=lambda scalar: scalar.item())
    row: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
    return row
