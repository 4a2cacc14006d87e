"""Embedders by name, and the vectors of texts from an embedder, from a cache or from the user. A name can have an
argument after a colon (``hashing:256``). The *weights* are the numbers of a model, identified by their digest. A
*space* is a set of vectors that are searched together.

In: a name and options. Out: an :class:`~kvstore.models.protocol.Embedder`. A store records the embedder's name, and the
digest of its weights if they are part of kvstore, because every later process must compute the same vectors
(``open_recorded_embedder``). Other names can belong to installed packages (:mod:`.plugin_embedder`). An unknown name or
option raises :class:`~kvstore.errors.EmbedderError` that lists the valid ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import EmbedderError, InputError, suggest
from ..extensions.entry_points import PluginGroup
from .plugin_embedder import build_factory
from .protocol import DEFAULT_EMBEDDER, MULTILINGUAL_EMBEDDER, Embedder, Embeddings

__all__ = ["DEFAULT_EMBEDDER", "EMBEDDERS", "EMBEDDER_FORMS", "Embedder", "is_english_only", "open_embedder"]

#: The patterns of the names of built-in embedders, and the options of each.
EMBEDDER_FORMS = {
    "all-MiniLM-L6-v2": frozenset[str](),
    "multilingual-e5-small": frozenset[str](),
    "all-MiniLM-L6-v2-float32": frozenset({"device"}),
    "all-MiniLM-L6-v2-int8": frozenset[str](),
    "sentence-transformers:NAME_OR_PATH": frozenset({"device"}),
    "sentence-transformers-int8:NAME_OR_PATH": frozenset[str](),
    "openai:MODEL": frozenset({"base_url", "api_key", "timeout", "attempts", "dimension"}),
    "hashing:DIMENSION": frozenset[str](),
    "none:DIMENSION": frozenset[str](),
}

#: The names of the embedders that run the default model with its original weights, instead of those in kvstore.
_ORIGINAL_MINILM_NAMES = (f"{DEFAULT_EMBEDDER}-float32", f"{DEFAULT_EMBEDDER}-int8")

_MAX_DIMENSION = 65_536
#: The maximum size of all cached vectors: 2,730 of the default embedder, the sentences of about a hundred answers.
_MAX_CACHE_BYTES = 4 << 20

#: Vectors by space and text. Vectors from the embedder serve every space, under :data:`ANY_SPACE`. Vectors stored in a
#: space can be less exact, and serve only that space.
EmbeddedTexts = Mapping[tuple[str, str], Embeddings]
ANY_SPACE = ""

#: Embedders of installed packages, by the part of their names before the colon.
EMBEDDERS = PluginGroup(
    "embedder", get_reserved_names=lambda: {form.partition(":")[0] for form in EMBEDDER_FORMS}, convert=build_factory
)


def open_embedder(name: str = DEFAULT_EMBEDDER, **options: Any) -> Embedder:
    """Return the embedder with this name. It loads its model or contacts its server on first use.

    Names: ``all-MiniLM-L6-v2`` (the default, 384 dimensions, included in kvstore with weights of 8 bits);
    ``multilingual-e5-small`` (384 dimensions; the ``languages`` extra); ``all-MiniLM-L6-v2-float32`` and
    ``all-MiniLM-L6-v2-int8``, the embedders of stores of earlier versions, from the original weights;
    ``sentence-transformers:NAME`` or ``:PATH``; ``sentence-transformers-int8:NAME``, the same with 8-bit weights,
    faster and less exact; ``openai:MODEL`` (options ``base_url``, ``api_key``, ``timeout`` in seconds, ``attempts``,
    ``dimension``); ``hashing`` or ``hashing:DIMENSION``; ``none:DIMENSION`` (the user supplies the vectors). Other
    names, ``KIND`` or ``KIND:REST``, belong to installed packages, which define their own options. Raises
    EmbedderError for an unknown name or option, and PluginError for a broken package.
    """
    prefix, _, argument = name.partition(":")
    pattern = _find_name_pattern(prefix)
    create = EMBEDDERS.get(prefix) if pattern is None else None
    if create is not None:
        return create(name, options)
    # "openai:" lacks its argument, and "all-MiniLM-L6-v2:x" takes none.
    has_invalid_colon = ":" in name and not (argument and pattern is not None and ":" in pattern)
    if pattern is None or has_invalid_colon:
        suggestion = suggest(name, EMBEDDER_FORMS, 0.5)  # the part after the colon differs
        hint = f"did you mean {suggestion}? " if suggestion else ""
        patterns = ", ".join(EMBEDDER_FORMS)
        raise EmbedderError(
            f"embedder {name!r} is unknown; {hint}use one of: {patterns}; or install the package that provides it, or "
            "pass an embedder object"
        )
    unknown_options = options.keys() - EMBEDDER_FORMS[pattern]
    if unknown_options:
        option_names = ", ".join(sorted(EMBEDDER_FORMS[pattern])) or "none"
        raise EmbedderError(f"embedder {name!r} takes no option {min(unknown_options)!r}; its options: {option_names}")
    return _create_builtin_embedder(name, options)


def _create_builtin_embedder(name: str, options: dict[str, Any]) -> Embedder:
    """Create an embedder that is part of kvstore; ``name`` and ``options`` have been checked."""
    prefix, _, argument = name.partition(":")
    # Adapters are imported on demand: the import can be slow, and the package can be missing.
    if prefix == DEFAULT_EMBEDDER:
        from .packaged_embedder import PackagedEmbedder

        return PackagedEmbedder()
    if prefix == MULTILINGUAL_EMBEDDER:
        from .multilingual_embedder import MultilingualEmbedder

        return MultilingualEmbedder()
    if prefix in _ORIGINAL_MINILM_NAMES:
        from .sentence_transformer import OriginalMiniLM

        return OriginalMiniLM(prefix, int8=prefix.endswith("-int8"), **options)
    if prefix.removesuffix("-int8") == "sentence-transformers":
        from .sentence_transformer import SentenceTransformerEmbedder

        return SentenceTransformerEmbedder(_require_argument(name, argument), int8=prefix.endswith("-int8"), **options)
    if prefix == "openai":
        from .openai_embedder import OpenAIEmbedder

        return OpenAIEmbedder(_require_argument(name, argument), **options)
    if prefix == "hashing":
        from .hashing import DEFAULT_DIMENSION, HashingEmbedder

        return HashingEmbedder(_parse_dimension(name, argument) if argument else DEFAULT_DIMENSION)
    return NullEmbedder(_parse_dimension(name, argument))  # the only other prefix is ``none``


def open_recorded_embedder(name: str, weights: str) -> Embedder:
    """Return the embedder of a store that recorded this name and ``weights``, the digest of its weights (or empty).

    Raises EmbedderError if the installed weights have another digest, because their vectors would not be comparable.
    """
    if name == DEFAULT_EMBEDDER and not weights:
        # Stores of versions whose default embedder had weights in float32.
        from .sentence_transformer import OriginalMiniLM

        return OriginalMiniLM(name)
    embedder = open_embedder(name)
    installed_digest = find_weights_digest(embedder)
    if installed_digest != weights:
        raise EmbedderError(
            f"this store was created with other weights of {name} (digest {weights or 'none'}; installed: "
            f"{installed_digest or 'none'}); open it with the version of kvstore that created it, or export its "
            "documents and import them into a new store"
        )
    return embedder


def find_weights_digest(embedder: Embedder) -> str:
    """Return the digest of the embedder's weights, which a store records; empty if the embedder has none."""
    return str(getattr(embedder, "weights", ""))


