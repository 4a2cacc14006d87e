"""Ask questions and measure the hits and the answers. The *gold* documents of a question have its answer, and its
*span* is the place of the answer. A *near miss* is on the store's topic, but no document answers it; a *foreign*
question is on another topic. An *outcome* is an asked question.

In: a store and questions. Out: an :class:`AskedQuestion` for each, and the metrics of all together.

An answer counts as right if it contains an expected text, which a wrong answer can also do. If a question has a span
but no text, an answer is right if it cites bytes of the span.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..text.languages import detect_language
from ..text.sentences import split_sentences
from .question_files import Question

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..answering.answer import Answer
    from ..store.store import Store

#: A citation in an answer, with the space before it: `` [1, 2]``.
_CITATION_PATTERN = re.compile(r"(?<!\s)\s*+\[\d+(?:, \d+)*\]")
#: The numbers of hits for hit rates.
HIT_DEPTHS = (1, 3, 8)
_NUM_BINS = 10
_NUM_RESAMPLES = 10_000
#: The number of simulations of the calibration error of exact confidences.
_NUM_DRAWS = 100

#: A heading, or its number, which :func:`~kvstore.text.sentences.split_sentences` separates from the sentence after it.
_LABEL_PATTERN = re.compile(r"(?:.* > )?[\d.]+|.*\?", re.DOTALL)
#: A document key, and the byte range of a part of its text.
DocumentSpan = tuple[str, int, int]


@dataclass(frozen=True)
class AskedQuestion:
    """A question with the outcome of asking it.

    ``text`` is the answer without citations, and ``first`` its first sentence. ``answered`` is False if the store
    abstained; ``confidence`` is the confidence of the answer, from 0 to 1. ``hits`` are the spans of each hit, best hit
    first, and ``cited`` the spans that the answer cites. ``cpu_ms`` and ``ms`` are the processor time and the elapsed
    time in milliseconds.
    """

    question: Question
    text: str
    first: str
    answered: bool
    confidence: float
    hits: list[list[DocumentSpan]]
    cited: list[DocumentSpan]
    cpu_ms: float
    ms: float

    @property
    def is_first_right(self) -> bool:
        """True if the first sentence contains the answer, or the whole text if the answer needs several sentences."""
        return self.question.is_right(self.text if self.question.is_long else self.first)

    @property
    def is_right(self) -> bool:
        """True if the text contains the answer.

        If the question has a span but no answer texts, True if a citation overlaps the span.
        """
        if self.question.span is None or self.question.answers:
            return self.question.is_right(self.text)
        return any(self._overlaps_span(span) for span in self.cited)

    def has_hit(self, depth: int) -> bool:
        """True if one of the first ``depth`` hits overlaps the question's span.

        Without a span, the first ``depth`` distinct documents of the hits are considered. They must include one of the
        gold documents, or all of them if the question ``needs_all_gold``.
        """
        gold = self.question.gold
        if self.question.span is not None:
            return any(self._overlaps_span(span) for hit in self.hits[:depth] for span in hit)
        # The document of a hit is the document of its first span.
        ranked_documents = dict.fromkeys(document for (document, _, _), *_ in self.hits)
        documents = set(islice(ranked_documents, depth))
        return gold <= documents if self.question.needs_all_gold else bool(gold & documents)

    @property
    def reciprocal_rank(self) -> float:
        """1 / the smallest depth for which :meth:`has_hit` is true, or 0 if no hit has the answer."""
        return next((1 / depth for depth in range(1, len(self.hits) + 1) if self.has_hit(depth)), 0.0)

    def _overlaps_span(self, span: DocumentSpan) -> bool:
        """True if a span overlaps the span that holds the question's answer, in a gold document."""
        assert self.question.span is not None
        document, start, end = span
        question_start, question_end = self.question.span
        return document in self.question.gold and max(start, question_start) < min(end, question_end)


def ask_questions(
    store: Store, questions: Sequence[Question], progress: Callable[[int], None] = lambda number: None, **clauses: Any
) -> list[AskedQuestion]:
    """Ask a store all questions, and return the outcome of each.

    The first question is asked twice, so that loading models and caches is not measured. ``clauses`` are the clauses of
    :meth:`kvstore.Store.ask`. ``progress`` is called with the number of questions asked so far.
    """
    if questions:
        store.ask(questions[0].text, **clauses)  # loads models and caches
    outcomes = []
    for number, question in enumerate(questions, 1):
        start, cpu_start = time.perf_counter(), time.process_time()
        answer = store.ask(question.text, **clauses)
        cpu_ms, ms = 1000 * (time.process_time() - cpu_start), 1000 * (time.perf_counter() - start)
        outcomes.append(_measure_answer(question, answer, cpu_ms, ms))
        progress(number)
    return outcomes


