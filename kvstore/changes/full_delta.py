"""The whole content of a state as *deltas*, as if it had just been added. A delta describes changes of documents, names
and links between entities. From it, derived structures, such as the passage graph, are updated.

In: one state. Out: deltas that add up to it, each with a bounded number of chunks, names or edges, so that a maintainer
needs memory for only one delta at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ..registry import list_systems_with_own_derivations
from ..registry.contract import RELATION_LINK, AddedDocument, Delta, load_added_chunks
from ..structures.documents.documents import DocumentRecord
from ..structures.forest.edge_filter import ACCEPTED
from ..structures.state import State
from ..text.languages import MAX_EXAMINED_BYTES, find_document_language
from .facts import iter_document_facts

#: The maximum numbers of chunks, text bytes, and names or edges in one delta. A document is never divided. Deltas are
#: large, because the rows of a frequent name are written once per delta.
_MAX_CHUNKS, _MAX_BYTES = 1 << 14, 1 << 25
_MAX_ITEMS = 1 << 16

Item = TypeVar("Item")


def iter_full_deltas(state: State, documents: Iterable[DocumentRecord]) -> Iterator[Delta]:
    """Yield the whole content of a state, with these ``documents``, as deltas: changes to empty derived structures.

    Each delta is limited in size. Together they have all names, documents, and links of facts and accepted edges.
    """
    for names in iter_batches(((entity, key) for key, entity in state.entities.iter_names()), _MAX_ITEMS):
        yield Delta(names_added=dict(names))
    yield from _iter_document_deltas(state, documents)
    accepted_edges = (edge for edge in state.forest.iter_edges() if state.forest.get_edge_status(*edge) == ACCEPTED)
    for edges in iter_batches(accepted_edges, _MAX_ITEMS):
        entity_pairs = (
            (state.forest.get_node(child).entity, state.forest.get_node(parent).entity) for child, parent in edges
        )
        yield Delta(
            links=Counter((child_entity, parent_entity, RELATION_LINK) for child_entity, parent_entity in entity_pairs)
        )


def _iter_document_deltas(state: State, documents: Iterable[DocumentRecord]) -> Iterator[Delta]:
    """Yield the documents as new ones, with the links that facts about them assert, as deltas of limited size."""
    new_documents: list[AddedDocument] = []
    num_chunks = num_bytes = 0
    read_parts = make_parts_reader(state)
    links: Counter[tuple[int, int, int]] = Counter()
    for record in documents:
        text_start = state.documents.read_text_start(record.id, MAX_EXAMINED_BYTES)
        new_documents.append(
            AddedDocument(
                record,
                state.documents.get_sections(record.id),
                chunks=load_added_chunks(state, record.id, list(record.chunk_ids())),
                parts=read_parts(record.id),
                language=find_document_language(record.meta, text_start),
            )
        )
        for fact, _, value in iter_document_facts(state, record):
            links.update(fact.list_links(state, value))
        num_chunks += max(1, record.chunk_count)
        num_bytes += record.size
        if num_chunks >= _MAX_CHUNKS or num_bytes >= _MAX_BYTES:
            yield Delta(new_documents, links=links)
            new_documents, num_chunks, num_bytes, links = [], 0, 0, Counter()
    yield Delta(new_documents, links=links)


def make_parts_reader(state: State) -> Callable[[int], dict[str, Any]]:
    """Return a function that takes the id of a document, and returns its derived parts by name of the derivation.

    A part is what a derivation computes from one document, such as a list of sentences. Only derivations that every
    store maintains are included, not derivations of indexes.
    """
    derivations = [derivation for system in list_systems_with_own_derivations() for derivation in system.derivations]
    parts_by_derivation = {derivation.name: state.get_derived_parts(derivation) for derivation in derivations}
    return lambda document: {
        name: stored_parts.get(document).part for name, stored_parts in parts_by_derivation.items()
    }


def iter_batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of at most ``size``."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