def is_named_embedder(name: str) -> bool:
    """True if kvstore or an installed package provides the embedder ``name``; otherwise the caller passed an object."""
    prefix = name.partition(":")[0]
    return _find_name_pattern(prefix) is not None or EMBEDDERS.get(prefix) is not None


def _find_name_pattern(prefix: str) -> str | None:
    """Return the pattern of a built-in embedder's names, such as "openai:MODEL", that has ``prefix`` before its colon.

    Returns None if there is no such embedder.

    >>> _find_name_pattern("openai"), _find_name_pattern("hashing"), _find_name_pattern("unknown")
    ('openai:MODEL', 'hashing:DIMENSION', None)
    """
    return next((pattern for pattern in EMBEDDER_FORMS if pattern.partition(":")[0] == prefix), None)


def is_english_only(name: str) -> bool:
    """True if the embedder ``name`` is known to be trained on English texts only; False for any other embedder."""
    # All of these run all-MiniLM-L6-v2, which is trained on English texts.
    return name in (DEFAULT_EMBEDDER, *_ORIGINAL_MINILM_NAMES)


def _require_argument(name: str, argument: str) -> str:
    """Return ``argument``, the part of an embedder's name after the colon; raises EmbedderError if it is empty."""
    if not argument:
        raise EmbedderError(f"embedder {name!r} needs the name of a model; write {name}:NAME")
    return argument


def _parse_dimension(name: str, argument: str) -> int:
    """Parse ``argument``, the part of an embedder's name after the colon, as a number of components.

    Raises EmbedderError if it is invalid.
    """
    prefix = name.partition(":")[0]
    if not argument.isascii() or not argument.isdigit() or not 1 <= int(argument) <= _MAX_DIMENSION:
        raise EmbedderError(f"embedder {name!r}: the dimension must be 1 to {_MAX_DIMENSION}; write {prefix}:384")
    return int(argument)


