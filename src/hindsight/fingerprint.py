"""Fingerprints of the code that decides a stage's results.

Snakemake does not see that an imported module changed.  A fingerprint covers a stage's module and
all of the package that it imports, directly or not, as syntax trees: comments, docstrings and
formatting do not count.  A change to a figure therefore retrains nothing, one to PPO its cells.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Where the code of each stage begins.
ENTRY = {
    "train": "hindsight.training.loops",
    "episodes": "hindsight.training.watch",
    "summarise": "hindsight.analysis.summarise",
    "claims": "hindsight.analysis.claims",
    "figures": "hindsight.figures",
    "report": "hindsight.report.build",
}


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _tree(path: Path) -> ast.Module:
    """The syntax tree without docstrings; stages share most modules, each is parsed once."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                del node.body[0]
    return tree


def _imports(tree: ast.Module) -> set[str]:
    """Modules of this package that a module imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {m for m in found if m.startswith("hindsight.") and _file(m).exists()}


def modules(entry: str) -> list[str]:
    """The package's modules that `entry` needs, itself included, sorted."""
    todo, seen = [entry], set()
    while todo:
        module = todo.pop()
        if module not in seen:
            seen.add(module)
            todo += _imports(_tree(_file(module)))
    return sorted(seen)


@cache
def fingerprint(stage: str) -> str:
    """Twelve hexadecimal digits; equal for equal code."""
    digest = hashlib.sha256()
    for module in modules(ENTRY[stage]):
        digest.update(module.encode())
        digest.update(ast.dump(_tree(_file(module))).encode())
        for template in sorted((_file(module).parent / "templates").glob("*")):
            digest.update(template.read_bytes())
    return digest.hexdigest()[:12]
