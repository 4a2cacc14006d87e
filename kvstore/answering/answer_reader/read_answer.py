"""The answer that the reader chose: one sentence first, with the words that answer, then a little context.

In: a :class:`~.reading.PassageReading`. Out: the text with its citations. The first paragraph is the sentence, item or
table row that answers; a sentence that introduces a list or code brings it along. Then follows the context: the
sentence before it, if it refers to that, and the next likeliest sentences; then the relations of the rarest entity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...retrieval.evidence import Evidence
from ..answer_span import AnswerSpan
from ..citations import Citation, neutralize_citations
from ..extractive import ExtractedAnswer, Relevance, render_runs
from ..question_kinds import classify_question
from ..runs import Run, SnippetPosition, extend_over_definition, find_required_span
from ..snippets import Snippet
from .reading import PassageReading, SnippetReading

#: The maximum number of sentences of context, and the words of an answer from which on no more are added.
_MAX_CONTEXT, _MAX_WORDS = 2, 80
#: The maximum distance of the score of a sentence of context from that of the answer.
_MAX_CONTEXT_GAP = 6.0
#: The start of a sentence whose reason is the sentence before it.
_CONSEQUENCE_PATTERN = re.compile(
    r"(?:for (?:this|that|these|those) reasons?|because of (?:this|that)|(?:this|that) is why|therefore|thus|hence"
    r"|as a result|consequently|so,? (?:we|you|they|it|the)\b)",
    re.IGNORECASE,
)
#: Pronouns that refer to the sentence before, if the sentence has at most this many words.
_PRONOUN_PATTERN = re.compile(r"\b(?:it|them|they|him|her)\b", re.IGNORECASE)
_MAX_PRONOUN_WORDS = 12
#: Questions whose answer is several items.
_LIST_QUESTION_PATTERN = re.compile(
    r"\b(?:how (?:do|can|could|should|to|does)|what (?:are|were|do|does|must|should|can)|which \w+s|list|steps)\b",
    re.IGNORECASE,
)


def extract_read_answer(
    evidence: Evidence, reading: PassageReading, relevance: Relevance, max_words: int | None
) -> ExtractedAnswer:
    """Return the answer with its citations and the words that answer.

    ``max_words`` replaces the usual limits of the context, if it is given.
    """
    max_context = _MAX_CONTEXT if max_words is None else len(reading.readings)
    max_words = _MAX_WORDS if max_words is None else max_words
    best = reading.best
    number, index = best.position
    snippets = reading.passages[number].snippets
    run = Run(number, *_find_shown_span(snippets, index, evidence.question), best.score)
    runs = [run]
    num_words = sum(snippet.words for snippet in snippets[run.first : run.last + 1])
    shown = {(number, i) for i in range(run.first, run.last + 1)}
    for position in _list_context(reading):
        if len(runs) > max_context:
            break
        snippet = reading.passages[position[0]].snippets[position[1]]
        if snippet.hit is not None and position not in shown and num_words + snippet.words <= max_words:
            shown.add(position)
            num_words += snippet.words
            runs.append(Run(*position, position[1], best.score))
    text, citations = render_runs(reading.passages, runs, relevance)
    text = "\n\n".join([text, *(f"{line}." for line in evidence.context[:1])])
    return ExtractedAnswer(text, citations, _find_words(best, text))


@dataclass(frozen=True, slots=True)
class PartReading:
    """A part of a question: its text, what the reader found (None if nothing answers it), and its relevance."""

    text: str
    reading: PassageReading | None
    relevance: Relevance


def extract_part_answers(parts: Sequence[PartReading]) -> ExtractedAnswer:
    """Return a paragraph for each part of a question: the sentence that answers it, or that none does."""
    paragraphs: list[str] = []
    citations: list[Citation] = []
    for part in parts:
        if part.reading is None:
            paragraphs.append(f"The documents do not say: {part.text}")
            continue
        number, index = part.reading.best.position
        snippets = part.reading.passages[number].snippets
        run = Run(number, *_find_shown_span(snippets, index, part.text), part.reading.best.score)
        text, part_citations = render_runs(part.reading.passages, [run], part.relevance, len(citations) + 1)
        is_shown = any(
            (each.document, each.start) == (part_citations[0].document, part_citations[0].start) for each in citations
        )
        if not is_shown:  # a sentence can answer several parts
            paragraphs.append(text)
            citations += part_citations
    return ExtractedAnswer("\n\n".join(paragraphs), citations)


def list_nearest(reading: PassageReading, max_sentences: int) -> list[Run]:
    """Return the likeliest sentences, best first."""
    return [Run(*each.position, each.position[1], each.score) for each in reading.readings[:max_sentences]]


def _list_context(reading: PassageReading) -> list[SnippetPosition]:
    """Return the positions of sentences of context: what the answer refers to, and other likely sentences."""
    number, index = reading.best.position
    snippets = reading.passages[number].snippets
    is_explained = (
        _refers_back(snippets[index]) and index > 0 and snippets[index - 1].section == snippets[index].section
    )
    likely = [other.position for other in reading.readings[1:] if reading.best.score - other.score <= _MAX_CONTEXT_GAP]
    return [(number, index - 1), *likely] if is_explained else likely


def _refers_back(snippet: Snippet) -> bool:
    """True if a sentence refers to the one before it."""
    has_pronoun = snippet.words <= _MAX_PRONOUN_WORDS and _PRONOUN_PATTERN.search(snippet.text) is not None
    return snippet.needs_previous or snippet.needs_subject or has_pronoun


def _find_shown_span(snippets: Sequence[Snippet], index: int, question: str) -> tuple[int, int]:
    """Return the first and last snippet of the first paragraph.

    It is the snippet itself with the block that it introduces or the definition that it opens; an item also brings the
    sentence that introduces it, and a consequence the reason that a question asks for. If a question asks for steps or
    a list and the snippet is an item, it is the list with the sentence that introduces it, if it is short enough.
    """
    snippet = snippets[index]
    required_first, last = find_required_span(snippets, index)
    first = index - 1 if snippet.kind == "item" and required_first < index and snippets[index - 1].is_lead_in else index
    if snippet.kind == "code":
        first = required_first
    if (
        index
        and snippets[index - 1].block == snippet.block
        and _CONSEQUENCE_PATTERN.match(snippet.text)
        and classify_question(question).name == "reason"
    ):
        first = index - 1
    last = extend_over_definition(snippets, index, first, last)
    if snippet.kind != "item" or not _LIST_QUESTION_PATTERN.search(question):
        return first, last
    num_words = sum(shown.words for shown in snippets[first : last + 1])
    while first and snippets[first - 1].section == snippet.section:
        previous = snippets[first - 1]
        if not (previous.kind == "item" or previous.is_lead_in) or num_words + previous.words > _MAX_WORDS:
            break
        first -= 1
        num_words += previous.words
        if previous.is_lead_in:
            break
    for following in snippets[last + 1 :]:
        num_words += following.words
        if following.kind != "item" or following.section != snippet.section or num_words > _MAX_WORDS:
            break
        last += 1
    return first, last


def _find_words(best: SnippetReading, text: str) -> AnswerSpan | None:
    """Return the span of the answering words in the first paragraph, or None if they are not in it as read."""
    words = neutralize_citations(best.words).strip()
    start = text.partition("\n\n")[0].find(words) if words else -1
    return None if start < 0 else AnswerSpan(words, start, start + len(words))
