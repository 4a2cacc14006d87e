"""The pages of names and of the map, without a browser: what they say, and that it is right."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvstore import Store
from kvstore.errors import EntityNotFoundError, InputError
from kvstore.integrations import explore
from kvstore.integrations.entity_network import NetworkEdge, build_network_around, build_whole_network

TEXTS = {
    "tea": "Robert Fortune took Camellia Sinensis to Darjeeling. In Darjeeling the East India Company grew it.",
    "port": "The East India Company sailed to Calcutta. Robert Fortune sailed to Calcutta too, and to Shanghai.",
    "hills": "Darjeeling lies above Calcutta. From Calcutta a railway leads to Darjeeling.",
    "<b>x</b>/../é": "Robert Fortune saw Shanghai, and Shanghai saw <script>alert('Robert Fortune')</script>.",
}


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    store = make_store()
    for number, (key, text) in enumerate(TEXTS.items()):
        store.put(key, text, meta={"kind": "story" if number % 2 else "report"})
    store.put_edge("Darjeeling", "West Bengal", tree="places")
    store.put_edge("Calcutta", "West Bengal", tree="places")
    store.put_edge("Happy Valley", "Darjeeling", tree="places")
    store.put_edge("Calcutta", "Ports", tree="trade")
    return store


def test_a_network_has_trees_solid_and_the_rest_dashed(store: Store) -> None:
    network = build_network_around(store, "darjeeling", depth=1)
    assert network.nodes[0].name == "Darjeeling" and network.nodes[0].distance == 0
    solid = {(join.source, join.target, join.trees) for join in network.edges if join.is_solid}
    assert ("Darjeeling", "West Bengal", ("places",)) in solid
    assert ("Happy Valley", "Darjeeling", ("places",)) in solid
    pairs = [frozenset((join.source, join.target)) for join in network.edges]
    assert len(pairs) == len(set(pairs))
    names = {node.name for node in network.nodes}
    assert all({join.source, join.target} <= names for join in network.edges)
    assert "Ports" not in names and "Ports" in {
        node.name for node in build_network_around(store, "Darjeeling", depth=3).nodes
    }
    few = build_network_around(store, "Darjeeling", limit=3)
    assert len(few.nodes) == 3 and few.num_omitted > 0


def test_the_topics_of_an_entity_are_counted_in_one_pass(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    entity_page = pytest.importorskip("kvstore.integrations.explore.entity_page")
    store.create_index("topics")
    queries = []
    query = Store.query
    monkeypatch.setattr(Store, "query", lambda *arguments: queries.append(arguments[1:]) or query(*arguments))
    (topic, *_) = entity_page._list_topics(store, "Darjeeling")
    monkeypatch.undo()
    assert topic["chunks"] >= 1 and topic["title"]
    (num_members,) = store.query("SELECT count(*) FROM topic_members").fetchone()
    plan = store.execute("EXPLAIN ANALYZE " + queries[-1][0], queries[-1][1]).fetchall()
    reads = {detail: rows for step, detail, rows, *_ in plan if step == "read"}
    assert 0 < reads["topic_members"] <= num_members and reads["topics"] <= 5


@pytest.mark.parametrize("lookup_cost", [0, 10**9])
def test_names_have_their_numbers_of_documents(store: Store, monkeypatch: pytest.MonkeyPatch, lookup_cost: int) -> None:
    names_page = pytest.importorskip("kvstore.integrations.explore.names_page")
    page_module = pytest.importorskip("kvstore.integrations.explore.page")
    monkeypatch.setattr(names_page, "_LOOKUP_COST", lookup_cost)
    counts = {
        row["name"]: row["documents"]
        for row in names_page.build_content(page_module.PageRequest(store, "", []))["rows"]
    }
    assert (counts["Darjeeling"], counts["Robert Fortune"], counts["Ports"]) == (2, 3, 0)
    # A store with too many mentions has the page without these numbers.
    monkeypatch.setattr(names_page, "_count_documents", lambda request, rows: None)
    rows = names_page.build_content(page_module.PageRequest(store, "", []))["rows"]
    assert {row["documents"] for row in rows} == {None} and rows[0]["mentions"] > 0


def test_a_tree_is_drawn_alone(store: Store) -> None:
    network = build_network_around(store, "West Bengal", tree="places", depth=2)
    assert {join.source for join in network.edges} == {"Darjeeling", "Calcutta", "Happy Valley"}
    assert all(join.is_solid for join in network.edges)
    assert build_whole_network(store, tree="trade").edges == [NetworkEdge("Calcutta", "Ports", ("trade",))]
    with pytest.raises(InputError, match="no tree"):
        build_whole_network(store, tree="nowhere")
    with pytest.raises(EntityNotFoundError):
        build_network_around(store, "Nobody Ever")


def test_a_whole_store_has_all_its_trees(store: Store) -> None:
    network = build_whole_network(store)
    assert {(join.source, join.target) for join in network.edges if join.is_solid} == {
        ("Darjeeling", "West Bengal"),
        ("Calcutta", "West Bengal"),
        ("Happy Valley", "Darjeeling"),
        ("Calcutta", "Ports"),
    }
    assert network.num_omitted == 0 and build_whole_network(store, limit=2).num_omitted == 3


def test_a_store_without_trees_counts_the_entities_beyond_the_limit(make_store: Callable[..., Store]) -> None:
    store = make_store()
    store.put("saw", "Robert Fortune saw Shanghai. Robert Fortune saw Darjeeling. Shanghai and Darjeeling grew.")
    num_entities = len(build_whole_network(store, limit=None).nodes)
    network = build_whole_network(store, limit=1)
    assert num_entities > 1 and len(network.nodes) == 1 and network.num_omitted == num_entities - 1


@pytest.fixture
def picture_client(store: Store) -> Iterator[Any]:
    pytest.importorskip("starlette")
    pytest.importorskip("jinja2")
    from starlette.testclient import TestClient

    from kvstore.integrations.explore.application import make_explorer
    from kvstore.integrations.explore.followed_store import FollowedStore

    path = Path(store.path)
    store.close()
    followed = FollowedStore(path)
    with TestClient(make_explorer(followed, token="t", port=8000), base_url="http://127.0.0.1:8000") as client:
        client.get("/?token=t")
        yield client
    followed.close()


@pytest.mark.slow
def test_the_page_of_a_name(picture_client: Any) -> None:
    page = picture_client.get("/entity/Robert Fortune")
    assert page.status_code == 200 and "Shanghai" in page.text and "<script>alert" not in page.text
    name_data = picture_client.get("/entity/Robert Fortune.json").json()
    assert {neighbour["name"] for neighbour in name_data["neighbours"]} >= {
        "Shanghai",
        "East India Company",
        "Calcutta",
    }
    assert "<b>x</b>/../é" in {place["document"] for place in name_data["places"]}
    assert "&lt;b&gt;x" in page.text and "<b>x" not in page.text
    assert len(picture_client.get("/entity/Darjeeling.json?limit=1").json()["neighbours"]) == 1
    assert picture_client.get("/entity/Nobody").status_code == 404
    assert picture_client.get("/entity/Nobody.json").json()["error"]


@pytest.mark.slow
def test_the_map_places_every_chunk_and_a_question(picture_client: Any) -> None:
    map_data = picture_client.get("/map.json?q=Who+saw+Shanghai%3F&colour=kind").json()
    points = map_data["points"]
    assert map_data["chunks"] == len(points["x"]) == len(points["group"]) == 4
    assert {group["name"]: group["chunks"] for group in map_data["groups"]} == {"story": 2, "report": 2}
    assert min(points["x"]) == min(points["y"]) == 0 and max(max(points["x"]), max(points["y"])) == 1
    hit = map_data["evidence"][0]
    assert hit["document"] == points["document"][hit["point"]] and hit["ordinal"] == points["ordinal"][hit["point"]]
    packed = picture_client.get("/map.points?colour=kind").content
    assert len(packed) == 5 * 4
    assert np.allclose(np.frombuffer(packed[:8], "<u2") / 65535, points["x"], atol=1e-4)
    assert list(packed[16:]) == points["group"]
    place = picture_client.get(f"/map.point?point={hit['point']}").json()
    assert (place["document"], place["start"], place["end"]) == (hit["document"], hit["start"], hit["end"])
    assert picture_client.get(place["url"]).text.count("<mark") >= 1
    page = picture_client.get("/map?q=Who+saw+Shanghai%3F")
    assert page.status_code == 200 and "<script>alert" not in page.text and "&lt;script&gt;alert" in page.text
    assert picture_client.get("/map?colour=nothing").status_code == 400
    assert picture_client.get("/map.point?point=4").status_code == 400


@pytest.mark.slow
def test_a_point_of_the_map_leads_to_a_key_with_a_line_break(make_store: Callable[..., Store]) -> None:
    map_page = pytest.importorskip("kvstore.integrations.explore.map_page")
    page_module = pytest.importorskip("kvstore.integrations.explore.page")
    store = make_store()
    store.put("two\nlines", "Tea.")
    request = page_module.PageRequest(store, "", [("point", "0")])
    assert json.loads(map_page._render_point(request))["url"] == "/doc/?name=two%0Alines&start=0&end=4#mark"


def test_a_map_shows_its_own_chunks_after_a_change_of_the_store(store: Store) -> None:
    map_page = pytest.importorskip("kvstore.integrations.explore.map_page")
    page_module = pytest.importorskip("kvstore.integrations.explore.page")

    def build_request(**arguments: Any) -> Any:
        return page_module.PageRequest(
            store, "", [(name, str(value)) for name, value in arguments.items()], as_data=False
        )

    map_id = map_page.build_content(build_request())["map_id"]
    points = map_page._render_points(build_request(map=map_id))
    documents = [json.loads(map_page._render_point(build_request(point=index)))["document"] for index in range(4)]
    store.put("a new document, which is the first by its key", "Camellia Sinensis.")
    for index, document in enumerate(documents):
        chunk = json.loads(map_page._render_point(build_request(point=index, map=map_id)))
        assert chunk["document"] == document
    assert map_page._render_points(build_request(map=map_id)) == points
    for number in range(3):  # only the last maps are kept
        store.put("tea", f"Camellia {number}.")
        assert map_page.build_content(build_request())["map_id"] != map_id
    with pytest.raises(InputError, match="reload the page"):
        map_page._render_point(build_request(point=0, map=map_id))


def test_the_map_ignores_deletions_while_it_is_made(store: Store) -> None:
    chunk_map_module = pytest.importorskip("kvstore.integrations.explore.chunk_map")
    with store.snapshot() as snapshot:
        store.delete("port")
        chunk_map = chunk_map_module.ChunkMap(store, snapshot)
    assert len(chunk_map) == 4
    assert ("port", 1) in chunk_map.get_groups(store, "document").names


def test_the_map_is_colored_by_a_field_called_topic_or_by_the_last_index(store: Store) -> None:
    chunk_map_module = pytest.importorskip("kvstore.integrations.explore.chunk_map")
    for key in TEXTS:
        store.update(key, meta={"topic": "sea" if key == "port" else "land"})

    def list_topics() -> list[tuple[str, int]]:
        return chunk_map_module.get_chunk_map(store).get_groups(store, "topic").names

    assert list_topics() == [("land", 3), ("sea", 1)]
    store.create_index("topics")
    assert "land" not in dict(list_topics())
    store.drop_index("topics")
    assert list_topics() == [("land", 3), ("sea", 1)]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_the_labels_of_a_picture_do_not_overlap(width: int) -> None:
    script = Path(explore.__file__).with_name("static") / "labels.js"
    call = f"""
        const nodes = Array.from({{length: 20}}, (_, index) => ({{
          x: 65 + index % 5 / 4 * ({width} - 130), y: 25 + Math.floor(index / 5) * 60 + index % 3 * 8,
          radius: 6, size: 12, label: "name number " + index }}));
        const boxes = nodes.map((node) => findLabelBox(node, Math.min(120, {width} / 4), (text) => 6.5 * text.length));
        console.log(JSON.stringify([boxes, selectLabels(boxes)]));
    """
    result = subprocess.run(["node", "-e", script.read_text() + call], capture_output=True, check=True, timeout=60)
    boxes, are_drawn = json.loads(result.stdout)
    drawn = [box for box, is_drawn in zip(boxes, are_drawn, strict=True) if is_drawn]
    for one, other in itertools.combinations(drawn, 2):
        is_beside = one["x2"] <= other["x1"] or other["x2"] <= one["x1"]
        assert is_beside or one["y2"] <= other["y1"] or other["y2"] <= one["y1"]
    assert are_drawn[0] and all(are_drawn) == (width == 1000) and len(drawn) > 10


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_label_is_not_drawn_over_an_earlier_node() -> None:
    script = Path(explore.__file__).with_name("static") / "labels.js"
    call = """
        const build = (x1, y1) => ({ x1, x2: x1 + 10, y1, y2: y1 + 10 });
        const nodes = [build(0, 0), build(50, 5), build(100, 0)], labels = [build(0, 12), build(52, 20), build(4, 4)];
        console.log(JSON.stringify(selectLabels(labels, nodes)));
    """
    result = subprocess.run(["node", "-e", script.read_text() + call], capture_output=True, check=True, timeout=60)
    assert json.loads(result.stdout) == [True, True, False]


#: Stubs of the browser for entity.js, with 20 names, for a user who prefers less motion.
BROWSER = """
    const elements = {};
    const get = (id) => elements[id] ??= { dataset: { most: "40", kind: id }, clientWidth: 390, clientHeight: 400,
      checked: true, value: "0", querySelectorAll: () => [],
      addEventListener(type, listener) { this[type] = listener; } };
    const names = Array.from({ length: 20 }, (_, index) => `name number ${index}`);
    get("network-data").textContent = JSON.stringify({ name: "A", neighbours: names.map((name) => ({ name })),
      joins: names.map((target) => ({ source: "A", target, score: 0.5, solid: true })) });
    const pen = { measureText: (text) => ({ width: 6.5 * text.length }) };
    Object.assign(globalThis, {
      window: globalThis, setTimeout() {}, matchMedia: () => ({ matches: true, addEventListener() {} }),
      getComputedStyle: () => ({ getPropertyValue: () => "#000", fontFamily: "sans-serif" }),
      ResizeObserver: class { observe() {} },
      document: { getElementById: get, createElement: () => ({ getContext: () => pen }),
        querySelectorAll: (selector) => selector === "[data-kind]" ? [get("trees")] : [] },
    });
    const scripts = process.argv.slice(1);
    const cytoscapeOfNode = require(scripts.shift());
    globalThis.cytoscape = (options) => (
      cytoscapeOfNode({ ...options, container: null, headless: true, styleEnabled: true }));
    for (const script of scripts) require("vm").runInThisContext(require("fs").readFileSync(script, "utf8"));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_released_names_get_labels_for_their_new_places_without_motion() -> None:
    static = Path(explore.__file__).with_name("static")
    scripts = [static / name for name in ("vendor/cytoscape.min.js", "labels.js", "entity.js")]
    call = """
        kvstoreNetwork.nodes(".name").forEach((node, index) => {
          node.position({ x: 40 + 15 * index, y: 40 * (index % 9) }); node.emit("dragfree"); });
        get("release").click();
        const nodes = kvstoreNetwork.nodes().not(".unlabeled");
        const boxes = nodes.map((node) => findLabelBox({ ...node.position(), radius: node.height() / 2,
          size: node.hasClass("middle") ? 14 : 12, label: node.data("label") }, 97.5, (text) => 6.5 * text.length));
        console.log(JSON.stringify([kvstoreNetwork.nodes(".pinned").length, selectLabels(boxes)]));
    """
    command = ["node", "-e", BROWSER + call, *map(str, scripts)]
    result = subprocess.run(command, capture_output=True, check=True, timeout=60)
    num_pinned, are_free = json.loads(result.stdout)
    assert num_pinned == 0 and len(are_free) > 10 and all(are_free)
