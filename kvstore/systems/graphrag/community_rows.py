"""Rows of a generation (one build) of the ``communities`` index. A *node* is an entity, given by its index in the
graph, in order of names. A chunk's *home* is the community in which its names have the most weight; its *share* is the
fraction of their weight that is there.

In: a :class:`~.community_building.CommunityTree` and its reports. Out: the records of each table, with ids of entities,
documents and chunks. On disk, keys begin with the number of the generation:

``communities``: community → level, parent (nil: none), children, numbers of entities, chunks and documents, ten times
the rating, the digest of the report's material, the first member in order of names, the summary (document, chunk, first
and last byte of each sentence), and the findings (two entities, weight in 2^-16, and the same span).
``community_members``: community → entity, weight in 2^-16, and so on, strongest first. ``community_passages``:
community → chunk, share in ten thousandths, and so on, for the chunks at home in it but in none of its children.
``entity_communities``: entity → its finest community (nil: none), number of chunks that mention it.
``community_vectors``: block → 64 vectors, float32. ``community_terms``: community → the terms of its title and report,
added by :mod:`.report_terms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...storage import records
from ...structures.clustering.affinity import IntArray
from .community_building import NO_COMMUNITY, CommunityTree
from .community_reports import CommunityReport

COMMUNITIES, MEMBERS, CHUNK_HOMES = "communities", "community_members", "community_passages"
ENTITY_COMMUNITIES, VECTORS, TERMS = "entity_communities", "community_vectors", "community_terms"
TABLES = (COMMUNITIES, MEMBERS, CHUNK_HOMES, ENTITY_COMMUNITIES, VECTORS, TERMS)
#: Indexes of fields in a row of :data:`COMMUNITIES`.
LEVEL_FIELD, PARENT_FIELD, CHILDREN_FIELD, RATING_FIELD = 0, 1, 2, 6
FIRST_MEMBER_FIELD, SUMMARY_FIELD, FINDINGS_FIELD = 8, 9, 10

#: The number of community vectors in one record.
_VECTORS_PER_BLOCK = 64


def build_community_rows(
    tree: CommunityTree, reports: Iterable[tuple[int, CommunityReport]]
) -> dict[str, list[tuple[bytes, Any]]]:
    """Return the rows (key, value) to store for the communities of a tree, by table, without the :data:`TERMS` table.

    ``reports`` are pairs of a community and its report.
    """
    children: dict[int, list[int]] = {}
    for community, parent in enumerate(tree.parents.tolist()):
        children.setdefault(parent, []).append(community)
    members = _group_members(tree)
    homes = _group_homes(tree)
    chunk_counts, document_counts = _count_sizes(tree)
    ratings = _compute_ratings(tree, chunk_counts)
    first_members = _find_first_members(tree)
    rows: dict[str, list[tuple[bytes, Any]]] = {table: [] for table in TABLES}
    for community, report in sorted(reports):
        parent = int(tree.parents[community])
        key = records.encode_u32(community)
        fields = [  # the columns of the table, in order
            int(tree.levels[community]),
            None if parent == NO_COMMUNITY else parent,
            children.get(community, []),
            len(members[community]) // 2,  # the list alternates entities and weights
            chunk_counts[community],
            document_counts[community],
            ratings[community],
            report.content_digest,
            first_members[community],
            [list(span) for span in report.summary],
            [[*finding.entities, finding.weight, *finding.span] for finding in report.findings],
        ]
        rows[COMMUNITIES].append((key, fields))
        rows[MEMBERS].append((key, members[community]))
        if community in homes:
            rows[CHUNK_HOMES].append((key, homes[community]))
    rows[ENTITY_COMMUNITIES] = _build_entity_rows(tree)
    rows[VECTORS] = [
        (records.encode_u32(block), tree.vectors[start : start + _VECTORS_PER_BLOCK].astype("<f4").tobytes())
        for block, start in enumerate(range(0, len(tree), _VECTORS_PER_BLOCK))
    ]
    return rows


def _build_entity_rows(tree: CommunityTree) -> list[tuple[bytes, list[int | None]]]:
    """Return the row (key, value) of each entity: its finest community (None: none), and its chunk count."""
    columns = tree.graph.entities.tolist(), tree.finest.tolist(), tree.graph.degrees.tolist()
    return [
        (records.encode_u32(entity), [None if community == NO_COMMUNITY else community, num_chunks])
        for entity, community, num_chunks in sorted(zip(*columns, strict=True))
    ]


def _compute_ratings(tree: CommunityTree, chunk_counts: Sequence[int]) -> list[int]:
    """Return ten times the rating of each community: its chunks as a percentage of the most chunks at its level.

    ``chunk_counts`` has the number of chunks of each community.
    """
    levels = tree.levels.tolist()
    max_counts: dict[int, int] = {}  # by level
    for level, count in zip(levels, chunk_counts, strict=True):
        max_counts[level] = max(count, max_counts.get(level, 1))
    return [round(100 * count / max_counts[level]) for level, count in zip(levels, chunk_counts, strict=True)]


def _group_members(tree: CommunityTree) -> list[list[int]]:
    """Return the members of each community as a flat list: entity, weight, entity, weight, and so on."""
    members: list[list[int]] = [[] for _ in range(len(tree))]
    entities = tree.graph.entities
    for community, node, weight in zip(*(column.tolist() for column in tree.group_members()), strict=True):
        members[community] += int(entities[node]), weight
    return members


def _find_first_members(tree: CommunityTree) -> list[int]:
    """Return, for each community, the entity of its member whose name sorts first.

    The nodes of the graph are numbered in the order of names, so this is the smallest node.
    """
    members = tree.group_members()
    first_nodes: IntArray = np.full(len(tree), len(tree.graph.entities))
    np.minimum.at(first_nodes, members.communities, members.nodes)
    return [int(tree.graph.entities[node]) for node in first_nodes.tolist()]


def _group_homes(tree: CommunityTree) -> dict[int, list[int]]:
    """Return, by community, the chunks whose home it is, as a flat list: chunk, share, chunk, share, …

    A share is in ten thousandths; the largest comes first.
    """
    shares = np.rint(10_000 * tree.shares).astype(np.int64)
    order = np.lexsort((np.arange(len(shares)), -shares, tree.homes))
    homes: dict[int, list[int]] = {}
    # Chunks without a home (-1) come first.
    for chunk_index in order[np.searchsorted(tree.homes[order], 0) :].tolist():
        homes.setdefault(int(tree.homes[chunk_index]), []).extend(
            (int(tree.graph.chunks[chunk_index]), int(shares[chunk_index]))
        )
    return homes


def _count_sizes(tree: CommunityTree) -> tuple[list[int], list[int]]:
    """Return the number of chunks in each community and its descendants, and the number of their documents.

    A chunk counts for its home, the community to which it is assigned (:data:`NO_COMMUNITY`: none), and for all
    communities above it.
    """
    chunk_counts: IntArray = np.zeros(len(tree), np.int64)
    document_counts: IntArray = np.zeros(len(tree), np.int64)
    homes = tree.homes
    while (homes != NO_COMMUNITY).any():  # each round goes from the homes of chunks to their parents
        has_home = homes != NO_COMMUNITY
        np.add.at(chunk_counts, homes[has_home], 1)
        homes = np.where(has_home, tree.parents[homes], NO_COMMUNITY)
    counted_pairs = set()
    for home, document in set(zip(tree.homes.tolist(), tree.graph.documents.tolist(), strict=True)):
        while home != NO_COMMUNITY and (home, document) not in counted_pairs:
            counted_pairs.add((home, document))
            document_counts[home] += 1
            home = int(tree.parents[home])
    return chunk_counts.tolist(), document_counts.tolist()
