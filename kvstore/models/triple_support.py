"""Support of a triple that a language model wrote by the order of the words in a sentence.

In: subject, relation and object, and the text that they are from. Out: an error if no sentence has them in an order
that relates them: a sentence with all words of a triple can still say the opposite, or relate other names. If a
sentence lacks the name of the subject, a pronoun can stand for it, or the title of the text if it has the name. In
languages other than English, where verbs can be last, only the order of subject and object counts; texts without spaces
are not checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from functools import lru_cache
from itertools import pairwise, product

from ..process.frozen_dataclass import frozen_dataclass
from ..text.languages import detect_language
from ..text.normalize import fold_case
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import FUNCTION_WORDS, detect_word_language, is_unspaced, segment_words, split_written_words
from .english_words import (
    ARTICLES,
    BE_WORDS,
    IRREGULAR_VERBS,
    PAST_ENDINGS,
    PREPOSITIONS,
    PRESENT_ENDINGS,
    RELATIVE_PRONOUNS,
)
from .statement_support import PRONOUNS, list_content_stems, to_stem

#: The marks at which a noun phrase ends.
_PUNCTUATION_PATTERN = compile_lazily(r"[,;:()\"“”–—]")
#: The maximum number of words of a relation, and of a name.
_MAX_RELATION_WORDS, _MAX_NAME_WORDS = 7, 12
#: The maximum number of other words between the first and last word of a subject in a sentence, and between "is" and an
#: object.
_MAX_SUBJECT_GAP, _MAX_LINK_GAP = 3, 6
_ARTICLES_AND_CONJUNCTIONS = ARTICLES | {"and", "or"}
#: The prepositions that a relation must have if they are before its object.
_RELATION_PREPOSITIONS = PREPOSITIONS - {"by", "of"}
_PARTICIPLES = frozenset("based born called held known located made named".split())
#: The words with which no name begins. No name ends with one of them, with an article or with a participle that needs
#: another word.
_LINKS = BE_WORDS | PREPOSITIONS | frozenset("had has have that which".split())
#: The first and last position of some words in a sentence.
_Span = tuple[int, int]
#: The words that, like verbs with a regular ending, begin another clause.
_CLAUSE_SIGNS = BE_WORDS | IRREGULAR_VERBS | RELATIVE_PRONOUNS
#: The span of a subject that only the title of the text names.
_IMPLIED: _Span = (-1, -1)


@frozen_dataclass
class _OrderedSentence:
    """The words of a sentence as written, in normal form, and as stems.

    ``ends`` are the positions of the words before a punctuation mark.
    """

    written_words: Sequence[str]
    words: Sequence[str]
    stems: Sequence[str]
    ends: Set[int]

    def find_spans(self, stems: Sequence[str], max_other_words: int) -> list[_Span]:
        """Return the spans that have, in order, all of ``stems`` that are in the sentence; empty if less than half are.

        A span has at most ``max_other_words`` other words between its first and last word.
        """
        present = [stem for stem in stems if stem in self.stems]
        spans: list[_Span] = []
        for start, stem in enumerate(self.stems):
            if stem in present[:1] and 2 * len(present) >= len(stems):
                end = start
                for wanted in present[1:]:
                    end = next(
                        (next_end for next_end in range(end + 1, len(self.stems)) if self.stems[next_end] == wanted), -1
                    )
                    if end < 0:
                        break
                if 0 <= end - start < len(present) + max_other_words:
                    spans.append((start, end))
        return spans

    def ends_noun_phrase(self, position: int) -> bool:
        """True if the word at a position is not followed by a noun, which it would only modify ("comics writer")."""
        if position in self.ends or position + 1 >= len(self.words):
            return True
        word = self.words[position + 1]
        is_verb = _has_verb([word], nouns=frozenset())
        return word in FUNCTION_WORDS or word in PREPOSITIONS or is_verb or word.endswith("ly") or word.isdigit()

    def has_lower_case(self, span: _Span) -> bool:
        """True if a word of a span is in lower case, or the span is the first word, which always has a capital."""
        return any(word.islower() for word in self.written_words[max(1, span[0]) : span[1] + 1]) or span[1] == 0

    def has_word(self, words: frozenset[str], start: int, end: int) -> bool:
        """True if one of the words is at a position from ``start`` to before ``end``."""
        return not words.isdisjoint(self.words[max(0, start) : max(0, end)])

    def begins_clause(self, relation_words: Collection[str], start: int, end: int) -> bool:
        """True if a word at a position from ``start`` to before ``end``, not of a relation, can begin a clause."""
        return any(
            word not in relation_words
            and written_word.islower()
            and (word in _CLAUSE_SIGNS or word.endswith(("ed", "ing")))
            for word, written_word in zip(self.words[start:end], self.written_words[start:end], strict=True)
        )


@frozen_dataclass
class _OrderedText:
    """The sentences of a text. ``nouns`` are the words after an article or a number."""

    has_spaces: bool
    is_english: bool
    nouns: Set[str]
    sentences: Sequence[_OrderedSentence]


def check_triple(subject: str, relation: str, object_: str, text: str, *, title: str | None = None) -> None:
    """Raise ValueError unless a sentence of a text relates a subject to an object by its order.

    A sentence that does not name the subject can be about it only if the ``title`` of the text names it.
    :meth:`~kvstore.models.statement_support.SourcePassages.find_supporting` checks that a sentence has their words.
    """
    subject_stems, object_stems = map(check_name, (subject, object_))
    relation_stems = list_content_stems(relation)
    source = _parse_text(text)
    relation_words = segment_words(relation)
    if not 0 < len(relation_words) <= _MAX_RELATION_WORDS or any(map(str.isdigit, relation_words)):
        raise ValueError(f"the relation of a triple must be a verb of at most {_MAX_RELATION_WORDS} words")
    # The present of a plural has no ending.
    has_verb = relation[0].islower() and (subject.endswith("s") or _has_verb(relation_words, source.nouns))
    if source.is_english and not has_verb and (relation[0].isupper() or FUNCTION_WORDS.isdisjoint(relation_words)):
        raise ValueError("the relation of a triple has no verb")
    if subject_stems == object_stems or {*segment_words(subject), *segment_words(object_)}.issuperset(relation_words):
        raise ValueError("a triple repeats its words; write other words in subject, relation and object")
    if not source.has_spaces:
        return
    is_titled = not set(subject_stems).isdisjoint(list_content_stems(title or ""))
    for sentence in source.sentences:
        relation_spans = sentence.find_spans(relation_stems, _MAX_RELATION_WORDS)
        for subject_span, object_span in _iter_name_spans(sentence, subject_stems, object_stems, is_titled):
            if not source.is_english:
                has_order = subject_span < object_span
            elif relation_stems:
                has_order = any(
                    _has_order(sentence, subject_span, relation_span, object_span, relation_words)
                    for relation_span in relation_spans
                )
            else:
                # A name of the sentence is no object if the triple writes it in lower case.
                has_order = (not object_.islower() or sentence.has_lower_case(object_span)) and _has_light_order(
                    sentence, subject_span, frozenset(relation_words), object_span
                )
            if has_order:
                return
    raise ValueError("no sentence of the passages has the parts of a triple in this order; use the words of a sentence")


def _iter_name_spans(
    sentence: _OrderedSentence, subject_stems: Sequence[str], object_stems: Sequence[str], is_titled: bool
) -> Iterator[tuple[_Span, _Span]]:
    """Yield the pairs of separate spans of a subject and an object in a sentence.

    If the sentence lacks a word of a name, a pronoun can stand for it, and the title for a subject that it names
    (``is_titled``). A pronoun at the beginning can always stand for the subject.
    """
    pronouns = [(position, position) for position, word in enumerate(sentence.words) if word in PRONOUNS]
    subject_spans = sentence.find_spans(subject_stems, _MAX_SUBJECT_GAP)
    object_spans = sentence.find_spans(object_stems, len(object_stems) + _MAX_SUBJECT_GAP)
    pairs = list(product([*subject_spans, *(span for span in pronouns if span == (0, 0))], object_spans))
    if set(subject_stems) <= set(object_stems) or not set(subject_stems) <= set(sentence.stems):
        pairs += product([_IMPLIED, *pronouns] if is_titled else pronouns, object_spans)
    if not set(object_stems) <= set(sentence.stems):
        pairs += product(subject_spans, pronouns)
    for subject_span, object_span in pairs:
        if subject_span[1] < object_span[0] or object_span[1] < subject_span[0]:
            yield subject_span, object_span


def check_name(name: str) -> list[str]:
    """Return the stems of the content words of a name. Raises ValueError if it is not a name or a short term.

    >>> check_name("the choir of Rome")
    ['choir', 'rome']
    """
    words, stems = split_written_words(name), list_content_stems(name)
    ends = _LINKS | _ARTICLES_AND_CONJUNCTIONS | _PARTICIPLES
    if not stems or words[0] in _LINKS or words[-1] in ends or len(words) > _MAX_NAME_WORDS:
        raise ValueError(f"{name[:40]!r} is not a name or a short term; write names without verbs")
    return stems


def _has_verb(words: Sequence[str], nouns: Set[str]) -> bool:
    """True if one of the words of an English relation can be a verb. A word such as "mills" can be one or a noun."""
    if any(word in IRREGULAR_VERBS or word.endswith(PAST_ENDINGS) for word in words):
        return True
    return any(word.endswith(PRESENT_ENDINGS) and word not in nouns for word in words)


@lru_cache(maxsize=1)  # The triples of a text are checked one after another.
def _parse_text(text: str) -> _OrderedText:
    """Return the sentences of a text, which end by the rules of its language."""
    has_spaces = not is_unspaced(text)
    words = segment_words(text)
    word_language = detect_word_language(words, "english")
    is_english = has_spaces and word_language == "english"
    nouns = {noun for article, noun in pairwise(words) if article in _ARTICLES_AND_CONJUNCTIONS or article.isdigit()}
    sentences = []
    for start, end in split_sentences(text, None if is_english else detect_language(text) or word_language):
        written_words: list[str] = []
        ends: set[int] = set()
        for piece in _PUNCTUATION_PATTERN.split(text[start:end]):
            written_words += split_written_words(piece)
            ends.add(len(written_words) - 1)
        folded_words = list(map(fold_case, written_words))
        sentences.append(_OrderedSentence(written_words, folded_words, list(map(to_stem, folded_words)), ends))
    return _OrderedText(has_spaces, is_english, nouns, sentences)


def _has_light_order(
    sentence: _OrderedSentence, subject: _Span, relation_words: frozenset[str], object_: _Span
) -> bool:
    """True if a relation without content words, such as "is" or "of", joins a subject to an object.

    Between them must be a word of the relation, another form of its "be", or nothing but articles. The object must not
    be in another clause, and not modify a noun after it.
    """
    if not sentence.ends_noun_phrase(object_[1]):
        return False
    links = relation_words - _ARTICLES_AND_CONJUNCTIONS
    if links & BE_WORDS:
        links |= BE_WORDS
    if subject[1] < object_[0]:
        between = sentence.words[subject[1] + 1 : object_[0]]
        if subject != _IMPLIED and _ARTICLES_AND_CONJUNCTIONS.issuperset(between):
            return True
        first = max(subject[1] + 1, object_[0] - _MAX_LINK_GAP)
        positions = [position for position in range(first, object_[0]) if sentence.words[position] in links]
        return bool(positions) and not sentence.begins_clause(relation_words, positions[-1] + 1, object_[0])
    return bool(links & BE_WORDS) and _ARTICLES_AND_CONJUNCTIONS.issuperset(sentence.words[object_[1] + 1 : subject[0]])


def _has_order(
    sentence: _OrderedSentence, subject: _Span, relation: _Span, object_: _Span, relation_words: Sequence[str]
) -> bool:
    """True if the positions of the parts of a triple relate them.

    The orders are those of "Ann built the mill", "the mill was built by Ann", "built by Ann, the mill", "the builder of
    the mill was Ann" and "in 1802, Ann built". An object after its relation has no preposition that the relation lacks,
    and is not in another clause.
    """
    is_passive = relation_words[-1] == "by"
    if relation[1] < object_[0] and sentence.begins_clause(relation_words, relation[1] + 1, object_[0]):
        return False
    if relation[1] < object_[0] and _find_preposition(sentence, object_[0]) not in (None, *relation_words):
        return False
    if subject[0] < relation[0] < object_[0]:
        return is_passive or "by" not in sentence.words[object_[0] - 2 : object_[0]]
    if object_[0] < relation[0] < subject[0]:
        return is_passive != ("by" in sentence.words[relation[0] : subject[0]])
    if relation[0] < object_[0] < subject[0]:
        has_earlier_name = any(word[:1].isupper() for word in sentence.written_words[1 : relation[0]])
        return not has_earlier_name or sentence.has_word(BE_WORDS, object_[1], subject[0])
    if relation[0] < subject[0] < object_[0]:
        return "of" in sentence.words[relation[0] : subject[0]] and sentence.has_word(BE_WORDS, subject[1], object_[0])
    if object_[0] < subject[0] < relation[0]:
        return sentence.has_word(PREPOSITIONS, object_[0] - 2, object_[0])
    return False


def _find_preposition(sentence: _OrderedSentence, position: int) -> str | None:
    """Return the preposition before the name at a position and its articles; None if it has none, or "of" or "by"."""
    earlier_words = (word for word in reversed(sentence.words[: max(0, position)]) if word not in ARTICLES)
    word = next(earlier_words, None)
    return word if word in _RELATION_PREPOSITIONS else None
