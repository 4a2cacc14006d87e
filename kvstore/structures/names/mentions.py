"""Mentions: occurrences of entities, by chunk and by document, and their recognition in a text. The *abstract* of a
title or heading is a summary of the text below it. A *rank* orders the places of an entity, the best (lowest) first.
*Folded* text is in normal form, with the offsets in the original.

On disk: ``mentions`` (chunk → occurrences in its text) and ``place_mentions`` (document → occurrences in its title and
headings), each a list with three numbers per occurrence. Damage raises CorruptionError.

Recognition: in: a folded text and the entity filter of a view. Out: :class:`Mention` with byte offsets in the original
text. A name without a word character is never mentioned, because postings could not find it again. From the mentions of
a document: for each entity (abstract, rank) pairs, from which
:func:`~kvstore.structures.filter.addresses.list_best_addresses` makes its addresses. Linking and CHECK use this rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kvstore_cext.mentions import select_outermost_mentions

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
    TITLE_PART_RANK,
    TITLE_WHOLE_RANK,
    compute_body_rank,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..filter.entity_filter import EntityFilter


Row = TypeVar("Row")


class Occurrence(NamedTuple):
    """An occurrence in a chunk: offset from the start of the chunk, and length, in bytes."""

    entity: int
    start: int
    length: int


#: A faster ``Occurrence._make``, for large numbers of rows.
_make_occurrence = partial(tuple.__new__, Occurrence)
#: Start, length, entity.
_SORT_KEY = itemgetter(1, 2, 0)
#: Rank, abstract, entity.
_HEADING_SORT_KEY = itemgetter(1, 2, 0)


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
        keys = list(map(records.encode_u64, chunks))
        values = self._view.get_many(tables.MENTIONS, keys)
        return [
            [] if value is None else _decode_occurrences(value, key) for key, value in zip(keys, values, strict=True)
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

        keys = list(map(records.encode_u64, chunks))
        values = self._view.get_many(tables.MENTIONS, keys)
        try:
            packed_rows = select_outermost_mentions(values)
        except ValueError as error:
            for key, value in zip(keys, values, strict=True):
                if value is not None:
                    records.unpack(value, tables.MENTIONS, key)  # raises an error that names the damaged key
            raise CorruptionError(f"table {tables.MENTIONS}: {error}; run CHECK REPAIR") from error
        return [np.frombuffer(row, np.int64).reshape(-1, 3) for row in packed_rows]

    def get_heading_occurrences(self, document: int) -> list[HeadingOccurrence]:
        """Return the occurrences of entities in a document's title and headings, best rank first.

        Ties are ordered by the id of the abstract (summary) of the title or section, then by entity.
        """
        return self.get_heading_occurrences_many([document])[0]

    def get_heading_occurrences_many(self, documents: Iterable[int]) -> list[list[HeadingOccurrence]]:
        """Return the occurrences of entities in the title and headings of each document, ordered by rank."""
        keys = list(map(records.encode_u64, documents))
        occurrences = []
        for key, value in zip(keys, self._view.get_many(tables.PLACE_MENTIONS, keys), strict=True):
            # Stored as a flat list of three numbers per occurrence.
            row = iter(() if value is None else records.unpack(value, tables.PLACE_MENTIONS, key))
            occurrences.append(list(map(HeadingOccurrence._make, zip(row, row, row, strict=True))))
        return occurrences

    def scan(self) -> Iterator[tuple[int, list[Occurrence]]]:
        """Yield the id of every chunk that mentions an entity, and the chunk's occurrences, in order of the ids."""
        for key, value in self._view.scan(tables.MENTIONS):
            yield records.U64.unpack(key)[0], _decode_occurrences(value, key)


