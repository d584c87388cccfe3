"""A page asked, in Chromium, what it shows."""

import json
import queue
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.wants import wants


class _Served(SimpleHTTPRequestHandler):
    """The folder's files; what the page posts goes into the server's queue."""

    def do_POST(self) -> None:
        found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.found.put(found)  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def probed(page: str, tmp_path: Path, question: str, *, dark: bool = False) -> Any:
    """What a JavaScript expression, awaited once the page has loaded, gives.

    The page posts it to a server of ours. Chromium can also print a page after some seconds of a
    clock that runs ahead; but on a busy machine that clock runs out before a frame is drawn.
    """
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    wants(browser, "a browser", "chromium")
    probe = f"""<script>addEventListener("load", async () => {{
      const found = await (async () => {{ {question} }})().catch((error) => String(error.stack));
      await fetch("/found", {{method: "POST", body: JSON.stringify(found)}});
    }});</script>"""
    before, end, after = page.rpartition("</body>")
    (tmp_path / "page.html").write_text(before + probe + end + after, encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Served, directory=str(tmp_path)))
    server.found = queue.Queue()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [
        str(browser), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--window-size=1600,1000", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"http://127.0.0.1:{server.server_port}/page.html",
    ]  # fmt: skip
    with open(tmp_path / "said", "w+") as said, server:
        shown = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            return server.found.get(timeout=180)  # type: ignore[attr-defined]
        except queue.Empty:
            pytest.fail(f"no answer from the page: {(tmp_path / 'said').read_text()[-1000:]}")
        finally:
            shown.terminate()
            shown.wait()
            server.shutdown()
