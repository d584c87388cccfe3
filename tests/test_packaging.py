"""The package as users get it: a wheel with all files, under its name on PyPI."""

import sys
import zipfile
from email.parser import Parser

import pytest
import yaml

import hindsight
from tests.support.commands import program
from tests.support.configuration import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from what git tracks, by the build system that pyproject.toml names."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = ("git", "ls-files", "-z", "src", "pyproject.toml", "README.md", "LICENSE")
    for name in filter(None, program(*listed, cwd=ROOT).stdout.split("\0")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", folder]
    done = program(*command, source)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_its_name_and_version_are_those_cited(wheel):
    assert wheel.name == f"hindsight_rl-{hindsight.__version__}-py3-none-any.whl"
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == hindsight.__version__
    assert f"\n## {hindsight.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version = {{{hindsight.__version__}}}" in (ROOT / "README.md").read_text("utf-8")


def test_it_holds_every_file_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as held:
        names = {name for name in held.namelist() if name.startswith("hindsight/")}
        (about,) = [name for name in held.namelist() if name.endswith(".dist-info/METADATA")]
        told = Parser().parsestr(held.read(about).decode())
    package = ROOT / "src/hindsight"
    there = {
        f"hindsight/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == there
    assert told["License-Expression"] == "MIT" and told["Name"] == "hindsight-rl"


def test_training_needs_none_of_what_reports_need(tmp_path):
    """The extra `report`: training and filming need none of it; drawing names what is missing."""
    code = (
        "import sys; sys.modules.update({'jinja2': None, 'seaborn': None}); "
        "from hindsight import PPO; from hindsight.cli import main; "
        "model = PPO('PointReach-v0', seeds=1, n_steps=50, batch_size=50); "
        "model.learn(50).film('p.gif', episodes=1); "
        "sys.argv = ['hindsight', 'report', *'abc', '--input=d']; main()"
    )
    done = program(sys.executable, "-c", code, cwd=tmp_path)
    assert (tmp_path / "p.gif").exists() and done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == (
        "error: figures and reports need the package jinja2: "
        "pip install jinja2 markdown-it-py seaborn"
    )
