"""The explorer as a browser meets it: pages and their JSON, who may ask, and texts shown as texts."""

from __future__ import annotations

import csv
import doctest
import importlib
import io
import json
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from model_server import Server, stream_answer

import kvstore
from kvstore.integrations.explore.guard import Guard
from kvstore.integrations.explore.urls import build_document_url, build_path
from kvstore.integrations.saved_queries import load_queries, save_query

pytestmark = pytest.mark.slow

PORT = 8642
HOST = f"http://127.0.0.1:{PORT}"
TOKEN = "the-token"
AS_DATA = {"accept": "application/json"}

#: What a file may be called and say that would be more than a text in a page that did not escape it.
KEYS = ("..", ".", "../up", "a//b", "tea.json", "a?b#c d", "/etc", "x/", "ünï/東京")
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "tea <b>store"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as store:
        store.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea", meta={"year": 1848})
        store.put(
            "hr/leave.md", "# Leave\n\nParental leave lasts 20 weeks – naïve façade 東京 🍵.", meta={"year": 2024}
        )
        for key in (*KEYS, HOSTILE):
            store.put(key, f"Of {key} there is this: {HOSTILE}.", title=f"On {key}", meta={"tag": HOSTILE})
    return path


@pytest.fixture(scope="module")
def application(path: Path) -> Iterator[Guard]:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    before = (path / "data.mdb").read_bytes()
    store = FollowedStore(path)
    yield make_explorer(store, token=TOKEN, port=PORT)
    store.close()
    assert (path / "data.mdb").read_bytes() == before


def make_client(application: Guard) -> Any:
    from starlette.testclient import TestClient

    return TestClient(application, base_url=HOST, follow_redirects=False)


@pytest.fixture
def unauthorized_client(application: Guard) -> Any:
    """Return a client without the token."""
    return make_client(application)


@pytest.fixture
def client(application: Guard) -> Any:
    client = make_client(application)
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    return client


def test_only_the_token_gives_access(unauthorized_client: Any) -> None:
    for address in ("/", "/index.json", "/static/explore.css", "/doc/tea", "/nothing"):
        assert unauthorized_client.get(address).status_code == 403
    for wrong in ("", "x", TOKEN + "x", TOKEN[:-1], "é"):
        assert unauthorized_client.get("/", params={"token": wrong}).status_code == 403
        assert unauthorized_client.post("/enter", data={"token": wrong}).status_code == 403
    assert unauthorized_client.get("/").status_code == 403
    entered = unauthorized_client.post("/enter", data={"token": TOKEN}, headers={"origin": HOST})
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert unauthorized_client.get("/").status_code == 200


