"""Changes that wait: what :class:`~kvstore.changes.changes.Changes` applies together, each thing by its key.

In: documents as they are extracted, and what the user states. On disk: nothing. What is changed twice keeps its last
change, and a transaction keeps what it has applied until the commit, to apply it once more when the map has to grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import numpy.typing as npt

from ..errors import InputError
from ..extraction.extraction import (
    ChunkedDocument,
    ExtractedDocument,
    add_vectors_to_digest,
    collect_vectors,
    cut,
    derive_chunked,
)
from ..extraction.validation import ValidDocument
from ..settings import FixedSettings
from ..structures.documents.ingested_files import IngestedFile
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix, normalize_rows
from ..systems.chunk_texts import has_context, list_context_facts
from ..systems.derivation import derive_parts, list_missing_texts
from ..systems.fact import Key, StatedFact, Value
from ..systems.kept_derivations import list_maintained_derivations
from . import facts
from .embedding_reuse import find_reusable_embeddings, read_chunked_text, read_derived_vectors


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document ready to be stored: what was extracted, and by space the unit vectors of its texts, shape (texts,
    dimension).

    What has no vectors is embedded before it is applied. ``changed_at`` is when it was stored first, for one that is
    only put in again.
    """

    extracted: ExtractedDocument
    vectors: Mapping[str, Matrix] = field(default_factory=dict)
    own_vectors: bool = False
    origin: str | None = None
    changed_at: int | None = None

    @property
    def document(self) -> ValidDocument:
        """The document as it was given."""
        return self.extracted

    @property
    def chunk_count(self) -> int:
        """How many chunks it has."""
        return len(self.extracted.chunks)


@dataclass(frozen=True, slots=True)
class PendingDocument:
    """A document of which nothing is derived yet beyond its chunks: that is done for many together, before they are
    applied.

    ``vectors`` are the user's own, or those that were made of its chunks when it was applied before. ``chunked_document`` is None
    for one that has been applied.
    """

    document: ValidDocument
    chunked_document: ChunkedDocument | ExtractedDocument | None
    vectors: Mapping[str, Matrix] = field(default_factory=dict)
    own_vectors: bool = False
    origin: str | None = None
    changed_at: int | None = None

    @property
    def chunk_count(self) -> int:
        """How many chunks it has."""
        return 0 if self.chunked_document is None else len(self.chunked_document.chunks)


