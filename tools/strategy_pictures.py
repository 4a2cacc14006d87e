"""Diagrams of the strategies, for the documentation.

In: :data:`WAYS`, a few words per step. Out: ``docs/pictures/NAME.svg``, one per strategy. ``python
tools/strategy_pictures.py`` generates them; a test compares them.
"""

from __future__ import annotations

import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"

QUESTION = "question"
#: The steps of a strategy from left to right; parallel steps are in one group. A step that begins with ``*`` is a
#: structure of the store.
WAYS: dict[str, list[list[str]]] = {
    "vector": [
        [QUESTION],
        ["its vector"],
        ["*vectors of all chunks, from 20,000 on a graph of near ones"],
        ["the nearest by cosine"],
    ],
    "lexical": [[QUESTION], ["its words, stemmed"], ["*word index: chunks, titles, headings"], ["the best by BM25"]],
    "hybrid": [
        [QUESTION],
        ["cosine: 100 nearest chunks", "BM25: 100 best chunks"],
        ["calibrated shares, added"],
        ["+ headings, entries, words that stand together"],
        ["the best"],
    ],
    "sprag": [
        [QUESTION],
        ["ranking of hybrid"],
        ["what each chunk is worth, less a penalty"],
        ["runs of neighbours worth most"],
        ["segments"],
    ],
    "bridge": [
        [QUESTION],
        ["*cuckoo filter: its names"],
        ["*abstracts that speak of them"],
        ["DEPTH levels up and down"],
        ["their chunks, by cosine"],
    ],
    "cft": [
        [QUESTION],
        ["*cuckoo filter: its names"],
        ["*places in the entity forest"],
        ["ancestors and descendants told", "chunks that state them"],
        ["joined by rank with the nearest chunks"],
    ],
    "hipporag": [
        [QUESTION],
        ["its names, rare ones weigh more"],
        ["*graph of passages and names"],
        ["personalized PageRank"],
        ["passages by what reaches them"],
    ],
    "cue": [
        [QUESTION],
        ["its names", "nearest sentences"],
        ["*units: sentences and the names in them"],
        ["beams: sentence, name, sentence ..."],
        ["passages of the best paths"],
    ],
    "graph": [
        [QUESTION],
        ["its names", "its best passages", "relations that match"],
        ["*graph of passages and names"],
        ["PageRank that prefers what is asked beside the names"],
        ["+ relevance, + paths of cue"],
    ],
    "adaptive": [
        [QUESTION],
        ["hybrid", "walk of graph"],
        ["weight of the walk: how rare the names, how much is asked beside them"],
        ["one ranking"],
    ],
    "raptor": [
        [QUESTION],
        ["for an overview?"],
        ["yes: all that may answer", "no: hybrid"],
        ["sentences that together say most", "chunks"],
    ],
    "local": [
        [QUESTION],
        ["its names, and those of its nearest passages"],
        ["*graph, forest, communities"],
        ["their passages", "what the forest says", "reports of their communities"],
    ],
    "global": [
        [QUESTION],
        ["*communities, the coarsest first"],
        ["down where one says as much"],
        ["points of each"],
        ["those that say most"],
    ],
    "drift": [
        [QUESTION],
        ["*nearest communities"],
        ["local search", "their strongest names"],
        ["local search with each, two rounds"],
        ["passages, then reports"],
    ],
    "archrag": [
        [QUESTION],
        ["*one graph of entities and communities in layers"],
        ["one descent: the nearest of each layer"],
        ["passages they lead to, ranked beside hybrid's", "reports of the communities"],
    ],
}
WIDE, LINE, GAP, BETWEEN, MARGIN = 144, 17, 34, 14, 6
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#123;text-anchor:middle}"
    "rect{fill:#d5ebe6;stroke:#3b8274}.kept{fill:#f6e3bd;stroke:#a97b1e}.asked{fill:#e4e4ea;stroke:#77778a}"
    "path{stroke:#808890;fill:none;stroke-width:1.5}#head path{fill:#808890;stroke:none}"
)


def draw_strategy(name: str) -> str:
    """Return the diagram of one strategy as SVG."""
    groups = [[(step, textwrap.wrap(step.removeprefix("*"), 18)) for step in group] for group in WAYS[name]]
    heights = [[LINE * len(lines) + 14 for _, lines in group] for group in groups]
    tall = max(sum(group) + BETWEEN * (len(group) - 1) for group in heights) + 2 * MARGIN
    wide = len(groups) * WIDE + (len(groups) - 1) * GAP + 2 * MARGIN
    boxes, arrows, before = [], [], list[tuple[float, float]]()
    for column, (group, high) in enumerate(zip(groups, heights, strict=True)):
        left = MARGIN + column * (WIDE + GAP)
        top = (tall - sum(high) - BETWEEN * (len(high) - 1)) / 2
        ends = []
        for (step, lines), height in zip(group, high, strict=True):
            kind = "kept" if step.startswith("*") else "asked" if step == QUESTION else "step"
            boxes.append(f'<rect class="{kind}" x="{left}" y="{top:g}" width="{WIDE}" height="{height}" rx="6"/>')
            for number, line in enumerate(lines):
                y = top + 7 + LINE * (number + 0.78)
                boxes.append(f'<text x="{left + WIDE / 2:g}" y="{y:g}">{escape(line)}</text>')
            ends.append((left, top + height / 2))
            top += height + BETWEEN
        # If both groups have the same number of steps, these are connected pairwise.
        pairs = zip(before, ends, strict=True) if len(before) == len(ends) else ((a, b) for a in before for b in ends)
        for (x, y), (to_x, to_y) in pairs:
            middle = (x + WIDE + to_x) / 2
            arrows.append(
                f'<path marker-end="url(#head)" d="M{x + WIDE:g} {y:g}'
                f'C{middle:g} {y:g} {middle:g} {to_y:g} {to_x - 7:g} {to_y:g}"/>'
            )
        before = ends
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall:g}" width="{wide}"'
                f' height="{tall:g}" role="img">',
                f"<title>The way of {name}</title><style>{_STYLE}</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7"'
                ' orient="auto">'
                '<path d="M0 0L8 4L0 8z"/></marker></defs>',
                *arrows,
                *boxes,
                "</svg>",
            ]
        )
        + "\n"
    )


def build_files() -> dict[Path, str]:
    """Return the generated files and their contents."""
    return {FOLDER / f"{name}.svg": draw_strategy(name) for name in WAYS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in build_files().items():
        path.write_text(text, encoding="utf-8")
