"""The language of an ingest's documents: the settings it implies for a new store, and mismatches with an existing one.
Only the first documents count, and only if their language is recognized.

In: the texts of the first documents. Out: settings for a new store, and remarks for the report of the ingest. Only
documents with a recognizable language count (see :func:`kvstore.text.languages.detect_language`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ..extraction.validation import ValidDocument
from ..models.embedder import is_english_only
from ..models.language import ENGLISH, RULES, is_english_installed
from ..models.multilingual_embedder import is_installed as is_multilingual_embedder_installed
from ..models.protocol import INSTALL_LANGUAGES, MULTILINGUAL_EMBEDDER
from ..settings import FixedSettings
from ..text.languages import SIMILAR_LANGUAGES, choose_stemmer, detect_language, get_main_language
from ..text.words import MULTILINGUAL

#: The number of documents whose language is detected, and the number of bytes examined in each.
FIRST_DOCUMENTS = 24
_FIRST_BYTES = 8000


class DocumentLanguages:
    """A counter of the languages of the first documents."""

    def __init__(self) -> None:
        """Create a counter that has counted no documents yet."""
        self._num_documents = 0
        self._counts: Counter[str] = Counter()  # of documents with a recognizable language

    @property
    def is_full(self) -> bool:
        """True if ``FIRST_DOCUMENTS`` documents are counted; further documents are not counted."""
        return self._num_documents >= FIRST_DOCUMENTS

    def add(self, document: ValidDocument) -> None:
        """Count the language of a document, unless enough are counted or it is a list of pairs (a tree), not prose."""
        if not self.is_full and document.format != "pairs":
            self._num_documents += 1
            language = detect_language(document.text[:_FIRST_BYTES].decode(errors="ignore"))
            if language is not None:
                self._counts[language] += 1

    @property
    def main_language(self) -> str | None:
        """The language of the majority of documents with a recognizable language, or None without a majority."""
        for language, count in self._counts.most_common(1):
            if 2 * count > self._counts.total():
                return language
        return None

    def choose_settings(self) -> dict[str, str]:
        """Return the settings that fit most documents, by name; without recognizable languages, there are none.

        ``stemmer`` is ``multilingual`` if no language has a majority, or if a second language has at least two
        documents and a tenth of all; otherwise it is the language of the majority, or ``none`` if this language has no
        stemmer. ``language`` (the parser of texts) is set if there is a majority. ``embedder`` is set to the
        multilingual one if that is installed and most documents are not in English.
        """
        settings = {}
        language = self.main_language
        top_languages = self._counts.most_common(2)
        second_count = top_languages[1][1] if len(top_languages) == 2 else 0  # the documents in the second language
        if second_count and SIMILAR_LANGUAGES.get(top_languages[1][0], "") == language:
            second_count = 0  # short texts in the first language
        if language is not None:
            settings["stemmer"] = choose_stemmer(language)
            settings["language"] = ENGLISH if language == "english" and is_english_installed() else RULES
        is_mixed = second_count >= max(2, self._counts.total() / 10)
        if is_mixed or (language is None and second_count):
            settings["stemmer"] = MULTILINGUAL
        if self._is_mostly_non_english and is_multilingual_embedder_installed():
            settings["embedder"] = MULTILINGUAL_EMBEDDER
        return settings

    @property
    def _is_mostly_non_english(self) -> bool:
        """True if most documents with a recognizable language are not in English."""
        return 2 * self._counts["english"] < self._counts.total()

    def iter_remarks(self, settings: FixedSettings, chosen_settings: Mapping[str, str]) -> Iterator[str]:
        """Yield remarks on the settings chosen for a new store, and on settings that do not fit most documents.

        ``chosen_settings`` is empty if the store is not new.
        """
        language = self.main_language
        name = "several languages" if language is None else language.capitalize()
        count, total = self._counts[language or ""], self._counts.total()
        if language is None:
            observation = "the first documents are in several languages"
        elif total > 1:
            observation = f"{count:,} of the first {total:,} documents are in {name}"
        else:
            observation = f"the text is in {name}"
        if chosen_settings:
            assignments = [f"{setting} = {value}" for setting, value in chosen_settings.items()]
            options = [f"--{setting}" for setting in chosen_settings]
            yield (
                f"{observation}, so the store was created with {_join_with_and(assignments)}; to choose others, create "
                f"the store with {_join_with_and(options)}"
            )
        stemmed = get_main_language(settings.stemmer, languages={})  # None for `multilingual`
        stemmer = choose_stemmer(language or "none")
        if stemmed not in (language, None) and stemmer not in ("none", settings.stemmer):
            yield (
                f"{observation}, but this store stems {stemmed.capitalize()} words, so other forms of a {name} word "
                f"are not found; create a new store with stemmer = {stemmer} and ingest the documents again"
            )
        if self._is_mostly_non_english and is_english_only(settings.embedder):
            installation = "" if is_multilingual_embedder_installed() else f"run {INSTALL_LANGUAGES}, and "
            yield (
                f"the embedder {settings.embedder} supports only English, so kvstore finds texts in {name} by words, "
                f"but rarely by meaning; {installation}create a new store with embedder = {MULTILINGUAL_EMBEDDER}"
            )


def _join_with_and(parts: Sequence[str]) -> str:
    """Return an enumeration as text, with commas and ``and`` between its parts.

    >>> _join_with_and(["a"]), _join_with_and(["a", "b"]), _join_with_and(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
