"""Search for the sections that a question names by number ("What does section 4.2 say?") or by topic ("Which section
covers notice?"). The *label* of a section is its number, often after a word: ``4.2``, ``§ 5``. A *reference* is what
the question says about the section.

In: a reference to a section (:mod:`.section_references`), and the hits of the search for the question. Out: the
section, in each document of the hits that the question can mean. It is below a heading with the label or, in a text
without such headings, begins with a line that begins with the label.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

from ..retrieval.evidence import Hit
from ..retrieval.query import Query
from ..structures.documents.documents import DocumentRecord, build_heading_path
from ..structures.state import State
from ..text.patterns import compile_lazily
from ..text.words import segment_words
from .section_references import (
    EXCLUSIVE_WORDS,
    ITEM_SOURCE,
    LABEL_PATTERN,
    LINE_PATTERN,
    STEP_WORDS,
    SectionReference,
    can_be_label,
    get_exclusive_kind,
)

#: The name of the strategy in evidence from a numbered section.
SECTION = "section"
#: The words before the number of an item of a list.
_ITEM_WORDS = STEP_WORDS | {"item", "point", "punkt", "punto", "ponto", "punt"}
#: Words that can also name a thing with a number, unless the label of the section has the word: "What costs item 5?"
AMBIGUOUS_WORDS = frozenset(
    "article artikel artículo artigo articolo item part point punto ponto punt paso passo rule".split()
)
#: The rest of a heading in a line, up to a period or the end of the line, and the space after it.
_LINE_HEADING_PATTERN = compile_lazily(r"[^\n.:]{1,80}(?:[.:](?=\s)|(?=\n|\Z))\**\s*")
#: The line of a heading, a line below it, and the space after them.
_HEADING_LINES_PATTERN = compile_lazily(r"[^\n]*\n(?:[-=~^*]{3,}[ \t]*(?:\n|\Z))?\s*")
#: The end of an item: a line that is not indented, after an empty line, or a heading.
_ITEM_END_PATTERN = re.compile(rb"\n[ \t]*\n(?=\S)|\n(?=#)")
#: The maximum number of lines with labels whose sections are listed.
_MAX_LABELS = 10_000
#: The maximum size of a text whose lines are searched for labels, in bytes.
_MAX_TEXT_BYTES = 4_000_000
#: The maximum number of chunks of a section that are read.
_MAX_SECTION_CHUNKS = 64
#: The maximum number of sections of different documents that a question can mean.
_MAX_SECTIONS = 3


class NumberedSection(NamedTuple):
    """A section of a document: bytes ``start`` to ``end`` of its text, and the titles of the headings that lead to it.

    The label at the start of its own heading has the ``number`` and the ``word``, or empty strings. The text after the
    heading begins at byte ``text_start``. ``is_line`` is True if the section begins with a line that is no heading, and
    ``has_heading`` False if this line has only the label before the text.
    """

    record: DocumentRecord
    number: str
    word: str
    heading: str
    level: int
    start: int
    text_start: int
    end: int
    is_line: bool = False
    has_heading: bool = True


def find_sections(hits: Sequence[Hit], reference: SectionReference, query: Query) -> list[NumberedSection]:
    """Return the sections that a question can mean, at most one of each document of the ``hits``, best first.

    Only the documents with the most words of the question in their titles or keys can have the section, unless they
    have no labels. A section about a topic has all other words of the question in its heading, or is the numbered
    section around the first hit with these words; only the first one is returned.
    """
    records = map(query.state.documents.find_by_key, dict.fromkeys(hit.document for hit in hits))
    documents = [_LabeledDocument(record, query) for record in records if record is not None]
    if reference.number:
        return _find_by_number(documents, reference, query)
    documents.sort(key=lambda document: len(list_topic_stems(reference, document.record, query)))
    section = next(filter(None, (_find_in_document(document, reference) for document in documents)), None)
    section = section or _find_around_hit(hits, documents, reference)
    return [] if section is None else [section]


def _find_by_number(
    documents: Sequence[_LabeledDocument], reference: SectionReference, query: Query
) -> list[NumberedSection]:
    """Return the sections with the number of a reference, from the documents with the most words of the question."""
    documents_by_count: dict[int, list[_LabeledDocument]] = defaultdict(list)  # by the number of missing words
    for document in documents:
        name = f"{document.record.title or ''} {document.record.key}"
        documents_by_count[count_missing_words(reference, name, query)].append(document)
    for count, named_documents in sorted(documents_by_count.items()):
        sections = _find_in_documents(named_documents, reference)
        if sections:
            items = (_narrow_section(section, reference.items, query.state) for section in sections[:_MAX_SECTIONS])
            return list(filter(None, items))
        has_labels = any(document.label_words for document in named_documents)
        if count < max(documents_by_count) and (has_labels or reference.word in AMBIGUOUS_WORDS):
            break  # the question names these documents
    upper_number, _, item = reference.number.rpartition(".")
    if not upper_number or reference.items:
        return []
    # 4.2 can be item 2 of "Art. 4".
    upper_sections = _find_by_number(documents, reference._replace(number=upper_number), query)
    items = (
        _narrow_section(section, (item,), query.state, must_exist=True) for section in upper_sections if section.word
    )
    return list(filter(None, items))


def count_missing_words(reference: SectionReference, name: str, query: Query) -> int:
    """Return how many ``document_words`` of a reference are not in the name of a document.

    These are the words of the question that can name the document of the section.
    """
    return len(set(map(query.stem, reference.document_words)) - _list_stems(name, query))


def _find_in_documents(documents: Sequence[_LabeledDocument], reference: SectionReference) -> list[NumberedSection]:
    """Return the sections with the number of a reference in documents: only those with the best labels.

    If a document has a label such as "§ 1", a reference such as "§ 5" can only mean labels with the same kind of word.
    """
    sections = list(filter(None, (_find_in_document(document, reference) for document in documents)))
    kind = get_exclusive_kind(reference)
    if kind is not None and any(kind in map(EXCLUSIVE_WORDS.get, document.label_words) for document in documents):
        sections = [section for section in sections if EXCLUSIVE_WORDS.get(section.word) == kind]
    best_rank = min((_rate_label(section, reference) for section in sections), default=None)
    return [section for section in sections if _rate_label(section, reference) == best_rank]


def _rate_label(section: NumberedSection, reference: SectionReference) -> tuple[bool, bool, bool]:
    """Return the sort key of a section that has the number of a reference; the lowest is the best.

    A heading is better than a line. The word of the reference ("Clause 4") is better than none, and none is better than
    another word.
    """
    return section.is_line, section.word != reference.word, bool(section.word)


def _find_in_document(document: _LabeledDocument, reference: SectionReference) -> NumberedSection | None:
    """Return the best section of a document with the number of a reference or, without one, its topic, or None."""
    query, headed_sections = document.query, document.headed_sections
    topic = list_topic_stems(reference, document.record, query)
    is_step = reference.word in STEP_WORDS
    if is_step:
        headed_sections = [section for section in headed_sections if section.word in STEP_WORDS]

    def matches_reference(section: NumberedSection) -> bool:
        """True if a section has the number of the reference or, without a number, the topic in its heading."""
        if reference.number:
            return can_be_label(reference, section.number, section.word)
        return bool(topic) and topic <= _list_title_stems(section, query)

    sections = list(filter(matches_reference, headed_sections))
    if reference.word in _ITEM_WORDS and not (is_step and sections):
        item = _find_item(document, reference, topic)
        if item is not None or is_step:
            return item
    sections = sections or list(filter(matches_reference, document.line_sections))
    # If several match, one with the same word, such as "Chapter", is preferred, then the one whose heading has the
    # fewest words besides the topic, then the highest and longest one: a table of contents has the labels, too.
    section = min(
        sections,
        default=None,
        key=lambda section: (
            section.word != reference.word,
            section.number != reference.number,
            0 if reference.number else len(_list_title_stems(section, query)),
            section.level,
            section.start - section.end,
            section.start,
        ),
    )
    return None if section is None else skip_heading(section, query.state)


def _find_item(document: _LabeledDocument, reference: SectionReference, topic: set[str]) -> NumberedSection | None:
    """Return the item of a list in a document with the number of a reference, or None.

    Of several lists, the one below the heading with the most stems of the topic is preferred, then the longest one.
    """
    query, headed_sections = document.query, document.headed_sections
    text = query.state.documents.read_text(document.record.id)
    items = [item for item in document.line_sections if text[item.start : item.start + 1] != b"#"]
    starts = [section.start for section in headed_sections]
    headings = [bisect_right(starts, item.start) - 1 for item in items]  # of the innermost section; -1: none
    num_items = Counter(headings)

    def rate(index: int) -> tuple[int, int, int]:
        """Return the sort key of an item: the words missing in the heading above it, and the length of its list."""
        heading = headed_sections[headings[index]] if headings[index] >= 0 else None
        stems = set() if heading is None else _list_title_stems(heading, query)
        return len(topic - stems), -num_items[headings[index]], index

    index = min((index for index, item in enumerate(items) if item.number == reference.number), default=None, key=rate)
    if index is None:
        return None
    item, heading = items[index], headings[index]
    end = _ITEM_END_PATTERN.search(text, item.start, item.end)
    return item._replace(
        heading=headed_sections[heading].heading if heading >= 0 else "",
        text_start=item.start,
        end=item.end if end is None else end.start(),
    )


def _find_around_hit(
    hits: Sequence[Hit], documents: Sequence[_LabeledDocument], reference: SectionReference
) -> NumberedSection | None:
    """Return the numbered section around the first of the ``hits`` whose text has the topic of a question, or None."""
    documents_by_key = {document.record.key: document for document in documents}
    for hit in hits:
        document = documents_by_key.get(hit.document)
        topic = set() if document is None else list_topic_stems(reference, document.record, document.query)
        if document is None or not topic or not topic <= set(map(document.query.stem, segment_words(hit.text))):
            continue
        sections = [
            section
            for section in document.headed_sections
            if section.number and section.start <= hit.start < section.end
        ]
        if sections:
            return skip_heading(sections[-1], document.query.state)
    return None


def skip_heading(section: NumberedSection, state: State) -> NumberedSection:
    """Return a section whose text begins after its heading, and after the line below it ("-----")."""
    if section.text_start > section.start:
        return section
    text = state.documents.read_text_slice(section.record.id, section.start, section.end)
    match = _HEADING_LINES_PATTERN.match(text)
    return section._replace(text_start=section.start + len(match[0].encode())) if match is not None else section


def _narrow_section(
    section: NumberedSection, items: Sequence[str], state: State, *, must_exist: bool = False
) -> NumberedSection | None:
    """Return the item of a section at the end of a path of labels: ``("b", "ii")`` is item ii below item b.

    An item ends at the next one that is not indented more. If an item of the path is missing, the result is None.
    However, if the part above it has no such items at all, that part is returned, unless the item ``must_exist``.
    """
    if not items:
        return section
    text = state.documents.read_text_slice(section.record.id, section.start, section.end)
    start, end = len(text.encode()[: section.text_start - section.start].decode()), len(text)
    for item in items:
        label_pattern = re.compile(ITEM_SOURCE.format(item), re.IGNORECASE | re.MULTILINE)
        match = label_pattern.search(text, start, end)
        if match is None and (must_exist or _has_items(text[start:end], item)):
            return None
        if match is None:
            break
        max_indentation = len(match["indentation"])
        next_label_pattern = re.compile(
            rf"^[ \t]{{0,{max_indentation}}}(?:[-*+][ \t]+)?(?:\(?\w{{1,4}}[.)]|\d+(?:\.\d+)+)[ \t]", re.MULTILINE
        )
        next_match = next_label_pattern.search(text, match.end(), end)
        start, end = match.start(), end if next_match is None else next_match.start()
    start_byte = section.start + len(text[:start].encode())
    end_byte = section.start + len(text[:end].encode())
    return section._replace(start=start_byte, text_start=start_byte, end=end_byte)


def _has_items(text: str, item: str) -> bool:
    """True if several lines of a text begin with a label of the same kind as ``item``: a number or a letter."""
    label = r"\d{1,3}" if item.isdecimal() else "[a-z]"
    return len(re.findall(ITEM_SOURCE.format(label), text, re.MULTILINE)) > 1


def list_section_chunks(section: NumberedSection, state: State) -> list[int]:
    """Return the ids of the chunks of a section, at most ``_MAX_SECTION_CHUNKS``."""
    record = section.record

    def get_start(ordinal: int) -> int:
        """Return the offset at which a chunk of the document starts."""
        return state.chunks.get(record.get_chunk_id(ordinal)).start

    ordinals = range(record.chunk_count)
    first = max(0, bisect_right(ordinals, section.start, key=get_start) - 1)
    last = bisect_left(ordinals, section.end, key=get_start)
    return [record.get_chunk_id(ordinal) for ordinal in ordinals[first:last][:_MAX_SECTION_CHUNKS]]


def list_topic_stems(reference: SectionReference, record: DocumentRecord, query: Query, heading: str = "") -> set[str]:
    """Return the stems of the other words of a question that the title and key of a document and a heading lack."""
    name = f"{record.title or ''} {record.key} {heading}"
    return set(map(query.stem, reference.other_words)) - _list_stems(name, query)


def _list_stems(name: str, query: Query) -> set[str]:
    """Return the stems of the words in the name of a document or section."""
    return set(map(query.stem, segment_words(name.replace("_", " "))))


def _list_title_stems(section: NumberedSection, query: Query) -> set[str]:
    """Return the stems of the words in the heading of a section, without the headings above it."""
    return set(map(query.stem, segment_words(section.heading.rpartition(" > ")[2])))


@dataclass
class _LabeledDocument:
    """A document whose sections a question can mean. They are listed on first use, once for the question."""

    record: DocumentRecord
    query: Query

    @cached_property
    def headed_sections(self) -> list[NumberedSection]:
        """The sections that begin with a heading."""
        sections = self.query.state.documents.get_sections(self.record.id)
        headed_sections = []
        for index, section in enumerate(sections):
            match = LABEL_PATTERN.match(section.title)
            number, word = ("", "") if match is None else (match["number"].lower(), (match["word"] or "").lower())
            path = " > ".join(build_heading_path(sections, index))
            headed_sections.append(
                NumberedSection(
                    self.record, number, word, path, section.level, section.start, section.start, section.end
                )
            )
        return headed_sections

    @cached_property
    def line_sections(self) -> list[NumberedSection]:
        """The sections that begin with a line with a label, and end at the next label not below them.

        After 4.2, these are 4.3 and 5. A label without a word such as "section" counts only if there is also a line
        with the number before, after or above it: 4.1, 4.3 or 4. The heading is the text up to a period or the end of
        the line.
        """
        if self.record.size > _MAX_TEXT_BYTES:
            return []
        text = self.query.state.documents.read_text(self.record.id).decode()
        labels = list(islice(LINE_PATTERN.finditer(text), _MAX_LABELS))
        numbers = [match["number"].lower() for match in labels]
        distinct_numbers = set(numbers)
        characters = [match.start() for match in labels] + [len(text)]
        offsets = list(accumulate(len(text[start:end].encode()) for start, end in pairwise([0, *characters])))
        ends = _find_ends(numbers, [match["word"] is not None for match in labels])
        sections = []
        for index, (match, number) in enumerate(zip(labels, numbers, strict=True)):
            word = (match["word"] or "").lower()
            if not word and _list_neighbors(number).isdisjoint(distinct_numbers):
                continue
            end = ends[index]
            heading_match = _LINE_HEADING_PATTERN.match(text, match.end(), characters[end])
            # A line without text below it is no heading.
            has_heading = heading_match is not None and heading_match.end() < characters[end]
            heading = text[
                match.start() : heading_match.end() if heading_match is not None and has_heading else match.end()
            ]
            sections.append(
                NumberedSection(
                    self.record,
                    number,
                    word,
                    " ".join(heading.split()).strip("*#-+.: "),
                    number.count(".") + 1,
                    offsets[index],
                    offsets[index] + len(heading.encode()),
                    offsets[end],
                    is_line=text[match.start()] != "#",
                    has_heading=has_heading,
                )
            )
        return sections

    @property
    def label_words(self) -> set[str]:
        """The words in its labels, such as "§" and, for a label without a word, the empty word.

        The labels are in its headings or, if these have none, at the start of its lines.
        """
        words = {section.word for section in self.headed_sections if section.number}
        return words or {section.word for section in self.line_sections}


def _find_ends(numbers: Sequence[str], have_words: Sequence[bool]) -> list[int]:
    """Return for each label the index of the label that ends its section, or the number of labels for the last ones.

    ``numbers`` are the numbers of the labels. ``have_words`` is True for each label with a word ("Art. 4"). Only such a
    label ends the section of another: the numbers of the items in it do not.

    >>> _find_ends(["4.1", "4.2", "7", "5", "1"], [False] * 5)
    [1, 3, 4, 4, 5]
    >>> _find_ends(["4", "1", "2", "5"], [True, False, False, True])
    [3, 2, 4, 4]
    """
    next_indexes: dict[str, int] = {}  # of each number after the current one
    next_indexes_with_words: dict[str, int] = {}
    ends = [len(numbers)] * len(numbers)
    for index in range(len(numbers) - 1, -1, -1):
        indexes = next_indexes_with_words if have_words[index] else next_indexes
        following_indexes = map(indexes.get, _list_following_numbers(numbers[index]))
        ends[index] = min((other for other in following_indexes if other is not None), default=len(numbers))
        next_indexes[numbers[index]] = index
        if have_words[index]:
            next_indexes_with_words[numbers[index]] = index
    return ends


def _split_number(number: str) -> list[str]:
    """Return the parts of a number in digits: 12 and 3 of ``12.3a``."""
    return number.rstrip("abcdefghijklmnopqrstuvwxyz").split(".")


def _list_neighbors(number: str) -> set[str]:
    """Return the numbers before, after and above a number: 4.1, 4.3 and 4 for 4.2."""
    *upper, last = _split_number(number)
    return {".".join(upper), *(".".join([*upper, str(int(last) + step)]) for step in (-1, 1))}


def _list_following_numbers(number: str) -> set[str]:
    """Return the numbers that can follow a section and those below it: 4.3 and 5 for 4.2.

    After a table of contents, or in a list, the numbers begin again: with 1, or with 4.1.
    """
    parts = _split_number(number)
    first_numbers = {"1", ".".join([*parts[:-1], "1"])}
    return {".".join([*parts[:depth], str(int(part) + 1)]) for depth, part in enumerate(parts)} | first_numbers
