"""Checks of a text that a language model wrote about other texts, before it is stored or displayed.

In: the text, its sources, and the prompt that asked for it. Out: an error whose message says to the model what is
wrong: the text is too short, repeats itself or its prompt, or has words or numbers that its sources do not have. A word
occurs in a source if their first letters agree, so that the forms of a word in most languages count as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..text.sentences import split_sentences
from ..text.words import detect_word_language, is_unspaced, list_content_words, segment_words, select_function_words
from .quoting import to_printable

#: The minimum share of a text's content words that occur in its sources. Of people's answers about meetings, 82 % reach
#: it with the turns that they are about, and 2 % with those of another meeting.
MIN_SUPPORT = 0.5
#: The number of content words of a statement for each one that its passage does not have. Of statements that GPT-3.5
#: extracted from passages, 84 % pass; with the predicate of a statement about another passage, 0.4 %.
_WORDS_PER_MISSING_WORD = 12
#: The words of a sentence that stand for names in another one.
_PRONOUNS = frozenset("he she it they him her them his hers its their theirs this these that those who which".split())
#: The number of first letters that two forms of a word share.
_STEM_LETTERS = 5
#: A number of at least two digits: fewer can count what the sources list.
_NUMBER_PATTERN = re.compile(r"\d{2,}")
#: The parts of a prompt around a text: the marks of a quotation, and the words before it.
_FRAME_PATTERN = re.compile(r"<<|>>|^\W*(?:passage|source|answer)s?\s*\d*\s*:", re.IGNORECASE)
#: The minimum number of words of a sentence, and its end: a mark, perhaps within quotation marks or brackets.
_MIN_WORDS = 3
_SENTENCE_END_PATTERN = re.compile(r"""[.!?…:;।۔؟]\W*\Z""")
#: The end of a sentence before another one.
_INNER_END_PATTERN = re.compile(r"""([.!?…]["'”’)]*) (?=\W*[A-ZÀ-Þ\d]|\W*[^\W\da-zA-Z])""")
#: The number of consecutive words of a prompt that no text repeats by chance.
_PROMPT_WORDS = 8
#: The length of the word sequences that are counted, and the minimum share of them that differ.
_SEQUENCE_WORDS, _MIN_DISTINCT_SEQUENCES = 3, 0.6


def compute_support(text: str, sources: Iterable[str]) -> float:
    """Return the share of the content words of a text that occur in its sources; 0 for a text without words.

    >>> compute_support("Tea leaves were picked in spring.", ["They are picking the leaves of tea by hand."])
    0.5
    """
    stems = _list_stems(text)
    return len(stems & _collect_stems(sources)) / len(stems) if stems else 0.0


def check_statement(text: str, headings: Sequence[str], passage: str) -> None:
    """Raise ValueError if a statement has content words that its sentence of a passage does not have.

    The words must be in one sentence or in ``headings``. The words that a pronoun of the sentence stands for can be
    anywhere in the passage. A long statement may have a few other words, but a short one none, because most of it can
    be a name.
    """
    stems = _list_stems(text)
    passage_words = segment_words(passage)
    sentences = [passage[start:end] for start, end in split_sentences(passage)]
    if detect_word_language(passage_words, "english") != "english":
        sentences = [passage]  # its pronouns are unknown
    heading_stems, passage_stems = _collect_stems(headings), _collect_stems([passage])
    num_missing = len(stems)
    for sentence in sentences:
        has_pronoun = not _PRONOUNS.isdisjoint(segment_words(sentence))
        sentence_stems = passage_stems if has_pronoun else _collect_stems([sentence])
        num_missing = min(num_missing, len(stems - sentence_stems - heading_stems))
    if num_missing > len(stems) // _WORDS_PER_MISSING_WORD:
        raise ValueError(f"{num_missing} words of a statement are in no sentence of its passage; use their words")


def _list_stems(text: str) -> set[str]:
    """Return the first letters of the content words of a text, or of all words if it has no others."""
    function_words = select_function_words(segment_words(text))
    words = list_content_words(text, function_words) or list_content_words(text, frozenset())
    return {word[:_STEM_LETTERS] for word in words}


def _collect_stems(sources: Iterable[str]) -> set[str]:
    """Return the first letters of all words of some texts."""
    return {word[:_STEM_LETTERS] for source in sources for word in list_content_words(source, frozenset())}


def check_text(text: str, sources: Sequence[str], *, name: str, prompt: str = "", is_title: bool = False) -> None:
    """Raise ValueError if a text that a model wrote is not usable.

    ``name`` names the text in the message, and ``prompt`` is the instruction that asked for it. Unless it ``is_title``,
    the text must consist of whole sentences.
    """
    words = segment_words(text)
    min_words = 1 if is_title else _MIN_WORDS
    if len(words) < min_words:
        raise ValueError(f"{name} has {len(words)} of at least {min_words} words")
    if not is_title and not is_unspaced(text) and _SENTENCE_END_PATTERN.search(text) is None:
        raise ValueError(f"{name} is not a whole sentence with a mark at its end")
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
    """Return a text on one line, without control characters and without an incomplete sentence at its end.

    >>> trim_to_sentences("Tea is made from leaves. It is\\n")
    'Tea is made from leaves.'
    """
    line = to_printable(" ".join(text.split()))
    if is_unspaced(line) or _SENTENCE_END_PATTERN.search(line):
        return line
    *_, last_end = 0, *(match.end(1) for match in _INNER_END_PATTERN.finditer(line))
    return line[:last_end] or line


def find_sources(text: str, sources: Sequence[str]) -> list[int]:
    """Return the indices of the sources that the sentences of a text are from, in order.

    A sentence is from the source that has most of its words, if that has as many as :data:`MIN_SUPPORT`.
    """
    indices: set[int] = set()
    for start, end in split_sentences(text):
        supports = [compute_support(text[start:end], [source]) for source in sources]
        best_support = max(supports, default=0.0)
        if best_support >= MIN_SUPPORT:
            indices.add(supports.index(best_support))
    return sorted(indices)


def _has_common_sequence(words: Sequence[str], prompt_words: Sequence[str]) -> bool:
    """True if some consecutive words of a text are also consecutive in the prompt."""
    sequences = {tuple(prompt_words[start : start + _PROMPT_WORDS]) for start in range(len(prompt_words))}
    starts = range(len(words) - _PROMPT_WORDS + 1)
    return any(tuple(words[start : start + _PROMPT_WORDS]) in sequences for start in starts)
