"""A site mirrored by wget is ingested page by page, as docs/how-to/files.md describes."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kvstore import Store

PAGES = {
    "office/index.html": "<h1>Office</h1><p>The desk is open from nine to five.</p>"
    "<p><a href='page?id=3'>Leave</a> <a href='a%20b/'>More</a></p>",
    "office/page?id=3": "<h1>Leave</h1><p>Maria Jensen approves parental leave.</p>",
    "office/a b/index.html": "<h1>Küche</h1><p>Die Küche ist im Keller. <a href='../../other/index.html'>Up</a></p>",
    "other/index.html": "<h1>Other</h1><p>Not below.</p>",
    "robots.txt": "User-agent: *\n",
}  # fmt: skip


class _Site(http.server.SimpleHTTPRequestHandler):
    """Serve a folder; a query string is part of the name of a file."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.replace("?", "%3F"))

    def guess_type(self, path: object) -> str:
        return "text/plain" if str(path).endswith(".txt") else "text/html; charset=utf-8"

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    for name, text in PAGES.items():
        file = tmp_path / "served" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    handler = functools.partial(_Site, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_site_mirrored_by_wget_is_ingested_page_by_page(
    address: str, tmp_path: Path, make_store: Callable[..., Store]
) -> None:
    wget = shutil.which("wget")
    if wget is None:
        pytest.skip("wget is not installed")
    mirror = [wget, "--mirror", "--no-parent", "--adjust-extension", "--reject", "index.html?C=*", "--no-proxy", "-q"]
    subprocess.run([*mirror, f"http://{address}/office/"], cwd=tmp_path, timeout=60, check=False)
    store = make_store()
    (folder,) = tmp_path.glob("127.0.0.1*")
    report = store.ingest(folder, include=["*.html"])
    assert not report.failures
    assert store.keys() == ["office/a b/index.html", "office/index.html", "office/page?id=3.html"]
    assert {place.document for place in store.lookup("Maria Jensen")} == {"office/page?id=3.html"}
