"""The parts of a sentence between punctuation marks, and what a statement may leave out of them.

In: sentences of a passage, and a statement that a language model wrote from them. Out: True if the statement keeps
their meaning, as far as words show it. It does not if it adds or leaves out a word such as "not", "only", "almost" or
"if", makes a question a statement, or ends in the middle of a clause. A sentence must also keep each part of its source
whole or leave it out, because a part without some of its words often says something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from functools import lru_cache

from ..process.frozen_dataclass import frozen_dataclass
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.words import get_function_words, get_stemmer, list_content_words, segment_words, split_written_words
from .english_words import ARTICLES, PREPOSITIONS, has_predicate
from .sentence_clauses import iter_clauses

#: The ends of parts. A comma within a number and a dash within a word or a range of dates are none.
_PART_PATTERN = compile_lazily(r"[;:,](?:\s|\Z)|[—()\[\]，、；：（）]|\s–\s(?!\d)|\s(?i:and|but|while|whereas)\s")
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
_PRONOUNS = frozenset("he her hers him his it its she their theirs them they".split())
#: The English function words without which a statement says the same. It also says the same with them, except pronouns.
_NEUTRAL_WORDS = ARTICLES | _PRONOUNS | frozenset("also however so that then".split())
#: The words that count as another word: forms of one tense.
_EQUAL_WORDS = {"am": "is", "are": "is", "were": "was", "have": "has"}
#: The words of statements that need the whole sentence: those that count what it lists, and subordinators.
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
class _SentencePart:
    """A part of a sentence: its words in order without neutral ones, the stems of its content words, and qualifiers.

    ``terms`` are stems, and all negations are one qualifier. It ``governs_sentence`` if what it says holds for the
    other parts too. It ``is_joined`` to the part before it if a conjunction without a comma is between them.
    """

    terms: Sequence[str]
    stems: Set[str]
    qualifiers: Set[str]
    governs_sentence: bool
    is_joined: bool


@frozen_dataclass
class SentenceOutline:
    """A sentence or statement: its parts and all its words in normal form.

    ``ends`` are the numbers of words before the end of each part. ``clauses`` are the parts of each clause that means
    the same without the rest of the sentence; they are known for English only.
    """

    parts: Sequence[_SentencePart]
    words: Sequence[str]
    ends: Collection[int]
    is_question: bool
    clauses: Sequence[Sequence[_SentencePart]]


def build_outline(text: str, language: str | None) -> SentenceOutline:
    """Return the outline of a sentence, by which a statement is compared with the sentences that it repeats.

    It has the words of each part, a piece between punctuation marks or conjunctions, and its qualifiers, words such as
    "not" or "may" that change what is said. Pass None as ``language`` if it is unknown.
    """
    function_words = get_function_words(language)
    sentence_qualifiers = _parse_words(_SENTENCE_QUALIFIERS.get(language or "english", ""))
    qualifiers = NEGATIONS | sentence_qualifiers | _parse_words(_CLAUSE_QUALIFIERS.get(language or "english", ""))
    neutral_words = _NEUTRAL_WORDS if language == "english" else function_words - qualifiers

    def build_part(part_text: str, is_joined: bool = False) -> _SentencePart:
        """Return the terms, stems and qualifiers of a part; ``is_joined`` is True if a conjunction precedes it."""
        written_words = split_written_words(part_text)
        words = list(map(fold_text, written_words))
        content_words = list_content_words(part_text, neutral_words)
        terms = ["not" if word in NEGATIONS else _EQUAL_WORDS.get(word, word) for word in content_words]
        return _SentencePart(
            terms=list(map(STEM_ENGLISH, terms)),
            stems={STEM_ENGLISH(term) for term in terms if term not in function_words | qualifiers},
            qualifiers=frozenset(
                "not" if word in NEGATIONS else word
                for word, written_word in zip(words, written_words, strict=True)
                # A capitalized word, as in "No. 5", is a part of a name.
                if word in qualifiers and (word == words[0] or written_word.islower())
            ),
            governs_sentence=not sentence_qualifiers.isdisjoint(words),
            is_joined=is_joined,
        )

    texts, connectives = _split_parts(text)
    words: list[str] = []
    ends: list[int] = []
    for part in texts:
        words += map(fold_text, split_written_words(part))
        ends.append(len(words))
    return SentenceOutline(
        parts=[
            build_part(part, connective.strip().isalpha()) for part, connective in zip(texts, connectives, strict=True)
        ],
        words=words,
        ends=ends,
        is_question=_QUESTION_PATTERN.search(text) is not None,
        clauses=[list(map(build_part, clause)) for clause in iter_clauses(texts, connectives)]
        if language == "english"
        else [],
    )


def _split_parts(text: str) -> tuple[list[str], list[str]]:
    """Return the parts of a sentence, and the text before each: a punctuation mark, a conjunction or nothing ("")."""
    parts = _PART_PATTERN.split(text)
    connectives: list[str] = []
    end = 0
    for part in parts:
        start = text.index(part, end)
        connectives.append(text[end:start])
        end = start + len(part)
    return parts, connectives


def keeps_meaning(statement: SentenceOutline, sentences: Sequence[SentenceOutline]) -> bool:
    """True unless a statement changes the meaning of ``sentences``, its sources, as far as words show it.

    It must have the qualifiers of each part of a sentence that governs the sentence or has a content word of the
    statement that no other part has, and no qualifiers that the sentences lack. It must be a question if the last
    sentence is one, and otherwise not. It must not be the beginning of a sentence that ends within a clause.
    """
    parts = [part for sentence in sentences for part in sentence.parts]
    qualifiers = _union(part.qualifiers for part in statement.parts)
    if statement.is_question != sentences[-1].is_question or qualifiers - _union(part.qualifiers for part in parts):
        return False
    if any(_is_cut(statement.words, sentence) for sentence in sentences):
        return False
    num_parts = Counter(stem for part in parts for stem in part.stems)  # the number of parts with each stem
    stems = _union(part.stems for part in statement.parts)
    for part in parts:
        is_used = part.governs_sentence or any(num_parts[stem] == 1 for stem in part.stems & stems)
        if is_used and part.qualifiers - qualifiers:
            return False
    return True


def keeps_parts(statement: SentenceOutline, sentences: Sequence[SentenceOutline], known_stems: Set[str]) -> bool:
    """True if a statement consists of whole parts of some sentences, or of a clause of a single sentence, in order.

    It has the first part of the first sentence or clause, and a part of the last sentence. A statement with a count or
    a subordinate clause has every part, because a part left out could change what is counted. ``known_stems`` are
    prefixes of the stems of names that can replace a pronoun.
    """
    # A pronoun that no sentence has would refer to another person: "her wife" is not "his wife".
    if not _PRONOUNS.intersection(statement.words) <= {word for sentence in sentences for word in sentence.words}:
        return False
    parts = [part for sentence in sentences for part in sentence.parts]
    if _consists_of_parts(statement, parts, len(sentences[-1].parts), known_stems):
        return True
    clauses = sentences[0].clauses if len(sentences) == 1 else ()
    return any(_consists_of_parts(statement, clause, len(clause), known_stems) for clause in clauses)


def _consists_of_parts(
    statement: SentenceOutline, parts: Sequence[_SentencePart], num_last_parts: int, known_stems: Set[str]
) -> bool:
    """True if a statement consists of whole parts, in order, with the first and one of the last ``num_last_parts``.

    ``parts`` are those of its sources, pieces between punctuation marks or conjunctions. ``known_stems`` are of names
    that can replace a pronoun.
    """
    terms = [term for part in statement.parts for term in part.terms]
    uses = [_uses_part(set(terms), part) for part in parts]
    content_uses = [is_used for part, is_used in zip(parts, uses, strict=True) if part.stems]
    num_last_content_parts = sum(bool(part.stems) for part in parts[-num_last_parts:])
    if not any(content_uses[:1]) or not any(content_uses[-num_last_content_parts:]):
        return False
    if any(part.is_joined and uses[index] != uses[index - 1] for index, part in enumerate(parts)):
        return False
    if not all(content_uses) and not _WHOLE_SENTENCE_WORDS.isdisjoint(statement.words):
        return False
    if any(part.governs_sentence and not is_used for part, is_used in zip(parts, uses, strict=True)):
        return False
    used_terms = [term for part, is_used in zip(parts, uses, strict=True) if is_used for term in part.terms]
    return _is_interleaved(terms, used_terms, known_stems)


def _uses_part(terms: Set[str], part: _SentencePart) -> bool:
    """True if a statement with ``terms`` has most content words of a part of its source.

    Of a part without content words, such as ", too,", it must have all words.
    """
    if not part.stems:
        return set(part.terms) <= terms
    return 2 * len(part.stems & terms) > len(part.stems)


def _is_interleaved(terms: Sequence[str], required_terms: Sequence[str], known_stems: Set[str]) -> bool:
    """True if terms are ``required_terms`` in this order, with terms that begin with ``known_stems`` among them."""
    index = 0
    for term in terms:
        if index < len(required_terms) and term == required_terms[index]:
            index += 1
        elif term[:STEM_LETTERS] not in known_stems:
            return False
    return index == len(required_terms)


def is_incomplete(sentence: str) -> bool:
    """True if no word of an English sentence can be its verb, or if it ends with an article or a conjunction."""
    parts = [split_written_words(part) for part in _PART_PATTERN.split(sentence)]
    words = segment_words(sentence)
    return not words or words[-1] in _OPEN_ENDS or not has_predicate(parts)


@lru_cache(maxsize=32)
def _parse_words(words: str) -> frozenset[str]:
    """Return the words of a string, between spaces, in normal form."""
    return frozenset(map(fold_text, words.split()))


def _is_cut(words: Sequence[str], sentence: SentenceOutline) -> bool:
    """True if a statement copies only the beginning of ``sentence`` and stops within a clause.

    ``words`` are the statement's words.
    """
    num_words = len(words)
    if num_words in sentence.ends or list(sentence.words[:num_words]) != list(words):
        return False
    return sentence.words[num_words] not in _CONTINUATIONS


def _union(sets: Iterable[Set[str]]) -> Set[str]:
    """Return the union of some sets."""
    return frozenset[str]().union(*sets)
