"""Chunks of a question, read with their documents, and hits built from them or from segments.

In: chunk ids, chunks with scores or segments, and the path of each. Out: loaded chunks, in one read; and hits with
texts, spans and headings, best first, with the chunk that each hit shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..structures.documents.chunks import GROUP_SIZE, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section, build_heading_path
from ..structures.read_requests import ReadRequest
from ..text.words import count_text_tokens
from .evidence import AbstractNote, Hit, HitKind, TextSpan

if TYPE_CHECKING:
    from ..structures.ranking import Ranking
    from ..structures.state import State
    from .segments import Segment


class LoadedChunk:
    """One chunk: its id, its record and the record of its document. The text is read on first use."""

    __slots__ = ("_outline", "_state", "_text", "chunk", "document", "record")

    def __init__(
        self, state: State, chunk: int, record: ChunkRecord, document: DocumentRecord, outline: Sequence[Section]
    ) -> None:
        """Store a chunk (an id) with its record, the record of its document, and the sections of that document."""
        self.chunk = chunk
        self.record = record
        self.document = document
        self._state = state
        self._outline = outline
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The text of the chunk."""
        if self._text is None:
            self._text = self._state.documents.read_text_slice(self.document.id, self.record.start, self.record.end)
        return self._text

    @property
    def headings(self) -> list[str]:
        """The headings around the chunk, outermost first."""
        return self.list_headings(self.record.section)

    def list_headings(self, section: int) -> list[str]:
        """Return the headings of a section and its ancestors, outermost first; empty for section -1 (no section)."""
        return build_heading_path(self._outline, section)

    @property
    def starting_titles(self) -> Iterable[str]:
        """The titles of the sections that begin in the chunk."""
        # ``record.section`` contains the start of the chunk (-1: no section does).
        for section in self._outline[max(0, self.record.section) :]:
            if section.start >= self.record.end:
                return
            if section.start >= self.record.start:
                yield section.title

    @staticmethod
    def build_abstract_notes(chunks: Sequence[LoadedChunk]) -> list[AbstractNote]:
        """Return the distinct leaf abstracts above some chunks, in the order of the chunks."""
        first_chunk_by_leaf: dict[int, LoadedChunk] = {}
        for chunk in chunks:
            # The ids of chunks determine the id of the leaf abstract above them.
            first_chunk_by_leaf.setdefault(chunk.chunk // GROUP_SIZE, chunk)
        if not first_chunk_by_leaf:
            return []
        abstracts = chunks[0]._state.abstracts
        return [
            AbstractNote(
                chunk.document.get_abstract_ordinal(leaf),
                chunk.document.key,
                record.level,
                abstracts.read_text(record),
            )
            for (leaf, chunk), record in zip(
                first_chunk_by_leaf.items(), abstracts.get_many(first_chunk_by_leaf), strict=True
            )
        ]


class ChunkReadRequest(ReadRequest[list[LoadedChunk]]):
    """A request for the loaded chunks with some ids, all of which must exist, in their order."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[LoadedChunk]:
        """Read the records of chunks, their documents and their outlines."""
        records = state.chunks.get_many(self.chunks)
        documents = state.documents.get_many(record.document for record in records)
        outlines = state.documents.get_outlines(documents)
        return [
            LoadedChunk(state, chunk, record, documents[record.document], outlines[record.document])
            for chunk, record in zip(self.chunks, records, strict=True)
        ]

    def list_chunks(self, answer: list[LoadedChunk]) -> Sequence[int]:
        """Return the ids of the requested chunks."""
        return self.chunks


#: Why each chunk was found: one text for all, a text by chunk id, or a function of the loaded chunk. It becomes the
#: ``path`` of the hit.
HitExplanations = str | Mapping[int, str] | Callable[[LoadedChunk], str]

#: The explanation of a chunk that is not in a mapping of explanations.
_TAIL_EXPLANATION = "after the candidates, by the ranks of the searches"


class RankedHits(NamedTuple):
    """Hits, best first, and the id of the best chunk of each."""

    hits: list[Hit]
    best_chunks: list[int]


def build_chunk_hits(
    load_chunks: Callable[[Sequence[int]], list[LoadedChunk]],
    ranking: Ranking,
    explanations: HitExplanations,
    top: int,
    within: int | None,
) -> RankedHits:
    """Return hits for the first ``top`` chunks of a ranking that together have at most ``within`` tokens, if not None.

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
                num_tokens = count_text_tokens(loaded.text)
                if num_tokens > within:
                    continue
                within -= num_tokens
            record = loaded.record
            heading = " > ".join(loaded.headings) if record.section >= 0 else ""
            fields = (loaded.document.key, record.ordinal, loaded.text, _get_explanation(explanations, loaded))
            hits.append(Hit(len(hits) + 1, score, *fields, record.start, record.end, heading, loaded.document.title))
            chunk_ids.append(chunk)
    return RankedHits(hits, chunk_ids)


def build_segment_hits(
    best_chunks: Sequence[LoadedChunk], segments: Sequence[Segment], explanations: HitExplanations
) -> RankedHits:
    """Return segments as hits, in their order; a segment that is one whole chunk becomes a hit of kind ``chunk``.

    ``best_chunks`` has the best-ranked chunk of each segment.
    """
    hits = []
    for rank, (segment, loaded) in enumerate(zip(segments, best_chunks, strict=True), 1):
        record, chunks = segment.record, segment.chunks
        heading = " > ".join(loaded.list_headings(chunks[0].section))
        path = _get_explanation(explanations, loaded)
        kind: HitKind = "chunk" if segment.is_whole_chunk else "segment"
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


def _get_explanation(explanations: HitExplanations, loaded: LoadedChunk) -> str:
    """Return the text that explains why a chunk was retrieved, which becomes the ``path`` of its hit."""
    if isinstance(explanations, str):
        return explanations
    if isinstance(explanations, Mapping):
        return explanations.get(loaded.chunk, _TAIL_EXPLANATION)
    return explanations(loaded)
