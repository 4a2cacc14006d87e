"""Checks that a statement that a language model wrote keeps the meaning of its *sources*, the sentences it is from. A
*phrase* is a part of a sentence between punctuation marks or conjunctions. *Qualifiers* are words such as "not", "only"
or "may" that change what a phrase or the sentence says.

In: sentences of a passage, and a statement that a language model wrote from them. Out: True if the statement keeps
their meaning, as far as words show it. It does not if it adds or leaves out a word such as "not", "only", "almost" or
"if", makes a question a statement, or ends in the middle of a clause. A sentence must also keep each phrase of its
source whole or leave it out, because a phrase without some of its words often says something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from ..process.frozen_dataclass import frozen_dataclass
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.words import get_function_words, get_stemmer, list_content_words, segment_words, split_written_words
from .english_words import ARTICLES, PREPOSITIONS, has_predicate
from .sentence_clauses import iter_clauses

#: The ends of phrases. A comma within a number and a dash within a word or a range of dates end no phrase.
_PHRASE_END_PATTERN = compile_lazily(r"[;:,](?:\s|\Z)|[—()\[\]，、；：（）]|\s–\s(?!\d)|\s(?i:and|but|while|whereas)\s")
_QUESTION_PATTERN = compile_lazily(r"""[?？؟]\W*\Z""")
#: The words, folded (lower case, no accents), that negate a statement in some languages; "t" is the end of "don't".
NEGATIONS = frozenset(
    """
    not no never none nobody nothing neither nor without cannot t nicht kein keine keinen keiner nie niemals ohne pas
    jamais aucun aucune sans nunca sin non senza niet geen nooit zonder inte aldrig ikke utan uden nao nem
    """.split()
)
#: The words that limit what their clause says, by language.
_CLAUSE_QUALIFIERS = {
    "english": """
        almost barely could either formerly hardly just merely might must nearly occasionally only or partially partly
        rarely scarcely seldom should sometimes would yet
        """,
    "german": """
        allenfalls beinahe dürfte fast höchstens kaum kann könnte meist mindestens noch nur oder selten soll sollte
        teilweise würde
        """,
    "french": "environ guère moins ou parfois plus plutôt presque rarement seulement souvent uniquement",
    "spanish": "apenas casi más menos o podría sólo solamente",
    "italian": "meno o più potrebbe quasi raramente solo soltanto spesso",
    "portuguese": "apenas menos mais ou poderia quase raramente só somente",
    "dutch": "alleen bijna meestal minder nauwelijks of slechts soms vaak",
}
#: The words that limit the whole sentence, such as conditions and those who say it, by language.
_SENTENCE_QUALIFIERS = {
    "english": """
        according allegedly alleged apparently argued argues believe believed believes claim claimed claims doubt except
        if likely may maybe perhaps possibly potentially probably purported reportedly rumored said says supposed
        supposedly think thinks thought unless unlikely whether
        """,
    "german": """
        angeblich falls laut möglicherweise sofern vermutlich vielleicht wahrscheinlich wenn zufolge
        """,
    "french": "peut possible probablement selon si",
    "spanish": "aunque excepto probablemente quizá quizás según si tal",
    "italian": "forse probabilmente se secondo",
    "portuguese": "provavelmente se segundo talvez",
    "dutch": "als indien misschien tenzij volgens waarschijnlijk",
}
_PRONOUNS = frozenset("he her hers him his it its she their theirs them they".split())
#: The English function words without which a statement says the same. It also says the same with them, except pronouns.
_NEUTRAL_WORDS = ARTICLES | _PRONOUNS | frozenset("also however so that then".split())
#: The words that count as another word: forms of one tense.
_EQUAL_WORDS = {"am": "is", "are": "is", "were": "was", "have": "has"}
#: The words with which a statement needs the whole sentence: counts of what the sentence lists, and subordinators.
_WHOLE_SENTENCE_WORDS = frozenset(
    """
    all both each every only two three four five six seven eight nine ten eleven twelve 2 3 4 5 6 7 8 9
    although because if since though unless until when whenever whereas whether while
    alle beide jede jeder jedes zwei drei vier funf deux trois quatre cinq dos tres cuatro cinco tre quattro cinque
    """.split()
)
#: The words with which no English sentence ends.
_OPEN_ENDS = ARTICLES | {"and", "but", "or"}
#: The words before which a clause can end.
_CONTINUATIONS = PREPOSITIONS | frozenset(
    """
    about above across after against along although among and around because before behind below beside between beyond
    but down during inside near off onto out outside over since so that through throughout toward towards under up upon
    when where which while who whose within
    """.split()
)
#: The number of first letters that two forms of a word share.
STEM_LETTERS = 5
STEM_ENGLISH = get_stemmer("english")


@frozen_dataclass
class _QualifiedPhrase:
    """A phrase of a sentence, between punctuation marks or conjunctions: the stems of its words and content words.

    ``word_stems`` are in order, without articles or similar words. ``qualifiers`` are words such as "not" or "may" that
    change what is said; all negations are "not". ``governs_sentence`` is True if they also apply to the other phrases,
    and ``is_joined`` if only a conjunction without a comma is between the phrase and the one before it.
    """

    word_stems: Sequence[str]
    content_stems: Set[str]
    qualifiers: Set[str]
    governs_sentence: bool
    is_joined: bool


@frozen_dataclass
class ParsedSentence:
    """A sentence or statement: its phrases, and all its words in lower case without accents.

    ``phrase_ends`` are the numbers of words before the end of each phrase. ``clauses`` are the phrases of each clause
    that means the same without the rest of the sentence; they are known for English only.
    """

    phrases: Sequence[_QualifiedPhrase]
    words: Sequence[str]
    phrase_ends: Collection[int]
    is_question: bool
    clauses: Sequence[Sequence[_QualifiedPhrase]]


def parse_sentence(text: str, language: str | None) -> ParsedSentence:
    """Divide a sentence, or a statement that a model wrote, into phrases with stems and qualifiers.

    Clauses are found only in English. If ``language`` is None (unknown), the qualifiers are the English ones.
    """
    word_lists = _load_word_lists(language)
    texts, connectives = _split_phrases(text)
    words: list[str] = []
    phrase_ends: list[int] = []
    for phrase in texts:
        words += map(fold_text, split_written_words(phrase))
        phrase_ends.append(len(words))
    clauses = iter_clauses(texts, connectives) if language == "english" else ()
    return ParsedSentence(
        phrases=[
            _build_phrase(phrase, word_lists, is_joined=connective.strip().isalpha())
            for phrase, connective in zip(texts, connectives, strict=True)
        ],
        words=words,
        phrase_ends=phrase_ends,
        is_question=_QUESTION_PATTERN.search(text) is not None,
        clauses=[[_build_phrase(phrase, word_lists) for phrase in clause] for clause in clauses],
    )


class _WordLists(NamedTuple):
    """The words of a language by which phrases are compared, in lower case without accents.

    A statement may add or leave out ``neutral_words``, such as articles. ``sentence_qualifiers``, such as "if", are the
    ``qualifiers`` that limit what the whole sentence says.
    """

    function_words: frozenset[str]
    neutral_words: frozenset[str]
    qualifiers: frozenset[str]
    sentence_qualifiers: frozenset[str]


@lru_cache(maxsize=16)
def _load_word_lists(language: str | None) -> _WordLists:
    """Return the word lists of a language; the qualifiers of an unknown language (None) are the English ones."""
    function_words = get_function_words(language)
    sentence_qualifiers = _parse_words(_SENTENCE_QUALIFIERS.get(language or "english", ""))
    qualifiers = NEGATIONS | sentence_qualifiers | _parse_words(_CLAUSE_QUALIFIERS.get(language or "english", ""))
    neutral_words = _NEUTRAL_WORDS if language == "english" else function_words - qualifiers
    return _WordLists(function_words, neutral_words, qualifiers, sentence_qualifiers)


def _build_phrase(text: str, word_lists: _WordLists, *, is_joined: bool = False) -> _QualifiedPhrase:
    """Return a phrase with its stems and qualifiers; ``is_joined`` is True if only a conjunction precedes it."""
    written_words = split_written_words(text)
    words = list(map(fold_text, written_words))
    content_words = list_content_words(text, word_lists.neutral_words)
    # All negations are one word, and so are the forms of one tense of a verb.
    unified_words = ["not" if word in NEGATIONS else _EQUAL_WORDS.get(word, word) for word in content_words]
    # A capitalized word after the first, as in "No. 5", belongs to a name.
    unnamed_words = [
        word
        for word, written_word in zip(words, written_words, strict=True)
        if word == words[0] or written_word.islower()
    ]
    qualifiers = {"not" if word in NEGATIONS else word for word in unnamed_words if word in word_lists.qualifiers}
    empty_words = word_lists.function_words | word_lists.qualifiers
    return _QualifiedPhrase(
        word_stems=list(map(STEM_ENGLISH, unified_words)),
        content_stems={STEM_ENGLISH(word) for word in unified_words if word not in empty_words},
        qualifiers=qualifiers,
        governs_sentence=not word_lists.sentence_qualifiers.isdisjoint(words),
        is_joined=is_joined,
    )


def _split_phrases(text: str) -> tuple[list[str], list[str]]:
    """Return the phrases of a sentence, and the text before each: a punctuation mark, a conjunction or nothing ("").

    >>> _split_phrases("Ann sings, and Bo swims")
    (['Ann sings', 'and Bo swims'], ['', ', '])
    """
    phrases = _PHRASE_END_PATTERN.split(text)
    connectives: list[str] = []
    end = 0
    for phrase in phrases:
        start = text.index(phrase, end)
        connectives.append(text[end:start])
        end = start + len(phrase)
    return phrases, connectives


def keeps_meaning(statement: ParsedSentence, sentences: Sequence[ParsedSentence]) -> bool:
    """True unless a statement that a model wrote changes the meaning of ``sentences``, its sources.

    It must have the same qualifiers as the phrases that it uses. It must be a question if and only if the last sentence
    is one, and must not be the beginning of a sentence, cut within a clause. Only words are compared.
    """
    phrases = [phrase for sentence in sentences for phrase in sentence.phrases]
    qualifiers = _unite_sets(phrase.qualifiers for phrase in statement.phrases)
    added_qualifiers = qualifiers - _unite_sets(phrase.qualifiers for phrase in phrases)
    if added_qualifiers or statement.is_question != sentences[-1].is_question:
        return False
    if any(_is_truncated_copy(statement.words, sentence) for sentence in sentences):
        return False
    num_phrases_by_stem = Counter(stem for phrase in phrases for stem in phrase.content_stems)
    stems = _unite_sets(phrase.content_stems for phrase in statement.phrases)
    for phrase in phrases:
        # The statement uses a phrase if it has a content word that occurs in no other phrase. A phrase that governs the
        # whole sentence always counts as used.
        is_used = phrase.governs_sentence or any(
            num_phrases_by_stem[stem] == 1 for stem in phrase.content_stems & stems
        )
        if is_used and phrase.qualifiers - qualifiers:
            return False
    return True


def keeps_whole_phrases(statement: ParsedSentence, sentences: Sequence[ParsedSentence], name_stems: Set[str]) -> bool:
    """True if a statement consists of whole phrases of some sentences, or of a clause of a single sentence, in order.

    The statement must have the first phrase of the first sentence or clause, and a phrase of the last sentence. With a
    count ("both", "two") or a subordinate clause, it must have every phrase, because a phrase left out could change
    what is counted. ``name_stems`` are the beginnings of names that can replace a pronoun.
    """
    # A pronoun that no sentence has would refer to another person: "her wife" is not "his wife".
    if not _PRONOUNS.intersection(statement.words) <= {word for sentence in sentences for word in sentence.words}:
        return False
    phrases = [phrase for sentence in sentences for phrase in sentence.phrases]
    if _consists_of_whole_phrases(statement, phrases, len(sentences[-1].phrases), name_stems):
        return True
    clauses = sentences[0].clauses if len(sentences) == 1 else ()
    return any(_consists_of_whole_phrases(statement, clause, len(clause), name_stems) for clause in clauses)


def _consists_of_whole_phrases(
    statement: ParsedSentence, phrases: Sequence[_QualifiedPhrase], num_last_phrases: int, name_stems: Set[str]
) -> bool:
    """True if a statement consists of some of ``phrases``, each whole and in order.

    ``phrases`` are those of its sources, of which ``num_last_phrases`` are in the last sentence. The statement must
    have the first phrase, one of the last sentence, and each phrase that qualifies the whole sentence; if it has a word
    such as "both" or "because", it must have all of them. Phrases of function words alone are not required.
    ``name_stems`` are the beginnings (``STEM_LETTERS`` letters) of the names that can replace a pronoun.
    """
    stems = [stem for phrase in statement.phrases for stem in phrase.word_stems]
    used_flags = [_uses_phrase(set(stems), phrase) for phrase in phrases]
    used_phrases = [phrase for phrase, is_used in zip(phrases, used_flags, strict=True) if is_used]
    omitted_phrases = [phrase for phrase, is_used in zip(phrases, used_flags, strict=True) if not is_used]
    content_phrases = [phrase for phrase in phrases if phrase.content_stems]
    last_phrases = [phrase for phrase in phrases[-num_last_phrases:] if phrase.content_stems] or content_phrases
    if not content_phrases or content_phrases[0] in omitted_phrases:
        return False
    if all(phrase in omitted_phrases for phrase in last_phrases):
        return False
    # A phrase joined by a conjunction alone ("red and blue") must not be separated from the phrase before it.
    if any(phrase.is_joined and used_flags[index] != used_flags[index - 1] for index, phrase in enumerate(phrases)):
        return False
    omits_content = any(phrase.content_stems for phrase in omitted_phrases)
    if omits_content and not _WHOLE_SENTENCE_WORDS.isdisjoint(statement.words):
        return False
    if any(phrase.governs_sentence for phrase in omitted_phrases):
        return False
    return _equals_except_names(stems, [stem for phrase in used_phrases for stem in phrase.word_stems], name_stems)


def _uses_phrase(stems: Set[str], phrase: _QualifiedPhrase) -> bool:
    """True if a statement with these ``stems`` has most content words of a phrase of its source.

    If the phrase has no content words, such as ", too,", the statement must contain all of its words.
    """
    if not phrase.content_stems:
        return set(phrase.word_stems) <= stems
    return 2 * len(phrase.content_stems & stems) > len(phrase.content_stems)


def _equals_except_names(stems: Sequence[str], required_stems: Sequence[str], name_stems: Set[str]) -> bool:
    """True if a statement's ``stems`` are ``required_stems`` in this order, except for added names.

    ``name_stems`` are the beginnings of the names that may be added, in place of pronouns.
    """
    num_matched = 0
    for stem in stems:
        if num_matched < len(required_stems) and stem == required_stems[num_matched]:
            num_matched += 1
        elif stem[:STEM_LETTERS] not in name_stems:
            return False
    return num_matched == len(required_stems)


def is_incomplete(sentence: str) -> bool:
    """True if an English sentence has no word that can be its verb, or if it ends with an article or a conjunction."""
    phrases = [split_written_words(phrase) for phrase in _PHRASE_END_PATTERN.split(sentence)]
    words = segment_words(sentence)
    return not words or words[-1] in _OPEN_ENDS or not has_predicate(phrases)


def _parse_words(words: str) -> frozenset[str]:
    """Return the words between the spaces of a string, in lower case without accents."""
    return frozenset(map(fold_text, words.split()))


def _is_truncated_copy(words: Sequence[str], sentence: ParsedSentence) -> bool:
    """True if ``words`` copy only the beginning of ``sentence`` and stop within a clause.

    A copy is complete if a phrase ends there, or if a preposition or conjunction follows.
    """
    num_words = len(words)
    ends_with_phrase = num_words in sentence.phrase_ends
    if ends_with_phrase or list(sentence.words[:num_words]) != list(words):
        return False
    return sentence.words[num_words] not in _CONTINUATIONS


def _unite_sets(sets: Iterable[Set[str]]) -> Set[str]:
    """Return the union of all these sets."""
    return frozenset[str]().union(*sets)
