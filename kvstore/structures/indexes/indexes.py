"""The records of a store's indexes: durable settings, while the index files themselves can be deleted.

On disk: ``indexes`` (kind → options, and the tokens of the files that belong to this store's history). Out: the
:class:`IndexRecord` of a kind.

A file is trusted only while the record contains its token. Otherwise, a file of another store, or of a store restored
from a backup, would lead to wrong chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...errors import CorruptionError
from ...storage import records
from .. import tables
from .index import Index, IndexRecord

#: The number of tokens kept: of the file about to be renamed into place, and of the one it replaces.
_MAX_TOKENS = 2


class Indexes(tables.ViewReader):
    """The index records of one view."""

    def get(self, kind: Index) -> IndexRecord | None:
        """Return the record of an index kind, or None if the store has no such index.

        An automatic kind without a stored record has a default record.
        """
        key = kind.name.encode()
        value = self._view.get(tables.INDEXES, key)
        if value is None:
            return IndexRecord(kind, created=False) if kind.automatic else None
        stored_record = records.unpack(value, tables.INDEXES, key)
        if stored_record is None:
            return None
        options, tokens, *extra_fields = stored_record
        return IndexRecord(kind, options, tuple(tokens), *extra_fields)


class IndexWriter(tables.ViewWriter, Indexes):
    """The index records of one write transaction."""

    def put(self, record: IndexRecord) -> None:
        """Store the record of an index."""
        fields: list[object] = [dict(record.options), list(record.tokens), record.created, record.epoch]
        if record.state:
            fields.append(dict(record.state))
        self._write_view.put(tables.INDEXES, record.kind.name.encode(), records.pack(fields))

    def drop(self, kind: Index) -> None:
        """Record that the store does not have the index of this kind."""
        self._write_view.put(tables.INDEXES, kind.name.encode(), records.pack(None))

    def add_trusted_token(self, record: IndexRecord, token: bytes) -> bool:
        """Add the token that identifies a file built for ``record`` to the stored record, and return True.

        Returns False without a change if the index was dropped or created again since.
        """
        stored_record = self.get(record.kind)
        if stored_record is None or replace(stored_record, tokens=record.tokens) != record:
            return False
        self.put(replace(stored_record, tokens=(token, *stored_record.tokens)[:_MAX_TOKENS]))
        return True

    def carry_over_all(self, old_indexes: Indexes, kinds: Iterable[Index]) -> Iterator[str]:
        """Copy the index records of the state before a rebuild, changed as each kind defines (``carry_over``).

        Yields a sentence for each damaged record, which is not copied: the index is then as in a new store.
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
