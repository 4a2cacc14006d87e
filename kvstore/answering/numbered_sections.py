"""Sections that a question names by their number ("What does section 4.2 say?", "Was steht in § 5?") or asks for
("Which section covers notice?"). The *label* of a section is its number with a word, if it has one: ``4.2``, ``§ 5``.

In: a question, and the hits of its search. Out: the section, in each document of the hits that the question can mean.
It is below a heading with the label or, in a text without such headings, begins with a line that begins with the label.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, groupby, islice, pairwise
from typing import NamedTuple

from ..retrieval.evidence import Hit
from ..retrieval.query import Query
from ..structures.documents.documents import DocumentRecord, build_heading_path
from ..structures.state import State
from ..text.languages import detect_question_language
from ..text.normalize import fold_text
from ..text.number_words import spell_number
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
    "|sección|artículo|capítulo|cláusula|anexo|punto|paso|sezione|articolo|capitolo|clausola|allegato|seção|artigo|ponto"
    "|passo|hoofdstuk|paragraaf|bijlage|punt|stap"
)
#: A number such as 4, 4.2 or 12a, a Roman numeral, or a letter; the last two are in capitals.
_NUMBER = r"\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?|(?-i:[IVXLC]{1,7}|[A-Z])"
#: The words before the number of an item of a list, and of those that no heading has.
_STEP_WORDS = frozenset(("step", "schritt", "étape", "paso", "passo", "stap"))
_ITEM_WORDS = _STEP_WORDS | {"item", "point", "punkt", "punto", "ponto", "punt"}
#: Words for a part of another kind than a section: "appendix 4" is not "Article 4". Other words can replace each other.
_SPECIAL_WORDS = {
    **dict.fromkeys("appendix annex schedule anhang anlage annexe anexo allegato bijlage".split(), "appendix"),
    **dict.fromkeys("chapter kapitel chapitre capítulo capitolo hoofdstuk".split(), "chapter"),
    "part": "part",
}
#: The kind of each word whose label belongs to it alone if a document has such labels: "§ 5" is then not "5 Price".
_EXCLUSIVE_WORDS = {
    **_SPECIAL_WORDS,
    **dict.fromkeys("article artikel artículo artigo articolo art".split(), "article"),
    "§": "§",
}
#: Words that can also name a thing with a number, unless the label of the section has the word: "What costs item 5?"
AMBIGUOUS_WORDS = frozenset(
    "article artikel artículo artigo articolo item part point punto ponto punt paso passo rule".split()
)
#: The ordinals from 1 in English, and the stems of those in German.
_ORDINALS = tuple(
    zip(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split(),
        "erst zweit dritt viert fünft sechst siebt acht neunt zehnt elft zwölft".split(),
        strict=True,
    )
)
#: The words before the label of an item below a numbered section. A sentence ("Satz") has no label.
_LABELED_ITEM = (
    r"(?:(?:Abs(?:atz)?|Nr|Ziff(?:er)?|lit|al(?:in[eé]a)?|apartado|apdo|p[aá]rr(?:afo)?|inciso|letra|letter[ae]|lett|comma"
    r"|par[aá]grafo|alínea|lid|onder)\b\.?)"
)
#: The labels of items below a numbered section, such as ``(b)(ii)`` or ``Abs. 2``.
_ITEM_LABELS = rf"(?:\s?\([a-z\d]{{1,4}}\)|,?\s+(?:{_LABELED_ITEM}|Satz)\s*(?:\d{{1,3}}|[a-z])(?!\w))*"
#: The label of an item before the section that has it: *apartado 2 del artículo 4*, *l'alinéa 2 de l'article 4*.
_OUTER_ITEM = (
    rf"(?:\b(?P<outer_item>{_LABELED_ITEM}\s*(?:\d{{1,3}}|[a-z]))\s+"
    r"(?:de (?:l['’]|la )|dell['’]|del(?:la)?\s|d[aeou]\s|des\s|der\s|van\s(?:het\s)?))?"
)
_REFERENCE_PATTERN = compile_lazily(
    rf"{_OUTER_ITEM}(?P<word>\b(?:{_SECTION_WORDS})(?=s?\b)|(?<!§)§)(?:s?\b\.?|§*+)\s*"
    rf"(?P<number>{_NUMBER})(?P<items>{_ITEM_LABELS})"
    r"(?![\w%]|\.\d|\s(?:[ap]\.?m|o['’]clock|[ckm]?[gm]|(?:day|week|month|year|hour|minute|euro|dollar|person)s?|percent"
    r"|people|uhr|tagen?|wochen|monaten?|jahren?|stunden|minuten|prozent)\b)",
    re.IGNORECASE,
)
#: A label with an ordinal in a Romance language or in Dutch.
_ORDINAL_LABEL_PATTERN = compile_lazily(
    rf"\b(?:{_SECTION_WORDS})\s+(?:[uú]nic|prim[aeio]|premi|second|segund|terc|terz|terti|deuxi|troisi|[cq]uart|quatri|quint"
    r"|cinqui|sext|sest|sixi|s[eé]pti|setti|octav|ottav|eerste|tweede|derde|vierde|vijfde)",
    re.IGNORECASE,
)
#: The end of a text before a number "I" that is a pronoun: "the clause I signed".
_DETERMINER_PATTERN = compile_lazily(r"\b(?:an?|any|each|every|my|our|that|the|this|what|which)\s+\Z", re.IGNORECASE)
#: The phrase that names a section at the start or at the end of a question: "Under clause 4.2 of the lease,".
_PHRASE_PATTERN = compile_lazily(
    r"(?:\A|(?<=[^\s,])[\s,]+)(?:according to|pursuant to|in accordance with|by|from|in|of|per|under|gemäß|laut|nach)"
    rf"\s+(?:the\s+)?(?:(?:{_SECTION_WORDS})s?\b\.?\s*|§+\s*)(?:{_NUMBER}){_ITEM_LABELS}(?:\s+(?:of|der|des)(?:\s+[\w.'’-]+){{1,5}}?)?"
    r"(?:(?<=[\w)])(?=\s*[?.!]*\s*\Z)|,\s+)",
    re.IGNORECASE,
)
#: A Roman number below 40: its tens and its units.
_ROMAN_PATTERN = compile_lazily(r"(?=.)(x{0,3})(i{1,3}|iv|vi{0,3}|ix|)")
_ITEM_LABEL_PATTERN = compile_lazily(rf"\(([a-z\d]{{1,4}})\)|\b{_LABELED_ITEM}\s*(\d+|[a-z])(?!\w)", re.IGNORECASE)
#: The label at the start of a heading.
_LABEL_PATTERN = compile_lazily(
    rf"[^\w§]{{0,3}}(?:(?P<word>{_SECTION_WORDS}|§)(?:\.?\s+|(?<=§)\s*))?(?P<number>{_NUMBER})(?!\w|\.\d)",
    re.IGNORECASE,
)
#: The label at the start of a line, which can be an item or bold.
_LINE_PATTERN = compile_lazily(
    rf"^[ \t]*(?:[-*+#]+[ \t]+)?\**(?:(?P<word>{_SECTION_WORDS}|§)(?:\.?[ \t]+|(?<=§)[ \t]*))?"
    r"(?P<number>\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?)"
    # A label with a word can be alone in its line: "Art. 4".
    r"(?:(?:[.):]\**(?=[ \t])|(?=[ \t]))[ \t]+(?=\S)|(?(word)[.):]*\**[ \t]*(?=\n)|(?!)))",
    re.IGNORECASE | re.MULTILINE,
)
#: Words that ask for the content of a section, in addition to function words.
_REQUEST_WORDS = frozenset(
    fold_text("""
    address say says said state states stated stipulate stipulates provide provides cover covers contain contains
    happen happens decided agreed discussed resolved allow allows permit permits forbid forbids prohibit prohibits
    include includes regulate regulates govern governs require requires mean means deal deals content contents text
    wording read reads summarize summarise summary overview describe explain show quote give tell print please
    steht sagt besagt regelt lautet bestimmt beinhaltet enthält inhalt zusammenfassung zusammen fasse erkläre zeige
    gilt geht behandelt findet
    dit stipule prévoit contient énonce résume résumer résumé explique contenu dispose indique précise traite
    parle décidé
    dice dicen establece contiene regula resume resumen explica contenido dispone prevé señala pone trata decidió acordó
    prevede stabilisce riassumi contenuto disciplina diz dispõe prevê estabelece contém conteúdo resuma
    zegt staat regelt bepaalt bevat luidt inhoud besloten
    """).split()
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
#: Parts of a question for what a section says about something: the verb, and the text after it.
_SAY_PATTERN = compile_lazily(r"\b(?:say|says|state|states|mention|mentions)\b", re.IGNORECASE)
_ABOUT_PATTERN = compile_lazily(r"\b(?:about|on|regarding|zu[mr]?|über)\b", re.IGNORECASE)
#: The phrase after the number of a section that names its document: "of the lease".
_DOCUMENT_PATTERN = compile_lazily(
    r"\s+(?:of|in|from|der|des|im|aus|du|de|del|della)\s+(?P<words>[^,?]{1,80})", re.IGNORECASE
)
#: Words of a question for the section about something, in addition to words that ask for the content of a section.
_TOPIC_REQUEST_WORDS = frozenset(fold_text(_SECTION_WORDS).split("|")) | frozenset(
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
#: A question for the changes in a version, or for a part of them.
_CHANGES_PATTERN = compile_lazily(
    r"\W*what(?:['’]s|\s+(?:are|has|have|is|was|were))?(?:\s+been|\s+the)?\s+"
    r"(?:changed|changes|different|new|(?P<part>added|deprecated|fixed|removed))\s+(?:for|in|with)\s+"
    r"(?:(?-i:[A-Z])[\w-]*\s+){0,2}(?:release\s+|version\s+)?v?(?P<version>\d+(?:\.\d+){1,5})\W*",
    re.IGNORECASE,
)
#: The maximum number of lines with labels whose sections are listed.
_MAX_LABELS = 10_000
#: The maximum size of a text whose lines are searched for labels, in bytes.
_MAX_TEXT_BYTES = 4_000_000
#: The maximum number of chunks of a section that are read.
_MAX_SECTION_CHUNKS = 64
#: The maximum number of sections of different documents that a question can mean.
_MAX_SECTIONS = 3


class SectionReference(NamedTuple):
    """A section that a question names or asks for.

    ``number`` is its number in lowercase, or empty if the question asks for the section about a topic. ``word`` is the
    word before the number, such as "section", or empty. ``items`` are the labels of items below it: b and ii for
    "3.1(b)(ii)". ``other_words`` are the words of the question that neither name the section nor ask for its content.
    ``has_about`` is True if the question asks what the section says about them. ``document_words`` are those that can
    name the document: in a question for a fact, the words of the phrase after the number, and otherwise all words that
    do not follow "about".
    """

    number: str
    word: str
    items: tuple[str, ...]
    other_words: frozenset[str]
    document_words: frozenset[str]
    has_about: bool


class ChangesRequest(NamedTuple):
    """A version whose changes a question asks for. ``part`` is "added", "deprecated", "fixed" or "removed" if it asks
    only for these changes, and otherwise empty.
    """

    version: str
    part: str


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


def find_section_reference(question: str, likely_language: str | None = None) -> SectionReference | None:
    """Return the section that a question names or asks for, or None if there is no section in it or several.

    ``likely_language`` is the question's language if its words do not show one.
    """
    matches = [
        match
        for match in _REFERENCE_PATTERN.finditer(question)
        if not (match["number"] == "I" and _DETERMINER_PATTERN.search(question, 0, match.start()))
    ]
    is_about_topic = not matches and _TOPIC_PATTERN.match(question) is not None
    if len(matches) != 1 and not is_about_topic:
        return None
    number, word, items, other_text = "", "", (), question
    if matches:
        (match,) = matches
        number, word = match["number"].lower(), (match["word"] or "").lower()
        labels = f"{match['items']} {match['outer_item'] or ''}".lower()
        items = tuple(filter(None, chain(*_ITEM_LABEL_PATTERN.findall(labels))))
        other_text = f"{question[: match.start()]} {question[match.end() :]}"
    vocabulary = load_question_words(detect_question_language(question, likely_language))
    function_words = FUNCTION_WORDS if vocabulary is None else FUNCTION_WORDS | vocabulary.function_words
    omitted_words = function_words | _REQUEST_WORDS
    if is_about_topic:
        omitted_words |= _TOPIC_REQUEST_WORDS
    other_words = frozenset(segment_words(other_text)) - omitted_words
    is_subject = bool(matches) and _SUBJECT_PATTERN.fullmatch(question, 0, matches[0].start()) is not None
    verb = _SAY_PATTERN.search(other_text)
    has_about = is_subject or (verb is not None and _ABOUT_PATTERN.search(other_text, verb.end()) is not None)
    if has_about or not other_words:
        about = _ABOUT_PATTERN.search(other_text)
        document_text = other_text[: about and about.start()]
    else:
        document = _DOCUMENT_PATTERN.match(question, matches[0].end()) if matches else None
        document_text = "" if document is None else document["words"]
    document_words = frozenset(segment_words(document_text)) & other_words
    return SectionReference(number, word, items, other_words, document_words, has_about=has_about)


def parse_changes_request(question: str) -> ChangesRequest | None:
    """Return the version whose changes a question asks for, and the part; None for any other question.

    >>> parse_changes_request("What's new in Tern 2.4?"), parse_changes_request("what was removed in v2.4.0")
    (ChangesRequest(version='2.4', part=''), ChangesRequest(version='2.4.0', part='removed'))
    """
    match = _CHANGES_PATTERN.fullmatch(question)
    return None if match is None else ChangesRequest(match["version"], (match["part"] or "").lower())


def is_section_mentioned(reference: SectionReference, headings: Iterable[str], texts: Iterable[str]) -> bool:
    """True if a heading begins with the label of a section, or a text mentions it.

    It has the number after a word such as "section", in the label of a line, or in a cell. "§ 5" is not "Article 5" if
    other labels have a paragraph sign. If the question names an item of the section, a text must have its label, too.

    >>> reference = find_section_reference("Was steht in § 14?")
    >>> texts = ("Siehe Abs. 2 des § 14.", "## 14. Haftung", "Um 14 Uhr.")
    >>> [is_section_mentioned(reference, [], [text]) for text in texts]
    [True, True, False]
    """
    matches = [match for match in map(_LABEL_PATTERN.match, headings) if match is not None]
    text = "\n".join(texts)
    matches += _REFERENCE_PATTERN.finditer(text)
    matches += (match for match in _LINE_PATTERN.finditer(text) if "#" not in match[0])
    labels = [(match["number"].lower(), (match["word"] or "").lower()) for match in matches]
    kind = _get_exclusive_kind(reference)
    if kind is not None:
        exclusive_labels = [label for label in labels if _EXCLUSIVE_WORDS.get(label[1]) == kind]
        labels = exclusive_labels or labels
    if reference.items and not _has_item_label(text, reference.items[-1]):
        return False
    return any(_can_be_label(reference, *label) for label in labels) or mentions_number(reference, text)


def _has_item_label(text: str, item: str) -> bool:
    """True if a text has the label of an item, such as ``(2)``, ``Abs. 2`` or ``2.`` at the start of a line."""
    label = rf"^[ \t]*(?:[-*+][ \t]+)?{item}[.)][ \t]|\({item}\)|\b{_LABELED_ITEM}\s*{item}(?!\w)"
    return re.search(label, text, re.IGNORECASE | re.MULTILINE) is not None


def mentions_number(reference: SectionReference, text: str) -> bool:
    """True if a text has the number of a section in a cell, or in words after or before its word: "second part"."""
    number, word = re.escape(reference.number), re.escape(reference.word)
    list_word = "§" if reference.word == "§" else rf"\b{word}[ns]\b"
    list_pattern = rf"{list_word}[^\n§;:]{{0,40}}?(?<![\w.,]){number}(?!\w|[.,]\d)|"  # "§§ 4, 5", "articles 4, 5 and 7"
    cell_pattern = (
        rf"{list_pattern}\|[ \t]*{number}[ \t]*\||{word}s?[\"':#\s]{{1,4}}(?:n[or]\. ?)?{number}(?!\w|[.,]\d)"
    )
    if re.search(cell_pattern, text, re.IGNORECASE):
        return True
    value = int(reference.number) if reference.number.isdigit() else 0
    if not 0 < value < 100:
        return False
    ordinals = "|".join(_ORDINALS[value - 1]) if value <= len(_ORDINALS) else "(?!)"
    word_pattern = rf"\b(?:(?:{ordinals})(?:e[mnrs]?)?\s+{word}|{word}\s+{spell_number(value) or 'one'})\b"
    return re.search(word_pattern, text, re.IGNORECASE) is not None


def has_ordinal_labels(texts: Iterable[str]) -> bool:
    """True if a text has the label of a section with an ordinal in a Romance language or in Dutch.

    >>> has_ordinal_labels(["Artículo segundo. Domicilio"]), has_ordinal_labels(["Artículo 2. Domicilio"])
    (True, False)
    """
    return any(map(_ORDINAL_LABEL_PATTERN.search, texts))


def mentions_thing(reference: SectionReference, text: str) -> bool:
    """True if a text has a number as that of a thing: after its word, "no." or a mark, or at the start of a line."""
    number, word = re.escape(reference.number), re.escape(reference.word)
    pattern = rf"(?:^|[:|#,;(]|\bn[or]\.|\b{word}s?)[ \t]*{number}(?!\w|[.,]\d)"
    return re.search(pattern, text, re.IGNORECASE | re.MULTILINE) is not None or mentions_number(reference, text)


def _get_exclusive_kind(reference: SectionReference) -> str | None:
    """Return the kind of the only labels that can be meant if a document has such labels, or None for any labels.

    "Article 8.2" can be the line "8.2" below "Article 8".
    """
    return None if "." in reference.number else _EXCLUSIVE_WORDS.get(reference.word)


def _can_be_label(reference: SectionReference, number: str, word: str) -> bool:
    """True if a number and the word before it (empty: none), both in lower case, can be the label of a section.

    "appendix 4" is neither "Article 4" nor "4 Price". Roman numbers are equal to others.
    """
    own_numbers, numbers = (number, _parse_roman(number)), (reference.number, _parse_roman(reference.number))
    if number != reference.number and reference.number not in own_numbers and number not in numbers:
        return False
    kind, own_kind = _SPECIAL_WORDS.get(reference.word), _SPECIAL_WORDS.get(word)
    is_bare = not word and (kind != "appendix" or number.isalpha())
    is_other_kind = kind != own_kind or (reference.word in _STEP_WORDS and word not in _STEP_WORDS)
    return bool(number) and (is_bare or not is_other_kind)


def _parse_roman(number: str) -> str:
    """Return a Roman number below 40, in lower case, in digits; empty for any other text."""
    match = _ROMAN_PATTERN.fullmatch(number) if number[:1] in ("i", "v", "x") else None
    if match is None:
        return ""
    units = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
    return str(10 * len(match[1]) + units.index(match[2]))


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


def find_sections(hits: Sequence[Hit], reference: SectionReference, query: Query) -> list[NumberedSection]:
    """Return the sections that a question can mean, at most one of each document of the ``hits``, best first.

    Only the documents with the most words of the question in their titles or keys can have the section, unless they
    have no numbers. A section about a topic has all other words of the question in its heading, or is the numbered
    section around the first hit with these words; only the first one is returned.
    """
    keys = list(dict.fromkeys(hit.document for hit in hits))
    records = list(filter(None, map(query.state.documents.find_by_key, keys)))
    if not reference.number:
        records.sort(key=lambda record: len(list_topic_stems(reference, record, query)))
        section = next(filter(None, (_find_in_document(record, reference, query) for record in records)), None)
        section = section or _find_around_hit(hits, reference, query)
        return [] if section is None else [section]
    missing = {
        record.id: count_missing_words(reference, f"{record.title or ''} {record.key}", query) for record in records
    }
    records.sort(key=lambda record: missing[record.id])
    for count, group in groupby(records, key=lambda record: missing[record.id]):
        named_records = list(group)
        sections = list(filter(None, (_find_in_document(record, reference, query) for record in named_records)))
        kind = _get_exclusive_kind(reference)
        if kind is not None:
            words = {word for record in named_records for word in _list_label_words(record, query)}
            if any(_EXCLUSIVE_WORDS.get(word) == kind for word in words):
                sections = [section for section in sections if _EXCLUSIVE_WORDS.get(section.word) == kind]
        if sections:
            best_rank = min(_rate_label(section, reference) for section in sections)
            sections = [section for section in sections if _rate_label(section, reference) == best_rank]
            items = (_narrow_section(section, reference.items, query.state) for section in sections[:_MAX_SECTIONS])
            return list(filter(None, items))
        has_labels = any(_list_label_words(record, query) for record in named_records)
        if count < max(missing.values()) and (has_labels or reference.word in AMBIGUOUS_WORDS):
            break  # the question names these documents
    upper_number, _, item = reference.number.rpartition(".")
    if not upper_number or reference.items:
        return []
    # 4.2 can be item 2 of "Art. 4".
    upper_sections = find_sections(hits, reference._replace(number=upper_number), query)
    items = (
        _narrow_section(section, (item,), query.state, must_exist=True) for section in upper_sections if section.word
    )
    return list(filter(None, items))


def count_missing_words(reference: SectionReference, name: str, query: Query) -> int:
    """Return how many words of a question that can name the document of a section are not in the name of a document."""
    return len(set(map(query.stem, reference.document_words)) - _list_stems(name, query))


def _list_label_words(record: DocumentRecord, query: Query) -> set[str]:
    """Return the words of the labels in a document: an empty word for a bare number. Without labels, the set is empty.

    They are those of its headings or, if these have none, of its lines.
    """
    words = {section.word for section in _list_headed_sections(record, query.state) if section.number}
    return words or {section.word for section in _list_sections_of_lines(record, query.state)}


def _rate_label(section: NumberedSection, reference: SectionReference) -> tuple[bool, bool, bool]:
    """Return the sort key of a section that has the number of a reference: False is better.

    A heading is better than a line, and the same word ("Clause 4") better than none, which is better than another.
    """
    return section.is_line, section.word != reference.word, bool(section.word)


def _find_in_document(record: DocumentRecord, reference: SectionReference, query: Query) -> NumberedSection | None:
    """Return the section of a document that a question names by its number, or whose heading has its topic, or None."""
    topic = list_topic_stems(reference, record, query)
    headed_sections = _list_headed_sections(record, query.state)
    is_step = reference.word in _STEP_WORDS
    if is_step:
        headed_sections = [section for section in headed_sections if section.word in _STEP_WORDS]

    def is_right(section: NumberedSection) -> bool:
        """True if a section has the number of the reference or, without a number, the topic in its heading."""
        if reference.number:
            return _can_be_label(reference, section.number, section.word)
        return bool(topic) and topic <= _list_title_stems(section, query)

    sections = list(filter(is_right, headed_sections))
    if reference.word in _ITEM_WORDS and not (is_step and sections):
        item = _find_item(record, reference, query)
        if item is not None or is_step:
            return item
    sections = sections or list(filter(is_right, _list_sections_of_lines(record, query.state)))
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


def _find_item(record: DocumentRecord, reference: SectionReference, query: Query) -> NumberedSection | None:
    """Return the item of a list in a document with the number of a reference, or None.

    Of several lists, the one below the heading with the most words of the question is preferred, then the longest one.
    """
    topic = list_topic_stems(reference, record, query)
    headed_sections = _list_headed_sections(record, query.state)
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
            return skip_heading(sections[-1], query.state)
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
    """Return the part of a section that is the item with the last of the labels ``items``, each below the one before.

    An item ends at the next one that is not indented more. If an item is missing, the result is None or, if the item
    above it has no items with numbers or letters, the item above it unless the item ``must_exist``.
    """
    if not items:
        return section
    text = state.documents.read_text_slice(section.record.id, section.start, section.end)
    start, end = len(text.encode()[: section.text_start - section.start].decode()), len(text)
    for item in items:
        label = re.compile(rf"^([ \t]*)(?:[-*+][ \t]+)?\(?{item}[.)][ \t]", re.IGNORECASE | re.MULTILINE)
        match = label.search(text, start, end)
        if match is None and (must_exist or _has_items(text[start:end], item)):
            return None
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


def _has_items(text: str, item: str) -> bool:
    """True if two lines of a text begin with the label of an item: a number, or a letter if ``item`` is one."""
    label = r"\d{1,3}" if item.isdecimal() else "[a-z]"
    return len(re.findall(rf"^[ \t]*(?:[-*+][ \t]+)?\(?{label}[.)][ \t]", text, re.MULTILINE)) > 1


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
                record,
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


def _find_ends(numbers: Sequence[str], have_words: Sequence[bool]) -> list[int]:
    """Return for each number of a label the index of the next one that can follow it, or the number of labels.

    ``have_words`` is True for each label with a word, which only such labels can follow: the numbers of the items in
    "Art. 4" do not end it.

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
