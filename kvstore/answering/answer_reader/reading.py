"""The sentences that the answer reader read, best first, and the answer that is made from them.

In: passages, the question, and the rules that score sentences. Out: a :class:`PassageReading`, and from it the
confidence, the nearest sentences, and the text of the answer with its citations. The first paragraph of the text is the
sentence, item or table row that answers, with the words that answer; a sentence that introduces a list or code is shown
with it. Then follows the context: the sentence before it, if the answer refers to it, and the next likeliest sentences;
then the relations of the rarest entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ...retrieval.evidence import Evidence
from ...text.patterns import compile_lazily
from ...text.words import list_terms, segment_words
from ..answer_span import AnswerPart, AnswerSpan, Verdict
from ..answer_types import asks_for_listed_persons, detect_answer_type, find_contrasts, is_contrary
from ..citations import Citation, neutralize_citations
from ..excerpts import (
    Excerpt,
    SnippetPosition,
    drop_repetitions,
    extend_over_definition,
    find_required_end,
    find_required_start,
    get_snippet,
    has_previous,
)
from ..extractive import ExtractedAnswer, SnippetScorer, SnippetScores, render_excerpts
from ..passages import Passage
from ..question_form import find_asking_sentence, find_topic, is_yes_no_question
from ..snippets import Snippet
from ..verdicts import decide_verdict, find_names
from .reader import AnswerReader, build_context_text, is_unasked_mail_field, select_windows

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
#: The logit of the confidence exceeds that by rules by at most this. The reader was trained on questions that fit their
#: passages, and the rules recognize the others: on three folders, their logit is at least -3.1 for questions with an
#: answer, and at most -4.6 for foreign ones.
_MAX_GAIN_OVER_RULES = 3.0
#: The weight of the coverage, next to the logit of the reader, and the lowest sum with which a sentence alone answers a
#: question that may be a chain of facts. With 3, 32 of 60 answers to HotpotQA are right, and 33 by the rules alone;
#: most long questions of SQuAD 2.0 are read.
_COVERAGE_WEIGHT, _MIN_SINGLE_SENTENCE_SCORE = 3.0, 3.0
#: The maximum logit of the confidence in what the reader cannot judge: sentences from several passages, which hold the
#: answer to 57 % of the questions in HotpotQA. The second maximum is for a sentence that settles a yes-no question: 14
#: of 14 verdicts on 36 questions that chose no rule were right.
_MAX_UNJUDGED_LOGIT, _MAX_VERDICT_LOGIT = 0.0, 2.5
#: The weights of a snippet without the form that the question asks for, in its score and in the confidence. Such a
#: snippet hardly ever answers. The weights are not fitted, because too few of the best snippets lack the form.
MISSING_TYPE_SCORE, MISSING_TYPE_LOGIT = -3.0, -2.0
#: The weight of a snippet with the opposite of a word in the question. It is three quarters of the logarithm of the
#: ratio of two shares of questions with such a sentence: of the near misses and of the other questions of SQuAD 2.0,
#: outside the held-out articles.
_CONTRARY_LOGIT = -2.1
#: The least logit of the sentence that opens a document whose title is the question's topic. The reader, which was
#: trained on questions for facts, prefers any statement with the name.
_OPENING_LOGIT = 4.0
#: The weight of the logits of the reader and of the rules in the confidence for a topic, and the constant. With them,
#: 95 % of 150 headings of six folders after "Tell me about" are answered (88 % by the reader's confidence alone), 81 %
#: of 120 headings of other folders are refused (77 %), and 71 % of 120 mixtures of both (73 %).
_TOPIC_WEIGHT, _TOPIC_CONSTANT, _MAX_TOPIC_LOGIT = 0.5, -0.8, 7.0
#: The name of a field that is written with underscores.
_FIELD_NAME_PATTERN = compile_lazily(r"\b[^\W_]+(?:_[^\W_]+)+(?=: )")
#: The maximum number of sentences of context, and of words of an answer with its context.
_MAX_CONTEXT, _MAX_WORDS = 2, 80
#: The maximum distance of the score of a sentence of context from the answer's score.
_MAX_CONTEXT_GAP = 6.0
#: The start of a sentence whose reason is the sentence before it.
_CONSEQUENCE_PATTERN = compile_lazily(
    r"(?:for (?:this|that|these|those) reasons?|because of (?:this|that)|(?:this|that) is why|therefore|thus|hence"
    r"|as a result|consequently|so,? (?:we|you|they|it|the)\b)",
    re.IGNORECASE,
)
#: Pronouns that refer to the sentence before, and the maximum number of words of a sentence with such a pronoun.
_PRONOUN_PATTERN = compile_lazily(r"\b(?:it|them|they|him|her)\b", re.IGNORECASE)
_MAX_PRONOUN_WORDS = 12
#: Questions whose answer is several items.
_LIST_QUESTION_PATTERN = compile_lazily(
    r"\b(?:how (?:do|can|could|should|to|does)|what (?:are|were|do|does|must|should|can)|which \w+s|list|steps)\b",
    re.IGNORECASE,
)


class SnippetReading(NamedTuple):
    """A snippet that was read: its score, the reader's ``logit`` that it answers, and the ``rule_score``.

    ``answer`` has the words that answer, which are in the snippet, or in a title, heading or sentence before it.
    ``lacks_answer_type`` is True if the snippet lacks what the question asks for, such as an amount of money.
    ``coverage`` is the fraction of the question's terms, by rarity, that the snippet has with its title and heading.
    ``is_contrary`` is True if it has the opposite of a word in the question instead.
    """

    position: SnippetPosition
    score: float
    logit: float
    rule_score: float
    lacks_answer_type: bool
    answer: str
    coverage: float
    is_contrary: bool


class PassageReading(NamedTuple):
    """The passages of a question with the readings of their likeliest snippets, best first; never empty.

    ``rule_scores`` has the scores that rules gave to the likely snippets. ``logit_in_context`` is the mean of the
    reader's logits for the likeliest snippet with and without the sentence before it. (It separates answers from near
    misses better than the logit without that sentence: the area under the curve is 0.01 larger on SQuAD 2.0 and notes.)
    ``verdict`` is the yes or no of the likeliest answer, if that sentence settles a yes-no question. ``may_be_chain``
    is True if the question may need several passages, because it is a chain of facts or a comparison. ``is_topic`` is
    True if the question asks for a topic instead of a fact, and the likeliest answer does not open a document with this
    title.
    """

    passages: Sequence[Passage]
    readings: Sequence[SnippetReading]
    rule_scores: SnippetScores
    verdict: Verdict | None
    may_be_chain: bool
    logit_in_context: float
    is_topic: bool

    @property
    def best(self) -> SnippetReading:
        """The reading of the snippet that most likely answers."""
        return self.readings[0]

    @property
    def needs_several_passages(self) -> bool:
        """True if the question may be a chain of facts, and the best sentence scores too low to answer it alone.

        The score is the reader's logit plus the weighted coverage of the question.
        """
        score = self.best.logit + _COVERAGE_WEIGHT * self.best.coverage
        return self.may_be_chain and score < _MIN_SINGLE_SENTENCE_SCORE

    @property
    def needs_topic_excerpts(self) -> bool:
        """True if the question asks for a topic, and the reader rather doubts that a single sentence is the answer."""
        return self.is_topic and self.reader_logit < 0

    @property
    def reader_logit(self) -> float:
        """The logit of the confidence from the reader alone."""
        return _CONFIDENCE_WEIGHT * self.logit_in_context + _CONFIDENCE_CONSTANT

    def compute_confidence_logit(self, rule_logit: float, unknown_logit: float) -> float:
        """Return the logit (log-odds) of the confidence in the likeliest answer, from the reader and from rules.

        ``rule_logit`` is the logit of the confidence by rules, and ``unknown_logit`` the part of it for names that no
        document has. That part is added, because the reader does not notice that a sentence is about another name. A
        snippet that lacks what the question asks for, or is contrary to it, gets a lower logit. A yes or no
        (``verdict``), and an answer that the reader cannot judge, have the logit of the rules, up to a maximum. For a
        topic, both logits count.
        """
        if self.verdict is not None:
            return min(rule_logit, _MAX_VERDICT_LOGIT)
        if self.needs_several_passages:
            return min(rule_logit, _MAX_UNJUDGED_LOGIT)
        logit = (
            min(self.reader_logit, rule_logit + _MAX_GAIN_OVER_RULES)
            + unknown_logit
            + MISSING_TYPE_LOGIT * self.best.lacks_answer_type
            + _CONTRARY_LOGIT * self.best.is_contrary
        )
        if self.needs_topic_excerpts:
            return _TOPIC_WEIGHT * (logit + min(rule_logit, _MAX_TOPIC_LOGIT)) + _TOPIC_CONSTANT
        return logit


def read_passages(
    reader: AnswerReader, passages: Sequence[Passage], scorer: SnippetScorer, *, may_be_chain: bool
) -> PassageReading | None:
    """Let the answer reader read the likeliest snippets (sentences, items, rows) of passages, and return its results.

    Returns None if no snippet can be chosen. ``scorer`` has the question, and scores snippets by rules. The reader gets
    only the sentence in the question that asks, as in training. ``may_be_chain`` is True if the question may need facts
    from several passages, so that no single snippet answers it.
    """
    question = find_asking_sentence(scorer.question)
    windows = select_windows(detect_answer_type(question), passages, scorer)
    if not windows:
        return None
    rule_scores = scorer.score_snippets(passages, [window.position for window in windows])
    windows = sorted(windows, key=lambda window: (-rule_scores.scores[window.position], window.position))[:_MAX_READ]
    readings = []
    contrasts = find_contrasts(question)
    topic = find_topic(question)
    subject_terms = set(list_terms(topic or question, scorer.stem))
    texts = [_split_field_names(window.text, question) for window in windows]
    for window, reading in zip(windows, reader.read(question, texts), strict=True):
        rule_score = rule_scores.scores[window.position]
        logit = reading.logit
        if _opens_document_about(passages, window.position, subject_terms, scorer):
            logit = max(logit, _OPENING_LOGIT)
        readings.append(
            SnippetReading(
                window.position,
                score=_LOGIT_WEIGHT * logit
                + _RULES_WEIGHT * rule_score
                + MISSING_TYPE_SCORE * window.lacks_answer_type,
                logit=logit,
                rule_score=rule_score,
                lacks_answer_type=window.lacks_answer_type,
                answer=window.text[reading.start : reading.end],
                coverage=scorer.compute_rarity_fraction(scorer.list_question_terms(window.text)),
                is_contrary=bool(contrasts) and is_contrary(contrasts, window.text),
            )
        )
    readings.sort(key=lambda reading: (-reading.score, reading.position))
    best = readings[0]
    verdict = _find_verdict(passages, best.position, scorer) if is_yes_no_question(question) else None
    best_window = next(window for window in windows if window.position == best.position)
    context_text = build_context_text(best_window, passages)
    logit_in_context = best.logit
    if context_text is not None:
        (context_reading,) = reader.read(question, [context_text])
        logit_in_context = (best.logit + context_reading.logit) / 2
    is_topic = topic is not None and not _opens_document_about(passages, best.position, subject_terms, scorer)
    return PassageReading(passages, readings, rule_scores, verdict, may_be_chain, logit_in_context, is_topic)


def _opens_document_about(
    passages: Sequence[Passage], position: SnippetPosition, subject_terms: set[str], scorer: SnippetScorer
) -> bool:
    """True if the snippet at ``position`` opens a document whose title has exactly the terms ``subject_terms``.

    Terms are stems of words; ``scorer`` has the stemming function.
    """
    passage = passages[position.passage_index]
    if position.snippet_index > 0 or passage.snippets[0].ordinal > 0 or passage.snippets[0].kind != "prose":
        return False
    title_terms = set(list_terms(passage.plain_title, scorer.stem))
    return bool(title_terms) and title_terms == subject_terms


def _split_field_names(text: str, question: str) -> str:
    """Return a text with its field names in words (``unit price: 5`` for ``unit_price: 5``), of the same length.

    The reader was trained on sentences. A name that the question has is unchanged.
    """
    return _FIELD_NAME_PATTERN.sub(lambda name: name[0] if name[0] in question else name[0].replace("_", " "), text)


def _find_verdict(passages: Sequence[Passage], position: SnippetPosition, scorer: SnippetScorer) -> Verdict | None:
    """Return yes or no if the snippet at ``position`` settles the question of ``scorer``, otherwise None.

    The title, heading and label of the snippet, and the sentence that it refers to, can name its subject.
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


