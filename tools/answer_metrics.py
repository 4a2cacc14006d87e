"""How near answers come to reference answers: ROUGE-1, -2 and -L, BLEU, token F1 and BERTScore.

In: answers, each with one reference or more, and an embedder. Out: a mean over the questions for each measure, between
0 and 1, the reference that suits an answer best counting; BLEU is one figure for all answers. An answer without a word
scores 0. Citations such as ``[1]`` are taken out first.

ROUGE is its F-measure over lower-case words without stemming (Lin, "ROUGE", 2004); F1 that of SQuAD, over words without
articles and punctuation (Rajpurkar et al. 2016, section 6.1); BLEU that of a corpus, up to four words, one added to
counts of two words and more so that short answers do not make it 0 (Papineni et al. 2002, section 2.3; Lin and Och,
"ORANGE", 2004); BERTScore its F-measure by greedy matching of token vectors, neither weighted nor rescaled (Zhang et
al. 2020, section 3). Its vectors are those of the tokens in their context where the embedder runs in this process, else
those of the words, each embedded alone.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstore.models.protocol import Embedder, normalised
from kvstore.models.sentence_transformer import SentenceTransformerEmbedder

Matrix = npt.NDArray[np.float32]
References = Sequence[Sequence[str]]

_WORD = re.compile(r"[^\W_]+")
_CITATION = re.compile(r"\s*\[\d+(?:, \d+)*\]")
_ARTICLES = frozenset({"a", "an", "the"})
_LONGEST = 4


def answer_scores(answers: Sequence[str], references: References, embedder: Embedder) -> dict[str, float]:
    """Every measure by name, for answers in the order of their references."""
    texts = [_CITATION.sub("", answer) for answer in answers]
    measures: dict[str, Callable[[str, str], float]] = {
        "rouge1": lambda answer, gold: rouge_n(answer, gold, 1),
        "rouge2": lambda answer, gold: rouge_n(answer, gold, 2),
        "rougeL": rouge_l,
        "f1": token_f1,
    }
    scores = {
        name: statistics.mean(
            max(measure(text, gold) for gold in golds) for text, golds in zip(texts, references, strict=True)
        )
        for name, measure in measures.items()
    }
    scores["bleu"] = bleu(texts, references)
    scores["bertscore"] = _mean_bertscore(texts, references, embedder)
    return scores


def rouge_n(answer: str, gold: str, size: int) -> float:
    """F-measure of the n-grams of ``size`` words that both have."""
    return _f_measure(_grams(_words(answer), size), _grams(_words(gold), size))


def rouge_l(answer: str, gold: str) -> float:
    """F-measure of the longest common subsequence of words."""
    first, second = _words(answer), _words(gold)
    row = [0] * (len(second) + 1)
    for word in first:
        before = row.copy()
        for place, other in enumerate(second, 1):
            row[place] = before[place - 1] + 1 if word == other else max(before[place], row[place - 1])
    return _harmonic(row[-1], len(first), len(second))


def token_f1(answer: str, gold: str) -> float:
    """F-measure of the words that both have, articles left out."""
    bags = [Counter(word for word in _words(text) if word not in _ARTICLES) for text in (answer, gold)]
    return _f_measure(*bags)


def bleu(answers: Sequence[str], references: References) -> float:
    """BLEU of all answers together."""
    matched, made = [0] * _LONGEST, [0] * _LONGEST
    length = reference_length = 0
    for answer, golds in zip(answers, references, strict=True):
        words, others = _words(answer), [_words(gold) for gold in golds]
        length += len(words)
        reference_length += min((abs(len(other) - len(words)), len(other)) for other in others)[1]
        for place in range(_LONGEST):
            found = _grams(words, place + 1)
            allowed: Counter[Any] = Counter()
            for other in others:
                allowed |= _grams(other, place + 1)
            matched[place] += (found & allowed).total()
            made[place] += found.total()
    if not matched[0]:
        return 0.0
    logarithms = [math.log(matched[0] / made[0])]
    logarithms += [math.log((right + 1) / (all_ + 1)) for right, all_ in zip(matched[1:], made[1:], strict=True)]
    return min(1.0, math.exp(1 - reference_length / length)) * math.exp(statistics.mean(logarithms))


def bertscore(answer: Matrix, gold: Matrix) -> float:
    """F-measure of two texts given as unit vectors of their tokens, one a row: each token's nearest in the other."""
    if not len(answer) or not len(gold):
        return 0.0
    similar = answer @ gold.T
    precision, recall = float(similar.max(axis=1).mean()), float(similar.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def _mean_bertscore(answers: Sequence[str], references: References, embedder: Embedder) -> float:
    every = list(dict.fromkeys([*answers, *(gold for golds in references for gold in golds)]))
    vectors = dict(zip(every, _token_vectors(every, embedder), strict=True))
    return statistics.mean(
        max(bertscore(vectors[answer], vectors[gold]) for gold in golds)
        for answer, golds in zip(answers, references, strict=True)
    )


def _token_vectors(texts: Sequence[str], embedder: Embedder) -> list[Matrix]:
    if isinstance(embedder, SentenceTransformerEmbedder):
        return embedder.token_vectors(texts)
    parted = [_words(text) for text in texts]
    words = list(dict.fromkeys(word for part in parted for word in part))
    rows = dict(zip(words, normalised(embedder.embed(words)), strict=True)) if words else {}
    return [np.array([rows[word] for word in part], np.float32) for part in parted]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: Sequence[str], size: int) -> Counter[Any]:
    return Counter(zip(*(words[start:] for start in range(size)), strict=False))


def _f_measure(answer: Counter[Any], gold: Counter[Any]) -> float:
    return _harmonic((answer & gold).total(), answer.total(), gold.total())


def _harmonic(shared: int, answer: int, gold: int) -> float:
    """The harmonic mean of the shares that ``shared`` is of the two."""
    return 2 * shared / (answer + gold) if shared else 0.0
