"""The page of a document: its text with marked citations and linked names, and its structure in the store. A *mark* is
a byte span that an answer cites. A *part* is a byte span of about 60 kB, of which the page shows one at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

import kvstore

from ...errors import DocumentNotFoundError, InputError
from ..store_queries import fetch_named_rows
from .document_text import ByteSpan, link_names, merge_spans, number_marks, render_marked_text
from .markdown_view import Insert, render_markdown
from .page import ExplorerPage, PageContent, PageRequest

#: The minimum size in bytes of a part of a long text.
_PART_BYTES = 60_000
#: The maximum number of listed headings and edges, and of listed names.
_MAX_LISTED = 400
_MAX_NAMES = 24
#: The fields of a document that the page shows, without its text.
_DOCUMENT_FIELDS = ("key", "title", "source", "origin", "format", "meta", "bytes", "chunks", "changed")
#: The number of attempts to read a document that changes while it is read.
_MAX_ATTEMPTS = 5


def build_content(request: PageRequest) -> PageContent:
    """Return a document from one state of the store, with the spans of the arguments ``start`` and ``end`` marked.

    If the store changes while the document is read, it is read again, at most five times in total. If the store changes
    each time, the content of the last attempt can mix two states.
    """
    for _ in range(_MAX_ATTEMPTS):
        change_before = _get_last_change(request.store)
        content = _read_content(request)
        if _get_last_change(request.store) == change_before:
            break
    return content


def _get_last_change(store: kvstore.Store) -> int:
    """Return the number of the last commit: every commit updates some index, which records the commit's number."""
    return max(index.built or 0 for index in store.indexes())


def _read_content(request: PageRequest) -> PageContent:
    """Return the content of a document's page: one part of its text, its marks, headings, names and edges.

    ``places`` are the mentions of names in the displayed part, and ``notice`` is about a mark that is not in the text.
    Raises DocumentNotFoundError if the document does not exist.
    """
    store, key = request.store, request.name
    document = _get_document(store, key)
    text = document.text.encode()
    chunks = _query_rows(
        store, 'SELECT id, ordinal, heading, start, "end" FROM chunks WHERE document = ? ORDER BY id', key
    )
    marks, notice = _collect_marks(request, text)
    parts = _split_into_parts(chunks, len(text))
    part_index = _select_part(request, parts, marks)
    start, end = _extend_to_marks(parts[part_index], marks)
    mentions = store.query(
        'SELECT entity, start, "end" FROM mentions WHERE document = ?', (key,), max_rows=None
    ).fetchall()
    mention_counts = Counter(name for name, _, _ in mentions)
    edges = _query_rows(
        store, 'SELECT child, parent, tree, kind, confidence, start, "end", accepted FROM edges WHERE document = ?', key
    )
    content = {
        "document": {name: getattr(document, name) for name in _DOCUMENT_FIELDS},
        "part": {"number": part_index, "of": len(parts), "start": start, "end": end},
        "text": text[start:end].decode(),
        "marks": [
            {"start": mark_start, "end": mark_end, "text": text[mark_start:mark_end].decode()}
            for mark_start, mark_end in merge_spans(marks)
        ],
        "notice": notice,
        "headings": _list_headings(chunks, parts)[:_MAX_LISTED],
        "abstracts": _build_abstract_trees(store, key, chunks),
        "names": [{"entity": name, "mentions": count} for name, count in mention_counts.most_common(_MAX_NAMES)],
        "places": [
            {"entity": name, "start": mention_start, "end": mention_end}
            for name, mention_start, mention_end in mentions
            if mention_start < end and mention_end > start
        ],
        "edges": edges[:_MAX_LISTED],
        "view": "rendered" if _is_rendered(request, document) else "text",
        "can_render": document.format == "markdown",
    }
    if not request.as_data:
        content["shown"] = _render_text(request, document, text, (start, end), marks, mentions, chunks)
    return content


