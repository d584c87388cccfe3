"""What a verdict is, and the tables it is computed from."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hindsight.analysis import metrics, statistics
from hindsight.analysis.arms import select
from hindsight.analysis.effects import CONDITION, RUN, effect, paired
from hindsight.analysis.metrics import LEARNT
from hindsight.analysis.summarise import read_plan, read_table
from hindsight.claims.data import CLAIMS
from hindsight.integrity import RECORD

Array = NDArray[np.float64]
Outcome = Literal["reproduced", "partly", "not reproduced", "not tested"]
Numbers = dict[str, Any]

NAN = float("nan")
ROUNDING = 1e-6


def lack(kind: str, **values: Any) -> Numbers:
    """Something that a verdict wants and these results have not; `kind` names its sentence."""
    return {"kind": kind, **values}


class Incomplete(Exception):
    """An experiment whose tables were made of fewer cells than were planned."""

    def __init__(self, experiment: str, names: Sequence[str]) -> None:
        super().__init__(experiment)
        self.reason = lack("cells", of=experiment, names=list(names))


@dataclass(frozen=True)
class Verdict:
    """What was found for one claim (its id) under one fidelity; NaN where there is no number.

    p_holm: corrected for all verdicts of the fidelity; numbers: what its sentences say, by name;
    missing: what caps it at "partly", or for "not tested" the reasons, each as `lack` has it; of:
    how large its runs were; parts: whether each of the claim's parts holds.
    """

    claim: str
    fidelity: str
    verdict: Outcome
    numbers: Numbers
    effect: float = NAN
    low: float = NAN
    high: float = NAN
    p_value: float = NAN
    p_holm: float = NAN
    n_seeds: int = 0
    n_conditions: int = 0
    missing: list[Numbers] = field(default_factory=list)
    of: Numbers = field(default_factory=dict)
    parts: dict[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """The tables under results/tables/<source>, seen at one fidelity, for a claim or a question."""

    directory: Path
    fidelity: str
    claim: str = ""

    def table(self, experiment: str, name: str) -> pd.DataFrame | None:
        """The rows of this fidelity, or None if the table is absent or has none.

        Raises Incomplete if it was made of fewer cells than were planned.
        """
        if lacking := self.missing(experiment):
            raise Incomplete(experiment, lacking)
        path = self.directory / experiment / name
        if not path.exists():
            return None
        table = read_table(path)
        rows = table[table["fidelity"] == self.fidelity]
        return None if rows.empty else rows

    def missing(self, experiment: str) -> list[str]:
        """Names of the planned cells of this fidelity that were not there; of a claim's own
        experiment those of the arms that it is about.
        """
        record = self.directory / experiment / RECORD
        if not record.exists():
            return []
        entries = json.loads(record.read_text(encoding="utf-8"))["missing"]
        needs = CLAIMS[self.claim].needs if self.claim else {}
        roles = needs.get("roles") if needs.get("experiment") == experiment else None
        mine = [
            Path(e["cell"])
            for e in entries
            if e["fidelity"] == self.fidelity and (roles is None or e["role"] in roles)
        ]
        return list(dict.fromkeys(f"{path.parent.name}/{path.stem}" for path in mine))

    def budget(self, experiment: str) -> int:
        """Environment steps that a run of the experiment may take."""
        steps: int = read_plan(self.directory / experiment / "plan.json")["preset"]["steps"]
        return steps

    def budgets(self, experiment: str, role: str) -> dict[str, int]:
        """The same of the arm with this role by condition; of unequal budgets the least."""
        plan, found = read_plan(self.directory / experiment / "plan.json"), dict[str, int]()
        for entry in plan["entries"]:
            if entry["role"] == role and entry["fidelity"] == self.fidelity:
                steps = int(entry.get("steps", plan["preset"]["steps"]))
                found[entry["condition"]] = min(steps, found.get(entry["condition"], steps))
        return found

    def scale(self, experiment: str) -> Numbers:
        """How large the experiment's runs are."""
        preset = read_plan(self.directory / experiment / "plan.json")["preset"]
        return {"hidden": preset["hidden"], "steps": preset["steps"]}


def planned(plan: Path) -> set[str]:
    """Fidelities of an experiment's plan; none if there is no plan."""
    return {entry["fidelity"] for entry in read_plan(plan)["entries"]} if plan.exists() else set()


def not_tested(claim: str, evidence: Evidence, *reasons: Numbers) -> Verdict:
    """The verdict where there is nothing to judge."""
    return Verdict(claim, evidence.fidelity, "not tested", {}, missing=list(reasons))


def outcome(reproduced: bool, partly: bool, missing: Sequence[Numbers]) -> Outcome:
    """The verdict's word: what is incomplete is at most partly reproduced."""
    if reproduced and not missing:
        return "reproduced"
    return "partly" if reproduced or partly else "not reproduced"


