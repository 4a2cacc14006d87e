"""Questions that ask for an overview: of a whole document, or of everything in the store. A *summary request*
("Summarize the travel policy") has a *subject*, which titles of documents can have. *Points* are the parts of a
document, such as topics. A *stem* is a word without its ending.

In: a question. Out: True if nothing in it asks for a detail. "Summarize the whole meeting", "What is the plot of the
story?" and "What are the main topics?" ask for an overview. "Summarize what was said about the budget" asks about the
budget, which search finds. The words of other languages are in ``kvstore/text/questions``.

Also in: titles of documents. Out: those that such a question names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Set
from itertools import zip_longest
from typing import NamedTuple

from ..text.languages import detect_question_language
from ..text.patterns import compile_lazily
from ..text.question_words import load_question_words
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
#: Words for a document that its title can have, such as *handbook*.
_TITLE_STEMS = _DOCUMENT_STEMS - _COLLECTION_STEMS
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
_GENERAL_STEMS = _SUMMARY_STEMS | _POINT_STEMS | _DOCUMENT_STEMS | _MEASURE_STEMS | _REQUEST_STEMS
_TLDR_PATTERN = compile_lazily(r"\btl;? ?dr\b", re.IGNORECASE)
#: Questions for the meaning of a word.
_DEFINITION_PATTERN = compile_lazily(r"\s*what(?:'s|’s| is| are| was) an? ", re.IGNORECASE)
_ABOUT_PATTERN = compile_lazily(
    r"\b(?:what|tell me what)\b.{0,40}\babout\s*\??\s*\Z|\btell (?:me|us) (?:all )?about\b", re.IGNORECASE
)
#: A question for what a document is about: "What is the leave policy about?"
_SUBJECT_PATTERN = compile_lazily(r"\bwhat(?:['’]s| is| are| was| were)\b.{0,80}\babout\s*\??\s*\Z", re.IGNORECASE)
#: Questions for the contents of a document or collection: "What is in this folder?", "Which files are there?"
_CONTENT_PATTERN = compile_lazily(
    r"\bwhat(?:['’]s| is| are| do| does)\b.{0,40}\b(?:in|inside|contain|cover|include)\b"
    r"|\bhow many (?:documents|files)\b|\b(?:list|show)\b.{0,30}\b(?:documents|files)\W*\Z"
    r"|\b(?:which|what) (?:documents|files) (?:are there|(?:do|does) (?:you|it|the \w+) (?:have|contain))\W*\Z",
    re.IGNORECASE,
)
_YEAR_PATTERN = compile_lazily(r"(?:19|20)\d\d")
#: The number of letters at the start of a word that stemming does not change.
_NUM_COMPARED_LETTERS = 2
#: The minimum length of a stem that a longer stem may begin with, and the maximum number of letters after it.
_MIN_STEM, _MAX_ENDING = 5, 3
#: Questions without a noun, for what the store has: "What is this about?", "What can I ask you?"
_STORE_PATTERN = compile_lazily(
    r"\s*what(?:['’]s| is) (?:(?:all )?(?:this|it)(?: all)? about|(?:in )?here)\W*\Z"
    r"|\s*what (?:can i ask(?: you)?(?: about)?|do you know(?: about)?|can you tell me)\W*\Z",
    re.IGNORECASE,
)


class SummaryRequest(NamedTuple):
    """What a question asks to summarize. ``subject`` are the words that are not about summaries, documents or their
    points, and ``years`` those that are years. With ``covers_all``, all documents are summarized if no title contains
    the ``subject``.

    If the question ``is_foreign`` (not in English), a word may have a different ending in a title.
    """

    subject: frozenset[str]
    years: frozenset[str]
    covers_all: bool
    is_foreign: bool = False

    def find_title_positions(self, titles: Iterable[str], stem: Callable[[str], str]) -> list[int]:
        """Return the indexes of the ``titles`` that have all words of the subject; empty without a subject.

        If some of these titles also have all years of the request, only those are returned. ``stem`` maps a word to its
        stem.
        """
        if not self.subject:
            return []
        subject = set(map(stem, self.subject))
        beginnings = [word[:_NUM_COMPARED_LETTERS] for word in self.subject]
        stems_by_position = {}
        for position, title in enumerate(titles):
            # Comparing the first letters rules out most titles without stemming.
            if not title.isascii() or all(map(title.lower().__contains__, beginnings)):
                stems = set(map(stem, segment_words(title.replace("_", " "))))
                if all(self._is_in_title(subject_stem, stems) for subject_stem in subject):
                    stems_by_position[position] = stems
        with_years = [position for position, stems in stems_by_position.items() if self.years <= stems]
        return with_years or list(stems_by_position)

    def _is_in_title(self, stem: str, title_stems: Set[str]) -> bool:
        """True if a title has ``stem`` or, if the question is not in English, a stem that differs only in its ending.

        Stemmers do not know all endings: in Swedish, *protokollet* (the minutes) and *protokoll* have two stems.
        """
        return stem in title_stems or (
            self.is_foreign and any(_differ_by_ending(stem, title_stem) for title_stem in title_stems)
        )


def _differ_by_ending(left: str, right: str) -> bool:
    """True if one of two stems begins with the other and has at most ``_MAX_ENDING`` more letters.

    Stems of fewer than ``_MIN_STEM`` letters are not compared, because they begin many words.
    """
    shorter, longer = sorted((left, right), key=len)
    is_similar_length = len(shorter) >= _MIN_STEM and len(longer) - len(shorter) <= _MAX_ENDING
    return is_similar_length and longer.startswith(shorter)


def is_overview_question(question: str, likely_language: str | None = None) -> bool:
    """True if a question asks for an overview of a document or of all documents, not for a detail.

    Any word that is not about summaries, documents, their points or the form of the answer makes it specific.
    ``likely_language`` is the question's language if its words do not show one.

    >>> [is_overview_question(text) for text in ("Summarize the whole meeting.", "Worum geht es in den Dokumenten?")]
    [True, True]
    >>> [is_overview_question(text) for text in ("Summarize the talk about the budget.", "What is leave?")]
    [False, False]
    """
    request = parse_summary_request(question, likely_language)
    return request is not None and request.covers_all


def parse_summary_request(question: str, likely_language: str | None = None) -> SummaryRequest | None:
    """Parse a question that asks for a summary ("Summarize the travel policy"); return None for any other question.

    ``likely_language`` is the question's language if its words do not show one.
    """
    request = _parse_english_request(question)
    if request is not None:
        return request
    vocabulary = load_question_words(detect_question_language(question, likely_language))
    remaining_text = None if vocabulary is None else vocabulary.remove_summary_request(question)
    if vocabulary is None or remaining_text is None:
        return None
    words = {word for word in segment_words(remaining_text) if word not in vocabulary.function_words}
    return _build_summary_request(words, covers_all=not words)._replace(is_foreign=True)


def _parse_english_request(question: str) -> SummaryRequest | None:
    """Parse an English question that asks for a summary; return None for any other question."""
    if _TLDR_PATTERN.search(question) or _STORE_PATTERN.match(question):
        return _build_summary_request((), covers_all=True)
    words = [word for word in segment_words(question) if word not in FUNCTION_WORDS]
    stems_by_word = {word: _stem(word) for word in words if len(word) > 1 and not word.isdecimal()}
    # A number is part of the subject ("chapter 3"), except one that counts ("3 sentences", "5 key points").
    numbers = {
        word
        for word, next_word in zip_longest(words, words[1:], fillvalue="")
        if word.isdecimal() and _stem(next_word) not in _GENERAL_STEMS
    }
    stems = set(stems_by_word.values())
    covers_all = (
        stems <= _GENERAL_STEMS
        and not numbers
        and not _DEFINITION_PATTERN.match(question)
        and _asks_for_everything(question, stems)
    )
    asks_for_points = bool(stems & _POINT_STEMS and stems & _MEASURE_STEMS)
    if not (covers_all or stems & _SUMMARY_STEMS or asks_for_points or _SUBJECT_PATTERN.search(question)):
        return None
    subject = {word for word, stem in stems_by_word.items() if stem not in _GENERAL_STEMS or stem in _TITLE_STEMS}
    return _build_summary_request(subject | numbers, covers_all=covers_all)


def _asks_for_everything(question: str, stems: Set[str]) -> bool:
    """True if a question with these stems asks for a summary, main points or the contents of documents."""
    if stems & _SUMMARY_STEMS:
        return True
    if stems & _POINT_STEMS and stems & (_DOCUMENT_STEMS | _MEASURE_STEMS | _DISCUSSION_STEMS):
        return True
    asks_for_contents = bool(_ABOUT_PATTERN.search(question) or _CONTENT_PATTERN.search(question))
    return bool(stems & _DOCUMENT_STEMS and (asks_for_contents or stems & _DESCRIPTION_STEMS))


def _build_summary_request(words: Collection[str], *, covers_all: bool) -> SummaryRequest:
    """Return the request to summarize the subject with these words; the years among them become its ``years``.

    With ``covers_all``, all documents are summarized if no title contains the words.
    """
    years = frozenset(filter(_YEAR_PATTERN.fullmatch, words))
    return SummaryRequest(frozenset(words) - years, years, covers_all)
