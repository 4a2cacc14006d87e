"""Edges of the passage graph: their mention bits, the kinds of links, and the arrays that a walk reads. The *row* of a
chunk has the entities that it mentions, and the row of an entity the reverse. The *mention bits* of an edge, a bit
field, say how. A *link* connects two entities. The *degree* of an entity is the number of chunks that mention it. A
chunk is *informative* for an entity unless it mentions the entity only in lower case.

In: numbers as the graph stores them (:mod:`.graph`). Out: rows, and counts of chunks or the only chunk of an entity.
A stored degree is one of three:

- 0 for an entity without chunks;
- the packed edge to its only chunk: the chunk id, then the mention bits in the low 16 bits;
- :data:`SEVERAL_FLAG`, the number of its chunks and the number of the informative ones.

:data:`LINKED_FLAG` is set if the entity has links.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

#: The entities that a chunk mentions, each with the mention bits of its edge.
EdgeRow = Mapping[int, int]
UInt64Array = npt.NDArray[np.uint64]

# Mention bits of an edge, from the lowest: the numbers of mentions with a capital or a digit (or in a script without
# capitals), of such mentions inside a longer one, and of other mentions; then flags for names above the chunk, or in
# triples.
CAPITALIZED = 0x000F
INSIDE_SHIFT, INSIDE = 4, 0x0030
LOWER_SHIFT, LOWER = 6, 0x00C0
TITLE_WHOLE = 0x0100  # the document's title, or its title without the bracket at its end
TITLE_PART = 0x0200
HEADING_WHOLE = 0x0400
HEADING_PART = 0x0800
TRIPLE = 0x1000  # an imported triple of the document mentions it
#: Mention bits that follow from the text of a chunk alone, and the others.
COUNT_BITS = CAPITALIZED | INSIDE | LOWER
CONTEXT_BITS = TITLE_WHOLE | TITLE_PART | HEADING_WHOLE | HEADING_PART | TRIPLE
#: The number of bits, and of their different values.
NUM_MENTION_BITS = 13
NUM_MENTION_VALUES = 1 << NUM_MENTION_BITS

SEVERAL_FLAG = 1 << 63
LINKED_FLAG = 1 << 62
#: Selects a degree without its flags: two counts of chunks, or the packed edge to the only chunk.
PAYLOAD_MASK = LINKED_FLAG - 1
#: Selects the number of all chunks; the number of informative chunks is in the bits above it.
TOTAL_MASK = (1 << 31) - 1
INFORMATIVE_SHIFT = 31
#: The bits of a packed edge that hold the mention bits, and the position of the chunk id above them.
CHUNK_EDGE_SHIFT = 16
CHUNK_EDGE_MENTION_MASK = (1 << CHUNK_EDGE_SHIFT) - 1
#: Selects the mention bits that make a chunk informative.
_INFORMATIVE_MASK = CHUNK_EDGE_MENTION_MASK & ~LOWER

#: A limit on the number of chunks of an entity that no entity reaches.
NO_CHUNK_LIMIT = 1 << 62

#: The kind of link between a title and the same title without the bracket at its end, in addition to the kinds of a
#: :class:`~kvstore.registry.contract.Delta`.
TITLE_LINK = 1
#: The kind of link between two names with nearly the same meaning. These links are not stored: they are read from the
#: ``synonyms`` index.
SYNONYM_LINK = 4


def mask_informative(mention_bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """Return the mask of the informative edges: all but edges of chunks that mention the entity only in lower case.

    A name in lower case is often an ordinary word. ``mention_bits`` say how the chunk of each edge mentions the entity.
    """
    is_informative: npt.NDArray[np.bool_] = (mention_bits & ~np.uint16(LOWER)) != 0
    return is_informative


class ChunkRows(NamedTuple):
    """The rows of some chunks, concatenated: the entities that chunk *i* mentions, each with its mention bits.

    Row *i* is the slice from ``bounds[i]`` to ``bounds[i + 1]``.
    """

    bounds: npt.NDArray[np.int64]
    entities: npt.NDArray[np.uint32]
    mention_bits: npt.NDArray[np.uint16]


class EntityRows(NamedTuple):
    """The rows of some entities, concatenated: the chunks that mention entity *i*, each with its mention bits.

    Row *i* is the slice from ``bounds[i]`` to ``bounds[i + 1]``.
    """

    bounds: npt.NDArray[np.int64]
    chunks: UInt64Array
    mention_bits: npt.NDArray[np.uint16]


class LinkRows(NamedTuple):
    """Links of some entities, one per index: the requested entity, the linked entity, the kind, and the multiplicity.

    The multiplicity is the number of documents that assert the link, or 1 for an accepted edge.
    """

    entities: npt.NDArray[np.uint32]
    other_entities: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint8]
    multiplicities: npt.NDArray[np.uint32]


class Degrees:
    """The degrees (numbers of chunks) of some entities, which are read without their rows. ``values`` are as stored."""

    __slots__ = ("_has_several", "_payloads", "informative", "total", "values")

    def __init__(self, values: UInt64Array) -> None:
        """Decode ``values``, one number per entity.

        A number with SEVERAL_FLAG has two counts: of the entity's chunks, and of the informative chunks. A number
        without the flag is the packed edge (chunk id and mention bits) to the only chunk, or 0 if there is no chunk.
        """
        self.values = values
        self._has_several: npt.NDArray[np.bool_] = (values & np.uint64(SEVERAL_FLAG)) != 0
        #: The values without flags: two counts of chunks, or the packed edge to the only chunk.
        self._payloads: npt.NDArray[np.int64] = (values & np.uint64(PAYLOAD_MASK)).astype(np.int64)
        #: The number of chunks of each entity.
        self.total: npt.NDArray[np.int64] = np.where(self._has_several, self._payloads & TOTAL_MASK, self._payloads > 0)
        #: The number of these chunks, without chunks that mention the entity only in lower case.
        self.informative: npt.NDArray[np.int64] = np.where(
            self._has_several,
            self._payloads >> INFORMATIVE_SHIFT,
            (self._payloads & _INFORMATIVE_MASK) != 0,
        )

    @property
    def only_edges(self) -> npt.NDArray[np.int64]:
        """For each entity, its only chunk and mention bits, packed in a number; 0 if it has no chunk or several.

        The mention bits say how the chunk mentions the entity.
        """
        return np.where(self._has_several, 0, self._payloads)

    @property
    def has_links(self) -> npt.NDArray[np.bool_]:
        """True for each entity that is linked to another entity by a tree edge, a triple or a title."""
        has_links: npt.NDArray[np.bool_] = (self.values & np.uint64(LINKED_FLAG)) != 0
        return has_links


def encode_degree(num_chunks: int, num_informative: int) -> int:
    """Encode two counts in one number: all chunks of an entity, and those that do not mention it only in lower case."""
    return SEVERAL_FLAG | num_informative << INFORMATIVE_SHIFT | num_chunks


def count_informative(edges: list[int]) -> int:
    """Return the number of ``edges`` (chunk id and mention bits, packed in a number) from informative chunks."""
    return len([edge for edge in edges if edge & _INFORMATIVE_MASK]) if edges else 0


class Link(NamedTuple):
    """An entity linked to another, the kind of the link, and its multiplicity.

    The multiplicity is the number of documents that assert the link, or 1 for an accepted edge.
    """

    other: int
    kind: int
    multiplicity: int
