"""The map: every chunk as a point, and a question among them as a star, joined to its evidence.

The points are sent apart from the page, as packed numbers: x and y (each u16, little-endian) and the group (u8) of each
chunk, in the order of :class:`~.chunk_map.ChunkMap`.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import numpy as np

import kvstore

from ...errors import EmbedderError, InputError
from ..store_facts import list_built_indexes
from .chunk_map import STEPS, ChunkMap, chunk_map
from .document_text import without_signs
from .page import ExplorerPage, PageContent, PageForm, PageRequest

#: Pieces of evidence of a question.
_MAX_EVIDENCE = 10
#: Fields of the metadata that are offered to colour by, and documents that are looked at for them.
_FIELDS, _LOOKED_AT = 12, 1000
#: Characters of a chunk that are shown beside the map.
_SHOWN = 600


def build_content(asked: PageRequest) -> PageContent:
    """The groups of a way of colouring, and where a question and its evidence lie; as JSON the points as well."""
    chunks = chunk_map(asked.store)
    colourings = _ways(asked.store)
    colour = _parse_colour(asked, colourings)
    groups = chunks.groups(asked.store, colour)
    question = asked.text("q")
    content: PageContent = {
        "chunks": len(chunks),
        "documents": len(chunks.documents),
        "explained": list(chunks.explained),
        "ways": colourings,
        "colour": colour,
        "groups": [
            {"name": name, "chunks": count, "hue": number + 1} for number, (name, count) in enumerate(groups.names)
        ],
        "q": question,
        "star": None,
        "evidence": [],
        "trouble": None,
    }
    if question:
        content |= asked.within(lambda: _locate_question(asked.store, chunks, question))
    if asked.whole:
        content["points"] = {
            "x": (chunks.points[:, 0] / STEPS).round(4).tolist(),
            "y": (chunks.points[:, 1] / STEPS).round(4).tolist(),
            "group": groups.numbers.tolist(),
            "document": [chunks.documents[owner] for owner in chunks.owners.tolist()],
            "ordinal": chunks.ordinals.tolist(),
            "chunk": chunks.ordinals.tolist(),  # the deprecated name
        }
    return content


def _ways(store: kvstore.Store) -> list[str]:
    """What the points may be coloured by."""
    colourings = ["document"]
    kinds = list_built_indexes(store)
    colourings += [
        colouring for colouring, kind in (("topic", "topics"), ("community", "communities")) if kind in kinds
    ]
    rows = store.query("SELECT meta FROM documents WHERE meta <> '{}' LIMIT ?", (_LOOKED_AT,)).fetchall()
    fields: dict[str, None] = {}
    for (meta,) in rows:
        fields |= {
            field: None
            for field, value in json.loads(meta).items()
            if isinstance(value, str | int | float) and '"' not in field and field not in colourings
        }
    return [*colourings, *islice(fields, _FIELDS)]


def _parse_colour(asked: PageRequest, ways: list[str]) -> str:
    colour = asked.text("colour", "document")
    if colour not in ways:
        raise InputError(f"chunks are not coloured by {colour!r}, but by {', '.join(ways)}")
    return colour


def _locate_question(store: kvstore.Store, chunks: ChunkMap, question: str) -> dict[str, Any]:
    retrieved = store.retrieve(question, top=_MAX_EVIDENCE)
    evidence = []
    for hit in retrieved.hits:
        span = hit.spans[0]
        evidence.append(
            {
                "rank": hit.rank,
                "score": hit.score,
                "document": span.document,
                "title": hit.title,
                "ordinal": span.ordinal,
                "chunk": span.ordinal,  # the deprecated name
                "start": span.start,
                "end": span.end,
                "text": hit.text[:_SHOWN],
                "point": chunks.chunk(span.document, span.ordinal),
            }
        )
    try:
        star = chunks.place_of(np.asarray(store.embed([question])[0]))
    except EmbedderError as error:  # the vectors are the user's own, or the model is not here
        return {"evidence": evidence, "strategy": retrieved.strategy, "trouble": str(error)}
    return {"evidence": evidence, "strategy": retrieved.strategy, "star": list(star)}


def _points(asked: PageRequest) -> bytes:
    chunks = chunk_map(asked.store)
    groups = chunks.groups(asked.store, _parse_colour(asked, _ways(asked.store)))
    points = chunks.points.astype("<u2")
    return points[:, 0].tobytes() + points[:, 1].tobytes() + groups.numbers.tobytes()


def _describe_point(asked: PageRequest) -> str:
    """What stands at a point."""
    chunks = chunk_map(asked.store)
    if not len(chunks):
        raise InputError("there are no chunks yet; kvstore ingest brings some")
    position = asked.number("point", 0, most=len(chunks) - 1)
    key, ordinal = chunks.documents[chunks.owners[position]], int(chunks.ordinals[position])
    rows = asked.store.query(
        'SELECT title, heading, start, "end", chunks.text FROM chunks JOIN documents ON key = document '
        "WHERE document = ? AND ordinal = ?",
        (key, ordinal),
    ).fetchall()
    if not rows:
        raise InputError("this chunk has gone since the map was made; load the page again")
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
            "text": without_signs(text[:_SHOWN]),
        },
        ensure_ascii=False,
    )


PAGE = ExplorerPage(
    "/map",
    build_content,
    "map.html",
    label="Map",
    forms={
        ".points": PageForm("application/octet-stream", _points),
        ".point": PageForm("application/json", _describe_point),
    },
)
