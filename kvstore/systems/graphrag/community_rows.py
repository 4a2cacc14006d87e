"""The rows of a generation of the index ``communities``.

In: a :class:`~.community_building.CommunityTree` and its reports. Out: for each table its records, with numbers of
entities, documents and chunks. On disk, behind the number of the generation:

``communities``: community → level, parent (nil: none), children, how many entities, passages and documents, ten times
the rating, the digest of what a text is written from, the first member in order of names, the summary (document, chunk,
first and last byte), and the findings (two entities, weight in 2^-16, and a place alike). ``community_members``:
community → entity, weight in 2^-16, and so on, the strongest first. ``community_passages``: community → chunk, share in
ten thousandths, and so on, of those at home in it and in none of its children. ``entity_communities``: entity → its
finest community (nil: none), passages that name it. ``community_vectors``: block → 64 vectors, float32.
``community_terms``: community → the terms of its title and its report, which :mod:`.report_terms` adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...storage import records
from ...structures.clustering.affinity import Partition
from .community_building import NOWHERE, CommunityTree
from .community_reports import CommunityReport

COMMUNITIES, MEMBERS, CHUNK_HOMES = "communities", "community_members", "community_passages"
ENTITY_COMMUNITIES, VECTORS, TERMS = "entity_communities", "community_vectors", "community_terms"
TABLES = (COMMUNITIES, MEMBERS, CHUNK_HOMES, ENTITY_COMMUNITIES, VECTORS, TERMS)

#: Vectors of communities in one record.
_BLOCK = 64


def community_rows(
    tree: CommunityTree, reports: Iterable[tuple[int, CommunityReport]]
) -> dict[str, list[tuple[bytes, Any]]]:
    """The rows of each table for the communities of a tree."""
    count, graph = len(tree), tree.graph
    children: dict[int, list[int]] = {}
    for community, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(community)
    members = _group_members(tree)
    homes = _group_homes(tree)
    chunk_counts, document_counts = _sizes(tree)
    first_members = _find_first_members(tree)
    max_sizes: dict[int, int] = {}
    for level, size in zip(tree.level.tolist(), chunk_counts, strict=True):
        max_sizes[level] = max(size, max_sizes.get(level, 1))
    found: dict[str, list[tuple[bytes, Any]]] = {table: [] for table in TABLES}
    for community, report in sorted(reports):
        level, parent = int(tree.level[community]), int(tree.parent[community])
        key = records.u32(community)
        found[COMMUNITIES].append(
            (
                key,
                [
                    level,
                    None if parent == NOWHERE else parent,
                    children.get(community, []),
                    len(members[community]) // 2,
                    chunk_counts[community],
                    document_counts[community],
                    round(100 * chunk_counts[community] / max_sizes[level]),
                    report.content,
                    first_members[community],
                    [list(span) for span in report.summary],
                    [[*finding.entities, finding.weight, *finding.span] for finding in report.findings],
                ],
            )
        )
        found[MEMBERS].append((key, members[community]))
        if community in homes:
            found[CHUNK_HOMES].append((key, homes[community]))
    nodes = sorted(zip(graph.entities.tolist(), tree.finest.tolist(), graph.degrees.tolist(), strict=True))
    found[ENTITY_COMMUNITIES] = [
        (records.u32(entity), [None if community == NOWHERE else community, degree])
        for entity, community, degree in nodes
    ]
    found[VECTORS] = [
        (records.u32(block), tree.vectors[block * _BLOCK : (block + 1) * _BLOCK].astype("<f4").tobytes())
        for block in range(-(-count // _BLOCK))
    ]
    return found


def _group_members(tree: CommunityTree) -> list[list[int]]:
    """The members of each community: entity and weight, one after the other."""
    found: list[list[int]] = [[] for _ in range(len(tree))]
    entities = tree.graph.entities
    for community, node, weight in zip(*(column.tolist() for column in tree.inside()), strict=True):
        found[community] += int(entities[node]), weight
    return found


def _find_first_members(tree: CommunityTree) -> list[int]:
    """The first member of each community in order of names."""
    communities, nodes, _ = tree.inside()
    first: Partition = np.full(len(tree), len(tree.graph.entities))
    np.minimum.at(first, communities, nodes)
    return [int(tree.graph.entities[node]) for node in first.tolist()]


def _group_homes(tree: CommunityTree) -> dict[int, list[int]]:
    """The passages whose finest community each is: chunk and share, one after the other, the largest share first."""
    shares = np.rint(10_000 * tree.shares).astype(np.int64)
    order = np.lexsort((np.arange(len(shares)), -shares, tree.homes))
    found: dict[int, list[int]] = {}
    for position in order[np.searchsorted(tree.homes[order], 0) :].tolist():
        found.setdefault(int(tree.homes[position]), []).extend(
            (int(tree.graph.passages[position]), int(shares[position]))
        )
    return found


def _sizes(tree: CommunityTree) -> tuple[list[int], list[int]]:
    """How many passages are at home in each community, and of how many documents."""
    chunk_counts: Partition = np.zeros(len(tree), np.int64)
    document_counts: Partition = np.zeros(len(tree), np.int64)
    homes = tree.homes
    while (homes != NOWHERE).any():
        has_home = homes != NOWHERE
        np.add.at(chunk_counts, homes[has_home], 1)
        homes = np.where(has_home, tree.parent[homes], NOWHERE)
    pairs = set()
    for home, document in set(zip(tree.homes.tolist(), tree.graph.documents.tolist(), strict=True)):
        while home != NOWHERE and (home, document) not in pairs:
            pairs.add((home, document))
            document_counts[home] += 1
            home = int(tree.parent[home])
    return chunk_counts.tolist(), document_counts.tolist()
