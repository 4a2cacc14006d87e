"""Kinds of index: the interface that every kind implements, and the records of indexes. The record of an index has its
options and the *tokens* of its trusted files. Every store has an index of an *automatic* kind. The *epoch* grows when a
repair renumbers ids, so that older files are rejected.

On disk: ``indexes`` (kind → options, and the tokens of the files that belong to this store's history).

Code that handles indexes treats all registered kinds alike. The record in the store holds the options of an index. Most
kinds are refreshed, as materialized views are: built from a state of the store, as new as their last REFRESH, and
corrected on reading. The data of a :class:`FileIndex` is in a file that can be deleted and rebuilt. A file is trusted
only while the record contains its token. Otherwise, a file of another store, or of a store restored from a backup,
would lead to wrong chunks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ...arguments import Choice, Option, warn_if_retired
from ...errors import CorruptionError, InputError, suggest
from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.view import ViewReader, ViewWriter
from .. import tables
from ..state import State

if TYPE_CHECKING:
    from ...storage.index_file import Arrays, FileHead, FilePart
    from ...storage.view import WriteView
    from ..vectors.vectors import Matrix

#: The number of tokens kept: of the file about to be renamed into place, and of the one it replaces.
_MAX_TOKENS = 2


class HasChange(Protocol):
    """The content of an index file, which reflects the change number ``change``."""

    @property
    def change(self) -> int:
        """The number of the last change that the content reflects."""
        ...


#: The content of an index file, as the kind reads it.
Content = TypeVar("Content", bound=HasChange)
#: The reader of an index in one state: the interface that queries use.
IndexReader = TypeVar("IndexReader")
#: Opens the newest state for one block. Builds use short blocks, so that COMPACT and map growth need not wait for a
#: whole build.
States = Callable[[], AbstractContextManager[State]]


@frozen_dataclass
class IndexContent:
    """The content of a file to write.

    ``head`` has the kind's fields of the file header (msgpack-able), ``arrays`` are named arrays, and ``parts`` are
    further files. A part with a name is a file of the last index, which is kept unchanged.
    """

    head: FileHead
    arrays: Arrays
    parts: Sequence[FilePart] = ()


class BuildTools(NamedTuple):
    """Callbacks for a build.

    ``embed`` returns unit vectors of texts, shape (n, dimension). ``progress`` receives the numbers of completed and of
    all steps. Once ``is_cancelled`` returns true, the build ends and returns its completed part if the part is usable.
    """

    embed: Callable[[Sequence[str]], Matrix]
    progress: Callable[[int, int], None]
    is_cancelled: Callable[[], bool]


@frozen_dataclass
class IndexStatus:
    """The status of an index in SHOW INDEXES: its kind, its state in one word, and a ``detail`` for the user.

    ``built`` is the change number that the index reflects, and ``stale`` the number of changes that it lags behind.
    """

    kind: str
    state: str
    built: int
    stale: int
    detail: str = ""


class Index(ABC):
    """A kind of index, in a file or in the store.

    Every store has an index of an ``automatic`` kind without CREATE INDEX, until it is dropped.
    """

    name: str
    description: str
    options: Mapping[str, Option | Choice]
    automatic: bool = False

    def prepare_record(self, record: IndexRecord, view: WriteView) -> IndexRecord:
        """Return the record (options and state) of an index that is created in ``view``, a write transaction.

        ``record`` has the options. A kind overrides this method to add its state, or to check that it can be built.
        """
        return record

    @abstractmethod
    def renew_record(self, record: IndexRecord) -> IndexRecord | None:
        """Return the record of the index after a repair rebuilt the store, or None if the index no longer exists."""

    def get_status(self, record: IndexRecord, state: State) -> IndexStatus | None:
        """Return the status of the index in a state, for SHOW INDEXES, or None if it is not listed.

        Only kinds that are stored in the database implement it; kvstore itself computes the status of an index file.
        """
        raise NotImplementedError


class FileIndex(Index, Generic[Content, IndexReader]):
    """A kind of index in a file. ``Content`` is the content of the file, the same for all states.

    ``IndexReader`` reads the index in one state. An index of an ``automatic`` kind is extended in the background. SHOW
    INDEXES displays ``building_detail`` during a build. ``checked_in_place`` lists the arrays that need not be read
    when the file is opened, because ``Content`` verifies what it uses. ``companion_of`` is the name of another kind:
    this kind is created and dropped together with it, and refreshed after it. Statements mention only the other kind.
    """

    building_detail: str = ""
    checked_in_place: Collection[str] = ()
    companion_of: str = ""

    def renew_record(self, record: IndexRecord) -> IndexRecord:
        """Return the record of the index after a repair renumbered ids, so that kvstore rejects all older files.

        Without tokens, no file is trusted; the epoch is the next one.
        """
        return replace(record, tokens=(), epoch=record.epoch + 1)

    @abstractmethod
    def build(self, states: States, old: Content | None, record: IndexRecord, tools: BuildTools) -> IndexContent | None:
        """Build the next file from the newest state, which ``states`` opens; return None if nothing is new.

        ``old`` is the content of the last file if it can be extended (None: it cannot); the build may modify it.
        ``record`` has the options of the index. ``tools`` embed texts, receive progress, and report if the build is
        cancelled.
        """

    @abstractmethod
    def read(self, stored_content: IndexContent) -> Content:
        """Return the content of an index file, given its header, its arrays (views of the file) and its parts."""

    @abstractmethod
    def bind(self, content: Content, record: IndexRecord, state: State) -> IndexReader:
        """Return the reader of the index for a state: it reads ``content`` and omits items missing in the state."""

    @abstractmethod
    def describe(self, content: Content) -> str:
        """Return a description of the size of the index, such as "25,000 vectors", for SHOW INDEXES."""

    def compute_lag(self, content: Content, state: State) -> int:
        """Return the number of changes by which the index lags behind a state."""
        return max(0, state.counters.change - content.change)

    def explain_exact_search(self, record: IndexRecord | None, state: State) -> str | None:
        """Return why a state is searched exactly, without an index file, or None (the default) if it needs a file.

        ``record`` is the record of the index (None: it was dropped).
        """
        return None

    def compute_next_check(self, record: IndexRecord | None, state: State) -> int:
        """Return the chunk id at which to check again if the store needs an index file; so far, it needs none.

        ``record`` is the record of the index (None: it was dropped). The default is the next unused id.
        """
        return state.counters.next_chunk

    def compute_extension_start(self, head: FileHead | None, record: IndexRecord, state: State) -> int:
        """Return a threshold: as soon as a chunk with this id exists, kvstore extends the index file.

        ``head`` is the header of the file, or None if there is no file. Only automatic kinds, which kvstore extends in
        the background, implement the method.
        """
        raise NotImplementedError


@frozen_dataclass
class IndexRecord:
    """The record of an index: the options that the user set, the random ``tokens`` of its trusted files, and ``state``,
    plain data of the kind, such as the description of the generation in use.

    ``is_created`` is false if the index exists only because every store has its kind (automatic). ``epoch`` grows when
    chunks or entities are renumbered, which invalidates older files.
    """

    kind: Index
    options: Mapping[str, float | str] = field(default_factory=dict)
    tokens: tuple[bytes, ...] = ()
    is_created: bool = True
    epoch: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)

    def get_float_option(self, name: str) -> float:
        """Return the value of a numeric option, or its default."""
        return float(self.options.get(name, self.kind.options[name].default))

    def get_str_option(self, name: str) -> str:
        """Return the value of an option whose values are words, or its default."""
        return str(self.options.get(name, self.kind.options[name].default))

    def get_int_option(self, name: str) -> int:
        """Return the value of an option, truncated to an integer, or its default."""
        return int(self.options.get(name, self.kind.options[name].default))

    def get_int_options(self, names: Iterable[str]) -> dict[str, int]:
        """Return the values of several integer options, by name."""
        return {name: self.get_int_option(name) for name in names}


def validate_options(index_kind: Index, options: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the options of an index with names in lower case and converted values.

    Options that only earlier versions had are dropped with a warning. Raises InputError for an unknown option, and for
    a value of the wrong type or out of range.
    """
    valid_options: dict[str, float | str] = {}
    for name, value in options.items():
        option = index_kind.options.get(str(name).lower())
        if option is None:
            if warn_if_retired(index_kind.name, str(name).lower()):
                continue
            suggestion = suggest(str(name), index_kind.options)
            hint = f"; did you mean {suggestion}?" if suggestion else ""
            raise InputError(
                f"index {index_kind.name} has no option {name!r}{hint}; it has: "
                f"{', '.join(index_kind.options) or 'none'}"
            )
        label = f"index {index_kind.name}: option {name}"
        valid_value = (
            option.parse_choice(label, value) if isinstance(option, Choice) else _validate_number(label, option, value)
        )
        valid_options[str(name).lower()] = valid_value
    return valid_options


