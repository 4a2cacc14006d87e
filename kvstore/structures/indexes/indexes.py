"""Which indexes a store has: a durable setting, while the index files themselves may be thrown away.

On disk: ``indexes`` (kind → options, and which files belong to this store's history). Out: :class:`IndexRecord`. A kind
that does not exist and an option that it does not have are InputErrors that name the nearest or the range.

A file is trusted only while its token stands in the record: a copy of the store that was restored, or a file from
another store, would otherwise lead to chunks that are others by now.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import CorruptionError, InputError
from ...storage import records, tables
from ...storage.view import View, WriteView

VECTORS = "vectors"
SYNONYMS = "synonyms"

#: Tokens kept: of the file that is about to be renamed into place, and of the one that it replaces.
_TOKENS = 2


@dataclass(frozen=True, slots=True)
class IndexOption:
    """An option of a kind of index: its default, its least and greatest value, and what it does."""

    default: float
    low: float
    high: float
    description: str


_GRAPH = {
    "m": IndexOption(16, 4, 100, "links that a vector has in a layer of the graph; twice as many in the lowest"),
    "ef_construction": IndexOption(200, 8, 2000, "candidates looked at for the links of a new vector"),
}

#: The options of every kind.
KINDS: Mapping[str, Mapping[str, IndexOption]] = {
    VECTORS: {
        "exact_below": IndexOption(20_000, 0, 1e9, "with fewer chunks every one is compared, and there is no file"),
        "extend_after": IndexOption(5_000, 1, 1e9, "chunks that may be new before they are added in the background"),
        "ef_search": IndexOption(400, 10, 10_000, "candidates kept during a search; more find more, and take longer"),
        **_GRAPH,
    },
    SYNONYMS: {
        "similarity": IndexOption(0.8, 0.3, 1, "cosine from which two names are synonyms"),
        "neighbours": IndexOption(32, 1, 1000, "synonyms kept of a name at most, the nearest"),
        **_GRAPH,
    },
}


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """An index that a store has; ``options`` are those that were given, ``tokens`` those of files to be trusted.

    ``epoch`` grows when chunks or entities are numbered anew, after which no older file means anything.
    """

    kind: str
    options: Mapping[str, float] = field(default_factory=dict)
    tokens: tuple[bytes, ...] = ()
    created: bool = True
    epoch: int = 0

    def option(self, name: str) -> float:
        """The value of an option, given or not."""
        return self.options.get(name, KINDS[self.kind][name].default)

    def count(self, name: str) -> int:
        """The value of an option that is a whole number."""
        return int(self.option(name))


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How an index stands: ``built`` is the change number it has seen, ``stale`` how many it lags behind."""

    kind: str
    state: str
    built: int
    stale: int
    detail: str = ""


class Indexes:
    """The records of one view. Every store has the index ``vectors`` until it is dropped."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, kind: str) -> IndexRecord | None:
        """The index of a kind, or None where the store has none."""
        key = kind.encode()
        value = self._view.get(tables.INDEXES, key)
        if value is None:
            return IndexRecord(kind, created=False) if kind == VECTORS else None
        stored = records.unpack(value, tables.INDEXES, key)
        if stored is None:
            return None
        options, tokens, *rest = stored
        return IndexRecord(kind, options, tuple(tokens), *rest)

    def all(self) -> list[IndexRecord]:
        """The indexes of the store, by kind."""
        return [record for kind in KINDS if (record := self.get(kind)) is not None]


class IndexWriter(Indexes):
    """The records of one write transaction."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view

    def put(self, record: IndexRecord) -> None:
        """Say that the store has this index."""
        stored = [dict(record.options), list(record.tokens), record.created, record.epoch]
        self._write.put(tables.INDEXES, record.kind.encode(), records.pack(stored))

    def drop(self, kind: str) -> None:
        """Say that the store does not have the index of this kind."""
        self._write.put(tables.INDEXES, kind.encode(), records.pack(None))

    def trust(self, record: IndexRecord, token: bytes) -> bool:
        """Let a file be trusted that was made by ``record``; False where the index is no longer that one."""
        stored = self.get(record.kind)
        if stored is None or replace(stored, tokens=record.tokens) != record:
            return False
        self.put(replace(stored, tokens=(token, *stored.tokens)[:_TOKENS]))
        return True

    def carry_over(self, before: Indexes) -> Iterator[str]:
        """Take the indexes of the state before a rebuild over, in a new epoch: no file of it shall be used again.

        Yields a sentence for each whose record is damaged: it is as in a new store then.
        """
        for kind in KINDS:
            try:
                record = before.get(kind)
            except CorruptionError as error:
                yield f"the options of the index {kind!r}: {error}; state them again with CREATE INDEX"
                continue
            if record is None:
                self.drop(kind)
            else:
                self.put(replace(record, tokens=(), epoch=record.epoch + 1))


def graph_options(record: IndexRecord) -> dict[str, int]:
    """The options that a graph is built with, after which it cannot have others."""
    return {name: record.count(name) for name in _GRAPH}


def kind_named(name: str) -> str:
    """The kind of this name, in any case; raises InputError suggesting the nearest."""
    kind = name.lower()
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"there is no index of kind {name!r}; {hint}there are {', '.join(KINDS)}")
    return kind


def checked_options(kind: str, options: Mapping[str, Any]) -> dict[str, float]:
    """Options as numbers; raises InputError for one that the kind does not have, or out of range."""
    known = KINDS[kind]
    checked = {}
    for name, value in options.items():
        option = known.get(str(name).lower())
        if option is None:
            near = difflib.get_close_matches(str(name).lower(), known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"index {kind} has no option {name!r}{hint}; it has: {', '.join(known)}")
        whole = isinstance(option.default, int)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or (whole and value % 1 != 0):
            raise InputError(f"index {kind}: option {name} is a {'whole ' if whole else ''}number, not {value!r}")
        if not option.low <= value <= option.high:
            limits = f"{option.low:g} and {option.high:g}"
            raise InputError(f"index {kind}: option {name} lies between {limits}, not {value!r}")
        checked[name.lower()] = int(value) if whole else float(value)
    return checked
