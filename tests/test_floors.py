"""The package's floors: a package imports only from those below it, so there is no circle either.

Imports within functions and for type checkers count, and so do texts that name a module.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import hindsight
from hindsight.io.fingerprint import STAGES

ROOT = Path(hindsight.__file__).parent
#: From the ground up.
FLOORS = [
    "streams", "io", "specs", "nn", "envs", "relabel", "replay", "algorithms", "training",
    "analysis", "claims", "figures", "report", "library", "pipeline", "cli",
]  # fmt: skip
#: What judges numbers reads them from files; it imports nothing that trains, but for pictures.
JUDGES = {"analysis", "claims", "figures", "report"}
#: Class attributes by which a specification names its implementation, for higher floors to import.
IMPLEMENTATION = {"entry_point", "module", "compiled_module", "loop"}
#: Other texts that name what stands above, by module; none is imported there.
NAMED = {
    "io.fingerprint": {root for roots in STAGES.values() for root in roots},
    "nn.numba_cache": {"hindsight.algorithms"},  # whose functions take long to compile
    "specs.code": {"hindsight.relabel.goals:"},  # the root of a strategy's code
    "specs.environments.predator_prey": {"hindsight.envs.prey:"},  # the root of a prey's code
    "specs.gymnasium": {"hindsight.envs"},  # whose environments a file may ask for
}


def modules() -> list[str]:
    """All modules, without the package's name; the package itself stands above."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in ROOT.rglob("*.py"))
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    return sorted(name for name in names if name not in ("__init__", "__main__"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules, or of objects in modules, that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def texts(tree: ast.AST) -> Iterator[str]:
    """Texts that name a module or an object in it, but for those of a class's IMPLEMENTATION."""
    named = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in IMPLEMENTATION
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in named:
            text = str(node.value)
            yield from [text] if re.fullmatch(r"hindsight(\.\w+)+(:\w*)?", text) else []


def packages(names: Iterable[str]) -> set[str]:
    parts = [name.partition(":")[0].split(".") for name in names]
    return {part[1] for part in parts if part[0] == "hindsight"} - {"__version__"}


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_from_below(module):
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree, floor = ast.parse(path.read_text(encoding="utf-8")), module.partition(".")[0]
    named = {*texts(tree)} - NAMED.get(module, set())
    used = packages(imported(tree)) | packages(named)
    assert used <= {*FLOORS[: FLOORS.index(floor) + 1]}
    if floor in JUDGES:
        assert used <= {"io", "specs", "envs", *JUDGES}