def _validate_number(label: str, option: Option, value: Any) -> float:
    """Convert a number to the type of its option; raise InputError if it is of the wrong type or out of range."""
    is_integer = isinstance(option.default, int)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (is_integer and value % 1 != 0):
        raise InputError(f"{label} must be a {'whole ' if is_integer else ''}number, not {value!r}")
    if not option.low <= value <= option.high:
        raise InputError(f"{label} must be between {option.low:g} and {option.high:g}, not {value!r}")
    return int(value) if is_integer else float(value)


class Indexes(ViewReader):
    """The index records of one view, a snapshot or a write transaction."""

    def get(self, index_kind: Index) -> IndexRecord | None:
        """Return the record of an index kind, or None if the store has no such index.

        A kind that every store has without CREATE INDEX (automatic) has a default record.
        """
        key = index_kind.name.encode()
        value = self._view.get(tables.INDEXES, key)
        if value is None:
            return IndexRecord(index_kind, is_created=False) if index_kind.automatic else None
        stored_record = records.unpack(value, tables.INDEXES, key)
        if stored_record is None:  # an automatic index that was dropped
            return None
        options, tokens, *extra_fields = stored_record  # is_created, epoch, state; older records have fewer fields
        return IndexRecord(index_kind, options, tuple(tokens), *extra_fields)


