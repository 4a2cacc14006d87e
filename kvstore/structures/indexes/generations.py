"""Kinds of index that are stored in the store itself, one generation at a time. A *generation* is the set of rows of
one build. A kind *binds* the rows to a state: it returns a reader that omits data missing in that state. A *writing
task* is a text that a language model may write for an index.

An index that compares documents with each other (topics, communities) is built completely by REFRESH from one state;
commits of documents do not touch it. It is small, refers to documents, and must be visible in a reader's snapshot, so
it is stored in tables of the store. REFRESH writes the next generation next to the one in use, in commits without
visible effect. A small commit then makes it the generation in use (:mod:`.generation_building`). A reader uses the
generation that is in use in its snapshot.

A generation never changes, and ids of documents and chunks are never reused. So it is corrected on reading: deleted
documents are left out, and a chunk is newer than the generation if its id is at least ``chunk_stop``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ...errors import CorruptionError
from ...process.frozen_dataclass import frozen_dataclass
from ...rendering.columnar import Columnar, NamedRows
from ...storage import index_file, records
from ...storage.engine_tables import LmdbTable
from .index import BuildTools, Index, Indexes, IndexRecord, IndexStatus, States

if TYPE_CHECKING:
    from ...models.structured import StructuredPrompt
    from ..logical import LogicalNames
    from ..state import State

IndexReader = TypeVar("IndexReader")
Cached = TypeVar("Cached")

#: Rows of a table of a generation: keys without the generation number, and plain data.
KeyedRows = Iterable[tuple[bytes, Any]]


class Generation(NamedTuple):
    """The result of one build of an index from the state at change number ``change``.

    All chunk ids of this state are below ``chunk_stop``. ``header`` is small plain data about the build, such as its
    sizes. ``rows`` holds the rows of each table, in key order.
    """

    change: int
    chunk_stop: int
    header: Mapping[str, Any]
    rows: Mapping[str, KeyedRows]


class WritingTask(NamedTuple):
    """A text that a language model may write.

    ``digest`` is a digest (16 bytes) of the kind, the prompt version and the sources. It does not depend on the model,
    so that no text is written twice. Texts with the largest ``weight`` are written first. ``group`` is the number of
    the group (topic or community) that the text describes.
    """

    digest: bytes
    weight: int
    title: str
    group: int


@frozen_dataclass
class OutlineNode:
    """A group as EXPAND displays it: its title, details, the number of items below it, and its subgroups (children)."""

    title: str
    detail: str
    count: int
    children: Callable[[], Iterable[OutlineNode]] = field(default=tuple)


@frozen_dataclass
class OutlineRow:
    """A line of an outline, ``level`` edges below the coarsest groups."""

    level: int
    title: str
    count: int
    detail: str


class Outline(Columnar, list[OutlineRow]):
    """The lines of an outline; a notebook renders them as nested lists."""

    def _get_named_rows(self) -> NamedRows:
        """Return the outline as a table: the names of its columns, its rows, and the SQL types of its columns."""
        columns = {"level": "INTEGER", "title": "TEXT", "count": "INTEGER", "detail": "TEXT"}
        return tuple(columns), [*map(astuple, self)], tuple(columns.values())

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook displays: nested lists."""
        from ...rendering.markup import render_outline

        return render_outline((row.level, f"{row.title} ({row.count:,})", row.detail) for row in self)


def iter_outline_rows(nodes: Iterable[OutlineNode], depth: int, level: int = 0) -> Iterator[OutlineRow]:
    """Yield the rows of an outline of groups, such as topics, down to ``depth`` levels, each before its subgroups."""
    for node in nodes:
        yield OutlineRow(level, node.title, node.count, node.detail)
        if level + 1 < depth:
            yield from iter_outline_rows(node.children(), depth, level + 1)


class RowSource(Protocol):
    """A source of the rows of a generation."""

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[Any]:
        """Return the stored value of each key, or None for a missing key."""
        ...

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        """Yield the records with ``start <= key < stop`` (None: no end), in key order."""
        ...


