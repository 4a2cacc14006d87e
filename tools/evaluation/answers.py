"""Measures of how close an answer is to the expected one.

In: an answer and the expected text. Out: ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004, F measure), BLEU (Papineni et al.
2002, up to four words, counts of longer runs smoothed by one as by Lin and Och 2004), F1 over words (Rajpurkar et al.
2016) and BERTScore (Zhang et al. 2020, section 3: greedy matching, without rarity). BERTScore uses the vectors of
tokens in their context if the embedder of the store runs in this process, otherwise those of single words. Words are
compared in lower case; 1 is best. The share of answers in which a model cited numbers outside its prompt is added.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

import kvstore
from kvstore.models.embedder import DEFAULT_EMBEDDER, open_embedder
from kvstore.models.sentence_transformer import SentenceTransformerEmbedder
from kvstore.structures.vectors.vectors import Matrix

from .measures import Outcome
from .passages import Passage, Texts, TextSpan
from .question_sets import QuestionSet

_WORD = re.compile(r"\w+")
_CITATION = re.compile(r"\s*\[\d+(?:, \d+)*\]")
_MAX_RUN_WORDS = 4

#: A function that returns the vectors of a text's tokens, one per row.
TokenVectors = Callable[[str], Matrix]


def compute_answer_measures(answer: str, expected: str, vectors: TokenVectors) -> dict[str, float]:
    """Return all measures of one answer; citations in it do not count."""
    text = _CITATION.sub("", answer)
    mine, gold = split_words(text), split_words(expected)
    return {
        "rouge-1": _compute_overlap(_count_runs(mine, 1), _count_runs(gold, 1)),
        "rouge-2": _compute_overlap(_count_runs(mine, 2), _count_runs(gold, 2)),
        "rouge-l": _compute_f_measure(_measure_common_subsequence(mine, gold), len(mine), len(gold)),
        "bleu": compute_bleu(mine, gold),
        "f1": _compute_overlap(_count_runs(_remove_articles(mine), 1), _count_runs(_remove_articles(gold), 1)),
        "bertscore": compute_bert_score(vectors(text), vectors(expected)) if mine and gold else 0.0,
    }


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def compute_bleu(mine: Sequence[str], gold: Sequence[str]) -> float:
    """Return BLEU of one answer against one expected text."""
    if not mine or not gold:
        return 0.0
    logarithms = []
    for length in range(1, min(_MAX_RUN_WORDS, len(mine)) + 1):
        runs = _count_runs(mine, length)
        smoothing = int(length > 1)
        matched = sum((runs & _count_runs(gold, length)).values()) + smoothing
        if not matched:
            return 0.0
        logarithms.append(math.log(matched / (sum(runs.values()) + smoothing)))
    brevity = min(0.0, 1 - len(gold) / len(mine))
    return math.exp(brevity + sum(logarithms) / len(logarithms))


def compute_bert_score(mine: Matrix, gold: Matrix) -> float:
    """Return the F measure of every token's cosine with the nearest token of the other text."""
    cosines = mine @ gold.T
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def make_token_embedder(store: kvstore.Store) -> TokenVectors:
    """Return a function that computes token vectors with the store's embedder, or with its original weights."""
    embedder = store.embedder
    if embedder.name == DEFAULT_EMBEDDER:
        embedder = open_embedder(f"{DEFAULT_EMBEDDER}-float32")
    if isinstance(embedder, SentenceTransformerEmbedder):
        return lambda text: embedder.embed_tokens([text])[0]
    return lambda text: store.embed(split_words(text))


def compute_answer_outcomes(
    store: kvstore.Store,
    questions: QuestionSet,
    strategy: str | None,
    model: str | None,
    log: Callable[[str], None],
    *,
    as_segments: bool = False,
) -> list[Outcome]:
    """Measure the answers of ASK to every question with a known answer or spans; times are those of whole answers.

    In addition to :func:`compute_answer_measures`: ``words``, their number; ``contains``, if it contains the expected
    answer (not for yes and no); ``cited``, the share of the characters of the spans that the citations cover;
    ``answered``, if the store did not abstain, and ``confidence``. An abstention contains and cites nothing.
    """
    known_questions = [question for question in questions.questions if question.answer or question.spans]
    vectors = make_token_embedder(store)
    texts = Texts(store)
    outcomes = []
    for number, question in enumerate(known_questions, 1):
        started = time.perf_counter()
        answer = store.ask(question.text, using=strategy, model=model, as_segments=as_segments)
        elapsed = 1000 * (time.perf_counter() - started)
        measures = compute_answer_measures(answer.text, question.answer, vectors) if question.answer else {}
        measures["false_citations"] = float(bool(answer.dropped))
        bare = _CITATION.sub("", answer.text)
        measures["words"] = float(len(bare.split()))
        expected = " ".join(split_words(question.answer or ""))
        if expected and expected not in ("yes", "no"):
            has_answer = f" {expected} " in f" {' '.join(split_words(bare))} "
            measures["contains"] = float(has_answer and not answer.abstained)
        if question.spans:
            cited = [
                texts.locate_passage(Passage(citation.document, citation.start, citation.end, citation.text))
                for citation in answer.citations
            ]
            measures["cited"] = 0.0 if answer.abstained else compute_coverage(question.spans, cited)
        measures["answered"], measures["confidence"] = float(not answer.abstained), answer.confidence
        outcomes.append(Outcome(measures, elapsed, elapsed, answer.evidence.pool))
        log(f"{questions.name}: {number} of {len(known_questions)} answers")
    return outcomes


def compute_coverage(gold_spans: Sequence[TextSpan], cited_spans: Sequence[TextSpan]) -> float:
    """Return the fraction of the characters of some spans that others cover.

    >>> compute_coverage([TextSpan("a", 0, 10)], [TextSpan("a", 5, 20), TextSpan("b", 0, 5)])
    0.5
    """
    characters = {(span.document, offset) for span in gold_spans for offset in range(span.start, span.end)}
    cited_characters = {(span.document, offset) for span in cited_spans for offset in range(span.start, span.end)}
    return len(characters & cited_characters) / max(1, len(characters))


def _remove_articles(words: Sequence[str]) -> list[str]:
    """Return the words without articles."""
    return [word for word in words if word not in ("a", "an", "the")]


def _count_runs(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    """Count the runs of ``length`` consecutive words."""
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))


def _compute_overlap(mine: Counter[tuple[str, ...]], gold: Counter[tuple[str, ...]]) -> float:
    """Return the F measure of two multisets of runs."""
    return _compute_f_measure(sum((mine & gold).values()), sum(mine.values()), sum(gold.values()))


def _compute_f_measure(common: int, mine: int, gold: int) -> float:
    """Return the F measure of two collections of the sizes ``mine`` and ``gold`` with ``common`` common elements."""
    return 2 * common / (mine + gold) if common else 0.0


def _measure_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for column, other_word in enumerate(second, 1):
            diagonal, row[column] = (
                row[column],
                diagonal + 1 if word == other_word else max(row[column], row[column - 1]),
            )
    return row[-1]
