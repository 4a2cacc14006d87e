"""The windows that the answer reader (a small network) reads. A *window* is a *snippet* (a sentence, list item or table
row) after its *labels* (title, headings) and the sentence it refers to. A *passage* is the text around retrieved chunks
(*hits*). A *lead-in* introduces a list or table.

In: a question, passages, and the rules that score sentences. Out: at most :data:`MAX_WINDOWS` windows, likeliest first.

The likeliest windows are chosen by the terms that they share with the question, by the rank of their hits, and by what
the question asks for. The network does not compare numbers, so ranges and rows are compared before it reads them, see
:mod:`.quantity_ranges` and :mod:`.superlatives`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from ...text.patterns import compile_lazily
from ...text.quantities import find_quantities
from ...text.words import FUNCTION_WORDS, find_reference_numbers, list_content_terms, list_terms, segment_words
from ..answer_types import FIXED_FORM_TYPES, AnswerType
from ..document_versions import find_newer_entries
from ..excerpts import SnippetPosition, find_required_end, get_snippet, has_previous
from ..passages import Passage
from ..question_dates import spell_dates_like_question
from ..question_form import is_yes_no_question
from ..question_names import find_question_names
from ..releases import asks_for_latest_release, phrase_release, remove_release_words
from ..snippet_scoring import SnippetScorer, list_candidates
from ..snippets import MAIL_FIELD_PATTERN, Snippet
from .quantity_ranges import replace_ranges
from .superlatives import FIELD_PATTERN, ComparedRow, find_superlative, mark_extremes, split_cells

#: The maximum number of windows that are scored by rules, with embeddings, for a question; the best are read. Of 804
#: questions about four folders in other words than the documents, the answer is read for 637 instead of 614 with 16.
MAX_WINDOWS = 24
#: If the question has a quantity: the maximum number of windows whose ranges are compared with it, and of those with a
#: range that includes it that are preferred to likelier windows. The rows of a table can be equally likely otherwise.
_MAX_COMPARED, _MAX_PREFERRED = 48, 4
#: The weights of a term in the title or headings of a snippet, of 1 / (1 + half the rank of its hit), and of a snippet
#: without what the question asks for. A term in the snippet itself has weight 1.
_TITLE_WEIGHT, _RANK_WEIGHT, _MISSING_WEIGHT = 0.5, 0.5, -0.5
#: Letters and a number, such as "T250" or "KX-120", or a version, such as "4.1.2".
_IDENTIFIER_PATTERN = compile_lazily(r"\b[^\W\d_]+-?\d[\w-]*|(?<![\w.])\d+\.\d+\.\d+(?![\w.]*\w)")
#: A noun with its number in a question ("week 31"), and an entry with one ("Week: 30; …" or "5: no route").
_NUMBERED_NOUN_PATTERN = compile_lazily(
    r"(?<![^\W\d_])(?P<noun>[^\W\d_]{2,}) (?:no\.? |number |#)?(?P<number>\d{1,6})(?![\w.,:%-]*\d|\w|%)"
)
_NUMBERED_ENTRY_PATTERN = compile_lazily(r"(?:\A|; )(?:(?P<noun>[^:;\d]{2,60}): )?(?P<number>\d{1,6})(?=:|;|\Z)")
#: A number of a file, such as that of a ticket, but not a year.
_FILE_NUMBER_PATTERN = compile_lazily(r"(?<![^\W_]|[.,-])(?!(?:19|20)\d\d(?!\d))\d{3,}(?![.,]?\d|[^\W_])")
#: The place between two words of a field name, as in ``maxReplicas: 10``.
_CAMEL_CASE_PATTERN = compile_lazily(r"(?<=[a-z])(?=[A-Z][a-z]\w{0,60}(?:\.\w{1,60}){0,5}(?:: | ?= ))")
#: A snippet that is only a web address, and the answer types of the questions that it can answer.
_ADDRESS_PATTERN = compile_lazily(r"\W*https?://\S+\s*")
_ADDRESS_TYPES = frozenset(("place", "web address"))
#: The status of an appointment that does not take place.
_CANCELLED_PATTERN = compile_lazily(r"; Status: cancelled\b")
#: A question that compares things ("which room is the cheapest"), and not one for a limit ("what is the latest time").
_COMPARING_PATTERN = compile_lazily(r"\b(?:which|who|whom|whose)\b", re.IGNORECASE)


class Window(NamedTuple):
    """A snippet as the reader reads it: ``text``, in which the snippet begins at character ``offset``.

    ``position`` is the snippet's position in the passages of the question.
    """

    position: SnippetPosition
    text: str
    offset: int
    #: True if the snippet lacks what the question asks for, such as money, or is a row about something else.
    lacks_answer_type: bool
    #: True if a quantity of the question replaces a range that includes it, or if the question's superlative was
    #: written into the row, because this has the extreme value.
    is_selected: bool = False
    #: True for an item or row with only other ranges or without the extreme value, and for a cancelled appointment.
    is_ruled_out: bool = False


def select_windows(
    answer_type: AnswerType,
    passages: Sequence[Passage],
    scorer: SnippetScorer,
    tables: Mapping[str, Hashable],
) -> list[Window]:
    """Return the windows to read, at most ``MAX_WINDOWS`` with different texts, likeliest first.

    ``answer_type`` is what the question asks for, such as a person. Some snippets are not read: questions; web
    addresses and fields of mails that the question cannot ask for; and headings, except one with the date of a version
    that the question asks for. Ranges are replaced by the quantities of the question that they include. The superlative
    of the question is written into the rows with the extreme value. ``tables`` has the table of each document with rows
    that can be compared, by document key.
    """
    estimator = _CandidateEstimator(answer_type, passages, scorer)
    numbers = _find_file_numbers(scorer.question)
    candidates = _find_candidates(answer_type, passages, scorer.question, estimator)
    scores = {position: estimator.estimate_score(position, is_missing) for position, is_missing in candidates.items()}
    marked_rows = _compare_rows(passages, candidates, scorer, tables)
    if asks_for_latest_release(scorer.question):
        releases = ((position, get_snippet(passages, position).release) for position in candidates)
        marked_rows |= {
            position: release.phrase_as_latest(scorer.question) for position, release in releases if release is not None
        }
    max_windows = _MAX_COMPARED if estimator.quantity_words else MAX_WINDOWS
    windows: dict[str, Window] = {}  # by text, because documents can repeat each other
    # Rows with the extreme value come first; a row with None in ``marked_rows`` has another value.
    for position in sorted(
        candidates, key=lambda position: (marked_rows.get(position) is None, -scores[position], position)
    ):
        passage_index, index = position
        text, offset = _build_window_text(passages[passage_index], index, scorer, numbers)
        is_cancelled = "cancel" not in scorer.question.lower() and bool(_CANCELLED_PATTERN.search(text, offset))
        window = Window(position, text, offset, candidates[position], is_ruled_out=is_cancelled)
        marked_row = marked_rows.get(position)
        if marked_row is not None:
            # Without a title, only the file name can say what the rows of a file are.
            labels = text[:offset] or f"{PurePosixPath(passages[passage_index].document).stem}. "
            window = window._replace(text=labels + marked_row, offset=len(labels), is_selected=True)
        elif position in marked_rows:  # the row has another value than the extreme one
            window = window._replace(is_ruled_out=True)
        windows.setdefault(text, window)
        if len(windows) == max_windows:
            break
    compared_windows = estimator.replace_ranges(list(windows.values()))
    preferred_windows = [window for window in compared_windows if window.is_selected][:_MAX_PREFERRED]
    other_windows = [window for window in compared_windows if window not in preferred_windows]
    return [*preferred_windows, *other_windows][:MAX_WINDOWS]


def _find_candidates(
    answer_type: AnswerType, passages: Sequence[Passage], question: str, estimator: _CandidateEstimator
) -> dict[SnippetPosition, bool]:
    """Return the positions of the snippets that can be read, each with True if it lacks what the question asks for.

    Questions cannot be read, and neither can web addresses and fields of mails that the question cannot ask for.
    """
    candidates: dict[SnippetPosition, bool] = {}
    for position in list_candidates(passages, answer_type):
        snippet = get_snippet(passages, position)
        is_address = _ADDRESS_PATTERN.fullmatch(snippet.text) is not None
        is_unasked_address = is_address and answer_type.name not in _ADDRESS_TYPES
        if not (snippet.is_question or is_unasked_address):
            candidates[position] = estimator.lacks_answer_type(position)
    # Headings are not selectable, so those with the date of a version are added.
    return candidates | {
        SnippetPosition(passage_index, index): False
        for passage_index, passage in enumerate(passages)
        for index, snippet in enumerate(passage.snippets)
        if snippet.release is not None and snippet.hit is not None and snippet.release.answers_question(question)
        if not asks_for_latest_release(question) or estimator.is_about_product(passage)
    }


class _CandidateEstimator:
    """Estimates how likely a snippet answers a question, without embedding any text. A *term* is the stem of a word.
    The ``scorer`` has the question and the rarity of its terms. An *identifier* is a word with a number (T250).
    """

    def __init__(self, answer_type: AnswerType, passages: Sequence[Passage], scorer: SnippetScorer) -> None:
        """Prepare the data that all candidates share: terms of titles, and names of the question in table rows.

        ``answer_type`` is the type of answer that the question of the ``scorer`` asks for, such as a person.
        """
        self._answer_type = answer_type
        self._passages = passages
        self._scorer = scorer
        question = scorer.question
        self._title_terms = [
            scorer.list_question_terms(f"{passage.title or passage.document} {passage.heading}") for passage in passages
        ]
        #: The words of the quantities in the question, which a row with a range that includes them need not have.
        self.quantity_words = {
            word
            for quantity in find_quantities(question)
            for word in segment_words(question[quantity.start : quantity.end])
        }
        identifiers = [set(segment_words(identifier)) for identifier in _IDENTIFIER_PATTERN.findall(question)]
        names = [set(name.words) for name in find_question_names(question, scorer.language)]
        #: The words of the identifiers or, if there are none, of the names in the question and in a table row of a hit.
        self._row_names = _select_row_names(identifiers, passages) or _select_row_names(names, passages)
        #: The nouns before the numbers of a question, in lower case, and the numbers.
        self._numbers_by_noun: dict[str, set[str]] = defaultdict(set)
        for match in _NUMBERED_NOUN_PATTERN.finditer(question.lower()):
            if match["noun"] not in FUNCTION_WORDS:
                for noun in (match["noun"], ""):  # the number before an entry has no noun: "5: no route"
                    self._numbers_by_noun[noun].add(match["number"])
        self._name_words = set().union(*names)
        #: The rows with the latest year of a table by years, which a question without a year asks for.
        self._latest_entries = frozenset(chain.from_iterable(find_newer_entries(question, passages).values()))

    def estimate_score(self, position: SnippetPosition, lacks_answer_type: bool) -> float:
        """Return a score of the snippet at a position, by the question's terms that it has and the rank of its hit.

        Terms in its title and headings count less. ``lacks_answer_type`` is True if the snippet lacks what the question
        asks for, which lowers the score.
        """
        snippet = get_snippet(self._passages, position)
        assert snippet.hit is not None  # true for all candidates
        own_terms = self._scorer.list_question_terms(
            spell_dates_like_question(snippet.scored_text, self._scorer.question)
        )
        label_terms = self._scorer.list_question_terms(f"{snippet.heading} {snippet.caption}")
        if snippet.heading.endswith("?"):  # the question that the snippet answers
            own_terms |= label_terms
        label_terms |= self._title_terms[position.passage_index]
        return (
            self._scorer.compute_rarity_fraction(own_terms)
            + _TITLE_WEIGHT * self._scorer.compute_rarity_fraction(label_terms - own_terms)
            + _RANK_WEIGHT / (1 + snippet.hit.rank / 2)
            + _MISSING_WEIGHT * lacks_answer_type
        )

    def replace_ranges(self, windows: Sequence[Window]) -> list[Window]:
        """Return the windows with a quantity of the question in place of each range that includes it.

        Items, rows and their lead-ins with only other ranges are ruled out.
        """
        question = self._scorer.question
        parts = [part for window in windows for part in (window.text[: window.offset], window.text[window.offset :])]
        compared_parts = iter(replace_ranges(parts, question, self._scorer.stem))
        asks_yes_no = is_yes_no_question(question)  # "up to 65 mm" answers "Does a bar of 80 mm fit?"
        compared_windows = []
        # Each window takes two of the compared parts: the context before its snippet, and the snippet.
        for window, context, snippet in zip(windows, compared_parts, compared_parts, strict=True):
            is_selected = context.is_within or snippet.is_within or window.is_selected
            entry = get_snippet(self._passages, window.position)
            is_entry = entry.kind in ("item", "table") or entry.is_lead_in  # a lead-in is read with its entries
            is_outside = snippet.is_outside and is_entry and not (is_selected or asks_yes_no)
            context_text, snippet_text = (spell_dates_like_question(part.text, question) for part in (context, snippet))
            compared_window = window._replace(
                text=context_text + snippet_text,
                offset=len(context_text),
                is_selected=is_selected,
                is_ruled_out=window.is_ruled_out or is_outside,
            )
            if is_selected:
                lacks_answer_type = self.lacks_answer_type(window.position, is_selected=True)
                compared_window = compared_window._replace(lacks_answer_type=lacks_answer_type)
            compared_windows.append(compared_window)
        return compared_windows

    def lacks_answer_type(self, position: SnippetPosition, *, is_selected: bool = False) -> bool:
        """True if a snippet, with a list or table that it introduces, lacks what the question asks for.

        A table row lacks it if it is about another thing than the question, or if no cell is asked for. A range with
        the question's quantity (``is_selected``) is always asked for. If the question asks for the address or telephone
        number of a name, a snippet without any word of the name lacks it.
        """
        passage_index, index = position
        passage = self._passages[passage_index]
        snippet = passage.snippets[index]
        if _is_row(snippet) and self._is_about_something_else(passage, index, is_selected=is_selected):
            return True
        if self._has_other_number(snippet.labeled_text):
            return True
        is_asked = is_selected or position in self._latest_entries or not snippet.cell_text
        if not (is_asked or self._scorer.list_question_terms(f"{snippet.label} {snippet.cell_text}")):
            return True
        text = _render_with_block(passage.snippets, index)
        labels = " ".join([passage.document, *passage.list_labels(index)])
        if self._answer_type.name in FIXED_FORM_TYPES and self._name_words:
            lower_text = f"{labels} {text}".lower()
            if not any(word in lower_text for word in self._name_words):
                return True
        return self._answer_type.is_missing_in(text, labels)

    def _has_other_number(self, entry: str) -> bool:
        """True if an entry has a number other than the question's: "Week: 30" for week 31, "5: no route" for code 4."""
        for match in _NUMBERED_ENTRY_PATTERN.finditer(entry):
            numbers = self._numbers_by_noun.get((match["noun"] or "").rpartition(" ")[2].lower())
            if numbers and match["number"] not in numbers:
                return True
        return False

    def is_about_product(self, changes: Passage) -> bool:
        """True if a changelog is about the product whose latest version the question asks for, or if it names none.

        ``changes`` is a passage of the changelog. The file name, the title or the text above the first release can name
        the product.
        """
        terms = set(list_content_terms(remove_release_words(self._scorer.question), self._scorer.stem))
        texts = [changes.document, changes.title or ""]
        for passage in self._passages:
            if passage.document == changes.document and passage.start == 0:
                first_release = next((snippet.start for snippet in passage.snippets if snippet.release), None)
                texts.append(passage.text[:first_release])
        return terms.issubset(list_terms(" ".join(texts), self._scorer.stem))

    def _is_about_something_else(self, passage: Passage, index: int, *, is_selected: bool) -> bool:
        """True if the row at ``index`` lacks the identifiers or names of the question, and another row has one of them.

        A name in the title or a heading counts for every row below. The words of the question's quantity count if a
        range in the row includes it (``is_selected``).
        """
        row = passage.snippets[index]
        words = set(segment_words(" ".join([passage.document, *passage.list_labels(index), row.labeled_text])))
        if is_selected:
            words |= self.quantity_words
        # The name of a column is in every row, so it does not distinguish rows.
        columns = set(segment_words(" ".join(FIELD_PATTERN.findall(row.labeled_text))))
        names = [name for name in self._row_names if not name <= columns]
        return bool(names) and not any(name <= words for name in names)


