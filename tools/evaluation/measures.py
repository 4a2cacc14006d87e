"""Measures of the results for a question set. A *passage* is a retrieved chunk; *gold* documents, chunks or characters
are those needed to answer a question. An *outcome* has the measures of one question.

In: for each question the retrieved chunks, best first. Out: means over all questions, over the half for tuning
parameters (even positions) and over the half that is only reported; paired bootstrap intervals of differences (Efron
and Tibshirani 1993, chapter 13: percentiles of resampled means).

A question that needs whole passages is measured in the documents of the first eight hits. A question that needs spans
of documents is measured in chunks and characters: the share of chunks found that overlap a span; recall, precision and
intersection over union of the characters within a number of words (Smith and Troynikov 2024, "Evaluating Chunking
Strategies for Retrieval"); and if those words contain all spans completely. For segments, whose length is limited in
tokens, only words are measured.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvstore.evaluation.asked_questions import compute_interval

from .passages import Passage, Texts, TextSpan, strip_span
from .question_sets import Question

#: The number of hits read for each question: what a user gets without TOP.
DEPTH = 8
#: The numbers of chunks for hit rates and recall, the numbers of words of chunks that are compared with the gold text,
#: and the numbers of documents for answers.
HIT_CUTOFFS = (1, 3, 8)
WORD_LIMITS = (400, 1500)
RECALL_CUTOFFS = (2, 5)
ANSWER_CUTOFFS = (5, 8)
_WORD = re.compile(r"\w+")

#: The retrieved chunks, best first.
Passages = Sequence[Passage]


@dataclass(frozen=True)
class Outcome:
    """The result for one question.

    It has measures by name (1 is best), milliseconds with and without embedding the question, and the number of ranked
    chunks.
    """

    measures: dict[str, float]
    milliseconds: float
    bare_milliseconds: float
    pool: int


def compute_document_measures(question: Question, passages: Passages) -> dict[str, float]:
    """Return the measures of a question that needs whole documents, by name.

    ``recall@k`` is the share of the gold documents among the first k documents of the hits, ``all@8`` is 1 if all of
    them are among eight, and ``answer@k`` is 1 if the hits of the first k documents contain the answer. ``answer@k`` is
    omitted if the answer is yes, no or unknown.
    """
    texts: dict[str, str] = {}
    for passage in passages[:DEPTH]:
        texts[passage.document] = f"{texts.get(passage.document, '')}\n{passage.text}"
    documents = list(texts)
    gold = question.gold
    measures = {f"recall@{cutoff}": len(gold.intersection(documents[:cutoff])) / len(gold) for cutoff in RECALL_CUTOFFS}
    measures[f"all@{DEPTH}"] = float(gold.issubset(documents))
    answer = _normalize(question.answer or "")
    if answer and answer not in ("yes", "no"):
        for cutoff in ANSWER_CUTOFFS:
            read_text = _normalize("\n".join(texts[document] for document in documents[:cutoff]))
            measures[f"answer@{cutoff}"] = float(f" {answer} " in f" {read_text} ")
    return measures


def compute_span_measures(
    question: Question, passages: Passages, texts: Texts, results_by_words: Mapping[int, Passages] | None = None
) -> dict[str, float]:
    """Return the measures of a question that needs spans of documents; all are 0 if the store lacks them.

    ``hit@k`` is 1 if one of the first k passages overlaps a span, and ``recall@k`` is the share of such chunks that are
    among them. The measures ``*_Nw`` compare the characters of the spans with those of the first N words.
    ``results_by_words`` maps each N to a separate result, if it is not a prefix of ``passages``.
    """
    measures: dict[str, float] = {}
    if results_by_words is None:
        gold_chunks = texts.find_chunks(question.spans)
        chunks = [(passage.document, passage.start) for passage in passages]
        measures = {f"hit@{cutoff}": float(not gold_chunks.isdisjoint(chunks[:cutoff])) for cutoff in HIT_CUTOFFS}
        measures |= {
            f"recall@{cutoff}": len(gold_chunks.intersection(chunks[:cutoff])) / max(1, len(gold_chunks))
            for cutoff in RECALL_CUTOFFS
        }
    gold_characters = _list_characters(question.spans, texts)
    for limit in WORD_LIMITS:
        read_characters = _list_characters(
            _cut_to_words(passages if results_by_words is None else results_by_words[limit], limit, texts), texts
        )
        num_common = len(gold_characters & read_characters)
        measures[f"recall_{limit}w"] = num_common / max(1, len(gold_characters))
        measures[f"precision_{limit}w"] = num_common / max(1, len(read_characters))
        measures[f"iou_{limit}w"] = num_common / max(1, len(gold_characters | read_characters))
        # Two adjacent chunks do not contain the white space between them, so it may be missing.
        missing_characters = (
            texts.get_text(document)[offset] for document, offset in gold_characters - read_characters
        )
        measures[f"whole_{limit}w"] = float(bool(gold_characters) and all(map(str.isspace, missing_characters)))
    return measures


def _cut_to_words(passages: Passages, max_words: int, texts: Texts) -> list[TextSpan]:
    """Return the spans of the first ``max_words`` words of some chunks."""
    spans = []
    remaining_words = max_words
    for passage in passages:
        span = texts.locate_passage(passage)
        ends = [match.end() for match in _WORD.finditer(texts.get_text(span.document), span.start, span.end)]
        spans.append(
            span if len(ends) <= remaining_words else TextSpan(span.document, span.start, ends[remaining_words - 1])
        )
        remaining_words -= len(ends)
        if remaining_words <= 0:
            break
    return spans


def _list_characters(spans: Sequence[TextSpan], texts: Texts) -> set[tuple[str, int]]:
    """Return (document key, offset) of every character of some spans, without white space at their ends."""
    return {
        (span.document, offset)
        for span in spans
        for offset in range(*strip_span(texts.get_text(span.document), span.start, span.end))
    }


def _normalize(text: str) -> str:
    """Return the words of a text in lower case, separated by spaces, so that punctuation makes no difference."""
    return " ".join(_WORD.findall(text.lower()))


def list_measures(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of all measures that any outcome has, in order of first occurrence."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.measures))


def summarize(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the means of all measures over all questions and over each half, and percentiles of the times.

    The suffixes ``_tune`` and ``_report`` mark the halves: the questions with even and with odd indexes.
    """
    figures: dict[str, float] = {}
    for suffix, subset in (("", outcomes), ("_tune", outcomes[::2]), ("_report", outcomes[1::2])):
        for name in list_measures(outcomes):
            values = [outcome.measures[name] for outcome in subset if name in outcome.measures]
            if values:
                figures[name + suffix] = round(statistics.mean(values), 4)
    for suffix, times in (
        ("", [outcome.milliseconds for outcome in outcomes]),
        ("_without_embedding", [outcome.bare_milliseconds for outcome in outcomes]),
    ):
        figures[f"p50_ms{suffix}"] = round(float(np.percentile(times, 50)), 2)
        figures[f"p95_ms{suffix}"] = round(float(np.percentile(times, 95)), 2)
    return figures


def compute_differences(outcomes: Sequence[Outcome], reference: Sequence[Outcome]) -> dict[str, Any]:
    """Return the mean gain over the reference on the same questions and its 95 % interval, for each measure."""
    differences: dict[str, Any] = {}
    for name in list_measures(outcomes):
        pairs = [
            (outcome.measures[name], reference_outcome.measures[name])
            for outcome, reference_outcome in zip(outcomes, reference, strict=True)
            if name in outcome.measures and name in reference_outcome.measures
        ]
        if not pairs:
            continue  # only one of the systems has this measure
        gains = np.array([outcome - reference_outcome for outcome, reference_outcome in pairs])
        low, high = compute_interval(gains)
        differences[name] = {"difference": round(float(gains.mean()), 4), "low": round(low, 4), "high": round(high, 4)}
    return differences
