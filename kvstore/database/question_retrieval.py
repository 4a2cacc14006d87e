"""The retrieval of evidence for a question: the hits, and the steps that found them.
The *clauses* of a question are its keyword arguments, such as ``top``, ``where`` and ``using``, the name of the
*strategy* (method of retrieval). An *overview* is evidence of summaries or reports.

In: a session of an open store, a state, a question and its clauses. Out: the strategy and the query, and then the
evidence. An answer is made from it in :mod:`kvstore.answering.asking`, which retrieval alone does not load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..arguments import check_integer, check_text
from ..errors import InputError
from ..models.embedder import normalize_rows
from ..process.collection_pause import import_with_gc_paused
from ..registry import get_index, get_strategy, list_overview_strategies
from ..retrieval.query import FILL_OPTION, RERANKER_OPTION, Query, Strategy, check_options, get_reranker
from ..settings import RANGES
from ..text.normalize import to_nfc
from ..text.words import count_text_tokens

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..answering.asking import Asker
    from ..retrieval.evidence import Evidence, Hit
    from ..retrieval.question_clauses import Clauses
    from ..structures.state import State
    from .session import Session


@cache
def import_asker_class() -> type[Asker]:
    """Return the class that answers questions; import it on first use, with garbage collection paused for speed."""
    asker_class: type[Asker] = import_with_gc_paused("kvstore.answering.asking").Asker
    return asker_class


@contextmanager
def open_query(
    session: Session,
    open_state: Callable[[], AbstractContextManager[State]],
    question: str | Sequence[str],
    clauses: Clauses,
) -> Iterator[tuple[Strategy, Query]]:
    """Yield the strategy for a question and the query to run it with, on the state that ``open_state`` opens.

    The state stays open in the ``with`` block, so end the block before a language model writes, which takes long.
    """
    with open_state() as state:
        yield prepare_query(session, state, question, **clauses)


def prepare_query(
    session: Session,
    state: State,
    question: str | Sequence[str],
    *,
    using: str | None = None,
    depth: int | None = None,
    top: int | None = None,
    within: int | None = None,
    where: str | Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    vector: npt.ArrayLike | None = None,
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    reranker: str | None = None,
    as_segments: bool | None = None,
    allow_empty: bool = False,
) -> tuple[Strategy, Query]:
    """Return the strategy for a question, and the query to run it with, from the clauses of a statement or method.

    The clauses are those of :class:`~kvstore.retrieval.question_clauses.Clauses`; without ``using``, ``top``, ``depth``
    or ``reranker``, the session's setting applies. For several questions, the strategy fuses their results. Words of
    the question that no document has are respelled. With ``allow_empty``, the question can be empty if a vector is
    given and the strategy is not lexical. Raises InputError for an invalid question or clause and for a strategy
    without its index, and RerankerError for an invalid reranker.
    """
    settings = session.settings
    strategy = get_strategy(using or settings.strategy)
    if not isinstance(question, str):
        strategy = _make_fused_strategy(strategy, question, vector)
        question = " ".join(question)
    question = to_nfc(question)
    own_options = dict(options or {})
    check_options(strategy, own_options, as_segments=bool(as_segments))
    reranker = _choose_reranker(reranker, own_options)
    fill = FILL_OPTION.parse_choice("option fill", own_options.pop("fill", FILL_OPTION.default))
    missing_index = _find_missing_index(state, strategy)
    if missing_index is not None:
        raise InputError(
            f"strategy {strategy.name} needs the index {missing_index}; create it with: CREATE INDEX {missing_index};"
        )
    accepts_vector = allow_empty and strategy.name != "lexical"
    if not question.strip() and not (accepts_vector and vector is not None):
        raise InputError(f"the question is empty; enter a question{' or pass a vector' if accepts_vector else ''}")
    for name, value in (("top", top), ("depth", depth), ("within", within)):
        if value is not None:
            check_integer(name, value, *RANGES.get(name, (1,)))  # ``within`` has only a lower limit
    query = Query(
        question,
        state,
        session.store.embedder.embed_query,
        top=settings.top if top is None else top,
        depth=settings.depth if depth is None else depth,
        within=within,
        options=own_options,
        count_lookups=session.count_lookups,
        rerank=session.load_reranker(reranker),
        segments="only" if as_segments else "none",  # segments are neighboring chunks that are joined
        fill=fill,
        user_vector=None if vector is None else normalize_rows(vector, state.settings.dimension, 1)[0],
    )
    if where is not None:
        _restrict_documents(query, where, parameters)
    _respell_question(query)
    return strategy, query


def _choose_reranker(reranker: str | None, options: dict[str, Any]) -> str | None:
    """Return the reranker that a clause or an option names (None: neither does), and remove the option.

    Raises InputError if both name one, and they differ.
    """
    option_reranker = get_reranker(options)
    options.pop(RERANKER_OPTION, None)
    if reranker is not None and option_reranker not in (None, reranker):
        raise InputError(f"reranker is {reranker!r} and, in options, {option_reranker!r}; leave one out")
    return reranker or option_reranker


def _restrict_documents(
    query: Query, where: str | Mapping[str, Any], parameters: Sequence[Any] | Mapping[str, Any]
) -> None:
    """Restrict a query to the documents that satisfy ``where``, and record how they were found as a step."""
    from ..sql.document_filter import filter_documents

    with query.trace.step("filter documents") as step:
        allowed, step.detail = filter_documents(query.state, where, parameters)
        step.count = len(allowed)
    query.restrict_to(allowed)


def _respell_question(query: Query) -> None:
    """Change words and dates in the question of ``query`` to their spelling in the documents.

    If anything changed, the query keeps its original question, and the change is recorded as a step.
    """
    from ..retrieval.respelling import respell_question

    question = query.question
    query.question, respellings = respell_question(question, query.state)
    if respellings:
        query.original_question = question
        with query.trace.step("respell question") as step:
            changes = (f"{word} → {respelling}" for word, respelling in respellings)
            step.detail, step.count = f"as in the documents: {', '.join(changes)}", len(respellings)


def _make_fused_strategy(strategy: Strategy, questions: Sequence[str], vector: npt.ArrayLike | None) -> Strategy:
    """Return a strategy that fuses the results of ``strategy`` for several questions; for one, ``strategy`` itself.

    Raises InputError if a question is invalid, or if a vector is given.
    """
    from ..retrieval.fused_strategy import FusedStrategy

    if not all(isinstance(question, str) for question in questions):
        raise InputError("a question must be a string; pass a string or a list of strings")
    for question in questions:
        check_text("a question", question)
    if not questions or not all(question.strip() for question in questions):
        raise InputError("a question is empty; enter a question")
    if vector is not None:
        raise InputError("a vector belongs to a single question; pass one question, or omit the vector")
    strategies = getattr(strategy, "strategies", (strategy,))
    return FusedStrategy(strategies, tuple(map(to_nfc, questions))) if len(questions) > 1 else strategy


def retrieve_evidence(strategy: Strategy, query: Query) -> Evidence:
    """Run a query with a strategy, and return the evidence: the best hits, and the steps that found them.

    If the strategy finds fewer than ``query.top`` hits, the strategy that ``query.fill`` names adds more.
    """
    evidence = strategy.retrieve(query)
    if query.original_question is not None:
        evidence = replace(evidence, question=query.original_question)
    if query.fill != "none" and len(evidence.hits) < query.top:
        evidence = _fill_evidence(evidence, query, get_strategy(query.fill))
    return _mark_overview(evidence, strategy, query) if query.asks_for_overview else evidence


def _fill_evidence(evidence: Evidence, query: Query, filler: Strategy) -> Evidence:
    """Return the evidence with hits of ``filler`` appended, if there are fewer hits than requested.

    ``top`` (a number of hits) and ``within`` (a number of tokens) of the query limit all hits together. The added hits
    are chunks that no earlier hit contains. Their scores are lowered so that no score exceeds the one before it. If the
    evidence has segments (merged neighboring chunks) for a prompt, the added hits are appended to these too.
    """
    num_missing = query.top - len(evidence.hits)
    tokens_left = None
    if query.within is not None:
        tokens_left = query.within - sum(count_text_tokens(hit.text) for hit in evidence.hits)
    if num_missing <= 0 or (tokens_left is not None and tokens_left < 1):
        return evidence
    shown_chunks = _collect_chunks(evidence.hits)
    with query.trace.step("fill") as step:
        # Even if the filler finds every chunk shown so far, this leaves enough new ones.
        filler_query = replace(
            query, options={}, top=query.top + len(shown_chunks), within=tokens_left, segments="none", abstracts=False
        )
        filler_hits = [
            hit for hit in filler.retrieve(filler_query).hits if (hit.document, hit.ordinal) not in shown_chunks
        ][:num_missing]
        step.detail = f"{filler.name}, because {evidence.strategy} found {len(evidence.hits)} of {query.top}"
        step.count = len(filler_hits)
    hits = list(evidence.hits)
    for rank, hit in enumerate(filler_hits, len(hits) + 1):
        score = min(hit.score, hits[-1].score) if hits else hit.score
        hits.append(replace(hit, rank=rank, score=score, path=f"fill: {filler.name}, {hit.path}"))
    segments = list(evidence.segments)
    if segments:
        segment_chunks = _collect_chunks(segments)
        segments += [hit for hit in hits[len(evidence.hits) :] if (hit.document, hit.ordinal) not in segment_chunks]
    return replace(evidence, hits=hits, segments=segments)


def _collect_chunks(hits: Sequence[Hit]) -> set[tuple[str, int]]:
    """Return the (document key, ordinal) of each chunk in the hits that are chunks or segments, not summaries."""
    return {(span.document, span.ordinal) for hit in hits if hit.kind in ("chunk", "segment") for span in hit.spans}


def _mark_overview(evidence: Evidence, strategy: Strategy, query: Query) -> Evidence:
    """Return the evidence for a question that asks for an overview, marked as one if it has only summaries and reports.

    Otherwise, unless ``strategy`` is for overviews, it gets a hint that lists the strategies that are.
    """
    from ..retrieval.evidence import Step

    if evidence.hits and all(hit.kind in ("summary", "report") for hit in evidence.hits):
        return replace(evidence, is_overview=True)
    if getattr(strategy, "overview", False):
        return evidence
    overview_names = [
        name for name in list_overview_strategies() if _find_missing_index(query.state, get_strategy(name)) is None
    ]
    if not overview_names:
        return evidence
    hint = f"the question asks for an overview; USING {' or '.join(overview_names)} returns one"
    evidence.steps.append(Step("hint", hint))
    return replace(evidence, hint=hint)


def _find_missing_index(state: State, strategy: Strategy) -> str | None:
    """Return the kind of index that a strategy needs and the store lacks, or None.

    If the strategy fuses the results of several strategies, the first index that one of them lacks is returned.
    """
    for fused_strategy in getattr(strategy, "strategies", ()):
        missing_index = _find_missing_index(state, fused_strategy)
        if missing_index is not None:
            return missing_index
    index_name: str | None = getattr(strategy, "needs", None)
    if index_name is None:
        return None
    from ..structures.indexes.index import Indexes

    return index_name if Indexes(state.lmdb).get(get_index(index_name)) is None else None