def untestable(
    summary: pd.DataFrame | None, need: Sequence[str] = ("baseline", "subject"), fewest: int = 2
) -> Numbers | None:
    """Why an experiment can say nothing: absent, an arm missing, nothing learnt; None if it can.

    `need`: the roles that must be there; `fewest`: how many arms at least, whichever they are.
    """
    if summary is None:
        return lack("no results")
    absent = [role for role in need if role not in set(summary["role"])]
    if absent:
        return lack("no arm", roles=absent)
    if summary["arm"].nunique() < fewest:
        return lack("nothing to compare")
    if not (metrics.scaled(summary["max_median_return"]) >= LEARNT).any():
        return lack("nothing learned")
    return None


def caveats(claim: str, summary: pd.DataFrame, experiment: str = "") -> list[Numbers]:
    """What is missing from an experiment of what the claim needs."""
    needs = CLAIMS[claim].needs
    experiment = experiment or needs["experiment"]
    present = summary[summary["role"].isin(needs["roles"])]
    cells = present.groupby(CONDITION).size()
    conditions = int((cells == present["arm"].nunique() * present["level"].nunique()).sum())
    found = []
    if (arms := present["arm"].nunique()) < needs["arms"]:
        found.append(lack("arms", experiment=experiment, n=arms, of=needs["arms"]))
    if conditions < needs["conditions"]:
        of = needs["conditions"]
        found.append(lack("conditions", experiment=experiment, n=conditions, of=of))
    if (seeds := fewest_seeds(present)) < needs["seeds"]:
        found.append(lack("seeds", experiment=experiment, n=seeds, of=needs["seeds"]))
    return found


def fewest_seeds(summary: pd.DataFrame) -> int:
    """The smallest number of seeds of any cell."""
    return int(summary["n_seeds"].min())


def sizes(summary: pd.DataFrame) -> list[Numbers]:
    """Seeds and budgets of the arms, arms of one size together."""

    def size(rows: pd.DataFrame) -> Numbers:
        return {name: sorted(map(int, set(rows[name]))) for name in ("n_seeds", "budget")}

    return _by_arm(summary, size)


def clocks(summary: pd.DataFrame) -> list[Numbers]:
    """What each arm was timed on; none if all were timed alike."""
    if summary["timed_on"].nunique() <= 1:
        return []
    return _by_arm(summary, lambda rows: {"timed_on": sorted(set(rows["timed_on"]))})


def _by_arm(summary: pd.DataFrame, tell: Callable[[pd.DataFrame], Numbers]) -> list[Numbers]:
    """What there is to say of each arm, once for those of which it is the same."""
    found: list[Numbers] = []
    for arm, rows in summary.groupby("arm", sort=False):
        numbers = tell(rows)
        alike = next((x for x in found if x.items() >= numbers.items()), None)
        if alike is None:
            found.append({"arms": [str(arm)], **numbers})
        else:
            alike["arms"].append(str(arm))
    return found


def mean_interval(values: Array) -> tuple[float, float, float]:
    """Mean and its bootstrap interval, NaN for fewer than five values; all NaN for none."""
    if not values.size:
        return NAN, NAN, NAN
    low, high = statistics.bootstrap([values], statistics.mean)
    return float(values.mean()), low, high


def rows_of(table: pd.DataFrame, *roles: str) -> pd.DataFrame:
    """The rows of arms with one of these roles."""
    return pd.concat([select(table, role) for role in roles]).sort_index()


def difference(claim: str) -> Callable[[Evidence], Verdict]:
    """The rule of a claim that one arm is above another: subject less baseline, paired by seed.

    Of its entry it reads `column` (of runs.parquet), `thresholds: beyond` and `needs: experiment`.
    Reproduced if the mean is above `beyond` with an interval that excludes it, and more conditions
    are above than below; partly if the mean is above.
    """

    def verdict(evidence: Evidence) -> Verdict:
        entry = CLAIMS[claim]
        experiment, beyond = entry.needs["experiment"], entry.thresholds["beyond"]
        summary = evidence.table(experiment, "summary.csv")
        runs = evidence.table(experiment, "runs.parquet")
        if (reason := untestable(summary)) or summary is None or runs is None:
            return not_tested(claim, evidence, reason or lack("no results"))
        her, other = (select(runs, role) for role in ("subject", "baseline"))
        found = effect(paired(her, other, entry.more["column"], [*RUN, "level"]) - beyond)
        if not found.n_conditions:
            return not_tested(claim, evidence, lack("no pair"))
        parts = {"above": found.low > 0, "more": found.ahead > found.behind}
        missing = caveats(claim, summary)
        return Verdict(
            claim,
            evidence.fidelity,
            outcome(all(parts.values()), found.mean > 0, missing),
            {"ahead": found.ahead, "behind": found.behind, "unit": found.unit},
            found.mean + beyond,
            found.low + beyond,
            found.high + beyond,
            found.p_value,
            n_seeds=found.n_seeds,
            n_conditions=found.n_conditions,
            missing=missing,
            of=evidence.scale(experiment),
            parts=parts,
        )

    return verdict
