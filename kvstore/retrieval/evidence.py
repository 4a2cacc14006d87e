"""Evidence, the result of every retrieval. A *hit* is a retrieved chunk, a *segment* (adjacent chunks as one text), a
summary or a report; its *path* is the reason for it. An *ordinal* is the number of a chunk in its document. A *record*
is stored data. An *abstract* is a summary of a few chunks.

Hits are built from segments or from chunks, which are read together with their documents. In: chunk ids, chunks with
scores or segments, and the path of each. Out: loaded chunks, in one read; and hits with texts, spans and headings, best
first, with the chunk that each hit shows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..rendering.columnar import Columnar, NamedRows
from ..storage.environment import View
from ..storage.measured_view import MeasuredView
from ..structures.documents.chunks import GROUP_SIZE, ChunkRecord
from ..structures.documents.documents import DocumentRecord, Section, build_heading_path
from ..structures.read_requests import BatchedReader, ReadRequest
from ..text.words import count_text_tokens

if TYPE_CHECKING:
    from ..structures.ranking import Ranking
    from ..structures.state import State
    from .segments import Segment

#: The kind of a hit: a chunk, a run of chunks, a text made of sentences, or a report on many documents.
HitKind = Literal["chunk", "segment", "summary", "report"]


#: The columns of hits as a table, with their SQL types. Rows end with the deprecated ``chunk`` column.
_HIT_FIELDS = ("rank", "score", "document", "ordinal", "text", "path", "kind", "start", "end", "heading", "title")
_HIT_TYPES = ("INTEGER", "REAL", "TEXT", "INTEGER", "TEXT", "TEXT", "TEXT", "INTEGER", "INTEGER", "TEXT", "TEXT")


class ChunkReference:
    """The base of records that identify a chunk by ``ordinal``, its number in the document."""

    __slots__ = ()
    ordinal: int

    @property
    def chunk(self) -> int:
        """Return ``ordinal`` under its deprecated name, with a DeprecationWarning; removed in kvstore 0.5."""
        name = type(self).__name__
        warnings.warn(
            f"{name}.chunk is deprecated and will be removed in kvstore 0.5; use {name}.ordinal",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.ordinal


@frozen_dataclass
class TextSpan(ChunkReference):
    """A span of stored text: bytes ``start`` to ``end`` of a document, and the chunk that contains or begins it.

    ``document`` is the key of the document, and ``ordinal`` the number of the chunk, from 0 within the document.
    ``chunk`` is the deprecated name of ``ordinal``; it is removed in kvstore 0.5.
    """

    document: str
    ordinal: int
    start: int
    end: int


class StoredSpan(NamedTuple):
    """A span of stored text, by the ids of its document and chunk; bytes ``start`` to ``end`` of the document."""

    document: int
    chunk: int
    start: int
    end: int


def convert_spans(state: State, spans: Sequence[StoredSpan]) -> list[TextSpan]:
    """Convert spans with ids to spans with document keys and the ordinals of chunks, for hits and citations."""
    keys = state.documents.get_keys(span.document for span in spans)
    records = state.chunks.get_many(span.chunk for span in spans)
    return [
        TextSpan(keys[span.document], record.ordinal, span.start, span.end)
        for span, record in zip(spans, records, strict=True)
    ]


@frozen_dataclass
class Hit(ChunkReference):
    """A retrieved text: bytes ``start`` to ``end`` of the document with the key ``document``.

    ``ordinal`` is its number in the document, from 0. ``chunk`` is the deprecated name of ``ordinal``; it is removed in
    kvstore 0.5.

    ``path`` explains in words why it was retrieved. ``heading`` is the headings around it, outermost first; ``title``
    is its document's title. ``spans`` are its sources, in order, and never empty. A chunk has one span. A segment,
    which is one slice of a document, has one for each of its chunks. The text of a summary or a report was assembled or
    written: its spans are the text it consists of or was written from, in any number of documents, and its own position
    is the position of the first span.
    """

    rank: int
    score: float
    document: str
    ordinal: int
    text: str
    path: str
    start: int
    end: int
    heading: str
    title: str | None = None
    kind: HitKind = "chunk"
    spans: tuple[TextSpan, ...] = ()

    def __post_init__(self) -> None:
        """Set the spans of a hit that was created without spans: its own span."""
        if not self.spans:
            object.__setattr__(self, "spans", (TextSpan(self.document, self.ordinal, self.start, self.end),))

    def __str__(self) -> str:
        """Return the rank, the place and the score of the hit, and its text below."""
        source = f"{self.document}, chunk {self.ordinal}" if self.kind == "chunk" else f"{self.document}, {self.kind}"
        lines = (f"   {line}".rstrip() for line in self.text.split("\n"))
        return "\n".join((f"{self.rank}. {source}, {self.score:.4g}", *lines))


@frozen_dataclass
class AbstractNote:
    """An abstract above the retrieved chunks: ``abstract`` is its number in its document, ``text`` its summary."""

    abstract: int
    document: str
    level: int
    text: str


@frozen_dataclass
class Step:
    """One step of a statement, as EXPLAIN shows it: its name, detail, count and duration in milliseconds.

    ``pages`` is the number of pages of the data file read for the first time. A number is None if it was not measured.
    """

    name: str
    detail: str
    count: int | None = None
    milliseconds: float | None = None
    pages: int | None = None


@frozen_dataclass
class HitGroup:
    """A titled group of hits, by their indexes in the evidence's list."""

    title: str
    hits: tuple[int, ...]


