"""Documents: their records, stored texts and outlines (lists of the sections under headings). The *key* of a document
is its name, usually a path; its *id* is a number. Chunk ids are assigned in *groups* of GROUP_SIZE; each group of a
document has a *leaf abstract*, a summary of its chunks.

On disk: ``documents`` (id → record), ``document_keys`` (key → id), ``texts`` (id → UTF-8, compressed if that makes it
shorter), ``outlines`` (id → sections). A key longer than LMDB allows is stored in ``document_keys`` as its first 400
bytes, 0xff, and a BLAKE2b-256 digest; the record confirms it. A missing id or a damaged value raises
:class:`~kvstore.errors.CorruptionError`; an unknown key returns None.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import UTC, datetime
from itertools import accumulate, islice
from operator import attrgetter
from typing import Any, Protocol

from ...errors import CorruptionError
from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.environment import View
from ...storage.view import ViewReader, ViewWriter
from .. import tables
from ..decoded_data import DecodedData, EntryCache
from .stored_texts import (
    MAX_COMPRESSED_TEXT,
    decode_slice,
    decode_stored_text,
    encode_stored_text,
    get_long_text,
    require_stored_text,
)

#: The last second of the year 9999 as a Unix time: the last one that Python can format.
_MAX_SECOND = 253_402_300_799
#: The maximum length of a key that is stored as it is. LMDB allows keys of up to 511 bytes.
MAX_PLAIN_KEY = 480
#: The number of bytes of a longer key that are stored before its digest.
LONG_KEY_PREFIX = 400

#: The number of consecutive chunk ids that belong to one leaf abstract, or group (Bridge-RAG §4.1).
GROUP_SIZE = 5

#: The number of texts cached per view. A text too long to be compressed is cached alone.
_MAX_CACHED_TEXTS = 16
#: The number of records read together by the keys of their documents.
_MAX_READ_DOCUMENTS = 4096

#: The columns of documents whose texts the metadata index finds by value. Only the index has ``language``.
TEXT_COLUMNS = ("title", "source", "language")


def get_current_second() -> int:
    """Return the current Unix time in whole seconds, limited to the years 1970 to 9999 if the clock is wrong."""
    return min(max(int(time.time()), 0), _MAX_SECOND)


@frozen_dataclass
class DocumentRecord:
    """A stored document. ``groups`` has the number of chunks of each of its groups, in order. Group *i* is the leaf
    abstract ``first_group + i``, and its chunk ids begin at ``5 * (first_group + i)``. ``uppers`` are the ids of the
    abstracts above the leaves, the root last.

    ``size`` is the length of the text in bytes, and ``digest`` changes if any part of the document does. ``changed_at``
    counts seconds since 1970, UTC. ``origin`` is the folder it was ingested from (None: it was not ingested from one).
    ``left_out`` counts the characters of its page that were removed as navigation. ``own_vectors`` is true if the user
    supplied the vectors of its chunks. ``own_chunks`` describes chunk boundaries set by the user, in the format of
    :mod:`kvstore.extraction.validation` (None: kvstore chose them).
    """

    id: int
    key: str
    title: str | None
    source: str | None
    format: str
    meta: dict[str, Any]
    digest: bytes
    size: int
    changed_at: int
    first_group: int = 0
    groups: list[int] = field(default_factory=list)
    uppers: list[int] = field(default_factory=list)
    own_vectors: bool = False
    origin: str | None = None
    left_out: int = 0
    own_chunks: str | list[int] | None = None

    def chunk_ids(self) -> Iterator[int]:
        """Yield the ids of the document's chunks, in order of the text."""
        # Each group has GROUP_SIZE ids, and may leave the last ones unused.
        for group, size in enumerate(self.groups, self.first_group):
            yield from range(GROUP_SIZE * group, GROUP_SIZE * group + size)

    def get_chunk_id(self, ordinal: int) -> int:
        """Return the id of a chunk, given its ordinal. Raises IndexError if the document has no such chunk.

        Each of the document's groups of chunks has GROUP_SIZE ids, and may leave the last ones unused.
        """
        ends = list(accumulate(self.groups))
        index = bisect_right(ends, ordinal)
        position_in_group = ordinal - (ends[index] - self.groups[index])
        return GROUP_SIZE * (self.first_group + index) + position_in_group

    def iter_abstract_ids(self) -> Iterator[int]:
        """Yield the ids of the document's leaf abstracts (summaries of chunks), then of its upper abstracts."""
        yield from range(self.first_group, self.first_group + len(self.groups))
        yield from self.uppers

    def get_abstract_ordinal(self, abstract: int) -> int:
        """Return the ordinal of one of the document's abstracts: leaves in order of the text, then upper abstracts.

        A leaf abstract summarizes one of the document's groups of chunks; its id is the number of the group. An upper
        abstract summarizes other abstracts.
        """
        leaf = abstract - self.first_group
        return leaf if 0 <= leaf < len(self.groups) else len(self.groups) + self.uppers.index(abstract)

    @property
    def chunk_count(self) -> int:
        """The number of chunks of the document, which are stored in groups."""
        return sum(self.groups)

    @property
    def changed(self) -> str:
        """The time at which the document was stored or last replaced: UTC, ISO 8601."""
        return datetime.fromtimestamp(self.changed_at, UTC).isoformat()

    @property
    def root(self) -> int | None:
        """The id of the abstract (summary) of the whole document, the last or only one; None without chunks."""
        if self.uppers:
            return self.uppers[-1]
        return self.first_group if self.groups else None


