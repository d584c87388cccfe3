"""A pipeline that a script starts in the background, where SIGINT is ignored, can be stopped."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import signal, sys, threading, os
from pathlib import Path
signal.signal(signal.SIGINT, signal.SIG_IGN)
from hindsight.pipeline.project import Project
from hindsight.pipeline.replicate import _supervise
from hindsight.specs.config import load
project = Project.of(load(Path(sys.argv[1]), {"preset": "smoke"}))
threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM)).start()
status, stopped_by = _supervise([sys.executable, "-c", "import time; time.sleep(100)"], project)
assert (status, stopped_by) == (-signal.SIGINT, signal.SIGTERM), (status, stopped_by)
"""


def test_sigterm_stops_it(tmp_path):
    command = [sys.executable, "-c", CODE, str(ROOT / "config.yaml")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
