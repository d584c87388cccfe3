"""Point the links of docs/deviations.md to the lines that hold their texts: python -m tests.relink.

A link's text stands in the line that it leads to (test_docs.py); of several such lines the nearest
to the old number is taken.
"""

import re

from tests.test_docs import LINK, ROOT


def main() -> None:
    """Rewrite the page in place; a text that stands nowhere is named."""
    page = ROOT / "docs" / "deviations.md"

    def relinked(found: re.Match[str]) -> str:
        text, path, line = found["text"], page.parent / found["path"], int(found["line"])
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        places = [number for number, content in enumerate(lines, 1) if text in content]
        if not places:
            print(f"{found['path']}: {text!r} stands nowhere")
            return found[0]
        nearest = min(places, key=lambda place: abs(place - line))
        return f"[`{text}`]({found['path']}#L{nearest})"

    page.write_text(LINK.sub(relinked, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
