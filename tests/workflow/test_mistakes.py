"""What Snakemake prints where it cannot plan: the reason, without a traceback of this package."""

import pytest

from tests.support.commands import in_copy
from tests.support.configuration import PARTS, ROOT

MINE = """
experiments:
  mine:
    title: Mine
    figures: mine
    tasks: {one: {id: "raising:X-v0"}}
    arms: {PPO-HER: {her: future}}
select: {mine: {}}
"""


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("it's one", "raising:X-v0: importing raising failed: RuntimeError: no licence"),
        ("a{b}", "a{b}: Snakemake fails in a folder with braces; rename it"),
    ],
)
def test_the_reason_is_given(tmp_path, folder, reason):
    project = tmp_path / folder
    project.mkdir()
    for part in PARTS:
        if part != "config.yaml":
            (project / part).symlink_to(ROOT / part)
    (project / "config.yaml").write_text(MINE)
    (project / "raising.py").write_text("raise RuntimeError('no licence')")
    ended = in_copy(project, "snakemake", "-n")
    kind, told, *_ = ended.stdout[ended.stdout.index("WorkflowError in ") :].splitlines()
    assert ended.returncode == 1 and "common.smk" in kind and told.endswith(reason)
