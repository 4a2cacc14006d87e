"""Anchors: the entities and units at which a path search starts (CUE-RAG, Algorithm 4). A *unit* is a sentence with its
own vector; its *row* is its number in the unit graph. The *key* of an entity is its name in normal form.

Spreading activation yields the entities that the question mentions. They include entities whose title adds a note in
parentheses to the name, or omits it. With an index of kind ``synonyms``, an unknown name is replaced by the nearest
known names. Knowledge anchoring yields the units nearest to the question.

In: a query and the units around it. Out: :class:`Anchors`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ...derived.synonyms.nearest_names import NearestNamesRequest
from ...retrieval.query import Query
from ...retrieval.recognition import EntityKeyRequest, QuestionEntity
from ...structures.ranking import Ranking
from ...text.patterns import compile_lazily
from ...text.words import FUNCTION_WORDS
from .unit_graph import UnitGraph
from .unit_requests import KeyedEntity, TitleVariantsRequest

#: The number of chunks whose units are compared with the question, for each requested unit.
CHUNKS_PER_UNIT = 3
#: Words separated by spaces only, such as "Is Ann Lee's son" in "Is Ann Lee's son, Carl, here?".
_WORD_RUN_PATTERN = compile_lazily(r"[^\W_][\w'’-]*(?:\s+[^\W_][\w'’-]*)*")


@dataclass(frozen=True, slots=True)
class Anchors:
    """The entities of each name in the question, and the row numbers in the unit graph of the nearest units."""

    names: dict[str, list[int]]
    units: list[int]


def find_anchors(
    query: Query, graph: UnitGraph, known_names: Sequence[QuestionEntity], num_nearest: int, near_ranking: Ranking
) -> Anchors:
    """Return the entities of a question's names and its nearest units, where paths start (CUE-RAG, Algorithm 4).

    ``known_names`` are the entities that the question mentions. Up to ``num_nearest`` units are anchors; only the units
    of the first chunks of ``near_ranking``, the ranking of chunks by vector, are compared with the question. The units
    and the entities' keys are added to ``graph``.
    """
    chunks = [chunk for chunk, _ in near_ranking[: CHUNKS_PER_UNIT * num_nearest]]
    with query.trace.step("anchors from names") as step:
        variants, nearest_answer = query.reading.fetch(
            TitleVariantsRequest([known_name.identity.entity_ids for known_name in known_names]),
            graph.make_nearest_request(num_nearest, chunks),
        )
        keys = [known_name.key for known_name in known_names]
        entities_by_name = dict(zip(keys, variants.entities, strict=True))
        # A vector that the user supplied is of the whole question, not of a name.
        if variants.has_name_index and query.user_vector is None:
            entities_by_name |= _find_nearest_names(query, known_names, num_nearest)
        step.detail = ", ".join(_format_name(name, entities) for name, entities in entities_by_name.items()) or "none"
        step.count = len(entities_by_name)
    for entities in entities_by_name.values():
        graph.add_keys(entities)
    with query.trace.step("anchors from units") as step:
        nearest_units = graph.add_nearest(nearest_answer)
        rows = [row for row, _ in nearest_units]
        step.detail = "; ".join(f"{cosine:.3f} {quote(graph.get_text(row))}" for row, cosine in nearest_units)
        step.count = len(rows)
    return Anchors({name: [entity for entity, _ in entities] for name, entities in entities_by_name.items()}, rows)


def _format_name(name: str, entities: Sequence[KeyedEntity]) -> str:
    """Return a name for EXPLAIN, followed in parentheses by the keys of its entities that differ from the name."""
    other_keys = [key for _, key in entities if key != name]
    return f"{name} ({', '.join(other_keys)})" if other_keys else name


def quote(text: str, max_chars: int = 80) -> str:
    """Return a text in quotation marks, truncated to ``max_chars`` characters, with an ellipsis, if it is longer."""
    return f'"{text}"' if len(text) <= max_chars else f'"{text[:max_chars].rstrip()} …"'


def _find_nearest_names(
    query: Query, known_names: Sequence[QuestionEntity], num_nearest: int
) -> dict[str, list[KeyedEntity]]:
    """Return, for each unknown name in the question, up to ``num_nearest`` entities with similar names, by vectors.

    Each entity has its key. ``known_names`` are the entities that the question mentions. The cosine of an entity's name
    with the unknown name must be positive.
    """
    unknown_names = list(dict.fromkeys(_iter_unknown_names(query.question, known_names)))
    if not unknown_names:
        return {}
    requests = [NearestNamesRequest(query.embed_part(name), num_nearest) for name in unknown_names]
    entity_groups = [
        [entity for entity, cosine in nearest_names or () if cosine > 0]
        for nearest_names in query.reading.fetch_all(requests)
    ]
    keys = query.reading.fetch(EntityKeyRequest(list(chain.from_iterable(entity_groups))))
    return {
        name: [KeyedEntity(entity, keys[entity]) for entity in entities]
        for name, entities in zip(unknown_names, entity_groups, strict=True)
    }


def _iter_unknown_names(question: str, known_names: Sequence[QuestionEntity]) -> Iterator[str]:
    """Yield the sequences of capitalized words in a question, except function words and words of ``known_names``."""
    masked_question = bytearray(question.encode())
    for known_name in known_names:
        for start, end in known_name.spans:
            masked_question[start:end] = b"." * (end - start)  # a dot ends a run of words
    for word_run in _WORD_RUN_PATTERN.findall(masked_question.decode()):
        name_words: list[str] = []
        for word in [*word_run.split(), ""]:  # the empty word ends the last name
            if word[:1].isupper() and word.lower() not in FUNCTION_WORDS:
                name_words.append(word)
            elif name_words:
                yield " ".join(name_words)
                name_words = []
