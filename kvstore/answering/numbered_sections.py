"""Sections that a question names by their number ("What does section 4.2 say?", "Was steht in § 5?") or asks for
("Which section covers notice?"). The *label* of a section is its number with a word, if it has one: ``4.2``, ``§ 5``.

In: a question, and the hits of its search. Out: the section, in the first document of the hits that has it. It is below
a heading with the label or, in a text without such headings, begins with a line that begins with the label.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain, islice, pairwise
from typing import NamedTuple

from ..retrieval.evidence import Hit
from ..retrieval.query import Query
from ..structures.documents.documents import DocumentRecord, build_heading_path
from ..structures.state import State
from ..text.languages import detect_question_language
from ..text.patterns import compile_lazily
from ..text.question_words import load_question_words
from ..text.words import FUNCTION_WORDS, segment_words

#: The name of the strategy in evidence from a numbered section.
SECTION = "section"
#: The words before the number of a section.
_SECTION_WORDS = (
    "section|subsection|sec|clause|subclause|article|art|paragraph|chapter|appendix|annex|schedule|rule|part|point|item"
    "|step|abschnitt|artikel|kapitel|paragraf|absatz|ziffer|klausel|anhang|anlage|punkt|schritt"
    "|chapitre|annexe|clausule|paragraphe|étape"
    "|sección|artículo|capítulo|cláusula|anexo|sezione|articolo|capitolo|allegato|seção|artigo|hoofdstuk|bijlage"
)
#: A number such as 4, 4.2 or 12a, a Roman numeral, or a letter; the last two are in capitals.
_NUMBER = r"\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?|(?-i:[IVXLC]{1,7}|[A-Z])"
#: The words before the number of an item of a list, and of those that no heading has.
_STEP_WORDS = frozenset(("step", "schritt", "étape"))
_ITEM_WORDS = _STEP_WORDS | {"item", "point", "punkt"}
#: The labels of items below a numbered section, such as ``(b)(ii)`` or ``Abs. 2``; a sentence has no label.
_ITEM_LABELS = (
    r"(?:\s?\([a-z\d]{1,4}\)|,?\s+(?:Abs(?:atz|\.)?|Nr\.?|Ziff(?:er|\.)?|lit\.?|Satz)\s*(?:\d{1,3}|[a-z])(?!\w))*"
)
_REFERENCE_PATTERN = compile_lazily(
    rf"(?P<word>\b(?:{_SECTION_WORDS})(?=s?\b)|§)(?:s?\b\.?|§*)\s*(?P<number>{_NUMBER})(?P<items>{_ITEM_LABELS})(?![\w%]|\.\d)",
    re.IGNORECASE,
)
#: The phrase that names a section at the start or at the end of a question: "Under clause 4.2 of the lease,".
_PHRASE_PATTERN = compile_lazily(
    r"(?:\A|(?<=[^\s,])[\s,]+)(?:according to|pursuant to|in accordance with|by|from|in|of|per|under|gemäß|laut|nach)"
    rf"\s+(?:the\s+)?(?:(?:{_SECTION_WORDS})s?\b\.?\s*|§+\s*)(?:{_NUMBER}){_ITEM_LABELS}(?:\s+(?:of|der|des)(?:\s+[\w.'’-]+){{1,5}}?)?"
    r"(?:(?<=[\w)])(?=\s*[?.!]*\s*\Z)|,\s+)",
    re.IGNORECASE,
)
_ITEM_LABEL_PATTERN = compile_lazily(r"\(([a-z\d]{1,4})\)|(?:abs(?:atz|\.)?|nr\.?|ziff(?:er|\.)?|lit\.?)\s*(\d+|[a-z])")
#: The label at the start of a heading.
_LABEL_PATTERN = compile_lazily(
    rf"[^\w§]{{0,3}}(?:(?P<word>{_SECTION_WORDS}|§)(?:\.?\s+|(?<=§)\s*))?(?P<number>{_NUMBER})(?!\w|\.\d)",
    re.IGNORECASE,
)
#: The label at the start of a line, which can be an item or bold.
_LINE_PATTERN = compile_lazily(
    rf"^[ \t]*(?:[-*+#]+[ \t]+)?\**(?:(?P<word>{_SECTION_WORDS}|§)(?:\.?[ \t]+|(?<=§)[ \t]*))?"
    r"(?P<number>\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?)(?:[.):]\**(?=[ \t])|(?=[ \t]))[ \t]+(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
#: Words that ask for the content of a section, in addition to function words.
_REQUEST_WORDS = frozenset(
    """
    address say says said state states stated stipulate stipulates provide provides cover covers contain contains
    happen happens decided agreed discussed resolved allow allows permit permits forbid forbids prohibit prohibits
    include includes regulate regulates govern governs require requires mean means deal deals content contents text
    wording read reads summarize summarise summary overview describe explain show quote give tell print please
    steht sagt besagt regelt lautet bestimmt beinhaltet enthält inhalt zusammenfassung zusammen fasse erkläre zeige
    gilt geht behandelt findet
    dit stipule prévoit contient énonce résume résumer résumé explique contenu
    dice establece contiene regula resume resumen explica contenido prevede stabilisce riassumi contenuto
    """.split()
)
#: A question for the section about something.
_TOPIC_PATTERN = compile_lazily(
    r"\W*(?:in )?(?:which|what)\s+(?:section|clause|article|paragraph|chapter|appendix|annex|schedule)s?\b.*\b"
    r"(?:about|address(?:es)?|contains?|covers?|deals?|defines?|describes?|discuss(?:es)?|explains?|governs?|mentions?"
    r"|regulates?|specif(?:y|ies)|described|defined|explained|regulated|covered|mentioned|find)\b"
    r"|\W*(?:in\s+)?welche[nmrs]?\s+(?:paragra(?:f|ph)(?:en)?|artikel|abschnitt|absatz|kapitel|klausel|ziffer)\b"
    r"|\W*(?:dans\s+)?quel(?:le)?\s+(?:article|chapitre|clause|paragraphe|section)\b"
    r"|\W*(?:en\s+)?qué\s+(?:artículo|capítulo|cláusula|sección)\b",
    re.IGNORECASE,
)
#: The start of a question whose subject is a section: "What does clause 4 allow the tenant to do?"
_SUBJECT_PATTERN = compile_lazily(r"\W*what\s+(?:do|does|did)\s+(?:the\s+)?", re.IGNORECASE)
#: A question for what a section says about something.
_ABOUT_PATTERN = compile_lazily(r"\b(?:say|says|state|states|mention|mentions)\b.*\b(?:about|on)\b", re.IGNORECASE)
#: Words of a question for the section about something, in addition to words that ask for the content of a section.
_TOPIC_REQUEST_WORDS = frozenset(_SECTION_WORDS.split("|")) | frozenset(
    """
    paragrafen paragraphen parle traite concerne trata habla
    sections clauses articles paragraphs chapters rules parts deal defines define describes explains mention mentions
    discuss discusses governs govern specify specifies described defined explained regulated covered mentioned find
    """.split()
)
#: The rest of a heading in a line, up to a period or the end of the line, and the space after it.
_LINE_HEADING_PATTERN = compile_lazily(r"[^\n.:]{1,80}(?:[.:](?=\s)|(?=\n|\Z))\**\s*")
#: The line of a heading, a line below it, and the space after them.
_HEADING_LINES_PATTERN = compile_lazily(r"[^\n]*\n(?:[-=~^*]{3,}[ \t]*(?:\n|\Z))?\s*")
#: The end of an item: a line that is not indented, after an empty line, or a heading.
_ITEM_END_PATTERN = re.compile(rb"\n[ \t]*\n(?=\S)|\n(?=#)")
#: The maximum number of lines with labels whose sections are listed.
_MAX_LABELS = 2000
#: The maximum size of a text whose lines are searched for labels, in bytes.
_MAX_TEXT_BYTES = 4_000_000
#: The maximum number of chunks of a section that are read.
_MAX_SECTION_CHUNKS = 64


class SectionReference(NamedTuple):
    """A section that a question names or asks for.

    ``number`` is its number in lowercase, or empty if the question asks for the section about a topic. ``word`` is the
    word before the number, such as "section", or empty. ``items`` are the labels of items below it: b and ii for
    "3.1(b)(ii)". ``other_words`` are the words of the question that neither name the section nor ask for its content.
    ``has_about`` is True if the question asks what the section says about them.
    """

    number: str
    word: str
    items: tuple[str, ...]
    other_words: frozenset[str]
    has_about: bool


class NumberedSection(NamedTuple):
    """A section of a document: bytes ``start`` to ``end`` of its text, and the titles of the headings that lead to it.

    The label at the start of its own heading has the ``number`` and the ``word``, or empty strings. The text after the
    heading begins at byte ``text_start``.
    """

    record: DocumentRecord
    number: str
    word: str
    heading: str
    level: int
    start: int
    text_start: int
    end: int


def find_section_reference(question: str, likely_language: str | None = None) -> SectionReference | None:
    """Return the section that a question names or asks for, or None if there is no section in it or several.

    ``likely_language`` is the question's language if its words do not show one.
    """
    matches = list(_REFERENCE_PATTERN.finditer(question))
    is_about_topic = not matches and _TOPIC_PATTERN.match(question) is not None
    if len(matches) != 1 and not is_about_topic:
        return None
    number, word, items, other_text = "", "", (), question
    if matches:
        (match,) = matches
        number, word = match["number"].lower(), (match["word"] or "").lower()
        items = tuple(filter(None, chain(*_ITEM_LABEL_PATTERN.findall(match["items"].lower()))))
        other_text = f"{question[: match.start()]} {question[match.end() :]}"
    vocabulary = load_question_words(detect_question_language(question, likely_language))
    function_words = FUNCTION_WORDS if vocabulary is None else FUNCTION_WORDS | vocabulary.function_words
    other_words = frozenset(segment_words(other_text)) - function_words - _REQUEST_WORDS
    if is_about_topic:
        other_words -= _TOPIC_REQUEST_WORDS
    is_subject = bool(matches) and _SUBJECT_PATTERN.fullmatch(question, 0, matches[0].start()) is not None
    return SectionReference(
        number, word, items, other_words, has_about=is_subject or bool(_ABOUT_PATTERN.search(other_text))
    )


def mentions_section(reference: SectionReference, text: str) -> bool:
    """True if a text mentions the number of a section after a word such as "section", or in the label of a line.

    >>> reference = find_section_reference("Was steht in § 14?")
    >>> [mentions_section(reference, text) for text in ("Siehe Abs. 2 des § 14.", "## 14. Haftung", "Um 14 Uhr.")]
    [True, True, False]
    """
    patterns = (_REFERENCE_PATTERN, _LINE_PATTERN)
    return any(match["number"].lower() == reference.number for pattern in patterns for match in pattern.finditer(text))


def remove_reference(question: str) -> str:
    """Return a question without the phrase that names a section, or the whole question if it has no such phrase.

    >>> remove_reference("Under clause 4.2 of the lease, who pays for keys?")
    'Who pays for keys?'
    >>> remove_reference("Who pays for keys according to § 4?"), remove_reference("Who signs section 4 notices?")
    ('Who pays for keys?', 'Who signs section 4 notices?')
    """
    match = _PHRASE_PATTERN.search(question)
    if match is None:
        return question
    before, after = question[: match.start()].rstrip(), question[match.end() :].lstrip()
    if before:
        return f"{before}{after}" if not after[:1].isalnum() else f"{before} {after}"
    return after[:1].upper() + after[1:]


def find_section(hits: Sequence[Hit], reference: SectionReference, query: Query) -> NumberedSection | None:
    """Return the section in the first document of the ``hits`` that has it, or None.

    Documents with more words of the question in their titles or keys come first. A section about a topic has all other
    words of the question in its heading, or is the numbered section around the first hit with these words.
    """
    keys = list(dict.fromkeys(hit.document for hit in hits))
    records = list(filter(None, map(query.state.documents.find_by_key, keys)))
    records.sort(key=lambda record: len(list_topic_stems(reference, record, query)))
    sections = filter(None, (_find_in_document(record, reference, query) for record in records))
    section = next(sections, None)
    if section is not None and reference.word == "§" != section.word:
        # "§ 5" is not "5 Price", unless no document has a paragraph sign.
        section = next((other for other in sections if other.word == "§"), section)
    if section is not None:
        return _narrow_section(section, reference.items, query.state)
    return None if reference.number else _find_around_hit(hits, reference, query)


def _find_in_document(record: DocumentRecord, reference: SectionReference, query: Query) -> NumberedSection | None:
    """Return the section of a document that a question names by its number, or whose heading has its topic, or None."""
    topic = list_topic_stems(reference, record, query)
    headed_sections = _list_headed_sections(record, query.state)
    item = _find_item(record, reference, headed_sections, query) if reference.word in _ITEM_WORDS else None
    if item is not None or reference.word in _STEP_WORDS:
        return item

    def is_right(section: NumberedSection) -> bool:
        """True if a section has the number of the reference or, without a number, the topic in its heading."""
        if reference.number:
            return section.number == reference.number
        return bool(topic) and topic <= _list_title_stems(section, query)

    sections = list(filter(is_right, headed_sections))
    sections = sections or list(filter(is_right, _list_sections_of_lines(record, query.state)))
    # If several match, one with the same word, such as "Chapter", is preferred, then the one whose heading has the
    # fewest words besides the topic, then the highest and longest one: a table of contents has the labels, too.
    section = min(
        sections,
        default=None,
        key=lambda section: (
            section.word != reference.word,
            0 if reference.number else len(_list_title_stems(section, query)),
            section.level,
            section.start - section.end,
            section.start,
        ),
    )
    return None if section is None else _skip_heading(section, query.state)


def _find_item(
    record: DocumentRecord, reference: SectionReference, headed_sections: Sequence[NumberedSection], query: Query
) -> NumberedSection | None:
    """Return the item of a list in a document with the number of a reference, or None.

    Of several lists, the one below the heading with the most words of the question is preferred, then the longest one.
    """
    topic = list_topic_stems(reference, record, query)
    text = query.state.documents.read_text(record.id)
    items = [item for item in _list_sections_of_lines(record, query.state) if text[item.start : item.start + 1] != b"#"]
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


def _find_around_hit(hits: Sequence[Hit], reference: SectionReference, query: Query) -> NumberedSection | None:
    """Return the numbered section around the first of the ``hits`` whose text has the topic of a question, or None."""
    for hit in hits:
        record = query.state.documents.find_by_key(hit.document)
        topic = set() if record is None else list_topic_stems(reference, record, query)
        if record is None or not topic or not topic <= set(map(query.stem, segment_words(hit.text))):
            continue
        sections = [
            section
            for section in _list_headed_sections(record, query.state)
            if section.number and section.start <= hit.start < section.end
        ]
        if sections:
            return _skip_heading(sections[-1], query.state)
    return None


def _skip_heading(section: NumberedSection, state: State) -> NumberedSection:
    """Return a section whose text begins after its heading, and after the line below it ("-----")."""
    if section.text_start > section.start:
        return section
    text = state.documents.read_text_slice(section.record.id, section.start, section.end)
    match = _HEADING_LINES_PATTERN.match(text)
    return section._replace(text_start=section.start + len(match[0].encode())) if match is not None else section


def _narrow_section(section: NumberedSection, items: Sequence[str], state: State) -> NumberedSection:
    """Return the part of a section that is the item with the last of the labels ``items``, each below the one before.

    An item ends at the next one that is not indented more. If an item is missing, the item above it is returned.
    """
    if not items:
        return section
    text = state.documents.read_text_slice(section.record.id, section.start, section.end)
    start, end = len(text.encode()[: section.text_start - section.start].decode()), len(text)
    for item in items:
        label = re.compile(rf"^([ \t]*)(?:[-*+][ \t]+)?\(?{item}[.)][ \t]", re.IGNORECASE | re.MULTILINE)
        match = label.search(text, start, end)
        if match is None:
            break
        next_label = re.compile(
            rf"^[ \t]{{0,{len(match[1])}}}(?:[-*+][ \t]+)?(?:\(?\w{{1,4}}[.)]|\d+(?:\.\d+)+)[ \t]", re.MULTILINE
        )
        next_match = next_label.search(text, match.end(), end)
        start, end = match.start(), end if next_match is None else next_match.start()
    start_byte = section.start + len(text[:start].encode())
    end_byte = section.start + len(text[:end].encode())
    return section._replace(start=start_byte, text_start=start_byte, end=end_byte)


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
    title = segment_words(f"{record.title or ''} {record.key} {heading}".replace("_", " "))
    return set(map(query.stem, reference.other_words)) - set(map(query.stem, title))


def _list_title_stems(section: NumberedSection, query: Query) -> set[str]:
    """Return the stems of the words in the heading of a section, without the headings above it."""
    return set(map(query.stem, segment_words(section.heading.rpartition(" > ")[2])))


def _list_headed_sections(record: DocumentRecord, state: State) -> list[NumberedSection]:
    """Return the sections of a document that begin with a heading."""
    sections = state.documents.get_sections(record.id)
    headed_sections = []
    for index, section in enumerate(sections):
        match = _LABEL_PATTERN.match(section.title)
        number, word = ("", "") if match is None else (match["number"].lower(), (match["word"] or "").lower())
        path = " > ".join(build_heading_path(sections, index))
        headed_sections.append(
            NumberedSection(record, number, word, path, section.level, section.start, section.start, section.end)
        )
    return headed_sections


def _list_sections_of_lines(record: DocumentRecord, state: State) -> list[NumberedSection]:
    """Return the sections of a document that begin with a line with a label, and end at the next label not below them.

    After 4.2, these are 4.3 and 5. A label without a word such as "section" counts only if there is also a line with
    the number before, after or above it: 4.1, 4.3 or 4. The heading is the text up to a period or the end of the line.
    """
    if record.size > _MAX_TEXT_BYTES:
        return []
    text = state.documents.read_text(record.id).decode()
    labels = list(islice(_LINE_PATTERN.finditer(text), _MAX_LABELS))
    numbers = [match["number"].lower() for match in labels]
    distinct_numbers = set(numbers)
    characters = [match.start() for match in labels] + [len(text)]
    offsets = list(accumulate(len(text[start:end].encode()) for start, end in pairwise([0, *characters])))
    sections = []
    for index, (match, number) in enumerate(zip(labels, numbers, strict=True)):
        word = (match["word"] or "").lower()
        if not word and _list_neighbors(number).isdisjoint(distinct_numbers):
            continue
        following_numbers = _list_following_numbers(number)
        end = next((other for other in range(index + 1, len(labels)) if numbers[other] in following_numbers), -1)
        heading_match = _LINE_HEADING_PATTERN.match(text, match.end(), characters[end])
        # A line without text below it is no heading.
        has_heading = heading_match is not None and heading_match.end() < characters[end]
        heading = text[
            match.start() : heading_match.end() if heading_match is not None and has_heading else match.end()
        ]
        sections.append(
            NumberedSection(
                record,
                number,
                word,
                " ".join(heading.split()).strip("*#-+.: "),
                number.count(".") + 1,
                offsets[index],
                offsets[index] + len(heading.encode()),
                offsets[end],
            )
        )
    return sections


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
