"""The metadata, language and columns of documents as a structure. The *index key* of a value is its field and the
encoded value. The documents with a value are stored as a set, in *containers* of 8,192 ids. The numeric *columns* of
documents are stored in *blocks* of 256 documents.

On disk: ``metadata_sets`` (key of a value, index of a container of 8,192 documents u32 → the documents that have it,
see :mod:`.metadata_encoding`), ``metadata_columns`` (index of a block of 256 documents u32 → their columns, see
:mod:`.column_blocks`). Out: sets of documents, as masks by id, and columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...registry.contract import Delta, DumpRow, LmdbTable
from ...storage import records
from ...storage.view import View, WriteView
from ...structures.documents.allowed import AllowedDocuments
from ...structures.documents.condition_cache import ConditionCache
from ...structures.documents.documents import DocumentRecord
from ...structures.logical import LogicalNames
from ...structures.state import State
from ...text.languages import get_language_code
from . import column_blocks
from . import metadata_encoding as encoding
from .column_blocks import ColumnValues, DocumentColumns
from .metadata_encoding import (
    LANGUAGE_COLUMN,
    NUMBER,
    TEXT,
    DocumentMask,
    build_index_keys,
    decode_value,
    encode_column_prefix,
    encode_text_value,
)

METADATA_SETS = "metadata_sets"
METADATA_COLUMNS = "metadata_columns"

#: The columns that locate a document's chunks.
_EXTENT_COLUMNS = ("document", "first_group", "groups", "chunks")
#: A key suffix that sorts after the index of every container.
_END = b"\xff" * 5


class MetadataIndex:
    """The index over the values of documents in one state of the store. Sets of documents are returned as masks: arrays
    of flags by document id.
    """

    def __init__(self, view: View, size: int, change: int = 0, cache: ConditionCache | None = None) -> None:
        """Open the index through ``view``, a snapshot or write transaction.

        Masks have ``size`` documents, which is greater than every document id. ``cache`` (None: no cache) holds the
        columns as of ``change``, the number of the last change.
        """
        self._view = view
        self.size = size
        self._change = change
        self._cache = cache
        #: By index of a container, each language with a bit for each of its documents. Read on first use.
        self._languages_by_container: dict[int, list[tuple[str, int]]] = {}

    def make_empty_mask(self) -> DocumentMask:
        """Return an empty set of documents as a mask."""
        return np.zeros(self.size, np.bool_)

    def find_with_key(self, key: bytes) -> DocumentMask:
        """Return the documents that have the value with this index key."""
        # A stored key is an index key followed by the index of a container, which sorts before ``_END``.
        return self.find_in_range(key, key + _END)

    def find_text(self, column: str, text: str) -> list[int] | None:
        """Return the ids of documents with this text in a column, ascending; None if it is too long or has a NUL."""
        key = encode_text_value(text)
        return None if key is None else np.flatnonzero(self.find_with_key(encode_column_prefix(column) + key)).tolist()

    def find_in_range(self, start: bytes, stop: bytes) -> DocumentMask:
        """Return the documents that have any value with ``start`` <= index key < ``stop``."""
        return self.build_mask(self._view.scan(METADATA_SETS, start, stop))

    def find_matching(self, start: bytes, stop: bytes, accepts: Callable[[bytes], bool]) -> DocumentMask:
        """Return the documents with a value whose index key satisfies ``accepts`` and ``start`` <= key < ``stop``."""
        rows = self._view.scan(METADATA_SETS, start, stop)
        # The key of a row is the index key of a value, followed by the index of the container.
        matching_rows = (
            (key, container) for key, container in rows if accepts(bytes(key[: -encoding.CONTAINER_INDEX_BYTES]))
        )
        return self.build_mask(matching_rows)

    def iter_rows_in_spans(self, spans: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the rows (index key and container) whose index key is in any of ``spans`` (from start to stop).

        Both starts and stops ascend; spans may overlap. Scans at most once per span, and reads at most the rows from
        the first start to the last stop.
        """
        stops = [stop for _, stop in spans]
        position = 0
        while position < len(spans):
            start, _ = spans[position]
            for key, container in self._view.scan(METADATA_SETS, start, stops[-1]):
                position = bisect_right(stops, key, position)  # of the first span that may have this row
                start, _ = spans[position]
                if key < start:
                    break  # skip the rows before this span
                yield key, container
            else:
                return

    def build_mask(self, rows: Iterable[tuple[bytes, memoryview]]) -> DocumentMask:
        """Return the documents in the containers of some rows."""
        return encoding.build_mask(rows, self.size, METADATA_SETS)

    def read_columns(self) -> dict[str, ColumnValues]:
        """Return the columns of all documents by name, in order of id; cached. The caller must not modify them."""
        all_columns = None if self._cache is None else self._cache.get_columns(self._change)
        if all_columns is None:
            all_columns = column_blocks.concatenate_blocks(
                self._read_block(key, value) for key, value in self._view.scan(METADATA_COLUMNS)
            )
            if self._cache is not None:
                self._cache.put_columns(self._change, all_columns)
        return all_columns

    def build_allowed(self, documents: ColumnValues) -> AllowedDocuments:
        """Return the set of the documents that a query allows, with the ranges of chunk ids of each.

        ``documents`` are the ids of these documents, ascending.
        """
        block_numbers = np.unique(documents // column_blocks.DOCUMENTS_PER_BLOCK)
        # If most blocks are needed, all are read, because all columns together are cached.
        if 2 * len(block_numbers) * column_blocks.DOCUMENTS_PER_BLOCK > self.size:
            column_values = self.read_columns()
        else:
            keys = [records.encode_u32(block_number) for block_number in block_numbers.tolist()]
            stored_blocks = zip(keys, self._view.get_many(METADATA_COLUMNS, keys), strict=True)
            blocks = (
                self._read_block(key, value, _EXTENT_COLUMNS) for key, value in stored_blocks if value is not None
            )
            column_values = column_blocks.concatenate_blocks(blocks, _EXTENT_COLUMNS)
        rows = np.flatnonzero(np.isin(column_values["document"], documents, assume_unique=True))
        ids, first_groups, group_counts = (
            column_values[name][rows].astype(np.uint64) for name in ("document", "first_group", "groups")
        )
        return AllowedDocuments(ids, first_groups, group_counts, int(column_values["chunks"][rows].sum()))

    def get_language(self, document: int) -> str | None:
        """Return the ISO 639 code of a document's language; None if it is unknown or not indexed yet; cached."""
        container_index, offset = divmod(document, encoding.DOCUMENTS_PER_CONTAINER)
        languages = self._languages_by_container.get(container_index)
        if languages is None:
            languages = self._languages_by_container[container_index] = self._read_languages(container_index)
        return next((language for language, bits in languages if bits >> offset & 1), None)

    def _read_languages(self, container_index: int) -> list[tuple[str, int]]:
        """Return each language code with a bit for each of the documents of a container that are in the language.

        The scan skips the containers with other indexes, because their number grows with the store.
        """
        prefix, key_suffix = encode_column_prefix(LANGUAGE_COLUMN), records.encode_u32(container_index)
        languages: list[tuple[str, int]] = []
        stop = prefix + TEXT + _END
        rows = self._view.scan(METADATA_SETS, prefix + TEXT, stop)
        row = next(rows, None)
        while row is not None:
            key, container = row
            index_key = key[: -encoding.CONTAINER_INDEX_BYTES]  # of a language
            if key < index_key + key_suffix:  # skip to the container of this language
                rows = self._view.scan(METADATA_SETS, index_key + key_suffix, stop)
            elif key > index_key + key_suffix:  # skip to the next language
                rows = self._view.scan(METADATA_SETS, index_key + _END, stop)
            else:
                bits = encoding.unpack_bits(container, METADATA_SETS, key)
                languages.append((str(decode_value(index_key[len(prefix) :])), bits))
            row = next(rows, None)
        return languages

    def iter_sets(self) -> Iterator[tuple[bytes, Iterable[int]]]:
        """Yield the index key of each value with the ids of documents that have the value.

        A key is repeated for each stored part of its set, which has the documents in a range of 8,192 ids.
        """
        for key, value in self._view.scan(METADATA_SETS):
            index_start = len(key) - encoding.CONTAINER_INDEX_BYTES
            first_document = records.U32.unpack(key[index_start:])[0] * encoding.DOCUMENTS_PER_CONTAINER
            offsets = encoding.unpack_container(value, METADATA_SETS, key).astype(np.int64)
            yield bytes(key[:index_start]), (offsets + first_document).tolist()

    def count_records(self) -> dict[str, int]:
        """Return the number of stored containers (sets of documents), by its name in SHOW STATS."""
        return {"values": self._view.count(METADATA_SETS)}

    def _read_block(
        self, key: bytes, value: memoryview, names: Sequence[str] = column_blocks.COLUMN_NAMES
    ) -> list[ColumnValues]:
        """Return the columns ``names`` of a stored block of documents, in order; ``key`` is the number of the block."""
        return column_blocks.unpack_columns(records.U32.unpack(key)[0], value, METADATA_COLUMNS, key, names)


class MetadataMaintainer:
    """The writer of the index: collects added and deleted documents, and changes each set and block once per batch.
    Collected changes are in memory until they are *flushed*.
    """

    def __init__(self, state: State, write: WriteView) -> None:
        """Create a writer of the index of ``state`` in the transaction ``write``; there are no pending changes yet."""
        self._state = state
        self._write_view = write
        #: The index before the current batch, in which the languages of removed documents are looked up.
        self._previous_index: MetadataIndex | None = None
        #: By key of a container (a part of a set of documents), the offsets of documents that are added and removed.
        self._set_changes: defaultdict[bytes, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        #: By index of a block, the new rows of its documents; None for a deleted document.
        self._row_changes: dict[int, dict[int, DocumentColumns | None]] = {}

    def remove_document(self, record: DocumentRecord) -> None:
        """Collect the removal of a document's values and columns in memory. :meth:`apply_delta` writes it."""
        self._collect_set_changes(record, self._find_language(record.id), is_removed=True)
        self._row_changes.setdefault(record.id // column_blocks.DOCUMENTS_PER_BLOCK, {})[record.id] = None

    def apply_delta(self, delta: Delta) -> None:
        """Add the values and columns of the new and changed documents in ``delta``, and write all changes.

        Removals, which :meth:`remove_document` collected, are written too.
        """
        for added_document in delta.added:
            self._add_document(added_document.record, get_language_code(added_document.language))
        for record, new_record in delta.changed_metadata:
            language = self._find_language(record.id)
            self._collect_set_changes(record, language, is_removed=True)
            self._add_document(new_record, language)
        self._flush_sets()
        self._flush_columns()
        self._previous_index = None

    def _find_language(self, document: int) -> str | None:
        """Return the code of the language of a document that was stored before the batch, or None if it is unknown."""
        if self._previous_index is None:
            self._previous_index = MetadataIndex(self._write_view, self._state.counters.next_document)
        return self._previous_index.get_language(document)

    def _add_document(self, record: DocumentRecord, language: str | None) -> None:
        """Collect the values and columns of a document, whose language has the code ``language`` (None: unknown)."""
        self._collect_set_changes(record, language, is_removed=False)
        rows = self._row_changes.setdefault(record.id // column_blocks.DOCUMENTS_PER_BLOCK, {})
        rows[record.id] = column_blocks.get_column_values(record)

    def _collect_set_changes(self, record: DocumentRecord, language: str | None, *, is_removed: bool) -> None:
        """Collect the addition of a document to the sets of its values or, with ``is_removed``, its removal from them.

        Each value has the set of the documents that contain it. :meth:`_flush_sets` writes the changes. ``language`` is
        the code of the document's language (None: unknown).
        """
        container_index, offset = divmod(record.id, encoding.DOCUMENTS_PER_CONTAINER)
        key_suffix = records.encode_u32(container_index)
        for key in build_index_keys(record, language):
            added_offsets, removed_offsets = self._set_changes[key + key_suffix]
            (removed_offsets if is_removed else added_offsets).add(offset)

    def _flush_sets(self) -> None:
        """Write the collected changes of sets of documents to their containers, and forget the changes.

        A container is a stored part of a set: its documents in a range of 8,192 ids.
        """
        keys = sorted(self._set_changes)
        changes: dict[bytes, bytes | None] = {}
        for key, value in zip(keys, self._write_view.get_many(METADATA_SETS, keys), strict=True):
            added_offsets, removed_offsets = self._set_changes[key]
            container = encoding.change_container(value, added_offsets, removed_offsets, METADATA_SETS, key)
            if container is not None or value is not None:
                changes[key] = container
        self._write_view.change_many(METADATA_SETS, changes)
        self._set_changes.clear()

    def _flush_columns(self) -> None:
        """Write the collected rows (numeric columns of documents) into blocks of 256 documents, and forget them."""
        block_numbers = sorted(self._row_changes)
        keys = [records.encode_u32(block_number) for block_number in block_numbers]
        stored_blocks = self._write_view.get_many(METADATA_COLUMNS, keys)
        changes: dict[bytes, bytes | None] = {}
        for block_number, key, stored_block in zip(block_numbers, keys, stored_blocks, strict=True):
            row_changes = self._row_changes[block_number]
            block = column_blocks.change_rows(block_number, stored_block, row_changes, METADATA_COLUMNS, key)
            if block is not None or stored_block is not None:
                changes[key] = block
        self._write_view.change_many(METADATA_COLUMNS, changes)
        self._row_changes.clear()


class MetadataStructure:
    """The metadata and columns of documents as a structure of the store."""

    name = "metadata_index"
    version = 3
    tables = (LmdbTable(METADATA_SETS), LmdbTable(METADATA_COLUMNS))
    make_maintainer = MetadataMaintainer

    def read(self, state: State) -> MetadataIndex:
        """Return the index of ``state``; it caches columns, except in a write transaction, which changes them."""
        counters = state.counters
        cache = None if state.lmdb.writable or state.open_indexes is None else state.open_indexes.condition_cache
        return MetadataIndex(state.lmdb, counters.next_document, counters.change, cache)

    def dump(self, content: MetadataIndex, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        """Return the rows of both tables of the index, by table, with the keys of documents in place of their ids.

        ``METADATA_SETS`` has a row for each value of a field and each document with the value. ``METADATA_COLUMNS`` has
        a row with the numeric columns of each document.
        """
        column_values = content.read_columns()
        # Two stores of the same documents can differ in the ids of chunks ("first_group") and in the time when a
        # document was stored, so the dump omits both.
        dumped_names = [name for name in column_blocks.COLUMN_NAMES if name not in ("first_group", "changed")]
        document_rows = zip(*(column_values[name].tolist() for name in dumped_names), strict=True)
        return {
            METADATA_SETS: (
                (*_describe_key(key), names.name_document(document))
                for key, documents in content.iter_sets()
                for document in documents
            ),
            METADATA_COLUMNS: ((names.name_document(document), *row) for document, *row in document_rows),
        }

    def compute_statistics(self, content: MetadataIndex) -> Mapping[str, int]:
        """Return the number of stored sets of documents for SHOW STATS."""
        return content.count_records()


def _describe_key(key: bytes) -> tuple[str, str, str | float | None]:
    """Split the key of a set of documents, for the dump, into its field, its kind of value (in hex) and its value.

    The first character of the field is ``\\x01`` for a column, ``\\x02`` for a metadata field, and ``\\x03`` for an
    element of a list in such a field. The value is None if the key only records that a field has a value.
    """
    # A key is the field, a NUL, and the encoded value, whose first byte is its kind.
    field, _, encoded_value = key.partition(b"\x00")
    kind = encoded_value[:1]
    return field.decode(), kind.hex(), decode_value(encoded_value) if kind in (NUMBER, TEXT) else None


METADATA = MetadataStructure()
