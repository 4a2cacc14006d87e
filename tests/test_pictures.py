"""Pictures: EXPLAIN AS SVG, and the neighborhood of a name as a file; well-formed and correct for any text."""

from __future__ import annotations

import json
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kvstore import Store, language
from kvstore.errors import InputError, StatementError
from kvstore.integrations.entity_network import EntityNetwork, NetworkEdge, NetworkNode, build_network_around
from kvstore.integrations.network_files import FORMATS, format_network
from kvstore.rendering import svg
from kvstore.rendering.explained import DrawnHit, DrawnStep, draw_explanation
from kvstore.rendering.stress import compute_layout
from kvstore_shell.cli import run

HOSTILE = "</text><script>alert(1)</script>&\x00\x0b \\ \"'\u202e כ 漢字 é"
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    store = make_store()
    store.put("tea", "Robert Fortune took tea to Darjeeling. The East India Company grew it.", title=HOSTILE[:30])
    store.put("port", "Robert Fortune sailed from Calcutta to Shanghai.")
    store.put_edge("Darjeeling", "India", tree="places")
    store.put_edge('Say "x" \\ <b>', "Darjeeling", tree="places")
    return store


def list_texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{_SVG}text")]


def test_a_statement_is_explained_as_a_picture(store: Store) -> None:
    cursor = store.execute("EXPLAIN ANALYZE RETRIEVE 'Who took tea to Darjeeling?' USING bridge AS SVG TOP 2")
    assert cursor.columns == ("svg",) and "<svg" in cursor._repr_html_()
    (picture,) = cursor.fetchone() or ()
    texts = list_texts(picture)
    assert any("recognize entities" in text for text in texts) and "Evidence" in texts
    assert any(text.endswith(" ms") for text in texts)
    steps = store.explain("RETRIEVE 'Who took tea to Darjeeling?' USING bridge TOP 2")
    assert {step.name for step in steps} <= set(texts)
    for statement in ("LOOKUP 'Darjeeling'", "EXPAND 'Darjeeling' DEPTH 1", "SEARCH 'tea' TOP 1", "ASK 'tea?' WHERE 1"):
        plain = store.execute(f"EXPLAIN {statement} AS SVG").fetchall()[0][0]
        assert ElementTree.fromstring(plain).tag == f"{_SVG}svg" and " ms" not in "".join(list_texts(plain))


def test_as_svg_is_valid_only_in_an_explain(store: Store) -> None:
    with pytest.raises(StatementError, match="write EXPLAIN RETRIEVE"):
        store.execute("RETRIEVE 'tea' AS SVG")
    with pytest.raises(StatementError, match="is repeated"):
        store.execute("EXPLAIN RETRIEVE 'tea' AS SVG AS SVG")
    assert "SVG" in language.list_expected_terminals("EXPLAIN RETRIEVE 'tea' AS ")
    assert "SVG" not in language.list_expected_terminals("RETRIEVE 'tea' AS ")
    assert store.execute("EXPLAIN RETRIEVE 'tea' AS SEGMENTS AS SVG").columns == ("svg",)


def test_no_text_leaves_its_place_in_a_picture() -> None:
    picture = draw_explanation(
        HOSTILE, [DrawnStep(HOSTILE, HOSTILE * 20, 3, 0.5)], [DrawnHit(HOSTILE, HOSTILE, -0.3)], total_milliseconds=1.5
    )
    root = ElementTree.fromstring(picture)
    assert {element.tag.removeprefix(_SVG) for element in root.iter()} <= {
        *("svg", "title", "style", "rect", "text", "line", "circle"),
    }
    assert "</text><script>alert(1)</script>&" in "".join(list_texts(picture)) and "\x00" not in picture
    assert all(svg.measure_text(line, 13) <= 200 for line in svg.wrap_text("word " * 50 + "W" * 90, 13, 200, 4))
    assert len(svg.wrap_text("word " * 50, 13, 200, 3)) == 3 and svg.wrap_text("", 13, 200, 3) == []


