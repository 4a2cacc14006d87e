"""Parsed sentences in one format, independent of the labels of the pipeline. The *head* of a word is the index of the
word that governs it, and its *label* is the kind of the dependency. Labels are those of Universal Dependencies; a parse
with the labels of ClearNLP is converted.

In: a spaCy document. Out: a :class:`Sentence` for each of its sentences, with heads and labels of Universal
Dependencies: a noun governs its preposition, a predicate its copula, the first conjunct all others. Parses with the
labels of ClearNLP (``pobj``, ``dobj``, ``attr`` …) are converted. A word without a parse has no head. White space
tokens are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..text.everyday_words import is_everyday
from ..text.names import to_singular

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

#: Labels of ClearNLP with only a different name in Universal Dependencies.
_UNIVERSAL_LABELS = {
    "dobj": "obj",
    "nsubjpass": "nsubj:pass",
    "auxpass": "aux:pass",
    "neg": "advmod",
    "nn": "compound",
    "poss": "nmod:poss",
    "relcl": "acl:relcl",
    "npadvmod": "obl:unmarked",
    "preconj": "cc:preconj",
    "predet": "det",
}
_CLEARNLP_LABELS = frozenset(("pobj", "attr", *_UNIVERSAL_LABELS))


@dataclass(slots=True)
class Word:
    """A word: ``head`` is the index of the word that governs it (-1: none), ``start`` and ``end`` are its characters.

    ``is_nominal`` is True for a noun, common or proper; ``is_proper`` for a proper name or part of one.
    """

    text: str
    lemma: str
    pos: str
    tag: str
    label: str
    head: int
    start: int
    end: int
    is_nominal: bool
    is_proper: bool
    children: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Sentence:
    """The words of a sentence of ``text``, with their dependencies."""

    text: str
    words: list[Word]

    def find_dependents(self, index: int, *labels: str) -> Iterator[int]:
        """Yield the indexes of a word's dependents with one of these dependency labels or their subtypes.

        For example, ``nmod:poss`` is a subtype of ``nmod``.
        """
        for child in self.words[index].children:
            label = self.words[child].label
            if label in labels or label.partition(":")[0] in labels:
                yield child

    def has_dependent(self, index: int, *labels: str) -> bool:
        """True if a word has a dependent with one of these dependency labels or their subtypes."""
        return next(self.find_dependents(index, *labels), None) is not None

    def get_dependent_lemmas(self, index: int, *labels: str) -> set[str]:
        """Return the lemmas of the dependents of a word with one of these dependency labels or their subtypes."""
        return {self.words[child].lemma for child in self.find_dependents(index, *labels)}


def iter_sentences(doc: Doc) -> Iterator[Sentence]:
    """Yield the parsed sentences of spaCy's ``doc`` that have words; nothing if the pipeline has no parser."""
    if doc.has_annotation("DEP"):
        text = doc.text
        for span in doc.sents:
            words = _build_words(span)
            if words:
                yield Sentence(text, words)


def _build_words(span: Span) -> list[Word]:
    """Convert ``span``, a sentence of spaCy, to words with Universal Dependencies; correct frequent parser errors.

    Every conjunct of a chain ("X, Y and Z") depends on the first one.
    """
    tokens = [token for token in span if not token.is_space]
    index_by_token = {token.i: index for index, token in enumerate(tokens)}
    words = []
    for token in tokens:
        is_root = token.head.i == token.i
        head = -1 if is_root else index_by_token.get(token.head.i, -1)
        words.append(_make_word(token, head, is_first=token is tokens[0]))
    if any(word.label in _CLEARNLP_LABELS for word in words):
        _convert_to_universal(words)
    _correct_parse(words)
    for word in words:
        while word.label == "conj" and word.head >= 0 and words[word.head].label == "conj":
            word.head = words[word.head].head
    for index, word in enumerate(words):
        if word.head >= 0:
            words[word.head].children.append(index)
    return words


