"""Segmenters: words of Chinese and Japanese by a dictionary, instead of bigrams of characters. A *run* is consecutive
characters of a script without spaces between words.

In: the value of the ``stemmer`` setting: ``jieba`` (Chinese; extra ``chinese``) or ``fugashi`` (Japanese, with the
dictionary of ``unidic-lite``; extra ``japanese``), and runs of writing without spaces in normal form. Out: their words,
in order. Another version of a package can split texts in another way, so the store records it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock

from ..extensions.extras import find_first_missing, import_extra

#: The packages of each segmenter.
_PACKAGES = {"jieba": ("jieba",), "fugashi": ("fugashi", "unidic-lite")}
_EXTRAS = {"jieba": "chinese", "fugashi": "japanese"}
SEGMENTERS = tuple(_PACKAGES)
_MODULES = {"unidic-lite": "unidic_lite"}
#: The number of runs whose words are cached: sentences are read by several parts of one answer.
_MAX_CACHED_RUNS = 1 << 12


class Segmenter:
    """A stemmer that leaves words unchanged. ``split_run`` splits a run of characters into words.

    ``run_pattern`` matches the runs. If it is None, they are the runs of characters without spaces.
    """

    def __init__(self, split_run: Callable[[str], tuple[str, ...]], run_pattern: re.Pattern[str] | None = None) -> None:
        """Store the function that splits a run of characters into words, and the pattern of runs."""
        self.split_run, self.run_pattern = split_run, run_pattern

    def __call__(self, word: str) -> str:
        """Return the word unchanged: a segmenter is called like a stemmer, but does not stem."""
        return word


@cache
def open_segmenter(name: str) -> Segmenter:
    """Load a segmenter by its name, ``jieba`` or ``fugashi``. The result is cached.

    Raises MissingExtraError if a package is not installed.
    """
    purpose = f"the stemmer {name}"
    module = import_extra(name, _EXTRAS[name], purpose)
    if name == "jieba":
        tokenizer = module.Tokenizer()
        module.setLogLevel("WARNING")  # it reports the loading of its dictionary
        split = tokenizer.lcut
    else:
        dictionary = import_extra("unidic_lite", _EXTRAS[name], purpose, package="unidic-lite").DICDIR
        tagger = module.GenericTagger(f'-d "{dictionary}" -r "{dictionary}/dicrc"')

        def split(run: str) -> list[str]:
            """Return the words of a run of characters."""
            return [node.surface for node in tagger(run)]

    lock = Lock()

    @lru_cache(maxsize=_MAX_CACHED_RUNS)
    def split_run(run: str) -> tuple[str, ...]:
        """Return the words of a run of characters without spaces. Thread-safe and cached."""
        with lock:
            return tuple(split(run))

    return Segmenter(split_run)


def get_segmenter_version(stemmer: str) -> str:
    """Return the names and versions of the Python packages of a word segmenter as text, separated by commas.

    ``stemmer`` is the value of the ``stemmer`` setting. The text is empty if it is not a segmenter, or if a package is
    not installed.
    """
    packages = _PACKAGES.get(stemmer, ())
    modules = [_MODULES.get(package, package) for package in packages]
    if not packages or find_first_missing(modules) is not None:
        return ""
    from importlib.metadata import version  # slow to import

    return ", ".join(f"{package} {version(package)}" for package in packages)
