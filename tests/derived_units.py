"""A system from outside that derives: the units of a document are its sentences, each with a vector; for tests only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvstore.extraction.extraction import Extracted
from kvstore.settings import FixedSettings
from kvstore.storage import records
from kvstore.storage.view import View, WriteView
from kvstore.structures.documents.documents import DocumentRecord
from kvstore.structures.logical import Logical
from kvstore.structures.state import State
from kvstore.systems.contract import Delta, DumpRow, LmdbTable, System


class Units:
    name = "units"
    version = 1

    def derive(self, document: Extracted, settings: FixedSettings) -> Any:
        sentences = (text.strip() for chunk in document.chunks for text in chunk.text.split("."))
        return {"texts": [f"{sentence}." for sentence in sentences if sentence]}

    def texts(self, part: Any) -> Sequence[str]:
        found: list[str] = part["texts"]
        return found


class UnitCounts:
    """How many units a document has: a structure that follows from the parts."""

    name = "unit_counts"
    version = 1
    tables = (LmdbTable("unit_counts"),)

    def read(self, state: State) -> View:
        return state.lmdb

    def follower(self, state: State, write: WriteView) -> UnitCountFollower:
        return UnitCountFollower(write)

    def dump(self, read: View, names: Logical) -> Mapping[str, Iterable[DumpRow]]:
        rows = read.scan("unit_counts")
        return {"unit_counts": ((names.document(int.from_bytes(key, "big")), bytes(value)) for key, value in rows)}

    def counts(self, read: View) -> Mapping[str, int]:
        return {"documents": read.count("unit_counts")}


class UnitCountFollower:
    def __init__(self, write: WriteView) -> None:
        self._write = write

    def leaving(self, record: DocumentRecord) -> None:
        self._write.delete("unit_counts", records.u64(record.id))

    def follow(self, delta: Delta) -> None:
        for added in delta.added:
            count = len(added.parts["units"]["texts"])
            self._write.put("unit_counts", records.u64(added.record.id), records.pack(count))


UNITS = System("units", "of no paper", structures=(UnitCounts(),), derivations=(Units(),))
