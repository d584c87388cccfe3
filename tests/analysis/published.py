"""The published cells as tables of plain pandas, from which the numbers of the claims and of
docs/findings.md are computed once more: written from the papers' definitions (PPO-HER section 4,
MEHER section 4) and not from the code.

Returns lie in [-1, 1]; a run that ended keeps its last value; scaled: (return + 1) / 2; time to
learn: where the median over seeds first has 0.95 of its own scaled maximum.  Files hold single
precision, hence EPSILON.
"""

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from tests.support.configuration import ROOT

EPSILON = 1e-6
FINDINGS, PLANS = ROOT / "docs/findings.md", ROOT / "docs/plans.md"
FIDELITIES = ("released", "described")
PREYS = ("static", "random", "attract", "repel", "straight_away", "random_direction")
#: Conditions that SAC-HER does not learn as described, and those in which PPO-HER stalls.
UNLEARNED = {"apart static", "apart repel", "apart straight_away"}
STALLED = ["random repel", "random random_direction"]
#: Index of a table: a cell's place in an experiment.
PLACE = ["fidelity", "arm", "level", "condition"]
#: A number of a page, or a cell of a table that says "never"; before it, what holds none: programs,
#: where links lead, networks' names.
NUMBER = re.compile(
    r"^```.*?^```|\]\([^)]*\)|2 × 64|3 × 512"
    r"|((?<=\| )never|(?<![\w.,-])[+−]?\d+(?:,\d{3})*(?:\.\d+)?%?)",
    re.M | re.S,
)
#: The columns that are read of a cell.
COLUMNS = {
    "phase", "seed", "env_steps", "return_mean", "success_rate", "episodes", "policy_entropy",
    "updates", "cpu_seconds", "log_std", "relabelled_advantage",
    "relabelled_share", "relabelled_z_squared", "reward_entropy", "goal_moved",
    "episode_success",
}  # fmt: skip


class Run(NamedTuple):
    """One run: its rows of training and of evaluation, by step, what its file says of it, and on
    what it was timed.
    """

    train: pd.DataFrame
    tests: pd.DataFrame
    about: dict[str, Any]
    timed_on: tuple[str, int]


#: Runs by arm, level and condition, then by seed.
Runs = dict[tuple[str, str, str], dict[int, Run]]


@cache
def runs_in(path: Path) -> dict[int, Run]:
    """The runs of a cell by seed."""
    table = pq.read_table(path, columns=[n for n in pq.read_schema(path).names if n in COLUMNS])
    about = json.loads(table.schema.metadata[b"hindsight"])
    timed_on = about["machine"]["processor"], about["runs_per_axis"]
    rows = table.to_pandas().sort_values(["seed", "env_steps"])
    train, tests = (
        dict(iter(rows[rows["phase"] == phase].groupby("seed")))
        for phase in ("train", "evaluation")
    )
    return {
        run["seed"]: Run(train[run["seed"]], tests.get(run["seed"], rows[:0]), run, timed_on)
        for run in about["runs"]
    }


def learned(run: Run, clock: str = "env_steps") -> tuple[float, float]:
    """Steps, or minutes, after which a run's training return is first 0.8 (infinite: never), and
    those that it was trained for.
    """
    x = run.train[clock].to_numpy(float) / (1 if clock == "env_steps" else 60)
    met = run.train["return_mean"].to_numpy(float) >= 0.8 - EPSILON
    return (float(x[met][0]) if met.any() else np.inf), float(x[-1])


def reached(run: Run, success: float) -> float:
    """Steps until so many of a test's episodes succeed, as in docs/your-environment.md."""
    met = run.tests.loc[run.tests["success_rate"] >= success - EPSILON, "env_steps"]
    return float(met.iloc[0]) if len(met) else np.inf


def updates_of(pair: tuple[Run, Run], since: int) -> list[float]:
    """Both runs' updates from a step on, over the same steps."""
    last = min(run.train["env_steps"].max() for run in pair)
    updates = [run.train.set_index("env_steps")["updates"] for run in pair]
    return [float(own[(own.index > since) & (own.index <= last)].sum()) for own in updates]


