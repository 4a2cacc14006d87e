"""A picture of a network of names: names in boxes, arrows from child to parent, and dashed lines for other joins.

In: names with their distances from the center, and joins. Out: SVG, or only the positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from . import svg
from .stress import Positions, compute_layout

#: The maximum number of names in a picture. The memory of the layout is proportional to the square of this number.
MAX_DRAWN_NAMES = 2000
_FONT_SIZE, _BOX_HEIGHT, _MAX_NAME_WIDTH = 13.0, 26.0, 190.0
_MARGIN = 28.0
#: The distance of a name from the left and right edge of its box, and of its baseline from the middle of the box.
_BOX_PADDING, _BASELINE_OFFSET = 11, 4.5
_TITLE_SIZE, _TITLE_Y, _MAX_TITLE_WIDTH = 17.0, 36, 2000
_HEADER_HEIGHT, _MIN_WIDTH = 44.0, 420.0
#: The length of an arrowhead in pixels, and the angle of its sides to the line in radians.
_ARROW_LENGTH, _ARROW_ANGLE = 8, 0.42


class DrawnName(NamedTuple):
    """A name, and its number of steps from the center."""

    name: str
    distance: int


class DrawnEdge(NamedTuple):
    """An edge between two names, by their indexes; ``label`` is its tooltip. If ``solid``, it joins child to parent."""

    source: int
    target: int
    solid: bool
    label: str


def lay_out_names(names: Sequence[DrawnName], edges: Sequence[DrawnEdge]) -> Positions:
    """Return a layout of a network: the centers of the names' boxes in pixels, shape (names, 2).

    Names that an edge connects are near each other.
    """
    return compute_layout(
        len(names), [(edge.source, edge.target) for edge in edges], [*map(_measure_name, names)], _BOX_HEIGHT
    )


def draw_network(
    title: str, names: Sequence[DrawnName], edges: Sequence[DrawnEdge], positions: Positions, remark: str = ""
) -> str:
    """Return the SVG of a network with the center of each name at its position, in pixels.

    ``edges`` refer to ``names`` by index. ``remark`` is added to the legend below the picture.
    """
    shown_title = svg.truncate(title, _TITLE_SIZE, _MAX_TITLE_WIDTH)
    elements = [svg.render_text(_MARGIN, _TITLE_Y, shown_title, size=_TITLE_SIZE, bold=True)]
    box_widths = [*map(_measure_name, names)]
    content_width = max(
        [x + box_width / 2 for (x, _), box_width in zip(positions.tolist(), box_widths, strict=True)], default=0.0
    )
    content_height = max([y + _BOX_HEIGHT / 2 for _, y in positions.tolist()], default=0.0)
    width = max(content_width + 2 * _MARGIN, svg.measure_text(shown_title, _TITLE_SIZE) + 2 * _MARGIN, _MIN_WIDTH)
    left, top = (width - content_width) / 2, _MARGIN + _HEADER_HEIGHT
    points = [(x + left, y + top) for x, y in positions.tolist()]
    for edge in sorted(edges, key=lambda edge: edge.solid):  # solid edges are drawn over dashed ones
        elements.append(_draw_edge(edge, points, box_widths))
    for (x, y), name in zip(points, names, strict=True):
        elements.append(_draw_box(x, y, name))
    bottom = content_height + _HEADER_HEIGHT + 2 * _MARGIN + 8
    legend = "by a link, or named in the same passage" + (f"; {remark}" if remark else "")
    # The legend in one row: each sample line, followed by its text.
    elements += [
        _draw_legend_line("kv-tree", _MARGIN, bottom, 'stroke-width="2"'),
        svg.render_text(_MARGIN + 32, bottom, "in a tree", "quiet", size=12),
        _draw_legend_line("kv-join", _MARGIN + 104, bottom, 'stroke-dasharray="4 3"'),
        svg.render_text(_MARGIN + 136, bottom, legend, "quiet", size=12),
    ]
    return svg.render_picture(width, bottom + 20, title, elements)


def _draw_legend_line(css_class: str, x: float, y: float, attributes: str) -> str:
    """Return the SVG of a sample line in the legend, left of the text whose baseline is at ``y``.

    ``x`` is its left end. It has the ``css_class`` and the SVG ``attributes`` of the lines that the text explains.
    """
    y = y - 4  # the middle of the letters
    return (
        f'<line class="{css_class}" x1="{x:g}" x2="{x + 24:g}" y1="{svg.format_number(y)}" y2="{svg.format_number(y)}" '
        f"{attributes}/>"
    )


def _measure_name(name: DrawnName) -> float:
    """Return the width of a name's box in pixels."""
    bold_factor = 1.08 if name.distance == 0 else 1.0  # the name in the center is bold
    text_width = svg.measure_text(svg.truncate(name.name, _FONT_SIZE, _MAX_NAME_WIDTH), _FONT_SIZE)
    return bold_factor * text_width + 2 * _BOX_PADDING


