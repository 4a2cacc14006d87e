"""The tokenizer of an uncased BERT: words in lower case without accents, divided into the longest known pieces.

In: a description in the form of the ``tokenizers`` library (``tokenizer.json``), and texts. Out: the ids of the pieces,
equal to those of the library, which needs 13 more packages. The offsets of the library differ only after rare combining
marks that Unicode moves behind others, such as the stems of musical notes. ``bert/characters.json``, which
``tools/bert_characters.py`` writes, lists how the library treats each character; Python's own tables differ from one
version to the next. A damaged file raises ValueError.

Source: Wu et al., "Google's Neural Machine Translation System", 2016, section 4.1; Devlin et al., "BERT", NAACL 2019.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..text.patterns import compile_lazily

#: The table of BERT's normalization of characters, and its SHA-256.
CHARACTERS_FILE = Path(__file__).parent / "bert" / "characters.json"
_CHARACTERS_DIGEST = "6466ff3e9734fa5078eb08b6e7aa61c4165dcde5bc1666cdddc93d4b0aef76f6"
#: The syllables of Hangul; they are divided into letters.
HANGUL = range(0xAC00, 0xD7A4)

#: A longer word is unknown.
_MAX_WORD = 100
#: The maximum number of words whose pieces are cached.
_MAX_CACHED_WORDS = 1 << 14
#: The maximum number of characters whose treatment is cached.
_MAX_CACHED_CHARACTERS = 1 << 14
_WORD_PATTERN = compile_lazily("[^ ]+")


class PairTokens(NamedTuple):
    """The tokens of two texts: the id of each, the text that it is from (0 or 1), and its character span there."""

    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int]]


class WordPieceTokenizer:
    """A tokenizer with the vocabulary and the maximum number of tokens of its description. A *subword* is a piece of a
    word that is in the vocabulary. A *special token*, such as ``[SEP]``, is not part of a word. Threads can share it.
    """

    def __init__(self, description: dict[str, Any]) -> None:
        """Read ``description``, the content of ``tokenizer.json``.

        Raises ValueError if it is not the tokenizer of an uncased BERT.
        """
        try:
            model, normalizer = description["model"], description["normalizer"]
            types = model["type"], normalizer["type"], description["pre_tokenizer"]["type"]
            if types != ("WordPiece", "BertNormalizer", "BertPreTokenizer") or not normalizer["lowercase"]:
                raise ValueError("its tokenizer is not that of an uncased BERT")
            self._token_ids: dict[str, int] = model["vocab"]
            self._special_ids = {token["content"]: int(token["id"]) for token in description["added_tokens"]}
            self._unknown, self._start, self._end = map(self._special_ids.__getitem__, ("[UNK]", "[CLS]", "[SEP]"))
            self._max_tokens = int(description["truncation"]["max_length"])
        except (LookupError, TypeError) as error:
            raise ValueError(f"the description of its tokenizer is incomplete ({error!r})") from error
        self._special_pattern = re.compile(f"({'|'.join(map(re.escape, self._special_ids))})")
        self._max_length = max(map(len, self._token_ids))
        #: The length in characters of each token that a word was divided into, by id.
        self._lengths: dict[int, int] = {}
        self._characters = _CharacterForms()
        self._split_word_cached = lru_cache(_MAX_CACHED_WORDS)(self._split_word)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, with the start and end tokens, truncated to the maximum number of tokens."""
        ids = [self._start]
        split_word, characters = self._split_word_cached, self._characters
        # The pattern is a group, so ``split`` also returns its matches: every second piece is a token such as "[SEP]".
        for index, piece in enumerate(self._special_pattern.split(text) if "[" in text else (text,)):
            if index % 2:
                ids.append(self._special_ids[piece])
            else:
                for word in piece.translate(characters).split():
                    ids += split_word(word) if len(word) <= _MAX_WORD else (self._unknown,)
        return [*ids[: self._max_tokens - 1], self._end]

    def encode_pair(self, first: str, second: str) -> PairTokens:
        """Return the tokens of ``[CLS] first [SEP] second [SEP]``, the second text truncated to the maximum length.

        The first text is truncated only if no token of the second would fit.
        """
        max_tokens = self._max_tokens - 3  # without the token at the start, and one at the end of each text
        second_tokens = list(islice(self._iter_tokens(second), max_tokens))
        max_first = max_tokens - 1 if second_tokens else max_tokens
        # A token is its id and the start and end of its characters; special tokens have none.
        tokens = [(self._start, 0, 0), *islice(self._iter_tokens(first), max_first), (self._end, 0, 0)]
        type_ids = [0] * len(tokens)
        tokens += [*second_tokens[: self._max_tokens - len(tokens) - 1], (self._end, 0, 0)]
        type_ids += [1] * (len(tokens) - len(type_ids))
        ids = [token_id for token_id, _, _ in tokens]
        return PairTokens(ids, type_ids, [(start, end) for _, start, end in tokens])

    def _iter_tokens(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Yield the id of each token of a text, and the start and end of its characters in the text."""
        start = 0
        # The pattern is a group, so ``split`` also returns its matches: every second piece is a special token.
        for index, piece in enumerate(self._special_pattern.split(text)):
            if index % 2:
                yield self._special_ids[piece], start, start + len(piece)
            else:
                forms = [self._characters[ord(character)] for character in piece]
                # The offset in the text of each character of the joined forms.
                origins = [origin for origin, form in enumerate(forms, start) for _ in form]
                for match in _WORD_PATTERN.finditer("".join(forms)):
                    first = match.start()
                    word = match[0]
                    for token_id in self._split_word_cached(word) if len(word) <= _MAX_WORD else (self._unknown,):
                        length = self._lengths.get(token_id, len(word))  # the token of an unknown word spans the word
                        yield token_id, origins[first], origins[first + length - 1] + 1
                        first += length
            start += len(piece)

    def _split_word(self, word: str) -> Sequence[int]:
        """Return the token ids of the subwords of a word: its longest known beginning, then the same for the rest.

        A word with an unknown part is one unknown token. The lengths of the subwords are recorded. Source: Wu et al.,
        "Google's Neural Machine Translation System", 2016, section 4.1 (WordPiece).
        """
        ids: list[int] = []
        start, prefix = 0, ""  # a subword within a word begins with "##" in the vocabulary
        while start < len(word):
            for end in range(min(len(word), start + self._max_length), start, -1):
                token_id = self._token_ids.get(prefix + word[start:end])
                if token_id is not None:
                    break
            else:
                return (self._unknown,)
            ids.append(token_id)
            self._lengths[token_id] = end - start
            start, prefix = end, "##"
        return tuple(ids)


class _CharacterForms(dict[int, str]):
    """A cache of the text that replaces each character, by its code. The text is empty for a removed character, and has
    spaces around a character that is a word by itself.
    """

    def __init__(self) -> None:
        """Create an empty cache, and read the table of BERT's normalization of characters.

        Raises ValueError if it is damaged.
        """
        data = CHARACTERS_FILE.read_bytes()
        if hashlib.sha256(data).hexdigest() != _CHARACTERS_DIGEST:
            raise ValueError(f"{CHARACTERS_FILE} is damaged")
        table = json.loads(data)
        #: The bounds of the ranges of characters that are removed.
        self._removed_ranges = _parse_ranges(table["removed"])
        #: The bounds of the ranges of characters that are words by themselves.
        self._separate_ranges = _parse_ranges(table["separate"])
        # Each entry of "forms" is a character and its replacement.
        self._forms = {ord(entry[0]): entry[1:] for entry in table["forms"].split(" ")}
        self._forms |= dict.fromkeys(map(ord, table["spaces"]), " ")

    def __missing__(self, code: int) -> str:
        """Return the text that replaces the character with this code, and cache it if there is room."""
        # The bounds of ranges alternate, so a code in a range has an odd number of them at or below it.
        if bisect_right(self._removed_ranges, code) % 2:
            text = ""
        else:
            text = unicodedata.normalize("NFD", chr(code)) if code in HANGUL else self._forms.get(code, chr(code))
            if bisect_right(self._separate_ranges, code) % 2:  # a word by itself, such as a punctuation mark
                text = f" {text} "
        if len(self) < _MAX_CACHED_CHARACTERS:
            self[code] = text
        return text


def _parse_ranges(text: str) -> list[int]:
    """Return the bounds of encoded ranges, ascending: the first code of each range and the code after its last.

    ``text`` has a word for each range, such as ``1f+3``: the distance from the last code of the range before it and,
    after ``+``, its length minus 1. Both are hexadecimal.
    """
    bounds: list[int] = []
    end = 0
    for word in text.split(" "):
        distance, _, length = word.partition("+")
        first = end + int(distance, 16)
        end = first + int(length or "0", 16)
        bounds += (first, end + 1)
    return bounds
