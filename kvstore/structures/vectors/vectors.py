"""Vectors of one space, in blocks of rows: of chunks, or of data that a system derives from documents. The *location*
of a vector is a block number and a row. A deletion frees the row, and a later vector takes it. A *quantized* space
stores a vector as a *code* (one byte per component) and a scale.

In: unit vectors of the store's dimension, float32. On disk: two tables per space, for chunks ``vectors`` (block number
→ header, ids, matrix) and ``vector_space`` (block number → number of free rows). No row moves when another is freed.
The record that owns a vector stores its location. The components of a code are at most 127 in magnitude, and the scale
restores unit length; quantizing a vector again gives the same row. Out: the vectors at some locations, or all. A block
that fails its checksum or has a different dimension raises CorruptionError.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.msgpack_rows import compute_checksum
from kvstore_cext.row_products import compute_row_dots, compute_selected_row_dots
from kvstore_cext.vector_rows import gather_rows, read_used_rows

from ...errors import CorruptionError, InputError
from ...storage import records
from ...storage.environment import View, WriteView
from .. import tables
from .verified_blocks import VerifiedBlocks

#: The vector of one text, and those of several texts as rows.
Vector = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float32]
Ids = npt.NDArray[np.uint64]
#: Blocks and rows of vectors: pairs, or an array of shape (n, 2).
VectorLocations = Sequence[tuple[int, int]] | npt.NDArray[np.int64]

#: Encoding names of float32 and of quantized rows. Each changes whenever its layout does.
ENCODING, QUANTIZED_ENCODING = b"vec1", b"vecq"
_HEADER = struct.Struct("<4sIHHI")  # encoding, CRC-32 of all that follows it, rows, used, dimension
_FREE_COUNT_STRUCT = struct.Struct("<H")
_BODY_START = 8  # the start of the checksummed part
#: The maximum size of a block, the maximum of the 16-bit count of its rows, and the fraction of its pages to fill.
_MAX_BLOCK_PAGES, _MAX_BLOCK_ROWS, _SUFFICIENT_FILL = 64, 65535, 0.97
#: The id of a free row.
FREE_ID = 2**64 - 1
#: The number of blocks that are read between two checks of the mapped memory.
_READ_BATCH = 256


class VectorMove(NamedTuple):
    """The new location of a vector that was moved, with its id."""

    id: int
    block: int
    row: int


class VectorSpace(NamedTuple):
    """A set of vectors that are searched together, such as the vectors of chunks.

    ``blocks`` is the table of its vectors, and ``free_rows`` the table of the numbers of unused rows. A ``quantized``
    space stores one byte per component.
    """

    name: str
    blocks: str
    free_rows: str
    quantized: bool = False


CHUNK_VECTORS = VectorSpace("chunks", tables.VECTORS, tables.VECTOR_SPACE)


@cache  # every state asks for the shape of its store's vectors
def compute_block_shape(dimension: int, quantized: bool = False) -> tuple[int, int]:
    """Return (bytes, rows) of a block of vectors: its size, and the number of rows in it.

    A block has the smallest number of pages that its rows fill at least to the fraction ``_SUFFICIENT_FILL``. If there
    is no such number up to ``_MAX_BLOCK_PAGES``, the best-filled block is chosen. A row does not span blocks. Raises
    InputError if a vector does not fit into a block.
    """
    id_size, scale_size = 8, 4
    row_size = id_size + (scale_size + dimension if quantized else 4 * dimension)
    best_fraction, best_size, best_rows = 0.0, 0, 0
    for num_pages in range(1, _MAX_BLOCK_PAGES + 1):
        block_size = records.compute_max_value_size(num_pages)
        num_rows = min((block_size - _HEADER.size) // row_size, _MAX_BLOCK_ROWS)
        fill_fraction = num_rows * row_size / (num_pages * records.PAGE_SIZE)
        if fill_fraction >= _SUFFICIENT_FILL:
            return block_size, num_rows
        best_fraction, best_size, best_rows = max(
            (best_fraction, best_size, best_rows), (fill_fraction, block_size, num_rows)
        )
    if best_rows == 0:
        raise InputError(
            f"vectors of {dimension} dimensions do not fit into a block of {_MAX_BLOCK_PAGES} pages; use an embedder "
            "with fewer dimensions"
        )
    return best_size, best_rows


class _VectorBlock:
    """A block of float32 rows: a buffer, with its ids and its matrix as views of the buffer."""

    def __init__(self, buffer: bytearray | memoryview | bytes, dimension: int, rows: int) -> None:
        """View a buffer as a block: the header, then the ids of all rows, then their vectors."""
        self.buffer = buffer
        self.ids: Ids = np.frombuffer(buffer, "<u8", rows, _HEADER.size)
        self._matrix: Matrix = np.frombuffer(buffer, "<f4", rows * dimension, _HEADER.size + 8 * rows).reshape(
            rows, dimension
        )

    def get_vectors(self, rows: Any) -> Matrix:
        """Return the vectors of the rows that a slice, a mask or an array of positions selects."""
        vectors: Matrix = self._matrix[rows]
        return vectors

    def put(self, row: int, vector: npt.ArrayLike) -> None:
        """Store a vector in a row of the block; the caller sets its id."""
        self._matrix[row] = vector

    def clear(self, row: int) -> None:
        """Free a row, and zero its vector."""
        self.ids[row] = FREE_ID
        self._matrix[row] = 0


class _QuantizedBlock(_VectorBlock):
    """A block of quantized rows: a vector is ``codes · scale``, with the scale that gives it unit length."""

    def __init__(self, buffer: bytearray | memoryview | bytes, dimension: int, rows: int) -> None:
        """View a buffer as a block: the header, then the ids of all rows, then their scales, then their codes."""
        self.buffer = buffer
        self.ids = np.frombuffer(buffer, "<u8", rows, _HEADER.size)
        self._scales: Matrix = np.frombuffer(buffer, "<f4", rows, _HEADER.size + 8 * rows)
        codes = np.frombuffer(buffer, "i1", rows * dimension, _HEADER.size + 12 * rows)
        self._codes: npt.NDArray[np.int8] = codes.reshape(rows, dimension)

    def get_vectors(self, rows: Any) -> Matrix:
        """Return approximate vectors (codes times scales) of the rows that a slice, a mask or positions select."""
        vectors: Matrix = self._codes[rows] * self._scales[rows, None]
        return vectors

    def put(self, row: int, vector: npt.ArrayLike) -> None:
        """Store a vector in a row, as integers from -127 to 127 and a scale that restores length 1."""
        numbers = np.asarray(vector, np.float64)
        max_magnitude = max(float(np.abs(numbers).max()), 1e-30)  # not 0, because it is a divisor
        codes = np.rint(numbers * (127 / max_magnitude)).astype(np.int8)
        self._codes[row] = codes
        squared_length = int((codes.astype(np.int64) ** 2).sum())
        self._scales[row] = 0 if squared_length == 0 else 1 / np.sqrt(np.float64(squared_length))

    def clear(self, row: int) -> None:
        """Free a row, and zero its code and scale, so that blocks with equal contents have equal bytes."""
        self.ids[row] = FREE_ID
        self._scales[row] = 0
        self._codes[row] = 0


class Vectors:
    """The vectors of one space (such as the vectors of chunks) in one view, a snapshot or a write transaction.

    They are stored in blocks of rows; a location is a block and a row.
    """

    def __init__(
        self,
        view: View,
        dimension: int,
        space: VectorSpace = CHUNK_VECTORS,
        verified_blocks: VerifiedBlocks | None = None,
    ) -> None:
        """Create a reader of the vectors of ``space``, of ``dimension`` components each, in ``view``.

        ``view`` is a snapshot or a write transaction. A block in ``verified_blocks`` is not verified again; None: a
        block is verified at every read.
        """
        self._view = view
        self._verified_blocks = verified_blocks
        self.space = space
        self.dimension = dimension
        self._block_size, self._rows_per_block = compute_block_shape(dimension, space.quantized)
        self._encoding = QUANTIZED_ENCODING if space.quantized else ENCODING
        self._block_type = _QuantizedBlock if space.quantized else _VectorBlock
        #: For the compiled code: a block's size in bytes, its encoding, its number of rows, and True if rows are
        #: quantized.
        self._block_shape = self._block_size, self._encoding, self._rows_per_block, space.quantized

    def gather(self, locations: VectorLocations) -> Matrix:
        """Return the vectors at (block, row) locations, in that order; shape (n, dimension).

        Each block is read once, and verified if it was not verified before. Raises CorruptionError if a block is
        missing or damaged.
        """
        location_array = np.array(locations, np.int64).reshape(len(locations), 2)
        order = np.lexsort((location_array[:, 1], location_array[:, 0]))
        blocks, rows = location_array[order].T
        block_numbers, block_indexes = np.unique(blocks, return_inverse=True)
        stored_blocks = self._view.get_many(self.space.blocks, list(map(records.encode_u32, block_numbers.tolist())))
        checksums = self._get_verified_checksums(block_numbers)
        vectors = np.empty((len(locations), self.dimension), np.float32)
        # Fills ``vectors``, adds the checksums of verified blocks to ``checksums``, and stops at a damaged block.
        damaged_index = gather_rows(
            stored_blocks, *self._block_shape, checksums, block_indexes, np.ascontiguousarray(rows), order, vectors
        )
        if damaged_index >= 0:
            block_number = int(block_numbers[damaged_index])
            raise (
                self._make_missing_error(block_number)
                if stored_blocks[damaged_index] is None
                else self._make_damage_error(block_number)
            )
        if self._verified_blocks is not None:
            self._verified_blocks.put_many(block_numbers, checksums)
        return vectors

    def get_ids(self, locations: Sequence[tuple[int, int]]) -> list[int]:
        """Return the ids (of chunks or derived texts) of the vectors at (block, row) locations."""
        blocks = {block_number: self._get_block(block_number).ids for block_number, _ in locations}
        return [int(blocks[block_number][row]) for block_number, row in locations]

    def scan(self) -> Iterator[tuple[Ids, Matrix]]:
        """Yield the ids (n) and the vectors (n, dimension) of each block, in order of the blocks' numbers."""
        for key, value in self._view.scan(self.space.blocks):
            block = self._open_block(value, int(records.U32.unpack(key)[0]))
            is_used = block.ids != FREE_ID
            yield block.ids[is_used], block.get_vectors(is_used)

    def read_all(self) -> tuple[Ids, Matrix]:
        """Return the ids of all vectors, and the vectors as one matrix; each vector is copied once.

        Raises CorruptionError if a block is damaged.
        """
        max_rows = self._view.count(self.space.blocks) * self._rows_per_block
        ids, matrix, num_rows = np.empty(max_rows, np.uint64), np.empty((max_rows, self.dimension), np.float32), 0
        stored_blocks = self._view.scan(self.space.blocks)
        while batch := list(itertools.islice(stored_blocks, _READ_BATCH)):
            block_numbers = np.array([records.U32.unpack(key)[0] for key, _ in batch], np.int64)
            checksums = self._get_verified_checksums(block_numbers)
            # Fills the rest of ``ids`` and ``matrix``, and adds the checksums of verified blocks to ``checksums``.
            num_read, damaged_index = read_used_rows(
                [value for _, value in batch], *self._block_shape, checksums, ids[num_rows:], matrix[num_rows:]
            )
            if damaged_index >= 0:
                raise self._make_damage_error(int(block_numbers[damaged_index]))
            if self._verified_blocks is not None:
                self._verified_blocks.put_many(block_numbers, checksums)
            num_rows += num_read
        return ids[:num_rows], matrix[:num_rows]

    def scan_block_numbers(self) -> Iterator[int]:
        """Yield the number of every block of vectors."""
        for key, _ in self._view.scan(self.space.blocks):
            yield int(records.U32.unpack(key)[0])

    def get_row_ids(self, block_number: int) -> Ids:
        """Return the ids of all rows of a block, :data:`FREE_ID` for free rows.

        Raises CorruptionError if the block is missing or damaged.
        """
        return self._get_block(block_number).ids

    def count_vectors(self) -> int:
        """Return the number of vectors of the space, computed from the counts of free rows."""
        return self._rows_per_block * self._view.count(self.space.blocks) - self._count_all_free_rows()

    def _count_all_free_rows(self) -> int:
        """Return the number of rows of all blocks that are recorded as free."""
        return sum(int(_FREE_COUNT_STRUCT.unpack(value)[0]) for _, value in self._view.scan(self.space.free_rows))

    def count_free_rows(self, block_number: int) -> int:
        """Return the number of rows of a block that are recorded as free."""
        value = self._view.get(self.space.free_rows, records.encode_u32(block_number))
        return 0 if value is None else int(_FREE_COUNT_STRUCT.unpack(value)[0])

    def _get_verified_checksums(self, block_numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return for each block its checksum if it was verified before, with bit 32 set, and 0 otherwise.

        The bit distinguishes a checksum of 0 from a missing one. The compiled code expects this form.
        """
        if self._verified_blocks is None:
            return np.zeros(len(block_numbers), np.uint64)
        return self._verified_blocks.get_many(block_numbers)

    def _get_block(self, block_number: int) -> _VectorBlock:
        """Return a stored block of vectors; raise CorruptionError if it is missing or damaged."""
        value = self._view.get(self.space.blocks, records.encode_u32(block_number))
        if value is None:
            raise self._make_missing_error(block_number)
        return self._open_block(value, block_number)

    def _open_block(self, value: memoryview | bytes | bytearray, block_number: int) -> _VectorBlock:
        """Verify a stored block unless it was verified before, and decode it.

        Raises CorruptionError if it is damaged or of the wrong shape.
        """
        if len(value) == self._block_size:
            encoding, checksum, num_rows, _, dimension = _HEADER.unpack_from(value)
            if encoding == self._encoding and (num_rows, dimension) == (self._rows_per_block, self.dimension):
                is_verified = self._verified_blocks is not None and (block_number, checksum) in self._verified_blocks
                if is_verified or checksum == compute_checksum(memoryview(value)[_BODY_START:]):
                    if not is_verified and self._verified_blocks is not None:
                        self._verified_blocks.mark_verified(block_number, checksum)
                    return self._block_type(value, self.dimension, self._rows_per_block)
        raise self._make_damage_error(block_number)

    def _make_missing_error(self, block_number: int) -> CorruptionError:
        """Return the error for a vector block that is missing."""
        return records.make_missing_error(f"table {self.space.blocks}: vector block {block_number}")

    def _make_damage_error(self, block_number: int) -> CorruptionError:
        """Return the error for a vector block whose checksum or shape is wrong."""
        return CorruptionError(
            f"table {self.space.blocks}: vector block {block_number} is damaged; run CHECK REPAIR, or restore from a "
            "backup"
        )


class VectorWriter(Vectors):
    """The vectors of one space in one write transaction; changed blocks are private copies until :meth:`flush`."""

    def __init__(self, view: WriteView, dimension: int, space: VectorSpace = CHUNK_VECTORS) -> None:
        """Create a writer of the vectors of ``space``, with ``dimension`` components, in a write transaction."""
        super().__init__(view, dimension, space)
        self._write_view = view
        self._changed_blocks: dict[int, _VectorBlock] = {}  # by number
        #: The numbers of blocks with free rows, in reverse of the order in which they are filled; None: not listed yet.
        self._blocks_with_room: list[int] | None = None
        #: True if that list has the stored blocks with free rows, and not only the changed ones.
        self._has_stored_blocks = False

    def add(self, id: int, vector: npt.ArrayLike, next_block: int) -> tuple[int, int]:
        """Put the vector of an id into a free row of a block, and return the numbers of the block and the row.

        ``next_block`` is the number of the block to create if all are full. :meth:`flush` writes the block.
        """
        blocks_with_room = self._get_blocks_with_room()
        if not blocks_with_room:
            self._add_stored_blocks(blocks_with_room)
        if not blocks_with_room:
            buffer = bytearray(self._block_size)
            block = self._block_type(buffer, self.dimension, self._rows_per_block)
            block.ids[:] = FREE_ID
            self._changed_blocks[next_block] = block
            blocks_with_room.append(next_block)
        block_number = blocks_with_room[-1]
        block = self._get_private_block(block_number)
        free_rows = (block.ids == FREE_ID).nonzero()[0]
        row = int(free_rows[0])
        block.ids[row] = id
        block.put(row, vector)
        if len(free_rows) == 1:
            blocks_with_room.pop()
        return block_number, row

    def _get_blocks_with_room(self) -> list[int]:
        """Return the numbers of blocks with free rows; the last is filled first.

        The list starts with only the blocks that this transaction changed: their freed rows are usually enough, and
        listing all stored blocks is slow. :meth:`_add_stored_blocks` adds those.
        """
        if self._blocks_with_room is None:
            changed_blocks = self._changed_blocks.items()
            self._blocks_with_room = [number for number, block in changed_blocks if (block.ids == FREE_ID).any()]
            self._has_stored_blocks = False
        return self._blocks_with_room

    def _add_stored_blocks(self, blocks_with_room: list[int]) -> None:
        """Add the stored blocks with free rows to the list, once, in front, so that changed blocks are filled first."""
        if not self._has_stored_blocks:
            stored_blocks = [int(records.U32.unpack(key)[0]) for key, _ in self._view.scan(self.space.free_rows)]
            blocks_with_room[:0] = [number for number in reversed(stored_blocks) if number not in self._changed_blocks]
            self._has_stored_blocks = True

    def remove(self, block_number: int, row: int) -> None:
        """Remove the vector in a row of a block; a later vector can take the row."""
        if self._blocks_with_room is not None:
            self._add_stored_blocks(self._blocks_with_room)  # before this block is a changed one
        block = self._get_private_block(block_number)
        if self._blocks_with_room is not None and not (block.ids == FREE_ID).any():  # the block was full
            self._blocks_with_room.append(block_number)
        block.clear(row)

    def empty_last_blocks(self, max_blocks: int) -> list[VectorMove]:
        """Empty up to ``max_blocks`` of the last blocks by moving their vectors to free rows of earlier blocks.

        This makes the store smaller. The caller stores the new locations. Must be called when no other changes are
        pending.
        """
        num_free = self._count_all_free_rows()
        self._add_stored_blocks(self._get_blocks_with_room())
        moves: list[VectorMove] = []
        last_records = itertools.islice(self._view.scan(self.space.blocks, reverse=True), max_blocks)
        for block_number in [int(records.U32.unpack(key)[0]) for key, _ in last_records]:
            num_free -= self._rows_per_block  # its own free rows, and those that its vectors take in other blocks
            if num_free < 0:
                break
            block = self._get_private_block(block_number)
            for row in np.flatnonzero(block.ids != FREE_ID):
                id, vector = int(block.ids[row]), block.get_vectors(slice(row, row + 1))[0]
                location = self.add(id, vector, block_number)  # never in this block, which is filled last
                moves.append(VectorMove(id, *location))
            block.ids[:] = FREE_ID
        return moves

    def flush(self) -> None:
        """Write the changed blocks of vectors to the transaction, remove empty ones, and record their free rows."""
        changed_blocks: dict[bytes, bytes | bytearray | None] = {}
        free_counts: dict[bytes, bytes | bytearray | None] = {}
        for block_number, block in self._changed_blocks.items():
            key = records.encode_u32(block_number)
            num_free = int(np.count_nonzero(block.ids == FREE_ID))
            is_full, is_empty = num_free == 0, num_free == self._rows_per_block
            # A count of None, or a block of None, removes the record.
            if (is_full or is_empty) and self._view.get(self.space.free_rows, key) is not None:
                free_counts[key] = None
            if is_empty:
                if self._view.get(self.space.blocks, key) is not None:
                    changed_blocks[key] = None
                continue
            buffer = block.buffer
            assert isinstance(buffer, bytearray)
            _HEADER.pack_into(
                buffer, 0, self._encoding, 0, self._rows_per_block, self._rows_per_block - num_free, self.dimension
            )
            # The checksum, for which the header has 0 so far.
            struct.pack_into("<I", buffer, 4, compute_checksum(memoryview(buffer)[_BODY_START:]))
            changed_blocks[key] = buffer
            if num_free:
                free_counts[key] = _FREE_COUNT_STRUCT.pack(num_free)
        for table, changes in ((self.space.blocks, changed_blocks), (self.space.free_rows, free_counts)):
            if changes:
                self._write_view.change_many(table, changes)
        self._changed_blocks.clear()
        self._blocks_with_room = None

    def gather(self, locations: VectorLocations) -> Matrix:
        """Return the vectors at (block, row) locations; changed blocks are read from memory."""
        if not self._changed_blocks:
            return super().gather(locations)
        blocks = [(self._changed_blocks.get(int(block_number)), int(row)) for block_number, row in locations]
        vectors = np.empty((len(locations), self.dimension), np.float32)
        stored_indexes = [index for index, (block, _) in enumerate(blocks) if block is None]
        vectors[stored_indexes] = super().gather([locations[index] for index in stored_indexes])
        for index, (block, row) in enumerate(blocks):
            if block is not None:
                vectors[index] = block.get_vectors(slice(row, row + 1))[0]
        return vectors

    def _get_block(self, block_number: int) -> _VectorBlock:
        """Return a block of vectors, including changes that are not written yet."""
        return self._changed_blocks.get(block_number) or super()._get_block(block_number)

    def _get_private_block(self, block_number: int) -> _VectorBlock:
        """Return the private copy of a block of vectors, created on first use; :meth:`flush` writes its changes.

        Raises CorruptionError if the block is missing or damaged.
        """
        block = self._changed_blocks.get(block_number)
        if block is None:
            value = self._view.get(self.space.blocks, records.encode_u32(block_number))
            if value is None:
                raise self._make_missing_error(block_number)
            block = self._changed_blocks[block_number] = self._open_block(bytearray(value), block_number)
        return block

    def scan(self) -> Iterator[tuple[Ids, Matrix]]:
        """Yield all ids and vectors, after writing the changes that are not written yet."""
        self.flush()
        yield from super().scan()


def cosines(matrix: Matrix, query: Matrix, rows: npt.NDArray[np.intp] | None = None) -> Matrix:
    """Return the cosines between a unit vector and the unit rows of a matrix: the given ``rows``, or all (None).

    The bits of a cosine do not depend on the position of its row or on the other rows.
    """
    row_cosines: Matrix = np.empty(len(matrix) if rows is None else len(rows), np.float32)
    matrix, query = np.ascontiguousarray(matrix, np.float32), np.ascontiguousarray(query, np.float32)
    if rows is None:
        compute_row_dots(matrix, query, row_cosines)
    else:
        compute_selected_row_dots(matrix, rows.astype(np.int64, copy=False), query, row_cosines)
    return row_cosines
