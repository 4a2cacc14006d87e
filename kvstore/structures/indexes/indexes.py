"""Which indexes a store has: a durable setting, while the index files themselves may be thrown away.

On disk: ``indexes`` (kind → options, and which files belong to this store's history). Out: the :class:`IndexRecord` of
a kind.

A file is trusted only while its token stands in the record: a copy of the store that was restored, or a file from
another store, would otherwise lead to chunks that are others by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...errors import CorruptionError
from ...storage import records
from ...storage.view import View, WriteView
from .. import tables
from .index import Index, IndexRecord

#: Tokens kept: of the file that is about to be renamed into place, and of the one that it replaces.
_MAX_TOKENS = 2


class Indexes:
    """The records of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, kind: Index) -> IndexRecord | None:
        """The index of a kind, or None where the store has none."""
        key = kind.name.encode()
        value = self._view.get(tables.INDEXES, key)
        if value is None:
            return IndexRecord(kind, created=False) if kind.automatic else None
        stored_record = records.unpack(value, tables.INDEXES, key)
        if stored_record is None:
            return None
        options, tokens, *extra_fields = stored_record
        return IndexRecord(kind, options, tuple(tokens), *extra_fields)


class IndexWriter(Indexes):
    """The records of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put(self, record: IndexRecord) -> None:
        """Say that the store has this index."""
        fields: list[object] = [dict(record.options), list(record.tokens), record.created, record.epoch]
        if record.state:
            fields.append(dict(record.state))
        self._write.put(tables.INDEXES, record.kind.name.encode(), records.pack(fields))

    def drop(self, kind: Index) -> None:
        """Say that the store does not have the index of this kind."""
        self._write.put(tables.INDEXES, kind.name.encode(), records.pack(None))

    def trust(self, record: IndexRecord, token: bytes) -> bool:
        """Let a file be trusted that was made by ``record``; False where the index is no longer that one."""
        stored_record = self.get(record.kind)
        if stored_record is None or replace(stored_record, tokens=record.tokens) != record:
            return False
        self.put(replace(stored_record, tokens=(token, *stored_record.tokens)[:_MAX_TOKENS]))
        return True

    def carry_over_all(self, old_indexes: Indexes, kinds: Iterable[Index]) -> Iterator[str]:
        """Take the indexes of the state before a rebuild over, each as its kind says.

        Yields a sentence for each whose record is damaged: it is as in a new store then.
        """
        for kind in kinds:
            try:
                record = old_indexes.get(kind)
            except CorruptionError as error:
                yield f"the options of the index {kind.name!r}: {error}; state them again with CREATE INDEX"
                continue
            new_record = None if record is None else kind.carry_over(record)
            if new_record is None:
                self.drop(kind)
            else:
                self.put(new_record)
