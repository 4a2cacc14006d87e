"""Checks that a sentence of a passage supports a statement that a language model wrote. A *stem* is the first letters
of a word, which its forms share. *Names* are the stems of capitalized content words and of numbers. A *clause* is the
part of a statement between commas or words such as "and".

In: statements, and passages with their headings. Out: the passages that support a statement. A passage does if one of
its sentences has the content words of the statement and the same negations, so that no statement combines words from
several sentences into something that no sentence says. A pronoun can stand for a name of the sentences before it, and a
statement can join a sentence and the one before it, if the sentence has a pronoun. A word occurs in a sentence if their
first letters agree, so that the forms of a word in most languages count as one.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise

from ..process.frozen_dataclass import frozen_dataclass
from ..text.everyday_words import NOUN, get_part_of_speech
from ..text.languages import detect_language
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import (
    FUNCTION_WORDS,
    detect_word_language,
    get_function_words,
    list_content_words,
    segment_words,
    split_written_words,
)
from .english_words import ARTICLES
from .sentence_phrases import (
    NEGATIONS,
    STEM_ENGLISH,
    STEM_LETTERS,
    ParsedSentence,
    keeps_meaning,
    keeps_whole_phrases,
    parse_sentence,
)

#: A sentence may lack one content word of a statement, but no name or number, for each of this number of content words.
#: 80 % of the statements that GPT-3.5 extracted from passages pass. If their subjects are exchanged, 48 % pass, because
#: a sentence of the passage also says most of these.
_WORDS_PER_MISSING_WORD = 12
#: The minimum fraction of a statement's content words that are in the order of its sentence, and the minimum number of
#: these words for the check. 4 % of GPT-3.5's statements have less; with subject and object exchanged, 26 %.
_MIN_ORDERED_FRACTION, _MIN_ORDERED_WORDS = 0.6, 3
#: The number of consecutive words that a statement can have only once, unless they are a name.
_SEQUENCE_WORDS = 3
#: The words of a sentence that stand for names in another one.
PRONOUNS = frozenset("he she it they him her them his hers its their theirs this these".split())
#: The tenses of forms of "be". Only forms before an article are compared, because "was" also joins passives.
_BE_TENSES = {"is": "present", "are": "present", "was": "past", "were": "past"}
#: The ends of clauses, each of which can make a separate claim.
_CLAUSE_PATTERN = compile_lazily(r"[;:,]\s|\s(?:and|but|while|whereas)\s")


def compute_support(text: str, sources: Iterable[str]) -> float:
    """Return the fraction of the content words of a text that occur in its sources; 0 for a text without words.

    >>> compute_support("Tea leaves were picked in spring.", ["They are picking the leaves of tea by hand."])
    0.75
    """
    stems = _collect_content_stems(text)
    return len(stems & _collect_stems(sources)) / len(stems) if stems else 0.0


@frozen_dataclass
class _StatementClause:
    """A clause of a statement: the stems of its content words, and those of its names and numbers (``names``).

    ``tenses`` are "present" and "past", if the clause has such a form of "be" before an article.
    """

    stems: set[str]
    names: set[str]
    is_negated: bool
    tenses: set[str]


@frozen_dataclass
class _WordOrder:
    """The content words of a statement in order, as stems.

    ``repeat_counts`` maps each stem that occurs several times to its number of occurrences, and ``names`` are the stems
    of names. ``has_by`` is True if the statement has the word "by", as passive sentences do. If ``is_title``, all words
    must be in order.
    """

    stems: Sequence[str]
    repeat_counts: Mapping[str, int]
    names: Set[str]
    has_by: bool
    is_title: bool

    def has_compatible_order(self, sentence_stems: Sequence[str]) -> bool:
        """True unless a sentence contradicts the statement by the order or the counts of its words.

        ``sentence_stems`` are the stems of the sentence in order. If the statement repeats a word, a sentence that has
        the word less often contradicts it, unless the sentence's pronouns can stand for a name. Unless the statement is
        a title, order proves nothing if the two share few words, or if only one of them is passive (has "by").
        """
        counts = Counter(sentence_stems)
        num_pronouns = sum(counts[pronoun] for pronoun in PRONOUNS)
        for stem, count in self.repeat_counts.items():
            min_count = count - (num_pronouns if stem in self.names else 0)
            if 0 < counts[stem] < min_count:
                return False
        shared_stems = [stem for stem in self.stems if stem in counts]
        is_order_known = len(shared_stems) >= _MIN_ORDERED_WORDS and self.has_by == ("by" in counts)
        if not (self.is_title or is_order_known):
            return True
        min_fraction = 1 if self.is_title else _MIN_ORDERED_FRACTION
        return _compute_lcs_length(shared_stems, sentence_stems) >= min_fraction * len(shared_stems)


def _compute_lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two sequences of words.

    Source: Hunt and Szymanski, "A Fast Algorithm for Computing Longest Common Subsequences", 1977.
    """
    # The lowest position in ``second`` at which a common subsequence of each length, from 1, can end.
    ends: list[int] = []
    for word in first:
        # Positions are in decreasing order, so that a word of ``first`` matches only one of them.
        for position in reversed(range(len(second))):
            if second[position] == word:
                index = bisect_left(ends, position)
                ends[index : index + 1] = [position]
    return len(ends)


