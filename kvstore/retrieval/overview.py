"""Questions that ask for an overview: of a whole document, or of everything in the store.

In: a question. Out: True if nothing in it asks for a detail. "Summarize the whole meeting", "What is the plot of the
story?" and "What are the main topics?" ask for an overview. "Summarize what was said about the budget" asks about the
budget, which search finds. English only: no question in another language counts as an overview question.

Also in: titles of documents. Out: those that such a question names ("Summarize the travel policy").
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, get_stemmer, segment_words

_stem = get_stemmer("english")


def _stem_words(words: str) -> frozenset[str]:
    """Return the stems of words separated by spaces."""
    return frozenset(map(_stem, words.split()))


#: Words that ask for a summary by themselves.
_SUMMARY_STEMS = _stem_words(
    "summarize summarise summary sum overview outline recap gist synopsis digest tldr plot storyline"
)
#: Words for the parts of a document; a question with no more specific word asks for all of them.
_POINT_STEMS = _stem_words(
    "topic theme subject issue point idea takeaway highlight message conclusion decision outcome content insight "
    "agenda discussion argument finding event"
)
#: Words for any document, and for a collection of documents.
_COLLECTION_STEMS = _stem_words(
    "document text file corpus collection store database library archive data dataset material source folder directory "
    "knowledge base repository"
)
#: Words for a whole document or collection.
_DOCUMENT_STEMS = _COLLECTION_STEMS | _stem_words(
    "meeting story article paper report book novel chapter page note transcript conversation chat talk speech "
    "interview session call lecture podcast letter mail email thread log handbook manual guide documentation wiki "
    "readme"
)
#: Words for the extent of the answer.
_MEASURE_STEMS = _stem_words(
    "whole entire overall general main major key chief central principal important essential complete full total brief "
    "briefly short shortly quick quickly concise concisely broad broadly rough roughly high level sentence word "
    "paragraph bullet list everything paraphrase"
)
#: Words that questions use.
_REQUEST_STEMS = _stem_words(
    "give make write provide tell describe explain present show get need want read know please discuss talk mention "
    "address cover say happen learn tackle treat concern deal raise touch contain include"
)
_DISCUSSION_STEMS = _stem_words("discuss talk mention address cover raise tackle")
_DESCRIPTION_STEMS = _stem_words("describe explain present")
_TLDR_PATTERN = compile_lazily(r"\btl;? ?dr\b", re.IGNORECASE)
#: Questions for the meaning of a word.
_DEFINITION_PATTERN = compile_lazily(r"\s*what(?:'s|’s| is| are| was) an? ", re.IGNORECASE)
_ABOUT_PATTERN = compile_lazily(
    r"\b(?:what|tell me what)\b.{0,40}\babout\s*\??\s*\Z|\btell (?:me|us) (?:all )?about\b", re.IGNORECASE
)
#: Questions for the contents of a document or collection: "What is in this folder?", "Which files are there?"
_CONTENT_PATTERN = compile_lazily(
    r"\bwhat(?:['’]s| is| are| do| does)\b.{0,40}\b(?:in|inside|contain|cover|include)\b"
    r"|\b(?:list|show)\b.{0,30}\b(?:documents|files)\W*\Z"
    r"|\b(?:which|what) (?:documents|files) (?:are there|(?:do|does) (?:you|it|the \w+) (?:have|contain))\W*\Z",
    re.IGNORECASE,
)
_YEAR_PATTERN = compile_lazily(r"\b(?:19|20)\d\d\b")
#: Questions without a noun, for what the store has: "What is this about?", "What can I ask you?"
_STORE_PATTERN = compile_lazily(
    r"\s*what(?:['’]s| is) (?:(?:all )?(?:this|it)(?: all)? about|(?:in )?here)\W*\Z"
    r"|\s*what (?:can i ask(?: you)?(?: about)?|do you know(?: about)?|can you tell me)\W*\Z",
    re.IGNORECASE,
)


def is_overview_question(question: str) -> bool:
    """True if a question asks for an overview of a document or of all documents, not for a detail.

    Any word that is not about summaries, documents, their points or the form of the answer makes it specific.

    >>> [is_overview_question(text) for text in ("Summarize the whole meeting.", "What are these documents about?")]
    [True, True]
    >>> [is_overview_question(text) for text in ("Summarize the talk about the budget.", "What is leave?")]
    [False, False]
    """
    if _TLDR_PATTERN.search(question) or _STORE_PATTERN.match(question):
        return True
    stems = _stem_content_words(question)
    if _select_specific_stems(stems) or _DEFINITION_PATTERN.match(question):
        return False
    if stems & _SUMMARY_STEMS:
        return True
    if stems & _POINT_STEMS and stems & (_DOCUMENT_STEMS | _MEASURE_STEMS | _DISCUSSION_STEMS):
        return True
    asks_for_contents = bool(_ABOUT_PATTERN.search(question) or _CONTENT_PATTERN.search(question))
    return bool(stems & _DOCUMENT_STEMS and (asks_for_contents or stems & _DESCRIPTION_STEMS))


def asks_for_summary(question: str) -> bool:
    """True if a question asks for an overview, or for a summary of something ("Summarize the travel policy")."""
    return is_overview_question(question) or bool(_stem_content_words(question) & _SUMMARY_STEMS)


def find_named_titles(question: str, titles: Iterable[str]) -> list[int]:
    """Return the positions of the titles that a question for a summary names: they have all words of its subject.

    If several have them, and some of these also have the years of the question, only those are returned. The list is
    empty if the question has no subject.

    >>> find_named_titles("Summarize the travel policy 2024.", ["Travel policy 2023", "Travel policy 2024", "Travel"])
    [1]
    """
    stems = _stem_content_words(question)
    subject = _select_specific_stems(stems) | (stems & _DOCUMENT_STEMS - _COLLECTION_STEMS)
    if not subject:
        return []
    stems_by_title = enumerate(map(_stem_content_words, titles))
    named = [(position, stems) for position, stems in stems_by_title if subject <= stems]
    years = set(_YEAR_PATTERN.findall(question))
    return [position for position, stems in named if years <= stems] or [position for position, _ in named]


def _stem_content_words(text: str) -> set[str]:
    """Return the stems of the words of a text, without function words, single letters and numbers other than years."""
    words = segment_words(text.replace("_", " "))
    return {
        _stem(word)
        for word in words
        if len(word) > 1 and word not in FUNCTION_WORDS and (not word.isdecimal() or _YEAR_PATTERN.fullmatch(word))
    }


def _select_specific_stems(stems: set[str]) -> set[str]:
    """Return the stems that do not occur in requests for an overview of anything, without years."""
    general = _SUMMARY_STEMS | _POINT_STEMS | _DOCUMENT_STEMS | _MEASURE_STEMS | _REQUEST_STEMS
    return {stem for stem in stems - general if not stem.isdecimal()}