def savings(stopped: Run, always: Run) -> tuple[float, float, float]:
    """Shares saved over the same steps: updates, updates after the switch, time after it."""
    pair = stopped, always
    switch = stopped.about["switch_step"]
    last = min(run.train["env_steps"].max() for run in pair)
    whole, after = updates_of(pair, 0), updates_of(pair, switch)
    clocks = [run.train.set_index("env_steps")["cpu_seconds"] for run in pair]
    took = [clock[last] - clock[switch] for clock in clocks]
    return 1 - whole[0] / whole[1], 1 - after[0] / after[1], 1 - took[0] / took[1]


def maximum(curve: pd.DataFrame) -> float:
    return float(curve.median(axis=1).max())


def time_to_learn(curve: pd.DataFrame) -> float:
    scaled = (curve.median(axis=1) + 1) / 2
    return float(scaled.index[scaled >= 0.95 * scaled.max() - EPSILON][0])


class Cells:
    """The runs of every cell of an experiment that there is, and their budgets, by place."""

    def __init__(self, tables: Path, experiment: str) -> None:
        self.runs: dict[tuple[str, ...], dict[int, Run]] = {}
        self.budgets: dict[tuple[str, ...], int] = {}
        plan = json.loads((tables / experiment / "plan.json").read_text(encoding="utf-8"))
        for entry in plan["entries"]:
            level = " ".join(map(str, entry["level"].values()))
            place = entry["fidelity"], entry["arm"], level, entry["condition"]
            if (ROOT / entry["cell"]).exists():
                self.runs[place] = runs_in(ROOT / entry["cell"])
                self.budgets[place] = entry["steps"]
        self.found: dict[str, dict[tuple[str, ...], pd.DataFrame]] = {}

    def under(self, fidelity: str) -> Runs:
        """The runs of one fidelity."""
        return {place[1:]: own for place, own in self.runs.items() if place[0] == fidelity}

    def each(self, value: Callable[[Run], Any]) -> pd.Series:
        """A value of every run, by place and seed."""
        found = pd.Series({
            (*place, seed): value(run)
            for place, runs in self.runs.items()
            for seed, run in runs.items()
        })  # fmt: skip
        return found.rename_axis([*PLACE, "seed"]).sort_index()

    def curves(self, column: str = "return_mean") -> dict[tuple[str, ...], pd.DataFrame]:
        """A column over steps, one per seed, by place; after a run's end, its last value."""
        if column in self.found:
            return self.found[column]
        found = self.found[column] = {}
        for place, runs in self.runs.items():
            own = {
                seed: pd.Series(run.train[column].to_numpy(float), run.train["env_steps"])
                for seed, run in runs.items()
            }
            wide = pd.DataFrame(own)
            spacing = np.diff(wide.index[-2:])[0]
            more = np.arange(wide.index[-1] + spacing, self.budgets[place] + 1, spacing)
            found[place] = wide.reindex([*wide.index, *more]).ffill()
        return found

    def outcomes(self, fidelity: str, clock: str = "env_steps") -> pd.DataFrame:
        """Of each arm, level, condition and seed, when a run learns, when it was last seen, log2 of
        the earlier of these, and how often its last test succeeds.
        """
        first, last = (self.each(lambda run, i=i: learned(run, clock)[i]) for i in (0, 1))
        table = pd.DataFrame({"first": first, "last": last, "success": self.last_tests()})
        table = table.loc[fidelity].astype(float)
        return table.assign(log=np.log2(table[["first", "last"]].min(axis=1)))

    def steps_of_runs(self) -> pd.Series:
        """Steps to a return of 0.8, of every run."""
        return self.each(lambda run: learned(run)[0])

    def steps(self) -> pd.Series:
        """Median steps to a return of 0.8, by place."""
        return self.steps_of_runs().groupby(PLACE).median()

    def last_tests(self) -> pd.Series:
        """Success without random actions at the end, of every run."""
        return self.each(lambda run: float(run.tests["success_rate"].iloc[-1]))

    def over_training(self) -> pd.Series:
        """Mean training success of every run."""
        found = {
            (*place, seed): mean
            for place, wide in self.curves("success_rate").items()
            for seed, mean in wide.mean().items()
        }
        return pd.Series(found).rename_axis([*PLACE, "seed"]).sort_index()

    def highest(self) -> pd.Series:
        """Highest median return, by place."""
        found = {place: maximum(wide) for place, wide in self.curves().items()}
        return pd.Series(found).rename_axis(PLACE).sort_index()

    def m_c(self) -> pd.Series:
        """M_c by fidelity, level and condition (MEHER section 4)."""
        times = {place: time_to_learn(wide) for place, wide in self.curves().items()}
        steps = pd.Series(times).rename_axis(PLACE).droplevel("arm")
        slowest = steps.groupby(["fidelity", "condition"]).transform("max")
        return (self.highest().droplevel("arm") + 1) / 2 * (1 - steps / slowest)


