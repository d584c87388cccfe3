"""Put verdicts into words: the claims' sentences, filled with the numbers of claims.json."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from hindsight.analysis.summarise import level_text
from hindsight.claims.data import CLAIMS, Claim, Unit
from hindsight.claims.rules import text
from hindsight.report import present
from hindsight.specs.base import Fidelity
from hindsight.specs.errors import must_agree

Row = Mapping[str, Any]
MARKS: dict[str, str] = {"yes": "✔", "no": "✘", "open": "?", "not tested": "○"}
VERDICTS = {mark: verdict for verdict, mark in MARKS.items()}
#: How many diverged runs are named.
NAMED = 12
#: How to show a value, by its claim's unit; log2 ratios are shown as ratios.
UNITS: dict[str, Callable[[float], str]] = {
    "count": lambda x: f"{x:.0f}",
    "times": lambda x: f"{2.0**x:.2f}" if x < 3 else f"{2.0**x:.0f}",
    "share": lambda x: f"{x:.1%}",
    "points": lambda x: f"{100 * x:+.1f}",
    "return": lambda x: f"{x:+.3f}",
    "plain": lambda x: f"{x:.2g}",
}
must_agree("unit", get_args(Unit), UNITS)


def diverged(runs: Sequence[Row]) -> str:
    """Say which runs of a record.json diverged; "" if none did."""
    if not runs:
        return ""
    named = []
    for run in runs[:NAMED]:
        arm = " ".join(filter(None, (run["arm"], level_text(run["level"]))))
        named.append(f"{arm}, {run['condition']}, seed {run['seed']}, step "
                    f"{present.count(run['step'])}")  # fmt: skip
    more = f"; and {len(runs) - NAMED} more" if len(runs) > NAMED else ""
    many = "1 run diverged and counts" if len(runs) == 1 else f"{len(runs)} runs diverged and count"
    return f"{many} as failing from then on: {'; '.join(named)}{more}."


def reading(row: Row) -> str:
    """Say how a claim was read: `described`, or `described, 3 × 512` with another network."""
    return ", ".join(filter(None, (row["fidelity"], row["network"])))


def says(row: Row) -> str:
    """State the measurements behind a verdict; for "not tested", what is missing."""
    claim, m = CLAIMS[row["claim"]], row["measured"]
    if row["verdict"] == "not tested":
        return f"{row['why'][:1].upper()}{row['why'][1:]}."
    numbers = {name: m[name] for name in ("n_conditions", "n_seeds", "ahead", "behind", "open")}
    words = {name: math.nan if value is None else value for name, value in m["words"].items()}
    shown = {"value": interval(claim.unit, m), "wide": interval(claim.unit, m, wide=True)}
    sentence = claim.says.format(**shown, **numbers, **words)
    differ = any(own["answer"] != row["usual"] for own in row["choices"].values())
    choices = [f"By the rule, {row['usual']}."] if differ else []
    for name, own in row["choices"].items():
        answer = f", {own['answer']}" if differ else ""
        value = interval(claim.unit, own["measured"])
        choices.append(f"{name[:1].upper()}{name[1:]}: {value}{answer}.")
    return " ".join([sentence, *choices])


def published(scoreboard: Path) -> dict[tuple[str, str], str]:
    """Return the verdicts in REPLICATION.md, by claim and `reading`; {} if it does not exist."""
    found, header = dict[tuple[str, str], str](), list[str]()
    lines = scoreboard.read_text(encoding="utf-8").splitlines() if scoreboard.exists() else []
    for line in lines:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[:1] == ["id"]:
            header = cells
        elif cells and cells[0] in CLAIMS:
            for name, cell in zip(header, cells, strict=True):
                if name.partition(",")[0] in get_args(Fidelity) and cell in VERDICTS:
                    found[cells[0], name] = VERDICTS[cell]
    return found


def tested(rows: Sequence[Row], known: Mapping[tuple[str, str], str]) -> tuple[list[Row], str, str]:
    """Return the verdicts that these results decide, how they agree, and the other claims.

    known: the published verdicts, by claim and `reading`.
    """
    found = [row for row in rows if row["verdict"] != "not tested"]
    claims = list(dict.fromkeys(row["claim"] for row in found))
    rest = list(dict.fromkeys(row["claim"] for row in rows if row["claim"] not in claims))
    other = {
        row["claim"]
        for row in found
        if known.get((row["claim"], reading(row)), row["verdict"]) != row["verdict"]
    }
    new = {*claims} - {row["claim"] for row in found if (row["claim"], reading(row)) in known}
    parts = [f"{len(claims) or 'no'} claim{'s' * (len(claims) != 1)} tested"]
    if claims and known and not (other or new):
        parts[0] += ", all as published" if len(claims) > 1 else ", as published"
    elif other or (known and new):
        same = len(claims) - len(other) - len(new)
        counts = {"not": sorted(other), "never published": sorted(new)}
        each = [f"{len(x)} {how} ({', '.join(x)})" for how, x in counts.items() if x]
        parts[0] += f": {', '.join([f'{same} as published', *each])}"
    if rest:
        parts.append(f"{len(rest)} need{'s' * (len(rest) == 1)} a larger preset")
    return found, "; ".join(parts), ", ".join(rest)


def interval(unit: str, m: Row, *, wide: bool = False) -> str:
    """Show a value and its interval, `1.66 (1.60 to 1.73)`; `wide`: only that over conditions."""
    low, high = (m[f"wide_{name}" if wide else name] for name in ("low", "high"))
    show = UNITS[unit]
    value = "–" if m["value"] is None else show(m["value"])
    bounds = "" if low is None else f"{show(low)} to {show(high)}"
    text = bounds if wide else f"{value} ({bounds})" if bounds else value
    return (text or "–").replace("-", "−")


def by_condition(claim: Claim, verdicts: Mapping[str, Row]) -> list[list[str]]:
    """Return a row per condition: its name, and its value under each fidelity."""
    unit = claim.by_condition or claim.unit
    show = "{:.2f}".format if unit in ("count", "plain") else UNITS[unit]
    values = [row["measured"]["conditions"] for row in verdicts.values()]
    names = dict.fromkeys(name for own in values for name in own)
    return [
        [name.replace("_", " "),
         *(show(own[name]).replace("-", "−") if name in own else "–" for own in values)]
        for name in names
    ]  # fmt: skip


def detectable(unit: str, m: Row) -> str:
    """Show the difference that this many seeds would detect four times in five."""
    return "–" if m["detectable"] is None else UNITS[unit](m["detectable"]).lstrip("+")


def rule(claim: Claim) -> str:
    """State what is measured and how it is judged."""
    metric, ((name, limits),) = claim.metric[:1].upper() + claim.metric[1:], claim.rule.items()
    if (name, claim.unit) == ("lean", "times"):  # of log2, but shown as ratios
        limits = {key: float(f"{2.0**limit:.3g}") for key, limit in limits.items()}
    return f"{metric}. {text(name, limits)}"


def history(claim: Claim) -> list[str]:
    """List the changes to a rule after results were seen, with the earlier verdicts."""
    found = []
    for change in claim.changes:
        before = " / ".join(dict.fromkeys(change.before.values()))  # alike, or by fidelity
        old = f" The earlier rule said of the published results: {before}." if before else ""
        found.append(f"{change.date}: {change.what}{old}")
    return found


def revised(claims: Iterable[Any]) -> str:
    """Say how many of the verdicts on these `Judged` claims the first rules gave otherwise."""
    alike = {"reproduced": "yes", "not reproduced": "no"}
    pairs = []
    for judged in claims:
        first: Mapping[Any, str] = next((x.before for x in judged.claim.changes if x.before), {})
        for fidelity, old in first.items():
            if judged.verdicts.get(fidelity, {}).get("verdict", "not tested") != "not tested":
                pairs.append((alike.get(old, old), judged.verdicts[fidelity]["verdict"]))
    return f"another verdict in {sum(a != b for a, b in pairs)} of {len(pairs)} cases"


def missing(rows: Mapping[str, Row]) -> str:
    """Say which of the paper's evidence is missing: in both fidelities, then in one."""
    lacks: dict[str, list[str]] = {
        name: row["measured"]["missing"]
        for name, row in rows.items()
        if row["verdict"] != "not tested"
    }
    every = [x for x in next(iter(lacks.values()), []) if all(x in own for own in lacks.values())]
    apart = {
        fidelity: "; ".join(x for x in own if x not in every) for fidelity, own in lacks.items()
    }
    return "; ".join([*every, *(f"{one}: {text}" for one, text in apart.items() if text)])
