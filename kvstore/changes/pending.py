"""Changes that wait: what :class:`~kvstore.changes.changes.Changes` applies together, each thing by its key.

In: documents as they are extracted, and what the user states. On disk: nothing. What is changed twice keeps its last
change, and a transaction keeps what it has applied until the commit, to apply it once more when the map has to grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy.typing as npt

from ..extraction.extraction import Extracted, derive, vectors_for, with_vectors
from ..extraction.validation import ValidDocument
from ..settings import FixedSettings
from ..structures.documents.ingested_files import IngestedFile
from ..structures.state import State
from ..structures.vectors.vectors import CHUNK_VECTORS, Matrix, unit_rows
from ..systems.derivation import texts_without_vectors, with_parts
from ..systems.fact import Key, StatedFact, Value
from . import facts
from .embedding_reuse import reusable_embeddings


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document ready to be stored: what was extracted, and by space the unit vectors of its texts, shape (texts,
    dimension).

    What has no vectors is embedded before it is applied. ``changed_at`` is when it was stored first, for one that is
    only put in again.
    """

    extracted: Extracted
    vectors: Mapping[str, Matrix] = field(default_factory=dict)
    own_vectors: bool = False
    origin: str | None = None
    changed_at: int | None = None


@dataclass(slots=True)
class Pending:
    """Changes to documents and other facts, each by its key; None takes back what is of that key.

    ``facts`` has those of each other kind, by its name; one of a document goes with a document that is stored or one of
    ``documents``. ``origins`` names the folder that documents, otherwise unchanged, were found in last; ``files`` are
    those whose last document this is, each with the digests of its documents. ``size`` counts chunks and what other
    facts consist of.
    """

    documents: dict[str, Prepared | None] = field(default_factory=dict)
    facts: dict[str, dict[Any, Any]] = field(default_factory=lambda: {fact.name: {} for fact in facts.stated()})
    origins: dict[str, str | None] = field(default_factory=dict)
    files: list[tuple[IngestedFile, list[bytes]]] = field(default_factory=list)
    size: int = 0

    def __bool__(self) -> bool:
        return any((self.documents, *self.facts.values(), self.origins, self.files))

    @property
    def prepared(self) -> list[Prepared]:
        """The documents that are put, in the order in which they were."""
        return [document for document in self.documents.values() if document is not None]

    @property
    def stated(self) -> Iterator[tuple[StatedFact[Any, Any], Any, Any]]:
        """The facts beside documents: kind, key and value."""
        return ((fact, key, value) for fact in facts.stated() for key, value in self.facts[fact.name].items())

    def put(self, document: Prepared) -> None:
        """Have a document stored, with nothing else that is stated of it."""
        key = document.extracted.key
        self.delete(key)
        self.documents[key] = document
        self.size += len(document.extracted.chunks)

    def delete(self, key: str) -> None:
        """Have the document of a key go, with what else is stated of it."""
        self.documents.pop(key, None)
        self.documents[key] = None
        for fact in facts.of_documents():
            self.facts[fact.name].pop(key, None)

    def state(self, fact: StatedFact[Key, Value], key: Key, value: Value | None) -> None:
        """Have a fact stored, or taken back."""
        self.facts[fact.name][key] = value
        self.size += 0 if value is None else fact.size(value)


def prepare(
    given: ValidDocument, settings: FixedSettings, vectors: npt.ArrayLike | None = None, origin: str | None = None
) -> Prepared:
    """What follows from a document, with the user's vectors of it, if any.

    Raises InputError for vectors that do not fit, and what :func:`~kvstore.extraction.extraction.derive` raises.
    """
    extracted = derive(given, settings)
    if vectors is None:
        return Prepared(extracted, origin=origin)
    rows = unit_rows(vectors, settings.dimension, len(extracted.chunks))
    return Prepared(with_vectors(extracted, rows), {CHUNK_VECTORS.name: rows}, own_vectors=True, origin=origin)


def embedded(
    documents: Sequence[Prepared],
    settings: FixedSettings,
    state: Callable[[], AbstractContextManager[State]],
    embed: Callable[[Sequence[str]], Matrix],
) -> list[Prepared]:
    """Documents with what is derived and all vectors: texts that stored ones of their keys have take over theirs.

    ``state`` is let go before ``embed`` is called, which may take long.
    """
    derived = [replace(document, extracted=with_parts(document.extracted, settings)) for document in documents]
    missing = [texts_without_vectors(document.extracted, document.vectors, settings) for document in derived]
    if not any(missing):
        return derived
    with state() as stored:
        texts = ((one.extracted.key, set(chain(*of.values()))) for one, of in zip(derived, missing, strict=True))
        kept = reusable_embeddings(stored, ((key, wanted) for key, wanted in texts if wanted))
    made = vectors_for(missing, embed, kept)
    return [
        replace(document, vectors={**document.vectors, **vectors})
        for document, vectors in zip(derived, made, strict=True)
    ]
