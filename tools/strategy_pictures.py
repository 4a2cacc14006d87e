"""Diagrams of the strategies, for the documentation.

In: :data:`STEP_GROUPS`, a few words per step. Out: ``docs/pictures/NAME.svg``, one per strategy. ``python
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
STEP_GROUPS: dict[str, list[list[str]]] = {
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
#: The sizes of the diagram in pixels, and the length of a line of text in a box.
BOX_WIDTH, LINE_HEIGHT, COLUMN_GAP, ROW_GAP, MARGIN = 144, 17, 34, 14, 6
#: The space above and below the text of a box, the position of the baseline in a line, and the length of an arrowhead.
BOX_PADDING, BASELINE, ARROWHEAD = 7, 0.78, 7
LINE_CHARACTERS = 18
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#123;text-anchor:middle}"
    "rect{fill:#d5ebe6;stroke:#3b8274}.kept{fill:#f6e3bd;stroke:#a97b1e}.asked{fill:#e4e4ea;stroke:#77778a}"
    "path{stroke:#808890;fill:none;stroke-width:1.5}#head path{fill:#808890;stroke:none}"
)


def draw_strategy(name: str) -> str:
    """Return the diagram of one strategy as SVG: a column of boxes for each group of steps, joined by arrows."""
    groups = [
        [(step, textwrap.wrap(step.removeprefix("*"), LINE_CHARACTERS)) for step in group]
        for group in STEP_GROUPS[name]
    ]
    heights = [[LINE_HEIGHT * len(lines) + 2 * BOX_PADDING for _, lines in group] for group in groups]
    picture_height = max(sum(group) + ROW_GAP * (len(group) - 1) for group in heights) + 2 * MARGIN
    picture_width = len(groups) * BOX_WIDTH + (len(groups) - 1) * COLUMN_GAP + 2 * MARGIN
    boxes, arrows, previous_ends = [], [], list[tuple[float, float]]()
    for column, (group, group_heights) in enumerate(zip(groups, heights, strict=True)):
        x_left = MARGIN + column * (BOX_WIDTH + COLUMN_GAP)
        top = (picture_height - sum(group_heights) - ROW_GAP * (len(group_heights) - 1)) / 2
        ends = []
        for (step, lines), height in zip(group, group_heights, strict=True):
            boxes += _draw_box(step, lines, x_left, top, height)
            ends.append((x_left, top + height / 2))
            top += height + ROW_GAP
        arrows += _draw_arrows(previous_ends, ends)
        previous_ends = ends
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {picture_width} {picture_height:g}"'
                f' width="{picture_width}" height="{picture_height:g}" role="img">',
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


def _draw_box(step: str, lines: list[str], x_left: int, top: float, height: int) -> list[str]:
    """Return the SVG elements of a step: its rectangle, and the lines of its text, centered in it."""
    style_class = "kept" if step.startswith("*") else "asked" if step == QUESTION else "step"
    elements = [f'<rect class="{style_class}" x="{x_left}" y="{top:g}" width="{BOX_WIDTH}" height="{height}" rx="6"/>']
    for index, line in enumerate(lines):
        y = top + BOX_PADDING + LINE_HEIGHT * (index + BASELINE)
        elements.append(f'<text x="{x_left + BOX_WIDTH / 2:g}" y="{y:g}">{escape(line)}</text>')
    return elements


def _draw_arrows(starts: list[tuple[float, float]], ends: list[tuple[float, float]]) -> list[str]:
    """Return the SVG paths of the arrows between the boxes of two columns.

    A box is the point (x, y) in the middle of its left side. Columns with the same number of boxes are connected
    pairwise, others completely.
    """
    pairs = (
        zip(starts, ends, strict=True)
        if len(starts) == len(ends)
        else ((start, end) for start in starts for end in ends)
    )
    arrows = []
    for (x, y), (end_x, end_y) in pairs:
        middle_x = (x + BOX_WIDTH + end_x) / 2
        arrows.append(
            f'<path marker-end="url(#head)" d="M{x + BOX_WIDTH:g} {y:g}'
            f'C{middle_x:g} {y:g} {middle_x:g} {end_y:g} {end_x - ARROWHEAD:g} {end_y:g}"/>'
        )
    return arrows


def build_files() -> dict[Path, str]:
    """Return the diagram of every strategy, by the path of its file."""
    return {FOLDER / f"{name}.svg": draw_strategy(name) for name in STEP_GROUPS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in build_files().items():
        path.write_text(text, encoding="utf-8")
