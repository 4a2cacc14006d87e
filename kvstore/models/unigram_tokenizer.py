"""The tokenizer of multilingual-e5-small: pieces of words, chosen so that the sum of their scores is the highest.

In: the vocabulary of the model (see :mod:`.e5_weights`), and texts. Out: the ids of the pieces, between the ids of the
start and end tokens. The vocabulary has 250,002 pieces; the ``tokenizers`` library needs three times the memory and
four times the time to load it. No piece contains a space except before its first letter, so words are divided one by
one.

Source: Kudo, "Subword Regularization", ACL 2018, section 3.2; the Viterbi algorithm finds the best sequence.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from ..text.patterns import compile_lazily
from .e5_weights import COUNTS_FORMAT, TABLE_FORMAT

#: The mark that replaces a space.
_SPACE = "\u2581"
_WORD_PATTERN = compile_lazily(f"{_SPACE}?[^{_SPACE}]+|{_SPACE}")
_SPACES_PATTERN = compile_lazily("  +")
#: An unknown character costs this much more than the least likely piece.
_UNKNOWN_COST = 10.0
#: The maximum number and length of words whose pieces are cached; longer ones hardly occur twice.
_MAX_CACHED_WORDS, _MAX_CACHED_LENGTH = 1 << 14, 24


class UnigramTokenizer:
    """A tokenizer that truncates texts at ``max_tokens``. A *subword* is a piece of a word, with an id and a score."""

    def __init__(self, vocabulary: bytes, max_tokens: int) -> None:
        """Create a tokenizer that truncates texts to ``max_tokens`` tokens, from the bytes of its ``vocabulary``.

        These are a header (the number of subwords, the ids of the start, end and unknown token, and the size of the
        texts), the offsets, scores and texts of the subwords, and the replacements of characters. Raises struct.error
        or ValueError if they are damaged.
        """
        num_subwords, self._start, self._end, _, self._unknown, size = struct.unpack_from(COUNTS_FORMAT, vocabulary)
        position = struct.calcsize(COUNTS_FORMAT)
        offsets = np.frombuffer(vocabulary, "<u4", num_subwords + 1, position).tolist()
        position += 4 * (num_subwords + 1)  # bytes
        self._scores: list[float] = np.frombuffer(vocabulary, "<f4", num_subwords, position).tolist()
        position += 4 * num_subwords
        subwords = vocabulary[position : position + size]
        spans = enumerate(pairwise(offsets))
        self._token_ids = {subwords[start:end].decode(): token_id for token_id, (start, end) in spans}
        self._replacements = _read_replacements(vocabulary, position + size)
        self._max_tokens = max_tokens
        self._max_length = max(map(len, self._token_ids))
        self._unknown_score = min(self._scores) - _UNKNOWN_COST
        self._split_word_cached = lru_cache(_MAX_CACHED_WORDS)(self._split_word)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, with the start and end tokens, at most ``max_tokens`` in total."""
        text = _SPACES_PATTERN.sub(" ", text.translate(self._replacements))
        text = text if text.startswith(" ") else f" {text}"
        ids: list[int] = []
        for word in _WORD_PATTERN.findall(text.replace(" ", _SPACE)):
            ids += self._split_word_cached(word) if len(word) <= _MAX_CACHED_LENGTH else self._split_word(word)
        return [self._start, *ids[: self._max_tokens - 2], self._end]

    def _split_word(self, word: str) -> Sequence[int]:
        """Return the token ids of the subwords that divide a word with the highest sum of scores (Viterbi).

        Source: Kudo, "Subword Regularization", ACL 2018, section 3.2.
        """
        length, get_id, scores = len(word), self._token_ids.get, self._scores
        # The best sum of scores for the part of the word before each offset, and the start of its last subword.
        best = [0.0] + [-np.inf] * length
        starts = [0] * (length + 1)
        for start in range(length):
            score = best[start] + self._unknown_score
            if score > best[start + 1]:
                best[start + 1], starts[start + 1] = score, start
            for end in range(start + 1, min(length, start + self._max_length) + 1):
                token_id = get_id(word[start:end])
                if token_id is not None and best[start] + scores[token_id] > best[end]:
                    best[end], starts[end] = best[start] + scores[token_id], start
        ids = []
        end = length
        while end:  # from the last subword back to the first
            ids.append(get_id(word[starts[end] : end], self._unknown))
            end = starts[end]
        return ids[::-1]


def _read_replacements(vocabulary: bytes, position: int) -> dict[int, str]:
    """Return the table at ``position``: the replacement of each character (mostly its NFKC form), by its code."""
    num_characters, _ = struct.unpack_from(TABLE_FORMAT, vocabulary, position)
    position += struct.calcsize(TABLE_FORMAT)
    replacements = {}
    # An entry is the code of a character, the number of codes of its replacement, and these codes.
    for _ in range(num_characters):
        character, num_codes = struct.unpack_from("<IB", vocabulary, position)
        position += struct.calcsize("<IB")
        codes = struct.unpack_from(f"<{num_codes}I", vocabulary, position)
        position += 4 * num_codes
        replacements[character] = "".join(map(chr, codes))
    return replacements
