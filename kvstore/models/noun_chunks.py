"""Base noun phrases from the labels of Universal Dependencies.

In: a parsed document or span of spaCy. Out: (start, end, label) of each phrase, in words: the shape that spaCy's
``iter_noun_chunks`` expects of an iterator. spaCy's own English iterator reads other labels and misses most phrases.

A phrase is a noun, name or pronoun, with what determines and modifies it before it
(*the large index pages*) and the rest of a name after it (*Robert Moore*, *section 3*). What a preposition adds (*the
head of the list*) is a phrase of its own, and so is an owner (*the writer's* book).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

HEAD_TAGS = frozenset({"NOUN", "PROPN", "PRON"})
#: Relations of words inside another's phrase, before its head and after it.
PREMODIFIER_LABELS = frozenset(
    "det det:predet amod nummod compound nmod:poss nmod:desc flat goeswith punct advmod cc:preconj".split()
)
POSTMODIFIER_LABELS = frozenset({"flat", "goeswith", "fixed", "nmod:desc"})
#: Relations under which a noun is a part of its head's phrase and begins none.
INNER_LABELS = POSTMODIFIER_LABELS | {
    "compound",
    "det",
    "amod",
    "nummod",
    "case",
    "advmod",
    "mark",
    "discourse",
    "cc",
    "dep",
}


def iter_noun_chunks(parsed: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """The base noun phrases of ``parsed``, in order, none overlapping another; raises ValueError if it has no parse."""
    doc = parsed.doc
    if not doc.has_annotation("DEP"):
        raise ValueError("noun phrases need a parse; the pipeline has no parser")
    label = doc.vocab.strings.add("NP")
    last_end = 0
    for token in parsed:
        if not _is_phrase_head(token):
            continue
        start, end = max(_find_start(token), last_end), _find_end(token)
        while start < token.i and (doc[start].is_punct or doc[start].is_space):
            start += 1
        if start <= token.i:
            yield start, end, label
            last_end = end


def _is_phrase_head(token: Token) -> bool:
    if token.pos_ not in HEAD_TAGS or token.dep_ in INNER_LABELS:
        return False
    return not (token.dep_ == "nmod:poss" and token.pos_ == "PRON")


def _find_start(head: Token) -> int:
    """Return the first word of the phrase: modifiers, nearest first, as long as nothing else is between."""
    start = head.i
    for child in reversed(list(head.lefts)):
        is_owner = child.dep_ == "nmod:poss" and child.pos_ != "PRON"
        if child.dep_ not in PREMODIFIER_LABELS or is_owner or child.right_edge.i != start - 1:
            break
        start = child.left_edge.i
    return start


def _find_end(head: Token) -> int:
    """One past the last word of the phrase."""
    end = head.i + 1
    for child in head.rights:
        if child.left_edge.i != end or child.dep_ not in POSTMODIFIER_LABELS:
            break
        end = child.i + 1
    return end