class NullEmbedder:
    """The embedder of a store whose user supplies all vectors; it computes none."""

    poor = False

    def __init__(self, dimension: int) -> None:
        """Create the embedder of a store whose user supplies vectors of ``dimension`` components."""
        self.name = f"none:{dimension}"
        self.dimension = dimension
        self.description = f"no embedder: every document and question must come with vectors of {dimension} components"

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Raise EmbedderError, because the user supplies all vectors."""
        raise EmbedderError(
            f"this store has no embedder ({self.name}); pass vectors of {self.dimension} components, or create a store "
            "with an embedder"
        )

    def embed_query(self, text: str) -> Embeddings:
        """Raise EmbedderError, because the user supplies all vectors."""
        raise EmbedderError(
            f"this store has no embedder ({self.name}); pass the vector of the question (vector=, {self.dimension} "
            "components), or search by words (USING lexical)"
        )


class EmbeddingCache:
    """The vectors of recently embedded texts of one open store, in memory, up to ``max_bytes``; it is thread-safe.

    The vectors are the same as without the cache, because the vector of a text does not depend on the other texts of a
    call. Questions about the same subject are answered from the same sentences, and embedding these is most of the cost
    of an answer without a language model.
    """

    def __init__(self, max_bytes: int = _MAX_CACHE_BYTES) -> None:
        """Create an empty cache of vectors of at most ``max_bytes`` bytes in total."""
        self._max_bytes = max_bytes
        self._lock = Lock()
        #: The vector of each text, in the order of last use.
        self._vectors: dict[str, Embeddings] = {}
        self._num_bytes = 0

    def embed(self, texts: Sequence[str], compute: Callable[[Sequence[str]], Embeddings]) -> Embeddings:
        """Return the vectors of ``texts``, shape (len(texts), dimension); ``compute`` computes missing ones.

        The cache then holds them as the most recently used vectors, and drops the least recently used ones.
        """
        if not texts:
            return compute(texts)
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing_texts = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing_texts:
            # A copy, because a row would keep the whole matrix in memory.
            vectors.update((text, row.copy()) for text, row in zip(missing_texts, compute(missing_texts), strict=True))
        with self._lock:
            for text, vector in vectors.items():
                old_vector = self._vectors.pop(text, None)
                self._vectors[text] = vector
                self._num_bytes += vector.nbytes - (0 if old_vector is None else old_vector.nbytes)
            while self._num_bytes > self._max_bytes:
                self._num_bytes -= self._vectors.pop(next(iter(self._vectors))).nbytes
        return np.stack([vectors[text] for text in texts])


def collect_vectors(
    documents: Sequence[Mapping[str, Sequence[str]]],
    embed: Callable[[Sequence[str]], Embeddings],
    known_vectors: EmbeddedTexts,
) -> list[dict[str, Embeddings]]:
    """Return the vectors of each document's texts, by space, with shape (texts, dimension).

    ``documents`` has the texts of each document by the name of their space. ``known_vectors`` has vectors by space and
    text; those of the space :data:`ANY_SPACE` apply to every space. ``embed`` is called once with all missing texts,
    each once, or not at all if no text is missing.
    """
    all_texts = [
        (space, text) for texts_by_space in documents for space, texts in texts_by_space.items() for text in texts
    ]
    vectors: dict[tuple[str, str], Embeddings] = {}  # by space and text
    for space, text in all_texts:
        cached_vector = known_vectors.get((space, text), known_vectors.get((ANY_SPACE, text)))
        if cached_vector is not None:
            vectors[space, text] = cached_vector
    uncached_texts = [(space, text) for space, text in all_texts if (space, text) not in vectors]
    missing_texts = list(dict.fromkeys(text for _, text in uncached_texts))
    new_vectors = dict(zip(missing_texts, embed(missing_texts), strict=True)) if missing_texts else {}
    vectors.update(((space, text), new_vectors[text]) for space, text in uncached_texts)
    return [
        {
            space: np.stack([vectors[space, text] for text in texts]) if texts else np.empty((0, 0), np.float32)
            for space, texts in texts_by_space.items()
        }
        for texts_by_space in documents
    ]


def normalize_rows(vectors: npt.ArrayLike, dimension: int, num_rows: int) -> Embeddings:
    """Return a user's vectors scaled to length 1, in shape (num_rows, dimension). A single vector is repeated.

    Raises InputError if the shape is wrong, or if a vector is zero or not finite.
    """
    try:
        matrix = np.atleast_2d(np.asarray(vectors, np.float32))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"vectors must be rows of {dimension} numbers: {error}") from None
    if matrix.ndim != 2 or matrix.shape[1] != dimension:
        raise InputError(f"the store's vectors have {dimension} dimensions, but these have shape {matrix.shape}")
    if matrix.shape[0] not in (1, num_rows):
        raise InputError(f"pass one vector, or one for each of the {num_rows} chunks, not {matrix.shape[0]}")
    # Compute norms row by row, so that a vector's norm does not depend on the other rows.
    norms = np.sqrt((matrix.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    # Unit rows stay as they are, bit for bit, so that importing an export changes nothing.
    is_unit = abs(norms - 1) < 1e-6
    if not is_unit.all():
        if not np.isfinite(norms).all() or (norms == 0).any():
            raise InputError("the numbers of a vector must be finite, and at least one must not be zero")
        matrix = np.where(is_unit, matrix, matrix / norms).astype(np.float32)
    return matrix.copy() if len(matrix) == num_rows else matrix.repeat(num_rows, axis=0)