def test_another_host_origin_site_or_method_is_refused(client: Any) -> None:
    for host in ("example.org", f"example.org:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"[::1]:{PORT}", ""):
        assert client.get("/", headers={"host": host}).status_code == 403
    for origin in ("http://example.org", "null", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}"):
        assert client.get("/", headers={"origin": origin}).status_code == 403
    assert client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code == 403
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.request(method, "/").status_code == 405
    assert client.post("/enter", data={"token": TOKEN}, headers={"origin": "http://example.org"}).status_code == 403
    assert client.get("/", headers={"origin": HOST}).status_code == 200
    assert client.head("/").status_code == 200


def test_every_response_forbids_foreign_content(client: Any, unauthorized_client: Any) -> None:
    for answer in (
        client.get("/"),
        client.get("/nothing"),
        client.get("/static/explore.css"),
        unauthorized_client.get("/"),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers


def test_nothing_but_the_static_files_is_served_as_a_file(client: Any) -> None:
    for address in (
        "/static/../page.py",
        "/static/%2e%2e/page.py",
        "/static/..%2fpage.py",
        "/static/%2e%2e%2f%2e%2e%2fmcp_server.py",
        "/static//etc/passwd",
        "/static/....//page.py",
        "/static/",
    ):
        assert client.get(address).status_code == 404
    assert client.get("/static/explore.css").status_code == 200


def test_the_first_page_describes_the_store(client: Any) -> None:
    overview = client.get("/index.json").json()
    assert overview["statistics"]["documents"] == 12
    assert {index["kind"] for index in overview["indexes"]} >= {"lexical", "vectors"}
    page = client.get("/").text
    assert "tea &lt;b&gt;store" in page and "Recently changed" in page
    assert "<script>alert" not in page and "onerror=alert(2)>" not in page and "&lt;script&gt;alert(1)" in page


def test_a_missing_object_is_reported_in_a_sentence(client: Any) -> None:
    answer = client.get("/nothing")
    assert answer.status_code == 404 and "There is no page at this URL." in answer.text
    assert client.get("/nothing.json").json() == {"error": "There is no page at this URL."}


class Marks(HTMLParser):
    """The text of each mark of a page, and what elements and addresses a page has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.marks: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self._inside = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value for name, value in attrs if name in ("href", "src", "action") and value is not None]
        if tag == "mark":
            self.marks.append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "mark"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.marks[-1] += data


def list_link_names(page: str) -> list[str]:
    return [unescape(name) for name in re.findall(r'<a class="name[^>]*>(.*?)</a>', page, re.DOTALL)]


PAGES = (
    "/",
    "/documents",
    "/ask?q=What+is+tea+made+from%3F",
    "/compare?q=What+is+tea+made+from%3F",
    "/sql?sql=SELECT+key,+title,+meta+FROM+documents",
    "/names",
    "/trees",
    "/topics",
    "/communities",
    "/health",
    build_document_url("tea"),
    build_document_url(HOSTILE),
)


@pytest.mark.parametrize("address", PAGES)
def test_every_page_has_its_json_and_nothing_from_elsewhere(client: Any, address: str) -> None:
    page = client.get(address)
    assert page.status_code == 200, page.text
    marks = Marks(page.text)
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in marks.links)
    assert not marks.attributes & {"style", "onclick", "onerror", "onload"}
    assert not re.search(r"<script(?! src=)", page.text)
    (twin,) = re.findall(r'<link rel="alternate" type="application/json" href="([^"]*)"', page.text)
    response = client.get(unescape(twin))
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    assert response.json().keys() == client.get(address, headers=AS_DATA).json().keys()


@pytest.mark.parametrize("address", PAGES)
def test_texts_full_of_markup_are_shown_as_texts(client: Any, address: str) -> None:
    page = client.get(address).text
    marks = Marks(page)
    assert "img" not in marks.tags and "onerror" not in marks.attributes
    assert "<script>alert" not in page


@pytest.mark.parametrize("key", [*KEYS, HOSTILE, "tea"])
def test_a_document_has_a_page_whatever_it_is_called(client: Any, key: str) -> None:
    listed = client.get("/documents").text
    address = build_document_url(key)
    assert f'href="{address}"' in unescape(listed)
    # What a browser makes of an address: no step up may be in its path.
    assert not {".", ".."} & set(urlsplit(address).path.split("/"))
    page = client.get(address)
    assert page.status_code == 200
    assert client.get(address, headers=AS_DATA).json()["document"]["key"] == key
    twin = client.get(build_path("/doc/", key + ".json"))
    if key != "tea":
        assert twin.json()["document"]["key"] == key
    else:  # there is a document tea.json, and this is its page
        assert "On tea.json" in twin.text


def test_a_mark_has_the_bytes_that_are_cited(client: Any, path: Path) -> None:
    with kvstore.open(path, readonly=True) as store:
        document = store.get("hr/leave.md")
    assert document is not None
    text = document.text.encode()
    start = text.index("naïve".encode())
    end = text.index("🍵".encode()) + 4
    page = client.get(build_document_url("hr/leave.md", start, end))
    assert Marks(page.text).marks == [text[start:end].decode()]
    places = f"/doc/hr/leave.md?start=0&end=5&start=3&end=7&start={start}&end={end}"
    assert Marks(client.get(places).text).marks == [text[:7].decode(), text[start:end].decode()]
    assert [mark["text"] for mark in client.get(f"{places}&x=1", headers=AS_DATA).json()["marks"]] == [
        text[:7].decode(),
        text[start:end].decode(),
    ]
    inside = client.get(build_document_url("hr/leave.md", start, start + 3)).text  # in the middle of a character
    assert Marks(inside).marks == [] and "are not in this text" in inside
    assert Marks(client.get(build_document_url("hr/leave.md", 0, 10**9)).text).marks == []
    assert client.get("/doc/hr/leave.md?start=x&end=3").status_code == 400
    assert client.get("/doc/hr/leave.md?start=3").status_code == 400
    assert client.get("/doc/none").status_code == 404


def test_the_text_of_a_page_is_that_of_the_document(client: Any, path: Path) -> None:
    with kvstore.open(path, readonly=True) as store:
        for key in store:
            page = client.get(build_document_url(key)).text
            (shown,) = re.findall(r'<div class="text" dir="auto">(.*?)</div>', page, re.DOTALL)
            document = store.get(key)
            assert document is not None
            assert unescape(re.sub(r"<[^>]*>", "", shown)) == document.text
            entities = {unescape(name) for name in list_link_names(shown)}
            stated = store.query("SELECT count(*) FROM mentions WHERE document = ?", (key,)).fetchall()
            assert bool(entities) == bool(stated[0][0])


QUESTIONS = [f"What does passage {number} say of {name}?" for number in range(10) for name in (
    "Tōkyō", "naïve façades", "Ærøskøbing", "the 🍵 of Uji", "Маша Иванова"
)]  # fmt: skip


@pytest.fixture(scope="module")
def scripts_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a client of a store of documents in several scripts."""
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    path = tmp_path_factory.mktemp("scripts") / "store"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules", "chunk_tokens": 60}) as store:
        store.put_many(
            {
                "key": f"passage-{number}",
                "title": f"Passage {number}",
                "text": "\n\n".join(
                    f"Passage {number} says of {name} that it is “{number}” – {word * 9}. Nobody else says so."
                    for name, word in (
                        ("Tōkyō", "東京 "), ("naïve façades", "é"), ("Ærøskøbing", "ø "), ("the 🍵 of Uji", "🍵"),
                        ("Маша Иванова", "да "),
                    )
                ),
            }
            for number in range(10)
        )  # fmt: skip
    followed = FollowedStore(path)
    client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
    client.get("/", params={"token": TOKEN})
    yield client
    followed.close()


def test_of_fifty_questions_every_sentence_leads_to_its_bytes(scripts_client: Any) -> None:
    marks = 0
    for question in QUESTIONS:
        answer = scripts_client.get("/ask.json", params={"q": question}).json()["answer"]
        page = scripts_client.get("/ask", params={"q": question}).text
        links = {link for link in Marks(page).links if link.startswith("/doc/") and "start=" in link}
        assert links
        for link in links:
            places = parse_qsl(urlsplit(link).query)
            document = scripts_client.get(link).text
            document_data = scripts_client.get(urlsplit(link).path + ".json").json()
            text = document_data["text"].encode()
            edges = [int(value) for _, value in places]
            expected = [text[start:end].decode() for start, end in zip(edges[::2], edges[1::2], strict=True)]
            assert Marks(document).marks == expected
            marks += len(expected)
        assert answer["extractive"] and answer["citations"]
        for paragraph in answer["paragraphs"]:
            for run in paragraph:
                assert run["document"] is not None or answer["abstained"]
    assert marks > 100


def test_sentences_of_an_answer_have_places_of_their_own(scripts_client: Any) -> None:
    answer = scripts_client.get("/ask.json", params={"q": QUESTIONS[0]}).json()["answer"]
    runs = [run for paragraph in answer["paragraphs"] for run in paragraph if len(run["places"]) == 1]
    for run in runs:
        data = scripts_client.get(build_path("/doc/", run["document"] + ".json")).json()["text"].encode()
        ((start, end),) = run["places"]
        assert re.sub(r"\W", "", run["text"]) in re.sub(r"\W", "", data[start:end].decode())
    assert runs


def test_the_text_of_a_model_is_streamed(scripts_client: Any, server: Server) -> None:
    server.planned_responses = [stream_answer("Passage 3 says <b>", "it [1]", ", and more.")]
    page = scripts_client.get("/ask", params={"q": QUESTIONS[15]}).text
    draft, _, final = page.partition('<div class="final">')
    assert "Passage 3 says &lt;b&gt;it [1], and more." in draft and "Written by" in final and "<b>it" not in page
    assert (
        scripts_client.get("/ask", params={"q": QUESTIONS[15]}).text.count("Passage 3 says") >= 2
    )  # kept, or asked again


def test_strategies_are_shown_side_by_side_and_in_one_file(scripts_client: Any) -> None:
    comparison = scripts_client.get("/compare.json", params={"q": QUESTIONS[0]}).json()
    by_name = {column["strategy"]: column for column in comparison["columns"]}
    assert next(iter(by_name)) == "adaptive" and "CREATE INDEX units" in by_name["cue"]["problem"]
    places = {}
    for column in by_name.values():
        for hit in column["hits"]:
            place = hit["document"], hit["start"], hit["end"], hit["kind"]
            assert places.setdefault(hit["letter"], place) == place
            assert 1 <= hit["hue"] <= 12
    ranks = {hit["letter"]: hit["rank"] for hit in by_name["adaptive"]["hits"]}
    for hit in by_name["lexical"]["hits"]:
        before = ranks.get(hit["letter"])
        assert hit["rank_change"] == ("new" if before is None else before - hit["rank"])
    file = scripts_client.get("/compare.html", params={"q": QUESTIONS[0]})
    assert "attachment" in file.headers["content-disposition"]
    assert Marks(file.text).links == [] and "<script" not in file.text and "default-src 'none'" in unescape(file.text)
    assert scripts_client.get("/compare", params={"q": "x", "using": "nothing"}).status_code == 400


def test_statements_that_read_give_rows_csv_and_json(client: Any, path: Path) -> None:
    before = (path / "data.mdb").read_bytes()
    statement = "SELECT key, title, bytes, NULL AS empty FROM documents ORDER BY key"
    result = client.get("/sql.json", params={"sql": statement}).json()
    assert result["columns"] == ["key", "title", "bytes", "empty"] and len(result["rows"]) == 12
    rows = list(csv.reader(io.StringIO(client.get("/sql.csv", params={"sql": statement}).text, newline="")))
    assert rows == [
        result["columns"],
        *([str(value) if value is not None else "" for value in row] for row in result["rows"]),
    ]
    assert unescape(client.get("/sql", params={"sql": statement}).text).count(build_document_url("tea")) >= 1
    for refused in ("DELETE FROM documents WHERE 1", "SELECT 1; SELECT 2", "SELEC", "COMPACT", "SET top = 3"):
        assert client.get("/sql.json", params={"sql": refused}).status_code == 400
        assert 'role="alert"' in client.get("/sql", params={"sql": refused}).text
    offered = client.get("/sql/completions.json", params={"before": "SELECT ti"}).json()
    assert {"text": "title", "start": 7, "kind": "column"} in offered
    assert client.get("/sql/completions.json", params={"before": "DEL"}).json() == []
    assert (path / "data.mdb").read_bytes() == before


def test_only_a_column_of_numbers_is_aligned_as_numbers(client: Any) -> None:
    rows = "SELECT 1 AS a, 1 AS b, TRUE = 1 AS c, NULL AS d UNION ALL SELECT 2.5, 'x', NULL, NULL"
    page = client.get("/sql", params={"sql": rows}).text
    headers = re.findall(r"<th scope=\"col\"([^>]*)>", page)
    assert ["number" in header for header in headers] == [True, False, True, False]
    assert page.count('<td class="number"') == 4


def test_infinities_are_text_in_json(client: Any) -> None:
    response = client.get("/sql.json", params={"sql": "SELECT 9e999, -9e999, 1.5, x'00'"})
    assert json.loads(response.text, parse_constant=pytest.fail)["rows"] == [["inf", "-inf", 1.5, "00"]]


def test_rows_with_too_much_text_are_refused_with_the_remedy(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstore.language.bounded_query.MAX_RESULT_BYTES", 1 << 20)
    large, message = (
        "SELECT hex(zeroblob(200000)) FROM documents",
        "the rows have more than 1 MB; select fewer rows or shorter values",
    )
    response = client.get("/sql.json", params={"sql": large})
    assert (response.status_code, response.json()["error"]) == (413, message)
    assert client.get("/sql.csv", params={"sql": large}).status_code == 413
    assert message in client.get("/sql", params={"sql": large}).text
    assert client.get("/sql.json", params={"sql": f"{large} LIMIT 2"}).status_code == 200


def test_rows_that_are_not_shown_are_counted(client: Any) -> None:
    def build_number_query(count: int) -> str:
        return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count}) SELECT i FROM n"

    def get_page(count: int) -> str:
        return str(client.get("/sql", params={"sql": build_number_query(count)}).text)

    assert "the first 500 of 7,823 rows in" in get_page(7823)
    assert "500 rows in" in get_page(500) and "the first 500" not in get_page(500)
    assert ">1 row in" in get_page(1)
    assert "the first 500 of more than 100,000 rows in" in get_page(200_000)
    assert client.get("/sql.json", params={"sql": build_number_query(7823)}).json()["total"] == 7823


def test_rows_are_sorted_and_paged(client: Any) -> None:
    statement = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1203) SELECT i, NULL AS e FROM n"

    def list_numbers(**arguments: object) -> list[str]:
        page = client.get("/sql", params={"sql": statement, **arguments}).text
        return re.findall(r'<tr><td class="number" dir="auto">(\d+)</td>', page)

    assert list_numbers(page=3) == [str(number) for number in range(1001, 1204)]
    assert list_numbers(sort=1, down=1)[:2] == ["1203", "1202"] and list_numbers(sort=1, down=1, page=3)[-1] == "1"
    assert len(list_numbers(sort=2)) == 500 and list_numbers(sort=9)[0] == "1"
    page = client.get("/sql", params={"sql": statement, "page": 2}).text
    assert "rows 501–1,000 of 1,203 rows in" in page and "page=3" in page
    assert client.get("/sql.json", params={"sql": statement, "sort": 1, "down": 1}).json()["rows"][0] == [1203, None]