@frozen_dataclass
class _PassageSentence:
    """A sentence of a passage: ``stems`` of its words and of the headings, and ``ordered_stems`` of its words alone.

    ``earlier_names`` has the names of each earlier sentence, for which its pronouns can stand. ``negated_stems`` has
    the first content word after each of its negations. ``tenses`` are those of its forms of "be" before an article,
    "present" or "past". ``refers_back`` is True if the sentence has, or may have, a pronoun.
    """

    stems: set[str]
    ordered_stems: Sequence[str]
    parsed: ParsedSentence
    earlier_names: Sequence[set[str]]
    negated_stems: set[str]
    is_negated: bool
    tenses: set[str]
    refers_back: bool

    def count_missing_words(self, clause: _StatementClause) -> float:
        """Return how many words of a statement's clause this sentence lacks; infinity if it cannot support the clause.

        The sentence cannot support it if it lacks a name of the clause, or disagrees about a negation or the tense of
        "be". The names of one earlier sentence count as words of this one, because its pronouns can stand for them.
        """
        has_other_tense = clause.tenses and self.tenses and clause.tenses.isdisjoint(self.tenses)
        # A negated clause needs a negated sentence; the sentence must not negate a word of any other clause.
        has_other_negation = not self.is_negated if clause.is_negated else clause.stems & self.negated_stems
        if has_other_tense or has_other_negation:
            return math.inf
        missing_stems = clause.stems - self.stems
        # Add the names of the earlier sentence that leaves the fewest words missing, or of none (the empty set).
        missing_stems = min((missing_stems - names for names in (set[str](), *self.earlier_names)), key=len)
        return math.inf if missing_stems & clause.names else len(missing_stems)


def has_unresolved_pronoun(sentence: str) -> bool:
    """True if an English sentence has a pronoun before its first name, so that another sentence names its subject.

    A noun at the beginning counts as a name.

    >>> has_unresolved_pronoun("In 1990 it was sold."), has_unresolved_pronoun("Maria and her sons sail.")
    (True, False)
    >>> has_unresolved_pronoun("Three of his sons sail."), has_unresolved_pronoun("Members pay their fees.")
    (True, False)
    """
    for index, word in enumerate(split_written_words(sentence)):
        if word.lower() in PRONOUNS:
            return True
        is_noun = index > 0 or get_part_of_speech(word) in (NOUN, None)
        if word[0].isupper() and is_noun and word.lower() not in FUNCTION_WORDS:
            return False
    return False


@frozen_dataclass
class _ParsedPassage:
    """The sentences of a passage, its language if it is known, and the stems of its headings."""

    sentences: Sequence[_PassageSentence]
    language: str | None
    heading_stems: set[str]