#: The fields of a stored record, in this order.
_FIELDS = [field.name for field in fields(DocumentRecord) if field.name != "id"]
_get_fields = attrgetter(*_FIELDS)


@frozen_dataclass
class Section:
    """A section under a heading: bytes ``start`` to ``end`` of the stored text, including the heading line.

    ``level`` is the level of the heading, from 1, and ``title`` its text. ``parent`` is the index of the enclosing
    section in the document's list of sections, or -1. ``abstract`` is the id of the abstract that summarizes the
    section.
    """

    level: int
    title: str
    parent: int
    start: int
    end: int
    abstract: int = 0


def encode_key(key: str) -> bytes:
    """Return the LMDB key for a document key or a source. The end of a long one is replaced by a digest."""
    encoded_key = key.encode()
    if len(encoded_key) <= MAX_PLAIN_KEY:
        return encoded_key
    import hashlib  # imported here because it loads all of OpenSSL, and such keys are rare

    # UTF-8 has no byte 0xff, so no other key is equal.
    return encoded_key[:LONG_KEY_PREFIX] + b"\xff" + hashlib.blake2b(encoded_key, digest_size=32).digest()


def _make_key_error(key: str) -> CorruptionError:
    """Return the error for a document key that leads to a document with another key."""
    return CorruptionError(f"document key {key!r} refers to another document; run CHECK")


