"""The papers' claims, read from one file a paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
FILES = ("ppo_her.yaml", "meher.yaml")


@dataclass(frozen=True)
class Change:
    """A rule that was changed after results were seen: when, how, and what the old one had said of
    the published results, by fidelity.
    """

    date: str
    what: str
    before: dict[str, str]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the rule by which it is judged.

    source: where the paper says it; published: the paper's own value; metric: what is measured, in
    words; measure, arguments: the function of `measures` that does, and what it is called with;
    rule, limits: the rule of `rules`, and its numbers; unit: how the value is shown; says: the
    sentence of the verdict; figure: its name under the fidelity `released`; experiments: whose
    tables it reads; dated: since when the rule stands; beside: the same measured otherwise, which
    decides nothing, by what is said of it.
    """

    id: str
    paper: str
    sentence: str
    source: str
    published: str
    metric: str
    measure: str
    arguments: dict[str, Any]
    rule: str
    limits: dict[str, Any]
    unit: str
    says: str
    figure: str
    experiments: list[str]
    dated: str
    changes: list[Change] = field(default_factory=list)
    beside: dict[str, dict[str, Any]] = field(default_factory=dict)


def _claim(name: str, paper: str, entry: dict[str, Any]) -> Claim:
    values = dict(entry)
    ((measure, arguments),) = values.pop("measure").items()
    ((rule, limits),) = values.pop("rule").items()
    changes = [
        Change(str(c["date"]), c["what"], c.get("before", {})) for c in values.pop("changes", ())
    ]
    return Claim(
        name, paper, measure=measure, arguments=arguments or {}, rule=rule, limits=limits or {},
        dated=str(values.pop("dated")), changes=changes, **values,
    )  # fmt: skip


def _read() -> tuple[dict[str, str], dict[str, Claim]]:
    titles, claims = {}, {}
    for name in FILES:
        paper = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
        titles[paper["paper"]] = paper["title"]
        for key, entry in paper["claims"].items():
            claims[key] = _claim(key, paper["paper"], entry)
    return titles, claims


#: The papers by their short names; their claims by id, in order.
PAPERS, CLAIMS = _read()
