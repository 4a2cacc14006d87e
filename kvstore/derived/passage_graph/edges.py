"""Edges of the passage graph: their mention bits, the kinds of links, and the arrays that a walk reads. The *row* of a
chunk has the entities that it mentions, and the row of an entity the reverse. The *mention bits* of an edge, a bit
field, say how. A *link* connects two entities.

See :mod:`.graph` for the format on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

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
#: Mention bits that do not follow from the text of a chunk alone.
CONTEXT_BITS = TITLE_WHOLE | TITLE_PART | HEADING_WHOLE | HEADING_PART | TRIPLE
#: The number of bits, and of their different values.
NUM_MENTION_BITS = 13
NUM_MENTION_VALUES = 1 << NUM_MENTION_BITS

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


class Degrees(Protocol):
    """The degrees of some entities, which are read without their rows.

    ``total`` is the number of chunks that mention each entity. ``informative`` excludes the chunks that mention it only
    in lower case.
    """

    total: npt.NDArray[np.int64]
    informative: npt.NDArray[np.int64]

    @property
    def has_links(self) -> npt.NDArray[np.bool_]:
        """True for each entity that is linked to another entity by a tree edge, a triple or a title."""
        ...


class Link(NamedTuple):
    """An entity linked to another, the kind of the link, and its multiplicity.

    The multiplicity is the number of documents that assert the link, or 1 for an accepted edge.
    """

    other: int
    kind: int
    multiplicity: int
