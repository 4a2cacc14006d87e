"""The steps of an answer: evidence, confidence, prompt, and text with citations. A *query* is a question on one
snapshot; a *strategy* retrieves its evidence; *clauses* are the caller's options (``using``, ``top``). The *answer
reader* is a small network that reads *passages*, the texts around hits.

In: a function that opens the query of a question on one state, a function that retrieves the evidence of a query, the
session's settings, the embedder, and the language model. Out: the confidence, the prompt, or an answer in pieces. The
language model writes the answer if there is one; otherwise the answer is extractive. It abstains if the confidence is
too low. Each step loads the code that it needs, because a prompt needs little of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InputError, ModelUnavailableError, PromptTooLongError
from ..process.frozen_dataclass import frozen_dataclass
from ..retrieval.overview import parse_summary_request
from ..retrieval.query import Query, Strategy
from ..retrieval.question_clauses import Clauses, RetrieveFunction
from ..structures.vectors.vectors import cosines
from ..text.languages import detect_question_language, is_latin
from ..text.words import is_unspaced

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from ..retrieval.evidence import Evidence, Hit
    from ..settings import SessionSettings
    from ..structures.vectors.vectors import Matrix
    from .answer import Answer
    from .answer_reader.reader import AnswerReader
    from .answer_reader.reader_answer import PartResult
    from .answer_reader.reading import ReaderResult
    from .confidence import Confidence
    from .extractive import ExtractedAnswer, ScoredPassages
    from .prompt import Prompt
    from .snippet_scoring import SnippetScorer

#: The minimum number of chunks that fit in a prompt that uses segments, which would otherwise crowd out other chunks.
_MIN_PROMPT_CHUNKS = 4
#: The maximum number of words of an answer with sentences from several passages. With 70 instead of 118, HotpotQA has
#: one right answer less of 39, and the answers have 60 words instead of 84.
_MAX_CHAIN_WORDS = 70


class _AnswerInputs(NamedTuple):
    """The data that the answer to a question is generated from.

    ``reader_result`` is the result of the answer reader (None: rules choose the sentences). ``overview`` is the answer
    to an overview question (None: the question asks for no overview). ``max_words`` limits an extractive answer (None:
    the usual limits).
    """

    strategy: Strategy
    clauses: Clauses
    query: Query
    evidence: Evidence
    scored_passages: ScoredPassages
    reader_result: ReaderResult | None
    confidence: Confidence
    overview: ExtractedAnswer | None
    max_words: int | None


@frozen_dataclass
class Asker:
    """The service that answers questions from the states of a store, a snapshot or a transaction. ``open_query`` yields
    the strategy and the query for a question, and ``retrieve_evidence`` runs it. ``get_session`` returns the current
    settings. An *extractive* answer quotes the documents.

    The settings can change while a model writes, because of SET. ``get_language_model`` returns the model with a name
    (None: the configured model), or None if no model is configured. ``embed`` returns a matrix with the vector of each
    text. ``open_query`` returns a context manager; leave it before a model writes, because it holds a snapshot.
    ``retrieve`` opens and runs a query for another question. ``record_spending`` records the requests that were sent to
    a model; it is called after each use of a model.
    """

    get_session: Callable[[], SessionSettings]
    get_language_model: Callable[[str | None], LanguageModel | None]
    embed: Callable[[Sequence[str]], Matrix]
    open_query: Callable[[str | Sequence[str], Clauses], AbstractContextManager[tuple[Strategy, Query]]]
    retrieve_evidence: Callable[[Strategy, Query], Evidence]
    retrieve: RetrieveFunction
    record_spending: Callable[[LanguageModel], None]

    def weigh(self, question: str | Sequence[str], clauses: Clauses) -> tuple[Evidence, Confidence]:
        """Return the evidence for a question, and the probability that this evidence answers the question.

        ``clauses`` configure the retrieval, for example its strategy.
        """
        with self.open_query(question, clauses) as (strategy, query):
            evidence = self._retrieve_for_answer(strategy, query, clauses)
            return evidence, self._estimate_confidence(query, evidence, *self._read_evidence(query, evidence, clauses))

    def prepare_prompt(self, question: str, clauses: Clauses) -> Prompt:
        """Retrieve the evidence for a question, and return the prompt with it for a language model.

        ``clauses`` configure the retrieval, for example its strategy. No model is asked. Raises InputError if the
        ``prompt_tokens`` setting has no room for a passage.
        """
        with self.open_query(question, clauses) as (strategy, query):
            self._request_segments(query)
            return self._build_prompt(self._retrieve_for_answer(strategy, query, clauses), query)

    def stream_answer(
        self, question: str, model: str | None, clauses: Clauses, max_words: int | None
    ) -> tuple[Evidence, Generator[str, None, Answer]]:
        """Return the evidence for a question, and a generator that yields the model's text and returns the answer.

        If the confidence is too low, no model is asked, and the answer has ``abstained``. If no model is configured,
        the answer is extractive, and a question for several facts gets a paragraph for each. ``model`` is the name of a
        model (None: the configured one), ``clauses`` configure the retrieval, and ``max_words`` limits an extractive
        answer (None: the usual limits).
        """
        from .answer import make_extractive_answer, yield_nothing

        language_model = self.get_language_model(model)
        with self.open_query(question, clauses) as (strategy, query):
            if language_model is not None:
                self._request_segments(query)
            evidence = self._retrieve_for_answer(strategy, query, clauses)
            if language_model is None and not evidence.is_overview:
                answer = self._answer_parts(query, evidence, clauses)
                if answer is not None:
                    return evidence, yield_nothing(answer)
            scored_passages, reader_result = self._read_evidence(query, evidence, clauses)
            confidence = self._estimate_confidence(query, evidence, scored_passages, reader_result)
            if reader_result is not None:
                needs_chain = reader_result.needs_several_passages
                if needs_chain and max_words is None:
                    max_words = _MAX_CHAIN_WORDS
                if needs_chain or reader_result.needs_topic_excerpts:
                    reader_result = None  # no single sentence answers, so rules choose several
            if confidence.value < self.get_session().least_confidence:
                from .refusals import build_refusal

                refusal = build_refusal(query, evidence, scored_passages, confidence, reader_result)
                return evidence, yield_nothing(make_extractive_answer(refusal, evidence, confidence, abstained=True))
            overview = None
            if evidence.is_overview:
                from .overviews import build_overview

                include_all = query.within is not None
                overview = build_overview(evidence, query.state, include_all=include_all, max_words=max_words)

        inputs = _AnswerInputs(
            strategy, clauses, query, evidence, scored_passages, reader_result, confidence, overview, max_words
        )
        return evidence, self._generate_answer(inputs, language_model)

    def _generate_answer(self, inputs: _AnswerInputs, model: LanguageModel | None) -> Generator[str, None, Answer]:
        """Yield the model's text and return its answer, or return an extractive answer.

        The answer is extractive without a model, without hits, and if the model gives no usable answer. This generator
        runs after the snapshot of the query is released, because a model can write for minutes.
        """
        problem = None
        if model is not None and inputs.evidence.hits:
            try:
                answer = yield from self._write_answer(inputs, model)
                if answer is not None:
                    return answer
                problem = f"language model {model.name!r} found nothing about this question in the evidence."
            except (ModelUnavailableError, PromptTooLongError) as error:
                problem = f"{error}."
            finally:
                self.record_spending(model)
            problem += " This answer is extractive."
        return _extract_answer(inputs, problem)

    def _write_answer(self, inputs: _AnswerInputs, model: LanguageModel) -> Generator[str, None, Answer | None]:
        """Yield the model's text, and return its answer with the confidence that was computed from the evidence.

        Returns None if the strategy distills the evidence and the model keeps no passage as relevant. If the prompt is
        too long for the model's context, it is built once more with the limit that the server reported.
        Raises ModelUnavailableError and PromptTooLongError, and InputError if the ``prompt_tokens`` setting has no room
        for a passage.
        """
        from ..models.llm import MAX_ANSWER_TOKENS, compute_fitting_tokens
        from .answer import write_answer

        use_cache = self.get_session().answer_cache
        distilled_evidence = self._distill_evidence(inputs, model)
        if not distilled_evidence.hits:
            return None
        prompt = self._build_prompt(distilled_evidence, inputs.query)
        trace = inputs.query.trace
        try:
            answer = yield from write_answer(distilled_evidence, prompt, model, use_cache=use_cache, trace=trace)
        except PromptTooLongError as problem:
            budget = compute_fitting_tokens(prompt.tokens, problem, MAX_ANSWER_TOKENS)
            if budget is None:
                raise
            try:
                prompt = self._build_prompt(distilled_evidence, inputs.query, budget)
            except InputError:  # the context has no room for a passage
                raise problem from None
            answer = yield from write_answer(distilled_evidence, prompt, model, use_cache=use_cache, trace=trace)
        return replace(answer, weighed=inputs.confidence)

    def _retrieve_for_answer(self, strategy: Strategy, query: Query, clauses: Clauses) -> Evidence:
        """Return the evidence for a question: the section that it names, an overview, or the hits of ``strategy``.

        The question names a section by its number or version. An overview is returned if it asks for a summary of a
        known subject, unless ``strategy`` answers such questions itself. If ``clauses`` name a strategy, its hits are
        returned for every question.
        """
        if clauses.get("using") is not None:
            return self.retrieve_evidence(strategy, query)
        from .section_references import find_section_reference, parse_changes_request

        evidence, section_evidence = None, None
        changes_request = parse_changes_request(query.question)
        reference = find_section_reference(query.question, query.state.main_language)
        if changes_request is not None or reference is not None:
            from .section_evidence import retrieve_changes, retrieve_section

            evidence = self.retrieve_evidence(strategy, query)
            if changes_request is not None:
                section_evidence = retrieve_changes(evidence.hits, changes_request, query)
            if section_evidence is None and reference is not None:
                section_evidence = retrieve_section(evidence.hits, reference, query)
            if section_evidence is not None:
                return section_evidence
            if reference is not None and reference.number:  # a summary of the document is not an answer
                return evidence
        request = parse_summary_request(query.question, query.state.main_language)
        if request is not None and not getattr(strategy, "overview", False):
            from .overviews import retrieve_overview

            overview = retrieve_overview(query, request, self.retrieve_evidence)
            if overview is not None:
                return overview
        return self.retrieve_evidence(strategy, query) if evidence is None else evidence

    def _request_segments(self, query: Query) -> None:
        """Change a query so that it also returns segments (neighboring chunks as one text) for a prompt.

        The query is not changed if it requests segments already, or if a prompt has no room for ``_MIN_PROMPT_CHUNKS``.
        """
        # A conservative estimate: a word or punctuation mark is about two tokens of a model.
        tokens = self.get_session().prompt_tokens // 2
        if query.segments == "none" and tokens >= _MIN_PROMPT_CHUNKS * query.state.settings.chunk_tokens:
            query.segments, query.segment_tokens = "added", tokens

    def _distill_evidence(self, inputs: _AnswerInputs, model: LanguageModel) -> Evidence:
        """Return the evidence for the prompt, distilled by the model if the strategy has a ``distill`` method.

        Distilled evidence has the points (statements) that the model extracted from the passages.
        """
        distill = getattr(inputs.strategy, "distill", None)
        if distill is None:
            return inputs.evidence
        from ..models.structured import StructuredModel
        from .distiller import ModelDistiller

        budget = self.get_session().prompt_tokens
        distiller = ModelDistiller(
            StructuredModel(model), budget, inputs.clauses, open_query=self.open_query, retrieve=self.retrieve
        )
        distilled_evidence: Evidence = distill(inputs.evidence, distiller)
        return distilled_evidence

    def _build_prompt(self, evidence: Evidence, query: Query, budget: int | None = None) -> Prompt:
        """Return the prompt for the evidence, and record this step in the query's trace.

        It has at most ``budget`` tokens (None: the session's ``prompt_tokens`` setting). Raises InputError if that is
        too few for a passage.
        """
        from .prompt import build_prompt

        budget = budget or self.get_session().prompt_tokens
        with query.trace.step("build prompt") as step:
            prompt = build_prompt(evidence, budget)
            step.count, num_available = len(prompt.passages), len(evidence.segments or evidence.hits)
            size = f"about {prompt.tokens:,} tokens of {budget:,}"
            step.detail = f"{step.count} of {num_available} passages, {prompt.abstracts} abstracts, {size}"
        return prompt

    def _estimate_confidence(
        self, query: Query, evidence: Evidence, scored_passages: ScoredPassages, reader_result: ReaderResult | None
    ) -> Confidence:
        """Return the probability that the evidence answers the question, and record this step in the query's trace.

        An overview has a fixed confidence. ``reader_result`` is the result of the answer reader, a neural network
        (None: it did not read the passages).
        """
        from .confidence import OVERVIEW_CONFIDENCE, estimate_confidence
        from .numbered_sections import SECTION

        with query.trace.step("weigh confidence") as step:
            if evidence.is_overview:
                confidence = OVERVIEW_CONFIDENCE
            else:
                # In compared_text, a number of the question replaces a range that covers it, such as 1992–2004, or the
                # superlative of the question is in a row, so that neither counts as a missing word.
                compared_text = "" if reader_result is None else reader_result.best.compared_text
                context = [*evidence.context, *filter(None, [compared_text])]
                has_section = evidence.strategy == SECTION
                confidence = estimate_confidence(
                    query, evidence.hits, context, scored_passages, reader_result, has_section=has_section
                )
            threshold = self.get_session().least_confidence
            comparison = "reaches" if confidence.value >= threshold else "is below"
            step.detail, step.count = f"{confidence}; {comparison} the threshold {threshold:g}", len(evidence.hits)
        return confidence

    def _read_evidence(
        self, query: Query, evidence: Evidence, clauses: Clauses, *, is_part: bool = False
    ) -> tuple[ScoredPassages, ReaderResult | None]:
        """Return the passages around the evidence, and the answer reader's result for them (None: it read none).

        The chunks nearest to the question are read too, unless ``clauses``, the retrieval options that the caller set,
        choose a strategy or a token limit. The snippets of the passages (sentences, items, rows) are scored on first
        use. ``is_part`` is True if the question is a part of a longer one, such as "by when?" of "Who approves it, and
        by when?": it then asks for one fact, which needs no chain of passages.
        """
        from .extractive import ScoredPassages
        from .passages import build_passages
        from .snippet_scoring import MAX_CHUNKS

        scorer = self._build_scorer(query)
        hits: Sequence[Hit] = evidence.hits[:MAX_CHUNKS]
        reader = self._load_reader(query, evidence, hits, scorer.language)
        if reader is not None:
            from .answer_reader.candidate_hits import add_candidate_hits
            from .answer_reader.reading import read_passages
            from .numbered_sections import SECTION
            from .question_form import may_need_several_passages

            tables: Mapping[str, Hashable] = {}
            if clauses.get("using") is None and clauses.get("within") is None and evidence.strategy != SECTION:
                hits, tables = add_candidate_hits(hits, query)
            passages = build_passages(hits, query.state)
            with query.trace.step("read sentences") as step:
                may_be_chain = not is_part and may_need_several_passages(query.question, hits)
                reader_result = read_passages(reader, passages, scorer, may_be_chain=may_be_chain, tables=tables)
                if reader_result is not None:
                    step.detail = f"the best scores {reader_result.best.score:.2f}"
                    step.count = len(reader_result.candidates)
                    return ScoredPassages(passages, scorer, reader_result.rule_scores), reader_result
        return ScoredPassages(build_passages(evidence.hits[:MAX_CHUNKS], query.state), scorer), None

    def _load_reader(
        self, query: Query, evidence: Evidence, hits: Sequence[Hit], language: str | None
    ) -> AnswerReader | None:
        """Return the answer reader; None if it is switched off or not installed, or if it cannot read the ``hits``.

        It reads chunks of documents, for a question in English. The store must also have an embedder whose vectors
        represent meaning: neither ``hashing`` nor ``none``.
        """
        has_only_chunks = bool(hits) and not evidence.groups and all(hit.kind in ("chunk", "segment") for hit in hits)
        is_in_latin_script = is_latin(query.question) and not is_unspaced(query.question)
        can_read = has_only_chunks and is_in_latin_script and language in (None, "english")
        has_vectors_of_meaning = not query.state.settings.embedder.startswith(("hashing", "none:"))
        if not (can_read and has_vectors_of_meaning and self.get_session().answer_reader):
            return None
        from .answer_reader.reader import load_reader

        return load_reader()

    def _answer_parts(self, query: Query, evidence: Evidence, clauses: Clauses) -> Answer | None:
        """Return an answer with a paragraph for each part of a question ("Who approves it, and by when?").

        A part without an answer gets a note instead. The confidence is the lowest of the answered parts. ``query`` and
        ``evidence`` are those of the whole question. Returns None if the question has one part, if no part has an
        answer, or if the answer reader (a neural network) cannot read the passages of a part.
        """
        from .question_form import is_yes_no_question, split_question

        texts = split_question(query.question)
        readings = self._read_parts(texts, query, clauses) if len(texts) > 1 else None
        if readings is None:
            return None
        from .answer import make_extractive_answer
        from .answer_reader.reader_answer import extract_part_answers

        parts, confidences = zip(*readings, strict=True)
        threshold = self.get_session().least_confidence
        answered = [confidence.value >= threshold for confidence in confidences]
        if not any(answered):
            return None
        lowest_confidence = min(compress(confidences, answered), key=lambda confidence: confidence.value)
        # The sentence that answers "and for how long?" also answers "May I stay?", which the reader judges less surely.
        answering_ids = {part.best_snippet_id for part in compress(parts, answered)}
        for index, (part, confidence) in enumerate(readings):
            is_answered_elsewhere = part.best_snippet_id in answering_ids and is_yes_no_question(part.text)
            answered[index] |= is_answered_elsewhere and not confidence.unknown
        return make_extractive_answer(extract_part_answers(parts, answered), evidence, lowest_confidence)

    def _read_parts(
        self, texts: Sequence[str], whole_query: Query, clauses: Clauses
    ) -> list[tuple[PartResult, Confidence]] | None:
        """Return the reader result and the confidence for each part of a question; None if it cannot read one.

        ``texts`` are the parts as written. A later part can omit its subject ("When is the fair, and what do adults
        pay?"), so it is also searched in the document that answers the first one.
        """
        from .question_form import complete_part

        threshold = self.get_session().least_confidence
        first_reading = self._read_part(texts[0], texts[0], clauses)
        if first_reading is None:
            return None
        first_result, is_first_answered = first_reading[0].reader_result, first_reading[1].value >= threshold
        first_answer = first_result.best.answer if is_first_answered else ""
        readings = [first_reading]
        for text in texts[1:]:
            reading = self._read_part(text, complete_part(text, texts[0], first_answer), clauses)
            is_answered = reading is None or reading[1].value >= threshold
            if is_first_answered and not is_answered and clauses.get("where") is None:
                document = first_result.passages[first_result.best.position.passage_index].document
                in_document: Clauses = {**clauses, "where": "key = ?", "parameters": (document,)}
                reading = self._read_part(text, text, in_document, whole_query=whole_query) or reading
            if reading is None:
                return None
            readings.append(reading)
        return readings

    def _read_part(
        self, text: str, question: str, clauses: Clauses, whole_query: Query | None = None
    ) -> tuple[PartResult, Confidence] | None:
        """Return the reader result for a part of a question, and its confidence; None if the reader cannot read it.

        ``text`` is the part as written, and ``question`` the part as a complete question. The rules compare the
        passages with the question of ``whole_query`` (None: with the part).
        """
        from .answer_reader.reader_answer import PartResult

        with self.open_query(question, clauses) as (strategy, query):
            evidence = self.retrieve_evidence(strategy, query)
            scored_passages, reader_result = self._read_evidence(query, evidence, clauses, is_part=True)
            if reader_result is None:
                return None
            confidence = self._estimate_confidence(whole_query or query, evidence, scored_passages, reader_result)
            return PartResult(text, reader_result, scored_passages.scorer), confidence

    def _build_scorer(self, query: Query) -> SnippetScorer:
        """Return a scorer of snippets (sentences, items, rows) by their relevance to the question of a query.

        If the store has no embedder, it compares words only, and all its cosines are 0.
        """
        from ..retrieval.recognition import RecognitionRequest, decompose
        from .question_terms import compute_question_rarities
        from .snippet_scoring import SnippetScorer

        state, stem = query.state, query.stem
        language = detect_question_language(query.question, state.main_language)
        rarities = compute_question_rarities(query.question, state, language, stem)
        embedder = state.settings.embedder
        build_scorer = partial(SnippetScorer, query.question, language, rarities, stem, embedder)
        if embedder.startswith("none:"):
            return build_scorer(lambda texts: [(0.0, 0.0)] * len(texts))
        names = query.reading.fetch(RecognitionRequest(query.question, capitalized_only=True))  # known entities
        rest_vector = query.embed_part(decompose(query.question, names).remainder)

        def compute_similarities(texts: Sequence[str]) -> list[tuple[float, float]]:
            """Return for each text its cosine with the question, and with the question without its names."""
            vectors = self.embed(texts)
            question_cosines, rest_cosines = cosines(vectors, query.vector), cosines(vectors, rest_vector)
            return list(zip(question_cosines.tolist(), rest_cosines.tolist(), strict=True))

        return build_scorer(compute_similarities)


def _extract_answer(inputs: _AnswerInputs, problem: str | None) -> Answer:
    """Return an extractive answer; it abstains, with a confidence of 0, if no passage has a sentence to quote.

    The step is recorded in the query's trace. ``problem`` explains why the language model did not answer (None: it was
    not asked).
    """
    from .answer import make_extractive_answer
    from .extractive import extract_answer

    evidence, confidence, scored_passages = inputs.evidence, inputs.confidence, inputs.scored_passages
    with inputs.query.trace.step("choose sentences") as step:
        if inputs.overview is not None:
            content: ExtractedAnswer | None = inputs.overview
        elif inputs.reader_result is not None:
            from .answer_reader.reader_answer import extract_reader_answer

            content = extract_reader_answer(
                evidence, inputs.reader_result, scored_passages.scorer, inputs.max_words, confidence.value
            )
        else:
            content = extract_answer(evidence, scored_passages, inputs.max_words)
        abstained = content is None
        if content is None:
            from .refusals import build_refusal

            content = build_refusal(inputs.query, evidence, scored_passages, confidence)
            confidence = replace(confidence, value=0.0)
        reason = "no language model is configured" if problem is None else "the language model did not answer"
        chooser = "rules" if inputs.reader_result is None else "the answer reader"
        step.detail, step.count = f"extractive, chosen by {chooser}: {reason}", len(content.citations)
    return make_extractive_answer(content, evidence, confidence, abstained=abstained, problem=problem)
