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
from hindsight.claims.rules import RULES, Answer
from hindsight.io.files import as_json, write_if_changed


@dataclass(frozen=True)
class Chosen:
    """The answer and the measurement under another choice that the paper does not make."""

    answer: Answer
    measured: Measured


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim under one fidelity and with one network."""

    claim: str
    fidelity: str
    verdict: Outcome
    measured: Measured
    network: str = ""  # "": the preset's
    why: str = ""  # if it is not tested
    usual: Outcome = "not tested"  # the answer by the claim's own choices
    #: Those by others, by their descriptions, where they can be tested.
    choices: dict[str, Chosen] = field(default_factory=dict)


def evaluate(directory: Path, experiments: Collection[str] | None = None) -> list[Verdict]:
    """Return a verdict for every claim under every fidelity found in results/tables/<source>.

    Also one for every other network whose experiment is there.

    Both fidelities are judged if none is found. Other tables there than those of `experiments`
    (None: all) do not count.
    """
    plans = plans_in(directory, experiments)
    found = {entry["fidelity"] for plan in plans for entry in plan["entries"]}
    fidelities = [name for name in ("released", "described") if name in found or not found]
    evidence = [Evidence(directory, fidelity, experiments) for fidelity in fidelities]
    there = {(plan["experiment"], e["fidelity"]) for plan in plans for e in plan["entries"]}
    verdicts = []
    for claim in CLAIMS.values():
        for own in evidence:
            verdicts.append(judged(claim, own))
            for network, changes in claim.networks.items():
                if (changes["experiment"], own.fidelity) in there:
                    verdicts.append(judged(claim, own, network))
    return verdicts


def judged(claim: Claim, evidence: Evidence, network: str = "") -> Verdict:
    """Judge a claim; its answer is open if another choice changes it."""
    ((name, arguments),), ((rule, limits),) = claim.measure.items(), claim.rule.items()
    arguments = arguments | claim.networks.get(network, {})

    def answered(**choice: Any) -> Chosen:
        measured = MEASURES[name](evidence, **arguments | choice)
        return Chosen(RULES[rule].answer(measured, **limits), measured)

    try:
        usual = answered()
    except Untested as why:
        untested = Measured(NAN)
        return Verdict(claim.id, evidence.fidelity, "not tested", untested, network, str(why))
    choices = {}
    for words, choice in claim.choices.items():
        with suppress(Untested):
            choices[words] = answered(**choice)
    agreed = all(other.answer == usual.answer for other in choices.values())
    outcome: Outcome = usual.answer if agreed else "open"
    found = usual.measured
    return Verdict(claim.id, evidence.fidelity, outcome, found, network, "", usual.answer, choices)


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
