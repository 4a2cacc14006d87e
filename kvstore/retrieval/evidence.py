"""What every retrieval returns: what was found, with its places, why each is there, and the steps that led to it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from typing import Literal

from ..columnar import Columnar, NamedRows
from ..storage.environment import View
from ..storage.measured_view import MeasuredView
from ..structures.reading import BatchedReader

#: What is found: a chunk, a run of chunks, a text made of sentences, or a report on many documents.
HitKind = Literal["chunk", "segment", "summary", "report"]


#: What a hit is for other programs, and a relative, with the types of SQL. Rows of hits end with the deprecated column
#: ``chunk``.
_HIT_FIELDS = ("rank", "score", "document", "ordinal", "text", "path", "kind", "start", "end", "heading", "title")
_HIT_TYPES = ("INTEGER", "REAL", "TEXT", "INTEGER", "TEXT", "TEXT", "TEXT", "INTEGER", "INTEGER", "TEXT", "TEXT")
_RELATIVE_TYPES = ("TEXT", "TEXT", "INTEGER", "TEXT", "TEXT", "TEXT")


class ChunkReference:
    """A place in a document that names its chunk by ``ordinal``, the chunk's number in the document."""

    __slots__ = ()
    ordinal: int

    @property
    def chunk(self) -> int:
        """Return ``ordinal`` under its deprecated name, with a DeprecationWarning; removed in kvstore 0.5."""
        name = type(self).__name__
        warnings.warn(
            f"{name}.chunk is deprecated and is removed in kvstore 0.5; use {name}.ordinal",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.ordinal


@dataclass(frozen=True, slots=True)
class TextSpan(ChunkReference):
    """A place of stored text: the key of its document, the ``ordinal`` of the chunk that it is of or begins in (its
    number in the document, from 0), and its bytes, ``start`` to ``end``, in the stored text.

    ``chunk`` is the deprecated name of ``ordinal``; it is removed in kvstore 0.5.
    """

    document: str
    ordinal: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit(ChunkReference):
    """Something found: ``document`` is its document's key, ``ordinal`` its number in the document, from 0, ``start`` to
    ``end`` its bytes in the stored text. ``chunk`` is the deprecated name of ``ordinal``; it is removed in kvstore 0.5.

    ``path`` says in words why it is there; ``heading`` the headings around it, outermost first; ``title`` its
    document's title. ``spans`` are the places it is made of, in order, never none: a chunk is one; a segment, which is
    one slice of a document, one for each of its chunks. The text of a summary or a report was put together or written:
    its spans are what it says, or what it was written from, in any number of documents, and its own place is that of
    the first.
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
        if not self.spans:
            object.__setattr__(self, "spans", (TextSpan(self.document, self.ordinal, self.start, self.end),))


@dataclass(frozen=True, slots=True)
class AbstractNote:
    """An abstract above the chunks found: ``abstract`` is its number in its document, ``text`` its summary."""

    abstract: int
    document: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a statement, as EXPLAIN shows it: what it did, with how many, in how many milliseconds.

    ``pages`` is how many pages of the data file were read for the first time. A number is None where nobody counts.
    """

    name: str
    detail: str
    count: int | None
    milliseconds: float | None
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class HitGroup:
    """Some hits that belong together, by their places in the evidence's list, and what they are called."""

    title: str
    hits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Evidence(Columnar):
    """The outcome of a retrieval; ``pool`` is the number of chunks that were ranked.

    For other programs its rows are the hits.

    ``context`` are lines about the question's entities, and ``points`` what a model took from the chunks
    (:mod:`.distillation`): both go into a prompt beside the chunks. ``groups`` are parts of the hits that are read
    apart from one another: layers, communities. ``segments`` are what a prompt has in place of the hits, where a model
    is to read more than single chunks. ``hint`` says in a sentence which strategies answer such a question better,
    where that can be told of the question.
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

    def _repr_html_(self) -> str:
        """What a notebook shows: the hits, with how each came to be there."""
        from ..markup import render_table

        columns = ("rank", "score", "document", "ordinal", "text", "path")
        rows = [(hit.rank, hit.score, hit.document, hit.ordinal, hit.text, hit.path) for hit in self.hits]
        summary = f"{len(self.hits)} found by {self.strategy}, of {self.pool:,} ranked"
        return render_table(columns, rows, remarks=[summary, *([] if self.hint is None else [self.hint])])

    def _get_named_rows(self) -> NamedRows:
        rows = [[*(getattr(hit, name) for name in _HIT_FIELDS), hit.ordinal] for hit in self.hits]
        return (*_HIT_FIELDS, "chunk"), rows, (*_HIT_TYPES, "INTEGER")


class Trace:
    """Gathers the steps of one retrieval; of a measured view the pages it reads too."""

    def __init__(self, view: View | None = None) -> None:
        self.steps: list[Step] = []
        self._measured_view = view if isinstance(view, MeasuredView) else None

    @contextmanager
    def step(self, name: str) -> Iterator[StepNotes]:
        """Time a step; the body fills in its detail and count."""
        notes = StepNotes()
        start = self._read_clock()
        yield notes
        self._add_step(name, notes, start, self._read_clock())

    @contextmanager
    def record_round(self, reading: BatchedReader, *names: str) -> Iterator[list[StepNotes]]:
        """Time the requests of one round, each as a step of its own; the last has what the body does beside."""
        notes = [StepNotes() for _ in names]
        times = [self._read_clock()]
        reading.on_answer = lambda: times.append(self._read_clock())
        try:
            yield notes
        finally:
            reading.on_answer = None
        times = [*times[: len(names)], *[self._read_clock()] * len(names)]
        for name, step_notes, start, end in zip(names, notes, times, times[1:], strict=False):
            self._add_step(name, step_notes, start, end)

    def _read_clock(self) -> tuple[float, int]:
        return time.perf_counter(), 0 if self._measured_view is None else self._measured_view.pages

    def _add_step(self, name: str, notes: StepNotes, start: tuple[float, int], end: tuple[float, int]) -> None:
        milliseconds = round(1000 * (end[0] - start[0]), 3)
        pages = None if self._measured_view is None else end[1] - start[1]
        self.steps.append(Step(name, notes.detail, notes.count, milliseconds, pages))


class StepNotes:
    """What a step has to say for itself."""

    def __init__(self) -> None:
        self.detail = ""
        self.count = 0


@dataclass(frozen=True, slots=True)
class Location:
    """One place of an entity: a node of a tree with one parent, or an abstract of a document.

    ``level`` counts edges from the tree's root, or the abstract's height above the leaves; ``parent`` is the parent's
    name or heading; ``abstract`` the abstract's number in its document.
    """

    entity: str
    temperature: int
    tree: str | None
    level: int
    parent: str | None
    document: str | None
    abstract: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Relative:
    """A relative of an entity: ``level`` edges below it (negative: above), reached through ``via``."""

    entity: str
    tree: str
    level: int
    relative: str
    via: str
    text: str


class Relatives(Columnar, list[Relative]):
    """Relatives as EXPAND gives them; a notebook draws them as trees."""

    def _get_named_rows(self) -> NamedRows:
        return ("entity", "tree", "level", "relative", "via", "text"), [*map(astuple, self)], _RELATIVE_TYPES

    def _repr_html_(self) -> str:
        from ..markup import render_relatives

        return render_relatives(map(astuple, self))
