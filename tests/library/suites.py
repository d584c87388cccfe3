"""Run another library's own tests, at a given path, with our class in place of theirs:

    python -m tests.library.suites cpprb-11.0.0/test/test_HER.py
    python -m tests.library.suites stable-baselines3/tests/test_her.py

The libraries themselves are installed; their tests come with their sources and are not copied here.
"""

import sys
from contextlib import suppress

import pytest

from hindsight.library import like_cpprb, like_stable_baselines3
from hindsight.training.cell import prepare_process


def exchange() -> None:
    """Replace the installed libraries' classes by ours."""
    with suppress(ImportError):
        import cpprb

        cpprb.HindsightReplayBuffer = like_cpprb.HindsightReplayBuffer
    with suppress(ImportError):
        import stable_baselines3

        stable_baselines3.HerReplayBuffer = like_stable_baselines3.HerReplayBuffer


if __name__ == "__main__":
    prepare_process("cpu")
    exchange()
    raise SystemExit(
        pytest.main([*sys.argv[1:], "-p", "no:cacheprovider", "--import-mode=importlib"])
    )