def _select_row_names(names: Sequence[set[str]], passages: Sequence[Passage]) -> list[set[str]]:
    """Return the names in a question, each a set of words, that a table row of a hit has too."""
    if not names:
        return []
    rows = (snippet for passage in passages for snippet in passage.snippets if snippet.hit and _is_row(snippet))
    row_words = [set(segment_words(row.labeled_text)) for row in rows]
    return [name for name in names if any(map(name.issubset, row_words))]


def _is_row(snippet: Snippet) -> bool:
    """True if a snippet is a row of a table or a record with several fields."""
    return bool(snippet.cell_text) or (snippet.kind == "table" and len(FIELD_PATTERN.findall(snippet.text)) > 1)


def _build_window_text(passage: Passage, index: int, scorer: SnippetScorer, numbers: Set[str]) -> tuple[str, int]:
    """Return the input of the answer reader for the snippet at ``index``, and the snippet's character offset in it.

    The title, the headings and a sentence that the snippet refers to precede it. A list that it introduces follows. The
    file name comes first if it has one of the ``numbers`` (dates, versions, "0007") of the question. The sender or
    date of a mail is rewritten as a sentence. A changelog heading becomes only a sentence with its version and date.
    """
    snippets = passage.snippets
    snippet = snippets[index]
    if snippet.release is not None:
        return snippet.release.sentence, 0
    labels = phrase_release(scorer.list_labels(passage, index), scorer.question)
    name = PurePosixPath(passage.document).stem
    if not numbers.isdisjoint(_find_file_numbers(name)):
        labels.insert(0, name)
    text_before = "".join(
        f"{label.rstrip('.')}{'' if label.endswith(('?', '!', ':')) else '.'} "
        for label in dict.fromkeys(filter(None, labels))
    )
    needs_previous = snippet.refers_back and has_previous(snippets, index)
    if needs_previous and snippets[index - 1].text not in labels:  # a question is also the heading of its reply
        text_before += f"{snippets[index - 1].labeled_text} "
    text = _phrase_mail_field(_render_with_block(snippets, index))
    if snippet.kind == "table":
        text = _CAMEL_CASE_PATTERN.sub(" ", _select_compared_cells(text, scorer.question))
    return text_before + text, len(text_before)


