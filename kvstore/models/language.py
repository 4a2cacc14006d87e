"""Language pipelines of spaCy: words, parts of speech, lemmas and dependencies. ``en`` is kvstore's own pipeline, of
the distribution kvstore-db-english, and ``rules`` means no pipeline. A long text is parsed in *pieces*.

In: texts of any length. Out: the results of a function for their parses. ``en`` is trained by
``tools/train_language.py`` on Universal Dependencies and loaded without network. Installed pipelines of spaCy are used
by name (``en_core_web_trf``, ``de_core_news_sm``) or folder. spaCy is imported when a pipeline first parses. A missing
pipeline raises :class:`~kvstore.errors.LanguageError` that says what to install.
"""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .. import process
from ..errors import LanguageError
from ..extensions.extras import find_first_missing, format_install
from ..process.frozen_dataclass import frozen_dataclass
from ..text.patterns import compile_lazily

if TYPE_CHECKING:
    from spacy.language import Language as SpacyLanguage
    from spacy.tokens import Doc

    #: A pipeline, and the options of its ``pipe`` method with which no text affects the parse of another.
    _LoadedPipeline = tuple[SpacyLanguage, dict[str, Any]]

#: The pipeline of kvstore-db-english, and the name for no pipeline.
ENGLISH = "en"
RULES = "rules"

#: The maximum number of characters of one spaCy document, and of texts that are parsed together.
MAX_PIECE_LENGTH = 20_000
MAX_BATCH_CHARACTERS = 8_000

#: The number of words that spaCy caches with their attributes: the first ones, which are the most frequent.
MAX_CACHED_WORDS = 8192

Result = TypeVar("Result")

#: The package that the distribution kvstore-db-english installs, and the folder of its pipeline.
_ENGLISH_PACKAGE = "kvstore_english"
_PIPELINE_FOLDER = "pipeline"

#: The number of hexadecimal digits of a digest that serves as a version.
_VERSION_DIGITS = 12

#: The borders at which a text is divided, best first: the ends of paragraphs, lines, sentences and words.
_BORDER_PATTERNS = [compile_lazily(pattern) for pattern in (r"\n\s*\n", r"\n", r"(?<=[.!?])\s", r"\s")]


@frozen_dataclass
class Parse:
    """spaCy's parse of a part of a text; ``start`` is the offset of the part in the text, in characters."""

    start: int
    doc: Doc


class LanguagePipeline:
    """A spaCy pipeline, which is loaded when it first parses a text. Threads can share it."""

    def __init__(self, name: str) -> None:
        """Create the pipeline ``name`` of spaCy, which is loaded on first use."""
        self.name = name
        self._lock = threading.RLock()
        self._pipeline: _LoadedPipeline | None = None

    def load(self) -> None:
        """Load the pipeline now. Raises LanguageError if it is missing or has no parser."""
        with self._lock:
            self._get_pipeline()

    def parse_texts(self, texts: Iterable[str], extract: Callable[[str, Sequence[Parse]], Result]) -> Iterator[Result]:
        """Parse texts and yield ``extract(text, parses)`` for each text, in order; raises LanguageError.

        A text has one parse, or several if it has more than :data:`MAX_PIECE_LENGTH` characters. The parses exist until
        ``extract`` returns, so its result must not refer to spaCy's words, spans or documents. Texts are parsed in
        batches, and memory is freed after each batch, except for cached words. The parse of a text depends only on the
        text.
        """
        batch: list[str] = []
        size = 0
        for text in texts:
            batch.append(text)
            size += len(text)
            if size >= MAX_BATCH_CHARACTERS:
                yield from self._parse_batch(batch, extract)
                batch = []
                size = 0
        yield from self._parse_batch(batch, extract)

    def _parse_batch(self, texts: Sequence[str], extract: Callable[[str, Sequence[Parse]], Result]) -> list[Result]:
        """Return ``extract(text, parses)`` for each text, in order; the parses are spaCy's, of the pieces of the text.

        Memory grows with the size of ``texts``.
        """
        if not texts:
            return []
        with self._lock:
            nlp, pipe_options = self._get_pipeline()
            # New words are dropped at the end of the zone; otherwise the vocabulary would grow without limit.
            with nlp.memory_zone() if len(nlp.vocab) >= MAX_CACHED_WORDS else nullcontext():
                docs = nlp.pipe(
                    (text[start:end] for text in texts for start, end in split_pieces(text)), **pipe_options
                )
                return [extract(text, [Parse(start, next(docs)) for start, _ in split_pieces(text)]) for text in texts]

    def _get_pipeline(self) -> _LoadedPipeline:
        """Return the spaCy pipeline and the options of its ``pipe`` method; the caller holds the lock.

        The first call loads the pipeline. A process that runs nothing but kvstore imports spaCy without the modules
        that ``en`` does not need.
        """
        if self._pipeline is None:
            from .lean_import import hide_unneeded_modules

            is_lean = process.runs_only_kvstore and self.name == ENGLISH
            with hide_unneeded_modules() if is_lean else nullcontext():
                self._pipeline = _load_pipeline(self.name)
        return self._pipeline


