"""Anchors of a search for units: entities of the question, and entities of its nearest units (CUE-RAG, Algorithm 4).

Spreading activation yields the entities that the question names, including those whose titles are longer or shorter
forms of the name. With an index of kind ``synonyms``, an unknown name is replaced by the nearest known ones. Knowledge
anchoring yields the units nearest to the question, and every entity that they mention.

In: a query and the units around it. Out: :class:`Anchors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...derived.passage_graph.edges import TITLE_LINK
from ...derived.passage_graph.structure import GRAPH
from ...derived.synonyms.synonym_index import SYNONYMS
from ...retrieval.query import Query
from ...retrieval.recognition import Seed, recognize_entities
from ...structures.indexes.index_reading import bind_index
from ...structures.ranking import Ranking
from ...text.words import FUNCTION_WORDS
from .unit_graph import UnitGraph
from .units import UNITS

#: The number of chunks whose units are compared with the question, for each unit wanted.
CHUNKS_PER_UNIT = 3
_WORD_RUN_PATTERN = re.compile(r"[^\W_][\w'’-]*(?:\s+[^\W_][\w'’-]*)*")


@dataclass(frozen=True, slots=True)
class Anchors:
    """The entities of each name in the question, and the units (rows) nearest to the question."""

    names: dict[str, list[int]]
    units: list[int]


def find_anchors(query: Query, graph: UnitGraph, num_nearest: int, near_ranking: Ranking) -> Anchors:
    """Return the anchors of a question: its names, and the ``num_nearest`` best units of the chunks ``near_ranking``
    it."""
    seeds = recognize_entities(query, capitalized_only=True)
    with query.trace.step("anchors from names") as step:
        names = {seed.key: _add_title_forms(query, seed.identity.entities) for seed in seeds}
        names |= _find_nearest_names(query, seeds, num_nearest)
        step.detail = ", ".join(_format_name(query, name, entities) for name, entities in names.items()) or "none"
        step.count = len(names)
    chunks = [chunk for chunk, _ in near_ranking[: CHUNKS_PER_UNIT * num_nearest]]
    with query.trace.step("anchors from units") as step:
        ids, cosines = query.view.get_part(UNITS).find_nearest(query.vector, num_nearest, chunks)
        rows = graph.get_rows(ids.tolist())
        step.detail = "; ".join(
            f"{cosine:.3f} {quote(graph.get_text(row))}" for cosine, row in zip(cosines, rows, strict=True)
        )
        step.count = len(rows)
    return Anchors(names, rows)


def _format_name(query: Query, name: str, entities: Sequence[int]) -> str:
    """Return a name, followed by the other entities it matches."""
    others = [key for entity in entities if (key := query.view.entities.get(entity).key) != name]
    return f"{name} ({', '.join(others)})" if others else name


def quote(text: str, max_chars: int = 80) -> str:
    """Return a text in quotation marks, truncated if it is long."""
    return f'"{text}"' if len(text) <= max_chars else f'"{text[:max_chars].rstrip()} …"'


def _add_title_forms(query: Query, entities: Sequence[int]) -> list[int]:
    """Return entities, plus those whose title differs only by a bracketed addition at the end."""
    graph = query.view.get_part(GRAPH)
    entity_ids = np.array(entities, np.uint32)
    links = graph.read_link_rows(entity_ids[graph.read_degrees(entity_ids).linked])
    others = links.others[links.kinds == TITLE_LINK].tolist()
    return sorted({*entities, *others}, key=lambda entity: query.view.entities.get(entity).key)


def _find_nearest_names(query: Query, seeds: Sequence[Seed], num_nearest: int) -> dict[str, list[int]]:
    """Return the nearest known names of each unknown name."""
    index = bind_index(query.view, SYNONYMS)
    if index is None or query.given_vector is not None:
        return {}
    return {
        name: [entity for entity, cosine in index.find_nearest(query.embed_part(name), num_nearest) if cosine > 0]
        for name in _iter_unknown_names(query.question, seeds)
    }


def _iter_unknown_names(question: str, seeds: Sequence[Seed]) -> Iterator[str]:
    """Yield the capitalized names of a question that no known name covers."""
    data = bytearray(question.encode())
    for seed in seeds:
        for start, end in seed.spans:
            data[start:end] = b"." * (end - start)
    for piece in _WORD_RUN_PATTERN.findall(data.decode()):
        run: list[str] = []
        for word in [*piece.split(), ""]:
            if word[:1].isupper() and word.lower() not in FUNCTION_WORDS:
                run.append(word)
            elif run:
                yield " ".join(run)
                run = []
