"""Tests that want something of the system are left out without it, and told; CI wants them all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEST = """
from tests.conftest import *
from tests.wants import wants

def test_one():
    wants(None, "a teapot", "teapot")

def test_other():
    wants("/usr/bin/teapot", "a teapot", "teapot")
"""


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_what_is_left_out_is_told_in_one_line(tmp_path, ci, status):
    (tmp_path / "conftest.py").write_text(TEST)
    (tmp_path / "test_tea.py").write_text("from conftest import test_one, test_other\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tea.py"]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == status, result.stdout + result.stderr
    told = "1 left out for want of a teapot: install teapot" in result.stdout
    assert told == (not ci) and ("1 passed, 1 skipped" in result.stdout) == (not ci)