def _get_document(store: kvstore.Store, key: str) -> kvstore.Document:
    """Return the document with this key. Raises DocumentNotFoundError, which suggests keys with the same beginning."""
    document = store.get(key)
    if document is not None:
        return document
    suggestions = ", ".join(store.keys(key[:3], 3)) if key else ""
    addition = f"; similar keys: {suggestions}" if suggestions else ""
    raise DocumentNotFoundError(f"there is no document {key!r}{addition}")


def _is_rendered(request: PageRequest, document: kvstore.Document) -> bool:
    """True if the page shows the document as rendered Markdown instead of its text."""
    return document.format == "markdown" and request.get_text("view") != "text"


def _render_text(
    request: PageRequest,
    document: kvstore.Document,
    text: bytes,
    part: ByteSpan,
    marks: Sequence[ByteSpan],
    names: Sequence[tuple[str, int, int]],
    chunks: Sequence[Mapping[str, Any]],
) -> Markup:
    """Return a part of a document's text as HTML, with highlighted marks and link targets at the starts of ``chunks``.

    ``names`` are entities to link, with their byte spans. Markdown is rendered, unless the request has ``view=text``.
    """
    part_start, part_end = part
    anchors = [chunk["start"] for chunk in chunks]
    if not _is_rendered(request, document):
        return render_marked_text(text, part, marks=marks, names=names, anchors=anchors)
    byte_inserts = [Insert(start, start, f'<span id="byte-{start}"></span>', "") for start in anchors]
    byte_inserts += [*number_marks(marks), *link_names(text, names)]
    to_char_offset = _make_offset_converter(text, part)
    inserts = [
        replace(
            insert, start=to_char_offset(max(insert.start, part_start)), end=to_char_offset(min(insert.end, part_end))
        )
        for insert in byte_inserts
        if insert.start < part_end and insert.end >= part_start
    ]
    return render_markdown(
        text[part_start:part_end].decode(), inserts, key=document.key, has_document=request.store.__contains__
    )


def _make_offset_converter(text: bytes, part: ByteSpan) -> Callable[[int], int]:
    """Return a function that converts a byte offset in ``text`` to a character offset in its byte span ``part``."""
    part_start, part_end = part
    part_text = text[part_start:part_end]
    if part_text.isascii():
        return lambda offset: offset - part_start
    character_starts = [index for index, byte in enumerate(part_text) if _begins_character(byte)]
    return lambda offset: bisect_left(character_starts, offset - part_start)


def _begins_character(byte: int) -> bool:
    """True if a byte begins a character of UTF-8; bytes of the form 10xxxxxx continue one."""
    return byte & 0xC0 != 0x80


def _query_rows(store: kvstore.Store, sql: str, key: str) -> list[dict[str, Any]]:
    """Return all rows of a SELECT whose only parameter is a document's key, as dictionaries by column."""
    return fetch_named_rows(store.query(sql, (key,), max_rows=None))


def _collect_marks(request: PageRequest, text: bytes) -> tuple[list[ByteSpan], str | None]:
    """Return the byte spans to mark in a document's ``text``, and a notice about the first invalid span, or None.

    The spans are the arguments ``start`` and ``end`` of the request; invalid spans are omitted. Raises InputError if
    the numbers of starts and ends differ.
    """
    starts, ends = request.get_numbers("start"), request.get_numbers("end")
    if len(starts) != len(ends):
        raise InputError(f"every start needs an end, but there are {len(starts)} starts and {len(ends)} ends")
    spans = list(zip(starts, ends, strict=True))
    valid_spans = [span for span in spans if _is_valid_span(text, span)]
    if len(valid_spans) == len(spans):
        return valid_spans, None
    bad_start, bad_end = next(span for span in spans if span not in valid_spans)
    return valid_spans, (
        f"Bytes {bad_start} to {bad_end} are not in this text, which has {len(text):,} bytes. It may have changed "
        "since it was cited."
    )


def _is_valid_span(text: bytes, span: ByteSpan) -> bool:
    """True if a span is within a text and does not split a character."""
    start, end = span
    if not 0 <= start < end <= len(text):
        return False
    return _begins_character(text[start]) and (end == len(text) or _begins_character(text[end]))


