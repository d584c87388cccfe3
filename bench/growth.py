"""How the cost of training grows: with runs on the axis, with the networks' width, with dimensions.

Steps per second of the processor on one core with one thread, medians over repeats, beside the
limit: the multiplications of a step at the speed at which this core was seen to multiply.  Writes
bench/results/growth.json and a plot.

python bench/growth.py [--full-width] [--out docs/growth.png]
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from hindsight.full_width import multiply_at_full_width

os.environ.setdefault("OMP_NUM_THREADS", "1")
if "--full-width" in sys.argv:
    multiply_at_full_width()

import torch
from matplotlib.figure import Figure

from hindsight.figures import style
from hindsight.nn.products import linear, onednn_is_quicker, products_of
from hindsight.specs.algorithms.ppo import PPOSpec
from hindsight.specs.cell import CellSpec
from hindsight.training.cell import prepare_process
from hindsight.training.on_policy import OnPolicyRuns
from hindsight.training.record import machine

RUNS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
WIDTHS = (64, 128, 256, 512, 1024)
DIMENSIONS = (2, 3, 4, 6, 8, 12)
ARMS = {"PPO": None, "PPO-HER": {"strategy": "final"}}


def cell(arm: str, width: int = 64, n_dims: int = 3) -> CellSpec:
    """A cell with two hidden layers of this width."""
    values = {"environment": {"n_dims": n_dims}, "algorithm": {"hidden": (width, width)}}
    return CellSpec.model_validate({**values, "hindsight": ARMS[arm]})


def rate(spec: CellSpec, runs: int, repeats: int) -> float:
    """Environment steps per second of so many runs together."""
    training = OnPolicyRuns([spec] * runs, range(runs), "cpu")
    training.iterate()  # warm-up
    found = []
    for _ in range(repeats):
        start = time.process_time()
        training.iterate()
        found.append(runs * training.rollout_steps / (time.process_time() - start))
    return statistics.median(found)


def multiplications(spec: CellSpec) -> float:
    """Floating-point operations of an environment step's products, at most: without KL stops.

    A sample passes both networks forwards and backwards (three products a layer, one fewer at the
    first) in each epoch; PPO-HER has as many copies as steps.
    """
    algorithm, n = spec.algorithm, spec.environment.observation_size
    assert isinstance(algorithm, PPOSpec)
    actions = n // 3
    ahead, both = 0, 0
    for n_out in (actions, 1):
        sizes = list(pairwise((n, *algorithm.hidden, n_out)))
        ahead += 2 * sum(a * b for a, b in sizes)
        both += 2 * (3 * sum(a * b for a, b in sizes) - sizes[0][0] * sizes[0][1])
    samples = 2 if spec.hindsight is not None else 1
    return samples * (ahead + algorithm.n_epochs * both)


def peak() -> float:
    """Floating-point operations per second of the quickest large product seen."""
    a, b = torch.randn(1, 512, 512), torch.randn(1, 512, 512)
    ways: list[Callable[[], object]] = [lambda: torch.bmm(a, b)]
    ways += [lambda: linear(a, b)] if onednn_is_quicker() else []
    best = 0.0
    for way in ways * 20:
        start = time.process_time()
        for _ in range(20):
            way()
        best = max(best, 20 * 2 * 512**3 / (time.process_time() - start))
    return best


def drawn(found: dict[str, dict[str, dict[int, float]]], limit: dict, out: Path) -> None:
    """The three panels; the limit is dotted."""
    with style.styled():
        figure = Figure(figsize=(9.6, 3.0), dpi=style.DPI, layout="constrained")
        panels = figure.subplots(1, 3)
        for ax, (what, arms) in zip(panels, found.items(), strict=True):
            for arm, rates in arms.items():
                look = style.ARMS[arm]
                ax.plot(rates.keys(), rates.values(), color=look.colour, marker="o", label=arm)
                bound = limit[what][arm]
                ax.plot(bound.keys(), bound.values(), color=look.colour, linestyle=":")
            ax.set(xscale="log", yscale="log", xlabel=what)
            ax.set_xticks(list(rates), [f"{x}" for x in rates], minor=False)
            ax.minorticks_off()
        panels[0].set_ylabel("environment steps per second")
        panels[0].legend(title="dotted: the products alone")
        figure.savefig(out)


def main() -> None:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--full-width", action="store_true", help="as `hindsight train`")
    parser.add_argument("--out", type=Path, default=Path("docs/growth.png"))
    arguments = parser.parse_args()
    prepare_process("cpu")
    flops = peak()
    print(f"this core multiplies at {flops / 1e9:.0f} GFLOP/s")
    cells = {
        "runs on the axis (2 x 64)": {n: ({}, n) for n in RUNS},
        "width of two hidden layers (1 run)": {w: ({"width": w}, 1) for w in WIDTHS},
        "dimensions of the box (2 x 64, 16 runs)": {d: ({"n_dims": d}, 16) for d in DIMENSIONS},
    }
    found: dict = {what: {arm: {} for arm in ARMS} for what in cells}
    limit: dict = {what: {arm: {} for arm in ARMS} for what in cells}
    for what, levels in cells.items():
        for arm in ARMS:
            for x, (keys, runs) in levels.items():
                spec = cell(arm, **keys)
                found[what][arm][x] = rate(spec, runs, arguments.repeats)
                limit[what][arm][x] = flops / multiplications(spec)
                share = found[what][arm][x] / limit[what][arm][x]
                told = f"{found[what][arm][x]:9,.0f} steps/s, {share:.0%} of the limit"
                print(f"{what:40} {x:5} {arm:8} {told}", flush=True)
    out = Path(__file__).parent / "results" / "growth.json"
    out.parent.mkdir(exist_ok=True)
    measured = {"machine": machine(torch.device("cpu")), "repeats": arguments.repeats}
    measured |= {"products": products_of(torch.device("cpu"), (512, 512)), "gflops": flops / 1e9}
    out.write_text(json.dumps({**measured, "rates": found, "limit": limit}, indent=1) + "\n")
    drawn(found, limit, arguments.out)
    print(out, arguments.out)


if __name__ == "__main__":
    main()
