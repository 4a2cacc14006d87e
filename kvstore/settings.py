"""Settings: those *fixed* when a store is created, and those of a *session*, which SET changes.
A *tokenizer* is a set of rules for words, names and chunk boundaries. A store keeps the rules it was created with.

In: keyword values from :func:`kvstore.open` or ``SET name = value``. On disk: the fixed ones, in the ``meta`` table
under ``settings``. Out: :class:`FixedSettings` and :class:`SessionSettings`. A value of the wrong kind or out of
range is an :class:`~kvstore.errors.InputError` with the range; a fixed one that differs from the store's is a
:class:`~kvstore.errors.SettingsMismatchError`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from .errors import InputError, SettingsMismatchError, suggest
from .process.frozen_dataclass import frozen_dataclass

#: Changes whenever words, names or chunk boundaries are determined differently, so that a store never mixes two rules.
TOKENIZER = "words-5"
#: The rules of earlier stores, which are still applied to them: the rules for English split the sentences of all texts,
#: and texts in other languages have no names in prose.
ENGLISH_TOKENIZER = "words-4"
#: Previous rules: ``words-3`` left letters of Arabic and Hebrew unchanged, and found no names in Chinese title marks.
#: ``words-2`` also made single characters the terms of writing without spaces. For other writing they equal
#: ``ENGLISH_TOKENIZER``.
EARLIER_TOKENIZERS = ("words-2", "words-3")

#: Settings that a new store takes from the language of its first documents unless the user sets them.
LANGUAGE_SETTINGS = ("stemmer", "language", "embedder")

#: The environment variable with the name of the language model.
MODEL_VARIABLE = "KVSTORE_LLM_MODEL"
#: The name for no model, in the environment or the session.
NO_MODEL = "none"

#: The default time in seconds for which a worker of an ingest can be silent while it reads a file.
TIME_LIMIT = 120.0
#: The default timeout in seconds and the default number of rows of a bounded query.
QUERY_TIMEOUT, QUERY_ROWS = 30.0, 10_000


@frozen_dataclass
class FixedSettings:
    """Settings that are fixed when a store is created.

    - ``embedder`` and ``dimension`` identify the vectors, and so does ``weights``, a digest of the weights of the
      embedder that kvstore includes (empty for any other).
    - ``chunk_tokens`` is the target size of a chunk (words and punctuation marks, 16 to 2,000).
    - ``name_words`` is the longest name, in words, that is recognized in a text (1 to 32).
    - ``stemmer`` is a Snowball language, ``indic``, ``korean``, ``ukrainian``, ``none``, ``multilingual`` (the stemmer
      of each document's language), or a segmenter: ``jieba`` (Chinese) or ``fugashi`` (Japanese).
    - ``language`` selects how names are found: only by ``rules`` (without relations in prose), or also by the ``en``
      parser (from the ``english`` extra) or a spaCy pipeline, given by its name.
    - ``chunk_context`` 1 adds a sentence about the document to the headings and text that a chunk's vector is made
      from.
    - ``hash_seed`` seeds the entity filter's hash.
    """

    embedder: str = "all-MiniLM-L6-v2"
    dimension: int = 384
    weights: str = ""
    chunk_tokens: int = 100
    name_words: int = 12
    stemmer: str = "english"
    language: str = "en"
    chunk_context: int = 0
    tokenizer: str = TOKENIZER
    hash_seed: int = 0x6B76_7374

    def __post_init__(self) -> None:
        """Raise InputError for an invalid value, and SettingsMismatchError for a tokenizer of another version."""
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InputError(f"{field.name} must be of type {kind.__name__}, not {value!r}")
        if self.tokenizer not in (TOKENIZER, ENGLISH_TOKENIZER):
            raise SettingsMismatchError(
                f"this version of kvstore splits texts by the rules {TOKENIZER!r}, not {self.tokenizer!r}; "
                "create a new store and ingest the documents again"
            )
        _check_range("chunk_tokens", self.chunk_tokens, 16, 2000)
        _check_range("name_words", self.name_words, 1, 32)
        _check_range("dimension", self.dimension, 1, 65536)
        _check_range("chunk_context", self.chunk_context, 0, 1)
        _check_range("hash_seed", self.hash_seed, 0, 2**64 - 1)

    def get_sentence_language(self, language: str | None) -> str | None:
        """Return the language whose rules split the sentences of a document, or None for the rules for English.

        ``language`` is the document's language. If it is None (unknown), as for a table, the result is the stemmer's
        language, or ``unknown`` if that is English. The rules for a name that is not a language with a word file, such
        as ``unknown`` or ``none``, cover the punctuation of all languages. A store with the ``tokenizer`` of an earlier
        kvstore always uses the English rules.
        """
        if self.tokenizer == ENGLISH_TOKENIZER:
            return None
        return language or ("unknown" if self.stemmer == "english" else self.stemmer)

    def replace(self, values: Mapping[str, Any]) -> FixedSettings:
        """Return a copy with these values of some settings.

        Raises InputError for an invalid value, and SettingsMismatchError for a tokenizer of another version.
        """
        return replace(self, **values)

    def require_equal_settings(self, requested: Mapping[str, Any], path: object) -> None:
        """Raise SettingsMismatchError if a requested setting differs from this store's; ``path`` is for the message."""
        stored_settings = asdict(self)
        for name, value in requested.items():
            if stored_settings[name] != value:
                raise SettingsMismatchError(
                    f"{path} was created with {name} = {stored_settings[name]!r}, not {value!r}; "
                    f"open it without that setting, or create a new store and ingest the documents again"
                )


#: The names of the fixed settings, in the order of their fields.
FIXED_SETTING_NAMES = tuple(field.name for field in fields(FixedSettings))


@frozen_dataclass
class SessionSettings:
    """Settings that a session changes with ``SET``. They are not stored.

    - ``reranker`` is ``none``, ``combination`` or a cross-encoder.
    - ``model`` names the language model of ASK and ``base_url`` its server. If empty, they are taken from the
      environment; ``none`` means no model.
    - An answer whose confidence is below ``least_confidence`` (0 to 1) says that the store does not answer.
    - ``answer_reader`` lets the answer reader choose the sentence of an extractive answer; without it, rules do.
    - ``prompt_tokens`` is the estimated maximum of tokens sent to the model; ``answer_cache`` caches its answers.
    - Timeouts are in seconds. ``answer_timeout`` covers the whole answer; ``attempts`` is the number of tries until the
      first token arrives.
    """

    strategy: str = "adaptive"
    top: int = 8
    depth: int = 1
    reranker: str = "none"
    model: str = ""
    base_url: str = ""
    least_confidence: float = 0.25
    answer_reader: bool = True
    prompt_tokens: int = 3000
    answer_cache: bool = True
    connect_timeout: float = 5.0
    first_token_timeout: float = 120.0
    token_timeout: float = 30.0
    answer_timeout: float = 600.0
    attempts: int = 3

    def find_model_name(self, name: str | None) -> str | None:
        """Return ``name``, or else the model of the session or the environment; None if it is ``none`` or missing."""
        model_name = name or self.model or os.environ.get(MODEL_VARIABLE, "").strip() or NO_MODEL
        return None if model_name.lower() == NO_MODEL else model_name

    def replace_setting(self, name: str, value: Any) -> SessionSettings:
        """Return a copy with one setting changed; None resets it to its default.

        The retired setting ``temperature_sort`` only issues a FutureWarning. Raises InputError for an unknown name or
        an invalid value.
        """
        if name == "temperature_sort":
            warnings.warn(
                "the setting temperature_sort has no effect; remove it, because kvstore 0.5 will reject it",
                FutureWarning,
                stacklevel=2,
            )
            return self
        if name in FIXED_SETTING_NAMES:
            raise InputError(f"{name} is fixed when a store is created; create a new store to change it")
        kinds = {field.name: type(getattr(self, field.name)) for field in fields(self)}
        if name not in kinds:
            suggestion = suggest(name, kinds)
            hint = f"did you mean {suggestion}?" if suggestion else f"the settings are {', '.join(sorted(kinds))}"
            raise InputError(f"there is no session setting {name!r}; {hint}")
        default = getattr(SessionSettings(), name)
        return replace(self, **{name: default if value is None else _convert_value(name, value, kinds[name])})


def check_fixed_names(names: Iterable[object]) -> None:
    """Raise InputError for a name that is not a setting of a new store; the message names the remedy."""
    for name in map(str, names):
        if name in FIXED_SETTING_NAMES:
            continue
        if name in {field.name for field in fields(SessionSettings)}:
            raise InputError(f"{name} is not a setting of a store but of a session; change it with SET {name} = VALUE")
        suggestion = suggest(name, FIXED_SETTING_NAMES)
        hint = f"did you mean {suggestion}?" if suggestion else f"choose one of: {', '.join(FIXED_SETTING_NAMES)}"
        raise InputError(f"a store has no setting {name!r}; {hint}")


#: The range of each numeric setting of a session; both limits are included.
RANGES = {
    "depth": (0, 64),
    "top": (1, 10_000),
    "prompt_tokens": (100, 10_000_000),
    "least_confidence": (0, 1),
    "attempts": (1, 100),
}
#: The range of every timeout.
_TIMEOUT_RANGE = (0.01, 86_400)
_SWITCH_VALUES = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


def _convert_value(name: str, value: Any, kind: type) -> Any:
    """Convert the value of a setting, which can be text, to its type, ``kind``; raise InputError if it is invalid."""
    if kind is bool:
        switch = _SWITCH_VALUES.get(str(value).lower())
        if switch is None:
            raise InputError(f"{name} must be on or off, not {value!r}")
        return switch
    if kind is str:
        return str(value)
    try:
        number = kind(value)
        if isinstance(value, bool) or (isinstance(value, float) and number != value):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        kind_name = "whole number" if kind is int else "number"
        raise InputError(f"{name} must be a {kind_name}, not {value!r}") from None
    _check_range(name, number, *RANGES.get(name, _TIMEOUT_RANGE))
    return number


def _check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise InputError unless a setting is between two limits, both included."""
    if not low <= value <= high:
        raise InputError(f"{name} must be between {low:,} and {high:,}, not {value!r}")