class MentionWriter(ViewWriter, Mentions):
    """The mentions of one write transaction. Storing an empty list of occurrences removes the row.

    Changes are pending in memory until :meth:`flush` writes them. The occurrences of chunks and headings include
    pending changes; :meth:`scan`, :meth:`count_occurrences` and :meth:`get_outermost_in_chunks` ignore them.
    """

    def __init__(self, view: WriteView) -> None:
        """Create a writer of mentions in ``view``, a write transaction; there are no pending changes yet."""
        super().__init__(view)
        self._pending_rows: dict[int, list[Occurrence]] = {}  # by chunk
        self._pending_headings: dict[int, list[HeadingOccurrence]] = {}  # by document

    def get_occurrences_many(self, chunks: Iterable[int]) -> list[list[Occurrence]]:
        """Return the occurrences of entities in each chunk, including pending changes."""
        return _read_with_pending(list(chunks), self._pending_rows, super().get_occurrences_many)

    def get_heading_occurrences_many(self, documents: Iterable[int]) -> list[list[HeadingOccurrence]]:
        """Return the occurrences of entities in the title and headings of each document, including pending changes."""
        return _read_with_pending(list(documents), self._pending_headings, super().get_heading_occurrences_many)

    def put_chunk(self, chunk: int, mentions: Iterable[Occurrence]) -> list[Occurrence]:
        """Replace the occurrences of entities in a chunk; return them ordered by start, length and entity.

        :meth:`flush` writes the change.
        """
        occurrences = self._pending_rows[chunk] = sorted(mentions, key=_SORT_KEY)
        return occurrences

    def put_headings(self, document: int, mentions: Iterable[HeadingOccurrence]) -> None:
        """Replace the occurrences of entities in the title and headings of a document; :meth:`flush` writes them."""
        self._pending_headings[document] = sorted(mentions, key=_HEADING_SORT_KEY)

    def remove(self, chunks: Iterable[int], documents: Iterable[int]) -> None:
        """Remove the occurrences of entities in ``chunks``, and in the titles and headings of ``documents``.

        :meth:`flush` writes the changes.
        """
        self._pending_rows.update((chunk, []) for chunk in chunks)
        self._pending_headings.update((document, []) for document in documents)

    def flush(self) -> None:
        """Write the pending occurrences of entities in chunks and headings to the transaction, and forget them."""
        changes: dict[bytes, bytes | None] = {}
        for chunk, rows in self._pending_rows.items():
            previous_start = 0
            numbers: list[int] = []
            for entity, start, length in rows:  # a start is stored as the difference to the previous one
                numbers += entity, start - previous_start, length
                previous_start = start
            changes[records.encode_u64(chunk)] = records.pack(numbers) if numbers else None
        self._write_view.change_many(tables.MENTIONS, changes)
        headings: dict[bytes, bytes | None] = {}
        for document, occurrences in self._pending_headings.items():
            numbers = [number for entity, rank, abstract in occurrences for number in (entity, rank, abstract)]
            headings[records.encode_u64(document)] = records.pack(numbers) if numbers else None
        self._write_view.change_many(tables.PLACE_MENTIONS, headings)
        self._pending_rows.clear()
        self._pending_headings.clear()


def _read_with_pending(ids: list[int], pending: Mapping[int, Row], read: Callable[[list[int]], list[Row]]) -> list[Row]:
    """Return the row of each id: the pending one, or else the stored one, which ``read`` returns for a list of ids."""
    stored_ids = [id for id in ids if id not in pending]
    stored_rows = dict(zip(stored_ids, read(stored_ids), strict=True)) if stored_ids else {}
    return [pending[id] if id in pending else stored_rows[id] for id in ids]


def _decode_occurrences(value: memoryview, key: bytes) -> list[Occurrence]:
    """Decode the occurrences of entities in a chunk from a stored record: the entity, start and length of each."""
    numbers = records.unpack(value, tables.MENTIONS, key)
    starts = accumulate(numbers[1::3])  # starts are stored as differences
    return list(map(_make_occurrence, zip(numbers[::3], starts, numbers[2::3], strict=True)))


#: The (abstract, rank) pairs of one entity.
RankedTargets = list[tuple[int, int]]

_GET_ENTITY = itemgetter(0)


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


def collect_mentioning_abstracts(
    occurrences_by_chunk: Mapping[int, Iterable[Occurrence]], heading_occurrences: Iterable[HeadingOccurrence]
) -> dict[int, RankedTargets]:
    """Return for each entity the abstracts (summaries) that mention it, as (abstract, rank) pairs.

    The rank of a leaf abstract depends on the number of occurrences in its chunks. Occurrences in headings have their
    own ranks. An abstract can occur more than once.
    """
    entities_by_group: dict[int, list[int]] = {}
    for chunk, occurrences in occurrences_by_chunk.items():
        entities_by_group.setdefault(chunk // GROUP_SIZE, []).extend(map(_GET_ENTITY, occurrences))
    targets_by_entity: dict[int, RankedTargets] = {}
    for group, entities in entities_by_group.items():  # a group is its leaf abstract's id
        for entity, count in Counter(entities).items():
            targets_by_entity.setdefault(entity, []).append((group, compute_body_rank(count)))
    for entity, rank, abstract in heading_occurrences:
        targets_by_entity.setdefault(entity, []).append((abstract, rank))
    return targets_by_entity