def extract_reader_answer(
    evidence: Evidence, reading: PassageReading, scorer: SnippetScorer, max_words: int | None
) -> ExtractedAnswer:
    """Return the answer that the reader chose, with its context, its citations and the words that answer.

    ``max_words`` limits the words of the answer with its context; None: the usual limits. The first line about the
    question's entities follows, if the evidence has one.
    """
    # With a limit of words, only that limits the sentences of context.
    max_context = _MAX_CONTEXT if max_words is None else len(reading.readings)
    max_words = _MAX_WORDS if max_words is None else max_words
    best = reading.best
    passage_index, index = best.position
    snippets = reading.passages[passage_index].snippets
    index = _find_answering_item(snippets, index, best.answer, evidence.question)
    excerpt = Excerpt(passage_index, *_find_display_span(snippets, index, evidence.question), best.score, best.answer)
    excerpts = [excerpt]
    num_words = sum(snippet.num_words for snippet in excerpt.get_snippets(reading.passages))
    displayed_positions = set(excerpt.positions)
    for position in _list_context(reading, evidence.question):
        if len(excerpts) > max_context:  # the first excerpt is the answer
            break
        context_excerpt = _make_context_excerpt(reading.passages, position, best.score, displayed_positions)
        context_snippets = context_excerpt.get_snippets(reading.passages)
        num_added = sum(snippet.num_words for snippet in context_snippets)
        fits_limit = num_words + num_added <= max_words
        # A sentence outside every hit cannot be cited.
        is_within_hit = context_snippets[0].hit is not None
        if is_within_hit and position not in displayed_positions and fits_limit:
            displayed_positions |= set(context_excerpt.positions)
            num_words += num_added
            excerpts.append(context_excerpt)
    text, citations = render_excerpts(reading.passages, excerpts, scorer)
    # One of the lines about the question's entities is enough for a short answer.
    text = "\n\n".join([text, *(f"{line}." for line in evidence.context[:1])])
    return ExtractedAnswer(text, citations, _locate_answer_words(best, text), reading.verdict)


