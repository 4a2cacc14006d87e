"""References to sections in questions: by number ("What does section 4.2 say?", "Was steht in § 5?") or by topic
("Which section covers notice?"). The *label* of a section is its number with a word, if it has one: ``4.2``, ``§ 5``.
An *item* is a labeled part of a section: ``(b)``, ``Abs. 2``.

In: a question. Out: a :class:`SectionReference` to the section that it means, and checks if a text mentions it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from ..text.languages import detect_question_language
from ..text.normalize import fold_text
from ..text.number_words import spell_number
from ..text.patterns import compile_lazily
from ..text.question_words import load_question_words
from ..text.words import FUNCTION_WORDS, segment_words

#: The words before the number of a section.
_SECTION_WORDS = (
    "section|subsection|sec|clause|subclause|article|art|paragraph|chapter|appendix|annex|schedule|rule|part|point|item"
    "|byelaw|bylaw|by-law|standing order|regulation|condition"
    "|step|abschnitt|artikel|kapitel|paragraf|absatz|ziffer|klausel|anhang|anlage|punkt|schritt"
    "|chapitre|annexe|clausule|paragraphe|étape"
    "|sección|artículo|capítulo|cláusula|anexo|punto|paso|sezione|articolo|capitolo|clausola|allegato|seção|artigo|ponto"
    "|passo|hoofdstuk|paragraaf|bijlage|punt|stap"
)
#: A number such as 4, 4.2 or 12a, a Roman numeral, or a letter; the last two are in capitals.
_NUMBER = r"\d{1,4}(?:\.\d{1,4}){0,5}[a-z]?|(?-i:[IVXLC]{1,7}|[A-Z])"
#: The words before the number of a step.
STEP_WORDS = frozenset(("step", "schritt", "étape", "paso", "passo", "stap"))
#: Words for a part of another kind than a section: "appendix 4" is not "Article 4". Other words can replace each other.
_SPECIAL_WORDS = {
    **dict.fromkeys("appendix annex schedule anhang anlage annexe anexo allegato bijlage".split(), "appendix"),
    **dict.fromkeys("chapter kapitel chapitre capítulo capitolo hoofdstuk".split(), "chapter"),
    "part": "part",
}
#: The kind of each word whose label belongs to it alone if a document has such labels: "§ 5" is then not "5 Price".
EXCLUSIVE_WORDS = {
    **_SPECIAL_WORDS,
    **dict.fromkeys("article artikel artículo artigo articolo art".split(), "article"),
    "§": "§",
}
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
#: The source of a pattern of an item with a label at the start of a line.
ITEM_SOURCE = r"^(?P<indentation>[ \t]*)(?:[-*+][ \t]+)?\(?{}[.)][ \t]"
#: The label at the start of a heading.
LABEL_PATTERN = compile_lazily(
    rf"[^\w§]{{0,3}}(?:(?P<word>{_SECTION_WORDS}|§)(?:\.?\s+|(?<=§)\s*))?(?P<number>{_NUMBER})(?!\w|\.\d)",
    re.IGNORECASE,
)
#: The label at the start of a line, which can be an item or bold.
LINE_PATTERN = compile_lazily(
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
    r"\W*(?:in )?(?:which|what)\s+(?:section|clause|article|paragraph|chapter|appendix|annex|schedule|byelaw|bylaw"
    r"|by-law|standing order|regulation)s?\b.*\b"
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
#: A question for the changes in a version, or for a part of them.
_CHANGES_PATTERN = compile_lazily(
    r"\W*what(?:['’]s|\s+(?:are|has|have|is|was|were))?(?:\s+been|\s+the)?\s+"
    r"(?:changed|changes|different|new|(?P<part>added|deprecated|fixed|removed))\s+(?:for|in|with)\s+"
    r"(?:(?-i:[A-Z])[\w-]*\s+){0,2}(?:release\s+|version\s+)?v?(?P<version>\d+(?:\.\d+){1,5})\W*",
    re.IGNORECASE,
)


class SectionReference(NamedTuple):
    """A section that a question names or asks for.

    ``number`` is its number in lowercase, or empty if the question asks for the section about a topic. ``word`` is the
    word before the number, such as "section", or empty. ``items`` are the labels of items below it: b and ii for
    "3.1(b)(ii)". ``other_words`` are the words of the question that neither name the section nor ask for its content.
    ``has_about`` is True if the question asks what the section says about them. ``document_words`` are the words that
    can name the document: in a question for a fact, the words of the phrase after the number, and otherwise all words
    that do not follow "about".
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


