"""The words of verdicts and answers: templates, filled with the numbers of claims.json and
answers.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jinja2

from hindsight.analysis.summarise import level_text
from hindsight.claims.data import CLAIMS
from hindsight.report import present

Row = Mapping[str, Any]
#: What an arm's role is called in the experiments that claims and questions are about.
ROLES = {"baseline": "the arm to compare with", "subject": "the arm that it is about"}
#: What an experiment is called where its name in config.yaml is no word.
EXPERIMENTS = {
    "learning_rate": "learning rates", "her_strategy": "goal strategies", "fetch": "Fetch",
    "agent_size": "interception distances", "grid_size": "box sizes", "s_ratio": "S-ratios",
    "targeted": "targeted failures", "stop_her": "switching off",
}  # fmt: skip
#: What a verdict or an answer lacks, by its kind.
LACKS = {
    "no results": "{experiment}the experiment has no results",
    "no arm": "{experiment}{arms} has no results",
    "nothing to compare": "there is no arm to compare PPO-HER with",
    "nothing learned": "{experiment}no arm reaches a scaled maximum median return of 0.5 in any "
    "condition",
    "no pair": "no condition has both sides of the comparison",
    "one level": "{experiment}only one level has results",
    "both never learn": "no condition in which both arms learn at some rate",
    "few reach": "PPO-HER runs reach return 0 in {n} conditions, fewer than {of}",
    "no complete condition": "no condition has results at every level",
    "few S": "only {n} S have results",
    "no mirror": "no S has results together with its mirror image 1 - S",
    "no inner mirror": "no mirrored S but 0 and 1",
    "no PPO-HER": "PPO-HER has no results over as many steps",
    "no half": "S cannot be chosen on half of the seeds",
    "PPO-HER in few": "PPO-HER has results in {n} of its conditions only",
    "no targeted": "targeted and untargeted MEHER have no results to compare",
    "same files": "the targeted runs are the untargeted ones, the same files, because the authors' "
    "targeted experiment runs its untargeted code",
    "nothing with failures": "nothing is learned wherever failures are made",
    "one S": "targeted failures: no results, one S of switching off is compared",
    "no switch": "no run succeeds often enough to switch",
    "no run of a hundred": "PPO-HER has no run of a hundred episodes on {task}",
    "arms": "{experiment}{n} of {of} arms have results, these are compared",
    "conditions": "{experiment}{n} of {of} conditions are complete",
    "clocks": "{experiment}training time is compared in {n} of {of} conditions, because the "
    "others' arms were trained on different processors or with another number of runs on an axis",
    "seeds": "{experiment}a cell has only {n} seeds",
    "budgets": "{experiment}budgets differ, {sizes}",
    "levels": "S = {absent} absent",
    "tasks": "Fetch: {absent} not trained",
    "weight decays": "Fetch: a task's longest runs cover only {n} of {of} weight decays",
    "steps": "Fetch: a run has only {n} of {of} steps",
    "no run reaches half": "no PPO-HER run reaches a success rate of one half",
    "one exploration": "the plain Gaussian and another way to explore are needed",
    "no two S": "no task has results at two values of S",
    "no entropies": "the results were made before entropies were recorded",
    "no whole S": "no condition has results at every S, or fewer than three S have any",
    "one distance": "only one distance has results",
    "no task with both": "no task has both arms and a record of how its achieved goal moves",
    "one setting": "fewer than two settings have results",
}


#: Missing cells, or runs that diverged, that are named.
NAMED = 12


def diverged(runs: Sequence[Row]) -> str:
    """Which runs diverged, of those of a record.json; "" if none."""
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


def lacking(row: Row) -> str:
    """One thing that is missing, in words."""
    if row["kind"] == "cells":
        names = row["names"]
        rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        cells = "1 cell is" if len(names) == 1 else f"{len(names)} cells are"
        return f"{cells} missing of {row['of']}: {', '.join(names[:NAMED])}{rest}"
    values: dict[str, Any] = {name: value for name, value in row.items() if name != "kind"}
    name = row.get("experiment", "")
    values["experiment"] = f"{EXPERIMENTS.get(name, name)}: " if name else ""
    values["arms"] = " and ".join(ROLES[role] for role in row.get("roles", ()))
    if "sizes" in row:
        values["sizes"] = sizes(row["sizes"])
    if "absent" in row:
        absent = [x if isinstance(x, str) else f"{x:g}" for x in row["absent"]]
        values["absent"] = (" and " if row["kind"] == "tasks" else ", ").join(absent)
    if row["kind"] == "steps":
        values |= {name: present.count(row[name]) for name in ("n", "of")}
    return LACKS[row["kind"]].format(**values)


def measured(row: Row) -> str:
    """What a verdict measured; for "not tested" why."""
    if row["verdict"] == "not tested":
        return f"Not tested: {'; '.join(map(lacking, row['missing']))}."
    return _of_claim(row["claim"], row)


def brief(row: Row) -> str:
    """The answer in a plain sentence or two; for "not tested" why."""
    if row["verdict"] == "not tested":
        return measured(row)
    return _of_claim("brief", row)


def why(row: Row) -> str:
    """Which parts of the rule hold and which do not; "" of what was not tested."""
    if row["verdict"] == "not tested":
        return ""
    parts, sentences = CLAIMS[row["claim"]].parts, []
    for word, there in (("Holds", True), ("Does not hold", False)):
        own = [parts[name] for name, holds in row["parts"].items() if holds is there]
        sentences += [f"{word}: {'; '.join(own)}."] if own else []
    return " ".join(sentences)


def in_short(row: Row) -> str:
    """The answer, and where it is "partly" which part holds."""
    if row["verdict"] == "not tested":
        return brief(row).removeprefix("Not tested: ").capitalize()
    if row["verdict"] != "partly":
        return brief(row)
    whole = all(row["parts"].values())
    less = "The whole rule holds, but on less evidence."
    return f"{brief(row)} {less if whole else why(row)}"


def missing(rows: Mapping[str, Row]) -> str:
    """What of the paper's evidence a claim's verdicts lack, by fidelity where they differ."""
    lacks = {
        fidelity: "; ".join(map(lacking, row["missing"]))
        for fidelity, row in rows.items()
        if row["verdict"] != "not tested"
    }
    if len(set(lacks.values())) <= 1:
        return next(iter(lacks.values()), "")
    return "; ".join(f"{fidelity}: {text}" for fidelity, text in lacks.items() if text)


def note(row: Row) -> str:
    """What is missing of the paper's evidence, what the numbers are, how large the runs were."""
    if row["verdict"] == "not tested":
        return ""
    notes = [*map(lacking, row["missing"]), _say("verdicts.j2", "note", row, row["numbers"])]
    hidden = " x ".join(map(str, row["of"]["hidden"]))
    return "; ".join([*notes, f"networks of {hidden}, {row['of']['steps']} steps"])


