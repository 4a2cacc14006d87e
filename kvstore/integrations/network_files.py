"""Networks of entities as files: a picture (SVG), an interactive page (HTML), and formats of other programs. A solid
edge is in a *tree*, a hierarchy of entities. A dashed edge comes from links or shared passages.

In: an :class:`~.entity_network.EntityNetwork` and a title. Out: the text of a file, by format name: ``svg``, ``html``
(one self-contained file, which shows the picture without JavaScript), ``dot`` (Graphviz), ``graphml`` (the GraphML of
yEd, networkx and igraph), ``gexf`` (1.3, of Gephi), ``json`` (nodes and links by name).

In all data formats an edge has its trees, links, number of passages and score. An edge that a tree contains is directed
from the lower entity to the higher. Other edges have no direction, except in GraphML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from ..arguments import format_count
from ..errors import InputError
from ..rendering.network import MAX_DRAWN_NAMES, DrawnEdge, DrawnName, draw_network, lay_out_names
from ..rendering.svg import escape_text
from .entity_network import EntityNetwork, NetworkEdge
from .explore.guard import hash_source

_CYTOSCAPE_PATH = Path(__file__).parent / "explore" / "static" / "vendor" / "cytoscape.min.js"


def format_network(file_format: str, network: EntityNetwork, title: str) -> str:
    """Return the text of a file with a network of entities in ``file_format``, such as ``svg`` or ``graphml``.

    Raises InputError for an unknown format, or too many entities to draw.
    """
    render = FORMATS.get(file_format)
    if render is None:
        raise InputError(
            f"a graph can be written as {', '.join(FORMATS)}, not as {file_format!r}; choose a file name with one of "
            "these endings"
        )
    return render(network, title)


def _to_drawing(network: EntityNetwork) -> tuple[list[DrawnName], list[DrawnEdge]]:
    """Convert a network to named boxes and edges for drawing. Raises InputError if it has too many entities."""
    if len(network.nodes) > MAX_DRAWN_NAMES:
        other_formats = ", ".join(format for format in FORMATS if format not in ("svg", "html"))  # not drawn
        raise InputError(
            f"a picture can show at most {MAX_DRAWN_NAMES:,} names, not {len(network.nodes):,}; lower the limit, or "
            f"write {other_formats}"
        )
    indexes = {node.name: index for index, node in enumerate(network.nodes)}
    edges = [
        DrawnEdge(indexes[edge.source], indexes[edge.target], edge.is_solid, _format_tooltip(edge))
        for edge in network.edges
    ]
    return [DrawnName(node.name, node.distance) for node in network.nodes], edges


def _format_tooltip(edge: NetworkEdge) -> str:
    """Return the tooltip of an edge: its two entities, and the trees, links or passages that relate them."""
    if edge.is_solid:
        return f"{edge.source} under {edge.target}: {', '.join(edge.trees)}"
    passages = [format_count(edge.passages, "passage")] if edge.passages else []
    return f"{edge.source} – {edge.target}: {', '.join([*edge.links, *passages])}"


def _render_svg(network: EntityNetwork, title: str) -> str:
    """Return the picture of the network as SVG."""
    names, edges = _to_drawing(network)
    return draw_network(title, names, edges, lay_out_names(names, edges), _format_num_omitted(network)) + "\n"


def _format_num_omitted(network: EntityNetwork) -> str:
    """Return a clause with the number of omitted entities, or an empty string if there are none."""
    if not network.num_omitted:
        return ""
    return f"{network.num_omitted:,} more {'name is' if network.num_omitted == 1 else 'names are'} not shown"


def _render_html(network: EntityNetwork, title: str) -> str:
    """Return a self-contained HTML page, on which Cytoscape draws the network at the positions of the SVG."""
    names, edges = _to_drawing(network)
    positions = lay_out_names(names, edges)
    elements: list[dict[str, Any]] = [
        {
            "data": {"id": f"n{index}", "label": name.name, "center": int(name.distance == 0)},
            "position": {"x": x, "y": y},
        }
        for index, (name, (x, y)) in enumerate(zip(names, positions.tolist(), strict=True))
    ]
    elements += [
        {
            "data": {"source": f"n{edge.source}", "target": f"n{edge.target}", "description": edge.label},
            "classes": "solid" if edge.solid else "dashed",
        }
        for edge in edges
    ]
    # Without "<", no text can end the script.
    element_data = json.dumps(elements, ensure_ascii=False).replace("<", "\\u003c")
    library = _CYTOSCAPE_PATH.read_text(encoding="utf-8")
    script = f"const elements = {element_data};\n{_SCRIPT}"
    hashes = f"{hash_source(library)} {hash_source(script)}"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"
    picture = draw_network(title, names, edges, positions, _format_num_omitted(network))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_PAGE_STYLE}</style></head>\n'
        f'<body><h1>{escape(title)}</h1><p id="status" role="status"></p><div id="network"></div>\n'
        f"<noscript>{picture}\n</noscript>\n"
        f"<script>{library}</script>\n<script>{script}</script></body></html>\n"
    )


_PAGE_STYLE = (
    ":root{color-scheme:light dark;--ink:#22262b;--quiet:#5d656e;--ground:#fff;--tree:#2f6f9f;--join:#8b929a}"
    "@media(prefers-color-scheme:dark){:root{--ink:#dfe2e4;--quiet:#a0a8af;--ground:#1d2125;--tree:#7db7e0;"
    "--join:#78818a}}body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "h1{font-size:1.15rem;margin:1rem 1.4rem 0}p{margin:0 1.4rem;min-height:1.5em;color:var(--quiet)}"
    "#network{height:calc(100vh - 5.5rem)}"
)
_SCRIPT = """
const value = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const style = () => [
  { selector: "node", style: { label: "data(label)", shape: "round-rectangle", width: "label", height: 14, padding: 7,
    "background-color": value("--ground"), "border-width": 1.4, "border-color": value("--tree"), color: value("--ink"),
    "font-family": "system-ui, sans-serif", "font-size": 13, "text-valign": "center" } },
  { selector: "node[?center]", style: { "background-color": value("--tree"), color: value("--ground") } },
  { selector: "edge", style: { width: 1.2, "line-color": value("--join"), "line-style": "dashed", opacity: 0.7 } },
  { selector: "edge.solid", style: { width: 2, "line-style": "solid", "line-color": value("--tree"), opacity: 1,
    "curve-style": "bezier", "target-arrow-shape": "triangle", "target-arrow-color": value("--tree") } },
  { selector: ".far", style: { opacity: 0.12 } },
];
const graph = cytoscape({ container: document.getElementById("network"), elements, style: style(),
  layout: { name: "preset", padding: 30 }, minZoom: 0.05, maxZoom: 4 });
