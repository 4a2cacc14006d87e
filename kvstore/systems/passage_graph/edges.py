"""Edges of the passage graph, as whoever walks it has them: features, kinds of links, rows.

A row of a chunk has the entities that it names, one of an entity the chunks that name it; features say how. How they
are stored is told in :mod:`.graph`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

#: The entities that a chunk names, with their features.
EdgeRow = Mapping[int, int]
Numbers = npt.NDArray[np.uint64]

# Features of an edge: mentions with a capital or a digit (or in a script without capitals), such mentions inside a
# longer one, other mentions; then what stands above the chunk, or was imported for it.
CAPITALISED = 0x000F
INSIDE_SHIFT, INSIDE = 4, 0x0030
LOWER_SHIFT, LOWER = 6, 0x00C0
TITLE_WHOLE = 0x0100  # the document's title, or its title without the bracket at its end
TITLE_PART = 0x0200
HEADING_WHOLE = 0x0400
HEADING_PART = 0x0800
TRIPLE = 0x1000  # a triple that was imported for the document names it
#: What does not follow from the text of a chunk alone.
CONTEXT_FEATURES = TITLE_WHOLE | TITLE_PART | HEADING_WHOLE | HEADING_PART | TRIPLE
#: Bits of a set of features, and what is above every set.
FEATURE_BITS = 13
FEATURE_SETS = 1 << FEATURE_BITS

#: The kind of link between a title and the same without the bracket at its end, beside those of a
#: :class:`~kvstore.systems.contract.Delta`.
TITLE_LINK = 1


class ChunkRows(NamedTuple):
    """Entities of some chunks: those of chunk *i* are from ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: npt.NDArray[np.int64]
    entities: npt.NDArray[np.uint32]
    features: npt.NDArray[np.uint16]


class EntityRows(NamedTuple):
    """Chunks of some entities: those of entity *i* are from ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: npt.NDArray[np.int64]
    chunks: Numbers
    features: npt.NDArray[np.uint16]


class LinkRows(NamedTuple):
    """Links of some entities: the entity that each belongs to, the other, the kind, and how often it is said."""

    entities: npt.NDArray[np.uint32]
    others: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint8]
    times: npt.NDArray[np.uint32]


class Degrees(Protocol):
    """What is known of some entities without their rows: the number of chunks of each, ``total``, of those that do not
    only mention it in lower case, ``informative``, and which have links."""

    total: npt.NDArray[np.int64]
    informative: npt.NDArray[np.int64]

    @property
    def linked(self) -> npt.NDArray[np.bool_]: ...


class Link(NamedTuple):
    """An entity that belongs to another: by what kind of link, and how often that is said."""

    other: int
    kind: int
    times: int
