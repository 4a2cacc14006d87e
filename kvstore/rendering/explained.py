"""A picture of how a question was answered: its steps from top to bottom, with results and times, and the evidence.
Coordinates are in pixels from the upper left corner.

In: the question, steps, and optional hits. Out: SVG. A step is a dot on a line with its name, its detail and its number
of results. If times are known, a bar compares the time of each step with the longest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import svg

_WIDTH = 760
#: The distance of headings from the left edge, and of all elements from the right edge. The distance of the texts of
#: steps and hits from the left edge.
_MARGIN, _LEFT_MARGIN = 28, 58
_BAR_WIDTH = 150
#: The width of a text left of a bar.
_TEXT_WIDTH = _WIDTH - _LEFT_MARGIN - _MARGIN - _BAR_WIDTH - 20
#: The horizontal position of the line that connects the dots of steps.
_RAIL_X = 34
#: The font sizes of the question, of names and of details, and the heights of their lines.
_QUESTION_SIZE, _NAME_SIZE, _DETAIL_SIZE = 18, 14, 12.5
_QUESTION_LINE, _DETAIL_LINE = 25, 17
#: The height of a step without its details, and of a hit.
_STEP_HEIGHT, _HIT_HEIGHT = 34.0, 42
#: The height of the summary below the question, and the distance from the heading to the steps.
_SUMMARY_LINE, _HEADING_GAP = 22, 12
#: The distance of the heading of the evidence from the steps, and the height of a line without a hit.
_EVIDENCE_GAP, _EVIDENCE_LINE = 8, 26
#: The height of a dot's center above the baseline of the name next to it.
_DOT_RISE = 5
#: The horizontal position of the ranks of hits, and the font sizes of the titles of hits and of their paths.
_RANK_X, _TITLE_SIZE, _PATH_SIZE = 38, 13.5, 12
#: The maximum number of lines of the question or a step's detail, and of shown hits.
_MAX_LINES, _MAX_HITS = 3, 10


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step: its name, its detail, the number of results, and its time in milliseconds (None: unknown)."""

    name: str
    detail: str
    count: int | None
    milliseconds: float | None


class DrawnHit(NamedTuple):
    """A hit: its title, the path that led to it, and its score."""

    title: str
    path: str
    score: float


def draw_explanation(
    question: str, steps: Sequence[DrawnStep], hits: Sequence[DrawnHit] = (), *, total_milliseconds: float | None = None
) -> str:
    """Return the SVG of how a question was answered: the question, the steps from top to bottom, and the hits.

    ``total_milliseconds`` is the time of all steps (None: unknown, and the times of steps are not drawn either).
    """
    summary = "" if total_milliseconds is None else f"{len(steps)} steps, {_format_milliseconds(total_milliseconds)}"
    max_milliseconds = 0.0
    if total_milliseconds is not None:
        max_milliseconds = max((step.milliseconds or 0.0 for step in steps), default=0.0)
    heading = _draw_heading(question, summary)
    drawn_steps = _draw_steps(steps, heading.bottom, max_milliseconds)
    drawn_hits = _draw_hits(hits, drawn_steps.bottom)
    elements = [*heading.elements, *drawn_steps.elements, *drawn_hits.elements]
    return svg.render_picture(_WIDTH, drawn_hits.bottom + 4, f"How this was found: {question}", elements)


class _DrawnPart(NamedTuple):
    """The SVG elements of a part of the picture, and the y coordinate in pixels at which the next part begins."""

    elements: list[str]
    bottom: float


def _draw_heading(question: str, summary: str) -> _DrawnPart:
    """Draw the question, and the ``summary`` below it unless it is empty, at the top of the picture."""
    elements: list[str] = []
    y = 40.0
    for line in svg.wrap_text(question, _QUESTION_SIZE, _WIDTH - 2 * _MARGIN, _MAX_LINES):
        elements.append(svg.render_text(_MARGIN, y, line, size=_QUESTION_SIZE, bold=True))
        y += _QUESTION_LINE
    if summary:
        elements.append(svg.render_text(_MARGIN, y, summary, "quiet", size=_DETAIL_SIZE))
        y += _SUMMARY_LINE
    return _DrawnPart(elements, y + _HEADING_GAP)


def _draw_steps(steps: Sequence[DrawnStep], top: float, max_milliseconds: float) -> _DrawnPart:
    """Draw the steps below each other, the name of the first at the y coordinate ``top``.

    ``max_milliseconds`` is the time of the longest step, which has the longest bar; 0 if times are not drawn.
    """
    elements: list[str] = []
    dots: list[str] = []
    y = last_y = top
    for step in steps:
        last_y = y
        lines = svg.wrap_text(step.detail, _DETAIL_SIZE, _TEXT_WIDTH, _MAX_LINES)
        dots.append(f'<circle class="kv-accent" cx="{_RAIL_X}" cy="{svg.format_number(y - _DOT_RISE)}" r="5"/>')
        elements += _draw_step(step, lines, y, max_milliseconds)
        y += _STEP_HEIGHT + _DETAIL_LINE * len(lines)
    endpoints = f'y1="{svg.format_number(top - _DOT_RISE)}" y2="{svg.format_number(last_y - _DOT_RISE)}"'
    line = f'<line class="kv-line" x1="{_RAIL_X}" x2="{_RAIL_X}" {endpoints} stroke-width="2"/>'
    return _DrawnPart([line, *dots, *elements], y)  # the dots cover the line


