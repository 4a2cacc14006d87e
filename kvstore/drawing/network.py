"""A network of names as a picture: boxes with names, solid arrows from the lower to the higher, dashed lines else.

In: names with how far each is from the middle, and what joins them. Out: SVG, or the places alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from . import svg
from .stress import Positions, layout

#: Names that a picture can hold and still be read; what is laid out takes the square of them in memory.
MAX_DRAWN_NAMES = 2000
_SIZE, _BOX_HEIGHT, _LONGEST = 13.0, 26.0, 190.0
_MARGIN = 28.0


class DrawnName(NamedTuple):
    """A name, and how many steps it is from the middle."""

    name: str
    distance: int


class DrawnEdge(NamedTuple):
    """A join of two names, by their numbers; ``solid`` from the name below to the name above."""

    source: int
    target: int
    solid: bool
    label: str


def placed(names: Sequence[DrawnName], joins: Sequence[DrawnEdge]) -> Positions:
    """The places of the middles of names, in pixels; shape (names, 2)."""
    return layout(len(names), [(edge.source, edge.target) for edge in joins], [*map(_width, names)], _BOX_HEIGHT)


def network(
    title: str, names: Sequence[DrawnName], joins: Sequence[DrawnEdge], places: Positions, remark: str = ""
) -> str:
    """The picture, with the names in the ``places`` that :func:`placed` gives."""
    header_height = 44.0
    parts = [svg.text(_MARGIN, 36, svg.cut(title, 17, 2000), size=17, weight=600)]
    content_width = max(
        [x + _width(name) / 2 for (x, _), name in zip(places.tolist(), names, strict=True)], default=0.0
    )
    content_height = max([y + _BOX_HEIGHT / 2 for _, y in places.tolist()], default=0.0)
    width = max(content_width + 2 * _MARGIN, svg.width_of(title, 17) + 2 * _MARGIN, 420.0)
    shift = (_MARGIN + (width - 2 * _MARGIN - content_width) / 2, _MARGIN + header_height)
    points = [(x + shift[0], y + shift[1]) for x, y in places.tolist()]
    for edge in sorted(joins, key=lambda join: join.solid):
        parts.append(_line(edge, points, [*map(_width, names)]))
    for (x, y), one in zip(points, names, strict=True):
        parts.append(_box(x, y, one))
    bottom = content_height + header_height + 2 * _MARGIN + 8
    legend = "by links, or named in the same passages" + (f"; {remark}" if remark else "")
    parts += [
        _key("kv-tree", _MARGIN, bottom, 'stroke-width="2"'),
        svg.text(_MARGIN + 32, bottom, "in a tree", "quiet", size=12),
        _key("kv-join", _MARGIN + 104, bottom, 'stroke-dasharray="4 3"'),
        svg.text(_MARGIN + 136, bottom, legend, "quiet", size=12),
    ]
    return svg.picture(width, bottom + 20, title, parts)


def _key(kind: str, x: float, y: float, drawn: str) -> str:
    """A line of the key below the picture."""
    y = y - 4
    return f'<line class="{kind}" x1="{x:g}" x2="{x + 24:g}" y1="{svg.number(y)}" y2="{svg.number(y)}" {drawn}/>'


def _width(name: DrawnName) -> float:
    bold_factor = 1.08 if name.distance == 0 else 1.0
    return bold_factor * svg.width_of(svg.cut(name.name, _SIZE, _LONGEST), _SIZE) + 22


def _box(x: float, y: float, one: DrawnName) -> str:
    wide = _width(one)
    is_middle = one.distance == 0
    corner = f'x="{svg.number(x - wide / 2)}" y="{svg.number(y - _BOX_HEIGHT / 2)}"'
    rectangle = f'{corner} width="{svg.number(wide)}" height="{_BOX_HEIGHT:g}" rx="13"'
    box = (
        f'<rect class="kv-accent" {rectangle}/>'
        if is_middle
        else f'<rect class="kv-ground kv-tree" {rectangle} stroke-width="{1.6 if one.distance == 1 else 1}"/>'
    )
    label = svg.cut(one.name, _SIZE, _LONGEST)
    full = f"<title>{svg.escaped(one.name)}</title>" if label != one.name else ""
    kind = "on-accent" if is_middle else "ink"
    label_text = svg.text(x, y + 4.5, label, kind, size=_SIZE, anchor="middle", weight=600 if is_middle else 400)
    return f"<g>{full}{box}{label_text}</g>"


def _line(join: DrawnEdge, points: Sequence[tuple[float, float]], widths: Sequence[float]) -> str:
    """A line from the rim of one box to that of the other, with a head where it is solid."""
    (x1, y1), (x2, y2) = points[join.source], points[join.target]
    start = _find_rim_point(x1, y1, x2, y2, widths[join.source])
    end = _find_rim_point(x2, y2, x1, y1, widths[join.target])
    full = f"<title>{svg.escaped(join.label)}</title>" if join.label else ""
    endpoints = (
        f'x1="{svg.number(start[0])}" y1="{svg.number(start[1])}" x2="{svg.number(end[0])}" y2="{svg.number(end[1])}"'
    )
    if not join.solid:
        return f'<line class="kv-join" {endpoints} stroke-dasharray="5 4" opacity="0.7">{full}</line>'
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    tips = [(end[0] - 8 * math.cos(angle + turn), end[1] - 8 * math.sin(angle + turn)) for turn in (-0.42, 0.42)]
    arrow_points = " ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in (end, *tips))
    return (
        f'<g>{full}<line class="kv-tree" {endpoints} stroke-width="2"/><polygon class="kv-node" '
        f'points="{arrow_points}"/></g>'
    )


def _find_rim_point(x: float, y: float, to_x: float, to_y: float, width: float) -> tuple[float, float]:
    """Where the line from the middle of a box to another place leaves the box."""
    dx, dy = to_x - x, to_y - y
    if not dx and not dy:
        return x, y
    share = min(width / 2 / abs(dx) if dx else math.inf, _BOX_HEIGHT / 2 / abs(dy) if dy else math.inf, 1.0)
    return x + share * dx, y + share * dy
