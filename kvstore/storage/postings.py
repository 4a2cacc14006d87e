"""Postings: which chunks contain a term, how often, and how long the chunk is.

In: term counts of chunks. On disk: ``postings``, key = the term's bytes, 0x00, first chunk id; value = a sealed block
of up to 256 postings in order of their chunk ids, packed by the kernel. Counts are stored, weights computed at query
time, since rarity changes with every document. Blocks of a term never overlap. Damage is a CorruptionError.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.compact import change_postings, count_postings, unpack_postings

from ..errors import CorruptionError
from . import records, tables
from .environment import View, WriteView
from .view import Record

#: Postings of a full block; a block is split in halves beyond it.
FULL = 256
_LONGEST_TERM = 200
#: Terms whose blocks are changed at once.
_PORTION = 1024
#: Above the first chunk of every block.
_END = b"\xff" * 9


class TermPostings(NamedTuple):
    """Postings in order of chunk ids; three arrays of one length."""

    chunks: npt.NDArray[np.uint64]
    frequencies: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.uint16]

    def choose(self, which: slice | npt.NDArray[np.bool_]) -> TermPostings:
        """Some of the postings, in order."""
        return TermPostings(self.chunks[which], self.frequencies[which], self.lengths[which])


def term_bytes(term: str) -> bytes:
    """The key prefix of a term; a long one is cut and told apart by a digest."""
    plain = term.encode()
    if len(plain) > _LONGEST_TERM:
        plain = plain[:_LONGEST_TERM] + hashlib.blake2b(plain, digest_size=16).hexdigest().encode()
    return plain + b"\x00"


def _decode(key: bytes, value: memoryview) -> TermPostings:
    payload = records.unseal(value, tables.POSTINGS, key)
    try:
        chunks, frequencies, lengths = unpack_postings(_first(key), payload)
    except ValueError as error:
        raise CorruptionError(f"table {tables.POSTINGS}, key {key.hex()}: {error}; run CHECK") from error
    return TermPostings(
        np.frombuffer(chunks, np.uint64), np.frombuffer(frequencies, np.uint8), np.frombuffer(lengths, np.uint16)
    )


def _first(key: bytes) -> int:
    return int(records.U64.unpack_from(key, len(key) - records.U64.size)[0])


def _join(parts: list[TermPostings]) -> TermPostings:
    if not parts:
        return TermPostings(np.empty(0, np.uint64), np.empty(0, np.uint8), np.empty(0, np.uint16))
    if len(parts) == 1:
        return parts[0]
    return TermPostings(
        np.concatenate([part.chunks for part in parts]),
        np.concatenate([part.frequencies for part in parts]),
        np.concatenate([part.lengths for part in parts]),
    )


class Postings:
    """The postings of one view."""

    def __init__(self, view: View) -> None:
        self._view = view

    def get(self, term: str) -> TermPostings:
        """All postings of a term; empty where it does not occur."""
        prefix = term_bytes(term)
        return _join([_decode(key, value) for key, value in self._blocks(prefix)])

    @property
    def empty(self) -> bool:
        """Whether no text is stored."""
        return next(self._view.scan(tables.POSTINGS), None) is None

    def count(self, term: str) -> int:
        """In how many chunks a term occurs; each block says how many it holds."""
        return sum(
            count_postings(records.unseal(value, tables.POSTINGS, key)) for key, value in self._blocks(term_bytes(term))
        )

    def scan(self) -> Iterator[tuple[bytes, TermPostings]]:
        """All blocks in order of their keys: the term's bytes (see :func:`term_bytes`) and its postings."""
        for key, value in self._view.scan(tables.POSTINGS):
            yield key[:-9], _decode(key, value)

    def _blocks(self, prefix: bytes) -> Iterator[Record]:
        return self._view.scan(tables.POSTINGS, prefix, prefix[:-1] + b"\x01")


class _Change(NamedTuple):
    """What is to be changed of a term's blocks whose first chunk is below ``reach``: chunks that go and postings that
    come behind all there are, both ascending."""

    prefix: bytes
    reach: bytes
    gone: list[int]
    added: list[tuple[int, int, int]]


#: Of one chunk: term → how often, and the chunk's length in words.
TermCounts = Mapping[str, int]


class PostingWriter(Postings):
    """The postings of one write transaction; changes are gathered by term and written by :meth:`flush`."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view
        self._added: dict[str, list[tuple[int, int, int]]] = {}
        self._removed: dict[str, list[int]] = {}

    def add(self, chunk: int, counts: TermCounts, length: int) -> None:
        """Add a chunk that has no postings yet; its id is larger than any before it."""
        for term, count in counts.items():
            self._added.setdefault(term, []).append((chunk, min(count, 255), min(length, 65535)))

    def remove(self, chunk: int, terms: Set[str]) -> None:
        """Remove a chunk's postings; ``terms`` are those it was added with."""
        for term in terms:
            self._removed.setdefault(term, []).append(chunk)

    def get(self, term: str) -> TermPostings:
        self.flush()
        return super().get(term)

    def flush(self) -> None:
        """Write what was gathered: by term, removals first, then additions, each block once."""
        terms = sorted(self._removed.keys() | self._added.keys())
        for first in range(0, len(terms), _PORTION):
            changes = [
                _Change(term_bytes(term), _END, sorted(self._removed.get(term, ())), sorted(self._added.get(term, ())))
                for term in terms[first : first + _PORTION]
            ]
            while changes:
                changes = self._change_last(changes)
        self._added.clear()
        self._removed.clear()

    def _change_last(self, changes: list[_Change]) -> list[_Change]:
        """Change the last block of each term that is in reach; returns what is to be changed before it."""
        further: list[_Change] = []
        written: dict[bytes, bytes | None] = {}
        reached = self._view.last_many(tables.POSTINGS, [(prefix, prefix + reach) for prefix, reach, _, _ in changes])
        for (prefix, _, gone, added), found in zip(changes, reached, strict=True):
            first = payload = None
            here = 0
            if found is not None:
                first, payload = _first(found[0]), records.unseal(found[1], tables.POSTINGS, found[0])
                here = bisect_left(gone, first)
            blocks = change_postings(first, payload, gone[here:], added, FULL)
            if found is not None and (not blocks or blocks[0][0] != first):
                written[found[0]] = None
            for start, changed in blocks:
                if start != first or payload is None or changed != bytes(payload):
                    written[prefix + records.u64(start)] = records.seal(changed)
            if found is not None and here:
                further.append(_Change(prefix, records.u64(gone[here - 1]) + b"\x00", gone[:here], []))
        self._write.change_many(tables.POSTINGS, written)
        return further
