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
from itertools import islice

from ...derived.passage_graph.neighborhood import NodeNames, make_entity_node
from ...derived.synonyms.nearest_names import NearestNames
from ...retrieval.query import Query
from ...retrieval.recognition import Seed, recognize_entities
from ...structures.ranking import Ranking
from ...text.words import FUNCTION_WORDS
from .unit_graph import UnitGraph
from .unit_requests import KeyedEntity, TitleForms

#: The number of chunks whose units are compared with the question, for each unit wanted.
CHUNKS_PER_UNIT = 3
_WORD_RUN_PATTERN = re.compile(r"[^\W_][\w'’-]*(?:\s+[^\W_][\w'’-]*)*")


@dataclass(frozen=True, slots=True)
class Anchors:
    """The entities of each name in the question, and the units (rows) nearest to the question."""

    names: dict[str, list[int]]
    units: list[int]


def find_anchors(query: Query, graph: UnitGraph, num_nearest: int, near_ranking: Ranking) -> Anchors:
    """Return the anchors of a question: its names, and the ``num_nearest`` best units of its nearest chunks.

    ``near_ranking`` is the ranking of chunks by vector.
    """
    seeds = recognize_entities(query, capitalized_only=True)
    with query.trace.step("anchors from names") as step:
        forms = query.reading.fetch(TitleForms([seed.identity.entity_ids for seed in seeds]))
        names = {seed.key: entities for seed, entities in zip(seeds, forms.entities, strict=True)}
        if forms.has_name_index and query.given_vector is None:
            names |= _find_nearest_names(query, seeds, num_nearest)
        step.detail = ", ".join(_format_name(name, entities) for name, entities in names.items()) or "none"
        step.count = len(names)
    for entities in names.values():
        graph.add_keys(entities)
    chunks = [chunk for chunk, _ in near_ranking[: CHUNKS_PER_UNIT * num_nearest]]
    with query.trace.step("anchors from units") as step:
        nearest = graph.find_nearest(num_nearest, chunks)
        rows = [row for row, _ in nearest]
        graph.load_contents(rows)
        step.detail = "; ".join(f"{cosine:.3f} {quote(graph.get_text(row))}" for row, cosine in nearest)
        step.count = len(rows)
    return Anchors({name: [entity for entity, _ in entities] for name, entities in names.items()}, rows)


def _format_name(name: str, entities: Sequence[KeyedEntity]) -> str:
    """Return a name, followed by the other entities it matches."""
    others = [key for _, key in entities if key != name]
    return f"{name} ({', '.join(others)})" if others else name


def quote(text: str, max_chars: int = 80) -> str:
    """Return a text in quotation marks, truncated if it is long."""
    return f'"{text}"' if len(text) <= max_chars else f'"{text[:max_chars].rstrip()} …"'


def _find_nearest_names(query: Query, seeds: Sequence[Seed], num_nearest: int) -> dict[str, list[KeyedEntity]]:
    """Return the nearest known names of each unknown name."""
    unknown_names = list(dict.fromkeys(_iter_unknown_names(query.question, seeds)))
    if not unknown_names:
        return {}
    requests = [NearestNames(query.embed_part(name), num_nearest) for name in unknown_names]
    entity_groups = [
        [entity for entity, cosine in nearest or () if cosine > 0] for nearest in query.reading.fetch_all(requests)
    ]
    nodes = [make_entity_node(entity) for entities in entity_groups for entity in entities]
    names = iter(query.reading.fetch(NodeNames(nodes))) if nodes else iter(())
    return {
        name: [(entity, key) for entity, (_, key, _) in zip(entities, islice(names, len(entities)), strict=True)]
        for name, entities in zip(unknown_names, entity_groups, strict=True)
    }


def _iter_unknown_names(question: str, seeds: Sequence[Seed]) -> Iterator[str]:
    """Yield the capitalized names of a question that no known name covers."""
    masked_question = bytearray(question.encode())
    for seed in seeds:
        for start, end in seed.spans:
            masked_question[start:end] = b"." * (end - start)
    for word_run in _WORD_RUN_PATTERN.findall(masked_question.decode()):
        name_words: list[str] = []
        for word in [*word_run.split(), ""]:
            if word[:1].isupper() and word.lower() not in FUNCTION_WORDS:
                name_words.append(word)
            elif name_words:
                yield " ".join(name_words)
                name_words = []
