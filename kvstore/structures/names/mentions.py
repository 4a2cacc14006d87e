"""Mentions: occurrences of entities, by chunk and by document, and their recognition in a text. The *abstract* of a
title or heading is a summary of the text below it. A *rank* orders the places of an entity, the best (lowest) first.
*Folded* text is in normal form, with the offsets in the original.

On disk: ``mentions`` (chunk → occurrences in its text) and ``place_mentions`` (document → occurrences in its title and
headings), each a list with three numbers per occurrence. Damage raises CorruptionError.

Recognition: in: a folded text and the entity filter of a view. Out: :class:`Mention` with byte offsets in the original
text. A name without a word character is never mentioned, because postings could not find it again. From the mentions of
a document: addresses of each entity, from which :func:`~kvstore.structures.filter.addresses.list_best_addresses`
selects. Linking and CHECK use this rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from kvstore_cext.mentions import (
    collect_groups,
    pack_mentions,
    remove_mentions,
    select_outermost_mentions,
    unpack_mentions,
)

from ...errors import CorruptionError
from ...storage import records
from ...storage.environment import WriteView
from ...storage.view import ViewReader, ViewWriter
from ...text.normalize import FoldedText, to_entity_key
from .. import tables
from ..documents.documents import GROUP_SIZE, DocumentRecord, Section
from ..filter.addresses import (
    HEADING_PART_RANK,
    HEADING_WHOLE_RANK,
    MAX_BODY_RANK,
    MIN_BODY_RANK,
    TITLE_PART_RANK,
    TITLE_WHOLE_RANK,
    compute_body_rank,
    make_address,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..filter.entity_filter import EntityFilter


class Occurrence(NamedTuple):
    """An occurrence in a chunk: offset from the start of the chunk, and length, in bytes."""

    entity: int
    start: int
    length: int


#: The key of a record, and its value, None if the record is missing.
_StoredRow = tuple[bytes, memoryview | bytes | None]
#: Start, length, entity.
_SORT_KEY = itemgetter(1, 2, 0)
#: Rank, abstract, entity.
_HEADING_SORT_KEY = itemgetter(1, 2, 0)


class RemovedMentions(NamedTuple):
    """The entities whose occurrences were removed from a chunk, and True if one of these covered a remaining one."""

    entities: set[int]
    covered_others: bool


class HeadingOccurrence(NamedTuple):
    """An occurrence in a title or heading: the rank of its address, and the abstract of the title or section."""

    entity: int
    rank: int
    abstract: int


class Mentions(ViewReader):
    """The occurrences of entities in chunks, titles and headings, in one view (a snapshot or write transaction)."""

    def get_occurrences(self, chunk: int) -> list[Occurrence]:
        """Return the occurrences of entities in a chunk's text, ordered by start, length and entity."""
        return self.get_occurrences_many([chunk])[0]

    def get_occurrences_many(self, chunks: Iterable[int]) -> list[list[Occurrence]]:
        """Return the occurrences of entities in the text of each chunk, ordered by start, length and entity."""
        return [
            [] if value is None else _decode_occurrences(value, key)
            for key, value in self._read_rows(tables.MENTIONS, chunks)
        ]

    def count_occurrences(self, entity: int, chunks: Iterable[int]) -> int:
        """Return the number of occurrences of an entity in the texts of ``chunks``."""
        keys = list(map(records.encode_u64, chunks))
        values = zip(keys, self._view.get_many(tables.MENTIONS, keys), strict=True)
        # A stored row has three numbers per occurrence; the first is the entity.
        return sum(records.unpack(value, tables.MENTIONS, key)[::3].count(entity) for key, value in values if value)

    def get_outermost_in_chunks(self, chunks: Iterable[int]) -> list[npt.NDArray[np.int64]]:
        """Return for each chunk the occurrences of entities that are not inside a longer one, in order of the text.

        An array has shape (n, 3), with the columns entity, start and end. Raises CorruptionError if a row is damaged.
        """
        import numpy as np

        rows = self._read_rows(tables.MENTIONS, chunks)
        try:
            packed_rows = select_outermost_mentions([value for _, value in rows])
        except ValueError as error:
            raise _make_row_error(rows, error) from error
        return [np.frombuffer(row, np.int64).reshape(-1, 3) for row in packed_rows]

    def get_heading_occurrences(self, document: int) -> list[HeadingOccurrence]:
        """Return the occurrences of entities in a document's title and headings, best rank first.

        Ties are ordered by the id of the abstract (summary) of the title or section, then by entity.
        """
        return self.get_heading_occurrences_many([document])[0]

    def get_heading_occurrences_many(self, documents: Iterable[int]) -> list[list[HeadingOccurrence]]:
        """Return the occurrences of entities in the title and headings of each document, ordered by rank."""
        occurrences = []
        for key, value in self._read_rows(tables.PLACE_MENTIONS, documents):
            # Stored as a flat list of three numbers per occurrence.
            row = iter(() if value is None else records.unpack(value, tables.PLACE_MENTIONS, key))
            occurrences.append(list(map(HeadingOccurrence._make, zip(row, row, row, strict=True))))
        return occurrences

    def collect_addresses(self, chunks: Sequence[int], documents: Iterable[int]) -> dict[int, list[int]]:
        """Return for each entity its addresses in chunks and in the titles and headings of documents.

        They are computed as by :func:`collect_addresses`. A list of addresses is complete only for documents of which
        all chunks are given. Raises CorruptionError if a row is damaged.
        """
        rows = self._read_rows(tables.MENTIONS, chunks)
        try:
            addresses_by_entity = collect_groups(
                chunks, [value for _, value in rows], GROUP_SIZE, _FIRST_BODY_ADDRESSES
            )
        except ValueError as error:
            raise _make_row_error(rows, error) from error
        add_headings(addresses_by_entity, chain.from_iterable(self.get_heading_occurrences_many(documents)))
        return addresses_by_entity

    def _read_rows(self, table: str, ids: Iterable[int]) -> list[_StoredRow]:
        """Return the keys and values of chunks in ``mentions``, or of documents in ``place_mentions``."""
        keys = list(map(records.encode_u64, ids))
        return list(zip(keys, self._view.get_many(table, keys), strict=True))

    def scan(self) -> Iterator[tuple[int, list[Occurrence]]]:
        """Yield the id of every chunk that mentions an entity, and the chunk's occurrences, in order of the ids."""
        for key, value in self._view.scan(tables.MENTIONS):
            yield records.U64.unpack(key)[0], _decode_occurrences(value, key)


