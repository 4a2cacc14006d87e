"""Measures of how close an answer is to the expected one. Questions can also have *spans*, the characters of documents
that answer; an answer should cite them. An *outcome* has the measures of one question.

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
from .question_sets import Question, QuestionSet

_WORD = re.compile(r"\w+")
_CITATION = re.compile(r"\s*\[\d+(?:, \d+)*\]")
_MAX_NGRAM_WORDS = 4

#: A function that returns the vectors of a text's tokens, one per row.
TokenVectors = Callable[[str], Matrix]


def compute_answer_measures(answer: str, expected: str, embed_tokens: TokenVectors) -> dict[str, float]:
    """Return all measures of one answer by name; citations in it are removed first."""
    text = _CITATION.sub("", answer)
    answer_words, expected_words = split_words(text), split_words(expected)
    return {
        "rouge-1": _compute_overlap(_count_ngrams(answer_words, 1), _count_ngrams(expected_words, 1)),
        "rouge-2": _compute_overlap(_count_ngrams(answer_words, 2), _count_ngrams(expected_words, 2)),
        "rouge-l": _compute_f_measure(
            _compute_lcs_length(answer_words, expected_words), len(answer_words), len(expected_words)
        ),
        "bleu": compute_bleu(answer_words, expected_words),
        "f1": _compute_overlap(
            _count_ngrams(_remove_articles(answer_words), 1), _count_ngrams(_remove_articles(expected_words), 1)
        ),
        "bertscore": compute_bert_score(embed_tokens(text), embed_tokens(expected))
        if answer_words and expected_words
        else 0.0,
    }


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def compute_bleu(answer_words: Sequence[str], expected_words: Sequence[str]) -> float:
    """Return BLEU of one answer against one expected text, both as words."""
    if not answer_words or not expected_words:
        return 0.0
    log_precisions = []
    for length in range(1, min(_MAX_NGRAM_WORDS, len(answer_words)) + 1):
        ngrams = _count_ngrams(answer_words, length)
        smoothing = int(length > 1)  # add one to the counts of all but single words (Lin and Och 2004)
        num_matches = sum((ngrams & _count_ngrams(expected_words, length)).values()) + smoothing
        if not num_matches:
            return 0.0
        log_precisions.append(math.log(num_matches / (sum(ngrams.values()) + smoothing)))
    log_brevity_penalty = min(0.0, 1 - len(expected_words) / len(answer_words))
    return math.exp(log_brevity_penalty + sum(log_precisions) / len(log_precisions))


def compute_bert_score(answer_vectors: Matrix, expected_vectors: Matrix) -> float:
    """Return BERTScore of two texts, each given by the unit vectors of its tokens, one per row.

    Each token is matched with the token of the other text that has the greatest cosine. The mean cosines of the tokens
    of both texts are precision and recall, and the score is their F measure.
    """
    cosines = answer_vectors @ expected_vectors.T
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def make_token_embedder(store: kvstore.Store) -> TokenVectors:
    """Return a function that computes a vector for each token of a text with the store's embedder.

    A token's vector depends on its context if the embedder runs in this process (the default one with its original
    weights). Other embedders embed each word by itself.
    """
    embedder = store.embedder
    if embedder.name == DEFAULT_EMBEDDER:
        embedder = open_embedder(f"{DEFAULT_EMBEDDER}-float32")
    if isinstance(embedder, SentenceTransformerEmbedder):
        return lambda text: embedder.embed_tokens([text])[0]
    return lambda text: store.embed(split_words(text))


def compute_answer_outcomes(
    store: kvstore.Store,
    question_set: QuestionSet,
    strategy: str | None,
    model: str | None,
    log: Callable[[str], None],
    *,
    as_segments: bool = False,
) -> list[Outcome]:
    """Return the outcomes of ASK for every question with a known answer or spans; times are those of whole answers."""
    measured_questions = [question for question in question_set.questions if question.answer or question.spans]
    embed_tokens = make_token_embedder(store)
    texts = Texts(store)
    outcomes = []
    for num_answers, question in enumerate(measured_questions, 1):
        started = time.perf_counter()
        answer = store.ask(question.text, using=strategy, model=model, as_segments=as_segments)
        elapsed = 1000 * (time.perf_counter() - started)
        measures = _measure_answer(answer, question, embed_tokens, texts)
        outcomes.append(Outcome(measures, elapsed, bare_milliseconds=elapsed, pool=answer.evidence.pool))
        log(f"{question_set.name}: {num_answers} of {len(measured_questions)} answers")
    return outcomes


def _measure_answer(
    answer: kvstore.Answer, question: Question, embed_tokens: TokenVectors, texts: Texts
) -> dict[str, float]:
    """Return the measures of an answer of the store that has ``texts``, by name.

    These are those of :func:`compute_answer_measures` and: ``words``, the length of the answer without citations;
    ``contains``, 1 if the answer contains the expected answer (not for yes and no); ``cited``, the share of the
    characters of the spans that the citations cover; ``false_citations``, 1 if a citation was dropped; ``answered``, 1
    if the store did not abstain; and ``confidence``. An abstention contains and cites nothing.
    """
    measures = compute_answer_measures(answer.text, question.answer, embed_tokens) if question.answer else {}
    measures["false_citations"] = float(bool(answer.dropped))
    text_without_citations = _CITATION.sub("", answer.text)
    measures["words"] = float(len(text_without_citations.split()))
    expected = " ".join(split_words(question.answer or ""))
    if expected and expected not in ("yes", "no"):
        has_answer = f" {expected} " in f" {' '.join(split_words(text_without_citations))} "
        measures["contains"] = float(has_answer and not answer.abstained)
    if question.spans:
        cited_spans = [
            texts.locate_passage(Passage(citation.document, citation.start, citation.end, citation.text))
            for citation in answer.citations
        ]
        measures["cited"] = 0.0 if answer.abstained else compute_coverage(question.spans, cited_spans)
    measures["answered"], measures["confidence"] = float(not answer.abstained), answer.confidence
    return measures


def compute_coverage(gold_spans: Sequence[TextSpan], cited_spans: Sequence[TextSpan]) -> float:
    """Return the fraction of the characters of ``gold_spans`` that ``cited_spans`` cover.

    >>> compute_coverage([TextSpan("a", 0, 10)], [TextSpan("a", 5, 20), TextSpan("b", 0, 5)])
    0.5
    """
    characters = {(span.document, offset) for span in gold_spans for offset in range(span.start, span.end)}
    cited_characters = {(span.document, offset) for span in cited_spans for offset in range(span.start, span.end)}
    return len(characters & cited_characters) / max(1, len(characters))


def _remove_articles(words: Sequence[str]) -> list[str]:
    """Return the words without articles."""
    return [word for word in words if word not in ("a", "an", "the")]


def _count_ngrams(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    """Count the sequences of ``length`` consecutive words."""
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))


def _compute_overlap(ngrams: Counter[tuple[str, ...]], expected_ngrams: Counter[tuple[str, ...]]) -> float:
    """Return the F measure of two multisets of n-grams."""
    return _compute_f_measure(
        sum((ngrams & expected_ngrams).values()), sum(ngrams.values()), sum(expected_ngrams.values())
    )


def _compute_f_measure(num_common: int, size: int, expected_size: int) -> float:
    """Return the F measure of two collections, from the number of common elements and both sizes."""
    return 2 * num_common / (size + expected_size) if num_common else 0.0


def _compute_lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two lists of words."""
    lengths = [0] * (len(second) + 1)  # for each prefix of the second list, with the words of the first so far
    for word in first:
        diagonal = 0
        for index, other_word in enumerate(second, 1):
            diagonal, lengths[index] = (
                lengths[index],
                diagonal + 1 if word == other_word else max(lengths[index], lengths[index - 1]),
            )
    return lengths[-1]
