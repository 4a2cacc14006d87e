"""The parts of a sentence between punctuation marks, and what a statement may leave out of them.

In: sentences of a passage, and a statement that a language model wrote from them. Out: True if the statement keeps
their meaning, as far as words show it. It does not if it adds or leaves out a word such as "not", "only", "almost" or
"if", makes a question a statement, or ends in the middle of a clause. A sentence of a summary must also keep each part
of its sentence whole or leave it out, because a part without some of its words often says something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache

from ..process.frozen_dataclass import frozen_dataclass
from ..text.normalize import fold_case
from ..text.patterns import compile_lazily
from ..text.words import get_function_words, get_stemmer, list_content_words, segment_words, split_written_words
from .english_words import ARTICLES, BE_WORDS, PREPOSITIONS, has_predicate

#: The ends of parts. A comma within a number and a dash within a word or a range of years are none.
_PART_PATTERN = compile_lazily(r"[;:,](?:\s|\Z)|[—()\[\]，、；：（）]|\s–\s|\s(?:and|but|while|whereas)\s")
_QUESTION_PATTERN = compile_lazily(r"""[?？؟]\W*\Z""")
#: The words in normal form that negate a statement in some languages; "t" is the end of "don't".
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
#: The English function words without which, or with which, a statement says the same.
_NEUTRAL_WORDS = (
    ARTICLES
    | BE_WORDS
    | frozenset(
        """
        also and by had has have having he her hers him his however i it its itself let me my of our she so such that
        their theirs them then there therefore they this these those us we which who whom whose
        """.split()
    )
)
#: The words that say something of all that a sentence lists, in some languages.
_COUNTING_WORDS = frozenset(
    """
    all both each every only two three four five six seven eight nine ten eleven twelve 2 3 4 5 6 7 8 9
    alle beide jede jeder jedes zwei drei vier funf deux trois quatre cinq dos tres cuatro cinco tre quattro cinque
    """.split()
)
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
class _SentencePart:
    """A part of a sentence: the stems of its content words, other words with a meaning of their own, and qualifiers.

    All negations are one qualifier. It ``governs_sentence`` if what it says holds for the other parts too.
    """

    stems: Set[str]
    function_words: Set[str]
    qualifiers: Set[str]
    governs_sentence: bool


@frozen_dataclass
class SentenceOutline:
    """A sentence or statement: its parts and all its words in normal form.

    ``ends`` are the numbers of words before the end of each part.
    """

    parts: Sequence[_SentencePart]
    words: Sequence[str]
    ends: Collection[int]
    is_question: bool


def build_outline(text: str, language: str | None) -> SentenceOutline:
    """Return the outline of a sentence of a text in a language; None for an unknown one."""
    function_words = get_function_words(language)
    sentence_qualifiers = _parse_words(_SENTENCE_QUALIFIERS.get(language or "english", ""))
    qualifiers = NEGATIONS | sentence_qualifiers | _parse_words(_CLAUSE_QUALIFIERS.get(language or "english", ""))
    # The words without a meaning of other languages are not listed.
    compared_words = function_words - _NEUTRAL_WORDS - qualifiers if language == "english" else frozenset()
    parts: list[_SentencePart] = []
    all_words: list[str] = []
    ends: list[int] = []
    for part in _PART_PATTERN.split(text):
        written_words = split_written_words(part)
        words = list(map(fold_case, written_words))
        all_words += words
        ends.append(len(all_words))
        parts.append(
            _SentencePart(
                frozenset(map(STEM_ENGLISH, list_content_words(part, function_words | qualifiers))),
                compared_words.intersection(words),
                frozenset(
                    "not" if word in NEGATIONS else word
                    for word, written_word in zip(words, written_words, strict=True)
                    # A capitalized word, as in "No. 5", is a part of a name.
                    if word in qualifiers and (word == words[0] or written_word.islower())
                ),
                not sentence_qualifiers.isdisjoint(words),
            )
        )
    return SentenceOutline(parts, all_words, ends, _QUESTION_PATTERN.search(text) is not None)


def keeps_meaning(statement: SentenceOutline, sentences: Sequence[SentenceOutline]) -> bool:
    """True unless a statement changes the meaning of the sentences that it is from, as far as words show it.

    It has the qualifiers of each part from which it has content words, and those of the whole sentence, and no other
    ones. It does not make a question a statement, and it is not the beginning of a sentence that ends within a clause.
    """
    parts = [part for sentence in sentences for part in sentence.parts]
    qualifiers = _union(part.qualifiers for part in statement.parts)
    if statement.is_question != sentences[-1].is_question or qualifiers - _union(part.qualifiers for part in parts):
        return False
    if any(_is_cut(statement.words, sentence) for sentence in sentences):
        return False
    num_parts = Counter(stem for part in parts for stem in part.stems)
    stems = _union(part.stems for part in statement.parts)
    for part in parts:
        is_used = part.governs_sentence or any(num_parts[stem] == 1 for stem in part.stems & stems)
        if is_used and part.qualifiers - qualifiers:
            return False
    return True


def keeps_parts(statement: SentenceOutline, sentences: Sequence[SentenceOutline], known_stems: Set[str]) -> bool:
    """True if a statement has, of each part of some sentences, all words or none, and no other words.

    It has those of the first part. A statement that counts has those of all parts, which can be what is counted.
    ``known_stems`` are beginnings of the stems of names that can replace a pronoun.
    """
    parts = [part for sentence in sentences for part in sentence.parts]
    stems = _union(part.stems for part in statement.parts)
    content_parts = [part for part in parts if part.stems]
    used_parts = [part for part in content_parts if 2 * len(part.stems & stems) > len(part.stems)]
    left_out_parts = [part for part in content_parts if part not in used_parts]
    if content_parts[:1] != used_parts[:1] or any(part.governs_sentence for part in left_out_parts):
        return False
    if left_out_parts and not _COUNTING_WORDS.isdisjoint(statement.words):
        return False
    function_words = _union(part.function_words for part in statement.parts)
    used_stems = _union(part.stems for part in used_parts)
    return (
        _union(part.function_words for part in used_parts) <= function_words
        and function_words <= _union(part.function_words for part in parts if part not in left_out_parts)
        and used_stems <= stems
        and {stem[:STEM_LETTERS] for stem in stems - used_stems} <= known_stems
    )


def lacks_predicate(text: str) -> bool:
    """True if no word of an English sentence can be its verb."""
    return not has_predicate([segment_words(part) for part in _PART_PATTERN.split(text)])


@lru_cache(maxsize=32)
def _parse_words(words: str) -> frozenset[str]:
    """Return the words of a list in normal form."""
    return frozenset(map(fold_case, words.split()))


def _is_cut(words: Sequence[str], sentence: SentenceOutline) -> bool:
    """True if the words of a statement are the beginning of a sentence that ends within a clause."""
    num_words = len(words)
    if num_words in sentence.ends or list(sentence.words[:num_words]) != list(words):
        return False
    return sentence.words[num_words] not in _CONTINUATIONS


def _union(sets: Iterable[Set[str]]) -> Set[str]:
    """Return the union of some sets."""
    return frozenset[str]().union(*sets)