def _measure_answer(question: Question, answer: Answer, cpu_ms: float, ms: float) -> AskedQuestion:
    """Return the outcome of one question from its answer and the times that it took.

    ``cpu_ms`` is the processor time and ``ms`` the elapsed time, both in milliseconds.
    """
    text = _CITATION_PATTERN.sub("", answer.text)
    hits = [[(span.document, span.start, span.end) for span in hit.spans] for hit in answer.evidence.hits]
    cited = [(span.document, span.start, span.end) for citation in answer.citations for span in citation.spans]
    return AskedQuestion(
        question=question,
        text=text,
        first=extract_first_sentence(text),
        answered=not answer.abstained,
        confidence=answer.confidence,
        hits=hits,
        cited=[] if answer.abstained else cited,
        cpu_ms=cpu_ms,
        ms=ms,
    )


def extract_first_sentence(text: str) -> str:
    """Return the first sentence, list item or table row of an answer's text.

    The language of the text decides where sentences end. A heading before the sentence, such as *Can I film here?* or
    *7. Helicopters:*, is not a sentence. If the first line has only headings, the whole line is returned.
    """
    line = text.strip().partition("\n")[0]
    sentences = [line[start:end] for start, end in split_sentences(line, detect_language(text))]
    return next((sentence for sentence in sentences if not _LABEL_PATTERN.fullmatch(sentence)), line)


def compute_metrics(outcomes: Sequence[AskedQuestion]) -> dict[str, Any]:
    """Return the metrics of asked questions (at least one) by name, most of them fractions from 0 to 1.

    Near misses (questions on the topic of the store that no document answers) and foreign questions (on another topic)
    should be refused. ``hit@3`` is the fraction of questions with known gold documents for which one of the first three
    hits has the answer. ``right`` is the fraction of answers that are right, and ``right_all`` the fraction of
    answerable questions with a right answer; ``first`` and ``first_all`` count only the first sentence of an answer.
    ``auc`` and ``ece`` are the area under the ROC curve and the calibration error of the confidence. A metric without
    questions to compute it from is omitted.
    """
    answerable = [outcome for outcome in outcomes if outcome.question.kind == "answerable"]
    near_misses = [outcome for outcome in outcomes if outcome.question.kind == "near"]
    foreign = [outcome for outcome in outcomes if outcome.question.kind == "foreign"]
    with_gold = [outcome for outcome in answerable if outcome.question.gold]
    answered = [outcome for outcome in answerable if outcome.answered]
    metrics: dict[str, Any] = {"answerable": len(answerable), "near": len(near_misses), "foreign": len(foreign)}
    if with_gold:
        metrics |= {
            f"hit@{depth}": compute_mean([outcome.has_hit(depth) for outcome in with_gold]) for depth in HIT_DEPTHS
        }
    metrics["answered"] = compute_mean([outcome.answered for outcome in answerable])
    metrics["first"] = compute_mean([outcome.is_first_right for outcome in answered])
    metrics["right"] = compute_mean([outcome.is_right for outcome in answered])
    metrics["first_all"] = compute_mean([outcome.answered and outcome.is_first_right for outcome in answerable])
    metrics["right_all"] = compute_mean([outcome.answered and outcome.is_right for outcome in answerable])
    metrics["words"] = compute_mean([len(outcome.text.split()) for outcome in answered])
    metrics |= _compute_near_miss_metrics(answerable, near_misses)
    if foreign:
        metrics["foreign_refused"] = compute_mean([not outcome.answered for outcome in foreign])
    answered_any = [outcome for outcome in outcomes if outcome.answered]
    metrics["ece"] = compute_calibration_error(
        [(outcome.confidence, outcome.is_first_right) for outcome in answered_any]
    )
    metrics["ece_by_chance"] = simulate_calibration_error([outcome.confidence for outcome in answered_any])
    metrics["cpu_ms"] = round(statistics.mean(outcome.cpu_ms for outcome in outcomes))
    return {name: value for name, value in metrics.items() if value is not None}