@frozen_dataclass
class _WrittenStatement:
    """A statement to check. A sentence that supports it lacks at most ``max_missing`` of its content words. ``parsed``
    has the statement as parsed by the rules of each language of the passages.

    For a title, only words and their order are checked. A statement that ``must_keep_phrases`` must have all words or
    no word of each phrase, a part of a sentence between punctuation marks or conjunctions.
    """

    clauses: Sequence[_StatementClause]
    order: _WordOrder
    parsed: Mapping[str | None, ParsedSentence]
    max_missing: int
    is_title: bool
    must_keep_phrases: bool

    def is_supported_by(self, passage: _ParsedPassage) -> bool:
        """True if a sentence of a passage supports the statement: it agrees, and lacks at most ``max_missing`` words.

        A sentence with a pronoun may support the statement together with the sentence before it.
        """
        previous_sentence: _PassageSentence | None = None
        previous_counts: list[float] = []
        for sentence in passage.sentences:
            missing_counts = [sentence.count_missing_words(clause) for clause in self.clauses]
            if sum(missing_counts) <= self.max_missing and self._agrees_with([sentence], passage):
                return True
            if sentence.refers_back and previous_sentence is not None:
                num_missing = sum(map(min, previous_counts, missing_counts))  # each clause in the better of the two
                if num_missing <= self.max_missing and self._agrees_with([previous_sentence, sentence], passage):
                    return True
            previous_sentence, previous_counts = sentence, missing_counts
        return False

    def _agrees_with(self, sentences: Sequence[_PassageSentence], passage: _ParsedPassage) -> bool:
        """True unless one or two ``sentences`` of a passage use the statement's words to say something different.

        They do so if their words are in a different order, or if the statement adds or omits words such as "not". A
        statement that ``must_keep_phrases`` must have each phrase of the sentences whole or not at all. For a title,
        only the order counts.
        """
        if not self.order.has_compatible_order([stem for sentence in sentences for stem in sentence.ordered_stems]):
            return False
        if self.is_title:
            return True
        statement = self.parsed[passage.language]
        sources = [sentence.parsed for sentence in sentences]
        if not keeps_meaning(statement, sources):
            return False
        # In place of pronouns, the statement may have names of the headings and of at most one earlier sentence.
        return not self.must_keep_phrases or any(
            keeps_whole_phrases(statement, sources, passage.heading_stems | names)
            for names in (set[str](), *sentences[-1].earlier_names)
        )


class SourcePassages:
    """Passages with common headings, prepared for checking many statements."""

    def __init__(self, texts: Sequence[str], headings: Sequence[str] = ()) -> None:
        """Split the texts into sentences. ``headings`` are the titles and headings that apply to all of them."""
        self.texts = [*headings, *texts]
        # Headings may name the subject of a sentence, so their words count as words of each passage.
        heading_stems = _collect_stems(headings)
        self._passages = [_split_passage(text, heading_stems) for text in texts]
        #: True if all passages are in English.
        self.is_english = all(passage.language == "english" for passage in self._passages)

    def find_supporting(self, statement: str, *, is_title: bool = False, must_keep_phrases: bool = False) -> list[int]:
        """Return the indices of the passages that have a sentence with the words and the meaning of a statement.

        The words of a title (``is_title``) must have the same order in the passage. With ``must_keep_phrases``, the
        statement must also consist of whole phrases of a sentence, or of one of its clauses. Phrases are between
        punctuation marks or conjunctions. Raises ValueError, with a message for the model, if no passage supports the
        statement, or if it repeats its words.
        """
        if _repeats_words(statement):
            raise ValueError("the answer repeats its words")
        languages = {passage.language for passage in self._passages}
        clauses = map(_parse_clause, _CLAUSE_PATTERN.split(statement))
        written_statement = _WrittenStatement(
            clauses=[clause for clause in clauses if clause.stems],
            order=_parse_order(statement, is_title=is_title),
            parsed={language: parse_sentence(statement, language) for language in languages},
            max_missing=len(_collect_content_stems(statement)) // _WORDS_PER_MISSING_WORD,
            is_title=is_title,
            must_keep_phrases=must_keep_phrases,
        )
        indices = [index for index, passage in enumerate(self._passages) if written_statement.is_supported_by(passage)]
        if not written_statement.clauses or not indices:
            remedy = "copy whole clauses" if must_keep_phrases else "use their words"
            raise ValueError(f"no sentence of the passages says what the answer says; {remedy}")
        return indices

    def check_title(self, title: str) -> None:
        """Raise ValueError unless each clause of a title is supported by a passage."""
        for clause in _CLAUSE_PATTERN.split(title):
            self.find_supporting(clause, is_title=True)


def _split_passage(text: str, heading_stems: set[str]) -> _ParsedPassage:
    """Split a passage into sentences, and find the stems, names, negations and tenses of each.

    The words of the headings (``heading_stems``) count as words of every sentence. An English sentence with a pronoun
    can refer to names in earlier sentences; in other languages, every sentence can, because pronouns are unknown.
    """
    sentences: list[_PassageSentence] = []
    is_english = detect_word_language(segment_words(text), "english") == "english"
    language = "english" if is_english else detect_language(text)
    earlier_names: list[set[str]] = []  # the names in each sentence so far
    for start, end in split_sentences(text, None if is_english else language):
        sentence = text[start:end]
        words = segment_words(sentence)
        stems = [to_stem(word) for word in list_content_words(sentence, function_words=frozenset())]
        refers_back = not is_english or not PRONOUNS.isdisjoint(words)
        sentences.append(
            _PassageSentence(
                stems={*stems, *heading_stems},
                ordered_stems=stems,
                parsed=parse_sentence(sentence, language),
                earlier_names=tuple(earlier_names) if refers_back else (),
                negated_stems=_list_negated_stems(words),
                is_negated=not NEGATIONS.isdisjoint(words),
                tenses=_find_tenses(words),
                refers_back=refers_back,
            )
        )
        earlier_names.append(_find_names(sentence))
    return _ParsedPassage(sentences, language, heading_stems)


