"""Compare learning curves of the authors' own code with ours (`released`)."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from hindsight.analysis.arms import select
from hindsight.analysis.statistics import Array, holm
from hindsight.specs.manifest import verify

CHECKPOINTS = 5
#: Digits of a return that single precision holds.
DECIMALS = 6
ROLES = {"PPO": "baseline", "PPO-HER": "subject"}


def read(path: Path) -> dict[tuple[str, str, str], list[Array]]:
    """Read the authors' curves, `[row, (step, return)]` per run, by condition, arm and network.

    Raises FileError if the file is not as it was published.
    """
    verify([path])
    found: dict[tuple[str, str, str], list[Array]] = {}
    for key, rows in json.loads(path.read_text(encoding="utf-8")).items():
        prey, spawn, arm, network, _ = key.split("|")
        own = found.setdefault((f"{spawn} {prey}", arm, network), [])
        own.append(np.array(rows, dtype=float)[:, :2])
    return found


def compare(path: Path, curves: pd.DataFrame, network: str) -> pd.DataFrame:
    """Return a row per setting in which the authors' code was run.

    The curves are compared at five checkpoints, spread evenly over the authors' runs, or at those
    at which every run has a return, and our longest has not ended; `steps` is the last of them.
    `theirs` and `ours` are numbers of runs; `difference` is the difference of median returns
    (theirs minus ours) at the checkpoint where it is largest; `p_holm` is the smallest p-value of
    the exact Mann-Whitney tests, with Holm's correction. Both are NaN where we have no runs with
    the authors' network, or none as long as half of theirs. `curves` are rows of
    seed_curves.parquet, `network` is such as `64x64`.
    """
    table = []
    for (condition, arm, size), theirs in read(path).items():
        last = max(rows[-1, 0] for rows in theirs)
        at = last * np.arange(1, CHECKPOINTS + 1) / CHECKPOINTS
        own = select(curves, ROLES[arm], fidelity="released")
        own = own[own["condition"] == condition] if size == network else own[:0]
        own = own.dropna(subset="return_mean")  # before the first episode's end
        runs = [r[["env_steps", "return_mean"]].to_numpy(float) for _, r in own.groupby("seed")]
        begun = max((run[0, 0] for run in (*theirs, *runs)), default=0)
        longest = own["env_steps"].max()
        common = at[(at >= begun) & (at <= longest)]
        if longest < last / 2 or not common.size:  # too short a training to compare
            runs = []
        row = {
            "condition": condition, "arm": arm, "network": size, "theirs": len(theirs),
            "ours": len(runs), "steps": last, "difference": np.nan, "p_holm": np.nan,
        }  # fmt: skip
        if runs:
            # Each run's last return by each checkpoint; ours were in single precision.
            values = [
                np.round([_returns_at(run, common) for run in side], DECIMALS)
                for side in (theirs, runs)
            ]
            gaps = np.median(values[0], axis=0) - np.median(values[1], axis=0)
            p = [mann_whitney(*(side[:, i] for side in values)) for i in range(len(common))]
            row |= {
                "steps": common[-1], "difference": gaps[np.abs(gaps).argmax()],
                "p_holm": holm(p).min(),
            }  # fmt: skip
        table.append(row)
    return pd.DataFrame(table)


def _returns_at(run: Array, steps: Array) -> Array:
    """Return the last return of a run `[row, (step, return)]` by each of these steps."""
    return np.asarray(run[np.searchsorted(run[:, 0], steps, side="right") - 1, 1])


def mann_whitney(a: Array, b: Array) -> float:
    """Return the exact two-sided p-value of the rank sum of `[run]` values; ties get mean ranks.

    The exact method of scipy 1.17 assumes no ties, but returns are hundredths, and many are equal.
    The number of ways to reach each rank sum is counted by adding one run at a time; ranks are
    doubled, so that mean ranks are integers.
    """
    ranks = np.rint(2 * pd.Series(np.concatenate([a, b])).rank().to_numpy()).astype(int)
    ways = np.zeros((len(a) + 1, ranks.sum() + 1))  # [runs taken, sum of their ranks]
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    share = ways[-1] / ways[-1].sum()
    middle = len(a) * ranks.sum() / len(ranks)
    extreme = np.abs(np.arange(len(share)) - middle) >= abs(ranks[: len(a)].sum() - middle) - 1e-9
    return float(min(1.0, share[extreme].sum()))
