"""A picture of how a question was answered: its steps from top to bottom, with results and times, and the evidence.

In: the question, steps, and optional hits. Out: SVG. A step is a dot on a line with its name, its detail and its number
    of results. If times are known, a bar compares the time of each step with the longest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from . import svg

_WIDTH = 760
_LEFT_MARGIN, _RIGHT_MARGIN = 58, 28
_BAR_WIDTH = 150
#: The maximum number of lines of a step's detail, and of shown hits.
_MAX_LINES, _MAX_HITS = 3, 10


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step: its name, its detail, the number of results, and its time in milliseconds."""

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
    """Return the SVG of a question, its steps from top to bottom, and its hits.

    ``total_milliseconds`` is the total time, if known; without it, the times of steps are not drawn.
    """
    elements: list[str] = []
    y = 40.0
    for line in svg.wrap_text(question, 18, _WIDTH - 2 * _RIGHT_MARGIN, 3):
        elements.append(svg.render_text(_RIGHT_MARGIN, y, line, size=18, weight=600))
        y += 25
    if total_milliseconds is not None:
        elements.append(
            svg.render_text(
                _RIGHT_MARGIN, y, f"{len(steps)} steps, {_format_milliseconds(total_milliseconds)}", "quiet", size=12.5
            )
        )
        y += 22
    y += 12
    rail_top = y
    max_milliseconds = (
        max((step.milliseconds or 0.0 for step in steps), default=0.0) if total_milliseconds is not None else 0.0
    )
    last_y = y
    dots: list[str] = []
    for step in steps:
        last_y = y
        lines = svg.wrap_text(step.detail, 12.5, _WIDTH - _LEFT_MARGIN - _RIGHT_MARGIN - _BAR_WIDTH - 20, _MAX_LINES)
        dots.append(f'<circle class="kv-accent" cx="34" cy="{svg.format_number(y - 5)}" r="5"/>')
        elements += _draw_step(step, lines, y, max_milliseconds)
        y += 34.0 + 17 * len(lines)
    endpoints = f'y1="{svg.format_number(rail_top - 5)}" y2="{svg.format_number(last_y - 5)}"'
    line = f'<line class="kv-line" x1="34" x2="34" {endpoints} stroke-width="2"/>'
    if hits:
        y += 8
        elements.append(svg.render_text(_RIGHT_MARGIN, y, "Evidence", size=14, weight=600))
        y += 26
        max_score = max(abs(hit.score) for hit in hits) or 1.0
        for rank, hit in enumerate(hits[:_MAX_HITS], 1):
            elements += _draw_hit(rank, hit, y, max_score)
            y += 42
        if len(hits) > _MAX_HITS:
            elements.append(svg.render_text(_LEFT_MARGIN, y, f"and {len(hits) - _MAX_HITS:,} more", "quiet", size=12.5))
            y += 24
    return svg.render_picture(_WIDTH, y + 4, f"How this was found: {question}", [line, *dots, *elements])


def _draw_step(step: DrawnStep, lines: Sequence[str], y: float, max_milliseconds: float) -> list[str]:
    """Return the SVG elements of a step whose name is at the height ``y``; ``lines`` are those of its detail.

    The bar of its time is drawn if ``max_milliseconds``, the time of the longest step, is above 0.
    """
    elements = [
        svg.render_text(
            _LEFT_MARGIN,
            y,
            svg.truncate(step.name, 14, _WIDTH - _LEFT_MARGIN - _RIGHT_MARGIN - _BAR_WIDTH - 20),
            size=14,
            weight=600,
        )
    ]
    for line_index, line in enumerate(lines):
        elements.append(svg.render_text(_LEFT_MARGIN, y + 18 + 17 * line_index, line, "quiet", size=12.5))
    end = _WIDTH - _RIGHT_MARGIN
    if step.count is not None:
        elements.append(svg.render_text(end, y, f"{step.count:,}" if step.count else "none", size=13, anchor="end"))
    if step.milliseconds is not None and max_milliseconds > 0:
        bar_left, bar_width = end - _BAR_WIDTH, max(1.0, _BAR_WIDTH * step.milliseconds / max_milliseconds)
        bar_attributes = f'y="{svg.format_number(y + 9)}" height="5" rx="2.5"'
        elements.append(
            f'<rect class="kv-rail" x="{svg.format_number(bar_left)}" {bar_attributes} width="{_BAR_WIDTH}"/>'
        )
        elements.append(
            f'<rect class="kv-accent" x="{svg.format_number(bar_left)}" {bar_attributes} '
            f'width="{svg.format_number(bar_width)}"/>'
        )
        elements.append(
            svg.render_text(end, y + 27, _format_milliseconds(step.milliseconds), "quiet", size=11.5, anchor="end")
        )
    return elements


def _draw_hit(rank: int, hit: DrawnHit, y: float, max_score: float) -> list[str]:
    """Return the SVG elements of a hit whose title is at the height ``y``, with a bar for its score."""
    end = _WIDTH - _RIGHT_MARGIN
    text_width = _WIDTH - _LEFT_MARGIN - _RIGHT_MARGIN - _BAR_WIDTH - 20
    bar_width = max(1.0, _BAR_WIDTH * abs(hit.score) / max_score)
    bar_attributes = f'y="{svg.format_number(y - 9)}" height="7" rx="3.5"'
    return [
        f'<circle class="kv-accent" cx="38" cy="{svg.format_number(y - 5)}" r="10.5"/>',
        svg.render_text(38, y - 1, str(rank), "on-accent", size=11, anchor="middle", weight=600),
        svg.render_text(_LEFT_MARGIN, y, svg.truncate(hit.title, 13.5, text_width), size=13.5, weight=600),
        svg.render_text(
            _LEFT_MARGIN,
            y + 17,
            svg.truncate(" ".join(hit.path.split()), 12, text_width + _BAR_WIDTH),
            "quiet",
            size=12,
        ),
        f'<rect class="kv-rail" x="{svg.format_number(end - _BAR_WIDTH)}" {bar_attributes} width="{_BAR_WIDTH}"/>',
        f'<rect class="kv-accent" x="{svg.format_number(end - _BAR_WIDTH)}" {bar_attributes} '
        f'width="{svg.format_number(bar_width)}">'
        f"<title>{hit.score:.4g}</title></rect>",
    ]


def _format_milliseconds(value: float) -> str:
    """Format a time: without decimals from 10 ms on, else with two significant digits."""
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"
