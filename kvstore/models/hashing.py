"""The hashing embedder: no model, no dependency, and low quality. A *feature* is a word, or a letter trigram of a word.
Its hash selects the component of the vector to which it adds its weight, and the sign.

In: texts. Out: signed sums of hashed features (feature hashing: Weinberger et al., "Feature Hashing for Large Scale
Multitask Learning", ICML 2009, section 2): each word, and the letter trigrams of each word, so that *vacuum* and
*vacuums* are near each other. It matches words, never meanings. The same text has the same vector in every process and
on every machine. A text without a word has the zero vector.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ..text.normalize import normalize
from ..text.patterns import compile_lazily
from .protocol import Embeddings, normalised

DEFAULT_DIMENSION = 256
#: The weight of all trigrams of a word together, compared with 1 for the word itself.
TRIGRAM_WEIGHT = 0.5
#: Shorter words are mostly function words and weigh less, in proportion.
FULL_WEIGHT_LENGTH = 6

WORD_PATTERN = compile_lazily(r"\w+")


class HashingEmbedder:
    """An embedder whose vectors are signed sums of hashed words and letter trigrams."""

    poor = True

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        """Create an embedder whose vectors have ``dimension`` components."""
        self.name = f"hashing:{dimension}"
        self.dimension = dimension
        self.description = (
            f"hashed words and letter trigrams in {dimension} dimensions: a weak embedder, which matches words, "
            "but not meaning"
        )

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the unit vectors of ``texts`` (zeros for a text without words), shape (len(texts), dimension).

        The weight of a word grows with the logarithm of its count, and is less for a short word.
        """
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            counts = Counter(WORD_PATTERN.findall(normalize("NFKC", text).casefold()))
            if not counts:
                continue
            features = [_compute_features(word, self.dimension) for word in counts]
            word_weights = [
                (1 + math.log(count)) * min(len(word) / FULL_WEIGHT_LENGTH, 1.0) for word, count in counts.items()
            ]
            # The weight of its word for each feature, times the weight of the feature in the word.
            weights = np.repeat(word_weights, [len(word_indexes) for word_indexes, _ in features])
            weights *= np.concatenate([feature_weights for _, feature_weights in features])
            indexes = np.concatenate([word_indexes for word_indexes, _ in features])
            row[:] = np.bincount(indexes, weights=weights, minlength=self.dimension)
        return normalised(rows)

    def embed_query(self, text: str) -> Embeddings:
        """Return the unit vector of ``text`` (zeros if it has no words), shape (dimension,)."""
        vector: Embeddings = self.embed([text])[0]
        return vector


@lru_cache(maxsize=8192)  # bounded, because many words occur only once
def _compute_features(word: str, dimension: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return the indexes of the vector components of a word's features, and the signed weights to add to them.

    ``dimension`` is the number of components of the vector. The first feature is the word itself, the others are its
    letter trigrams. Source: Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask Learning", section 2.
    """
    framed = f"<{word}>"  # so that the trigrams at the ends of a word differ from those inside
    trigrams = [framed[start : start + 3] for start in range(len(framed) - 2)]
    hashes = [_hash_feature(f"word {word}"), *map(_hash_trigram, trigrams)]
    weight = math.sqrt(TRIGRAM_WEIGHT / len(trigrams))
    # The last bit of a hash is the sign of the feature.
    indexes = np.array([(feature_hash >> 1) % dimension for feature_hash in hashes], dtype=np.intp)
    weights = [weight if feature_hash & 1 else -weight for feature_hash in hashes]
    weights[0] = 1.0 if hashes[0] & 1 else -1.0  # the word itself
    return indexes, np.array(weights)


@lru_cache(maxsize=1 << 15)  # many words consist of few trigrams
def _hash_trigram(trigram: str) -> int:
    """Return the 64-bit hash of a letter trigram; its prefix keeps it apart from a word of the same letters."""
    return _hash_feature(f"trigram {trigram}")


def _hash_feature(name: str) -> int:
    """Return a 64-bit hash of a feature's name, which is the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
