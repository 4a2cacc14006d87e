"""CHECK of vectors: the blocks of every space, and the presence of derived parts for each document. A *derivation*
computes a *part*, such as a list of sentences, from each document. A *space* has the vectors of all chunks, or of all
texts of one derivation; it is stored in *blocks* of rows.

In: a state. Out: a sentence for each violation. Derived parts, like names and relations, are not derived again to
compare them, because that would read every document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from ..arguments import format_count
from ..errors import CorruptionError, KvstoreError
from ..registry.derivation import StoredDerivation, list_stored_derivations
from ..structures.state import State
from ..structures.vectors.vectors import FREE_ID, Ids, Vectors
from .document_completion import read_chunked_text


def check_blocks(state: State, vectors: Vectors, visit_block: Callable[[int, Ids], object]) -> Iterator[str]:
    """Yield a sentence for each fault of the blocks of ``vectors``, the vectors of one space on disk.

    Calls ``visit_block`` with the id of each readable block and the ids of the vectors in its rows (``FREE_ID``: a free
    row).
    """
    num_partly_free = 0
    for block in vectors.scan_block_numbers():
        try:
            ids = vectors.get_row_ids(block)
        except CorruptionError as error:
            yield str(error)
            # The free rows of a damaged block cannot be counted, so the recorded number is used.
            num_partly_free += int(vectors.count_free_rows(block) > 0)
            continue
        visit_block(block, ids)
        num_free, num_recorded = int((ids == FREE_ID).sum()), vectors.count_free_rows(block)
        if num_recorded != num_free:
            counts = f"{format_count(num_free, 'free row')}, but {num_recorded} are recorded"
            yield f"{vectors.space.name}: vector block {block} has {counts}"
        num_partly_free += int(num_free > 0)
    if num_partly_free != state.lmdb.count(vectors.space.free_rows):
        yield f"{vectors.space.name}: free rows are recorded for vector blocks without free rows"


def check_derived(state: State, documents: Collection[int]) -> Iterator[str]:
    """Yield a sentence for each fault of the parts of all derivations, and of their vectors.

    ``documents`` are the ids of all stored documents.
    """
    for stored_derivation in list_stored_derivations(state.lmdb):
        yield from _check_derivation(state, stored_derivation, documents)


def _check_derivation(state: State, stored_derivation: StoredDerivation, documents: Collection[int]) -> Iterator[str]:
    """Yield a sentence for each fault of the parts of one derivation, and of the vectors of the texts in its parts.

    ``documents`` are the ids of all stored documents.
    """
    parts, name = state.get_derived_parts(stored_derivation.derivation), stored_derivation.name
    used_counts: list[int] = []  # the number of used rows of each block of vectors
    yield from check_blocks(state, parts.vectors, partial(_append_used_count, used_counts))
    num_parts = num_texts = 0
    for document, (part, vector_locations) in parts.scan():
        num_texts += len(vector_locations)  # each text has a vector
        if document not in documents:
            yield f"{name}: a part is stored for document {document}, which does not exist"
            continue
        if not parts.has_part_vectors(document, vector_locations):
            yield f"{name}: the vectors of document {document} are not at the locations in its part"
        if not stored_derivation.is_maintained:  # its index is being dropped, so its parts may be out of date
            continue
        if not stored_derivation.has_part(document):
            yield f"{name}: a part is stored for document {document}, which the index has not reached yet"
        num_parts += 1  # of documents that exist, to find documents without a part below
        yield from _check_part(state, stored_derivation, document, part, len(vector_locations))
    num_missing = sum(map(stored_derivation.has_part, documents)) - num_parts
    if num_missing > 0:
        yield f"{name}: {format_count(num_missing, 'document')} without a part"
    if num_texts != sum(used_counts):
        yield f"{name}: {sum(used_counts)} vectors are stored, but the parts have {num_texts} texts"


def _check_part(
    state: State, stored_derivation: StoredDerivation, document: int, part: Any, num_vectors: int
) -> Iterator[str]:
    """Yield a sentence for each fault of ``part``, which must follow from the text of the document with this id.

    Also yields a fault if ``num_vectors``, the number of stored vectors, differs from the number of texts in the part.
    """
    try:
        text = read_chunked_text(state, state.documents.get(document), stored_derivation.derivation.facts)
        faults = list(stored_derivation.derivation.find_faults(part, text))
        yield from (f"{stored_derivation.name}: document {document}: {fault}" for fault in faults)
        if not faults:
            num_texts = len(stored_derivation.list_texts(part, text, state.settings))
            if num_vectors != num_texts:
                counts = f"{format_count(num_vectors, 'vector')} but {format_count(num_texts, 'text')}"
                yield f"{stored_derivation.name}: document {document} has {counts}"
    except KvstoreError as error:  # the document itself is damaged, so its part cannot be checked
        yield f"{stored_derivation.name}: document {document}: {error}"


def _append_used_count(used_counts: list[int], _block: int, ids: Ids) -> None:
    """Append the number of used rows of a block to ``used_counts``; a callback of :func:`check_blocks`."""
    used_counts.append(int((ids != FREE_ID).sum()))
