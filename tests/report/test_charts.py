"""The page's charts, as far as Python makes them."""

from pathlib import Path

import numpy as np
import pandas as pd

from hindsight.report.charts import _half_ended


def test_curves_end_where_half_of_the_seeds_have_on_each_clock(tmp_path: Path) -> None:
    ends = {"PPO": (10, 20, 90), "SAC": (40, 40)}
    pd.DataFrame([
        {"fidelity": "released", "arm": arm, "condition": "random static", "seed": seed,
         "env_steps": step, "minutes": step / 100}
        for arm, lasts in ends.items() for seed, last in enumerate(lasts)
        for step in range(10, last + 1, 10)
    ]).to_parquet(tmp_path / "seed_curves.parquet")  # fmt: skip
    asked = [("PPO", "env_steps"), ("PPO", "minutes"), ("SAC", "minutes"), ("TD3", "minutes")]
    columns = ["fidelity", "arm", "condition", "clock"]
    rows = [("released", arm, "random static", clock) for arm, clock in asked]
    found = _half_ended(tmp_path, pd.DataFrame(rows, columns=columns))
    np.testing.assert_allclose(found, [20, 0.2, 0.4, np.inf])