def test_statements_are_saved_for_the_user(client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def save_statement(origin: str | None, **arguments: str) -> Any:
        return client.post("/sql/saved", params=arguments, headers={"origin": origin} if origin else {})

    for origin in (None, "null", "http://example.org"):
        assert save_statement(origin, name="one", sql="SELECT 1").status_code in (403, 405)
    assert client.get("/sql/saved").status_code == 405 and not list(tmp_path.iterdir())
    assert save_statement(HOST, name="one", sql="SELECT 1").json() == [{"name": "one", "sql": "SELECT 1"}]
    assert 'title="SELECT 1">one</a>' in client.get("/sql").text
    for name, sql, message in (("two words", "SELECT 1", "one word"), ("two", "", "no statement is saved as")):
        refused = save_statement(HOST, name=name, sql=sql)
        assert refused.status_code == 400 and message in refused.json()["error"]
    assert save_statement(HOST, name="one", sql="").json() == []
    assert client.get("/sql/stop?run=unknown").json() == {"stopped": False}


def test_statements_saved_in_two_tabs_at_once_are_all_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    names = [f"query{number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: save_query(name, "SELECT 1"), names))
    assert sorted(load_queries()) == sorted(names)


def test_a_single_item_is_in_the_singular(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"language": "rules"}) as store:
        store.put("a", "The office of Ann Lee is closed.")
        for number in range(9):
            store.put(f"{number}", "Closed.", meta={"number": number})
    followed = FollowedStore(tmp_path / "s")
    client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
    client.get("/", params={"token": TOKEN})
    assert ">and 1 more value</p>" in client.get("/documents").text
    assert "1 names" not in client.get("/health").text and "1 name with" in client.get("/health").text
    followed.close()


def test_lists_are_filtered_counted_and_paged(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"language": "rules"}) as store:
        store.put("a", "Ann Lee met Bo Fay in Oslo. Ann Lee left.\n\nBo Fay wrote of Oslo.", title="Ann Lee")
        with store.transaction() as transaction:
            for number in range(130):
                transaction.put_edge(f"leaf {number:03}", "root", tree="big/../tree")
            transaction.put_edge("deep", "leaf 007", tree="big/../tree")
        store.create_index("topics")
        store.create_index("communities")
    followed = FollowedStore(tmp_path / "s")
    client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
    client.get("/", params={"token": TOKEN})
    names = client.get("/names.json", params={"q": "LEAF"}).json()
    assert (names["count"], len(names["rows"]), names["page_size"]) == (130, 50, 50)
    assert names["rows"][0]["trees"] == 1 and {"value": "tree", "count": 130} in names["kinds"]
    assert len(client.get("/names.json?q=leaf&page=3").json()["rows"]) == 30
    assert client.get("/names.json?kind=nothing").json()["count"] == 0
    (tree,) = client.get("/trees.json?q=big").json()["rows"]
    assert (tree["nodes"], tree["roots"]) == (132, ["root"])
    tree_page = client.get(build_path("/tree/", "big/../tree"), headers=AS_DATA).json()
    assert tree_page["rows"][0]["children"] == 130 and len(tree_page["rows"][0]["below"]) == 100
    assert tree_page["rows"][0]["below"][0] == {
        "entity": "leaf 007", "children": 1, "below": [{"entity": "deep", "children": 0, "below": []}]
    }  # fmt: skip
    under = client.get(build_path("/tree/", "big/../tree"), params={"under": "leaf 007"}, headers=AS_DATA).json()
    assert under["path"] == ["root"] and under["rows"][0]["below"][0]["entity"] == "deep"
    for missing in ("/tree/none", "/tree/big%2F..%2Ftree?under=none", "/topic/x", "/topic/999", "/community/none"):
        assert client.get(missing).status_code == 404, missing
    for kind, key in (("topics", "topic"), ("communities", "community")):
        listing = client.get(f"/{kind}.json").json()
        assert listing["is_built"] and listing["count"] == sum(level["count"] for level in listing["levels"])
        for row in listing["rows"]:
            page = client.get(build_path(f"/{key}/", str(row[key])))
            assert page.status_code == 200 and row["title"] in unescape(page.text)
    followed.close()


