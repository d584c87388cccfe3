"""Learning curves of the authors' own code beside ours (`released`): can they be told apart?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from hindsight.analysis.arms import select
from hindsight.analysis.effects import CONDITION
from hindsight.analysis.statistics import holm

Array = NDArray[np.float64]
CHECKPOINTS = 5
ROLES = {"PPO": "baseline", "PPO-HER": "subject"}
COLUMNS = ("condition", "arm", "network", "theirs", "ours", "steps", "difference", "p_holm")


def compare(path: Path, curves: pd.DataFrame, network: str) -> pd.DataFrame:
    """A row per setting that the authors' code was run in.

    path: their curves; curves: rows of seed_curves.parquet of our experiment `algorithms`;
    network: ours, as `64x64`. theirs, ours: runs; difference: of the median returns (theirs less
    ours) at the checkpoint where it is largest; p_holm: the smallest of exact Mann-Whitney tests at
    five checkpoints, evenly spread over their runs, with Holm's correction. NaN where we have no
    runs with their network over as many steps.
    """
    found: dict[tuple[str, ...], list[Array]] = {}
    for key, rows in json.loads(path.read_text(encoding="utf-8")).items():
        found.setdefault(tuple(key.split("|")[:4]), []).append(np.array(rows, dtype=float))
    table = []
    for (prey, spawn, arm, size), theirs in found.items():
        condition, last = f"{spawn} {prey}", max(rows[-1, 0] for rows in theirs)
        at = last * np.arange(1, CHECKPOINTS + 1) / CHECKPOINTS
        own = select(curves, ROLES[arm], fidelity="released")
        own = own[own[CONDITION] == condition] if size == network else own[:0]
        runs = [r[["env_steps", "return_mean"]].to_numpy(float) for _, r in own.groupby("seed")]
        row = {
            "condition": condition, "arm": arm, "network": size, "theirs": len(theirs),
            "ours": len(runs), "steps": last, "difference": np.nan, "p_holm": np.nan,
        }  # fmt: skip
        if runs:
            values = [np.array([_at(run, at) for run in side]) for side in (theirs, runs)]
            gaps = np.median(values[0], axis=0) - np.median(values[1], axis=0)
            p = [mann_whitney(*(side[:, i] for side in values)) for i in range(CHECKPOINTS)]
            row |= {"difference": gaps[np.abs(gaps).argmax()], "p_holm": holm(p).min()}
        table.append(row)
    return pd.DataFrame(table, columns=list(COLUMNS))


def _at(run: Array, steps: Array) -> Array:
    """A run's return, of `[step, (steps, return)]`, by these steps; ended runs keep their last."""
    return np.asarray(run[np.searchsorted(run[:, 0], steps, side="right") - 1, 1])


def mann_whitney(a: Array, b: Array) -> float:
    """Exact two-sided p-value of the rank sum of `[run]` values, ties at their mean rank.

    scipy 1.17's exact method supposes that there are none; returns are hundredths, and many are
    equal.  Rank sums are counted one run after the other, in halves.
    """
    ranks = np.rint(2 * scipy.stats.rankdata(np.concatenate([a, b]))).astype(int)
    ways = np.zeros((len(a) + 1, ranks.sum() + 1))  # [runs taken, sum of their ranks]
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    share = ways[-1] / ways[-1].sum()
    middle = len(a) * ranks.sum() / len(ranks)
    extreme = np.abs(np.arange(len(share)) - middle) >= abs(ranks[: len(a)].sum() - middle) - 1e-9
    return float(min(1.0, share[extreme].sum()))
