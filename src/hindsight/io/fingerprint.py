"""Fingerprints of code: twelve digits that change when the code behind a result changes.

Snakemake does not notice changes in imported modules.  A fingerprint starts from functions, classes
or modules (its roots), follows the names that they use through this package, and covers the
top-level statements found this way as syntax trees.  Comments, docstrings, formatting and the names
of modules do not count, so moving a function changes no fingerprint, and a new figure, environment
or algorithm changes only its own.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "hindsight"
#: Roots of each stage of the pipeline (for cells see specs/code.py).
STAGES = {
    "episodes": ("hindsight.training.watch:write_episodes",),
    "tables": ("hindsight.analysis.summarise",),
    "claims": ("hindsight.claims",),
    "figures": ("hindsight.figures.draw",),
    "report": ("hindsight.report.build",),
}

#: A module and a name in it; None stands for the whole module.
Place = tuple[str, str | None]


def stamp(path: Path) -> tuple[int, ...] | None:
    """When a file was last changed, its size, and its number on the disk; None if there is none."""
    with suppress(OSError):
        now = path.stat()
        # The second time is the disk's own, which no copy of an older file brings back.
        return now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino
    return None


#: The package's files when this process began to import it.
AT_START = {path: stamp(path) for path in (ROOT / PACKAGE).rglob("*") if path.suffix != ".pyc"}


@dataclass
class Module:
    """The top-level statements of a module."""

    #: Statements by the names that they define.
    defines: dict[str, list[ast.stmt]] = field(default_factory=dict)
    #: Statements with side effects at import, such as registrations.
    effects: list[ast.stmt] = field(default_factory=list)
    #: Names imported from this package.
    imports: dict[str, Place] = field(default_factory=dict)
    #: What names imported from elsewhere stand for.
    outside: dict[str, str] = field(default_factory=dict)


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _is_module(name: str) -> bool:
    return name.split(".")[0] == PACKAGE and _file(name).exists()


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Remove all docstrings from a syntax tree, also those of attributes, in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body[:] = [line for line in node.body if not _is_docstring(line)]
    return tree


def _is_docstring(line: ast.stmt) -> bool:
    value = line.value if isinstance(line, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Place]]:
    """Names that an import statement binds to objects of this package."""
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            if _is_module(inner):
                yield alias.asname or alias.name, (inner, None)
            elif node.module and _is_module(node.module):
                yield alias.asname or alias.name, (node.module, alias.name)
    else:
        for alias in node.names:
            if _is_module(alias.name) and alias.asname:
                yield alias.asname, (alias.name, None)


@cache
def _module(name: str) -> Module:
    """Parse a module of this package."""
    found = Module()
    tree = without_docstrings(ast.parse(_file(name).read_text(encoding="utf-8")))
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.update(_imported(node))
            source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            if not source.startswith(f"{PACKAGE}."):
                found.outside |= {a.asname or a.name: source + a.name for a in node.names}
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        names = list(_defined(node))
        for defined in names:
            found.defines.setdefault(defined, []).append(node)
        plain = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
        if not (names and plain):
            found.effects.append(node)
    return found


def _defined(node: ast.stmt) -> Iterator[str]:
    """Names that a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    else:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                yield inner.id
            elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
                yield inner.name


@cache  # roots share most of their statements
def _references(node: ast.stmt, home: str) -> tuple[Place, ...]:
    """Objects of this package that a statement refers to, before following re-exports."""
    module, inside, found = _module(home), list(ast.walk(node)), []
    imports = dict(module.imports)
    for inner in inside:
        if isinstance(inner, ast.Import | ast.ImportFrom):
            imports.update(_imported(inner))
    whole = {id(inner.value) for inner in inside if isinstance(inner, ast.Attribute)}
    for inner in inside:
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            target = imports.get(inner.value.id)
            if target is not None:
                # A module's attribute counts alone; a class counts as a whole.
                found.append((target[0], inner.attr) if target[1] is None else target)
        elif isinstance(inner, ast.Name):
            if id(inner) not in whole and inner.id in imports:
                found.append(imports[inner.id])
            if inner.id in module.defines:
                found.append((home, inner.id))
    return tuple(dict.fromkeys(found))


def _statements(place: Place) -> Iterator[tuple[str, ast.stmt]]:
    """The statements that define a place, with their modules, following re-exports."""
    home, name = place
    module = _module(home)
    if name is None or name in module.defines:
        chosen = module.defines.values() if name is None else [module.defines[name]]
        for nodes in (*chosen, module.effects):
            yield from ((home, node) for node in nodes)
    elif name in module.imports:
        yield from _statements(module.imports[name])
    elif _is_module(f"{home}.{name}"):
        yield from _statements((f"{home}.{name}", None))


def closure(*roots: str) -> dict[ast.stmt, str]:
    """All statements that roots (`module` or `module:name`) depend on, with their modules."""
    todo, found = list[Place](), dict[ast.stmt, str]()
    for root in roots:
        module, _, name = root.partition(":")
        todo.append((module, name or None))
    while todo:
        for home, node in _statements(todo.pop()):
            if node not in found:
                found[node] = home
                todo += _references(node, home)
    return found


def dump(node: object) -> str:
    """Write a syntax tree as text, but for empty fields, which newer versions of Python add."""
    if isinstance(node, ast.AST):
        fields = (f"{key}={dump(x)}" for key, x in ast.iter_fields(node) if x not in (None, []))
        return f"{type(node).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(dump, node))}]" if isinstance(node, list) else repr(node)


@cache
def _digest(node: ast.stmt) -> bytes:
    return hashlib.sha256(dump(node).encode()).digest()


@cache
def _linked(node: ast.stmt, home: str) -> bytes:
    """Digest of a statement and of what its names stand for, which imports decide."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    outside = {name: x for name, x in _module(home).outside.items() if name in names}
    digest = hashlib.sha256(_digest(node) + repr(sorted(outside.items())).encode())
    for place in _references(node, home):
        digest.update(b"".join(sorted(_digest(other) for _, other in _statements(place))))
    return digest.digest()


@cache
def fingerprint(*roots: str) -> str:
    """Twelve hexadecimal digits that hash the code behind roots (`module` or `module:name`)."""
    found = closure(*roots)
    digests = {_linked(node, home) for node, home in found.items()}
    digests |= {hashlib.sha256(path.read_bytes()).digest() for path in _data(found.values())}
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()[:12]


def _data(homes: Iterable[str]) -> Iterator[Path]:
    """The data files beside modules."""
    for folder in {_file(home).parent for home in homes}:
        yield from (folder / "templates").glob("*")
        yield from folder.glob("*.yaml")


def of_stage(stage: str) -> str:
    """Fingerprint of one of the pipeline's `STAGES`."""
    return fingerprint(*STAGES[stage])


def import_all(*roots: str) -> list[Path]:
    """Import all code behind roots; returns its files that changed since this process began.

    Code that is imported is the code that a fingerprint is of, whatever becomes of the files later.
    """
    homes = set(closure(*roots).values())
    for home in homes:
        import_module(home)
    files = {*map(_file, homes), *_data(homes)}
    return sorted(path for path in files if stamp(path) != AT_START.get(path))