const statusLine = document.getElementById("status");
graph.on("mouseover", "node", ({ target }) => graph.elements().difference(target.closedNeighborhood()).addClass("far"));
graph.on("mouseout", "node", () => graph.elements().removeClass("far"));
graph.on("mouseover", "edge", (event) => { statusLine.textContent = event.target.data("description"); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => graph.style(style()));
"""


def _iter_dot_lines(network: EntityNetwork, title: str) -> Iterator[str]:
    """Yield the lines of a file with the network in the DOT language of Graphviz."""
    yield f"digraph {_quote_dot(title)} {{"
    yield '  graph [overlap=false, splines=true]; node [shape=box, style=rounded, fontname="sans-serif"];'
    for node in network.nodes:
        yield f"  {_quote_dot(node.name)};"
    for edge in network.edges:
        style = "style=solid" if edge.is_solid else "style=dashed, dir=none"
        weight = 3 if edge.is_solid else 1  # Graphviz draws heavier edges shorter, which keeps trees together
        attributes = f"weight={weight}, trees={_quote_dot(', '.join(edge.trees))}, passages={edge.passages}"
        yield (
            f"  {_quote_dot(edge.source)} -> {_quote_dot(edge.target)} [{style}, {attributes}, score={edge.score:g}];"
        )
    yield "}"


def _quote_dot(text: str) -> str:
    """Quote a string for the DOT language, in which a backslash begins an escape."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\0", "") + '"'


#: The attributes of an edge: name, type in GraphML and GEXF, and a function that returns the value.
_EDGE_ATTRIBUTES: tuple[tuple[str, str, Callable[[NetworkEdge], str]], ...] = (
    ("tree", "boolean", lambda edge: str(edge.is_solid).lower()),
    ("trees", "string", lambda edge: ", ".join(edge.trees)),
    ("links", "string", lambda edge: ", ".join(edge.links)),
    ("passages", "int", lambda edge: str(edge.passages)),
    ("score", "double", lambda edge: f"{edge.score:g}"),
)