def find_section_reference(question: str, likely_language: str | None = None) -> SectionReference | None:
    """Return the section that a question names or asks for, or None if it names none or several.

    ``likely_language`` is the question's language if its words do not show one.
    """
    matches = [
        match
        for match in _REFERENCE_PATTERN.finditer(question)
        # "the clause I signed" has a pronoun, not a Roman number.
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
    language = detect_question_language(question, likely_language)
    other_words = frozenset(segment_words(other_text)) - _list_request_words(language, is_about_topic)
    # "What does clause 4 allow the tenant to do?" or "What does clause 4 say about keys?"
    is_subject = bool(matches) and _SUBJECT_PATTERN.fullmatch(question, 0, matches[0].start()) is not None
    verb = _SAY_PATTERN.search(other_text)
    has_about = is_subject or (verb is not None and _ABOUT_PATTERN.search(other_text, verb.end()) is not None)
    if has_about or not other_words:
        about = _ABOUT_PATTERN.search(other_text)
        document_text = other_text if about is None else other_text[: about.start()]
    else:  # "Who pays under clause 4 of the lease?"
        document = _DOCUMENT_PATTERN.match(question, matches[0].end()) if matches else None
        document_text = "" if document is None else document["words"]
    document_words = frozenset(segment_words(document_text)) & other_words
    return SectionReference(number, word, items, other_words, document_words, has_about=has_about)


def _list_request_words(language: str | None, is_about_topic: bool) -> frozenset[str]:
    """Return the words of a question that say neither what a section is about nor what to find in it.

    They are function words of the language (None: unknown), and words that ask for the content of a section. In a
    question for the section about something (``is_about_topic``), they are also words such as "section" and "find".
    """
    vocabulary = load_question_words(language)
    function_words = FUNCTION_WORDS if vocabulary is None else FUNCTION_WORDS | vocabulary.function_words
    return function_words | _REQUEST_WORDS | (_TOPIC_REQUEST_WORDS if is_about_topic else frozenset())


def parse_changes_request(question: str) -> ChangesRequest | None:
    """Return the version whose changes a question asks for, and the part; None for any other question.

    >>> parse_changes_request("What's new in Tern 2.4?"), parse_changes_request("what was removed in v2.4.0")
    (ChangesRequest(version='2.4', part=''), ChangesRequest(version='2.4.0', part='removed'))
    """
    match = _CHANGES_PATTERN.fullmatch(question)
    return None if match is None else ChangesRequest(match["version"], (match["part"] or "").lower())


def is_section_mentioned(reference: SectionReference, headings: Iterable[str], texts: Iterable[str]) -> bool:
    """True if a heading begins with the label of the section, or a text mentions it.

    A mention is a number after a word such as "section", the label of a line, or a match of ``mentions_number``. If any
    label has a paragraph sign, "Article 5" is no mention of "§ 5". If the question names an item of the section, a text
    must also have the label of the item.

    >>> reference = find_section_reference("Was steht in § 14?")
    >>> texts = ("Siehe Abs. 2 des § 14.", "14. Haftung", "Um 14 Uhr.")
    >>> [is_section_mentioned(reference, [], [text]) for text in texts]
    [True, True, False]
    """
    matches = [match for match in map(LABEL_PATTERN.match, headings) if match is not None]
    text = "\n".join(texts)
    matches += _REFERENCE_PATTERN.finditer(text)
    matches += (match for match in LINE_PATTERN.finditer(text) if "#" not in match[0])
    labels = [(match["number"].lower(), (match["word"] or "").lower()) for match in matches]
    kind = get_exclusive_kind(reference)
    if kind is not None:
        exclusive_labels = [label for label in labels if EXCLUSIVE_WORDS.get(label[1]) == kind]
        labels = exclusive_labels or labels
    if reference.items and not _has_item_label(text, reference.items[-1]):
        return False
    return any(can_be_label(reference, *label) for label in labels) or mentions_number(reference, text)


def _has_item_label(text: str, item: str) -> bool:
    """True if a text has the label of an item, such as ``(2)``, ``Abs. 2`` or ``2.`` at the start of a line."""
    label = rf"{ITEM_SOURCE.format(item)}|\({item}\)|\b{_LABELED_ITEM}\s*{item}(?!\w)"
    return re.search(label, text, re.IGNORECASE | re.MULTILINE) is not None


def mentions_number(reference: SectionReference, text: str) -> bool:
    """True if a text has the number of a section in a list, in a table cell, after the section's word, or in words.

    >>> reference = find_section_reference("What does article 5 say?")
    >>> texts = "articles 4, 5 and 7", "| 5 | Notice |", "article no. 5", "the fifth article", "article five", "5 days"
    >>> [mentions_number(reference, text) for text in texts]
    [True, True, True, True, True, False]
    """
    number, word = re.escape(reference.number), re.escape(reference.word)
    number_end = r"(?!\w|[.,]\d)"  # 5 is not the start of 5.1
    list_word = "§" if reference.word == "§" else rf"\b{word}[ns]\b"
    list_pattern = rf"{list_word}[^\n§;:]{{0,40}}?(?<![\w.,]){number}{number_end}"
    cell_pattern = rf"\|[ \t]*{number}[ \t]*\|"
    label_pattern = rf"{word}s?[\"':#\s]{{1,4}}(?:n[or]\. ?)?{number}{number_end}"
    if re.search(f"{list_pattern}|{cell_pattern}|{label_pattern}", text, re.IGNORECASE):
        return True
    value = int(reference.number) if reference.number.isdigit() else 0
    if not 0 < value < 100:
        return False
    ordinals = "|".join(_ORDINALS[value - 1]) if value <= len(_ORDINALS) else "(?!)"  # which matches nothing
    word_pattern = rf"\b(?:(?:{ordinals})(?:e[mnrs]?)?\s+{word}|{word}\s+{spell_number(value) or 'one'})\b"
    return re.search(word_pattern, text, re.IGNORECASE) is not None


def has_ordinal_labels(texts: Iterable[str]) -> bool:
    """True if a text has a section label with an ordinal in words, in a Romance language or in Dutch.

    >>> has_ordinal_labels(["Artículo segundo. Domicilio"]), has_ordinal_labels(["Artículo 2. Domicilio"])
    (True, False)
    """
    return any(map(_ORDINAL_LABEL_PATTERN.search, texts))


def mentions_numbered_thing(reference: SectionReference, text: str) -> bool:
    """True if a text has the number of a reference such as "item 7", which can be the number of a thing, not a section.

    The number follows the word, "no." or a punctuation mark, or starts a line.
    """
    number, word = re.escape(reference.number), re.escape(reference.word)
    pattern = rf"(?:^|[:|#,;(]|\bn[or]\.|\b{word}s?)[ \t]*{number}(?!\w|[.,]\d)"
    return re.search(pattern, text, re.IGNORECASE | re.MULTILINE) is not None or mentions_number(reference, text)


def get_exclusive_kind(reference: SectionReference) -> str | None:
    """Return the kind of labels, such as "article", that a reference means if the document has labels of this kind.

    None means that any label can be meant: "Article 8.2" can be the line "8.2" below "Article 8".
    """
    return None if "." in reference.number else EXCLUSIVE_WORDS.get(reference.word)


def can_be_label(reference: SectionReference, number: str, word: str) -> bool:
    """True if a number and the word before it, both in lowercase, can be the label of the section.

    An empty ``word`` means that the label has no word. "appendix 4" means neither "Article 4" nor "4 Price". A Roman
    number equals the same number in digits.
    """
    is_same_number = (
        number == reference.number
        or _parse_roman(number) == reference.number
        or number == _parse_roman(reference.number)
    )
    kind = _SPECIAL_WORDS.get(reference.word)
    can_be_bare = kind != "appendix" or number.isalpha()  # "B" can be "Appendix B"
    is_same_kind = _SPECIAL_WORDS.get(word) == kind and (reference.word not in STEP_WORDS or word in STEP_WORDS)
    return bool(number) and is_same_number and (is_same_kind or (not word and can_be_bare))


def _parse_roman(number: str) -> str:
    """Convert a lowercase Roman number below 40 to digits, such as "xiv" to "14"; return "" for any other text."""
    match = _ROMAN_PATTERN.fullmatch(number)
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