class IndexWriter(ViewWriter, Indexes):
    """The index records of one write transaction."""

    def put(self, record: IndexRecord) -> None:
        """Store the record of an index: its options, file tokens, creation flag, epoch, and state if it has one.

        The tokens are random identifiers of the index files that belong to this store's history.
        """
        fields: list[object] = [dict(record.options), list(record.tokens), record.is_created, record.epoch]
        if record.state:
            fields.append(dict(record.state))
        self._write_view.put(tables.INDEXES, record.kind.name.encode(), records.pack(fields))

    def drop(self, index_kind: Index) -> None:
        """Record that the store does not have this index, even if every store has its kind by default (automatic)."""
        self._write_view.put(tables.INDEXES, index_kind.name.encode(), records.pack(None))

    def add_trusted_token(self, record: IndexRecord, token: bytes) -> bool:
        """Add the random token of a new file to the stored record; a file is read only if the record has its token.

        ``record`` is the record at the start of the build. Returns True, or False without a change if the index was
        dropped or created again since then.
        """
        stored_record = self.get(record.kind)
        # Only the tokens may differ, because another process may have built a file since.
        if stored_record is None or replace(stored_record, tokens=record.tokens) != record:
            return False
        self.put(replace(stored_record, tokens=(token, *stored_record.tokens)[:_MAX_TOKENS]))
        return True

    def renew_records(self, old_indexes: Indexes, kinds: Iterable[Index]) -> Iterator[str]:
        """Store the index records of a rebuilt store: the old records, each updated by :meth:`Index.renew_record`.

        An index without a record, or for which ``renew_record`` returns None, is dropped. Yields a sentence for each
        damaged record, which is not stored: the index is then as in a new store. Must be iterated to the end.
        """
        for kind in kinds:
            try:
                record = old_indexes.get(kind)
            except CorruptionError as error:
                yield f"the options of index {kind.name!r} cannot be read ({error}); set them again with CREATE INDEX"
                continue
            new_record = None if record is None else kind.renew_record(record)
            if new_record is None:
                self.drop(kind)
            else:
                self.put(new_record)