def _draw_box(x: float, y: float, name: DrawnName) -> str:
    """Return the SVG of a name in a box around the point (x, y)."""
    width = _measure_name(name)
    is_center = name.distance == 0
    corner = f'x="{svg.format_number(x - width / 2)}" y="{svg.format_number(y - _BOX_HEIGHT / 2)}"'
    rectangle = f'{corner} width="{svg.format_number(width)}" height="{_BOX_HEIGHT:g}" rx="13"'
    box = (
        f'<rect class="kv-accent" {rectangle}/>'
        if is_center
        else f'<rect class="kv-ground kv-tree" {rectangle} stroke-width="{1.6 if name.distance == 1 else 1}"/>'
    )
    label = svg.truncate(name.name, _FONT_SIZE, _MAX_NAME_WIDTH)
    title = f"<title>{svg.escape_text(name.name)}</title>" if label != name.name else ""
    text_style = "on-accent" if is_center else "ink"
    label_text = svg.render_text(
        x, y + _BASELINE_OFFSET, label, text_style, size=_FONT_SIZE, anchor="middle", bold=is_center
    )
    return f"<g>{title}{box}{label_text}</g>"


def _draw_edge(edge: DrawnEdge, points: Sequence[tuple[float, float]], widths: Sequence[float]) -> str:
    """Return the SVG of a line between the borders of two boxes, with an arrowhead if the edge is solid.

    ``points`` are the centers of all boxes, and ``widths`` their widths.
    """
    (x1, y1), (x2, y2) = points[edge.source], points[edge.target]
    start = _find_border_point(x1, y1, x2, y2, widths[edge.source])
    end = _find_border_point(x2, y2, x1, y1, widths[edge.target])
    title = f"<title>{svg.escape_text(edge.label)}</title>" if edge.label else ""
    coordinates = zip(("x1", "y1", "x2", "y2"), (*start, *end), strict=True)
    endpoints = " ".join(f'{name}="{svg.format_number(coordinate)}"' for name, coordinate in coordinates)
    if not edge.solid:
        return f'<line class="kv-join" {endpoints} stroke-dasharray="5 4" opacity="0.7">{title}</line>'
    (start_x, start_y), (end_x, end_y) = start, end
    angle = math.atan2(end_y - start_y, end_x - start_x)
    # The two corners of the arrowhead on both sides of the line.
    corners = [
        (end_x - _ARROW_LENGTH * math.cos(angle + deviation), end_y - _ARROW_LENGTH * math.sin(angle + deviation))
        for deviation in (-_ARROW_ANGLE, _ARROW_ANGLE)
    ]
    arrow_points = " ".join(f"{svg.format_number(x)},{svg.format_number(y)}" for x, y in (end, *corners))
    return (
        f'<g>{title}<line class="kv-tree" {endpoints} stroke-width="2"/><polygon class="kv-node" '
        f'points="{arrow_points}"/></g>'
    )


def _find_border_point(x: float, y: float, to_x: float, to_y: float, width: float) -> tuple[float, float]:
    """Return the point where the line from the center of a box to another point crosses the border of the box.

    The center is (``x``, ``y``), and the other point is (``to_x``, ``to_y``). If the other point is inside the box, it
    is returned. ``width`` is the width of the box; its height is ``_BOX_HEIGHT``.
    """
    dx, dy = to_x - x, to_y - y
    if not dx and not dy:
        return x, y
    # The fractions of the line at which it leaves through a side of the box, and through its top or bottom.
    side_fraction = width / 2 / abs(dx) if dx else math.inf
    top_fraction = _BOX_HEIGHT / 2 / abs(dy) if dy else math.inf
    fraction = min(side_fraction, top_fraction, 1.0)
    return x + fraction * dx, y + fraction * dy
