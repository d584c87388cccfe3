"""Fingerprints of code, taken from a copy of the sources that is then edited."""

import ast
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hindsight
from hindsight.io import fingerprint as module
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of
from tests.conftest import forget
from tests.support.commands import python

PACKAGE = Path(hindsight.__file__).parent
BITS = {"environment": {"id": "BitFlipping-v0"}}
CELLS = {
    "ppo": CellSpec(),
    "ppo-her": CellSpec.model_validate({"hindsight": {}}),
    "ppo, bits": CellSpec.model_validate(BITS),
    "sac": CellSpec.model_validate(
        {"algorithm": {"name": "sac"}, "replay": {"strategy": "future"}}
    ),
    "td3": CellSpec.model_validate({"algorithm": {"name": "td3"}}),
    "ddpg": CellSpec.model_validate({"algorithm": {"name": "ddpg"}}),
    "dqn, bits": CellSpec.model_validate({"algorithm": {"name": "dqn"}, **BITS}),
}

WITH_BITS, OFF_POLICY = {"ppo, bits", "dqn, bits"}, {"sac", "td3", "ddpg", "dqn, bits"}


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the package's sources, from which fingerprints are taken."""
    copy = tmp_path / "hindsight"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "ROOT", tmp_path)
    forget(module)
    yield copy
    forget(module)


def codes() -> dict[str, str]:
    forget(module)
    return {name: code_of(spec) for name, spec in CELLS.items()}


def stages() -> dict[str, str]:
    """The fingerprints of the pipeline's stages."""
    forget(module)
    return {stage: module.of_stage(stage) for stage in module.STAGES}


def changed(before: dict[str, str]) -> set[str]:
    """Cells that are stale by now."""
    return {name for name, code in codes().items() if code != before[name]}


@pytest.fixture(scope="module")
def before():
    """The cells' fingerprints before any edit."""
    return codes()


@pytest.fixture(scope="module")
def stages_before():
    return stages()


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    edit(path, lambda text: text.replace(old, new))


def test_algorithms_and_environments_have_fingerprints_of_twelve_digits(before):
    assert all(re.fullmatch("[0-9a-f]{12}", code) for code in before.values())
    assert len(set(before.values())) == len(before)


@pytest.mark.parametrize(
    ("place", "old", "new", "stale"),
    [
        ("nn/adam.py", "eps: float = 1e-8,", "eps: float = 1e-7,", set(CELLS)),
        ("algorithms/ppo.py", "1.5 * ", "2.5 * ", {"ppo", "ppo-her", "ppo, bits"}),
        ("algorithms/sac.py", "0.5 / n", "0.25 / n", {"sac"}),
        ("envs/bit_flipping.py", "elapsed + 1 >=", "elapsed + 2 >=", WITH_BITS),
        ("replay/buffer.py", "def sample(", "def sample(_x, ", OFF_POLICY),
        # Of preys, its own alone; that of these cells rests.
        ("envs/prey.py", "2 * noise", "3 * noise", set()),
        ("envs/prey.py", "velocity[:] = 0", "velocity[:] = 0.0", set(CELLS) - WITH_BITS),
        # Of strategies, too.
        ("relabel/goals.py", "step + left - 1 +", "step + left - 1.0 +", {"ppo-her"}),
        ("relabel/goals.py", "np.floor(uniform * left)", "np.floor(left * uniform)", {"sac"}),
        # What a module does when it is imported.
        ("nn/adam.py", "import torch\n", "import torch\n\ntorch.manual_seed(7)\n", set(CELLS)),
    ],
)  # fmt: skip
def test_a_change_makes_stale_what_uses_it_and_nothing_else(
    before, sources, place, old, new, stale
):
    replace(sources / place, old, new)
    assert changed(before) == stale


@pytest.mark.parametrize(
    ("place", "old", "new", "redone"),
    [
        ("claims/measures.py", "(her >= 0.5)", "(her > 0.5)", {"claims"}),
        ("claims/rules.py", "most < low", "most <= low", {"claims", "report"}),
        ("algorithms/td3.py", "def update(", "def update(_x, ", set()),
        ("report/words.py", "The earlier rule said", "The earlier rule had said", {"report"}),
    ],
)
def test_a_change_redoes_the_stages_that_use_it(
    before, stages_before, sources, place, old, new, redone
):
    """The page is also made again if claims.json has changed, which is its input."""
    replace(sources / place, old, new)
    assert {name for name, code in stages().items() if code != stages_before[name]} == redone
    assert changed(before) == ({"td3"} if "td3" in place else set())