class PartReading(NamedTuple):
    """A part of a question ("Who pays, and when?" has two): its text, its reading, and the scorer for its snippets."""

    text: str
    reading: PassageReading
    scorer: SnippetScorer


def extract_part_answers(parts: Sequence[PartReading], answered: Sequence[bool]) -> ExtractedAnswer:
    """Return one answer with a paragraph for each part: the sentence that answers it, or a note that none does.

    ``answered[i]`` is True if the best sentence of part *i* answers it. A sentence that answers several parts is
    included once.
    """
    text = ""
    citations: list[Citation] = []
    answers: list[AnswerPart] = []
    # For each displayed sentence, the number of its citation and the offset of its paragraph in the answer.
    citation_places: dict[tuple[str, int], tuple[int, int]] = {}
    for part, is_answered in zip(parts, answered, strict=True):
        separator = "\n\n" if text else ""
        if not is_answered:
            text += f"{separator}The documents do not say: {part.text}"
            answers.append(AnswerPart(part.text, None, None, None))
            continue
        best = part.reading.best
        passage_index, index = best.position
        passage = part.reading.passages[passage_index]
        sentence = _get_snippet_id(passage, index)
        if sentence not in citation_places:
            first, last = _find_display_span(passage.snippets, index, part.text)
            if first == index and _refers_to_previous(passage.snippets, index):
                is_shown = _get_snippet_id(passage, index - 1) in citation_places
                first = index if is_shown else index - 1
            excerpt = Excerpt(passage_index, first, last, best.score, best.answer)
            paragraph, (citation,) = render_excerpts(part.reading.passages, [excerpt], part.scorer, len(citations) + 1)
            citation_places[sentence] = (citation.number, len(text) + len(separator))
            text += separator + paragraph
            citations.append(citation)
        citation_number, offset = citation_places[sentence]
        span = _locate_answer_words(best, text, offset)
        answers.append(AnswerPart(part.text, citation_number, span, part.reading.verdict))
    return ExtractedAnswer(text, citations, parts=tuple(answers))


