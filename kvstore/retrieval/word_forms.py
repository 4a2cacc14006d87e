"""Replaces unknown words of an English question with another form of the same term that documents contain. A word is
*unknown* if no chunk has it in any form. A *particle* (out, up) follows the verb of a *phrasal verb* (lock out). A
*link word* (of) is skipped by an acronym.

In: a question and a state. Out: the unknown words, each with a replacement that occurs in chunks:

- a number: *twenty* becomes 20, and *20* becomes *twenty*;
- a version: *v2* becomes *version 2*, and *version 2* becomes *v2*;
- words that are written together or apart: *timezone* becomes *time zone*, and *time zone* becomes *timezone*;
- a noun made of a verb and a particle: *lockout* becomes *lock out* ("they lock us out");
- an acronym: *RTO* becomes *recovery time objective*;
- a clipped word: *panto* becomes *pantomime*.

Two words count as one term only if they are next to each other in a chunk, with at most a few words between verb and
particle. The long form of an acronym is looked for in the chunks with the most other words from the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import compress
from typing import NamedTuple

from ..structures.ranking import best
from ..structures.state import State
from ..structures.vectors.vectors import Ids
from ..text.everyday_words import VERB, get_part_of_speech, is_everyday, iter_base_forms
from ..text.normalize import fold_text
from ..text.number_words import NUMBER_PATTERN, NUMBERS, spell_number
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, find_technical_tokens, list_content_terms, list_terms
from .evidence import ChunkReadRequest
from .lexical_search import Scores, compute_bm25_scores, count_chunks_with_words, find_best_by_words, read_term_weights

#: Words without identifiers and parts of paths.
_WORD_PATTERN = compile_lazily(r"(?<![\w./@=-])[A-Za-z]{2,}(?![\w/@='’]|\.\w)")
_SMALL_NUMBER_PATTERN = compile_lazily(r"(?<![\w.,:/$€£#-])\d{1,3}(?![\w%]|[.,:/-]\d)")
_VERSION_PATTERN = compile_lazily(
    r"(?<![\w./-])(?P<label>v|version )(?P<number>\d+(?:\.\d+)*)(?![\w-]|\.\d)", re.IGNORECASE
)
_PAIR_PATTERN = compile_lazily(r"(?<![\w./@=-])(?=(?P<pair>(?P<first>[A-Za-z]+)[ -](?P<second>[A-Za-z]{2,}))(?![\w-]))")
_ACRONYM_PATTERN = compile_lazily(r"[A-Z]{3,6}|[a-z]{3,6}")
#: A part of a line in which the words of an acronym are consecutive.
_CLAUSE_PATTERN = compile_lazily(r"[^.,;:!?()|\n]+")
_CLAUSE_WORD_PATTERN = compile_lazily(r"[^\W\d_]+")
#: Particles of phrasal verbs.
_PARTICLES = ("out", "in", "up", "down", "off", "on", "over", "back", "away", "through", "around", "by")
#: The particles that are also the ending of many English words which are no phrasal verbs, such as "season".
_WORD_ENDINGS = ("in", "on", "over", "by")
#: Function words that an acronym can skip: *ETA* is the "estimated time of arrival".
_LINK_WORDS = frozenset("of for and the to in on a an at by with".split())
#: The minimum lengths of a part of a compound, of the verb in a noun such as *lockout*, and of a clipped word.
_MIN_PART, _MIN_VERB, _MIN_CLIPPED = 2, 3, 4
#: The minimum number of chunks with the word that a clipped word abbreviates.
_MIN_CHUNKS = 2
#: The maximum number of unknown words for which another form is searched: each takes about 1 ms.
_MAX_UNKNOWN_WORDS = 8
#: The maximum number of chunks that are read for a word, and of characters of a chunk.
_MAX_CHUNKS, _MAX_CHARACTERS = 16, 10_000


class _StoreWords(NamedTuple):
    """The words in the chunks of ``state``, to find other forms of a word. ``stem`` stems the words of the question."""

    state: State
    stem: Callable[[str], str]

    def count_chunks(self, words: Sequence[str]) -> dict[str, int]:
        """Return about how many chunks contain each word in any form, by word."""
        return count_chunks_with_words(words, self.state, self.stem)

    def find_match(self, text: str, pattern: str) -> re.Match[str] | None:
        """Return the first match of a pattern, ignoring case, in the best chunks that contain all terms of ``text``.

        Returns None if no chunk contains all terms, or if none of the best chunks matches.
        """
        terms = list(dict.fromkeys(find_technical_tokens(text) or list_terms(text, self.stem)))
        counts = self.state.postings.count_chunks_by_term(terms)
        if not all(counts.values()):
            return None
        chunks = self.state.postings.find_chunks_with_terms(terms)
        if self.state.allowed is not None:
            chunks = chunks[self.state.allowed.get_chunk_mask(chunks)]
        scores = compute_bm25_scores(self.state, read_term_weights(self.state, terms), chunks)
        matches = (re.search(pattern, chunk_text, re.IGNORECASE) for chunk_text in self._read_texts(chunks, scores))
        return next((match for match in matches if match is not None), None)

    def read_texts_about(self, question: str) -> list[str]:
        """Return the texts of the best chunks by BM25 for the words in ``question``; empty if no chunk contains any.

        See :meth:`_read_texts` for what a text contains.
        """
        weights = read_term_weights(self.state, list(dict.fromkeys(list_content_terms(question, self.stem))))
        if not weights.rarities:
            return []
        return self._read_texts(*find_best_by_words(self.state, weights, _MAX_CHUNKS, self.state.allowed))

    def _read_texts(self, chunks: Ids, scores: Scores) -> list[str]:
        """Return the texts of the best ``_MAX_CHUNKS`` of ``chunks``, with title and headings, each truncated."""
        ranking = best(self.state, chunks, scores, _MAX_CHUNKS)
        loaded_chunks = ChunkReadRequest([chunk for chunk, _ in ranking]).fetch(self.state)
        return [
            "\n".join((chunk.document.title or "", *chunk.headings, chunk.text))[:_MAX_CHARACTERS]
            for chunk in loaded_chunks
        ]


def find_form_replacements(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Map the unknown words of an English question to the form in which chunks write them, if any.

    The forms differ in the notation of numbers and versions, or in whether words are written together. A key can be
    several words ("time zone"). ``stem`` is the stemming function for the question.
    """
    store_words = _StoreWords(state, stem)
    replacements = dict(_iter_version_forms(question, store_words))
    unknown_words = _find_unknown_words(question, store_words)
    if unknown_words:
        replacements |= _find_number_forms(question, unknown_words, store_words)
        replacements |= _find_joined_words(question, unknown_words, store_words)
    for word in unknown_words:
        # A word with a capital inside the question is probably a name, which is not divided.
        is_name = not word.islower() and not question.startswith(word)
        if not (is_name or any(word in words.split() for words in replacements)):
            separate_words = _find_separate_words(word.lower(), store_words)
            if separate_words is not None:
                replacements[word] = separate_words
    return replacements


