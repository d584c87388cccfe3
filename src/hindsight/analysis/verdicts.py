"""What a verdict is, and the tables it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hindsight.analysis import metrics, statistics
from hindsight.analysis.metrics import LEARNT
from hindsight.analysis.summarise import read_plan, read_table

Array = NDArray[np.float64]
Outcome = Literal["reproduced", "partly", "not reproduced", "not tested"]

HER, PPO = "PPO-HER", "PPO"
PAPER_ARMS = (PPO, HER, "SAC", "SAC-HER")
PAPER_CONDITIONS = 12
FEWEST_SEEDS = 4  # the papers' own smallest number
NAN = float("nan")


@dataclass(frozen=True)
class Verdict:
    """What was found for one claim (its id) under one fidelity; NaN where there is no number."""

    claim: str
    fidelity: str
    verdict: Outcome
    measured: str
    effect: float = NAN
    low: float = NAN
    high: float = NAN
    p_value: float = NAN
    test: str = ""
    n_seeds: int = 0
    n_conditions: int = 0
    note: str = ""


@dataclass(frozen=True)
class Evidence:
    """The tables under results/tables/<source>, seen at one fidelity."""

    directory: Path
    fidelity: str

    def table(self, experiment: str, name: str) -> pd.DataFrame | None:
        """The rows of this fidelity, or None if the table is absent or has none."""
        path = self.directory / experiment / name
        if not path.exists():
            return None
        table = read_table(path)
        rows = table[table["fidelity"] == self.fidelity]
        return None if rows.empty else rows

    def budget(self, experiment: str) -> int:
        """Environment steps that a run of the experiment may take."""
        steps: int = read_plan(self.directory / experiment / "plan.json")["preset"]["steps"]
        return steps

    def scale(self, experiment: str) -> str:
        """How large the experiment's runs are, for a verdict's note."""
        preset = read_plan(self.directory / experiment / "plan.json")["preset"]
        return f"networks of {' x '.join(map(str, preset['hidden']))}, {preset['steps']} steps"


def not_tested(claim: str, evidence: Evidence, reason: str) -> Verdict:
    """The verdict where there is nothing to judge."""
    return Verdict(claim, evidence.fidelity, "not tested", f"Not tested: {reason}.")


def outcome(reproduced: bool, partly: bool, caveats: Sequence[str]) -> Outcome:
    """The verdict's word: what is incomplete is at most partly reproduced."""
    if reproduced and not caveats:
        return "reproduced"
    return "partly" if reproduced or partly else "not reproduced"


def untestable(
    summary: pd.DataFrame | None, need: Sequence[str] = (PPO, HER), fewest: int = 2
) -> str:
    """Why an experiment can say nothing: absent, an arm missing, nothing learnt; "" if it can.

    `need`: the arms that must be there; `fewest`: how many arms at least, whichever they are.
    """
    if summary is None:
        return "the experiment has no results"
    arms = set(summary["arm"])
    absent = [arm for arm in need if arm not in arms]
    if absent:
        return f"{' and '.join(absent)} has no results"
    if len(arms) < fewest:
        return f"there is no arm to compare {HER} with"
    if not (metrics.scaled(summary["max_median_return"]) >= LEARNT).any():
        return "no arm reaches a scaled maximum median return of 0.5 in any condition"
    return ""


def caveats(experiment: str, summary: pd.DataFrame, arms: Sequence[str] = (PPO, HER)) -> list[str]:
    """What is missing from an experiment: each of these caps the verdict at "partly"."""
    absent = [arm for arm in arms if arm not in set(summary["arm"])]
    present = summary[summary["arm"].isin(arms)]
    cells = present.groupby(["spawn", "prey"]).size()
    conditions = int((cells == present["arm"].nunique() * present["level"].nunique()).sum())
    found = []
    if absent:
        found.append(f"{' and '.join(absent)} absent, the arms present are compared")
    if conditions < PAPER_CONDITIONS:
        found.append(f"{conditions} of {PAPER_CONDITIONS} conditions are complete")
    if fewest_seeds(present) < FEWEST_SEEDS:
        found.append(f"a cell has only {fewest_seeds(present)} seeds")
    return [f"{experiment}: {text}" for text in found]


def fewest_seeds(summary: pd.DataFrame) -> int:
    """The smallest number of seeds of any cell."""
    return int(summary["n_seeds"].min())


def count(number: float) -> str:
    """`25 000`, with spaces that do not break."""
    return f"{number:,.0f}".replace(",", "\u00a0")


def sizes(summary: pd.DataFrame) -> str:
    """`PPO and PPO-HER 16 seeds, 500 000 steps; SAC 4 seeds, 25 000 steps`: arms of one size
    together.
    """

    def size(rows: pd.DataFrame) -> str:
        seeds, budgets = (sorted(set(rows[name])) for name in ("n_seeds", "budget"))
        return f"{' or '.join(map(str, seeds))} seeds, {' or '.join(map(count, budgets))} steps"

    return _by_arm(summary, size)


def clocks(summary: pd.DataFrame) -> str:
    """`PPO on AMD EPYC, 16 runs sharing an axis; SAC on ...`; "" if all arms were timed alike."""
    told = _by_arm(summary, lambda rows: f"on {' or '.join(sorted(set(rows['timed_on'])))}")
    return told if summary["timed_on"].nunique() > 1 else ""


def _by_arm(summary: pd.DataFrame, say: Callable[[pd.DataFrame], str]) -> str:
    """What there is to say of each arm, once for those of which it is the same."""
    arms: dict[str, list[str]] = {}
    for arm, rows in summary.groupby("arm", sort=False):
        arms.setdefault(say(rows), []).append(str(arm))
    return "; ".join(f"{' and '.join(names)} {words}" for words, names in arms.items())


def mean_interval(values: Array) -> tuple[float, float, float]:
    """Mean and its bootstrap interval, NaN for fewer than five values; all NaN for none."""
    if not values.size:
        return NAN, NAN, NAN
    low, high = statistics.bootstrap([values], statistics.mean, np.random.default_rng(0))
    return float(values.mean()), low, high
