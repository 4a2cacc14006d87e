"""Questions that ask for an overview: of a whole document, or of all that the store holds.

In: a question. Out: whether nothing in it asks for a detail. "Summarize the whole meeting", "What is the plot of the
story?" and "What are the main topics?" ask for an overview; "Summarize what was said about the budget" asks for what is
said about the budget, which search finds. English only: in another language no question is known to ask for one.
"""

from __future__ import annotations

import re

from ..text.words import FUNCTION_WORDS, segments, stemmer

_STEM = stemmer("english")


def _stems(words: str) -> frozenset[str]:
    return frozenset(map(_STEM, words.split()))


#: What asks for a summary by itself.
_SUMMARIES = _stems("summarize summarise summary sum overview outline recap gist synopsis digest tldr plot storyline")
#: What a whole has several of: asked for without saying which, they are asked for all together.
_POINTS = _stems(
    "topic theme subject issue point idea takeaway highlight message conclusion decision outcome content insight "
    "agenda discussion argument finding event"
)
#: What a whole is called.
_WHOLES = _stems(
    "document text meeting story article paper report book novel chapter page file note transcript conversation chat "
    "talk speech interview session call lecture podcast letter mail email thread log corpus collection store database "
    "library archive data dataset material source handbook manual guide documentation wiki readme"
)
#: What says how much of it, or how long the answer is to be.
_MEASURES = _stems(
    "whole entire overall general main major key chief central principal important essential complete full total brief "
    "briefly short shortly quick quickly concise concisely broad broadly rough roughly high level sentence word "
    "paragraph bullet list everything paraphrase"
)
#: What a question asks with.
_ASKING = _stems(
    "give make write provide tell describe explain present show get need want read know please discuss talk mention "
    "address cover say happen learn tackle treat concern deal raise touch"
)
_SPOKEN = _stems("discuss talk mention address cover raise tackle")
_SHOWN = _stems("describe explain present")
_SHORT_FORM = re.compile(r"\btl;? ?dr\b", re.IGNORECASE)
#: What asks for the meaning of a word.
_MEANING = re.compile(r"\s*what(?:'s|’s| is| are| was) an? ", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:what|tell me what)\b.{0,40}\babout\s*\??\s*\Z|\btell (?:me|us) (?:all )?about\b", re.IGNORECASE
)


def asks_overview(question: str) -> bool:
    """Whether a question asks for an overview of a whole.

    >>> [asks_overview(text) for text in ("Summarize the whole meeting.", "What are these documents about?")]
    [True, True]
    >>> [asks_overview(text) for text in ("Summarize the talk about the budget.", "What is leave?")]
    [False, False]
    """
    if _SHORT_FORM.search(question):
        return True
    words = (word for word in segments(question) if len(word) > 1 and not word.isdecimal())
    stems = {_STEM(word) for word in words if word not in FUNCTION_WORDS}
    if _MEANING.match(question) or stems - (_SUMMARIES | _POINTS | _WHOLES | _MEASURES | _ASKING):
        return False
    if stems & _SUMMARIES:
        return True
    if stems & _POINTS and stems & (_WHOLES | _MEASURES | _SPOKEN):
        return True
    return bool(stems & _WHOLES and (_ABOUT.search(question) or stems & _SHOWN))
