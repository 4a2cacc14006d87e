"""Sentences by rule, for any language that ends them with a mark.

In: running text. Out: spans in characters, in order, that cover everything but white space. A mark ends a sentence if
white space and then anything but a lower-case letter follows, unless an abbreviation or an initial precedes it. A mark
of Chinese or Japanese needs no white space after it. A blank line always ends a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .patterns import compile_lazily

# The search for the first character is fast, and that character decides what follows. A run of marks is examined from
# its first one only; otherwise a text of such marks would take quadratic time.
_SENTENCE_END_PATTERN = compile_lazily(
    r"[.!?…。！？｡\n](?:(?<=[.!?…])(?<![.!?…]{2})[.!?…]*+[\"'”’)\]*`]*(?=\s)|(?<=[。！？｡])[。！？｡]*+[」』”’）)】》〉]*+[。！？｡]*+|(?<=\n)\s*\n)"
)
_LAST_WORD_PATTERN = compile_lazily(r"[\w.]+\Z")
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr vs no vol fig figs eq ed eds e.g i.e cf al approx ca dept est gen col capt lt sgt rev
    hon inc ltd co corp jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m pp p ch sec art mt ft
    """.split()
)


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the sentences of ``text``, without surrounding white space."""
    start = 0
    for match in _SENTENCE_END_PATTERN.finditer(text):
        if not _is_sentence_end(text, match):
            continue
        yield from _trim_span(text, start, match.end())
        start = match.end()
    yield from _trim_span(text, start, len(text))


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    """True if matched punctuation ends a sentence, rather than an abbreviation, an initial or an embedded quotation."""
    mark = match.group()
    # A Japanese quotation is part of the sentence around it, and so is a text in brackets.
    if mark[-1] in "」』" and text.startswith(("と", "って"), match.end()):
        return False
    if mark[0] in "。！？｡" and mark[-1] in "）)】":
        return not text[match.end() : match.end() + 1].strip()
    if not mark.startswith("."):
        following = text[match.end() : match.end() + 2].strip()
        # "Really?" he asked: the sentence continues in lower case after a closing quote.
        return mark[-1] not in "\"'”’" or not following[:1].islower()
    text_after = text[match.end() : match.end() + 40].lstrip()
    if text_after[:1].islower():
        return False
    last_word = _LAST_WORD_PATTERN.search(text, max(0, match.start() - 20), match.start())
    word = last_word.group() if last_word else ""
    return not (word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper()))


def _trim_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a span without white space at its ends, or nothing if the span is blank."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