def _make_context_excerpt(
    passages: Sequence[Passage],
    position: SnippetPosition,
    score: float,
    displayed_positions: set[SnippetPosition],
) -> Excerpt:
    """Return an excerpt that shows the sentence at ``position`` after the answer, with the list that it introduces.

    The list is omitted if one of its items is displayed already. ``score`` becomes the score of the excerpt.
    """
    passage_index, index = position
    snippets = passages[passage_index].snippets
    sentence = Excerpt(passage_index, index, index, score)
    if not snippets[index].is_lead_in:
        return sentence
    with_list = replace(sentence, last=find_required_end(snippets, index))
    return sentence if displayed_positions.intersection(with_list.positions[1:]) else with_list


def _list_context(reading: PassageReading, question: str) -> list[SnippetPosition]:
    """Return the positions of the sentences that can be displayed after the answer, in order of preference.

    The sentence that the answer refers to is first, if it refers to one, then the other likely sentences, likeliest
    first. Salutations and captions are left out. The sender and the date of a mail are left out unless the ``question``
    asks for such a thing.
    """
    passages = reading.passages
    passage_index, index = reading.best.position
    best_score = reading.best.score
    positions = []
    if _refers_to_previous(passages[passage_index].snippets, index):
        positions.append(SnippetPosition(passage_index, index - 1))
    for other in reading.readings[1:]:
        other_kind = get_snippet(passages, other.position).kind
        # A table row that has no word from the question is about something else.
        if best_score - other.score <= _MAX_CONTEXT_GAP and (other.coverage > 0 or other_kind != "table"):
            positions.append(other.position)
    answer_type = detect_answer_type(question)
    informative_positions = []
    for position in drop_repetitions(passages, [reading.best.position, *positions])[1:]:
        snippet = get_snippet(passages, position)
        is_prose_without_sentence = snippet.kind == "prose" and not snippet.is_selectable  # a salutation or a caption
        if not (is_prose_without_sentence or is_unasked_mail_field(snippet, answer_type)):
            informative_positions.append(position)
    return informative_positions


