"""A small sample of the faults that `make faults` injects; its table is docs/survival.md."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_sample_of_faults_is_survived():
    command = [sys.executable, "-m", "tests.faults.inject", "--trainer", "14", "--pipeline", "2"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "16 faults, all survived" in result.stdout
