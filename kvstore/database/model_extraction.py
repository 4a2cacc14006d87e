"""EXTRACT: a language model writes *texts*, such as triples, about passages (chunks) of the documents.
A passage has a *digest* (hash); if several documents contain it, it is requested once, and its texts are *copied*. A
request has *overhead*: tokens in addition to its passages.

In: a kind of text (:class:`~kvstore.registry.written_passages.WrittenFact`), the documents, and a token limit. On disk:
the model's texts; each answer is committed on arrival, so an interrupted run loses only the request in progress. Out: a
report, or a forecast of the requests. A request has several passages, but fewer if the model fails at several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..arguments import check_integer, format_count
from ..errors import (
    DocumentNotFoundError,
    InputError,
    InvalidAnswerError,
    ModelError,
    PromptTooLongError,
    TokenLimitError,
)
from ..extraction.validation import PAIRS_FORMAT
from ..models.llm import LanguageModel
from ..models.quoting import to_printable
from ..models.structured import MAX_FAILURES, ModelReport, StructuredModel
from ..models.token_estimate import token_estimate
from ..registry import get_written_fact
from ..registry.chunk_selection import SCORE_FUNCTIONS, score_chunks, select_passages
from ..registry.chunked_text import load_chunked_text
from ..registry.written_passages import ModelTexts, PassageTexts, SourcePassage, WrittenFact
from ..sql.document_filter import filter_documents
from ..structures.documents.allowed import AllowedDocuments
from ..structures.documents.documents import DocumentRecord
from ..structures.state import State
from .handle import Handle
from .request_queue import Request, RequestQueue

#: The maximum error, in tokens, if the tokens of a passage are estimated part by part.
_ROUNDING_TOKENS = 4
#: The number of documents whose passages are cached.
_MAX_CACHED_DOCUMENTS = 16


@dataclass(frozen=True, slots=True)
class ExtractionProgress:
    """The progress of an extraction: requests answered, all requests, and tokens sent."""

    kind: str
    done: int
    total: int
    sent: int


@dataclass(frozen=True, slots=True)
class ExtractionForecast:
    """The forecast of an extraction.

    ``passages`` is the number of passages to write about, ``calls`` the number of requests, and ``tokens`` the number
    of tokens that they send, approximately. ``written`` is the number of passages that already have a text. ``copied``
    is the number of passages that get the text of the same passage in a different document. ``left`` is the number of
    passages that would remain without a text. ``room`` is the token limit, or None without a limit.
    """

    kind: str
    documents: int
    passages: int
    calls: int
    tokens: int
    written: int
    copied: int
    left: int
    room: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionReport(ModelReport):
    """The result of an extraction: ``passages`` were written, ``copied`` of them from another document that contains
    the same passage.
    """

    passages: int
    copied: int


@dataclass(slots=True)
class _DistinctPassage:
    """A passage, and the keys of the documents that contain it; it is requested as a passage of the first document."""

    digest: bytes
    document_keys: list[str]
    tokens: int
    chunks: Sequence[int]
    is_written: bool


class _Overhead(NamedTuple):
    """The estimated tokens that are sent in addition to the passages."""

    #: The tokens of a request without passages.
    request_tokens: int
    #: The tokens that a request adds around each passage.
    frame_tokens: int


@dataclass(slots=True)
class _Plan:
    """The requests of an extraction in order, its forecast, and the documents that get the texts.

    ``document_keys`` has, by the digest of each passage, the keys of the documents that contain it.
    """

    requests: list[Request]
    forecast: ExtractionForecast
    document_keys: Mapping[bytes, Sequence[str]]
    #: For each document, the texts that exist for the same passages in other documents.
    copied_texts: Mapping[str, ModelTexts]


@dataclass(slots=True)
class _RunningCounts:
    """The counts of an extraction so far: passages with a new text, copied texts among these; and its failures."""

    num_passages: int
    num_copied: int
    failures: list[str] = field(default_factory=list)


class _CollectedPassages(NamedTuple):
    """The distinct passages of ``num_documents`` documents.

    ``copied_texts`` has, for each document, the texts that exist for the same passages in other documents.
    """

    passages: list[_DistinctPassage]
    num_documents: int
    copied_texts: dict[str, ModelTexts]


class ModelExtraction:
    """One EXTRACT statement: a language model writes texts of a kind (``_text_kind``), such as triples, about passages.
    With a limit on tokens, the passages with the highest scores are selected.
    """

    def __init__(
        self,
        handle: Handle,
        kind: str,
        *,
        where: str | Mapping[str, Any] | None = None,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        share: float | None = None,
        within: int | None = None,
        by: str | None = None,
    ) -> None:
        """Validate and store the arguments of EXTRACT; raise InputError if they are invalid.

        ``kind`` is the kind of text to write. ``share`` (a fraction of all tokens to send) or ``within`` (a number of
        tokens) limits what is sent; None is no limit. ``by`` is the method that selects the passages to send within
        this limit (None: the default). ``where`` with ``parameters`` is the condition on documents, None for all.
        """
        if share is not None and within is not None:
            raise InputError("SHARE and WITHIN both limit the tokens to send; use only one of them")
        if share is not None and not (isinstance(share, (int, float)) and 0 < share <= 1):
            raise InputError(f"SHARE must be more than 0 and at most 1, not {share!r}")
        if within is not None:
            check_integer("within", within, 1)
        if by is not None and by.lower() not in SCORE_FUNCTIONS:
            raise InputError(f"there is no selection method {by!r}; BY takes {', '.join(SCORE_FUNCTIONS)}")
        self._handle = handle
        self._text_kind: WrittenFact = get_written_fact(kind)
        self._share = share
        self._token_limit = within
        self._selection_method = by
        self._condition = where
        self._parameters = parameters
        #: The passages of recently used documents, by document id; the passages of an id never change.
        self._cached_passages: dict[int, dict[bytes, SourcePassage]] = {}

    def forecast(self) -> ExtractionForecast:
        """Forecast the requests of :meth:`run`; sends nothing."""
        return self._plan_extraction().forecast

    def run(
        self, model: LanguageModel, progress: Callable[[ExtractionProgress], None] | None = None
    ) -> ExtractionReport:
        """Generate the missing texts about passages with the model, store them, and return a report.

        First copies the texts of identical passages in other documents. Stops early at the token limit. Raises the
        model's errors, and InvalidAnswerError after several consecutive unusable answers; texts written before an error
        are kept.
        """
        plan = self._plan_extraction()
        for key, texts in plan.copied_texts.items():
            self._store_texts({key: texts})
        counts = _RunningCounts(num_passages=plan.forecast.copied, num_copied=plan.forecast.copied)
        structured_model = StructuredModel(model, max_tokens=plan.forecast.room)
        pending_requests = RequestQueue(plan.requests)
        num_done = 0
        while pending_requests:
            if progress is not None:
                progress(self._make_progress(num_done, num_done + len(pending_requests), structured_model))
            num_done += 1
            try:
                self._send_next_request(pending_requests, plan.document_keys, structured_model, counts)
            except TokenLimitError:
                break
            except ModelError as error:
                raise _add_progress(error, counts.num_passages) from None
        if progress is not None:
            num_requests = num_done + len(pending_requests)
            progress(self._make_progress(num_requests, num_requests, structured_model))
        # The passages that had no text before, minus the passages that have one now.
        num_left = plan.forecast.passages + plan.forecast.copied + plan.forecast.left - counts.num_passages
        return ExtractionReport(
            kind=self._text_kind.kind,
            model=model.name,
            passages=counts.num_passages,
            copied=counts.num_copied,
            **structured_model.get_usage(),
            left=num_left,
            failures=counts.failures,
        )

    def _send_next_request(
        self,
        pending_requests: RequestQueue,
        document_keys: Mapping[bytes, Sequence[str]],
        model: StructuredModel,
        counts: _RunningCounts,
    ) -> None:
        """Send the next of ``pending_requests`` to a model, store the answer, and count it in ``counts``.

        ``document_keys`` has, by the digest of each passage, the keys of the documents that contain it. Raises the
        model's errors, and InvalidAnswerError or PromptTooLongError only after several consecutive unusable answers.
        """
        request = pending_requests.take_next()
        sources = self._read_sources(request)
        if not sources:  # the documents have changed since the request was planned
            return
        request = {source.digest: request[source.digest] for source in sources}
        # An invalid answer about several passages is not corrected, because they are requested again in parts.
        max_attempts = 2 if len(sources) == 1 else 1
        try:
            answers = model.ask(self._text_kind.build_prompt(sources), max_attempts=max_attempts)
        except (InvalidAnswerError, PromptTooLongError) as error:
            if len(sources) == 1:
                counts.failures.append(f"document {next(iter(request.values()))!r}: {error}")
            if model.num_failures >= MAX_FAILURES:
                raise
            pending_requests.record_answer(request, answered_digests=())
            return
        texts_by_document = self._group_by_document(answers, document_keys, model.model.name)
        self._store_answer(texts_by_document)
        pending_requests.record_answer(request, answers)
        num_stored = sum(len(texts.by_digest) for texts in texts_by_document.values())
        counts.num_passages += num_stored
        # An answer is stored in every document with its passage; all but one of these texts are copies.
        counts.num_copied += num_stored - len(answers)

    def _make_progress(self, num_done: int, num_requests: int, model: StructuredModel) -> ExtractionProgress:
        """Return the progress after ``num_done`` of ``num_requests`` requests to ``model``."""
        return ExtractionProgress(self._text_kind.kind, num_done, num_requests, model.sent_tokens)

    def _store_answer(self, texts_by_document: Mapping[str, ModelTexts]) -> None:
        """Store the texts of one answer, even if the user interrupts it, because the answer is already paid for."""
        try:
            self._store_texts(texts_by_document)
        except KeyboardInterrupt:
            self._store_texts(texts_by_document)
            raise

    def _group_by_document(
        self, texts: Mapping[bytes, tuple[str, ...]], document_keys: Mapping[bytes, Sequence[str]], model: str
    ) -> dict[str, ModelTexts]:
        """Return the texts that a model wrote for passages, by the key of each document that contains the passage.

        ``texts`` and ``document_keys`` are by the digest of a passage.
        """
        texts_by_document: dict[str, dict[bytes, PassageTexts]] = {}
        for digest, passage_texts in texts.items():
            for key in document_keys[digest]:
                texts_by_document.setdefault(key, {})[digest] = PassageTexts(model, passage_texts)
        return {key: ModelTexts(texts_by_digest) for key, texts_by_digest in texts_by_document.items()}

    def _store_texts(self, texts_by_document: Mapping[str, ModelTexts]) -> None:
        """Store the texts that the model wrote, in one transaction; skip documents that no longer exist."""
        with self._handle.transaction(models=False) as transaction:
            for key, texts in texts_by_document.items():
                try:
                    transaction._put_fact(self._text_kind, key, texts)
                except DocumentNotFoundError:
                    continue

    def _read_sources(self, request: Request) -> list[SourcePassage]:
        """Return the passages of a request (document keys by passage digest) that the current state still has."""
        with self._handle.state() as state:
            passages = (self._read_passages(state, key).get(digest) for digest, key in request.items())
            return [passage for passage in passages if passage is not None]

    def _read_passages(self, state: State, key: str) -> Mapping[bytes, SourcePassage]:
        """Return the passages of a document by digest, from the cache if it has them.

        The result is empty if the document was deleted, or has no text, because it is a list of (child, parent) pairs.
        """
        record = state.documents.find_by_key(key)
        if record is None or record.format == PAIRS_FORMAT:
            return {}
        if record.id not in self._cached_passages:
            passages = self._text_kind.list_passages(load_chunked_text(state, record, facts={}))
            self._cached_passages[record.id] = {passage.digest: passage for passage in passages}
            if len(self._cached_passages) > _MAX_CACHED_DOCUMENTS:
                del self._cached_passages[next(iter(self._cached_passages))]  # of the document cached first
        return self._cached_passages[record.id]

    def _plan_extraction(self) -> _Plan:
        """Select the passages to request within the token budget, and group them into requests, highest score first.

        The plan also has the texts to copy from other documents, and the forecast of the requests.
        """
        with self._handle.state() as state:
            allowed = None
            if self._condition is not None:
                allowed = filter_documents(state, self._condition, self._parameters).allowed
            overhead, frame_tokens = self._measure_overhead()  # the tokens of a request, and around each passage
            collected = self._collect_passages(state, allowed, frame_tokens)
            token_budget = self._compute_token_budget(collected.passages, overhead)
            unwritten_passages = [passage for passage in collected.passages if not passage.is_written]
            scores = self._score_passages(state, unwritten_passages, token_budget, overhead)
        selected_passages = self._select_within_budget(unwritten_passages, scores, token_budget, overhead)
        score_by_digest = {passage.digest: score for passage, score in zip(unwritten_passages, scores, strict=True)}
        # One group for each request; the group that has the highest score is first.
        groups = sorted(
            self._group_passages(selected_passages),
            key=lambda group: -max(score_by_digest[passage.digest] for passage in group),
        )
        # A text is stored in every document that contains its passage.
        num_unwritten = sum(len(passage.document_keys) for passage in unwritten_passages)
        num_to_write = sum(len(passage.document_keys) for passage in selected_passages)
        forecast = ExtractionForecast(
            kind=self._text_kind.kind,
            documents=collected.num_documents,
            passages=num_to_write,
            calls=len(groups),
            tokens=self._estimate_cost(selected_passages, overhead),
            written=len(collected.passages) - len(unwritten_passages),
            copied=sum(len(texts.by_digest) for texts in collected.copied_texts.values()),
            left=num_unwritten - num_to_write,
            room=token_budget,
        )
        return _Plan(
            requests=[{passage.digest: passage.document_keys[0] for passage in group} for group in groups],
            forecast=forecast,
            document_keys={passage.digest: passage.document_keys for passage in unwritten_passages},
            copied_texts=collected.copied_texts,
        )

    def _measure_overhead(self) -> _Overhead:
        """Return the tokens of a request without passages, and the tokens that it adds around each passage."""
        # Prompts for one and for two empty passages differ by what a passage adds.
        empty_passage = SourcePassage(digest=b"", title=None, headings=(), text="", chunks=range(0))
        prompts = [self._text_kind.build_prompt([empty_passage] * count) for count in (1, 2)]
        tokens_of_one, tokens_of_two = (prompt.tokens for prompt in prompts)
        tokens_per_passage = tokens_of_two - tokens_of_one
        return _Overhead(tokens_of_one - tokens_per_passage, tokens_per_passage + _ROUNDING_TOKENS)

    def _collect_passages(
        self, state: State, allowed: AllowedDocuments | None, frame_tokens: int
    ) -> _CollectedPassages:
        """Return the distinct passages of the ``allowed`` documents (None: all), and the texts to copy between them.

        The texts of a passage are copied to a document that lacks them if another document with the passage has them.
        ``frame_tokens`` are the tokens that a request adds around each passage.
        """
        # For each passage with texts (by its digest), the key of one document that has these texts.
        keys_by_digest = {digest: key for key, texts in self._text_kind.scan(state) for digest in texts.by_digest}
        passages_by_digest: dict[bytes, _DistinctPassage] = {}
        copies: dict[str, dict[bytes, PassageTexts]] = {}
        num_documents = 0
        for record in _iter_text_documents(state, allowed):
            num_documents += 1
            key, chunk_ids = record.key, list(record.chunk_ids())
            own_texts = self._find_texts(state, key)
            for passage in self._text_kind.list_passages(load_chunked_text(state, record, facts={})):
                digest = passage.digest
                if digest not in own_texts and digest in keys_by_digest:  # only another document has texts for it
                    copies.setdefault(key, {})[digest] = self._find_texts(state, keys_by_digest[digest])[digest]
                elif digest not in passages_by_digest:
                    tokens = frame_tokens + self._estimate_tokens(passage)
                    chunks = [chunk_ids[ordinal] for ordinal in passage.chunks]
                    passages_by_digest[digest] = _DistinctPassage(digest, [key], tokens, chunks, digest in own_texts)
                elif key not in passages_by_digest[digest].document_keys:  # the same passage in another document
                    passages_by_digest[digest].document_keys.append(key)
        copied_texts = {key: ModelTexts(texts_by_digest) for key, texts_by_digest in copies.items()}
        return _CollectedPassages(list(passages_by_digest.values()), num_documents, copied_texts)

    def _find_texts(self, state: State, key: str) -> Mapping[bytes, PassageTexts]:
        """Return the texts of a document by passage digest, with the model that wrote each; empty if it has none."""
        texts = self._text_kind.find(state, key)
        return {} if texts is None else texts.by_digest

    def _estimate_tokens(self, passage: SourcePassage) -> int:
        """Return the estimated number of tokens of a passage in a prompt: its title, headings, text and label."""
        label = self._text_kind.label_passage(0, passage)
        texts = (passage.title or "", *passage.headings, passage.text, label)
        return sum(token_estimate(to_printable(text)) + 1 for text in texts)

    def _group_passages(self, passages: Iterable[_DistinctPassage]) -> list[list[_DistinctPassage]]:
        """Return consecutive passages in groups, one for each request of up to ``passage_tokens`` tokens.

        A single passage can have more tokens. Passages of different documents share a request only if the kind of text
        ``shares_requests``.
        """
        groups: list[list[_DistinctPassage]] = []
        document_key: str | None = None
        num_tokens = 0
        for passage in passages:
            is_other_document = not self._text_kind.shares_requests and passage.document_keys[0] != document_key
            if not groups or is_other_document or num_tokens + passage.tokens > self._text_kind.passage_tokens:
                groups.append([])
                document_key, num_tokens = passage.document_keys[0], 0
            groups[-1].append(passage)
            num_tokens += passage.tokens
        return groups

    def _estimate_cost(self, passages: Sequence[_DistinctPassage], overhead: int) -> int:
        """Return the estimated tokens of the requests for these passages, each with ``overhead`` further tokens."""
        return sum(passage.tokens for passage in passages) + overhead * len(self._group_passages(passages))

    def _compute_token_budget(self, passages: Sequence[_DistinctPassage], overhead: int) -> int | None:
        """Return the maximum number of tokens to send, or None without a limit.

        With the clause SHARE, it is that fraction of the cost of all passages, minus the cost of the passages that
        already have texts. Each request costs ``overhead`` tokens in addition to its passages.
        """
        if self._share is None:
            return self._token_limit
        written_passages = [passage for passage in passages if passage.is_written]
        budget = int(self._share * self._estimate_cost(passages, overhead))
        return max(0, budget - self._estimate_cost(written_passages, overhead))

    def _score_passages(
        self, state: State, passages: Sequence[_DistinctPassage], token_budget: int | None, overhead: int
    ) -> Sequence[float]:
        """Return the score of each passage by the selection method; zeros if all passages fit and no method is named.

        The score of a passage is the sum of the scores of its chunks. ``overhead`` tokens are sent with each request.
        """
        all_fit = token_budget is None or self._estimate_cost(passages, overhead) <= token_budget
        if self._selection_method is None and all_fit:
            return [0.0] * len(passages)
        chunks, scores = score_chunks(self._selection_method or "confusability", state)
        score_by_chunk = dict(zip(chunks.tolist(), scores.tolist(), strict=True))
        return [math.fsum(score_by_chunk[chunk] for chunk in passage.chunks) for passage in passages]

    def _select_within_budget(
        self, passages: Sequence[_DistinctPassage], scores: Sequence[float], token_budget: int | None, overhead: int
    ) -> list[_DistinctPassage]:
        """Return the passages to request within ``token_budget`` tokens, in document order.

        ``scores`` are the values that the selection maximizes; ``overhead`` are the tokens per request.
        """
        if token_budget is None or self._estimate_cost(passages, overhead) <= token_budget:
            return list(passages)
        # The weight of a passage is its tokens plus its share of the overhead of its request.
        weights = [
            passage.tokens + math.ceil(overhead / len(group))
            for group in self._group_passages(passages)
            for passage in group
        ]
        indexes = select_passages(weights, scores, token_budget)
        # Groups of the selected passages can be smaller, so their overhead can exceed the budget. Then the passages
        # with the lowest score per token are dropped.
        indexes.sort(key=lambda index: (scores[index] / passages[index].tokens, -index), reverse=True)
        while True:
            selected_passages = [passages[index] for index in sorted(indexes)]
            excess = self._estimate_cost(selected_passages, overhead) - token_budget
            if excess <= 0:
                return selected_passages
            while indexes and excess > 0:
                excess -= weights[indexes.pop()]


def _iter_text_documents(state: State, allowed: AllowedDocuments | None) -> Iterator[DocumentRecord]:
    """Yield the records of the ``allowed`` documents (None: all) that have a text, in order of their keys."""
    for record in map(state.documents.find_by_key, sorted(state.documents.iter_keys())):
        if record is not None and record.format != PAIRS_FORMAT and (allowed is None or record.id in allowed):
            yield record


def _add_progress(error: ModelError, num_passages: int) -> ModelError:
    """Return an error of the model with the progress of the extraction added to its message."""
    passages = format_count(num_passages, "passage")
    return type(error)(f"{error}. The texts written for {passages} are kept; run EXTRACT again to continue")
