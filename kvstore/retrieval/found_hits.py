"""Hits as they are given out: chunks of a ranking or segments, with their texts, places and headings.

In: a state, and chunks with their scores or segments, and why each chunk is there (one text for all, or by the chunk's
id). Out: hits, best first, and the chunk that each is there for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..structures.documents.chunks import GROUP
from ..structures.documents.documents import heading_path
from ..structures.ranking import Ranking
from ..structures.state import State
from ..text.words import token_count
from .evidence import AbstractNote, Hit, HitKind, TextSpan
from .segments import Segment


class FoundHits(NamedTuple):
    """Hits, best first, and of each the id of its best chunk."""

    hits: list[Hit]
    best: list[int]


def chunk_hits(
    view: State, ranking: Ranking, paths: Mapping[int, str] | str, top: int, within: int | None
) -> FoundHits:
    """The first ``top`` chunks that fit ``within`` tokens together; one that does not fit is left out."""
    hits: list[Hit] = []
    chosen: list[int] = []
    for chunk, score in ranking:
        if len(hits) == top:
            break
        stored = view.chunks.get(chunk)
        record = view.documents.get(stored.document)
        text = view.documents.text_slice(record.id, stored.start, stored.end)
        if within is not None:
            size = token_count(text)
            if size > within:
                continue
            within -= size
        heading = " > ".join(heading_path(view.documents.outline(record.id), stored.section))
        place = (record.key, stored.ordinal, text, _path(paths, chunk), stored.start, stored.end, heading)
        hits.append(Hit(len(hits) + 1, score, *place, record.title))
        chosen.append(chunk)
    return FoundHits(hits, chosen)


def segment_hits(view: State, found: Sequence[Segment], paths: Mapping[int, str] | str) -> FoundHits:
    """Segments as hits, in their order; a segment that is one whole chunk is that chunk."""
    hits = []
    for rank, segment in enumerate(found, 1):
        record, chunks = segment.record, segment.chunks
        heading = " > ".join(heading_path(view.documents.outline(record.id), chunks[0].section))
        path, kind = _path(paths, segment.best), _kind(segment)
        if kind == "segment":
            many = "1 chunk" if len(chunks) == 1 else f"{len(chunks)} chunks"
            path = f"segment of {many} around chunk {view.chunks.get(segment.best).ordinal}: {path}"
        spans = tuple(
            TextSpan(record.key, chunk.ordinal, max(chunk.start, segment.start), min(chunk.end, segment.end))
            for chunk in chunks
        )
        place = (record.key, chunks[0].ordinal, segment.text, path, segment.start, segment.end, heading, record.title)
        hits.append(Hit(rank, segment.score, *place, kind, spans))
    return FoundHits(hits, [segment.best for segment in found])


def abstracts_above(view: State, chunks: Sequence[int]) -> list[AbstractNote]:
    """The leaf abstracts above some chunks, each once."""
    notes: dict[int, AbstractNote] = {}
    for chunk in chunks:
        leaf = chunk // GROUP
        if leaf not in notes:
            abstract = view.abstracts.get(leaf)
            record = view.documents.get(abstract.document)
            number = record.abstract_ordinal(leaf)
            notes[leaf] = AbstractNote(number, record.key, abstract.level, view.abstracts.text(abstract))
    return list(notes.values())


def _kind(segment: Segment) -> HitKind:
    return "chunk" if segment.whole_chunk else "segment"


def _path(paths: Mapping[int, str] | str, chunk: int) -> str:
    return paths if isinstance(paths, str) else paths.get(chunk, "")
