"""The answer that is quoted with the help of the answer reader, a small network. A *passage* is text of a document,
divided into *snippets*: sentences, list items, table rows. An *excerpt* is adjacent snippets. A *lead-in* is a snippet
that introduces a list, table or code ("Opening hours:").

In: the snippets that the answer reader read, best first, and the confidence. Out: the text of the answer with its
citations. The first paragraph is the snippet that answers; a lead-in is shown with what it introduces. Then follows the
context: the sentence before it, if the answer refers to it, and the next likeliest sentences; then the relations of the
rarest entity.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...retrieval.evidence import Evidence
from ...text.blocks import is_lead_in
from ...text.everyday_words import VERB, get_part_of_speech
from ...text.patterns import compile_lazily
from ...text.words import FUNCTION_WORDS, segment_words
from ..answer_span import AnswerPart, AnswerSpan
from ..answer_types import detect_answer_type
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
from ..extractive import ExtractedAnswer, render_excerpts
from ..passages import Passage
from ..snippet_context import may_be_heading
from ..snippet_scoring import SnippetScorer
from ..snippets import Snippet
from .reading import AnswerCandidate, ReaderResult

#: The maximum number of sentences of context, and of words of an answer with its context.
_MAX_CONTEXT, _MAX_WORDS = 2, 80
#: The maximum distance of the score of a sentence of context from the answer's score, and the doubt (one minus the
#: confidence) from which such a distance is allowed: a sure answer needs little context. If it is always allowed, 155
#: answers to questions of SQuAD 2.0 and HotpotQA have 60 instead of 52 words, and 120 instead of 117 are right.
_MAX_CONTEXT_GAP, _MIN_DOUBT = 6.0, 2 / 3
#: The start of a sentence whose reason is the sentence before it.
_CONSEQUENCE_PATTERN = compile_lazily(
    r"(?:for (?:this|that|these|those) reasons?|because of (?:this|that)|(?:this|that) is why|therefore|thus|hence"
    r"|as a result|consequently|so,? (?:we|you|they|it|the)\b)",
    re.IGNORECASE,
)
#: Pronouns that refer to the sentence before, and the maximum number of words of a sentence with such a pronoun.
_PRONOUN_PATTERN = compile_lazily(r"\b(?:it|them|they|him|her)\b", re.IGNORECASE)
_MAX_PRONOUN_WORDS = 12
#: Questions for a procedure, the start of a step other than a verb, and the maximum number of words of a procedure.
_PROCEDURE_QUESTION_PATTERN = compile_lazily(
    r"\bhow (?:(?:can|could|do|must|should|would) (?:i|one|we|you)|to)\b", re.IGNORECASE
)
_STEP_PATTERN = compile_lazily(r"(?:after|afterwards|finally|first|next|now|once|then|you)\b", re.IGNORECASE)
_MAX_PROCEDURE_WORDS = 70
#: Questions whose answer is several items.
_LIST_QUESTION_PATTERN = compile_lazily(
    r"\b(?:how (?:do|can|could|should|to|does)|what (?:are|were|do|does|must|should|can)|which \w+s|list|steps)\b",
    re.IGNORECASE,
)


def extract_reader_answer(
    evidence: Evidence, reader_result: ReaderResult, scorer: SnippetScorer, max_words: int | None, confidence: float
) -> ExtractedAnswer:
    """Return the answer that the answer reader chose, followed by sentences of context, with citations.

    ``max_words`` limits the words of the answer with its context (None: ``_MAX_WORDS`` words, and ``_MAX_CONTEXT``
    sentences of context). Context scores at most ``_MAX_CONTEXT_GAP`` less than the answer. Without ``max_words``, the
    maximum gap is smaller the higher the ``confidence`` (0 to 1) is. The first line of ``evidence.context``, which
    describes relations of an entity, comes last.
    """
    max_context, max_gap = _MAX_CONTEXT, _MAX_CONTEXT_GAP * min(1.0, (1 - confidence) / _MIN_DOUBT)
    if max_words is not None:  # the caller's limit replaces the stricter ones
        max_context, max_gap = len(reader_result.candidates), _MAX_CONTEXT_GAP
    max_words = _MAX_WORDS if max_words is None else max_words
    best = reader_result.best
    passage_index, index = best.position
    snippets = reader_result.passages[passage_index].snippets
    index = _find_answering_item(snippets, index, best.answer, evidence.question)
    excerpt = Excerpt(
        passage_index, *_find_display_range(snippets, index, evidence.question, best.answer), best.score, best.answer
    )
    positions = _list_context(reader_result, max_gap)
    excerpts = [excerpt, *_select_context(reader_result.passages, excerpt, positions, max_context, max_words)]
    text, citations = render_excerpts(reader_result.passages, excerpts, scorer)
    # One of the lines about the question's entities is enough for a short answer.
    text = "\n\n".join([text, *(f"{line}." for line in evidence.context[:1])])
    return ExtractedAnswer(text, citations, _locate_answer_words(best, text), reader_result.verdict)


def _select_context(
    passages: Sequence[Passage], answer: Excerpt, positions: Sequence[SnippetPosition], max_context: int, max_words: int
) -> list[Excerpt]:
    """Return at most ``max_context`` excerpts from the sentences at ``positions``, to display after ``answer``.

    The answer and the excerpts have at most ``max_words`` words together; a longer excerpt is skipped.
    """
    excerpts: list[Excerpt] = []
    num_words = sum(snippet.num_words for snippet in answer.get_snippets(passages))
    displayed_positions = set(answer.positions)
    for position in positions:
        if len(excerpts) == max_context:
            break
        excerpt = _make_context_excerpt(passages, position, answer.score, displayed_positions)
        if excerpt is None:
            continue
        snippets = excerpt.get_snippets(passages)
        num_added = sum(snippet.num_words for snippet in snippets)
        # A sentence outside every hit cannot be cited.
        is_within_hit = snippets[0].hit is not None
        if is_within_hit and position not in displayed_positions and num_words + num_added <= max_words:
            displayed_positions |= set(excerpt.positions)
            num_words += num_added
            excerpts.append(excerpt)
    return excerpts


class _SnippetId(NamedTuple):
    """The identity of a snippet in all passages: its document key, and the byte offset at which it starts."""

    document: str
    start: int


class _CitedParagraph(NamedTuple):
    """A paragraph of an answer: the number of its citation, and its character offset in the answer."""

    citation_number: int
    offset: int


class PartResult(NamedTuple):
    """A part of a question ("Who pays, and when?" has two) with its reader result, and the scorer for its snippets."""

    text: str
    reader_result: ReaderResult
    scorer: SnippetScorer

    @property
    def best_snippet_id(self) -> _SnippetId:
        """The id of the snippet that most likely answers the part."""
        position = self.reader_result.best.position
        return _get_snippet_id(self.reader_result.passages[position.passage_index], position.snippet_index)


def extract_part_answers(parts: Sequence[PartResult], are_answered: Sequence[bool]) -> ExtractedAnswer:
    """Return one answer with a paragraph for each part: the sentence that answers it, or a note that no sentence does.

    ``are_answered[i]`` is True if the best sentence of part *i* answers it. A part whose sentence is already displayed
    for an earlier part gets no paragraph of its own.
    """
    text = ""
    citations: list[Citation] = []
    answers: list[AnswerPart] = []
    paragraphs: dict[_SnippetId, _CitedParagraph] = {}  # by the ids of the snippets in them
    for part, is_answered in zip(parts, are_answered, strict=True):
        separator = "\n\n" if text else ""
        if not is_answered:
            text += f"{separator}The documents do not say: {part.text}"
            answers.append(AnswerPart(part.text, citation=None, span=None, verdict=None))
            continue
        snippet_id = part.best_snippet_id
        if snippet_id not in paragraphs:
            excerpt = _make_part_excerpt(part, paragraphs)
            paragraph, (citation,) = render_excerpts(
                part.reader_result.passages, [excerpt], part.scorer, len(citations) + 1
            )
            passage = part.reader_result.passages[excerpt.passage_index]
            snippet_ids = [_get_snippet_id(passage, index) for _, index in excerpt.positions]
            paragraphs |= dict.fromkeys(snippet_ids, _CitedParagraph(citation.number, len(text) + len(separator)))
            text += separator + paragraph
            citations.append(citation)
        number, offset = paragraphs[snippet_id]
        span = _locate_answer_words(part.reader_result.best, text, offset)
        answers.append(AnswerPart(part.text, number, span, part.reader_result.verdict))
    return ExtractedAnswer(text, citations, parts=tuple(answers))


def _make_part_excerpt(part: PartResult, displayed_ids: Container[_SnippetId]) -> Excerpt:
    """Return the excerpt that answers a part of a question.

    If it refers to the sentence before it, this is included, unless ``displayed_ids`` has it, because the answer to
    another part displays it.
    """
    best = part.reader_result.best
    passage_index, index = best.position
    passage = part.reader_result.passages[passage_index]
    first, last = _find_display_range(passage.snippets, index, part.text, best.answer)
    needs_previous = first == index and _refers_to_previous(passage.snippets, index)
    if needs_previous and _get_snippet_id(passage, index - 1) not in displayed_ids:
        first = index - 1
    return Excerpt(passage_index, first, last, best.score, best.answer)


def _make_context_excerpt(
    passages: Sequence[Passage], position: SnippetPosition, score: float, displayed_positions: set[SnippetPosition]
) -> Excerpt | None:
    """Return an excerpt with the sentence at ``position``, to display after the answer, and the list it introduces.

    The list is omitted if one of its items is already displayed. Returns None for a sentence that ends with a colon and
    whose list is omitted, because it says nothing alone. ``score`` becomes the score of the excerpt.
    """
    passage_index, index = position
    snippets = passages[passage_index].snippets
    sentence = Excerpt(passage_index, index, index, score)
    if not snippets[index].is_lead_in:
        return sentence
    with_list = replace(sentence, last=find_required_end(snippets, index))
    if not displayed_positions.intersection(with_list.positions[1:]):
        return with_list
    return None if is_lead_in(snippets[index].text) else sentence


def _list_context(reader_result: ReaderResult, max_gap: float) -> list[SnippetPosition]:
    """Return the positions of the sentences that can be displayed after the answer as context, best first.

    The sentence before the answer is first if the answer refers to it. The others score at most ``max_gap`` less than
    the answer. Salutations, captions, repetitions and table rows without a word from the question are omitted.
    """
    passages = reader_result.passages
    best_position, best_score = reader_result.best.position, reader_result.best.score
    positions = []
    if _refers_to_previous(passages[best_position.passage_index].snippets, best_position.snippet_index):
        positions.append(best_position._replace(snippet_index=best_position.snippet_index - 1))
    for other in reader_result.candidates[1:]:
        is_row = get_snippet(passages, other.position).kind == "table"
        # A table row that has no word from the question is about something else.
        if best_score - other.score <= max_gap and (other.coverage > 0 or not is_row):
            positions.append(other.position)
    return [
        position
        for position in drop_repetitions(passages, [best_position, *positions])[1:]  # without repetitions of the answer
        if (snippet := get_snippet(passages, position)).kind != "prose"
        or (snippet.is_selectable and not may_be_heading(snippet))
    ]


def _refers_to_previous(snippets: Sequence[Snippet], index: int) -> bool:
    """True if the snippet at ``index`` refers to the snippet before it, and both are in the same section.

    A pronoun refers to it only in a short sentence, and not in a definition, where it means the defined term.
    """
    snippet = snippets[index]
    has_pronoun = (
        not snippet.term
        and snippet.num_words <= _MAX_PRONOUN_WORDS
        and _PRONOUN_PATTERN.search(snippet.text) is not None
    )
    return (snippet.refers_back or has_pronoun) and has_previous(snippets, index)


def _get_snippet_id(passage: Passage, index: int) -> _SnippetId:
    """Return the id of the snippet at ``index``, which is the same in all passages that have the snippet."""
    return _SnippetId(passage.document, passage.to_byte_offset(passage.snippets[index].start))


def _find_display_range(snippets: Sequence[Snippet], index: int, question: str, answer: str) -> tuple[int, int]:
    """Return the indexes of the first and last snippet to display for the answering snippet at ``index``.

    ``answer`` has the words that answer. The range includes the rest of a definition that the snippet begins, and the
    block that it introduces, unless it answers without this. It also includes the lead-in of an item, the explanation
    of code, the sentence before "Therefore" if the question asks for a reason, and the sentence that the snippet refers
    to if that has the words. Instructions are displayed whole, and so is the list of an item if the question asks for
    several items.
    """
    snippet = snippets[index]
    required_first, last = find_required_start(snippets, index), find_required_end(snippets, index)
    if _answers_without_block(snippets, index, question, answer):
        last = index
    first = index
    if snippet.kind == "code":
        first = required_first
    elif snippet.kind == "item" and required_first < index and snippets[index - 1].is_lead_in:
        first = index - 1
    if snippet.kind == "prose" and _PROCEDURE_QUESTION_PATTERN.search(question):
        procedure = _find_procedure(snippets, index)
        if procedure is not None:
            return procedure
    continues_block = index > 0 and snippets[index - 1].block_index == snippet.block_index
    is_consequence = continues_block and _CONSEQUENCE_PATTERN.match(snippet.text) is not None
    is_reason = is_consequence and detect_answer_type(question).name == "reason"
    is_in_previous = answer not in snippet.labeled_text and index > 0 and answer in snippets[index - 1].text
    if is_reason or (is_in_previous and _refers_to_previous(snippets, index)):
        first = index - 1
    last = extend_over_definition(snippets, index, first, last)
    if snippet.kind == "item" and _asks_for_list(question, snippet):
        return _extend_over_list(snippets, first, last)
    return first, last


def _answers_without_block(snippets: Sequence[Snippet], index: int, question: str, answer: str) -> bool:
    """True if the sentence ``snippets[index]`` contains ``answer``, and needs no list or table after its paragraph.

    A sentence that ends with a colon needs the block that it introduces. A sentence before code needs the code, and a
    question that asks for a list needs the list.
    """
    snippet = snippets[index]
    if snippet.kind != "prose" or is_lead_in(snippet.text) or not (answer and answer in snippet.text):
        return False
    paragraph = (snippet.block_index, snippet.section)
    next_snippet = next((other for other in snippets[index:] if (other.block_index, other.section) != paragraph), None)
    return next_snippet is not None and next_snippet.kind != "code" and _LIST_QUESTION_PATTERN.search(question) is None


def _asks_for_list(question: str, item: Snippet) -> bool:
    """True if a question whose best answer is a list ``item`` asks for the whole list: steps, things or persons.

    False if the question mentions the term that the item defines, because it then asks for this item only.
    """
    is_about_term = bool(item.term) and set(segment_words(item.term)) <= set(segment_words(question))
    if is_about_term:
        return False
    asks_for_several = _LIST_QUESTION_PATTERN.search(question) is not None
    return asks_for_several or _is_unnamed_member(question, item.heading, item.text)


def _is_unnamed_member(question: str, heading: str, item: str) -> bool:
    """True if a list ``item`` is one of several persons whom a question asks for together, and not by name or office.

    The ``heading`` of the list has words from the question, but the item has none. The other items answer as well, so
    the whole list is the answer. An item with words from the question ("secretary") answers it alone.

    >>> items = ("Ann Lee, chair", "Bo Ray, secretary")
    >>> [_is_unnamed_member("Who sits on the board?", "Members of the board", item) for item in items]
    [True, True]
    >>> [_is_unnamed_member("Who is secretary of the board?", "Members of the board", item) for item in items]
    [True, False]
    """
    answer_type = detect_answer_type(question)
    if answer_type.name != "person" or not answer_type.is_present_in(item):
        return False
    question_words = set(segment_words(question)) - FUNCTION_WORDS
    return question_words.isdisjoint(segment_words(item)) and not question_words.isdisjoint(segment_words(heading))


def _extend_over_list(snippets: Sequence[Snippet], first: int, last: int) -> tuple[int, int]:
    """Return the range ``first`` to ``last``, which includes a list item, extended over the rest of the list.

    The lead-in is included. The result has at most ``_MAX_WORDS`` words, unless the given range has more. The range is
    not extended over a part of a list of definitions, because its other items explain something else.
    """
    item_range, is_definition, section = (first, last), bool(snippets[last].term), snippets[last].section
    num_words = sum(snippet.num_words for snippet in snippets[first : last + 1])
    while first and snippets[first - 1].section == section:
        previous = snippets[first - 1]
        if not (previous.kind == "item" or previous.is_lead_in):
            break
        if num_words + previous.num_words > _MAX_WORDS:
            if is_definition:
                return item_range
            break
        first -= 1
        num_words += previous.num_words
        if previous.is_lead_in:
            break
    for next_snippet in snippets[last + 1 :]:
        if next_snippet.kind != "item" or next_snippet.section != section:
            break
        num_words += next_snippet.num_words
        if num_words > _MAX_WORDS:
            return item_range if is_definition else (first, last)
        last += 1
    return first, last


def _find_procedure(snippets: Sequence[Snippet], index: int) -> tuple[int, int] | None:
    """Return the first and last snippet of the paragraph of snippet ``index`` if it describes a procedure, else None.

    At least two sentences, and at least half of all, must begin like an instruction. The paragraph must have at most
    ``_MAX_PROCEDURE_WORDS`` words, and every sentence must be in a hit.
    """
    paragraph = (snippets[index].block_index, snippets[index].section)
    indexes = [
        other_index for other_index, other in enumerate(snippets) if (other.block_index, other.section) == paragraph
    ]
    first, last = indexes[0], indexes[-1]
    sentences = snippets[first : last + 1]
    num_steps = sum(map(_is_step, sentences))
    is_short = sum(sentence.num_words for sentence in sentences) <= _MAX_PROCEDURE_WORDS
    has_hits = all(sentence.hit is not None for sentence in sentences)
    is_procedure = num_steps > 1 and 2 * num_steps >= len(sentences)
    return (first, last) if is_procedure and is_short and has_hits else None


def _is_step(sentence: Snippet) -> bool:
    """True if a sentence begins as an instruction does: with a verb, or with a word such as "then" or "you"."""
    first_word, *_ = segment_words(sentence.text) or [""]
    return get_part_of_speech(first_word) == VERB or _STEP_PATTERN.match(sentence.text) is not None


def _find_answering_item(snippets: Sequence[Snippet], index: int, words: str, question: str) -> int:
    """Return the index of the list item or table row that answers, if snippet ``index`` is the lead-in above it.

    The item that answers is the first with the answer's ``words``. If there is none, or if it cannot be cited, the
    result is ``index``. It is also ``index`` if the question asks for persons or a list, because the whole list answers
    such a question.
    """
    asks_for_list = _LIST_QUESTION_PATTERN.search(question) or detect_answer_type(question).name == "person"
    if asks_for_list:
        return index
    last_item = find_required_end(snippets, index)
    matches = (item_index for item_index in range(index, last_item + 1) if words in snippets[item_index].labeled_text)
    item_index = next(matches, index)
    can_be_cited = snippets[item_index].hit is not None
    return item_index if can_be_cited else index


def _locate_answer_words(best: AnswerCandidate, text: str, offset: int = 0) -> AnswerSpan | None:
    """Return the span in ``text`` of the words that answer, if they are in the paragraph at ``offset``, or else None.

    ``best`` is the snippet that answers, with these words.
    """
    words = neutralize_citations(best.answer).strip()
    start = text[offset:].partition("\n\n")[0].find(words) if words else -1
    return None if start < 0 else AnswerSpan(words, offset + start, offset + start + len(words))
