"""The way of a question as a picture: its steps from top to bottom, with what each found and took, and the evidence.

In: what was asked, steps, and perhaps hits. Out: SVG. A step is a dot on a line: its name, what it has to say, how many
it found; where times are known a bar says which share of the whole it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import svg

_WIDTH = 760
_LEFT, _RIGHT_MARGIN = 58, 28
_BAR_WIDTH = 150
#: Lines of a step's detail, and hits, that are shown.
_LINES, _MAX_HITS = 3, 10


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step: what it did, what it has to say, how many it found, and in how many milliseconds."""

    name: str
    detail: str
    count: int | None
    milliseconds: float | None


@dataclass(frozen=True, slots=True)
class DrawnHit:
    """Something found: what it is called, why it is there, and its score."""

    title: str
    path: str
    score: float


def way(question: str, steps: Sequence[DrawnStep], hits: Sequence[DrawnHit] = (), *, whole: float | None = None) -> str:
    """The picture; ``whole`` are the milliseconds that all took, where they are known."""
    parts: list[str] = []
    y = 40.0
    for line in svg.wrapped(question, 18, _WIDTH - 2 * _RIGHT_MARGIN, 3):
        parts.append(svg.text(_RIGHT_MARGIN, y, line, size=18, weight=600))
        y += 25
    if whole is not None:
        parts.append(svg.text(_RIGHT_MARGIN, y, f"{len(steps)} steps, {_milliseconds(whole)}", "quiet", size=12.5))
        y += 22
    y += 12
    rail_top = y
    max_milliseconds = max((step.milliseconds or 0.0 for step in steps), default=0.0) if whole is not None else 0.0
    last_y = y
    dots: list[str] = []
    for step in steps:
        last_y = y
        lines = svg.wrapped(step.detail, 12.5, _WIDTH - _LEFT - _RIGHT_MARGIN - _BAR_WIDTH - 20, _LINES)
        dots.append(f'<circle class="kv-accent" cx="34" cy="{svg.number(y - 5)}" r="5"/>')
        parts += _step(step, lines, y, max_milliseconds)
        y += 34.0 + 17 * len(lines)
    endpoints = f'y1="{svg.number(rail_top - 5)}" y2="{svg.number(last_y - 5)}"'
    line = f'<line class="kv-line" x1="34" x2="34" {endpoints} stroke-width="2"/>'
    if hits:
        y += 8
        parts.append(svg.text(_RIGHT_MARGIN, y, "Evidence", size=14, weight=600))
        y += 26
        max_score = max(abs(hit.score) for hit in hits) or 1.0
        for rank, hit in enumerate(hits[:_MAX_HITS], 1):
            parts += _hit(rank, hit, y, max_score)
            y += 42
        if len(hits) > _MAX_HITS:
            parts.append(svg.text(_LEFT, y, f"and {len(hits) - _MAX_HITS:,} more", "quiet", size=12.5))
            y += 24
    return svg.picture(_WIDTH, y + 4, f"How this was found: {question}", [line, *dots, *parts])


def _step(step: DrawnStep, lines: Sequence[str], y: float, longest: float) -> list[str]:
    parts = [
        svg.text(
            _LEFT, y, svg.cut(step.name, 14, _WIDTH - _LEFT - _RIGHT_MARGIN - _BAR_WIDTH - 20), size=14, weight=600
        )
    ]
    for number, line in enumerate(lines):
        parts.append(svg.text(_LEFT, y + 18 + 17 * number, line, "quiet", size=12.5))
    end = _WIDTH - _RIGHT_MARGIN
    if step.count is not None:
        parts.append(svg.text(end, y, f"{step.count:,}" if step.count else "none", size=13, anchor="end"))
    if step.milliseconds is not None and longest > 0:
        bar_left, bar_width = end - _BAR_WIDTH, max(1.0, _BAR_WIDTH * step.milliseconds / longest)
        bar_attributes = f'y="{svg.number(y + 9)}" height="5" rx="2.5"'
        parts.append(f'<rect class="kv-rail" x="{svg.number(bar_left)}" {bar_attributes} width="{_BAR_WIDTH}"/>')
        parts.append(
            f'<rect class="kv-accent" x="{svg.number(bar_left)}" {bar_attributes} width="{svg.number(bar_width)}"/>'
        )
        parts.append(svg.text(end, y + 27, _milliseconds(step.milliseconds), "quiet", size=11.5, anchor="end"))
    return parts


def _hit(rank: int, hit: DrawnHit, y: float, most: float) -> list[str]:
    end = _WIDTH - _RIGHT_MARGIN
    text_width = _WIDTH - _LEFT - _RIGHT_MARGIN - _BAR_WIDTH - 20
    bar_width = max(1.0, _BAR_WIDTH * abs(hit.score) / most)
    bar_attributes = f'y="{svg.number(y - 9)}" height="7" rx="3.5"'
    return [
        f'<circle class="kv-accent" cx="38" cy="{svg.number(y - 5)}" r="10.5"/>',
        svg.text(38, y - 1, str(rank), "on-accent", size=11, anchor="middle", weight=600),
        svg.text(_LEFT, y, svg.cut(hit.title, 13.5, text_width), size=13.5, weight=600),
        svg.text(_LEFT, y + 17, svg.cut(" ".join(hit.path.split()), 12, text_width + _BAR_WIDTH), "quiet", size=12),
        f'<rect class="kv-rail" x="{svg.number(end - _BAR_WIDTH)}" {bar_attributes} width="{_BAR_WIDTH}"/>',
        f'<rect class="kv-accent" x="{svg.number(end - _BAR_WIDTH)}" {bar_attributes} width="{svg.number(bar_width)}">'
        f"<title>{hit.score:.4g}</title></rect>",
    ]


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"