def _compute_near_miss_metrics(
    answerable: Sequence[AskedQuestion], near_misses: Sequence[AskedQuestion]
) -> dict[str, Any]:
    """Return metrics of how well near misses are distinguished from answerable questions; empty without near misses.

    A near miss is a question on the topic of the store that no document answers. ``near_refused`` is the fraction of
    near misses that were refused. The other metrics need answerable questions. ``auc`` is the area under the ROC curve
    of the confidence, and ``auc_plain`` the same for questions without a negation. ``near_refused_at_90`` is the
    fraction of near misses below the confidence that 90 % of the answerable questions reach.
    """
    metrics: dict[str, Any] = {}
    if near_misses:
        metrics["near_refused"] = compute_mean([not outcome.answered for outcome in near_misses])
    if near_misses and answerable:
        metrics["auc"] = compute_auc([*answerable, *near_misses])
        metrics["auc_plain"] = compute_auc(
            [outcome for outcome in (*answerable, *near_misses) if not outcome.question.is_negated]
        )
        threshold = float(np.quantile([outcome.confidence for outcome in answerable], 0.1))
        metrics["near_refused_at_90"] = compute_mean([outcome.confidence < threshold for outcome in near_misses])
    return metrics


def compute_auc(outcomes: Sequence[AskedQuestion]) -> float | None:
    """Return the area under the ROC curve of the confidence, or None if all questions have the same class.

    Questions of the kind ``answerable`` are the positives, all others the negatives.
    """
    is_answerable = [float(outcome.question.kind == "answerable") for outcome in outcomes]
    if len(set(is_answerable)) < 2:
        return None
    return round(compute_area_under_curve([outcome.confidence for outcome in outcomes], is_answerable), 3)


def compute_area_under_curve(
    confidences: Sequence[float] | npt.NDArray[Any], is_answerable: Sequence[float] | npt.NDArray[Any]
) -> float:
    """Return the area under the ROC curve of confidences, with answerable questions as positives.

    This is the probability that an answerable question has more confidence than an unanswerable one; ties count half.
    There must be questions of both kinds.
    """
    values, is_positive = np.asarray(confidences, np.float64), np.asarray(is_answerable, bool)
    _, value_indexes, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[value_indexes]  # from 1; equal values have their mean rank
    num_positive, num_negative = int(is_positive.sum()), int((~is_positive).sum())
    min_rank_sum = num_positive * (num_positive + 1) / 2  # if all positives have the lowest ranks
    mann_whitney_statistic = ranks[is_positive].sum() - min_rank_sum
    return float(mann_whitney_statistic / (num_positive * num_negative))


def compute_calibration_error(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Return the expected calibration error over ``_NUM_BINS`` bins of confidence, or None without ``pairs``.

    Each pair is the confidence of an answer, and True if the answer is right. The error is the mean difference between
    the mean confidence and the fraction of right answers in a bin, weighted by the number of answers in the bin.

    >>> compute_calibration_error([(0.9, True), (0.9, False)])
    0.4
    """
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, is_right in pairs:
        bins.setdefault(min(_NUM_BINS - 1, int(confidence * _NUM_BINS)), []).append((confidence, is_right))
    weighted_errors = []
    for members in bins.values():
        mean_confidence = statistics.mean(confidence for confidence, _ in members)
        share_right = statistics.mean(is_right for _, is_right in members)
        weighted_errors.append(len(members) * abs(mean_confidence - share_right))
    return round(sum(weighted_errors) / len(pairs), 3) if pairs else None


def simulate_calibration_error(confidences: Sequence[float]) -> float | None:
    """Return the calibration error to expect by chance from answers with these ``confidences``; None without answers.

    It is the mean :func:`compute_calibration_error` of simulations in which an answer is right with exactly the
    probability of its confidence. The error is above 0 because a bin has few answers. The random seed is fixed.

    >>> simulate_calibration_error([0.5] * 10) > 0.1 > simulate_calibration_error([0.5] * 1000)
    True
    """
    simulations = np.random.default_rng(0).random((_NUM_DRAWS, len(confidences)))
    errors = [
        compute_calibration_error(
            [(confidence, bool(draw < confidence)) for confidence, draw in zip(confidences, draws, strict=True)]
        )
        for draws in simulations
    ]
    return round(statistics.mean(error for error in errors if error is not None), 3) if confidences else None


def compute_mean(values: Sequence[float]) -> float | None:
    """Return the mean of values, rounded to three decimals, or None without values."""
    return round(statistics.mean(map(float, values)), 3) if values else None


def compute_interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the bounds of the 95 % confidence interval of the mean of values.

    It is the percentile interval of bootstrap resamples with a fixed seed (Efron and Tibshirani 1993, chapter 13).
    """
    resamples = np.random.default_rng(0).integers(0, len(values), (_NUM_RESAMPLES, len(values)))
    low, high = np.percentile(values[resamples].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
