"""The exceptions that kvstore raises: one class per cause, each message with a remedy.

All derive from :class:`KvstoreError`, so an application can catch that one class. A message says what went wrong (with
the file, the key or the limit) and what to do about it. It can be understood without a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable


class KvstoreError(Exception):
    """The base of every error that kvstore raises on purpose."""


class StoreNotFoundError(KvstoreError):
    """No store exists at the path and none can be created, or the store was deleted while it was being opened.

    None can be created with ``create=False`` or read-only.
    """


class NotAStoreError(KvstoreError):
    """The path exists but does not contain a kvstore store."""


class StoreFormatError(KvstoreError):
    """The store's format version is newer or older than this version of kvstore reads."""


class SettingsMismatchError(KvstoreError):
    """A setting fixed at creation (embedder, dimension, chunking) differs from the requested value."""


class CorruptionError(KvstoreError):
    """A stored value fails its checksum or an invariant. The message names the table and the key."""


class ReadOnlyError(KvstoreError):
    """A change was requested of a read-only store, snapshot or transaction."""


class LockTimeoutError(KvstoreError):
    """Another process or thread held the writer lock for the whole timeout. The message names the holder."""


class StoreFullError(KvstoreError):
    """The map or the disk cannot grow. The transaction was rolled back and nothing was lost."""


class ClosedError(KvstoreError):
    """The store, snapshot or transaction is closed, or belongs to the parent process of a fork."""


class TransactionError(KvstoreError):
    """BEGIN, COMMIT or ROLLBACK out of place, or a transaction used from another thread."""


class DocumentNotFoundError(KvstoreError):
    """No document has this key. The message suggests the nearest keys, if any."""


class EntityNotFoundError(KvstoreError):
    """No entity has this name. The message suggests the nearest names, if any."""


class InputError(KvstoreError):
    """An argument or an option is out of range or of the wrong kind."""


class DocumentExistsError(InputError):
    """A document with this key already exists, so it cannot be inserted."""


class ArgumentError(InputError, TypeError):
    """An argument of a method has the wrong kind. The message names the method, the argument and its value."""


class MissingExtraError(KvstoreError):
    """A feature needs a package that one of kvstore's extras installs. The message names both."""


class ReaderError(KvstoreError):
    """A file cannot be read in its format. The message names the file, the place and the reason."""


class EngineError(KvstoreError):
    """The engine of an ingest is unavailable or was lost. Committed work is kept, and the next ingest continues."""


class EmbedderError(KvstoreError):
    """An embedder cannot be loaded or failed. The message names the missing package or setting."""


class PluginError(KvstoreError):
    """A plugin of an installed package cannot be loaded or failed. The message names the package and the plugin."""


class OutOfMemoryError(EmbedderError, MemoryError):
    """A model needs more memory than its process can use. The message names the limit, if any, and the remedy."""


class LanguageError(KvstoreError):
    """A language pipeline cannot be loaded. The message names the missing package or pipeline."""


class ModelError(KvstoreError):
    """A language model cannot be used: its address, key or name is wrong, or its answers violate the protocol."""


class ModelUnavailableError(ModelError):
    """A language model's endpoint is down, busy or too slow, or its answer broke off."""


class PromptTooLongError(ModelError):
    """A prompt is longer than the context of a language model.

    ``limit`` is the size of the context in tokens, and ``tokens`` the size of the prompt; None if the server does not
    report it.
    """

    def __init__(self, message: str, limit: int | None = None, tokens: int | None = None) -> None:
        """Create the error; ``limit`` and ``tokens`` are the sizes of context and prompt in tokens (None: unknown)."""
        super().__init__(message)
        self.limit = limit
        self.tokens = tokens


class InvalidAnswerError(ModelError):
    """A language model gave answers in the wrong form twice. The message says what was wrong."""


class TokenLimitError(ModelError):
    """A request to a language model would exceed the limit of tokens."""


class RerankerError(KvstoreError):
    """A reranker is unknown, cannot be loaded or failed. The message names the missing package or path."""


class UnknownStrategyError(InputError):
    """A query names a strategy that does not exist. The message suggests the nearest one."""


class IndexUnavailableError(KvstoreError):
    """An index cannot be built, read or written. Searches are exact without it."""


class QueryInterruptedError(KvstoreError):
    """A query was stopped by interrupt() or because it timed out."""


class ResultTooLargeError(KvstoreError):
    """The rows of a query have more text than the limit allows. The message says how to reduce it."""


class StatementError(KvstoreError):
    """A statement cannot be parsed or run. Carries the line and column (1-based) and what was expected there."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        """Create the error at a line and column of the statement, both from 1 (None: the message needs no position)."""
        super().__init__(message)
        self.line = line
        self.column = column


def shorten(text: str, length: int = 40) -> str:
    """Return a text as an error message shows it: cut, with an ellipsis, if it has more than ``length`` characters."""
    return text if len(text) <= length else text[:length] + "…"


def suggest(word: str, known: Iterable[str], min_similarity: float = 0.6) -> str | None:
    """Return the word of ``known`` nearest to ``word``, ignoring case, for the remedy of an error message.

    Returns None if no word is at least ``min_similarity`` (0 to 1, as measured by difflib) similar.

    >>> suggest("documnets", ["chunks", "documents"]), suggest("x", ["documents"])
    ('documents', None)
    """
    from difflib import get_close_matches

    candidates = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(word.lower(), candidates, n=1, cutoff=min_similarity)
    return candidates[matches[0]] if matches else None
