"""The explorer in a real browser: nothing fails, nothing comes from elsewhere, everybody can use it.

Run by ``make test-browser``; needs playwright, axe-playwright-python and a chromium of the system, and says so where
one is missing.
"""

from __future__ import annotations

import hashlib
import http.client
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tool_modules import tool_module

import kvstore
from kvstore import sample

pytestmark = pytest.mark.browser

TOKEN = "the-token"
#: What chromium is told: neither to sandbox itself (root may not), nor to ask anybody for anything.
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"
QUESTION = "Who+built+the+Marl+siren%3F"
#: An address or two of every page.
ADDRESSES = {
    "/": ["/"],
    "/documents": ["/documents", "/documents?q=siren", "/documents?where=key+LIKE+%27people/%25%27"],
    "/doc/": ["/doc/people/agnes-marl.md?start=0&end=12#mark"],
    "/ask": [f"/ask?q={QUESTION}", "/ask"],
    "/compare": [f"/compare?q={QUESTION}"],
    "/entity/": ["/entity/Tolland"],
    "/map": ["/map", f"/map?q={QUESTION}&colour=topic"],
    "/sql": ["/sql?sql=SELECT+key%2C+title+FROM+documents", "/sql"],
}


@dataclass(frozen=True)
class Served:
    """An explorer that runs: its port, the store's path, and how its file was before."""

    port: int
    path: Path
    digest: str

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def digest_of(path: Path) -> str:
    return hashlib.sha256((path / "data.mdb").read_bytes()).hexdigest()


@contextmanager
def serve_explorer(path: Path) -> Iterator[Served]:
    pytest.importorskip("uvicorn")
    digest = digest_of(path)
    with tool_module("explorer_pictures").serve_explorer(path, TOKEN) as port:
        yield Served(port, path, digest)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The sample, and documents whose names and texts are markup; no document was changed when all is over."""
    pytest.importorskip("starlette")
    path = tmp_path_factory.mktemp("explorer") / "sample"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as store:
        store.ingest([sample.folder()])
        store.ingest([sample.hierarchy()], format="pairs")
        store.put(
            HOSTILE, f"{HOSTILE} Tolland naïve façade 東京 🍵 עברית. {HOSTILE}", title=HOSTILE, meta={"x": HOSTILE}
        )
        store.put_edge(HOSTILE, "Tolland", tree=HOSTILE)
        for kind in ("topics", "communities"):
            store.create_index(kind)
        store.refresh()
    with serve_explorer(path) as found:
        yield found
    assert digest_of(path) == found.digest


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    where = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if where is None:
        pytest.skip("there is no chromium on this machine; install the package chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=where, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page in a browser, and what went wrong in it."""

    page: Any
    wrong: list[str]
    requests: list[str]


