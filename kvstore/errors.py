"""Every error kvstore raises: one class a cause, each message naming the remedy.

All derive from :class:`KvstoreError`, so an application can catch that one class. A message says what was met (the
file, the key, the limit) and what to do about it; it never needs a traceback to be understood.
"""

from __future__ import annotations


class KvstoreError(Exception):
    """The base of every error that kvstore raises on purpose."""


class StoreNotFoundError(KvstoreError):
    """There is no store at the path and none may be made (``create=False`` or read-only)."""


class NotAStoreError(KvstoreError):
    """The path exists but does not hold a kvstore store."""


class StoreFormatError(KvstoreError):
    """The store's format version is newer or older than this version of kvstore reads."""


class SettingsMismatchError(KvstoreError):
    """A setting fixed at creation (embedder, dimension, chunking) differs from what was asked for."""


class CorruptionError(KvstoreError):
    """A stored value fails its checksum or an invariant; names the table and the key."""


class ReadOnlyError(KvstoreError):
    """A change was asked of a store, snapshot or transaction that only reads."""


class LockTimeoutError(KvstoreError):
    """Another process or thread held the writer's lock for the whole timeout; names the holder."""


class StoreFullError(KvstoreError):
    """The map or the disk cannot grow; the transaction was rolled back and nothing was lost."""


class ClosedError(KvstoreError):
    """The store, snapshot or transaction is closed, or belongs to the parent process of a fork."""


class TransactionError(KvstoreError):
    """BEGIN, COMMIT or ROLLBACK out of place, or a transaction used from another thread."""


class DocumentNotFoundError(KvstoreError):
    """No document has this key; carries the nearest keys, where there are any."""


class EntityNotFoundError(KvstoreError):
    """No entity has this name; carries the nearest names, where there are any."""


class InputError(KvstoreError):
    """An argument or an option is out of range or of the wrong kind."""


class DocumentExistsError(InputError):
    """A document of this key is to be inserted, and there is one already."""


class ArgumentError(InputError, TypeError):
    """An argument of a method is of the wrong kind; names the method, the argument and its value."""


class MissingExtraError(KvstoreError):
    """What was asked for needs a package that an extra of kvstore brings; names both."""


class ReaderError(KvstoreError):
    """A file cannot be read as the format asked for; names the file, the place and the reason."""


class EngineError(KvstoreError):
    """The engine of an ingest cannot be had, or was lost; what was committed is kept, and the next ingest goes on."""


class EmbedderError(KvstoreError):
    """An embedder cannot be loaded or failed; names the package or setting that is missing."""


class PluginError(KvstoreError):
    """What an installed package adds to kvstore cannot be loaded, or failed; names the package and what it adds."""


class OutOfMemoryError(EmbedderError, MemoryError):
    """A model needs more memory than its process may take; names the limit, where there is one, and the remedy."""


class LanguageError(KvstoreError):
    """A language pipeline cannot be loaded; names the package or pipeline that is missing."""


class ModelError(KvstoreError):
    """A language model cannot be asked: its address, key or name is wrong, or its answers are not of the protocol."""


class ModelUnavailableError(ModelError):
    """A language model's endpoint is down, busy or too slow, or its answer broke off."""


class InvalidAnswerError(ModelError):
    """A language model was asked twice, and its answers were not of the form asked for; says what was wrong."""


class TokenLimitError(ModelError):
    """A request to a language model would go beyond the number of tokens that may be sent."""


class RerankerError(KvstoreError):
    """A reranker is not known, cannot be loaded or failed; names the package or path that is missing."""


class UnknownStrategyError(InputError):
    """A query names a strategy that does not exist; the message suggests the nearest."""


class IndexUnavailableError(KvstoreError):
    """An index cannot be made, read or written; searches are exact without it."""


class QueryInterruptedError(KvstoreError):
    """A query was stopped, by interrupt() or because its time was over."""


class StatementError(KvstoreError):
    """A statement cannot be parsed or run; carries the line and column (1-based) and what was expected there."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
