"""Pending changes, which :class:`~kvstore.changes.changes.Changes` applies together, each by its key. A document is
validated, cut into chunks, *extracted* (names, relations and summaries are found) and embedded before it is applied. A
*fact* is other data that a user adds, such as an edge.

In: extracted documents, and the facts that the user adds or removes. On disk: nothing. The last of several changes to
one key counts. A transaction keeps applied changes until the commit, to apply them again if the map has to grow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..extraction.extraction import ChunkedDocument, ExtractedDocument, chunk_document
from ..extraction.stated_relations import get_own_tree_name
from ..extraction.validation import ValidDocument, add_vectors_to_digest, unpack_chunks, validate
from ..models.embedder import normalize_rows
from ..process.frozen_dataclass import frozen_dataclass
from ..registry.fact import Key, StatedFact, Value
from ..settings import FixedSettings
from ..structures.documents.documents import DocumentRecord
from ..structures.documents.ingested_files import CompletedFile
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix
from ..text.languages import get_stated_language
from . import facts

if TYPE_CHECKING:
    import numpy.typing as npt

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

        False if only its metadata changes, and after :meth:`PendingChanges.drop_derived_data`.
        """
        return isinstance(self.content, ChunkedDocument | ExtractedDocument)

    @property
    def chunk_count(self) -> int:
        """The number of chunks of the document; 0 if it is not cut into chunks yet."""
        return len(self.content.chunks) if isinstance(self.content, ChunkedDocument | ExtractedDocument) else 0


class EmbeddedPart(NamedTuple):
    """The data that a derivation computed from a document, such as its sentences, and the vectors of its texts."""

    part: Any
    vectors: Matrix


class MetadataChange(NamedTuple):
    """The new metadata of a stored document without other changes, and the document's new digest."""

    meta: dict[str, Any]
    digest: bytes


@dataclass(slots=True)
class PendingChanges:
    """Changes to documents and other facts, each by its key; None deletes the value of a key.

    ``facts`` has the changes of each other kind of fact, by its name. A fact of a document belongs to a stored document
    or to one of ``documents``. ``origins`` (the folder in which a document was last found) and ``metadata`` have
    documents without other changes. ``files`` are files that are complete with these changes, each with the digests of
    its documents. ``size`` is the number of chunks plus the estimated sizes of other facts.
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
        """The documents to store, in order."""
        return [document for document in self.documents.values() if document is not None]

    def list_stated_facts(self) -> list[tuple[StatedFact[Any, Any], Any, Any]]:
        """Return the changed facts other than documents, such as edges: kind, key and value (None if it is deleted)."""
        kinds = facts.list_stated_fact_kinds() if any(self.facts.values()) else ()
        return [(fact, key, value) for fact in kinds for key, value in self.facts[fact.name].items()]

    def put(self, document: PendingDocument) -> None:
        """Record that a document is to be stored, and drop pending facts about it and changes of its metadata."""
        key = document.document.key
        self.delete(key)  # also moves the key to the end
        self.documents[key] = document
        self.size += document.chunk_count

    def drop_derived_data(self) -> None:
        """Drop derived data, in place, from changes that were applied but may have to be applied again.

        Derived data takes many times the memory and can be derived again. A document with vectors of derived parts
        keeps all data; otherwise, the parts would have to be embedded again.
        """
        for document in self.new_documents:
            is_derived = isinstance(document.content, ExtractedDocument)
            if is_derived and document.vectors.keys() <= {CHUNK_VECTORS.name}:
                source_fields = {field.name: getattr(document.content, field.name) for field in fields(ValidDocument)}
                self.documents[document.document.key] = replace(document, content=ValidDocument(**source_fields))
        self.parts = {}

    def delete(self, key: str) -> None:
        """Record that a document is to be deleted, and drop pending facts about it and changes of its metadata.

        Also drops the recorded digest of the stored document, which is needed only to apply these again.
        """
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
    """Return a stored document as it was put, validated again; raise InputError if it is no longer valid."""
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


def has_same_text(state: State, existing_document: ValidDocument | DocumentRecord, document: ValidDocument) -> bool:
    """True if a document has the same text as ``existing_document``, which is pending or stored in ``state``."""
    if isinstance(existing_document, ValidDocument):
        return existing_document.text == document.text
    return (
        existing_document.size == len(document.text)
        and state.documents.read_text(existing_document.id) == document.text
    )


def changes_only_metadata(state: State, record: DocumentRecord, document: PendingDocument) -> bool:
    """True if a document differs only in its metadata from the stored one, which ``record`` describes.

    Derived data depends on the language in the metadata and on the tree name, so these must be the same.
    """
    new_document = document.document
    # Comparing vectors or texts takes longer than comparing the other fields and the sizes of the texts.
    if record.own_vectors != document.own_vectors or record.size != len(new_document.text):
        return False
    has_same_language = get_stated_language(record.meta) == get_stated_language(new_document.meta)
    has_same_tree = get_own_tree_name(record.key, record.meta) == get_own_tree_name(record.key, new_document.meta)
    has_same_fields = all(getattr(record, name) == getattr(new_document, name) for name in _COMPARED_FIELDS)
    has_same_chunks = unpack_chunks(record.own_chunks) == new_document.own_chunks
    if not (has_same_language and has_same_tree and has_same_fields and has_same_chunks):
        return False
    if not has_same_text(state, record, new_document):
        return False
    return not record.own_vectors or np.array_equal(state.read_vectors(record), document.vectors[CHUNK_VECTORS.name])


def make_pending(
    document: ValidDocument, settings: FixedSettings, vectors: npt.ArrayLike | None = None, origin: str | None = None
) -> PendingDocument:
    """Return a document to store, cut into chunks; the user's ``vectors`` (None: no vectors) replace the embedder's.

    ``origin`` is the folder that the document was found in (None: no folder). Raises InputError for an invalid
    document, and for vectors of a wrong number or dimension.
    """
    chunked_document = chunk_document(document, settings)  # an ExtractedDocument if it consists of pairs
    if vectors is None:
        return PendingDocument(chunked_document, origin=origin)
    try:
        own_vectors = normalize_rows(vectors, settings.dimension, len(chunked_document.chunks))
    except InputError as error:
        raise InputError(f"document {document.key!r}: {error}") from None
    content = (
        chunked_document.add_vectors_to_digest(own_vectors)
        if isinstance(chunked_document, ChunkedDocument)
        else add_vectors_to_digest(chunked_document, own_vectors)
    )
    return PendingDocument(content, {CHUNK_VECTORS.name: own_vectors}, own_vectors=True, origin=origin)


def make_pending_change(
    state: State, document: ValidDocument, vectors: npt.ArrayLike | None, origin: str | None
) -> PendingDocument | None:
    """Return a document to store, or None if ``state`` has the same document.

    It is cut into chunks, unless only its metadata changes. ``vectors`` are the user's vectors of its chunks, and
    ``origin`` is the folder that the document was found in. Raises InputError if the document or ``vectors`` are
    invalid.
    """
    # The digest of a document with the user's vectors covers them, and is known only after chunking. Such a document is
    # compared when it is stored.
    record = state.documents.find_by_key(document.key) if vectors is None else None
    if record is not None:
        if record.digest == document.digest:
            return None
        metadata_change = PendingDocument(document, origin=origin)
        if changes_only_metadata(state, record, metadata_change):
            return metadata_change
    return make_pending(document, state.settings, vectors, origin)
