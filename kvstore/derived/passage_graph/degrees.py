"""The degrees of entities in the passage graph: how many chunks mention each, packed into one number. An *edge* is a
chunk id with *mention bits*, which say how the chunk mentions the entity. A chunk is *informative* for an entity unless
it mentions the entity only in lower case.

In: numbers as the graph stores them (:mod:`.graph`). Out: counts of chunks, or the only chunk of an entity. A degree is
one of three:

- 0 for an entity without chunks;
- the packed edge to its only chunk: the chunk id, then the mention bits in the low 16 bits;
- :data:`SEVERAL_FLAG`, the number of its chunks and the number of the informative ones.

:data:`LINKED_FLAG` is set if the entity has links.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .edges import LOWER, UInt64Array

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


class StoredDegrees:
    """The degrees (numbers of chunks) of some entities. ``values`` are as stored."""

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
    return len([edge for edge in edges if edge & _INFORMATIVE_MASK])