def _draw_hits(hits: Sequence[DrawnHit], top: float) -> _DrawnPart:
    """Draw the first ``_MAX_HITS`` hits below the y coordinate ``top``, and the number of further hits."""
    if not hits:
        return _DrawnPart([], top)
    y = top + _EVIDENCE_GAP
    elements = [svg.render_text(_MARGIN, y, "Evidence", size=_NAME_SIZE, bold=True)]
    y += _EVIDENCE_LINE
    max_score = max(abs(hit.score) for hit in hits) or 1.0  # not 0, because it is a divisor
    for rank, hit in enumerate(hits[:_MAX_HITS], 1):
        elements += _draw_hit(rank, hit, y, max_score)
        y += _HIT_HEIGHT
    if len(hits) > _MAX_HITS:
        remark = f"and {len(hits) - _MAX_HITS:,} more"
        elements.append(svg.render_text(_LEFT_MARGIN, y, remark, "quiet", size=_DETAIL_SIZE))
        y += _EVIDENCE_LINE
    return _DrawnPart(elements, y)


def _draw_step(step: DrawnStep, lines: Sequence[str], y: float, max_milliseconds: float) -> list[str]:
    """Return the SVG elements of a step whose name is at the y coordinate ``y``; ``lines`` are the lines of its detail.

    The bar of its time is drawn if ``max_milliseconds``, the time of the longest step, is above 0.
    """
    name = svg.truncate(step.name, _NAME_SIZE, _TEXT_WIDTH)
    elements = [svg.render_text(_LEFT_MARGIN, y, name, size=_NAME_SIZE, bold=True)]
    for line_index, line in enumerate(lines):
        line_y = y + 18 + _DETAIL_LINE * line_index
        elements.append(svg.render_text(_LEFT_MARGIN, line_y, line, "quiet", size=_DETAIL_SIZE))
    right = _WIDTH - _MARGIN
    if step.count is not None:
        count = f"{step.count:,}" if step.count else "none"
        elements.append(svg.render_text(right, y, count, size=13, anchor="end"))
    if step.milliseconds is not None and max_milliseconds > 0:
        time = _format_milliseconds(step.milliseconds)
        elements += _draw_bar(step.milliseconds / max_milliseconds, y + 9, height=5)
        elements.append(svg.render_text(right, y + 27, time, "quiet", size=11.5, anchor="end"))
    return elements


def _draw_hit(rank: int, hit: DrawnHit, y: float, max_score: float) -> list[str]:
    """Return the SVG elements of a hit whose title is at the y coordinate ``y``, with a bar for its score.

    ``rank`` counts from 1. ``max_score`` is the highest absolute score, which has the longest bar.
    """
    title = svg.truncate(hit.title, _TITLE_SIZE, _TEXT_WIDTH)
    path = svg.truncate(" ".join(hit.path.split()), _PATH_SIZE, _TEXT_WIDTH + _BAR_WIDTH)
    # The rank in a circle, the title with the path below it, and the bar.
    return [
        f'<circle class="kv-accent" cx="{_RANK_X}" cy="{svg.format_number(y - _DOT_RISE)}" r="10.5"/>',
        svg.render_text(_RANK_X, y - 1, str(rank), "on-accent", size=11, anchor="middle", bold=True),
        svg.render_text(_LEFT_MARGIN, y, title, size=_TITLE_SIZE, bold=True),
        svg.render_text(_LEFT_MARGIN, y + _DETAIL_LINE, path, "quiet", size=_PATH_SIZE),
        *_draw_bar(abs(hit.score) / max_score, y - 9, height=7, tooltip=f"{hit.score:.4g}"),
    ]


def _draw_bar(share: float, y: float, *, height: float, tooltip: str = "") -> list[str]:
    """Return the SVG elements of a bar at the right margin, whose top is at ``y``; the fraction ``share`` is filled.

    ``height`` is in pixels; ``tooltip`` is shown if the pointer is over the filled part.
    """
    left = _WIDTH - _MARGIN - _BAR_WIDTH
    filled_width = svg.format_number(max(1.0, _BAR_WIDTH * share))
    tag_end = f"><title>{tooltip}</title></rect>" if tooltip else "/>"
    attributes = f'x="{left}" y="{svg.format_number(y)}" height="{height:g}" rx="{height / 2:g}"'
    return [
        f'<rect class="kv-rail" {attributes} width="{_BAR_WIDTH}"/>',
        f'<rect class="kv-accent" {attributes} width="{filled_width}"{tag_end}',
    ]


def _format_milliseconds(value: float) -> str:
    """Format a time: without decimals from 10 ms on, else with two significant digits."""
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"
