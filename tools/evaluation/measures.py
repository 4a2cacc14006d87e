"""Measures of the results for a question set, and confidence intervals of differences.

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
#: The chunk counts for hit rates, and the word counts of chunks that are compared with the gold text.
HITS = (1, 3, 8)
WORDS = (400, 1500)
RECALLS = (2, 5)
ANSWERS = (5, 8)
_WORD = re.compile(r"\w+")

#: The retrieved chunks, best first.
Found = Sequence[Passage]


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


def measure(question: Question, found: Found) -> dict[str, float]:
    """Return the measures of one question; ``answer@k`` only if its answer is text that chunks can contain."""
    texts: dict[str, str] = {}
    for passage in found[:DEPTH]:
        texts[passage.document] = f"{texts.get(passage.document, '')}\n{passage.text}"
    documents = list(texts)
    gold = question.gold
    measures = {f"recall@{cut}": len(gold.intersection(documents[:cut])) / len(gold) for cut in RECALLS}
    measures[f"all@{DEPTH}"] = float(gold.issubset(documents))
    answer = _normalize(question.answer or "")
    if answer and answer not in ("yes", "no"):
        for cut in ANSWERS:
            read_text = _normalize("\n".join(texts[document] for document in documents[:cut]))
            measures[f"answer@{cut}"] = float(f" {answer} " in f" {read_text} ")
    return measures


def measure_spans(
    question: Question, retrieved: Found, texts: Texts, results_by_words: Mapping[int, Found] | None = None
) -> dict[str, float]:
    """Return the measures of one question that needs spans of documents; all 0 if the store has lost them.

    ``results_by_words`` maps word counts to separate results, if these are not prefixes of ``retrieved``.
    """
    measures: dict[str, float] = {}
    if results_by_words is None:
        gold = texts.find_chunks(question.spans)
        chunks = [(passage.document, passage.start) for passage in retrieved]
        measures = {f"hit@{cut}": float(not gold.isdisjoint(chunks[:cut])) for cut in HITS}
        measures |= {f"recall@{cut}": len(gold.intersection(chunks[:cut])) / max(1, len(gold)) for cut in RECALLS}
    gold_characters = _list_characters(question.spans, texts)
    for words in WORDS:
        read_characters = _list_characters(
            _cut_to_words(retrieved if results_by_words is None else results_by_words[words], words, texts), texts
        )
        common = len(gold_characters & read_characters)
        measures[f"recall_{words}w"] = common / max(1, len(gold_characters))
        measures[f"precision_{words}w"] = common / max(1, len(read_characters))
        measures[f"iou_{words}w"] = common / max(1, len(gold_characters | read_characters))
        # Neither chunk contains the white space between them.
        missing_characters = (
            texts.get_text(document)[offset] for document, offset in gold_characters - read_characters
        )
        measures[f"whole_{words}w"] = float(bool(gold_characters) and all(map(str.isspace, missing_characters)))
    return measures


def _cut_to_words(retrieved: Found, words: int, texts: Texts) -> list[TextSpan]:
    """Return the spans of the first ``words`` words of some chunks."""
    spans = []
    for passage in retrieved:
        span = texts.locate_passage(passage)
        ends = [match.end() for match in _WORD.finditer(texts.get_text(span.document), span.start, span.end)]
        spans.append(span if len(ends) <= words else TextSpan(span.document, span.start, ends[words - 1]))
        words -= len(ends)
        if words <= 0:
            break
    return spans


def _list_characters(spans: Sequence[TextSpan], texts: Texts) -> set[tuple[str, int]]:
    """Return every character of some spans, without the white space at their ends."""
    return {
        (span.document, character)
        for span in spans
        for character in range(*strip_span(texts.get_text(span.document), span.start, span.end))
    }


def _normalize(text: str) -> str:
    """Return the words of a text in lower case, with single spaces, so that answers compare equal
    despite punctuation.
    """
    return " ".join(_WORD.findall(text.lower()))


def list_measures(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the names of all measures, in order."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.measures))


def summarize(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return means of all measures over all questions and over each half, marked ``_tune`` and ``_report``; times in
    ms.
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
    """Return the gain over the reference on the same questions, with the 95 % interval, for each measure."""
    differences: dict[str, Any] = {}
    for name in list_measures(outcomes):
        pairs = [
            (outcome.measures[name], reference_outcome.measures[name])
            for outcome, reference_outcome in zip(outcomes, reference, strict=True)
            if name in outcome.measures and name in reference_outcome.measures
        ]
        if not pairs:
            continue  # only one side has this measure
        gains = np.array([outcome - reference_outcome for outcome, reference_outcome in pairs])
        low, high = compute_interval(gains)
        differences[name] = {"difference": round(float(gains.mean()), 4), "low": round(low, 4), "high": round(high, 4)}
    return differences