def test_a_layout_is_the_same_each_time_and_no_box_lies_on_another() -> None:
    edges = [(number, number // 3) for number in range(1, 40)] + [(40, 41)]
    widths = [60.0 + 7 * (number % 9) for number in range(43)]
    places = compute_layout(43, edges, widths, 26)
    assert np.array_equal(places, compute_layout(43, edges, widths, 26))
    over = np.abs(places[:, None] - places[None])
    wide = (np.array(widths)[:, None] + np.array(widths)[None]) / 2
    lying = (over[..., 0] < wide) & (over[..., 1] < 26)
    assert lying.sum() == 43  # each on itself
    lengths = [np.hypot(*(places[start] - places[end])) for start, end in edges]
    every = np.sqrt((over**2).sum(2))
    assert np.mean(lengths) < 0.5 * every[:40, :40].mean()


@pytest.fixture
def hostile_network() -> EntityNetwork:
    names = [NetworkNode("Middle", 0), NetworkNode(HOSTILE, 1), NetworkNode("Lower", 1)]
    return EntityNetwork(
        names,
        [
            NetworkEdge(HOSTILE, "Middle", ("places",), ("title",), 2, 0.5),
            NetworkEdge("Middle", "Lower", (), (), 3, 0.25),
        ],
    )


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_holds_any_name(form: str, hostile_network: EntityNetwork) -> None:
    text = format_network(form, hostile_network, f"Around {HOSTILE}")
    if form == "json":
        read = json.loads(text)
        assert read["nodes"][1]["name"] == HOSTILE and [link["tree"] for link in read["links"]] == [True, False]
    elif form == "dot":
        assert text.count(" -> ") == 2 and "style=solid" in text and "style=dashed" in text
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tplain"], input=text, text=True, check=True, capture_output=True)
    elif form == "html":
        assert "<script>alert(1)" not in text and "http://www.w3.org" in text and "unsafe-eval" not in text
    else:
        root = ElementTree.fromstring(text)
        ends = {"svg": "line", "graphml": "edge", "gexf": "edge"}[form]
        elements = [element for element in root.iter() if element.tag.rpartition("}")[2] == ends]
        assert len(elements) >= 2
        assert HOSTILE.replace("\x00", "").replace("\x0b", "") in {
            *root.itertext(),
            *(e.get("label") for e in root.iter()),
        }


def test_networkx_reads_graphml(hostile_network: EntityNetwork) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.parse_graphml(format_network("graphml", hostile_network, "Around"))
    labels = networkx.get_node_attributes(graph, "label")
    edges = {(labels[source], labels[target]): data["tree"] for source, target, data in graph.edges(data=True)}
    assert edges["Middle", "Lower"] is False and list(edges.values()).count(True) == 1


def test_a_network_of_a_store_is_written(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(store.path)
    network = build_network_around(store, "Darjeeling")
    store.close()
    target = tmp_path / "around.json"
    assert run(["graph", path, "darjeeling", "--to", str(target)]) == 0
    read = json.loads(target.read_text())
    assert read["title"] == "Around Darjeeling" and len(read["nodes"]) == len(network.nodes)
    assert run(["graph", path, "--tree", "places", "--to", str(tmp_path / "tree.svg")]) == 0
    assert 'Say "x" \\ <b>' in list_texts((tmp_path / "tree.svg").read_text())
    assert run(["graph", path, "--limit", "1", "--to", str(tmp_path / "few.gexf")]) == 0
    assert "1 entity," in capsys.readouterr().err
    assert run(["graph", path, "--to", str(tmp_path / "x.png")]) == 2
    (tmp_path / "full.svg").symlink_to("/dev/full")
    assert run(["graph", path, "--to", str(tmp_path / "full.svg")]) == 1
    assert run(["graph", path, "Nobody", "--to", str(tmp_path / "x.svg")]) == 1
    assert run(["shell", path, "-c", "EXPLAIN LOOKUP 'Darjeeling' AS SVG"]) == 0
    assert capsys.readouterr().out.startswith("<svg ")


def test_a_picture_is_as_wide_as_its_shortened_title(hostile_network: EntityNetwork) -> None:
    widths = [
        float(ElementTree.fromstring(format_network("svg", hostile_network, "W" * n)).attrib["width"])
        for n in (200, 2000)
    ]
    assert widths[0] == pytest.approx(widths[1], abs=20) and widths[1] < 2100


def test_a_picture_holds_so_many_names() -> None:
    many = EntityNetwork([NetworkNode(str(number), 1) for number in range(2001)], [])
    with pytest.raises(InputError, match="lower the limit"):
        format_network("svg", many, "many")
    assert format_network("dot", many, "many").count(";") > 2000
    with pytest.raises(InputError, match="svg, html"):
        format_network("png", many, "many")
