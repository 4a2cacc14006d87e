"""Hits as results: chunks of a ranking or segments, with their texts, spans and headings.

In: chunks with scores or segments, loaded chunks, and the path of each. Out: hits, best first, and the chunk that each
hit shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..text.words import count_text_tokens
from .evidence import Hit, HitKind, TextSpan
from .loaded_chunks import LoadedChunk

if TYPE_CHECKING:
    from ..structures.ranking import Ranking
    from .segments import Segment

#: The path of a hit: one text for all, a text by chunk id, or a function of the loaded chunk.
HitPaths = str | Mapping[int, str] | Callable[[LoadedChunk], str]

#: The path of a chunk that is not in a mapping of paths.
_TAIL_PATH = "after the candidates, by the ranks of the searches"


class RankedHits(NamedTuple):
    """Hits, best first, and the id of the best chunk of each."""

    hits: list[Hit]
    best_chunks: list[int]


def build_chunk_hits(
    load_chunks: Callable[[Sequence[int]], list[LoadedChunk]],
    ranking: Ranking,
    paths: HitPaths,
    top: int,
    within: int | None,
) -> RankedHits:
    """Return hits for the first ``top`` chunks of a ranking that together fit ``within`` tokens (None: no limit).

    A chunk that does not fit is skipped. ``load_chunks`` is called with as many chunk ids as hits are missing.
    """
    hits: list[Hit] = []
    chunk_ids: list[int] = []
    num_loaded = 0
    while num_loaded < len(ranking) and len(hits) < top:
        batch = ranking[num_loaded : num_loaded + top - len(hits)]
        num_loaded += len(batch)
        for loaded, (chunk, score) in zip(load_chunks([chunk for chunk, _ in batch]), batch, strict=True):
            if within is not None:
                size = count_text_tokens(loaded.text)
                if size > within:
                    continue
                within -= size
            hits.append(_build_chunk_hit(len(hits) + 1, score, loaded, _get_path(paths, loaded)))
            chunk_ids.append(chunk)
    return RankedHits(hits, chunk_ids)


def _build_chunk_hit(rank: int, score: float, loaded: LoadedChunk, path: str) -> Hit:
    """Return a chunk as a hit."""
    record, document = loaded.record, loaded.document
    heading = " > ".join(loaded.headings) if record.section >= 0 else ""
    fields = (document.key, record.ordinal, loaded.text, path, record.start, record.end, heading)
    return Hit(rank, score, *fields, document.title)


def build_segment_hits(best_chunks: Sequence[LoadedChunk], segments: Sequence[Segment], paths: HitPaths) -> RankedHits:
    """Return segments as hits, in their order; a segment that is one whole chunk becomes a hit of kind ``chunk``.

    ``best_chunks`` has the best-ranked chunk of each segment.
    """
    hits = []
    for rank, (segment, loaded) in enumerate(zip(segments, best_chunks, strict=True), 1):
        record, chunks = segment.record, segment.chunks
        heading = " > ".join(loaded.list_headings(chunks[0].section))
        path, kind = _get_path(paths, loaded), _classify_segment(segment)
        if kind == "segment":
            chunk_count = "1 chunk" if len(chunks) == 1 else f"{len(chunks)} chunks"
            path = f"segment of {chunk_count} around chunk {loaded.record.ordinal}: {path}"
        spans = tuple(
            TextSpan(record.key, chunk.ordinal, max(chunk.start, segment.start), min(chunk.end, segment.end))
            for chunk in chunks
        )
        fields = (record.key, chunks[0].ordinal, segment.text, path, segment.start, segment.end, heading, record.title)
        hits.append(Hit(rank, segment.score, *fields, kind, spans))
    return RankedHits(hits, [segment.best_chunk for segment in segments])


def _classify_segment(segment: Segment) -> HitKind:
    """Return the kind of a segment's hit: ``chunk`` if the segment is exactly one chunk."""
    return "chunk" if segment.is_whole_chunk else "segment"


def _get_path(paths: HitPaths, loaded: LoadedChunk) -> str:
    """Return the path of a chunk's hit: the text that explains why the chunk was retrieved."""
    if isinstance(paths, str):
        return paths
    return paths.get(loaded.chunk, _TAIL_PATH) if isinstance(paths, Mapping) else paths(loaded)
