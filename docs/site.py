"""Turn docs/, README.md and REPLICATION.md into a site, keeping links that leave docs/ valid.

The pages are written to be read in the repository.  On the site, a link to one of them leads to its
page.  A link to any other file leads to a copy of that file, at the same path in the site.  A
notebook becomes a page.
"""

import base64
import json
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
APPENDIX = sorted(ROOT.glob("results/published/appendix/*.md"))
#: Pages that lie outside docs/, by their names on the site.
OUTSIDE = {
    "index.md": "README.md",
    "surprises.md": "findings/README.md",
    **{name: name for name in ("REPLICATION.md", "CONTRIBUTING.md", "CHANGELOG.md")},
    **{path: path for path in (page.relative_to(ROOT).as_posix() for page in APPENDIX)},
}
LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
#: A whole link or image.
WHOLE = re.compile(r"!?\[([^\]]*)\]\(([^)\s#:]+)\)")
#: The page of verdicts, if `make figures` has made it.
PAGE = "figures/published/report.html"


def on_files(files: Files, config: Any) -> Files:
    """Add pages from outside docs/, notebooks as pages, and every file that a page links to."""
    for name, path in OUTSIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if name == "index.md" and (ROOT / PAGE).exists():
            text += f"\n[The verdicts, with their figures]({PAGE})\n"
        files.append(File.generated(config, name, content=text))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        text, pictures = notebook(ROOT / "docs" / file.src_uri)
        files.append(File.generated(config, f"{file.src_uri}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, name, content=content))
    for page in list(files.documentation_pages()):
        for _, target, _ in LINK.findall(page.content_string):
            path = placed(page.src_uri, target)
            if is_held(path) and path not in files.src_uris:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links for the site."""
    here = page.file.src_uri

    def without_absent(found: re.Match[str]) -> str:
        """Drop links to figures that are not there: only `make figures` draws them all."""
        path = placed(here, found[2])
        absent = path.startswith("figures/") and not (ROOT / path).exists()
        return found[1] if absent else found[0]

    def moved(found: re.Match[str]) -> str:
        path = placed(here, found[2])
        if is_held(path):  # a line number makes sense in pages only
            return f"{found[1]}{relative(here, path)})"
        inside = page_of(path)
        target = found[2] if inside is None else relative(here, inside)
        return f"{found[1]}{target}{found[3]}"

    return LINK.sub(moved, WHOLE.sub(without_absent, markdown))


def on_post_build(config: Any) -> None:
    """Copy the page of verdicts with the files that it links to; its links lead to the site's."""
    if not (ROOT / PAGE).exists():
        return
    site = Path(config["site_dir"])

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(PAGE), found[1]))
        inside = page_of(path)
        if inside is not None:
            target = relative(PAGE, re.sub(r"\.md$", ".html", inside))
            return f'href="{target}{found[2] or ""}"'
        if (ROOT / path).is_file():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, site / path)
        return found[0]

    text = (ROOT / PAGE).read_text(encoding="utf-8")
    text = re.sub(r'href="([^"#:]+)(#[^"]*)?"', moved, text)
    (site / PAGE).write_text(text, encoding="utf-8")


def placed(page: str, target: str) -> str:
    """Return the path in the repository to which a page's link leads."""
    folder = posixpath.dirname(OUTSIDE.get(page, f"docs/{page}"))
    return posixpath.normpath(posixpath.join(folder, target))


def is_held(path: str) -> bool:
    """Whether the site has an unchanged copy of this file of the repository."""
    return page_of(path) is None and not path.startswith("docs/") and (ROOT / path).is_file()


def page_of(path: str) -> str | None:
    """Return the site's page, or file below docs/, for a file of the repository, if any."""
    for name, outside in OUTSIDE.items():
        if path == outside:
            return name
    if not path.startswith("docs/"):
        return None
    return path.removeprefix("docs/") + (".md" if path.endswith(".ipynb") else "")


def relative(page: str, target: str) -> str:
    """Return a link from one of the site's files to another."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook's cells and their outputs as Markdown, and its pictures by name."""
    parts, pictures = [], {}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{number}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![{''.join(data['text/plain'])}]({name})")
            else:
                told = "".join(output.get("text") or data.get("text/plain") or ())
                parts.append(f"```text\n{told.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures
