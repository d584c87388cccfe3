"""Of what state of the repository something was made."""

import hashlib
import subprocess
from pathlib import Path

LOCK = Path("requirements.lock")


def commit() -> str:
    """The working folder's commit, and whether code was changed since; "" where git knows none."""
    found = _git("rev-parse", "HEAD")
    changed = found and _git("status", "--porcelain", "--", "src")
    return f"{found} and changes on top" if changed else found


def lock_sum() -> str:
    """SHA-256 of the file that pins every package; "" where there is none."""
    return hashlib.sha256(LOCK.read_bytes()).hexdigest() if LOCK.exists() else ""


def _git(*words: str) -> str:
    """What git says of this folder; nothing without git, or outside a repository."""
    try:
        said = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
