"""A small sample of the faults that `make faults` injects."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.faults
def test_a_sample_of_faults_is_survived():
    command = [sys.executable, "-m", "tests.faults.inject", "--cells", "28", "--pipeline", "4"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "32 faults, all survived" in result.stdout
