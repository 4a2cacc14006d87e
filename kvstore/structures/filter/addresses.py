"""Addresses: places where an entity occurs, as numbers that sort the most relevant place first. A place is a node of a
tree of the forest, or an *abstract* (a summary of chunks) that mentions the entity. Its *rank* is lower if it is more
relevant: 0 for a node.

An address has 64 bits: the rank in the top byte, and below it the id of the node or abstract. The rank of an abstract
depends only on the entity's occurrences in that abstract, so that it can be recomputed when the address is removed.
"""

from __future__ import annotations

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


def list_best_addresses(addresses: list[int]) -> list[int]:
    """Return addresses in ascending order; of several with the same node or abstract (summary), only the first."""
    if len(addresses) == 1:  # most names have a single address
        return addresses
    best_addresses: dict[int, int] = {}
    for address in sorted(addresses):
        # A node and an abstract can have the same id. The addresses of nodes have no rank bits; ~ makes their keys
        # negative, and so different from the ids of abstracts.
        best_addresses.setdefault(~address if address <= TARGET_MASK else address & TARGET_MASK, address)
    return list(best_addresses.values())
