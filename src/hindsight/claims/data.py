"""Read the papers' claims, one file per paper."""

import datetime
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hindsight.specs.reading import YAML


@dataclass(frozen=True)
class Change:
    """A change to a rule after results were seen; `before`: the old verdicts by fidelity."""

    date: datetime.date
    what: str
    before: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the rule by which it is judged; ppo_her.yaml explains the keys."""

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
    dated: datetime.date
    by_condition: str = ""
    changes: list[Change] = field(default_factory=list)
    beside: dict[str, dict[str, Any]] = field(default_factory=dict)


def _claim(name: str, paper: str, entry: dict[str, Any]) -> Claim:
    values = dict(entry)
    ((measure, arguments),) = values.pop("measure").items()
    ((rule, limits),) = values.pop("rule").items()
    changes = [Change(**change) for change in values.pop("changes", ())]
    return Claim(
        name, paper, measure=measure, arguments=arguments or {}, rule=rule, limits=limits or {},
        changes=changes, **values,
    )  # fmt: skip


def _read() -> tuple[dict[str, str], dict[str, Claim]]:
    titles, claims = {}, {}
    for name in ("ppo_her.yaml", "meher.yaml"):
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        paper = yaml.load(text, YAML)
        titles[paper["paper"]] = paper["title"]
        for key, entry in paper["claims"].items():
            claims[key] = _claim(key, paper["paper"], entry)
    return titles, claims


#: The papers' titles by short name, and their claims by id.
PAPERS, CLAIMS = _read()
