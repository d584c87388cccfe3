"""What `hindsight replicate` shows while it works."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hindsight.replicate import _Watch


def test_the_line_moves_while_figures_are_drawn(tmp_path: Path) -> None:
    stage: Any = SimpleNamespace(
        plan=SimpleNamespace(cells={}), there=set(), root=tmp_path, folder=str(tmp_path)
    )
    (tmp_path / "of_yesterday.png").touch()
    os.utime(tmp_path / "of_yesterday.png", (0, 0))
    watch = _Watch(stage)
    assert watch.look()[1] == "0 of 0 cells  tables, figures, report"
    for count, name in enumerate(("a.png", "b.png"), 1):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (watch.began + 1, watch.began + 1))
        assert watch.look()[1] == f"0 of 0 cells  tables, figures ({count} done), report"
