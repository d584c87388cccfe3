"""The papers' claims, read from one file a paper: sentence, source, thresholds, and the rule that
is rendered from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hindsight.analysis.metrics import LEARNT
from hindsight.analysis.statistics import FEWEST_SEEDS

FOLDER = Path(__file__).parent
FILES = ("ppo_her.yaml", "meher.yaml")
#: Thresholds of every rule, which the tables have been made by.
SHARED = {"learnt": LEARNT, "interval_from": FEWEST_SEEDS}


@dataclass(frozen=True)
class Claim:
    """A claim of a paper and the rule by which it is judged.

    source: where the paper says it; thresholds: numbers of the rule; needs: the paper's evidence
    (conditions, seeds, ...), less of which caps a verdict at "partly"; rule: the same in words;
    test: what the p-value is of; parts: what the rule asks, by name, so that a verdict can say
    which of it holds; figure: the one that shows it, by its name under the fidelity `released`;
    added: what of the rule was not fixed before its results were seen; judged_by: the rule that it
    shares with others (`claims.RULES`), none where a function is its own; more: what else its
    function reads.
    """

    id: str
    paper: str
    sentence: str
    source: str
    metric: str
    published: str
    thresholds: dict[str, Any]
    needs: dict[str, Any]
    rule: str
    test: str
    parts: dict[str, str]
    figure: str
    added: str = ""
    judged_by: str = ""
    more: dict[str, Any] = field(default_factory=dict)


def _claim(name: str, paper: str, values: dict[str, Any]) -> Claim:
    words = dict(values)
    thresholds, needs = SHARED | words.pop("thresholds"), words.pop("needs")
    rule = words.pop("rule", None) or (
        f"Reproduced: {words.pop('reproduced')}. Partly: {words.pop('partly')}, or all of the "
        "former on incomplete evidence (arms, conditions, seeds or steps missing). Otherwise not "
        f"reproduced. {words.pop('more', '')}"
    )
    rule = rule.format(**needs | thresholds).strip()
    parts = {key: text.format(**needs | thresholds) for key, text in words.pop("parts").items()}
    plain = ("sentence", "source", "metric", "published", "test", "figure")
    known = {n: words.pop(n) for n in plain} | {"parts": parts}
    for text in ("metric", "published"):
        known[text] = known[text].format(**needs | thresholds)
    known |= {n: words.pop(n, "") for n in ("added", "judged_by")}
    return Claim(name, paper, **known, thresholds=thresholds, needs=needs, rule=rule, more=words)


def _read() -> tuple[dict[str, str], dict[str, Claim]]:
    titles, claims = {}, {}
    for name in FILES:
        paper = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
        titles[paper["paper"]] = paper["title"]
        for key, values in paper["claims"].items():
            claims[key] = _claim(key, paper["paper"], values)
    return titles, claims


#: The papers by their short names; their claims by id, in order.
PAPERS, CLAIMS = _read()