def _find_file_numbers(text: str) -> Set[str]:
    """Return the numbers in a question or file name that can identify a file: dates, versions, and "0007"."""
    return {*find_reference_numbers(text), *_FILE_NUMBER_PATTERN.findall(text)}


def _select_compared_cells(row: str, question: str) -> str:
    """Return a row of a comparison table, reduced to the cells of the things that a question names.

    The first cell of such a row is a property, and the names of its other columns are the things. A row is returned
    unchanged if the question names none of them.

    >>> row = "Members; Hobby: 2; Team: 15; Business: unlimited"
    >>> [_select_compared_cells(row, f"How many members has {name}?") for name in ("a team", "a class")]
    ['Team; Members: 15', 'Members; Hobby: 2; Team: 15; Business: unlimited']
    """
    starts = list(FIELD_PATTERN.finditer(row))
    if len(starts) < 2 or starts[0].start() == 0:
        return row
    label, words = row[: starts[0].start()], set(segment_words(question))
    ends = [match.start() for match in starts[1:]] + [len(row)]
    cells = [
        f"{match[1]}; {label}: {row[match.end() : end]}"
        for match, end in zip(starts, ends, strict=True)
        if words.issuperset(segment_words(match[1]))
    ]
    return "; ".join(cells) or row


def _phrase_mail_field(text: str) -> str:
    """Return the sender or date field of a mail as a sentence, and any other text unchanged.

    The network was trained on sentences. It mistakes a bare date for the answer to most questions for a date.

    >>> _phrase_mail_field("Date: Mon, 04 Mar 2024 10:00:00 +0000")
    'This mail was sent on Mon, 04 Mar 2024 10:00:00 +0000.'
    >>> _phrase_mail_field("From: Ann Lee <ann@example.org>")
    'This mail was written and sent by Ann Lee <ann@example.org>.'
    """
    match = MAIL_FIELD_PATTERN.fullmatch(text)
    if match is None:
        return text
    return f"This mail was {'sent on' if match['date'] else 'written and sent by'} {match['date'] or match['sender']}."


