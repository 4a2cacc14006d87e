"""The elements of every picture: fitted texts, and an SVG document that works by itself, in a page and in a notebook.

In: texts as they are stored. Out: SVG (1.1) without scripts or external links. All text is escaped, so none can close
an element, and characters that XML forbids are removed. Colors follow the reader's light or dark scheme. The classes
have a prefix, so a picture does not change the page around it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable

#: Widths of characters as shares of the font size in a sans-serif face, wide enough for most faces.
_NARROW_CHARACTERS = frozenset("iljtfrI.,:;'!|()[]{}/\\`- ")
_BROAD_CHARACTERS = frozenset("mwMW@%—…")
_NOT_XML_PATTERN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE = (
    ".kv-ground{fill:#fff}.kv-ink{fill:#22262b}.kv-quiet{fill:#5d656e}.kv-line{stroke:#dedbd5}.kv-join{stroke:#8b929a}"
    ".kv-accent{fill:#2a5d80}.kv-tree{stroke:#2f6f9f}.kv-node{fill:#2f6f9f}.kv-rail{fill:#e9e6e1}"
    ".kv-on-accent{fill:#fff}"
    "@media (prefers-color-scheme:dark){.kv-ground{fill:#1d2125}.kv-ink{fill:#dfe2e4}.kv-quiet{fill:#a0a8af}"
    ".kv-line{stroke:#3a4148}.kv-join{stroke:#78818a}.kv-accent{fill:#8cbbdc}.kv-tree{stroke:#7db7e0}"
    ".kv-node{fill:#7db7e0}.kv-rail{fill:#2f353b}.kv-on-accent{fill:#16191c}}"
)
_FONT_FAMILY = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif"


def escape_text(text: str) -> str:
    """Escape a text for XML, and remove the characters that XML forbids."""
    return html.escape(_NOT_XML_PATTERN.sub("", text))


def measure_text(text: str, size: float) -> float:
    """Return the approximate width of a text in pixels. ``size`` is the font size in pixels."""
    return size * sum(map(_measure_character, text))


def _measure_character(character: str) -> float:
    """Return the approximate width of a character as a share of the font size, as in usual sans-serif fonts."""
    if character in _NARROW_CHARACTERS:
        return 0.34
    if character in _BROAD_CHARACTERS or unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if unicodedata.combining(character):
        return 0.0
    return 0.68 if character.isupper() else 0.57


def truncate(text: str, size: float, width: float) -> str:
    """Return a text, or its beginning and an ellipsis if it is wider than ``width`` pixels.

    ``size`` is the font size in pixels.
    """
    if measure_text(text, size) <= width:
        return text
    remaining_width = width - size  # without the ellipsis
    length = 0
    for character in text:
        remaining_width -= size * _measure_character(character)
        if remaining_width < 0:
            break
        length += 1
    return text[:length].rstrip() + "…"


def wrap_text(text: str, size: float, width: float, max_lines: int) -> list[str]:
    """Break a text into at most ``max_lines`` lines of at most ``width`` pixels; return the lines.

    Text beyond the last line is replaced by an ellipsis. ``size`` is the font size in pixels.
    """
    lines: list[str] = []
    remaining = " ".join(text.split())
    while remaining and len(lines) < max_lines - 1:
        if measure_text(remaining, size) <= width:
            break
        num_fitting = len(truncate(remaining, size, width)) - 1  # without the ellipsis
        space = remaining.rfind(" ", 0, num_fitting + 1)
        end = space if space > 0 else max(num_fitting, 1)
        lines.append(remaining[:end])
        remaining = remaining[end:].lstrip()
    return [*lines, truncate(remaining, size, width)] if remaining else lines


def render_text(
    x: float, y: float, line: str, style: str = "ink", *, size: float = 13, anchor: str = "start", bold: bool = False
) -> str:
    """Return the SVG of a line of text with its baseline at ``y``.

    ``style`` is a CSS class of the picture without its prefix: ``ink``, ``quiet`` or ``on-accent``. ``size`` is the
    font size in pixels. ``anchor`` is the point of the line that is at ``x``: ``start``, ``middle`` or ``end``.
    """
    anchor_attribute = "" if anchor == "start" else f' text-anchor="{anchor}"'
    weight_attribute = ' font-weight="600"' if bold else ""
    position_attributes = f'x="{format_number(x)}" y="{format_number(y)}" font-size="{format_number(size)}"'
    return (
        f'<text class="kv-{style}" {position_attributes}{anchor_attribute}{weight_attribute}>{escape_text(line)}</text>'
    )


def format_number(value: float) -> str:
    """Return a coordinate as text with at most one decimal, which is precise enough for a picture."""
    return f"{value:.1f}".removesuffix(".0")


def render_picture(width: float, height: float, title: str, elements: Iterable[str]) -> str:
    """Return the SVG of a whole picture: a background, then the SVG ``elements``.

    ``title`` is read by screen readers. The size is in pixels.
    """
    svg_width, svg_height = format_number(width), format_number(height)
    size = f'width="{svg_width}" height="{svg_height}" viewBox="0 0 {svg_width} {svg_height}"'
    background = f'<rect class="kv-ground" width="{svg_width}" height="{svg_height}" rx="8"/>'
    title_element = f"<title>{escape_text(title)}</title>"
    opening_tag = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{_FONT_FAMILY}">'
    return "".join([opening_tag, title_element, f"<style>{_STYLE}</style>", background, *elements, "</svg>"])
