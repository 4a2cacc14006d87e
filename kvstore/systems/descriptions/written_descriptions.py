"""Descriptions of entities that a language model writes from chunks (GraphRAG, section 3.1.2: element instances). A
*description* is a sentence about an entity, stored as name, tab and sentence. A *passage* is a chunk as a prompt shows
it, with title and headings.

In: the chunks of a document. On disk: table ``description_texts``. Out: the descriptions of entities, which are rows of
the ``descriptions`` SQL table, lines in the context of the ``local`` strategy, and sources of the reports that a model
writes about communities. An entity has the descriptions from all its documents. In the paper, a model merges them into
one text; kvstore keeps them apart, so that each goes with its document.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from ...derived.passage_graph.structure import GRAPH
from ...errors import InputError
from ...models.json_schema import build_array_schema, build_text_schema
from ...registry.fact import Fields
from ...registry.sql_table import SqlTable, TableRows, hash_row, iter_optional, make_row_counter
from ...registry.table_reader import TableReader
from ...registry.written_passages import SourcePassage, WrittenListFact
from ...storage import records
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...text.normalize import to_entity_key

if TYPE_CHECKING:
    from ...models.statement_support import SourcePassages

#: The maximum number of characters of a description.
_MAX_TEXT_CHARS = 400
#: The maximum number of chunks of an entity whose documents are searched for descriptions.
_MAX_ENTITY_CHUNKS = 2000

_TASK = (
    "Describe the persons, organisations, places, products and other things that each passage names. For each, give "
    "its full name and one sentence that says what the passage says about it. The sentence has the name, no pronoun in "
    "its place, and the words of the passage, and adds nothing; the line above a passage says what its document and "
    "its sections are called."
)


class _WrittenDescriptions(WrittenListFact):
    """The texts that ``EXTRACT descriptions`` writes: what a language model writes about the entities of a chunk."""

    name = "descriptions"
    plural = "written_descriptions"
    fields: ClassVar[Fields] = {"descriptions": str, "passages": list}
    tables = ("description_texts",)
    item_schema = build_array_schema(build_text_schema(_MAX_TEXT_CHARS), max_items=2, min_items=2)
    chars_per_item = 30
    task = _TASK
    examples = (
        (
            "",
            "Ann Lee, born in Oslo, sings in the choir of Rome. The choir was founded in 1802.",
            [
                ["Ann Lee", "Ann Lee, born in Oslo, sings in the choir of Rome."],
                ["choir of Rome", "The choir of Rome was founded in 1802."],
            ],
        ),
    )
    about = "descriptions of the entities in a chunk, which the local strategy adds to the prompt of a model"

    def convert_item(
        self, item: Sequence[str], passage: SourcePassage, source: SourcePassages, check: Callable[..., None]
    ) -> str:
        """Check a description that the model wrote, and return it as stored: the name, a tab and the sentence.

        ``item`` is [name, sentence], and ``source`` has the texts of the passage, which must support the sentence.

        Raises ValueError if the sentence is unusable: ``check`` rejects its form, or ``source`` does not support it. It
        must also contain the name, add something to it, be a whole sentence, and have no unresolved pronoun.
        """
        from ...models.statement_support import has_unresolved_pronoun, list_content_stems
        from ...models.text_checks import is_fragment, trim_to_sentences
        from ...models.triple_support import parse_name

        written_name, written_sentence = item
        name, sentence = " ".join(written_name.split()), trim_to_sentences(written_sentence)
        check(sentence, name="a description")
        name_stems, sentence_stems = set(parse_name(name)), set(list_content_stems(sentence))
        has_name = to_entity_key(name) in to_entity_key(sentence) and name_stems <= sentence_stems
        if not has_name or has_unresolved_pronoun(sentence):
            raise ValueError("a description lacks its name; write the name in place of a pronoun")
        if name_stems == sentence_stems:
            raise ValueError("a description has no words but those of its name; write what the passage says about it")
        if is_fragment(sentence, is_english=source.is_english):
            raise ValueError("a description is a part of a sentence; write a whole sentence")
        source.find_supporting(sentence, must_keep_phrases=True)
        return f"{name}\t{sentence}"

    def check_stored_text(self, text: str) -> None:
        """Raise InputError if a text is not a stored description: a name, a tab and a sentence."""
        _split_description(text)


def _split_description(text: str) -> tuple[str, str]:
    """Split a stored description at its tab into an entity's name and a sentence about the entity.

    Raises InputError if one is missing.
    """
    name, _, sentence = text.partition("\t")
    if not name.strip() or not sentence.strip():
        raise InputError(f"a description is a name, a tab and a sentence, not {text[:80]!r}")
    return name, sentence


#: The descriptions written by models, by chunk; EXTRACT descriptions has a model write them.
WRITTEN_DESCRIPTIONS = _WrittenDescriptions()
(_TABLE,) = WRITTEN_DESCRIPTIONS.tables


class _EntityDescription(NamedTuple):
    """A sentence about an entity, with the entity's name and the name of the language model that wrote it."""

    entity_name: str
    sentence: str
    model: str


