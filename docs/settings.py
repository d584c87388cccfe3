"""Make docs/settings.md from the specifications: python docs/settings.py"""

from collections.abc import Sequence
from pathlib import Path

from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.cell import PARTS, CellSpec
from hindsight.specs.environments import ENVIRONMENTS
from hindsight.specs.settings import EVALUATION, OF_A_CELL, rows_of


def page() -> str:
    """Return the page."""
    off = {name.upper(): kind for name, kind in ALGORITHMS.items() if not kind.on_policy}
    tables = [
        ("PPO", {"default": ALGORITHMS["ppo"]}),
        ("SAC, TD3, DDPG and DQN", off),
        ("Hindsight with PPO", {"default": PARTS["hindsight"][""]}),
        ("Hindsight and replay with the others", {"default": PARTS["replay"][""]}),
        *((name, {"default": kind}) for name, kind in ENVIRONMENTS.items()),
        ("Any other gymnasium environment", {"default": PARTS["environment"][""]}),
        ("The training", {"default": CellSpec}),
    ]
    lines = [INTRODUCTION]
    for title, kinds in tables:
        heads = ["setting", *kinds, "what it does"]
        lines += [f"\n## {title}\n", _line(heads), _line(["---"] * len(heads))]
        names = OF_A_CELL if title == "The training" else ()
        rows = {c: {n: rest for n, *rest in rows_of(k, names)} for c, k in kinds.items()}
        for name in dict.fromkeys(name for own in rows.values() for name in own):
            found = [own.get(name) for own in rows.values()]
            meaning = next(filter(None, found))[1]
            lines.append(_line([f"`{name}`", *(f[0] if f else "" for f in found), meaning]))
    name, default, meaning = EVALUATION
    lines.append(_line([f"`{name}`", default, f"{meaning} In an experiment, `evaluation`."]))
    return "\n".join(lines) + "\n"


INTRODUCTION = """# All settings

<!-- Made from the specifications by docs/settings.py; do not edit. -->

`hindsight train` takes a setting as `key=value`, a model in Python as a keyword argument, and an
experiment in `config/experiments.yaml` under `keys`. `hindsight train --algorithm sac --settings`
prints those of one algorithm. `null` is `None` in Python.

Some values differ from the defaults below. `strategy` is the option `--her`, or the argument `her`.
Commands and models set `fidelity` to `described`, and models set `early_end` to `null`. A preset
has its own values. SAC's `ent_coef` is `auto_0.01` in other packages' environments."""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), encoding="utf-8")
