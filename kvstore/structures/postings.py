"""Postings: which chunks contain a term, how often, and how long the chunk is.

In: term counts of chunks. On disk: ``postings``, key = the term's bytes, 0x00, first chunk id; value = a sealed block
of up to 256 postings in order of their chunk ids, packed by the kernel. Counts are stored, weights computed at query
time, since rarity changes with every document. Blocks of a term never overlap. Damage is a CorruptionError.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.postings import PostingChanges, count_postings, unpack_postings

from ..errors import CorruptionError
from ..storage import records
from ..storage.environment import View, WriteView
from ..storage.view import Record
from . import tables

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


class PostingWriter(Postings):
    """The postings of one write transaction; changes are gathered by term and written by :meth:`flush`."""

    def __init__(self, view: WriteView) -> None:
        super().__init__(view)
        self._write = view
        self._changes = PostingChanges(FULL)

    def add(self, chunk: int, counts: Mapping[str, int], length: int) -> None:
        """Add a chunk that has no postings yet: how often it has each term, and its length in words.

        Its id is larger than any before it.
        """
        self._changes.add(chunk, counts, length)

    def remove(self, chunk: int, terms: Iterable[str]) -> None:
        """Remove a chunk's postings; ``terms`` are those it was added with."""
        self._changes.remove(chunk, terms)

    def get(self, term: str) -> TermPostings:
        self.flush()
        return super().get(term)

    def flush(self) -> None:
        """Write what was gathered: by term, removals first, then additions, each block once."""
        every = self._changes.terms()
        for first in range(0, len(every), _PORTION):
            terms = every[first : first + _PORTION]
            prefixes = [term_bytes(term) for term in terms]
            stops = [prefix + _END for prefix in prefixes]
            while terms:
                written: dict[bytes, bytes | None] = {}
                blocks = self._view.last_many(tables.POSTINGS, list(zip(prefixes, stops, strict=True)))
                try:
                    terms, prefixes, stops = self._changes.change(terms, prefixes, blocks, written)
                except ValueError as error:
                    raise CorruptionError(f"table {tables.POSTINGS}: {error}; run CHECK") from error
                self._write.change_many(tables.POSTINGS, written)
        self._changes.clear()
