"""Excerpts: runs of adjacent *snippets* (sentences, list items, table rows, code) that an answer displays. A *passage*
is the text around retrieved chunks (*hits*), a list of snippets; a *position* is the indexes of both. A *lead-in*
introduces a list, table or code. A *label* is a title or heading.

In: passages and a score for each snippet that can be chosen. Out: a few excerpts, with about as many words as people
read of an answer. The best snippet is always selected. Others are selected if they score nearly as well, with a bonus
next to a selected one. Each snippet brings the sentence before it if it begins with a connective, and the block that it
introduces. The text of an excerpt is one paragraph, in which items, rows and code have lines of their own, after the
labels that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..text.blocks import skip_marker, strip_numbering
from ..text.patterns import compile_lazily
from ..text.words import count_written_words, list_terms
from .inline_rendering import ITEM_LABEL_PATTERN
from .passages import Passage
from .snippets import Snippet, truncate_snippet

#: The maximum number of words of an answer, unless its best snippet alone has more; most answers have at most 90. With
#: 80 instead, answers have a fifth fewer words, but 82 instead of 89 % of those on XQuAD hold the fact.
MAX_WORDS = 118
#: The maximum number of excerpts of an answer.
MAX_EXCERPTS = 3
#: The maximum distance of a snippet's score from the best one; twice that in an answer with fewer words than this.
_MAX_SCORE_GAP, _SHORT_ANSWER_WORDS = 2.4, 30
#: The bonus of a snippet next to a selected one.
_ADJACENCY_BONUS = 1.5
#: The maximum number of sentences displayed with a snippet from before it.
_MAX_SENTENCES_BEFORE = 2
#: The maximum number of words of a block displayed with its lead-in, or of a definition with its first sentence.
_MAX_BLOCK_WORDS = 60
#: The maximum number of words of a lead-in without content of its own ("For example:").
_MAX_LEAD_IN_WORDS = 4
#: The maximum number of words displayed of a title or heading before an excerpt.
_MAX_LABEL_WORDS = 12
#: The beginning of a sentence about the thing that its heading names: "This hook is run by git-commit."
_REFERENCE_PATTERN = compile_lazily(r"(?i:this|these)\b")
#: The end of a sentence that the next one follows without a blank.
_UNSPACED_END_PATTERN = compile_lazily("[。！？｡][」』”’）)】》〉]*\\Z")

#: A function that returns the stem of a word.
Stem = Callable[[str], str]


class SnippetPosition(NamedTuple):
    """The index of a passage among the passages of a question, and the index of a snippet in the passage."""

    passage_index: int
    snippet_index: int


def get_snippet(passages: Sequence[Passage], position: SnippetPosition) -> Snippet:
    """Return the snippet at a position in the passages."""
    return passages[position.passage_index].snippets[position.snippet_index]


@frozen_dataclass
class Excerpt:
    """Adjacent snippets ``first`` to ``last`` (both included) of a passage, and the highest of their scores.

    ``answer`` has the words that answer, if they are known. A title or heading with them is displayed.
    """

    passage_index: int
    first: int
    last: int
    score: float
    answer: str = ""

    @property
    def positions(self) -> list[SnippetPosition]:
        """The positions of its snippets in the passages, in order."""
        return [SnippetPosition(self.passage_index, index) for index in range(self.first, self.last + 1)]

    def get_snippets(self, passages: Sequence[Passage]) -> list[Snippet]:
        """Return the snippets of the excerpt, which belong to ``passages[self.passage_index]``."""
        return passages[self.passage_index].snippets[self.first : self.last + 1]


def select_excerpts(
    passages: Sequence[Passage], scores: Mapping[SnippetPosition, float], max_words: int = MAX_WORDS
) -> list[Excerpt]:
    """Return at most ``MAX_EXCERPTS`` excerpts of at most ``max_words`` words together, best first.

    ``scores`` has the snippets to choose from. They are chosen greedily by score, each with the neighbors that it needs
    to be understood, until the next score is too low. A snippet that repeats a selected one is skipped. The best
    snippet is included even if it has too many words.
    """
    if not scores:
        return []
    best_score = max(scores.values())
    selected_scores: dict[SnippetPosition, float] = {}
    used_statements: set[tuple[str, ...]] = set()
    num_words = 0
    candidates = dict(scores)
    while candidates:
        position, score = _find_best_candidate(passages, candidates, selected_scores)
        del candidates[position]
        # A short answer may be completed with less likely snippets.
        max_gap = _MAX_SCORE_GAP if num_words >= _SHORT_ANSWER_WORDS else 2 * _MAX_SCORE_GAP
        if score < best_score - max_gap:
            break
        if _build_statement_key(passages, position) in used_statements:
            continue
        required_positions = _list_required_positions(passages, position, include_definition=not selected_scores)
        added_positions = [
            required_position for required_position in required_positions if required_position not in selected_scores
        ]
        size = sum(get_snippet(passages, added_position).num_words for added_position in added_positions)
        is_best, is_too_long = not selected_scores, num_words + size > max_words
        if not is_best and (
            is_too_long or len(_merge_positions(passages, [*selected_scores, *added_positions])) > MAX_EXCERPTS
        ):
            continue
        for added_position in added_positions:
            selected_scores[added_position] = max(score, scores.get(added_position, score))
            candidates.pop(added_position, None)
            used_statements.add(_build_statement_key(passages, added_position))
        num_words += size
    excerpts = [
        replace(excerpt, score=max(selected_scores[position] for position in excerpt.positions))
        for excerpt in _merge_positions(passages, list(selected_scores))
    ]
    return sorted(excerpts, key=lambda excerpt: (-excerpt.score, excerpt.passage_index, excerpt.first))


def _find_best_candidate(
    passages: Sequence[Passage],
    candidates: Mapping[SnippetPosition, float],
    selected_scores: Mapping[SnippetPosition, float],
) -> tuple[SnippetPosition, float]:
    """Return the position with the highest score, and this score. A snippet next to a selected one gets a bonus.

    ``candidates`` has the scores without the bonus, and ``selected_scores`` those of the snippets selected so far. If
    scores are equal, the first position is returned.
    """
    adjusted_scores = {
        position: score + _ADJACENCY_BONUS * _continues_selected(passages, position, selected_scores)
        for position, score in candidates.items()
    }
    best_position = min(candidates, key=lambda position: (-adjusted_scores[position], position))
    return best_position, adjusted_scores[best_position]


def _list_required_positions(
    passages: Sequence[Passage], position: SnippetPosition, *, include_definition: bool
) -> list[SnippetPosition]:
    """Return the positions of a snippet and of the neighbors that it needs to be understood, in order.

    With ``include_definition``, the rest of the definition that the snippet begins is included too.
    """
    passage_index, index = position
    snippets = passages[passage_index].snippets
    first, last = find_required_start(snippets, index), find_required_end(snippets, index)
    if include_definition:
        last = extend_over_definition(snippets, index, first, last)
    return Excerpt(passage_index, first, last, score=0.0).positions


def _build_statement_key(passages: Sequence[Passage], position: SnippetPosition) -> tuple[str, ...]:
    """Return a key that is equal for snippets with the same statement, such as copies in several documents.

    The key is the text and, if the text cannot be understood alone, the title and headings above it.
    """
    passage, snippet = passages[position.passage_index], get_snippet(passages, position)
    if snippet.kind == "prose" and not snippet.refers_back:
        return (snippet.labeled_text,)
    return snippet.labeled_text, passage.title or "", passage.heading


def drop_repetitions(passages: Sequence[Passage], positions: Iterable[SnippetPosition]) -> list[SnippetPosition]:
    """Return ``positions`` without the positions of snippets that only repeat the statement of an earlier one."""
    first_positions: dict[tuple[str, ...], SnippetPosition] = {}
    for position in positions:
        first_positions.setdefault(_build_statement_key(passages, position), position)
    return list(first_positions.values())


def list_best_excerpts(
    passages: Sequence[Passage], scores: Mapping[SnippetPosition, float], max_excerpts: int
) -> list[Excerpt]:
    """Return the ``max_excerpts`` snippets with the best ``scores``, each as a separate excerpt, best first.

    A snippet that repeats a better one is omitted.
    """
    ranking = sorted(scores, key=lambda position: (-scores[position], position))
    positions = drop_repetitions(passages, ranking)[:max_excerpts]
    return [
        Excerpt(position.passage_index, position.snippet_index, position.snippet_index, scores[position])
        for position in positions
    ]


def put_best_first(
    passages: Sequence[Passage], excerpts: Sequence[Excerpt], scores: Mapping[SnippetPosition, float]
) -> list[Excerpt]:
    """Return the ``excerpts`` in another order, so that the answer begins with the snippet with the best score.

    The excerpt of that snippet comes first, without the snippets before it that it does not need. These become the last
    excerpt. If the best snippet is a table row, the snippets after it become the second excerpt, and at most
    ``MAX_EXCERPTS`` are returned. A new excerpt that cannot be cited is omitted.
    """
    if not excerpts:
        return []
    excerpts_by_position = {position: excerpt for excerpt in excerpts for position in excerpt.positions}
    scored_positions = scores.keys() & excerpts_by_position.keys()
    best_position = min(scored_positions, key=lambda position: (-scores[position], position))
    best_excerpt, (passage_index, index) = excerpts_by_position[best_position], best_position
    snippets = passages[passage_index].snippets
    is_table_row = bool(snippets[index].cell_text)
    first = find_required_start(snippets, index)
    if snippets[first].needs_subject:  # the sentence before mentions its subject
        first = max(first - 1, best_excerpt.first)
    last = index if is_table_row else best_excerpt.last
    # The snippets of the excerpt before and after these; both can be empty.
    earlier, later = replace(best_excerpt, last=first - 1), replace(best_excerpt, first=last + 1)
    ordered_excerpts = [
        replace(best_excerpt, first=first, last=last),
        *([later] if _can_be_cited(passages, later) else []),
        *(excerpt for excerpt in excerpts if excerpt is not best_excerpt),
        *([earlier] if _can_be_cited(passages, earlier) else []),
    ]
    return ordered_excerpts[:MAX_EXCERPTS] if is_table_row else ordered_excerpts


def _can_be_cited(passages: Sequence[Passage], excerpt: Excerpt) -> bool:
    """True if any snippet of an excerpt begins in a hit. False for an excerpt without snippets."""
    return any(snippet.hit is not None for snippet in excerpt.get_snippets(passages))


def has_previous(snippets: Sequence[Snippet], index: int) -> bool:
    """True if a snippet precedes snippet ``index`` in its section, other than a release heading ("v2 - 3 May")."""
    if index == 0:
        return False
    previous = snippets[index - 1]
    return previous.section == snippets[index].section and previous.release is None


def _continues_selected(
    passages: Sequence[Passage], position: SnippetPosition, selected_positions: Container[SnippetPosition]
) -> bool:
    """True if a snippet is next to a selected one with the same subject."""
    (passage_index, index), snippet = position, get_snippet(passages, position)
    neighbors = (SnippetPosition(passage_index, index + step) for step in (-1, 1))
    return any(
        neighbor in selected_positions and _have_same_subject(snippet, get_snippet(passages, neighbor))
        for neighbor in neighbors
    )


def _have_same_subject(left: Snippet, right: Snippet) -> bool:
    """True if two adjacent snippets are in one section and have the same term, which can be empty.

    False for two rows of a table with named columns, because each row has its own subject. Also False for a list item
    next to a table row.
    """
    are_named_rows = bool(left.cell_text and right.cell_text)
    have_same_term = left.section == right.section and left.term == right.term
    return have_same_term and not (_are_list_and_table(left, right) or are_named_rows)


def _are_list_and_table(left: Snippet, right: Snippet) -> bool:
    """True if one of two snippets is an item of a list, and the other a row of a table."""
    return {left.kind, right.kind} == {"item", "table"}


def find_required_start(snippets: Sequence[Snippet], index: int) -> int:
    """Return the index of the first snippet that must be displayed before snippet ``index``; ``index`` if none must.

    A snippet that refers back needs the snippet before it. That one can need another in turn, within the same section
    and up to ``_MAX_SENTENCES_BEFORE`` snippets.
    """
    first = index
    while first > 0 and snippets[first - 1].section == snippets[index].section:
        if index - first >= _MAX_SENTENCES_BEFORE or not snippets[first].needs_previous:
            break
        first -= 1
    return first


def find_required_end(snippets: Sequence[Snippet], index: int) -> int:
    """Return the index of the last snippet that must follow snippet ``index`` to complete it; ``index`` if none must.

    A question needs its reply, and a lead-in needs the list, table or code that it introduces. A snippet before a bare
    lead-in, such as "For example:", needs the lead-in and the block after it.
    """
    last = index + 1 if _needs_next(snippets, index) else index
    return _find_introduced_end(snippets, last) if snippets[last].is_lead_in else last


def _needs_next(snippets: Sequence[Snippet], index: int) -> bool:
    """True if the snippet after snippet ``index`` must be displayed with it: a reply to a question, or a bare lead-in.

    A bare lead-in has few words, such as "For example:". Another lead-in in the same block does not need it.
    """
    if index + 1 == len(snippets):
        return False
    snippet, next_snippet = snippets[index], snippets[index + 1]
    is_bare_lead_in = (
        next_snippet.is_lead_in
        and next_snippet.num_words <= _MAX_LEAD_IN_WORDS
        and next_snippet.block_index == snippet.block_index
    )
    is_reply = snippet.is_question and next_snippet.section == snippet.section
    return is_reply or (is_bare_lead_in and not snippet.is_lead_in)


def _find_introduced_end(snippets: Sequence[Snippet], lead_in: int) -> int:
    """Return the index of the last snippet to display of the list, table or code that snippet ``lead_in`` introduces.

    It is ``lead_in`` if no such block follows in its section. The first snippet of the block is displayed even if it is
    longer than ``_MAX_BLOCK_WORDS``.
    """
    last, remaining_words = lead_in, _MAX_BLOCK_WORDS
    for next_snippet in snippets[lead_in + 1 :]:
        previous = snippets[last]
        remaining_words -= next_snippet.num_words
        if next_snippet.kind not in ("code", "item", "table") or next_snippet.section != snippets[lead_in].section:
            break
        # Code after an item or a row is another block.
        is_other_block = next_snippet.kind == "code" and previous.kind != "code"
        if (is_other_block or remaining_words < 0) and not previous.is_lead_in:
            break
        last += 1
        if next_snippet.kind == "code":
            break
    return last


def extend_over_definition(snippets: Sequence[Snippet], index: int, first: int, last: int) -> int:
    """Return the index of the last snippet to display with snippet ``index``, which may be the start of a definition.

    It is the last snippet of the definition that fits into ``_MAX_BLOCK_WORDS`` words, or ``last`` if nothing more fits
    or there is no definition. Snippets ``first`` to ``last`` are displayed in any case, and count too.
    """
    definition_start = snippets[index]
    if not definition_start.label or (index and _have_same_subject(definition_start, snippets[index - 1])):
        return last
    remaining_words = _MAX_BLOCK_WORDS - sum(snippet.num_words for snippet in snippets[first : last + 1])
    for snippet in snippets[last + 1 :]:
        remaining_words -= snippet.num_words
        if remaining_words < 0 or not _have_same_subject(definition_start, snippet):
            break
        last += 1
    return last


def _merge_positions(passages: Sequence[Passage], positions: Sequence[SnippetPosition]) -> list[Excerpt]:
    """Merge the positions of adjacent snippets of one section into excerpts, and return these in order of position.

    The items of a list and the rows of a table below it become separate excerpts. The score of each excerpt is 0, to be
    replaced by the caller.
    """
    excerpts: list[Excerpt] = []
    for passage_index, index in sorted(positions):
        if excerpts and (excerpts[-1].passage_index, excerpts[-1].last) == (passage_index, index - 1):
            previous, snippet = passages[passage_index].snippets[index - 1 : index + 1]
            if previous.section == snippet.section and not _are_list_and_table(previous, snippet):
                excerpts[-1] = replace(excerpts[-1], last=index)
                continue
        excerpts.append(Excerpt(passage_index, index, index, score=0.0))
    return excerpts


def render_excerpt(passage: Passage, excerpt: Excerpt, question_terms: Collection[str], stem: Stem) -> str:
    """Return the displayed text of an excerpt: sentences in a paragraph; items, rows and code on lines of their own.

    The title and headings that it needs to be understood precede it. ``question_terms`` are the stems of the words in
    the question, and ``stem`` returns the stem of a word.
    """
    snippets = passage.snippets[excerpt.first : excerpt.last + 1]
    first = snippets[0]
    has_several_items = any(_opens_item_or_row(passage, snippet) for snippet in snippets[1:])
    is_list = first.kind == snippets[-1].kind == "item" and has_several_items
    text = f"\n{_get_list_marker(passage, first)} " if is_list else ""
    text += _render_snippet(first, is_among_sentences=False, is_labeled=True)
    for previous, snippet in pairwise(snippets):
        # A lead-in and its only item are one line.
        is_only_item = first.is_lead_in and len(snippets) == 2 and _begins_item(passage, previous, snippet)
        text += " " if is_only_item else _choose_separator(passage, previous, snippet, text)
        text += _render_snippet(
            snippet, is_among_sentences=first.kind != "code", is_labeled=previous.term != snippet.term
        )
    labels = _format_labels(passage, snippets, excerpt.answer, question_terms, stem)
    if not labels:
        return text.lstrip("\n")
    mark = "" if labels.endswith(("?", "？")) else ":"
    separator = "" if text.startswith("\n") else " "
    return f"{labels}{mark}{separator}{text}"


def _render_snippet(snippet: Snippet, *, is_among_sentences: bool, is_labeled: bool) -> str:
    """Return the displayed text of a snippet, truncated if it is long. If ``is_labeled``, its label precedes it.

    Code among sentences is indented.
    """
    text = truncate_snippet(snippet.text)
    if snippet.label and is_labeled:
        text = f"{snippet.label.removesuffix(':')}: {text}"
    if snippet.kind == "code" and is_among_sentences:
        text = "\n".join(f"    {line}" for line in text.split("\n"))
    return text


def _choose_separator(passage: Passage, previous: Snippet, snippet: Snippet, text_before: str) -> str:
    """Return the text between two adjacent snippets of an excerpt, with the list marker of the second, if any.

    ``text_before`` is the excerpt's displayed text up to the end of ``previous``.
    """
    if snippet.kind == "code":
        return "\n" if text_before else ""
    if _begins_item(passage, previous, snippet):
        return f"\n{_get_list_marker(passage, snippet)} "
    if previous.block_index == snippet.block_index:
        return "" if _UNSPACED_END_PATTERN.search(text_before) else " "
    return "\n" if previous.kind in ("code", "table") else " "


def _begins_item(passage: Passage, previous: Snippet, snippet: Snippet) -> bool:
    """True if a snippet begins a list item or a row: it does not continue the item of the snippet before it."""
    continues_block = previous.block_index == snippet.block_index and not _opens_item_or_row(passage, snippet)
    return snippet.kind in ("item", "table") and not continues_block


def _opens_item_or_row(passage: Passage, snippet: Snippet) -> bool:
    """True if a snippet is a table row, or the first sentence of a list item, which begins with its marker."""
    has_marker = skip_marker(passage.text, snippet.start, snippet.end) > snippet.start
    return snippet.kind == "table" or (snippet.kind == "item" and has_marker)


def _get_list_marker(passage: Passage, snippet: Snippet) -> str:
    """Return the list marker to display before an item: its number as written, such as ``2.``, or a dash.

    A label in parentheses follows the dash: ``- (b)``.
    """
    content_start = skip_marker(passage.text, snippet.start, snippet.end)
    marker = passage.text[snippet.start : content_start].strip()
    label = ITEM_LABEL_PATTERN.match(passage.text, content_start, snippet.end)
    return marker if marker[:1].isdigit() else f"- {label[0]}" if label is not None else "-"


def _format_labels(
    passage: Passage, snippets: Sequence[Snippet], answer: str, question_terms: Collection[str], stem: Stem
) -> str:
    """Return the title, headings and caption to display before the ``snippets`` of an excerpt, joined by ``>``.

    A label is displayed if it is needed (:func:`_list_labels`), or if it has a term (stemmed word) of the question, or
    the ``answer``, that the excerpt lacks. Long ones and those that add no term are omitted. The file name can replace
    a missing title.
    """
    first = snippets[0]
    excerpt_text = " ".join(snippet.labeled_text for snippet in snippets)
    excerpt_terms = set(list_terms(excerpt_text, stem))
    is_self_contained = first.kind == "prose" and not (first.label or first.refers_back)
    labels = []
    for label, is_needed in _list_labels(passage, first, is_self_contained=is_self_contained):
        label_terms = set(list_terms(label, stem))
        is_asked_for = any(term in question_terms for term in label_terms - excerpt_terms)
        is_short = label == first.caption or count_written_words(label) <= _MAX_LABEL_WORDS
        is_useful = is_needed or is_asked_for or (answer in label and answer not in excerpt_text)
        if is_short and is_useful and not label_terms <= excerpt_terms:
            labels.append(label)
    if not passage.plain_title:
        displayed_terms = excerpt_terms.union(*(list_terms(label, stem) for label in labels))
        file_name = PurePosixPath(passage.document)
        name_terms = set(list_terms(file_name.stem, stem))
        is_needed = bool(file_name.suffix) and not is_self_contained
        is_asked_for = name_terms.issubset(question_terms)
        if (is_needed or is_asked_for) and not name_terms <= displayed_terms:
            labels.insert(0, file_name.stem)
    # A page's title is often the name of its numbered heading, which replaces it.
    return " > ".join({strip_numbering(label): label for label in labels}.values())


def _list_labels(passage: Passage, first: Snippet, *, is_self_contained: bool) -> list[tuple[str, bool]]:
    """Return the title, headings and caption above an excerpt, each with True if the excerpt needs it.

    The title is needed if the ``first`` snippet does not mention its subject (it is not ``is_self_contained``), and the
    innermost heading if it begins with a pronoun. All headings are needed if it is an item or a row: an item means the
    opposite below "What to do" and "What not to do". The heading of a release needs the title only.
    """
    title, heading = passage.plain_title, passage.plain_heading
    if first.release is not None:
        return [(title, True)]
    is_item_or_row = first.kind in ("item", "table")
    refers_to_heading = first.needs_subject or _REFERENCE_PATTERN.match(first.text) is not None
    return [
        (title, not is_self_contained),
        *((parent, is_item_or_row) for parent in passage.parent_headings),
        (heading, is_item_or_row or not (is_self_contained or title) or refers_to_heading),
        (first.caption, True),
    ]