class Documents(ViewReader):
    """The documents of one view, a snapshot or a write transaction."""

    def __init__(self, view: View, shared_data: DecodedData | None = None) -> None:
        """Create a reader of documents in ``view``, a snapshot or write transaction.

        ``shared_data`` caches them for all states of one commit; None caches nothing.
        """
        super().__init__(view)
        #: The data that other states of the same commit decoded; None if the documents of the view can change.
        self._shared_data = shared_data
        # A cache of 0 entries caches nothing.
        self._record_cache = EntryCache(0) if shared_data is None else shared_data.records
        self._section_cache = EntryCache(0) if shared_data is None else shared_data.sections
        #: Recently read texts. The hits of a query come from few documents, so the same texts are read repeatedly.
        self._text_cache: dict[int, bytes] = {}
        self._key_cache: dict[int, str] = {}  # keys of documents, by id

    def find_id(self, key: str) -> int | None:
        """Return the id of the document with this key, or None.

        Raises CorruptionError if the document stored under the key has another key.
        """
        record = self.find_by_key(key)
        return None if record is None else record.id

    def get(self, document: int) -> DocumentRecord:
        """Return the record of a document id that must exist; raise CorruptionError if it does not."""
        return self.get_many([document])[document]

    def get_many(self, documents: Iterable[int]) -> dict[int, DocumentRecord]:
        """Return the records of document ids that must exist, by id; raise CorruptionError if one does not."""
        return self._record_cache.get_many(list(documents), self._read_records)

    def _read_records(self, documents: list[int]) -> list[DocumentRecord]:
        """Read the records of documents that must exist; raise CorruptionError if one does not."""
        keys = list(map(records.encode_u64, documents))
        document_records = []
        for document, key, value in zip(documents, keys, self._view.get_many(tables.DOCUMENTS, keys), strict=True):
            if value is None:
                raise records.make_missing_error(f"document {document}")
            document_records.append(DocumentRecord(document, *records.unpack(value, tables.DOCUMENTS, key)))
        return document_records

    def has_id(self, document: int) -> bool:
        """True if a document has this id. Ids are never reused."""
        return self._view.get(tables.DOCUMENTS, records.encode_u64(document)) is not None

    def get_key(self, document: int) -> str:
        """Return the key of a document that must exist, and cache it; raise CorruptionError if it does not exist."""
        key = self._key_cache.get(document)
        if key is None:
            key = self._key_cache[document] = self.get(document).key
        return key

    def get_keys(self, documents: Iterable[int]) -> Mapping[int, str]:
        """Return the keys of ``documents``, by id; the mapping can also contain other documents.

        It is the cache of keys itself, which later calls extend. Raises CorruptionError if a document does not exist.
        """
        missing_ids = [document for document in documents if document not in self._key_cache]
        if missing_ids:
            self._key_cache.update((record.id, record.key) for record in self.get_many(missing_ids).values())
        return self._key_cache

    def find_by_key(self, key: str) -> DocumentRecord | None:
        """Return the record of the document with this key, or None.

        Raises CorruptionError if the document stored under the key has another key.
        """
        value = self._view.get(tables.DOCUMENT_KEYS, encode_key(key)) if key else None  # LMDB has no empty keys
        if value is None:
            return None
        record = self.get(int(records.U64.unpack(value)[0]))
        if record.key != key:
            raise _make_key_error(key)
        return record

    def get_by_key(self, key: str) -> DocumentRecord:
        """Return the record of a document that has chunks; raise CorruptionError if no document has this key."""
        record = self.find_by_key(key)
        if record is None:
            raise CorruptionError(f"document {key!r} is missing but has chunks; run CHECK")
        return record

    def scan(self) -> Iterator[DocumentRecord]:
        """Yield the records of all documents, in order of their ids."""
        for key, value in self._view.scan(tables.DOCUMENTS):
            yield DocumentRecord(records.U64.unpack(key)[0], *records.unpack(value, tables.DOCUMENTS, key))

    def scan_origin(self, origin: str) -> Iterator[DocumentRecord]:
        """Yield the documents that were last ingested from the ``origin`` folder, in order of their ids."""
        encoded_origin = origin.encode(errors="surrogatepass")  # the name of a folder can be invalid UTF-8
        for key, value in self._view.scan(tables.DOCUMENTS):
            # A record without these bytes has another origin and is not decoded.
            if encoded_origin in bytes(value):
                record = DocumentRecord(records.U64.unpack(key)[0], *records.unpack(value, tables.DOCUMENTS, key))
                if record.origin == origin:
                    yield record

    def iter_keys(self, prefix: str = "") -> Iterator[str]:
        """Yield the document keys that begin with ``prefix``, in byte order."""
        start = prefix.encode()[:LONG_KEY_PREFIX]
        # Long keys with the same beginning are not stored in order, so they are collected and sorted.
        long_prefix = b""
        long_keys: list[str] = []
        for view_key, value in self._view.scan(tables.DOCUMENT_KEYS, start):
            stored_key = bytes(view_key)
            if long_keys and not stored_key.startswith(long_prefix):
                yield from sorted(long_keys)
                long_keys = []
            if not stored_key.startswith(start):
                return
            if len(stored_key) < LONG_KEY_PREFIX:
                yield stored_key.decode()
                continue
            # A key with 0xff, which UTF-8 does not contain, is truncated; its document's record has the whole key.
            key = stored_key.decode() if b"\xff" not in stored_key else self.get(records.U64.unpack(value)[0]).key
            if key.startswith(prefix):
                long_prefix = stored_key[:LONG_KEY_PREFIX]
                long_keys.append(key)
        yield from sorted(long_keys)

    def read_text(self, document: int) -> bytes:
        """Return the stored text of a document, UTF-8; raise CorruptionError if it is missing or damaged."""
        return bytes(self._get_text(document, as_bytes=True))  # the text is bytes already, which are not copied

    def iter_texts(self, documents: Iterable[int]) -> Iterator[bytes]:
        """Yield the stored text of each document, as :meth:`read_text` returns it, without caching the texts."""
        keys = list(map(records.encode_u64, documents))
        for key, value in zip(keys, self._view.get_many(tables.TEXTS, keys), strict=True):
            value = require_stored_text(records.U64.unpack(key)[0], value)
            yield decode_stored_text(records.unseal(value, tables.TEXTS, key), key)

    def read_text_start(self, document: int, max_bytes: int) -> bytes:
        """Return the stored text of a document, or at least its first ``max_bytes`` bytes if it is longer."""
        text = self._get_text(document)
        return text if isinstance(text, bytes) else bytes(text[:max_bytes])

    def read_text_slice(self, document: int, start: int, end: int) -> str:
        """Return bytes ``start`` to ``end`` of the stored text, decoded; raise CorruptionError if they do not exist."""
        shared_text = None if self._shared_data is None else self._shared_data.texts.get(document)
        if shared_text is not None:
            return decode_slice(document, shared_text, start, end)
        return decode_slice(document, self._get_text(document), start, end)

    def read_text_slices(self, byte_ranges: Mapping[int, Sequence[tuple[int, int]]]) -> dict[int, list[str]]:
        """Return slices of the stored texts of many documents, by document, without caching the texts.

        ``byte_ranges`` are the (start, end) pairs of each document. Raises CorruptionError if a slice does not exist.
        """
        slices: dict[int, list[str]] = {}
        keys = list(map(records.encode_u64, byte_ranges))
        for document, key, value in zip(byte_ranges, keys, self._view.get_many(tables.TEXTS, keys), strict=True):
            value = require_stored_text(document, value)
            text: bytes | memoryview | None = get_long_text(value)
            if text is None:
                max_end = max((end for _, end in byte_ranges[document]), default=0)
                text = decode_stored_text(records.unseal(value, tables.TEXTS, key), key, max_end)
            slices[document] = [decode_slice(document, text, start, end) for start, end in byte_ranges[document]]
        return slices

    def _get_text(self, document: int, *, as_bytes: bool = False) -> bytes | memoryview:
        """Return the text of a document, UTF-8: as bytes, which are cached, or as a view of the stored record.

        A view is returned for a long text, which is stored uncompressed, unless ``as_bytes``. Raises CorruptionError if
        the text is missing or damaged; the checksum of a view is not verified.
        """
        key = records.encode_u64(document)
        value = require_stored_text(document, self._view.get(tables.TEXTS, key))
        long_text = None if as_bytes else get_long_text(value)
        if long_text is not None:
            return long_text
        text = self._text_cache.get(document)
        if text is None:
            text = decode_stored_text(records.unseal(value, tables.TEXTS, key), key)
            # A long text is not cached together with others.
            if len(self._text_cache) == _MAX_CACHED_TEXTS or len(text) > MAX_COMPRESSED_TEXT:
                self._text_cache.clear()
            self._text_cache[document] = text
            if self._shared_data is not None and len(text) <= MAX_COMPRESSED_TEXT:
                self._shared_data.add_text(document, text)
        return text

    def get_sections(self, document: int) -> list[Section]:
        """Return the sections of a document in order of the text; empty if it has no headings."""
        return self.get_sections_many([document])[document]

    def get_sections_many(self, documents: Iterable[int]) -> dict[int, list[Section]]:
        """Return the sections of several documents, by id, in order of the text; empty for one without headings."""
        return self._section_cache.get_many(list(documents), self._read_sections)

    def _read_sections(self, documents: list[int]) -> list[list[Section]]:
        """Read the sections of each document; empty for a document without headings."""
        keys = list(map(records.encode_u64, documents))
        values = zip(keys, self._view.get_many(tables.OUTLINES, keys), strict=True)
        return [
            [] if value is None else [Section(*row) for row in records.unpack(value, tables.OUTLINES, key)]
            for key, value in values
        ]