def find_abbreviation_replacements(question: str, state: State, stem: Callable[[str], str]) -> dict[str, str]:
    """Map the unknown acronyms ("RTO") and clipped words ("panto") of an English question to long forms in chunks.

    ``stem`` is the stemming function for the question.
    """
    store_words = _StoreWords(state, stem)
    replacements: dict[str, str] = {}
    for word in _find_unknown_words(question, store_words):
        long_form = _find_long_form(word, question, store_words) or _find_clipped_word(word, store_words)
        if long_form is not None:
            replacements[word] = long_form
    return replacements


def _find_unknown_words(question: str, store_words: _StoreWords) -> list[str]:
    """Return the words and small numbers in a question that no chunk contains in any form, except function words.

    At most ``_MAX_UNKNOWN_WORDS`` are returned.
    """
    words = list(dict.fromkeys([*_WORD_PATTERN.findall(question), *_SMALL_NUMBER_PATTERN.findall(question)]))
    words = [word for word in words if word.lower() not in FUNCTION_WORDS]
    counts = store_words.count_chunks([fold_text(word) for word in words])
    return [word for word in words if not counts[fold_text(word)]][:_MAX_UNKNOWN_WORDS]


def _iter_version_forms(question: str, store_words: _StoreWords) -> Iterator[tuple[str, str]]:
    """Yield each version in a question ("v2") that occurs only in its other form ("version 2"), with that form."""
    for match in _VERSION_PATTERN.finditer(question):
        number = re.escape(match["number"])
        forms = {"v": rf"(?<!\w)v{number}(?!\w|\.\d)", "version ": rf"\bversion\s+{number}(?!\w|\.\d)"}
        label = match["label"].lower()
        (other_label,) = forms.keys() - {label}
        other_form = f"{other_label}{match['number']}"
        is_known = store_words.find_match(match.group(), forms[label]) is not None
        if not is_known and store_words.find_match(other_form, forms[other_label]) is not None:
            yield match.group(), other_form


