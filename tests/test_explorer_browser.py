"""The explorer in a real browser: nothing fails, nothing comes from elsewhere, everybody can use it.

Run by ``make test-browser``; needs playwright, axe-playwright-python and a chromium of the system, and says so where
one is missing.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.etree import ElementTree

import pytest
from tool_modules import import_tool

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
    "/names": ["/names", "/names?q=e&kind=name"],
    "/trees": ["/trees"],
    "/tree/": ["/tree/hierarchy", "/tree/hierarchy?under=Corrin%20Sound"],
    "/topics": ["/topics", "/topics?level=1"],
    "/topic/": ["/topic/0"],
    "/communities": ["/communities"],
    "/community/": ["/community/0/agnes%20marl"],
    "/health": ["/health"],
    "/map": ["/map", f"/map?q={QUESTION}&colour=topic"],
    "/sql": ["/sql?sql=SELECT+key%2C+title+FROM+documents", "/sql"],
}


@dataclass(frozen=True)
class ServedStore:
    """A running explorer: its port, the store's path, and the digest of its file at the start."""

    port: int
    path: Path
    digest: str

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def compute_digest(path: Path) -> str:
    return hashlib.sha256((path / "data.mdb").read_bytes()).hexdigest()


@contextmanager
def serve_explorer(path: Path) -> Iterator[ServedStore]:
    pytest.importorskip("uvicorn")
    digest = compute_digest(path)
    with import_tool("explorer_pictures").serve_explorer(path, TOKEN) as port:
        yield ServedStore(port, path, digest)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    """Yield an explorer of the sample and of documents with markup, and assert that it writes nothing."""
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
    with serve_explorer(path) as watched:
        yield watched
    assert compute_digest(path) == watched.digest


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
class WatchedPage:
    """A page in a browser, its errors and its requests."""

    page: Any
    wrong: list[str]
    requests: list[str]


