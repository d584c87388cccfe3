"""The tutorial: its cells run, and it was saved after a run."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "docs/tutorial.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_its_cells_run_in_one_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    source = "\n".join("".join(cell["source"]) for cell in CODE)
    assert source.count("STEPS = 40_000") == 1
    names: dict = {}
    exec(compile(source.replace("40_000", "4096"), "docs/tutorial.ipynb", "exec"), names)
    assert isinstance(names["figure"], Figure)
    # Both arms and their medians, of four seeds.
    assert len(names["figure"].axes[0].lines) == 2 * (4 + 1)
    assert names["plain"].num_timesteps == names["hindsight"].num_timesteps == 4096
    plt.close(names["figure"])


def test_it_was_saved_after_a_run_in_order():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    for cell in CODE:
        kinds = {output["output_type"] for output in cell["outputs"]}
        assert kinds and "error" not in kinds, cell["source"]