def _split_into_parts(chunks: Sequence[Mapping[str, Any]], size: int) -> list[ByteSpan]:
    """Return the byte spans of the parts into which the page splits a text of ``size`` bytes.

    A part begins at a chunk boundary and has about ``_PART_BYTES`` bytes, the last one at least a quarter of that.
    """
    bounds = [0]
    for chunk in chunks:
        if chunk["start"] - bounds[-1] >= _PART_BYTES and size - chunk["start"] >= _PART_BYTES // 4:
            bounds.append(chunk["start"])
    return list(zip(bounds, [*bounds[1:], size], strict=True))


def _select_part(request: PageRequest, parts: Sequence[ByteSpan], marks: Sequence[ByteSpan]) -> int:
    """Return the index of the part to show: the requested part, else the part with the first mark, else 0."""
    if request.get_text("part"):
        return request.get_number("part", 0, maximum=len(parts) - 1)
    return _find_part(min(start for start, _ in marks), parts) if marks else 0


def _extend_to_marks(part: ByteSpan, marks: Sequence[ByteSpan]) -> ByteSpan:
    """Return a part, extended so that a mark that begins in it is shown completely."""
    start, end = part
    mark_ends = [mark_end for mark_start, mark_end in merge_spans(marks) if start <= mark_start < end]
    return start, max([end, *mark_ends])


def _find_part(offset: int, parts: Sequence[ByteSpan]) -> int:
    """Return the index of the part that contains a byte offset, or the last index for a later offset."""
    return next((index for index, (_, end) in enumerate(parts) if offset < end), len(parts) - 1)


def _list_headings(chunks: Sequence[Mapping[str, Any]], parts: Sequence[ByteSpan]) -> list[dict[str, Any]]:
    """Return the headings of a document in order, for its table of contents.

    Each has its level from 0, the start of its first chunk, and the index of the part with that chunk. The heading of a
    chunk is a path such as ``Tea > Leaves``; every title that differs from the previous chunk's path is a heading.
    """
    headings: list[dict[str, Any]] = []
    previous_path: list[str] = []
    for chunk in chunks:
        path = [title for title in (chunk["heading"] or "").split(" > ") if title]
        num_shared_levels = 0
        for previous_title, title in zip(previous_path, path, strict=False):
            if previous_title != title:
                break
            num_shared_levels += 1
        for level in range(num_shared_levels, len(path)):
            start = chunk["start"]
            headings.append({"title": path[level], "level": level, "start": start, "part": _find_part(start, parts)})
        previous_path = path
    return headings


def _build_abstract_trees(store: kvstore.Store, key: str, chunks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the abstracts of a document, summaries of ranges of chunks, as trees of nodes; ``below`` are the children.

    ``chunks`` are the rows of the document's chunks, by id. Nodes are in text order.
    """
    rows = _query_rows(
        store, "SELECT id, parent, level, first_chunk, last_chunk, text FROM abstracts WHERE document = ?", key
    )
    ids = [chunk["id"] for chunk in chunks]
    nodes: dict[int, dict[str, Any]] = {}
    for row in rows:
        # The range of ids can include ids without a chunk.
        first_index, last_index = bisect_left(ids, row["first_chunk"]), bisect_right(ids, row["last_chunk"])
        start, end = (
            (chunks[first_index]["start"], chunks[last_index - 1]["end"]) if first_index < last_index else (0, 0)
        )
        nodes[row["id"]] = {"level": row["level"], "text": row["text"], "start": start, "end": end, "below": []}
    roots: list[dict[str, Any]] = []
    for row in rows:
        parent = nodes.get(row["parent"])
        siblings = roots if parent is None else parent["below"]
        siblings.append(nodes[row["id"]])
    for node in nodes.values():
        node["below"].sort(key=lambda node: (node["start"], node["end"]))
    return sorted(roots, key=lambda node: (node["start"], node["end"]))


PAGE = ExplorerPage("/doc/", build_content, "document.html", is_named=True, exists=lambda store, name: name in store)