@pytest.fixture
def open_page(chromium: Any, served: ServedStore) -> Iterator[Callable[..., WatchedPage]]:
    """Yield a factory of pages for a user with the token; they record every error."""
    contexts = []

    def open_watched_page(*, width: int = 1400, **options: Any) -> WatchedPage:
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        watched = WatchedPage(page, [], [])
        page.goto(f"{served.origin}/?token={TOKEN}")
        page.wait_for_selector("main")
        page.on("console", lambda message: watched.wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: watched.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (watched.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: watched.requests.append(request.url))
        return watched

    yield open_watched_page
    for context in contexts:
        context.close()


def list_addresses() -> list[str]:
    """Return the addresses of every page."""
    from kvstore.integrations.explore.application import PAGES

    return [address for page in PAGES for address in ADDRESSES[page.url]]


def visit(watched: WatchedPage, served: ServedStore, address: str) -> Any:
    response = watched.page.goto(served.origin + address, wait_until="networkidle")
    assert response.status == 200, address
    return watched.page


def test_nothing_fails_and_nothing_is_loaded_from_other_hosts(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    for options in ({"width": 1600, "color_scheme": "light"}, {"width": 400, "color_scheme": "dark"}):
        watched = open_page(**options)
        for address in list_addresses():
            page = visit(watched, served, address)
            assert page.evaluate("document.documentElement.scrollWidth") <= options["width"], address
            assert watched.wrong == [], address
        assert {urlsplit(url).netloc for url in watched.requests} == {f"127.0.0.1:{served.port}"}


def test_marked_text_is_the_cited_text(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page(java_script_enabled=False)
    with kvstore.open(served.path, readonly=True) as store:
        questions = [question for question, _ in sample.QUESTIONS]
        names = [name for (name,) in store.execute("SELECT name FROM entities ORDER BY mentions DESC, key LIMIT 50")]
        questions += [f"What is {name}?" for name in names][: 50 - len(questions)]
        places = {}
        for question in questions:
            for hit in store.retrieve(question, top=1).hits:
                places[hit.document, hit.start, hit.end] = question
        texts = {key: store.get(key).text.encode() for key, _, _ in places}  # type: ignore[union-attr]
    from kvstore.integrations.explore.document_text import strip_markdown
    from kvstore.integrations.explore.urls import build_document_url

    for key, start, end in places:
        cited, address = texts[key][start:end].decode(), build_document_url(key, start, end)
        page = visit(watched, served, address.replace("?", "?view=text&"))
        assert "".join(page.locator("mark").all_text_contents()) == cited, key
        page = visit(watched, served, address)
        marked = "".join(page.locator("mark").all_text_contents())
        assert re.sub(r"\W", "", marked) == re.sub(r"\W", "", strip_markdown(cited)), key
    assert len(questions) == 50 and watched.wrong == []


def test_markup_in_documents_is_text(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    from kvstore.integrations.explore.urls import build_document_url, build_entity_url

    watched = open_page()
    for address in (
        build_document_url(HOSTILE),
        build_entity_url(HOSTILE),
        build_entity_url("Tolland"),
        "/documents",
        "/",
    ):
        page = visit(watched, served, address)
        assert page.locator("main img").count() == 0
        assert page.locator("main script:not([type='application/json'])").count() == 0
    assert watched.wrong == []
    visit(watched, served, build_document_url(HOSTILE))
    assert HOSTILE in watched.page.text_content("main")


def fetch_status(served: ServedStore, method: str, path: str, **headers: str) -> int:
    """Return the status of a request that no browser would send."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_an_unauthorized_request_is_refused(
    chromium: Any, open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    page = chromium.new_page()
    assert page.goto(f"{served.origin}/documents").status == 403
    assert page.goto(f"{served.origin}/?token=another").status == 403
    assert page.goto(f"{served.origin}/").status == 403
    page.close()
    authorized_page = open_page().page
    (cookie,) = authorized_page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    headers = {"cookie": f"{cookie['name']}={cookie['value']}"}
    assert fetch_status(served, "GET", "/", **headers) == 200
    assert fetch_status(served, "GET", "/", host=f"evil.example:{served.port}", **headers) == 403
    assert fetch_status(served, "GET", "/", host="127.0.0.1", **headers) == 403
    assert fetch_status(served, "GET", "/", origin="https://evil.example", **headers) == 403
    assert fetch_status(served, "GET", "/map.json", sec_fetch_site="cross-site", **headers) == 403
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert fetch_status(served, method, "/", **headers) == 405
    for path in ("/static/../page.py", "/static/..%2fpage.py", "/static/%2e%2e/page.py", "/static/....//page.py"):
        assert fetch_status(served, "GET", path, **headers) == 404, path
    # A page of another origin may neither read the store nor frame a page of it.
    foreign_page = authorized_page.context.new_page()
    foreign_page.goto("about:blank")
    read = f"fetch('{served.origin}/index.json', {{credentials: 'include'}}).then(() => 'read', () => 'refused')"
    assert foreign_page.evaluate(read) == "refused"


def test_a_click_on_a_name_shows_its_surroundings(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page()
    page = visit(watched, served, "/entity/Tolland")
    page.wait_for_selector("#network[data-names]")
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
    assert set(dashed) == {"dashed"} and middle["x"] > 0 and watched.wrong == []


def test_a_map_of_200_000_points_is_drawn(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    import numpy as np

    count = 200_000
    random = np.random.default_rng(1)
    points = np.clip(random.normal(32768, 9000, (2, count)), 0, 65535).astype("<u2")
    packed = points.tobytes() + random.integers(0, 4, count, dtype=np.uint8).tobytes()
    watched = open_page()
    watched.page.route(
        "**/map.points*", lambda route: route.fulfill(body=packed, content_type="application/octet-stream")
    )
    page = visit(watched, served, "/map")
    page.wait_for_selector(f"#map[data-drawn='{count}']")
    script = "(() => { const c = document.querySelector('canvas'); const d = c.getContext('2d')"
    script += (
        ".getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0;"
    )
    assert page.evaluate(script + " return n; })()") > 10_000
    assert watched.wrong == []


def test_a_point_shows_its_label(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page()
    page = visit(watched, served, f"/map?q={QUESTION}")
    page.wait_for_selector("#map[data-drawn]")
    page.focus("canvas")
    for _ in range(30):
        if page.is_visible("#point"):
            break
        page.keyboard.press("-")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    page.wait_for_selector("#point a[href^='/doc/']")
    assert page.text_content("#point .excerpt")
    first = page.locator(".legend button").first
    first.click()
    assert first.get_attribute("aria-pressed") == "true" and watched.wrong == []


def test_without_javascript_all_but_the_pictures_works(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    watched = open_page(java_script_enabled=False)
    for address in list_addresses():
        page = visit(watched, served, address)
        assert len(page.text_content("main").split()) > 20 or "q=" not in address, address
    page = visit(watched, served, "/entity/Tolland")
    assert page.locator("tbody a.name").count() >= 20 and "Corrin Sound" in page.text_content("main")
    page = visit(watched, served, f"/map?q={QUESTION}")
    assert page.locator(".ranked li").count() == 10 and page.locator(".legend li").count() > 3
    page = visit(watched, served, "/")
    page.fill("input[name=q]", "Who built the Marl siren?")
    page.press("input[name=q]", "Enter")
    page.wait_for_url("**/ask?q=**")
    assert "Agnes Marl" in page.text_content("main")


def test_a_screen_reader_and_a_keyboard_can_use_it(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
        watched = open_page(color_scheme=scheme, width=width)
        for address in list_addresses():
            page = visit(watched, served, address)
            grave = [
                (finding["id"], finding["help"], [node["target"] for node in finding["nodes"]][:3])
                for finding in axe.run(page).response["violations"]
                if finding["impact"] in ("serious", "critical") or finding["id"] == "landmark-unique"
            ]
            assert grave == [], (scheme, width, address)
            page.keyboard.press("Tab")
            if "#" not in address:  # else the keyboard goes on from the place that the address names
                assert page.evaluate("document.activeElement.className") == "skip", address


def test_pages_fit_a_narrow_screen(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    measure_overflow = "node => node.scrollWidth - node.clientWidth"
    watched = open_page(width=390)
    for address in list_addresses():
        page = visit(watched, served, address)
        assert page.eval_on_selector("html", measure_overflow) == 0, address
    page = visit(watched, served, "/names")
    assert page.eval_on_selector("main .scroll", measure_overflow) == 0
    # A column of long texts is not narrowed to single words.
    page = visit(watched, served, "/sql?sql=SELECT+*+FROM+chunks")
    assert page.eval_on_selector("td.long", "node => node.clientWidth") >= 250


def test_an_invalid_condition_is_reported_beside_its_form(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    page = visit(open_page(), served, "/documents?q=siren")
    page.fill("input[name=where]", "titel = 1")
    page.press("input[name=where]", "Enter")
    page.wait_for_selector("#found [role=alert]")
    assert "there is no column titel" in page.text_content("#found")
    assert page.input_value("input[name=q]") == "siren"
    page.fill("input[name=where]", "key LIKE 'equipment/%'")
    page.press("input[name=where]", "Enter")
    page.wait_for_selector("#found .documents")
    assert page.text_content("#found [role=status]").strip().startswith("1 of ")


def test_back_restores_the_filter_with_its_documents(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    watched = open_page()
    page = visit(watched, served, "/documents")
    for text in ("siren", "petrel"):
        page.fill("input[name=q]", text)
        page.wait_for_url(f"**q={text}**")
    page.go_back()
    # The address changes before the page is loaded again.
    page.wait_for_selector("input[name=q][value=siren]")
    page.wait_for_load_state()
    assert page.input_value("input[name=q]") == "siren" and "Siren broken" in page.text_content("#found")
    assert watched.wrong == []


def test_buttons_and_lists_are_aligned(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page(width=390)
    for address, buttons in (("/sql", "#saving"), ("/entity/Tolland", ".controls"), ("/map", ".legend")):
        page = visit(watched, served, address)
        margins = page.eval_on_selector_all(
            f"{buttons} button", "nodes => nodes.map(node => getComputedStyle(node).marginBottom)"
        )
        assert margins and set(margins) == {"0px"}, address
    page = visit(watched, served, "/ask?q=What+are+these+documents+about%3F")
    # The bullets of a list are outside of its items.
    assert page.eval_on_selector(".answer li", "node => node.getBoundingClientRect().left") >= 32
    assert watched.wrong == []


def test_a_heading_does_not_repeat_the_title_of_its_document(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    page = visit(open_page(), served, f"/ask?q={QUESTION}")
    places = [" ".join(place.split()) for place in page.locator(".hits .place").all_text_contents()]
    assert re.fullmatch(r"1 The Marl siren [\d.]+", places[0])
    assert any(re.fullmatch(r"\d The Marl siren › Care [\d.]+", place) for place in places)
    page = visit(open_page(), served, "/entity/Marl%20siren")
    excerpts = page.locator("#places ~ ul .excerpt").all_text_contents()
    assert excerpts and not any("The Marl siren The Marl siren" in excerpt for excerpt in excerpts)


def test_a_wide_result_has_the_width_of_the_page(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page(width=1280)
    page = visit(watched, served, "/sql?sql=SELECT+*+FROM+chunks+LIMIT+20")
    assert page.eval_on_selector(".scroll", "node => node.scrollWidth - node.clientWidth") == 0
    assert page.eval_on_selector("td.long", "node => node.clientWidth") >= 400
    page.evaluate("scrollTo(0, 1e6)")
    assert page.eval_on_selector("#saving", "node => node.getBoundingClientRect().bottom") < 0, "it covers the rows"
    page = visit(watched, served, "/sql?sql=EXPLAIN+ASK+%27Who+built+the+Marl+siren%3F%27")
    column = page.locator("tbody tr", has_text="decompose question").locator("td").first
    assert column.bounding_box()["height"] < 50, "a word is broken"
    # The name of an abstract in the rows of EXPAND is not an entity.
    page = visit(watched, served, "/sql?sql=EXPAND+%27Tolland%27")
    links = set(page.eval_on_selector_all(".rowset a[href^='/entity/']", "nodes => nodes.map(node => node.href)"))
    assert len(links) >= 3 and all(page.request.get(link).ok for link in links)
    assert watched.wrong == []


def test_parts_of_a_long_document_are_navigated(open_page: Callable[..., WatchedPage], tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with kvstore.open(tmp_path / "notes", embedder="hashing", settings={"language": "rules"}) as store:
        store.put("log", "\n\n".join(f"Entry {number}. The lamp was lit at sunset." for number in range(4000)))
    with serve_explorer(tmp_path / "notes") as long:
        watched = open_page()
        watched.page.goto(f"{long.origin}/?token={TOKEN}")
        watched.page.wait_for_selector("nav")
        page = visit(watched, long, "/doc/log")
        assert [finding["id"] for finding in axe.run(page).response["violations"]] == []
        page.click("a[rel=next] >> nth=0")
        page.wait_for_url("**part=1**")
        assert watched.wrong == []


def test_a_slash_focuses_the_search(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page()
    for address, field in (("/names", "input[name=q]"), ("/sql", "#sql"), ("/", "#q")):
        page = visit(watched, served, address)
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.matches(" + repr(field) + ")"), address
        assert page.input_value(field) == ""
    page = visit(watched, served, "/health")
    page.keyboard.press("/")
    page.wait_for_url("**/ask")
    assert watched.wrong == []


def test_a_name_leads_to_its_documents_relations_and_tree(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    watched = open_page()
    page = visit(watched, served, "/names?q=tolland+head")
    page.click("tbody a.name >> text=/^Tolland Head$/")
    page.wait_for_selector("#network[data-shown]")
    assert page.locator("#places ~ ul li").count() > 3 and page.locator("#near ~ .scroll tbody tr").count() > 3
    page.click("main a >> text=hierarchy")
    page.wait_for_url("**/tree/hierarchy**")
    assert "Tolland Head" in page.text_content("h1") and watched.wrong == []


def test_the_picture_of_a_name_is_filtered_pinned_and_saved(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    watched = open_page()
    page = visit(watched, served, "/entity/Tolland")
    page.wait_for_selector("#network[data-shown]")
    everything = int(page.get_attribute("#network", "data-shown"))
    page.uncheck("[data-kind=passages]")
    fewer = int(page.get_attribute("#network", "data-shown"))
    page.uncheck("[data-kind=documents]")
    page.evaluate("() => { const least = document.getElementById('least'); least.value = 1;"
                  " least.dispatchEvent(new Event('input')); }")  # fmt: skip
    assert everything >= fewer > int(page.get_attribute("#network", "data-shown")) > 1
    kinds = page.evaluate("kvstoreNetwork.edges().not('.hidden').map(edge => edge.data('kind'))")
    assert set(kinds) <= {"trees", "links"}
    for button, mark in (("#save-svg", "<svg xmlns"), ("#save-graphml", "<graphml xmlns")):
        with page.expect_download() as download:
            page.click(button)
        text = Path(download.value.path()).read_text(encoding="utf-8")
        assert mark in text and "Tolland" in text and "Ewan Strand" not in text
        assert button != "#save-svg" or text.count('marker-end="url(#arrow)"') >= 2
        ElementTree.fromstring(text)
    # A name is highlighted with the names that its visible lines lead to.
    highlighted = page.evaluate("(() => { const node = kvstoreNetwork.nodes('.middle')[0]; node.emit('mouseover');"
                                " const names = kvstoreNetwork.nodes().not('.far').map(other => other.id());"
                                " node.emit('mouseout'); return names; })()")  # fmt: skip
    neighbors = page.evaluate("(() => { const lines = kvstoreNetwork.nodes('.middle').connectedEdges().not('.hidden');"
                              " return lines.connectedNodes().map(other => other.id()); })()")  # fmt: skip
    assert sorted(highlighted) == sorted(neighbors) and len(neighbors) > 1
    page.evaluate("() => { const node = kvstoreNetwork.nodes('.name').not('.middle')[0];"
                  " node.position({ x: 40, y: 50 }); node.emit('dragfree'); }")  # fmt: skip
    pinned = page.evaluate("kvstoreNetwork.nodes('.pinned').map(node => node.position())")
    page.click("#release")
    assert pinned == [{"x": 40, "y": 50}] and page.evaluate("kvstoreNetwork.nodes('.pinned').length") == 0
    page.select_option("#depth", "2")
    page.wait_for_url("**depth=2**")
    page.wait_for_selector("#network[data-shown]")
    assert int(page.get_attribute("#network", "data-names")) > 25 and watched.wrong == []


def test_the_map_has_labels_of_clusters(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page()
    page = visit(watched, served, "/map")
    page.wait_for_selector("#map[data-labels]")
    assert int(page.get_attribute("#map", "data-labels")) >= 5 and page.locator(".legend li").count() >= 5
    assert " · " in page.text_content(".legend") and watched.wrong == []
    page = visit(open_page(width=390), served, "/map")
    box = page.locator("canvas").bounding_box()
    assert box["height"] <= 390, "the map is a square, so that it does not fill the screen"


def test_rows_are_sorted_paged_saved_and_stopped(
    open_page: Callable[..., WatchedPage], served: ServedStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    watched = open_page()
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1823) SELECT i FROM n"
    page = visit(watched, served, f"/sql?{urlencode({'sql': numbers})}")
    assert "the first 500 of 1,823 rows" in page.text_content("main")
    page.click("a[rel=next]")
    page.wait_for_url("**page=2**")
    assert page.text_content("tbody tr td") == "501"
    page.click("thead a")
    page.wait_for_url("**sort=1**")
    page.click("thead a")
    page.wait_for_url("**down=1**")
    assert page.text_content("tbody tr td") == "1823" and page.get_attribute("thead th", "aria-sort") == "descending"
    page.fill("#saving-name", "numbers")
    page.click("#saving button")
    page.wait_for_selector("#saved a")
    assert page.text_content("#saved a") == "numbers"
    page.reload()
    page.click("#saved button")
    page.wait_for_selector("#saved a", state="detached")
    page.fill("#sql", numbers.replace(" LIMIT 1823", "").replace("SELECT i FROM", "SELECT max(i) FROM"))
    page.press("#sql", "Escape")
    # A click waits for the page that is being loaded, which the statement delays.
    page.evaluate("() => { setTimeout(() => { const stop = document.getElementById('stop');"
                  " if (!stop.hidden) stop.click(); }, 700); }")  # fmt: skip
    start = time.monotonic()
    page.click("form.statement button >> text=Run", no_wait_after=True)
    page.wait_for_selector("[role=alert]", timeout=30_000)
    assert time.monotonic() - start < 15, "without the button it ends after 20 seconds"
    assert "stopped" in page.text_content("[role=alert]") or "interrupted" in page.text_content("[role=alert]")
    assert watched.wrong == []


def test_completions_neither_cover_the_button_nor_come_late(
    open_page: Callable[..., WatchedPage], served: ServedStore
) -> None:
    for width in (1280, 390):
        watched = open_page(width=width)
        page = visit(watched, served, "/sql")
        page.focus("#sql")
        page.keyboard.type("SELECT key FROM documents ORDER BY c")
        page.wait_for_selector("#offered li")
        page.click("form.statement button >> text=Run", timeout=5000)
        page.wait_for_url("**sql=SELECT**")
        assert page.input_value("#sql").endswith("ORDER BY c")
        page = visit(watched, served, "/sql")
        page.focus("#sql")
        page.keyboard.type("SELECT key FROM doc")
        page.keyboard.press("Escape")
        page.wait_for_timeout(600)
        assert page.is_hidden("#offered") and watched.wrong == []


def test_markdown_is_rendered_and_marked(open_page: Callable[..., WatchedPage], served: ServedStore) -> None:
    watched = open_page()
    page = visit(watched, served, "/doc/equipment/petrel.md?start=0&end=300")
    assert page.locator(".rendered table td").count() >= 4 and page.locator(".rendered em").count() >= 2
    assert page.locator(".rendered mark").count() >= 2 and page.locator(".rendered a.name").count() > 5
    page.click(".views a")
    page.wait_for_url("**view=text**")
    with kvstore.open(served.path, readonly=True) as store:
        text = store.get("equipment/petrel.md").text  # type: ignore[union-attr]
    assert page.text_content(".text") == text and watched.wrong == []


def test_an_empty_store_says_how_to_fill_it(open_page: Callable[..., WatchedPage], tmp_path: Path) -> None:
    kvstore.open(tmp_path / "notes", embedder="hashing", settings={"language": "rules"}).close()
    with serve_explorer(tmp_path / "notes") as empty:
        watched = open_page()
        watched.page.goto(f"{empty.origin}/?token={TOKEN}")
        watched.page.wait_for_selector("nav")
        for address in ("/", "/names", "/topics", "/communities", "/health", "/documents", "/map", "/trees"):
            page = visit(watched, empty, address)
            assert "kvstore ingest notes F" in page.text_content("main"), address
            assert page.locator("canvas").count() == 0, address
        assert watched.wrong == []
