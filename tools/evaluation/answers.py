"""How close an answer comes to the expected one.

In: an answer and the text expected. Out: ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004, F measure), BLEU (Papineni et al.
2002, up to four words, counts of longer runs smoothed by one as by Lin and Och 2004), F1 over words (Rajpurkar et al.
2016) and BERTScore (Zhang et al. 2020, section 3: greedy matching, without rarity), here over the vectors that
the store's embedder gives to single words. Words are compared in lower case; 1 is best.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

import kvstore
from kvstore.storage.vectors import Matrix

from .measures import Outcome
from .question_sets import QuestionSet

_WORD = re.compile(r"\w+")
_CITATION = re.compile(r"\s*\[\d+\]")
_LONGEST_RUN = 4


def answer_measures(answer: str, expected: str, embed: Callable[[Sequence[str]], Matrix]) -> dict[str, float]:
    """All measures of one answer; citations in it do not count."""
    mine, gold = words_of(_CITATION.sub("", answer)), words_of(expected)
    return {
        "rouge-1": _overlap(_runs(mine, 1), _runs(gold, 1)),
        "rouge-2": _overlap(_runs(mine, 2), _runs(gold, 2)),
        "rouge-l": _f_measure(_common_subsequence(mine, gold), len(mine), len(gold)),
        "bleu": bleu(mine, gold),
        "f1": _overlap(_runs(_bare(mine), 1), _runs(_bare(gold), 1)),
        "bertscore": bert_score(mine, gold, embed),
    }


def words_of(text: str) -> list[str]:
    """Words of a text in lower case."""
    return _WORD.findall(text.lower())


def bleu(mine: Sequence[str], gold: Sequence[str]) -> float:
    """BLEU of one answer against one expected text."""
    if not mine or not gold:
        return 0.0
    logarithms = []
    for length in range(1, min(_LONGEST_RUN, len(mine)) + 1):
        runs = _runs(mine, length)
        smoothing = int(length > 1)
        matched = sum((runs & _runs(gold, length)).values()) + smoothing
        if not matched:
            return 0.0
        logarithms.append(math.log(matched / (sum(runs.values()) + smoothing)))
    brevity = min(0.0, 1 - len(gold) / len(mine))
    return math.exp(brevity + sum(logarithms) / len(logarithms))


def bert_score(mine: Sequence[str], gold: Sequence[str], embed: Callable[[Sequence[str]], Matrix]) -> float:
    """F measure of every word's cosine with the nearest word of the other text."""
    if not mine or not gold:
        return 0.0
    cosines = embed(list(mine)) @ embed(list(gold)).T
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def answer_outcomes(
    store: kvstore.Store, questions: QuestionSet, strategy: str | None, model: str | None, tell: Callable[[str], None]
) -> list[Outcome]:
    """What ASK answers to every question whose answer is known; the times are those of whole answers."""
    known = [question for question in questions.questions if question.answer]
    outcomes = []
    for number, question in enumerate(known, 1):
        started = time.perf_counter()
        answer = store.ask(question.text, using=strategy, model=model)
        elapsed = 1000 * (time.perf_counter() - started)
        assert question.answer is not None
        measures = answer_measures(answer.text, question.answer, store.embed)
        outcomes.append(Outcome(measures, elapsed, elapsed, answer.evidence.pool))
        tell(f"{questions.name}: {number} of {len(known)} answers")
    return outcomes


def _bare(words: Sequence[str]) -> list[str]:
    """Words without articles."""
    return [word for word in words if word not in ("a", "an", "the")]


def _runs(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + length]) for start in range(len(words) - length + 1))


def _overlap(mine: Counter[tuple[str, ...]], gold: Counter[tuple[str, ...]]) -> float:
    return _f_measure(sum((mine & gold).values()), sum(mine.values()), sum(gold.values()))


def _f_measure(common: int, mine: int, gold: int) -> float:
    return 2 * common / (mine + gold) if common else 0.0


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = 0
        for place, other in enumerate(second, 1):
            before, row[place] = row[place], before + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]
