"""Logical names for internal ids: keys and ordinals, which are the same in two stores of the same documents. The
*logical dump*, a text form of a store's content by which tests compare stores, has them instead of ids.

In: ids of one state. Out: their names.
"""

from __future__ import annotations

from typing import Any

from .documents.chunks import FIRST_UPPER_ABSTRACT
from .documents.documents import DocumentRecord
from .filter import addresses
from .forest.forest import USER
from .state import State

#: The logical name of an id: text, or a tuple of text and numbers.
LogicalName = Any


class LogicalNames:
    """Names for the internal ids of one state, made of keys and ordinals, so that equal stores have equal names."""

    def __init__(self, state: State, documents: dict[int, DocumentRecord]) -> None:
        """Create the map from ids in ``state`` to names; ``documents`` has the records of all documents, by id."""
        self._state = state
        self._documents = documents

    def name_entity(self, entity: int, /) -> LogicalName:
        """Return the normal form of an entity's name."""
        return self._state.entities.get(entity).key

    def name_document(self, document: int, /) -> LogicalName:
        """Return the key of a document; empty for ``USER``, the pseudo-document of facts that the user added."""
        return "" if document == USER else self._documents[document].key

    def name_chunk(self, chunk: int, /) -> LogicalName:
        """Return the document key and the ordinal of a chunk."""
        record = self._state.chunks.get(chunk)
        return self._documents[record.document].key, record.ordinal

    def name_abstract(self, abstract: int, /) -> LogicalName:
        """Return an abstract's document key, "leaf" or "upper", and its position in the document among that kind.

        An abstract is a summary of chunks (leaf) or of other abstracts (upper).
        """
        record = self._documents[self._state.abstracts.get(abstract).document]
        if abstract < FIRST_UPPER_ABSTRACT:
            return record.key, "leaf", abstract - record.first_group
        return record.key, "upper", record.uppers.index(abstract)

    def name_node(self, node: int, /) -> LogicalName:
        """Return the name of a node's tree and the normal form of its entity."""
        tree_node = self._state.forest.get_node(node)
        return self._state.forest.get_tree_name(tree_node.tree), self.name_entity(tree_node.entity)

    def name_address(self, address: int, /) -> LogicalName:
        """Return the rank of an address, followed by the name of the place that it leads to, without ids.

        An address is a place where an entity occurs, packed into an integer. The place is a node of the forest (tree
        and entity) if the rank is ``NODE_RANK``, and otherwise an abstract (document key, level and position).
        """
        rank, target = addresses.split_address(address)
        target_name = self.name_node(target) if rank == addresses.NODE_RANK else self.name_abstract(target)
        return (rank, *target_name)


class InternalNames(LogicalNames):
    """The internal ids themselves, used to compare rows of one store."""

    def __init__(self) -> None:
        """Create the names, which are the internal ids themselves and need no state."""

    def _return_id(self, id: int, /) -> LogicalName:
        """Return an id unchanged, as the name of the object with this id."""
        return id

    name_entity = name_document = name_chunk = name_abstract = name_node = name_address = _return_id