def test_the_health_page_shows_the_last_ingests_and_their_failures(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.ingest.ingest_log import log_ingest
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nIt is good.")
    (folder / "bad.docx").write_bytes(b"PK\x03\x04 no archive")
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"language": "rules"}) as store:
        for _ in range(52):
            report = store.ingest(folder)
        dump = list(store.dump())
        (tmp_path / "s" / "ingests.jsonl").write_text((tmp_path / "s" / "ingests.jsonl").read_text() + "broken\n")
        assert list(store.dump()) == dump
    assert report.failures
    followed = FollowedStore(tmp_path / "s")
    client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
    client.get("/", params={"token": TOKEN})
    health = client.get("/health.json").json()
    assert len(health["ingests"]) == 20 and health["ingests"][0]["num_failures"] == 1
    assert health["ingests"][0]["paths"] == [str(folder)] and "bad.docx" in health["ingests"][0]["failures"][0][0]
    assert len((tmp_path / "s" / "ingests.jsonl").read_text().splitlines()) == 51
    log_ingest(tmp_path / "s", ["s3://key:secret@bucket/notes?signature=x"], report)
    assert client.get("/health.json").json()["ingests"][0]["paths"] == ["s3://bucket/notes"]
    page = client.get("/health").text
    assert "1 failure" in page and "bad.docx" in page and "adaptive" in page
    for address in ("/ask?q=What+is+good%3F", "/compare?q=What+is+good%3F"):
        assert re.search(r'<div class="rendered[^>]*><h2>Good</h2>', client.get(address).text), address
    followed.close()


