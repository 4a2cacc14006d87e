"""Language pipelines of spaCy: words, parts of speech, lemmas and dependencies.

In: texts of any length. Out: the results of a function for their parses. ``en`` is the pipeline included in kvstore,
trained by ``tools/train_language.py`` on Universal Dependencies and loaded without network. Installed pipelines of
spaCy are used by name (``en_core_web_trf``, ``de_core_news_sm``) or folder. spaCy is imported when a pipeline first
parses. A missing pipeline raises :class:`~kvstore.errors.LanguageError` that says what to install.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import LanguageError

if TYPE_CHECKING:
    from spacy.language import Language as SpacyLanguage
    from spacy.tokens import Doc

    #: A pipeline, and its ``pipe`` for several texts, without an effect of one text on another's parse.
    _LoadedPipeline = tuple[SpacyLanguage, dict[str, Any]]

#: The included pipeline, and the name for no pipeline.
ENGLISH = "en"
RULES = "rules"

#: The maximum number of characters of one spaCy document, and of texts that are parsed together.
MAX_PIECE_LENGTH = 20_000
BATCH = 8_000

#: The number of cached words with their attributes: the first ones, which are the most frequent.
KEPT_WORDS = 8192

Result = TypeVar("Result")

_ENGLISH_FOLDER = Path(__file__).parent / "english"

_BORDER_PATTERNS = [re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"(?<=[.!?])\s", r"\s")]


@dataclass(frozen=True, slots=True)
class Parse:
    """The parse of a piece of a text; ``start`` is the offset of the piece in the text, in characters."""

    start: int
    doc: Doc


class LanguagePipeline:
    """One pipeline. It is loaded when it first parses, and threads can share it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._loaded: _LoadedPipeline | None = None

    def load(self) -> None:
        """Load the pipeline now. Raises LanguageError if it is missing."""
        with self._lock:
            self._get_pipeline()

    def load_lean(self) -> None:
        """Load the pipeline without modules that ``en`` does not need. spaCy is imported once per process, so this is
        for processes that only run kvstore."""
        from .lean_import import lean_import

        with lean_import() if self.name == ENGLISH else nullcontext():
            self.load()

    def read(self, texts: Iterable[str], extract: Callable[[str, Sequence[Parse]], Result]) -> Iterator[Result]:
        """``extract(text, its parses)`` of each text, in order; raises LanguageError.

        A text longer than :data:`MAX_PIECE_LENGTH` characters is parsed in pieces that end where a paragraph does, else
        a line, a sentence, a word. The parses live until ``extract`` returns: what it makes of them must not hold
        words, spans or documents of spaCy. Texts are taken a batch at a time, and what a batch brought is freed after
        it, but for the first words met. The parse of a text depends on nothing but the text.
        """
        batch: list[str] = []
        size = 0
        for text in texts:
            batch.append(text)
            size += len(text)
            if size >= BATCH:
                yield from self._read_batch(batch, extract)
                batch, size = [], 0
        yield from self._read_batch(batch, extract)

    def _read_batch(self, texts: Sequence[str], extract: Callable[[str, Sequence[Parse]], Result]) -> list[Result]:
        if not texts:
            return []
        with self._lock:
            nlp, pipe_options = self._get_pipeline()
            # New words are forgotten at the end of the zone; otherwise the vocabulary would grow forever.
            with nlp.memory_zone() if len(nlp.vocab) >= KEPT_WORDS else nullcontext():
                docs = nlp.pipe(
                    (text[start:end] for text in texts for start, end in split_pieces(text)), **pipe_options
                )
                return [extract(text, [Parse(start, next(docs)) for start, _ in split_pieces(text)]) for text in texts]

    def _get_pipeline(self) -> _LoadedPipeline:
        if self._loaded is None:
            self._loaded = _load(self.name)
        return self._loaded


@lru_cache(maxsize=4)
def open_language(name: str = ENGLISH) -> LanguagePipeline | None:
    """The pipeline called ``name``, one a process; None for ``rules``, which asks for none. Nothing is loaded until it
    reads."""
    if not name.strip():
        raise LanguageError(f"a language is {ENGLISH!r}, {RULES!r} or the name of a spaCy pipeline, not {name!r}")
    return None if name == RULES else LanguagePipeline(name)


@lru_cache(maxsize=4)
def get_language_version(name: str) -> str:
    """Return the version of a pipeline: of ``en`` by its files, of one of spaCy by its package version.

    Empty for ``rules``, and if the pipeline is not installed.
    """
    if name == RULES:
        return ""
    if name == ENGLISH:
        digest = hashlib.sha256()
        for path in sorted(path for path in _ENGLISH_FOLDER.rglob("*") if path.is_file() and path.suffix != ".md"):
            digest.update(path.relative_to(_ENGLISH_FOLDER).as_posix().encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:12]
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
    """Spans of characters of at most ``limit`` that together cover ``text``, ended at the best border there is."""
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


def _load(name: str) -> _LoadedPipeline:
    if importlib.util.find_spec("spacy") is None:
        raise LanguageError(
            f"language {name!r} needs the package spacy; run pip install spacy, or make the store with "
            f"language = {RULES!r}"
        )
    import spacy

    from .noun_chunks import iter_noun_chunks

    try:
        nlp = spacy.load(_ENGLISH_FOLDER if name == ENGLISH else name)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).partition(". ")[0]
        raise LanguageError(
            f"language {name!r}: spaCy cannot load such a pipeline ({reason}); install it (python -m spacy download "
            f"{name}), or use {ENGLISH!r}, the pipeline that kvstore ships, or {RULES!r}"
        ) from error
    if not {"parser", "experimental_biaffine_parser"} & set(nlp.pipe_names):
        raise LanguageError(
            f"language {name!r}: this pipeline has no parser, which names and relations are read from; use another, "
            f"{ENGLISH!r} or {RULES!r}"
        )
    pipe_options: dict[str, Any] = {"batch_size": 1}
    if name == ENGLISH:
        from .greedy_parser import BATCH_DOCUMENTS, use_greedy_parser
        from .row_ops import use_row_ops

        use_row_ops(nlp)
        use_greedy_parser(nlp)
        pipe_options = {"component_cfg": {"parser": {"batch_size": BATCH_DOCUMENTS}}}
    if name == ENGLISH or nlp.vocab.get_noun_chunks is None:
        # spaCy's stub promises spans; its code reads bounds and labels.
        nlp.vocab.get_noun_chunks = iter_noun_chunks  # type: ignore[assignment]
    return nlp, pipe_options
