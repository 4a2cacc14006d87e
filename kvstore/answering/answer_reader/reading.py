"""The reading of the passages of a question by the answer reader: sentences by score, and the words that answer.

In: passages, the question, and the rules that score sentences. Out: a :class:`PassageReading`, from which the answer,
its confidence and the nearest sentences are made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..answer_span import Verdict
from ..extractive import SnippetScorer, SnippetScores
from ..passages import Passage
from ..question_kinds import classify_question, find_asking_sentence, is_yes_no_question
from ..runs import SnippetPosition
from ..verdicts import decide_verdict, find_names
from .windows import Window, build_context_text, select_windows

if TYPE_CHECKING:
    from .reader import AnswerReader

#: The maximum number of windows that are read, those with the best scores by rules. Reading and embedding them is most
#: of the cost of an answer; with 12 of 16, as many answers to the questions of four sets are right as with 12 of 20.
_MAX_READ = 12
#: The weights of a snippet's score: of the logit of the reader and of the score by rules. They were fitted by
#: ``tools/fit_answer_reader.py`` on notes and four articles of SQuAD 2.0.
_LOGIT_WEIGHT, _RULES_WEIGHT = 1.3, 0.73
#: The weights of a logistic model of the probability that the best snippet answers: of the reader's logit, and of the
#: logit of the confidence by rules. They were fitted by the same tool on every second question of the notes, three
#: folders, and nine articles of SQuAD 2.0. Over the other questions, the calibration error is 0.05.
_CONFIDENCE_WEIGHTS = {"reader": 0.82, "rules": 0.05}
_CONFIDENCE_CONSTANT = -1.01
#: The logit of the confidence exceeds that by rules by at most this. The reader was trained on questions that fit their
#: passages, and the rules recognize the others: on three folders, their logit is at least -3.1 for questions with an
#: answer, and at most -4.6 for foreign ones.
_MAX_GAIN_OVER_RULES = 3.0
#: The weight of the coverage, next to the logit of the reader, and the lowest sum with which a sentence alone answers a
#: question that may be a chain of facts. With 3, as many answers to HotpotQA are right as by the rules alone, 33 of 60,
#: and most long questions of SQuAD 2.0 are read.
_COVERAGE_WEIGHT, _MIN_SINGLE_SENTENCE_SCORE = 3.0, 3.0
#: The maximum logit of the confidence in what the reader cannot judge: sentences of several passages, which hold the
#: answer to 57 % of the questions of HotpotQA, and answers to questions that yes or no answers. The second maximum is
#: for a sentence that settles such a question: 14 of 14 verdicts on 36 questions that chose no rule were right.
_MAX_UNJUDGED_LOGIT, _MAX_VERDICT_LOGIT = 0.0, 2.5
#: The weights of the same model for a question that yes or no answers and that no sentence settles: of the score by
#: rules, the reader's logit and the coverage of the snippet. They were fitted on 58 questions without a verdict, about
#: price lists, opening hours, minutes, a contract and three folders. Fitted on half of them, the model has an area
#: under the curve of 0.91 on the other half. The constant was chosen by hand on the same 58 questions: with it and the
#: default of ``least_confidence``, 70 % of their near misses are refused, and 47 % without the model; 89 and 95 % of
#: the others are answered.
_YES_NO_WEIGHTS = {"rules": 0.55, "reader": 0.4, "coverage": 1.0}
_YES_NO_CONSTANT = -4.6
#: The weights of a snippet without the form that the question asks for, in its score and in the confidence. Such a
#: snippet hardly ever answers. The weights are not fitted, because too few of the best snippets lack the form.
MISSING_KIND_SCORE, MISSING_KIND_LOGIT = -3.0, -2.0


class SnippetReading(NamedTuple):
    """A snippet that was read: its score, the reader's ``logit`` that it answers, and the ``rule_score``.

    ``answer`` has the words of the snippet that answer; it is empty if these words are before the snippet.
    ``is_kind_missing`` is True if the snippet lacks the kind of thing that the question asks for, such as an amount of
    money. ``coverage`` is the fraction of the question's terms, by rarity, that the snippet has with its title and
    heading.
    """

    position: SnippetPosition
    score: float
    logit: float
    rule_score: float
    is_kind_missing: bool
    answer: str
    coverage: float


class PassageReading(NamedTuple):
    """The passages of a question with the readings of their likeliest snippets, best first; never empty.

    ``rule_scores`` has the scores that rules gave to the likely snippets. ``logit_in_context`` is the mean of the
    reader's logits for the likeliest snippet with and without the sentence before it. It separates answers from near
    misses better than the logit without that sentence: on 440 questions of SQuAD 2.0, the area under the curve is 0.79
    instead of 0.78, and on 130 questions about notes 0.93 instead of 0.92. ``is_yes_no`` is True if yes or no answers
    the question. The reader was not trained on such questions: it helps to choose among sentences, but its logit does
    not show if one answers. ``verdict`` is the yes or no of the likeliest answer, if that sentence settles the
    question. ``may_be_chain`` is True if the question may need several passages, because it is a chain of facts or a
    comparison.
    """

    passages: Sequence[Passage]
    readings: Sequence[SnippetReading]
    rule_scores: SnippetScores
    is_yes_no: bool
    verdict: Verdict | None
    may_be_chain: bool
    logit_in_context: float

    @property
    def best(self) -> SnippetReading:
        """The reading of the likeliest answer."""
        return self.readings[0]

    @property
    def needs_several_passages(self) -> bool:
        """True if the question may be a chain, and no sentence both is a likely answer and covers the question."""
        score = self.best.logit + _COVERAGE_WEIGHT * self.best.coverage
        return self.may_be_chain and score < _MIN_SINGLE_SENTENCE_SCORE

    def compute_confidence_logit(self, rule_logit: float, unknown_logit: float) -> float:
        """Return the logit of the confidence in the likeliest answer, from the reader's logit and that of the rules.

        ``rule_logit`` is the logit of the confidence by rules, and ``unknown_logit`` the part of it for names that no
        document has. That part is added, because the reader does not notice that a sentence is about another name.
        A verdict, and an answer that the reader cannot judge, have the logit of the rules, up to a maximum.
        """
        if self.verdict is not None:
            return min(rule_logit, _MAX_VERDICT_LOGIT)
        if self.needs_several_passages or self.is_yes_no:
            yes_no_logit = self._compute_yes_no_logit() if self.is_yes_no else _MAX_UNJUDGED_LOGIT
            return min(rule_logit, yes_no_logit, _MAX_UNJUDGED_LOGIT)
        signals = {"reader": self.logit_in_context, "rules": rule_logit}
        logit = math.fsum(weight * signals[name] for name, weight in _CONFIDENCE_WEIGHTS.items()) + _CONFIDENCE_CONSTANT
        logit = min(logit, rule_logit + _MAX_GAIN_OVER_RULES)
        return logit + unknown_logit + MISSING_KIND_LOGIT * self.best.is_kind_missing

    def _compute_yes_no_logit(self) -> float:
        """Return the logit that the likeliest snippet answers a question that yes or no answers, without a verdict."""
        best = self.best
        signals = {"rules": best.rule_score, "reader": best.logit, "coverage": best.coverage}
        return math.fsum(weight * signals[name] for name, weight in _YES_NO_WEIGHTS.items()) + _YES_NO_CONSTANT


def read_passages(
    reader: AnswerReader, passages: Sequence[Passage], scorer: SnippetScorer, *, may_be_chain: bool
) -> PassageReading | None:
    """Read the likeliest snippets of the passages and return their readings; None if no snippet can be quoted.

    The reader gets the sentence that asks, as in training. The sentences before it only help to choose the snippets.
    ``may_be_chain`` is True if the question may need facts of several passages, so that no single snippet answers it.
    """
    question = find_asking_sentence(scorer.question)
    windows = select_windows(classify_question(question), passages, scorer)
    if not windows:
        return None
    rule_scores = scorer.score_snippets(passages, [window.position for window in windows])
    windows = sorted(windows, key=lambda window: (-rule_scores.scores[window.position], window.position))[:_MAX_READ]
    readings = []
    for window, reading in zip(windows, reader.read(question, [window.text for window in windows]), strict=True):
        # An answer in the title or heading is no part of the snippet.
        answer = window.text[reading.start : reading.end] if reading.start >= window.offset else ""
        rule_score = rule_scores.scores[window.position]
        readings.append(
            SnippetReading(
                window.position,
                score=_LOGIT_WEIGHT * reading.logit
                + _RULES_WEIGHT * rule_score
                + MISSING_KIND_SCORE * window.is_kind_missing,
                logit=reading.logit,
                rule_score=rule_score,
                is_kind_missing=window.is_kind_missing,
                answer=answer,
                coverage=scorer.compute_coverage(window.text),
            )
        )
    readings.sort(key=lambda reading: (-reading.score, reading.position))
    is_yes_no = is_yes_no_question(question)
    verdict = _find_verdict(passages, readings[0].position, scorer) if is_yes_no else None
    best_window = next(window for window in windows if window.position == readings[0].position)
    logit_in_context = _compute_logit_in_context(reader, question, best_window, passages, readings[0].logit)
    return PassageReading(passages, readings, rule_scores, is_yes_no, verdict, may_be_chain, logit_in_context)


def _compute_logit_in_context(
    reader: AnswerReader, question: str, window: Window, passages: Sequence[Passage], logit: float
) -> float:
    """Return the mean logit of a window, read without and with the sentence before its snippet.

    ``logit`` is that without it, and is returned if there is no such sentence, see :func:`build_context_text`.
    """
    text = build_context_text(window, passages)
    return logit if text is None else (logit + reader.read(question, [text])[0].logit) / 2


def _find_verdict(passages: Sequence[Passage], position: SnippetPosition, scorer: SnippetScorer) -> Verdict | None:
    """Return yes or no if the snippet at ``position`` settles the question, otherwise None.

    Its title, heading and label, and the sentence that it refers to, can name its subject.
    """
    passage_index, index = position
    passage = passages[passage_index]
    snippet = passage.snippets[index]
    context = [passage.title or passage.document, passage.heading, snippet.heading, snippet.label or ""]
    if index and (snippet.needs_previous or snippet.needs_subject):
        previous = passage.snippets[index - 1]
        # A pronoun can stand for a name in the previous sentence; the rest of that sentence is another statement.
        context += [previous.text] if previous.is_question else find_names(previous.text)
    return decide_verdict(scorer.question, snippet.text, " ".join(context), scorer.stem)
