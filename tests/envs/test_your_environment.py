"""The page about a person's own environment keeps its word: its code runs, in one go."""

import re
from pathlib import Path

import gymnasium as gym

PAGE = Path(__file__).parents[2] / "docs" / "your-environment.md"


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) == 3
    names: dict = {}
    try:
        for number, block in enumerate(blocks, 1):
            exec(compile(block, f"docs/your-environment.md, block {number}", "exec"), names)
    finally:
        gym.registry.pop("Drone-v0", None)
    assert list(tmp_path.rglob("results/cells/Drone/*.parquet"))