class DocumentWriter(ViewWriter, Documents):
    """The documents of one write transaction."""

    def iter_by_keys(self, keys: Iterable[str]) -> Iterator[list[DocumentRecord]]:
        """Yield the records of the documents with these keys in order, in lists of at most 4096.

        Keys without a document are skipped, and no list is empty. Raises CorruptionError if the document stored under a
        key has another key.
        """
        nonempty_keys = (key for key in keys if key)  # LMDB has no empty keys
        while batch := list(islice(nonempty_keys, _MAX_READ_DOCUMENTS)):
            values = self._view.get_many(tables.DOCUMENT_KEYS, list(map(encode_key, batch)))
            ids = {
                key: int(records.U64.unpack(value)[0])
                for key, value in zip(batch, values, strict=True)
                if value is not None
            }
            documents = self.get_many(ids.values())
            for key, document in ids.items():
                if documents[document].key != key:
                    raise _make_key_error(key)
            if documents:
                yield list(documents.values())

    def find_stored_keys(self, keys: Iterable[str]) -> set[str]:
        """Return those of ``keys`` that belong to stored documents, without reading their records."""
        nonempty_keys = [key for key in keys if key]  # LMDB has no empty keys
        values = self._view.get_many(tables.DOCUMENT_KEYS, list(map(encode_key, nonempty_keys)))
        return {key for key, value in zip(nonempty_keys, values, strict=True) if value is not None}

    def put(self, record: DocumentRecord, text: bytes, sections: list[Section]) -> None:
        """Store a new document: its record, whose id is unused, its text (UTF-8) and its sections."""
        key = records.encode_u64(record.id)
        self.put_record(record)
        self._write_view.put(tables.DOCUMENT_KEYS, encode_key(record.key), key)
        self._write_view.put(tables.TEXTS, key, records.seal(encode_stored_text(text)))
        if sections:
            rows = [
                [section.level, section.title, section.parent, section.start, section.end, section.abstract]
                for section in sections
            ]
            self._write_view.put(tables.OUTLINES, key, records.pack(rows))

    def set_origin(self, key: str, origin: str | None) -> None:
        """Set the folder from which the document with this key was last ingested (None: from no folder).

        Does nothing if the document does not exist.
        """
        record = self.find_by_key(key)
        if record is not None:
            self.put_record(replace(record, origin=origin))

    def put_record(self, record: DocumentRecord) -> None:
        """Store or replace the record of a document."""
        # ``own_chunks``, the last field, is omitted if it is not set, as for nearly all documents.
        fields = _get_fields(record) if record.own_chunks is not None else _get_fields(record)[:-1]
        self._write_view.put(tables.DOCUMENTS, records.encode_u64(record.id), records.pack(fields))

    def remove(self, documents: Sequence[DocumentRecord]) -> None:
        """Remove the records, keys, texts and sections of documents, and clear the cache of texts."""
        self._text_cache.clear()
        keys: dict[bytes, None] = dict.fromkeys(records.encode_u64(record.id) for record in documents)
        for table in (tables.DOCUMENTS, tables.TEXTS, tables.OUTLINES):
            self._write_view.change_many(table, keys)
        self._write_view.change_many(
            tables.DOCUMENT_KEYS, dict.fromkeys(encode_key(record.key) for record in documents)
        )


class HeadedSection(Protocol):
    """A section of a document, stored or not yet stored: its title and its parent."""

    @property
    def title(self) -> str:
        """The text of the heading."""
        ...

    @property
    def parent(self) -> int:
        """The index of the enclosing section; -1 if there is none."""
        ...


def build_heading_path(sections: Sequence[HeadedSection], section: int) -> list[str]:
    """Return the titles from the outermost section down to ``section``; empty for -1.

    Raises CorruptionError if there is no such section, or if a section's parent does not precede it.
    """
    path: list[str] = []
    index_limit = len(sections)  # lowered at each step, because a parent precedes its sections
    while section >= 0:
        if section >= index_limit:
            raise CorruptionError(f"section {section} is missing in the outline of its document; run CHECK")
        path.append(sections[section].title)
        section, index_limit = sections[section].parent, section
    return path[::-1]