def _list_negated_stems(words: Sequence[str]) -> set[str]:
    """Return the stem of the first content word after each negation of a sentence.

    >>> _list_negated_stems("the mill was not sold".split())
    {'sold'}
    """
    negations = (index for index, word in enumerate(words) if word in NEGATIONS)
    negated_words = (list_content_words(" ".join(words[index + 1 :]))[:1] for index in negations)
    return {to_stem(word) for first_words in negated_words for word in first_words}


def _parse_order(statement: str, *, is_title: bool) -> _WordOrder:
    """Return the order of a statement's content words, to compare with a source sentence.

    It also has the words that occur more than once, the names, and whether "by" occurs. All words of a title
    (``is_title``) must be in the order of the source, but only most words of a sentence.
    """
    stems = list_content_stems(statement)
    return _WordOrder(
        stems=stems,
        repeat_counts={stem: count for stem, count in Counter(stems).items() if count > 1},
        names=_find_names(statement),
        has_by="by" in segment_words(statement),
        is_title=is_title,
    )


def _parse_clause(text: str) -> _StatementClause:
    """Return the content words, names, negation and tenses of a statement's clause, to compare with its source."""
    words = segment_words(text)
    return _StatementClause(
        stems=set(list_content_stems(text)),
        names=_find_names(text),
        is_negated=not NEGATIONS.isdisjoint(words),
        tenses=_find_tenses(words),
    )


def _find_tenses(words: Sequence[str]) -> set[str]:
    """Return the tenses, "present" or "past", of the forms of "be" before an article.

    >>> _find_tenses("tea is a drink that was made in china".split())
    {'present'}
    """
    return {_BE_TENSES[word] for word, next_word in pairwise(words) if word in _BE_TENSES and next_word in ARTICLES}


def _repeats_words(statement: str) -> bool:
    """True if a statement repeats itself: three consecutive words occur twice, and they are not only a name.

    Several of the three must be content words, and one of these in lower case.

    >>> _repeats_words("The man about town is a man about town."), _repeats_words("Ann High School and Bo High School.")
    (True, False)
    """
    words = split_written_words(statement)
    sequences = Counter(tuple(words[start : start + _SEQUENCE_WORDS]) for start in range(len(words)))
    repeated_words = [list_content_words(" ".join(sequence)) for sequence, count in sequences.items() if count > 1]
    # Content words are folded to lower case, so they are found in ``words`` only if they are written in lower case.
    return any(len(content_words) > 1 and not set(words).isdisjoint(content_words) for content_words in repeated_words)


def _find_names(text: str) -> set[str]:
    """Return the stems of the capitalized content words of a text, which can be names, and its numbers.

    >>> sorted(_find_names("The mill of Ann burned in 1802."))
    ['1802', 'ann']
    """
    words = [word for word in split_written_words(text) if word[:1].isupper() or word[:1].isdigit()]
    return {to_stem(word) for word in list_content_words(" ".join(words))}


def _collect_content_stems(text: str) -> set[str]:
    """Return the stems of the content words of a text, or of all its words if it has no content words."""
    return set(list_content_stems(text)) or _collect_stems([text])


def list_content_stems(text: str) -> list[str]:
    """Return the stems of the words of a text that are not function words of its language, in order."""
    function_words = get_function_words(detect_word_language(segment_words(text)))
    return list(map(to_stem, list_content_words(text, function_words)))


def _collect_stems(sources: Iterable[str]) -> set[str]:
    """Return the stems of all words of some texts, including function words."""
    return {to_stem(word) for source in sources for word in list_content_words(source, function_words=frozenset())}


def to_stem(word: str) -> str:
    """Return the first letters of the English stem of a word, which in most languages are the same for all its forms.

    A number is returned whole.
    """
    return word if word[0].isdigit() else STEM_ENGLISH(word)[:STEM_LETTERS]
