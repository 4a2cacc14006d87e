"""Checks of a text that a language model wrote about other texts, its *sources*, before it is stored or displayed. The
*support* of a text is the fraction of its content words that occur in its sources. Errors are written for the model.

In: the text, its sources, and the prompt that asked for it. Out: an error whose message says to the model what is
wrong: the text is too short, repeats itself or its prompt, or has words or numbers that its sources do not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..text.languages import detect_language
from ..text.patterns import compile_lazily
from ..text.sentences import split_sentences
from ..text.words import is_unspaced, segment_words
from .quoting import to_printable
from .sentence_phrases import is_incomplete
from .statement_support import SourcePassages, compute_support, has_unresolved_pronoun

#: The minimum fraction of a text's content words that occur in its sources. 82 % of people's answers about
#: meetings reach it with the turns that they are about, and 2 % with the turns of another meeting.
MIN_SUPPORT = 0.5
#: A number of at least two digits: fewer can count what the sources list.
_NUMBER_PATTERN = compile_lazily(r"\d{2,}")
#: The parts of a prompt around a text: the delimiters of a quotation, and the words before it.
_FRAME_PATTERN = compile_lazily(r"<<|>>|^\W*(?:passage|source|answer)s?\s*\d*\s*:", re.IGNORECASE)
#: The minimum number of words of a sentence, and its end: punctuation, perhaps within quotation marks or brackets.
_MIN_WORDS = 3
_SENTENCE_END_PATTERN = compile_lazily(r"""[.!?…।۔؟]\W*\Z""")
#: The end of a sentence before another one.
_INNER_END_PATTERN = compile_lazily(r"""(?P<end>[.!?…]["'”’)]*) (?=\W*[A-ZÀ-Þ\d]|\W*[^\W\da-zA-Z])""")
#: The number of consecutive words of a prompt that no text repeats by chance.
_PROMPT_WORDS = 8
#: The length of the word sequences that are counted, and the minimum fraction of them that differ.
_SEQUENCE_WORDS, _MIN_DISTINCT_SEQUENCES = 3, 0.6


def check_text(text: str, sources: Sequence[str], *, name: str, prompt: str = "", is_title: bool = False) -> None:
    """Raise ValueError if a text that a model wrote is too short, repeats itself or the prompt, or is not supported.

    ``sources`` are the texts that it is about. Its numbers of several digits, its braces, and at least half of its
    content words must occur in them. ``name`` names the text in the message, and ``prompt`` is the instruction that
    asked for it. Unless it ``is_title``, the text must have several words and end like a sentence.
    """
    words = segment_words(text)
    min_words = 1 if is_title else _MIN_WORDS
    if len(words) < min_words:
        raise ValueError(f"{name} has {len(words)} of at least {min_words} words")
    if not is_title and not is_unspaced(text) and _SENTENCE_END_PATTERN.search(text) is None:
        raise ValueError(f"{name} is not a whole sentence with a mark at its end")
    brackets = [bracket for bracket in "{}" if bracket in text]
    if any(all(bracket not in source for source in sources) for bracket in brackets):
        raise ValueError(f"{name} has a mark of JSON, which is not in its sources")
    if _FRAME_PATTERN.search(text) or _has_common_sequence(words, segment_words(prompt)):
        raise ValueError(f"{name} repeats the prompt")
    sequences = [tuple(words[start : start + _SEQUENCE_WORDS]) for start in range(len(words) - _SEQUENCE_WORDS + 1)]
    if len(set(sequences)) < _MIN_DISTINCT_SEQUENCES * len(sequences):
        raise ValueError(f"{name} repeats itself")
    numbers = {number for source in sources for number in _NUMBER_PATTERN.findall(source)}
    for number in _NUMBER_PATTERN.findall(text):
        if number not in numbers:
            raise ValueError(f"{name} has the number {number}, which is not in its sources")
    support = compute_support(text, sources)
    if support < MIN_SUPPORT:
        raise ValueError(f"only {support:.0%} of the words of {name} are in its sources; say what they say")


def trim_to_sentences(text: str) -> str:
    """Return a text on one line, without an incomplete sentence at its end if it also has a complete one.

    Control characters become U+FFFD. Text in a script without spaces is never cut.

    >>> trim_to_sentences("Tea is made from leaves. It is\\n")
    'Tea is made from leaves.'
    """
    line = to_printable(" ".join(text.split()))
    if is_unspaced(line) or _SENTENCE_END_PATTERN.search(line):
        return line
    last_end = max((match.end("end") for match in _INNER_END_PATTERN.finditer(line)), default=0)
    return line[:last_end] or line


def add_final_period(text: str) -> str:
    """Return a text, with a period added if it does not end with punctuation, which weak models often forget.

    Text in a script without spaces, such as Chinese, is unchanged.

    >>> add_final_period("Tea is made from leaves"), add_final_period("Is it?"), add_final_period("He said: 'No.'")
    ('Tea is made from leaves.', 'Is it?', "He said: 'No.'")
    """
    return text if is_unspaced(text) or _SENTENCE_END_PATTERN.search(text) else f"{text}."


def iter_written_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that a model wrote, split by the rules of the text's language.

    >>> list(iter_written_sentences("Am 3. Mai war er in Kassel. Er ist dort und in Bonn bekannt."))
    ['Am 3. Mai war er in Kassel.', 'Er ist dort und in Bonn bekannt.']
    """
    return (text[start:end] for start, end in split_sentences(text, detect_language(text)))


def is_fragment(sentence: str, *, is_english: bool) -> bool:
    """True if a sentence begins with a lower-case letter, ends with a colon, or has half of a pair of brackets.

    English sentences without a verb, or that end with "and" or "the", are fragments, too.

    >>> is_fragment("The full team.", is_english=True), is_fragment("The full team swims.", is_english=True)
    (True, False)
    """
    if has_unpaired_bracket(sentence) or sentence.rstrip(" .").endswith(":"):
        return True
    if next(filter(str.isalnum, sentence), "").islower():
        return True
    return is_english and is_incomplete(sentence)


def has_unpaired_bracket(text: str) -> bool:
    """True if a text has half of a pair of parentheses, as a part of a sentence cut at an abbreviation has.

    >>> has_unpaired_bracket("He reigned (d."), has_unpaired_bracket("Tea (green) is hot.")
    (True, False)
    """
    depth = 0
    for character in text:
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        if depth < 0:
            return True
    return depth > 0


def find_supported_sentences(
    texts: Iterable[str], passages: SourcePassages, *, name: str, prompt: str = ""
) -> dict[str, list[int]]:
    """Return the usable sentences of texts that a model wrote, each with the indices of its supporting passages.

    A sentence with a pronoun before its first name must be supported by a passage that also supports the sentence
    before it. A sentence is omitted if an earlier one has all its words. ``name`` names the texts in the message, and
    ``prompt`` is the instruction that asked for them, which they must not repeat. Raises the ValueError of the first
    invalid sentence if no sentence is usable.
    """
    sentences: dict[str, list[int]] = {}
    first_error: ValueError | None = None
    previous_indices: list[int] = []
    lines = map(trim_to_sentences, texts)
    for sentence in dict.fromkeys(sentence for line in lines for sentence in iter_written_sentences(line)):
        try:
            check_text(sentence, passages.texts, name=name, prompt=prompt)
            if is_fragment(sentence, is_english=passages.is_english):
                raise ValueError(f"{name} is a part of a sentence; write a whole sentence")
            indices = passages.find_supporting(sentence, must_keep_phrases=True)
            if has_unresolved_pronoun(sentence):
                indices = [index for index in indices if index in previous_indices]
                if not indices:
                    raise ValueError(f"{name} begins with a pronoun that stands for nothing; write the name")
        except ValueError as error:
            first_error = first_error or error
            previous_indices = []
            continue
        previous_indices = indices
        if not any(compute_support(sentence, [earlier_sentence]) == 1 for earlier_sentence in sentences):
            sentences[sentence] = indices
    if first_error is not None and not sentences:
        raise first_error
    return sentences


def find_sources(text: str, sources: Sequence[str]) -> list[int]:
    """Return the sorted indices of the ``sources`` that support a sentence of ``text``, which a model wrote from them.

    A sentence is supported by the source that has the most of its content words, provided that the source has at least
    half of them (:data:`MIN_SUPPORT`).
    """
    indices: set[int] = set()
    for sentence in iter_written_sentences(text):
        supports = [compute_support(sentence, [source]) for source in sources]
        best_support = max(supports, default=0.0)
        if best_support >= MIN_SUPPORT:
            indices.add(supports.index(best_support))
    return sorted(indices)


def _has_common_sequence(words: Sequence[str], prompt_words: Sequence[str]) -> bool:
    """True if ``_PROMPT_WORDS`` consecutive words of a text are also consecutive in the prompt."""
    sequences = {tuple(prompt_words[start : start + _PROMPT_WORDS]) for start in range(len(prompt_words))}
    starts = range(len(words) - _PROMPT_WORDS + 1)
    return any(tuple(words[start : start + _PROMPT_WORDS]) in sequences for start in starts)
