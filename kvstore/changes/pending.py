"""Pending changes, which :class:`~kvstore.changes.changes.Changes` applies together, each by its key.

In: extracted documents, and what the user states. On disk: nothing. The last of several changes to one key counts. A
transaction keeps applied changes until the commit, to apply them again if the map has to grow. If a document is put
again, only its changed texts are embedded; vectors that the user supplied are not reused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..extraction.extraction import ChunkedDocument, ExtractedDocument, chunk_document, derive_chunked
from ..extraction.stated_relations import get_own_tree_name
from ..extraction.validation import ValidDocument, add_vectors_to_digest, unpack_chunks, validate
from ..models.embedder import ANY_SPACE, collect_vectors, normalize_rows
from ..process.frozen_dataclass import frozen_dataclass
from ..registry.chunked_text import ChunkedText, load_chunked_text
from ..registry.derivation import (
    StoredDerivation,
    build_embedding_texts,
    collect_missing_texts,
    derive_parts,
    list_context_facts,
    list_maintained_derivations,
)
from ..registry.fact import Key, StatedFact, Value
from ..settings import FixedSettings
from ..structures.documents.documents import DocumentRecord
from ..structures.documents.ingested_files import CompletedFile
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix, Vector, Vectors
from ..text.languages import get_stated_language
from . import facts

if TYPE_CHECKING:
    import numpy.typing as npt


#: Vectors of texts, by vector space (the label of a derivation, or the chunks) and text.
TextVectors = dict[tuple[str, str], Vector]

#: The fields of a document that are equal if only its metadata changes, besides its text, chunks and vectors.
_COMPARED_FIELDS = ("title", "source", "format", "left_out")


@frozen_dataclass
class PendingDocument:
    """A document to be stored, with the unit vectors of its texts by space, each of shape (texts, dimension).

    ``content`` is first the document cut into chunks. Before the document is applied, its content is extracted, in a
    batch with other documents because that is faster, and missing vectors are computed. An applied document keeps only
    the data that is needed to apply it again: the validated document, and the vectors of its chunks. ``own_vectors`` is
    True if the user supplied the vectors of the chunks. ``changed_at`` is the earlier time of change of a document that
    is stored again with the same text.
    """

    content: ValidDocument | ChunkedDocument | ExtractedDocument
    vectors: Mapping[str, Matrix] = field(default_factory=dict)
    own_vectors: bool = False
    origin: str | None = None
    changed_at: int | None = None

    @property
    def document(self) -> ValidDocument:
        """The validated document as the user supplied it."""
        return self.content.document if isinstance(self.content, ChunkedDocument) else self.content

    @property
    def extracted(self) -> ExtractedDocument:
        """The document with its derived data; :func:`derive_documents` must have derived them."""
        assert isinstance(self.content, ExtractedDocument)
        return self.content

    @property
    def is_chunked(self) -> bool:
        """True if the document is cut into chunks.

        It is not if only its metadata changes, or after :meth:`PendingChanges.release` reduced it.
        """
        return isinstance(self.content, ChunkedDocument | ExtractedDocument)

    @property
    def chunk_count(self) -> int:
        """The number of chunks of the document; 0 if it is not cut into chunks yet."""
        return len(self.content.chunks) if isinstance(self.content, ChunkedDocument | ExtractedDocument) else 0


class EmbeddedPart(NamedTuple):
    """What a derivation computed from a document, such as a list of sentences, and the vectors of its texts."""

    part: Any
    vectors: Matrix


class MetadataChange(NamedTuple):
    """The new metadata of a stored document that is otherwise unchanged, and the digest of the document with it."""

    meta: dict[str, Any]
    digest: bytes


@dataclass(slots=True)
class PendingChanges:
    """Changes to documents and other facts, each by its key; None deletes the value of a key.

    ``facts`` has the changes of each other kind of fact, by its name. A fact of a document belongs to a stored document
    or to one of ``documents``. ``origins`` has the folder in which an otherwise unchanged document was last found, and
    ``metadata`` the new metadata of otherwise unchanged documents. ``files`` are files whose last document is in these
    changes, each with the digests of its documents. ``size`` is the number of chunks plus the estimated sizes of other
    facts.
    """

    documents: dict[str, PendingDocument | None] = field(default_factory=dict)
    facts: dict[str, dict[Any, Any]] = field(default_factory=partial(defaultdict, dict))
    origins: dict[str, str | None] = field(default_factory=dict)
    metadata: dict[str, MetadataChange] = field(default_factory=dict)
    files: list[CompletedFile] = field(default_factory=list)
    size: int = 0
    #: The digests, by key, of the stored documents whose metadata or facts change, if the changes are kept (to apply
    #: them again): they must not be applied to another document with this key.
    stored_digests: dict[str, bytes] = field(default_factory=dict)
    #: The new derived parts of stored documents whose other facts changed, by key and label of the derivation.
    parts: dict[str, dict[str, EmbeddedPart]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """True if there is any change."""
        return any((self.documents, *self.facts.values(), self.origins, self.metadata, self.files))

    @property
    def new_documents(self) -> list[PendingDocument]:
        """The documents to put, in order."""
        return [document for document in self.documents.values() if document is not None]

    def list_stated_facts(self) -> list[tuple[StatedFact[Any, Any], Any, Any]]:
        """Return the changed facts other than documents, such as edges: kind, key and value (None if it is deleted)."""
        kinds = facts.list_stated_fact_kinds() if any(self.facts.values()) else ()
        return [(fact, key, value) for fact in kinds for key, value in self.facts[fact.name].items()]

    def put(self, document: PendingDocument) -> None:
        """Record that a document is to be stored, and drop pending facts about it."""
        key = document.document.key
        self.delete(key)  # also moves the key to the end
        self.documents[key] = document
        self.size += document.chunk_count

    def release(self) -> None:
        """Reduce applied changes in place to the data that is needed to apply them again.

        Derived data takes many times the memory and can be derived again. A document with vectors of derived parts is
        not reduced; otherwise, the parts would have to be embedded again.
        """
        for document in self.new_documents:
            is_derived = isinstance(document.content, ExtractedDocument)
            if is_derived and document.vectors.keys() <= {CHUNK_VECTORS.name}:
                source_fields = {field.name: getattr(document.content, field.name) for field in fields(ValidDocument)}
                self.documents[document.document.key] = replace(document, content=ValidDocument(**source_fields))
        self.parts = {}

    def delete(self, key: str) -> None:
        """Record that a document is to be deleted, and drop pending facts about it."""
        self.metadata.pop(key, None)
        self.stored_digests.pop(key, None)
        self.documents.pop(key, None)  # so that the key moves to the end
        self.documents[key] = None
        for fact in facts.list_document_fact_kinds() if any(self.facts.values()) else ():
            self.facts[fact.name].pop(key, None)

    def put_metadata(self, key: str, change: MetadataChange) -> None:
        """Record that only the metadata of a stored document changes."""
        self.size += key not in self.metadata  # 1 for each document
        self.metadata[key] = change

    def put_fact(self, fact: StatedFact[Key, Value], key: Key, value: Value | None) -> None:
        """Record that a fact, such as an edge or the triples of a document, is to be stored (None: deleted)."""
        self.facts[fact.name][key] = value
        self.size += 0 if value is None else fact.estimate_size(value)


def validate_stored(record: DocumentRecord, text: str) -> ValidDocument:
    """Return a stored document as it was put, validated again, with the key of its ``record``."""
    return validate(
        record.key,
        text,
        title=record.title,
        source=record.source,
        meta=record.meta,
        format=record.format,
        left_out=record.left_out,
        chunks=unpack_chunks(record.own_chunks),
    )


def has_same_text(state: State, existing: ValidDocument | DocumentRecord, document: ValidDocument) -> bool:
    """True if the existing document, pending or stored in ``state``, has the same text as its replacement."""
    if isinstance(existing, ValidDocument):
        return existing.text == document.text
    return existing.size == len(document.text) and state.documents.read_text(existing.id) == document.text


def changes_only_metadata(state: State, record: DocumentRecord, document: PendingDocument) -> bool:
    """True if a document differs only in its metadata from the stored one, which ``record`` describes.

    The metadata must not state another language or another name of the document's tree, on which derived data depends.
    """
    new_document = document.document
    if record.own_vectors != document.own_vectors:
        return False
    if record.own_vectors and not np.array_equal(state.read_vectors(record), document.vectors[CHUNK_VECTORS.name]):
        return False
    states_same_language = get_stated_language(record.meta) == get_stated_language(new_document.meta)
    has_same_tree = get_own_tree_name(record.key, record.meta) == get_own_tree_name(record.key, new_document.meta)
    return (
        states_same_language
        and has_same_tree
        and all(getattr(record, name) == getattr(new_document, name) for name in _COMPARED_FIELDS)
        and unpack_chunks(record.own_chunks) == new_document.own_chunks
        and has_same_text(state, record, new_document)
    )


def make_pending(
    document: ValidDocument, settings: FixedSettings, vectors: npt.ArrayLike | None = None, origin: str | None = None
) -> PendingDocument:
    """Return a document to store, cut into chunks; the user's ``vectors`` (None: no vectors) replace the embedder's.

    ``origin`` is the folder that the document was found in (None: no folder). Raises InputError for an invalid
    document, and for vectors of a wrong number or dimension.
    """
    chunked = chunk_document(document, settings)  # already extracted if it consists of pairs
    if vectors is None:
        return PendingDocument(chunked, origin=origin)
    try:
        own_vectors = normalize_rows(vectors, settings.dimension, len(chunked.chunks))
    except InputError as error:
        raise InputError(f"document {document.key!r}: {error}") from None
    content = (
        chunked.add_vectors_to_digest(own_vectors)
        if isinstance(chunked, ChunkedDocument)
        else add_vectors_to_digest(chunked, own_vectors)
    )
    return PendingDocument(content, {CHUNK_VECTORS.name: own_vectors}, own_vectors=True, origin=origin)


def make_pending_change(
    state: State, document: ValidDocument, vectors: npt.ArrayLike | None, origin: str | None
) -> PendingDocument | None:
    """Return a document to store, or None if ``state`` has the same document.

    It is cut into chunks, unless only its metadata changes. The arguments and errors are those of :func:`make_pending`.
    """
    record = state.documents.find_by_key(document.key) if vectors is None else None
    if record is not None:
        if record.digest == document.digest:
            return None
        metadata_change = PendingDocument(document, origin=origin)
        if changes_only_metadata(state, record, metadata_change):
            return metadata_change
    return make_pending(document, state.settings, vectors, origin)


def derive_documents(documents: Sequence[PendingDocument], settings: FixedSettings) -> list[PendingDocument]:
    """Return documents with their chunks, terms, abstracts, names and relations.

    Documents that already have them keep them. The prose of the others is parsed together, which is faster. Raises
    LanguageError.
    """
    contents = [
        document.content
        if isinstance(document.content, ChunkedDocument | ExtractedDocument)
        else chunk_document(document.content, settings)
        for document in documents
    ]
    derived = iter(derive_chunked([content for content in contents if isinstance(content, ChunkedDocument)], settings))
    return [
        replace(document, content=next(derived) if isinstance(content, ChunkedDocument) else content)
        for document, content in zip(documents, contents, strict=True)
    ]


def embed_documents(
    documents: Sequence[PendingDocument],
    settings: FixedSettings,
    open_state: Callable[[], AbstractContextManager[State]],
    embed: Callable[[Sequence[str]], Matrix],
    facts_by_key: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[PendingDocument]:
    """Return documents with all derived parts (data computed from single documents) and vectors.

    A vector is reused if the stored document with the same key has a vector of the same text; other texts are embedded.
    ``facts_by_key`` has the facts about the documents, such as triples, by document key and kind of fact (None: no
    facts). The state is closed before ``embed`` is called, which can take long.
    """
    facts_by_key = facts_by_key or {}
    with open_state() as stored_state:
        derivations = list_maintained_derivations(stored_state.lmdb)
        derived_documents, missing_texts = [], []
        for document in documents:
            document_facts = facts_by_key.get(document.extracted.key, {})
            derived_document = _derive_parts(document, settings, derivations, document_facts)
            derived_documents.append(derived_document)
            missing_texts.append(
                collect_missing_texts(
                    derived_document.extracted, derived_document.vectors, settings, derivations, document_facts
                )
            )
        if not any(missing_texts):
            return derived_documents
        stored_vectors: TextVectors = {}
        for derived_document, texts_by_space in zip(derived_documents, missing_texts, strict=True):
            texts = set(chain(*texts_by_space.values()))
            record = stored_state.documents.find_by_key(derived_document.extracted.key) if texts else None
            if record is not None:
                stored_vectors.update(_read_stored_vectors(stored_state, record, texts))
    vectors = collect_vectors(missing_texts, embed, stored_vectors)
    return [
        replace(document, vectors={**document.vectors, **new_vectors})
        for document, new_vectors in zip(derived_documents, vectors, strict=True)
    ]


def _derive_parts(
    document: PendingDocument,
    settings: FixedSettings,
    derivations: Sequence[StoredDerivation],
    document_facts: Mapping[str, Any],
) -> PendingDocument:
    """Return a document with its derived parts, without the vectors of texts that changed.

    A part is what a derivation computes from the document, such as a list of sentences. ``document_facts`` are the
    facts stated about the document, by name. Some of them, such as a context written by a model, are embedded together
    with the chunks, unless the user supplied the vectors of the chunks (``own_vectors``).
    """
    extracted = derive_parts(document.extracted, settings, derivations, document_facts)
    parts, previous_parts = extracted.parts, document.extracted.parts
    # derive_parts() returns the same object for an unchanged part. No part has the vectors of chunks, so they stay.
    valid_vectors = {
        name: rows for name, rows in document.vectors.items() if parts.get(name) is previous_parts.get(name)
    }
    if not document.own_vectors and any(fact.name in document_facts for fact in list_context_facts(settings)):
        # The chunks were embedded without the facts stated about the document.
        valid_vectors.pop(CHUNK_VECTORS.name, None)
    if extracted is document.extracted and len(valid_vectors) == len(document.vectors):
        return document
    return replace(document, content=extracted, vectors=valid_vectors)


def complete_pending(
    pending: PendingChanges,
    state: State,
    embed: Callable[[Sequence[str]], Matrix],
    find_vectors: Callable[[str, Set[str]], TextVectors] | None = None,
) -> None:
    """Derive and embed, in place, the missing data of pending changes, so that they can be applied to a state.

    This covers the documents, which are derived together, and the derived parts of stored documents whose facts
    changed. ``find_vectors`` takes a document key and texts, and returns the known vectors of these texts (None: no
    vectors are known).
    """
    for document in derive_documents(pending.new_documents, state.settings):
        pending.documents[document.document.key] = document
    derivations = list_maintained_derivations(state.lmdb)
    # The kinds of changed facts on which derived parts or the embedding texts of chunks depend.
    relevant_facts = {
        name for stored_derivation in derivations for name in stored_derivation.derivation.facts
    } & pending.facts.keys()
    relevant_facts |= {fact.name for fact in list_context_facts(state.settings)}
    facts_by_key: dict[str, dict[str, Any]] = {}
    for name in relevant_facts:
        for key, value in pending.facts[name].items():
            facts_by_key.setdefault(key, {})[name] = value
    facts_of_new_documents = {
        key: {name: value for name, value in document_facts.items() if value is not None}
        for key, document_facts in facts_by_key.items()
    }
    # The caller's state stays open while the texts are embedded.
    for document in embed_documents(
        pending.new_documents, state.settings, lambda: nullcontext(state), embed, facts_of_new_documents
    ):
        pending.documents[document.extracted.key] = document
    changed_facts = {
        key: document_facts for key, document_facts in facts_by_key.items() if key not in pending.documents
    }
    pending.parts = {}
    if changed_facts:
        pending.parts = _derive_parts_from_changed_facts(state, derivations, changed_facts, embed, find_vectors)


def _derive_parts_from_changed_facts(
    state: State,
    derivations: Sequence[StoredDerivation],
    changed_facts: Mapping[str, Mapping[str, Any]],
    embed: Callable[[Sequence[str]], Matrix],
    find_vectors: Callable[[str, Set[str]], TextVectors] | None,
) -> dict[str, dict[str, EmbeddedPart]]:
    """Derive again the parts of stored documents that depend on ``changed_facts``, and embed their texts.

    Returns the parts by document key and label of the derivation. ``changed_facts`` are the new values by document key
    and kind of fact, None for a deleted fact. ``find_vectors`` takes a document key and texts, and returns the known
    vectors of these texts.
    """
    labeled_parts: list[tuple[str, str, Any]] = []  # document key, label of the derivation, part
    missing_texts: list[dict[str, Sequence[str]]] = []  # of each part, by label
    known_vectors: TextVectors = {}  # by vector space and text
    for key, document_facts in changed_facts.items():
        record = state.documents.find_by_key(key)
        if record is None:
            continue
        for stored_derivation in derivations:
            fact_names = stored_derivation.derivation.facts
            if document_facts.keys().isdisjoint(fact_names) or not stored_derivation.has_part(record.id):
                continue
            previous_text = read_chunked_text(state, record, fact_names)
            current_facts = {
                name: value for name, value in {**previous_text.facts, **document_facts}.items() if value is not None
            }
            document_text = replace(previous_text, facts=current_facts)
            part = stored_derivation.derive_part(document_text, state.settings)
            texts = stored_derivation.list_texts(part, document_text, state.settings)
            known_vectors.update(read_derived_vectors(state, record, set(texts)))
            known_vectors.update(find_vectors(key, set(texts)) if find_vectors else {})
            labeled_parts.append((key, stored_derivation.label, part))
            missing_texts.append({stored_derivation.label: texts})
    parts: dict[str, dict[str, EmbeddedPart]] = {}
    vectors_by_part = collect_vectors(missing_texts, embed, known_vectors)
    for (key, label, part), vectors in zip(labeled_parts, vectors_by_part, strict=True):
        parts.setdefault(key, {})[label] = EmbeddedPart(part, vectors[label])
    return parts


def _read_stored_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> TextVectors:
    """Return the stored vectors that the embedder computed for ``texts`` of a document, by vector space and text.

    Texts without a stored vector are left out. The vectors that the user supplied for chunks are not returned.
    """
    chunk_vectors = {} if record.own_vectors else _read_chunk_vectors(state, record, texts)
    # The embedder computed the vectors of the chunks, so they also serve the same texts of derived parts.
    return {
        **{(ANY_SPACE, text): vector for text, vector in chunk_vectors.items()},
        **read_derived_vectors(state, record, texts),
    }


def read_derived_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> TextVectors:
    """Return the stored vectors of ``texts`` that occur in the derived parts of a document, by space and text.

    The vector space of a part has the label of the derivation. Texts without a stored vector are left out.
    """
    vectors: TextVectors = {}
    for stored_derivation in list_maintained_derivations(state.lmdb):
        if not stored_derivation.has_part(record.id):
            continue
        parts = state.get_derived_parts(stored_derivation.derivation)
        part, vector_locations = parts.get(record.id)
        if not parts.has_vectors_at(record.id, vector_locations):
            continue  # damaged: these locations have vectors of other texts
        part_texts = stored_derivation.derivation.list_texts(
            part, read_chunked_text(state, record, stored_derivation.derivation.facts)
        )
        # In a store without an embedder, the texts have no vectors.
        part_vectors = _gather_vectors(parts.vectors, dict(zip(part_texts, vector_locations, strict=False)), texts)
        vectors.update({(stored_derivation.label, text): vector for text, vector in part_vectors.items()})
    return vectors


def read_chunked_text(state: State, record: DocumentRecord, fact_names: Collection[str]) -> ChunkedText:
    """Return a stored document with its text and chunks, and with the facts of these kinds that are stated about it."""
    stated_facts = facts.iter_document_facts(state, record) if fact_names else ()
    facts_by_name = {fact.name: value for fact, _, value in stated_facts if fact.name in fact_names}
    return load_chunked_text(state, record, facts_by_name)


def _read_chunk_vectors(state: State, record: DocumentRecord, texts: Set[str]) -> dict[str, Matrix]:
    """Return the stored vectors of ``texts`` that are embedding texts of a document's chunks, by text."""
    chunked_text = read_chunked_text(state, record, [fact.name for fact in list_context_facts(state.settings)])
    chunks = state.chunks.get_many(record.chunk_ids())
    texts_with_chunks = zip(build_embedding_texts(chunked_text, state.settings), chunks, strict=True)
    vector_locations = {text: (chunk.block, chunk.row) for text, chunk in texts_with_chunks}
    return _gather_vectors(state.vectors, vector_locations, texts)


def _gather_vectors(
    vectors: Vectors, vector_locations: dict[str, tuple[int, int]], texts: Set[str]
) -> dict[str, Matrix]:
    """Return the vectors of the ``texts`` that have a location (block, row) in ``vector_locations``, by text."""
    wanted_locations = {text: location for text, location in vector_locations.items() if text in texts}
    return dict(zip(wanted_locations, vectors.gather(list(wanted_locations.values())), strict=True))
