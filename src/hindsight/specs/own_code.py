"""Digest of the source of a user's own environment, which is part of its cells' fingerprint.

It covers the module of the environment's class, the module that registers it, and everything they
import outside `site-packages` and the standard library.  Of the running script, its classes and
functions count.  The versions of installed packages are recorded with the results instead.  Dynamic
imports and data files are not found.
"""

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, TypeGuard

from hindsight.io.fingerprint import ROOT, dump, stamp, without_docstrings
from hindsight.specs.errors import others_code

#: Packages whose own imports do not count: large ones, whose versions are recorded themselves.
WIDE = {"PIL", "gymnasium", "jax", "matplotlib", "mujoco", "numpy", "pandas", "scipy", "torch"}
#: Packages that decide no number.
IDLE = {"Farama-Notifications", "hindsight-rl", "typing_extensions"}
#: Folders of installed packages, and the standard library's.
INSTALLED = {"site-packages", "dist-packages"}
STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
#: Parts of the running script that count.
DEFINES = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def digest_of(name: str, entry_point: Any) -> str:
    """Hash an environment's own source, in hexadecimal digits; empty if all of it is installed.

    `name` is the environment's id, and `entry_point` gymnasium's, `module:class` or a callable.
    """
    files = _files(name, entry_point)
    digests = {_digest(path, module) for path, module in files.items()}
    if "__main__" not in files.values():
        digests.update(_typed(_made_by(entry_point)))
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest() if digests else ""


def note(name: str) -> None:
    """Note how the files of an environment's module are, before it is imported."""
    for path in _files(name, None):
        _as_noted(path)


def import_own(name: str, entry_point: Any) -> None:
    """Import an environment's own modules, so that an edit during a training changes nothing of it.

    A module that cannot be imported is left to the environment.
    """
    for module in {*_files(name, entry_point).values()} - sys.modules.keys():
        with suppress(Exception), others_code(name):
            import_module(module)


def changed_since_noted(name: str, entry_point: Any) -> list[Path]:
    """The environment's own source files that are no longer as when they were noted."""
    files = _files(name, entry_point).items()
    # The running script has been read as a whole.
    modules = [path for path, module in files if module != "__main__"]
    return sorted(path for path in modules if _as_noted(path) != stamp(path))


_as_noted = cache(stamp)  # what the first call found


def versions_of(name: str, entry_point: Any) -> dict[str, str]:
    """Versions of the packages that define an environment, or that its own source imports.

    And of those that these import, as loaded in this process, and so on.
    """
    modules = {*_roots(name, entry_point)}
    for path, own in _files(name, entry_point).items():
        modules.update(_imported(path, own))
    loaded: dict[str, dict[str, Path]] = {}  # files of modules, by package and module
    for inner, module in [*sys.modules.items()]:
        if file := getattr(module, "__file__", None):
            loaded.setdefault(inner.partition(".")[0], {})[inner] = Path(file)
    of, seen = packages_distributions(), set[str]()
    todo = {module.partition(".")[0] for module in modules}
    while todo:
        top = todo.pop()
        seen.add(top)
        if top in of and top not in WIDE:  # neither its own source nor the standard library
            for inner, path in loaded.get(top, {}).items():
                found = {module.partition(".")[0] for module in _imported(path, inner)}
                todo |= (found & loaded.keys()) - seen
    packages = {package for top in seen for package in of.get(top, ())} - IDLE
    return {package: version(package) for package in sorted(packages)}


def _roots(name: str, entry_point: Any) -> Iterator[str]:
    """Modules that register or define an environment."""
    yield from filter(None, (name.rpartition(":")[0], home_of(entry_point)))


def home_of(entry_point: Any) -> str:
    """The module of an entry point; empty if it has none."""
    if isinstance(entry_point, str):
        return entry_point.partition(":")[0]
    return getattr(_made_by(entry_point), "__module__", None) or ""


def _made_by(entry_point: Any) -> Any:
    """The class or function that makes an environment."""
    return entry_point.func if isinstance(entry_point, partial) else entry_point


def _files(name: str, entry_point: Any) -> dict[Path, str]:
    """An environment's own source files, with their modules' names."""
    found: dict[Path, str] = {}
    todo = list(_roots(name, entry_point))
    seen = set[str]()
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        for path, inner in _places(module):
            if path not in found and _is_own(path):
                found[path] = inner
                todo += _imported(path, inner)
    return found


def _is_own(path: Path) -> bool:
    place = path.resolve()
    return not (
        INSTALLED & set(place.parts)
        or STDLIB in place.parents
        or ROOT / "hindsight" in place.parents
    )


def _places(module: str) -> Iterator[tuple[Path, str]]:
    """Files of a module and of its parent packages, with their modules' names, without importing.

    Trailing parts that are not modules, such as a class, are ignored.
    """
    if module == "__main__":
        script = getattr(sys.modules[module], "__file__", None)
        yield from [(Path(script), module)] if script else []
        return
    name, folders = "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = None
        with suppress(ImportError, ValueError):
            # By its last part, since the parent need not be imported yet.
            spec = PathFinder.find_spec(part, folders) if folders else find_spec(name)
        if spec is None:
            return
        if spec.has_location and spec.origin:
            yield Path(spec.origin), name
        folders = spec.submodule_search_locations
        if folders is None:
            return


def _tree(path: Path) -> ast.Module | None:
    """A file's syntax tree; None if it is not Python source, such as a compiled module."""
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


@cache
def _digest(path: Path, module: str) -> bytes:
    if (tree := _tree(path)) is None:
        return hashlib.sha256(path.read_bytes()).digest()
    counts: ast.Module | list[ast.AST] = without_docstrings(tree)
    if module == "__main__":  # whatever else the script does
        counts = [part for part in ast.walk(tree) if isinstance(part, DEFINES)]
    return hashlib.sha256(dump(counts).encode()).digest()


@cache  # an environment's packages may have a thousand files
def _imported(path: Path, module: str) -> list[str]:
    """Full names of the modules, or of objects in modules, that a file imports."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    if module == "__main__":
        package = sys.modules[module].__package__ or ""
    lines = list[ast.stmt]()
    for line in (_tree(path) or ast.Module([], [])).body:
        lines += line.orelse if _is_idle(line) else [line]
    found = list[str]()
    for node in ast.walk(ast.Module(lines, [])):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # beyond the outermost package
                home = resolve_name("." * node.level + (node.module or ""), package)
                found += [f"{home}.{alias.name}" for alias in node.names]
    return found


def _is_idle(line: ast.stmt) -> TypeGuard[ast.If]:
    """Whether a statement does nothing at an import: what a script does, or types alone."""
    if not isinstance(line, ast.If):
        return False
    names = {x.id for x in ast.walk(line.test) if isinstance(x, ast.Name)}
    return not names.isdisjoint({"__name__", "TYPE_CHECKING"})


def _typed(entry_point: Any) -> Iterator[bytes]:
    """Digests of a class, or of its bases, that a notebook defines."""
    for kind in inspect.getmro(entry_point) if inspect.isclass(entry_point) else (entry_point,):
        if getattr(kind, "__module__", None) == "__main__":
            with suppress(OSError, TypeError):  # entered at a prompt
                yield hashlib.sha256(inspect.getsource(kind).encode()).digest()
