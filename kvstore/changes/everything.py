"""Everything that the spine holds, as if it had just been put in: what a structure beside it follows from.

In: one state. Out: deltas that add up to it, each of a bounded number of chunks, names or edges, so that whoever
follows them needs memory for one of them at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ..structures.documents.documents import DocumentRecord
from ..structures.forest.edge_filter import ACCEPTED
from ..structures.state import State
from ..systems import SYSTEMS
from ..systems.contract import RELATION_LINK, Added, Delta, stored_chunks
from .facts import iter_document_facts

#: Chunks and bytes of their texts, and names or edges, of one delta at most (a document is never divided). What many
#: chunks name is written at each delta, so there had better be few.
_MAX_CHUNKS, _MAX_BYTES = 1 << 14, 1 << 25
_ITEMS = 1 << 16

Item = TypeVar("Item")


def everything(state: State, documents: Iterable[DocumentRecord]) -> Iterator[Delta]:
    """All of a state whose ``documents`` are given, in portions."""
    for names in portions(((entity, key) for key, entity in state.entities.names()), _ITEMS):
        yield Delta(names_added=dict(names))
    added: list[Added] = []
    chunks = size = 0
    read_parts = make_parts_reader(state)
    links: Counter[tuple[int, int, int]] = Counter()
    for record in documents:
        added.append(
            Added(
                record,
                state.documents.outline(record.id),
                stored_chunks(state, record.id, list(record.chunk_ids())),
                read_parts(record.id),
            )
        )
        for fact, value in iter_document_facts(state, record):
            links.update(fact.links(state, value))
        chunks += max(1, record.chunk_count)
        size += record.size
        if chunks >= _MAX_CHUNKS or size >= _MAX_BYTES:
            yield Delta(added, links=links)
            added, chunks, size, links = [], 0, 0, Counter()
    yield Delta(added, links=links)
    accepted = (edge for edge in state.forest.edges() if state.forest.verdict(*edge) == ACCEPTED)
    for edges in portions(accepted, _ITEMS):
        entity_pairs = ((state.forest.node(child).entity, state.forest.node(parent).entity) for child, parent in edges)
        yield Delta(
            links=Counter((child_entity, parent_entity, RELATION_LINK) for child_entity, parent_entity in entity_pairs)
        )


def make_parts_reader(state: State) -> Callable[[int], dict[str, Any]]:
    """What every store keeps derived of a stored document, by derivation: a function of its id."""
    derivations = [derivation for system in SYSTEMS.values() for derivation in system.derivations]
    parts = {one.name: state.derived_parts(one) for one in derivations}
    return lambda document: {name: of.get(document).part for name, of in parts.items()}


def portions(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """What is given, in lists of at most ``size``."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