def test_markdown_is_rendered_without_html_and_foreign_pictures() -> None:
    pytest.importorskip("markupsafe")
    from kvstore.integrations.explore.markdown_view import Insert, render_markdown

    text = (
        f"# Ann\n\n- **Bo** [Cy](cy.md) {HOSTILE}\n\n| a |\n|--:|\n| d |\n\n![p](http://e.org/p.png) "
        "[j](javascript:alert(1)) [d](data:text/html,x) [f](//e.org/x) [w](https://e.org/Ann) [n](no.md)\n\n"
        "<style>*{}</style>\n\n```js\nlet Ann;\n```\n"
    )
    names = [
        Insert(place.start(), place.end(), '<a class="name" href="/entity/Ann">', "</a>", is_link=True)
        for place in re.finditer("Ann|Cy", text)
    ]
    everything = Insert(0, len(text), "<mark>", "</mark>")
    page = str(render_markdown(text, [*names, everything], key="x/a.md", has_document=lambda key: key == "x/cy.md"))
    marks = Marks(page)
    assert marks.links == ["/entity/Ann", "/doc/x/cy.md", "https://e.org/Ann", "/entity/Ann"]
    assert not marks.tags & {"img", "script", "style"} and not marks.attributes & {"style", "onerror", "src"}
    assert {"strong", "li", "h2", "table", "code", "mark"} <= marks.tags
    assert "[picture: p]" in page and not re.search("[\ufdd0-\ufdef]", page)
    shown = "".join(marks.marks)
    assert all(word in shown for word in ("Ann", "Bo", "let Ann;", "<style>*{}</style>", HOSTILE[:20]))
    assert "\ufdd0" not in str(render_markdown("a\ufdd01\ufdd2 b", [Insert(0, 1, "<b>", "</b>")]))
    table = "| a |\n|--|\n| b |\n\nAfter [x](http://e.org/y) it."
    assert Marks(str(render_markdown(table, [Insert(0, 17, "<mark>", "</mark>")]))).marks == ["a", "b"]
    assert Marks(str(render_markdown(table, [Insert(19, 36, "<mark>", "</mark>")]))).marks == []