@frozen_dataclass
class Evidence(Columnar):
    """The outcome of a retrieval: hits, best first. ``pool`` is the number of chunks that were ranked.

    ``str()`` returns the hits with their texts. Iteration returns the hits, which are also its rows as a table.

    ``context`` are lines about the question's entities, and ``points`` what a model extracted from the chunks
    (:mod:`.distillation`); a prompt includes both with the chunks. ``groups`` are parts of the hits that are read
    separately: layers, communities. ``segments`` replace the hits in a prompt if a model should read more than single
    chunks. ``hint`` is a sentence that names strategies better suited to the question, if the question shows that.
    ``is_overview`` is true if the question asks for an overview, and the hits (summaries or reports) are one.
    """

    question: str
    strategy: str
    hits: list[Hit]
    abstracts: list[AbstractNote] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pool: int = 0
    context: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    groups: list[HitGroup] = field(default_factory=list)
    segments: list[Hit] = field(default_factory=list)
    hint: str | None = None
    is_overview: bool = False

    def __str__(self) -> str:
        """Return the hits, each with its text."""
        return "\n".join(map(str, self.hits))

    def __iter__(self) -> Iterator[Hit]:
        """Return an iterator over the hits, the best first."""
        return iter(self.hits)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: a table of the hits, each with its path (why it was found)."""
        from ..rendering.markup import render_table

        columns = ("rank", "score", "document", "ordinal", "text", "path")
        rows = [(hit.rank, hit.score, hit.document, hit.ordinal, hit.text, hit.path) for hit in self.hits]
        summary = f"{len(self.hits)} hits of {self.strategy}, from {self.pool:,} ranked chunks"
        return render_table(columns, rows, remarks=[summary, *([] if self.hint is None else [self.hint])])

    def _get_named_rows(self) -> NamedRows:
        """Return the column names, a row for each hit, and the SQL types of the columns."""
        # Column ``chunk`` is the deprecated name of column ``ordinal``.
        rows = [[*(getattr(hit, name) for name in _HIT_FIELDS), hit.ordinal] for hit in self.hits]
        return (*_HIT_FIELDS, "chunk"), rows, (*_HIT_TYPES, "INTEGER")


class Trace:
    """The recorded steps of one retrieval, which EXPLAIN shows.

    A step has a name, a detail, a count and a duration.
    """

    def __init__(self, view: View | None = None) -> None:
        """Create an empty trace. Its steps report pages if ``view`` counts the pages that are read, as for EXPLAIN."""
        self.steps: list[Step] = []
        self._measured_view = view if isinstance(view, MeasuredView) else None

    @contextmanager
    def step(self, name: str) -> Iterator[StepNotes]:
        """Time the body of a ``with`` statement, and record it as a step with this name unless it raises an error.

        Yields the notes of the step, whose detail and count the body sets.
        """
        notes, start = StepNotes(), self._read_clock()
        yield notes
        self._add_step(name, notes, start, self._read_clock())

    @contextmanager
    def record_requests(self, reader: BatchedReader, *names: str) -> Iterator[list[StepNotes]]:
        """Record a step for each read request that the body of a ``with`` statement sends to ``reader``.

        ``names`` are the names of the steps, in the order of the requests. Yields the notes of each step, whose detail
        and count the body sets. A step ends, and the next begins, when ``reader`` answers its request; the last step
        ends with the body.
        """
        notes = [StepNotes() for _ in names]
        times = [self._read_clock()]
        reader.on_answer = lambda: times.append(self._read_clock())
        try:
            yield notes
        finally:
            reader.on_answer = None
        # The last step, and those whose requests were not answered, end now.
        times = [*times[: len(names)], *[self._read_clock()] * len(names)]
        for name, step_notes, start, end in zip(names, notes, times, times[1:], strict=False):
            self._add_step(name, step_notes, start, end)

    def _read_clock(self) -> tuple[float, int]:
        """Return the time in seconds, and the number of pages of the data file read so far (0 if none are counted)."""
        return time.perf_counter(), 0 if self._measured_view is None else self._measured_view.pages

    def _add_step(self, name: str, notes: StepNotes, start: tuple[float, int], end: tuple[float, int]) -> None:
        """Append the step with this name, whose body ran from ``start`` to ``end``.

        The step has the number of pages of the data file that it read, or None if the trace does not count pages.
        """
        pages = None if self._measured_view is None else end[1] - start[1]
        self.steps.append(Step(name, notes.detail, notes.count, round(1000 * (end[0] - start[0]), 3), pages))


@dataclass(slots=True)
class StepNotes:
    """The detail and count of a step, which its code sets while it runs."""

    detail: str = ""
    count: int = 0


@frozen_dataclass
class Location:
    """One location of an entity: a node of a tree with one parent, or an abstract (summary) of a document.

    ``level`` counts edges from the tree's root, or is the abstract's height above the lowest abstracts. ``parent`` is
    the parent's name or heading; ``abstract`` is the abstract's number in its document.
    """

    entity: str
    temperature: int
    tree: str | None
    level: int
    parent: str | None
    document: str | None
    abstract: int | None
    text: str


class LoadedChunk:
    """One chunk: its id, its record and the record of its document. The text is read on first use."""

    __slots__ = ("_sections", "_state", "_text", "chunk", "document", "record")

    def __init__(
        self, state: State, chunk: int, record: ChunkRecord, document: DocumentRecord, sections: Sequence[Section]
    ) -> None:
        """Store a chunk (an id) with its record, the record of its document, and the sections of that document."""
        self.chunk = chunk
        self.record = record
        self.document = document
        self._state = state
        self._sections = sections
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The text of the chunk, which is read on first use."""
        if self._text is None:
            self._text = self._state.documents.read_text_slice(self.document.id, self.record.start, self.record.end)
        return self._text

    @property
    def headings(self) -> list[str]:
        """The headings of the section in which the chunk starts, outermost first; empty outside all sections."""
        return build_heading_path(self._sections, self.record.section)

    def list_headings(self, section: int) -> list[str]:
        """Return the headings of a section and its ancestors, outermost first; empty for section -1 (no section)."""
        return build_heading_path(self._sections, section)

    @property
    def starting_titles(self) -> Iterable[str]:
        """The titles of the sections that begin in the chunk."""
        # ``record.section`` is the index of the section that contains the start of the chunk, or -1.
        for section in self._sections[max(0, self.record.section) :]:
            if section.start >= self.record.end:
                return
            if section.start >= self.record.start:
                yield section.title

    @staticmethod
    def build_abstract_notes(chunks: Sequence[LoadedChunk]) -> list[AbstractNote]:
        """Return the distinct leaf abstracts (summaries of ``GROUP_SIZE`` chunks) above ``chunks``, in order."""
        first_chunk_by_leaf: dict[int, LoadedChunk] = {}
        for chunk in chunks:
            # Leaf abstract n is above the chunks with the ids from n * GROUP_SIZE to (n + 1) * GROUP_SIZE - 1.
            first_chunk_by_leaf.setdefault(chunk.chunk // GROUP_SIZE, chunk)
        if not first_chunk_by_leaf:
            return []
        abstracts = chunks[0]._state.abstracts
        return [
            AbstractNote(
                chunk.document.get_abstract_ordinal(leaf), chunk.document.key, record.level, abstracts.read_text(record)
            )
            for (leaf, chunk), record in zip(
                first_chunk_by_leaf.items(), abstracts.get_many(first_chunk_by_leaf), strict=True
            )
        ]


class ChunkReadRequest(ReadRequest[list[LoadedChunk]]):
    """A request for chunks by their ids, with the records of their documents. All chunks must exist."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[LoadedChunk]:
        """Return the requested chunks in order. Their texts are read later, on first use."""
        records = state.chunks.get_many(self.chunks)
        documents = state.documents.get_many(record.document for record in records)
        sections_by_document = state.documents.get_sections_many(documents)
        return [
            LoadedChunk(state, chunk, record, documents[record.document], sections_by_document[record.document])
            for chunk, record in zip(self.chunks, records, strict=True)
        ]

    def list_chunks(self, answer: list[LoadedChunk]) -> Sequence[int]:
        """Return the ids of the requested chunks, which are all in ``answer``."""
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
    """Return the first ``top`` chunks of a ranking that have at most ``within`` tokens together (None: any) as hits.

    A chunk that does not fit is skipped. ``load_chunks`` reads chunks by id, in batches: each has as many chunks as
    there are hits missing. ``explanations`` say why each chunk was retrieved: one text, a mapping by chunk id, or a
    function of the loaded chunk.
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
            hits.append(build_chunk_hit(loaded, len(hits) + 1, score, _get_explanation(explanations, loaded)))
            chunk_ids.append(chunk)
    return RankedHits(hits, chunk_ids)


def build_chunk_hit(loaded: LoadedChunk, rank: int, score: float, path: str) -> Hit:
    """Return a chunk as a hit; ``path`` is the reason that EXPLAIN shows. The rank is 0 if it is not known yet."""
    record, document = loaded.record, loaded.document
    heading = " > ".join(loaded.headings)
    return Hit(
        rank, score, document.key, record.ordinal, loaded.text, path, record.start, record.end, heading, document.title
    )


def build_segment_hits(
    best_chunks: Sequence[LoadedChunk], segments: Sequence[Segment], explanations: HitExplanations
) -> RankedHits:
    """Return segments as hits, in the same order; a segment that is one whole chunk becomes a hit of kind ``chunk``.

    A segment is a run of adjacent chunks. ``best_chunks`` has the best-ranked chunk of each segment, and
    ``explanations`` say why it was retrieved: one text, a mapping by chunk id, or a function of the chunk.
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
        hits.append(
            Hit(
                rank=rank,
                score=segment.score,
                document=record.key,
                ordinal=chunks[0].ordinal,
                text=segment.text,
                path=path,
                start=segment.start,
                end=segment.end,
                heading=heading,
                title=record.title,
                kind=kind,
                spans=spans,
            )
        )
    return RankedHits(hits, [segment.best_chunk for segment in segments])


def _get_explanation(explanations: HitExplanations, loaded: LoadedChunk) -> str:
    """Return the text that explains why a chunk was retrieved, which becomes the ``path`` of its hit.

    A mapping by chunk id can lack the chunks that :func:`.append_tails` added after the candidates of a strategy; they
    share one explanation.
    """
    if isinstance(explanations, str):
        return explanations
    if isinstance(explanations, Mapping):
        return explanations.get(loaded.chunk, _TAIL_EXPLANATION)
    return explanations(loaded)
