"""A question to a strategy, and the evidence for it. A *strategy* is a retrieval method. A *ranking* is chunk ids with
scores, best first. A *segment* is adjacent chunks merged into one text, an *abstract* a summary of a few chunks. The
*trace* records steps for EXPLAIN. WITH sets options.

In: the question, its vector (computed on first use), and the limits of the answer. Out: hits built from chunk ids and
scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..arguments import Choice, Option, warn_if_retired
from ..errors import InputError
from ..structures.documents.allowed import AllowedDocuments
from ..structures.ranking import Ranking
from ..structures.read_requests import BatchedReader
from ..structures.state import State
from ..structures.vectors.vectors import Vector
from ..text.languages import open_question_stemmer
from .evidence import (
    AbstractNote,
    ChunkReadRequest,
    Evidence,
    Hit,
    HitExplanations,
    LoadedChunk,
    RankedHits,
    Trace,
    build_chunk_hits,
    build_segment_hits,
)

#: The number of chunks that a reranker scores.
NUM_RERANK_CANDIDATES = 50
#: An option that every strategy has.
FILL_OPTION = Choice("none", ("none", "hybrid"), "the strategy that adds hits if fewer than TOP are found")
#: The name of the option that selects a reranker; every strategy has it.
RERANKER_OPTION = "reranker"


#: The use of segments as hits: none, added to the chunks of a ranking, or only segments, without chunks.
SegmentUse = Literal["none", "added", "only"]


@dataclass
class Query:
    """A question on one snapshot. ``allowed`` are the documents that satisfy its condition (None: all). ``top`` limits
    the number of hits, ``within`` their tokens. ``reading`` is a reader of ``state``, to which a strategy sends read
    requests. ``user_vector`` replaces the embedder's vector of the question.

    ``within`` limits the tokens of all hits together. ``options`` are the options after the statement's WITH, checked
    against the strategy's options. ``rerank`` reorders the first ``NUM_RERANK_CANDIDATES`` of a ranking. ``segments``
    says if neighboring chunks are merged into segments, and ``segment_tokens`` limits the tokens of segments that are
    added to the hits. ``abstracts`` requests the abstracts (summaries of a few chunks) above the hits. ``fill`` is the
    name of the strategy that adds hits if there are too few. ``count_lookups`` counts a use of each entity key, which
    raises the entity's temperature. ``original_question`` is the question as the user wrote it if it was respelled
    (:mod:`.respelling`). ``vectors`` has the vectors of the texts embedded so far; copies of the query share it.

    The first k hits are the same for every ``top`` of k or more. The number of candidates that a strategy scores must
    therefore not depend on ``top``; see :func:`~kvstore.structures.ranking.append_tails`.

    A strategy uses ``state`` itself only for its system's own structures. Both ``state`` and ``reading`` show only data
    asserted by the ``allowed`` documents and the user, see :mod:`~kvstore.structures.restricted_state`.
    """

    question: str
    state: State
    embed: Callable[[str], Vector]
    top: int = 8
    depth: int = 1
    allowed: AllowedDocuments | None = None
    within: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    count_lookups: Callable[[Iterable[str]], None] = lambda keys: None
    rerank: Callable[[Query, Ranking], Ranking] | None = None
    user_vector: Vector | None = None
    segments: SegmentUse = "none"
    segment_tokens: int | None = None
    abstracts: bool = True
    fill: str = "none"
    original_question: str | None = None
    vectors: dict[str, Vector] = field(default_factory=dict)
    trace: Trace = field(init=False)
    reading: BatchedReader = field(init=False)
    _loaded_chunks: dict[int, LoadedChunk] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Create an empty trace, and a reader of the state."""
        self.trace = Trace(self.state.lmdb)
        self.reading = BatchedReader(self.state)

    def restrict_to(self, allowed: AllowedDocuments) -> None:
        """Restrict this query, in place, to the ``allowed`` documents: it then reads a state without the others."""
        from ..structures.restricted_state import RestrictedState

        self.allowed = allowed
        self.state = RestrictedState(self.state, allowed)
        self.reading = BatchedReader(self.state)

    @property
    def view(self) -> State:
        """Return ``state`` under its deprecated name, with a FutureWarning; removed in kvstore 0.5."""
        warnings.warn(
            "Query.view is deprecated and will be removed in kvstore 0.5; send requests to Query.reading or use "
            "Query.state",
            FutureWarning,
            stacklevel=2,
        )
        return self.state

    def copy_with_limits(self, top: int, within: int | None) -> Query:
        """Return a copy of this query with other limits, which shares the trace and everything read so far.

        ``top`` limits the number of hits, ``within`` the tokens of all hits together (None: no limit).
        """
        limited_query = copy(self)
        limited_query.top, limited_query.within = top, within
        return limited_query

    @property
    def chunk_count(self) -> int:
        """The number of chunks of the documents that satisfy the query's condition."""
        return self.reading.counters.chunks if self.allowed is None else self.allowed.num_chunks

    @property
    def vector(self) -> Vector:
        """The question's unit vector; shape (dimension,)."""
        return self.embed_part(self.question)

    @cached_property
    def stem(self) -> Callable[[str], str]:
        """The stemming function for the words of the question and of the texts that are compared with it."""
        reading = self.reading
        return open_question_stemmer(self.question, reading.settings.stemmer, reading.counters.languages)

    @property
    def asks_for_overview(self) -> bool:
        """True if the question asks for an overview of documents, not for a detail."""
        from .overview import is_overview_question

        return is_overview_question(self.question, self.state.main_language)

    def embed_part(self, part: str) -> Vector:
        """Return the unit vector of the question or a part of it, or the user's vector if the user gave one.

        The vector is cached, and the step is recorded in the trace.
        """
        if self.user_vector is not None:
            return self.user_vector
        if part not in self.vectors:
            with self.trace.step("embed question" if part == self.question else "embed part") as step:
                self.vectors[part] = self.embed(part)
                step.detail, step.count = self.state.settings.embedder, len(self.vectors[part])
        return self.vectors[part]

    @property
    def reach(self) -> int:
        """The number of chunks that a strategy should rank, if it finds that many, so that enough hits remain.

        It exceeds ``top`` if ``within`` can exclude long chunks: four chunks per hit and some more are enough in nearly
        all cases. It is at least 50 if chunks are reranked, and 100 if neighboring chunks are merged into segments.
        """
        count = self.top if self.within is None else 4 * self.top + 20
        if self.rerank is not None:
            count = max(count, NUM_RERANK_CANDIDATES)
        if self.segments != "none":
            from .segments import NUM_JOINABLE

            count = max(count, NUM_JOINABLE)
        return count

    def load_chunks(self, chunks: Iterable[int]) -> list[LoadedChunk]:
        """Return the chunks with these ids, in order. Those that this query has not loaded are read in one request."""
        chunk_ids = list(chunks)
        missing_ids = [chunk for chunk in chunk_ids if chunk not in self._loaded_chunks]
        if missing_ids:
            loaded_chunks = self.reading.fetch(ChunkReadRequest(missing_ids))
            self._loaded_chunks.update(zip(missing_ids, loaded_chunks, strict=True))
        return [self._loaded_chunks[chunk] for chunk in chunk_ids]

    def mask_allowed(self, chunks: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Return a mask over chunk ids: True for chunks of documents that satisfy the query's condition."""
        return np.ones(len(chunks), np.bool_) if self.allowed is None else self.allowed.get_chunk_mask(chunks)

    def is_allowed(self, chunk: int) -> bool:
        """True if the chunk with this id belongs to a document that satisfies the query's condition."""
        return self.allowed is None or self.allowed.is_chunk_allowed(chunk)


class Strategy(Protocol):
    """A method of finding evidence for a question; SHOW STRATEGIES shows its ``description``.

    Two attributes are optional. ``needs`` is the kind of index that the strategy requires; without that index, a
    statement raises an error. ``overview`` is true if the strategy answers overview questions; other strategies then
    suggest it for such questions.
    """

    name: str
    description: str

    @property
    def options(self) -> Mapping[str, Option | Choice]:
        """The options that WITH sets, by name."""
        ...

    def retrieve(self, query: Query) -> Evidence:
        """Return evidence for the question, best first."""
        ...


def option(query: Query, strategy: Strategy, name: str) -> float:
    """Return the value of a numeric option of a strategy: the query's (after WITH), or else the default."""
    return float(query.options.get(name, strategy.options[name].default))


def get_choice_option(query: Query, strategy: Strategy, name: str) -> str:
    """Return the value of an option that is one of several words: the query's, or else the default; in lower case."""
    return str(query.options.get(name, strategy.options[name].default)).lower()


def check_options(strategy: Strategy, options: Mapping[str, Any], *, as_segments: bool = False) -> None:
    """Raise InputError if the strategy has no option of a name in ``options``, or if a value is invalid.

    Every strategy has the option ``fill`` and, if ``as_segments`` is True, the options of segments (merged neighboring
    chunks). A removed option is accepted with a warning. The value of ``reranker`` is checked by ``get_reranker``.
    """
    if not options:
        return
    from .segments import SEGMENT_OPTIONS

    all_options = {**(SEGMENT_OPTIONS if as_segments else {}), **strategy.options, "fill": FILL_OPTION}
    for name, value in options.items():
        if name == RERANKER_OPTION:
            continue
        option = all_options.get(name)
        if option is None:
            # Options that were removed are still accepted, with a warning; those of segments were options of sprag.
            if warn_if_retired(strategy.name, name) or (as_segments and warn_if_retired("sprag", name)):
                continue
            option_names = ", ".join([*all_options, RERANKER_OPTION])
            if name in SEGMENT_OPTIONS:
                option_names += f"; {name} is an option of AS SEGMENTS"
            raise InputError(f"strategy {strategy.name} has no option {name!r}; it has: {option_names}")
        label = f"{strategy.name}: option {name}"
        if isinstance(option, Choice):
            option.parse_choice(label, value)
        else:
            _check_number(option, label, value)


def _check_number(option: Option, label: str, value: Any) -> None:
    """Raise InputError with the option's ``label`` unless ``value`` is a number in its range."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{label} must be a number, not {value!r}") from None
    if not option.low <= number <= option.high:
        raise InputError(f"{label} must be between {option.low:g} and {option.high:g}, not {value!r}")


def get_reranker(options: Mapping[str, Any]) -> str | None:
    """Return the name of the reranker in ``options``, or None. Raises InputError if the value is not a string."""
    reranker = options.get(RERANKER_OPTION)
    if not (reranker is None or isinstance(reranker, str)):
        raise InputError(
            f"option {RERANKER_OPTION} must be a name (none, combination or a cross-encoder), not {reranker!r}"
        )
    return reranker


def evidence_of(
    query: Query, strategy: str, ranking: Ranking, paths: HitExplanations, pool: int, *, as_segments: bool = False
) -> Evidence:
    """Return evidence from a ranking: its best chunks as hits, and the abstracts above them.

    The query's reranker reorders the ranking first. The hits are the first ``query.top`` chunks that have at most
    ``query.within`` tokens together, or segments if the query or the strategy (``as_segments``) asks for them. A query
    can also ask for both. ``paths`` explain why each chunk is in the ranking: one text, a mapping by chunk id, or a
    function of the loaded chunk. ``pool`` is the number of chunks that were ranked.
    """
    if query.rerank is not None:
        ranking = query.rerank(query, ranking)
    extra_segments: list[Hit] = []
    if as_segments or query.segments == "only":
        ranked_hits = _build_segment_hits(query, ranking, paths, query.within)
    else:
        with query.trace.step("read chunks") as step:
            ranked_hits = build_chunk_hits(query.load_chunks, ranking, paths, query.top, query.within)
            step.detail, step.count = f"top {query.top}", len(ranked_hits.hits)
        if query.segments == "added":
            limits = [limit for limit in (query.within, query.segment_tokens) if limit is not None]
            extra_segments = _build_segment_hits(query, ranking, paths, min(limits, default=None)).hits
    abstracts: list[AbstractNote] = []
    if query.abstracts:
        abstracts = LoadedChunk.build_abstract_notes(query.load_chunks(ranked_hits.best_chunks))
    return Evidence(
        query.question, strategy, ranked_hits.hits, abstracts, query.trace.steps, pool, segments=extra_segments
    )


def _build_segment_hits(
    query: Query, ranking: Ranking, explanations: HitExplanations, within: int | None
) -> RankedHits:
    """Return the best segments of a ranking as hits, and record the step in the trace.

    They have at most ``within`` tokens together (None: no limit). ``explanations`` say why each chunk was retrieved.
    """
    from .segments import DEFAULT_CAPACITY, SEGMENT_OPTIONS, SegmentPlan, describe_segments, select_segments

    option_values = {name: float(query.options.get(name, option.default)) for name, option in SEGMENT_OPTIONS.items()}
    plan = SegmentPlan(
        top=query.top,
        capacity=DEFAULT_CAPACITY if query.within is None else query.within / query.state.settings.chunk_tokens,
        within=within,
        penalty=option_values["penalty"],
        decay=option_values["decay"],
        longest=int(option_values["longest"]),
    )
    with query.trace.step("take segments") as step:
        segments = select_segments(query.state, ranking, plan)
        step.detail, step.count = describe_segments(ranking, plan, segments), len(segments)
        best_chunks = query.load_chunks([segment.best_chunk for segment in segments])
        return build_segment_hits(best_chunks, segments, explanations)