@dataclass(slots=True)
class PendingChanges:
    """Changes to documents and other facts, each by its key; None takes back what is of that key.

    ``facts`` has those of each other kind, by its name; one of a document goes with a document that is stored or one of
    ``documents``. ``origins`` names the folder that documents, otherwise unchanged, were found in last; ``files`` are
    those whose last document this is, each with the digests of its documents. ``size`` counts chunks and what other
    facts consist of.
    """

    documents: dict[str, PreparedDocument | PendingDocument | None] = field(default_factory=dict)
    facts: dict[str, dict[Any, Any]] = field(
        default_factory=lambda: {fact.name: {} for fact in facts.iter_stated_kinds()}
    )
    origins: dict[str, str | None] = field(default_factory=dict)
    files: list[tuple[IngestedFile, list[bytes]]] = field(default_factory=list)
    size: int = 0
    #: By key and label, what is derived of stored documents of which other facts have changed, and its vectors.
    parts: dict[str, dict[str, tuple[Any, Matrix]]] = field(default_factory=dict)
    #: Those of ``facts`` that belong to documents.
    _document_facts: list[dict[Any, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._document_facts = [self.facts[fact.name] for fact in facts.iter_document_kinds()]

    def __bool__(self) -> bool:
        return any((self.documents, *self.facts.values(), self.origins, self.files))

    @property
    def prepared_documents(self) -> list[PreparedDocument]:
        """The documents that are put, in the order in which they were; all are derived (:meth:`derive`)."""
        return [document for document in self.documents.values() if isinstance(document, PreparedDocument)]

    @property
    def stated_facts(self) -> Iterator[tuple[StatedFact[Any, Any], Any, Any]]:
        """The facts beside documents: kind, key and value."""
        return (
            (fact, key, value) for fact in facts.iter_stated_kinds() for key, value in self.facts[fact.name].items()
        )

    def put(self, document: PreparedDocument | PendingDocument) -> None:
        """Have a document stored, with nothing else that is stated of it."""
        key = document.document.key
        self.delete(key)
        self.documents[key] = document
        self.size += document.chunk_count

    def derive(self, settings: FixedSettings) -> None:
        """Have everything derived that follows from each document alone; raises LanguageError."""
        pending_documents = [document for document in self.documents.values() if isinstance(document, PendingDocument)]
        self.documents.update(
            (derived_document.document.key, derived_document)
            for derived_document in derive_documents(pending_documents, settings)
        )

    def release(self) -> None:
        """Keep of what has been applied no more than what it takes to apply it once more: what is derived takes many
        times the memory, and is the same when it is derived again."""
        for key, document in self.documents.items():
            if isinstance(document, PreparedDocument) and document.vectors.keys() <= {CHUNK_VECTORS.name}:
                carried_fields = (document.vectors, document.own_vectors, document.origin, document.changed_at)
                source_fields = {field.name: getattr(document.extracted, field.name) for field in fields(ValidDocument)}
                self.documents[key] = PendingDocument(ValidDocument(**source_fields), None, *carried_fields)
        self.parts = {}

    def delete(self, key: str) -> None:
        """Have the document of a key go, with what else is stated of it."""
        self.documents.pop(key, None)
        self.documents[key] = None
        for facts_by_key in self._document_facts:
            facts_by_key.pop(key, None)

    def put_fact(self, fact: StatedFact[Key, Value], key: Key, value: Value | None) -> None:
        """Have a fact stored, or taken back."""
        self.facts[fact.name][key] = value
        self.size += 0 if value is None else fact.estimate_size(value)


def begin(
    document: ValidDocument, settings: FixedSettings, vectors: npt.ArrayLike | None = None, origin: str | None = None
) -> PendingDocument:
    """A document cut into chunks, with the user's vectors of it, if any.

    Raises InputError for what cannot be a document, and for vectors that do not fit.
    """
    chunked = cut(document, settings)
    if vectors is None:
        return PendingDocument(document, chunked, origin=origin)
    try:
        rows = normalize_rows(vectors, settings.dimension, len(chunked.chunks))
    except InputError as error:
        raise InputError(f"document {document.key!r}: {error}") from None
    if isinstance(chunked, ExtractedDocument):
        document, chunked = add_vectors_to_digest(document, rows), add_vectors_to_digest(chunked, rows)
    else:
        chunked = chunked.add_vectors_to_digest(rows)
        document = chunked.document
    return PendingDocument(document, chunked, {CHUNK_VECTORS.name: rows}, own_vectors=True, origin=origin)


def derive_documents(documents: Sequence[PendingDocument], settings: FixedSettings) -> list[PreparedDocument]:
    """Some documents with all that follows from each alone; their prose is parsed together. Raises LanguageError."""
    chunked_documents = [document.chunked_document or cut(document.document, settings) for document in documents]
    derived = iter(derive_chunked([item for item in chunked_documents if isinstance(item, ChunkedDocument)], settings))
    return [
        PreparedDocument(
            next(derived) if isinstance(item, ChunkedDocument) else item,
            document.vectors,
            document.own_vectors,
            document.origin,
            document.changed_at,
        )
        for document, item in zip(documents, chunked_documents, strict=True)
    ]


def prepare_document(
    document: ValidDocument, settings: FixedSettings, vectors: npt.ArrayLike | None = None, origin: str | None = None
) -> PreparedDocument:
    """What follows from a document, with the user's vectors of it, if any.

    Raises InputError for vectors that do not fit, and what :func:`~kvstore.extraction.extraction.derive` raises.
    """
    return derive_documents([begin(document, settings, vectors, origin)], settings)[0]


def embed_documents(
    documents: Sequence[PreparedDocument],
    settings: FixedSettings,
    open_state: Callable[[], AbstractContextManager[State]],
    embed: Callable[[Sequence[str]], Matrix],
    facts_by_key: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[PreparedDocument]:
    """Documents with what is derived and all vectors: texts that stored ones of their keys have take over theirs.

    ``facts_by_key`` are other facts of them, by key and name. ``put_fact`` is let go before ``embed`` is called, which may
    take long.
    """
    facts_by_key = facts_by_key or {}
    with open_state() as stored:
        derivations = list_maintained_derivations(stored.lmdb)
        derived_documents, missing = [], []
        for document in documents:
            document_facts = facts_by_key.get(document.extracted.key, {})
            extracted = derive_parts(document.extracted, settings, derivations, document_facts)
            parts, previous_parts = extracted.parts, document.extracted.parts
            reusable_vectors = {
                name: rows for name, rows in document.vectors.items() if parts.get(name) is previous_parts.get(name)
            }
            if has_context(document_facts, settings) and not document.own_vectors:
                reusable_vectors.pop(CHUNK_VECTORS.name, None)  # whoever embedded it did not know what is stated of it
            updated = document
            if extracted is not document.extracted or len(reusable_vectors) < len(document.vectors):
                updated = replace(document, extracted=extracted, vectors=reusable_vectors)
            derived_documents.append(updated)
            missing.append(
                list_missing_texts(updated.extracted, updated.vectors, settings, derivations, document_facts)
            )
        if not any(missing):
            return derived_documents
        texts = (
            (derived_document.extracted.key, set(chain(*missing_texts.values())))
            for derived_document, missing_texts in zip(derived_documents, missing, strict=True)
        )
        reusable_embeddings = find_reusable_embeddings(
            stored, ((key, wanted_texts) for key, wanted_texts in texts if wanted_texts)
        )
    vectors = collect_vectors(missing, embed, reusable_embeddings)
    return [
        replace(document, vectors={**document.vectors, **updated})
        for document, updated in zip(derived_documents, vectors, strict=True)
    ]


def complete_pending(
    pending: PendingChanges,
    state: State,
    embed: Callable[[Sequence[str]], Matrix],
    find_vectors: Callable[[str, Set[str]], dict[tuple[str, str], Matrix]] | None = None,
) -> None:
    """Derive and embed what waiting changes still lack, so that they can be applied to ``put_fact``.

    That is the documents, which are derived together, and what follows from facts of stored documents that are others
    now. ``find_vectors`` gives those vectors of some texts that are known of the document of a key.
    """
    pending.derive(state.settings)
    derivations = list_maintained_derivations(state.lmdb)
    followed_facts = {
        name for kept_derivation in derivations for name in kept_derivation.derivation.facts
    } & pending.facts.keys()
    followed_facts |= {fact.name for fact in list_context_facts(state.settings)}
    facts_by_key: dict[str, dict[str, Any]] = {}
    for name in followed_facts:
        for key, value in pending.facts[name].items():
            facts_by_key.setdefault(key, {})[name] = value
    facts_of_new = {
        key: {name: value for name, value in document_facts.items() if value is not None}
        for key, document_facts in facts_by_key.items()
    }
    for document in embed_documents(
        pending.prepared_documents, state.settings, lambda: nullcontext(state), embed, facts_of_new
    ):
        pending.documents[document.extracted.key] = document
    pending.parts = {}
    part_labels: list[tuple[str, str, Any]] = []
    missing: list[dict[str, Sequence[str]]] = []
    known_vectors: dict[tuple[str, str], Matrix] = {}
    for key, changed in facts_by_key.items():
        record = None if key in pending.documents else state.documents.find_by_key(key)
        if record is None:
            continue
        for kept_derivation in derivations:
            if changed.keys().isdisjoint(kept_derivation.derivation.facts) or not kept_derivation.has_part(record.id):
                continue
            previous_text = read_chunked_text(state, record, kept_derivation.derivation.facts)
            current_facts = {
                name: value for name, value in {**previous_text.facts, **changed}.items() if value is not None
            }
            document_text = replace(previous_text, facts=current_facts)
            part = kept_derivation.derive(document_text, state.settings)
            texts = kept_derivation.list_texts(part, document_text, state.settings)
            known_vectors.update(
                read_derived_vectors(state, record, set(texts))
                | (find_vectors(key, set(texts)) if find_vectors else {})
            )
            part_labels.append((key, kept_derivation.label, part))
            missing.append({kept_derivation.label: texts})
    for (key, label, part), vectors in zip(part_labels, collect_vectors(missing, embed, known_vectors), strict=True):
        pending.parts.setdefault(key, {})[label] = (part, vectors[label])
