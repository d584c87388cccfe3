"""M_c over levels and the best of them, against loops over the definitions and known curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hindsight.analysis import best_level as module
from hindsight.analysis.best_level import Scores, best_of, resampled_medians, score
from hindsight.analysis.cells import load_cell
from hindsight.analysis.reduce import Reduced, reduce_cell
from hindsight.analysis.summarise import read_table
from tests.analysis import synthetic
from tests.analysis.synthetic import CONDITIONS, N_STEPS, CurveFunction, write_cell

NAN = float("nan")
S = (0.0, 0.3, 0.5, 0.7, 1.0)


def noisy(level: float, seed_noise: float = 0.1) -> CurveFunction:
    """Fastest and highest at 0.6, with seeds that differ."""

    def curve(seed: int, env_steps: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng([seed, round(100 * level + 100)])
        middle = (5 + 20 * abs(level - 0.6) + 20 * seed_noise * rng.standard_normal()) * N_STEPS
        top = 0.95 - 0.5 * abs(level - 0.6)
        return top / (1 + np.exp(-(env_steps - middle) / (2 * N_STEPS)))

    return curve


#: An experiment of MEHER at each S.
MEHER = {
    "arms": ("MEHER",), "levels": [{"s_ratio": s} for s in S], "conditions": CONDITIONS[:2],
    "curve_of": lambda arm, level, spawn, prey: noisy(level["s_ratio"]),
}  # fmt: skip


def tables_of(root: Path, **settings: Any) -> dict[str, pd.DataFrame]:
    return synthetic.tables_of(root, "s_ratio", **(MEHER | settings))


@given(
    arrays(np.float64, (3, 5), elements=st.one_of(st.floats(-1, 1), st.just(NAN))),
    arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(1, 7)), elements=st.integers(0, 4)),
)
@pytest.mark.filterwarnings("ignore:All-NaN slice")
def test_medians_of_resampled_seeds_are_numpys(curve, draws):
    expected = np.nanmedian(curve[:, draws], axis=-1)
    np.testing.assert_allclose(resampled_medians(curve, draws), expected, atol=1e-15)


def reduced(
    root: Path, levels: Sequence[float], seeds: int
) -> list[tuple[dict[str, Any], Reduced]]:
    key = {"fidelity": "released", "arm": "MEHER", "condition": "random static"}
    found = []
    for s in levels:
        path = write_cell(root / f"{s}.parquet", seeds=seeds, curve_fn=noisy(s), iterations=30)
        found.append(
            (key | {"level": f"s_ratio={s:g}", "s_ratio": s}, reduce_cell(load_cell(path)))
        )
    return found


def m_c_of(cells: Sequence[Reduced], chosen: Sequence[int]) -> np.ndarray:
    """M_c by its definition, of the runs with these indices."""
    tops, times = [], []
    for cell in cells:
        returns = pd.DataFrame(cell.returns[list(chosen)].T, cell.env_steps).ffill()
        curve = (returns.median(axis=1) + 1) / 2
        tops.append(curve.max())
        times.append(curve.index[curve >= 0.95 * curve.max() - 1e-9][0])
    return np.array(tops) * (1 - np.array(times) / max(times))


def test_resampled_seeds_are_the_same_in_every_level(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "DRAWS", 20)
    items = reduced(tmp_path, S, seeds=6)
    (found,) = score(items, ["s_ratio"])
    draws = np.random.default_rng(0).integers(0, 6, size=(20, 6))
    cells = [cell for _, cell in items]
    np.testing.assert_allclose(found.m_c, m_c_of(cells, range(6)), atol=1e-9)
    expected = [m_c_of(cells, draw) for draw in draws]
    np.testing.assert_allclose(found.replicates, expected, atol=1e-9)


def test_few_seeds_carry_no_interval_but_five_conditions_do(tmp_path):
    def curve_of(arm: str, level: dict[str, Any], spawn: str, prey: str) -> CurveFunction:
        return noisy(level["s_ratio"] - (0.2 if prey in ("static", "repel") else 0.0))

    four = {"seeds": 4, "curve_of": curve_of}
    few = tables_of(tmp_path / "few", conditions=CONDITIONS[:4], **four)
    intervals = ["low", "high"]
    assert few["best_level.csv"][intervals].isna().all().all()
    assert few["m_c.csv"][["m_c_low", "m_c_high"]].isna().all().all()
    assert few["best_level.csv"]["best_level"].notna().all()
    five = tables_of(tmp_path / "five", conditions=CONDITIONS[:5], **four)["best_level.csv"]
    assert five.iloc[0][intervals].notna().all()
    assert five.iloc[0]["low"] < five.iloc[0]["high"]
    assert five.iloc[1:][intervals].isna().all().all()


def test_a_condition_that_lacks_a_level_is_not_in_the_mean(tmp_path):
    plan = synthetic.write_experiment(
        tmp_path, "s_ratio", fidelities=("released",), seeds=2, **MEHER
    )
    gone = next((tmp_path / "results/cells/s_ratio-random-random").glob("*-0.5.parquet"))
    gone.unlink()
    synthetic.summarise(plan, tmp_path)
    best = read_table(plan.parent / "best_level.csv")
    assert best["n_conditions"].tolist() == [1, 1, 1]
    assert best["n_levels"].tolist() == [5, 5, 4]
    assert best.iloc[0]["m_c"] == best.iloc[1]["m_c"]


def test_where_nothing_is_learned_no_level_is_best(tmp_path):
    tables = tables_of(tmp_path, seeds=5, curve_of=lambda *_: synthetic.constant(0.0))
    assert (tables["m_c.csv"]["m_c"] == 0.0).all()
    best = tables["best_level.csv"]
    assert best[["best_level", "low", "high"]].isna().all().all()


def test_the_bounds_of_the_best_level_are_levels():
    # In 25 of 1000 draws the lowest level is best: the 2.5% quantile lies between two levels.
    replicates = np.tile([0.1, 0.5, 0.2], (1000, 1))
    replicates[:25, 0] = 0.9
    replicates[25:50, 2] = 0.9
    m_c, levels = np.array([0.1, 0.5, 0.2]), np.array([0.0, 0.5, 1.0])
    scores = Scores([{"s_ratio": s} for s in levels], levels, m_c, replicates, 8)
    found = best_of([scores])
    assert (found["best_level"], found["low"], found["high"]) == (0.5, 0.0, 1.0)
