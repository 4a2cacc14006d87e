"""Kinds of index that are kept in the store itself, a generation at a time.

What compares documents with each other (topics, communities) is made whole by REFRESH, of one state; while a document's
commit touches nothing of it. It is small, names documents, and must be seen in a reader's snapshot, so it stands in
tables of the store. REFRESH writes the next generation beside the one in use, in commits that nobody sees, and then one
small commit says that this is the one (:mod:`.generation_building`). A reader keeps the one that its snapshot names.

A generation never changes, and ids of documents and chunks are never used twice. So what it says is corrected when it
is read: it is of no document that is gone, and a chunk is newer than it where its id is at least ``chunk_stop``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ...columnar import Columnar, NamedRows
from ...errors import CorruptionError
from ...storage import index_file, number_records, records
from ...storage.engine_tables import LmdbTable
from .index import BuildTools, Index, IndexRecord, IndexStatus, States
from .indexes import Indexes

if TYPE_CHECKING:
    from ...models.structured import StructuredPrompt
    from ..logical import LogicalNames
    from ..state import State

Bound = TypeVar("Bound")
Made = TypeVar("Made")

#: KeyedRows of a table of a generation: keys without the generation, and plain data.
KeyedRows = Iterable[tuple[bytes, Any]]


@dataclass(frozen=True, slots=True)
class Generation:
    """What a build has made of the state of change ``change``, whose chunks are numbered below ``chunk_stop``.

    ``head`` is small plain data, ``rows`` are those of each table, in the order of their keys.
    """

    change: int
    chunk_stop: int
    head: Mapping[str, Any]
    rows: Mapping[str, KeyedRows]


class WritingTask(NamedTuple):
    """A text that a model may write: ``content`` is the digest (16 bytes) of the kind, the version of the prompt and
    what it is written from; not of the model, so that nothing is paid for twice.

    The largest ``weight`` is written first. ``group`` is the number that the kind knows it by.
    """

    content: bytes
    weight: int
    title: str
    group: int


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """A group as EXPAND draws it: what it is called, how many are below it, and the groups that it is made of."""

    title: str
    detail: str
    count: int
    children: Callable[[], Iterable[OutlineNode]] = field(default=tuple)


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """A line of such a drawing: ``level`` edges below the coarsest groups."""

    level: int
    title: str
    count: int
    detail: str


class Outline(Columnar, list[OutlineRow]):
    """Lines of such a drawing; a notebook draws them as lists in lists."""

    def _get_named_rows(self) -> NamedRows:
        columns = {"level": "INTEGER", "title": "TEXT", "count": "INTEGER", "detail": "TEXT"}
        return tuple(columns), [*map(astuple, self)], tuple(columns.values())

    def _repr_html_(self) -> str:
        from ...markup import render_outline

        return render_outline((row.level, f"{row.title} ({row.count:,})", row.detail) for row in self)


def iter_outline_rows(nodes: Iterable[OutlineNode], depth: int, level: int = 0) -> Iterator[OutlineRow]:
    """Groups down to a depth, each before those that it is made of."""
    for node in nodes:
        yield OutlineRow(level, node.title, node.count, node.detail)
        if level + 1 < depth:
            yield from iter_outline_rows(node.children(), depth, level + 1)


class RowSource(Protocol):
    """Where the rows of a generation stand."""

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[Any]:
        """The value under each of some keys, or None."""
        ...

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        """The records with ``start <= key < stop``, in key order."""
        ...


class GenerationRows:
    """The rows of one generation, as a view sees them; what is read is checked, and a CorruptionError where it is
    damaged."""

    def __init__(
        self,
        source: RowSource,
        number: int,
        generation: Mapping[str, Any],
        memory: dict[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._prefix = records.encode_u32(number)
        self._stop = records.encode_u32(number + 1)
        self._cache = {} if memory is None else memory
        self.change: int = generation["change"]
        self.chunk_stop: int = generation["chunk_stop"]
        self.head: Mapping[str, Any] = generation["head"]

    def get(self, table: str, key: bytes) -> Any:
        """The value under a key, or None."""
        return self.get_many(table, [key])[0]

    def get_many(self, table: str, keys: Sequence[bytes]) -> list[Any]:
        """The value under each of some keys, or None."""
        prefixed_keys = [self._prefix + key for key in keys]
        values = self._source.get_many(table, prefixed_keys)
        return [
            None if value is None else records.unpack(value, table, key)
            for key, value in zip(prefixed_keys, values, strict=True)
        ]

    def read_numbers(self, table: str, keys: Sequence[bytes], columns: int) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Of rows of so many whole numbers: the places of the keys that have one, and these, -1 for nil."""
        prefixed_keys = [self._prefix + key for key in keys]
        values_by_key = self._source.get_many(table, prefixed_keys)
        present = [position for position, value in enumerate(values_by_key) if value is not None]
        values, prefixed_keys = (
            [values_by_key[position] for position in present],
            [prefixed_keys[position] for position in present],
        )
        return present, number_records.unpack_numbers(values, table, prefixed_keys, columns)

    def scan(self, table: str, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, Any]]:
        """The keys with ``start <= key < stop`` and their values, in key order."""
        end = self._stop if stop is None else self._prefix + stop
        for key, value in self._source.scan(table, self._prefix + start, end):
            yield bytes(key[4:]), records.unpack(value, table, key)

    def get_cached(self, name: str, build: Callable[[GenerationRows], Made]) -> Made:
        """What ``build`` makes of the rows, kept for all states that read this generation."""
        if name not in self._cache:
            self._cache[name] = build(self)
        cached_value: Made = self._cache[name]
        return cached_value


