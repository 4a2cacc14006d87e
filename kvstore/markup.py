"""Results as HTML for notebooks: tables, trees, and texts of which some bytes are marked.

In: what documents and models wrote, as it is stored. Out: HTML without scripts, styles from elsewhere or attributes
that come from a text: every text is escaped, and stands in an element that takes its direction of writing from the
text itself, so that none can turn what is around it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

#: Characters of a cell, and rows of a table, that are shown.
MAX_CELL_CHARACTERS = 400
MAX_TABLE_ROWS = 50

_PRE_STYLE = 'style="white-space:pre-wrap"'
_CELL_STYLE = 'style="white-space:pre-wrap;text-align:left"'
#: Branches that are drawn one below another; what lies deeper is left out.
_MAX_DEPTH = 50


def escape(text: str) -> str:
    """A text as HTML shows it."""
    return html.escape(text)


def render_paragraph(text: str) -> str:
    """A text as a paragraph, its line ends kept."""
    return f'<p dir="auto" {_PRE_STYLE}>{escape(text)}</p>'


def render_remark(text: str) -> str:
    """A word about a result, apart from it."""
    return f'<p dir="auto"><em>{escape(text)}</em></p>'


def render_quotation(inner: str) -> str:
    """HTML as a quotation, its line ends kept."""
    return f'<blockquote dir="auto" {_PRE_STYLE}>{inner}</blockquote>'


def mark_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text, escaped, with the bytes from ``start`` to ``end`` of its UTF-8 marked, of each span.

    >>> mark_spans("a < b & c", [(4, 5), (4, 7)])
    'a &lt; <mark>b &amp;</mark> c'
    """
    data = text.encode()
    pieces: list[str] = []
    offset = 0
    for start, end in _merge_spans(spans):
        pieces += [_decode_escaped(data[offset:start]), f"<mark>{_decode_escaped(data[start:end])}</mark>"]
        offset = end
    return "".join([*pieces, _decode_escaped(data[offset:])])


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _decode_escaped(data: bytes) -> str:
    return escape(data.decode(errors="replace"))


def render_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, remarks: Sequence[str] = ()) -> str:
    """A table of the first rows, long values cut, with remarks below it."""
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
    if isinstance(value, int | float):
        return f"<td>{value:.6g}</td>" if isinstance(value, float) else f"<td>{value}</td>"
    text = "NULL" if value is None else f"X'{value.hex()}'" if isinstance(value, bytes) else value
    if isinstance(text, list | dict):
        text = json.dumps(text, ensure_ascii=False)
    text = str(text)
    if len(text) > MAX_CELL_CHARACTERS:
        text = text[:MAX_CELL_CHARACTERS] + "…"
    return f'<td dir="auto" {_CELL_STYLE}>{escape(text)}</td>'


def render_outline(rows: Iterable[tuple[int, str, str]]) -> str:
    """Lines of a level (0: outermost), a name and a note, as lists in lists: an outline, each line before those below
    it."""
    pieces: list[str] = []
    depth = -1
    for level, name, note in rows:
        level = min(level, depth + 1, _MAX_DEPTH)
        if level > depth:
            pieces.append("<ul>")
        else:
            pieces.append("</li>" + "</ul></li>" * (depth - level))
        pieces.append(f"<li>{_render_name(name, note)}")
        depth = level
    return f"<div>{''.join(pieces)}{'</li></ul>' * (depth + 1)}</div>"


def _render_name(name: str, note: str) -> str:
    note_markup = f' <small dir="auto">{escape(note)}</small>' if note else ""
    return f"<bdi>{escape(name)}</bdi>{note_markup}"


def render_relatives(rows: Iterable[Sequence[Any]]) -> str:
    """EXPAND's rows (entity, tree, level, relative, via, text) as a tree for each entity in each of its trees.

    A relative that is reached in several ways has its own relatives below it where it stands first.
    """
    groups: dict[tuple[str, str], list[Sequence[Any]]] = {}
    for row in rows:
        groups.setdefault((row[0], row[1]), []).append(row)
    pieces: list[str] = []
    for (entity, tree), members in groups.items():
        pieces.append(f"<p><b><bdi>{escape(entity)}</bdi></b> in <bdi>{escape(tree)}</bdi></p>")
        for label, sign in (("above", -1), ("below", 1)):
            by_via = _group_by_via(row for row in members if row[2] * sign > 0)
            if by_via:
                first = [row for group in by_via.values() for row in group if abs(row[2]) == 1]
                pieces.append(f"<ul><li>{label}{''.join(_render_branch(first, by_via, set(), 1))}</li></ul>")
        pieces += [render_remark(row[5]) for row in members if row[2] == 0 and not row[4] and row[3] == "…"]
    return f"<div>{''.join(pieces)}</div>"


def _group_by_via(rows: Iterable[Sequence[Any]]) -> Mapping[tuple[str, int], list[Sequence[Any]]]:
    """Relatives by the one through which they are reached, and their distance."""
    groups: dict[tuple[str, int], list[Sequence[Any]]] = {}
    for row in rows:
        groups.setdefault((row[4], abs(row[2])), []).append(row)
    return groups


def _render_branch(
    rows: Sequence[Sequence[Any]],
    by_via: Mapping[tuple[str, int], list[Sequence[Any]]],
    rendered: set[str],
    distance: int,
) -> Iterator[str]:
    yield "<ul>"
    for row in rows:
        yield f"<li>{_render_name(row[3], row[5] if ' is under ' not in row[5] else '')}"
        children = [] if row[3] in rendered else by_via.get((row[3], distance + 1), [])
        rendered.add(row[3])
        if children and distance < _MAX_DEPTH:
            yield from _render_branch(children, by_via, rendered, distance + 1)
        yield "</li>"
    yield "</ul>"