class MentionWriter(ViewWriter, Mentions):
    """The mentions of one write transaction. Storing an empty list of occurrences removes the row.

    Changes are pending in memory until :meth:`flush` writes them. Reads of chunks and headings include pending changes;
    :meth:`scan` and :meth:`count_occurrences` ignore them.
    """

    def __init__(self, view: WriteView) -> None:
        """Create a writer of mentions in ``view``, a write transaction; there are no pending changes yet."""
        super().__init__(view)
        #: The values to store by key, for each table; None removes the row.
        self._pending: dict[str, dict[bytes, bytes | None]] = {tables.MENTIONS: {}, tables.PLACE_MENTIONS: {}}

    def _read_rows(self, table: str, ids: Iterable[int]) -> list[_StoredRow]:
        """Return the keys and values of chunks or documents in a table, including pending changes."""
        pending = self._pending[table]
        if not pending:
            return super()._read_rows(table, ids)
        keys = list(map(records.encode_u64, ids))
        stored_keys = [key for key in keys if key not in pending]
        stored_values = dict(zip(stored_keys, self._view.get_many(table, stored_keys), strict=True))
        return [(key, pending[key] if key in pending else stored_values[key]) for key in keys]

    def put_chunk(self, chunk: int, mentions: Iterable[Occurrence]) -> list[Occurrence]:
        """Replace the occurrences of entities in a chunk; return them ordered by start, length and entity.

        :meth:`flush` writes the change.
        """
        occurrences = sorted(mentions, key=_SORT_KEY)
        self._pending[tables.MENTIONS][records.encode_u64(chunk)] = pack_mentions(occurrences)
        return occurrences

    def put_headings(self, document: int, mentions: Iterable[HeadingOccurrence]) -> None:
        """Replace the occurrences of entities in the title and headings of a document; :meth:`flush` writes them."""
        occurrences = sorted(mentions, key=_HEADING_SORT_KEY)
        numbers = list(chain.from_iterable(occurrences))
        self._pending[tables.PLACE_MENTIONS][records.encode_u64(document)] = records.pack(numbers) if numbers else None

    def remove_entities(self, chunks: Iterable[int], entities: Container[int]) -> dict[int, RemovedMentions]:
        """Remove the occurrences of entities in chunks; return the changes by chunk. :meth:`flush` writes them.

        Raises CorruptionError if a row is damaged.
        """
        ids = list(chunks)
        rows = self._read_rows(tables.MENTIONS, ids)
        try:
            changes = remove_mentions([value for _, value in rows], entities)
        except ValueError as error:
            raise _make_row_error(rows, error) from error
        removals: dict[int, RemovedMentions] = {}
        for chunk, (key, _), change in zip(ids, rows, changes, strict=True):
            if change is not None:
                self._pending[tables.MENTIONS][key], removed_entities, covered_others = change
                removals[chunk] = RemovedMentions(removed_entities, covered_others)
        return removals

    def remove(self, chunks: Iterable[int], documents: Iterable[int]) -> None:
        """Remove the occurrences of entities in ``chunks``, and in the titles and headings of ``documents``.

        :meth:`flush` writes the changes.
        """
        for table, ids in ((tables.MENTIONS, chunks), (tables.PLACE_MENTIONS, documents)):
            self._pending[table].update(dict.fromkeys(map(records.encode_u64, ids)))

    def flush(self) -> None:
        """Write the pending occurrences of entities in chunks and headings to the transaction, and forget them."""
        for table, changes in self._pending.items():
            self._write_view.change_many(table, changes)
            self._pending[table] = {}