def test_a_document_key_with_a_line_break_has_a_page(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    with kvstore.open(tmp_path / "notes", embedder="hashing", settings={"language": "rules"}) as store:
        store.put("two\nlines", "Tea is made from leaves.")
        followed = FollowedStore(tmp_path / "notes")
        client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
        client.get("/", params={"token": TOKEN})
        url = build_document_url("two\nlines")
        assert f'href="{url}"' in unescape(client.get("/documents").text)
        page = client.get(url)
        assert page.status_code == 200
        (json_url,) = {link for link in re.findall(r'href="([^"]+)"', unescape(page.text)) if ".json" in link}
        assert client.get(json_url).json()["document"]["key"] == "two\nlines"
        followed.close()


def test_long_titles_and_names_are_cut(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    title, name = "Title" * 1000, "Name" * 100
    with kvstore.open(tmp_path / "s", embedder="hashing", settings={"language": "rules"}) as store:
        store.put("tea", "Tea is made from leaves. Ann Lee wrote it.", title=title)
        store.put_edge(name, "root")
        store.create_index("communities")
    followed = FollowedStore(tmp_path / "s")
    client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
    client.get("/", params={"token": TOKEN})
    for url in ("/", "/documents", "/doc/tea", "/ask?q=tea", "/compare?q=tea", "/names", f"/entity/{name}"):
        page = client.get(url).text
        assert re.search(r"(?:Title|Name){10,40}\w*…", page), url
        shown_text = re.sub(r"<title>.*?</title>|<script.*?</script>|<[^>]*>", "", page, flags=re.DOTALL)
        assert not re.search(r"(?:Title|Name){41}", shown_text), url
    assert "The index contains no communities." in client.get("/communities").text
    assert "No communities match." in client.get("/communities?q=tea").text
    followed.close()


def test_clusters_of_a_small_vocabulary_have_labels() -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.map_labels import label_clusters

    forms = [[("", f"{place} needs a new {thing}.")] * 4 for place, thing in (("Oslo", "pump"), ("Rome", "crane"))]
    labels = label_clusters(forms)
    assert "Oslo" in labels[0] and "Rome" in labels[1], "every word is in half of the chunks"
    assert label_clusters([[("", "x" * 500)] * 3]) == ["other"], "a label is short"


def test_an_empty_store_explains_how_to_fill_it(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    with kvstore.open(tmp_path / "notes", embedder="hashing", settings={"language": "rules"}) as store:
        followed = FollowedStore(tmp_path / "notes")
        client = make_client(make_explorer(followed, token=TOKEN, port=PORT))
        client.get("/", params={"token": TOKEN})
        for address in ("/ask?q=tea", "/ask", "/compare?q=tea", "/documents"):
            page = client.get(address).text
            assert "The store is empty" in page and "kvstore ingest notes FOLDER" in page, address
            assert "The documents do not say this." not in page
        assert client.get("/ask.json?q=tea").json()["is_empty"] is True
        store.put("tea", "Tea is made from leaves.")
        assert "The store is empty" not in client.get("/ask?q=tea").text
        followed.close()


@pytest.mark.parametrize(
    ("page", "field", "invalid"),
    [
        *((page, "where", "titel = 1") for page in ("ask", "compare", "documents")),
        *(("ask", "top", "0x"), ("compare", "top", "0")),
    ],
)
def test_a_form_reports_invalid_input_and_keeps_it(client: Any, page: str, field: str, invalid: str) -> None:
    arguments = {"q": "Who took tea to India?", field: invalid}
    response = client.get(f"/{page}", params=arguments)
    assert response.status_code == 400 and response.text.count('role="alert"') == 1
    for value in arguments.values():
        assert f'value="{value}"' in response.text
    data = client.get(f"/{page}.json", params=arguments)
    assert data.status_code == 400 and data.json()["error"] in unescape(response.text)


def test_documents_are_selected_by_metadata(client: Any) -> None:
    listing = client.get("/documents.json").json()
    assert listing["count"] == listing["of"] == 12
    fields = {field["field"]: field["values"] for field in listing["fields"]}
    assert [value["value"] for value in fields["year"]] == [1848, 2024]
    assert fields["tag"][0]["value"] == HOSTILE and fields["tag"][0]["documents"] == 10
    chosen = client.get("/documents.json", params={"facet": json.dumps(["tag", HOSTILE])}).json()
    assert chosen["count"] == 10
    assert client.get("/documents.json", params={"where": "meta ->> 'year' > 1900"}).json()["count"] == 1
    assert client.get("/documents.json", params={"q": "TEA"}).json()["count"] == 2
    assert client.get("/documents", params={"where": "1) OR (1"}).status_code == 400
    assert "line 1, column 1: there is no column titel" in client.get("/documents", params={"where": "titel = 1"}).text
    for invalid_facet in ("[1", "5", "null", '"ab"', '{"a": 1, "b": 2}', '["year"]', "[" * 5000):
        assert client.get("/documents", params={"facet": invalid_facet}).status_code == 400, invalid_facet[:20]


def test_the_explorer_follows_commits_and_another_store_at_its_path(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.followed_store import FollowedStore

    path = tmp_path / "store"
    with kvstore.open(path, embedder="hashing") as store:
        store.put("a", "One.")
    followed = FollowedStore(path)
    with followed.open_session() as session:
        assert session.keys() == ["a"]
    other = tmp_path / "other"
    with kvstore.open(other, embedder="hashing") as store:
        store.put("b", "Two.")
    shutil.rmtree(path)
    with pytest.raises(kvstore.errors.StoreNotFoundError), followed.open_session():
        pass
    path.touch()
    with pytest.raises(kvstore.errors.StoreNotFoundError), followed.open_session():
        pass
    path.unlink()
    other.rename(path)
    with followed.open_session() as session:
        assert session.keys() == ["b"]
    followed.close()


def test_another_process_may_write_while_the_explorer_reads(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.followed_store import FollowedStore

    path = tmp_path / "store"
    with kvstore.open(path, embedder="hashing") as store:
        store.put("a", "One.")
    followed = FollowedStore(path)
    put = "import sys, kvstore; kvstore.open(sys.argv[1], embedder='hashing').put('b', 'Two.')"
    subprocess.run([sys.executable, "-c", put, str(path)], check=True)
    with followed.open_session() as session:
        assert session.keys() == ["a", "b"]
    followed.close()


def test_the_command_serves_until_it_is_stopped(path: Path) -> None:
    pytest.importorskip("starlette")
    httpx = pytest.importorskip("httpx")
    command = [sys.executable, "-m", "kvstore", "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}", address), process.stderr.read()
            base = address.partition("/?")[0]
            with httpx.Client(base_url=base, trust_env=False, timeout=60) as client:
                assert client.get("/").status_code == 403
                assert client.get(address).status_code == 200
                # What a server decodes once is decoded once.
                assert client.get("/doc/100%2525%20%2F").status_code == 404
                assert "100%25 /" in client.get("/doc/100%2525%20%2F").text
                assert client.get(build_document_url(HOSTILE)).status_code == 200
                assert client.get("/static/..%2f..%2fpage.py").status_code == 404
                long = "SELECT 1 " + "-- words " * 2000
                assert client.get("/sql.json", params={"sql": long}).json()["rows"] == [[1]]
            port = base.rpartition(":")[2]
            second_run = subprocess.run([*command, "--port", port], capture_output=True, text=True, check=False)
            assert second_run.returncode == 1 and f"port {port} is not available" in second_run.stderr
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, process.stderr.read()
    command[4] = str(path / "none")
    none = subprocess.run(command, capture_output=True, text=True, check=False)
    assert none.returncode == 1 and "there is no store" in none.stderr and "Traceback" not in none.stderr


@contextmanager
def run_explorer(path: Path, errors: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process of the command, with at most 1,024 open files, and the address with its token."""
    command = [sys.executable, "-m", "kvstore", "explore", str(path), "--no-browser"]
    limits = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (1024, 1024))
    with (
        errors.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=limits) as process,
    ):
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_idle_connections_are_closed_and_others_are_served(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    httpx = pytest.importorskip("httpx")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2000:
        pytest.skip("this process may not open 1,200 sockets")
    with run_explorer(path, tmp_path / "log") as (process, address), ExitStack() as sockets:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2000), limits[1]))
        sockets.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        base, _, _ = address.partition("/?")
        port = int(base.rpartition(":")[2])
        idle = []
        for number in range(1200):
            idle.append(sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)))
            if number % 2:
                idle[-1].send(b"GET / HTTP/1.1\r\n")
        with httpx.Client(trust_env=False, timeout=30) as client:
            assert client.get(address).status_code == 200
        # Every one of them is closed, whether it said something or not: recv ends or fails, and does not time out.
        for connection in idle:
            connection.settimeout(30)
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
        assert process.poll() is None
        assert len((tmp_path / "log").read_text().splitlines()) < 60


def test_interruption_ends_the_command_with_a_query_and_connections_open(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    httpx = pytest.importorskip("httpx")
    endless = "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n) > 0"
    with run_explorer(path, tmp_path / "log") as (process, address), ExitStack() as opened:
        base, _, _ = address.partition("/?")
        port = int(base.rpartition(":")[2])
        client = opened.enter_context(httpx.Client(base_url=base, trust_env=False, timeout=60))
        assert client.get(address).status_code == 200
        for _ in range(5):
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        for address in ("/ask?q=tea&where=", "/documents?where=", "/compare?q=tea&where="):
            asking = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            head = f"GET {address}{quote(endless)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n"
            asking.sendall(head.encode())
        time.sleep(1)  # until they run
        process.send_signal(signal.SIGINT)
        # Five seconds on a quiet machine; the bound of a page, after which it would end by itself, is 20.
        assert process.wait(15) == 0, (tmp_path / "log").read_text()


@pytest.mark.parametrize("address", ["/ask?q=tea&", "/documents?", "/compare?q=tea&using=lexical&", "/sql?"])
def test_pages_that_run_a_users_text_stop_at_their_bound(
    client: Any, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("kvstore.integrations.explore.page.SECONDS", 0.3)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    text = f"sql={quote(endless)}" if address == "/sql?" else f"where={quote(f'({endless}) > 0')}"
    response = client.get(address + text)
    assert "the query was stopped" in response.text
    assert response.status_code == (503 if address.startswith(("/ask", "/documents")) else 200)
    assert client.get("/documents").status_code == 200


def test_passages_are_shown_without_markdown_and_marks_equal_citations() -> None:
    pytest.importorskip("markupsafe")
    from kvstore.integrations.explore.document_text import render_passage, strip_markdown

    text = (
        "# Lamps\n\n> Trim the *wick*, says [Ann](a.md).\n\n```py\n# kept *as it is*\n```\n"
        "| a | b |\n| --- | :-: |\n| **c** | `d*e*f` |\n\n\\# 2 * 3 * 4, __init__, <b> 東京"
    )
    shown = (
        "Lamps\n\nTrim the wick, says Ann.\n\n# kept *as it is*\n| a | b |\n| c | d*e*f |\n\n"
        "# 2 * 3 * 4, __init__, <b> 東京"
    )
    assert strip_markdown(text) == shown
    data = text.encode()
    place = data.index(b"wick") - 1, data.index(b"Ann") + 3
    page = str(render_passage(text, [place]))
    assert Marks(page).marks == [data[slice(*place)].decode()]
    assert unescape(re.sub(r"<[^>]*>", "", page)) == text
    assert unescape(re.sub(r"<[^>]*>", "", re.sub(r'<span class="sign">.*?</span>', "", page, flags=re.S))) == shown


def test_passages_of_markdown_are_rendered_with_their_marks() -> None:
    pytest.importorskip("markupsafe")
    from kvstore.integrations.explore.document_text import render_passage

    text = "東京 *has* a **lamp**."
    start = len("東京 *has* ".encode())
    page = render_passage(text, [(start, len(text.encode()))], "markdown")
    assert page == "<p>東京 <em>has</em> <mark>a </mark><strong><mark>lamp</mark></strong><mark>.</mark></p>\n"
    # A passage that begins inside a table is still a table.
    page = render_passage("| Oslo | 3 |\n| Bergen | **4** |", [(2, 6)], "markdown")
    assert "<td><mark>Oslo</mark></td>" in page and "<td><strong>4</strong></td>" in page
    assert "<th>a</th>" in render_passage("| a | b |\n| --- | --- |\n| c | d |", (), "markdown")


def test_pages_show_passages_without_the_signs_of_markdown(client: Any) -> None:
    page = client.get("/ask?q=How+long+is+parental+leave%3F").text
    assert '<span class="sign"># </span>Leave</span>' in page


@pytest.mark.parametrize("module", ["urls", "document_text", "compare_page", "markdown_view", "map_labels"])
def test_the_examples_of_its_modules_run(module: str) -> None:
    pytest.importorskip("starlette")
    tested = doctest.testmod(importlib.import_module(f"kvstore.integrations.explore.{module}"))
    assert tested.failed == 0 and tested.attempted > 0
