"""Triples (subject, relation, object) that a language model or another tool extracted from a document, stored with it.
A subject or object that is *written as a name* is an entity; any other is only a value ("a monthly publication",
"1963"). The *key* of a name is its normal form.

In: the names and the triples that were imported for a document, and those that EXTRACT had a model write. On disk:
``triples`` (document → names and triples, as they were supplied) and ``triple_texts`` (document → texts by passage, see
:mod:`~kvstore.registry.written_passages`). Single names, and the subjects and objects that are written as names,
introduce entities with the kind ``triple``. Triples are removed with the document's text. Out: triples by document.
Damage raises CorruptionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from ...arguments import format_value
from ...errors import InputError
from ...process.frozen_dataclass import frozen_dataclass
from ...storage import records
from ...storage.view import ViewReader
from ...text.normalize import to_entity_key
from ...text.stated_names import clean_name, clean_relation, is_written_as_name
from .. import tables
from ..filter.entity_filter import EntityFilter

#: Two entities connected by a triple.
EntityPair = tuple[int, int]

#: The kind under which triples introduce their names.
TRIPLE_KIND = "triple"


class Triple(NamedTuple):
    """A relation as it was supplied: ``subject`` and ``object`` are names, and ``relation`` connects them."""

    subject: str
    relation: str
    object: str


@frozen_dataclass
class DocumentTriples:
    """The names and triples of one document, each once. A name need not occur in a triple.

    ``models`` has the name of the model that wrote a triple, unless the triple was imported.
    """

    names: tuple[str, ...] = ()
    triples: tuple[Triple, ...] = ()
    models: Mapping[Triple, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """True if the document has any triple or single name."""
        return bool(self.names or self.triples)

    def list_key_pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of names that the triples connect, subject and object, as normal forms.

        A single name is paired with itself, and so is the only name of a triple whose other phrase is a value (not a
        name), such as a number. A triple of two values has no pair.
        """
        keys = self.get_spellings_by_key().keys()
        pairs = [(to_entity_key(name), to_entity_key(name)) for name in self.names]
        for triple in self.triples:
            names = [key for key in map(to_entity_key, (triple.subject, triple.object)) if key in keys]
            if names:
                pairs.append((names[0], names[-1]))
        return pairs

    def get_spellings_by_key(self) -> dict[str, str]:
        """Return a mapping from the normal form of every name to its first spelling.

        Subjects and objects of triples that are not written as names are values, and omitted.
        """
        phrases = (phrase for triple in self.triples for phrase in (triple.subject, triple.object))
        names = [*self.names, *filter(is_written_as_name, phrases)]
        # Reversed, so that the first spelling of a key is assigned last and kept.
        return {to_entity_key(name): name for name in reversed(names)}

    def merge(self, other: DocumentTriples) -> DocumentTriples:
        """Return the union of two sets of names and triples; the result does not say which model wrote a triple."""
        return DocumentTriples(
            tuple(dict.fromkeys((*self.names, *other.names))), tuple(dict.fromkeys((*self.triples, *other.triples)))
        )


def parse_triples(triples: Iterable[Sequence[str]], names: Iterable[str]) -> DocumentTriples:
    """Parse triples and names: remove duplicates and collapse white space.

    Raises InputError for a row that is not subject, relation and object, and for a text that is empty or too long.
    """
    parsed_triples = dict.fromkeys(map(parse_triple, triples))
    return DocumentTriples(tuple(dict.fromkeys(map(clean_name, names))), tuple(parsed_triples))


def parse_triple(row: Sequence[str]) -> Triple:
    """Parse a row of subject, relation and object; raise InputError if it is not three texts, or a text is invalid."""
    if not isinstance(row, (list, tuple)) or len(row) != 3 or not all(isinstance(text, str) for text in row):
        raise InputError(f"a triple is a subject, a relation and an object, not {format_value(row)}")
    subject, relation, object = row
    return Triple(clean_name(subject), clean_relation(relation), clean_name(object))


def find_entity_pairs(triples: DocumentTriples, entity_filter: EntityFilter) -> list[EntityPair]:
    """Return the distinct pairs of entities that a triple connects, in order of the names.

    A name of ``triples`` without a partner is paired with itself. ``entity_filter`` maps names to entity ids, and must
    contain every name of the triples.
    """
    if not triples:
        return []
    key_pairs = sorted(set(triples.list_key_pairs()))
    first_entities = entity_filter.find_entities([first_key for first_key, _ in key_pairs]).tolist()
    second_entities = entity_filter.find_entities([second_key for _, second_key in key_pairs]).tolist()
    return list(zip(first_entities, second_entities, strict=True))


def find_linked_pairs(triples: DocumentTriples, entity_filter: EntityFilter) -> list[EntityPair]:
    """Return the distinct pairs of different entities that a triple connects.

    ``entity_filter`` maps names to entity ids, and must contain every name of the triples.
    """
    return [(first, second) for first, second in find_entity_pairs(triples, entity_filter) if first != second]


class Triples(ViewReader):
    """The triples of one view: imported, or written by a language model."""

    def get(self, document: int) -> DocumentTriples:
        """Return the imported and the model-written triples of a document, and its imported names of entities.

        A triple that is both imported and written by a model counts as imported. The result is empty if there are none.
        Raises CorruptionError if a record is damaged.
        """
        return self.get_many([document]).get(document, DocumentTriples())

    def get_many(self, documents: Iterable[int]) -> dict[int, DocumentTriples]:
        """Return the triples and names of the documents that have any, as :meth:`get` does, by document."""
        keys = {records.encode_u64(document): document for document in documents}
        imported_values, written_values = (
            self._view.get_many(table, list(keys)) for table in (tables.TRIPLES, tables.WRITTEN_TRIPLES)
        )
        return {
            keys[key]: _decode_triples(key, imported_value, written_value)
            for key, imported_value, written_value in zip(keys, imported_values, written_values, strict=True)
            if imported_value is not None or written_value is not None
        }

    def list_documents(self) -> list[int]:
        """Return the ids of the documents that have triples or imported names, ascending."""
        keys = {key for table in (tables.TRIPLES, tables.WRITTEN_TRIPLES) for key, _ in self._view.scan(table)}
        return [records.U64.unpack(key)[0] for key in sorted(map(bytes, keys))]


def _decode_triples(key: bytes, imported_value: memoryview | None, written_value: memoryview | None) -> DocumentTriples:
    """Decode the stored imported triples and names, and the triples written by a model, of one document."""
    entity_names, rows = ([], []) if imported_value is None else records.unpack(imported_value, tables.TRIPLES, key)
    triples = dict.fromkeys(Triple(*row) for row in rows)
    if written_value is None:
        return DocumentTriples(tuple(entity_names), tuple(triples))
    # The first element of the record is a list of passages. A passage is its digest, the model, and the texts that
    # the model wrote: triples with tabs between their parts.
    passages = records.unpack(written_value, tables.WRITTEN_TRIPLES, key)[0]
    models: dict[Triple, str] = {}
    for _, model, passage_texts in passages:
        written_triples = (Triple(*text.split("\t")) for text in passage_texts)
        models.update((triple, model) for triple in written_triples if triple not in triples)
    return DocumentTriples(tuple(entity_names), (*triples, *models), models)