def build_context_text(window: Window, passages: Sequence[Passage]) -> str | None:
    """Return the text of a window, with the sentence before its snippet inserted.

    Returns None if that sentence and the snippet are not prose of one section, or if the window has the sentence
    already.
    """
    passage_index, index = window.position
    snippets = passages[passage_index].snippets
    snippet = snippets[index]
    is_already_included = snippet.refers_back
    if is_already_included or not has_previous(snippets, index):
        return None
    if not snippet.kind == snippets[index - 1].kind == "prose":
        return None
    return f"{window.text[: window.offset]}{snippets[index - 1].labeled_text} {window.text[window.offset :]}"


def _render_with_block(snippets: Sequence[Snippet], index: int) -> str:
    """Return the text of the snippet at ``index`` and, if it introduces a list or table, the items or rows below it."""
    text = snippets[index].labeled_text
    if not snippets[index].is_lead_in:
        return text
    last = find_required_end(snippets, index)
    block = [snippet.labeled_text for snippet in snippets[index + 1 : last + 1] if snippet.kind != "code"]
    return " ".join([text, "; ".join(block)]).strip()


def _compare_rows(
    passages: Sequence[Passage],
    positions: Iterable[SnippetPosition],
    scorer: SnippetScorer,
    tables: Mapping[str, Hashable],
) -> dict[SnippetPosition, str | None]:
    """Map the positions of rows and items with an extreme value to their texts with the question's superlative.

    ``Room: B; cheapest Price: $25`` is such a text. The other rows of their tables are mapped to None. If the question
    asks "which" or "who", all rows and items without its superlative are mapped to None too. ``positions`` are the
    snippets that can be read. ``tables`` has the table of each document with comparable rows, by document key.
    The result is empty if the question has no superlative.
    """
    superlative = find_superlative(scorer.question, scorer.stem)
    if superlative is None:
        return {}
    rows = _build_compared_rows(passages, positions, tables)
    row_positions = list(rows)
    marked_texts = mark_extremes(list(rows.values()), superlative)
    marked_rows = {row_positions[index]: text for index, text in marked_texts.items()}
    if _COMPARING_PATTERN.search(scorer.question):
        for position, row in rows.items():
            if superlative.text.lower() not in row.text.lower():
                marked_rows.setdefault(position, None)
    return marked_rows


