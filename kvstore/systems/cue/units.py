"""The units of a state: their spans, texts and vectors, and the entities that they mention. A *unit* is a sentence,
clause, list item or table row with its own vector, or a statement that a model wrote instead. A chunk's *ordinal* is
its number in its document, from 0.

In: a state. Out: :class:`Units`, by ``state.get_part(UNITS)``. The edges between units and entities are not stored, but
computed from the mentions of a chunk that lie in the unit's span, and from the document's title.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...derived.passage_graph.rows import classify_spelling, find_heading_entities, mark_nested
from ...registry.chunked_text import load_chunked_text
from ...registry.derivation import StoredDerivation, list_stored_derivations
from ...registry.written_passages import PassageTexts
from ...structures.derived_parts import DerivedPart, split_vector_id, to_vector_id
from ...structures.documents.chunks import ChunkRecord
from ...structures.documents.documents import DocumentRecord
from ...structures.indexes.vector_search import find_nearest
from ...structures.names.mentions import find_mentions
from ...structures.ranking import select_highest
from ...structures.state import State
from ...structures.vectors.vectors import Ids, Matrix, Vector, cosines
from ...text.normalize import fold
from .unit_derivation import UNIT_DERIVATION, UnitSpan, count_units, decode_spans, render_span
from .written_units import WRITTEN_UNITS

#: The maximum number of documents whose units are cached, unless more are requested at once.
_MAX_CACHED_DOCUMENTS = 512
#: The maximum number of chunks whose mentions are cached.
_MAX_CACHED_CHUNKS = 2048
#: The source of a unit that is a sentence of the text.
RULE = "rule"


class StoredUnit(NamedTuple):
    """A unit (a sentence or clause with a vector): its id, its document, its chunk and its ordinal in the chunk.

    ``start`` and ``end`` are byte offsets in the document's text; a unit that a model wrote has the offsets of the
    whole chunk. ``source`` is the name of that model, or :data:`RULE`. ``subject`` is the range of bytes of a clause's
    subject if the subject is outside the clause, else None.
    """

    id: int
    document: int
    chunk: int
    ordinal: int
    start: int
    end: int
    source: str
    subject: tuple[int, int] | None = None


class _DocumentUnits:
    """The units of a document, which are decoded on demand. ``counts`` has the number of units of each chunk, and
    ``unit_offsets`` the number of units before each chunk.
    """

    def __init__(
        self,
        state: State,
        record: DocumentRecord,
        chunk_records: Sequence[ChunkRecord],
        derived_part: DerivedPart | None,
    ) -> None:
        """Store a document's record and chunks, and read the units that a model wrote for it.

        ``derived_part`` has the encoded units and the locations of their vectors; None if the document has no units.
        """
        self.record = record
        self.chunk_records = chunk_records
        self.chunks = list(record.chunk_ids())
        self.ordinals = dict(zip(self.chunks, range(len(self.chunks)), strict=True))
        #: The units of each chunk as stored: their number if a model wrote them, else their encoded spans.
        self._rows = [0] * len(self.chunks) if derived_part is None else derived_part.part
        self.counts = list(map(count_units, self._rows))
        self.vector_locations = [] if derived_part is None else derived_part.vector_locations
        #: The number of units before each chunk, then the number of all units.
        self.unit_offsets = [0, *accumulate(self.counts)]
        #: The decoded spans of units, by chunk ordinal; a cache.
        self._spans: dict[int, list[UnitSpan]] = {}
        #: The model and the units it wrote, by chunk ordinal.
        self.written_units: dict[int, PassageTexts] = {}
        if any(isinstance(row, int) and row for row in self._rows):  # a model wrote the units of some chunk
            self.written_units = self._read_written_units(state)

    def _read_written_units(self, state: State) -> dict[int, PassageTexts]:
        """Return the units that a language model wrote, and its name, by the ordinal of their chunk.

        They are stored by the digest of the passage (title, headings and text of the chunk) from which it wrote them.
        """
        value = WRITTEN_UNITS.find(state, self.record.key)
        if value is None:
            return {}
        text = load_chunked_text(state, self.record, facts={})
        passages = enumerate(WRITTEN_UNITS.list_passages(text))
        texts_by_ordinal = ((ordinal, value.get_texts(passage.digest)) for ordinal, passage in passages)
        return {ordinal: chunk_texts for ordinal, chunk_texts in texts_by_ordinal if chunk_texts is not None}

    def get_spans(self, ordinal: int) -> list[UnitSpan]:
        """Return the spans of the units of a chunk, by its ordinal; empty if a model wrote them; cached."""
        spans = self._spans.get(ordinal)
        if spans is None:
            spans = self._spans[ordinal] = decode_spans(self._rows[ordinal], self.chunk_records[ordinal].start)
        return spans

    def list_units(self, ordinal: int) -> list[StoredUnit]:
        """Return the units of the chunk with this ordinal, in order of the text."""
        return [self.get_unit(ordinal, number) for number in range(self.counts[ordinal])]

    def get_unit(self, ordinal: int, number: int) -> StoredUnit:
        """Return unit ``number`` (counted from 0) of the chunk with the ordinal ``ordinal``.

        A unit that a model wrote has the span of its chunk.
        """
        spans = self.get_spans(ordinal)
        if spans:
            source, span = RULE, spans[number]
        else:  # a model wrote the units
            source, _ = self.written_units[ordinal]
            span = UnitSpan(self.chunk_records[ordinal].start, self.chunk_records[ordinal].end)
        id = to_vector_id(self.record.id, self.unit_offsets[ordinal] + number)
        return StoredUnit(id, self.record.id, self.chunks[ordinal], number, span.start, span.end, source, span.subject)


class Units:
    """The units in one state of the store; caches the units that were read."""

    def __init__(self, state: State) -> None:
        """Create a reader of the units in ``state``, a state of the store; they are read on demand."""
        self._state = state
        self._parts = state.get_derived_parts(UNIT_DERIVATION)
        #: Caches: units and title entities by document, and the positions of names by chunk.
        self._documents: dict[int, _DocumentUnits] = {}
        self._title_entities: dict[int, frozenset[int]] = {}
        self._name_spans: dict[int, npt.NDArray[np.int64]] = {}
        self._get_text = lru_cache(512)(state.documents.read_text)

    @cached_property
    def _derivation(self) -> StoredDerivation | None:
        """The derivation of the store's ``units`` index; None if it is missing or being dropped."""
        stored_derivations = list_stored_derivations(self._state.lmdb)
        unit_derivations = (stored for stored in stored_derivations if stored.derivation is UNIT_DERIVATION)
        return next((stored for stored in unit_derivations if stored.is_maintained), None)

    @property
    def is_present(self) -> bool:
        """True if the store has the ``units`` index."""
        return self._derivation is not None

    @property
    def is_complete(self) -> bool:
        """True if the ``units`` index exists and has the units of every document."""
        return self._derivation is not None and not self._derivation.unbuilt_documents

    @cached_property
    def count(self) -> int:
        """The number of units in the store."""
        return self._parts.vectors.count_vectors()

    def list_chunk_units(self, chunks: Sequence[int]) -> list[list[StoredUnit]]:
        """Return the units of each chunk, in order of the text."""
        records = self._state.chunks.get_many(chunks)
        documents = self._load_document_units(record.document for record in records)
        return [documents[record.document].list_units(record.ordinal) for record in records]

    def get(self, ids: Iterable[int]) -> list[StoredUnit]:
        """Return the units with these ids, in the same order."""
        split_ids = list(map(split_vector_id, ids))  # (document, number of the unit in it)
        documents = self._load_document_units(document for document, _ in split_ids)
        units = []
        for document, number in split_ids:
            document_units = documents[document]
            chunk_ordinal = bisect_right(document_units.unit_offsets, number) - 1  # the chunk that contains the unit
            number_in_chunk = number - document_units.unit_offsets[chunk_ordinal]
            units.append(document_units.get_unit(chunk_ordinal, number_in_chunk))
        return units

    def list_texts(self, ids: Iterable[int]) -> list[str]:
        """Return the texts of the units with these ids, in the same order, without markup."""
        return [self._get_unit_text(unit) for unit in self.get(ids)]

    def get_documents(self, documents: Iterable[int]) -> dict[int, DocumentRecord]:
        """Return the records of documents, by id; also reads and caches their units."""
        document_ids = dict.fromkeys(documents)
        documents_by_id = self._load_document_units(document_ids)
        return {document: documents_by_id[document].record for document in document_ids}

    def get_section(self, unit: StoredUnit) -> tuple[DocumentRecord, int]:
        """Return the document of a unit, and the index of its section (-1: before the first heading)."""
        document = self._get_document_units(unit.document)
        return document.record, document.chunk_records[document.ordinals[unit.chunk]].section

    def get_vectors(self, ids: Sequence[int]) -> Matrix:
        """Return the vectors, of length 1, of the units with these ids, shape (n, dimension)."""
        split_ids = list(map(split_vector_id, ids))  # (document, number of the unit in it)
        documents = self._load_document_units(document for document, _ in split_ids)
        return self._parts.vectors.gather(
            [documents[document].vector_locations[number] for document, number in split_ids]
        )

    def find_nearest(self, vector: Vector, count: int, chunks: Sequence[int] | None = None) -> tuple[Ids, Matrix]:
        """Return the ids and cosines of the ``count`` units nearest to a vector, best first.

        With ``chunks``, only their units are compared; None: all units. Ties are in order of document key and position.
        """
        if chunks is None:
            ids, scores = find_nearest(self._parts.vectors.scan(), vector, count)
        else:
            ids = np.array([unit.id for units in self.list_chunk_units(chunks) for unit in units], np.uint64)
            scores = cosines(self.get_vectors(ids.tolist()), vector)
        scores_by_id = dict(zip(ids.tolist(), scores.tolist(), strict=True))
        candidates = select_highest(scores_by_id, count)
        best_ids = sorted(candidates, key=lambda id: (-scores_by_id[id], *self._get_sort_key(id)))[:count]
        return np.array(best_ids, np.uint64), np.array([scores_by_id[id] for id in best_ids], np.float32)

    def list_entities(self, ids: Iterable[int]) -> list[list[int]]:
        """Return, for each of these units, the entities in it or in its document's title, ascending."""
        units = self.get(ids)
        # Names are recognized in the text of a unit that a model wrote; the names in other units are stored by chunk.
        self.load_names(unit.chunk for unit in units if unit.source == RULE)
        return [sorted({*self._find_entities(unit), *self._get_title_entities(unit.document)}) for unit in units]

    def list_entity_units(self, entity: int, chunks: Iterable[int]) -> list[int]:
        """Return the ids of the units of ``chunks`` whose text or document title mentions an entity.

        They are in the order of the chunks.
        """
        unit_ids: list[int] = []
        for units in self.list_chunk_units(list(chunks)):
            entity_groups = self.list_entities([unit.id for unit in units])
            unit_ids += [unit.id for unit, entities in zip(units, entity_groups, strict=True) if entity in entities]
        return unit_ids

    def find_units_mentioning(
        self, entity: int, units: Sequence[StoredUnit], *, is_always_capitalized: bool
    ) -> list[StoredUnit]:
        """Return the ``units``, all of one chunk, that mention an entity in their own text.

        Mentions in lower case do not count. With ``is_always_capitalized``, the chunk has no mentions in lower case, so
        the text is not read.
        """
        if not units or units[0].source != RULE:  # a model wrote all units of the chunk
            return [unit for unit in units if entity in self._find_entities(unit)]
        name_spans = [(start, end) for _, start, end in self._iter_name_spans(units[0], entity)]
        if not is_always_capitalized:
            name_spans = [
                name_span for name_span in name_spans if self._is_written_as_name(units[0].document, name_span)
            ]
        return [unit for unit in units if any(_is_within(name_span, _list_spans(unit)) for name_span in name_spans)]

    def _get_document_units(self, document: int) -> _DocumentUnits:
        """Return the units of a document, from the cache if possible."""
        return self._load_document_units([document])[document]

    def _load_document_units(self, documents: Iterable[int]) -> Mapping[int, _DocumentUnits]:
        """Return a cache of units by document id that has all these documents.

        Documents missing from the cache are read in one batch. If the cache would be too large, all other documents are
        removed from it.
        """
        cache, document_ids = self._documents, dict.fromkeys(documents)
        missing_documents = [document for document in document_ids if document not in cache]
        if missing_documents:
            if len(cache) + len(missing_documents) > _MAX_CACHED_DOCUMENTS:
                cache = {document: cache[document] for document in document_ids if document in cache}
            records = self._state.documents.get_many(missing_documents)
            chunks = iter(self._state.chunks.get_many(id for record in records.values() for id in record.chunk_ids()))
            for document, derived_part in zip(missing_documents, self._parts.find_many(missing_documents), strict=True):
                chunk_records = list(islice(chunks, records[document].chunk_count))
                cache[document] = _DocumentUnits(self._state, records[document], chunk_records, derived_part)
            self._documents = cache
        return cache

    def _get_sort_key(self, id: int) -> tuple[str, int]:
        """Return a key that breaks ties: the document key of the unit with this id, and its number there."""
        document, number = split_vector_id(id)
        return self._get_document_units(document).record.key, number

    def _get_unit_text(self, unit: StoredUnit) -> str:
        """Return the text of a unit: a model's text, or the document's text at its spans without markup."""
        document = self._get_document_units(unit.document)
        ordinal = document.ordinals[unit.chunk]
        spans = document.get_spans(ordinal)
        if not spans:
            _, written_texts = document.written_units[ordinal]
            return written_texts[unit.ordinal]
        return render_span(self._get_text(unit.document), spans[unit.ordinal])

    def _find_entities(self, unit: StoredUnit) -> set[int]:
        """Return the entities that the own text of a unit mentions as names, not only in lower case.

        A sentence of a chunk has the stored mentions of the chunk in its span. The text of a unit that a model wrote
        has no stored mentions, so its names are recognized.
        """
        if unit.source != RULE:  # a model wrote the unit
            return self._recognize_names(self._get_unit_text(unit))
        spans = _list_spans(unit)
        return {
            entity
            for entity, start, end in self._iter_name_spans(unit)
            if _is_within((start, end), spans) and self._is_written_as_name(unit.document, (start, end))
        }

    def _recognize_names(self, text: str) -> set[int]:
        """Return the entities that a text mentions as names; a name in a longer name or in lower case is skipped."""
        mentions = find_mentions(self._state.filter, fold(text), self._state.settings.name_words)
        mention_spans = ((mention.start, mention.end, mention.entity) for mention in mentions)
        outermost = (mention_span for mention_span, is_nested in mark_nested(mention_spans) if not is_nested)
        encoded_text = text.encode()  # spans are in bytes
        return {entity for start, end, entity in outermost if _is_name_spelling(encoded_text[start:end])}

    def load_names(self, chunks: Iterable[int]) -> None:
        """Read the spans of the names in chunks into the cache, in one batch; a name in a longer name is omitted.

        If the cache would be too large, it is emptied first.
        """
        missing_chunks = [chunk for chunk in dict.fromkeys(chunks) if chunk not in self._name_spans]
        if len(missing_chunks) + len(self._name_spans) > _MAX_CACHED_CHUNKS:
            self._name_spans = {}
        self._name_spans.update(
            zip(missing_chunks, self._state.mentions.get_outermost_in_chunks(missing_chunks), strict=True)
        )

    def _iter_name_spans(self, unit: StoredUnit, entity: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Yield (entity, start, end) for each name in the chunk of a unit that is not part of a longer name.

        Start and end are byte offsets in the document's text. With ``entity``, only its names are yielded (None: all
        names).
        """
        if unit.chunk not in self._name_spans:
            self.load_names([unit.chunk])
        rows = self._name_spans[unit.chunk]
        if entity is not None:
            rows = rows[rows[:, 0] == entity]
        document = self._get_document_units(unit.document)
        chunk_start = document.chunk_records[document.ordinals[unit.chunk]].start
        return ((named_entity, chunk_start + start, chunk_start + end) for named_entity, start, end in rows.tolist())

    def _is_written_as_name(self, document: int, span: tuple[int, int]) -> bool:
        """True if the text at a span of a document is written as a name: not in lower case, and not a function word."""
        start, end = span
        return _is_name_spelling(bytes(self._get_text(document)[start:end]))

    def _get_title_entities(self, document: int) -> frozenset[int]:
        """Return the entities that the title of a document mentions; cached."""
        entities = self._title_entities.get(document)
        if entities is None:
            title = self._get_document_units(document).record.title
            whole_entities, part_entities = find_heading_entities(
                title or "", self._state.filter, self._state.settings.name_words
            )
            entities = self._title_entities[document] = frozenset(whole_entities | part_entities)
        return entities


def _list_spans(unit: StoredUnit) -> list[tuple[int, int]]:
    """Return the byte range of a unit, then the range of its subject if it has one outside."""
    return [(unit.start, unit.end), *([unit.subject] if unit.subject else [])]


def _is_within(span: tuple[int, int], spans: Iterable[tuple[int, int]]) -> bool:
    """True if a span (start, end) is within one of ``spans``."""
    span_start, span_end = span
    return any(start <= span_start and span_end <= end for start, end in spans)


class _UnitsPart:
    """The part of a store's state that reads units; :meth:`State.get_part` caches its reader."""

    name = "units"

    def read(self, state: State) -> Units:
        """Return a new reader of the units in a state of the store."""
        return Units(state)


UNITS = _UnitsPart()


def _is_name_spelling(spelling: bytes) -> bool:
    """True if a spelling (in UTF-8) can be a name: it has a capital or a digit, and is not a function word."""
    is_content_word, is_lower = classify_spelling(spelling)
    return is_content_word and not is_lower
