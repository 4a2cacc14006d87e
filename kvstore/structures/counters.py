"""Counters and totals of a store: the next unused ids, and the sums that term weights are computed from. A write
transaction loads them once, changes them in place, and saves them before it commits.

On disk: one sealed msgpack map under ``counters`` in ``meta``. Ids only grow and are never reused. Totals go up and
down with the documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ..storage import records
from ..storage.environment import View, WriteView
from . import tables
from .documents.chunks import FIRST_UPPER_ABSTRACT, GROUP_SIZE

_KEY = b"counters"


@dataclass(slots=True)
class Counters:
    """The next ids (``next_*``), the change number, and totals over the stored documents. ``next_group`` is the id of
    the next leaf abstract, which determines the ids of its chunks. ``languages`` counts the documents by the name of
    their language ("" if unknown), only if the stemmer is ``multilingual``.

    ``next_upper`` is the id of the next upper abstract. ``words`` is the number of words of all chunks.
    ``introductions`` is the number of statements that make names known, and ``hits`` the number of lookups of names.
    Trees, nodes and edges belong to the entity forest.
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
    languages: dict[str, int] = field(default_factory=dict)

    @property
    def next_chunk(self) -> int:
        """An upper bound of chunk ids: every chunk has a smaller id. Each group of chunks has GROUP_SIZE ids."""
        return GROUP_SIZE * self.next_group

    @classmethod
    def load(cls, view: View) -> Counters:
        """Return the counters stored in ``view``, a snapshot or write transaction; new ones if the store is empty."""
        packed_counters = view.get(tables.META, _KEY)
        return cls() if packed_counters is None else cls(**records.unpack(packed_counters, tables.META, _KEY))

    def save(self, view: WriteView) -> None:
        """Store the counters (next ids and totals) in a write transaction."""
        # Earlier versions of kvstore cannot read a record with the counter of languages, so it is stored only if used.
        values = {name: getattr(self, name) for name in _NAMES if name != "languages" or self.languages}
        view.put(tables.META, _KEY, records.pack(values))

    def change_language_count(self, language: str, change: int) -> None:
        """Add ``change`` to the number of documents in a language; forget a language without documents."""
        self.languages[language] = self.languages.get(language, 0) + change
        if not self.languages[language]:
            del self.languages[language]


#: The names of the counters, in the order in which they are stored.
_NAMES = [field.name for field in fields(Counters)]
