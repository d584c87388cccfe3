"""The first figure counts the runs that have learned, and its title says how many."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from hindsight.figures.draw import figure_of
from hindsight.specs.config import HERO
from tests.analysis.synthetic import N_STEPS, summarised


def test_shares_are_those_of_the_runs_that_reach_a_return_of_0_8(tmp_path):
    """Of PPO's ten runs four learn, in their third rollout; of the others nine and all."""
    arms = ("PPO", "PPO-HER", "PPO-HER-2-PPO")
    learn = dict(zip(arms, (2, 4.5, 5), strict=True))

    def curve(arm: str, _: object, spawn: str, __: str):
        many = int(learn[arm] + (0.5 if spawn == "random" else 0))
        return lambda seed, steps: np.where(seed < many, steps >= 3 * N_STEPS, 0.0)

    tables = summarised(
        tmp_path, "rivals", arms=arms,
        conditions=[("random", "static"), ("apart", "repel")],
        levels=[{}], fidelities=("described",), seeds=5, iterations=20, curve_of=curve,
    )  # fmt: skip
    figure = figure_of(HERO, tables.parent)
    said = " ".join(" ".join(text.get_text() for text in figure.texts).split())
    learns = "PPO learns in 4 of 10 runs; with hindsight, in 9; with hindsight only at first, in"
    assert f"{learns} all 10" in said
    (keys,) = figure.legends
    assert [text.get_text() for text in keys.texts] == list(arms)
    shares = {"random spawn": (0.4, 1.0, 1.0), "spawn apart": (0.4, 0.8, 1.0)}
    for ax, (start, ends) in zip(figure.axes, shares.items(), strict=True):
        assert ax.get_title() == start
        assert [line.get_ydata()[-1] for line in ax.lines] == pytest.approx(ends)
        for line, key in zip(ax.lines, keys.legend_handles, strict=True):
            assert to_rgb(line.get_color()) == to_rgb(key.get_color())
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            assert set(x[1:-1]) == {3 * N_STEPS} and x[-1] == 20 * N_STEPS and y[0] == 0.0
