"""Scores of the snippets that the answer reader (a small network) read, and the confidence in the best. A *snippet* is
a sentence, list item or table row of a *passage* (text around retrieved chunks). A *window* is a snippet with its
context, such as its headings. A *term* is the stem of a word.

In: passages, the question, and the rules that score snippets. Out: a :class:`ReaderResult`, and from it the logit of
the confidence. :mod:`.reader_answer` makes the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from ...text.patterns import compile_lazily
from ...text.words import list_content_terms, list_terms
from ..answer_span import Verdict
from ..answer_types import detect_answer_type, find_contrasts, is_contrary
from ..excerpts import SnippetPosition, get_snippet
from ..passages import Passage
from ..question_dates import YEAR_PATTERN
from ..question_form import find_asking_sentence, find_described_name, find_topic, is_yes_no_question
from ..releases import parse_release
from ..snippet_scoring import SnippetScorer, SnippetScores
from ..snippets import Snippet
from ..verdicts import decide_verdict, find_names, split_stated_verdict
from .reader import AnswerReader
from .windows import Window, build_context_text, select_windows

#: The maximum number of windows that are read, those with the best scores by rules. Reading and embedding them is most
#: of the cost of an answer; with 12 of 16, as many answers to the questions of four sets are right as with 12 of 20.
_MAX_READ = 12
#: The weights of a snippet's score: of the logit of the reader and of the score by rules. They were fitted by
#: ``tools/fit_answer_reader.py`` on every second question of notes, three folders, everyday documents and four articles
#: of SQuAD 2.0.
_LOGIT_WEIGHT, _RULES_WEIGHT = 0.97, 0.75
#: A logistic model of the probability that the best snippet answers: the weight of the reader's logit, and a constant.
#: They were fitted by the same tool on the same questions. As a second signal, the confidence by rules has the weight
#: -0.01 there, so it is left out.
_CONFIDENCE_WEIGHT, _CONFIDENCE_CONSTANT = 0.71, -0.92
#: The maximum amount by which the logit of the confidence exceeds the logit by rules. The reader was trained on
#: questions that fit their passages, and the rules recognize the others: on three folders, their logit is at least -3.1
#: for questions with an answer, and at most -4.6 for foreign ones.
_MAX_GAIN_OVER_RULES = 3.0
#: The weight of the coverage, next to the logit of the reader, and the lowest sum with which a sentence alone answers a
#: question that may be a chain of facts. With 3, 32 of 60 answers to HotpotQA are right, and 33 by the rules alone;
#: most long questions of SQuAD 2.0 are read.
_COVERAGE_WEIGHT, _MIN_SINGLE_SENTENCE_SCORE = 3.0, 3.0
#: The logit of the confidence in what the reader cannot judge, sentences from several passages: it is 0 from this
#: cosine of the question and its nearest sentence, and falls with this slope below it. Near misses have lower cosines:
#: with the setting ``least_confidence`` of 0.25, 20 of 34 in four articles of SQuAD 2.0 are refused, and 4 of 36 right
#: answers to HotpotQA.
_UNJUDGED_SIMILARITY, _UNJUDGED_SLOPE = 0.66, 10.0
#: The maximum logit for a sentence that settles a yes-no question: 14 of 14 verdicts on 36 questions that chose no rule
#: were right.
_MAX_VERDICT_LOGIT = 2.5
#: The weights of a snippet without the form that the question asks for, in its score and in the confidence. Such a
#: snippet hardly ever answers. The weights are not fitted, because too few of the best snippets lack the form.
MISSING_TYPE_SCORE, MISSING_TYPE_LOGIT = -3.0, -2.0
#: The weight of a snippet if the reader finds the answer in its title or a heading. A question or a release is none.
_TITLE_SCORE = -2.0
#: The coverage below which a snippet is likely to be about something else than the question, and the weight of the
#: difference in the confidence. With them, 7 instead of 11 of 45 near misses about notes are answered. Twice the weight
#: refuses no further near miss, but 2 of 58 right answers about folders.
_MIN_COVERAGE, _UNCOVERED_WEIGHT = 0.3, 2.0
#: The weight of a snippet with the opposite of a word in the question. It is three quarters of the logarithm of the
#: ratio of two shares of questions with such a sentence: of the near misses and of the other questions of SQuAD 2.0,
#: outside the held-out articles.
_CONTRARY_LOGIT = -2.1
#: The least logit of the sentence that opens a document whose title is the question's topic, or the name in "Who is
#: Maria Jensen?". The reader, which was trained on questions for facts, prefers any statement with the name. For "Who
#: is", a sentence that states a position is better: its logit is 2 to 4.5, and that of a mere mention at most 1.4.
_OPENING_LOGIT, _DESCRIPTION_LOGIT = 4.0, 1.0
#: The weight of the logits of the reader and of the rules in the confidence for a topic, and the constant. With them,
#: 95 % of 150 headings of six folders after "Tell me about" are answered (88 % by the reader's confidence alone), 81 %
#: of 120 headings of other folders are refused (77 %), and 71 % of 120 mixtures of both (73 %).
_TOPIC_WEIGHT, _TOPIC_CONSTANT, _MAX_TOPIC_LOGIT = 0.5, -0.8, 7.0
_AVERAGE_PATTERN = compile_lazily(r"\b(?:(?P<average>average|avg|mean)|median)\b|(?<!\w)Ø(?!\w)", re.IGNORECASE)
#: The verb in "What does code 7 mean?", which asks for no average.
_MEAN_VERB_PATTERN = compile_lazily(r"\bmean(?=\W*\Z| (?:by|for|if|in|on|that|to|when)\b)", re.IGNORECASE)
#: The date of a row or an appointment.
_DATE_FIELD_PATTERN = compile_lazily(r"(?:\A|[;.] )(?:date|when): ([^;\n]+)", re.IGNORECASE)
_FULL_YEAR_PATTERN = compile_lazily(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
#: The limit of a period, which does not ask about its year: "since 2019".
_PERIOD_LIMIT_PATTERN = compile_lazily(
    r"\b(?:after|before|between(?: \d{4} and)?|by|from|since|to|until|till) \d{4}\b", re.IGNORECASE
)
#: The name of a field or setting that is written with underscores or periods, but not a number.
_FIELD_NAME_PATTERN = compile_lazily(r"\b(?![\d.]+[:= ])[^\W_]+(?:[_.][^\W_]+)+(?=: | ?= ?)")


class AnswerCandidate(NamedTuple):
    """A snippet that was read and may be the answer, with its ``score`` and the values that it was computed from."""

    position: SnippetPosition
    score: float
    #: The log-odds that the snippet answers the question, by the reader.
    logit: float
    #: The score by rules.
    rule_score: float
    #: True if the snippet lacks what the question asks for, such as an amount of money.
    lacks_answer_type: bool
    #: The words that answer, which are in the snippet, or in a title, heading or sentence before it.
    answer: str
    #: The fraction of the question's terms, by rarity, that the snippet has with its title (or file name) and heading.
    coverage: float
    #: True if it has the opposite of a word in the question, or is an entry for another range or a less extreme value.
    is_contrary: bool
    #: The text that was read if a quantity of the question replaced a range in it, or if the question's superlative was
    #: inserted; otherwise empty.
    compared_text: str


class ReaderResult(NamedTuple):
    """The result of the answer reader for a question. ``candidates`` are the snippets that were read, best first; there
    is at least one. ``verdict`` is the answer to a yes-no question, if the best candidate settles it. ``may_be_chain``
    is True if the question may need facts from several passages.

    ``rule_scores`` has the scores that rules gave to the likely snippets. ``logit_in_context`` is the mean of the
    reader's logits for the best candidate with and without the sentence before it. It separates answers from near
    misses better than the logit without that sentence: the area under the curve is 0.01 larger on SQuAD 2.0 and notes.
    ``lacks_topic_opening`` is True if the question asks for a topic instead of a fact, and the best candidate does not
    open a document with this title.
    """

    passages: Sequence[Passage]
    candidates: Sequence[AnswerCandidate]
    rule_scores: SnippetScores
    verdict: Verdict | None
    may_be_chain: bool
    logit_in_context: float
    lacks_topic_opening: bool

    @property
    def best(self) -> AnswerCandidate:
        """The snippet that most likely answers."""
        return self.candidates[0]

    @property
    def needs_several_passages(self) -> bool:
        """True if the question may need facts from several passages, and its best snippet hardly answers it alone.

        That snippet then has a low sum of its logit (log-odds, by the reader) and its weighted coverage of the
        question.
        """
        score = self.best.logit + _COVERAGE_WEIGHT * self.best.coverage
        return self.may_be_chain and score < _MIN_SINGLE_SENTENCE_SCORE

    @property
    def needs_topic_excerpts(self) -> bool:
        """True if the question asks for a topic, and the reader considers no single snippet a likely answer."""
        return self.lacks_topic_opening and self.reader_logit < 0

    @property
    def reader_logit(self) -> float:
        """The logit (log-odds) of the confidence in the likeliest answer, according to the answer reader alone."""
        return _CONFIDENCE_WEIGHT * self.logit_in_context + _CONFIDENCE_CONSTANT

    def compute_confidence_logit(
        self, rule_logit: float, unknown_logit: float, similarity: float | None = None
    ) -> float:
        """Return the logit (log-odds) of the confidence in the likeliest answer, by the answer reader and by rules.

        ``rule_logit`` is the logit of the confidence by rules, and ``unknown_logit`` is its part for names that no
        document has. ``similarity`` is the best cosine of the question and a sentence (None: unknown).

        The result is usually the reader's logit plus ``unknown_logit``, because the reader does not notice that a
        sentence is about another name. It exceeds ``rule_logit`` by little at most. It is lower if the best snippet
        lacks what the question asks for or most of its words, or contradicts it. The rules alone count, up to a
        maximum, for a verdict. They can also raise the result for a question that needs several passages, up to a
        maximum that falls with a low ``similarity``. For a topic, both logits count.
        """
        if self.verdict is not None:
            return min(rule_logit, _MAX_VERDICT_LOGIT)
        logit = (
            min(self.reader_logit, rule_logit + _MAX_GAIN_OVER_RULES)
            + unknown_logit
            + MISSING_TYPE_LOGIT * self.best.lacks_answer_type
            + _CONTRARY_LOGIT * self.best.is_contrary
            + _UNCOVERED_WEIGHT * min(0.0, self.best.coverage - _MIN_COVERAGE)
        )
        if self.needs_several_passages:  # the reader cannot judge more than the best sentence
            distance = 0.0 if similarity is None else max(0.0, _UNJUDGED_SIMILARITY - similarity)
            lacks_answer_type = all(candidate.lacks_answer_type for candidate in self.candidates)
            return max(logit, min(rule_logit, MISSING_TYPE_LOGIT * lacks_answer_type - _UNJUDGED_SLOPE * distance))
        if self.needs_topic_excerpts:
            return _TOPIC_WEIGHT * (logit + min(rule_logit, _MAX_TOPIC_LOGIT)) + _TOPIC_CONSTANT
        return logit


def read_passages(
    reader: AnswerReader,
    passages: Sequence[Passage],
    scorer: SnippetScorer,
    *,
    may_be_chain: bool,
    tables: Mapping[str, Hashable],
) -> ReaderResult | None:
    """Run the answer reader on the likeliest snippets of passages; return its results, or None if there is no snippet.

    ``scorer`` has the question, and scores snippets by rules. The reader gets only the sentence in the question that
    asks, as in training. ``may_be_chain`` is True if the question may need facts from several passages, so that no
    single snippet answers it. ``tables`` has the table of each document with comparable rows, by document key.
    """
    question = find_asking_sentence(scorer.question)
    windows = select_windows(detect_answer_type(question), passages, scorer, tables)
    if not windows:
        return None
    rule_scores = scorer.score_snippets(passages, [window.position for window in windows])
    windows = sorted(windows, key=lambda window: (-rule_scores.scores[window.position], window.position))
    # The rules do not compare numbers, so windows that were selected by such a comparison are always read.
    windows = windows[:_MAX_READ] + [window for window in windows[_MAX_READ:] if window.is_selected]
    topic = find_topic(question)  # "parking" in "Tell me about parking"
    min_logits = _find_min_logits(question, topic, windows, passages, scorer.stem)
    candidates = _read_candidates(reader, question, windows, passages, scorer, rule_scores, min_logits)
    best = candidates[0]
    verdict = _find_verdict(passages, best.position, scorer) if is_yes_no_question(question) else None
    best_window = next(window for window in windows if window.position == best.position)
    context_text = build_context_text(best_window, passages)
    logit_in_context = best.logit
    if context_text is not None:
        (context_output,) = reader.read(question, [context_text])
        logit_in_context = (best.logit + context_output.logit) / 2
    return ReaderResult(
        passages,
        candidates,
        rule_scores,
        verdict,
        may_be_chain,
        logit_in_context,
        lacks_topic_opening=topic is not None and best.position not in min_logits,
    )


def _find_min_logits(
    question: str,
    topic: str | None,
    windows: Sequence[Window],
    passages: Sequence[Passage],
    stem: Callable[[str], str],
) -> dict[SnippetPosition, float]:
    """Map the position of each read snippet that opens a document about the question's subject to its minimum logit.

    The subject is the ``topic``, the name in "Who is Maria Jensen?" or the whole question. It is the document's title.
    """
    name = find_described_name(question)
    subject_terms = set(list_terms(topic or name or question, stem))
    min_logit = _OPENING_LOGIT if name is None else _DESCRIPTION_LOGIT
    min_logits: dict[SnippetPosition, float] = {}
    for position in (window.position for window in windows):
        passage, snippet = passages[position.passage_index], get_snippet(passages, position)
        opens_document = position.snippet_index == 0 and snippet.ordinal == 0 and snippet.kind == "prose"
        if opens_document and set(list_terms(passage.plain_title, stem)) == subject_terms:
            min_logits[position] = min_logit
    return min_logits


def _read_candidates(
    reader: AnswerReader,
    question: str,
    windows: Sequence[Window],
    passages: Sequence[Passage],
    scorer: SnippetScorer,
    rule_scores: SnippetScores,
    min_logits: Mapping[SnippetPosition, float],
) -> list[AnswerCandidate]:
    """Run the answer reader on windows, and return them as candidates, best first.

    ``rule_scores`` has the scores of their snippets by rules. ``min_logits`` has the minimum logits of the snippets
    that open a document about the subject of the question.
    """
    contrasts = find_contrasts(question)
    years = set(YEAR_PATTERN.findall(_PERIOD_LIMIT_PATTERN.sub(" ", question)))
    texts = [_split_field_names(window.text, question) for window in windows]
    candidates = []
    for window, output in zip(windows, reader.read(question, texts), strict=True):
        passage = passages[window.position.passage_index]
        covering_text = f"{window.text} {get_snippet(passages, window.position).cell_text}"
        if not passage.title:  # the file name can name the subject
            covering_text += f" {passage.document}"
        logit = max(output.logit, min_logits.get(window.position, output.logit))
        rule_score = _compute_rule_score(window, windows, passages, scorer, rule_scores)
        answer = window.text[output.start : output.end]
        is_in_title = output.end <= window.offset and _is_in_title(answer, passage, window.position.snippet_index)
        penalty = MISSING_TYPE_SCORE * (window.lacks_answer_type or window.is_ruled_out) + _TITLE_SCORE * is_in_title
        contradicts_question = (
            window.is_ruled_out
            or is_contrary(contrasts, window.text)
            or (bool(years) and _is_about_other_year(years, window, passage))
            or _is_single_value(question, window.text, get_snippet(passages, window.position), scorer.stem)
        )
        candidates.append(
            AnswerCandidate(
                window.position,
                _LOGIT_WEIGHT * logit + _RULES_WEIGHT * rule_score + penalty,
                logit,
                rule_score,
                window.lacks_answer_type,
                answer=answer,
                coverage=scorer.compute_rarity_fraction(scorer.list_question_terms(covering_text)),
                is_contrary=contradicts_question,
                compared_text=window.text if window.is_selected else "",
            )
        )
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.position))


def _is_in_title(answer: str, passage: Passage, index: int) -> bool:
    """True if the title or a heading above the snippet at ``index`` has the answer, and is no question or release."""
    labels = (label for label in passage.list_labels(index) if answer in label)
    return any(not (label.endswith("?") or parse_release(label)) for label in labels)


def _is_about_other_year(years: set[str], window: Window, passage: Passage) -> bool:
    """True if a window is dated by another year than the ``years`` of the question.

    The date is in a field of the snippet (a table row, an appointment), or in the file name, title or headings, as for
    minutes and reports. It does not count if the text below it also has a year of the question.
    """
    text = window.text[window.offset :]
    date_fields = " ".join(_DATE_FIELD_PATTERN.findall(text))
    if _FULL_YEAR_PATTERN.search(date_fields) and not any(year in text for year in years):
        return True
    labels = f"{PurePosixPath(passage.document).stem} {passage.title or ''} {window.text[: window.offset]}"
    label_years = set(_FULL_YEAR_PATTERN.findall(labels))
    return bool(label_years) and not any(year in labels or year in passage.text for year in years)


def _is_single_value(question: str, text: str, snippet: Snippet, stem: Callable[[str], str]) -> bool:
    """True if a question asks for an average, and a snippet is a table row without it, such as "Shop: A; Rent: $90".

    ``text`` is the text of the snippet with its labels. A row has the average if a cell says so ("Shop: Average; Rent:
    $90"), or the name of a column does, which has no other words or a word of the question ("Average rent: $90").
    """
    match = _AVERAGE_PATTERN.search(_MEAN_VERB_PATTERN.sub("", question))
    if match is None or snippet.kind != "table":
        return False
    terms = set(list_terms(question, stem))
    for field in text.split("; "):
        name, _, cell = field.rpartition(": ")
        for average in _AVERAGE_PATTERN.finditer(field):
            words = set() if average[0] in cell else set(list_terms(_AVERAGE_PATTERN.sub(" ", name), stem))
            is_same = bool(average["average"]) == bool(match["average"])
            if is_same and (not words or words & terms):
                return False
    return True


def _compute_rule_score(
    window: Window,
    windows: Sequence[Window],
    passages: Sequence[Passage],
    scorer: SnippetScorer,
    rule_scores: SnippetScores,
) -> float:
    """Return the score by rules of the snippet in a window. The rules do not compare numbers.

    So a selected row, which has a range with the question's quantity or an extreme value, gets at least the score of
    the rows of its table that were ruled out for it. Rows belong to one table if their documents have the same title,
    and their headings are the same. The selected row must have the question's terms that the other row has, because
    the row of another thing can have the same range.
    """
    score = rule_scores.scores[window.position]
    if not window.is_selected:
        return score

    def identify_table(other: Window) -> tuple[str, str]:
        """Return the title of the document and the heading of a window."""
        passage = passages[other.position.passage_index]
        return passage.title or passage.document, get_snippet(passages, other.position).heading

    table, terms = identify_table(window), scorer.list_question_terms(window.text)
    rivals = (
        other
        for other in windows
        if other.is_ruled_out and identify_table(other) == table and scorer.list_question_terms(other.text) <= terms
    )
    return max([score, *(rule_scores.scores[rival.position] for rival in rivals)])


def _split_field_names(text: str, question: str) -> str:
    """Return a text with its field names as words: ``unit price: 5`` for ``unit_price: 5``. The length is the same.

    The answer reader was trained on sentences. A name that occurs in the question is not changed.

    >>> _split_field_names("crane.unit_price: 5", ""), _split_field_names("Crane, 1,964.30: May", "")
    ('crane unit price: 5', 'Crane, 1,964.30: May')
    """

    def split_name(match: re.Match[str]) -> str:
        """Return the name of a field with spaces between its words, or unchanged if the question has it."""
        name = match[0]
        return name if name in question else name.replace("_", " ").replace(".", " ")

    return _FIELD_NAME_PATTERN.sub(split_name, text)


def _find_verdict(passages: Sequence[Passage], position: SnippetPosition, scorer: SnippetScorer) -> Verdict | None:
    """Return yes or no if the snippet at ``position`` settles the yes-no question of ``scorer``, otherwise None.

    A snippet that begins with "Yes." or "No." settles it if the heading is the same question. Otherwise, the snippet
    and its context must have all content words of the question. The context is the title, the headings, the label, and
    the names in the sentence that the snippet refers to.
    """
    passage_index, index = position
    passage = passages[passage_index]
    snippet = passage.snippets[index]
    context = [passage.title or passage.document, passage.heading, snippet.heading, snippet.label or ""]
    if index and snippet.refers_back:
        previous = passage.snippets[index - 1]
        # A pronoun can stand for a name in the previous sentence; the rest of that sentence is another statement.
        context += [previous.text] if previous.is_question else find_names(previous.text)
    stated_verdict, text = split_stated_verdict(snippet.text)
    if stated_verdict is not None:
        terms = set(list_content_terms(scorer.question, scorer.stem))
        questions = (*passage.heading.split(" > "), snippet.heading)
        if any(set(list_content_terms(question, scorer.stem)) == terms for question in questions):
            return stated_verdict
    return decide_verdict(scorer.question, text, " ".join(context), scorer.stem)
