"""Make questions by rule from the documents of a store, with near misses: similar questions that no document answers. A
*fact* is a statement in a document that a question can ask for: an *attribute* of a *subject*, such as the price of
tea. A definition is a fact without an attribute.

In: a store. Out: questions about headings, definitions, fields, dates and other statements, each with the span of its
answer; and near misses, which combine the subject of one question with the attribute of another if no document has the
words of both. The order of documents depends only on their keys, so two stores of the same documents get the same
questions. Questions are English sentences if the document is English, else the words alone.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ..text.blocks import Block, parse_blocks, strip_numbering, to_plain_text, unwrap_links
from ..text.languages import detect_language
from ..text.name_words import MONTHS
from ..text.sentences import split_sentences
from ..text.words import FUNCTION_WORDS, list_content_words
from .question_files import Question, make_question

if TYPE_CHECKING:
    from ..database.stored_document import Document
    from ..store.store import Store

#: The kinds of questions, in the order in which they are mixed.
SOURCES = ("heading", "definition", "table", "field", "date", "statement")
#: English phrases; the words alone are one of them, because users also type keywords. A phrase without the subject
#: leaves out the words of the title.
_PHRASES = {
    "heading": (
        "What does {subject} say about {attribute}?",
        "{subject}: {attribute}",
        "What should I know about {attribute}?",
    ),
    "title": ("What do the documents say about {subject}?", "Can you explain {subject}?"),
    "definition": ("What is {subject}?", "Explain {subject}."),
    "table": ("What is the {attribute} of {subject}?", "{subject} {attribute}"),
    "field": ("What is the {attribute} of {subject}?", "What is the {attribute}?", "{subject} {attribute}"),
    "statement": ("What {verb} {attribute}?",),
    "date": ("When {verb} {subject} {attribute}?", "In which year {verb} {subject} {attribute}?"),
}
_MAX_DOCUMENTS, _MAX_SPAN_CHARACTERS, _MAX_PARTNERS = 400, 700, 12
_MIN_BODY_WORDS, _MAX_TITLE_WORDS, _MAX_CELL_WORDS = 8, 9, 12
_MONTHS = "|".join(map(str.title, MONTHS))
_DATE = rf"(?:(?:\d{{1,2}} )?(?:{_MONTHS})(?: \d{{1,2}})?,? )?\d{{4}}(?:-\d\d-\d\d)?"
#: The beginning of a sentence with a passive and a date: "The mill was built by monks in May 1843".
_DATE_PATTERN = re.compile(
    rf"^((?:The |A |An )?[A-Z][^,;:()]{{2,50}}?) (was|were) ([a-z]+(?:ed|en|n|t|d|rn|lt|un)\b[^,;:()]{{0,40}}?) "
    rf"(?:in|on) ({_DATE})\b"
)
#: The beginning of a sentence that says what something is: "A tea bush is a", "Assam means the".
_DEFINITION_PATTERN = re.compile(
    r"^(?:An? )?(?P<subject>(?:[\w'’./-]+ ){0,3}[\w'’./-]+) (?:is|are|was|were|means|refers to) (?:a|an|the|one of)\b"
)
#: A sentence with an auxiliary verb, or with a word in -s before a function word, which is likely to be a verb:
#: "The lock must be oiled weekly", "The pump moves the water". The groups are the subject, the verb and the rest.
_STATEMENT_PATTERN = re.compile(
    r"^([A-Z][\w'’-]*(?: [\w'’-]+){0,5}?) "
    r"((?:is|are|was|were|has|have|had|can|may|must|should|will|does|do|cannot)(?: not| also| only)?|"
    r"\w{2,}[^\Wsu]s(?= (?:the|a|an|to|in|on|at|for|from|with|by|into|all|its|their|your|\d)\b)) "
    r"([^,;:().]+)"
)
#: A line with a name and a value, possibly an item in Markdown: "- **Phone:** 555 1234".
_FIELD_PATTERN = re.compile(r"^(?:[-*] )?(?:\*\*)?([A-Z][\w /-]{1,40}?)(?:\*\*)?:(?:\*\*)? +(\S.*)$")
#: Names of fields that say nothing about their values.
_LABELS = frozenset(
    ("caution", "example", "hint", "important", "note", "read more", "see also", "subject", "tip", "warning")
)
_ARTICLE_PATTERN = re.compile(r"^(?:The|A|An) ")
_DETERMINER_PATTERN = re.compile(r"^(?:The|A|An|Our|Your|Their) ")
_PRONOUNS = frozenset("it its he his she her they their them we our you your i my this that these those".split())
#: Two letters in a row, which a name has, unlike "3 a".
_LETTERS_PATTERN = re.compile(r"[^\W\d_]{2}")
#: The capital letter of a word that is otherwise in lower case: the ``S`` of "Setup", but not the ``S`` of "SQL".
_TITLE_CASE_PATTERN = re.compile(r"\b[A-Z](?=[a-z]+\b)")


@dataclass(frozen=True)
class _AskableFact:
    """A statement of a document that a question can ask for: an attribute of a subject.

    ``start`` and ``end`` are the span of the statement, in characters. ``value`` is the answer if it is short, else
    empty. ``source`` is one of :data:`SOURCES`. ``verb`` is only set for dates and statements. ``is_ambiguous`` is True
    if other facts of the store have the same attribute.
    """

    source: str
    document: str
    subject: str
    attribute: str
    start: int
    end: int
    value: str = ""
    verb: str = ""
    is_english: bool = True
    is_ambiguous: bool = False

    def phrase_question(self, number: int, subject: str | None = None) -> str:
        """Return the text of a question about the fact, or about the same attribute of another ``subject``.

        ``number`` (any integer) selects one of the phrases. The question mentions the subject if ``subject`` is given,
        or if other facts have the same attribute. It mentions no subject if the fact has none. If the fact is not
        English, the question is the subject and the attribute.
        """
        needs_subject = self.is_ambiguous or subject is not None
        subject = subject or self.subject
        if not self.is_english:
            return f"{subject} {self.attribute}".strip()
        is_about_title = self.source == "heading" and not self.attribute
        phrases: Sequence[str] = _PHRASES["title" if is_about_title else self.source]
        if needs_subject or not subject:
            phrases = [phrase for phrase in phrases if ("{subject}" in phrase) == bool(subject)] or phrases
        return phrases[number % len(phrases)].format(subject=subject, attribute=self.attribute, verb=self.verb)


def make_questions(store: Store, limit: int = 100) -> list[Question]:
    """Return at most ``limit`` answerable questions, followed by near misses: similar ones that no document answers.

    There are at most half as many near misses as ``limit``, or one if ``limit`` is 1.

    >>> store.put("tea", "Tea is a drink made from the leaves of a shrub in Assam.")
    True
    >>> [question.text for question in make_questions(store)]
    ['What is Tea?']
    """
    facts_by_source = [_drop_repeated_questions(facts) for facts in _collect_facts(store).values()]
    # One fact of each source, then the next fact of each, and so on.
    alternating_facts = [fact for facts in zip_longest(*facts_by_source) for fact in facts if fact is not None]
    facts = alternating_facts[:limit]
    questions = []
    for number, fact in enumerate(facts):
        document = store.get(fact.document)
        if document is not None:
            questions.append(_to_question(fact, number, document.text))
    return [*questions, *_make_near_misses(store, facts, max(1, limit // 2))]


def _to_question(fact: _AskableFact, number: int, text: str) -> Question:
    """Return the question about a fact of the document with this ``text``; ``number`` selects the phrase."""
    span = (len(text[: fact.start].encode()), len(text[: fact.end].encode()))  # in bytes
    answers = (fact.value,) if fact.value else ()
    return make_question(
        fact.phrase_question(number), answers=answers, gold=(fact.document,), span=span, part=fact.source
    )


def _collect_facts(store: Store) -> dict[str, list[_AskableFact]]:
    """Return the facts of at most ``_MAX_DOCUMENTS`` documents, by source.

    Documents are in the order of a hash of their keys. The first facts of all documents come before the second ones.
    """
    numbered_facts: dict[str, list[tuple[int, _AskableFact]]] = {source: [] for source in SOURCES}
    for key in sorted(store.keys(), key=lambda key: (zlib.crc32(key.encode()), key))[:_MAX_DOCUMENTS]:
        document = store.get(key)
        if document is None:
            continue
        counts: dict[str, int] = defaultdict(int)
        for fact in _iter_facts(document):  # numbered within its document and source
            numbered_facts[fact.source].append((counts[fact.source], fact))
            counts[fact.source] += 1
    return {
        source: [fact for _, fact in sorted(facts, key=lambda numbered_fact: numbered_fact[0])]
        for source, facts in numbered_facts.items()
    }


def _drop_repeated_questions(facts: Sequence[_AskableFact]) -> list[_AskableFact]:
    """Return the facts of one source whose question no other fact shares; a shared question has several right answers.

    Each returned fact is marked ambiguous if another of ``facts`` has the same attribute.
    """
    # The first phrase represents all phrases.
    question_counts = Counter(fact.phrase_question(number=0).lower() for fact in facts)
    attribute_counts = Counter(fact.attribute.lower() for fact in facts)
    return [
        replace(fact, is_ambiguous=attribute_counts[fact.attribute.lower()] > 1)
        for fact in facts
        if question_counts[fact.phrase_question(number=0).lower()] == 1
    ]


def _iter_facts(document: Document) -> Iterator[_AskableFact]:
    """Yield the facts of a document that questions can ask for: first the facts in its headings, then other facts."""
    text = document.text
    is_english = detect_language(text) in (None, "english")
    blocks = parse_blocks(text, document.format)
    title = document.title or next((block.title for block in blocks if block.kind == "heading"), "")
    subject = to_plain_text(title).strip()
    heading_facts = list(_iter_heading_facts(document, blocks, subject, is_english))
    # A question about the title alone is the easiest one, so it is only asked if there is no other heading.
    yield from [fact for fact in heading_facts if fact.attribute] or heading_facts
    for block in blocks:
        if block.kind == "table":
            yield from _iter_table_facts(document.key, text, block, is_english)
        elif block.kind in ("item", "prose"):
            yield from _iter_field_facts(document.key, text, block, subject, is_english)
            if is_english:
                yield from _iter_sentence_facts(document.key, text, block)


def _iter_heading_facts(
    document: Document, blocks: Sequence[Block], subject: str, is_english: bool
) -> Iterator[_AskableFact]:
    """Yield a fact for each heading; the beginning of the paragraph or list item below it is the answer.

    ``blocks`` are the headings, paragraphs, items and tables of the text. ``subject`` is the document's title; nothing
    is yielded if it is empty. Repeated headings, long headings, headings of function words only and headings above
    short texts are skipped. Words of English headings are put in lower case, because they become a part of a question.
    """
    used_names: set[str] = set()
    for heading, body in pairwise(blocks):
        name = strip_numbering(" ".join(heading.title.split())) if heading.kind == "heading" else ""
        is_title = name.lower() == subject.lower()
        is_new = name.lower() not in used_names
        is_usable_name = bool(list_content_words(name)) and len(name.split()) <= _MAX_TITLE_WORDS
        num_body_words = len(document.text[body.start : body.end].split())
        has_answer = body.kind in ("prose", "item") and num_body_words >= _MIN_BODY_WORDS
        if not (subject and is_new and is_usable_name and has_answer):
            continue
        used_names.add(name.lower())
        attribute = "" if is_title else name.rstrip("?")
        if is_english:
            attribute = _TITLE_CASE_PATTERN.sub(lambda match: match[0].lower(), attribute)
        end = min(body.end, body.start + _MAX_SPAN_CHARACTERS)
        yield _AskableFact("heading", document.key, subject, attribute, body.start, end, is_english=is_english)


class _MarkdownRow(NamedTuple):
    """The cells of a line of a table, and its span in the document, in characters."""

    cells: list[str]
    start: int
    end: int


def _iter_table_facts(key: str, text: str, block: Block, is_english: bool) -> Iterator[_AskableFact]:
    """Yield a fact for one cell of each row of a table: the first cell is the subject, and the column is the attribute.

    ``key`` and ``text`` are the document's key and text, and ``block`` the table in it. ``is_english`` is True if the
    document is in English. Rows whose subject or column has no words, or whose cells are too long, are skipped.
    """
    rows = []
    for match in re.finditer(r"[^\n]+", text[block.start : block.end]):  # each line that is not empty
        cells = [to_plain_text(unwrap_links(cell)).strip() for cell in match[0].strip().strip("|").split("|")]
        rows.append(_MarkdownRow(cells, block.start + match.start(), block.start + match.end()))
    if len(rows) < 3:
        return  # a header and the line below it, without rows
    columns = rows[0].cells
    for row_index, (cells, start, end) in enumerate(rows[2:]):
        column_index = 1 + row_index % max(1, len(columns) - 1)  # each row asks for the next column
        if len(cells) != len(columns) or column_index >= len(columns):
            continue
        subject, column, value = cells[0], columns[column_index], cells[column_index]
        has_names = all(list_content_words(name) and _LETTERS_PATTERN.search(name) for name in (subject, column))
        if has_names and 0 < len(value.split()) <= _MAX_CELL_WORDS and len(subject.split()) <= _MAX_TITLE_WORDS:
            yield _AskableFact("table", key, subject, column.lower(), start, end, value=value, is_english=is_english)


def _iter_field_facts(key: str, text: str, block: Block, subject: str, is_english: bool) -> Iterator[_AskableFact]:
    """Yield a fact for each line ``Name: value`` of a paragraph or item: an attribute of ``subject``, and its value.

    ``subject`` is the document's title, which may be empty, ``key`` and ``text`` are its key and text, and ``block`` is
    the paragraph or item. ``is_english`` is True if the document is in English. Lines with a long value, or a name that
    says nothing about its value, such as ``Note``, are skipped.
    """
    for line in re.finditer(r"[^\n]+", text[block.start : block.end]):  # each line that is not empty
        match = _FIELD_PATTERN.match(line[0].strip())
        if match is None:
            continue
        name, markup = match.groups()
        if name.lower() not in _LABELS and len(markup.split()) <= _MAX_CELL_WORDS and list_content_words(name):
            value = to_plain_text(unwrap_links(markup)).strip(" .")
            start, end = block.start + line.start(), block.start + line.end()
            yield _AskableFact("field", key, subject, name.lower(), start, end, value=value, is_english=is_english)


def _iter_sentence_facts(key: str, text: str, block: Block) -> Iterator[_AskableFact]:
    """Yield a fact for each English sentence of a block that has the form of a definition, a date or a statement.

    ``key`` and ``text`` are the document's key and text, and ``block`` is a paragraph or list item in it.
    """
    for sentence_index, (start, end) in enumerate(split_sentences(text[block.start : block.end])):
        start, end = block.start + start, block.start + end
        sentence = to_plain_text(unwrap_links(" ".join(text[start:end].split())))
        if match := _DATE_PATTERN.match(sentence):
            subject, verb, attribute, date = match.groups()
            if _is_name(_ARTICLE_PATTERN.sub("", subject)):
                # "The mill" becomes "the mill".
                subject = _ARTICLE_PATTERN.sub(lambda article: article[0].lower(), subject)
                yield _AskableFact("date", key, subject, attribute, start, end, value=date, verb=verb)
            continue
        # Later in a paragraph, only an indefinite article marks a definition.
        can_define = sentence_index == 0 or sentence.startswith(("A ", "An "))
        definition = _DEFINITION_PATTERN.match(sentence) if can_define else None
        if definition and _is_name(definition["subject"]):
            yield _AskableFact("definition", key, definition["subject"], "", start, end)
        elif match := _STATEMENT_PATTERN.match(sentence):
            subject, verb, attribute = match.groups()
            if _is_name(_DETERMINER_PATTERN.sub("", subject)) and len(list_content_words(attribute)) >= 2:
                yield _AskableFact("statement", key, subject, attribute.strip(), start, end, verb=verb)


def _is_name(subject: str) -> bool:
    """True if ``subject``, the subject of a sentence without its article, names something, such as "mill".

    It has content words and no pronoun, and does not begin with a function word or a number.
    """
    words = subject.lower().split()
    if not list_content_words(subject) or not subject[0].isalpha():
        return False
    return words[0] not in FUNCTION_WORDS and _PRONOUNS.isdisjoint(words)


def _make_near_misses(store: Store, facts: Sequence[_AskableFact], limit: int) -> list[Question]:
    """Return at most ``limit`` near misses: questions that resemble answerable ones, but that no document answers.

    A fact is an attribute of a subject, such as "price of tea", or the definition of a subject. Each near miss joins
    the attribute of a fact with the subject of a fact from another document, or the names of two defined subjects.
    """
    questions: list[Question] = []
    texts: set[str] = set()
    for number, fact in enumerate(facts):
        partners = [other for other in facts if other.source == fact.source and other.document != fact.document]
        for attempt in range(min(_MAX_PARTNERS, len(partners))):
            partner = partners[(number + attempt) % len(partners)]  # each fact begins with another partner
            question = _build_near_miss(store, fact, partner, number)
            if question is not None and question.text not in texts:
                texts.add(question.text)
                questions.append(question)
                break
        if len(questions) == limit:
            break
    return questions


def _build_near_miss(store: Store, fact: _AskableFact, other: _AskableFact, number: int) -> Question | None:
    """Return an unanswerable question that resembles an answerable one, or None if a document may answer it.

    It asks for the attribute of ``fact``, but for the subject of ``other``. For definitions, which have no attribute,
    it asks for a combination of the names of the two subjects. ``number`` selects the wording. Also returns None if the
    facts cannot be combined: a question about a statement, for example, contains no subject that could be replaced.
    """
    if fact.source == "definition":
        subject, attribute = _combine_names(fact.subject, other.subject), ""
        is_combinable = bool(subject)
    else:
        subject, attribute = other.subject, fact.attribute
        has_both = bool(subject and attribute)
        is_combinable = has_both and fact.source != "statement" and subject.lower() != fact.subject.lower()
    if not is_combinable:
        return None
    attribute_words = list_content_words(attribute)
    words = list(dict.fromkeys([*list_content_words(subject), *attribute_words]))
    if len(words) < 2 or store.count("content MATCH ?", (_build_all_words_query(words),)):
        return None
    # The document about the subject can have its name only in the title, so the attribute alone counts there.
    if attribute_words:
        condition = _build_all_words_query(attribute_words)
        if store.count("key = ? AND content MATCH ?", (other.document, condition)):
            return None
    return make_question(fact.phrase_question(number, subject), "near", part=fact.source)


def _combine_names(name: str, other: str) -> str:
    """Return a name with its last word replaced by the last word of another name; empty if the result is no new name.

    Names of one word cannot be combined.

    >>> _combine_names("green tea", "black coffee"), _combine_names("green tea", "coffee")
    ('green coffee', '')
    """
    *beginning, last_word = name.split()
    *other_beginning, other_last_word = other.split()
    if not (beginning and other_beginning) or last_word.lower() == other_last_word.lower():
        return ""
    return " ".join([*beginning, other_last_word])


def _build_all_words_query(words: Sequence[str]) -> str:
    """Return the full-text query for texts with all of the words: ``"green" AND "tea"``."""
    return " AND ".join(f'"{word}"' for word in words)
