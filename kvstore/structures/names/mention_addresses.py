"""The addresses of every entity that a document mentions.

In: the mention rows of a document's chunks and of its title and headings. Out: for each entity (abstract, rank) pairs,
from which :func:`kvstore.structures.filter.addresses.build_addresses` builds its addresses. Linking and CHECK both use
this rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter

from ..documents.chunks import GROUP_SIZE
from ..filter.addresses import compute_body_rank
from .mentions import HeadingOccurrence, Occurrence

#: The (abstract, rank) pairs of one entity.
RankedTargets = list[tuple[int, int]]

_GET_ENTITY = itemgetter(0)


def collect_mention_addresses(
    rows: Mapping[int, Iterable[Occurrence]], heading_rows: Iterable[HeadingOccurrence]
) -> dict[int, RankedTargets]:
    """Return for each entity the abstracts that mention it, as (abstract, rank) pairs.

    ``rows`` holds the occurrences in each chunk. The rank of a leaf abstract depends on the number of occurrences in
    its chunks. ``heading_rows`` have their own ranks. An abstract can occur more than once.
    """
    counts_by_group: dict[int, Counter[int]] = {}
    for chunk, mentions in rows.items():
        counts_by_group.setdefault(chunk // GROUP_SIZE, Counter()).update(map(_GET_ENTITY, mentions))
    targets_by_entity: dict[int, RankedTargets] = {}
    for group, counts in counts_by_group.items():
        for entity, count in counts.items():
            targets_by_entity.setdefault(entity, []).append((group, compute_body_rank(count)))
    for entity, rank, abstract in heading_rows:
        targets_by_entity.setdefault(entity, []).append((abstract, rank))
    return targets_by_entity
