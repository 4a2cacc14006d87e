"""Strategy ``cft``: chunks by vector, with what the entity forest says of the question's entities (CFT-RAG §3.4).

The question's nearest chunks (Figure 1) and its entities → filter → every place of each in the forest → the first *n*
ancestors and descendants of each place (Algorithm 3) → sentences by template, the evidence's ``context``. The chunks in
which those relations were stated are ranked by cosine and joined by rank with the chunks near the question.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from ...arguments import Option
from ...retrieval.dense_search import cosines_of, rank_by_vector
from ...retrieval.evidence import Evidence
from ...retrieval.evidence_sentence import best_assertion
from ...retrieval.fusion import fuse
from ...retrieval.hierarchy import Hierarchy
from ...retrieval.ordered_addresses import nodes_in_order
from ...retrieval.query import Query, evidence_of, option
from ...retrieval.recognition import Seed, recognise
from ...structures.forest.forest import USER
from ...structures.ranking import Ranking, best
from ...structures.state import State


class CftStrategy:
    """From the question's entities to their places in the forest, told beside the chunks."""

    name = "cft"
    description = "CFT-RAG: the cuckoo filter leads to places in the entity forest, which are told beside the chunks"
    options: Mapping[str, Option] = {
        "relatives": Option(3, 1, 100, "ancestors of a place that are told, and as many descendants"),
        "places": Option(8, 1, 1000, "places of an entity that are told"),
        "constant": Option(10, 0, 1000, "how little the first ranks stand out where the two rankings are joined"),
    }

    def retrieve(self, query: Query) -> Evidence:
        near = rank_by_vector(query, query.reach)
        seeds = recognise(query)
        relatives = int(option(query, self, "relatives"))
        hierarchy = Hierarchy(query.view, relatives)
        nodes = _places(query, hierarchy, seeds, int(option(query, self, "places")))
        with query.trace.step("ancestors and descendants") as step:
            context = hierarchy.sentences(nodes)
            step.detail, step.count = f"the first {relatives} up and down of each place", len(context)
        stated = _stating_chunks(query, nodes, relatives)
        ranking, paths = fuse(
            query.view, [("vector", near), ("relations", _rank(query, stated))], option(query, self, "constant")
        )
        paths |= {chunk: f"{path}, states {stated[chunk]}" for chunk, path in paths.items() if chunk in stated}
        pool = query.view.counters.chunks
        return replace(evidence_of(query, self.name, ranking, paths, pool), context=context)


def _places(query: Query, hierarchy: Hierarchy, seeds: Sequence[Seed], most: int) -> list[int]:
    """The nodes of the question's entities, at most so many of each, the rarest entity first."""
    with query.trace.step("filter to places in the forest") as step:
        nodes: list[int] = []
        told = []
        for seed in seeds:
            found = chain.from_iterable(hierarchy.nodes([name for name, _ in seed.identity.names]))
            places = nodes_in_order(query.view, found)[:most]
            nodes += places
            told.append(f"{seed.key} ({len(places)})")
        step.detail, step.count = ", ".join(told) or "no entity known: dense search alone", len(nodes)
    return nodes


def _stating_chunks(query: Query, nodes: Sequence[int], relatives: int) -> dict[int, str]:
    """The chunks in which the relations around some nodes were stated, each with the first of them, in words."""
    view = query.view
    allowed = query.allowed
    found: dict[int, str] = {}
    with query.trace.step("chunks that state the relations") as step:
        for node in nodes:
            for up in (True, False):
                for other in islice(view.forest.walk([node], up=up, depth=relatives), relatives):
                    child, parent = (other.via, other.node) if up else (other.node, other.via)
                    assertion = best_assertion(view, child, parent)
                    if assertion.document == USER or (allowed is not None and assertion.document not in allowed):
                        continue
                    chunk = _chunk_at(view, assertion.document, assertion.start)
                    if chunk is not None and chunk not in found:
                        found[chunk] = f"{view.forest.key(child)} under {view.forest.key(parent)}"
        step.count = len(found)
    return found


def _chunk_at(view: State, document: int, place: int) -> int | None:
    """The chunk of a document that covers a byte of its text; None where no chunk does, as in documents of pairs."""
    chunks = list(view.documents.get(document).chunk_ids())
    before = bisect_right(chunks, place, key=lambda chunk: view.chunks.get(chunk).start)
    return chunks[before - 1] if before else None


def _rank(query: Query, chunks: Mapping[int, str]) -> Ranking:
    if not chunks:
        return []
    vector = query.vector
    with query.trace.step("cosine") as step:
        ids = np.array(sorted(chunks), np.uint64)
        ranking = best(query.view, ids, cosines_of(query.view, ids, vector), query.reach)
        step.detail, step.count = "question against the chunks that state relations", len(ids)
    return ranking