def steps_of(runs: Runs, arm: str, conditions: str = "", clock: str = "env_steps") -> pd.Series:
    """When an arm's runs learn, by condition and seed; conditions: how their names begin."""
    return pd.Series({
        (condition, seed): learned(run, clock)[0]
        for (own, _, condition), by_seed in runs.items()
        for seed, run in by_seed.items()
        if own == arm and condition.startswith(conditions)
    })  # fmt: skip


def near(column: str, runs: dict[int, Run], step: int) -> float:
    """Median over runs of a column's mean over the five iterations up to a step."""
    rows = [run.train[run.train["env_steps"] <= step + 1024].tail(5) for run in runs.values()]
    return float(np.median([own[column].astype(float).mean() for own in rows]))


def medians(runs: Runs, *arms: str, clock: str = "env_steps") -> pd.DataFrame:
    """Of the steps until an arm's runs learn, by condition."""
    return pd.DataFrame({
        arm: steps_of(runs, arm, clock=clock).groupby(level=0).median() for arm in arms
    })  # fmt: skip


def last_by(runs: dict[int, Run], step: int) -> list[float]:
    """Success in each run's last tests up to a step."""
    return [
        float(run.tests.loc[run.tests["env_steps"] <= step + 1024, "success_rate"].iloc[-1])
        for run in runs.values()
    ]


def savings_of_runs(runs: Runs, end: str = "") -> dict[str, list[tuple[float, float, float]]]:
    """What `savings` says of each run that switched, by condition; end: of the arms' names."""
    return {
        condition: [
            savings(run, runs["PPO-HER" + end, level, condition][seed])
            for seed, run in stopped.items()
            if run.about["switch_step"] is not None
        ]
        for (arm, level, condition), stopped in runs.items()
        if arm == "PPO-HER-2-PPO" + end
    }


def saved_of_sum(runs: Runs, end: str = "") -> float:
    """Share of the updates after the switch that is saved, of their sum over conditions."""
    sums = []
    for (arm, level, condition), stopped in runs.items():
        if arm == "PPO-HER-2-PPO" + end:
            always = runs["PPO-HER" + end, level, condition]
            switched = {
                s: run for s, run in stopped.items() if run.about["switch_step"] is not None
            }
            pairs = {seed: (run, always[seed]) for seed, run in switched.items()}
            spent = [updates_of(pair, pair[0].about["switch_step"]) for pair in pairs.values()]
            sums.append(np.mean(spent, axis=0))
    after, before = np.sum(sums, axis=0)
    return float(1 - after / before)


def saved_by_switching(runs: Runs, end: str = "") -> pd.DataFrame:
    """Its means by condition."""
    found = {condition: np.mean(own, 0) for condition, own in savings_of_runs(runs, end).items()}
    return pd.DataFrame(found, ["whole", "updates", "time"]).T


def holds(page: Path, title: str, *expected: object) -> None:
    """A section's numbers are these, in this order; strings may hold several.

    With WRITE_NUMBERS in the environment, the section gets them instead, if it has as many.
    """
    text = page.read_text(encoding="utf-8")
    (section,) = re.findall(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    computed = " ".join(map(str, expected)).replace("-", "−").split()
    written = list(filter(None, NUMBER.findall(section)))
    if os.environ.get("WRITE_NUMBERS") and len(written) == len(computed):
        left = iter(computed)
        new = NUMBER.sub(lambda found: next(left) if found[1] else found[0], section)
        page.write_text(text.replace(section, new), encoding="utf-8")
    else:
        assert written == computed, title


def percents(*shares: float) -> str:
    """As listed in a text: 97 and 90%."""
    return " ".join(f"{int(round(100 * share, 3) + 0.5)}" for share in shares) + "%"


def thousands(*steps: float) -> str:
    return " ".join("never" if np.isinf(n) else f"{int(n / 1000 + 0.5)},000" for n in steps)
