"""The map page: every chunk as a point, and a question as a star with lines to its evidence. A *coloring* is the
property that chunks are colored by, such as ``document``. A *group* is the chunks of one color.

The points are sent separately from the page as packed numbers: x and y (each u16, little-endian) and the group (u8) of
each chunk, in the order of :class:`~.chunk_map.ChunkMap`.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import numpy as np

import kvstore

from ...errors import EmbedderError, InputError
from ..store_queries import list_built_indexes
from .chunk_map import AXIS_STEPS, INDEX_KINDS, ChunkMap, get_chunk_map
from .document_text import strip_markdown
from .page import ExplorerPage, PageContent, PageRepresentation, PageRequest
from .urls import build_document_url

#: The number of pieces of evidence of a question.
_MAX_EVIDENCE = 10
#: The number of metadata fields to color by, and of documents that are searched for them.
_MAX_FIELDS, _MAX_SCANNED = 12, 1000
#: The maximum number of displayed characters of a chunk.
_MAX_SHOWN_CHARS = 600


def build_content(request: PageRequest) -> PageContent:
    """Return the labels, the groups of the requested coloring, and the positions of a question and its evidence.

    The question is the request's argument ``q``; the content has its position as ``question_point``, or ``error`` if it
    cannot be embedded. JSON also has the points of all chunks.
    """
    chunk_map = get_chunk_map(request.store)
    colorings = _list_colorings(request.store)
    coloring = _parse_coloring(request, colorings)
    groups = chunk_map.get_groups(request.store, coloring)
    question = request.get_text("q")
    content: PageContent = {
        "chunks": len(chunk_map),
        "documents": len(chunk_map.documents),
        "method": chunk_map.method,
        "labels": chunk_map.list_label_points(),
        "colorings": colorings,
        "colour": coloring,
        "groups": [
            {"name": name, "chunks": count, "hue": group_index + 1}
            for group_index, (name, count) in enumerate(groups.names)
        ],
        "q": question,
        "question_point": None,
        "evidence": [],
        "error": None,
    }
    if not request.as_data:
        content["map_id"] = chunk_map.id
    if question:
        content |= request.run_within_deadline(lambda: _locate_question(request.store, chunk_map, question))
    if request.as_data:
        content["points"] = {
            "x": (chunk_map.points[:, 0] / AXIS_STEPS).round(4).tolist(),
            "y": (chunk_map.points[:, 1] / AXIS_STEPS).round(4).tolist(),
            "group": groups.indexes.tolist(),
            "document": [chunk_map.documents[index] for index in chunk_map.document_indexes.tolist()],
            "ordinal": chunk_map.ordinals.tolist(),
            "chunk": chunk_map.ordinals.tolist(),  # the deprecated name
        }
    return content


def _list_colorings(store: kvstore.Store) -> list[str]:
    """Return the properties to color chunks by: cluster, document, topic and community (if built), metadata fields.

    The metadata fields are the first ``_MAX_FIELDS`` that have a single value in one of the first ``_MAX_SCANNED``
    documents.
    """
    colorings = ["cluster", "document"]
    built_kinds = list_built_indexes(store)
    colorings += [coloring for coloring, index_kind in INDEX_KINDS.items() if index_kind in built_kinds]
    rows = store.query("SELECT meta FROM documents WHERE meta <> '{}' LIMIT ?", (_MAX_SCANNED,)).fetchall()
    fields: dict[str, None] = {}
    for (meta,) in rows:
        fields |= {
            field: None
            for field, value in json.loads(meta).items()
            if isinstance(value, str | int | float) and '"' not in field and field not in colorings
        }
    return [*colorings, *islice(fields, _MAX_FIELDS)]


def _parse_coloring(request: PageRequest, colorings: list[str]) -> str:
    """Return the property by which a request colors the chunks, such as ``document``; the default is ``cluster``.

    Raises InputError if it is not one of ``colorings``.
    """
    coloring = request.get_text("colour", "cluster")  # the parameter keeps its British spelling for existing links
    if coloring not in colorings:
        raise InputError(f"chunks cannot be colored by {coloring!r}; use one of {', '.join(colorings)}")
    return coloring


def _locate_question(store: kvstore.Store, chunk_map: ChunkMap, question: str) -> dict[str, Any]:
    """Return the evidence of a question and its strategy, and the question's position on the map, as page content.

    If the question cannot be embedded, the content has ``error`` instead of ``question_point``.
    """
    evidence = store.retrieve(question, top=_MAX_EVIDENCE)
    evidence_data = []
    for hit in evidence.hits:
        span = hit.spans[0]
        evidence_data.append(
            {
                "rank": hit.rank,
                "score": hit.score,
                "document": span.document,
                "title": hit.title,
                "ordinal": span.ordinal,
                "chunk": span.ordinal,  # the deprecated name
                "start": span.start,
                "end": span.end,
                "text": hit.text[:_MAX_SHOWN_CHARS],
                "point": chunk_map.find_index(span.document, span.ordinal),
            }
        )
    try:
        question_point = chunk_map.locate_vector(np.asarray(store.embed([question])[0]))
    except EmbedderError as error:  # the user supplied the vectors, or the model is not available
        return {"evidence": evidence_data, "strategy": evidence.strategy, "error": str(error)}
    return {"evidence": evidence_data, "strategy": evidence.strategy, "question_point": list(question_point)}


def _render_points(request: PageRequest) -> bytes:
    """Return the positions and groups of all chunks as packed numbers: all x, then all y, then all groups.

    x and y are u16, little-endian. A group (u8) is the index of a color; the request names the property to color by.
    Its argument ``map`` is the id of the page's map.
    """
    chunk_map = get_chunk_map(request.store, request.get_text("map"))
    groups = chunk_map.get_groups(request.store, _parse_coloring(request, _list_colorings(request.store)))
    points = chunk_map.points.astype("<u2")
    return points[:, 0].tobytes() + points[:, 1].tobytes() + groups.indexes.tobytes()


def _render_point(request: PageRequest) -> str:
    """Return the chunk at the requested point of the map with the id ``map`` as JSON.

    Raises InputError if the chunk does not exist.
    """
    chunk_map = get_chunk_map(request.store, request.get_text("map"))
    if not len(chunk_map):
        raise InputError("there are no chunks yet; kvstore ingest adds documents")
    index = request.get_number("point", 0, maximum=len(chunk_map) - 1)
    key, ordinal = chunk_map.documents[chunk_map.document_indexes[index]], int(chunk_map.ordinals[index])
    rows = request.store.query(
        'SELECT title, heading, start, "end", chunks.text FROM chunks JOIN documents ON key = document '
        "WHERE document = ? AND ordinal = ?",
        (key, ordinal),
    ).fetchall()
    if not rows:
        raise InputError("this chunk no longer exists; reload the page")
    title, heading, start, end, text = rows[0]
    return json.dumps(
        {
            "document": key,
            "title": title or key,
            "ordinal": ordinal,
            "chunk": ordinal,  # the deprecated name
            "heading": heading,
            "start": start,
            "end": end,
            "url": build_document_url(key, start, end),
            "text": strip_markdown(text[:_MAX_SHOWN_CHARS]),
        },
        ensure_ascii=False,
    )


PAGE = ExplorerPage(
    "/map",
    build_content,
    "map.html",
    label="Map",
    representations={
        ".points": PageRepresentation("application/octet-stream", _render_points),
        ".point": PageRepresentation("application/json", _render_point),
    },
)
