"""Addresses: places where an entity occurs, as numbers that sort the most relevant place first. A place is a node of a
tree of the forest, or an *abstract* (a summary of chunks) that mentions the entity. Its *rank* is lower if it is more
relevant: 0 for a node.

An address has 64 bits: the rank in the top byte, and below it the id of the node or abstract. The rank of an abstract
depends only on the entity's occurrences in that abstract, so that it can be recomputed when the address is removed.
"""

from __future__ import annotations

from collections.abc import Collection

#: The ranks: a tree node; a title or heading that is the entity's name, or contains it as a part; the body of the text.
NODE_RANK = 0x00
TITLE_WHOLE_RANK = 0x10
TITLE_PART_RANK = 0x18
HEADING_WHOLE_RANK = 0x20
HEADING_PART_RANK = 0x28
#: Body ranks range from this (sixteen occurrences or more) to MAX_BODY_RANK (one occurrence).
MIN_BODY_RANK = 0x30
MAX_BODY_RANK = 0x3F

RANK_SHIFT = 56
TARGET_MASK = (1 << RANK_SHIFT) - 1


def compute_body_rank(occurrences: int) -> int:
    """Return the rank of an abstract (a summary of chunks) whose chunks mention an entity ``occurrences`` (>= 1) times.

    An abstract with more occurrences has a lower rank, and comes earlier in the sorted addresses of the entity.
    """
    return max(MIN_BODY_RANK, MAX_BODY_RANK + 1 - occurrences)


def make_address(rank: int, target_id: int) -> int:
    """Pack a rank (in the top byte) and the id of the node or abstract (summary) where an entity occurs into an int."""
    return rank << RANK_SHIFT | target_id


def split_address(value: int) -> tuple[int, int]:
    """Unpack an address, which is a place where an entity occurs, into its rank and the id of its node or abstract."""
    return value >> RANK_SHIFT, value & TARGET_MASK


def list_best_addresses(ranked_targets: Collection[tuple[int, int]]) -> list[int]:
    """Return the addresses of (target, rank) pairs, ascending. A target is the id of a node or abstract (summary).

    An address is a rank and a target packed into one integer. Each node or abstract has one, with its lowest rank.
    """
    if len(ranked_targets) == 1:  # most names have a single target
        ((target, rank),) = ranked_targets
        return [rank << RANK_SHIFT | target]
    if len(dict(ranked_targets)) == len(ranked_targets):  # no target occurs twice
        return sorted([rank << RANK_SHIFT | target for target, rank in ranked_targets])
    ranks: dict[tuple[bool, int], int] = {}  # a node and an abstract can have the same id
    for target, rank in ranked_targets:
        target_key = (rank == NODE_RANK, target)
        ranks[target_key] = min(rank, ranks.get(target_key, rank))
    return sorted(make_address(rank, target) for (_, target), rank in ranks.items())