class GenerationIndex(Index, Generic[Bound]):
    """A kind of index in generations; ``Bound`` is what one state may use of it.

    ``tables`` are its own; of these ``quoting_tables`` hold words of documents, and are read only while nothing has changed
    since they were made. Another ``version`` than that of the generation in use is as none. ``building_detail`` is what SHOW
    INDEXES adds while one is made. One that is ``has_outline`` is drawn by EXPAND.
    """

    version: int = 1
    tables: tuple[str, ...]
    quoting_tables: tuple[str, ...] = ()
    has_outline: bool = False
    building_detail: str = "the generation before is read meanwhile"

    @abstractmethod
    def build(self, states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        """The next generation, made of the newest state; one whole look at it, taken in one block of ``states``.

        The same documents give the same rows, whatever their ids: what is ordered is ordered by keys, ordinals and
        names.
        """

    @abstractmethod
    def bind(self, rows: GenerationRows, state: State) -> Bound:
        """What a state may use: nothing that the state does not have is named."""

    @abstractmethod
    def describe(self, bound: Bound) -> str:
        """How much it holds, for SHOW INDEXES."""

    @abstractmethod
    def dump(self, bound: Bound, names: LogicalNames) -> Mapping[str, Iterable[tuple[Any, ...]]]:
        """KeyedRows of each table with names in place of ids, where nothing has changed since it was made."""

    def check(self, bound: Bound) -> Iterator[str]:
        """What does not fit together, as sentences."""
        return iter(())

    def list_writing_tasks(self, bound: Bound) -> Iterable[WritingTask]:
        """The texts that a model may write, written before or not, of which all sources are still there."""
        return ()

    def build_prompt(self, bound: Bound, task: WritingTask) -> StructuredPrompt[Mapping[str, Any]] | None:
        """What a model is asked for such a text; None where a source is gone. What it makes of the answer is kept."""
        raise NotImplementedError

    def build_outline(self, bound: Bound) -> Iterable[OutlineNode]:
        """The coarsest groups, for EXPAND."""
        return ()

    def carry_over(self, record: IndexRecord) -> IndexRecord | None:
        return replace(record, state={}, epoch=record.epoch + 1)

    def get_status(self, record: IndexRecord, state: State) -> IndexStatus | None:
        change = state.counters.change
        open_indexes = state.open_indexes
        is_usable = self.is_usable(record)
        built_change = record.state["change"] if is_usable else 0
        lag = max(0, change - built_change)
        if open_indexes is not None and index_file.is_being_drafted(
            index_file.build_index_path(open_indexes.environment.path, self.name)
        ):
            return IndexStatus(self.name, "building", built_change, lag, self.building_detail)
        if not is_usable:
            reason = "made by another version; " if record.state else "not built yet; "
            return IndexStatus(self.name, "absent", 0, change, f"{reason}REFRESH INDEX builds it")
        try:
            bound = bind_generation(state, self)
            return IndexStatus(self.name, "ready", built_change, lag, "" if bound is None else self.describe(bound))
        except CorruptionError as error:
            return IndexStatus(self.name, "damaged", built_change, lag, str(error))

    def is_usable(self, record: IndexRecord) -> bool:
        """Whether a generation is there that this version reads."""
        return bool(record.state.get("version") == self.version)


class _GenerationPart(Generic[Bound]):
    """The part of a state that a kind is."""

    def __init__(self, kind: GenerationIndex[Bound]) -> None:
        self._kind = kind
        self.name = f"index {kind.name}"

    def read(self, state: State) -> Bound | None:
        record = Indexes(state.lmdb).get(self._kind)
        if record is None or not self._kind.is_usable(record):
            return None
        open_indexes, token = state.open_indexes, record.state["token"]
        memory = None if open_indexes is None else open_indexes.get_generation_memory(self._kind.name, token)
        return self._kind.bind(GenerationRows(state.lmdb, record.state["generation"], record.state, memory), state)


def bind_generation(state: State, kind: GenerationIndex[Bound]) -> Bound | None:
    """The index as a state may use it; None where there is none, or it is not built yet."""
    part = _GenerationPart(kind)
    # Under a write transaction a state changes: nothing that was read of it is kept.
    return part.read(state) if state.lmdb.writable else state.get_part(part)


def list_generation_tables(kind: GenerationIndex[Any]) -> list[LmdbTable]:
    """The tables of a kind; they are written in bulk, and never changed."""
    return [LmdbTable(name, buffered=False) for name in kind.tables]


def check_generation(state: State, kind: GenerationIndex[Any]) -> Iterator[str]:
    """What is wrong with the generation in use, as sentences; every record of it is read."""
    record = Indexes(state.lmdb).get(kind)
    if record is None or not kind.is_usable(record):
        return
    rows = GenerationRows(state.lmdb, record.state["generation"], record.state)
    for table in kind.tables:
        for _ in rows.scan(table):
            pass
    yield from kind.check(kind.bind(rows, state))


def dump_generation(
    state: State, kind: GenerationIndex[Any], names: LogicalNames
) -> Mapping[str, Iterable[tuple[Any, ...]]]:
    """The rows of the generation in use for the dump: where it is as new as the state, and vectors are a function of
    the text, which those of a neural model are not to the last bit."""
    record = Indexes(state.lmdb).get(kind)
    has_exact_vectors = state.settings.embedder.startswith(("hashing", "none:", "given"))
    if (
        record is None
        or not kind.is_usable(record)
        or record.state["change"] != state.counters.change
        or not has_exact_vectors
    ):
        return {}
    bound = bind_generation(state, kind)
    return {} if bound is None else kind.dump(bound, names)