def _find_number_forms(question: str, unknown_words: Sequence[str], store_words: _StoreWords) -> dict[str, str]:
    """Map the unknown numbers of a question to the form in chunks: words to digits, and digits to words.

    ``unknown_words`` are the words and numbers of the question that no chunk contains.
    """
    forms = {word: spell_number(int(word)) or "" for word in unknown_words if word.isdigit()}
    for match in NUMBER_PATTERN.finditer(question):
        words = re.split("[ -]", match.group())
        if any(word in unknown_words for word in words):
            forms[match.group()] = str(sum(NUMBERS[word.lower()] for word in words))
    known_forms = {}
    for written_number, form in forms.items():
        pattern = rf"(?<![\w.,:-]){form.replace('-', '[ -]')}(?!\w|[.,:]\d)"  # not a part of a longer number
        if form and store_words.find_match(form, pattern) is not None:
            known_forms[written_number] = form
    return known_forms


def _find_joined_words(question: str, unknown_words: Sequence[str], store_words: _StoreWords) -> dict[str, str]:
    """Map pairs of adjacent words of a question, such as "time zone", to the single word that chunks contain instead.

    At least one word of the pair is unknown. A verb before a particle can have any form: "locked out" is a *lockout*.
    """
    joined_words: dict[str, str] = {}
    for match in _PAIR_PATTERN.finditer(question):
        first, second = match["first"], match["second"]
        if first in unknown_words or second in unknown_words:
            # Before a particle, the first word can be an inflected verb, but the joined noun has its base form.
            bases = iter_base_forms(first.lower()) if second.lower() in _PARTICLES else [first.lower()]
            words = [f"{base}{second.lower()}" for base in bases]
            # The stem of two joined words can also be the stem of another word.
            is_known = (store_words.find_match(word, rf"\b{word.removesuffix('s')}s?\b") is not None for word in words)
            joined_word = next(compress(words, is_known), None)
            if joined_word is not None:
                joined_words[match["pair"]] = joined_word
    return joined_words


def _find_separate_words(word: str, store_words: _StoreWords) -> str | None:
    """Return a word in lower case as two words, such as "time zone"; None if they are adjacent in no chunk.

    If the second one is a particle ("lock out"), a few words can be between them ("lock us out").
    """
    divisions = _list_divisions(word)
    counts = store_words.count_chunks([part for parts in divisions for part in parts])
    for first, second in divisions:
        if not (counts[first] and counts[second]):
            continue
        if is_english(word) and not _can_divide_english_word(first, second):
            continue
        if _looks_phrasal(first, second):  # any form of the verb, and at most three words before the particle
            pattern = rf"\b{first.removesuffix('e')}\w{{0,4}}(?:[\s-]+\w+){{0,3}}[\s-]+{second}\b"
        else:
            pattern = rf"\b{first}[\s-]+{second.removesuffix('s')}s?\b"
        if store_words.find_match(f"{first} {second}", pattern) is not None:
            return f"{first} {second}"
    return None


def _list_divisions(word: str) -> list[tuple[str, str]]:
    """Return the divisions of a word into two parts; a plural is also divided before the particle of its singular.

    >>> [parts for parts in _list_divisions("lockouts") if "lock" in parts]
    [('lock', 'outs'), ('lock', 'out')]
    """
    divisions = [(word[:end], word[end:]) for end in range(_MIN_PART, len(word) - _MIN_PART + 1)]
    singular = word.removesuffix("s")
    if singular != word:
        divisions += [(singular.removesuffix(end), end) for end in _PARTICLES if singular.endswith(end)]
    return divisions


def _looks_phrasal(first: str, second: str) -> bool:
    """True if two words have the form of a phrasal verb: a word that is not too short, and a particle ("lock out")."""
    return second in _PARTICLES and len(first) >= _MIN_VERB


def _can_divide_english_word(first: str, second: str) -> bool:
    """True if an English word made of two parts can be the same term as the two words ("timezone", "time zone").

    If a part is a function word or a particle, that is usually a coincidence: "inform" is not "in form". Exceptions are
    phrasal verbs ("lock out"). If many words have the particle as their ending ("season"), ``first`` must be a verb.
    """
    has_small_word = not {first, second}.isdisjoint((*FUNCTION_WORDS, *_PARTICLES))
    if not has_small_word:
        return True
    return _looks_phrasal(first, second) and (second not in _WORD_ENDINGS or get_part_of_speech(first) == VERB)


def _find_long_form(word: str, question: str, store_words: _StoreWords) -> str | None:
    """Return the long form of an acronym that no chunk contains: words with these initials; None if unknown.

    The best chunks for the other words of the ``question`` are searched. The long form that most of them contain is
    returned; a tie goes to the form in the best chunk. A word in lower case that is English is not an acronym.
    """
    if not _ACRONYM_PATTERN.fullmatch(word) or (word.islower() and is_english(word)):
        return None
    counts: dict[str, int] = {}
    for text in store_words.read_texts_about(re.sub(rf"\b{word}\b", " ", question)):
        for form in dict.fromkeys(_iter_long_forms(word.lower(), text)):
            counts[form] = counts.get(form, 0) + 1
    return max(counts, key=counts.__getitem__, default=None)


