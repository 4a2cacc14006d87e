"""CHECK of the graph: every row as its document makes it, both ways, and nothing besides.

In: the documents of a view, one by one, with what was read of them already. Out: a sentence for each violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ..structures import graph
from ..structures.documents.documents import DocumentRecord, Section
from ..structures.forest.edge_filter import ACCEPTED
from ..structures.names.mentions import Occurrence
from ..structures.passages import DocumentPassages, Passage, title_pair, unmentioned
from ..structures.state import State

#: Entities whose passages are read at once.
_PORTION = 4096


class GraphCheck:
    """Checks passages document by document; :meth:`rest` then compares the entities' side with what they add up to."""

    def __init__(self, view: State) -> None:
        self._view = view
        self._passages: set[int] = set()
        self._of_entity: dict[int, dict[int, int]] = {}
        self._links: Counter[tuple[int, int, int]] = Counter()

    def document(
        self, record: DocumentRecord, outline: list[Section], text: bytes, mentions: Mapping[int, list[Occurrence]]
    ) -> Iterator[str]:
        """What is wrong with the passages of a document, whose mentions are given by chunk."""
        view = self._view
        pairs = self._pairs(record)
        lone = unmentioned(pairs, list(mentions.values()))
        rows = DocumentPassages(record, outline, pairs, view.filter, view.settings.name_words)
        bounds, entities, strengths = view.graph.passages(np.array(list(mentions), np.uint64))
        for number, chunk in enumerate(mentions):
            stored = view.chunks.get(chunk)
            piece = text[stored.start : stored.end]
            expected = rows.row(Passage(chunk, piece, stored.section, mentions[chunk]), lone)
            part = slice(bounds[number], bounds[number + 1])
            found = list(zip(entities[part].tolist(), strengths[part].tolist(), strict=True))
            if found != sorted(expected.items()):
                yield f"document {record.key!r}: the graph's row of chunk {chunk} is not that of its mentions"
            for entity, strength in found:
                self._passages.add(chunk)
                self._of_entity.setdefault(entity, {})[chunk] = strength

    def _pairs(self, record: DocumentRecord) -> list[tuple[int, int]]:
        """The entities that the document's triples join; what the document links is counted."""
        keys = sorted(set(self._view.triples.of(record.id).pairs()))
        ends = [self._view.filter.find_many([pair[end] for pair in keys]).tolist() for end in (0, 1)]
        pairs = list(zip(*ends, strict=True))
        for one, other in pairs:
            self._link(one, other, graph.TRIPLE_LINK)
        titles = title_pair(record.title, self._view.settings.name_words) if record.groups else None
        if titles is not None:
            whole, shorter = self._view.filter.find_many(titles).tolist()
            self._link(whole, shorter, graph.TITLE_LINK)
        return pairs

    def _link(self, one: int, other: int, kind: int) -> None:
        if one != other:
            self._links[one, other, kind] += 1
            self._links[other, one, kind] += 1

    def rest(self) -> Iterator[str]:
        """What is wrong with the rows of entities and the links, and which rows belong to nothing."""
        stored = self._view.graph
        for chunk, _ in stored.all_passages():
            if chunk not in self._passages:
                yield f"the graph has a row of chunk {chunk}, which no document owns"
        for edge in self._view.forest.edges():
            if self._view.forest.verdict(*edge) == ACCEPTED:
                one, other = (self._view.forest.node(node).entity for node in edge)
                self._link(one, other, graph.RELATION_LINK)
        linked = {entity for entity, _, _ in self._links}
        heads = {entity: tuple(head) for entity, *head in stored.all_entities()}
        sound = []
        for entity in sorted(heads.keys() | self._of_entity.keys() | linked):
            expected = self._of_entity.get(entity, {})
            telling = sum(strength & ~graph.LOWER != 0 for strength in expected.values())
            if heads.get(entity, (0, 0, False)) == (len(expected), telling, entity in linked):
                sound.append(entity)
            else:
                yield f"entity {entity}: the graph's head does not say how many passages and links it has"
        for first in range(0, len(sound), _PORTION):
            yield from self._check_entities(np.array(sound[first : first + _PORTION], np.uint32))
        for entity in stored.listed():
            if len(self._of_entity.get(entity, {})) < 2:
                yield f"entity {entity}: the graph has blocks of passages for fewer than two"
        if {(entity, *link[:2]): link.times for entity, link in stored.all_links()} != dict(self._links):
            yield "the links between entities are not those that titles, triples and edges make"

    def _check_entities(self, entities: npt.NDArray[np.uint32]) -> Iterator[str]:
        """What is wrong with the passages of entities whose heads are right."""
        stored = self._view.graph
        heads = stored.heads(entities)
        bounds, passages, strengths = stored.entities(entities, heads, int(heads.degrees.max()))
        for number, entity in enumerate(entities.tolist()):
            part = slice(bounds[number], bounds[number + 1])
            found = list(zip(passages[part].tolist(), strengths[part].tolist(), strict=True))
            if found != sorted(self._of_entity.get(entity, {}).items()):
                yield f"entity {entity}: its passages in the graph are not those that name it"