class GenerationRows:
    """The rows of one generation in one view. Reading a damaged row raises CorruptionError."""

    def __init__(
        self, source: RowSource, number: int, generation: Mapping[str, Any], cache: dict[str, Any] | None = None
    ) -> None:
        """Create a reader of the rows of generation ``number``.

        ``generation`` is its description, :attr:`IndexRecord.state`, with the keys change, chunk_stop (all chunk ids of
        the build are below it) and head. ``cache`` holds data computed from these rows, by name (None: a new cache).
        """
        self._source = source
        self._prefix = records.encode_u32(number)  # of the keys of this generation
        self._stop = records.encode_u32(number + 1)
        self._cache = {} if cache is None else cache
        self.change: int = generation["change"]
        self.chunk_stop: int = generation["chunk_stop"]
        self.header: Mapping[str, Any] = generation["head"]

    def get(self, table: str, key: bytes) -> Any:
        """Return the decoded value of a key, or None if it is missing."""
        return self.get_many(table, [key])[0]

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[Any]:
        """Return the decoded value of each key, or None for a missing key."""
        prefixed_keys = [self._prefix + key for key in keys]
        stored_values = self._source.get_many(table, prefixed_keys)
        return [
            None if stored_value is None else records.unpack(stored_value, table, key)
            for key, stored_value in zip(prefixed_keys, stored_values, strict=True)
        ]

    def read_numbers(
        self, table: str, keys: Sequence[bytes], num_columns: int
    ) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Return the indexes in ``keys`` of the keys that have a row, and these rows.

        A row has ``num_columns`` integers; -1 represents a missing value (nil).
        """
        prefixed_keys = [self._prefix + key for key in keys]
        stored_values = self._source.get_many(table, prefixed_keys)
        indexes = [index for index, stored_value in enumerate(stored_values) if stored_value is not None]
        stored_keys = [prefixed_keys[index] for index in indexes]
        rows = records.unpack_numbers([stored_values[index] for index in indexes], table, stored_keys, num_columns)
        return indexes, rows

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        """Yield the keys with ``start <= key < stop`` (None: no end) and their decoded values, in key order."""
        end = self._stop if stop is None else self._prefix + stop
        for key, value in self._source.scan(table, self._prefix + start, end):
            yield bytes(key[len(self._prefix) :]), records.unpack(value, table, key)

    def get_cached(self, name: str, build: Callable[[GenerationRows], Cached]) -> Cached:
        """Return the result of ``build`` for these rows, cached under ``name`` for all states that read them."""
        if name not in self._cache:
            self._cache[name] = build(self)
        cached_value: Cached = self._cache[name]
        return cached_value


class GenerationIndex(Index, Generic[IndexReader]):
    """A kind of index stored in generations; ``IndexReader`` is the interface that a state uses.

    ``tables`` are the tables of the kind. The tables ``quoting_tables`` quote documents, and are read only while the
    store has not changed since they were built. A generation with another ``version`` is ignored. ``building_detail``
    is shown by SHOW INDEXES during a build. EXPAND can display a kind that is ``has_outline``.
    """

    version: int = 1
    tables: tuple[str, ...]
    quoting_tables: tuple[str, ...] = ()
    has_outline: bool = False
    building_detail: str = "until then, searches use the previous generation"

    @abstractmethod
    def build(self, states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        """Build all rows of the index from the newest state, which ``states`` opens; ``record`` has the options.

        Two stores of the same documents have the same rows, even if ids differ, because everything is ordered by keys,
        ordinals and names. ``tools`` embed texts, receive progress, and report if the build is cancelled.
        """

    @abstractmethod
    def bind(self, rows: GenerationRows, state: State) -> IndexReader:
        """Return the reader of the index for a state: it reads the rows and omits data that the state does not have."""

    @abstractmethod
    def describe(self, reader: IndexReader) -> str:
        """Return a description of the size of the index, such as "25,000 vectors", for SHOW INDEXES."""

    @abstractmethod
    def dump(self, reader: IndexReader, names: LogicalNames) -> Mapping[str, Iterable[tuple[Any, ...]]]:
        """Return the rows of each table for the logical dump, with names in place of ids.

        It is called only if nothing has changed since the build.
        """

    def check(self, reader: IndexReader) -> Iterator[str]:
        """Yield a sentence for each inconsistency in the stored rows of the index, for CHECK; by default none."""
        return iter(())

    def list_writing_tasks(self, reader: IndexReader) -> Iterable[WritingTask]:
        """Return a task for each text that a language model may write for the index, including texts already written.

        A text is omitted if one of its sources no longer exists. By default, an index has no such texts.
        """
        return ()

    def build_prompt(
        self, reader: IndexReader, task: WritingTask, max_tokens: int | None = None
    ) -> StructuredPrompt[Mapping[str, Any]] | None:
        """Return the prompt for a language model to write the text of ``task``; the caller stores the parsed answer.

        The sources have at most ``max_tokens`` tokens together (None: a default of the kind). Returns None if a source
        no longer exists, or if not even one source fits. Only a kind with texts by a language model implements this.
        """
        raise NotImplementedError

    def build_outline(self, reader: IndexReader) -> Iterable[OutlineNode]:
        """Return the coarsest groups of an index, such as its topics, with their subgroups, for EXPAND.

        The default is no groups.
        """
        return ()

    def renew_record(self, record: IndexRecord) -> IndexRecord:
        """Return the record of the index after a repair renumbered ids: as if it was never built.

        With the next epoch, no build can extend data that has the old ids.
        """
        return replace(record, state={}, epoch=record.epoch + 1)

    def get_status(self, record: IndexRecord, state: State) -> IndexStatus:
        """Return the status of the index: building, absent, ready or damaged, and how many changes it lags behind."""
        change = state.counters.change
        open_indexes = state.open_indexes
        is_usable = self.is_usable(record)
        built_change = record.state["change"] if is_usable else 0
        lag = max(0, change - built_change)
        # A build of a generation holds the lock of the file that other kinds of index are built in.
        if open_indexes is not None and index_file.is_being_built(
            index_file.build_index_path(open_indexes.environment.path, self.name)
        ):
            return IndexStatus(self.name, "building", built_change, lag, detail=self.building_detail)
        if not is_usable:
            reason = "built by another version; " if record.state else "not built yet; "
            return IndexStatus(self.name, "absent", built=0, stale=change, detail=f"{reason}REFRESH INDEX builds it")
        try:
            reader = bind_generation(state, self)
            detail = "" if reader is None else self.describe(reader)
            return IndexStatus(self.name, "ready", built_change, lag, detail=detail)
        except CorruptionError as error:
            return IndexStatus(self.name, "damaged", built_change, lag, detail=str(error))

    def is_usable(self, record: IndexRecord) -> bool:
        """True if the index was built, by a version whose rows this version can read."""
        return bool(record.state.get("version") == self.version)


class _GenerationPart(Generic[IndexReader]):
    """Reads one index in a state. The state caches the reader, as one of its parts."""

    def __init__(self, index_kind: GenerationIndex[IndexReader]) -> None:
        """Create the part of a state that reads the index of kind ``index_kind``, under a unique name."""
        self._kind = index_kind
        self.name = f"index {index_kind.name}"

    def read(self, state: State) -> IndexReader | None:
        """Return the reader of the index for a state, or None if the index has no usable generation."""
        record = Indexes(state.lmdb).get(self._kind)
        if record is None or not self._kind.is_usable(record):
            return None
        open_indexes, token = state.open_indexes, record.state["token"]
        cache = None if open_indexes is None else open_indexes.get_generation_cache(self._kind.name, token)
        return self._kind.bind(GenerationRows(state.lmdb, record.state["generation"], record.state, cache), state)


def bind_generation(state: State, index_kind: GenerationIndex[IndexReader]) -> IndexReader | None:
    """Return the reader of an index for a state, or None if the index is missing or not built.

    A snapshot caches the reader.
    """
    part = _GenerationPart(index_kind)
    # A state of a write transaction changes, so nothing read from it is cached.
    return part.read(state) if state.lmdb.writable else state.get_part(part)


def list_generation_tables(index_kind: GenerationIndex[Any]) -> list[LmdbTable]:
    """List the tables of an index; their rows are written in bulk and never changed."""
    return [LmdbTable(name, buffered=False) for name in index_kind.tables]


def check_generation(state: State, index_kind: GenerationIndex[Any]) -> Iterator[str]:
    """Yield a sentence for each fault of an index, for CHECK, after reading every row of the build that is in use.

    A damaged row raises CorruptionError.
    """
    record = Indexes(state.lmdb).get(index_kind)
    if record is None or not index_kind.is_usable(record):
        return
    rows = GenerationRows(state.lmdb, record.state["generation"], record.state)
    for table in index_kind.tables:
        for _ in rows.scan(table):
            pass  # reading a record verifies its checksum
    yield from index_kind.check(index_kind.bind(rows, state))


def dump_generation(
    state: State, index_kind: GenerationIndex[Any], names: LogicalNames
) -> Mapping[str, Iterable[tuple[Any, ...]]]:
    """Return the rows of an index, by table, for the logical dump, with ``names`` in place of ids.

    Stores of the same documents must have equal dumps. The result is therefore empty if the rows can differ between
    such stores: if the index lags behind the last change, or if a neural model computes the vectors.
    """
    record = Indexes(state.lmdb).get(index_kind)
    if record is None or not index_kind.is_usable(record):
        return {}
    # A neural model's vectors can differ in the last bits. "hashing" computes them exactly from the text, "none:" means
    # no vectors, and "given" means vectors that the user passes.
    has_exact_vectors = state.settings.embedder.startswith(("hashing", "none:", "given"))
    is_current = record.state["change"] == state.counters.change
    if not (has_exact_vectors and is_current):
        return {}
    reader = bind_generation(state, index_kind)
    return {} if reader is None else index_kind.dump(reader, names)