def _make_row_error(rows: Iterable[_StoredRow], error: ValueError) -> CorruptionError:
    """Return the error for damage in ``rows``, or raise it with the key of the row, if decoding the row fails."""
    for key, value in rows:
        if value is not None:
            records.unpack(value, tables.MENTIONS, key)  # raises an error that names the damaged key
    return CorruptionError(f"table {tables.MENTIONS}: {error}; run CHECK REPAIR")


def _decode_occurrences(value: memoryview | bytes, key: bytes) -> list[Occurrence]:
    """Decode the occurrences of entities in a chunk from a stored record: the entity, start and length of each."""
    try:
        return unpack_mentions(value, Occurrence)
    except ValueError as error:
        raise _make_row_error([(key, value)], error) from error


_GET_ENTITY = itemgetter(0)
#: The first possible address in an abstract whose chunks mention an entity this many times, or more for the last one.
_FIRST_BODY_ADDRESSES = tuple(
    make_address(compute_body_rank(count), 0) for count in range(2 + MAX_BODY_RANK - MIN_BODY_RANK)
)


class Mention(NamedTuple):
    """An occurrence of a name: bytes ``start`` to ``end`` of the text, the entity and its normal form."""

    entity: int
    start: int
    end: int
    key: str


def find_mentions(entity_filter: EntityFilter, folded: FoldedText, max_words: int) -> list[Mention]:
    """Return every mention of a name of at most ``max_words`` words in a text, including overlapping mentions.

    Names without a letter or digit are omitted.
    """
    keys: dict[int, str] = {}
    occurrences = entity_filter.find_mentions(folded, max_words, keys, Occurrence)
    return [Mention(entity, start, start + length, keys[entity]) for entity, start, length in occurrences]


class HeadedAbstract(NamedTuple):
    """A title or heading, its normal form (``key``), and the abstract of the text below it. The rank of the abstract is
    ``whole_rank`` for an entity whose name is the whole heading, and ``part_rank`` for one whose name is a part of it.
    """

    text: str
    key: str
    whole_rank: int
    part_rank: int
    abstract: int

    def make_occurrence(self, entity: int, key: str) -> HeadingOccurrence:
        """Return the occurrence in this heading of an entity whose name has the normal form ``key``.

        Its rank, by which places of the entity are sorted, is better if the name is the whole heading.
        """
        rank = self.whole_rank if key == self.key else self.part_rank
        return HeadingOccurrence(entity, rank, self.abstract)


def iter_headed_abstracts(record: DocumentRecord, sections: list[Section]) -> Iterator[HeadedAbstract]:
    """Yield the title of a document and then its headings, each with the abstract (summary) of the text below it.

    The abstract of a title summarizes the whole document, and the abstract of a heading its section. Each also has two
    ranks: for entities whose name is the whole heading, and for entities whose name is a part of it. The title is
    omitted if it is missing, or if the document has no chunks.
    """
    if record.title and record.root is not None:
        from ...text.blocks import to_plain_text

        title = to_plain_text(record.title)
        yield HeadedAbstract(title, to_entity_key(title), TITLE_WHOLE_RANK, TITLE_PART_RANK, record.root)
    for section in sections:
        key = to_entity_key(section.title)
        yield HeadedAbstract(section.title, key, HEADING_WHOLE_RANK, HEADING_PART_RANK, section.abstract)


def collect_addresses(
    occurrences_by_chunk: Mapping[int, Iterable[Occurrence]], heading_occurrences: Iterable[HeadingOccurrence]
) -> dict[int, list[int]]:
    """Return for each entity its addresses: the abstracts (summaries) that mention it, with ranks.

    A leaf abstract has the id of its group of ``GROUP_SIZE`` chunks. Its rank depends on the number of occurrences in
    these. Occurrences in headings have their own ranks. An abstract can occur more than once.
    """
    entities_by_group: dict[int, list[int]] = {}
    for chunk, occurrences in occurrences_by_chunk.items():
        entities_by_group.setdefault(chunk // GROUP_SIZE, []).extend(map(_GET_ENTITY, occurrences))
    addresses_by_entity: dict[int, list[int]] = {}
    for group, entities in entities_by_group.items():  # a group is its leaf abstract's id
        for entity, count in Counter(entities).items():
            addresses_by_entity.setdefault(entity, []).append(make_address(compute_body_rank(count), group))
    add_headings(addresses_by_entity, heading_occurrences)
    return addresses_by_entity


def add_headings(addresses_by_entity: dict[int, list[int]], occurrences: Iterable[HeadingOccurrence]) -> None:
    """Add the titles and headings that mention entities to ``addresses_by_entity``."""
    for entity, rank, abstract in occurrences:
        addresses_by_entity.setdefault(entity, []).append(make_address(rank, abstract))
