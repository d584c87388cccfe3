"""The page about models keeps its word: its code runs, in one go."""

import re
import time
from pathlib import Path

from hindsight import SAC

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "library.md"


def test_the_program_of_the_readme_succeeds_within_half_a_minute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    names: dict = {}
    began = time.process_time()
    exec(compile(block, "README.md", "exec"), names)
    assert time.process_time() - began < 30
    assert names["model"].evaluate(episodes=100).success_rate.min() >= 0.95
    assert (tmp_path / "chase.gif").stat().st_size > 1000


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) == 4
    names: dict = {}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"docs/library.md, block {number}", "exec"), names)
    model = SAC.load("reach.pt")
    assert model.film("reach.gif", episodes=1).stat().st_size > 1000
    # Every column that the page does not call the algorithm's own is there.
    shown = re.findall(r"^\| (`.*?`) \|", text, re.M)
    columns = {name for line in shown for name in re.findall(r"`(\w+)`", line)} - {"reward_rest"}
    assert columns <= set(model.curves())