def _correct_parse(words: list[Word]) -> None:
    """Correct frequent errors of the parser and the tagger in a sentence, in place."""
    for index, word in enumerate(words):
        # "brother Tom": the parser attaches the name to the common noun before it.
        if word.label == "flat" and word.head == index - 1 and word.is_proper and not words[index - 1].is_proper:
            _attach_noun_to_name(words, index - 1, index)
    _correct_opening_word(words)
    for index, word in enumerate(words):
        precedes_noun = index + 1 < len(words) and words[index + 1].is_nominal
        if word.tag == "JJ" and word.label not in ("amod", "compound") and not precedes_noun:
            # A word with an article and no noun after it is a noun, even if the tagger does not know it.
            word.is_nominal = any(other.head == index and other.label == "det" for other in words[:index])


def _make_word(token: Token, head: int, is_first: bool) -> Word:
    """Convert a token of spaCy to a word governed by the word with the index ``head`` (-1: none).

    ``is_first`` is True if it opens a sentence, so that its capital does not mark a name.
    """
    text, tag = token.text, token.tag_
    is_nominal = token.pos_ in ("NOUN", "PROPN") or tag.startswith("NN")
    is_tagged_proper = token.pos_ == "PROPN" or tag.startswith("NNP")
    is_proper = is_nominal and (is_tagged_proper or (not is_first and text[0].isupper()))
    if is_first and tag == "NNPS" and text[1:].islower():
        # At the start of a sentence, every plural is capitalized.
        tag, is_proper = "NNS", False
    lemma = (token.lemma_ or text).lower()
    return Word(
        text=text,
        lemma=lemma,
        pos=token.pos_,
        tag=tag,
        label=token.dep_,
        head=head,
        start=token.idx,
        end=token.idx + len(text),
        is_nominal=is_nominal,
        is_proper=is_proper,
    )


def _correct_opening_word(words: list[Word]) -> None:
    """Correct the tag of the first word of a sentence, in place, if it has the form of a plural.

    A plural before a plural verb is a common noun, not a name (``Dogs are``). A plural before ``is`` or ``was`` is a
    name, unless it is an everyday word (``Sims is``).
    """
    precedes_singular_verb = len(words) > 1 and words[1].text in ("is", "was")
    if precedes_singular_verb and words[0].tag == "NNS" and words[0].text.istitle():
        if not is_everyday(words[0].text):
            words[0].tag, words[0].is_proper = "NNP", True
        return
    is_titled = bool(words) and words[0].is_proper and words[0].text[1:].islower()
    if not is_titled or to_singular(words[0].text) is None:
        return
    verb = next((word for word in words if word.tag in ("VBP", "VBZ", "VBD")), None)
    if verb is not None and (verb.tag == "VBP" or verb.text == "were"):
        words[0].tag, words[0].is_proper = "NNS", False


def _attach_noun_to_name(words: list[Word], noun: int, name: int) -> None:
    """Make a name the head of the common noun before it (``brother Tom``), in place.

    ``noun`` and ``name`` are indexes of words. Later words that depend on the noun are attached to the name, too.
    """
    words[name].head, words[name].label = words[noun].head, words[noun].label
    words[noun].head, words[noun].label = name, "nmod:desc"
    for index, word in enumerate(words):
        if word.head == noun and index > name:
            word.head = name


def _convert_to_universal(words: list[Word]) -> None:
    """Convert the heads and labels of ``words`` from the style of ClearNLP to Universal Dependencies, in place."""
    for word in words:
        word.label = _UNIVERSAL_LABELS.get(word.label, word.label)
    for index, word in enumerate(words):
        if word.label == "pobj" and word.head >= 0:  # the preposition becomes a dependent of its object
            preposition = words[word.head]
            governor = preposition.head
            word.label = "nmod" if governor >= 0 and words[governor].is_nominal else "obl"
            word.head, preposition.head, preposition.label = governor, index, "case"
    for index, word in enumerate(words):
        if word.label not in ("attr", "acomp") or word.head < 0:
            continue
        verb_index, verb = word.head, words[word.head]
        if verb.lemma != "be":
            word.label = "xcomp"
            continue
        word.head, word.label = verb.head, verb.label  # the predicate of *be* becomes the head of the clause
        for other in words:
            if other.head == verb_index and other is not word:
                other.head = index
        verb.head, verb.label = index, "cop"