@lru_cache(maxsize=4)
def open_language(name: str = ENGLISH) -> LanguagePipeline | None:
    """Return the spaCy pipeline with this name, or None for ``rules``, which needs no pipeline.

    The pipeline is cached, and loaded on first use. Raises LanguageError for a blank name.
    """
    if not name.strip():
        raise LanguageError(f"language must be {ENGLISH!r}, {RULES!r} or the name of a spaCy pipeline, not {name!r}")
    return None if name == RULES else LanguagePipeline(name)


def is_english_installed() -> bool:
    """True if kvstore's English pipeline (kvstore-db-english) and spaCy are installed."""
    return _find_missing_package(ENGLISH) is None


def require_installed(name: str) -> None:
    """Raise LanguageError if a package that the pipeline ``name`` needs is missing. Nothing is imported."""
    package = _find_missing_package(name)
    if package is not None:
        remedy = format_install("english") if name == ENGLISH else f"pip install {package}"
        raise LanguageError(
            f"language {name!r} needs {package}; {remedy}, or create the store with language = {RULES!r}"
        )


@lru_cache(maxsize=4)
def get_language_version(name: str) -> str:
    """Return the version of a pipeline: a digest of the files of ``en``, else the version of the folder or package.

    The version is empty for ``rules``, and if the pipeline is not installed.
    """
    if name == RULES:
        return ""
    if name == ENGLISH:
        folder = find_english_folder()
        if folder is None:
            return ""
        import hashlib  # imported here because it loads all of OpenSSL, and rules need no digest

        digest = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:_VERSION_DIGITS]
    try:
        description = json.loads((Path(name) / "meta.json").read_text(encoding="utf-8"))
        return str(description["version"])
    except (OSError, ValueError, KeyError):
        pass
    # Loaded only for pipelines of spaCy, because it takes a tenth of the time to open a store.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except (PackageNotFoundError, ValueError):
        return ""


def split_pieces(text: str, limit: int = MAX_PIECE_LENGTH) -> list[tuple[int, int]]:
    """Return the start and end of consecutive pieces of at most ``limit`` characters that together cover ``text``.

    A piece ends at the last paragraph end in its second half, else at a line end, a sentence end or a blank. Without
    any of these, it has ``limit`` characters.
    """
    spans = []
    start = 0
    while len(text) - start > limit:
        end = start + limit
        for border in _BORDER_PATTERNS:
            # Only the second half is searched, so that pieces do not become small and many.
            ends = [match.end() for match in border.finditer(text, start + limit // 2, end)]
            if ends:
                end = ends[-1]
                break
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def _find_missing_package(name: str) -> str | None:
    """Return the first package that the pipeline ``name`` needs and that is not installed, or None."""
    return find_first_missing((_ENGLISH_PACKAGE, "spacy") if name == ENGLISH else ("spacy",))


def find_english_folder(name: str = _PIPELINE_FOLDER) -> Path | None:
    """Return the folder ``name`` of kvstore-db-english, or None if the distribution is not installed."""
    spec = importlib.util.find_spec(_ENGLISH_PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / name


def _load_pipeline(name: str) -> _LoadedPipeline:
    """Load a spaCy pipeline, and return it with the options of its ``pipe`` method; raises LanguageError.

    The pipeline ``en`` gets kvstore's own parser and matrix products, which are faster. This pipeline, and any without
    rules for noun phrases, gets kvstore's rules.
    """
    require_installed(name)
    import spacy

    from .noun_chunks import iter_noun_chunks

    folder = find_english_folder() if name == ENGLISH else None
    try:
        nlp = spacy.load(folder or name)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).partition(". ")[0]
        raise LanguageError(
            f"language {name!r}: spaCy cannot load this pipeline ({reason}); install it (python -m spacy download "
            f"{name}), or use {ENGLISH!r}, kvstore's own pipeline, or {RULES!r}"
        ) from error
    if not {"parser", "experimental_biaffine_parser"} & set(nlp.pipe_names):
        raise LanguageError(
            f"language {name!r}: this pipeline has no parser, which kvstore needs for names and relations; use another "
            f"pipeline, {ENGLISH!r} or {RULES!r}"
        )
    pipe_options: dict[str, Any] = {"batch_size": 1}
    if name == ENGLISH:
        from .greedy_parser import BATCH_DOCUMENTS, use_greedy_parser, use_kernel_ops

        use_kernel_ops(nlp)
        use_greedy_parser(nlp)
        pipe_options = {"component_cfg": {"parser": {"batch_size": BATCH_DOCUMENTS}}}
    if name == ENGLISH or nlp.vocab.get_noun_chunks is None:
        # The type in spaCy's stub is an iterator of spans, but its code reads bounds and labels.
        nlp.vocab.get_noun_chunks = iter_noun_chunks  # type: ignore[assignment]
    return nlp, pipe_options
