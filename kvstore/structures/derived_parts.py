"""Data derived from each document alone. A *derivation* computes it, such as the list of a document's sentences. The
*part* of a document is the result, as plain data. A part has texts, and each text has a vector. The *location* of a
vector is a block of vectors and a row in it.

In: parts and unit vectors. On disk, for a derivation *n*: ``n_parts`` (document → sealed msgpack list: the part, then
the vector block and row of each of its texts), ``n_vectors`` and ``n_vector_space``, in the same format as for chunks.
Out: the same parts and vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ..errors import CorruptionError
from ..storage import records
from ..storage.engine_tables import LmdbTable
from ..storage.view import View, WriteView
from .vectors.vectors import Matrix, VectorMove, Vectors, VectorSpace, VectorWriter


class DerivationSpec(Protocol):
    """A derivation, which computes data with vectors from each document alone, such as a list of its sentences."""

    @property
    def name(self) -> str:
        """The name of the derivation, a prefix of the names of its tables."""
        ...

    @property
    def quantised(self) -> bool:
        """True if a vector is stored as one byte per component."""
        ...


def get_vector_space(derivation: DerivationSpec) -> VectorSpace:
    """Return the vector space of a derivation: the tables with the vectors of its texts, and their format."""
    return VectorSpace(
        name=derivation.name,
        blocks=f"{derivation.name}_vectors",
        free_rows=f"{derivation.name}_vector_space",  # the space that deleted vectors left free in the blocks
        quantized=derivation.quantised,
    )


def list_derivation_tables(derivation: DerivationSpec) -> list[LmdbTable]:
    """List the tables of data derived from documents: the data, the blocks of vectors, and the counts of free rows."""
    space = get_vector_space(derivation)
    return [LmdbTable(f"{derivation.name}_parts"), LmdbTable(space.blocks), LmdbTable(space.free_rows)]


def to_vector_id(document: int, text_index: int) -> int:
    """Return the id of the vector of a text derived from a document; ``text_index`` numbers the document's texts.

    The document id is in the upper 32 bits, the index in the lower ones.
    """
    return document << 32 | text_index


def split_vector_id(id: int) -> tuple[int, int]:
    """Split the id of a derived text's vector into the document id and the text's index in the document."""
    return id >> 32, id & 0xFFFFFFFF


class DerivedPart(NamedTuple):
    """The data derived from a document (``part``), and the locations (block, row) of the vectors of its texts."""

    part: Any
    vector_locations: list[tuple[int, int]]


class DerivedParts:
    """The parts that one derivation computed from documents, by document, and the ``vectors`` of their texts.

    They are read through a view, a snapshot or a write transaction.
    """

    vectors: Vectors

    def __init__(self, view: View, derivation: DerivationSpec, dimension: int) -> None:
        """Open the data that ``derivation`` computed from documents in ``view``, a snapshot or write transaction.

        The data of one document is a part. Each part has texts; their vectors have ``dimension`` components.
        """
        self._view = view
        self._table = f"{derivation.name}_parts"
        self.vectors = Vectors(view, dimension, get_vector_space(derivation))

    def get(self, document: int) -> DerivedPart:
        """Return the part of a document; raise CorruptionError if it is missing."""
        derived_part = self.find(document)
        if derived_part is None:
            raise CorruptionError(f"table {self._table} has no part of document {document}; run CHECK REPAIR")
        return derived_part

    def find(self, document: int) -> DerivedPart | None:
        """Return the part of a document, or None if it has none."""
        return self.find_many([document])[0]

    def find_many(self, documents: Sequence[int]) -> list[DerivedPart | None]:
        """Return the part of each document, or None for a document without one."""
        keys = list(map(records.encode_u64, documents))
        stored_parts = self._view.get_many(self._table, keys)
        return [
            None if stored_part is None else self._decode(key, stored_part)
            for key, stored_part in zip(keys, stored_parts, strict=True)
        ]

    @property
    def document_count(self) -> int:
        """The number of documents that have a part."""
        return self._view.count(self._table)

    def scan(self) -> Iterator[tuple[int, DerivedPart]]:
        """Yield the id and the part of every document that has one."""
        for key, value in self._view.scan(self._table):
            yield records.U64.unpack(key)[0], self._decode(key, value)

    def has_part_vectors(self, document: int, locations: Sequence[tuple[int, int]]) -> bool:
        """True if these locations have the vectors of the texts of a document's part, in order."""
        text_ids = [to_vector_id(document, text_index) for text_index in range(len(locations))]
        return self.vectors.get_ids(locations) == text_ids

    def _decode(self, key: bytes, value: memoryview) -> DerivedPart:
        """Decode the stored part of a document, and the locations (block, row) of its vectors."""
        part, locations = records.unpack(value, self._table, key)
        return DerivedPart(part, [(block, row) for block, row in locations])


class DerivedPartWriter(DerivedParts):
    """The parts of documents in one write transaction.

    Their vectors are visible to other readers of the transaction after :meth:`VectorWriter.flush`.
    """

    vectors: VectorWriter

    def __init__(self, view: WriteView, derivation: DerivationSpec, dimension: int) -> None:
        """Create a writer of the parts of ``derivation`` in ``view``, a write transaction.

        The vectors of the texts have ``dimension`` components.
        """
        super().__init__(view, derivation, dimension)
        self.vectors = VectorWriter(view, dimension, get_vector_space(derivation))
        self._write_view = view
        last_key, _ = next(view.scan(self.vectors.space.blocks, reverse=True), (records.encode_u32(0), None))
        #: The number of the next new block of vectors; the key of a block is its number.
        self._next_block = int(records.U32.unpack(last_key)[0]) + 1

    def put(self, document: int, part: Any, vectors: Matrix) -> None:
        """Store the part of a new document, and the vectors of its texts, shape (texts, dimension)."""
        locations = []
        for text_index, vector in enumerate(vectors):
            block, row = self.vectors.add(to_vector_id(document, text_index), vector, self._next_block)
            locations.append((block, row))
            self._next_block = max(self._next_block, block + 1)  # a free row of an older block may have been used
        self._put(document, DerivedPart(part, locations))

    def remove(self, document: int) -> None:
        """Remove the part of a document and its vectors."""
        for block, row in self.get(document).vector_locations:
            self.vectors.remove(block, row)
        self._write_view.delete(self._table, records.encode_u64(document))

    def update_locations(self, moves: Iterable[VectorMove]) -> None:
        """Update the stored locations of vectors that were moved."""
        moves_by_document: dict[int, list[VectorMove]] = {}
        for move in moves:
            document, _ = split_vector_id(move.id)
            moves_by_document.setdefault(document, []).append(move)
        for document, document_moves in moves_by_document.items():
            derived_part = self.get(document)
            for id, block, row in document_moves:
                _, text_index = split_vector_id(id)
                derived_part.vector_locations[text_index] = block, row
            self._put(document, derived_part)

    def _put(self, document: int, derived_part: DerivedPart) -> None:
        """Write the part of a document and the locations of its vectors."""
        self._write_view.put(self._table, records.encode_u64(document), records.pack(derived_part))
