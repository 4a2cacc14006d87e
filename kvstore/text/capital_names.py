"""Names by their capitals, in languages other than English. A *run* is adjacent capitalized words with the particles
(*von*, *de*) between them. A *key* is a word in normal form (case-folded). A *title* (*Frau*, *Dr.*) precedes a name, a
*determiner* (*der*) a noun. German capitalizes every noun.

In: the sentences of a document and its language, which has a ``questions/LANGUAGE.toml`` file. Out: the names in each
sentence. In a language that capitalizes names alone, runs of capitalized words are names, and a word that opens a
sentence only if the document shows it. In German, which capitalizes every noun, a run of two words is a name, and a
single word only by the words around it: after a title, an apposition (*die Firma Rieger*), or a preposition without an
article (*in Kassel*). Common nouns are recognized by their articles, in the whole document, and by their endings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, NamedTuple

from .function_words import FUNCTION_WORDS_BY_LANGUAGE
from .languages import capitalizes_nouns
from .normalize import fold_text
from .patterns import compile_lazily

_TOKEN_PATTERN = compile_lazily(r"['’]t\b|[^\W_]+(?:[-‐][^\W_]+)*\.?|\S")
#: The maximum number of words of a name.
_MAX_WORDS = 6
#: An apostrophe between words that were joined with spaces.
_APOSTROPHE_PATTERN = compile_lazily(" (['’]) ")
#: Endings of adjectives in German, which names of persons rarely have.
_ADJECTIVE_ENDINGS = ("es", "em", "ige", "iger", "liche", "licher", "ische", "ischer", "ende", "ene", "ere")
#: Endings of any inflected adjective in German, and of adjectives of places (*Starnberger*, *Dresdensche*).
_INFLECTED_ENDINGS, _PLACE_ADJECTIVE_ENDINGS = ("e", "en", "er", "es", "em"), ("er", "sche", "scher", "sches", "schen")
#: The minimum number of letters of a word of a name, and of a title that can be the end of another title.
_MIN_LETTERS, _MIN_TITLE_LETTERS = 3, 6
#: The maximum number of words of the label of a field.
_MAX_LABEL_WORDS = 3
#: The maximum number of letters of an initial: *J.*, *Th.*
_MAX_INITIAL_LETTERS = 2


class NameWords(NamedTuple):
    """The words of a language that decide what is a name, in normal form.

    ``particles`` join words of a name. ``titles`` precede a name. ``common`` are not names. ``prepositions`` precede
    single names. ``determiners`` precede common nouns. ``first_nouns`` are nouns that a name can begin with (*Hotel*),
    and ``company_forms`` can end one (*GmbH*). Words that end in ``common_endings``, and single words that end in
    ``plural_endings``, are not names unless they end in ``place_endings``. Words that end in ``street_endings`` are
    names, and so are words with two hyphens that end in ``compound_endings``. Nouns for persons end in
    ``person_endings``.
    """

    particles: frozenset[str]
    titles: tuple[str, ...]
    common: frozenset[str]
    prepositions: frozenset[str]
    determiners: frozenset[str]
    first_nouns: tuple[str, ...]
    company_forms: frozenset[str]
    common_endings: tuple[str, ...]
    plural_endings: tuple[str, ...]
    place_endings: tuple[str, ...]
    street_endings: tuple[str, ...]
    person_endings: tuple[str, ...]
    compound_endings: tuple[str, ...]
    function_words: frozenset[str]


@cache
def load_name_words(language: str | None) -> NameWords | None:
    """Read the words of a language that decide what is a name.

    Returns None for None, for a language without a file, and if its file has no such words. The result is cached.
    """
    from .question_words import read_language_file, split_phrases

    word_file = None if language is None else read_language_file(language)
    if language is None or word_file is None or not any(word_file["names"].values()):
        return None
    words = {name: [fold_text(word) for word in split_phrases(text)] for name, text in word_file["names"].items()}
    months_and_units = {
        fold_text(word)
        for name in ("months", "days", "currencies")
        for word in split_phrases(word_file["answers"][name])
    }
    # Words that can be the end of another word are tuples, as str.endswith requires.
    values: dict[str, Any] = {
        name: tuple(phrases) if name.endswith("endings") or name in ("titles", "first_nouns") else frozenset(phrases)
        for name, phrases in words.items()
    }
    values["common"] |= months_and_units
    return NameWords(**values, function_words=FUNCTION_WORDS_BY_LANGUAGE.get(language, frozenset()))


class _CapitalizedRun(NamedTuple):
    """Adjacent capitalized words of a sentence, with the particles (*von*, *de*) between them: a possible name.

    ``keys`` are the words in normal form. ``preceding_tokens`` are the tokens of the sentence before the run.
    """

    written_words: list[str]
    keys: list[str]
    preceding_tokens: Sequence[str]

    def drop_first(self) -> _CapitalizedRun:
        """Return the run of capitalized words without its first word and the particles (*von*, *de*) after this word.

        The dropped words are added to ``preceding_tokens``. The result can be empty.
        """
        start = 1
        while start < len(self.written_words) and not self.written_words[start][0].isupper():
            start += 1
        return _CapitalizedRun(
            self.written_words[start:], self.keys[start:], [*self.preceding_tokens, *self.written_words[:start]]
        )

    def list_capitalized_keys(self) -> list[str]:
        """Return the capitalized words of the run (all but its particles) in normal form, in order."""
        return [key for word, key in zip(self.written_words, self.keys, strict=True) if word[0].isupper()]

    @property
    def opens_sentence(self) -> bool:
        """True if no word precedes the run in its sentence, or only the label of a field, in lower case."""
        words = list(islice((token for token in self.preceding_tokens if token[0].isalnum()), _MAX_LABEL_WORDS + 1))
        has_label = (
            self.preceding_tokens[-1:] == [":"]
            and len(words) <= _MAX_LABEL_WORDS
            and all(token.islower() for token in words)
        )
        return not words or has_label


class CapitalNames:
    """The names in the sentences of one document in a language other than English. A *common* word is one that the
    document also writes in lower case or, in German, after a determiner. A *proper noun* is part of a name.
    """

    def __init__(self, sentences: Sequence[str], language: str, words: NameWords) -> None:
        """Split the sentences of a document into tokens, and find the runs of adjacent capitalized words in them.

        Also collects the words that the document shows to be common words or proper nouns. ``words`` are the words of
        the language that decide what is a name.
        """
        self._words = words
        self._tokens = [_TOKEN_PATTERN.findall(sentence) for sentence in sentences]
        self._has_capital_nouns = capitalizes_nouns(language)
        self._long_titles = tuple(title for title in words.titles if len(title) >= _MIN_TITLE_LETTERS)
        #: Words that the document also writes in lower case, or with a determiner in German.
        self._common_words: set[str] = set()
        #: Words that the document shows to be proper nouns, in normal form.
        self._proper_nouns: set[str] = set()
        self._runs = [list(self._iter_runs(tokens)) for tokens in self._tokens]
        self._collect_common_words()
        self._collect_proper_nouns()

    def _collect_common_words(self) -> None:
        """Collect common words: words that the document writes in lower case or, in German, after a determiner."""
        for tokens in self._tokens:
            self._common_words.update(fold_text(token) for token in tokens if token[0].islower())
        if self._has_capital_nouns:
            for run in chain.from_iterable(self._runs):
                if not _begins_with_adjective(run) and self._has_determiner(run):
                    self._common_words.add(run.keys[0])

    def _collect_proper_nouns(self) -> None:
        """Collect the words that the document shows to be proper nouns; requires the common words.

        In German, they are the last words of the names. In other languages, they are the capitalized words that do not
        begin a sentence.
        """
        for run in chain.from_iterable(self._runs):
            if self._has_capital_nouns:
                name = self._choose_german_name(run)
                if name is not None:
                    self._proper_nouns.add(name.keys[-1])
            elif not run.opens_sentence:
                self._proper_nouns.update(run.keys)

    def iter_names(self, sentence_index: int) -> Iterator[str]:
        """Yield the names in a sentence, in order, given its index among the document's sentences.

        Names of more than ``_MAX_WORDS`` words are omitted.
        """
        for run in self._runs[sentence_index]:
            name = self._choose_german_name(run) if self._has_capital_nouns else self._choose_name(run)
            if name is not None and len(name.written_words) <= _MAX_WORDS:
                yield _APOSTROPHE_PATTERN.sub(r"\1", " ".join(name.written_words))

    def _iter_runs(self, tokens: Sequence[str]) -> Iterator[_CapitalizedRun]:
        """Yield the runs of capitalized words of a sentence (``tokens``).

        A run includes the particles between its words (*Ludwig van Beethoven*). Function words and determiners at its
        beginning are dropped, and so are words at its end that begin the next line of the text.
        """
        start = 0
        while start < len(tokens):
            end = self._find_run_end(tokens, start)
            if end > start:
                words = [*tokens[start : end - 1], tokens[end - 1].rstrip(".")]
                # A function word at the end, such as an article, begins the next line of a list or a form.
                while len(words) > 1 and not words[-1].isupper() and words[-1].lower() in self._words.function_words:
                    words.pop()
                run = _CapitalizedRun(words, [fold_text(word.rstrip(".")) for word in words], tokens[:start])
                while run.written_words and (
                    run.keys[0] in self._words.function_words or run.keys[0] in self._words.determiners
                ):
                    run = run.drop_first()
                if run.written_words:
                    yield run
            start = max(end, start + 1)

    def _find_run_end(self, tokens: Sequence[str], start: int) -> int:
        """Return the index after the last of the ``tokens`` in the run of capitalized words that begins at ``start``.

        The result is ``start`` if the token at ``start`` is not capitalized.
        """
        end = start
        while end < len(tokens) and tokens[end][0].isupper():
            if end > start and self._is_function_word_despite_capital(tokens[end]):
                break
            end += 1
            # A period ends the run, unless it belongs to an initial or an abbreviated title.
            word, has_period = tokens[end - 1].removesuffix("."), tokens[end - 1].endswith(".")
            is_initial = len(word) <= _MAX_INITIAL_LETTERS
            if has_period and not is_initial and fold_text(word) not in self._words.titles:
                break
            # Skip particles that a capitalized word follows, as in "Ludwig van Beethoven".
            next_end = end
            while next_end < len(tokens) and fold_text(tokens[next_end]) in self._words.particles:
                next_end += 1
            if end < next_end < len(tokens) and tokens[next_end][0].isupper():
                end = next_end
        return end

    def _is_function_word_despite_capital(self, token: str) -> bool:
        """True if a capitalized ``token`` is a function word (*Sie*), in a language that capitalizes nouns (German)."""
        return self._has_capital_nouns and fold_text(token) in self._words.function_words

    def _is_title(self, key: str) -> bool:
        """True if a word in normal form is a title or, in German, ends in one (*Oberbürgermeister*)."""
        return key in self._words.titles or (self._has_capital_nouns and key.endswith(self._long_titles))

    def _is_common(self, key: str) -> bool:
        """True if a word in normal form is a common noun.

        The document shows this, or the word list of the language has the word, or its ending is an ending of common
        nouns and not of places.
        """
        if key in self._common_words or key in self._words.common:
            return True
        return key.endswith(self._words.common_endings) and not key.endswith(self._words.place_endings)

    def _has_determiner(self, run: _CapitalizedRun) -> bool:
        """True if a determiner precedes a run of capitalized words, directly or before adjectives."""
        for token in reversed(run.preceding_tokens):
            if fold_text(token) in self._words.determiners:
                return True
            if not (token[0].islower() and token.endswith(_INFLECTED_ENDINGS)):  # not an adjective
                return False
        return False

    def _choose_name(self, run: _CapitalizedRun) -> _CapitalizedRun | None:
        """Return the name in a run of a language that capitalizes only names, or None if there is none.

        Titles before a name are dropped. At the beginning of a sentence, the first word is dropped if it is a common
        word, or if it is the only word and part of no name elsewhere in the document. Returns None if no word is left,
        all are common words, none has three characters, or a single word has the ending of a common noun.
        """
        while run.written_words and self._is_title(run.keys[0]):
            run = run.drop_first()
        if run.opens_sentence and run.written_words:  # every word has a capital there
            key, word = run.keys[0], run.written_words[0]
            is_common = key in self._common_words or key in self._words.common
            is_unknown = key not in self._proper_nouns and not _is_identifier(word)
            if is_common or (len(run.written_words) == 1 and is_unknown):
                run = run.drop_first()
        has_only_common_words = all(key in self._words.common for key in run.keys)  # even if no word is left
        if has_only_common_words or not _has_long_word(run):
            return None
        if len(run.written_words) == 1 and run.keys[0].endswith(self._words.common_endings):
            return None
        return run

    def _choose_german_name(self, run: _CapitalizedRun) -> _CapitalizedRun | None:
        """Return the name in a run of capitalized German words, or None: a run can consist of common nouns.

        A run that ends with a word such as *GmbH* is the name of a company. Titles before a name are dropped, and words
        that describe a person.
        """
        words = self._words
        if run.keys[-1] in words.company_forms and len(run.written_words) > 1:  # a company: "Rieger GmbH"
            return run
        run, is_titled = self._drop_german_titles(run)
        nouns = run.list_capitalized_keys()
        if not nouns or not _has_long_word(run) or any(key in words.common for key in nouns):
            return None
        if len(nouns) > 1:
            return run if self._is_german_name_of_several_words(run, nouns) else None
        return run if self._is_german_name_of_one_word(run, nouns[0], is_titled=is_titled) else None

    def _drop_german_titles(self, run: _CapitalizedRun) -> tuple[_CapitalizedRun, bool]:
        """Return a run without the titles before its name (*Kanzler Scholz*), and True if a title was dropped last.

        Nouns for persons are dropped as well if a determiner precedes them or two other capitalized words follow.
        """
        is_titled = False
        # "Hotel Adler" keeps its first word.
        while len(run.written_words) > 1 and not run.keys[0].endswith(self._words.first_nouns):
            is_title = self._is_title(run.keys[0])
            is_person = run.keys[0].endswith(self._words.person_endings) and not _begins_with_adjective(run)
            is_description = is_person and (self._has_determiner(run) or len(run.list_capitalized_keys()) > 2)
            if not (is_title or is_description):
                break
            run, is_titled = run.drop_first(), is_title
        return run, is_titled

    def _is_german_name_of_one_word(self, run: _CapitalizedRun, noun: str, *, is_titled: bool) -> bool:
        """True if a run with a single noun is a name; ``noun`` is in normal form.

        It is a name after a title (``is_titled``), in capitals, with the ending of a street, or with two hyphens and
        the ending of a compound name. Any other noun is a name only if it is not a plural or common noun, has no
        determiner, and either follows a preposition or is part of a name elsewhere in the document.
        """
        word = run.written_words[0]
        is_compound = word.count("-") > 1 and noun.endswith(self._words.compound_endings)
        has_name_form = word.isupper() or noun.endswith(self._words.street_endings) or is_compound
        if (is_titled or has_name_form) and len(word) >= _MIN_LETTERS:
            return True
        if self._is_plural(noun) or self._is_common(noun) or self._has_determiner(run):
            return False
        has_preposition = bool(run.preceding_tokens) and fold_text(run.preceding_tokens[-1]) in self._words.prepositions
        return has_preposition or noun in self._proper_nouns

    def _is_german_name_of_several_words(self, run: _CapitalizedRun, nouns: Sequence[str]) -> bool:
        """True if a run of several capitalized words is a name; ``nouns`` are these words in normal form.

        It is a name if its first word is a noun such as *Hotel*. It is not a name if its last word is a plural or has
        the ending of a common noun, or if an adjective begins both the run and the sentence. Any other run is a name if
        it begins with an adjective of a place or contains no common noun.
        """
        words = self._words
        if run.keys[0].endswith(words.first_nouns):  # "Hotel Adler"
            return True
        if nouns[-1].endswith(words.common_endings) or self._is_plural(nouns[-1]):
            return False
        if _begins_with_adjective(run):  # at the beginning of a sentence, every adjective has a capital
            return not run.opens_sentence
        is_adjective = run.opens_sentence and nouns[0].endswith(_ADJECTIVE_ENDINGS)
        return not is_adjective and not any(map(self._is_common, nouns))

    def _is_plural(self, key: str) -> bool:
        """True if a word in normal form has a plural ending, and not the ending of a place name or family name."""
        return key.endswith(self._words.plural_endings) and not key.endswith(self._words.place_endings)


def _is_identifier(word: str) -> bool:
    """True if a word is an identifier in capitals and digits, such as *S-88*."""
    return word.isupper() and any(map(str.isdigit, word))


def _begins_with_adjective(run: _CapitalizedRun) -> bool:
    """True if a run of two capitalized German words begins with the adjective of a name (*Starnberger See*)."""
    return len(run.written_words) == 2 and run.keys[0].endswith(_PLACE_ADJECTIVE_ENDINGS)


def _has_long_word(run: _CapitalizedRun) -> bool:
    """True if a run of capitalized words has a word of at least three characters with a letter among them."""
    return any(len(word) >= _MIN_LETTERS and any(map(str.isalpha, word)) for word in run.written_words)
