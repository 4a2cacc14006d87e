"""Results as HTML for notebooks: tables, trees, and texts with marked bytes.

In: stored text of documents and models. Out: HTML without scripts, external styles, or attributes that contain such
text. Every text is escaped. Its element takes the direction of writing from the text itself, so no text can change the
direction of the text around it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

#: The maximum number of characters shown of a cell, and of rows shown of a table.
MAX_CELL_CHARACTERS = 400
MAX_TABLE_ROWS = 50

_PRE_STYLE = 'style="white-space:pre-wrap"'
_CELL_STYLE = 'style="white-space:pre-wrap;text-align:left"'
#: The greatest nesting depth that is drawn; deeper branches are left out.
MAX_DEPTH = 50


def escape(text: str) -> str:
    """Escape a text for HTML."""
    return html.escape(text)


def render_paragraph(text: str) -> str:
    """Return the HTML of a text as a paragraph, keeping its line breaks."""
    return f'<p dir="auto" {_PRE_STYLE}>{escape(text)}</p>'


def render_remark(text: str) -> str:
    """Return the HTML of a remark about a result, in italics."""
    return f'<p dir="auto"><em>{escape(text)}</em></p>'


def render_quotation(inner: str) -> str:
    """Return the HTML of a block quotation around ``inner``, which is HTML already; its line breaks are kept."""
    return f'<blockquote dir="auto" {_PRE_STYLE}>{inner}</blockquote>'


def mark_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the HTML of a text in which spans are marked; a span is (start, end) in bytes of its UTF-8.

    >>> mark_spans("a < b & c", [(4, 5), (4, 7)])
    'a &lt; <mark>b &amp;</mark> c'
    """
    utf8 = text.encode()
    pieces: list[str] = []
    offset = 0
    for start, end in _merge_spans(spans):
        pieces += [_decode_and_escape(utf8[offset:start]), f"<mark>{_decode_and_escape(utf8[start:end])}</mark>"]
        offset = end
    return "".join([*pieces, _decode_and_escape(utf8[offset:])])


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans (start, end) in order; spans that touch or overlap are merged."""
    merged_spans: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged_spans and start <= merged_spans[-1][1]:
            last_start, last_end = merged_spans[-1]
            merged_spans[-1] = last_start, max(end, last_end)
        else:
            merged_spans.append((start, end))
    return merged_spans


def _decode_and_escape(utf8: bytes) -> str:
    """Decode UTF-8 bytes, which may begin or end within a character, and escape the text for HTML."""
    return escape(utf8.decode(errors="replace"))


def render_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, remarks: Sequence[str] = ()) -> str:
    """Return the HTML of a table of the first ``MAX_TABLE_ROWS`` rows, with the remarks below it.

    Long values are truncated. If there are more rows, the first remark says so.
    """
    head = "".join(f'<th dir="auto">{escape(name)}</th>' for name in columns)
    row_markup: list[str] = []
    has_more = False
    for row in rows:
        has_more = len(row_markup) == MAX_TABLE_ROWS
        if has_more:
            break
        row_markup.append(f"<tr>{''.join(map(_render_cell, row))}</tr>")
    notes = [f"the first {MAX_TABLE_ROWS} rows; there are more", *remarks] if has_more else remarks
    table_markup = (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(row_markup)}</tbody></table>" if columns else ""
    )
    return f"<div>{table_markup}{''.join(map(render_remark, notes))}</div>"


def _render_cell(value: Any) -> str:
    """Return the HTML of a cell of a table. A long value is truncated."""
    if isinstance(value, int | float):
        return f"<td>{value:.6g}</td>" if isinstance(value, float) else f"<td>{value}</td>"
    if value is None:
        text = "NULL"
    elif isinstance(value, bytes):
        text = f"X'{value.hex()}'"
    elif isinstance(value, list | dict):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    if len(text) > MAX_CELL_CHARACTERS:
        text = text[:MAX_CELL_CHARACTERS] + "…"
    return f'<td dir="auto" {_CELL_STYLE}>{escape(text)}</td>'


def render_outline(rows: Iterable[tuple[int, str, str]]) -> str:
    """Return the HTML of a hierarchy of names as nested lists.

    ``rows`` are (level, name, note), each followed by the rows below it in the hierarchy. Level 0 is the outermost. A
    row that skips levels is put one level below the row before it. No row is deeper than ``MAX_DEPTH``.
    """
    pieces: list[str] = []
    depth = -1
    for level, name, note in rows:
        level = min(level, depth + 1, MAX_DEPTH)
        if level > depth:
            pieces.append("<ul>")
        else:
            pieces.append("</li>" + "</ul></li>" * (depth - level))
        pieces.append(f"<li>{render_name(name, note)}")
        depth = level
    return f"<div>{''.join(pieces)}{'</li></ul>' * (depth + 1)}</div>"


def render_name(name: str, note: str) -> str:
    """Return the HTML of a name, followed by a note in small type if it is not empty."""
    note_markup = f' <small dir="auto">{escape(note)}</small>' if note else ""
    return f"<bdi>{escape(name)}</bdi>{note_markup}"