@pytest.fixture
def watched(chromium: Any, served: Served) -> Iterator[Callable[..., Watched]]:
    """Create pages for a user with the token; they report every error."""
    contexts = []

    def make(*, width: int = 1400, **options: Any) -> Watched:
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        found = Watched(page, [], [])
        page.goto(f"{served.origin}/?token={TOKEN}")
        page.wait_for_selector("main")
        page.on("console", lambda said: found.wrong.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: found.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (found.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: found.requests.append(request.url))
        return found

    yield make
    for context in contexts:
        context.close()


def addresses() -> list[str]:
    """The addresses of every page that there is."""
    from kvstore.integrations.explore.application import PAGES

    return [address for page in PAGES for address in ADDRESSES[page.url]]


def visit(found: Watched, served: Served, address: str) -> Any:
    answer = found.page.goto(served.origin + address, wait_until="networkidle")
    assert answer.status == 200, address
    return found.page


def test_nothing_fails_and_nothing_is_loaded_from_other_hosts(watched: Callable[..., Watched], served: Served) -> None:
    for options in ({"width": 1600, "color_scheme": "light"}, {"width": 400, "color_scheme": "dark"}):
        found = watched(**options)
        for address in addresses():
            page = visit(found, served, address)
            assert page.evaluate("document.documentElement.scrollWidth") <= options["width"], address
            assert found.wrong == [], address
        assert {urlsplit(url).netloc for url in found.requests} == {f"127.0.0.1:{served.port}"}


def test_marked_text_is_the_cited_text(watched: Callable[..., Watched], served: Served) -> None:
    found = watched(java_script_enabled=False)
    with kvstore.open(served.path, readonly=True) as store:
        asked = [question for question, _ in sample.QUESTIONS]
        names = [name for (name,) in store.execute("SELECT name FROM entities ORDER BY mentions DESC, key LIMIT 50")]
        asked += [f"What is {name}?" for name in names][: 50 - len(asked)]
        places = {}
        for question in asked:
            for hit in store.retrieve(question, top=1).hits:
                places[hit.document, hit.start, hit.end] = question
        texts = {key: store.get(key).text.encode() for key, _, _ in places}  # type: ignore[union-attr]
    from kvstore.integrations.explore.urls import build_document_url

    for key, start, end in places:
        page = visit(found, served, build_document_url(key, start, end))
        marked = "".join(page.locator("mark").all_text_contents())
        assert marked == texts[key][start:end].decode(), key
    assert len(asked) == 50 and found.wrong == []


def test_markup_in_documents_is_text(watched: Callable[..., Watched], served: Served) -> None:
    from kvstore.integrations.explore.urls import build_document_url, build_entity_url

    found = watched()
    for address in (
        build_document_url(HOSTILE),
        build_entity_url(HOSTILE),
        build_entity_url("Tolland"),
        "/documents",
        "/",
    ):
        page = visit(found, served, address)
        assert page.locator("main img").count() == 0
        assert page.locator("main script:not([type='application/json'])").count() == 0
    assert found.wrong == []
    visit(found, served, build_document_url(HOSTILE))
    assert HOSTILE in found.page.text_content("main")


def status_of(served: Served, method: str, path: str, **headers: str) -> int:
    """The status of a request as no browser would send it."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_an_unauthorized_request_is_refused(chromium: Any, watched: Callable[..., Watched], served: Served) -> None:
    page = chromium.new_page()
    assert page.goto(f"{served.origin}/documents").status == 403
    assert page.goto(f"{served.origin}/?token=another").status == 403
    assert page.goto(f"{served.origin}/").status == 403
    page.close()
    known = watched().page
    (cookie,) = known.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    given = {"cookie": f"{cookie['name']}={cookie['value']}"}
    assert status_of(served, "GET", "/", **given) == 200
    assert status_of(served, "GET", "/", host=f"evil.example:{served.port}", **given) == 403
    assert status_of(served, "GET", "/", host="127.0.0.1", **given) == 403
    assert status_of(served, "GET", "/", origin="https://evil.example", **given) == 403
    assert status_of(served, "GET", "/map.json", sec_fetch_site="cross-site", **given) == 403
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert status_of(served, method, "/", **given) == 405
    for path in ("/static/../page.py", "/static/..%2fpage.py", "/static/%2e%2e/page.py", "/static/....//page.py"):
        assert status_of(served, "GET", path, **given) == 404, path
    # A page of another origin may neither read the store nor frame a page of it.
    other = known.context.new_page()
    other.goto("about:blank")
    read = f"fetch('{served.origin}/index.json', {{credentials: 'include'}}).then(() => 'read', () => 'refused')"
    assert other.evaluate(read) == "refused"


def test_a_click_on_a_name_shows_its_surroundings(watched: Callable[..., Watched], served: Served) -> None:
    found = watched()
    page = visit(found, served, "/entity/Tolland")
    before = int(page.get_attribute("#network", "data-names"))
    middle = page.evaluate("kvstoreNetwork.nodes('.middle').renderedPosition()")
    for _ in range(12):
        page.evaluate("() => { kvstoreNetwork.nodes('.name').not('.open')[0]?.emit('tap'); }")
    # Not by a function: the page's policy lets no text be evaluated.
    page.wait_for_selector(f"#network:not([data-names='{before}'])")
    assert before < int(page.get_attribute("#network", "data-names")) <= 150
    styles = page.evaluate("kvstoreNetwork.edges('.solid').map(edge => edge.style('line-style'))")
    assert set(styles) == {"solid"}
    dashed = page.evaluate(
        "kvstoreNetwork.edges().not('.solid').not('.document').map(edge => edge.style('line-style'))"
    )
    assert set(dashed) == {"dashed"} and middle["x"] > 0 and found.wrong == []


def test_a_map_of_200_000_points_is_drawn(watched: Callable[..., Watched], served: Served) -> None:
    import numpy as np

    count = 200_000
    random = np.random.default_rng(1)
    points = np.clip(random.normal(32768, 9000, (2, count)), 0, 65535).astype("<u2")
    packed = points.tobytes() + random.integers(0, 4, count, dtype=np.uint8).tobytes()
    found = watched()
    found.page.route(
        "**/map.points*", lambda route: route.fulfill(body=packed, content_type="application/octet-stream")
    )
    page = visit(found, served, "/map")
    page.wait_for_selector(f"#map[data-drawn='{count}']")
    seen = "(() => { const c = document.querySelector('canvas'); const d = c.getContext('2d')"
    seen += (
        ".getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0;"
    )
    assert page.evaluate(seen + " return n; })()") > 10_000
    assert found.wrong == []


def test_a_point_shows_its_label(watched: Callable[..., Watched], served: Served) -> None:
    found = watched()
    page = visit(found, served, f"/map?q={QUESTION}")
    page.wait_for_selector("#map[data-drawn]")
    page.focus("canvas")
    for _ in range(30):
        if page.is_visible("#point"):
            break
        page.keyboard.press("-")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_load_state("networkidle")
    first = page.locator(".legend button").first
    first.click()
    assert first.get_attribute("aria-pressed") == "true" and found.wrong == []


def test_without_javascript_all_but_the_pictures_works(watched: Callable[..., Watched], served: Served) -> None:
    found = watched(java_script_enabled=False)
    for address in addresses():
        page = visit(found, served, address)
        assert len(page.text_content("main").split()) > 20 or "q=" not in address, address
    page = visit(found, served, "/entity/Tolland")
    assert page.locator("tbody a.name").count() >= 20 and "Corrin Sound" in page.text_content("main")
    page = visit(found, served, f"/map?q={QUESTION}")
    assert page.locator(".ranked li").count() == 10 and page.locator(".legend li").count() > 3
    page = visit(found, served, "/")
    page.fill("input[name=q]", "Who built the Marl siren?")
    page.press("input[name=q]", "Enter")
    page.wait_for_load_state()
    assert "Agnes Marl" in page.text_content("main")


def test_a_screen_reader_and_a_keyboard_can_use_it(watched: Callable[..., Watched], served: Served) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme in ("light", "dark"):
        found = watched(color_scheme=scheme)
        for address in addresses():
            page = visit(found, served, address)
            grave = [
                (finding["id"], finding["help"], [node["target"] for node in finding["nodes"]][:3])
                for finding in axe.run(page).response["violations"]
                if finding["impact"] in ("serious", "critical") or finding["id"] == "landmark-unique"
            ]
            assert grave == [], (scheme, address)
            page.keyboard.press("Tab")
            if "#" not in address:  # else the keyboard goes on from the place that the address names
                assert page.evaluate("document.activeElement.className") == "skip", address