def _build_compared_rows(
    passages: Sequence[Passage], positions: Iterable[SnippetPosition], tables: Mapping[str, Hashable]
) -> dict[SnippetPosition, ComparedRow]:
    """Return the table rows and list items among the snippets at ``positions``, by position.

    ``tables`` has tables by document key. A row of any other document is a table of its own, so it is not compared.
    """
    rows: dict[SnippetPosition, ComparedRow] = {}
    for position in positions:
        snippet = get_snippet(passages, position)
        if snippet.kind in ("table", "item") and snippet.release is None:
            passage = passages[position.passage_index]
            table = tables.get(passage.document)
            table = position if table is None else _identify_table(passage, position, table)
            labels = " ".join([passage.document, *passage.list_labels(position.snippet_index)])
            rows[position] = ComparedRow(table, snippet.labeled_text, labels)
    return rows


def _identify_table(passage: Passage, position: SnippetPosition, table: Hashable) -> Hashable:
    """Return a value that is equal for all rows of a table, or all items of a list; the entry is at ``position``.

    ``table`` is returned for a row that is a document; for any other row, ``table`` is the document key. The value then
    has the name of the first column, and the heading and caption above the table or list.
    """
    snippet = passage.snippets[position.snippet_index]
    if table != passage.document:
        return table
    first_column = next(iter(split_cells(snippet.labeled_text)), "")
    return (passage.document, passage.heading, snippet.section, snippet.caption, snippet.kind, first_column)
