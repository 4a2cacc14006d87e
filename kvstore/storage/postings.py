"""Postings: which chunks contain a term, how often, and how long the chunk is.

In: term counts of chunks. On disk: ``postings``, key = the term's bytes, 0x00, first chunk id; value = a sealed block
of up to 256 postings in order of their chunk ids. Counts are stored, weights computed at query time, since rarity
changes with every document. Blocks of a term never overlap. Damage is a CorruptionError.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from . import records, tables
from .environment import View, WriteView

#: Postings of a full block; a block is split in halves beyond it.
FULL = 256
_LONGEST_TERM = 200
_COUNT = struct.Struct("<H")
_POSTING = 4 + 2 + 1  # distance from the first chunk, chunk length, term frequency


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


def _encode(postings: TermPostings) -> bytes:
    chunks, frequencies, lengths = postings
    return records.seal(
        b"".join(
            (
                _COUNT.pack(len(chunks)),
                (chunks - chunks[0]).astype("<u4").tobytes(),
                lengths.astype("<u2").tobytes(),
                frequencies.tobytes(),
            )
        )
    )


def _decode(key: bytes | memoryview, value: memoryview | bytes) -> TermPostings:
    payload = records.unseal(value, tables.POSTINGS, bytes(key))
    (count,) = _COUNT.unpack_from(payload)
    if len(payload) != _COUNT.size + count * _POSTING:
        raise CorruptionError(f"table postings, key {bytes(key).hex()}: {count} postings announced; run CHECK")
    first = records.U64.unpack(bytes(key[-8:]))[0]
    chunks = np.frombuffer(payload, "<u4", count, 2).astype(np.uint64) + np.uint64(first)
    lengths = np.frombuffer(payload, "<u2", count, 2 + 4 * count).copy()
    return TermPostings(chunks, np.frombuffer(payload, np.uint8, count, 2 + 6 * count).copy(), lengths)


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
        return not self._view.count(tables.POSTINGS)

    def count(self, term: str) -> int:
        """In how many chunks a term occurs; blocks are counted by their size, not decoded."""
        fixed = _COUNT.size + records.CHECKSUM.size
        return sum((len(value) - fixed) // _POSTING for _, value in self._blocks(term_bytes(term)))

    def scan(self) -> Iterator[tuple[bytes, TermPostings]]:
        """All blocks in order of their keys: the term's bytes (see :func:`term_bytes`) and its postings."""
        for key, value in self._view.scan(tables.POSTINGS):
            yield bytes(key[:-9]), _decode(key, value)

    def _blocks(self, prefix: bytes) -> Iterator[tuple[bytes | memoryview, memoryview]]:
        return self._view.scan(tables.POSTINGS, prefix, prefix[:-1] + b"\x01")


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

    def flush(self) -> None:
        """Write what was gathered: removals first, then additions, each block once."""
        for term in sorted(self._removed):
            self._flush_removed(term_bytes(term), np.array(sorted(self._removed[term]), np.uint64))
        for term in sorted(self._added):
            rows = sorted(self._added[term])
            columns = [np.array(column) for column in zip(*rows, strict=True)]
            new = TermPostings(columns[0].astype(np.uint64), columns[1].astype(np.uint8), columns[2].astype(np.uint16))
            self._flush_added(term_bytes(term), new)
        self._added.clear()
        self._removed.clear()

    def _last_block_before(self, prefix: bytes, chunk: int) -> tuple[bytes, memoryview] | None:
        """The block of the term that ``chunk`` falls into or would be appended to."""
        stop = prefix + records.u64(chunk + 1)
        for key, value in self._view.scan(tables.POSTINGS, prefix, stop, reverse=True):
            return bytes(key), value
        return None

    def _flush_removed(self, prefix: bytes, chunks: npt.NDArray[np.uint64]) -> None:
        while len(chunks):
            found = self._last_block_before(prefix, int(chunks[-1]))
            if found is None:
                return
            key, value = found
            block = _decode(key, value)
            here = int(np.searchsorted(chunks, block.chunks[0]))
            places = np.searchsorted(block.chunks, chunks[here:]).clip(max=len(block.chunks) - 1)
            keep = np.ones(len(block.chunks), bool)
            keep[places[block.chunks[places] == chunks[here:]]] = False
            self._write.delete(tables.POSTINGS, key)
            if keep.any():
                self._put(prefix, block.choose(keep))
            chunks = chunks[:here]

    def _flush_added(self, prefix: bytes, new: TermPostings) -> None:
        found = self._last_block_before(prefix, int(new.chunks[0]))
        if found is not None:
            key, value = found
            last = _decode(key, value)
            reach = int(new.chunks[-1]) - int(last.chunks[0])
            if len(last.chunks) < FULL and reach < 2**32:
                new = _join([last, new])
        for start in range(0, len(new.chunks), FULL):
            self._put(prefix, new.choose(slice(start, start + FULL)))

    def _put(self, prefix: bytes, postings: TermPostings) -> None:
        self._write.put(tables.POSTINGS, prefix + records.u64(int(postings.chunks[0])), _encode(postings))
