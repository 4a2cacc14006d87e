"""Sections that a question names by their number: "What does section 4.2 say?", "Was steht in § 5?". The *label* of a
section is its number with a word, if it has one: ``4.2``, ``Article 7``, ``§ 5``.

In: a question, and the hits of its search. Out: the section, in the first document of the hits that has it. It is below
a heading with the label or, in a text without such a heading, begins with a line that begins with the label.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ..retrieval.evidence import Hit
from ..retrieval.query import Query
from ..structures.documents.documents import DocumentRecord, build_heading_path
from ..structures.state import State
from ..text.languages import detect_question_language
from ..text.patterns import compile_lazily
from ..text.question_words import load_question_words
from ..text.words import FUNCTION_WORDS, segment_words

#: The words before the number of a section.
_SECTION_WORDS = (
    "section|sec|clause|article|art|paragraph|chapter|appendix|annex|schedule|rule|part"
    "|abschnitt|artikel|kapitel|paragraf|absatz|ziffer|klausel|anhang|anlage|chapitre|annexe|clausule|paragraphe"
    "|sección|artículo|capítulo|cláusula|anexo|sezione|articolo|capitolo|allegato|seção|artigo|hoofdstuk|bijlage"
)
#: A number such as 4, 4.2 or 12a, a Roman numeral, or a letter; the last two are in capitals.
_NUMBER = r"\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?|(?-i:[IVXLC]{1,7}|[A-Z])"
_REFERENCE_PATTERN = compile_lazily(
    rf"(?:\b(?P<word>{_SECTION_WORDS})s?\b\.?\s*|§+\s*)(?P<number>{_NUMBER})(?![\w%]|\.\d)", re.IGNORECASE
)
#: The label at the start of a heading.
_LABEL_PATTERN = compile_lazily(
    rf"\W{{0,3}}(?:(?P<word>{_SECTION_WORDS})\.?\s+|§+\s*)?(?P<number>{_NUMBER})(?!\w|\.\d)", re.IGNORECASE
)
#: The label at the start of a line, which can be an item or bold.
_LINE_PATTERN = compile_lazily(
    rf"^[ \t]*(?:[-*+#]+[ \t]+)?\**(?:(?P<word>{_SECTION_WORDS})\.?[ \t]+|§+[ \t]*)?"
    r"(?P<number>\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?)(?:[.):]\**(?=[ \t])|(?=[ \t]))[ \t]+(?=\S)",
    re.IGNORECASE | re.MULTILINE,
)
#: Words that ask for the content of a section, in addition to function words.
_REQUEST_WORDS = frozenset(
    """
    address say says said state states stated stipulate stipulates provide provides cover covers contain contains
    include includes regulate regulates govern governs require requires mean means deal deals content contents text
    wording read reads summarize summarise summary overview describe explain show quote give tell print please
    steht sagt besagt regelt lautet bestimmt beinhaltet enthält inhalt zusammenfassung zusammen fasse erkläre zeige
    dit stipule prévoit contient énonce résume résumer résumé explique contenu
    dice establece contiene regula resume resumen explica contenido prevede stabilisce riassumi contenuto
    """.split()
)
#: A question for what a section says about something.
_ABOUT_PATTERN = compile_lazily(r"\b(?:say|says|state|states|mention|mentions)\b.*\b(?:about|on)\b", re.IGNORECASE)
#: The maximum size of a text whose lines are searched for labels, in bytes.
_MAX_TEXT_BYTES = 4_000_000
#: The maximum number of chunks of a section that are read.
_MAX_SECTION_CHUNKS = 64


class SectionReference(NamedTuple):
    """A section that a question names: its ``number`` in lowercase, and the ``word`` before it, or an empty string.

    ``other_words`` are the words of the question that neither name the section nor ask for its content.
    ``has_about`` is True if the question asks what the section says about something.
    """

    number: str
    word: str
    other_words: frozenset[str]
    has_about: bool


class NumberedSection(NamedTuple):
    """A section of a document: bytes ``start`` to ``end`` of its text, below ``heading`` (empty: it has none)."""

    record: DocumentRecord
    start: int
    end: int
    heading: str


def find_section_reference(question: str, likely_language: str | None = None) -> SectionReference | None:
    """Return the section that a question names by its number, or None if it names no section or several.

    ``likely_language`` is the question's language if its words do not show one.
    """
    matches = list(_REFERENCE_PATTERN.finditer(question))
    if len(matches) != 1:
        return None
    match = matches[0]
    other_text = f"{question[: match.start()]} {question[match.end() :]}"
    vocabulary = load_question_words(detect_question_language(question, likely_language))
    function_words = FUNCTION_WORDS if vocabulary is None else FUNCTION_WORDS | vocabulary.function_words
    other_words = frozenset(segment_words(other_text)) - function_words - _REQUEST_WORDS
    return SectionReference(
        match["number"].lower(), (match["word"] or "").lower(), other_words, bool(_ABOUT_PATTERN.search(other_text))
    )


def find_numbered_section(hits: Sequence[Hit], reference: SectionReference, query: Query) -> NumberedSection | None:
    """Return the section in the first document of the ``hits`` that has it, or None.

    Documents with more words of the question in their titles or keys come first.
    """
    keys = list(dict.fromkeys(hit.document for hit in hits))
    records = filter(None, map(query.state.documents.find_by_key, keys))
    for record in sorted(records, key=lambda record: len(list_topic_stems(reference, record, query))):
        section = _find_by_heading(record, reference, query.state) or _find_by_line(record, reference, query.state)
        if section is not None:
            return section
    return None


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


def list_topic_stems(reference: SectionReference, record: DocumentRecord, query: Query) -> set[str]:
    """Return the stems of the other words of a question that are not in the title or the key of a document."""
    title = segment_words(f"{record.title or ''} {record.key}".replace("_", " "))
    return set(map(query.stem, reference.other_words)) - set(map(query.stem, title))


def _find_by_heading(record: DocumentRecord, reference: SectionReference, state: State) -> NumberedSection | None:
    """Return the section of a document whose heading begins with the label of a reference, or None.

    A heading with the same word, such as "Chapter", is preferred, then the one of the highest level.
    """
    sections = state.documents.get_sections(record.id)
    candidates = []
    for index, section in enumerate(sections):
        match = _LABEL_PATTERN.match(section.title)
        if match is not None and match["number"].lower() == reference.number:
            candidates.append(((match["word"] or "").lower() != reference.word, section.level, index))
    if not candidates:
        return None
    index = min(candidates)[-1]
    heading = " > ".join(build_heading_path(sections, index))
    return NumberedSection(record, sections[index].start, sections[index].end, heading)


def _find_by_line(record: DocumentRecord, reference: SectionReference, state: State) -> NumberedSection | None:
    """Return the text after a line that begins with the label of a reference, or None.

    It ends at the next label that is not below it: 4.3 or 5 for 4.2. Without a word such as "section", there must also
    be a line with the number before, after or above it: 4.1, 4.3 or 4. In a table of contents, labels are close to each
    other, so the longest such text is returned.
    """
    if not reference.number[0].isdecimal() or record.size > _MAX_TEXT_BYTES:
        return None
    text = state.documents.read_text(record.id).decode()
    labels = list(_LINE_PATTERN.finditer(text))
    numbers = {match["number"].lower() for match in labels}
    *upper, last = reference.number.rstrip("abcdefghijklmnopqrstuvwxyz").split(".")
    neighbors = {".".join(upper), *(".".join([*upper, str(int(last) + step)]) for step in (-1, 1))}
    has_neighbor = not numbers.isdisjoint(neighbors)
    spans = []
    for index, match in enumerate(labels):
        if match["number"].lower() == reference.number and (has_neighbor or match["word"]):
            following = (other for other in labels[index + 1 :] if _follows(other["number"].lower(), reference.number))
            end = next((other.start() for other in following), len(text))
            spans.append((end - match.start(), match.start(), end))
    if not spans:
        return None
    _, start, end = max(spans, key=lambda span: (span[0], -span[1]))
    start_byte = len(text[:start].encode())
    return NumberedSection(record, start_byte, start_byte + len(text[start:end].encode()), "")


def _follows(number: str, other: str) -> bool:
    """True if a section with ``number`` can be the first one after the section ``other`` and those below it.

    >>> [_follows(number, "4.2") for number in ("4.3", "5", "4.2.1", "1", "4.7")]
    [True, True, False, False, False]
    """
    parts = other.rstrip("abcdefghijklmnopqrstuvwxyz").split(".")
    return any(
        number == ".".join([*parts[:depth], str(int(part) + 1)]) for depth, part in enumerate(parts) if part.isdecimal()
    )
