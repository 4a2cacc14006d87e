"""CHECK of vectors: the blocks of every space, and of what systems derive that it is with its documents.

In: a state. Out: a sentence for each violation. Whether a part is what would be derived today is not asked, as it is
not of names and relations: that would be to read every document again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from ..structures.derived_parts import vector_id
from ..structures.state import State
from ..structures.vectors.vectors import FREE, Ids, Vectors
from ..systems import derivations
from ..systems.derivation import texts_of


def check_blocks(state: State, vectors: Vectors, take: Callable[[int, Ids], object]) -> Iterator[str]:
    """What is wrong with the blocks of a space; ``take`` is told every block and the ids of its rows."""
    blocks = 0
    for number, ids in vectors.rows():
        take(number, ids)
        free = int((ids == FREE).sum())
        if vectors.free_rows(number) != free:
            yield f"{vectors.space.name}: vector block {number} has {free} free rows, and another number is recorded"
        blocks += 1 if free else 0
    if blocks != state.lmdb.count(vectors.space.free_rows):
        yield f"{vectors.space.name}: free rows are recorded for vector blocks that have none"


def check_derived(state: State, documents: Collection[int]) -> Iterator[str]:
    """What is wrong with the parts of documents and their vectors; ``documents`` are all that are stored."""
    for derivation in derivations():
        parts, name = state.derived_parts(derivation.name), derivation.name
        used: list[int] = []
        yield from check_blocks(state, parts.vectors, partial(_count, used))
        kept = texts = 0
        for document, (part, places) in parts.scan():
            kept += document in documents
            if document not in documents:
                yield f"{name}: something is kept of document {document}, which is not stored"
            if len(places) != len(texts_of(derivation, part, state.settings)):
                yield f"{name}: document {document} has {len(places)} vectors, and another number of texts"
            if parts.vectors.ids_at(places) != [vector_id(document, text) for text in range(len(places))]:
                yield f"{name}: the vectors of document {document} are not where it says"
            texts += len(places)
        if kept != len(documents):
            yield f"{name}: nothing is kept of {len(documents) - kept} documents"
        if texts != sum(used):
            yield f"{name}: {sum(used)} vectors are stored, the documents have {texts}"


def _count(used: list[int], _: int, ids: Ids) -> None:
    used.append(int((ids != FREE).sum()))