def _iter_long_forms(acronym: str, text: str) -> Iterator[str]:
    """Yield each run of words in a text whose initials are the acronym; words and ``acronym`` are in lower case.

    Link words such as "of" need no initial in the acronym.

    >>> list(_iter_long_forms("eta", "Call with the estimated time of arrival, or each of the assets."))
    ['estimated time of arrival']
    """
    for clause in _CLAUSE_PATTERN.findall(text):
        words = [word.lower() for word in _CLAUSE_WORD_PATTERN.findall(clause)]
        for start, word in enumerate(words):
            if word[0] == acronym[0] and word not in FUNCTION_WORDS:
                num_words = _match_initials(acronym[1:], words[start + 1 : start + 2 * len(acronym)])
                if num_words:
                    yield " ".join(words[start : start + num_words + 1])


def _match_initials(initials: str, words: Sequence[str]) -> int:
    """Return the number of words at the start of ``words`` that spell these initials, or 0 if they do not.

    Link words between them can be skipped, and count too.

    >>> _match_initials("os", ["of", "service", "are"]), _match_initials("ta", ["time", "of", "arrival"])
    (2, 3)
    """
    if not words:
        return 0
    word, following = words[0], words[1:]
    if word[0] == initials[0]:  # the word can have the first initial
        if len(initials) == 1 and (word not in FUNCTION_WORDS or word in _PARTICLES):
            return 1
        num_following = _match_initials(initials[1:], following) if len(initials) > 1 else 0
        if num_following and (word in _LINK_WORDS or word not in FUNCTION_WORDS):
            return num_following + 1
    num_following = _match_initials(initials, following) if word in _LINK_WORDS else 0  # the word is skipped
    return num_following + 1 if num_following else 0


def _find_clipped_word(word: str, store_words: _StoreWords) -> str | None:
    """Return the word that an unknown word abbreviates, such as "pantomime" for "panto"; None if it is unclear.

    No chunk contains the unknown word, and it must not be English. All words of the store that begin with it must be
    forms of one word, which occurs in at least ``_MIN_CHUNKS`` chunks.
    """
    if len(word) < _MIN_CLIPPED or not word.islower() or is_english(word):
        return None
    state = store_words.state
    counts = state.postings.count_chunks_by_term(state.postings.list_terms_with_prefix(word, _MAX_CHUNKS))
    terms = sorted(term for term, count in counts.items() if count)
    # The stems of one family of words can differ: "administr" and "administrator".
    if not terms or not all(term.startswith(terms[0]) for term in terms) or sum(counts.values()) < _MIN_CHUNKS:
        return None
    match = store_words.find_match(terms[0], rf"\b{word}\w+")
    return None if match is None else match.group().lower()


@lru_cache(maxsize=1 << 14)
def is_english(word: str) -> bool:
    """True if a word in lower case is known to be English. The result is cached.

    Known words are function words, everyday words, frequent words, and forms of frequent words, such as plurals.
    """
    is_known = word in FUNCTION_WORDS or is_everyday(word)
    return is_known or not load_english_vocabulary().isdisjoint(iter_base_forms(word))


@cache
def load_english_vocabulary() -> frozenset[str]:
    """Return frequent words of English: the vocabulary of the default embedder, whose code is imported on first use."""
    from ..models.packaged_embedder import load_vocabulary

    return load_vocabulary()


def list_similar_words(word: str, letters: str) -> list[str]:
    """Return the words that differ from a word by one typing error after its first letter, without the word itself.

    ``letters`` is the alphabet. The last letter is never changed or removed: it can only be swapped with the letter
    before it, or a letter can be inserted before it.
    """
    candidates: dict[str, None] = {}
    for index in range(1, len(word)):
        prefix, letter, suffix = word[:index], word[index], word[index + 1 :]
        candidates |= dict.fromkeys(f"{prefix}{other}{letter}{suffix}" for other in letters)  # a missing letter
        if suffix:
            candidates |= dict.fromkeys(f"{prefix}{other}{suffix}" for other in letters)  # a wrong letter
            candidates[prefix + suffix] = None  # an added letter
            candidates[prefix + suffix[0] + letter + suffix[1:]] = None  # two letters in the wrong order
    candidates.pop(word, None)
    return list(candidates)
