"""Relations: what a document says about which of two names stands under the other, and where it says so.

In: nothing; :class:`Relation` is what extraction gives and storage takes. Relations stated by data (pairs, nested
lists, headings) belong to the tree of their document, those found in prose to one tree of the whole store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..structures.forest.forest import DATA_KINDS, RELATIONS_TREE


@dataclass(frozen=True, slots=True)
class Relation:
    """That ``child`` stands under ``parent``, both as written; their normal forms differ.

    ``kind`` names the shape it was stated in, ``confidence`` lies between 0 and 1, and bytes ``start`` to ``end`` of
    the document's text are the sentence (or row) that states it.
    """

    child: str
    parent: str
    kind: str
    confidence: float
    start: int
    end: int

    def get_tree_name(self, key: str, meta: Mapping[str, Any]) -> str:
        """The tree it belongs to where the document of this key and metadata states it."""
        return get_own_tree_name(key, meta) if self.kind in DATA_KINDS else RELATIONS_TREE


def get_own_tree_name(key: str, meta: Mapping[str, Any]) -> str:
    """The name of a document's own tree: its ``get_tree_name`` metadatum, or else its key."""
    return str(meta.get("tree") or key)