def test(row: Row) -> str:
    """What a verdict's p-value and interval are of."""
    unit = row["numbers"].get("unit", "conditions")
    return "" if row["verdict"] == "not tested" else CLAIMS[row["claim"]].test.format(unit=unit)


def answer(row: Row) -> str:
    """What these runs say to a question."""
    if row["status"] == "not tested":
        return f"Not tested: {lacking(row['numbers'])}."
    return _say("answers.j2", row["id"], row["numbers"])


def _of_claim(macro: str, row: Row) -> str:
    """A macro's words on a verdict; of a claim that has none there, what its entry says."""
    said = _say("verdicts.j2", macro, row, row["numbers"])
    metric = CLAIMS[row["claim"]].metric
    return said or f"{metric[:1].upper()}{metric[1:]}: {_say('verdicts.j2', 'number', row)}"


def _say(template: str, macro: str, *values: Any) -> str:
    """A macro's words, on one line."""
    found = getattr(_environment().get_template(template).module, macro, None)
    text = str(found(*values)) if found is not None else ""
    return (
        re.sub(r"[ \n]+", " ", text)
        .strip()
        .replace(" ;", ";")
        .replace(" .", ".")
        .replace(" ,", ",")
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hindsight.report"), undefined=jinja2.ChainableUndefined
    )
    words: dict[str, Callable[..., str]] = {
        "count": present.count,
        "sensitivity": _sensitivity,
        "sizes": sizes,
        "clocks": clocks,
    }
    environment.filters.update(words)
    return environment


def _sensitivity(found: Row) -> str:
    """`4 %`, `4 % (3 to 6 %)`."""
    if found["low"] is None:
        return f"{found['value']:.0f} %"
    return f"{found['value']:.0f} % ({found['low']:.0f} to {found['high']:.0f} %)"


def sizes(rows: Sequence[Row]) -> str:
    """`PPO and PPO-HER 16 seeds, 500 000 steps; SAC 4 seeds, 25 000 steps`."""
    return "; ".join(
        f"{' and '.join(row['arms'])} {' or '.join(map(str, row['n_seeds']))} seeds, "
        f"{' or '.join(map(present.count, row['budget']))} steps"
        for row in rows
    )


def clocks(rows: Sequence[Row]) -> str:
    """`PPO on AMD EPYC, 16 runs sharing an axis; SAC on ...`."""
    return "; ".join(
        f"{' and '.join(row['arms'])} on {' or '.join(row['timed_on'])}" for row in rows
    )
