"""The explorer as a browser meets it: pages and their JSON, who may ask, and texts shown as texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore.integrations.explore.guard import Guard

pytestmark = pytest.mark.slow

PORT = 8642
HOST = f"http://127.0.0.1:{PORT}"
TOKEN = "the-token"

#: What a file may be called and say that would be more than a text in a page that did not escape it.
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "tea <b>store"
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as store:
        store.put("tea", "Tea is made from leaves. Robert Fortune took it to India.", title="Tea", meta={"year": 1848})
        store.put(
            "hr/leave.md", "# Leave\n\nParental leave lasts 20 weeks – naïve façade 東京 🍵.", meta={"year": 2024}
        )
        for key in ("..", "../up", "a//b", "tea.json", "a?b#c%2F d", HOSTILE):
            store.put(key, f"Of {key} there is this: {HOSTILE}.", title=f"On {key}", meta={"tag": HOSTILE})
    return path


@pytest.fixture(scope="module")
def application(path: Path) -> Iterator[Guard]:
    pytest.importorskip("starlette")
    from kvstore.integrations.explore.application import explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    store = FollowedStore(path)
    yield explorer(store, token=TOKEN, port=PORT)
    store.close()


def client_of(application: Guard) -> Any:
    from starlette.testclient import TestClient

    return TestClient(application, base_url=HOST, follow_redirects=False)


@pytest.fixture
def stranger(application: Guard) -> Any:
    """Somebody who has not given the token."""
    return client_of(application)


@pytest.fixture
def client(application: Guard) -> Any:
    client = client_of(application)
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    return client


def test_the_token_lets_in_and_nothing_else_does(stranger: Any) -> None:
    for address in ("/", "/index.json", "/static/explore.css", "/doc/tea", "/nothing"):
        assert stranger.get(address).status_code == 403
    for wrong in ("", "x", TOKEN + "x", TOKEN[:-1], "é"):
        assert stranger.get("/", params={"token": wrong}).status_code == 403
        assert stranger.post("/enter", data={"token": wrong}).status_code == 403
    assert stranger.get("/").status_code == 403
    entered = stranger.post("/enter", data={"token": TOKEN}, headers={"origin": HOST})
    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert stranger.get("/").status_code == 200


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


def test_every_response_forbids_what_does_not_come_from_here(client: Any, stranger: Any) -> None:
    for answer in (client.get("/"), client.get("/nothing"), client.get("/static/explore.css"), stranger.get("/")):
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


def test_the_first_page_tells_what_the_store_holds(client: Any) -> None:
    told = client.get("/index.json").json()
    assert told["statistics"]["documents"] == 8
    assert {index["kind"] for index in told["indexes"]} >= {"lexical", "vectors"}
    page = client.get("/").text
    assert "tea &lt;b&gt;store" in page and "Changed last" in page
    assert "<script>alert" not in page and "onerror=alert(2)>" not in page and "&lt;script&gt;alert(1)" in page


def test_what_is_not_there_is_told_in_a_sentence(client: Any) -> None:
    answer = client.get("/nothing")
    assert answer.status_code == 404 and "There is no page at this address." in answer.text
    assert client.get("/nothing.json").json() == {"error": "There is no page at this address."}
