"""Relations: statements by a document that one name is the child of another, with the span of the statement.

In: nothing; extraction produces :class:`Relation` objects and storage consumes them. Relations from data (pairs, nested
lists, headings) belong to the tree of their document. Relations from prose belong to one tree of the whole store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..process.frozen_dataclass import frozen_dataclass
from ..structures.forest.forest import DATA_KINDS, RELATIONS_TREE


@frozen_dataclass
class Relation:
    """A statement that ``child`` is below ``parent`` in a hierarchy. Both are as written and differ in normal form.

    ``kind`` is the construction that states it, and ``confidence`` is between 0 and 1. Bytes ``start`` to ``end`` of
    the document's text are the sentence or row that states it.
    """

    child: str
    parent: str
    kind: str
    confidence: float
    start: int
    end: int

    def get_tree_name(self, key: str, meta: Mapping[str, Any]) -> str:
        """Return the name of the tree of the relation if the document with this key and metadata states it."""
        return get_own_tree_name(key, meta) if self.kind in DATA_KINDS else RELATIONS_TREE


def get_own_tree_name(key: str, meta: Mapping[str, Any]) -> str:
    """Return the name of a document's own tree: its metadata field ``tree``, or else its key."""
    return str(meta.get("tree") or key)
