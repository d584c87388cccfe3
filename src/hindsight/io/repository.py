"""The state of the repository, for the manifest."""

import subprocess
from pathlib import Path

from hindsight.io.checksums import file_sha256

LOCK = Path("requirements.lock")


def commit() -> str:
    """The current commit, and whether src has uncommitted changes; "" outside a repository."""
    found = _git("rev-parse", "HEAD")
    changed = found and _git("status", "--porcelain", "--", "src")
    return f"{found} and changes on top" if changed else found


def lock_sum() -> str:
    """SHA-256 of the lock file; "" without one."""
    return file_sha256(LOCK) if LOCK.exists() else ""


def _git(*words: str) -> str:
    """git's output in this folder; "" without git or outside a repository."""
    try:
        run = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""