def _iter_graphml_lines(network: EntityNetwork, title: str) -> Iterator[str]:
    """Yield the lines of a file with the network in GraphML."""
    ids = {node.name: f"n{index}" for index, node in enumerate(network.nodes)}
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    yield '  <key id="label" for="node" attr.name="label" attr.type="string"/>'
    yield '  <key id="distance" for="node" attr.name="distance" attr.type="int"/>'
    for name, type_name, _ in _EDGE_ATTRIBUTES:
        yield f'  <key id="{name}" for="edge" attr.name="{name}" attr.type="{type_name}"/>'
    yield f'  <graph id="{escape_text(title)}" edgedefault="directed">'
    for node in network.nodes:
        attributes = f'<data key="label">{escape_text(node.name)}</data><data key="distance">{node.distance}</data>'
        yield f'    <node id="{ids[node.name]}">{attributes}</node>'
    for edge in network.edges:
        # networkx rejects a graph with both directed and undirected edges: the value "tree" is true if the edge is
        # directed.
        attributes = "".join(
            f'<data key="{name}">{escape_text(get_value(edge))}</data>' for name, _, get_value in _EDGE_ATTRIBUTES
        )
        yield f'    <edge source="{ids[edge.source]}" target="{ids[edge.target]}">{attributes}</edge>'
    yield "  </graph>"
    yield "</graphml>"


def _iter_gexf_lines(network: EntityNetwork, title: str) -> Iterator[str]:
    """Yield the lines of a file with the network in GEXF 1.3, the format of Gephi."""
    ids = {node.name: str(index) for index, node in enumerate(network.nodes)}
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<gexf xmlns="http://gexf.net/1.3" version="1.3">'
    yield f"  <meta><creator>kvstore</creator><description>{escape_text(title)}</description></meta>"
    yield '  <graph defaultedgetype="directed">'
    yield '    <attributes class="node"><attribute id="distance" title="distance" type="integer"/></attributes>'
    columns = "".join(
        f'<attribute id="{name}" title="{name}" type="{"integer" if type_name == "int" else type_name}"/>'
        for name, type_name, _ in _EDGE_ATTRIBUTES
    )
    yield f'    <attributes class="edge">{columns}</attributes>'
    yield "    <nodes>"
    for node in network.nodes:
        values = f'<attvalues><attvalue for="distance" value="{node.distance}"/></attvalues>'
        yield f'      <node id="{ids[node.name]}" label="{escape_text(node.name)}">{values}</node>'
    yield "    </nodes>"
    yield "    <edges>"
    for edge_index, edge in enumerate(network.edges):
        edge_type = "directed" if edge.is_solid else "undirected"
        endpoints = f'source="{ids[edge.source]}" target="{ids[edge.target]}" type="{edge_type}"'
        attributes = "".join(
            f'<attvalue for="{name}" value="{escape_text(get_value(edge))}"/>'
            for name, _, get_value in _EDGE_ATTRIBUTES
        )
        weight = f"{max(edge.score, 0.001):g}"  # programs ignore an edge of weight 0
        edge_content = f"<attvalues>{attributes}</attvalues>"
        yield f'      <edge id="{edge_index}" {endpoints} weight="{weight}">{edge_content}</edge>'
    yield "    </edges>"
    yield "  </graph>"
    yield "</gexf>"


def _render_json(network: EntityNetwork, title: str) -> str:
    """Return the network as a JSON object with nodes and links, in the format that D3 uses.

    ``links`` are the edges. An edge has the fields of a ``NetworkEdge``; ``tree`` is True if it is solid.
    """
    content = {
        "title": title,
        "nodes": [{"name": node.name, "distance": node.distance} for node in network.nodes],
        "links": [
            {
                "source": edge.source,
                "target": edge.target,
                "tree": edge.is_solid,
                "trees": edge.trees,
                "links": edge.links,
                "passages": edge.passages,
                "score": edge.score,
            }
            for edge in network.edges
        ],
        "left_out": network.num_omitted,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _join_lines(iter_lines: Callable[[EntityNetwork, str], Iterator[str]], network: EntityNetwork, title: str) -> str:
    """Return the text of a file with the lines that ``iter_lines`` yields for a network and its title."""
    return "\n".join(iter_lines(network, title)) + "\n"


#: Every format by file extension.
FORMATS: dict[str, Callable[[EntityNetwork, str], str]] = {
    "svg": _render_svg,
    "html": _render_html,
    "dot": partial(_join_lines, _iter_dot_lines),
    "graphml": partial(_join_lines, _iter_graphml_lines),
    "gexf": partial(_join_lines, _iter_gexf_lines),
    "json": _render_json,
}
