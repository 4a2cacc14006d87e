"""The pipeline of an answer: confidence, the prompt, the distilled evidence, and the text with its citations.

In: a function that opens the query of a question on one state, a function that retrieves the evidence of a query, the
session's settings, the embedder, and the language model. Out: the confidence, the prompt, or an answer in pieces. The
language model writes the answer if there is one; otherwise the answer is extractive. It abstains if the confidence is
too low. Each step loads the code that it needs, because a prompt needs little of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Unpack

from ..errors import InputError, ModelUnavailableError, PromptTooLongError
from ..retrieval.query import RERANKER_OPTION, Query, Strategy, get_reranker
from ..retrieval.question_clauses import Clauses
from ..structures.vectors.vectors import cosines

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from ..retrieval.evidence import Evidence
    from ..settings import SessionSettings
    from ..structures.vectors.vectors import Matrix
    from .answer import Answer
    from .citations import Citation
    from .confidence import Confidence
    from .extractive import Relevance, ScoredPassages
    from .prompt import Prompt

#: The fewest chunks a prompt must have room for to use segments, which would otherwise crowd out other chunks.
_MIN_PROMPT_CHUNKS = 4


class RetrieveFunction(Protocol):
    """A function that retrieves the evidence for a question, as ``Store.retrieve`` does."""

    def __call__(self, question: str, **clauses: Unpack[Clauses]) -> Evidence: ...


@dataclass(frozen=True, slots=True)
class _PreparedAnswer:
    """The data that the answer to a question is generated from. ``overview`` is the answer to an overview question."""

    question: str
    strategy: Strategy
    clauses: Clauses
    query: Query
    evidence: Evidence
    scored_passages: ScoredPassages
    confidence: Confidence
    overview: tuple[str, list[Citation]] | None


class Asker:
    """The answers to questions, from the states of a store, a snapshot or a transaction.

    ``open_query`` yields the strategy and the query of a question on the newest state; close it before a model writes,
    because it holds a snapshot. ``retrieve_evidence`` runs a query, and ``retrieve`` does both. ``embed`` returns the
    vectors of sentences. ``record_spending`` records the requests that were sent to a model.
    """

    def __init__(
        self,
        *,
        get_session: Callable[[], SessionSettings],
        get_language_model: Callable[[str | None], LanguageModel | None],
        embed: Callable[[Sequence[str]], Matrix],
        open_query: Callable[[str | Sequence[str], Clauses], AbstractContextManager[tuple[Strategy, Query]]],
        retrieve_evidence: Callable[[Strategy, Query], Evidence],
        retrieve: RetrieveFunction,
        record_spending: Callable[[LanguageModel], None],
    ) -> None:
        self._get_session = get_session
        self._get_language_model = get_language_model
        self._embed = embed
        self._open_query = open_query
        self._retrieve_evidence = retrieve_evidence
        self._retrieve = retrieve
        self._record_spending = record_spending

    @property
    def _session(self) -> SessionSettings:
        """The session's settings, which SET can change while a model writes."""
        return self._get_session()

    def weigh(self, question: str | Sequence[str], clauses: Clauses) -> tuple[Evidence, Confidence]:
        """Return the evidence for a question, and the probability that it answers it."""
        with self._open_query(question, clauses) as (strategy, query):
            evidence = self._retrieve_evidence(strategy, query)
            return evidence, self._estimate_confidence(query, evidence, self._score_passages(query, evidence))

    def prompt(self, question: str, clauses: Clauses) -> Prompt:
        """Return the prompt that a language model gets for a question."""
        with self._open_query(question, clauses) as (strategy, query):
            self._request_segments(query)
            return self._build_prompt(self._retrieve_evidence(strategy, query), query)

    def stream_answer(
        self, question: str, model: str | None, clauses: Clauses
    ) -> tuple[Evidence, Generator[str, None, Answer]]:
        """Return the evidence for a question, and a generator that yields the model's text and returns the answer."""
        from .answer import Answer, yield_nothing
        from .extractive import describe_nearest
        from .overviews import build_overview, is_overview

        language_model = self._get_language_model(model)
        with self._open_query(question, clauses) as (strategy, query):
            if language_model is not None:
                self._request_segments(query)
            evidence = self._retrieve_evidence(strategy, query)
            scored_passages = self._score_passages(query, evidence)
            confidence = self._estimate_confidence(query, evidence, scored_passages)
            if confidence.value < self._session.least_confidence:
                text, citations = describe_nearest(evidence, confidence.unknown, confidence.formless)
                abstained = Answer(text, citations, True, None, evidence, weighed=confidence, abstained=True)
                return evidence, yield_nothing(abstained)
            overview = None
            if is_overview(question, evidence.hits):
                overview = build_overview(evidence.hits, query.state, include_all=query.within is not None)

        prepared = _PreparedAnswer(question, strategy, clauses, query, evidence, scored_passages, confidence, overview)
        return evidence, self._generate_answer(prepared, language_model)

    def _generate_answer(self, prepared: _PreparedAnswer, model: LanguageModel | None) -> Generator[str, None, Answer]:
        """Yield the model's text and return the answer; return an extractive answer if there is no model's.

        The state is already closed, because a model can write for minutes.
        """
        problem = None
        if model is not None and prepared.evidence.hits:
            try:
                answer = yield from self._write_answer(prepared, model)
                if answer is not None:
                    return answer
                problem = f"language model {model.name!r} found nothing about this question in the evidence."
            except (ModelUnavailableError, PromptTooLongError) as error:
                problem = f"{error}."
            finally:
                self._record_spending(model)
            problem += " This answer is extractive."
        return _extract_answer(prepared, problem)

    def _write_answer(self, prepared: _PreparedAnswer, model: LanguageModel) -> Generator[str, None, Answer | None]:
        """Yield the model's text and return its answer; None if the model found nothing about the question.

        A prompt that the model has no room for is built once more, with as many tokens as the server says. Raises
        ModelUnavailableError and PromptTooLongError.
        """
        from ..models.llm import MAX_ANSWER_TOKENS, compute_fitting_tokens
        from .answer import write_answer

        use_cache = self._session.answer_cache
        distilled = self._distill_evidence(prepared, model)
        if not distilled.hits:
            return None
        prompt = self._build_prompt(distilled, prepared.query)
        trace = prepared.query.trace
        try:
            answer = yield from write_answer(distilled, prompt, model, use_cache=use_cache, trace=trace)
        except PromptTooLongError as problem:
            budget = compute_fitting_tokens(prompt.tokens, problem, MAX_ANSWER_TOKENS)
            if budget is None:
                raise
            try:
                prompt = self._build_prompt(distilled, prepared.query, budget)
            except InputError:  # the context has no room for a passage
                raise problem from None
            answer = yield from write_answer(distilled, prompt, model, use_cache=use_cache, trace=trace)
        return replace(answer, weighed=prepared.confidence)

    def _request_segments(self, query: Query) -> None:
        """Request segments in addition to chunks, with about as many tokens as fit in a prompt."""
        # A conservative estimate: a word or punctuation mark is about two tokens of a model.
        tokens = self._session.prompt_tokens // 2
        if query.segments == "no" and tokens >= _MIN_PROMPT_CHUNKS * query.state.settings.chunk_tokens:
            query.segments, query.segment_tokens = "beside", tokens

    def _distill_evidence(self, prepared: _PreparedAnswer, model: LanguageModel) -> Evidence:
        """Return the evidence that an answer is written from, distilled by the model if the strategy does that."""
        distil = getattr(prepared.strategy, "distil", None)
        if distil is None:
            return prepared.evidence
        from ..models.structured import StructuredModel
        from .distiller import ModelDistiller

        # The caller's vector is that of the original question only.
        base_clauses: Clauses = {**prepared.clauses, "vector": None}
        reranker = get_reranker(prepared.clauses.get("options") or {})

        def retrieve(other_question: str, using: str | None) -> Evidence:
            if using is None:
                return self._retrieve(other_question, **base_clauses)
            # Options belong to one strategy, except the reranker.
            shared_options = None if reranker is None else {RERANKER_OPTION: reranker}
            strategy_clauses: Clauses = {**base_clauses, "using": using, "options": shared_options}
            return self._retrieve(other_question, **strategy_clauses)

        @contextmanager
        def open_query(other_question: str) -> Iterator[Query]:
            """Yield a query for another question, with the same clauses, on the newest state."""
            with self._open_query(other_question, base_clauses) as (_, query):
                yield query

        distilled: Evidence = distil(
            prepared.evidence,
            ModelDistiller(
                StructuredModel(model),
                self._session.prompt_tokens,
                open_query=open_query,
                retrieve=retrieve,
            ),
        )
        return distilled

    def _build_prompt(self, evidence: Evidence, query: Query, budget: int | None = None) -> Prompt:
        """Return the prompt for this evidence within a budget, by default the session's, and record it as a step of the
        query.
        """
        from .prompt import build_prompt

        budget = budget or self._session.prompt_tokens
        with query.trace.step("build prompt") as step:
            prompt = build_prompt(evidence, budget)
            num_included, num_available = len(prompt.passages), len(evidence.segments or evidence.hits)
            size = f"about {prompt.tokens:,} tokens of {budget:,}"
            step.detail, step.count = (
                f"{num_included} of {num_available} passages, {prompt.abstracts} abstracts, {size}",
                num_included,
            )
        return prompt

    def _estimate_confidence(self, query: Query, evidence: Evidence, scored_passages: ScoredPassages) -> Confidence:
        """Estimate the probability that the evidence answers the question, and record it as a step of the query."""
        from .confidence import estimate_confidence

        with query.trace.step("weigh confidence") as step:
            confidence = estimate_confidence(
                query, evidence.hits, evidence.context, lambda: scored_passages.snippets.nearest
            )
            threshold = self._session.least_confidence
            comparison = "reaches" if confidence.value >= threshold else "is below"
            step.detail = f"{confidence}; {comparison} the threshold {threshold:g}"
            step.count = len(evidence.hits)
        return confidence

    def _score_passages(self, query: Query, evidence: Evidence) -> ScoredPassages:
        """Return the passages around the evidence, from which an extractive answer is made.

        Their snippets are scored when the scores are first needed.
        """
        from .extractive import MAX_CHUNKS, ScoredPassages
        from .passages import build_passages

        return ScoredPassages(build_passages(evidence.hits[:MAX_CHUNKS], query.state), self._build_relevance(query))

    def _build_relevance(self, query: Query) -> Relevance:
        """Return the scorer of statements for a question; it uses words only if the store has no embedder."""
        from ..retrieval.decomposition import decompose
        from ..retrieval.recognition import recognize_entities
        from ..text.words import get_stemmer
        from .confidence import compute_question_rarities
        from .extractive import Relevance

        state = query.state
        stem = get_stemmer(state.settings.stemmer)
        rarities = compute_question_rarities(query.question, state)
        if state.settings.embedder.startswith("none:"):
            return Relevance(query.question, rarities, stem, lambda texts: [(0.0, 0.0)] * len(texts))
        uncounted_query = replace(query, count_hits=lambda keys: None)
        names = recognize_entities(uncounted_query, capitalized_only=True)
        rest_vector = query.embed_part(decompose(query.question, names).remainder)

        def compute_similarities(texts: Sequence[str]) -> list[tuple[float, float]]:
            vectors = self._embed(texts)
            question_cosines, rest_cosines = cosines(vectors, query.vector), cosines(vectors, rest_vector)
            return list(zip(question_cosines.tolist(), rest_cosines.tolist(), strict=True))

        return Relevance(query.question, rarities, stem, compute_similarities)


def _extract_answer(prepared: _PreparedAnswer, problem: str | None) -> Answer:
    """Return an extractive answer; it abstains if no passage has a sentence to quote.

    ``problem`` explains why the language model did not answer; None if it was not asked.
    """
    from .answer import Answer
    from .extractive import describe_nearest, extract_answer

    evidence, confidence = prepared.evidence, prepared.confidence
    with prepared.query.trace.step("choose sentences") as step:
        extracted_answer = prepared.overview or extract_answer(evidence, prepared.scored_passages)
        text, citations = extracted_answer or describe_nearest(evidence, confidence.unknown)
        reason = "no language model is configured" if problem is None else "the language model did not answer"
        step.detail, step.count = f"extractive: {reason}", len(citations)
    return Answer(
        text,
        citations,
        True,
        None,
        evidence,
        problem=problem,
        weighed=confidence if extracted_answer else replace(confidence, value=0.0),
        abstained=extracted_answer is None,
    )