def _list_descriptions(state: State, document: int) -> list[_EntityDescription]:
    """Return the descriptions that models wrote of the entities of a document, sorted, without duplicates."""
    key = records.encode_u64(document)
    if state.lmdb.get(_TABLE, key) is None:
        return []
    _, value = WRITTEN_DESCRIPTIONS.read(state, key)
    # The model that wrote each text; ``by_digest`` has (model, texts) for the digest of each chunk.
    models = {text: model for _, (model, texts) in sorted(value.by_digest.items()) for text in texts}
    return [_EntityDescription(*_split_description(text), models[text]) for text in sorted(models)]


def _list_entity_documents(state: State, entity: int) -> list[int]:
    """Return the documents whose chunks mention an entity, in order of their keys.

    The list is empty for an entity in more than :data:`_MAX_ENTITY_CHUNKS` chunks.
    """
    entities = np.array([entity], np.uint32)
    graph = state.get_part(GRAPH)
    chunks = graph.read_entity_rows(entities, graph.read_degrees(entities), _MAX_ENTITY_CHUNKS).chunks.tolist()
    documents = list(dict.fromkeys(chunk.document for chunk in state.chunks.get_many(chunks)))
    return sorted(documents, key=state.documents.get_keys(documents).__getitem__)


def has_descriptions(state: State) -> bool:
    """True if the store has any description that a model wrote."""
    return state.lmdb.count(_TABLE) > 0


def iter_descriptions(state: State, keys: Container[str], documents: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Yield (document, sentence) for each description in ``documents`` (ids) of an entity with one of the ``keys``.

    Language models wrote the sentences. A key is an entity's name in normal form.
    """
    if has_descriptions(state):
        for document in documents:
            for sentence in _iter_sentences_about(_list_descriptions(state, document), keys):
                yield document, sentence


def _iter_sentences_about(descriptions: Iterable[_EntityDescription], keys: Container[str]) -> Iterator[str]:
    """Yield the sentences of the descriptions of the entities with these ``keys`` (names in normal form)."""
    return (description.sentence for description in descriptions if to_entity_key(description.entity_name) in keys)


class EntityDescriptionsRequest(ReadRequest[list[list[str]]]):
    """A request for the descriptions of entities: at most ``max_texts`` of each, in order of their documents' keys."""

    entities: Sequence[int]
    max_texts: int

    def fetch(self, state: State) -> list[list[str]]:
        if not has_descriptions(state):
            return [[] for _ in self.entities]
        # Cached, because a document can mention several of the entities.
        list_descriptions = cache(partial(_list_descriptions, state))
        texts_by_entity: list[list[str]] = []
        for entity in self.entities:
            keys = (state.entities.get(entity).key,)
            texts: dict[str, None] = {}  # an ordered set
            for document in _list_entity_documents(state, entity):
                if len(texts) >= self.max_texts:
                    break
                texts.update(dict.fromkeys(_iter_sentences_about(list_descriptions(document), keys)))
            texts_by_entity.append(list(texts)[: self.max_texts])
        return texts_by_entity


def _iter_rows(reader: TableReader, documents: Iterable[int]) -> TableRows:
    """Yield the rows of the ``descriptions`` SQL table for documents (ids), as (document, index of the description)."""
    for document in documents:
        for index in range(len(reader.call_cached(_list_descriptions, document))):
            yield document, index


def _iter_document_ids(reader: TableReader) -> Iterator[int]:
    """Yield the ids of the documents that have descriptions."""
    return (records.U64.unpack(key)[0] for key, _ in reader.state.lmdb.scan(_TABLE))


DESCRIPTION_TABLE = SqlTable(
    "descriptions",
    "sentences about entities that a model wrote from the chunks of a document",
    {
        "entity": ("TEXT", lambda reader, row, record: record.entity_name),
        "text": ("TEXT", lambda reader, row, record: record.sentence),
        "document": ("TEXT", lambda reader, row, record: reader.get_document(row[0]).key),
        "written_by": ("TEXT", lambda reader, row, record: record.model),
    },
    scan=lambda reader: _iter_rows(reader, _iter_document_ids(reader)),
    load=lambda reader, row: reader.call_cached(_list_descriptions, row[0])[row[1]],
    get_rowid=hash_row,
    equality_lookups={"document": lambda reader, key: _iter_rows(reader, iter_optional(reader.find_document(key)))},
    estimate_rows=make_row_counter(_TABLE),
)
