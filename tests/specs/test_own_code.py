"""A user's own environment: its source and what it imports count as its cells' code."""

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pytest
from typer.testing import CliRunner

from hindsight.cli import app
from hindsight.io.checksums import about
from hindsight.specs import own_code
from hindsight.specs.algorithms import ALGORITHMS
from hindsight.specs.base import Spec, subclasses_by
from hindsight.specs.errors import SpecError
from hindsight.specs.own_code import digest_of, import_own, versions_of
from tests.conftest import forget
from tests.envs.corridor import Corridor
from tests.support.commands import python

MINE = """
import gymnasium as gym

from paying import scale
from tests.envs.corridor import Corridor

class Mine(Corridor):
    def compute_reward(self, achieved, desired, info):
        return scale() * super().compute_reward(achieved, desired, info)

gym.register("Mine-v0", Mine, max_episode_steps=12)
"""
TRAIN = (
    *("train", "--env", "mine:Mine-v0", "--algorithm", "sac", "--her", "future", "hidden=8"),
    *("--seeds", "1", "--steps", "150", "evaluation_episodes=2", "--workers", "1"),
    *("learning_starts=100", "log_interval=50"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with an environment, the modules that it imports, and an unrelated one."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "paying.py").write_text(
        "from deep.inside import one\n\ndef scale():\n    return one"
    )
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/__init__.py").touch()
    (tmp_path / "deep/inside.py").write_text("from . import beside\none = beside.one\n")
    (tmp_path / "deep/beside.py").write_text("one = 1.0\n")
    (tmp_path / "other.py").write_text("two = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    forget(own_code)
    yield tmp_path
    forget(own_code)
    gym.registry.pop("Mine-v0", None)
    for name in ("mine", "paying", "deep", "deep.inside", "deep.beside"):
        sys.modules.pop(name, None)


def digest() -> str:
    forget(own_code)
    return digest_of("mine:Mine-v0", "mine:Mine")


@pytest.mark.parametrize(
    ("name", "counts"),
    [("mine.py", True), ("paying.py", True), ("deep/beside.py", True), ("other.py", False)],
)
def test_every_imported_module_counts(folder, name, counts):
    before, path = digest(), folder / name
    text = path.read_text()
    path.write_text(f"{text}\n# words\n")
    assert digest() == before
    path.write_text(f"{text}\nmore = True\n")
    assert (digest() != before) is counts
    path.write_text(text)
    assert digest() == before != ""


SCRIPT = """
from functools import partial
from hindsight import GoalEnvironment
from paying import scale
from tests.envs.corridor import Corridor
class Mine(Corridor):
    def step(self, action):
        return super().step(0.5 * action)
class Goal(GoalEnvironment):
    def __init__(self):
        super().__init__(Mine(), len, len, tolerance=1)
def mine():
    return Mine()
steps = 300
"""


@pytest.mark.parametrize(
    "entry", ["Mine", "Goal", "mine", "'__main__:mine'", "partial(mine)", "lambda: mine()"]
)
def test_what_a_script_defines_and_imports_counts(folder, entry, monkeypatch):
    def digest(text: str) -> str:
        (folder / "script.py").write_text(text)
        main = ModuleType("__main__")
        main.__file__ = str(folder / "script.py")
        monkeypatch.setitem(sys.modules, "__main__", main)
        exec(text, vars(main))
        forget(own_code)
        return digest_of("Mine-v0", eval(entry, vars(main)))

    before = digest(SCRIPT)
    assert digest(SCRIPT.replace("steps = 300", "steps = 400  # words")) == before
    assert digest(SCRIPT.replace("0.5", "0.6")) != before
    (folder / "paying.py").write_text("def scale():\n    return 0.5\n")
    assert digest(SCRIPT) != before


def test_an_edit_retrains_and_package_versions_are_recorded(folder):
    def trained() -> str:
        forget(own_code)
        done = CliRunner().invoke(app, TRAIN)
        assert done.exit_code == 0, done.output
        return done.stdout

    told = trained()
    assert "Training SAC with hindsight" in told
    # The command that it suggests names the module, which a file alone may not import.
    assert "--env" in next(line for line in told.splitlines() if line.startswith("use it"))
    assert trained().startswith("already trained by the same code")
    (curves,) = folder.glob("results/cells/*/*.parquet")
    assert {"gymnasium", "numpy"} <= about(curves)["versions"].keys()
    (folder / "paying.py").write_text("def scale():\n    return 0.5\n")
    assert "Training SAC with hindsight" in trained()


def test_an_installed_environment_has_a_version_instead():
    reach = "FetchReach-v4", "gymnasium_robotics.envs.fetch.reach:MujocoFetchReachEnv"
    assert digest_of(*reach) == "" and "gymnasium-robotics" in versions_of(*reach)
    import_module("gymnasium_robotics.envs.fetch.reach")
    assert {"mujoco", "gymnasium"} <= versions_of(*reach).keys()
    assert digest_of("Corridor-v0", Corridor) != ""
    assert "gymnasium" in json.dumps(versions_of("Corridor-v0", Corridor))


def test_packages_of_packages_count(folder, monkeypatch):
    """However far beneath; but not what large packages import, whose own versions say enough."""
    installed, names = folder / "site-packages", ["over", "under", "below"]
    for name, imports in zip(names, ["under", "below", "numpy"], strict=True):
        about = installed / f"{name}-1.0.dist-info"
        for path, text in (
            (installed / name / "__init__.py", f"import {imports}\n"),
            (about / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"),
            (about / "top_level.txt", name),
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (folder / "paying.py").write_text("import over\n\ndef scale():\n    return 1.0\n")
    monkeypatch.syspath_prepend(installed)
    import_module("over")
    forget(own_code)
    found = versions_of("mine:Mine-v0", "mine:Mine")
    assert {name: found.get(name) for name in names} == dict.fromkeys(names, "1.0")
    assert "numpy" in found and "torch" not in found
    for name in names:
        del sys.modules[name]


def test_what_an_environment_imports_in_a_later_step_is_imported_at_the_start(folder):
    """An edit of it during a training would change the numbers, under the fingerprint of before."""
    (folder / "later.py").write_text("SIZE = 1.0\n")
    (folder / "broken.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "paying.py").write_text(
        "def scale():\n    import later\n    if later.SIZE < 0:\n        import broken\n"
        "    return later.SIZE\n"
        "if __name__ == '__main__':\n    import script\n"
    )
    (folder / "script.py").write_text("raise KeyboardInterrupt\n")
    forget(own_code)
    import_own("mine:Mine-v0", "mine:Mine")
    assert sys.modules["later"].SIZE == 1.0 and "broken" not in sys.modules
    for name in ("later", "paying"):
        del sys.modules[name]


def test_an_environment_that_is_edited_while_a_training_starts_trains_nothing(folder):
    """Even if the edit is undone before anything could compare contents."""
    program = f"""
import pathlib, sys
from hindsight.cli import main
from hindsight.specs.gymnasium import GymnasiumSpec
made, source = GymnasiumSpec._can_be_made, pathlib.Path("paying.py")
before = source.read_text()
source.write_text(before + "# edited")
sys.argv = ["hindsight", *{TRAIN!r}]
import hindsight.specs.own_code as own_code
noted = own_code.note
def note(name):
    noted(name)
    source.write_text(before)
own_code.note = note
import hindsight.specs.gymnasium as gymnasium_specs
gymnasium_specs.note = note
main()
"""
    ran = python(program, cwd=folder).finished()
    assert ran.returncode == 1
    assert "paying.py changed while this training began; type the same command" in ran.stderr
    assert not [*folder.rglob("*.parquet")]


@pytest.mark.parametrize(
    ("files", "module", "field", "named"),
    [
        (["first"], "kinds.third", "name", "first: One.module is kinds.third, and there is no"),
        (["first"], "kind.third", "name", "first: One.module is kind.third, and there is no"),
        (["first"], "kinds", "nam", "first: One needs a field 'name'"),
        (["first", "second"], "kinds", "name", "second: One has the name 'one', which kinds.first"),
    ],
)
def test_mistakes_in_registered_classes(files, module, field, named, tmp_path, monkeypatch):
    (tmp_path / "kinds").mkdir()
    text = (
        "from typing import ClassVar\nfrom hindsight.specs.base import Spec\nclass One(Spec):\n"
        f"    module: ClassVar[str] = '{module}'\n    {field}: str = 'one'\n"
    )
    (tmp_path / "kinds/__init__.py").touch()
    for name in files:
        (tmp_path / f"kinds/{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for imported in ("kinds", "kinds.first", "kinds.second"):
        monkeypatch.delitem(sys.modules, imported, raising=False)
    with pytest.raises(SpecError, match=f"kinds.{named}"):
        subclasses_by("kinds", [str(tmp_path / "kinds")], Spec, "name")


def test_a_misspelt_kind_of_actions_is_refused():
    with pytest.raises(SpecError, match=r"Own\.actions: 'descrete' is unknown; use"):
        type("Own", (ALGORITHMS["sac"],), {"actions": "descrete"})
