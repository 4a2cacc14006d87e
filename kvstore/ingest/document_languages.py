"""The language of an ingest's documents: the settings it implies for a new store, and mismatches with an existing one.

In: the texts of the first documents. Out: settings for a new store, and remarks for the report of the ingest. Only
documents with a recognizable language count (see :func:`kvstore.text.languages.detect_language`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from ..extraction.validation import ValidDocument
from ..models.embedder import is_english_only
from ..models.language import ENGLISH, RULES, has_english
from ..settings import FixedSettings
from ..text.languages import detect_language

#: The number of documents whose language is detected, and the number of bytes examined in each.
FIRST_DOCUMENTS = 24
_FIRST_BYTES = 8000
#: Stemmers that are not named after their language.
_STEMMED_LANGUAGES = {"porter": "english", "dutch_porter": "dutch"}


class DocumentLanguages:
    """A counter of the languages of the first documents."""

    def __init__(self) -> None:
        self._num_documents = 0
        self._counts: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """True if no further documents count."""
        return self._num_documents >= FIRST_DOCUMENTS

    def add(self, document: ValidDocument) -> None:
        """Count a document of prose, unless enough documents are counted."""
        if not self.is_full and document.format != "pairs":
            self._num_documents += 1
            language = detect_language(document.text[:_FIRST_BYTES].decode(errors="ignore"))
            if language is not None:
                self._counts[language] += 1

    @property
    def main_language(self) -> str | None:
        """The language of the majority of documents with a recognizable language, or None."""
        for language, count in self._counts.most_common(1):
            if 2 * count > self._counts.total():
                return language
        return None

    def choose_settings(self) -> dict[str, str]:
        """Return the settings that fit most documents, or an empty dictionary if no language has a majority."""
        language = self.main_language
        if language is None:
            return {}
        stemmer = language if language in _list_stemmers() else "none"
        return {"stemmer": stemmer, "language": ENGLISH if language == "english" and has_english() else RULES}

    def iter_remarks(self, settings: FixedSettings, chosen: Mapping[str, str]) -> Iterator[str]:
        """Yield remarks on the settings ``chosen`` for a new store, and on settings that do not fit most documents."""
        language = self.main_language
        if language is None:
            return
        count, num_documents = self._counts[language], self._counts.total()
        name = language.capitalize()
        finding = (
            f"{count:,} of the first {num_documents:,} documents are in {name}"
            if num_documents > 1
            else f"the text is in {name}"
        )
        if chosen:
            assignments = " and ".join(f"{setting} = {value}" for setting, value in chosen.items())
            options = " and ".join(f"--{setting}" for setting in chosen)
            yield f"{finding}, so the store was created with {assignments}; to choose others, create it with {options}"
        stemmed = _STEMMED_LANGUAGES.get(settings.stemmer, settings.stemmer)
        if stemmed not in (language, "none") and language in _list_stemmers():
            yield (
                f"{finding}, but this store stems {stemmed.capitalize()} words, so other forms of a {name} word are "
                f"not found; create a new store with stemmer = {language} and ingest the documents again"
            )
        if language != "english" and is_english_only(settings.embedder):
            yield (
                f"the embedder {settings.embedder} knows English only, so {name} texts are found by their words, but "
                "rarely by their meaning; create a new store with a multilingual embedder, such as "
                "sentence-transformers:paraphrase-multilingual-MiniLM-L12-v2"
            )


@cache
def _list_stemmers() -> frozenset[str]:
    """Return the names of the available stemmers, most of which are names of languages."""
    import snowballstemmer

    return frozenset(snowballstemmer.algorithms())
