"""Postings: the chunks that contain a term, its frequency in each, and the length of each chunk. The postings of a term
are stored in *blocks* of up to 256, in order of chunk ids. The *size* of a term is the number of its postings and of
its blocks; it is stored only for a term with several blocks.

In: term counts of chunks. On disk: ``postings``, key = the term's bytes, 0x00, first chunk id; value = a sealed block,
packed by the kernel. Counts are stored and weights computed at query time, because the rarity of a term changes with
every document. Blocks of a term never overlap. ``term_counts``, key = the term's bytes, 0x00; value = the size of the
term, which gives its rarity without reading its blocks. Damage raises CorruptionError.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.postings import PostingChanges, count_postings, unpack_postings
from kvstore_cext.word_scores import select_chunks_with_postings

from ..errors import CorruptionError
from ..storage import records
from ..storage.environment import WriteView
from ..storage.view import Record, View, ViewReader, ViewWriter
from . import tables
from .decoded_data import DecodedData, EntryCache

#: The maximum number of postings in a block; a larger block is split in half.
MAX_BLOCK_POSTINGS = 256
_MAX_TERM_BYTES = 200
#: Terms whose blocks are changed at once.
_TERM_BATCH = 1024
#: A key suffix above the first chunk of every block.
_END = b"\xff" * 9
#: The bytes of a key after the term: 0x00 and the first chunk of the block.
_SUFFIX_BYTES = 9
#: Blocks that can be listed in the time of one search for the block of a chunk.
_BLOCKS_PER_SEEK = 4

Ids = npt.NDArray[np.uint64]


class TermPostings(NamedTuple):
    """Postings in order of chunk ids, as three arrays of equal length."""

    chunks: Ids
    frequencies: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.uint16]


def encode_term(term: str) -> bytes:
    """Return the key prefix of a term: its bytes and 0x00. The end of a long term is replaced by a digest."""
    key = term.encode()
    if len(key) > _MAX_TERM_BYTES:
        import hashlib  # imported here because it loads all of OpenSSL, and such terms are rare

        key = key[:_MAX_TERM_BYTES] + hashlib.blake2b(key, digest_size=16).hexdigest().encode()
    return key + b"\x00"


def _decode_block(key: bytes, value: memoryview) -> TermPostings:
    """Return the postings of a stored block; raise CorruptionError if it is damaged."""
    payload = records.unseal(value, tables.POSTINGS, key)
    try:
        first_chunk = int(records.U64.unpack_from(key, len(key) - records.U64.size)[0])
        chunks, frequencies, lengths = unpack_postings(first_chunk, payload)
    except ValueError as error:
        raise CorruptionError(f"table {tables.POSTINGS}, key {key.hex()}: {error}; run CHECK") from error
    return TermPostings(
        np.frombuffer(chunks, np.uint64), np.frombuffer(frequencies, np.uint8), np.frombuffer(lengths, np.uint16)
    )


class TermSize(NamedTuple):
    """The number of postings of a term, and the number of blocks they fill."""

    postings: int
    blocks: int


class Postings(ViewReader):
    """The postings of one view, a snapshot or a write transaction."""

    def __init__(self, view: View, shared_data: DecodedData | None = None) -> None:
        """Create a reader of posting lists in ``view``, a snapshot or write transaction.

        ``shared_data`` caches term sizes for all states of one commit; None caches nothing.
        """
        super().__init__(view)
        #: Shared with other states of the same commit; caches nothing if the postings of the view can change.
        self._size_cache: EntryCache[str, TermSize] = EntryCache(0) if shared_data is None else shared_data.term_sizes

    def get(self, term: str) -> TermPostings:
        """Return all postings of a term; empty if it does not occur."""
        blocks = list(self.iter_decoded_blocks(term))
        if not blocks:
            return TermPostings(np.empty(0, np.uint64), np.empty(0, np.uint8), np.empty(0, np.uint16))
        if len(blocks) == 1:
            return blocks[0]
        chunk_arrays, frequency_arrays, length_arrays = zip(*blocks, strict=True)
        return TermPostings(
            np.concatenate(chunk_arrays), np.concatenate(frequency_arrays), np.concatenate(length_arrays)
        )

    def iter_decoded_blocks(self, term: str) -> Iterator[TermPostings]:
        """Yield the postings of a term in order of chunk ids, one stored block of up to 256 postings at a time."""
        return (_decode_block(key, value) for key, value in self.get_blocks(term))

    def count_chunks_by_term(self, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of chunks that contain each term."""
        return {term: size.postings for term, size in zip(terms, self.get_sizes(terms), strict=True)}

    def get_sizes(self, terms: Sequence[str]) -> list[TermSize]:
        """Return the number of postings and blocks of each term.

        The size of a term with a single block is not stored; its postings are counted in the block.
        """
        sizes = self._size_cache.get_many(terms, self._read_sizes)
        return [sizes[term] for term in terms]

    def _read_sizes(self, terms: Sequence[str]) -> list[TermSize]:
        """Read the number of postings and blocks of each term; count them if they are not stored."""
        keys = [encode_term(term) for term in terms]
        stored_values = self._view.get_many(tables.TERM_COUNTS, keys)
        sizes = {
            key: TermSize(0, 0) if value is None else _decode_size(key, value)
            for key, value in zip(keys, stored_values, strict=True)
        }
        # A term without a stored size has at most one block. Its postings are counted in the block itself.
        unsized_keys = [key for key, size in sizes.items() if not size.blocks]
        for block_key, block in self._view.scan_prefixes(tables.POSTINGS, unsized_keys) if unsized_keys else ():
            key = block_key[: -records.U64.size]  # without the first chunk of the block
            num_postings, num_blocks = sizes[key]
            num_postings += count_postings(records.unseal(block, tables.POSTINGS, block_key))
            sizes[key] = TermSize(num_postings, num_blocks + 1)
        return [sizes[key] for key in keys]

    def find_chunks_with_terms(
        self,
        terms: Collection[str],
        known_sizes: Mapping[str, TermSize] | None = None,
        narrow: Callable[[Ids], Ids] | None = None,
    ) -> Ids:
        """Return the chunks that contain all of the terms, ascending; empty for no terms.

        All postings of the rarest term are read. For each further term, only the blocks that may contain a remaining
        chunk are read. ``known_sizes`` are the sizes of the terms (None: they are read). ``narrow`` filters the chunks
        of the rarest term before the other terms are read (None: no filter). Raises CorruptionError if a block is
        damaged.
        """
        unique_terms = list(dict.fromkeys(terms))
        sizes = (
            dict(zip(unique_terms, self.get_sizes(unique_terms), strict=True)) if known_sizes is None else known_sizes
        )
        if not unique_terms:
            return np.empty(0, np.uint64)
        rarest_term, *other_terms = sorted(unique_terms, key=lambda term: sizes[term].postings)
        if not sizes[rarest_term].postings:
            return np.empty(0, np.uint64)
        chunks = self.get(rarest_term).chunks
        if narrow is not None:
            chunks = narrow(chunks)
        for term in other_terms:
            if not len(chunks):
                break
            blocks = self.get_candidate_blocks(term, chunks, sizes[term])
            try:
                chunks = np.frombuffer(select_chunks_with_postings(chunks, blocks), np.uint64)
            except ValueError as error:
                raise make_corruption_error(error) from error
        return chunks

    def find_chunks_by_prefix(self, prefix: str) -> Ids:
        """Return the chunks with a term that begins with ``prefix``, ascending.

        For a prefix of more than ``_MAX_TERM_BYTES`` bytes, the result can include chunks with other terms.
        """
        # Keys have only the first bytes of a long term.
        blocks = self._view.scan_prefixes(tables.POSTINGS, [prefix.encode()[:_MAX_TERM_BYTES]])
        chunk_arrays = [_decode_block(key, value).chunks for key, value in blocks]
        return np.unique(np.concatenate(chunk_arrays)) if chunk_arrays else np.empty(0, np.uint64)

    def list_terms_with_prefix(self, prefix: str, limit: int) -> list[str]:
        """Return the first ``limit`` terms that begin with ``prefix``, in order of their bytes.

        Long terms are omitted, because their keys have only the first bytes.
        """
        terms: list[str] = []
        start = prefix.encode()
        while len(terms) < limit:
            record = next(self._view.scan(tables.POSTINGS, start, prefix.encode() + b"\xff"), None)
            if record is None:
                break
            term = record[0][:-_SUFFIX_BYTES]
            if len(term) <= _MAX_TERM_BYTES:
                terms.append(term.decode())
            start = term + b"\x01"  # after all blocks of the term
        return terms

    def get_blocks(self, term: str) -> list[Record]:
        """Return all blocks (of up to 256 postings) of a term, ascending: keys, and values with a checksum."""
        return self._view.scan_prefixes(tables.POSTINGS, [encode_term(term)])

    def get_candidate_blocks(self, term: str, chunks: Ids, size: TermSize) -> list[Record]:
        """Return the blocks of a term that may contain one of ``chunks`` (ascending): keys, and values with a checksum.

        A block has up to 256 postings. ``size`` has the number of blocks of the term; if they are few, all of them are
        returned, because listing them is faster than searching for some.
        """
        if size.blocks <= _BLOCKS_PER_SEEK * len(chunks):
            return self.get_blocks(term)
        prefix = encode_term(term)
        # A chunk can only be in the last block of the term that begins at or before it. A byte more makes the end of
        # the key range inclusive.
        blocks = self._view.get_last_many(
            tables.POSTINGS, [(prefix, prefix + records.encode_u64(chunk) + b"\0") for chunk in chunks.tolist()]
        )
        # Several chunks can lead to the same block.
        blocks_by_key = {block[0]: block for block in blocks if block is not None}
        return list(blocks_by_key.values())

    def has_term_between(self, first: str, last: str) -> bool:
        """True if any chunk has a term whose first character is in the range ``first`` to ``last`` (both included)."""
        stop = chr(ord(last) + 1).encode()
        return next(self._view.scan(tables.POSTINGS, first.encode(), stop), None) is not None

    def scan(self) -> Iterator[tuple[bytes, TermPostings]]:
        """Yield the postings in blocks, each with the bytes of its term, in order of the terms' bytes."""
        for key, value in self._view.scan(tables.POSTINGS):
            yield key[:-_SUFFIX_BYTES], _decode_block(key, value)

    def scan_sizes(self) -> Iterator[tuple[bytes, TermSize]]:
        """Yield the bytes of each term with several blocks, and its stored numbers of postings and blocks, by term."""
        for key, value in self._view.scan(tables.TERM_COUNTS):
            yield key[:-1], _decode_size(key, value)  # a key ends with 0x00


