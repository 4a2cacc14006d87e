"""Sentences by rule: where one ends, in any language that ends them with a mark.

In: running text. Out: spans in characters, in order, covering all that is not white space. A mark ends a sentence
when white space and then anything but a lower-case letter follows, unless an abbreviation or an initial stands before
it. A mark of Chinese and Japanese needs no white space behind it. A blank line always ends one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# A search runs to the first character fast; which it is decides what follows. A run of marks is looked at from its
# first alone: a text of such marks would cost the square of its length.
_SENTENCE_END_PATTERN = re.compile(
    r"[.!?…。！？｡\n](?:(?<=[.!?…])(?<![.!?…]{2})[.!?…]*+[\"'”’)\]*`]*(?=\s)|(?<=[。！？｡])[。！？｡]*+[」』”’）)】》〉]*+[。！？｡]*+|(?<=\n)\s*\n)"
)
_LAST_WORD_PATTERN = re.compile(r"[\w.]+\Z")
_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr vs no vol fig figs eq ed eds e.g i.e cf al approx ca dept est gen col capt lt sgt rev
    hon inc ltd co corp jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m pp p ch sec art mt ft
    """.split()
)


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences of ``text``, white space around them left out."""
    start = 0
    for match in _SENTENCE_END_PATTERN.finditer(text):
        if not _is_sentence_end(text, match):
            continue
        yield from _trim_span(text, start, match.end())
        start = match.end()
    yield from _trim_span(text, start, len(text))


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    mark = match.group()
    if mark[-1] in "」』" and text.startswith(("と", "って"), match.end()):  # what is quoted is a part of the sentence
        return False
    if mark[0] in "。！？｡" and mark[-1] in "）)】":  # so is what stands in brackets
        return not text[match.end() : match.end() + 1].strip()
    if not mark.startswith("."):
        following = text[match.end() : match.end() + 2].strip()
        # "Really?" he asked: the sentence goes on in lower case after a closing quote.
        return mark[-1] not in "\"'”’" or not following[:1].islower()
    text_after = text[match.end() : match.end() + 40].lstrip()
    if text_after[:1].islower():
        return False
    last_word = _LAST_WORD_PATTERN.search(text, max(0, match.start() - 20), match.start())
    word = last_word.group() if last_word else ""
    return not (word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper()))


def _trim_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
