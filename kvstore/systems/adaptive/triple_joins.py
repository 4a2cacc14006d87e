"""Chunks of the names that triples connect to a question: the next step of a chain of facts (HippoRAG 2, section 3.2).
A *triple* (subject, relation, object) comes from a document. A *match* is a triple that shares words with the question;
its score is the rarity (IDF) of these words.

In: the best chunks of a question. The triples of their documents, imported or written by a model, are matched with the
words that the question has besides its names. Out: the chunks of the other names in the best triples, with scores. The
walk reaches these names, too, but it spreads over all names of a chunk, including names that no triple connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...derived.passage_graph.neighborhood import NamedNeighborhoodRequest, NamedNeighborhoods, NeighborhoodRequest
from ...structures.ranking import scale_to_best
from ...structures.read_requests import Ids, ReadRequest, Vector
from ...structures.state import State
from ..graph.graph_requests import TriplesRequest
from ..graph.triple_matching import TripleMatch, match_triples

#: The number of names read from the best triples, and the number of names used, the first names that are entities.
_MAX_READ_NAMES, _MAX_NAMES = 24, 6
#: The maximum number of chunks of a name; a name in more chunks is skipped.
_MAX_NAME_CHUNKS = 200


class JoinedChunks(NamedTuple):
    """Chunks of names that triples connect to a question, one row per name and chunk, those of the best triple first.

    ``match_scores`` has the score of each row's triple as a fraction of the best score, and ``cosines`` the cosine of
    its chunk with the question without its names. ``pairs`` are the two names that the triple of each row connects.
    """

    chunks: Ids
    match_scores: npt.NDArray[np.float64]
    cosines: npt.NDArray[np.float64]
    pairs: Sequence[tuple[str, str]]


class JoinedChunksRequest(ReadRequest[JoinedChunks]):
    """A request for the chunks of the names that the triples of the documents of ``chunks`` connect to a question.
    Names in ``question_key``, its normal form, are skipped. ``rarities`` (IDF of terms) and ``vector`` are of the
    question without its names. ``stem`` stems the words of triples. The triples match as in HippoRAG 2, section 3.2.
    Each chunk has the score of its triple (at most 1), its cosine and the pair of names.
    """

    chunks: Sequence[int]
    question_key: str
    rarities: Mapping[str, float]
    vector: Vector
    stem: Callable[[str], str]

    def fetch(self, state: State) -> JoinedChunks:
        triples = TriplesRequest(self.chunks).fetch(state)
        all_matches = match_triples(triples, self.rarities, self.stem, limit=None)
        matches_by_name = _select_other_names(all_matches, self.question_key)
        answer = self._read_chunks_of_names(state, list(matches_by_name))
        matches_by_entity = _select_entities(answer.entities.tolist(), matches_by_name.values())
        neighborhood = answer.neighborhood.entities
        if neighborhood is None:  # no name is an entity
            return JoinedChunks(np.empty(0, np.uint64), np.empty(0), np.empty(0), [])
        # The entity of each row (chunk): rows are grouped by entity, and ``bounds`` are the borders of the groups.
        row_entities = np.repeat(answer.request.entities, np.diff(neighborhood.rows.bounds)).tolist()
        rows = _list_rows_of_entities(row_entities, list(matches_by_entity))
        row_matches = [matches_by_entity[row_entities[row]] for row in rows.tolist()]
        return JoinedChunks(
            chunks=neighborhood.rows.chunks[rows],
            match_scores=scale_to_best(np.array([match.score for match in row_matches])),
            cosines=neighborhood.cosines[rows].astype(np.float64),
            pairs=[match.names for match in row_matches],
        )

    def _read_chunks_of_names(self, state: State, names: Sequence[str]) -> NamedNeighborhoods:
        """Return the entities of names (0: unknown), and the chunks of each with their cosines with the question.

        The chunks of an entity in more than ``_MAX_NAME_CHUNKS`` chunks are omitted.
        """
        # NamedNeighborhoodRequest adds the entities of the names to this request, which is otherwise empty.
        empty_request = NeighborhoodRequest(
            chunks=np.empty(0, np.uint64),
            entities=np.empty(0, np.uint32),
            max_chunks=_MAX_NAME_CHUNKS,
            with_links=False,
            vector=self.vector,
        )
        return NamedNeighborhoodRequest(names, empty_request, _MAX_NAME_CHUNKS).fetch(state)


def _list_rows_of_entities(row_entities: Sequence[int], entities: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the indexes of the rows of ``entities``, in their order; ``row_entities`` has each row's entity."""
    ranks = {entity: rank for rank, entity in enumerate(entities)}
    selected_rows = [row for row, entity in enumerate(row_entities) if entity in ranks]
    return np.array(sorted(selected_rows, key=lambda row: ranks[row_entities[row]]), np.int64)


def _select_entities(entities: Iterable[int], matches: Iterable[TripleMatch]) -> dict[int, TripleMatch]:
    """Return the first ``_MAX_NAMES`` distinct entities, each with its first match, in the order of the matches.

    ``matches`` are the matches of triples with the question, one for each name, best first. ``entities`` has the entity
    of each name; it is 0 if the name is unknown.
    """
    matches_by_entity: dict[int, TripleMatch] = {}
    for entity, match in zip(entities, matches, strict=True):
        if entity and len(matches_by_entity) < _MAX_NAMES:
            matches_by_entity.setdefault(entity, match)
    return matches_by_entity


def _select_other_names(matches: Iterable[TripleMatch], question_key: str) -> dict[str, TripleMatch]:
    """Return the first names in ``matches`` that are not in the question, each with the first match that has it.

    ``matches`` are the matches of triples with the question, best first. ``question_key`` is the normal form of the
    question. At most ``_MAX_READ_NAMES`` names are returned.
    """
    matches_by_name: dict[str, TripleMatch] = {}
    for match in matches:
        for name in match.names:
            if name not in question_key and len(matches_by_name) < _MAX_READ_NAMES:
                matches_by_name.setdefault(name, match)
    return matches_by_name