def _refers_to_previous(snippets: Sequence[Snippet], index: int) -> bool:
    """True if the snippet at ``index`` refers to the snippet before it, and both are in the same section.

    A pronoun in a definition means its term.
    """
    snippet = snippets[index]
    has_pronoun = (
        not snippet.term
        and snippet.num_words <= _MAX_PRONOUN_WORDS
        and _PRONOUN_PATTERN.search(snippet.text) is not None
    )
    refers_back = snippet.needs_previous or snippet.needs_subject or has_pronoun
    return refers_back and has_previous(snippets, index)


def _get_snippet_id(passage: Passage, index: int) -> tuple[str, int]:
    """Return the document key and the byte offset of the snippet at ``index``, which identify it in all passages."""
    return passage.document, passage.to_byte_offset(passage.snippets[index].start)


def _find_display_span(snippets: Sequence[Snippet], index: int, question: str) -> tuple[int, int]:
    """Return the indexes of the first and last snippet to display for the answering snippet at ``index``.

    A snippet is displayed with the list, table or code that it introduces or the definition that it begins. An item is
    displayed with the sentence that introduces it, and code with the snippets that it requires. If the question asks
    for a reason, a consequence is displayed with the sentence before it. If the question asks for steps, a list or the
    persons of a list, an item is displayed with the whole list, up to ``_MAX_WORDS`` words, unless the question names
    the term that the item defines.
    """
    snippet = snippets[index]
    required_first, last = find_required_start(snippets, index), find_required_end(snippets, index)
    first = index - 1 if snippet.kind == "item" and required_first < index and snippets[index - 1].is_lead_in else index
    if snippet.kind == "code":
        first = required_first
    if (
        index
        and snippets[index - 1].block_index == snippet.block_index
        and _CONSEQUENCE_PATTERN.match(snippet.text)
        and detect_answer_type(question).name == "reason"
    ):
        first = index - 1
    last = extend_over_definition(snippets, index, first, last)
    is_about_term = bool(snippet.term) and set(segment_words(snippet.term)) <= set(segment_words(question))
    asks_for_list = _LIST_QUESTION_PATTERN.search(question) or asks_for_listed_persons(
        question, snippet.heading, snippet.text
    )
    if snippet.kind != "item" or is_about_term or not asks_for_list:
        return first, last
    num_words = sum(other.num_words for other in snippets[first : last + 1])
    while first and snippets[first - 1].section == snippet.section:
        previous = snippets[first - 1]
        if not (previous.kind == "item" or previous.is_lead_in) or num_words + previous.num_words > _MAX_WORDS:
            break
        first -= 1
        num_words += previous.num_words
        if previous.is_lead_in:
            break
    for following in snippets[last + 1 :]:
        num_words += following.num_words
        if following.kind != "item" or following.section != snippet.section or num_words > _MAX_WORDS:
            break
        last += 1
    return first, last


def _find_answering_item(snippets: Sequence[Snippet], index: int, words: str, question: str) -> int:
    """Return the index of the item or row with the words that answer, if snippet ``index`` introduces it.

    Return ``index`` if it introduces nothing or has the words itself, if no item has all of them, if that item is not
    within a hit, or if the question asks for persons or a list: the whole list is the answer then.
    """
    asks_for_list = _LIST_QUESTION_PATTERN.search(question) or detect_answer_type(question).name == "person"
    if not (snippets[index].is_lead_in and words) or asks_for_list:
        return index
    last = find_required_end(snippets, index)
    matches = (item_index for item_index in range(index, last + 1) if words in snippets[item_index].labeled_text)
    item_index = next(matches, index)
    return item_index if snippets[item_index].hit is not None else index


def _locate_answer_words(best: SnippetReading, text: str, offset: int = 0) -> AnswerSpan | None:
    """Return where the answer of ``best`` is in the paragraph of ``text`` at ``offset``; None if it is not there."""
    words = neutralize_citations(best.answer).strip()
    start = text[offset:].partition("\n\n")[0].find(words) if words else -1
    return None if start < 0 else AnswerSpan(words, offset + start, offset + start + len(words))
