"""Take the two screenshots of the explorer that README shows, from the sample.

    python tools/explorer_pictures.py [--to docs/images]

Ingests the sample into a new store, with the default embedder and names by rule, serves the explorer, and takes the
screenshots in the chromium of the system (``pip install 'kvstore-db[test-browser]'``). Run it again after a page that
they show has changed.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import kvstore
from kvstore import sample

#: The pictures: the file name, the address, and the element that must be present before the screenshot.
PICTURES = (
    ("explorer-answer.png", "/ask?q=Who+built+the+Marl+siren%3F", "main"),
    ("explorer-name.png", "/entity/Tolland", "#network[data-names]"),
)
_SIZE = {"width": 1320, "height": 800}
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
#: The token of the address of the explorer; any text.
_TOKEN = "the-token"


@contextmanager
def serve_explorer(path: Path, token: str) -> Iterator[int]:
    """Serve the explorer of a store from a thread, at a free port of this machine; yield the port."""
    import uvicorn

    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        store = FollowedStore(path)
        server = uvicorn.Server(uvicorn.Config(make_explorer(store, token=token, port=port), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield port
        finally:
            server.should_exit = True
            thread.join()
            store.close()


@click.command()
@click.option("--to", "folder", type=click.Path(path_type=Path), default=Path("docs/images"), show_default=True)
def main(folder: Path) -> None:
    """Ingest the sample, and save a screenshot of each page of PICTURES."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("there is no chromium on this machine; install it")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "lights"
        with kvstore.open(path, settings={"language": "rules"}) as store:
            store.ingest([sample.folder()])
            store.ingest([sample.hierarchy()], format="pairs")
        with serve_explorer(path, _TOKEN) as port, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
            page = browser.new_page(viewport=_SIZE, color_scheme="light")
            page.goto(f"http://127.0.0.1:{port}/?token={_TOKEN}")
            page.wait_for_selector("main")
            for name, address, selector in PICTURES:
                page.goto(f"http://127.0.0.1:{port}{address}", wait_until="networkidle")
                page.wait_for_selector(selector)
                page.screenshot(path=str(folder / name))
                print(f"{folder / name}: {(folder / name).stat().st_size:,} bytes")
            browser.close()


if __name__ == "__main__":
    main()
