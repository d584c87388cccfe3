"""What every test is given."""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from filelock import FileLock

from tests.support.commands import program
from tests.support.configuration import copy_project, environment_of

#: What takes longest, by file.  It is begun first: `make test` gives a file to one process, and no
#: process is to be alone with a long one at the end.
LONGEST = (
    "workflow/test_pipeline.py",
    "workflow/test_published.py",
    "test_how_to_add.py",
    "nn/test_numba_cache.py",
    "test_fingerprint.py",
    "test_process.py",
    "envs/test_others_code.py",
    "pipeline/test_verify.py",
)

# As training does: a second thread of these small products would wait for the first, and take its
# processor from the other test process.
torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files of LONGEST first, each as it is."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def forget(module: ModuleType) -> None:
    """Clear a module's caches, for tests that edit sources."""
    for cached in vars(module).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], str]
) -> tuple[Path, str]:
    """A new folder that `make` fills, and what that returned; one for all processes of a run."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, told = base / name, base / f"{name}.txt"
    with FileLock(base / f"{name}.lock"):
        if not told.exists():
            told.write_text(make(folder))
    return folder, told.read_text()


@pytest.fixture(scope="session")
def published_project(tmp_path_factory):
    """A copy of the project in which the published results were drawn, without torch."""
    folder, told = made_once(tmp_path_factory, "published_project", _draw_published)
    status, _, words = told.partition("\n")
    assert status == "0", words
    return folder


def _draw_published(folder: Path) -> str:
    copy_project(folder, "results/published")
    blocked = folder / "blocked"
    blocked.mkdir()
    (blocked / "torch.py").write_text("raise ImportError('torch was imported')\n")
    environment = environment_of(folder, blocked)
    command = ["hindsight", "replicate", "--cores", "2", "--published"]
    done = program(*command, cwd=folder, env=environment)
    return f"{done.returncode}\n{done.stdout}{done.stderr}"


@pytest.fixture(autouse=True)
def denormal_numbers():
    """Training flushes them to zero, in its own process: here the next test wants them back."""
    yield
    torch.set_flush_denormal(False)
