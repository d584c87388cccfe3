"""The fingerprint of the training code: on a copy of the sources that is then edited."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hindsight
from hindsight import fingerprint as module

PACKAGE = Path(hindsight.__file__).parent
ENTRY = module.ENTRY["train"]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package's sources, from which fingerprints are taken."""
    copy = tmp_path / "hindsight"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "ROOT", tmp_path)
    forget()
    yield copy
    forget()


def forget() -> None:
    for remembered in (module.fingerprint, module._tree):
        remembered.cache_clear()


def fresh() -> str:
    forget()
    return module.fingerprint("train")


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, encoding="utf-8")


def path_of(sources: Path, name: str) -> Path:
    path = sources.parent.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def used_by_training() -> set[str]:
    """The package's modules that Python itself loads with the training loop."""
    program = (
        f"import sys, {ENTRY}; print(*(m for m in sys.modules if m.split('.')[0] == 'hindsight'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent), "OMP_NUM_THREADS": "1"},
    )
    return set(ran.stdout.split())


def with_code(name: str) -> bool:
    """Whether a module holds more than a docstring."""
    return bool(module._tree(path_of(PACKAGE, name)).body)


def test_modules_are_those_that_python_loads():
    found = set(module.modules(ENTRY))
    loaded = used_by_training()
    assert found <= loaded
    # A package file without code has nothing to change; that of the environments only makes
    # gymnasium know their faces, which training does not use.
    assert {name for name in loaded - found if with_code(name)} <= {"hindsight.envs"}


def test_drawing_and_judging_do_not_train():
    assert ENTRY == "hindsight.training.loops"
    found = module.modules(ENTRY)
    assert found == sorted(set(found))
    for room in ("figures", "analysis", "report"):
        assert not any(name.startswith(f"hindsight.{room}") for name in found)
    for name in ("algorithms.ppo", "relabel.on_policy", "envs.prey", "nn.adam", "streams"):
        assert f"hindsight.{name}" in found


def test_every_stage_has_its_own_fingerprint():
    found = {stage: module.fingerprint(stage) for stage in module.ENTRY}
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch("[0-9a-f]{12}", digits) for digits in found.values())


def test_comments_docstrings_and_formatting_do_not_count(sources):
    before = fresh()

    def reformatted(text: str) -> str:
        return ast.unparse(ast.parse(text)) + "\n\n\n# a comment\n"  # drops all comments, too

    def documented(text: str) -> str:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and node.body:
                other = ast.Expr(ast.Constant("Another docstring."))
                had = ast.get_docstring(node, clean=False) is not None
                node.body = [other, *node.body[had:]]
        return ast.unparse(ast.fix_missing_locations(tree))

    for change in (reformatted, documented):
        for name in module.modules(ENTRY):
            edit(path_of(sources, name), change)
        assert fresh() == before


def test_any_change_of_code_in_any_module_counts(sources):
    """One more statement, one module at a time: every fingerprint is another."""
    seen = {fresh()}
    names = module.modules(ENTRY)
    for name in names:
        path = path_of(sources, name)
        before = path.read_text(encoding="utf-8")
        edit(path, lambda text: text + "\nADDED = 1\n")
        seen.add(fresh())
        path.write_text(before, encoding="utf-8")
    assert len(seen) == 1 + len(names)


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("nn.adam", "eps: float = 1e-8,", "eps: float = 1e-7,"),
        ("algorithms.ppo", "1.5 * spec.target_kl", "2.5 * spec.target_kl"),
        ("envs.prey", "2 * draws", "3 * draws"),
        ("relabel.on_policy", "MOVED = 0.01", "MOVED = 0.02"),
    ],
)
def test_a_changed_number_counts(sources, name, old, new):
    before = fresh()
    edit(path_of(sources, f"hindsight.{name}"), lambda text: text.replace(old, new))
    assert fresh() != before


def test_a_change_elsewhere_does_not_count(sources):
    before = fresh()
    used = {path_of(sources, name) for name in used_by_training()}
    others = [path for path in sources.rglob("*.py") if path not in used]
    assert any("figures" in path.parts for path in others)
    for path in others:
        edit(path, lambda text: text + "\nADDED = 1\n")
    assert fresh() == before


def test_a_module_that_training_begins_to_import_counts_from_then_on(sources):
    new = sources / "nn" / "new.py"
    new.write_text("X = 1\n", encoding="utf-8")
    before = fresh()
    edit(
        path_of(sources, "hindsight.nn.gaussian"),
        lambda text: text.replace("import math\n", "import math\n\nfrom hindsight.nn import new\n"),
    )
    imported = fresh()
    new.write_text("X = 2\n", encoding="utf-8")
    assert len({before, imported, fresh()}) == 3
