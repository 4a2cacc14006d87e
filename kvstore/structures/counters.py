"""Counters and totals of a store: the next unused ids, and the sums that term weights are computed from.

On disk: one sealed msgpack map under ``counters`` in ``meta``. Ids only grow and are never reused. Totals go up and
down with the documents. A write transaction loads the counters once, changes them in place, and saves them before it
commits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..storage import records
from ..storage.environment import View, WriteView
from . import tables
from .documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE

_KEY = b"counters"


@dataclass(slots=True)
class Counters:
    """The next ids (``next_*``), the change number, and totals over the stored documents.

    ``next_group`` is the id of the next leaf abstract, which determines the ids of its chunks. ``next_upper`` is the id
    of the next upper abstract. ``words`` is the number of words of all chunks. ``hits`` is the sum of the temperatures
    of all names.
    """

    change: int = 0
    next_document: int = 1
    next_group: int = 1
    next_upper: int = FIRST_UPPER_ABSTRACT
    next_entity: int = 1
    next_tree: int = 1
    next_node: int = 1
    next_vector_block: int = 1
    documents: int = 0
    chunks: int = 0
    words: int = 0
    text_bytes: int = 0
    abstracts: int = 0
    entities: int = 0
    introductions: int = 0
    edges: int = 0
    hits: int = 0

    @property
    def next_chunk(self) -> int:
        """An upper bound of chunk ids: every chunk has a smaller id."""
        return GROUP_SIZE * self.next_group

    @classmethod
    def load(cls, view: View) -> Counters:
        """Return the stored counters, or those of an empty store."""
        packed = view.get(tables.META, _KEY)
        return cls() if packed is None else cls(**records.unpack(packed, tables.META, _KEY))

    def save(self, view: WriteView) -> None:
        """Write the counters to a write transaction."""
        view.put(tables.META, _KEY, records.pack(asdict(self)))
