"""Questions that ask for an overview: of a whole document, or of everything in the store.

In: a question. Out: True if nothing in it asks for a detail. "Summarize the whole meeting", "What is the plot of the
story?" and "What are the main topics?" ask for an overview. "Summarize what was said about the budget" asks about the
budget, which search finds. English only: no question in another language counts as an overview question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, get_stemmer, segment_words
from .evidence import Hit

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
#: Words for a whole document or collection.
_DOCUMENT_STEMS = _stem_words(
    "document text meeting story article paper report book novel chapter page file note transcript conversation chat "
    "talk speech interview session call lecture podcast letter mail email thread log corpus collection store database "
    "library archive data dataset material source handbook manual guide documentation wiki readme"
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
    "address cover say happen learn tackle treat concern deal raise touch"
)
_DISCUSSION_STEMS = _stem_words("discuss talk mention address cover raise tackle")
_DESCRIPTION_STEMS = _stem_words("describe explain present")
_TLDR_PATTERN = compile_lazily(r"\btl;? ?dr\b", re.IGNORECASE)
#: Questions for the meaning of a word.
_DEFINITION_PATTERN = compile_lazily(r"\s*what(?:'s|’s| is| are| was) an? ", re.IGNORECASE)
_ABOUT_PATTERN = compile_lazily(
    r"\b(?:what|tell me what)\b.{0,40}\babout\s*\??\s*\Z|\btell (?:me|us) (?:all )?about\b", re.IGNORECASE
)


def is_overview_question(question: str) -> bool:
    """True if a question asks for an overview of a document or of all documents, not for a detail.

    Any word that is not about summaries, documents, their points or the form of the answer makes it specific.

    >>> [is_overview_question(text) for text in ("Summarize the whole meeting.", "What are these documents about?")]
    [True, True]
    >>> [is_overview_question(text) for text in ("Summarize the talk about the budget.", "What is leave?")]
    [False, False]
    """
    if _TLDR_PATTERN.search(question):
        return True
    words = (word for word in segment_words(question) if len(word) > 1 and not word.isdecimal())
    stems = {_stem(word) for word in words if word not in FUNCTION_WORDS}
    specific_stems = stems - (_SUMMARY_STEMS | _POINT_STEMS | _DOCUMENT_STEMS | _MEASURE_STEMS | _REQUEST_STEMS)
    if specific_stems or _DEFINITION_PATTERN.match(question):
        return False
    if stems & _SUMMARY_STEMS:
        return True
    if stems & _POINT_STEMS and stems & (_DOCUMENT_STEMS | _MEASURE_STEMS | _DISCUSSION_STEMS):
        return True
    return bool(stems & _DOCUMENT_STEMS and (_ABOUT_PATTERN.search(question) or stems & _DESCRIPTION_STEMS))


def is_overview_result(question: str, hits: Sequence[Hit]) -> bool:
    """True if a question asks for an overview and all hits are summaries or reports."""
    return bool(hits) and all(hit.kind in ("summary", "report") for hit in hits) and is_overview_question(question)