def make_corruption_error(error: ValueError) -> CorruptionError:
    """Return the exception for bytes that the compiled code cannot decode as a block of postings."""
    return CorruptionError(f"table {tables.POSTINGS}: {error}; run CHECK")


def _decode_size(key: bytes, value: memoryview) -> TermSize:
    """Decode the stored size of a term; raise CorruptionError if it is damaged."""
    try:
        postings, blocks = records.unpack(value, tables.TERM_COUNTS, key)
    except (TypeError, ValueError):
        raise CorruptionError(f"table {tables.TERM_COUNTS}, key {key.hex()}: not two numbers; run CHECK") from None
    return TermSize(postings, blocks)


class PostingWriter(ViewWriter, Postings):
    """The postings of one write transaction. Changes are collected by term, and :meth:`flush` writes them to the blocks
    of the terms. Reading a term writes its changes first.
    """

    def __init__(self, view: WriteView) -> None:
        """Create a writer of posting lists in ``view``, a write transaction; there are no collected changes yet."""
        super().__init__(view)
        self._changes = PostingChanges(MAX_BLOCK_POSTINGS)

    def add(self, chunk: int, counts: Mapping[str, int], length: int) -> None:
        """Collect the postings of a new chunk: the count of each of its terms, and its length in words.

        The id of the chunk must be larger than the id of any chunk added before.
        """
        self._changes.add(chunk, counts, length)

    def remove(self, chunk: int, terms: Iterable[str]) -> None:
        """Collect the removal of a chunk's postings; ``terms`` must be the terms that the chunk was added with."""
        self._changes.remove(chunk, terms)

    def get_sizes(self, terms: Sequence[str]) -> list[TermSize]:
        """Return the sizes of terms, after writing the collected changes of these terms."""
        self.flush(terms)
        return super().get_sizes(terms)

    def get_blocks(self, term: str) -> list[Record]:
        """Return all blocks (of up to 256 postings) of a term, after writing its collected changes."""
        self.flush([term])
        return super().get_blocks(term)

    def get_candidate_blocks(self, term: str, chunks: Ids, size: TermSize) -> list[Record]:
        """Return the blocks of a term that may contain one of ``chunks``, after writing its collected changes."""
        self.flush([term])
        return super().get_candidate_blocks(term, chunks, size)

    def find_chunks_by_prefix(self, prefix: str) -> Ids:
        """Return the chunks with a term that begins with ``prefix``, after writing all collected changes."""
        self.flush()
        return super().find_chunks_by_prefix(prefix)

    def list_terms_with_prefix(self, prefix: str, limit: int) -> list[str]:
        """Return the first ``limit`` terms that begin with ``prefix``, after writing all collected changes."""
        self.flush()
        return super().list_terms_with_prefix(prefix, limit)

    def flush(self, only_terms: Iterable[str] | None = None) -> None:
        """Write the collected changes of ``only_terms`` (None: all terms), each block of postings once.

        A replaced document and its new version share most terms. Collecting the changes of both writes each shared
        block once. Raises CorruptionError if a stored block is damaged.
        """
        changed_terms = self._changes.list_terms(only_terms)
        for start in range(0, len(changed_terms), _TERM_BATCH):
            batch = changed_terms[start : start + _TERM_BATCH]
            batch_keys = [encode_term(term) for term in batch]
            # Each pass changes one block of each term: the last one below its stop key. It adds the new blocks to
            # ``block_changes``, and returns the terms that also have changes in earlier blocks, with their stop keys.
            terms, prefixes, stops = batch, batch_keys, [key + _END for key in batch_keys]
            block_changes: dict[bytes, bytes | None] = {}
            while terms:
                blocks = self._view.get_last_many(tables.POSTINGS, list(zip(prefixes, stops, strict=True)))
                try:
                    terms, prefixes, stops = self._changes.change_blocks(terms, prefixes, blocks, block_changes)
                except ValueError as error:
                    raise make_corruption_error(error) from error
            self._write_view.change_many(tables.POSTINGS, block_changes)
            self._write_sizes(batch, batch_keys)
            self._changes.forget(batch)

    def _write_sizes(self, terms: Sequence[str], keys: Sequence[bytes]) -> None:
        """Update the stored sizes (numbers of postings and blocks) of changed terms, whose encoded forms are ``keys``.

        The size of a term with a single block is not stored, because its postings can be counted in the block.
        """
        # Most terms of a replaced document keep their sizes, because its new version has them too.
        changes_by_key = {
            key: change
            for key, change in zip(keys, self._changes.get_counts(terms), strict=True)
            if change[1] or change[2]
        }
        if not changes_by_key:
            return
        stored_values = self._view.get_many(tables.TERM_COUNTS, list(changes_by_key))
        changed_values: dict[bytes, bytes | None] = {}  # None: the stored size is removed
        for (key, change), value in zip(changes_by_key.items(), stored_values, strict=True):
            num_postings, added_postings, added_blocks = change  # the first number is of the last block only
            # Without a stored size, the term had one block if it had postings, otherwise none.
            num_blocks = min(num_postings, 1)
            if value is not None:
                num_postings, num_blocks = _decode_size(key, value)
            if num_blocks + added_blocks > 1:
                changed_values[key] = records.pack((num_postings + added_postings, num_blocks + added_blocks))
            elif value is not None:
                changed_values[key] = None
        self._write_view.change_many(tables.TERM_COUNTS, changed_values)
