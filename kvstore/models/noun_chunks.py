"""Base noun phrases from the labels of Universal Dependencies. The *head* of a phrase is its noun, name or pronoun.

In: a parsed document or span of spaCy. Out: (start, end, label) of each phrase, in words: the shape that spaCy's
``iter_noun_chunks`` expects of an iterator. spaCy's own English iterator reads other labels and misses most phrases.

A phrase is a noun, name or pronoun, with its determiners and modifiers before it (*the large index pages*) and the rest
of a name after it (*Robert Moore*, *section 3*). The noun after a preposition (*the head of the list*) is a separate
phrase, and so is an owner (*the writer's* book).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

HEAD_TAGS = frozenset({"NOUN", "PROPN", "PRON"})
#: Dependency labels of words that belong to the phrase of their head: of words before the head, and after it.
PREMODIFIER_LABELS = frozenset(
    "det det:predet amod nummod compound nmod:poss nmod:desc flat goeswith punct advmod cc:preconj".split()
)
POSTMODIFIER_LABELS = frozenset({"flat", "goeswith", "fixed", "nmod:desc"})
#: Dependency labels of nouns that are part of their head's phrase and have no separate phrase.
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


def iter_noun_chunks(text: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and label of each base noun phrase, in order and without overlaps.

    Start and end are indexes of words, and the label is the number of "NP" in the vocabulary, as spaCy requires for
    ``doc.noun_chunks``. Raises ValueError if the text is not parsed.
    """
    doc = text.doc
    if not doc.has_annotation("DEP"):
        raise ValueError("noun phrases need a parse; the pipeline has no parser")
    label = doc.vocab.strings.add("NP")
    last_end = 0
    for token in text:
        if not _is_phrase_head(token):
            continue
        start, end = max(_find_start(token), last_end), _find_end(token)
        while start < token.i and (doc[start].is_punct or doc[start].is_space):
            start += 1
        if start <= token.i:
            yield start, end, label
            last_end = end


def _is_phrase_head(token: Token) -> bool:
    """True if a word is the main word of a noun phrase: a noun, name or pronoun that is not part of another phrase.

    A possessive pronoun is part of the phrase of its noun.
    """
    if token.pos_ not in HEAD_TAGS or token.dep_ in INNER_LABELS:
        return False
    return not (token.dep_ == "nmod:poss" and token.pos_ == "PRON")


def _find_start(head: Token) -> int:
    """Return the index of the first word of the noun phrase whose main word is ``head``.

    The phrase begins with the modifiers directly before the head, without gaps between them. An owner ("Ann's") is a
    separate phrase, but a possessive pronoun is part of this one.
    """
    start = head.i
    for child in reversed(list(head.lefts)):
        is_owner = child.dep_ == "nmod:poss" and child.pos_ != "PRON"
        if child.dep_ not in PREMODIFIER_LABELS or is_owner or child.right_edge.i != start - 1:
            break
        start = child.left_edge.i
    return start


def _find_end(head: Token) -> int:
    """Return the index after the last word of the noun phrase whose main word is ``head``.

    The phrase ends with the words directly after the head that continue a name or a fixed expression.
    """
    end = head.i + 1
    for child in head.rights:
        if child.left_edge.i != end or child.dep_ not in POSTMODIFIER_LABELS:
            break
        end = child.i + 1
    return end
