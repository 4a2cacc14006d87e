"""Systems from outside that derive: the phrases of a document are its sentences, each with a vector; for tests only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvstore.registry.contract import ChunkedText, Delta, Derivation, DumpRow, LmdbTable, System
from kvstore.settings import FixedSettings
from kvstore.storage import records
from kvstore.storage.view import View, WriteView
from kvstore.structures.documents.documents import DocumentRecord
from kvstore.structures.logical import LogicalNames
from kvstore.structures.state import State


class Phrases(Derivation):
    name = "phrases"
    version = 1

    def derive(self, document: ChunkedText, settings: FixedSettings, options: Mapping[str, Any]) -> Any:
        chunks = (document.get_chunk_text(chunk).decode() for chunk in range(len(document.chunks)))
        sentences = (text.strip() for chunk in chunks for text in chunk.split("."))
        return {"texts": [f"{sentence}." for sentence in sentences if sentence]}

    def list_texts(self, part: Any, document: ChunkedText) -> Sequence[str]:
        texts: list[str] = part["texts"]
        return texts


class PhraseCounts:
    """The number of phrases of each document: a structure computed from derived parts."""

    name = "phrase_counts"
    version = 1
    tables = (LmdbTable("phrase_counts"),)

    def read(self, state: State) -> View:
        return state.lmdb

    def make_maintainer(self, state: State, write: WriteView) -> PhraseCountFollower:
        return PhraseCountFollower(write)

    def dump(self, content: View, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        rows = content.scan("phrase_counts")
        return {
            "phrase_counts": ((names.name_document(int.from_bytes(key, "big")), bytes(value)) for key, value in rows)
        }

    def compute_statistics(self, content: View) -> Mapping[str, int]:
        return {"documents": content.count("phrase_counts")}


class PhraseCountFollower:
    def __init__(self, write: WriteView) -> None:
        self._write = write

    def remove_document(self, record: DocumentRecord) -> None:
        self._write.delete("phrase_counts", records.encode_u64(record.id))

    def apply_delta(self, delta: Delta) -> None:
        for added in delta.added:
            count = len(added.parts["phrases"]["texts"])
            self._write.put("phrase_counts", records.encode_u64(added.record.id), records.pack(count))


PHRASES = System("phrases", "of no paper", structures=(PhraseCounts(),), derivations=(Phrases(),))