def test_comments_docstrings_and_formatting_do_not_count(before, sources):
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
        for path in sources.rglob("*.py"):
            if path.read_text(encoding="utf-8"):
                edit(path, change)
        assert not changed(before)


def test_moving_renaming_and_adding_change_nothing(before, sources):
    # A module gets another name, ...
    (sources / "nn/adam.py").rename(sources / "nn/optimiser.py")
    for path in sources.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("hindsight.nn.adam", "hindsight.nn.optimiser"))
    # ... a function moves to another module, ...
    tree = ast.parse((sources / "envs/prey.py").read_text(encoding="utf-8"))
    moved = next(node for node in tree.body if getattr(node, "name", None) == "top_speed")
    tree.body.remove(moved)
    after_imports = max(i for i, x in enumerate(tree.body) if isinstance(x, ast.ImportFrom)) + 1
    back = ast.parse("from hindsight.envs.speed import top_speed").body
    tree.body[after_imports:after_imports] = back
    (sources / "envs/prey.py").write_text(ast.unparse(tree))
    (sources / "envs/speed.py").write_text("import math\n\n" + ast.unparse(moved))
    # ... and somebody adds an algorithm.
    (sources / "algorithms/new.py").write_text("X = 1\n")
    assert not changed(before)


def test_what_is_imported_within_a_function_and_under_another_name_counts(sources):
    imported = "    from hindsight import more as other\n    other.f()\n"
    replace(sources / "streams.py", "    # The index is", f"{imported}    # The index is")
    (sources / "more.py").write_text("def f():\n    return g()\n\ndef g():\n    return 1\n")
    before = codes()
    replace(sources / "more.py", "return 1", "return 2")
    assert changed(before) == set(CELLS)


ENTROPIES = "from hindsight.nn.entropy import categorical_entropy, gaussian_entropy"
SWAPPED = (
    "from hindsight.nn.entropy import categorical_entropy as gaussian_entropy, "
    "gaussian_entropy as categorical_entropy"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ENTROPIES, SWAPPED),
        ("import math\n", "import cmath as math\n"),
    ],
    ids=["ours", "others"],
)
def test_what_an_imported_name_stands_for_counts(before, sources, old, new):
    replace(sources / "algorithms/ppo.py", old, new)
    assert changed(before)


SNIPPET = """
@cache
def area(x: int = 1, *more: float) -> str:
    class Inner: ...
    return f"{x!r:>4} {sum(more)}" if x is not None else [y for y in (1, 2.5, b"z", ...)]
"""


def test_every_version_of_python_gives_the_same_fingerprint():
    """The number is that of Python 3.10 to 3.13, whose own dumps of this function all differ."""
    (node,) = ast.parse(SNIPPET).body
    assert module._digest(node).hex()[:12] == "3bd3462c5b12"


EDITED_WHILE_IT_STARTS = """
import pathlib, sys
import hindsight.io.fingerprint as fingerprint
from hindsight.io.files import FileError
from hindsight.specs.cell import CellSpec
from hindsight.specs.code import code_of, import_code
source = pathlib.Path(fingerprint.__file__).parents[1] / sys.argv[1]
kept, before = source.read_bytes(), code_of(CellSpec())
source.write_bytes(kept + b"\\n_EDITED = 1\\n")
import hindsight.algorithms.ppo
source.write_bytes(kept)
try:
    import_code(CellSpec())
except FileError as error:
    print(error)
else:
    print("trains")
"""


@pytest.mark.parametrize("edited, told", [
    ("algorithms/ppo.py", "changed while this training began; type the same command again"),
    ("figures/style.py", "trains"),
])  # fmt: skip
def test_code_that_is_edited_while_a_training_starts_trains_nothing(tmp_path, edited, told):
    """Even if the edit is undone before anything could compare contents."""
    shutil.copytree(PACKAGE, tmp_path / "hindsight")
    ran = python(EDITED_WHILE_IT_STARTS, edited, sources=tmp_path).finished()
    assert ran.returncode == 0 and told in ran.stdout, ran.stderr
